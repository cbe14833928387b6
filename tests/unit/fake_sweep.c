/* SPDX-License-Identifier: MIT */
/*
 * Sweeps of several contexts, and what others may do in the middle of one: in
 * every call of the provider handlers and other CPUs free, allocate, go
 * offline, park, sweep and reclaim, and everything must come out even.
 */
#include "epoch.h"
#include "sim_fake.h"
#include "test.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define TICKS 100
#define WIDE (1100 * MIB)

static struct heap *inside(struct fake *fake)
{
	return heap_of(&fake->rig->heap);
}

static size_t committed(struct fake *fake)
{
	return inside(fake)->counters.committed;
}

/* Several contexts over a provider with a clock. */
static struct fake *clock_begin(unsigned contexts, size_t floor)
{
	struct fake *fake = fake_prepare(FALLOW_CLASS_WINDOW, WIDE, contexts);

	sim_clock(&fake->rig->sim);
	fake->rig->config.epoch_ticks = TICKS;
	fake->rig->config.floor_bytes = floor;
	fake_init(fake);
	return fake;
}

static uint64_t sweep_as(struct fake *fake, unsigned context)
{
	struct test_port interrupted = test_port_begin(context, true);
	uint64_t due;

	test_port.entry_irqs_on = true;
	due = fallow_sweep(&fake->rig->heap, SIZE_MAX);
	test_port_end(interrupted);
	return due;
}

static size_t reclaim_as(struct fake *fake, unsigned context,
	enum fallow_reclaim_level level)
{
	struct test_port interrupted = test_port_begin(context, true);
	size_t bytes;

	test_port.entry_irqs_on = true;
	bytes = fallow_reclaim(&fake->rig->heap, level);
	test_port_end(interrupted);
	return bytes;
}

static void *alloc_as(struct fake *fake, unsigned context, size_t size)
{
	struct test_port interrupted = test_port_begin(context, true);
	void *block;

	test_port.entry_irqs_on = true;
	block = fallow_alloc(&fake->rig->heap, size);
	test_port_end(interrupted);
	CHECK(block != NULL);
	return block;
}

static void free_as(struct fake *fake, unsigned context, void *block)
{
	struct test_port interrupted = test_port_begin(context, true);

	test_port.entry_irqs_on = true;
	fallow_free(&fake->rig->heap, block);
	test_port_end(interrupted);
}

static void park_as(struct fake *fake, unsigned context)
{
	struct test_port interrupted = test_port_begin(context, true);

	test_port.entry_irqs_on = true;
	fallow_park(&fake->rig->heap);
	test_port_end(interrupted);
}

static void offline_as(struct fake *fake, unsigned context)
{
	struct test_port interrupted = test_port_begin(context, true);

	test_port.entry_irqs_on = true;
	fallow_offline(&fake->rig->heap);
	test_port_end(interrupted);
}

/* Eight idle loops without a clock age memory no faster than one. */
static void test_sweep_eight_without_a_clock(void)
{
	struct fake *fake = fake_begin(FALLOW_CLASS_WINDOW, WIDE, 8);
	uint32_t epoch;

	free_as(fake, 0, alloc_as(fake, 0, MIB));
	sweep_as(fake, 0);
	epoch = inside(fake)->epoch;
	for (unsigned round = 0; round < 10; round++)
		for (unsigned i = 0; i < 8; i++)
			sweep_as(fake, (i + 3) % 8);
	CHECK_EQUAL(inside(fake)->epoch, epoch + 10);
	/* A tick lets any of them begin one. */
	fallow_tick(&fake->rig->heap);
	sweep_as(fake, 5);
	CHECK_EQUAL(inside(fake)->epoch, epoch + 11);
	sweep_as(fake, 0);
	CHECK_EQUAL(inside(fake)->epoch, epoch + 11);
	fake_end(fake);
}

/* Whoever ended epochs has nothing left and comes no more: the others come to
 * their end all the same. */
static void test_sweep_owner_rests(void)
{
	struct fake *fake = fake_begin(FALLOW_CLASS_WINDOW, WIDE, 3);
	void *block = alloc_as(fake, 1, 300 * KIB);
	unsigned n, sum = 0;

	CHECK_EQUAL(sweep_as(fake, 0), 0);
	free_as(fake, 1, block);
	for (unsigned i = 0; i < 3; i++)
		for (n = 0; n < 400 && sweep_as(fake, i) != 0; n++)
			sum++;
	CHECK(sum < 400);
	CHECK_EQUAL(committed(fake), 0);
	fake_end(fake);
}

