/* SPDX-License-Identifier: MIT */
/*
 * Sweeps: memory that nobody uses goes back, and what was used of late stays.
 *
 * A sweep goes once an epoch over everything that it may: the pages of its own
 * context, of parked ones, of none, and the free slices.  Several contexts may
 * sweep at once.  Each page carries the number of the sweep that last looked at
 * it, and free slices are claimed, so they share the work; nobody waits.
 *
 * Of a page: it goes if no block is in use; else its committed tail goes, and
 * every granule of which all blocks are free (hole.c).  What stays although it
 * could go:
 *
 *   skipped   a small page that looks as it did when it was last walked; walked
 *             all the same before a sweep says that nothing is left
 *   hold      free slices that were used in this epoch or the last
 *   floor     of these, the most recently used up to so many bytes (floor.c)
 *   current   the page that a class allocates from
 *
 * Ranges are collected (batch.c) and given back with the context dropped; after
 * that everything is read again.
 */
#include "sweep.h"
#include "alloc.h"
#include "bits.h"
#include "chunk.h"
#include "class.h"
#include "deferred.h"
#include "epoch.h"
#include "floor.h"
#include "reclaim.h"
#include "span.h"

/* Chunks that are looked at before the lock is let go: a GiB of addresses. */
#define STEP_CHUNKS 512
/* The hold: what was used this many epochs ago stays. */
#define HOLD_EPOCHS 1
/* Every so many epochs no page is skipped. */
#define SKIP_EPOCHS 64
/* A provider that goes on refusing is asked again after at most so many. */
#define REFUSED_EPOCHS_MAX 64

void fl_sweep_give(struct sweep *sweep)
{
	sweep->bytes += fl_batch_give(
		sweep->op, &sweep->batch, &sweep->refused);
}

/* The hot paths keep no note of whether a page is used. */
void fl_sweep_look(struct heap *heap, struct local *local, struct page *page)
{
	bool folded = fl_page_fold(page, local) > 0;

	fl_local_account(heap, page);
	if (!folded && page_used(page) == (page->swept_used & PAGE_USED))
		return;
	page->swept_used = (uint16_t)page_used(page) | PAGE_DUE;
	page_use(heap, page);
}

/* Whether the page is passed by: no block more or less is in use than when it
 * was last walked. */
static bool page_skips(struct sweep *sweep, struct page *page)
{
	if (sweep->level > LEVEL_SWEEP)
		return false;
	if (sweep->thorough)
		return !(page->swept_used & PAGE_SKIPPED);
	if ((page->swept_used & PAGE_DUE) || sweep->walk ||
		sweep->epoch % SKIP_EPOCHS == 0)
		return false;
	page->swept_used |= PAGE_SKIPPED;
	sweep->skipped = true;
	return true;
}

void fl_sweep_purge(struct sweep *sweep, struct page *page)
{
	struct heap *heap = sweep->op->heap;

	fl_batch_entry(heap, &sweep->batch, (struct entry){ .page = page });
	if (fl_hole_make(heap, page, fl_batch_range, &sweep->batch) == 0)
		fl_batch_drop(heap, &sweep->batch);
	/* There may be more than there was room for. */
	else if (!batch_goes_on(&sweep->batch, 1)) {
		sweep->later = true;
		/* That of a slice always has room. */
		sweep->cut |= page->slices > 1;
	}
	page->swept_used = (uint16_t)page_used(page);
}

/* Looks at a page that the caller owns; takes it out and releases it, or makes
 * holes in it.  There is room in the batch. */
static void page_sweep(
	struct sweep *sweep, struct local *local, struct page *page)
{
	struct heap *heap = sweep->op->heap;

	fl_sweep_look(heap, local, page);
	fl_local_settle(heap, local, page);
	if (page_holed(page) && fl_hole_pending(heap, page)) {
		sweep->later = true;
		return;
	}
	if (fl_floor_current(sweep, local, page)) {
		sweep->later = true;
		return;
	}
	if (fl_class_drop(heap, local, page)) {
		/* Its slices are free now, with what they hold. */
		sweep->later = true;
		return;
	}
	if (!heap_is(heap, FALLOW_CLASS_WINDOW) || page_skips(sweep, page))
		return;
	fl_sweep_purge(sweep, page);
	fl_local_settle(heap, local, page);
}

