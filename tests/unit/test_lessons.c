/* SPDX-License-Identifier: MIT */
/*
 * What allocators that give memory back have got wrong before, one test each:
 * faults that no single call shows, since everything is right but how much
 * memory there is, or how often the provider is called, an hour later.
 *
 * Here is what one context can show: what the floor counts, keeps and lets go;
 * what a delay saves; clocks and settings at their ends.  Lessons in which
 * contexts meet are in fake_lessons.c; those about one page in test_hole.c, and
 * about one sweep in test_sweep.c.
 *
 * Memory is counted by the simulated provider's books, calls by its counters.
 */
#include <string.h>

#include "class.h"
#include "sweep.h"
#include "white.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
/* Addresses for pages as they are where addresses cost nothing. */
#define WIDE (1100 * MIB)
#define TICKS 100
/* Epochs that are enough for everything that is not in the floor. */
#define SETTLED 4
/* A block of which eight are 2 MiB. */
#define LARGE (256 * KIB)

/* How a heap is to be. */
struct setting {
	size_t floor;
	uint32_t floor_epochs;
	uint64_t epoch_ticks;
	uint64_t begin; /* what the clock shows at first */
};

static struct rig *begin(struct setting setting)
{
	struct rig *rig = rig_prepare(FALLOW_CLASS_WINDOW, WIDE, 2);

	sim_clock(&rig->sim);
	rig->sim.ticks = setting.begin;
	rig->config.epoch_ticks = setting.epoch_ticks;
	rig->config.floor_bytes = setting.floor;
	rig->config.floor_epochs = setting.floor_epochs;
	CHECK_EQUAL(rig_init(rig), FALLOW_OK);
	return rig;
}

static struct rig *begin_floor(size_t floor)
{
	return begin((struct setting){ .floor = floor, .epoch_ticks = TICKS });
}

static uint64_t sweep(struct rig *rig)
{
	return fallow_sweep(&rig->heap, SIZE_MAX);
}

/* A sweep in each of the next n epochs. */
static void epochs(struct rig *rig, unsigned n)
{
	for (; n > 0; n--) {
		rig->sim.ticks += white_heap(rig)->sweeping.epoch_ticks;
		sweep(rig);
	}
}

/* Sweeps whenever it is due, until nothing is left; returns in how many epochs
 * that was.  Fails after so many. */
static uint32_t drain(struct rig *rig, uint32_t most)
{
	uint32_t begun = white_heap(rig)->epoch;
	uint32_t n = 0;
	uint64_t due;

	/* Told when to come, it comes once an epoch, and once too early. */
	while ((due = sweep(rig)) != 0 && n++ <= 2 * most)
		rig->sim.ticks += due;
	CHECK_EQUAL(due, 0);
	CHECK(white_heap(rig)->epoch - begun <= most);
	return white_heap(rig)->epoch - begun;
}

static size_t committed(struct rig *rig)
{
	return white_heap(rig)->counters.committed;
}

/* Calls of the provider that moved memory. */
static uint64_t calls(const struct rig *rig)
{
	return rig->sim.made[SIM_COMMIT] + rig->sim.made[SIM_DECOMMIT];
}

/* n blocks of a size, written to. */
static void take(struct rig *rig, void **blocks, unsigned n, size_t size)
{
	for (unsigned i = 0; i < n; i++) {
		blocks[i] = fallow_alloc(&rig->heap, size);
		CHECK_OR_RETURN(blocks[i] != NULL);
		memset(blocks[i], 0x5a, size);
	}
}

static void give(struct rig *rig, void **blocks, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		fallow_free(&rig->heap, blocks[i]);
}

/* ----------------------------------------------------------------- floor -- */

/* Slices of which most was never touched take no room in the floor: the most
 * recent of all, and what was used before them is kept all the same. */
static void test_floor_ignores_untouched(void)
{
	struct rig *rig = begin_floor(2 * MIB);
	void *blocks[8];
	void *span = fallow_alloc(&rig->heap, MIB);
	struct op op;

	fallow_free(&rig->heap, span);
	epochs(rig, 2 * FALLOW_FLOOR_EPOCHS / 64);
	/* A page of each of eight classes, with one block; 4 MiB. */
	for (unsigned i = 0; i < 8; i++)
		take(rig, &blocks[i], 1, class_size(CLASS_COUNT - 1 - i));
	give(rig, blocks, 8);
	op = white_op(rig, 0);
	fl_class_trim_all(&op);
	op_drop(&op);
	epochs(rig, SETTLED);
	CHECK(fl_memory_populated(white_heap(rig), (uintptr_t)span, MIB));
	drain(rig, FALLOW_FLOOR_EPOCHS + 8);
	CHECK_EQUAL(committed(rig), 0);
	white_end(rig);
}

