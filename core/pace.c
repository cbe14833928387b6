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
 * With a clock, and `ticks` for what a granule costs, a round gives what is wanted
 * and no more: the step, and what is above the mark.  Where what is idle does not
 * come to that, it goes on with what is free and was used.  Then time must pass,
 * `ticks` for each granule, before there is another; where the mark is reached
 * before, it moves by a step.  So a heap that wants back what it gives loses a
 * known part of its time, however long that goes on, and one that grows for good
 * next to nothing.
 *
 * One round at a time; `busy` is changed by compare-and-swap, the rest of struct
 * pacing is written by who holds that.  chunk->idle is under heap->lock.  Others'
 * pages, and nobody's, are left to sweeps.
 */
#include "pace.h"
#include "bits.h"
#include "chunk.h"
#include "class.h"
#include "epoch.h"
#include "span.h"
#include "sweep.h"

/* The mark moves by a sixteenth of what is held, and not by less than this; with
 * a clock, which bounds what rounds cost, by less. */
#define STEP_SHIFT 4
#define STEP_LEAST ((size_t)1 << 20)
#define STEP_LEAST_TIMED ((size_t)128 << 10)
/* Less than a quarter of a step is not much. */
#define MUCH_SHIFT 2
/* Of what went, half is added to the mark. */
#define CREEP_SHIFT 1
/* From one round of a context to its next so many of its calls take the slow
 * path: what is idle that long will be for longer. */
#define ROUND_CALLS 128
/* What a round costs beside what it gives, and what may go at once after a time
 * without rounds and at first: in granules. */
#define ROUND_COST 8
#define CREDIT_MOST 2048
#define CREDIT_FIRST 256
/* Chunks that are looked at before the lock is let go: a GiB of addresses. */
#define STEP_CHUNKS 512
/* A walk over the free blocks of a page pays if they are few, or if so few are
 * in use, three to two granules, that most granules are free. */
#define WALK_BLOCKS 32
#define WALK_USED (SLICE_GRANULES * 3 / 2)

/* A round, and what it is to bring. */
struct round {
	struct sweep sweep;
	size_t want; /* bytes */
	bool all;    /* not only what is idle */
};

void fl_pace_init(struct heap *heap, size_t from_bytes, uint64_t ticks)
{
	bool off = from_bytes == 0 || !heap_is(heap, FALLOW_CLASS_WINDOW);

	heap->pacing.at = off ? SIZE_MAX : from_bytes;
	if (heap->provider.now != NULL || heap->provider.spent != NULL)
		heap->pacing.ticks = ticks;
}

