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
 *   hold      pages of blocks above a slice, and free slices, used in this epoch
 *             or the last; of such pages a block that was free at the last
 *             sweep too goes nevertheless
 *   floor     of these, the most recently used up to so many bytes
 *   current   the small or medium page that a class allocates from
 *
 * The floor is one sum for all contexts: when an epoch begins, everything that
 * it may cover is counted by age, and an age is found below which all of it
 * fits.  So no sweep starves another, and nothing is handed out that would have
 * to be taken back.  What is older than floor_epochs is never counted, so it
 * always drains.
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
#include "reserve.h"

/* Pages that are looked at before the context is let go. */
#define STEP_PAGES 8
/* Chunks that are looked at before the lock is let go: a GiB of addresses. */
#define STEP_CHUNKS 512
/* The hold: what was used this many epochs ago stays. */
#define HOLD_EPOCHS 1
/* What current pages may keep. */
#define CURRENT_BYTES ((size_t)1 << 20)
/* Every so many epochs no page is skipped. */
#define SKIP_EPOCHS 64
/* Ages are counted in so many steps up to floor_epochs. */
#define AGES 64
/* A page of at most 56 blocks has no more holes than so many batches carry. */
#define RECLAIM_PASSES 3
/* Level 0 is a sweep; above it, what fallow_reclaim() was told. */
#define LEVEL_SWEEP 0

struct sweep {
	struct op *op;
	unsigned level;
	uint32_t number; /* pages with it have been seen */
	uint32_t epoch;
	size_t budget;   /* pages that may still be looked at */
	size_t bytes;    /* given back so far */
	bool thorough;   /* skip no page */
	bool refused;
	bool later;      /* something was left that a later sweep can have */
	bool skipped;    /* pages were */
	bool cut;        /* a page had more than the batch had room for */
	bool walk;       /* none is, for the last time it was too many */
	struct batch batch;
};

/* Lets handlers in; afterwards everything is to be read again. */
static void sweep_pause(struct op *op)
{
	op_drop(op);
	op_rejoin(op);
}

/* Gives back what has been collected. */
static void sweep_give(struct sweep *sweep)
{
	sweep->bytes += fl_batch_give(
		sweep->op, &sweep->batch, &sweep->refused);
	if (sweep->refused)
		sweep->later = true;
}

/* ------------------------------------------------------------------ floor -- */

/* How many epochs ago a page was used. */
static uint32_t page_age(uint32_t epoch, const struct page *page)
{
	return (uint16_t)((uint16_t)epoch - page->epoch);
}

static uint32_t slice_age(
	uint32_t epoch, const struct chunk *chunk, unsigned slice)
{
	return ((uint16_t)epoch - chunk->stamp[slice]) & STAMP_EPOCHS;
}

/* Bytes of a page's free blocks that are resident: what the floor counts. */
static size_t free_bytes(const struct page *page)
{
	return (size_t)page_free_count(page) * page->block_size;
}

/* Takes so many bytes out of what is left of a sum; returns whether they are
 * there.  Under heap->lock. */
static bool sum_takes(size_t *left, size_t bytes)
{
	if (bytes > *left)
		return false;
	*left -= bytes;
	return true;
}

/* Whether the floor keeps so many bytes of this age; counts them if so.  Under
 * heap->lock. */
static bool floor_keeps(struct sweep *sweep, uint32_t age, size_t bytes)
{
	struct sweeping *sweeping = &sweep->op->heap->sweeping;
	uint32_t step = age * AGES / sweeping->floor_epochs;

	if (sweep->level >= FALLOW_RECLAIM_FLOOR ||
		age >= sweeping->floor_epochs)
		return false;
	if (step == sweeping->floor_age)
		return sum_takes(&sweeping->floor_left, bytes);
	return sweeping->floor_ages >> step & 1;
}

/* What the floor may cover, by age: how much, and the smallest piece of it. */
struct ages {
	uint32_t granules[AGES];
	uint16_t least[AGES];
};
_Static_assert(AGES <= 64, "an age is a bit of sweeping.floor_ages");
_Static_assert(CHUNK_BYTES >> FALLOW_GRANULE_LOG2 <= UINT16_MAX,
	"a piece is at most a page");

/* Adds a piece. */
static void ages_add(struct ages *ages, uint32_t step, size_t bytes)
{
	uint32_t granules = (uint32_t)(bytes >> FALLOW_GRANULE_LOG2);

	if (granules == 0)
		return;
	if (ages->granules[step] == 0 || granules < ages->least[step])
		ages->least[step] = (uint16_t)granules;
	ages->granules[step] += granules;
}

