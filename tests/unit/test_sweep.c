/* SPDX-License-Identifier: MIT */
/*
 * Giving back: in batches, each slice once, what is refused left as it was;
 * what giving back means to each class of provider; and sweeps of one context:
 * what goes, what stays for how long, and when they say that nothing is left.
 *
 * What should be resident is worked out from the blocks that the test has: the
 * granules in which one of them lies.  Several contexts are in fake_sweep.c.
 */
#include <stdlib.h>
#include <string.h>

#include "sweep.h"
#include "white.h"

#define MIB ((size_t)1 << 20)

static size_t collect(struct rig *rig)
{
	struct op op = white_op(rig, 0);
	size_t bytes = fl_sweep_slices(&op);

	op_drop(&op);
	return bytes;
}

/* Populates n granules of free slices; returns the slices' addresses. */
static void granules_warm(
	struct rig *rig, uintptr_t base, size_t granule, size_t n)
{
	struct op op = white_op(rig, 0);

	CHECK(fl_memory_populate(&op, base + granule * GRANULE_BYTES,
		      n * GRANULE_BYTES, false) &
		FALLOW_COMMIT_DONE);
	op_drop(&op);
}

/* Two chunks, taken as one run. */
static uintptr_t chunks_take(struct rig *rig)
{
	struct op op = white_op(rig, 0);
	struct run run;

	CHECK(fl_region_grow(&op, 3 * CHUNK_SLICES, CHUNK_BYTES) ==
		GROW_YES);
	op_drop(&op);
	run = fl_chunk_take_run(
		white_heap(rig), 2 * CHUNK_SLICES, CHUNK_BYTES);
	return run.chunk->base;
}

/* Every other granule of two chunks: more ranges than one call carries. */
static void test_collect_batches(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 1);
	struct heap *heap = white_heap(rig);
	uintptr_t base = chunks_take(rig);
	size_t all = 2 * CHUNK_SLICES * SLICE_GRANULES;
	uint64_t calls;

	for (size_t i = 0; i < all; i += 2)
		granules_warm(rig, base, i, 1);
	fl_chunk_give(heap, base, 2 * CHUNK_SLICES, 1);
	white_check(rig);
	calls = heap->counters.decommits;
	CHECK_EQUAL(collect(rig), all / 2 * GRANULE_BYTES);
	calls = heap->counters.decommits - calls;
	/* 512 ranges, at most 64 a call, and nearly as many as there can be. */
	CHECK(calls >= all / 2 / FALLOW_RANGES_MAX);
	CHECK(calls <= all / 2 / 16);
	CHECK_EQUAL(heap->counters.committed, 0);
	CHECK_EQUAL(heap->counters.decommitted_total,
		all / 2 * GRANULE_BYTES);
	CHECK_EQUAL(heap->warm_slices, 0);
	white_check(rig);
	CHECK_EQUAL(collect(rig), 0);
	CHECK_EQUAL(heap->counters.decommits, calls);
	rig_end_now(rig, true);
}

/* Granules next to each other are one range, but for a chunk's end: a range
 * may be a large mapping's. */
static void test_collect_merges(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 1);
	struct heap *heap = white_heap(rig);
	uintptr_t base = chunks_take(rig);

	granules_warm(rig, base, 3, 2 * CHUNK_SLICES * SLICE_GRANULES - 7);
	fl_chunk_give(heap, base, 2 * CHUNK_SLICES, 1);
	CHECK_EQUAL(collect(rig), 2 * CHUNK_BYTES - 7 * GRANULE_BYTES);
	CHECK_EQUAL(rig->sim.ranges, 2);
	CHECK_EQUAL(heap->counters.decommits, 1);
	rig_end_now(rig, true);
}

/* What is refused stays, warm, is passed once, and goes the next time. */
static void test_collect_refused(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 1);
	struct heap *heap = white_heap(rig);
	uintptr_t base = chunks_take(rig);
	uint32_t bit = slice_mask(7, 1);

	for (unsigned i = 0; i < 2 * CHUNK_SLICES; i++)
		granules_warm(rig, base, i * SLICE_GRANULES + 2, 3);
	fl_chunk_give(heap, base, 2 * CHUNK_SLICES, 1);
	/* The eighth slice's range. */
	rig->sim.refuse_range = rig->sim.ranges + 8;
	CHECK_EQUAL(collect(rig), (64 - 1) * 3 * GRANULE_BYTES);
	CHECK_EQUAL(heap->counters.refusals, 1);
	CHECK_EQUAL(heap->counters.committed, 3 * GRANULE_BYTES);
	CHECK_EQUAL(chunk_of(heap, base)->warm, bit);
	CHECK_EQUAL(chunk_of(heap, base)->populated[7], 7 << 2);
	white_check(rig);
	CHECK_EQUAL(collect(rig), 3 * GRANULE_BYTES);
	CHECK_EQUAL(chunk_of(heap, base)->warm, 0);
	white_check(rig);
	rig_end_now(rig, true);
}

/* Where everything is refused a collect still ends. */
static void test_collect_all_refused(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 1);
	uintptr_t base = chunks_take(rig);

	for (unsigned i = 0; i < 2 * CHUNK_SLICES; i++)
		granules_warm(rig, base, i * SLICE_GRANULES, 1);
	fl_chunk_give(white_heap(rig), base, 2 * CHUNK_SLICES, 1);
	rig->sim.refuse_range_rate = 256;
	for (unsigned i = 1; i < 4; i++) {
		CHECK_EQUAL(collect(rig), 0);
		CHECK_EQUAL(rig->sim.ranges, i * 64);
	}
	CHECK_EQUAL(white_heap(rig)->warm_slices, 64);
	white_check(rig);
	rig_end_now(rig, true);
}

static struct rig *during_rig;
static unsigned during_calls;

/* Inside of a decommit: nobody gets what is being given back. */
static void during(struct sim *sim, enum sim_call call)
{
	const struct chunk *chunk = white_heap(during_rig)->chunks[1];

	(void)sim;
	if (call != SIM_DECOMMIT && call != SIM_DISCARD)
		return;
	during_calls++;
	CHECK_EQUAL(chunk->free & 0xff, 0);
	CHECK_EQUAL(chunk->warm & 0xff, 0);
	CHECK(!lock_held(&white_heap(during_rig)->lock));
}

static void test_collect_claims(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 1);
	uintptr_t base = chunks_take(rig);

	CHECK(white_heap(rig)->chunks[1]->base == base);
	granules_warm(rig, base, 0, 8 * SLICE_GRANULES);
	fl_chunk_give(white_heap(rig), base, 2 * CHUNK_SLICES, 1);
	during_rig = rig;
	during_calls = 0;
	rig->sim.during = during;
	CHECK_EQUAL(collect(rig), 8 * SLICE_BYTES);
	CHECK_EQUAL(during_calls, 1);
	rig->sim.during = NULL;
	CHECK_EQUAL(white_heap(rig)->chunks[1]->free, UINT32_MAX);
	rig_end_now(rig, true);
}

