/* SPDX-License-Identifier: MIT */
/*
 * Deferred frees: legal where nothing else is, even in an NMI.
 *
 * An NMI comes in the middle of anything: a context that it interrupts may be
 * between two stores to a page's record, or hold any lock.  So nothing is done
 * to the page.  The block is linked, through its first word, into one list of
 * the heap, with one compare-and-swap; the next slow path of an allocation, a
 * collect, a context that goes offline, or the heap's end takes the whole list
 * and frees the blocks one by one as if they had been freed there.  Until then
 * they are blocks in use for everything that counts.
 *
 * What makes a second free of such a block visible, at that free, is a mark in
 * its second word, set by compare-and-swap before the block is linked:
 *
 *   small pages   the mark of a free block, which every free tests anyway
 *   others        its complement, which is looked for once a heap has deferred
 *
 * So of two that defer the same block one sees the other's mark, no block is in
 * the list twice, and none in the list is freed by the way.  The drain removes
 * the mark, or stale ones would be found in blocks that are handed out again.
 * A block whose mark is gone was written to after it was deferred, and so may
 * be its link: the drain reports it and follows the link no further; the rest
 * of that list stays in use for ever.
 *
 * Misuses are noted in a few slots and reported by the next drain, since no
 * hook can be called from an NMI; when the slots are full they are counted.
 *
 * No lock; the orders are at the operations.
 */
#include "deferred.h"
#include "alloc.h"
#include "free.h"
#include "misuse.h"

/* Notes a misuse for the next drain to report. */
static void note(struct heap *heap, enum fallow_misuse_kind kind, void *p,
	uintptr_t caller)
{
	unsigned i;

	for (i = 0; i < NOTES; i++) {
		struct note *slot = &heap->notes[i];
		uintptr_t none = 0;

		/* Pairs with the release of the slot in note_take(). */
		if (!fl_cas_acquire(&slot->address, &none, (uintptr_t)p))
			continue;
		slot->caller = caller;
		/* Pairs with note_take(): the others come first. */
		fl_store_release(&slot->kind, (uint32_t)kind);
		fl_add_relaxed(&heap->noted, 1);
		return;
	}
	fl_add_relaxed(&heap->counters.misuses, 1);
}

/* Takes a note out of its slot; returns false if there is none. */
static bool note_take(struct heap *heap, struct note *slot, struct note *taken)
{
	uint32_t kind = fl_load_relaxed(&slot->kind);

	/* Pairs with note(); whoever makes it 0 has the note. */
	while (kind != 0 && !fl_cas_acquire(&slot->kind, &kind, 0))
		;
	if (kind == 0)
		return false;
	*taken = (struct note){ slot->address, slot->caller, kind };
	fl_add_relaxed(&heap->noted, (uint32_t)-1);
	/* Pairs with the acquire in note(): the slot was read before. */
	fl_store_release(&slot->address, 0);
	return true;
}

/* Reports what was noted. */
static void notes_report(struct heap *heap)
{
	unsigned i;

	for (i = 0; i < NOTES; i++) {
		struct op op = { .heap = heap };
		struct note taken;

		if (!note_take(heap, &heap->notes[i], &taken))
			continue;
		op.caller = taken.caller;
		op_enter(&op);
		fl_misuse(&op, (enum fallow_misuse_kind)taken.kind,
			taken.address, page_find(heap, taken.address));
	}
}

/* Marks the block as deferred; false iff it carries that mark already. */
static bool mark_set(
	const struct heap *heap, const struct page *page, struct block *block)
{
	uintptr_t mark = deferred_mark(heap, page, block);
	uintptr_t old = fl_load_relaxed(&block->mark);

	/* Orders nothing: it decides between those who defer the block. */
	do {
		if (old == mark)
			return false;
	} while (!fl_cas_acquire(&block->mark, &old, mark));
	return true;
}

