/* SPDX-License-Identifier: MIT */
/* Slices of chunks, taken and given: see chunk.c.  All under heap->lock. */
#ifndef CORE_CHUNK_H
#define CORE_CHUNK_H

#include "memory.h"

#pragma GCC visibility push(hidden)

/* A run of slices that was found or taken; chunk NULL: there is none. */
struct run {
	struct chunk *chunk; /* of the first slice */
	unsigned first;
};

/* Takes n <= CHUNK_SLICES contiguous slices of one chunk, warm ones first, from
 * the fullest of the few that are compared. */
struct run fl_chunk_take(struct heap *heap, unsigned n);

/* The same of warm ones alone. */
struct run fl_chunk_take_warm(struct heap *heap, unsigned n);

/* The same, only where the first `bytes` bytes are populated.  Time:
 * proportional to the chunks ever opened. */
struct run fl_chunk_take_populated(
	struct heap *heap, unsigned n, size_t bytes);

/*
 * Takes n contiguous slices at an address that is a multiple of `align`, across
 * chunks if need be.  Time: proportional to the chunks ever opened.
 */
struct run fl_chunk_take_run(struct heap *heap, size_t n, size_t align);

/*
 * Takes n contiguous slices, across chunks if need be: of the first few runs
 * that are long enough where the most slices are warm; none if none is.  Time:
 * as above.
 */
struct run fl_chunk_take_warmest(struct heap *heap, size_t n);

/* Takes the n slices from `addr` if all of them are free; returns whether. */
bool fl_chunk_take_at(struct heap *heap, uintptr_t addr, size_t n);

/* Gives n slices from `addr` back, last used in `epoch`: they are free, and warm
 * where they hold memory. */
void fl_chunk_give(
	struct heap *heap, uintptr_t addr, size_t n, uint32_t epoch);

/* Adds slices that the chunk did not have; they are free afterwards. */
void fl_chunk_add(struct heap *heap, struct chunk *chunk, uint32_t slices,
	bool populated, bool fixed);

/* The free slices whose memory can be given back. */
uint32_t fl_chunk_claimable(
	const struct heap *heap, const struct chunk *chunk);

/* Takes free slices of a chunk, to be given back by fl_chunk_unclaim(). */
void fl_chunk_claim(struct heap *heap, struct chunk *chunk, uint32_t slices);

/* Makes all slices free, whatever held them: the heap's end. */
void fl_chunk_reset(struct heap *heap, struct chunk *chunk);

/* Returns claimed slices; those in `gone` are no longer present.  `warm`: what
 * holds memory may be claimed again. */
void fl_chunk_unclaim(struct heap *heap, struct chunk *chunk,
	uint32_t slices, uint32_t gone, bool warm);

/* The longest run of ones in a word: 0 to 32. */
unsigned fl_chunk_longest(uint32_t word);

#pragma GCC visibility pop

/* A word with the bits [first, first + n) set; first + n <= 32. */
static inline uint32_t slice_mask(unsigned first, unsigned n)
{
	return (uint32_t)((((uint64_t)1 << n) - 1) << first);
}

#endif