/* Takes the next page of a list of the context's that this sweep has not seen;
 * it is at the list's end then.  NULL if there is none in front: pages that were
 * seen come there again when they are used, but as a rule not many. */
static struct page *list_next(struct local *local, struct page **head,
	uint32_t number, bool *missed)
{
	struct page *page = *head;
	unsigned i;

	for (i = 0; page != NULL && page_seen(page, number); i++) {
		page = page->next;
		if (page == *head)
			return NULL;
		if (i == STEP_PAGES) {
			*missed |= pass_missed(local->moved, number);
			return NULL;
		}
	}
	if (page == NULL)
		return NULL;
	pass_take(&local->pass, &local->moved, number);
	page->seen = number;
	fl_store_relaxed(head, page->next);
	return page;
}

/* The same of one class: its current page first, then its lists. */
static struct page *class_next(struct local *local, unsigned class,
	uint32_t number, bool *missed)
{
	struct page *page = local->current[class];

	if (page != &fl_page_none && !page_seen(page, number)) {
		page->seen = number;
		return page;
	}
	page = list_next(local, &local->queue[class], number, missed);
	if (page == NULL)
		page = list_next(local, &local->dry[class], number, missed);
	if (page == NULL)
		page = list_next(local, &local->full[class], number, missed);
	return page;
}

/* It goes on in the class of the last page: to look each time behind what was
 * seen in all classes before that costs several times what a page does. */
struct page *fl_sweep_local_next(
	struct local *local, uint32_t number, bool *missed)
{
	unsigned i;

	for (i = 0; i < CLASS_COUNT; i++) {
		struct page *page = class_next(
			local, local->pass_class, number, missed);

		if (page != NULL)
			return page;
		local->pass_class = (local->pass_class + 1) % CLASS_COUNT;
	}
	return NULL;
}

/* Looks at up to `most` pages of a context that the caller is or, being
 * parked, may act for; returns whether there may be more. */
static bool local_step(
	struct sweep *sweep, struct local *local, unsigned most)
{
	struct heap *heap = sweep->op->heap;
	uint32_t blocks = 0;

	if (!fl_local_drain(heap, local) || fl_span_flush(heap, local))
		return true;
	for (; most > 0 && blocks < STEP_BLOCKS && sweep->budget > 0; most--) {
		struct page *page;

		if (!batch_has_room(&sweep->batch, SLICE_RANGES))
			return true;
		page = fl_sweep_local_next(
			local, sweep->number, &sweep->missed);
		if (page == NULL)
			return false;
		sweep->budget--;
		blocks += page->formed;
		page_sweep(sweep, local, page);
	}
	return true;
}

/* Whether the sweep must stop here. */
static bool sweep_spent(const struct sweep *sweep)
{
	return sweep->budget == 0;
}

/* The pages of this context, whichever that is by then. */
static void sweep_own(struct sweep *sweep)
{
	struct op *op = sweep->op;

	while (local_step(sweep, op->local, STEP_PAGES) &&
		!sweep_spent(sweep)) {
		if (!batch_has_room(&sweep->batch, SLICE_RANGES))
			fl_sweep_give(sweep);
		sweep_pause(op);
	}
}

/* One page of a parked context; returns whether there may be another.  The
 * context that comes back waits for one. */
static bool parked_step(struct sweep *sweep, struct local *local)
{
	struct heap *heap = sweep->op->heap;
	struct fl_port_state state = lock_take(&local->lock);
	bool more = parked_open(fl_load_relaxed(&heap->parked[local->index])) &&
		local_step(sweep, local, 1);

	/* What the context does afterwards is not of this epoch's sweep. */
	if (sweep->level == LEVEL_SWEEP)
		fl_store_relaxed(&local->swept, sweep->epoch);
	lock_leave(&local->lock, state);
	return more;
}

/* The pages of parked contexts, as far as the budget does. */
static void sweep_parked(struct sweep *sweep)
{
	struct op *op = sweep->op;
	struct heap *heap = op->heap;
	unsigned i;

	for (i = 0; i < heap->contexts; i++)
		while (!sweep_spent(sweep) &&
			parked_open(fl_load_relaxed(&heap->parked[i])) &&
			parked_step(sweep, heap->locals[i])) {
			if (!batch_has_room(&sweep->batch, SLICE_RANGES))
				fl_sweep_give(sweep);
			sweep_pause(op);
		}
}