/* Only the first time: the frees of all CPUs read that line. */
static void deferring_set(struct heap *heap)
{
	if (!fl_load_relaxed(&heap->deferring))
		fl_store_relaxed(&heap->deferring, true);
}

bool fl_deferred_push(struct heap *heap, struct page *page, void *p)
{
	struct block *block = p;
	struct block *first;

	/* Before the mark: who sees the block marked is to look for marks. */
	deferring_set(heap);
	if (heap_reserve(heap) != NULL)
		deferring_set(heap_reserve(heap));
	if (!mark_set(heap, page, block))
		return false;
	fl_add_relaxed(&heap->deferred_count, 1);
	first = fl_load_relaxed(&heap->deferred);
	do
		fl_store_relaxed(&block->next, first);
	/* Pairs with list_take(): the link, and what the caller wrote to the
	 * block before, come first. */
	while (!fl_cas_release(&heap->deferred, &first, block));
	return true;
}

/* Takes the whole list. */
static struct block *list_take(struct heap *heap)
{
	struct block *first = fl_load_relaxed(&heap->deferred);

	/* Pairs with fl_deferred_push(); taken whole, so that a block that
	 * comes back meanwhile cannot be mistaken for itself (no ABA). */
	while (first != NULL &&
		!fl_cas_acquire(&heap->deferred, &first, (struct block *)NULL))
		;
	return first;
}

bool fl_deferred_is(const struct heap *heap, const struct page *page,
	const struct block *block)
{
	uintptr_t addr = (uintptr_t)block;
	uint32_t index;

	if (page == NULL)
		return false;
	if (page->kind == PAGE_SPAN)
		return addr == page->base && deferred_has(heap, page, block);
	/* If it was freed besides, by a free that found its mark overwritten,
	 * its memory may be gone, or its page another of other blocks. */
	index = page_place(page, (uint32_t)(addr - page->base));
	return index < fl_load_relaxed(&page->formed) &&
		!(page_holed(page) && fl_hole_gone(heap, page, index)) &&
		deferred_has(heap, page, block);
}

/* Frees one block of a list that was taken; returns the next one. */
static struct block *block_drain(const struct op *drain, struct block *block)
{
	struct heap *heap = drain->heap;
	struct op op = { .heap = heap, .caller = drain->caller };
	struct page *page = page_find(heap, (uintptr_t)block);
	struct block *next;

	op_enter(&op);
	if (!fl_deferred_is(heap, page, block)) {
		fl_misuse(&op, FALLOW_MISUSE_DOUBLE_FREE, (uintptr_t)block,
			page);
		return NULL;
	}
	next = fl_load_relaxed(&block->next);
	fl_store_relaxed(&block->mark, 0);
	fl_add_relaxed(&heap->deferred_count, (size_t)-1);
	fl_free(&op, block);
	return next;
}

void fl_deferred_drain(struct op *op)
{
	struct block *block;

	if (!deferred_waiting(op->heap))
		return;
	op_drop(op);
	/* First, while the pages that they are about are there. */
	notes_report(op->heap);
	block = list_take(op->heap);
	while (block != NULL)
		block = block_drain(op, block);
	op_enter(op);
}

void fl_deferred_free(struct heap *heap, void *p, uintptr_t caller)
{
	/* Of no context: an NMI may come before the port can say which. */
	struct op op = { .heap = heap };
	struct page *page = page_find(heap, (uintptr_t)p);
	enum fallow_misuse_kind kind;

	if (!fl_misuse_judge(&op, (uintptr_t)p, page, &kind))
		note(heap, kind, p, caller);
	else if (!fl_deferred_push(heap, page, p))
		note(heap, FALLOW_MISUSE_DOUBLE_FREE, p, caller);
}

#define CALLER ((uintptr_t)__builtin_return_address(0))

void fallow_free_deferred(struct fallow *heap, void *p)
{
	if (p != NULL)
		fl_deferred_free(heap_of(heap), p, CALLER);
}
