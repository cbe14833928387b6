/* SPDX-License-Identifier: MIT */
/* Before the heap grows past what it ever held: see pace.c. */
#ifndef CORE_PACE_H
#define CORE_PACE_H

#include "heap.h"

#pragma GCC visibility push(hidden)

/* From so many committed bytes on there are rounds; 0: never. */
void fl_pace_init(struct heap *heap, size_t from_bytes);

/* This is a copy of the heap, in which no round is under way. */
void fl_pace_forked(struct heap *heap);

/* A round, unless one is under way or this context has just made one: gives back
 * what this context has left idle since the last.  Drops the context. */
void fl_pace(struct op *op);

#pragma GCC visibility pop

/* Whether the heap holds more than it may before there is a round. */
static inline bool pace_due(const struct heap *heap)
{
	return unlikely(fl_load_relaxed(&heap->counters.committed) >
		fl_load_relaxed(&heap->pacing.at));
}

#endif
