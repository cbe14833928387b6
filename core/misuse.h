/* SPDX-License-Identifier: MIT */
/* What is said when the heap is misused: see misuse.c. */
#ifndef CORE_MISUSE_H
#define CORE_MISUSE_H

#include "deferred.h"
#include "hole.h"

#pragma GCC visibility push(hidden)

/*
 * Reports a misuse by the call and leaves the context: the caller must return
 * without touching the heap.  `page`, if not NULL, is the page or span that
 * `addr` is in.
 */
__attribute__((cold)) void fl_misuse(struct op *op,
	enum fallow_misuse_kind kind, uintptr_t addr, const struct page *page);

/*
 * Whether `addr` is a block in use of the page or span it was looked up to;
 * if not, *kind says what it is.  The one place that turns a doubt into a
 * verdict: the fast paths only decide that there is a doubt.  The caller is
 * inside its context, or in none (op->local NULL); for another's page, what its
 * owner has in its free list is told by the mark alone.
 */
__attribute__((cold)) bool fl_misuse_judge(struct op *op, uintptr_t addr,
	struct page *page, enum fallow_misuse_kind *kind);

#pragma GCC visibility pop

/* Whether there is any doubt that `addr` is a block in use of this page, which
 * is no span and has no holes: what the hot path asks before it asks the
 * judge. */
static inline bool misuse_doubtful(
	const struct heap *heap, const struct page *page, uintptr_t addr)
{
	uint64_t offset = addr - page->base;

	if (!FALLOW_CHECKS)
		return false;
	if (offset >= fl_load_relaxed(&page->formed_end) ||
		!page_aligned(page, offset))
		return true;
	if (page->kind == PAGE_SMALL)
		return ((const struct block *)addr)->mark ==
			block_mark(heap, (const void *)addr);
	if ((fl_load_relaxed(&page->bits) | fl_load_relaxed(&page->remote)) >>
			page_index(page, addr) &
		1)
		return true;
	return deferred_has(heap, page, (const void *)addr);
}

/* The same of a page that may have holes: memory that is not there is not
 * touched. */
static inline bool misuse_doubtful_holed(
	const struct heap *heap, const struct page *page, uintptr_t addr)
{
	return FALLOW_CHECKS &&
		((page_holed(page) &&
			 fl_hole_gone(heap, page, page_index(page, addr))) ||
			misuse_doubtful(heap, page, addr));
}

#endif
