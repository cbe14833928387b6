/* SPDX-License-Identifier: MIT */
/* Before the heap grows past what it ever held: see pace.c. */
#ifndef CORE_PACE_H
#define CORE_PACE_H

#include "heap.h"

#pragma GCC visibility push(hidden)

/* From so many committed bytes on there are rounds; 0: never. */
void fl_pace_init(struct heap *heap, size_t from_bytes, uint64_t ticks);

/* This is a copy of the heap, in which no round is under way. */
void fl_pace_forked(struct heap *heap);

/* A round, unless one is under way or this context has just made one: gives back
 * what this context has left idle since the last.  Drops the context. */
void fl_pace(struct op *op, size_t more);

#pragma GCC visibility pop

/* A span larger than this is seen when it is there: most of those are not to be
 * had, and would move the mark to where there is never a round. */
#define PACE_SPAN_MAX ((size_t)64 << 20)

/* What a block that a call asks for may commit, where that is much; 0 for a
 * block of a class. */
static inline size_t pace_more(unsigned class, size_t size)
{
	return class == CLASS_NONE && size <= PACE_SPAN_MAX ? size : 0;
}

/* Whether the heap, with so many bytes more, holds more than it may before there
 * is a round. */
static inline bool pace_due(const struct heap *heap, size_t more)
{
	return unlikely(fl_load_relaxed(&heap->counters.committed) + more >
		fl_load_relaxed(&heap->pacing.at));
}

#endif
