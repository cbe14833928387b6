/* SPDX-License-Identifier: MIT */
/* One size-class page: see page.c. */
#ifndef CORE_PAGE_H
#define CORE_PAGE_H

#include "remote.h"

#pragma GCC visibility push(hidden)

/* Afterwards the record describes a page of `class` without blocks, of so many
 * slices from `first` of the chunk on, in state TRANSIT and owned by nobody. */
void fl_page_init(struct page *page, struct chunk *chunk, unsigned first,
	unsigned class, unsigned slices);

/* Takes in what others freed; returns how many blocks.  The caller owns the
 * page, or has it in TRANSIT. */
uint32_t fl_page_fold(struct page *page, struct local *local);

/* Forms blocks in committed memory: returns whether there were any. */
bool fl_page_form(struct heap *heap, struct page *page);

/* Bytes of the page that blocks can ever use, in granules. */
size_t fl_page_extent(const struct page *page);

/*
 * Commits more of the page, at least one block's worth.  The page is in
 * TRANSIT.  Drops the context, unless the memory is committed already.
 * Returns false iff there was no memory (or a provider would have to be
 * called, and the call says NOWAIT).
 */
bool fl_page_commit(struct op *op, struct page *page);

/* Whether the block at `index` is free: in the owner's list or word, or in the
 * remote word.  By the owner, who alone takes from them.  Time: the free blocks
 * of the page. */
bool fl_page_lists(const struct page *page, uint32_t index);

#pragma GCC visibility pop

/* Free blocks that the owner can have without another step. */
static inline uint32_t page_free_count(const struct page *page)
{
	return page->formed - page->used;
}

/* Takes a free block out of a page that the caller owns; NULL if none. */
static inline void *page_pop(struct page *page, bool *clean)
{
	*clean = false;
	if (page->kind == PAGE_SMALL) {
		struct block *block = page->free;

		if (block == NULL)
			return NULL;
		page->free = block->next;
		block->mark = 0;
		page_used_set(page, page->used + 1);
		return block;
	}
	if (page->bits == 0)
		return NULL;
	unsigned index = (unsigned)__builtin_ctzll(page->bits);
	uint64_t bit = (uint64_t)1 << index;

	fl_store_relaxed(&page->bits, page->bits & ~bit);
	*clean = page->clean & bit;
	page->clean &= ~bit;
	page_used_set(page, page->used + 1);
	return (void *)(page->base + (uintptr_t)index * page->block_size);
}

#endif
