/* SPDX-License-Identifier: MIT */
/* What stays of the memory that could go: see floor.c. */
#ifndef CORE_FLOOR_H
#define CORE_FLOOR_H

#include "sweep.h"

#pragma GCC visibility push(hidden)

/* Begins what current pages keep in an epoch.  Under heap->lock. */
void fl_floor_begin(struct heap *heap);

/* Decides what the floor keeps from now on.  Drops the context. */
void fl_floor_decide(struct op *op);

/* Begins what current pages keep of a reclaim. */
void fl_floor_reclaim(struct sweep *sweep);

/* Whether the floor keeps a piece at an address: so many bytes of this age.
 * Under heap->lock. */
bool fl_floor_keeps(
	const struct sweep *sweep, uint32_t age, uintptr_t base, size_t bytes);

/* Whether a page of the context's stays because its class allocates from it;
 * counts it. */
bool fl_floor_current(
	struct sweep *sweep, const struct local *local, const struct page *page);

/* The invariant of the floor's that is broken, or NULL. */
const char *fl_floor_broken(const struct heap *heap);

/* Keeps nothing, until it is decided anew.  While nobody else uses the heap. */
void fl_floor_none(struct heap *heap);

#pragma GCC visibility pop

/* How many epochs ago a page was used, or a slice became free.  By the epoch as
 * it is: a sweep's own may be past, and what was used since would be old. */
static inline uint32_t page_age(
	const struct heap *heap, const struct page *page)
{
	return (uint16_t)(heap_epoch(heap) - fl_load_relaxed(&page->epoch));
}

static inline uint32_t slice_age(
	const struct heap *heap, const struct chunk *chunk, unsigned slice)
{
	return (heap_epoch(heap) - chunk->stamp[slice]) & STAMP_EPOCHS;
}

#endif
