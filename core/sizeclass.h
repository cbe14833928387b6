/* SPDX-License-Identifier: MIT */
/*
 * Size classes: which block sizes exist, and how a size finds its own.
 *
 * Pure arithmetic, no state.  Three kinds of page hold the classes:
 *
 *   small   1 slice    blocks of 16 bytes to a slice / 8
 *   medium  8 slices   to a slice
 *   whole   32 slices  to a chunk / 4
 *
 * Up to 128 bytes a class each 16 bytes (waste under 16 bytes), then eight per
 * doubling (waste at most 12.5 %) up to a slice.  Above it, a chunk is cut
 * into n blocks, n from the list in sizeclass.c, each rounded down to granules.
 *
 * The hot path wants the class of a size up to SIZE_DIRECT_MAX in one load:
 * size_direct[] has it for every 16 bytes.
 */
#ifndef CORE_SIZECLASS_H
#define CORE_SIZECLASS_H

#include "config.h"

enum page_kind {
	PAGE_SMALL = 0,
	PAGE_MEDIUM = 1,
	PAGE_WHOLE = 2,
	PAGE_SPAN = 3, /* a block of its own, without a class */
};

#define SIZE_SMALL_MAX (SLICE_BYTES / 8)
#define SIZE_MEDIUM_MAX SLICE_BYTES
#define SIZE_CLASS_MAX (CHUNK_BYTES / 4)

/* 8 classes to 128 bytes, 8 for each doubling from there to a slice. */
#define CLASS_STEPS (8 + 8 * (FALLOW_SLICE_LOG2 - 7))
#define CLASS_WHOLES 8
#define CLASS_COUNT (CLASS_STEPS + CLASS_WHOLES)
#define CLASS_NONE UINT8_MAX
/* A slice / 8 is 3 doublings below a slice. */
#define CLASS_FIRST_MEDIUM (CLASS_STEPS - 8 * 3)
#define CLASS_FIRST_WHOLE CLASS_STEPS

#define SIZE_DIRECT_MAX 512
_Static_assert(SIZE_DIRECT_MAX <= SIZE_SMALL_MAX, "direct sizes are small");

#define PAGE_MEDIUM_SLICES 8
#define PAGE_WHOLE_SLICES CHUNK_SLICES

/* Of each whole-page class, ascending; those equal to their neighbour (in a
 * build of tiny chunks) are never chosen. */
extern const uint32_t fl_size_whole[CLASS_WHOLES]
	__attribute__((visibility("hidden")));
extern const uint8_t fl_size_direct[SIZE_DIRECT_MAX / 16 + 1]
	__attribute__((visibility("hidden")));

/* The class of a size up to a slice: arithmetic alone. */
static inline unsigned size_step_class(size_t size)
{
	unsigned top;

	if (size <= 128)
		return size == 0 ? 0 : (unsigned)((size - 1) / 16);
	/* size - 1 has its top bit at `top` >= 7; the three bits below it
	 * number the eight steps of the doubling. */
	top = 63 - (unsigned)__builtin_clzll(size - 1);
	return 8 + (top - 7) * 8 + (unsigned)(((size - 1) >> (top - 3)) & 7);
}

/* The class of a size up to SIZE_CLASS_MAX. */
static inline unsigned size_class(size_t size)
{
	unsigned whole = 0;

	if (size <= SIZE_MEDIUM_MAX)
		return size_step_class(size);
	while (fl_size_whole[whole] < size)
		whole++;
	return CLASS_FIRST_WHOLE + whole;
}

/* The block size of a class. */
static inline size_t class_size(unsigned class)
{
	if (class < 8)
		return (class + 1) * 16;
	if (class >= CLASS_FIRST_WHOLE)
		return fl_size_whole[class - CLASS_FIRST_WHOLE];
	class -= 8;
	return (size_t)(9 + class % 8) << (class / 8 + 4);
}

static inline enum page_kind class_kind(unsigned class)
{
	if (class < CLASS_FIRST_MEDIUM)
		return PAGE_SMALL;
	return class < CLASS_FIRST_WHOLE ? PAGE_MEDIUM : PAGE_WHOLE;
}

/*
 * The slices of a page of this class.  Where addresses cost nothing they are
 * those of its kind.  In a `lean` heap, whose addresses are its memory, they
 * are the fewest that hold a few blocks and lose at most an eighth: a page of
 * 2 MiB for one block of 80 KiB would keep the rest from everybody.
 */
unsigned fl_size_page_slices(unsigned class, bool lean)
	__attribute__((visibility("hidden")));

/*
 * The smallest class whose blocks hold `size` bytes at the alignment `align`,
 * a power of two; CLASS_NONE if that takes a span.  `lean` as above.
 */
unsigned fl_size_aligned_class(size_t size, size_t align, bool lean)
	__attribute__((visibility("hidden")));

#endif
