/* SPDX-License-Identifier: MIT */
/*
 * Sweeps of several contexts, and what others may do in the middle of one: in
 * every call of the provider handlers and other CPUs free, allocate, go
 * offline, park, sweep and reclaim, and everything must come out even.
 */
#include <fallow/bump.h>

#include "swept_fake.h"

/* What a parked context holds without a block goes, granule by granule, and it
 * finds everything when it comes back. */
static void test_sweep_parked(void)
{
	struct fake *fake = clock_begin(3, FALLOW_FLOOR_NONE);
	struct oracle *oracle = &fake->rig->oracle;
	size_t before;

	for (unsigned i = 0; i < 3000; i++)
		CHECK(oracle_alloc(oracle, i % 10 == 0 ? 9 * KIB : 700, 0));
	oracle_shrink(oracle, 100);
	before = committed(fake);
	/* It runs: others may not. */
	sweep_as(fake, 1);
	CHECK_EQUAL(committed(fake), before);
	fallow_park(&fake->rig->heap);
	for (unsigned i = 0; i < 4; i++) {
		fake->rig->sim.ticks += TICKS;
		sweep_as(fake, 1);
	}
	CHECK(committed(fake) < before / 2);
	CHECK(inside(fake)->parked[0]);
	fake_check(fake);
	/* Freed by others, into holes' neighbours. */
	test_port.context = 2;
	oracle_shrink(oracle, 50);
	test_port.context = 0;
	for (unsigned i = 0; i < 500; i++)
		CHECK(oracle_alloc(oracle, 700, 0));
	fake_check(fake);
	fake_end(fake);
}

/* The floor is one sum for all: contexts that run, parked ones, nobody's. */
static void test_sweep_floor_is_one(void)
{
	struct fake *fake = clock_begin(4, 2 * MIB);
	struct sim *sim = &fake->rig->sim;
	void *blocks[4][4];
	size_t kept;

	for (unsigned c = 0; c < 4; c++)
		for (unsigned i = 0; i < 4; i++)
			blocks[c][i] = alloc_as(fake, c, 256 * KIB);
	for (unsigned c = 0; c < 4; c++)
		for (unsigned i = 1; i < 4; i++)
			free_as(fake, c, blocks[c][i]);
	park_as(fake, 2);
	offline_as(fake, 3);
	for (unsigned i = 0; i < 6; i++) {
		sim->ticks += TICKS;
		sweep_as(fake, 0);
		sweep_as(fake, 1);
	}
	/* 3 MiB are free. */
	kept = committed(fake) - 4 * 256 * KIB;
	CHECK(kept <= 2 * MIB);
	CHECK(kept >= 2 * MIB - 3 * 256 * KIB);
	/* Going offline does not end what all have. */
	offline_as(fake, 0);
	sim->ticks += TICKS;
	sweep_as(fake, 1);
	CHECK(committed(fake) - 4 * 256 * KIB <= 2 * MIB);
	for (unsigned i = 0; i < FALLOW_FLOOR_EPOCHS; i++) {
		sim->ticks += TICKS;
		sweep_as(fake, 1);
	}
	CHECK_EQUAL(committed(fake), 4 * 256 * KIB);
	for (unsigned c = 0; c < 4; c++)
		free_as(fake, c, blocks[c][0]);
	fake_end(fake);
}

/* Where interrupts are off a sweep comes another time. */
static void test_sweep_masked(void)
{
	struct fake *fake = clock_begin(2, FALLOW_FLOOR_NONE);
	struct sim *sim = &fake->rig->sim;

	free_as(fake, 0, alloc_as(fake, 0, MIB));
	sim->ticks += 10 * TICKS;
	test_port.irqs_on = test_port.entry_irqs_on = false;
	test_port.held = FALLOW_MODEL == FALLOW_MODEL_PREEMPT;
	for (unsigned i = 0; i < 10; i++)
		CHECK_EQUAL(fallow_sweep(&fake->rig->heap, SIZE_MAX), 1);
	CHECK_EQUAL(fallow_reclaim(&fake->rig->heap, FALLOW_RECLAIM_FLOOR), 0);
	test_port.irqs_on = test_port.entry_irqs_on = true;
	test_port.held = false;
	CHECK_EQUAL(sim->made[SIM_DECOMMIT], 0);
	fake_end(fake);
}