/* Class direct: the slices go too, and can come again. */
static void test_collect_direct(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_DIRECT, 16 * MIB, 1);
	struct heap *heap = white_heap(rig);
	struct run run = white_slices(rig, 3);
	struct chunk *chunk = run.chunk;
	size_t reserved = heap->counters.reserved;

	CHECK_EQUAL(reserved, CHUNK_BYTES);
	CHECK_EQUAL(collect(rig), CHUNK_BYTES - 3 * SLICE_BYTES);
	CHECK_EQUAL(heap->counters.reserved, 3 * SLICE_BYTES);
	CHECK_EQUAL(heap->counters.committed, 3 * SLICE_BYTES);
	CHECK_EQUAL(bits_count(chunk->present), 3);
	CHECK_EQUAL(chunk->free, 0);
	fl_chunk_give(heap, chunk->base + run.first * SLICE_BYTES, 3, 1);
	white_check(rig);
	CHECK_EQUAL(collect(rig), 3 * SLICE_BYTES);
	CHECK_EQUAL(chunk->present, 0);
	white_check(rig);
	run = white_slices(rig, 32);
	CHECK(run.chunk != NULL);
	fl_chunk_give(heap, run.chunk->base, 32, 1);
	white_check(rig);
	rig_end_now(rig, true);
}

/* Class flat: a discard is a hint; what was hinted is not hinted again until
 * it was used, and it is all still there. */
static void test_collect_flat(void)
{
	struct rig *rig = rig_prepare(FALLOW_CLASS_FLAT, 8 * MIB, 1);
	struct heap *heap = white_heap(rig);
	size_t free, committed;
	struct run run;

	rig->sim.provider.capabilities = FALLOW_CAN_DISCARD;
	CHECK_EQUAL(rig_init(rig), FALLOW_OK);
	committed = heap->counters.committed;
	free = heap->warm_slices * SLICE_BYTES;
	CHECK_EQUAL(collect(rig), free);
	CHECK_EQUAL(heap->counters.committed, committed);
	CHECK_EQUAL(heap->counters.decommitted_total, 0);
	white_check(rig);
	CHECK_EQUAL(collect(rig), 0);
	run = white_slices(rig, 2);
	fl_chunk_give(heap, run.chunk->base + run.first * SLICE_BYTES, 2, 1);
	CHECK_EQUAL(collect(rig), 2 * SLICE_BYTES);
	white_check(rig);
	rig_end_now(rig, true);
}

/* Without the capability nobody is asked. */
static void test_collect_flat_silent(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_FLAT, 8 * MIB, 1);

	CHECK_EQUAL(collect(rig), 0);
	CHECK_EQUAL(rig->sim.made[SIM_DISCARD], 0);
	rig_end_now(rig, true);
}

/* The public call: this context's empty pages and those that were others'
 * last free first, however many. */
static void test_collect_pages(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 2);
	struct heap *heap = white_heap(rig);
	void *blocks[60 * 8];

	for (unsigned i = 0; i < 60 * 8; i++)
		blocks[i] = fallow_alloc(&rig->heap, 8192);
	for (unsigned i = 0; i < 60 * 8; i++)
		white_free(rig, i % 2, blocks[i]);
	CHECK(heap->counters.committed > 0);
	CHECK_EQUAL(fallow_collect(&rig->heap), 60 * SLICE_BYTES);
	CHECK_EQUAL(heap->counters.committed, 0);
	CHECK_EQUAL(heap->counters.live, 0);
	for (unsigned i = 0; i < 60 * 8; i++)
		CHECK(white_page(rig, blocks[i]) == NULL);
	white_check(rig);
	rig_end_now(rig, true);
}

/* ----------------------------------------------------------------- sweeps -- */

#define TICKS 100
#define KIB ((size_t)1 << 10)
/* Addresses for pages as they are where addresses cost nothing. */
#define WIDE (1100 * MIB)

/* A heap with a clock, epochs of TICKS, and what the floor is set to. */
static struct rig *clock_begin(
	enum fallow_provider_class class, size_t size, size_t floor)
{
	struct rig *rig = rig_prepare(class, size, 2);

	sim_clock(&rig->sim);
	rig->config.epoch_ticks = TICKS;
	rig->config.floor_bytes = floor;
	CHECK_EQUAL(rig_init(rig), FALLOW_OK);
	return rig;
}

static uint64_t sweep(struct rig *rig)
{
	return fallow_sweep(&rig->heap, SIZE_MAX);
}

/* A sweep in each of the next n epochs. */
static void epochs(struct rig *rig, unsigned n)
{
	for (; n > 0; n--) {
		rig->sim.ticks += TICKS;
		sweep(rig);
	}
}

/* Sweeps whenever it is due, until nothing is left; returns how often it was
 * called.  Fails after `most`. */
static unsigned drain(struct rig *rig, unsigned most)
{
	unsigned n = 0;
	uint64_t due;

	while ((due = sweep(rig)) != 0 && n < most) {
		CHECK(due <= TICKS);
		rig->sim.ticks += due;
		n++;
	}
	CHECK(n < most);
	return n;
}

static size_t committed(const struct rig *rig)
{
	return white_heap((struct rig *)(uintptr_t)rig)->counters.committed;
}

/* Blocks that a test has, and the granules that they lie in. */
struct crowd {
	struct rig *rig;
	struct {
		char *base;
		size_t size;
	} * blocks;
	size_t count, max;
};

static struct crowd crowd_begin(struct rig *rig, size_t max)
{
	struct crowd crowd = { .rig = rig, .max = max };

	crowd.blocks = calloc(max, sizeof(*crowd.blocks));
	CHECK(crowd.blocks != NULL);
	return crowd;
}

static void crowd_add(struct crowd *crowd, size_t size)
{
	char *base = fallow_alloc(&crowd->rig->heap, size);

	CHECK_OR_RETURN(base != NULL && crowd->count < crowd->max);
	/* All that it may use counts as used. */
	size = fallow_usable_size(&crowd->rig->heap, base);
	memset(base, 0x5a, size);
	crowd->blocks[crowd->count].base = base;
	crowd->blocks[crowd->count++].size = size;
}

/* Frees a block; the last one takes its place. */
static void crowd_free(struct crowd *crowd, size_t i)
{
	fallow_free(&crowd->rig->heap, crowd->blocks[i].base);
	crowd->blocks[i] = crowd->blocks[--crowd->count];
}

