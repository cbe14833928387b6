/* SPDX-License-Identifier: MIT */
/*
 * Memory that is wanted now: sweeps at once, without the hold (level 1) or the
 * floor (level 2), and what contexts that run hand over.
 *
 * Only a context itself may touch its pages.  So a reclaim raises a request; a
 * context that sees it at its next slow path makes granules of its pages
 * pending, a few pages at a time, and hands them over by a bit in the chunk and
 * a count in the heap.  Whoever sweeps next finds them there and gives them
 * back.  Nobody waits: a context that does not allocate never answers.
 *
 * What is handed over is under heap->lock; a request is read beside it.
 */
#include "reclaim.h"
#include "alloc.h"
#include "bits.h"
#include "chunk.h"
#include "class.h"
#include "deferred.h"
#include "floor.h"
#include "local.h"
#include "reserve.h"
#include "span.h"

/* Chunks that are looked at before the lock is let go: a GiB of addresses. */
#define STEP_CHUNKS 512
/* Who finds no memory waits so often for what others are giving back: about as
 * long as a slow shootdown takes.  No longer, since a sweep in an idle loop may
 * not go on while somebody waits. */
#define WAIT_PAUSES (1u << 16)
/* A page of at most 56 blocks has no more holes than so many batches carry. */
#define RECLAIM_PASSES 3

/* What was handed over in a chunk, as far as there is room; returns whether
 * that was all. */
static bool handed_take(struct sweep *sweep, struct chunk *chunk)
{
	while (chunk->handed != 0) {
		unsigned first = (unsigned)__builtin_ctz(chunk->handed);

		if (!batch_has_room(&sweep->batch, SLICE_RANGES))
			return false;
		if (!fl_batch_handed(sweep->op->heap, &sweep->batch,
			    &chunk->records[first]))
			return false;
		chunk->handed &= ~slice_mask(first, 1);
		sweep->op->heap->handed--;
	}
	return true;
}

/* The same for all chunks from *number on; returns whether there is more. */
static bool handed_step(struct sweep *sweep, size_t *number)
{
	struct heap *heap = sweep->op->heap;
	struct fl_port_state state = lock_take(&heap->lock);
	bool more = true;
	unsigned i;

	for (i = 0; more && i < STEP_CHUNKS; i++) {
		struct chunk *chunk;

		fl_watch_steps(1);
		more = *number < heap->chunk_count && heap->handed > 0;
		if (!more)
			break;
		chunk = heap->chunks[*number];
		if (chunk != NULL && !handed_take(sweep, chunk))
			break;
		++*number;
	}
	lock_leave(&heap->lock, state);
	return more;
}

void fl_reclaim_handed(struct sweep *sweep)
{
	size_t number = 0;

	while (handed_step(sweep, &number)) {
		fl_sweep_give(sweep);
		sweep_pause(sweep->op);
	}
	fl_sweep_give(sweep);
}

size_t fl_reclaim(struct op *op, unsigned level)
{
	struct heap *heap = op->heap;
	struct sweep sweep = {
		.op = op,
		.level = (uint8_t)level,
		.budget = SIZE_MAX,
		.thorough = true,
	};
	struct fl_port_state state = lock_take(&heap->lock);
	size_t at = 0;
	unsigned i;

	sweep.number = sweep_number(heap);
	sweep.epoch = heap->epoch;
	fl_store_relaxed(&heap->request, sweep.number);
	lock_leave(&heap->lock, state);
	batch_begin(&sweep.batch);
	fl_floor_reclaim(&sweep);
	fl_sweep_all(&sweep, &at);
	/* The rest of pages with many holes, and what moved meanwhile. */
	for (i = 1; i < RECLAIM_PASSES && (sweep.cut || sweep.missed) &&
		!sweep.refused; i++) {
		sweep.cut = sweep.missed = false;
		at = 0;
		state = lock_take(&heap->lock);
		sweep.number = sweep_number(heap);
		lock_leave(&heap->lock, state);
		fl_sweep_all(&sweep, &at);
	}
	/* What stays, and what is freed from here on, looks as if this epoch's
	 * sweep had seen it. */
	heap_changed(heap);
	return sweep.bytes;
}

bool fl_reclaim_others(struct op *op, uint32_t *given)
{
	const struct sweeping *sweeping = &op->heap->sweeping;
	uint32_t was = *given;
	unsigned i;

	/* Pairs with fl_batch_give(). */
	if (fl_load_acquire(&sweeping->giving) != 0) {
		op_drop(op);
		for (i = 0; i < WAIT_PAUSES &&
			fl_load_acquire(&sweeping->giving) != 0 &&
			fl_load_acquire(&sweeping->given) == was;
			i++)
			fl_port_pause();
		op_rejoin(op);
	}
	*given = fl_load_acquire(&sweeping->given);
	return *given != was;
}

