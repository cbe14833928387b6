/* SPDX-License-Identifier: MIT */
/* When memory is aged, and when it is swept: see epoch.c. */
#ifndef CORE_EPOCH_H
#define CORE_EPOCH_H

#include "sweep.h"

#pragma GCC visibility push(hidden)

/* Begins the books: after fallow_init() has filled in what is configured. */
void fl_sweep_init(struct heap *heap);

/* Begins a new epoch if one is due; the sweep is then of the epoch there is. */
void fl_epoch_step(struct sweep *sweep);

/* What the clock of the time that the heap's users have run shows; without one
 * that of the time there is, or 0.  Drops the context. */
uint64_t fl_epoch_spent(struct op *op);

/* Ticks until so many epochs can have ended, this one being the first; at least
 * 1.  Without a clock as many as epochs. */
uint64_t fl_epoch_left(struct op *op, uint32_t epochs);

/* Who asks from now on is heard at the end; who asked before did what they tell
 * of before this. */
void fl_epoch_sweep_begins(struct heap *heap);

/* Nothing is left, and nobody has made something else since the sweep began:
 * from now on whoever does says so.  Returns whether.  Without a clock others
 * may end epochs then. */
bool fl_epoch_rests(struct op *op);

/* The context ends no more epochs: without a clock others may. */
void fl_sweep_leave(struct heap *heap, uint32_t context);

/* Something can be swept that the last sweep did not know of: tells the
 * provider, if it waits for that.  Outside of the context. */
void fl_sweep_wanted(struct heap *heap);

/* The same, for what heap->roused tells of: sweep_rouse() is to be called. */
void fl_sweep_rouse(struct heap *heap);

/* This is a copy of the heap, in which no sweep is under way and nobody is
 * there to make the next one: as at the begin, and what the floor was to keep
 * is for the next epoch to say. */
void fl_sweep_forked(struct heap *heap);

#pragma GCC visibility pop

/* Behind a call, outside of the context: asks for a sweep if something has come
 * to pass that it is for.  Who frees and allocates no more has nobody else to
 * ask. */
static inline void sweep_rouse(struct heap *heap)
{
	if (unlikely(fl_load_relaxed(&heap->roused) != 0))
		fl_sweep_rouse(heap);
}

#endif