/* Bytes of the granules that a block lies in. */
static size_t crowd_bound(const struct crowd *crowd)
{
	const struct sim *sim = &crowd->rig->sim;
	unsigned char *seen = calloc(sim->size / SIM_GRANULE + 1, 1);
	size_t bytes = 0;

	for (size_t i = 0; i < crowd->count; i++) {
		uintptr_t at = (uintptr_t)crowd->blocks[i].base;
		uintptr_t last = at + crowd->blocks[i].size - 1;

		for (at &= ~(SIM_GRANULE - 1); at <= last; at += SIM_GRANULE) {
			unsigned char *mark =
				&seen[(at - sim->base) / SIM_GRANULE];

			bytes += *mark ? 0 : SIM_GRANULE;
			*mark = 1;
		}
	}
	free(seen);
	return bytes;
}

/* Frees all that are left, and ends the heap. */
static void crowd_end(struct crowd *crowd)
{
	while (crowd->count > 0)
		crowd_free(crowd, crowd->count - 1);
	free(crowd->blocks);
	white_check(crowd->rig);
	white_end(crowd->rig);
}

/* A heap that was never used has nothing left. */
static void test_sweep_fresh(void)
{
	struct rig *rig = clock_begin(FALLOW_CLASS_WINDOW, WIDE, 0);

	CHECK_EQUAL(sweep(rig), 0);
	CHECK_EQUAL(sweep(rig) > TICKS, 0);
	rig_end_now(rig, true);
}

/* 64 * 2^(10 u^1.92): many small ones, up to 64 KiB. */
static size_t size_random(uint64_t *random)
{
	/* By its inverse, tabled: how many in 1024 are below 64 << i. */
	static const unsigned below[] = { 309, 443, 547, 635, 714, 785, 851,
		911, 969, 1024 };
	unsigned u = test_random(random) % 1024, i = 0;

	while (u >= below[i])
		i++;
	return (64u << i) + test_random(random) % (64u << i);
}

/* Many blocks of all sizes, 90 of 100 freed: what is left behind is the
 * granules that a block lies in, within three epochs. */
static void churn(unsigned percent, size_t size)
{
	struct rig *rig = clock_begin(
		FALLOW_CLASS_WINDOW, WIDE, FALLOW_FLOOR_NONE);
	struct crowd crowd = crowd_begin(rig, 6000);
	uint64_t random = test_seed;
	size_t n = size > 64 * KIB ? 100 : 6000;
	size_t bound;

	for (size_t i = 0; i < n; i++)
		crowd_add(&crowd, size == 0 ? size_random(&random) : size);
	for (size_t i = crowd.count; i > 0; i--)
		if (test_random(&random) % 100 < percent)
			crowd_free(&crowd, i - 1);
	bound = crowd_bound(&crowd);
	drain(rig, 4);
	/* The formed end of one page of each class may be in a granule. */
	if (committed(rig) > bound + bound / 20 + 8 * GRANULE_BYTES) {
		test_printf("\n    size %zu: %zu, bound %zu", size,
			committed(rig), bound);
		CHECK(!"what is resident is what blocks lie in");
	}
	white_check(rig);
	for (size_t i = 0; i < crowd.count; i++)
		CHECK(crowd.blocks[i].base[crowd.blocks[i].size - 1] == 0x5a);
	crowd_end(&crowd);
}

static void test_sweep_churn(void)
{
	churn(90, 0);
	churn(95, 0);
}

static void test_sweep_churn_one_class(void)
{
	for (unsigned class = 0; class < CLASS_COUNT && !test_failures();
		class++)
		churn(90, class_size(class));
}

/* With the floor, some epochs after the last use, the same; then nothing is
 * called any more, and nothing was left. */
static void test_sweep_drains(void)
{
	static const size_t floors[] = { 0, 64 * KIB, 4 * MIB, 64 * MIB };

	for (unsigned f = 0; f < sizeof(floors) / sizeof(floors[0]); f++) {
		struct rig *rig = clock_begin(
			FALLOW_CLASS_WINDOW, WIDE, floors[f]);
		struct crowd crowd = crowd_begin(rig, 8000);
		uint64_t random = test_seed;
		uint64_t calls;
		size_t bound;

		for (size_t i = 0; i < 3000; i++)
			crowd_add(&crowd, size_random(&random));
		for (size_t i = 0; i < 40; i++)
			crowd_add(&crowd, 64 * KIB + test_random(&random) % MIB);
		for (size_t i = crowd.count; i > 0; i--)
			if (i % 20 != 0)
				crowd_free(&crowd, i - 1);
		bound = crowd_bound(&crowd);
		CHECK(drain(rig, FALLOW_FLOOR_EPOCHS + 8) > 3);
		CHECK(committed(rig) <= bound + bound / 20 + 8 * GRANULE_BYTES);
		white_check(rig);
		calls = rig->sim.made[SIM_DECOMMIT] + rig->sim.made[SIM_COMMIT];
		rig->sim.ticks += 1000 * TICKS;
		CHECK_EQUAL(sweep(rig), 0);
		CHECK_EQUAL(rig->sim.made[SIM_DECOMMIT] +
				rig->sim.made[SIM_COMMIT], calls);
		CHECK_EQUAL(fallow_collect(&rig->heap), 0);
		crowd_end(&crowd);
	}
}

/* What is in use is inspected without a call of the provider, however often. */
static void test_sweep_inspects_for_nothing(void)
{
	struct rig *rig = clock_begin(
		FALLOW_CLASS_WINDOW, WIDE, FALLOW_FLOOR_NONE);
	struct crowd crowd = crowd_begin(rig, 4000);
	uint64_t random = test_seed, decommits, commits;

	for (size_t i = 0; i < 3000; i++)
		crowd_add(&crowd, size_random(&random));
	for (size_t i = crowd.count; i > 0; i--)
		if (i % 7 != 0)
			crowd_free(&crowd, i - 1);
	epochs(rig, 4);
	decommits = rig->sim.made[SIM_DECOMMIT];
	commits = rig->sim.made[SIM_COMMIT];
	epochs(rig, 200);
	CHECK_EQUAL(rig->sim.made[SIM_DECOMMIT], decommits);
	CHECK_EQUAL(rig->sim.made[SIM_COMMIT], commits);
	crowd_end(&crowd);
}

/* As many blocks in use as before, but others: the granules of those that were
 * freed go before it is said that nothing is left. */
static void test_sweep_equal_churn(void)
{
	struct rig *rig = clock_begin(
		FALLOW_CLASS_WINDOW, WIDE, FALLOW_FLOOR_NONE);
	struct crowd crowd = crowd_begin(rig, 1000);
	size_t bound;

	/* Two pages of 64 blocks: the first with holes in its second half. */
	for (size_t i = 0; i < 128; i++)
		crowd_add(&crowd, 1024);
	for (size_t i = 64; i > 32; i--)
		crowd_free(&crowd, i - 1);
	drain(rig, 10);
	bound = crowd_bound(&crowd);
	CHECK(committed(rig) <= bound + GRANULE_BYTES);
	/* Four go, four come, of the other half. */
	for (size_t i = 0; i < 4; i++)
		crowd_free(&crowd, 3 - i);
	for (size_t i = 0; i < 8; i++)
		crowd_add(&crowd, 1024);
	for (size_t i = 0; i < 4; i++)
		crowd_free(&crowd, 8 + i);
	drain(rig, 10);
	bound = crowd_bound(&crowd);
	CHECK(committed(rig) <= bound + GRANULE_BYTES);
	crowd_end(&crowd);
}