static uint32_t between_epoch;
static unsigned between_calls;

/* Another CPU sweeps between the two times that the clock is read. */
static void between_reads(struct sim *sim, enum sim_call call)
{
	struct fake *fake = sim->during_arg;

	if (call != SIM_NOW || fake->nesting > 0 || ++between_calls != 2)
		return;
	fake->nesting++;
	between_epoch = inside(fake)->epoch;
	/* This one has begun just now. */
	sweep_as(fake, 1);
	CHECK_EQUAL(inside(fake)->epoch, between_epoch);
	sim->ticks += TICKS - 1;
	sweep_as(fake, 1);
	CHECK_EQUAL(inside(fake)->epoch, between_epoch);
	/* The caller is held up for long. */
	sim->ticks += 1;
	sweep_as(fake, 1);
	CHECK_EQUAL(inside(fake)->epoch, between_epoch + 1);
	sim->ticks += TICKS / 2;
	fake->nesting--;
}

/* An epoch is never shorter than it should be, whoever is held up where. */
static void test_sweep_mover_held_up(void)
{
	struct fake *fake = clock_begin(2, FALLOW_FLOOR_NONE);
	struct sim *sim = &fake->rig->sim;
	uint32_t epoch;

	sim->ticks = 5000;
	sweep_as(fake, 0);
	sim->ticks += TICKS;
	sim->during = between_reads;
	between_calls = 0;
	sweep_as(fake, 0);
	CHECK(between_calls >= 2);
	sim->during = NULL;
	/* Its late writing made the other's epoch no shorter. */
	epoch = inside(fake)->epoch;
	sim->ticks += TICKS / 2 - 1;
	sweep_as(fake, 1);
	CHECK_EQUAL(inside(fake)->epoch, epoch);
	sim->ticks += TICKS;
	sweep_as(fake, 1);
	CHECK_EQUAL(inside(fake)->epoch, epoch + 1);
	fake_end(fake);
}

/* Another CPU sweeps later than the caller read the clock. */
static void before_lock(struct sim *sim, enum sim_call call)
{
	struct fake *fake = sim->during_arg;

	if (call != SIM_NOW || fake->nesting > 0 || ++between_calls != 1)
		return;
	fake->nesting++;
	sim->ticks += TICKS;
	sweep_as(fake, 1);
	between_epoch = inside(fake)->epoch;
	sim->ticks -= TICKS;
	fake->nesting--;
}

static void test_sweep_clock_read_early(void)
{
	struct fake *fake = clock_begin(2, FALLOW_FLOOR_NONE);
	struct sim *sim = &fake->rig->sim;

	sim->ticks = 5000;
	sweep_as(fake, 0);
	sim->ticks += TICKS;
	sim->during = before_lock;
	between_calls = 0;
	sweep_as(fake, 0);
	CHECK_EQUAL(inside(fake)->epoch, between_epoch);
	sim->during = NULL;
	fake_end(fake);
}

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

/* A sweep has become useful again: told once, when a context parks, and when a
 * parked one's block is freed. */
static void test_sweep_wanted_once(void)
{
	struct fake *fake = clock_begin(3, FALLOW_FLOOR_NONE);
	struct sim *sim = &fake->rig->sim;
	void *blocks[8];

	for (unsigned i = 0; i < 8; i++)
		blocks[i] = alloc_as(fake, 0, 4 * KIB);
	/* Somebody is expected to begin. */
	park_as(fake, 2);
	CHECK_EQUAL(sim->made[SIM_WANTED], 0);
	for (unsigned i = 0; i < 4 && sweep_as(fake, 1) != 0; i++)
		sim->ticks += TICKS;
	park_as(fake, 0);
	CHECK_EQUAL(sim->made[SIM_WANTED], 1);
	CHECK_EQUAL(sim->wanted_ticks, TICKS);
	park_as(fake, 0);
	free_as(fake, 2, blocks[0]);
	CHECK_EQUAL(sim->made[SIM_WANTED], 1);
	for (unsigned i = 0; i < 4 && sweep_as(fake, 1) != 0; i++)
		sim->ticks += TICKS;
	for (unsigned i = 1; i < 8; i++) {
		free_as(fake, i % 3, blocks[i]);
		CHECK_EQUAL(sim->made[SIM_WANTED], 2);
	}
	for (unsigned i = 0; i < 5; i++) {
		sim->ticks += TICKS;
		sweep_as(fake, 1);
	}
	CHECK_EQUAL(committed(fake), 0);
	CHECK_EQUAL(sim->made[SIM_WANTED], 2);
	fake_end(fake);
}

