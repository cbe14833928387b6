/* SPDX-License-Identifier: MIT */
/*
 * Sweeps of one context: what goes, and when they say that nothing is left.
 *
 * What should be resident is worked out from the blocks that the test has: the
 * granules in which one of them lies.  Several contexts are in fake_sweep.c.
 */
#include "swept.h"

/* A heap that was never used has nothing left. */
static void test_sweep_fresh(void)
{
	struct rig *rig = clock_begin(FALLOW_CLASS_WINDOW, WIDE, 0);

	CHECK_EQUAL(sweep(rig), 0);
	CHECK_EQUAL(sweep(rig) > TICKS, 0);
	rig_end_now(rig, true);
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
	page->swept_used = (uint16_t)page_used(page);
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
	page->swept_used = (uint16_t)page_used(page);
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

/* Where everything is refused the provider is asked ever more seldom, and who
 * makes something new meanwhile says so; when it takes memory again all goes. */
static void test_sweep_refused_always(void)
{
	struct rig *rig = clock_begin(
		FALLOW_CLASS_WINDOW, WIDE, FALLOW_FLOOR_NONE);
	struct crowd crowd = crowd_begin(rig, 100);
	uint64_t ranges, wanted;

	for (size_t i = 0; i < 64; i++)
		crowd_add(&crowd, 1024);
	for (size_t i = 63; i > 8; i--)
		crowd_free(&crowd, i);
	rig->sim.refuse_range_rate = 256;
	for (uint64_t due = TICKS, n = 0; n < 9; n++) {
		ranges = rig->sim.ranges;
		CHECK_EQUAL(sweep(rig), due);
		CHECK(rig->sim.ranges > ranges);
		white_check(rig);
		/* Twice in an epoch is not asked twice. */
		CHECK_EQUAL(sweep(rig), TICKS);
		rig->sim.ticks += due;
		due = due == 64 * TICKS ? due : 2 * due;
	}
	CHECK_EQUAL(sweep(rig), 64 * TICKS);
	wanted = rig->sim.made[SIM_WANTED];
	fallow_park(&rig->heap);
	CHECK_EQUAL(rig->sim.made[SIM_WANTED], wanted + 1);
	rig->sim.refuse_range_rate = 0;
	rig->sim.ticks += TICKS;
	drain(rig, 4);
	CHECK(committed(rig) <= crowd_bound(&crowd) + GRANULE_BYTES);
	/* The next refusal is the first again. */
	for (size_t i = 0; i < 8; i++)
		crowd_add(&crowd, 2048);
	for (size_t i = crowd.count; i > 9; i--)
		crowd_free(&crowd, i - 1);
	rig->sim.refuse_range_rate = 256;
	rig->sim.ticks += 100 * TICKS;
	CHECK_EQUAL(sweep(rig), TICKS);
	rig->sim.refuse_range_rate = 0;
	crowd_end(&crowd);
}

/* What was refused to somebody else's sweep is all that its owner has left of a
 * page: that is empty as soon as the owner has freed the rest. */
static void test_sweep_refused_parked(void)
{
	struct rig *rig = clock_begin(
		FALLOW_CLASS_WINDOW, 64 * MIB, FALLOW_FLOOR_NONE);
	struct heap *heap = white_heap(rig);
	struct page *page = white_page_whole(rig, size_class(1024));
	void *blocks[8];

	/* Beside the current one. */
	fl_local_join(heap, heap->locals[1],
		white_page_whole(rig, size_class(1024)));
	for (unsigned i = 0; i < 8; i++)
		blocks[i] = white_pop(page, 1);
	fl_local_join(heap, heap->locals[1], page);
	fl_local_park(heap, heap->locals[1]);
	rig->sim.refuse_range_rate = 256;
	/* In the model SINGLE nobody parks, and nothing of it is swept. */
	CHECK_EQUAL(sweep(rig) != 0, FALLOW_MODEL != FALLOW_MODEL_SINGLE);
	CHECK_EQUAL(remote_count(page, page->remote) > 0,
		FALLOW_MODEL != FALLOW_MODEL_SINGLE);
	white_check(rig);
	fl_local_unpark(heap, heap->locals[1]);
	for (unsigned i = 0; i < 8; i++) {
		CHECK(map_find(heap, page->base) == page);
		white_free(rig, 1, blocks[i]);
	}
	CHECK(map_find(heap, page->base) == NULL);
	white_check(rig);
	rig_end_now(rig, true);
}

/* What was refused is free as before: the free that then empties the page is
 * seen, as in a page that was never walked. */
static void test_sweep_refused_wake(void)
{
	struct rig *rig = clock_begin(
		FALLOW_CLASS_WINDOW, WIDE, FALLOW_FLOOR_NONE);
	struct local *local = white_heap(rig)->locals[0];
	unsigned class = size_class(1024);
	struct crowd crowd = crowd_begin(rig, 128);

	/* Another page has free blocks, so this one is not allocated from. */
	for (size_t i = 0; i < SLICE_BYTES / 1024 * 3 / 2; i++)
		crowd_add(&crowd, 1024);
	for (size_t i = SLICE_BYTES / 1024 - 1; i >= 4; i--)
		crowd_free(&crowd, i);
	rig->sim.refuse_range_rate = 256;
	CHECK(sweep(rig) != 0);
	CHECK(rig->sim.refused_ranges > 0);
	rig->sim.refuse_range_rate = 0;
	for (size_t i = 4; i > 0; i--) {
		CHECK(!(local->emptied[class / 64] >> class % 64 & 1));
		crowd_free(&crowd, i - 1);
	}
	CHECK(local->emptied[class / 64] >> class % 64 & 1);
	white_check(rig);
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
	/* The last one stays: what is free behind it would be no hole. */
	for (size_t i = 62; i > 8; i--)
		crowd_free(&crowd, i);
	epochs(rig, 3);
	fallow_snapshot(&rig->heap, &now);
	CHECK_EQUAL(now.live, 10 * 1024);
	CHECK_EQUAL(now.blocks, 10);
	CHECK_EQUAL(now.holes, before - committed(rig));
	CHECK_EQUAL(now.holes, SLICE_BYTES - 4 * GRANULE_BYTES);
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

/* Pages that a sweep has seen come in front of those that it has not, while it
 * is giving memory back. */
static struct {
	struct rig *rig;
	struct crowd *crowd;
	unsigned moved;
} front;

static bool front_has(const struct page *page)
{
	const struct heap *heap = white_heap(front.rig);

	return page != NULL && page->seen == heap->sweeps;
}

/* Those of a context's queue: the owner's search does it. */
static void front_queue(struct sim *sim, enum sim_call call)
{
	struct heap *heap = white_heap(front.rig);
	struct op op;

	(void)sim;
	if (call != SIM_DECOMMIT || front.moved > 0)
		return;
	op = white_op(front.rig, 0);
	for (size_t i = 0; i < front.crowd->count; i++) {
		struct page *page = white_page(
			front.rig, front.crowd->blocks[i].base);

		if (!front_has(page) || page->place != PLACE_QUEUE)
			continue;
		fl_local_front(heap, op.local, page);
		front.moved++;
	}
	op_drop(&op);
}

/* Those that are nobody's: frees that make an eighth free do it. */
static void front_abandoned(struct sim *sim, enum sim_call call)
{
	(void)sim;
	if (call != SIM_DECOMMIT || front.moved++ > 0)
		return;
	for (size_t i = front.crowd->count; i > 0; i--) {
		struct page *page = white_page(
			front.rig, front.crowd->blocks[i - 1].base);

		if (!front_has(page) ||
			crowd_place(front.crowd, i - 1) >= 8 * KIB)
			continue;
		white_free(front.rig, 1, front.crowd->blocks[i - 1].base);
		crowd_drop(front.crowd, i - 1);
	}
}

/* Who may have missed a page for that looks again. */
static void test_reclaim_misses_none(void)
{
	for (unsigned abandoned = 0; abandoned < 2; abandoned++) {
		struct rig *rig = clock_begin(
			FALLOW_CLASS_WINDOW, WIDE, FALLOW_FLOOR_NONE);
		struct crowd crowd = crowd_begin(rig, 64 * 64);

		/* Of each page its first half is left, but for one block. */
		for (size_t i = 0; i < 64 * 64; i++)
			crowd_add(&crowd, KIB);
		for (size_t i = crowd.count; i > 0; i--)
			if (crowd_place(&crowd, i - 1) >= 32 * KIB ||
				crowd_place(&crowd, i - 1) == 9 * KIB)
				crowd_free(&crowd, i - 1);
		if (abandoned)
			fallow_offline(&rig->heap);
		front.rig = rig;
		front.crowd = &crowd;
		front.moved = 0;
		rig->sim.during = abandoned ? front_abandoned : front_queue;
		fallow_reclaim(&rig->heap, FALLOW_RECLAIM_FLOOR);
		rig->sim.during = NULL;
		CHECK(front.moved > 0);
		CHECK(committed(rig) <= crowd_bound(&crowd) + GRANULE_BYTES);
		crowd_end(&crowd);
	}
}

/* A sweep that may have missed a page for that does not say that nothing is
 * left, and the next one has it. */
static void test_sweep_misses_none(void)
{
	struct rig *rig = clock_begin(
		FALLOW_CLASS_WINDOW, WIDE, FALLOW_FLOOR_NONE);
	struct crowd crowd = crowd_begin(rig, 64 * 64);

	for (size_t i = 0; i < 64 * 64; i++)
		crowd_add(&crowd, KIB);
	for (size_t i = crowd.count; i > 0; i--)
		if (crowd_place(&crowd, i - 1) >= 32 * KIB ||
			crowd_place(&crowd, i - 1) == 9 * KIB)
			crowd_free(&crowd, i - 1);
	front.rig = rig;
	front.crowd = &crowd;
	front.moved = 0;
	rig->sim.ticks += TICKS;
	rig->sim.during = front_queue;
	CHECK(sweep(rig) > 0);
	rig->sim.during = NULL;
	CHECK(front.moved > 0);
	(void)drain(rig, 10);
	CHECK(committed(rig) <= crowd_bound(&crowd) + GRANULE_BYTES);
	crowd_end(&crowd);
}

/* The pages that take longest to walk: of the smallest blocks, freed in no order,
 * by the owner and by others, every other granule of it whole. */
static void test_sweep_longest_walk(void)
{
	struct rig *rig = clock_begin(
		FALLOW_CLASS_WINDOW, WIDE, FALLOW_FLOOR_NONE);
	const uint32_t count = SLICE_BYTES / 16;
	struct page *pages[9];
	size_t before;

	for (unsigned i = 0; i < 9; i++) {
		void *block = fallow_alloc(&rig->heap, 16);

		pages[i] = white_page(rig, block);
		for (uint32_t n = 1; n < count; n++)
			CHECK(white_page(rig, fallow_alloc(&rig->heap, 16)) ==
				pages[i]);
	}
	before = committed(rig);
	/* 1531 has no divisor with the count. */
	for (uint32_t n = 0; n < 8 * count; n++) {
		uint32_t index = n * 1531u % count;

		if (index / (GRANULE_BYTES / 16) % 2 == 0 || index % 2 == 0)
			white_free(rig, n % 3 == 0,
				white_block(pages[n / count], index));
	}
	epochs(rig, 1);
	CHECK_EQUAL(before - committed(rig),
		8 * SLICE_GRANULES / 2 * GRANULE_BYTES);
	white_check(rig);
	rig_end_now(rig, true);
}

const struct test tests[] = {
	{ "sweep_fresh", test_sweep_fresh },
	{ "sweep_churn", test_sweep_churn },
	{ "sweep_churn_one_class", test_sweep_churn_one_class },
	{ "sweep_drains", test_sweep_drains },
	{ "sweep_inspects_for_nothing", test_sweep_inspects_for_nothing },
	{ "sweep_equal_churn", test_sweep_equal_churn },
	{ "sweep_skips", test_sweep_skips },
	{ "sweep_tail", test_sweep_tail },
	{ "sweep_free_slices", test_sweep_free_slices },
	{ "sweep_budget", test_sweep_budget },
	{ "sweep_budget_walks_all", test_sweep_budget_walks_all },
	{ "sweep_budget_drains", test_sweep_budget_drains },
	{ "sweep_refused", test_sweep_refused },
	{ "sweep_refused_always", test_sweep_refused_always },
	{ "sweep_refused_parked", test_sweep_refused_parked },
	{ "sweep_refused_wake", test_sweep_refused_wake },
	{ "sweep_refused_each", test_sweep_refused_each },
	{ "sweep_snapshot", test_sweep_snapshot },
	{ "sweep_classes", test_sweep_classes },
	{ "sweep_full_page", test_sweep_full_page },
	{ "sweep_full_page_serves", test_sweep_full_page_serves },
	{ "sweep_abandoned", test_sweep_abandoned },
	{ "sweep_then_no_memory", test_sweep_then_no_memory },
	{ "sweep_misses_none", test_sweep_misses_none },
	{ "sweep_longest_walk", test_sweep_longest_walk },
	{ "reclaim_misses_none", test_reclaim_misses_none },
	{ NULL, NULL },
};