/* A page that looks as before is passed by, but not for ever. */
static void test_sweep_skips(void)
{
	struct rig *rig = clock_begin(
		FALLOW_CLASS_WINDOW, WIDE, FALLOW_FLOOR_NONE);
	struct heap *heap = white_heap(rig);
	char *blocks[8];
	struct page *page;

	for (unsigned i = 0; i < 8; i++)
		blocks[i] = fallow_alloc(&rig->heap, 2048);
	page = white_page(rig, blocks[0]);
	drain(rig, 10);
	CHECK_EQUAL(page->swept_used, 8);
	/* Behind the back of the counts: two blocks of one granule go, two of
	 * another come. */
	fallow_free(&rig->heap, blocks[0]);
	fallow_free(&rig->heap, blocks[1]);
	page->swept_used = (uint16_t)page->used;
	page->seen = 0;
	rig->sim.ticks += TICKS;
	CHECK_EQUAL(sweep(rig), 0);
	/* It was passed by, then walked before the answer was 0. */
	CHECK(page->swept_used & PAGE_SKIPPED ||
		fl_hole_any(heap, page));
	CHECK(fl_hole_any(heap, page));
	for (unsigned i = 2; i < 8; i++)
		fallow_free(&rig->heap, blocks[i]);
	white_end(rig);
}

/* The committed tail goes, and so little that it is no more than once. */
static void test_sweep_tail(void)
{
	struct rig *rig = clock_begin(
		FALLOW_CLASS_WINDOW, WIDE, FALLOW_FLOOR_NONE);
	struct crowd crowd = crowd_begin(rig, 100);

	/* The commit step doubles: 5 granules take 8. */
	for (size_t i = 0; i < 17; i++)
		crowd_add(&crowd, 1024);
	CHECK(committed(rig) > crowd_bound(&crowd));
	epochs(rig, 1);
	CHECK_EQUAL(committed(rig), crowd_bound(&crowd));
	/* It comes back when it is wanted. */
	for (size_t i = 0; i < 40; i++)
		crowd_add(&crowd, 1024);
	white_check(rig);
	crowd_end(&crowd);
}

/* Free slices go after two epochs without use, not before. */
static void test_sweep_free_slices(void)
{
	struct rig *rig = clock_begin(
		FALLOW_CLASS_WINDOW, WIDE, FALLOW_FLOOR_NONE);
	void *span = fallow_alloc(&rig->heap, MIB);

	epochs(rig, 5);
	CHECK_EQUAL(committed(rig), MIB);
	fallow_free(&rig->heap, span);
	/* In this epoch, and in the next. */
	CHECK(sweep(rig) != 0);
	CHECK_EQUAL(committed(rig), MIB);
	epochs(rig, 1);
	CHECK_EQUAL(committed(rig), MIB);
	epochs(rig, 1);
	CHECK_EQUAL(committed(rig), 0);
	CHECK_EQUAL(sweep(rig) > TICKS, 0);
	white_end(rig);
}

/* A page of large blocks that is in use stays whole for two epochs; then a
 * block that was free at two sweeps in a row goes, one that is free at every
 * other sweep does not. */
static void test_sweep_hold(void)
{
	struct rig *rig = clock_begin(
		FALLOW_CLASS_WINDOW, WIDE, FALLOW_FLOOR_NONE);
	struct heap *heap = white_heap(rig);
	void *blocks[8];
	struct page *page;

	for (unsigned i = 0; i < 8; i++)
		blocks[i] = fallow_alloc(&rig->heap, 256 * KIB);
	page = white_page(rig, blocks[0]);
	CHECK_EQUAL(page->capacity, 8);
	epochs(rig, 4);
	fallow_free(&rig->heap, blocks[5]);
	CHECK(sweep(rig) != 0);
	rig->sim.ticks += TICKS;
	/* The page is busy from here on: it is used in every epoch. */
	for (unsigned n = 0; n < 6; n++) {
		CHECK(n > 0 || !fl_hole_gone(heap, page, 5));
		if (n % 2 == 0)
			fallow_free(&rig->heap, blocks[2]);
		else
			blocks[2] = fallow_alloc(&rig->heap, 256 * KIB);
		CHECK(white_page(rig, blocks[2]) == page);
		sweep(rig);
		CHECK(!fl_hole_gone(heap, page, 2));
		rig->sim.ticks += TICKS;
	}
	CHECK(fl_hole_gone(heap, page, 5));
	CHECK_EQUAL(committed(rig), 7 * 256 * KIB);
	for (unsigned i = 0; i < 8; i++)
		if (i != 5)
			fallow_free(&rig->heap, blocks[i]);
	white_end(rig);
}

/* The floor keeps what was used last, and only so much. */
static void test_sweep_floor_recent_first(void)
{
	struct rig *rig = clock_begin(
		FALLOW_CLASS_WINDOW, WIDE, 2 * MIB);
	void *spans[3];

	for (unsigned i = 0; i < 3; i++)
		spans[i] = fallow_alloc(&rig->heap, 2 * MIB);
	for (unsigned i = 0; i < 3; i++) {
		fallow_free(&rig->heap, spans[i]);
		epochs(rig, 8);
	}
	epochs(rig, 2);
	CHECK_EQUAL(committed(rig), 2 * MIB);
	/* It is the last one that has been kept. */
	CHECK(fl_memory_populated(
		white_heap(rig), (uintptr_t)spans[2], 2 * MIB));
	/* And it goes in time. */
	epochs(rig, FALLOW_FLOOR_EPOCHS);
	CHECK_EQUAL(committed(rig), 0);
	white_end(rig);
}

/* What does not fit does not stop what is smaller: a page of 1.5 MiB free,
 * younger, and a span of 256 KiB, older, in a floor of 512 KiB. */
static void test_sweep_floor_smaller_fits(void)
{
	struct rig *rig = clock_begin(
		FALLOW_CLASS_WINDOW, WIDE, 512 * KIB);
	void *rest = fallow_alloc(&rig->heap, 600 * KIB);
	void *blocks[4];

	for (unsigned i = 0; i < 4; i++)
		blocks[i] = fallow_alloc(&rig->heap, 512 * KIB);
	epochs(rig, 3);
	CHECK_EQUAL(committed(rig), 2 * MIB + 600 * KIB);
	fallow_free(&rig->heap, rest);
	/* Ages are told apart in 64 steps. */
	epochs(rig, 8);
	for (unsigned i = 1; i < 4; i++)
		fallow_free(&rig->heap, blocks[i]);
	epochs(rig, 6);
	/* Of the span's 600 KiB 512 KiB are kept, slice by slice. */
	CHECK(committed(rig) > 512 * KIB + 400 * KIB);
	CHECK(committed(rig) <= 512 * KIB + 512 * KIB);
	fallow_free(&rig->heap, blocks[0]);
	white_end(rig);
}