/* In the middle of a decommit, on the page that is losing granules: what a test
 * does there, in the context that owns it or in another. */
#define MIDDLE_BLOCKS 64
#define MIDDLE_KEPT 9 /* one block in so many is in use */

enum way {
	WAY_FREE = 1,     /* all that is in use: the page would go */
	WAY_ALLOC = 2,
	WAY_MISUSE = 4,   /* a second free of a block that is going */
	WAY_OFFLINE = 8,
	WAY_PARK = 16,
	WAY_SWEEP = 32,
	WAY_OTHER = 64,   /* not on the CPU whose page it is */
	WAYS = 128,
};

static struct {
	uintptr_t blocks[MIDDLE_BLOCKS];
	unsigned way;
	bool done;
} middle;

/* Frees the blocks that are in use. */
static void middle_free(struct fake *fake)
{
	struct oracle *oracle = &fake->rig->oracle;

	for (unsigned i = 0; i < MIDDLE_BLOCKS; i += MIDDLE_KEPT)
		oracle_free(oracle, oracle_find(oracle, middle.blocks[i]));
}

static void middle_misuse(struct fake *fake)
{
	unsigned before = fake->rig->misuses;

	fallow_free(&fake->rig->heap, (void *)middle.blocks[1]);
	CHECK_EQUAL(fake->rig->misuses, before + 1);
	CHECK_EQUAL(fake->rig->misuse.kind, FALLOW_MISUSE_DOUBLE_FREE);
	fake->rig->misuses_expected = fake->rig->misuses;
}

static void middle_act(struct fake *fake)
{
	struct fallow *heap = &fake->rig->heap;

	if (middle.way & WAY_MISUSE)
		middle_misuse(fake);
	if (middle.way & WAY_FREE)
		middle_free(fake);
	for (unsigned i = 0; (middle.way & WAY_ALLOC) && i < 40; i++)
		CHECK(oracle_alloc(&fake->inner, 1024, 0));
	if (middle.way & WAY_OFFLINE)
		fallow_offline(heap);
	if (middle.way & WAY_PARK)
		fallow_park(heap);
	if (middle.way & WAY_SWEEP) {
		fallow_sweep(heap, SIZE_MAX);
		fallow_reclaim(heap, FALLOW_RECLAIM_FLOOR);
	}
}

static void middle_during(struct sim *sim, enum sim_call call)
{
	struct fake *fake = sim->during_arg;
	struct test_port interrupted;

	if (call != SIM_DECOMMIT || fake->nesting > 0 || middle.done)
		return;
	fake->nesting++;
	middle.done = true;
	interrupted = test_port_begin(middle.way & WAY_OTHER ? 1 : 0, true);
	test_port.entry_irqs_on = true;
	middle_act(fake);
	test_port_end(interrupted);
	fake->nesting--;
}

/* A page of context 0 with a few blocks in use, not the one that its class
 * allocates from. */
static void middle_begin(struct fake *fake)
{
	struct oracle *oracle = &fake->rig->oracle;

	for (unsigned i = 0; i < MIDDLE_BLOCKS; i++) {
		CHECK(oracle_alloc(oracle, 1024, 0));
		middle.blocks[i] = oracle->blocks[oracle_last(oracle)].base;
	}
	CHECK(oracle_alloc(oracle, 1024, 0));
	for (unsigned i = 0; i < MIDDLE_BLOCKS; i++)
		if (i % MIDDLE_KEPT != 0)
			oracle_free(oracle,
				oracle_find(oracle, middle.blocks[i]));
}

/* Whose page it is: a context that runs, a parked one, nobody's, or one that
 * its owner has handed over. */
enum whose {
	WHOSE_OWN = 0,
	WHOSE_PARKED,
	WHOSE_NOBODY,
	WHOSE_HANDED,
	WHOSES,
};

