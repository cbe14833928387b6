/* SPDX-License-Identifier: MIT */
/* The emergency pool: see reserve.c. */
#ifndef CORE_RESERVE_H
#define CORE_RESERVE_H

#include "heap.h"

#pragma GCC visibility push(hidden)

/* A call inside the pool, within one into the heap. */
struct reserve_call {
	struct op op; /* of the pool's heap; the context is entered twice */
	struct fl_port_state lock;
};

/* Begins a call inside the pool.  Returns false iff there is no pool, or its
 * lock is contended and op is NOWAIT. */
bool fl_reserve_begin(const struct op *op, struct reserve_call *call);

/* Ends it, after the call has left its context. */
void fl_reserve_end(const struct op *op, struct reserve_call *call);

/* fallow_free() of a block in the pool, inside the context, which is left. */
void fl_reserve_free(struct op *op, void *p);

/* Fills the pool if it is wanted and not there, and there is memory.  Not from a
 * handler, for which that is long; drops the context. */
void fl_reserve_fill(struct op *op);

/* The same, by one of many calls that would. */
void fl_reserve_fill_due(struct op *op);

#pragma GCC visibility pop

/* Whether the pool is wanted and not there. */
static inline bool reserve_missing(const struct heap *heap)
{
	return heap->reserve_bytes != 0 &&
		fl_load_relaxed(&heap->reserve_span) == NULL;
}

#endif