/* The floor counts what is formed and there: memory that nobody touched, and
 * holes, take no room in it. */
static void test_sweep_floor_counts_formed(void)
{
	struct rig *rig = clock_begin(
		FALLOW_CLASS_WINDOW, WIDE, 2 * MIB);
	struct heap *heap = white_heap(rig);
	void *first[4], *block;
	struct page *page;

	/* Four pages of each of which a block alone was ever formed: what is
	 * kept of them is a block of 512 KiB each. */
	for (unsigned i = 0; i < 4; i++)
		first[i] = fallow_alloc(&rig->heap,
			class_size(CLASS_COUNT - 1 - i));
	block = fallow_alloc(&rig->heap, class_size(CLASS_COUNT - 1));
	page = white_page(rig, block);
	fallow_free(&rig->heap, block);
	epochs(rig, 6);
	CHECK(page->used < page->formed);
	CHECK(!fl_hole_any(heap, page));
	CHECK_EQUAL(heap->sweeping.floor_left < 2 * MIB ||
			heap->sweeping.floor_age > 0, 1);
	for (unsigned i = 0; i < 4; i++)
		fallow_free(&rig->heap, first[i]);
	epochs(rig, FALLOW_FLOOR_EPOCHS + 4);
	CHECK_EQUAL(committed(rig), 0);
	white_end(rig);
}

/* A heap that was never big has no big floor: 1/64 of its addresses. */
static void test_sweep_floor_share(void)
{
	struct rig *rig = clock_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 0);
	void *spans[8];

	for (unsigned i = 0; i < 8; i++)
		spans[i] = fallow_alloc(&rig->heap, MIB);
	for (unsigned i = 0; i < 8; i++)
		fallow_free(&rig->heap, spans[i]);
	epochs(rig, 4);
	CHECK(committed(rig) <= MIB);
	CHECK(committed(rig) >= MIB - SLICE_BYTES);
	epochs(rig, FALLOW_FLOOR_EPOCHS);
	CHECK_EQUAL(committed(rig), 0);
	white_end(rig);
}

/* The page that a class allocates from stays for a while with what it has
 * free, its tail apart, in all at most a MiB. */
static void test_sweep_current(void)
{
	struct rig *rig = clock_begin(FALLOW_CLASS_WINDOW, WIDE, 0);
	struct crowd crowd = crowd_begin(rig, 4000);
	size_t kept;

	for (unsigned class = 0; class < CLASS_FIRST_WHOLE; class++)
		for (unsigned i = 0; i < 8; i++)
			crowd_add(&crowd, class_size(class));
	while (crowd.count > 0)
		crowd_free(&crowd, crowd.count - 1);
	epochs(rig, 4);
	kept = committed(rig);
	/* Beside it free slices may be in the floor. */
	CHECK(kept > 0);
	CHECK(kept <= MIB + 4 * MIB);
	fallow_reclaim(&rig->heap, FALLOW_RECLAIM_HOLD);
	CHECK(committed(rig) > 0);
	CHECK(drain(rig, FALLOW_FLOOR_EPOCHS + 8) > 200);
	CHECK_EQUAL(committed(rig), 0);
	crowd_end(&crowd);
}

/* The same with blocks in use, at the same number for ever: in the end it has
 * holes as any other, and nothing is left. */
static void test_sweep_current_drains(void)
{
	struct rig *rig = clock_begin(FALLOW_CLASS_WINDOW, WIDE, 0);
	struct heap *heap = white_heap(rig);
	void *blocks[64];
	struct page *page;

	for (unsigned i = 0; i < 64; i++)
		blocks[i] = fallow_alloc(&rig->heap, 512);
	page = white_page(rig, blocks[0]);
	for (unsigned i = 1; i < 64; i++)
		fallow_free(&rig->heap, blocks[i]);
	CHECK_EQUAL(page->place, PLACE_CURRENT);
	epochs(rig, 100);
	CHECK(!fl_hole_any(heap, page));
	drain(rig, FALLOW_FLOOR_EPOCHS + 8);
	CHECK(fl_hole_any(heap, page));
	CHECK_EQUAL(committed(rig), GRANULE_BYTES);
	fallow_free(&rig->heap, blocks[0]);
	white_end(rig);
}

/* A budget is kept, and sweeps with small ones come to the same. */
static void test_sweep_budget(void)
{
	for (size_t budget = 0; budget < 4; budget++) {
		struct rig *rig = clock_begin(
			FALLOW_CLASS_WINDOW, WIDE, FALLOW_FLOOR_NONE);
		struct crowd crowd = crowd_begin(rig, 2000);
		size_t bound, before = committed(rig);
		unsigned n = 0;

		for (size_t i = 0; i < 1000; i++)
			crowd_add(&crowd, 1024);
		for (size_t i = crowd.count; i > 0; i--)
			if (i % 16 != 0)
				crowd_free(&crowd, i - 1);
		bound = crowd_bound(&crowd);
		before = committed(rig);
		/* 16 pages: 60 KiB of each of those in the midst can go. */
		CHECK_EQUAL(fallow_sweep(&rig->heap, budget), 1);
		CHECK(before - committed(rig) <= budget * SLICE_BYTES);
		if (budget == 0)
			CHECK_EQUAL(before, committed(rig));
		while (budget > 0 && n++ < 400 &&
			fallow_sweep(&rig->heap, budget) != 0)
			rig->sim.ticks += TICKS / 20;
		CHECK(n < 400);
		if (budget > 0)
			CHECK(committed(rig) <= bound + 2 * GRANULE_BYTES);
		crowd_end(&crowd);
	}
}

/* Where a block lies in its slice. */
static size_t crowd_place(const struct crowd *crowd, size_t i)
{
	return (uintptr_t)crowd->blocks[i].base & (SLICE_BYTES - 1);
}

/* Frees a block as if as many were in use as before. */
static void crowd_hide(struct crowd *crowd, size_t i)
{
	struct page *page = white_page(crowd->rig, crowd->blocks[i].base);

	crowd_free(crowd, i);
	page->swept_used = (uint16_t)page->used;
}