/* Blocks of a page with bits that are resident and free, also those that the
 * owner has not taken in: a parked one's frees are others'. */
static uint32_t free_blocks(const struct page *page)
{
	return bits_count(fl_load_relaxed(&page->bits)) +
		remote_count(page, fl_load_relaxed(&page->remote));
}

/* Adds to the sums what the floor may cover of a chunk.  Under heap->lock. */
static void chunk_count_ages(
	const struct heap *heap, const struct chunk *chunk, struct ages *ages)
{
	uint32_t epochs = heap->sweeping.floor_epochs;
	uint32_t slices = chunk->warm;
	uint32_t heads = chunk->heads;
	uint32_t age;

	for (; slices != 0; slices &= slices - 1) {
		unsigned slice = (unsigned)__builtin_ctz(slices);

		age = slice_age(heap->epoch, chunk, slice);
		if (age < epochs)
			ages_add(ages, age * AGES / epochs,
				(size_t)bits_count(chunk->populated[slice])
					<< FALLOW_GRANULE_LOG2);
	}
	for (; heads != 0; heads &= heads - 1) {
		const struct page *page =
			&chunk->records[__builtin_ctz(heads)];

		if (page->kind != PAGE_WHOLE)
			continue;
		age = (uint16_t)(heap->epoch -
			fl_load_relaxed(&page->epoch));
		if (age < epochs)
			ages_add(ages, age * AGES / epochs,
				(size_t)free_blocks(page) * page->block_size);
	}
}

/* The bytes that the floor may keep. */
static size_t floor_bytes(const struct heap *heap)
{
	size_t most = fl_load_relaxed(&heap->counters.reserved) / 64;

	if (heap->sweeping.floor_wanted == FALLOW_FLOOR_NONE)
		return 0;
	if (heap->sweeping.floor_wanted != 0)
		return heap->sweeping.floor_wanted;
	return most < FALLOW_FLOOR_BYTES ? most : FALLOW_FLOOR_BYTES;
}

/* Counts the ages of the next chunks; returns whether there are more. */
static bool ages_step(struct heap *heap, size_t *number, struct ages *ages)
{
	struct fl_port_state state = lock_take(&heap->lock);
	bool more = true;
	unsigned i;

	for (i = 0; more && i < STEP_CHUNKS / CHUNK_SLICES; i++) {
		more = *number < heap->chunk_count;
		fl_watch_steps(2 * CHUNK_SLICES);
		if (more && heap->chunks[*number] != NULL)
			chunk_count_ages(heap, heap->chunks[*number], ages);
		*number += more;
	}
	lock_leave(&heap->lock, state);
	return more;
}

/* Decides for this epoch what the floor keeps: from the youngest on every age
 * that fits; the first that does not, as far as it goes.  One of which no piece
 * fits stops nobody.  Not inlined: its sums are on the stack. */
static __attribute__((noinline)) void floor_decide(struct sweep *sweep)
{
	struct heap *heap = sweep->op->heap;
	struct ages ages = { .granules = { 0 } };
	size_t left = floor_bytes(heap) >> FALLOW_GRANULE_LOG2;
	struct fl_port_state state;
	uint64_t whole = 0;
	size_t number = 0;
	uint32_t age;

	while (ages_step(heap, &number, &ages))
		sweep_pause(sweep->op);
	for (age = 0; age < AGES; age++) {
		if (ages.granules[age] <= left) {
			left -= ages.granules[age];
			whole |= (uint64_t)1 << age;
		} else if (ages.least[age] <= left) {
			break;
		}
	}
	state = lock_take(&heap->lock);
	heap->sweeping.floor_left = left << FALLOW_GRANULE_LOG2;
	heap->sweeping.current_left = CURRENT_BYTES;
	heap->sweeping.floor_age = age;
	heap->sweeping.floor_ages = whole;
	lock_leave(&heap->lock, state);
}

/* ----------------------------------------------------------------- epochs -- */

/* Reads the clock, with the context left, as at every call of the provider. */
static uint64_t ticks_now(struct op *op)
{
	const struct fallow_provider *provider = &op->heap->provider;
	uint64_t now;

	if (provider->now == NULL)
		return 0;
	op_drop(op);
	now = provider->now(provider->ctx);
	op_rejoin(op);
	return now;
}

