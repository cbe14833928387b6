/* SPDX-License-Identifier: MIT */
/*
 * Misuse: telling what a pointer is that is no block in use, and saying so.
 *
 * The paths that free test a few words and, in doubt, ask fl_misuse_judge().
 * A small block carries a mark in its second word while it is free.  A block
 * in use may hold the same value by chance, so for the owner's own page the
 * verdict is the list itself, which is walked; for another's page the lists
 * cannot be walked, and the mark, a word that no other page ever had, is the
 * verdict.  So it is where blocks are deferred: those carry it too, and are in no
 * list of their page.
 *
 * Where slices are free nothing leads to what was there, but the record of the
 * last page or span that began in a slice stays as it was until another does:
 * by it a second free is told from a pointer from elsewhere.
 *
 * The report is made outside of the context, without locks, and the hook may
 * take its time.  What the heap holds is unchanged by it.
 */
#include "misuse.h"
#include "memory.h"

const char *fallow_misuse_text(enum fallow_misuse_kind kind)
{
	switch (kind) {
	case FALLOW_MISUSE_DOUBLE_FREE:
		return "double free";
	case FALLOW_MISUSE_FOREIGN:
		return "foreign pointer";
	case FALLOW_MISUSE_INTERIOR:
		return "pointer inside a block";
	case FALLOW_MISUSE_UNFORMED:
		return "pointer to no block yet";
	case FALLOW_MISUSE_WRONG_SIZE:
		return "wrong size in a sized free";
	case FALLOW_MISUSE_BAD_ALIGNMENT:
		return "bad alignment";
	case FALLOW_MISUSE_REENTRY:
		return "call from inside the provider or a hook";
	case FALLOW_MISUSE_BAD_CONTEXT:
		return "context index out of range";
	case FALLOW_MISUSE_SHARED:
		return "call into an arena that somebody is in";
	case FALLOW_MISUSE_BAD_MARK:
		return "mark of no open scope";
	default:
		return "unknown misuse";
	}
}

/* Whether a block began at the address in the page or span that the record was
 * of last. */
static bool record_had(const struct page *page, uintptr_t addr)
{
	uintptr_t offset = addr - page->base;
	uint32_t index;

	if (page->kind == PAGE_SPAN)
		return offset == 0;
	/* Never written: zeroes, which are a small page's. */
	if (page->block_size == 0 || offset >= page_slices(page) * SLICE_BYTES)
		return false;
	index = page_index(page, addr);
	return index < page->formed &&
		page_place(page, (uint32_t)offset) == index;
}

/* Whether a block began at the address, in slices that are free now.  Under
 * heap->lock. */
static bool block_was(const struct heap *heap, uintptr_t addr)
{
	size_t number = (addr - heap->base) >> CHUNK_LOG2;
	const struct chunk *chunk =
		number < heap->chunk_count ? heap->chunks[number] : NULL;
	unsigned slice = slice_of(addr);
	unsigned i;

	if (chunk == NULL || chunk->records == NULL ||
		!(chunk->free >> slice & 1))
		return false;
	for (i = slice + 1; i > 0; i--) {
		fl_watch_steps(1);
		if (record_had(&chunk->records[i - 1], addr))
			return true;
	}
	return false;
}

/* The same by a call, if it may wait for the lock and is inside a context: an NMI
 * is not. */
static bool freed_before(struct op *op, uintptr_t addr)
{
	struct fl_port_state state;
	bool was;

	if (op->local == NULL || !op_lock_heap(op, &state))
		return false;
	was = block_was(op->heap, addr);
	lock_leave(&op->heap->lock, state);
	return was;
}

bool fl_misuse_judge(struct op *op, uintptr_t addr, struct page *page,
	enum fallow_misuse_kind *kind)
{
	uint32_t index;
	bool own;