void fl_pace_forked(struct heap *heap)
{
	heap->pacing.busy = 0;
	/* The copy's clock is another, which may begin anew. */
	heap->pacing.begun = false;
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

/* Whether the page has not been walked as it is, and is as it was at the last look
 * unless `all` are to be; if it is not as it was, this is a look. */
static bool page_idle(struct heap *heap, struct local *local,
	struct page *page, bool all)
{
	if (page_used(page) == (page->swept_used & PAGE_USED) &&
		(fl_load_relaxed(&page->remote) & REMOTE_BLOCKS) == 0)
		return page->swept_used & PAGE_DUE;
	fl_sweep_look(heap, local, page);
	return all;
}

/* Whether what went, and what is on its way, is what was wanted. */
static bool round_enough(const struct round *round)
{
	const struct batch *batch = &round->sweep.batch;
	size_t bytes = round->sweep.bytes;
	size_t i;

	for (i = 0; i < batch->range_count; i++)
		bytes += batch->ranges[i].size;
	return bytes >= round->want;
}

/* Gives back what is idle of a page of the context's.  There is room in the
 * batch. */
static void page_pace(
	struct round *round, struct local *local, struct page *page)
{
	struct sweep *sweep = &round->sweep;
	struct heap *heap = sweep->op->heap;
	bool idle = page_idle(heap, local, page, round->all);

	/* The look may have taken in what others freed. */
	fl_local_settle(heap, local, page);
	if (!idle || (page_holed(page) && fl_hole_pending(heap, page)))
		return;
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
static bool pages_step(struct round *round, struct local *local)
{
	struct sweep *sweep = &round->sweep;
	uint32_t blocks = 0;
	unsigned i;

	for (i = 0; i < STEP_PAGES && blocks < STEP_BLOCKS; i++) {
		struct page *page;

		if (!batch_has_room(&sweep->batch, SLICE_RANGES))
			return true;
		if (round_enough(round))
			return false;
		page = fl_sweep_local_next(
			local, sweep->number, &sweep->missed);
		if (page == NULL)
			return false;
		blocks += page->formed;
		page_pace(round, local, page);
	}
	return true;
}

/* What is idle of the context's pages, whichever that is by then. */
static void pages_pace(struct round *round)
{
	struct sweep *sweep = &round->sweep;
	struct op *op = sweep->op;
	struct fl_port_state state = lock_take(&op->heap->lock);

	sweep->number = sweep_number(op->heap);
	sweep->epoch = op->heap->epoch;
	lock_leave(&op->heap->lock, state);
	while (pages_step(round, op->local)) {
		if (!batch_has_room(&sweep->batch, SLICE_RANGES))
			fl_sweep_give(sweep);
		sweep_pause(op);
	}
	fl_sweep_give(sweep);
}

/* Claims the idle slices of a chunk, and when that was all, notes which are free
 * now; returns whether it was.  What there was no room for comes next, and what
 * the provider refuses of the rest is not idle then, or it would come again. */
static bool chunk_step(struct round *round, struct chunk *chunk)
{
	struct heap *heap = round->sweep.op->heap;
	uint32_t slices = fl_chunk_claimable(heap, chunk);
	uint32_t left;

	if (!round->all)
		slices &= chunk->idle;
	left = fl_batch_claim(heap, &round->sweep.batch, chunk, slices);
	chunk->idle = left != 0 ? left : chunk->warm;
	/* Of those in use of late so many at most: what was refused of them
	 * would come again, too. */
	return left == 0 || round->all;
}

/* Claims the idle slices of chunks from *number on, until there is no room, and
 * notes which are free now; moves *number behind what was looked at.  Returns
 * whether there is more. */
static bool slices_step(struct round *round, size_t *number)
{
	struct sweep *sweep = &round->sweep;
	struct heap *heap = sweep->op->heap;
	struct fl_port_state state = lock_take(&heap->lock);
	size_t end = *number + STEP_CHUNKS;
	bool more;

	while (*number < end && *number < heap->chunk_count &&
		batch_has_room(&sweep->batch, SLICE_RANGES) &&
		!round_enough(round)) {
		struct chunk *chunk = heap->chunks[*number];

		fl_watch_steps(1);
		if (chunk != NULL && !chunk_step(round, chunk))
			break;
		++*number;
	}
	more = *number < heap->chunk_count && !round_enough(round);
	lock_leave(&heap->lock, state);
	return more;
}

/* The idle slices of all chunks. */
static void slices_pace(struct round *round)
{
	size_t number = 0;

	while (slices_step(round, &number)) {
		fl_sweep_give(&round->sweep);
		sweep_pause(round->sweep.op);
	}
	fl_sweep_give(&round->sweep);
}

/* Frees the spans that the context has kept: they can be idle next time. */
static void spans_pace(struct op *op)
{
	unsigned n = 0;

	while (fl_span_flush(op->heap, op->local))
		if (++n % STEP_SPANS == 0)
			sweep_pause(op);
}

/* How far the mark moves, of a heap that holds so much. */
static size_t pacing_step(const struct heap *heap, size_t held)
{
	size_t step = held >> STEP_SHIFT;
	size_t least = heap->pacing.ticks > 0 ? STEP_LEAST_TIMED : STEP_LEAST;

	return step < least ? least : step;
}

/* Moves the mark, after a round that gave so many bytes back, for a call that is
 * about to commit `more`. */
static void mark_move(struct heap *heap, size_t bytes, size_t more)
{
	size_t held = fl_load_relaxed(&heap->counters.committed) + more;
	size_t at = heap->pacing.at;
	size_t step = pacing_step(heap, held);

	if (heap->pacing.ticks == 0 && bytes >= step >> MUCH_SHIFT)
		at += bytes >> CREEP_SHIFT;
	/* Nor is the next round due before something has happened. */
	if (at < held + step / 2)
		at = held + step;
	fl_store_relaxed(&heap->pacing.at, at);
}

/* Whether the time has passed that rounds so far have cost.  Drops the context. */
static bool round_paid(struct op *op)
{
	struct pacing *pacing = &op->heap->pacing;
	uint64_t now = fl_epoch_spent(op);
	uint64_t most = pacing->ticks * CREDIT_MOST;

	if (!pacing->begun)
		pacing->paid = now - pacing->ticks * CREDIT_FIRST;
	pacing->begun = true;
	if ((int64_t)(now - pacing->paid) < 0)
		return false;
	if (now - pacing->paid > most)
		pacing->paid = now - most;
	return true;
}

/* Begins a round; returns whether there is to be one.  May drop the context. */
static bool round_begin(struct op *op, size_t more)
{
	struct local *local = op->local;
	struct pacing *pacing = &op->heap->pacing;
	uint64_t calls = local->counters.slow_paths;
	uint32_t idle = 0;

	if (pacing->ticks == 0 && calls - local->paced < ROUND_CALLS)
		return false;
	/* Pairs with the release in fl_pace(). */
	if (!fl_cas_acquire(&pacing->busy, &idle, (uint32_t)1))
		return false;
	local->paced = calls;
	if (pacing->ticks == 0 || round_paid(op))
		return true;
	mark_move(op->heap, 0, more);
	fl_store_release(&pacing->busy, 0);
	return false;
}

/* Gives back what is idle; if the time is bounded until it is enough, and where
 * that is not, what else is free. */
static void round_make(struct round *round, size_t more)
{
	struct op *op = round->sweep.op;
	struct pacing *pacing = &op->heap->pacing;
	size_t held = fl_load_relaxed(&op->heap->counters.committed) + more;

	round->want = SIZE_MAX;
	if (pacing->ticks > 0)
		round->want = pacing_step(op->heap, held) +
			(held > pacing->at ? held - pacing->at : 0);
	spans_pace(op);
	slices_pace(round);
	pages_pace(round);
	round->all = pacing->ticks > 0;
	if (!round->all || round_enough(round))
		return;
	slices_pace(round);
	pages_pace(round);
}

void fl_pace(struct op *op, size_t more)
{
	struct heap *heap = op->heap;
	struct pacing *pacing = &heap->pacing;
	struct round round = {
		.sweep = { .op = op, .level = FALLOW_RECLAIM_FLOOR },
	};

	if (!round_begin(op, more))
		return;
	batch_begin(&round.sweep.batch);
	round_make(&round, more);
	mark_move(heap, round.sweep.bytes, more);
	pacing->paid += pacing->ticks * (ROUND_COST +
		(round.sweep.bytes >> FALLOW_GRANULE_LOG2));
	/* What was looked at looks to this epoch's sweep as if it had seen it. */
	heap_changed(heap);
	/* Pairs with the acquire in round_begin(): the next sees this mark. */
	fl_store_release(&pacing->busy, 0);
}
