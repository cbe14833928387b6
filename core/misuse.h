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

/*
 * Whether there is any doubt that `p`, an address in this small page, which has
 * no holes, is a block in use: what the hot path asks before it asks the
 * judge.  Small pages are a slice, and so are aligned to one.
 */
static inline bool misuse_doubtful_small(
	const struct page *page, const void *p)
{
	uint64_t offset = (uintptr_t)p & (SLICE_BYTES - 1);

	return FALLOW_CHECKS && (!small_begins(page, offset) ||
			((const struct block *)p)->mark == page->mark);
}

/* The same of a page that own_look() has led to: `p` may be any address. */
static inline bool misuse_doubtful_own(const struct page *page, const void *p)
{
	return !small_begins(page, (uintptr_t)p - page->base) ||
		(FALLOW_CHECKS &&
			((const struct block *)p)->mark == page->mark);
}

/* The same of a medium page; `index` is what bits_place() says. */
static inline __attribute__((always_inline)) bool misuse_doubtful_bits(
	const struct heap *heap, const struct page *page, const void *p,
	uint64_t index)
{
	return FALLOW_CHECKS &&
		(index >= fl_load_hot(&page->formed) ||
			((fl_load_relaxed(&page->remote) |
				 fl_load_hot(&page->bits)) >>
					index &
				1) ||
			deferred_has(heap, page, p));
}

/* The same of either, but no span. */
static inline bool misuse_doubtful(
	const struct heap *heap, const struct page *page, uintptr_t addr)
{
	if (page->kind == PAGE_SMALL)
		return misuse_doubtful_small(page, (const void *)addr);
	return misuse_doubtful_bits(heap, page, (const void *)addr,
		bits_place(page, (uint32_t)(addr - page->base)));
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
