/* SPDX-License-Identifier: MIT */
/*
 * Epochs and due times of several contexts: nobody ages memory faster than
 * another, whoever is held up where, and what is freed or asked for while a
 * sweep is under way is not lost.
 */
#include "epoch.h"
#include "swept_fake.h"

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

/* The same of a block whose free leaves no granule without another. */
static void test_sweep_wanted_small(void)
{
	struct fake *fake = clock_begin(2, FALLOW_FLOOR_NONE);
	struct sim *sim = &fake->rig->sim;
	void *blocks[3];
	uint64_t wanted;

	for (unsigned i = 0; i < 3; i++)
		blocks[i] = alloc_as(fake, 0, 64);
	park_as(fake, 0);
	for (unsigned i = 0; i < 4 && sweep_as(fake, 1) != 0; i++)
		sim->ticks += TICKS;
	wanted = sim->made[SIM_WANTED];
	free_as(fake, 1, blocks[1]);
	CHECK_EQUAL(sim->made[SIM_WANTED], wanted + 1);
	free_as(fake, 1, blocks[0]);
	free_as(fake, 1, blocks[2]);
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

/* A block is freed while a sweep that has looked at its page, which is
 * nobody's, is about to put it back: the sweep learns of it. */
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

/* Sweeps as one context until nothing is left. */
static void drain_as(struct fake *fake, unsigned context)
{
	unsigned n;

	for (n = 0; n < 10 && sweep_as(fake, context) != 0; n++)
		fake->rig->sim.ticks += TICKS;
	CHECK(n < 10);
}

/* A page that another's sweep has seen in this epoch, that a context has used
 * since: in each of the ways that it can come to it. */
enum seen_by {
	SEEN_ABANDONED, /* the context adopts it */
	SEEN_PARKED,    /* it was parked meanwhile */
	SEEN_RECLAIM,   /* it was its own reclaim */
	SEEN_WAYS,
};

static void seen_run(enum seen_by way)
{
	struct fake *fake = clock_begin(3, FALLOW_FLOOR_NONE);
	unsigned user = way == SEEN_ABANDONED ? 2 : 0;
	void *blocks[64];

	for (unsigned i = 0; i < 64; i++)
		blocks[i] = alloc_as(fake, 0, 1024);
	drain_as(fake, 1);
	free_as(fake, 0, blocks[63]);
	if (way == SEEN_ABANDONED)
		offline_as(fake, 0);
	if (way == SEEN_PARKED)
		park_as(fake, 0);
	fake->rig->sim.ticks += TICKS;
	sweep_as(fake, 1);
	if (way == SEEN_RECLAIM)
		reclaim_as(fake, 0, FALLOW_RECLAIM_FLOOR);
	/* Takes the page, or takes it into use again. */
	blocks[63] = alloc_as(fake, user, 1024);
	for (unsigned i = 1; i < 64; i++)
		free_as(fake, user, blocks[i]);
	drain_as(fake, user);
	CHECK_EQUAL(committed(fake), GRANULE_BYTES);
	if (test_failures() > 0)
		test_printf("\n    way %u", way);
	free_as(fake, 0, blocks[0]);
	fake_end(fake);
}

static void test_epoch_used_since_it_was_seen(void)
{
	for (unsigned way = 0; way < SEEN_WAYS; way++)
		seen_run(way);
}

const struct test tests[] = {
	{ "sweep_eight_without_a_clock", test_sweep_eight_without_a_clock },
	{ "sweep_owner_rests", test_sweep_owner_rests },
	{ "sweep_mover_held_up", test_sweep_mover_held_up },
	{ "sweep_clock_read_early", test_sweep_clock_read_early },
	{ "sweep_wanted_once", test_sweep_wanted_once },
	{ "sweep_wanted_small", test_sweep_wanted_small },
	{ "sweep_wanted_offline", test_sweep_wanted_offline },
	{ "sweep_freed_meanwhile", test_sweep_freed_meanwhile },
	{ "sweep_asked_meanwhile", test_sweep_asked_meanwhile },
	{ "sweep_owner_offline", test_sweep_owner_offline },
	{ "sweep_freed_in_transit", test_sweep_freed_in_transit },
	{ "epoch_used_since_it_was_seen",
		test_epoch_used_since_it_was_seen },
	{ NULL, NULL },
};
