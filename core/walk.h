/* SPDX-License-Identifier: MIT */
/* Going over all pages and spans: see walk.c. */
#ifndef CORE_WALK_H
#define CORE_WALK_H

#include "hole.h"

#pragma GCC visibility push(hidden)

/* The first page or span at or behind slice *slice of the window, and *slice
 * is behind its first slice afterwards; NULL at the end. */
struct page *fl_walk_next(const struct heap *heap, size_t *slice);

/* Committed bytes of a page or span, and bytes of its holes. */
size_t fl_walk_committed(const struct heap *heap, const struct page *page);
size_t fl_walk_holes(const struct heap *heap, const struct page *page);

/* Blocks in use of a page: without those in the remote word, and those that a
 * hole makes unusable. */
uint32_t fl_walk_used(const struct heap *heap, const struct page *page);

/*
 * Sets a bit for each free block of a page, of at most BLOCKS_MAX.  Returns
 * NULL, or the invariant that its lists break.
 */
#define BLOCKS_MAX (SLICE_BYTES / 16)
_Static_assert(BLOCKS_MAX >= 64, "the bits of a word fit too");
struct block_set {
	uint64_t words[BLOCKS_MAX / 64];
};
const char *fl_walk_free(const struct page *page, struct block_set *set);

#pragma GCC visibility pop

static inline bool block_set_has(const struct block_set *set, uint32_t index)
{
	return set->words[index / 64] >> (index % 64) & 1;
}

#endif