static void middle_run(unsigned way, enum whose whose, unsigned refuse_rate)
{
	struct fake *fake = clock_begin(3, FALLOW_FLOOR_NONE);
	struct sim *sim = &fake->rig->sim;

	middle.way = way;
	middle.done = false;
	middle_begin(fake);
	sim->during = middle_during;
	sim->refuse_range_rate = refuse_rate;
	if (whose == WHOSE_PARKED)
		park_as(fake, 0);
	if (whose == WHOSE_NOBODY)
		offline_as(fake, 0);
	if (whose == WHOSE_HANDED) {
		reclaim_as(fake, 2, FALLOW_RECLAIM_FLOOR);
		CHECK(oracle_alloc(&fake->rig->oracle, 3000, 0));
		CHECK(inside(fake)->handed > 0);
	}
	sweep_as(fake, whose == WHOSE_OWN ? 0 : 2);
	CHECK(middle.done);
	sim->refuse_range_rate = 0;
	sim->during = NULL;
	fake_check(fake);
	for (unsigned i = 0; i < 3; i++) {
		sim->ticks += TICKS;
		sweep_as(fake, i);
	}
	fake_check(fake);
	if (test_failures() > 0)
		test_printf("\n    way %u, whose %u, refuse %u", way, whose,
			refuse_rate);
	fake_end(fake);
}

/* Everything alone and together, with the decommit done and refused. */
static void test_sweep_in_the_middle(void)
{
	for (unsigned way = 0; way < WAYS; way++)
		for (unsigned whose = 0; whose < WHOSES; whose++)
			for (unsigned rate = 0; rate <= 256; rate += 128)
				if (test_failures() == 0)
					middle_run(way, whose, rate);
}

/* Random operations in random contexts; handlers and other CPUs in every call
 * of the provider; sweeps of all kinds among both. */
static void random_sweeps(enum fallow_provider_class class, size_t budget,
	bool clock, size_t floor)
{
	struct fake *fake = fake_prepare(class, 256 * MIB, 4);
	struct oracle *oracle = &fake->rig->oracle;
	struct sim *sim = &fake->rig->sim;

	if (clock)
		sim_clock(sim);
	fake->rig->config.epoch_ticks = TICKS;
	fake->rig->config.floor_bytes = floor;
	fake_init(fake);
	fake->migrate_rate = fake->handler_rate = fake->other_rate = 64;
	fake->park_rate = fake->sweep_rate = 64;
	fake->inner.volume = 4 * MIB;
	fake->inner.size_max = MIB;
	sim->budget = budget;
	sim->dirty_rate = 64;
	sim->refuse_range_rate = 32;
	oracle->may_fail = true;
	oracle->volume = 16 * MIB;
	for (unsigned i = 1; i <= 12000 && !test_failures(); i++) {
		if (i % 3 == 0)
			fake_switch(fake);
		sim->ticks += i % 5 * 10;
		oracle_step(oracle);
		/* Now and then nearly all of it goes. */
		if (i % 1500 == 0)
			oracle_shrink(oracle, 50);
		if (i % 29 == 0 && test_port_waits()) {
			test_port.entry_irqs_on = true;
			fallow_sweep(&fake->rig->heap, i % 4 ? SIZE_MAX : 5);
		}
		if (i % 13 == 0)
			fallow_park(&fake->rig->heap);
		if (i % 211 == 0)
			fallow_offline(&fake->rig->heap);
		if (i % 401 == 0 && test_port_waits()) {
			test_port.entry_irqs_on = true;
			fallow_reclaim(&fake->rig->heap, i % 3 + 1);
		}
		if (i % 97 == 0)
			fallow_tick(&fake->rig->heap);
		if (i % 400 == 0)
			fake_check(fake);
	}
	CHECK(fake->migrations > 0 && fake->handlers > 0 && fake->others > 0);
	fake_end(fake);
}

static void test_sweep_random(void)
{
	random_sweeps(FALLOW_CLASS_WINDOW, 0, true, 0);
}

static void test_sweep_random_no_clock(void)
{
	random_sweeps(FALLOW_CLASS_WINDOW, 0, false, 64 * KIB);
}

static void test_sweep_random_exhausted(void)
{
	random_sweeps(FALLOW_CLASS_WINDOW, 10 * MIB, true, FALLOW_FLOOR_NONE);
}

static void test_sweep_random_direct(void)
{
	random_sweeps(FALLOW_CLASS_DIRECT, 0, true, 0);
}

/* How often a lock was had, or left, or the context, since it was left last. */
static unsigned streak, longest;