/* What large blocks were in is kept: to have them again costs no call. */
static void test_floor_covers_wholly_free(void)
{
	struct rig *rig = begin_floor(2 * MIB);
	void *blocks[8];
	uint64_t before = 0;

	for (unsigned round = 0; round < 40; round++) {
		take(rig, blocks, 8, LARGE);
		give(rig, blocks, 8);
		epochs(rig, SETTLED);
		if (round == 0)
			before = calls(rig);
	}
	CHECK_EQUAL(calls(rig), before);
	CHECK_EQUAL(committed(rig), 2 * MIB);
	drain(rig, FALLOW_FLOOR_EPOCHS + 8);
	CHECK_EQUAL(committed(rig), 0);
	white_end(rig);
}

/* What was kept by the floor, and what was asked for by the one that is. */
static void floor_epochs_run(uint32_t floor_epochs)
{
	struct rig *rig = begin((struct setting){ .floor = 4 * MIB,
		.floor_epochs = floor_epochs, .epoch_ticks = TICKS });
	/* Ages are told apart in 64 steps. */
	uint32_t least = floor_epochs - floor_epochs / 64;
	void *blocks[16], *span[1];
	uint64_t before;
	uint32_t n;

	take(rig, span, 1, MIB);
	take(rig, blocks, 16, LARGE);
	give(rig, blocks, 15);
	give(rig, span, 1);
	sweep(rig);
	for (n = 1; n < least; n++) {
		CHECK(committed(rig) > 2 * MIB);
		epochs(rig, 1);
	}
	n += drain(rig, 4 + floor_epochs / 64);
	CHECK(n <= floor_epochs + 3);
	CHECK_EQUAL(committed(rig), LARGE);
	/* Nobody is called any more, and nobody asks to be. */
	before = calls(rig);
	for (n = 0; n < 10; n++) {
		rig->sim.ticks += TICKS * floor_epochs;
		CHECK_EQUAL(sweep(rig), 0);
	}
	CHECK_EQUAL(calls(rig), before);
	CHECK_EQUAL(rig->sim.made[SIM_WANTED], 0);
	fallow_free(&rig->heap, blocks[15]);
	white_end(rig);
	if (test_failures() > 0)
		test_printf("\n    floor_epochs %u", floor_epochs);
}

/* However long the floor is to keep: not shorter, and all of it drains. */
static void test_floor_drains(void)
{
	static const uint32_t lengths[] = { 1, 2, 3, 63, 64, 65,
		FALLOW_FLOOR_EPOCHS, FALLOW_FLOOR_EPOCHS_MAX };

	for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]) &&
		test_failures() == 0; i++)
		floor_epochs_run(lengths[i]);
}

/* ----------------------------------------------------------------- delay -- */

/* An idle loop until the clock shows `until`. */
static void idle(struct rig *rig, uint64_t until)
{
	uint64_t due;

	while ((due = sweep(rig)) != 0 && due <= until - rig->sim.ticks)
		rig->sim.ticks += due;
	rig->sim.ticks = until;
}

/* A program that has the same buffers again and again, a millisecond apart of
 * a clock of nanoseconds, with an idle loop in between; returns the calls of
 * the provider in a thousand rounds. */
static uint64_t buffers_calls(uint64_t epoch_ticks)
{
	struct rig *rig = begin((struct setting){
		.floor = FALLOW_FLOOR_NONE, .epoch_ticks = epoch_ticks });
	void *blocks[4];
	uint64_t before = 0;

	for (unsigned round = 0; round <= 1000; round++) {
		if (round == 1)
			before = calls(rig);
		take(rig, blocks, 4, LARGE);
		give(rig, blocks, 4);
		idle(rig, rig->sim.ticks + 1000000);
	}
	before = calls(rig) - before;
	drain(rig, SETTLED);
	CHECK_EQUAL(committed(rig), 0);
	white_end(rig);
	return before;
}

/* Without the delay every buffer is paid for every time; the default that
 * nobody has set costs nothing. */
static void test_delay_by_default(void)
{
	CHECK_EQUAL(buffers_calls(0), 0);
	CHECK(buffers_calls(1) >= 1000 * 2);
	CHECK_EQUAL(FALLOW_EPOCH_TICKS, 100 * 1000000);
}

/* ----------------------------------------------------------------- clock -- */

/* What is committed after each of so many epochs, from a clock that begins
 * somewhere: spans, and a page with a block in use, freed one by one. */
#define CLOCK_EPOCHS 24

static void clock_run(uint64_t begun, uint64_t ticks, size_t seen[CLOCK_EPOCHS])
{
	struct rig *rig = begin((struct setting){ .floor = MIB,
		.floor_epochs = 8, .epoch_ticks = ticks, .begin = begun });
	void *blocks[8];
	void *spans[4];

	take(rig, blocks, 8, 4 * KIB);
	take(rig, spans, 4, MIB);
	for (unsigned i = 0; i < CLOCK_EPOCHS; i++) {
		if (i % 2 == 0 && i < 8)
			give(rig, &spans[i / 2], 1);
		if (i > 0 && i < 8)
			give(rig, &blocks[i], 1);
		/* Early ones begin no epoch. */
		sweep(rig);
		rig->sim.ticks += ticks / 2;
		sweep(rig);
		rig->sim.ticks += ticks - ticks / 2;
		seen[i] = committed(rig);
	}
	CHECK_EQUAL(white_heap(rig)->epoch, 1 + CLOCK_EPOCHS);
	CHECK_EQUAL(sweep(rig), 0);
	give(rig, blocks, 1);
	white_end(rig);
}