static void *freed_late;
static uint64_t freed_context;

/* At the last moment of a sweep, when the parked context was looked at. */
static void free_late(struct sim *sim, enum sim_call call)
{
	struct fake *fake = sim->during_arg;

	if (call != SIM_DECOMMIT || fake->nesting > 0 || freed_late == NULL)
		return;
	fake->nesting++;
	free_as(fake, (unsigned)freed_context, freed_late);
	freed_late = NULL;
	fake->nesting--;
}

/* The same of a context that went offline, and of nobody's pages. */
static void test_sweep_wanted_offline(void)
{
	struct fake *fake = clock_begin(2, FALLOW_FLOOR_NONE);
	struct sim *sim = &fake->rig->sim;
	void *blocks[64];

	for (unsigned i = 0; i < 64; i++)
		blocks[i] = alloc_as(fake, 0, 1024);
	CHECK_EQUAL(sweep_as(fake, 1), 0);
	offline_as(fake, 0);
	CHECK_EQUAL(sim->made[SIM_WANTED], 1);
	for (unsigned i = 0; i < 4 && sweep_as(fake, 1) != 0; i++)
		sim->ticks += TICKS;
	for (unsigned i = 0; i < 63; i++)
		free_as(fake, 1, blocks[i]);
	CHECK_EQUAL(sim->made[SIM_WANTED], 2);
	for (unsigned i = 0; i < 4 && sweep_as(fake, 1) != 0; i++)
		sim->ticks += TICKS;
	CHECK_EQUAL(committed(fake), GRANULE_BYTES);
	free_as(fake, 1, blocks[63]);
	fake_end(fake);
}

/* What is freed while a sweep is under way is not lost: it says that there is
 * more, or somebody is told. */
static void test_sweep_freed_meanwhile(void)
{
	struct fake *fake = clock_begin(3, FALLOW_FLOOR_NONE);
	struct sim *sim = &fake->rig->sim;
	uint64_t due;
	unsigned n = 0;
	void *last = alloc_as(fake, 0, 4 * KIB);
	void *other = alloc_as(fake, 0, 4 * KIB);
	void *span = alloc_as(fake, 1, MIB);

	park_as(fake, 0);
	free_as(fake, 1, other);
	free_as(fake, 1, span);
	freed_late = last;
	freed_context = 2;
	/* The span goes two epochs later, alone. */
	sweep_as(fake, 1);
	sim->ticks += TICKS;
	sim->during = free_late;
	due = sweep_as(fake, 1);
	CHECK(freed_late == NULL);
	CHECK(due != 0 || sim->made[SIM_WANTED] == 1);
	sim->during = NULL;
	for (; n < 10; n++) {
		sim->ticks += TICKS;
		if (sweep_as(fake, 1) == 0)
			break;
	}
	CHECK(n < 10);
	CHECK_EQUAL(committed(fake), 0);
	fake_end(fake);
}

/* Whoever asks at the very end, when all has been looked at, is not lost. */
static void ask_late(struct sim *sim, enum sim_call call)
{
	struct fake *fake = sim->during_arg;
	struct test_port interrupted;

	if (call != SIM_DECOMMIT)
		return;
	interrupted = test_port_begin(2, true);
	test_port.entry_irqs_on = true;
	fl_sweep_wanted(inside(fake));
	test_port_end(interrupted);
}

static void test_sweep_asked_meanwhile(void)
{
	struct fake *fake = clock_begin(3, FALLOW_FLOOR_NONE);
	struct sim *sim = &fake->rig->sim;

	free_as(fake, 1, alloc_as(fake, 1, MIB));
	sweep_as(fake, 1);
	sim->ticks += TICKS;
	sim->during = ask_late;
	/* The span goes; then nothing is left, but somebody asked. */
	CHECK_EQUAL(sweep_as(fake, 1), TICKS);
	sim->during = NULL;
	CHECK_EQUAL(committed(fake), 0);
	CHECK_EQUAL(sim->made[SIM_WANTED], 0);
	sim->ticks += TICKS;
	CHECK_EQUAL(sweep_as(fake, 1), 0);
	fake_end(fake);
}