static void streak_step(void)
{
	streak = test_port.depth == 0 ? 0 : streak + 1;
	if (streak > longest)
		longest = streak;
}

/* Whatever the size of the heap, the context is left every few steps. */
static void test_sweep_lets_others_in(void)
{
	struct fake *fake = clock_begin(1, 4 * MIB);

	free_as(fake, 0, alloc_as(fake, 0, 1000 * MIB));
	free_as(fake, 0, alloc_as(fake, 0, 100));
	streak = longest = 0;
	test_port.step = streak_step;
	for (unsigned i = 0; i < 3; i++) {
		sweep_as(fake, 0);
		fake->rig->sim.ticks += TICKS;
	}
	test_port.step = NULL;
	/* 512 chunks at a time, each of which fl_watch_steps() notes. */
	CHECK(longest > 0 && longest < 1100);
	fake_end(fake);
}

/* The thread that sweeps moves to another CPU. */
static void move_away(struct sim *sim, enum sim_call call)
{
	struct fake *fake = sim->during_arg;

	if (call == SIM_NOW && fake->nesting == 0)
		test_port.context = 1;
}

/* A parked context's sweep parks it again, and nobody else. */
static void test_sweep_parks_again(void)
{
	struct fake *fake = clock_begin(2, FALLOW_FLOOR_NONE);

	park_as(fake, 0);
	sweep_as(fake, 0);
	CHECK(inside(fake)->parked[0]);
	fake->rig->sim.during = move_away;
	sweep_as(fake, 0);
	fake->rig->sim.during = NULL;
	CHECK(!inside(fake)->parked[1]);
	fake_end(fake);
}

/* Another context frees a parked one's blocks behind the sweep's back: those of
 * [from, to), while memory is given back. */
static struct {
	void *blocks[64];
	unsigned from, to;
} behind;

static void behind_free(struct sim *sim, enum sim_call call)
{
	struct fake *fake = sim->during_arg;

	if (call != SIM_DECOMMIT || fake->nesting > 0)
		return;
	fake->nesting++;
	for (; behind.from < behind.to; behind.from++)
		free_as(fake, 1, behind.blocks[behind.from]);
	fake->nesting--;
}

/* A parked context that sweeps is one that is parked for all others: what they
 * free of its pages meanwhile, when it has already seen them, is not lost. */
static void test_sweep_parked_is_told(void)
{
	struct fake *fake = clock_begin(2, FALLOW_FLOOR_NONE);
	unsigned i;

	/* Two pages, all of them in use. */
	for (i = 0; i < 64; i++)
		behind.blocks[i] = alloc_as(fake, 0, 2 * KIB);
	park_as(fake, 0);
	for (i = 0; i < 4 && sweep_as(fake, 0) != 0; i++)
		fake->rig->sim.ticks += TICKS;
	for (i = 0; i < 8; i++)
		free_as(fake, 1, behind.blocks[i]);
	behind.from = i;
	behind.to = 16;
	fake->rig->sim.ticks += TICKS;
	fake->rig->sim.during = behind_free;
	CHECK(sweep_as(fake, 0) > 0);
	fake->rig->sim.during = NULL;
	CHECK_EQUAL(behind.from, behind.to);
	for (i = 0; i < 4; i++) {
		fake->rig->sim.ticks += TICKS;
		if (sweep_as(fake, 0) == 0)
			break;
	}
	CHECK(i < 4);
	CHECK_EQUAL(committed(fake), (64 - 16) * 2 * KIB);
	CHECK(inside(fake)->parked[0]);
	CHECK_EQUAL(inside(fake)->parked_count, 1);
	for (i = 16; i < 64; i++)
		free_as(fake, 1, behind.blocks[i]);
	fake_end(fake);
}

/* By what a parked context makes slices free. */
enum { BY_FREE, BY_SIZED, BY_SHRINK, BY_TOKEN, BY_ARENA, BYS };

/* Does that in context 0; returns what has become of the block. */
static void *slices_free(struct fake *fake, unsigned way, void *block,
	struct fallow_token *token, struct fallow_bump *bump)
{
	struct fallow *heap = &fake->rig->heap;
	struct test_port interrupted = test_port_begin(0, true);