/* A clock whose ticks come to an end and begin anew is one that goes on:
 * wherever in the epochs that is. */
static void test_clock_wraps(void)
{
	size_t expected[CLOCK_EPOCHS], seen[CLOCK_EPOCHS];

	clock_run(0, TICKS, expected);
	CHECK(expected[0] > 4 * MIB);
	CHECK_EQUAL(expected[CLOCK_EPOCHS - 1], GRANULE_BYTES);
	for (uint64_t left = 0; left <= 12 * TICKS && test_failures() == 0;
		left += TICKS / 4 - 1) {
		clock_run(0 - left, TICKS, seen);
		for (unsigned i = 0; i < CLOCK_EPOCHS; i++)
			CHECK_EQUAL(seen[i], expected[i]);
		if (test_failures() > 0)
			test_printf("\n    %u ticks before the end",
				(unsigned)left);
	}
}

/* The same with it in the middle of a sweep: between any two times that the
 * clock is read. */
static unsigned wraps_at;

static void wraps_during(struct sim *sim, enum sim_call call)
{
	if (call == SIM_NOW && wraps_at > 0 && --wraps_at == 0)
		sim->ticks += TICKS;
}

static void test_clock_wraps_in_a_sweep(void)
{
	for (unsigned at = 1; at <= 8; at++) {
		struct rig *rig = begin((struct setting){
			.floor = FALLOW_FLOOR_NONE, .epoch_ticks = TICKS,
			.begin = 0 - (uint64_t)TICKS / 2 });
		void *span[1];

		take(rig, span, 1, MIB);
		give(rig, span, 1);
		wraps_at = at;
		rig->sim.during = wraps_during;
		CHECK(drain(rig, SETTLED) > 1);
		rig->sim.during = NULL;
		CHECK_EQUAL(committed(rig), 0);
		white_end(rig);
	}
}

/* Epochs of one tick: each sweep that sees another time begins one, and a
 * sweep that does not sees nothing twice. */
static void test_clock_of_short_epochs(void)
{
	size_t expected[CLOCK_EPOCHS], seen[CLOCK_EPOCHS];
	struct rig *rig;
	uint32_t epoch;
	void *span[1];

	clock_run(0, TICKS, expected);
	clock_run(0, 2, seen);
	for (unsigned i = 0; i < CLOCK_EPOCHS; i++)
		CHECK_EQUAL(seen[i], expected[i]);
	rig = begin((struct setting){ .epoch_ticks = 1, .begin = 7 });
	take(rig, span, 1, MIB);
	give(rig, span, 1);
	CHECK_EQUAL(sweep(rig), 1);
	epoch = white_heap(rig)->epoch;
	for (unsigned i = 0; i < 5; i++)
		CHECK_EQUAL(sweep(rig), 1);
	CHECK_EQUAL(white_heap(rig)->epoch, epoch);
	CHECK(drain(rig, FALLOW_FLOOR_EPOCHS + 3) >= FALLOW_FLOOR_EPOCHS - 4);
	CHECK_EQUAL(committed(rig), 0);
	white_end(rig);
}

/* Epochs that never end within a test: nothing ages, nothing is lost. */
static void test_clock_of_long_epochs(void)
{
	struct rig *rig = begin((struct setting){
		.floor = FALLOW_FLOOR_NONE, .epoch_ticks = UINT64_MAX / 4,
		.begin = 12345 });
	void *span[1];

	take(rig, span, 1, MIB);
	give(rig, span, 1);
	for (unsigned i = 0; i < 5; i++) {
		CHECK(sweep(rig) > UINT64_MAX / 5);
		rig->sim.ticks += 1000000;
	}
	CHECK_EQUAL(committed(rig), MIB);
	CHECK_EQUAL(fallow_reclaim(&rig->heap, FALLOW_RECLAIM_HOLD), MIB);
	white_end(rig);
}

const struct test tests[] = {
	{ "floor_ignores_untouched", test_floor_ignores_untouched },
	{ "floor_covers_wholly_free", test_floor_covers_wholly_free },
	{ "floor_drains", test_floor_drains },
	{ "delay_by_default", test_delay_by_default },
	{ "clock_wraps", test_clock_wraps },
	{ "clock_wraps_in_a_sweep", test_clock_wraps_in_a_sweep },
	{ "clock_of_short_epochs", test_clock_of_short_epochs },
	{ "clock_of_long_epochs", test_clock_of_long_epochs },
	{ NULL, NULL },
};