/* Whether an epoch ends now, and makes it so.  Under heap->lock. */
static bool epoch_ends(struct heap *heap, uint64_t now, uint32_t context)
{
	struct sweeping *sweeping = &heap->sweeping;

	if (sweeping->number != 0) {
		/* The clock was read before the lock was had: the epoch may
		 * have begun since. */
		if (heap->provider.now != NULL &&
			(now < sweeping->began ||
				now - sweeping->began < sweeping->epoch_ticks))
			return false;
		/* Without a clock eight idle loops must not age memory eight
		 * times as fast. */
		if (heap->provider.now == NULL && sweeping->owner != context &&
			sweeping->owner != FALLOW_NO_CONTEXT)
			return false;
	}
	fl_store_relaxed(&heap->epoch, heap->epoch + 1);
	sweeping->owner = context;
	fl_store_relaxed(&sweeping->began, now);
	fl_store_relaxed(&sweeping->number, ++heap->sweeps);
	sweeping->at = 0;
	return true;
}

/* The epoch began now: read after the counter moved, so that whoever was held
 * up before that makes the epoch longer, not shorter; nor does one that is held
 * up after it make another's epoch seem older. */
static void epoch_began(struct heap *heap, uint64_t now)
{
	struct fl_port_state state = lock_take(&heap->lock);

	if (now > heap->sweeping.began)
		fl_store_relaxed(&heap->sweeping.began, now);
	lock_leave(&heap->lock, state);
}

/* Begins a new epoch if one is due. */
static void epoch_step(struct sweep *sweep)
{
	struct op *op = sweep->op;
	struct heap *heap = op->heap;
	uint64_t now = ticks_now(op);
	struct fl_port_state state = lock_take(&heap->lock);
	bool begun = epoch_ends(heap, now, op->local->index);

	lock_leave(&heap->lock, state);
	if (begun) {
		epoch_began(heap, ticks_now(op));
		floor_decide(sweep);
	}
	sweep->epoch = fl_load_relaxed(&heap->epoch);
	sweep->number = fl_load_relaxed(&heap->sweeping.number);
}

/* ------------------------------------------------------------------ pages -- */

/* Takes in what others freed, and whether the page was used since the last
 * sweep: the hot paths keep no note of it. */
static void page_look(
	struct sweep *sweep, struct local *local, struct page *page)
{
	bool folded = fl_page_fold(page, local) > 0;

	fl_local_account(sweep->op->heap, page);
	if (!folded && page->used == (page->swept_used & PAGE_USED))
		return;
	page->swept_used = (uint16_t)page->used | PAGE_DUE;
	/* Others use them by slow paths, which note it. */
	if (page->kind != PAGE_WHOLE)
		fl_store_relaxed(&page->epoch, (uint16_t)sweep->epoch);
}

/* Whether the page is passed by: no block more or less is in use than when it
 * was last walked. */