/* Nor does a budget make a sweep forget what it passed by. */
static void test_sweep_budget_walks_all(void)
{
	for (size_t budget = 1; budget < 40; budget += 6) {
		struct rig *rig = clock_begin(
			FALLOW_CLASS_WINDOW, WIDE, FALLOW_FLOOR_NONE);
		struct crowd crowd = crowd_begin(rig, 2000);
		size_t bound;
		unsigned n;

		/* 31 pages, each with holes in its second half. */
		for (size_t i = 0; i < 31 * 64; i++)
			crowd_add(&crowd, KIB);
		for (size_t i = crowd.count; i > 0; i--)
			if (crowd_place(&crowd, i - 1) >= 32 * KIB)
				crowd_free(&crowd, i - 1);
		drain(rig, 10);
		/* Behind the back of the counts. */
		for (size_t i = crowd.count; i > 0; i--)
			if (crowd_place(&crowd, i - 1) < 8 * KIB)
				crowd_hide(&crowd, i - 1);
		rig->sim.ticks += TICKS;
		bound = crowd_bound(&crowd);
		for (n = 0; n < 400 && fallow_sweep(&rig->heap, budget) != 0;
			n++)
			rig->sim.ticks += 1;
		CHECK(n < 400);
		CHECK(committed(rig) <= bound + GRANULE_BYTES);
		crowd_end(&crowd);
	}
}

/* Nor what it left for later: free slices are held, in the call that has no
 * budget left for pages, and go all the same. */
static void test_sweep_budget_drains(void)
{
	struct rig *rig = clock_begin(
		FALLOW_CLASS_WINDOW, WIDE, 4 * MIB);
	char *blocks[3];
	unsigned n;

	for (unsigned i = 0; i < 3; i++)
		blocks[i] = fallow_alloc(&rig->heap, KIB << i);
	fallow_free(&rig->heap, fallow_alloc(&rig->heap, MIB));
	for (n = 0; n < 2000 && fallow_sweep(&rig->heap, 1) != 0; n++)
		rig->sim.ticks += n % 4 == 0 ? TICKS : 1;
	CHECK(n < 2000);
	CHECK(committed(rig) <= 3 * 4 * GRANULE_BYTES);
	for (unsigned i = 0; i < 3; i++)
		fallow_free(&rig->heap, blocks[i]);
	white_end(rig);
}

/* A sweep is due when its epoch ends; earlier ones age nothing. */
static void test_sweep_next_due(void)
{
	struct rig *rig = clock_begin(
		FALLOW_CLASS_WINDOW, WIDE, FALLOW_FLOOR_NONE);
	struct heap *heap = white_heap(rig);
	uint32_t epoch;

	rig->sim.ticks = 12345;
	fallow_free(&rig->heap, fallow_alloc(&rig->heap, MIB));
	CHECK_EQUAL(sweep(rig), TICKS);
	epoch = heap->epoch;
	rig->sim.ticks += TICKS - 1;
	for (unsigned i = 0; i < 10; i++)
		CHECK_EQUAL(sweep(rig), 1);
	CHECK_EQUAL(heap->epoch, epoch);
	CHECK_EQUAL(committed(rig), MIB);
	rig->sim.ticks += 1;
	sweep(rig);
	CHECK_EQUAL(heap->epoch, epoch + 1);
	/* A long time is one epoch. */
	rig->sim.ticks += 100 * TICKS;
	sweep(rig);
	CHECK_EQUAL(heap->epoch, epoch + 2);
	white_end(rig);
}

/* Without a clock each sweep of the one context is an epoch, and a tick of the
 * embedder's changes nothing about that. */
static void test_sweep_without_a_clock(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, WIDE, 1);
	struct heap *heap = white_heap(rig);
	uint32_t epoch;
	unsigned n = 0;

	fallow_free(&rig->heap, fallow_alloc(&rig->heap, MIB));
	sweep(rig);
	epoch = heap->epoch;
	sweep(rig);
	CHECK_EQUAL(heap->epoch, epoch + 1);
	fallow_tick(&rig->heap);
	sweep(rig);
	CHECK_EQUAL(heap->epoch, epoch + 2);
	sweep(rig);
	CHECK_EQUAL(heap->epoch, epoch + 3);
	while (sweep(rig) != 0 && n < 400)
		n++;
	CHECK(n <= FALLOW_FLOOR_EPOCHS);
	CHECK_EQUAL(committed(rig), 0);
	white_end(rig);
}

/* A page whose decommit was refused is not swept: it is tried again, without
 * anything else happening to it, and nothing is said to be done before. */
static void test_sweep_refused(void)
{
	struct rig *rig = clock_begin(
		FALLOW_CLASS_WINDOW, WIDE, FALLOW_FLOOR_NONE);
	struct crowd crowd = crowd_begin(rig, 100);
	size_t before, bound;

	for (size_t i = 0; i < 64; i++)
		crowd_add(&crowd, 1024);
	for (size_t i = 63; i > 8; i--)
		crowd_free(&crowd, i);
	bound = crowd_bound(&crowd);
	before = committed(rig);
	rig->sim.refuse_range_rate = 256;
	for (unsigned i = 0; i < 5; i++) {
		CHECK(sweep(rig) != 0);
		CHECK_EQUAL(committed(rig), before);
		white_check(rig);
		rig->sim.ticks += TICKS;
	}
	CHECK(rig->sim.refused_ranges >= 5);
	rig->sim.refuse_range_rate = 0;
	drain(rig, 4);
	CHECK(committed(rig) <= bound + GRANULE_BYTES);
	/* And those blocks are to be had all the while. */
	crowd_end(&crowd);
}

/* The n-th range refused, for each n: all of it goes all the same. */
static void test_sweep_refused_each(void)
{
	uint64_t ranges = 1;

	for (uint64_t n = 0; n <= ranges && !test_failures(); n++) {
		struct rig *rig = clock_begin(
			FALLOW_CLASS_WINDOW, WIDE, 64 * KIB);
		struct crowd crowd = crowd_begin(rig, 400);
		uint64_t random = test_seed;
		size_t bound;

		rig->sim.refuse_range = n;
		for (size_t i = 0; i < 300; i++)
			crowd_add(&crowd, size_random(&random));
		crowd_add(&crowd, 300 * KIB);
		crowd_add(&crowd, 300 * KIB);
		for (size_t i = crowd.count; i > 0; i--)
			if (i % 9 != 0)
				crowd_free(&crowd, i - 1);
		bound = crowd_bound(&crowd);
		drain(rig, FALLOW_FLOOR_EPOCHS + 8);
		CHECK(committed(rig) <= bound + bound / 20 + 8 * GRANULE_BYTES);
		white_check(rig);
		if (test_failures())
			test_printf("\n    range %u", (unsigned)n);
		if (n == 0)
			ranges = rig->sim.ranges;
		else
			CHECK_EQUAL(rig->sim.refused_ranges, 1);
		crowd_end(&crowd);
	}
}

/* Levels of a reclaim: the hold ends, the floor and current pages stay; then
 * they go too.  What it says is what has gone. */
