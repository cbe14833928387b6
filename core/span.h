/* SPDX-License-Identifier: MIT */
/* Blocks too big for any class: see span.c. */
#ifndef CORE_SPAN_H
#define CORE_SPAN_H

#include "region.h"
#include "remote.h"
#include "usage.h"

#pragma GCC visibility push(hidden)

/* A populated span that is not counted as a block; else as fl_span_alloc().
 * Returns its record. */
struct page *fl_span_take(
	struct op *op, size_t size, size_t align, bool zero);

/* A span of `size` bytes at `align`; every byte zero if `zero`.  NULL iff there
 * is no memory for it.  Drops the context. */
void *fl_span_alloc(struct op *op, size_t size, size_t align, bool zero);

/* The span, in use, is an arena's. */
void fl_span_lend(struct page *span, void *arena);

/* Frees the span; returns false iff `addr` is no begin of a span in use. */
bool fl_span_free(struct op *op, struct page *span, uintptr_t addr);

/* A span that the context has kept and that can have `size` bytes, whole
 * granules, for one in use; NULL iff it has none. */
struct page *fl_span_reuse(struct heap *heap, struct local *local, size_t size);

/* Frees a span that the context has kept; returns whether it had one. */
bool fl_span_flush(struct heap *heap, struct local *local);

/* Makes the span `size` bytes where it is; returns whether it could.  Shrinking
 * always can.  Bytes beyond the old size read as zero if `zero`.  Drops the
 * context. */
bool fl_span_resize(struct op *op, struct page *span, size_t size, bool zero);

#pragma GCC visibility pop

/* Makes a span in use one of another state, once; returns false iff it was not
 * in use. */
static inline bool span_claim(struct page *span, enum remote_state state)
{
	uint64_t word = fl_load_relaxed(&span->remote);

	/* Pairs with itself: of two frees one sees the other's state. */
	while (remote_state(word) == REMOTE_SPAN)
		if (fl_cas_acq_rel(
			    &span->remote, &word, remote_word(state, 0)))
			return true;
	return false;
}

/*
 * Frees a span of OWNER_FREER that is in use by all the caller knows, but keeps
 * it for the next ones of the context, of whose local or of the one that has
 * nothing `local` is; returns false iff it cannot, and the span is as it was.  By
 * the context, without its lock; takes none.
 */
static inline bool span_keep(
	struct heap *heap, struct local *local, struct page *span)
{
	uint64_t word = remote_word(REMOTE_SPAN, 0);

	/* Pairs with span_claim(). */
	if (local->kept_count >= heap->spans_kept ||
		!fl_cas_acq_rel(&span->remote, &word,
			remote_word(REMOTE_KEPT, 0)))
		return false;
	usage_freed(heap->usage, span->span_size);
	page_use(heap, span);
	if (unlikely(fl_load_hot(&heap->sweeping.changed) !=
			fl_load_hot(&heap->epoch)))
		heap_changed(heap);
	span->next = local->kept;
	local->kept = span;
	local->kept_count++;
	return true;
}

/* The youngest span that the context has kept, for one in use, if it is of just
 * this size; NULL iff it is not.  Its contents are what they were. */
static inline struct page *span_youngest(struct local *local, size_t size)
{
	struct page *span = local->kept;

	if (unlikely(span == NULL || span->span_size != size))
		return NULL;
	local->kept = span->next;
	local->kept_count--;
	span->loose = 0;
	fl_store_relaxed(&span->remote, remote_word(REMOTE_SPAN, 0));
	return span;
}

/* Whether it is a free span that a context keeps. */
static inline bool span_kept(const struct page *page)
{
	return page->kind == PAGE_SPAN &&
		remote_state(fl_load_relaxed(&page->remote)) == REMOTE_KEPT;
}

#endif
