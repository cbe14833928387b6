/* SPDX-License-Identifier: MIT */
/* Every call to the provider goes through here: see memory.c. */
#ifndef CORE_MEMORY_H
#define CORE_MEMORY_H

#include "heap.h"

#pragma GCC visibility push(hidden)

/*
 * Commits [base, base + size) as a whole.  Drops the context.
 * Returns the provider's result bits; NO_MEMORY also iff the call is NOWAIT.
 */
unsigned fl_memory_commit(struct op *op, uintptr_t base, size_t size);

/*
 * Makes every granule of [base, base + size) populated; the caller holds its
 * slices.  Drops the context unless all are populated already.  What came
 * before a failure stays populated.
 * `fill`: clear every byte that is not known to be zero.
 * Returns: commit bits, ZEROED iff every byte reads as zero.
 */
unsigned fl_memory_populate(
	struct op *op, uintptr_t base, size_t size, bool fill);

/* Clears memory that the caller holds, with the context dropped. */
void fl_memory_clear(struct op *op, uintptr_t base, size_t size);

/* Whether every granule of the range is populated. */
bool fl_memory_populated(
	const struct heap *heap, uintptr_t base, size_t size);

/* Takes the ranges' memory away in one call; results are in them.  Drops the
 * context, which may wait. */
void fl_memory_decommit(struct op *op, struct fallow_range *ranges, size_t n);

/* Tells a flat provider that the contents are not needed. */
void fl_memory_discard(struct op *op, struct fallow_range *ranges, size_t n);

/* Class direct.  Drop the context. */
uintptr_t fl_memory_reserve(struct op *op, size_t size, size_t align);
void fl_memory_release(struct op *op, uintptr_t base, size_t size);

/* Notes the granules of a range in its chunk as populated or not. */
void fl_memory_mark(
	struct heap *heap, uintptr_t base, size_t size, bool populated);

/* Counts bytes as committed: of blocks, pages and free slices. */
void fl_memory_count(struct heap *heap, size_t bytes);

/* Counts bytes as live, or (a negative number) as live no more. */
void fl_memory_live(struct heap *heap, size_t bytes);

/* Marks the begin and the end of a stretch outside the heap: a provider call
 * or a hook.  Between them a call by the same context is a re-entry, unless it
 * can be an interrupt handler's. */
struct local *fl_memory_calling(struct op *op);
void fl_memory_called(struct local *local);

#pragma GCC visibility pop

static inline bool heap_is(const struct heap *heap, int provider_class)
{
	return (int)heap->provider.provider_class == provider_class;
}

/* The chunk of an address in an opened part of the window. */
static inline struct chunk *chunk_of(const struct heap *heap, uintptr_t addr)
{
	return heap->chunks[(addr - heap->base) >> CHUNK_LOG2];
}

/* The slice of an address in its chunk. */
static inline unsigned slice_of(uintptr_t addr)
{
	return (unsigned)(addr >> FALLOW_SLICE_LOG2) & (CHUNK_SLICES - 1);
}

#endif