/* One abandoned page of a class; returns whether there may be another. */
static bool abandoned_step(struct sweep *sweep, unsigned class)
{
	struct op *op = sweep->op;
	struct heap *heap = op->heap;
	struct page *page = fl_class_abandoned_next(
		heap, class, sweep->number, &sweep->missed);

	if (page == NULL)
		return false;
	sweep->budget--;
	fl_sweep_look(heap, op->local, page);
	if (fl_hole_pending(heap, page))
		sweep->later = true;
	else if (heap_is(heap, FALLOW_CLASS_WINDOW) &&
		!page_empty(heap, page) && !page_skips(sweep, page))
		fl_sweep_purge(sweep, page);
	fl_class_abandoned_back(heap, page);
	return true;
}

/* The pages of no context, as far as the budget does. */
static void sweep_abandoned(struct sweep *sweep)
{
	struct op *op = sweep->op;
	unsigned class;

	for (class = 0; class < CLASS_COUNT; class++)
		while (!sweep_spent(sweep) && abandoned_step(sweep, class)) {
			if (!batch_has_room(&sweep->batch, SLICE_RANGES))
				fl_sweep_give(sweep);
			sweep_pause(op);
		}
}

/* Of a chunk's free slices with memory, those that go now. */
static uint32_t slices_due(struct sweep *sweep, struct chunk *chunk)
{
	struct heap *heap = sweep->op->heap;
	uint32_t slices = fl_chunk_claimable(heap, chunk);
	uint32_t due = 0;

	if (sweep->level >= FALLOW_RECLAIM_FLOOR)
		return slices;
	for (; slices != 0; slices &= slices - 1) {
		unsigned slice = (unsigned)__builtin_ctz(slices);
		uint32_t age = slice_age(heap, chunk, slice);
		size_t bytes = bits_count(chunk->populated[slice])
			<< FALLOW_GRANULE_LOG2;

		if ((age <= HOLD_EPOCHS &&
			    sweep->level < FALLOW_RECLAIM_HOLD) ||
			fl_floor_keeps(sweep, age,
				chunk->base + slice * SLICE_BYTES, bytes))
			sweep->later = true;
		else
			due |= slice_mask(slice, 1);
	}
	return due;
}

/* Looks at chunks from slice *at of the window on until there is no room, and
 * moves it behind what was looked at; returns whether there is more. */
static bool slices_step(struct sweep *sweep, size_t *at)
{
	struct heap *heap = sweep->op->heap;
	struct fl_port_state state = lock_take(&heap->lock);
	unsigned i;
	bool more;

	for (i = 0; i < STEP_CHUNKS; i++) {
		size_t number = *at / CHUNK_SLICES;
		struct chunk *chunk = number < heap->chunk_count
			? heap->chunks[number]
			: NULL;
		uint32_t due;

		fl_watch_steps(1);
		if (number >= heap->chunk_count)
			break;
		if (chunk != NULL) {
			due = slices_due(sweep, chunk) &
				UINT32_MAX << *at % CHUNK_SLICES;
			due = fl_batch_claim(heap, &sweep->batch, chunk, due);
			if (due != 0) {
				*at = number * CHUNK_SLICES +
					(unsigned)__builtin_ctz(due);
				break;
			}
		}
		*at = (number + 1) * CHUNK_SLICES;
	}
	more = *at / CHUNK_SLICES < heap->chunk_count;
	lock_leave(&heap->lock, state);
	return more;
}

/* Whether the provider takes the memory of free slices. */
static bool slices_go(const struct heap *heap)
{
	return !heap_is(heap, FALLOW_CLASS_FLAT) ||
		(heap->provider.capabilities & FALLOW_CAN_DISCARD) != 0;
}

/* The free slices, and what was handed over, from slice *at on. */
static void sweep_slices(struct sweep *sweep, size_t *at)
{
	if (!slices_go(sweep->op->heap))
		return;
	while (slices_step(sweep, at)) {
		fl_sweep_give(sweep);
		sweep_pause(sweep->op);
	}
	fl_sweep_give(sweep);
}

void fl_sweep_all(struct sweep *sweep, size_t *at)
{
	fl_reclaim_handed(sweep);
	sweep_own(sweep);
	sweep_parked(sweep);
	sweep_abandoned(sweep);
	/* A page may go after it was given back: its slices come next. */
	fl_sweep_give(sweep);
	sweep_slices(sweep, at);
	sweep->later |= sweep->missed;
}