static void test_reclaim_levels(void)
{
	struct rig *rig = clock_begin(FALLOW_CLASS_WINDOW, WIDE, MIB);
	size_t before, bytes;
	void *block, *spans[4];

	for (unsigned i = 0; i < 4; i++)
		spans[i] = fallow_alloc(&rig->heap, MIB);
	sweep(rig);
	for (unsigned i = 0; i < 4; i++)
		fallow_free(&rig->heap, spans[i]);
	block = fallow_alloc(&rig->heap, 512);
	epochs(rig, 1);
	before = committed(rig);
	CHECK(before >= 4 * MIB);
	bytes = fallow_reclaim(&rig->heap, FALLOW_RECLAIM_HOLD);
	CHECK_EQUAL(bytes, before - committed(rig));
	CHECK(committed(rig) >= MIB && committed(rig) <= MIB + 64 * KIB);
	before = committed(rig);
	bytes = fallow_reclaim(&rig->heap, FALLOW_RECLAIM_FLOOR);
	CHECK_EQUAL(bytes, before - committed(rig));
	CHECK_EQUAL(committed(rig), GRANULE_BYTES);
	CHECK_EQUAL(fallow_reclaim(&rig->heap, FALLOW_RECLAIM_SPLIT), 0);
	fallow_free(&rig->heap, block);
	CHECK_EQUAL(fallow_collect(&rig->heap), GRANULE_BYTES);
	white_end(rig);
}

/* A page with more holes than one call of the provider carries goes too. */
static void test_reclaim_many_holes(void)
{
	struct rig *rig = clock_begin(
		FALLOW_CLASS_WINDOW, WIDE, FALLOW_FLOOR_NONE);
	char *blocks[510];

	for (unsigned i = 0; i < 510; i++)
		blocks[i] = fallow_alloc(&rig->heap, 10 * KIB);
	for (unsigned i = 0; i < 510; i += 2)
		fallow_free(&rig->heap, blocks[i]);
	CHECK(fallow_reclaim(&rig->heap, FALLOW_RECLAIM_FLOOR) > MIB);
	CHECK_EQUAL(fallow_reclaim(&rig->heap, FALLOW_RECLAIM_FLOOR), 0);
	for (unsigned i = 1; i < 510; i += 2)
		fallow_free(&rig->heap, blocks[i]);
	white_end(rig);
}

/* Memory that is wanted again soon after it went is counted, once; later it is
 * not. */
static void test_sweep_regret(void)
{
	struct rig *rig = clock_begin(
		FALLOW_CLASS_WINDOW, WIDE, FALLOW_FLOOR_NONE);
	struct fallow_snapshot now = { .size = sizeof(now) };
	void *span = fallow_alloc(&rig->heap, MIB);

	fallow_snapshot(&rig->heap, &now);
	CHECK_EQUAL(now.regretted, 0);
	fallow_free(&rig->heap, span);
	fallow_collect(&rig->heap);
	span = fallow_alloc(&rig->heap, MIB);
	fallow_snapshot(&rig->heap, &now);
	CHECK_EQUAL(now.regretted, MIB);
	fallow_free(&rig->heap, span);
	fallow_collect(&rig->heap);
	epochs(rig, 17);
	span = fallow_alloc(&rig->heap, MIB);
	fallow_snapshot(&rig->heap, &now);
	CHECK_EQUAL(now.regretted, MIB);
	fallow_free(&rig->heap, span);
	white_end(rig);
}

/* The snapshot knows what is in holes; live bytes are those of blocks. */
static void test_sweep_snapshot(void)
{
	struct rig *rig = clock_begin(
		FALLOW_CLASS_WINDOW, WIDE, FALLOW_FLOOR_NONE);
	struct fallow_snapshot now = { .size = sizeof(now) };
	struct crowd crowd = crowd_begin(rig, 100);
	size_t before;

	for (size_t i = 0; i < 64; i++)
		crowd_add(&crowd, 1024);
	before = committed(rig);
	for (size_t i = 63; i > 8; i--)
		crowd_free(&crowd, i);
	epochs(rig, 3);
	fallow_snapshot(&rig->heap, &now);
	CHECK_EQUAL(now.live, 9 * 1024);
	CHECK_EQUAL(now.blocks, 9);
	CHECK_EQUAL(now.holes, before - committed(rig));
	CHECK_EQUAL(now.holes, SLICE_BYTES - 3 * GRANULE_BYTES);
	crowd_end(&crowd);
}

/* Every class of provider comes to an end, with nothing left that could go. */
static void test_sweep_classes(void)
{
	static const enum fallow_provider_class classes[] = {
		FALLOW_CLASS_DIRECT, FALLOW_CLASS_FLAT, FALLOW_CLASS_FLAT };

	for (unsigned c = 0; c < 3; c++) {
		struct rig *rig = rig_prepare(classes[c], 64 * MIB, 2);
		struct crowd crowd = crowd_begin(rig, 2000);
		uint64_t random = test_seed;

		sim_clock(&rig->sim);
		rig->config.epoch_ticks = TICKS;
		if (c == 2)
			rig->sim.provider.capabilities = FALLOW_CAN_DISCARD;
		CHECK_EQUAL(rig_init(rig), FALLOW_OK);
		for (size_t i = 0; i < 1000; i++)
			crowd_add(&crowd, size_random(&random));
		for (size_t i = crowd.count; i > 0; i--)
			if (i % 10 != 0)
				crowd_free(&crowd, i - 1);
		drain(rig, FALLOW_FLOOR_EPOCHS + 8);
		white_check(rig);
		while (crowd.count > 0)
			crowd_free(&crowd, crowd.count - 1);
		drain(rig, FALLOW_FLOOR_EPOCHS + 8);
		if (classes[c] == FALLOW_CLASS_DIRECT)
			CHECK_EQUAL(committed(rig), 0);
		crowd_end(&crowd);
	}
}

/* A page that was full, and of which others freed a few blocks between any two
 * sweeps: in the end it is found, though nobody was ever told of it. */
static void test_sweep_full_page(void)
{
	static const enum fallow_provider_class classes[] = {
		FALLOW_CLASS_DIRECT, FALLOW_CLASS_WINDOW };

	for (unsigned c = 0; c < 2; c++) {
		struct rig *rig = clock_begin(classes[c], 64 * MIB, 0);
		void *blocks[2 * 256];

		for (unsigned i = 0; i < 2 * 256; i++)
			blocks[i] = fallow_alloc(&rig->heap, 256);
		CHECK_EQUAL(white_page(rig, blocks[0])->place, PLACE_FULL);
		for (unsigned i = 0; i < 256; i++) {
			white_free(rig, 1, blocks[i]);
			/* An eighth is 32: the owner is told of none. */
			if (i % 20 == 19)
				epochs(rig, 1);
		}
		drain(rig, FALLOW_FLOOR_EPOCHS + 8);
		CHECK(white_page(rig, blocks[0]) == NULL);
		for (unsigned i = 256; i < 2 * 256; i++)
			fallow_free(&rig->heap, blocks[i]);
		white_end(rig);
	}
}