	test_port.entry_irqs_on = true;
	if (way == BY_FREE)
		fallow_free(heap, block);
	else if (way == BY_SIZED)
		fallow_free_sized(heap, block, 300 * KIB);
	else if (way == BY_SHRINK)
		block = fallow_realloc(heap, block, 100 * KIB);
	else if (way == BY_TOKEN)
		fallow_unfill(heap, token);
	else
		fallow_bump_fini(bump);
	test_port_end(interrupted);
	return way == BY_SHRINK ? block : NULL;
}

/* What is slices at once when a parked context has freed it, as spans are, is
 * told of as what it frees of its pages: all others may be at rest. */
static void test_sweep_parked_frees_slices(void)
{
	for (unsigned way = 0; way < BYS; way++) {
		struct fake *fake = clock_begin(2, FALLOW_FLOOR_NONE);
		struct fallow_token token = { .first = NULL };
		struct fallow_bump bump;
		void *block = NULL;
		uint64_t wanted;
		unsigned i;

		if (way == BY_TOKEN)
			CHECK(fallow_prefill(&fake->rig->heap, &token,
				300 * KIB, 1, 0));
		else if (way == BY_ARENA)
			CHECK(fallow_bump_init(&bump, &fake->rig->heap, NULL) ==
					FALLOW_OK &&
				fallow_bump_alloc(&bump, 300 * KIB) != NULL);
		else
			block = alloc_as(fake, 0, 300 * KIB);
		park_as(fake, 0);
		for (i = 0; i < 4 && sweep_as(fake, 1) != 0; i++)
			fake->rig->sim.ticks += TICKS;
		CHECK(i < 4 && committed(fake) >= 300 * KIB);
		wanted = fake->rig->sim.made[SIM_WANTED];
		block = slices_free(fake, way, block, &token, &bump);
		CHECK_EQUAL(fake->rig->sim.made[SIM_WANTED], wanted + 1);
		for (i = 0; i < 4 && sweep_as(fake, 1) != 0; i++)
			fake->rig->sim.ticks += TICKS;
		CHECK(i < 4 && committed(fake) <= 128 * KIB);
		free_as(fake, 0, block);
		fake_end(fake);
	}
}

/* The next epoch begins, by another context, when the first pages have been
 * looked at. */
static struct {
	struct fake *fake;
	const struct page *page;
	uint32_t number; /* of that sweep */
	bool done;
} late;

static void late_step(void)
{
	if (late.done || test_port.depth > 0 ||
		!page_seen(late.page, late.number))
		return;
	late.done = true;
	late.fake->rig->sim.ticks += TICKS;
	sweep_as(late.fake, 1);
}

/* What current pages keep of an epoch a sweep of the one before does not take. */
static void test_sweep_late_takes_nothing(void)
{
	struct fake *fake = clock_begin(2, 4 * MIB);
	static void *blocks[12 * 32];
	void *current;

	for (unsigned i = 0; i < 12 * 32; i++)
		blocks[i] = alloc_as(fake, 0, 2 * KIB);
	/* Of a larger class: the sweep comes to it when it has been left once. */
	current = alloc_as(fake, 0, 4 * KIB);
	late.fake = fake;
	late.page = map_find(inside(fake), (uintptr_t)blocks[0]);
	late.number = inside(fake)->sweeps + 1;
	late.done = false;
	test_port.step = late_step;
	fake->rig->sim.ticks += TICKS;
	sweep_as(fake, 0);
	test_port.step = NULL;
	CHECK(late.done);
	/* Both current pages are this context's, which its next sweep counts. */
	CHECK_EQUAL(inside(fake)->sweeping.current_left, MIB);
	sweep_as(fake, 0);
	CHECK(inside(fake)->sweeping.current_left < MIB);
	for (unsigned i = 0; i < 12 * 32; i++)
		free_as(fake, 0, blocks[i]);
	free_as(fake, 0, current);
	fake_end(fake);
}

/* Two idle loops of parked contexts, each of which sweeps the other's pages as
 * well: both come to the end, however few pages they look at in a call. */