#define CALLER ((uintptr_t)__builtin_return_address(0))

/* What both functions do, for the one that `caller` called. */
static size_t reclaim(struct fallow *heap, unsigned level, uintptr_t caller)
{
	struct op op;
	size_t bytes = 0;

	/* Below them all is a sweep, which this is not. */
	if (level < FALLOW_RECLAIM_HOLD)
		level = FALLOW_RECLAIM_HOLD;
	else if (level > FALLOW_RECLAIM_SPLIT)
		level = FALLOW_RECLAIM_SPLIT;
	if (!fl_op_begin(&op, heap, 0, caller))
		return 0;
	fl_deferred_drain(&op);
	if (op_may_wait(&op) && fl_op_unpark(&op)) {
		fl_reserve_fill(&op);
		/* What was freed since the epoch began is not in the floor for
		 * being young. */
		if (level < FALLOW_RECLAIM_FLOOR)
			fl_floor_decide(&op);
		bytes = fl_reclaim(&op, level);
	}
	op_drop(&op);
	return bytes;
}

size_t fallow_reclaim(struct fallow *heap, enum fallow_reclaim_level level)
{
	return reclaim(heap, level, CALLER);
}

size_t fallow_collect(struct fallow *heap)
{
	return reclaim(heap, FALLOW_RECLAIM_FLOOR, CALLER);
}

/* A run of granules is handed over; returns whether another may be. */
static bool handed_range(void *arg, uintptr_t base, size_t size)
{
	unsigned *count = arg;

	(void)base;
	(void)size;
	return ++*count < HANDED_RANGES;
}

/* Whether the page has nothing to hand over: it is as it was when it was walked
 * last.  Of most pages that is all that is looked at, so that a request costs
 * what it brings. */
static bool page_same(const struct page *page)
{
	/* If it is PAGE_DUE, they are not equal. */
	return page_used(page) ==
			(page->swept_used & ~(uint32_t)PAGE_SKIPPED) &&
		(fl_load_relaxed(&page->remote) & REMOTE_BLOCKS) == 0;
}

/* Makes holes in a page, for others to give back; returns whether there was
 * something. */
static bool page_hand(struct heap *heap, struct local *local, struct page *page)
{
	struct fl_port_state state;
	unsigned count = 0;
	size_t bytes;

	if (page_same(page))
		return false;
	fl_sweep_look(heap, local, page);
	fl_local_settle(heap, local, page);
	if (local->current[page->class] == page ||
		(page_holed(page) && fl_hole_pending(heap, page)) ||
		fl_class_drop(heap, local, page))
		return false;
	bytes = fl_hole_make(heap, page, handed_range, &count);
	page->swept_used = (uint16_t)(page_used(page) |
		(count == HANDED_RANGES ? PAGE_DUE : 0));
	if (bytes == 0)
		return false;
	fl_local_settle(heap, local, page);
	state = lock_take(&heap->lock);
	page->chunk->handed |= slice_mask(page->first_slice, 1);
	heap->handed++;
	lock_leave(&heap->lock, state);
	return true;
}

bool fl_reclaim_answer(struct op *op)
{
	struct heap *heap = op->heap;
	struct local *local = op->local;
	bool handed = false;
	/* What is missed the sweeps of its own will have. */
	bool missed = false;
	uint32_t blocks = 0;
	unsigned i;

	/* One after the other: with each that comes beginning anew, the last
	 * pages would never have their turn. */
	if (local->answering == local->answered)
		local->answering = fl_load_relaxed(&heap->request);
	for (i = 0; i < STEP_SPANS && fl_span_flush(heap, local); i++)
		handed = true;
	/* There may be any number of them: the rest, and pages, come next. */
	if (i == STEP_SPANS)
		return true;
	for (i = 0; i < STEP_PAGES && blocks < STEP_BLOCKS; i++) {
		struct page *page = heap_is(heap, FALLOW_CLASS_WINDOW)
			? fl_sweep_local_next(
				local, local->answering, &missed)
			: NULL;

		if (page == NULL) {
			local->answered = local->answering;
			break;
		}
		blocks += page->formed;
		handed |= page_hand(heap, local, page);
	}
	/* Also for what stays, which this epoch's sweep takes for seen. */
	if (i > 0)
		heap_changed(heap);
	return handed;
}