/* A context that is busy is asked, answers at its next slow path, and what it
 * hands over is fetched, by whoever sweeps next, who is told. */
static void test_reclaim_busy_owner(void)
{
	struct fake *fake = clock_begin(2, FALLOW_FLOOR_NONE);
	struct oracle *oracle = &fake->rig->oracle;
	struct sim *sim = &fake->rig->sim;
	size_t before, after;

	for (unsigned i = 0; i < 2000; i++)
		CHECK(oracle_alloc(oracle, 1000, 0));
	oracle_shrink(oracle, 60);
	for (unsigned i = 0; i < 4 && sweep_as(fake, 1) != 0; i++)
		sim->ticks += TICKS;
	before = committed(fake);
	CHECK_EQUAL(reclaim_as(fake, 1, FALLOW_RECLAIM_FLOOR), 0);
	CHECK_EQUAL(committed(fake), before);
	/* Slow paths: pages of other classes. */
	for (unsigned i = 0; i < 20; i++)
		CHECK(oracle_alloc(oracle, 2000 + 300 * i, 0));
	CHECK(inside(fake)->handed > 0);
	CHECK_EQUAL(sim->made[SIM_WANTED], 1);
	fake_check(fake);
	before = committed(fake);
	after = reclaim_as(fake, 1, FALLOW_RECLAIM_HOLD);
	CHECK_EQUAL(inside(fake)->handed, 0);
	CHECK(after > MIB);
	CHECK_EQUAL(committed(fake), before - after);
	fake_check(fake);
	fake_end(fake);
}

static size_t meanwhile_bytes;

static void reclaim_meanwhile(struct sim *sim, enum sim_call call)
{
	struct fake *fake = sim->during_arg;

	if (call != SIM_DECOMMIT || fake->nesting > 0)
		return;
	fake->nesting++;
	meanwhile_bytes += reclaim_as(fake, 1, FALLOW_RECLAIM_FLOOR);
	fake->nesting--;
}

