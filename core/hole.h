/* SPDX-License-Identifier: MIT */
/* Holes in pages: see hole.c. */
#ifndef CORE_HOLE_H
#define CORE_HOLE_H

#include "page.h"

#pragma GCC visibility push(hidden)

/* Whether the page has a granule, among its formed blocks, that is missing: a
 * hole, or one that is about to become a hole. */
bool fl_hole_any(const struct heap *heap, const struct page *page);

/* Whether granules of the page are about to become holes: it is not to be
 * released, adopted, committed into or swept. */
bool fl_hole_pending(const struct heap *heap, const struct page *page);

/* Blocks that a missing granule makes unusable: no list has them, and
 * page_used() counts them. */
uint32_t fl_hole_blocks(const struct heap *heap, const struct page *page);

/* Whether the block at `index` is one of them. */
bool fl_hole_gone(
	const struct heap *heap, const struct page *page, uint32_t index);

/*
 * Unlists the free blocks whose memory can go and marks those granules, and
 * the committed ones behind the formed blocks, as pending.  `range` is called
 * for each run of granules and returns whether there is room for another.
 * The caller owns the page, which has nothing pending.
 * Returns: the bytes that were marked.
 */
size_t fl_hole_make(struct heap *heap, struct page *page,
	bool (*range)(void *arg, uintptr_t base, size_t size), void *arg);

/* If the page has no hole, nor will have one, its frees need not look any more
 * before they touch.  By its owner. */
void fl_hole_forget(const struct heap *heap, struct page *page);

/* Ends what fl_hole_make() began, for one run: it is a hole, or (`refused`) it
 * is as before, and its blocks are freed as by another context. */
void fl_hole_end(
	struct page *page, uintptr_t base, size_t size, bool refused);

/*
 * Commits the first hole of the page, at most a block or 64 KiB of it, until
 * at least one block is free again.  The page is in TRANSIT and has nothing
 * pending.  Drops the context.  Returns whether a block is free.
 */
bool fl_hole_fill(struct op *op, struct page *page);

#pragma GCC visibility pop

/* fl_hole_blocks(), without a look at the granules where none can be missing. */
static inline uint32_t page_hole_blocks(
	const struct heap *heap, const struct page *page)
{
	return page_holed(page) ? fl_hole_blocks(heap, page) : 0;
}

/* Whether no block of the page is in use and it may be released.  By its
 * owner, who has folded. */
static inline bool page_empty(const struct heap *heap, const struct page *page)
{
	if (!page_holed(page))
		return page_used(page) == 0;
	return page_used(page) == fl_hole_blocks(heap, page) &&
		!fl_hole_pending(heap, page);
}

#endif
