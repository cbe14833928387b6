/* SPDX-License-Identifier: MIT */
/*
 * Build options of the allocator and what follows from them.
 *
 * FALLOW_GRANULE_LOG2  The smallest mapping.  Default 12 (4 KiB); 12, 14 or
 *                      16.  The provider's granule must be the same.
 * FALLOW_SLICE_LOG2    The unit of the slice map.  Default 16 (64 KiB); 12 to
 *                      16, at least the granule.  12 suits machines of 64 KiB
 *                      to a few MiB; a block above a slice is then already a
 *                      span.
 * FALLOW_CHECKS        Misuse checks on the hot paths.  Default 1; 0 saves
 *                      about eight instructions a pair and lets a double free
 *                      corrupt the heap.
 * FALLOW_HOLES         Memory between the blocks of a page goes back, where the
 *                      provider can take it.  Default 1; with 0 a page with a
 *                      block in use keeps all its memory, and the hot paths are
 *                      the same.
 * FALLOW_DEBUG         Assertions on the allocator's own bugs.  Default 0.
 * FALLOW_USAGE         Allocations and frees can be counted by size
 *                      (fallow/usage.h).  Default 0, which costs nothing.
 * FALLOW_BUMP_DEBUG    Arenas keep the size of each block in 16 bytes before it
 *                      and compare, and notice who comes in while another is.
 *                      Default that of FALLOW_DEBUG.
 */
#ifndef CORE_CONFIG_H
#define CORE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "debug.h"

#ifndef FALLOW_GRANULE_LOG2
#define FALLOW_GRANULE_LOG2 12
#endif
#ifndef FALLOW_SLICE_LOG2
#define FALLOW_SLICE_LOG2 16
#endif
#ifndef FALLOW_CHECKS
#define FALLOW_CHECKS 1
#endif
#ifndef FALLOW_USAGE
#define FALLOW_USAGE 0
#endif
#ifndef FALLOW_BUMP_DEBUG
#define FALLOW_BUMP_DEBUG FALLOW_DEBUG
#endif
#ifndef FALLOW_HOLES
#define FALLOW_HOLES 1
#endif

_Static_assert(FALLOW_GRANULE_LOG2 == 12 || FALLOW_GRANULE_LOG2 == 14 ||
		FALLOW_GRANULE_LOG2 == 16,
	"FALLOW_GRANULE_LOG2 is 12, 14 or 16");
_Static_assert(FALLOW_SLICE_LOG2 >= 12 && FALLOW_SLICE_LOG2 <= 16 &&
		FALLOW_SLICE_LOG2 >= FALLOW_GRANULE_LOG2,
	"FALLOW_SLICE_LOG2 is 12 to 16 and at least FALLOW_GRANULE_LOG2");
_Static_assert(FALLOW_HOLES == 0 || FALLOW_HOLES == 1,
	"FALLOW_HOLES is 0 or 1");
_Static_assert(FALLOW_USAGE == 0 || FALLOW_USAGE == 1,
	"FALLOW_USAGE is 0 or 1");
_Static_assert(sizeof(void *) == 8, "fallow is for 64-bit machines");

/* A chunk is 32 slices, so that one 32-bit word has a bit for each. */
#define CHUNK_SLICES_LOG2 5
#define CHUNK_SLICES (1u << CHUNK_SLICES_LOG2)
#define CHUNK_LOG2 (FALLOW_SLICE_LOG2 + CHUNK_SLICES_LOG2)

#define GRANULE_BYTES ((size_t)1 << FALLOW_GRANULE_LOG2)
#define SLICE_BYTES ((size_t)1 << FALLOW_SLICE_LOG2)
#define CHUNK_BYTES ((size_t)1 << CHUNK_LOG2)

/* At most 16 with the ranges above: a slice's granules fit a uint16_t. */
#define SLICE_GRANULES (1u << (FALLOW_SLICE_LOG2 - FALLOW_GRANULE_LOG2))
#define SLICE_GRANULES_ALL ((uint16_t)((1u << SLICE_GRANULES) - 1))
_Static_assert(SLICE_GRANULES <= 16, "a slice's granules fit 16 bits");

#define CACHE_LINE_BYTES 64

#define likely(condition) __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)

/* Our own bugs, never the caller's. */
#define fl_assert(condition) \
	do { \
		if (FALLOW_DEBUG && unlikely(!(condition))) \
			fallow_broken(#condition, (const char *)0); \
	} while (0)

/* `to` is a power of two. */
static inline uintptr_t align_down(uintptr_t value, uintptr_t to)
{
	return value & ~(to - 1);
}

/* `to` is a power of two; the sum must not wrap. */
static inline uintptr_t align_up(uintptr_t value, uintptr_t to)
{
	return (value + to - 1) & ~(to - 1);
}

#endif
