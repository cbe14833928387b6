/* SPDX-License-Identifier: MIT */
/*
 * The pace at which a heap grows: before it holds more than it ever did, it gives
 * back what lies idle.
 *
 * Memory that one size has left is of no use to another: free slices that are
 * too few in a row, pages in which a block or two are in use.  Sweeps give it
 * back, but they count in epochs, and a program may reach its peak before the
 * first has passed.  So the heap has a mark, `at`: the slow path of an allocation
 * that finds more committed makes a *round* first.
 *
 *   idle    of a free slice: it was free at the last round, and was not taken
 *           since (chunk->idle); of a page: as many of its blocks are in use as
 *           then, and it has not been walked as it is
 *
 * What is idle goes: slices, and of this context's pages granules without a block
 * in use; an empty small page becomes a free slice, which can be idle at the next
 * round.  What was used in between stays, for it is about to be used again: taking
 * everything would keep the peak lower still, and cost a commit for each block.
 *
 * Then the mark moves.  By the step, if there was not much; else by half of what
 * went.  So a heap whose memory is all in use makes a round for each sixteenth
 * that it grows, and one that wants back what it gives cannot go on doing so: of
 * N bytes it gives away 2 N before its mark is N higher.
 *
 * One round at a time; `busy` is changed by compare-and-swap, the rest of struct
 * pacing is written by who holds that.  chunk->idle is under heap->lock.  Others'
 * pages, and nobody's, are left to sweeps.
 */
#include "pace.h"
#include "bits.h"
#include "chunk.h"
#include "class.h"
#include "span.h"
#include "sweep.h"

/* The mark moves by a sixteenth of what is held, and not by less than this. */
#define STEP_SHIFT 4
#define STEP_LEAST ((size_t)1 << 20)
/* Less than a quarter of a step is not much. */
#define MUCH_SHIFT 2
/* Of what went, half is added to the mark. */
#define CREEP_SHIFT 1
/* From one round of a context to its next so many of its calls take the slow
 * path: what is idle that long will be for longer. */
#define ROUND_CALLS 128
/* Chunks that are looked at before the lock is let go: a GiB of addresses. */
#define STEP_CHUNKS 512
/* A walk over the free blocks of a page pays if they are few, or if so few are
 * in use, three to two granules, that most granules are free. */
#define WALK_BLOCKS 32
#define WALK_USED (SLICE_GRANULES * 3 / 2)

void fl_pace_init(struct heap *heap, size_t from_bytes)
{
	bool off = from_bytes == 0 || !heap_is(heap, FALLOW_CLASS_WINDOW);

	heap->pacing.at = off ? SIZE_MAX : from_bytes;
}

void fl_pace_forked(struct heap *heap)
{
	heap->pacing.busy = 0;
}

/* Bytes of a page that hold memory and no block in use. */
static size_t page_room(const struct page *page)
{
	const uint16_t *words = &page->chunk->populated[page->first_slice];
	size_t used = (size_t)page_used(page) * page->block_size;
	size_t held = 0;
	unsigned i;

	for (i = 0; i < page->slices; i++)
		held += (size_t)bits_count(words[i]) << FALLOW_GRANULE_LOG2;
	return held > used ? held - used : 0;
}

/* Whether there may be enough in a page for the walk over its free blocks. */
static bool page_pays(const struct local *local, const struct page *page)
{
	if (page_room(page) < GRANULE_BYTES)
		return false;
	/* The blocks of a current page are in caches, its free ones behind. */
	return page->kind != PAGE_SMALL || page->capacity <= WALK_BLOCKS ||
		page_used(page) <= WALK_USED ||
		local->current[page->class] == page;
}

/* Whether the page is as it was at the last look, and has not been walked as it
 * is; if it is not as it was, this is a look. */
static bool page_idle(
	struct heap *heap, struct local *local, struct page *page)
{
	if (page_used(page) == (page->swept_used & PAGE_USED) &&
		(fl_load_relaxed(&page->remote) & REMOTE_BLOCKS) == 0)
		return page->swept_used & PAGE_DUE;
	fl_sweep_look(heap, local, page);
	return false;
}

/* Gives back what is idle of a page of the context's.  There is room in the
 * batch. */
static void page_pace(
	struct sweep *sweep, struct local *local, struct page *page)
{
	struct heap *heap = sweep->op->heap;

	if (!page_idle(heap, local, page) ||
		(page_holed(page) && fl_hole_pending(heap, page)))
		return;
	fl_local_settle(heap, local, page);
	/* A slice is anybody's next; the one that a class allocates from, and
	 * pages of more, have memory where blocks are to come, and no more. */
	if (page->kind == PAGE_SMALL && local->current[page->class] != page &&
		fl_class_drop(heap, local, page))
		return;
	if (!page_pays(local, page))
		return;
	fl_sweep_purge(sweep, page);
	fl_local_settle(heap, local, page);
}