/* The pages that were passed by, before it is said that nothing is left. */
static void sweep_skipped(struct sweep *sweep)
{
	struct heap *heap = sweep->op->heap;
	struct fl_port_state state = lock_take(&heap->lock);
	size_t end = heap->chunk_count * CHUNK_SLICES;

	sweep->number = sweep_number(heap);
	lock_leave(&heap->lock, state);
	sweep->thorough = true;
	fl_sweep_all(sweep, &end);
}

/* How many epochs until the provider is asked again for what it refused, twice
 * as many as the last time; 0 if it refused nothing in this one.  Once for all
 * calls of an epoch: when the first of them ends. */
static uint32_t refused_epochs(struct sweep *sweep, bool again)
{
	struct local *local = sweep->op->local;

	if (again)
		return local->refused;
	if (local->refused_in != sweep->epoch)
		local->refused = 0;
	else if (local->refused == 0)
		local->refused = 1;
	else if (local->refused < REFUSED_EPOCHS_MAX)
		local->refused *= 2;
	return local->refused;
}

/* What the sweep leaves for later is noted; returns when that is. */
static uint64_t sweep_next(struct sweep *sweep, bool again)
{
	struct heap *heap = sweep->op->heap;
	struct local *local = sweep->op->local;
	uint32_t refused;

	/* Of an epoch that takes several calls, all of them count. */
	if (sweep->later || fl_load_relaxed(&heap->sweeping.changed) ==
			sweep->epoch)
		fl_store_relaxed(&heap->sweeping.later, sweep->epoch);
	if (sweep->refused)
		local->refused_in = sweep->epoch;
	if (sweep_spent(sweep)) {
		if (sweep->skipped)
			local->passed = sweep->epoch;
		return 1;
	}
	refused = refused_epochs(sweep, again);
	fl_store_relaxed(&local->swept, sweep->epoch);
	/* Pages that a call passed by and had no budget left to walk are walked
	 * in the next epoch, if this one would be the last. */
	if (fl_load_relaxed(&heap->sweeping.later) == sweep->epoch ||
		local->passed != sweep->epoch)
		local->passed = 0;
	/* What came after a sweep in the same epoch is seen by the next. */
	if (again || local->passed != 0 ||
		fl_load_relaxed(&heap->sweeping.later) == sweep->epoch ||
		!fl_epoch_rests(sweep->op))
		return fl_epoch_left(sweep->op, 1);
	/* At rest all the same: whoever makes something says so. */
	return refused == 0 ? 0 : fl_epoch_left(sweep->op, refused);
}

#define CALLER ((uintptr_t)__builtin_return_address(0))

uint64_t fallow_sweep(struct fallow *fallow, size_t budget)
{
	struct op op;
	struct sweep sweep = { .op = &op, .budget = budget };
	struct heap *heap;
	uint64_t next = 1;
	struct local *parked = NULL;
	bool again;

	if (!fl_op_begin(&op, fallow, 0, CALLER))
		return 0;
	heap = op.heap;
	if (!op_may_wait(&op)) {
		op_drop(&op);
		return 1;
	}
	fl_deferred_drain(&op);
	if (fl_local_sweeps(heap, op.local))
		parked = op.local;
	fl_epoch_sweep_begins(heap);
	batch_begin(&sweep.batch);
	fl_epoch_step(&sweep);
	/* One that is parked has not run since it was swept: or it would have
	 * been parked since, which is a change. */
	again = parked == NULL &&
		fl_load_relaxed(&op.local->swept) == sweep.epoch;
	sweep.walk = op.local->passed != 0 && op.local->passed != sweep.epoch;
	fl_sweep_all(&sweep, &heap->sweeping.at);
	if (sweep.skipped && !sweep.later && !sweep_spent(&sweep))
		sweep_skipped(&sweep);
	next = sweep_next(&sweep, again);
	/* A thread that has moved meanwhile knows nothing of this context. */
	if (parked != NULL)
		fl_local_swept(heap, parked, op.local == parked);
	op_drop(&op);
	return next;
}

size_t fl_sweep_slices(struct op *op)
{
	struct sweep sweep = {
		.op = op,
		.level = FALLOW_RECLAIM_SPLIT,
		.budget = SIZE_MAX,
	};
	size_t at = 0;

	batch_begin(&sweep.batch);
	sweep_slices(&sweep, &at);
	return sweep.bytes;
}
