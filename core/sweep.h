/* SPDX-License-Identifier: MIT */
/* Giving memory back: see sweep.c. */
#ifndef CORE_SWEEP_H
#define CORE_SWEEP_H

#include "batch.h"

#pragma GCC visibility push(hidden)

/* fallow_reclaim() inside the context, which it drops. */
size_t fl_reclaim(struct op *op, unsigned level);

/* Gives the memory of all free slices back: the heap's end.  Returns the
 * bytes. */
size_t fl_sweep_slices(struct op *op);

/* Another context has asked for memory: makes granules of this context's pages
 * pending, and hands them over.  A few pages at a time.  Returns whether there
 * was something. */
bool fl_sweep_answer(struct op *op);

/* The context ends no more epochs: without a clock others may. */
void fl_sweep_leave(struct heap *heap, uint32_t context);

/* Something can be swept that the last sweep did not know of: tells the
 * provider, if it waits for that.  Outside of the context. */
void fl_sweep_wanted(struct heap *heap);

/* Begins the books: after fallow_init() has filled in what is configured. */
void fl_sweep_init(struct heap *heap);

#pragma GCC visibility pop

/* Whether another context has asked for memory since this one last answered. */
static inline bool sweep_asked(const struct op *op)
{
	return fl_load_relaxed(&op->heap->request) != op->local->answered;
}

#endif