static void test_sweep_parked_both_end(void)
{
	struct fake *fake = clock_begin(2, FALLOW_FLOOR_NONE);
	struct sim *sim = &fake->rig->sim;
	static void *blocks[2][20];
	uint64_t due[2] = { 1, 1 };
	unsigned n;

	for (unsigned context = 0; context < 2; context++) {
		for (unsigned i = 0; i < 20; i++)
			blocks[context][i] =
				alloc_as(fake, context, 40 * KIB + 3 * KIB * i);
		park_as(fake, context);
	}
	for (n = 0; n < 500 && due[0] + due[1] > 0; n++) {
		for (unsigned context = 0; context < 2; context++) {
			test_port.entry_irqs_on = true;
			test_port.context = context;
			if (due[context] > 0)
				due[context] = fallow_sweep(
					&fake->rig->heap, 3);
		}
		sim->ticks += due[0] == 1 || due[1] == 1 ? 1 : TICKS;
	}
	CHECK(n < 500);
	test_port.context = 0;
	for (unsigned i = 0; i < 40; i++)
		free_as(fake, i % 2, blocks[i % 2][i / 2]);
	fake_end(fake);
}

/* Pages of the smallest blocks: how many of them were seen since the context was
 * left last, and the most of it. */
#define TINY_PAGES 12

static struct {
	const struct page *pages[TINY_PAGES];
	const struct heap *heap;
	unsigned seen, most;
} tiny;

static void tiny_step(void)
{
	unsigned seen = 0;

	if (test_port.depth > 0)
		return;
	for (unsigned i = 0; i < TINY_PAGES; i++)
		seen += page_seen(tiny.pages[i], tiny.heap->sweeps);
	if (seen > tiny.seen && seen - tiny.seen > tiny.most)
		tiny.most = seen - tiny.seen;
	tiny.seen = seen;
}

/* Of pages that take long to walk, the context is left after each: by a sweep,
 * and by a context that answers a request. */
static void test_sweep_one_page_at_a_time(void)
{
	static void *blocks[TINY_PAGES][SLICE_BYTES / 16];

	for (unsigned asked = 0; asked < 2; asked++) {
		struct fake *fake = clock_begin(2, FALLOW_FLOOR_NONE);

		for (unsigned i = 0; i < TINY_PAGES; i++) {
			for (unsigned n = 0; n < SLICE_BYTES / 16; n++)
				blocks[i][n] = alloc_as(fake, 0, 16);
			tiny.pages[i] = map_find(
				inside(fake), (uintptr_t)blocks[i][0]);
		}
		tiny.heap = inside(fake);
		tiny.seen = tiny.most = 0;
		if (asked)
			reclaim_as(fake, 1, FALLOW_RECLAIM_FLOOR);
		else
			fake->rig->sim.ticks += TICKS;
		test_port.step = tiny_step;
		for (unsigned i = 0; asked && i < 2 * TINY_PAGES; i++)
			free_as(fake, 0, alloc_as(fake, 0, 2 * MIB));
		if (!asked)
			sweep_as(fake, 0);
		test_port.step = NULL;
		CHECK_EQUAL(tiny.seen, TINY_PAGES);
		CHECK_EQUAL(tiny.most, 1);
		for (unsigned i = 0; i < TINY_PAGES; i++)
			for (unsigned n = 0; n < SLICE_BYTES / 16; n++)
				free_as(fake, 0, blocks[i][n]);
		fake_end(fake);
	}
}

const struct test tests[] = {
	{ "sweep_parked", test_sweep_parked },
	{ "sweep_floor_is_one", test_sweep_floor_is_one },
	{ "sweep_masked", test_sweep_masked },
	{ "sweep_in_the_middle", test_sweep_in_the_middle },
	{ "sweep_random", test_sweep_random },
	{ "sweep_random_no_clock", test_sweep_random_no_clock },
	{ "sweep_random_exhausted", test_sweep_random_exhausted },
	{ "sweep_random_direct", test_sweep_random_direct },
	{ "sweep_lets_others_in", test_sweep_lets_others_in },
	{ "sweep_parks_again", test_sweep_parks_again },
	{ "sweep_parked_is_told", test_sweep_parked_is_told },
	{ "sweep_parked_frees_slices", test_sweep_parked_frees_slices },
	{ "sweep_late_takes_nothing", test_sweep_late_takes_nothing },
	{ "sweep_parked_both_end", test_sweep_parked_both_end },
	{ "sweep_one_page_at_a_time", test_sweep_one_page_at_a_time },
	{ NULL, NULL },
};
