/* SPDX-License-Identifier: MIT */
/* Memory that is wanted now: see reclaim.c. */
#ifndef CORE_RECLAIM_H
#define CORE_RECLAIM_H

#include "sweep.h"

#pragma GCC visibility push(hidden)

/* fallow_reclaim() inside the context, which it drops. */
size_t fl_reclaim(struct op *op, unsigned level);

/* Whether others have given memory back since *given, which is brought up to
 * date; waits a while for some that is on its way.  Where the call may wait;
 * drops the context. */
bool fl_reclaim_others(struct op *op, uint32_t *given);

/* Gives back what contexts that run have handed over. */
void fl_reclaim_handed(struct sweep *sweep);

/* Another context has asked for memory: makes granules of this context's pages
 * pending, and hands them over.  A few pages at a time.  Returns whether there
 * was something. */
bool fl_reclaim_answer(struct op *op);

#pragma GCC visibility pop

/* How often memory was given back so far: read before it is looked for. */
static inline uint32_t reclaim_given(const struct heap *heap)
{
	/* Pairs with fl_batch_give(). */
	return fl_load_acquire(&heap->sweeping.given);
}

/* Whether another context has asked for memory since this one last answered. */
static inline bool reclaim_asked(
	const struct heap *heap, const struct local *local)
{
	return fl_load_relaxed(&heap->request) != local->answered;
}

#endif
