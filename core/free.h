/* SPDX-License-Identifier: MIT */
/* Freeing, for the other public calls: see free.c. */
#ifndef CORE_FREE_H
#define CORE_FREE_H

#include "misuse.h"
#include "own.h"
#include "usage.h"

#pragma GCC visibility push(hidden)

/* fallow_free() inside the context, which is left. */
void fl_free(struct op *op, void *p);

/* The same, of a block whose record, or NULL, was looked up in op's heap and is
 * not that of the emergency pool. */
void fl_free_block(struct op *op, void *p, struct page *page);

/*
 * The same, of a block in use, for a call that is NOWAIT: what would take a
 * contended lock is left for later.  Calls nobody.
 */
void fl_free_nowait(struct op *op, void *p);

/* The rest of a free that free_hot() has not done, inside the context, which is
 * left. */
void fl_free_rest(struct heap *heap, void *p, struct page *page,
	uintptr_t caller, struct fl_port_state state);

/* The rest of one that it has done, and that has brought `used` down to `wake`;
 * leaves the context. */
void fl_free_wake(
	struct heap *heap, struct page *page, struct fl_port_state state);

#pragma GCC visibility pop

/* Links a small block of the context's own page into its list, marked as free;
 * returns the same. */
static inline __attribute__((always_inline)) bool list_put(
	const struct heap *heap, struct page *page, void *p)
{
	struct block *block = p;

	usage_freed(heap->usage, page->block_size);
	block_mark_set(page, block);
	block->next = page->free;
	page->free = block;
	return unlikely(fl_add_hot(&page->above, -1u) == 0);
}

/* What free_hot() has come to. */
enum free_way {
	FREE_DONE, /* the block is free: the context is to be left */
	FREE_WAKE, /* the same, and fl_free_wake() comes next */
	FREE_REST, /* it is not: fl_free_rest() comes next */
};

/*
 * The hot path: flat, and nothing is kept in memory but what it must change.
 * Inside the context, which it does not leave; `*page` is what the others need.
 *
 * The owner's word is compared with the context's number alone: it is another's
 * number, or nobody's, or has a flag beside it, unless the page is small, has
 * no holes, and is this context's.  The page is one slice, so the block's offset
 * is the address's own low bits.  A null pointer is no address of the window.
 */
static inline __attribute__((always_inline)) enum free_way free_hot(
	const struct heap *heap, void *p, struct page **page)
{
	/* As wide as an index of `parked`, for which it need not be widened. */
	size_t owner = FL_PORT_SERVES ? 0 : hot_owner();

	if (FL_PORT_SERVES) {
		*page = own_look(fl_port_own(), (uintptr_t)p);
		if (unlikely(misuse_doubtful_own(*page, p)))
			return FREE_REST;
	} else if (unlikely(!map_look(heap, (uintptr_t)p, page))) {
		*page = &fl_page_nobody;
		return FREE_REST;
	} else if (unlikely(fl_load_hot(&(*page)->owner) != owner ||
			   heap_parked(heap, owner) ||
			   misuse_doubtful_small(*page, p))) {
		return FREE_REST;
	}
	return unlikely(list_put(heap, *page, p)) ? FREE_WAKE : FREE_DONE;
}

#endif