	*kind = FALLOW_MISUSE_FOREIGN;
	if (page == NULL) {
		if (freed_before(op, addr))
			*kind = FALLOW_MISUSE_DOUBLE_FREE;
		return false;
	}
	if (page->kind == PAGE_SPAN && page->arena != NULL)
		return false;
	*kind = FALLOW_MISUSE_INTERIOR;
	if (page->kind == PAGE_SPAN) {
		if (addr != page->base)
			return false;
		*kind = FALLOW_MISUSE_DOUBLE_FREE;
		return remote_state(fl_load_relaxed(&page->remote)) ==
				REMOTE_SPAN &&
			!deferred_has(op->heap, page, (const void *)addr);
	}
	index = page_index(page, addr);
	if (index >= page->capacity) {
		*kind = FALLOW_MISUSE_UNFORMED;
		return false;
	}
	if (page_place(page, (uint32_t)(addr - page->base)) != index)
		return false;
	*kind = FALLOW_MISUSE_UNFORMED;
	if (addr - page->base >= page_formed_end(page))
		return false;
	*kind = FALLOW_MISUSE_DOUBLE_FREE;
	if (page_holed(page) && fl_hole_gone(op->heap, page, index))
		return false;
	if (page->kind == PAGE_SMALL) {
		/* A page of the emergency pool is nobody's out here, whatever
		 * it says. */
		own = op->local != NULL && op_owns(op, page) &&
			map_find(op->heap, addr) == page &&
			!fl_load_relaxed(&op->heap->deferring);
		if (fl_load_relaxed(&((struct block *)addr)->mark) !=
			page->mark)
			return true;
		return own && !fl_page_lists(page, index);
	}
	if (deferred_has(op->heap, page, (const void *)addr))
		return false;
	/* Whoever handed the block out cleared its bit, and that came before
	 * this free: a bit that is set now was set by another free.  It
	 * pairs with remote_push(). */
	return !((fl_load_acquire(&page->remote) |
			 fl_load_relaxed(&page->bits)) >>
			index &
		1);
}

/* The begin and size of the block that an address is in; zeroes if none. */
static void report_block(const struct heap *heap, struct fallow_misuse *report,
	const struct page *page)
{
	uint32_t index;

	if (page == NULL)
		return;
	/* A page of the emergency pool has an owner in there alone. */
	if (map_find(heap, page->base) == page)
		report->owner = page_owner(page);
	if (page->kind == PAGE_SPAN) {
		report->block = page->base;
		report->block_size = page->span_size;
		return;
	}
	index = page_index(page, report->address);
	if (index >= page->capacity)
		return;
	report->block = page->base + (uintptr_t)index * page->block_size;
	report->block_size = page->block_size;
}

void fl_misuse(struct op *op, enum fallow_misuse_kind kind, uintptr_t addr,
	const struct page *page)
{
	struct heap *heap = op->heap;
	struct local *calling = NULL;
	/* A hook that misuses the heap is not asked what it thinks of it. */
	bool silent = heap->policy == FALLOW_POLICY_LEAK ||
		(op->local != NULL && op->local->reporting > 0);
	struct fallow_misuse report = {
		.kind = kind,
		.address = addr,
		.given_size = op->given_size,
		.owner = FALLOW_NO_CONTEXT,
		.context = fl_port_context(),
		.caller = op->caller,
	};

	/* Its caller holds a lock. */
	if (heap->shared) {
		heap->found = kind;
		heap->found_page = page;
		op_drop(op);
		return;
	}
	report_block(heap, &report, page);
	if (op->local != NULL)
		fl_add_relaxed(&op->local->counters.misuses, 1);
	else
		fl_add_relaxed(&heap->counters.misuses, 1);
	if (op->local != NULL)
		calling = fl_memory_calling(op);
	else
		op_drop(op);
	if (calling != NULL)
		calling->reporting++;
	if (heap->misuse != NULL && !silent)
		heap->misuse(heap->misuse_ctx, &report);
	if (calling != NULL)
		calling->reporting--;
	fl_memory_called(calling);
	if (heap->policy == FALLOW_POLICY_STOP)
		fl_port_halt();
}
