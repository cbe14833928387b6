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
bool fl_page_form(struct page *page);

/* Whether a block of the page more can be formed without the provider: memory
 * for it is committed. */
bool fl_page_ready(const struct heap *heap, const struct page *page);

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

/* Whether the owner can have a block of the page without another step.  Asked of
 * the list itself where a search goes on by the answer: after a block was freed
 * by two contexts at once a list may be shorter than `used` says, and the search
 * would go round for ever. */
static inline bool page_has(const struct page *page)
{
	/* A list or bits: nothing is nothing. */
	return page->bits != 0;
}

/* Between two marks; even, so that all are odd as the first is. */
#define MARK_STEP (UINT64_C(0x9e3779b97f4a7c15) << 1)

/* Gives a small page, of which nobody has a block, a mark that no page of this
 * heap had before: what is left in its memory is not taken for it.  Under
 * heap->lock. */
static inline void page_mark_new(struct heap *heap, struct page *page)
{
	if (page->kind != PAGE_SMALL)
		return;
	heap->marks += MARK_STEP;
	page->mark = heap->marks;
}

/* Free blocks that the owner can have without another step. */
static inline uint32_t page_free_count(const struct page *page)
{
	return page->formed - page_used(page);
}

/*
 * fl_page_fold() where it is a few instructions.  A small page that has blocks of its
 * own keeps the others' in the word until those are used up: all of them would
 * have to be walked, to be linked to its own, and they are in others' caches.
 */
static inline void page_fold_cheap(struct page *page, struct local *local)
{
	if (page->kind != PAGE_SMALL || page->free == NULL)
		fl_page_fold(page, local);
}

/* Takes the first free block out of a bit-word page that the caller owns and
 * that has one. */
static inline void *bits_pop(struct page *page, bool *clean)
{
	uint64_t bits = page->bits;
	uint64_t others = bits & (bits - 1);

	*clean = page->clean & bits & ~others;
	fl_store_relaxed(&page->bits, others);
	/* What is clean is free. */
	page->clean &= others;
	(void)fl_add_hot(&page->above, 1);
	/* A product below that of a chunk. */
	return (void *)(page->base +
		(unsigned)__builtin_ctzll(bits) * page->block_size);
}

/* The same of a small page. */
static inline void *list_pop(struct page *page)
{
	struct block *block = page->free;

	page->free = block->next;
	/* In use: a free of it has no doubt. */
	block_mark_clear(block);
	(void)fl_add_hot(&page->above, 1);
	return block;
}

/* Takes a free block out of a page that the caller owns; NULL if none. */
static inline void *page_pop(struct page *page, bool *clean)
{
	*clean = false;
	if (page->kind == PAGE_SMALL)
		return page->free == NULL ? NULL : list_pop(page);
	return page->bits == 0 ? NULL : bits_pop(page, clean);
}

#endif
