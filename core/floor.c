/* SPDX-License-Identifier: MIT */
/*
 * The floor: what of the memory that a sweep could take stays, for it was used
 * of late and may be wanted again.
 *
 * It covers pages of blocks above a slice, and free slices, and counts what is
 * formed and free of them: memory that nobody touched takes no room.  It is one
 * sum for all contexts: when an epoch begins, everything that it may cover is
 * counted by age, and an age is found below which all of it fits.  So no sweep
 * starves another, and nothing is handed out that would have to be taken back.
 * What is older than floor_epochs is never counted, so it always drains.
 *
 * Beside it, the small or medium page that a class allocates from stays as
 * long, up to CURRENT_BYTES of them.
 *
 * The sums are under heap->lock; the walk over the chunks lets it, and the
 * context, go every few of them.
 */
#include "floor.h"
#include "bits.h"
#include "chunk.h"

/* What current pages may keep. */
#define CURRENT_BYTES ((size_t)1 << 20)
/* Ages are counted in so many steps up to floor_epochs. */
#define AGES 64
/* Chunks that are looked at before the lock is let go. */
#define STEP_CHUNKS 16

/* Takes so many bytes out of what is left of a sum; returns whether they are
 * there.  Under heap->lock. */
static bool sum_takes(size_t *left, size_t bytes)
{
	if (bytes > *left)
		return false;
	*left -= bytes;
	return true;
}

bool fl_floor_keeps(struct sweep *sweep, uint32_t age, size_t bytes)
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

	for (i = 0; more && i < STEP_CHUNKS; i++) {
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
__attribute__((noinline)) void fl_floor_decide(struct sweep *sweep)
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

bool fl_floor_current(struct sweep *sweep, const struct page *page)
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