/* A sweep that is under way is no reason for a reclaim to return nothing. */
static void test_reclaim_during_sweep(void)
{
	struct fake *fake = clock_begin(3, FALLOW_FLOOR_NONE);
	void *blocks[2][256];

	for (unsigned i = 0; i < 256; i++) {
		blocks[0][i] = alloc_as(fake, 0, 2 * KIB);
		blocks[1][i] = alloc_as(fake, 1, 2 * KIB);
	}
	for (unsigned i = 1; i < 256; i++) {
		free_as(fake, 0, blocks[0][i]);
		free_as(fake, 1, blocks[1][i]);
	}
	fake->rig->sim.during = reclaim_meanwhile;
	meanwhile_bytes = 0;
	sweep_as(fake, 0);
	CHECK(meanwhile_bytes >= 6 * SLICE_BYTES);
	fake->rig->sim.during = NULL;
	free_as(fake, 0, blocks[0][0]);
	free_as(fake, 1, blocks[1][0]);
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

/* Whoever ended epochs goes offline for good: the others do it then. */
static void test_sweep_owner_offline(void)
{
	struct fake *fake = fake_begin(FALLOW_CLASS_WINDOW, WIDE, 2);
	unsigned n;

	free_as(fake, 0, alloc_as(fake, 0, 300 * KIB));
	CHECK(sweep_as(fake, 0) != 0);
	offline_as(fake, 0);
	for (n = 0; n < 400 && sweep_as(fake, 1) != 0; n++)
		;
	CHECK(n < 400);
	CHECK_EQUAL(committed(fake), 0);
	fake_end(fake);
}

/* What a reclaim left in the floor is old news to this epoch's sweep, which
 * must not say for that that nothing is left. */
static void test_sweep_after_reclaim(void)
{
	struct fake *fake = clock_begin(2, 4 * MIB);
	void *blocks[2];
	unsigned n;

	blocks[0] = alloc_as(fake, 1, 300 * KIB);
	blocks[1] = alloc_as(fake, 1, 300 * KIB);
	free_as(fake, 1, blocks[1]);
	sweep_as(fake, 0);
	fake->rig->sim.ticks += TICKS;
	sweep_as(fake, 0);
	reclaim_as(fake, 1, FALLOW_RECLAIM_HOLD);
	CHECK(committed(fake) >= 600 * KIB);
	for (n = 0; n < 400 && sweep_as(fake, 1) != 0; n++)
		fake->rig->sim.ticks += TICKS;
	CHECK(n > 0 && n < 400);
	CHECK(committed(fake) <= 344 * KIB);
	free_as(fake, 1, blocks[0]);
	fake_end(fake);
}

/* The same of what a context kept when it was asked for memory. */
static void test_sweep_after_answer(void)
{
	struct fake *fake = clock_begin(2, 4 * MIB);
	void *blocks[2], *other;
	unsigned n;

	blocks[0] = alloc_as(fake, 1, 300 * KIB);
	blocks[1] = alloc_as(fake, 1, 300 * KIB);
	free_as(fake, 1, blocks[1]);
	sweep_as(fake, 0);
	fake->rig->sim.ticks += TICKS;
	sweep_as(fake, 0);
	reclaim_as(fake, 0, FALLOW_RECLAIM_HOLD);
	/* Takes the slow path. */
	other = alloc_as(fake, 1, 2 * MIB);
	free_as(fake, 1, other);
	for (n = 0; n < 400 && sweep_as(fake, 1) != 0; n++)
		fake->rig->sim.ticks += TICKS;
	CHECK(n > 0 && n < 400);
	CHECK(committed(fake) <= 344 * KIB);
	free_as(fake, 1, blocks[0]);
	fake_end(fake);
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

/* A block is freed while a sweep that has looked at its page, which is nobody's,
 * is about to put it back: the sweep learns of it. */
static void test_sweep_freed_in_transit(void)
{
	struct fake *fake = clock_begin(2, FALLOW_FLOOR_NONE);
	char *blocks[2] = { alloc_as(fake, 0, 100), alloc_as(fake, 0, 100) };
	struct heap *heap = inside(fake);
	struct page *page = map_find(heap, (uintptr_t)blocks[0]);

	offline_as(fake, 0);
	heap->sweeping.wanted = WANTED_SWEEPING;
	heap->sweeping.changed = 0;
	remote_change(page, REMOTE_TRANSIT);
	free_as(fake, 1, blocks[0]);
	CHECK_EQUAL(heap->sweeping.wanted, WANTED_YES);
	CHECK_EQUAL(heap->sweeping.changed, heap->epoch);
	remote_change(page, REMOTE_ABANDONED);
	free_as(fake, 1, blocks[1]);
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

const struct test tests[] = {
	{ "sweep_eight_without_a_clock", test_sweep_eight_without_a_clock },
	{ "sweep_owner_rests", test_sweep_owner_rests },
	{ "sweep_owner_offline", test_sweep_owner_offline },
	{ "sweep_after_reclaim", test_sweep_after_reclaim },
	{ "sweep_after_answer", test_sweep_after_answer },
	{ "sweep_mover_held_up", test_sweep_mover_held_up },
	{ "sweep_clock_read_early", test_sweep_clock_read_early },
	{ "sweep_parked", test_sweep_parked },
	{ "sweep_parks_again", test_sweep_parks_again },
	{ "sweep_wanted_once", test_sweep_wanted_once },
	{ "sweep_wanted_offline", test_sweep_wanted_offline },
	{ "sweep_freed_meanwhile", test_sweep_freed_meanwhile },
	{ "sweep_freed_in_transit", test_sweep_freed_in_transit },
	{ "sweep_asked_meanwhile", test_sweep_asked_meanwhile },
	{ "reclaim_busy_owner", test_reclaim_busy_owner },
	{ "reclaim_during_sweep", test_reclaim_during_sweep },
	{ "sweep_floor_is_one", test_sweep_floor_is_one },
	{ "sweep_lets_others_in", test_sweep_lets_others_in },
	{ "sweep_masked", test_sweep_masked },
	{ "sweep_in_the_middle", test_sweep_in_the_middle },
	{ "sweep_random", test_sweep_random },
	{ "sweep_random_no_clock", test_sweep_random_no_clock },
	{ "sweep_random_exhausted", test_sweep_random_exhausted },
	{ "sweep_random_direct", test_sweep_random_direct },
	{ NULL, NULL },
};
