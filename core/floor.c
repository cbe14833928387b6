/* SPDX-License-Identifier: MIT */
/*
 * The floor: what of the memory that a sweep could take stays, for it was used
 * of late and may be wanted again.
 *
 * It covers free slices, each a *piece*; only what is there counts, so memory
 * that nobody touched takes no room.  It is one sum for all contexts: when an epoch begins, all
 * pieces are counted by age, and an age is found below which all of them fit.
 * Of that age itself those stay, in address order, for which there is room.
 * What is older than floor_epochs is never counted, so it always drains.
 *
 * What comes out is a rule: an age, an address and a size say whether a piece
 * stays.  So nothing is handed out that would have to be taken back, no sweep
 * starves another, and whoever asks twice gets the same answer.
 *
 * Beside it, the page that a class allocates from stays as long, up to
 * CURRENT_BYTES of them.
 *
 * The rule is under heap->lock; the walk over the chunks lets it, and the
 * context, go every few of them.
 */
#include "floor.h"
#include "bits.h"
#include "chunk.h"
#include "span.h"

/* What current pages may keep. */
#define CURRENT_BYTES ((uint32_t)1 << 20)
/* Ages are counted in so many steps up to floor_epochs. */
#define AGES 64
_Static_assert(AGES <= 64, "an age is a bit of sweeping.floor_ages");
/* Chunks that are looked at before the lock is let go. */
#define STEP_CHUNKS 16

/* The step of an age below floor_epochs. */
static uint32_t age_step(const struct heap *heap, uint32_t age)
{
	return age * AGES / heap->sweeping.floor_epochs;
}

/* The largest piece, in granules, that stays at this slice of the window. */
static size_t run_most(const struct sweeping *sweeping, size_t slice)
{
	size_t most = 0;
	unsigned i;

	for (i = 0; i < FLOOR_RUNS && slice >= sweeping->floor_runs[i].from;
		i++)
		most = sweeping->floor_runs[i].most;
	return most;
}

bool fl_floor_keeps(
	const struct sweep *sweep, uint32_t age, uintptr_t base, size_t bytes)
{
	const struct heap *heap = sweep->op->heap;
	const struct sweeping *sweeping = &heap->sweeping;
	size_t slice = (base - heap->base) >> FALLOW_SLICE_LOG2;
	uint32_t step;

	if (sweep->level >= FALLOW_RECLAIM_FLOOR ||
		age >= sweeping->floor_epochs)
		return false;
	step = age_step(heap, age);
	if (step == sweeping->floor_age)
		return bytes >> FALLOW_GRANULE_LOG2 <=
			run_most(sweeping, slice);
	return step < sweeping->floor_age &&
		(sweeping->floor_ages >> step & 1);
}

/* The granules that the floor may cover of a slice of the chunk, and their age:
 * it is free, or of a span that a context keeps, which counts as that. */
static size_t slice_piece(const struct heap *heap, const struct chunk *chunk,
	unsigned slice, uint32_t *age)
{
	const struct page *page =
		map_find(heap, chunk->base + slice * SLICE_BYTES);

	*age = 0;
	/* The stamp of a slice in use is written without the heap's lock. */
	if (fl_chunk_claimable(heap, chunk) >> slice & 1) {
		*age = slice_age(heap, chunk, slice);
		return bits_count(chunk->populated[slice]);
	}
	if (page == NULL || !span_kept(page))
		return 0;
	*age = page_age(heap, page);
	return bits_count(chunk->populated[slice]);
}

/* What the floor may cover, by age: how much, and the smallest piece of it;
 * then of one age, by address, how much is left and what stays. */
struct count {
	uint32_t granules[AGES]; /* of 16 TiB at most */
	uint16_t least[AGES];
	size_t left;
	uint32_t age;
	unsigned runs;
	struct floor_run run[FLOOR_RUNS];
};
_Static_assert(SLICE_GRANULES <= UINT16_MAX, "a piece is at most a slice");

/* Adds a piece to its age. */
static void age_add(
	struct count *count, uint32_t step, size_t slice, size_t granules)
{
	(void)slice;
	if (count->granules[step] == 0 || granules < count->least[step])
		count->least[step] = (uint16_t)granules;
	count->granules[step] += (uint32_t)granules;
}

/* Keeps a piece of the one age, if there is room; else from here on no piece of
 * its size is kept, but smaller ones are. */
static void share_add(
	struct count *count, uint32_t step, size_t slice, size_t granules)
{
	struct floor_run *run = &count->run[count->runs];

	if (step != count->age || granules > run[-1].most)
		return;
	if (granules <= count->left) {
		count->left -= granules;
		return;
	}
	run->from = slice;
	run->most = count->runs == FLOOR_RUNS - 1 ? 0 : count->left;
	count->runs++;
}

/* Shows the pieces of the next chunks to `add`; returns whether there are
 * more. */