static bool page_skips(struct sweep *sweep, struct page *page)
{
	if (sweep->level > LEVEL_SWEEP || page->kind == PAGE_WHOLE)
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

/* Whether the page stays because its class allocates from it. */
static bool current_keeps(struct sweep *sweep, const struct page *page)
{
	struct heap *heap = sweep->op->heap;
	struct sweeping *sweeping = &heap->sweeping;
	size_t bytes = page->committed;
	struct fl_port_state state;
	bool fits;

	if (sweep->level >= FALLOW_RECLAIM_FLOOR ||
		page->place != PLACE_CURRENT || page->kind == PAGE_WHOLE ||
		page_age(sweep->epoch, page) >= sweeping->floor_epochs ||
		sweeping->floor_wanted == FALLOW_FLOOR_NONE)
		return false;
	state = lock_take(&heap->lock);
	fits = sum_takes(&sweeping->current_left, bytes);
	lock_leave(&heap->lock, state);
	return fits;
}

/* Of a page with bits, the blocks that may go. */
static uint64_t page_doomed(struct sweep *sweep, struct page *page)
{
	uint32_t age = page_age(sweep->epoch, page);
	uint64_t idle = page->idle & page->bits;
	size_t bytes = free_bytes(page);
	struct fl_port_state state;
	bool kept;

	if (page->kind != PAGE_WHOLE)
		return UINT64_MAX;
	page->idle = (uint32_t)page->bits;
	if (page->bits == 0)
		return UINT64_MAX;
	state = lock_take(&sweep->op->heap->lock);
	kept = floor_keeps(sweep, age, bytes);
	lock_leave(&sweep->op->heap->lock, state);
	if (kept) {
		sweep->later = true;
		return 0;
	}
	if (sweep->level >= FALLOW_RECLAIM_HOLD || age > HOLD_EPOCHS)
		return UINT64_MAX;
	if (idle != page->bits)
		sweep->later = true;
	return idle;
}
_Static_assert(CHUNK_BYTES / SLICE_BYTES <= 32,
	"a page of blocks above a slice has fewer than 32 of them");

/* Makes holes in a page that the caller owns; adds them to the batch, or hands
 * them over if there is none. */
static void page_purge(struct sweep *sweep, struct page *page, uint64_t only)
{
	struct heap *heap = sweep->op->heap;
	uint32_t used = page->used;

	fl_batch_entry(&sweep->batch, (struct entry){ .page = page });
	if (fl_hole_make(heap, page, only, fl_batch_range, &sweep->batch) == 0)
		sweep->batch.entry_count--;
	/* There may be more than there was room for. */
	else if (!batch_has_room(&sweep->batch, 1)) {
		sweep->later = true;
		/* That of a slice always has room. */
		sweep->cut |= page->slices > 1;
	}
	if (page->place == PLACE_QUEUE)
		page->wake += page->used - used;
	page->swept_used = (uint16_t)page->used;
}

/* Looks at a page that the caller owns; takes it out and releases it, or makes
 * holes in it.  There is room in the batch. */
static void page_sweep(
	struct sweep *sweep, struct local *local, struct page *page)
{
	struct heap *heap = sweep->op->heap;
	uint64_t only;

	page_look(sweep, local, page);
	fl_local_settle(heap, local, page);
	if (page_holed(page) && fl_hole_pending(heap, page)) {
		sweep->later = true;
		return;
	}
	if (current_keeps(sweep, page)) {
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
	only = page_doomed(sweep, page);
	page_purge(sweep, page, only);
	fl_local_settle(heap, local, page);
}

/* Takes the next page of a list that this sweep has not seen; it is at the
 * list's end then.  NULL if there is none: pages that were seen come to the
 * front again when they are used, but not many. */
static struct page *list_next(struct page **head, uint32_t number)
{
	struct page *page = *head;
	unsigned i;

	for (i = 0; page != NULL && page_seen(page, number); i++) {
		page = page->next;
		if (page == *head || i == STEP_PAGES)
			return NULL;
	}
	if (page == NULL)
		return NULL;
	page->seen = number;
	fl_store_relaxed(head, page->next);
	return page;
}

/* The next page of a context that this sweep has not seen; NULL if none. */
static struct page *local_next(struct local *local, uint32_t number)
{
	unsigned class;

	for (class = 0; class < CLASS_COUNT; class++) {
		struct page *page = local->current[class];

		if (page != &fl_page_none && !page_seen(page, number)) {
			page->seen = number;
			return page;
		}
		page = list_next(&local->queue[class], number);
		if (page == NULL)
			page = list_next(&local->full[class], number);
		if (page != NULL)
			return page;
	}
	return NULL;
}

/* Looks at up to `most` pages of a context that the caller is or, being
 * parked, may act for; returns whether there may be more. */
static bool local_step(
	struct sweep *sweep, struct local *local, unsigned most)
{
	struct heap *heap = sweep->op->heap;

	if (!fl_local_drain(heap, local))
		return true;
	for (; most > 0 && sweep->budget > 0; most--) {
		struct page *page;

		if (!batch_has_room(&sweep->batch, SLICE_RANGES))
			return true;
		page = local_next(local, sweep->number);
		if (page == NULL)
			return false;
		sweep->budget--;
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
			sweep_give(sweep);
		sweep_pause(op);
	}
}

/* One page of a parked context; returns whether there may be another.  The
 * context that comes back waits for one. */
static bool parked_step(struct sweep *sweep, struct local *local)
{
	struct heap *heap = sweep->op->heap;
	struct fl_port_state state = lock_take(&local->lock);
	bool more = fl_load_relaxed(&heap->parked[local->index]) != 0 &&
		local_step(sweep, local, 1);

	lock_leave(&local->lock, state);
	return more;
}

static void sweep_parked(struct sweep *sweep)
{
	struct op *op = sweep->op;
	struct heap *heap = op->heap;
	unsigned i;

	for (i = 0; i < heap->contexts; i++)
		while (!sweep_spent(sweep) &&
			fl_load_relaxed(&heap->parked[i]) != 0 &&
			parked_step(sweep, heap->locals[i])) {
			if (!batch_has_room(&sweep->batch, SLICE_RANGES))
				sweep_give(sweep);
			sweep_pause(op);
		}
}

/* One abandoned page of a class; returns whether there may be another. */
static bool abandoned_step(struct sweep *sweep, unsigned class)
{
	struct op *op = sweep->op;
	struct heap *heap = op->heap;
	struct page *page = fl_class_abandoned_next(
		heap, class, sweep->number);

	if (page == NULL)
		return false;
	sweep->budget--;
	page_look(sweep, op->local, page);
	if (fl_hole_pending(heap, page))
		sweep->later = true;
	else if (heap_is(heap, FALLOW_CLASS_WINDOW) &&
		!page_empty(heap, page) && !page_skips(sweep, page))
		page_purge(sweep, page, page_doomed(sweep, page));
	fl_class_abandoned_back(heap, page);
	return true;
}

static void sweep_abandoned(struct sweep *sweep)
{
	struct op *op = sweep->op;
	unsigned class;

	for (class = 0; class < CLASS_COUNT; class++)
		while (!sweep_spent(sweep) && abandoned_step(sweep, class)) {
			if (!batch_has_room(&sweep->batch, SLICE_RANGES))
				sweep_give(sweep);
			sweep_pause(op);
		}
}

/* ----------------------------------------------------------------- slices -- */

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
		uint32_t age = slice_age(sweep->epoch, chunk, slice);
		size_t bytes = bits_count(chunk->populated[slice])
			<< FALLOW_GRANULE_LOG2;

		if ((age <= HOLD_EPOCHS &&
			    sweep->level < FALLOW_RECLAIM_HOLD) ||
			floor_keeps(sweep, age, bytes))
			sweep->later = true;
		else
			due |= slice_mask(slice, 1);
	}
	return due;
}

