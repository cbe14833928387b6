/* SPDX-License-Identifier: MIT */
/* Giving memory back: see sweep.c. */
#ifndef CORE_SWEEP_H
#define CORE_SWEEP_H

#include "batch.h"

/* Level 0 is a sweep; above it, what fallow_reclaim() was told. */
#define LEVEL_SWEEP 0

/* The context is let go when so many blocks may have been looked at, or pages:
 * one small page of the smallest blocks, or a few of larger ones. */
#define STEP_BLOCKS (SLICE_BYTES / 16)
#define STEP_PAGES 8
/* Or so many spans that the context had kept are freed. */
#define STEP_SPANS 8

/* A pass over what may be swept: a sweep or a reclaim. */
struct sweep {
	struct op *op;
	uint32_t number; /* pages with it have been seen */
	uint32_t epoch;
	uint32_t current_left; /* of a reclaim: bytes for current pages */
	uint8_t level;
	bool thorough;   /* skip no page */
	bool refused;
	bool later;      /* something was left that a later sweep can have */
	bool skipped;    /* pages were */
	bool cut;        /* a page had more than the batch had room for */
	bool missed;     /* a page may not have been looked at */
	bool walk;       /* none is, for the last time it was too many */
	size_t budget;   /* pages that may still be looked at */
	size_t bytes;    /* given back so far */
	struct batch batch;
};

#pragma GCC visibility push(hidden)

/* Goes over everything that the call may sweep; over free slices from slice *at
 * of the window on, which is moved. */
void fl_sweep_all(struct sweep *sweep, size_t *at);

/* Takes in what others freed of a page of the caller's, and notes if the page was
 * used since it was last walked: it is PAGE_DUE. */
void fl_sweep_look(struct heap *heap, struct local *local, struct page *page);

/* Makes holes in a page that the caller owns, and adds them to the batch, which
 * has room. */
void fl_sweep_purge(struct sweep *sweep, struct page *page);

/* Gives back what has been collected. */
void fl_sweep_give(struct sweep *sweep);

/* The next page of a context that no sweep of this number has seen; NULL if
 * none was found: *missed then says if there may be one all the same. */
struct page *fl_sweep_local_next(
	struct local *local, uint32_t number, bool *missed);

/* Gives the memory of all free slices back: the heap's end.  Returns the
 * bytes. */
size_t fl_sweep_slices(struct op *op);

#pragma GCC visibility pop

/* The number of a sweep that begins.  Under heap->lock. */
static inline uint32_t sweep_number(struct heap *heap)
{
	fl_store_relaxed(&heap->sweeps, heap->sweeps + 1);
	return heap->sweeps;
}

/* Lets handlers in; afterwards everything is to be read again. */
static inline void sweep_pause(struct op *op)
{
	op_drop(op);
	op_rejoin(op);
}

#endif