/* What allocations find is what was freed, in a full page too: a sweep does not
 * hide it. */
static void test_sweep_full_page_serves(void)
{
	struct rig *rig = clock_begin(FALLOW_CLASS_DIRECT, 64 * MIB, 0);
	void *blocks[2 * 256];
	struct page *page;
	unsigned n = 0;

	for (unsigned i = 0; i < 2 * 256; i++)
		blocks[i] = fallow_alloc(&rig->heap, 256);
	page = white_page(rig, blocks[0]);
	for (unsigned i = 0; i < 120; i++) {
		white_free(rig, 1, blocks[i]);
		if (i % 20 == 19)
			epochs(rig, 1);
	}
	for (unsigned i = 0; i < 120; i++) {
		blocks[i] = fallow_alloc(&rig->heap, 256);
		n += white_page(rig, blocks[i]) == page;
	}
	CHECK_EQUAL(n, 120);
	for (unsigned i = 0; i < 2 * 256; i++)
		fallow_free(&rig->heap, blocks[i]);
	white_end(rig);
}

/* Nobody's pages: all of them in one sweep, however many. */
static void test_sweep_abandoned(void)
{
	struct rig *rig = clock_begin(
		FALLOW_CLASS_WINDOW, WIDE, FALLOW_FLOOR_NONE);
	struct crowd crowd = crowd_begin(rig, 8000);
	size_t bound;

	for (size_t i = 0; i < 6400; i++)
		crowd_add(&crowd, 1024);
	fallow_offline(&rig->heap);
	for (size_t i = crowd.count; i > 0; i--)
		if (i % 64 != 10)
			crowd_free(&crowd, i - 1);
	bound = crowd_bound(&crowd);
	CHECK_EQUAL(bound, 100 * GRANULE_BYTES);
	epochs(rig, 1);
	CHECK_EQUAL(committed(rig), bound);
	drain(rig, 2);
	white_check(rig);
	crowd_end(&crowd);
}

/* The floor is one sum: of pages of this context, and of none. */
static void test_sweep_floor_abandoned(void)
{
	struct rig *rig = clock_begin(
		FALLOW_CLASS_WINDOW, WIDE, 2 * MIB);
	struct crowd crowd = crowd_begin(rig, 100);

	for (unsigned i = 0; i < 16; i++)
		crowd_add(&crowd, 256 * KIB);
	fallow_offline(&rig->heap);
	for (unsigned i = 0; i < 16; i++)
		crowd_add(&crowd, 256 * KIB);
	/* Each of the four pages keeps one block. */
	for (size_t i = crowd.count; i > 0; i--)
		if (i % 8 != 0)
			crowd_free(&crowd, i - 1);
	epochs(rig, 6);
	CHECK(committed(rig) <= 2 * MIB + 4 * 256 * KIB);
	CHECK(committed(rig) > MIB / 2 + 4 * 256 * KIB);
	drain(rig, FALLOW_FLOOR_EPOCHS + 8);
	CHECK_EQUAL(committed(rig), 4 * 256 * KIB);
	crowd_end(&crowd);
}

/* A sweep where the first commit of a later allocation fails: blocks stay in
 * holes and others serve. */
static void test_sweep_then_no_memory(void)
{
	struct rig *rig = clock_begin(
		FALLOW_CLASS_WINDOW, WIDE, FALLOW_FLOOR_NONE);
	struct crowd crowd = crowd_begin(rig, 4000);
	uint64_t random = test_seed;

	for (size_t i = 0; i < 2000; i++)
		crowd_add(&crowd, size_random(&random));
	for (size_t i = crowd.count; i > 0; i--)
		if (i % 4 != 0)
			crowd_free(&crowd, i - 1);
	epochs(rig, 4);
	for (uint64_t n = 1; n < 40; n++) {
		rig->sim.refuse_call = rig->sim.calls + n % 3 + 1;
		for (unsigned i = 0; i < 20; i++)
			crowd_add(&crowd, size_random(&random));
		white_check(rig);
	}
	CHECK(rig->sim.refused > 0);
	crowd_end(&crowd);
}

const struct test tests[] = {
	{ "collect_batches", test_collect_batches },
	{ "collect_merges", test_collect_merges },
	{ "collect_refused", test_collect_refused },
	{ "collect_all_refused", test_collect_all_refused },
	{ "collect_claims", test_collect_claims },
	{ "collect_direct", test_collect_direct },
	{ "collect_flat", test_collect_flat },
	{ "collect_flat_silent", test_collect_flat_silent },
	{ "collect_pages", test_collect_pages },
	{ "sweep_fresh", test_sweep_fresh },
	{ "sweep_churn", test_sweep_churn },
	{ "sweep_churn_one_class", test_sweep_churn_one_class },
	{ "sweep_drains", test_sweep_drains },
	{ "sweep_inspects_for_nothing", test_sweep_inspects_for_nothing },
	{ "sweep_equal_churn", test_sweep_equal_churn },
	{ "sweep_skips", test_sweep_skips },
	{ "sweep_tail", test_sweep_tail },
	{ "sweep_free_slices", test_sweep_free_slices },
	{ "sweep_hold", test_sweep_hold },
	{ "sweep_floor_recent_first", test_sweep_floor_recent_first },
	{ "sweep_floor_smaller_fits", test_sweep_floor_smaller_fits },
	{ "sweep_floor_counts_formed", test_sweep_floor_counts_formed },
	{ "sweep_floor_share", test_sweep_floor_share },
	{ "sweep_floor_abandoned", test_sweep_floor_abandoned },
	{ "sweep_current", test_sweep_current },
	{ "sweep_current_drains", test_sweep_current_drains },
	{ "sweep_budget", test_sweep_budget },
	{ "sweep_budget_walks_all", test_sweep_budget_walks_all },
	{ "sweep_budget_drains", test_sweep_budget_drains },
	{ "sweep_next_due", test_sweep_next_due },
	{ "sweep_without_a_clock", test_sweep_without_a_clock },
	{ "sweep_refused", test_sweep_refused },
	{ "sweep_refused_each", test_sweep_refused_each },
	{ "reclaim_many_holes", test_reclaim_many_holes },
	{ "sweep_regret", test_sweep_regret },
	{ "sweep_snapshot", test_sweep_snapshot },
	{ "sweep_classes", test_sweep_classes },
	{ "sweep_full_page", test_sweep_full_page },
	{ "sweep_full_page_serves", test_sweep_full_page_serves },
	{ "sweep_abandoned", test_sweep_abandoned },
	{ "sweep_then_no_memory", test_sweep_then_no_memory },
	{ "reclaim_levels", test_reclaim_levels },
	{ NULL, NULL },
};