/* What was handed over in a chunk, as far as there is room; returns whether
 * that was all. */
static bool handed_take(struct sweep *sweep, struct chunk *chunk)
{
	while (chunk->handed != 0) {
		unsigned first = (unsigned)__builtin_ctz(chunk->handed);

		if (!batch_has_room(&sweep->batch, SLICE_RANGES))
			return false;
		if (!fl_batch_handed(&sweep->batch, &chunk->records[first]))
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

/* What contexts that run have handed over. */
static void sweep_handed(struct sweep *sweep)
{
	size_t number = 0;

	while (handed_step(sweep, &number)) {
		sweep_give(sweep);
		sweep_pause(sweep->op);
	}
	sweep_give(sweep);
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
		sweep_give(sweep);
		sweep_pause(sweep->op);
	}
	sweep_give(sweep);
}

/* ----------------------------------------------------------------- sweeps -- */

/* Everything that the call may sweep. */
static void sweep_all(struct sweep *sweep, size_t *at)
{
	sweep_handed(sweep);
	sweep_own(sweep);
	sweep_parked(sweep);
	sweep_abandoned(sweep);
	/* A page may go after it was given back: its slices come next. */
	sweep_give(sweep);
	sweep_slices(sweep, at);
}

/* The pages that were passed by, before it is said that nothing is left. */
static void sweep_skipped(struct sweep *sweep)
{
	struct heap *heap = sweep->op->heap;
	struct fl_port_state state = lock_take(&heap->lock);
	size_t end = heap->chunk_count * CHUNK_SLICES;

	sweep->number = ++heap->sweeps;
	lock_leave(&heap->lock, state);
	sweep->thorough = true;
	sweep_all(sweep, &end);
}

/* Ticks until this epoch can end; at least 1. */
static uint64_t epoch_left(struct op *op)
{
	const struct sweeping *sweeping = &op->heap->sweeping;
	uint64_t now = ticks_now(op);
	uint64_t began = fl_load_relaxed(&sweeping->began);

	if (op->heap->provider.now == NULL)
		return 1;
	/* Another epoch may have begun meanwhile. */
	if (now < began)
		return sweeping->epoch_ticks;
	if (now - began >= sweeping->epoch_ticks)
		return 1;
	return sweeping->epoch_ticks - (now - began);
}

/* Who asks from now on is heard at the end; who asked before did what they tell
 * of before this. */
static void sweep_begins(struct heap *heap)
{
	uint32_t wanted = fl_load_relaxed(&heap->sweeping.wanted);

	/* Pairs with fl_sweep_wanted(): a store would hide its request from a
	 * sweep that goes on, and the change from this one. */
	while (!fl_cas_acq_rel(
		&heap->sweeping.wanted, &wanted, WANTED_SWEEPING))
		;
}

/* Nothing is left, and nobody has made something else since the sweep began:
 * from now on whoever does says so.  Returns whether.  Without a clock others
 * may end epochs then. */
static bool sweep_rests(struct op *op)
{
	struct sweeping *sweeping = &op->heap->sweeping;
	uint32_t wanted = WANTED_SWEEPING;

	/* Pairs with fl_sweep_wanted(). */
	if (!fl_cas_acq_rel(&sweeping->wanted, &wanted, WANTED_REST) &&
		wanted != WANTED_REST)
		return false;
	fl_sweep_leave(op->heap, op->local->index);
	return true;
}

/* What the sweep leaves for later is noted; returns when that is. */
static uint64_t sweep_next(struct sweep *sweep, bool again)
{
	struct heap *heap = sweep->op->heap;
	struct local *local = sweep->op->local;

	/* Of an epoch that takes several calls, all of them count. */
	if (sweep->later || fl_load_relaxed(&heap->sweeping.changed) ==
			sweep->epoch)
		fl_store_relaxed(&heap->sweeping.later, sweep->epoch);
	if (sweep_spent(sweep)) {
		if (sweep->skipped)
			local->passed = sweep->epoch;
		return 1;
	}
	local->swept = sweep->epoch;
	/* Pages that a call passed by and had no budget left to walk are walked
	 * in the next epoch, if this one would be the last. */
	if (fl_load_relaxed(&heap->sweeping.later) == sweep->epoch ||
		local->passed != sweep->epoch)
		local->passed = 0;
	/* What came after a sweep in the same epoch is seen by the next. */
	if (again || local->passed != 0 ||
		fl_load_relaxed(&heap->sweeping.later) == sweep->epoch ||
		!sweep_rests(sweep->op))
		return epoch_left(sweep->op);
	return 0;
}

#define CALLER ((uintptr_t)__builtin_return_address(0))

uint64_t fallow_sweep(struct fallow *fallow, size_t budget)
{
	struct op op;
	struct sweep sweep = { .op = &op, .budget = budget };
	struct heap *heap;
	uint64_t next = 1;
	struct local *parked;
	bool again;

	if (!fl_op_begin(&op, fallow, 0, CALLER))
		return 0;
	heap = op.heap;
	if (!op_may_wait(&op)) {
		op_drop(&op);
		return 1;
	}
	fl_deferred_drain(&op);
	parked = heap_parked(heap, op.local->index) ? op.local : NULL;
	(void)fl_op_unpark(&op);
	sweep_begins(heap);
	batch_begin(&sweep.batch);
	epoch_step(&sweep);
	again = op.local->swept == sweep.epoch;
	sweep.walk = op.local->passed != 0 && op.local->passed != sweep.epoch;
	sweep_all(&sweep, &heap->sweeping.at);
	if (sweep.skipped && !sweep.later && !sweep_spent(&sweep))
		sweep_skipped(&sweep);
	next = sweep_next(&sweep, again);
	/* A thread that has moved meanwhile knows nothing of this context. */
	if (op.local == parked)
		fl_local_park(heap, parked);
	op_drop(&op);
	return next;
}

void fallow_tick(struct fallow *fallow)
{
	struct heap *heap = heap_of(fallow);
	struct fl_port_state state = lock_take(&heap->lock);

	heap->sweeping.owner = FALLOW_NO_CONTEXT;
	lock_leave(&heap->lock, state);
}

size_t fl_reclaim(struct op *op, unsigned level)
{
	struct heap *heap = op->heap;
	struct sweep sweep = {
		.op = op,
		.level = level,
		.budget = SIZE_MAX,
		.thorough = true,
	};
	struct fl_port_state state = lock_take(&heap->lock);
	size_t at = 0;
	unsigned i;

	sweep.number = ++heap->sweeps;
	sweep.epoch = heap->epoch;
	fl_store_relaxed(&heap->request_level, level);
	fl_store_relaxed(&heap->request, sweep.number);
	lock_leave(&heap->lock, state);
	batch_begin(&sweep.batch);
	sweep_all(&sweep, &at);
	/* The rest of pages with many holes. */
	for (i = 1; i < RECLAIM_PASSES && sweep.cut && !sweep.refused; i++) {
		sweep.cut = false;
		at = 0;
		state = lock_take(&heap->lock);
		sweep.number = ++heap->sweeps;
		lock_leave(&heap->lock, state);
		sweep_all(&sweep, &at);
	}
	/* What stays looks as if this epoch's sweep had seen it. */
	if (sweep.later)
		heap_changed(heap);
	return sweep.bytes;
}

/* What both functions do, for the one that `caller` called. */
static size_t reclaim(struct fallow *heap, unsigned level, uintptr_t caller)
{
	struct op op;
	size_t bytes = 0;

	if (!fl_op_begin(&op, heap, 0, caller))
		return 0;
	fl_deferred_drain(&op);
	if (op_may_wait(&op) && fl_op_unpark(&op)) {
		fl_reserve_fill(&op);
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

/* A run of granules is handed over; returns whether another may be. */
static bool handed_range(void *arg, uintptr_t base, size_t size)
{
	unsigned *count = arg;

	(void)base;
	(void)size;
	return ++*count < HANDED_RANGES;
}

/* Makes holes in a page, for others to give back; returns whether there was
 * something. */
static bool page_hand(struct heap *heap, struct local *local, struct page *page)
{
	uint32_t used = page->used;
	struct fl_port_state state;
	unsigned count = 0;

	if (page->place == PLACE_CURRENT ||
		(page_holed(page) && fl_hole_pending(heap, page)) ||
		(page->kind == PAGE_WHOLE &&
			fl_load_relaxed(&heap->request_level) <
				FALLOW_RECLAIM_FLOOR) ||
		fl_hole_make(heap, page, UINT64_MAX, handed_range, &count) ==
			0)
		return false;
	if (page->place == PLACE_QUEUE)
		page->wake += page->used - used;
	fl_local_settle(heap, local, page);
	state = lock_take(&heap->lock);
	page->chunk->handed |= slice_mask(page->first_slice, 1);
	heap->handed++;
	lock_leave(&heap->lock, state);
	return true;
}

bool fl_sweep_answer(struct op *op)
{
	struct heap *heap = op->heap;
	struct local *local = op->local;
	bool handed = false;
	unsigned i;

	/* One after the other: with each that comes beginning anew, the last
	 * pages would never have their turn. */
	if (local->answering == local->answered)
		local->answering = fl_load_relaxed(&heap->request);
	for (i = 0; i < STEP_PAGES; i++) {
		struct page *page = heap_is(heap, FALLOW_CLASS_WINDOW)
			? local_next(local, local->answering)
			: NULL;

		if (page == NULL) {
			local->answered = local->answering;
			break;
		}
		handed |= page_hand(heap, local, page);
	}
	/* Also for what stays, which this epoch's sweep takes for seen. */
	if (i > 0)
		heap_changed(heap);
	return handed;
}

void fl_sweep_leave(struct heap *heap, uint32_t context)
{
	struct fl_port_state state = lock_take(&heap->lock);

	if (heap->sweeping.owner == context)
		heap->sweeping.owner = FALLOW_NO_CONTEXT;
	lock_leave(&heap->lock, state);
}

void fl_sweep_wanted(struct heap *heap)
{
	uint32_t wanted = fl_load_relaxed(&heap->sweeping.wanted);

	/* A sweep that is under way may have passed by already: it learns of
	 * it when it ends.  Pairs with sweep_rests(). */
	do {
		if (wanted == WANTED_YES)
			return;
	} while (!fl_cas_acq_rel(
		&heap->sweeping.wanted, &wanted, WANTED_YES));
	if (wanted == WANTED_REST && heap->provider.sweep_wanted != NULL)
		heap->provider.sweep_wanted(heap->provider.ctx,
			heap->provider.now == NULL
				? 1
				: heap->sweeping.epoch_ticks);
}

void fl_sweep_init(struct heap *heap)
{
	heap->epoch = 1;
	heap->sweeping.wanted = WANTED_YES;
	if (heap->sweeping.floor_epochs == 0)
		heap->sweeping.floor_epochs = FALLOW_FLOOR_EPOCHS;
	if (heap->sweeping.epoch_ticks == 0)
		heap->sweeping.epoch_ticks = FALLOW_EPOCH_TICKS;
}