/* Looks at a few pages of the context; returns whether there may be more. */
static bool pages_step(struct sweep *sweep, struct local *local)
{
	uint32_t blocks = 0;
	unsigned i;

	for (i = 0; i < STEP_PAGES && blocks < STEP_BLOCKS; i++) {
		struct page *page;

		if (!batch_has_room(&sweep->batch, SLICE_RANGES))
			return true;
		page = fl_sweep_local_next(
			local, sweep->number, &sweep->missed);
		if (page == NULL)
			return false;
		blocks += page->formed;
		page_pace(sweep, local, page);
	}
	return true;
}

/* What is idle of the context's pages, whichever that is by then. */
static void pages_pace(struct sweep *sweep)
{
	struct op *op = sweep->op;

	while (pages_step(sweep, op->local)) {
		if (!batch_has_room(&sweep->batch, SLICE_RANGES))
			fl_sweep_give(sweep);
		sweep_pause(op);
	}
	fl_sweep_give(sweep);
}

/* Claims the idle slices of a chunk, and when that was all, notes which are free
 * now; returns whether it was.  What there was no room for comes next, and what
 * the provider refuses of the rest is not idle then, or it would come again. */
static bool chunk_step(struct sweep *sweep, struct chunk *chunk)
{
	struct heap *heap = sweep->op->heap;
	uint32_t left = fl_batch_claim(heap, &sweep->batch, chunk,
		fl_chunk_claimable(heap, chunk) & chunk->idle);

	chunk->idle = left != 0 ? left : chunk->warm;
	return left == 0;
}

/* Claims the idle slices of chunks from *number on, until there is no room, and
 * notes which are free now; moves *number behind what was looked at.  Returns
 * whether there is more. */
static bool slices_step(struct sweep *sweep, size_t *number)
{
	struct heap *heap = sweep->op->heap;
	struct fl_port_state state = lock_take(&heap->lock);
	size_t end = *number + STEP_CHUNKS;
	bool more;

	while (*number < end && *number < heap->chunk_count &&
		batch_has_room(&sweep->batch, SLICE_RANGES)) {
		struct chunk *chunk = heap->chunks[*number];

		fl_watch_steps(1);
		if (chunk != NULL && !chunk_step(sweep, chunk))
			break;
		++*number;
	}
	more = *number < heap->chunk_count;
	lock_leave(&heap->lock, state);
	return more;
}

/* The idle slices of all chunks. */
static void slices_pace(struct sweep *sweep)
{
	size_t number = 0;

	while (slices_step(sweep, &number)) {
		fl_sweep_give(sweep);
		sweep_pause(sweep->op);
	}
	fl_sweep_give(sweep);
}

/* Frees the spans that the context has kept: they can be idle next time. */
static void spans_pace(struct op *op)
{
	unsigned n = 0;

	while (fl_span_flush(op->heap, op->local))
		if (++n % STEP_SPANS == 0)
			sweep_pause(op);
}

/* Moves the mark, after a round that gave so many bytes back. */
static void mark_move(struct heap *heap, size_t bytes)
{
	size_t held = fl_load_relaxed(&heap->counters.committed);
	size_t at = heap->pacing.at;
	size_t step = held >> STEP_SHIFT;

	if (step < STEP_LEAST)
		step = STEP_LEAST;
	if (bytes >= step >> MUCH_SHIFT)
		at += bytes >> CREEP_SHIFT;
	/* Nor is the next round due before something has happened. */
	if (at < held + step / 2)
		at = held + step;
	fl_store_relaxed(&heap->pacing.at, at);
}

/* Begins a round; returns whether there is to be one. */
static bool round_begin(struct op *op)
{
	struct local *local = op->local;
	uint64_t calls = local->counters.slow_paths;
	uint32_t idle = 0;

	if (calls - local->paced < ROUND_CALLS)
		return false;
	/* Pairs with the release in fl_pace(). */
	if (!fl_cas_acquire(&op->heap->pacing.busy, &idle, (uint32_t)1))
		return false;
	local->paced = calls;
	return true;
}

void fl_pace(struct op *op)
{
	struct heap *heap = op->heap;
	struct sweep sweep = { .op = op, .level = FALLOW_RECLAIM_FLOOR };
	struct fl_port_state state;

	if (!round_begin(op))
		return;
	state = lock_take(&heap->lock);
	sweep.number = sweep_number(heap);
	sweep.epoch = heap->epoch;
	lock_leave(&heap->lock, state);
	batch_begin(&sweep.batch);
	spans_pace(op);
	pages_pace(&sweep);
	slices_pace(&sweep);
	mark_move(heap, sweep.bytes);
	/* What was looked at looks to this epoch's sweep as if it had seen it. */
	heap_changed(heap);
	/* Pairs with the acquire in round_begin(): the next sees this mark. */
	fl_store_release(&heap->pacing.busy, 0);
}
