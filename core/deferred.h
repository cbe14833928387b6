/* SPDX-License-Identifier: MIT */
/* Blocks that are freed where nothing can be done about it: see deferred.c. */
#ifndef CORE_DEFERRED_H
#define CORE_DEFERRED_H

#include "heap.h"

#pragma GCC visibility push(hidden)

/*
 * Puts a block in use, whose record is `page`, by for the next drain.  Returns
 * false, and has changed nothing, iff it is put by already.
 * Context: any, also an NMI.  Takes no lock.
 */
bool fl_deferred_push(struct heap *heap, struct page *page, void *p);

/* What fallow_free_deferred() does: puts a block by, or notes a misuse. */
void fl_deferred_free(struct heap *heap, void *p, uintptr_t caller);

/* Frees what was put by and reports the misuses that were.  Inside the context,
 * which it drops and joins again if there was anything. */
void fl_deferred_drain(struct op *op);

/* Whether what the list of deferred blocks says is one: a block, or else a span,
 * of this page, that is there and carries the mark.  NULL: no page. */
bool fl_deferred_is(const struct heap *heap, const struct page *page,
	const struct block *block);

#pragma GCC visibility pop

/* Whether a drain would find anything: one load each, for the slow paths. */
static inline bool deferred_waiting(const struct heap *heap)
{
	return fl_load_relaxed(&heap->deferred) != NULL ||
		fl_load_relaxed(&heap->noted) != 0;
}

/* What the second word of a deferred block holds.  A small one looks free, so
 * that every check that would find a second free finds this one. */
static inline uint64_t deferred_mark(
	const struct heap *heap, const struct page *page, const void *block)
{
	return page->kind == PAGE_SMALL ? page->mark
					: ~((uintptr_t)block ^ heap->secret);
}

/* Whether a block that is in use as far as its page knows has been deferred. */
static inline bool deferred_has(
	const struct heap *heap, const struct page *page, const void *block)
{
	return unlikely(fl_load_hot(&heap->deferring)) &&
		fl_load_relaxed(&((const struct block *)block)->mark) ==
			deferred_mark(heap, page, block);
}

#endif