static bool count_step(struct heap *heap, size_t *number, struct count *count,
	void (*add)(struct count *, uint32_t, size_t, size_t))
{
	struct fl_port_state state = lock_take(&heap->lock);
	size_t end = *number + STEP_CHUNKS;
	unsigned slice;

	for (; *number < end && *number < heap->chunk_count; ++*number) {
		const struct chunk *chunk = heap->chunks[*number];

		fl_watch_steps(CHUNK_SLICES);
		for (slice = 0; chunk != NULL && slice < CHUNK_SLICES;
			slice++) {
			uint32_t age;
			size_t n = slice_piece(heap, chunk, slice, &age);

			if (n > 0 && age < heap->sweeping.floor_epochs)
				add(count, age_step(heap, age),
					*number * CHUNK_SLICES + slice, n);
		}
	}
	lock_leave(&heap->lock, state);
	return *number == end;
}

/* The same for all chunks. */
static void count_all(struct op *op, struct count *count,
	void (*add)(struct count *, uint32_t, size_t, size_t))
{
	size_t number = 0;

	while (count_step(op->heap, &number, count, add))
		sweep_pause(op);
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

/* From the youngest on every age that fits; the first that does not is the one
 * of which pieces stay.  One of which no piece fits stops nobody.  Returns the
 * ages that stay whole. */
static uint64_t ages_whole(struct count *count)
{
	uint64_t whole = 0;
	uint32_t age;

	for (age = 0; age < AGES; age++) {
		if (count->granules[age] <= count->left) {
			count->left -= count->granules[age];
			whole |= (uint64_t)1 << age;
		} else if (count->least[age] <= count->left) {
			break;
		}
	}
	count->age = age;
	return whole;
}

/* Not inlined: what it counts is on the stack. */
__attribute__((noinline)) void fl_floor_decide(struct op *op)
{
	struct heap *heap = op->heap;
	struct sweeping *sweeping = &heap->sweeping;
	struct count count = { .left = 0 };
	size_t limit = floor_bytes(heap) >> FALLOW_GRANULE_LOG2;
	struct fl_port_state state;
	uint64_t whole;
	unsigned i;

	count.left = limit;
	count_all(op, &count, age_add);
	whole = ages_whole(&count);
	count.run[0].most = count.left;
	count.runs = 1;
	if (count.age < AGES)
		count_all(op, &count, share_add);
	state = lock_take(&heap->lock);
	sweeping->floor_limit = limit;
	sweeping->floor_kept = limit - count.left;
	sweeping->floor_age = count.age;
	sweeping->floor_ages = whole;
	for (i = 0; i < FLOOR_RUNS; i++)
		sweeping->floor_runs[i] = i < count.runs
			? count.run[i]
			: (struct floor_run){ SIZE_MAX, 0 };
	lock_leave(&heap->lock, state);
}

void fl_floor_begin(struct heap *heap)
{
	heap->sweeping.current_left = CURRENT_BYTES;
}

void fl_floor_none(struct heap *heap)
{
	struct sweeping *sweeping = &heap->sweeping;
	unsigned i;

	sweeping->floor_kept = 0;
	sweeping->floor_ages = 0;
	sweeping->floor_age = AGES;
	for (i = 0; i < FLOOR_RUNS; i++)
		sweeping->floor_runs[i] = (struct floor_run){ SIZE_MAX, 0 };
	sweeping->current_left = 0;
}

void fl_floor_reclaim(struct sweep *sweep)
{
	sweep->current_left = CURRENT_BYTES;
}

bool fl_floor_current(
	struct sweep *sweep, const struct local *local, const struct page *page)
{
	struct heap *heap = sweep->op->heap;
	struct sweeping *sweeping = &heap->sweeping;
	/* What a reclaim looks at is not taken from this epoch's sweeps. */
	uint32_t *left = sweep->level == LEVEL_SWEEP ? &sweeping->current_left
						     : &sweep->current_left;
	struct fl_port_state state;
	bool fits, late;

	/* Not by its place: a full page may serve where it is. */
	if (sweep->level >= FALLOW_RECLAIM_FLOOR ||
		local->current[page->class] != page ||
		page_age(heap, page) >= sweeping->floor_epochs ||
		sweeping->floor_wanted == FALLOW_FLOOR_NONE)
		return false;
	state = lock_take(&heap->lock);
	/* A sweep that is late leaves it to that of the epoch which has begun
	 * since: both would take its bytes. */
	late = sweep->level == LEVEL_SWEEP && sweep->epoch != heap->epoch;
	fits = late || page->committed <= *left;
	if (fits && !late)
		*left -= page->committed;
	lock_leave(&heap->lock, state);
	return fits;
}

/* What it keeps is not counted again: between the decision and the moment in which
 * contexts are stopped pieces were used, freed, taken and swept, each of which is
 * as it should be, and changes the sum either way.  That it comes out right when
 * it is decided the tests of the floor say. */
const char *fl_floor_broken(const struct heap *heap)
{
	const struct sweeping *sweeping = &heap->sweeping;
	const struct floor_run *run = sweeping->floor_runs;
	unsigned i;

	if (sweeping->floor_kept > sweeping->floor_limit)
		return "the floor keeps no more than it may";
	if (sweeping->current_left > CURRENT_BYTES)
		return "current pages keep no more than they may";
	if (sweeping->floor_age < AGES &&
		sweeping->floor_ages >> sweeping->floor_age != 0)
		return "the floor keeps younger memory before older";
	for (i = 1; i < FLOOR_RUNS; i++)
		if (run[i].from < run[i - 1].from ||
			(run[i].most >= run[i - 1].most && run[i].most > 0))
			return "behind what does not fit the floor keeps less";
	return NULL;
}
