/* SPDX-License-Identifier: MIT */
/*
 * What threads do to each other's contexts on a host: parking one that has not
 * said so, in two steps, and the heap as a fork leaves it; and that nobody is
 * asked to sweep before there is enough.
 */
#include "swept.h"

#include "epoch.h"

#define BLOCKS 400
#define SIZE 1000
#define THREADS (FALLOW_MODEL == FALLOW_MODEL_THREAD)

static void *blocks[BLOCKS];

/* Context 0 has pages of which little is in use. */
static void waste(struct rig *rig)
{
	for (unsigned i = 0; i < BLOCKS; i++)
		CHECK((blocks[i] = fallow_alloc(&rig->heap, SIZE)) != NULL);
	for (unsigned i = 0; i < BLOCKS; i++)
		if (i % 20 != 0)
			fallow_free(&rig->heap, blocks[i]);
}

static void waste_end(struct rig *rig)
{
	for (unsigned i = 0; i < BLOCKS; i += 20)
		fallow_free(&rig->heap, blocks[i]);
	white_check(rig);
	rig_end_now(rig, true);
}

/* Sweeps by context 1; returns what the last one said. */
static uint64_t sweeps_of_another(struct rig *rig, unsigned n)
{
	uint64_t due = 1;

	fallow_host_context = THREADS ? 1 : 0;
	for (; n > 0; n--) {
		rig->sim.ticks += TICKS;
		due = sweep(rig);
	}
	fallow_host_context = 0;
	return due;
}

/* Nobody touches what is announced, everybody what is settled. */
static void test_others_two_steps(void)
{
	struct rig *rig = clock_begin(
		FALLOW_CLASS_WINDOW, WIDE, FALLOW_FLOOR_NONE);
	size_t before;

	waste(rig);
	before = committed(rig);
	fallow_park_context(&rig->heap, 0);
	white_check(rig);
	if (THREADS) {
		(void)sweeps_of_another(rig, 5);
		CHECK_EQUAL(committed(rig), before);
	}
	CHECK_EQUAL(fallow_park_settle(&rig->heap, 0), THREADS);
	CHECK_EQUAL(fallow_park_settle(&rig->heap, 0), THREADS);
	CHECK_EQUAL(white_heap(rig)->parked[0] != 0, THREADS);
	white_check(rig);
	if (THREADS) {
		CHECK_EQUAL(sweeps_of_another(rig, 5), 0);
		CHECK(committed(rig) < before / 2);
		CHECK(committed(rig) >= (BLOCKS / 20) * GRANULE_BYTES);
	}
	/* No context: nothing happens. */
	fallow_park_context(&rig->heap, 77);
	CHECK(!fallow_park_settle(&rig->heap, 77));
	fallow_park_cancel(&rig->heap, 77);
	waste_end(rig);
}

/* An allocation ends either step, a free neither; the second step needs the
 * first. */
static void test_others_comes_back(void)
{
	struct rig *rig = clock_begin(FALLOW_CLASS_WINDOW, WIDE, 0);
	struct heap *heap = white_heap(rig);
	void *p;

	CHECK(!fallow_park_settle(&rig->heap, 0));
	for (unsigned settled = 0; settled < 2; settled++) {
		waste(rig);
		fallow_park_context(&rig->heap, 0);
		if (settled)
			(void)fallow_park_settle(&rig->heap, 0);
		fallow_free(&rig->heap, blocks[0]);
		CHECK_EQUAL(heap->parked[0] != 0, THREADS);
		blocks[0] = fallow_alloc(&rig->heap, SIZE);
		CHECK_EQUAL(heap->parked[0], PARKED_NOT);
		CHECK(!fallow_park_settle(&rig->heap, 0));
		white_check(rig);
		p = fallow_alloc(&rig->heap, SIZE);
		CHECK_EQUAL(heap->parked_count, 0);
		fallow_free(&rig->heap, p);
		for (unsigned i = 0; i < BLOCKS; i += 20)
			fallow_free(&rig->heap, blocks[i]);
	}
	fallow_park_context(&rig->heap, 0);
	fallow_park_cancel(&rig->heap, 0);
	CHECK_EQUAL(heap->parked[0], PARKED_NOT);
	/* What the context has parked by itself is not others' to cancel. */
	fallow_park(&rig->heap);
	fallow_park_context(&rig->heap, 0);
	fallow_park_cancel(&rig->heap, 0);
	CHECK_EQUAL(heap->parked[0] != 0,
		FALLOW_MODEL != FALLOW_MODEL_SINGLE);
	rig_end_now(rig, true);
}

/* When nothing is left, the first allocation of a context that others have
 * parked asks for a sweep, once. */
static void test_others_rouse(void)
{
	struct rig *rig = clock_begin(
		FALLOW_CLASS_WINDOW, WIDE, FALLOW_FLOOR_NONE);
	uint64_t asked;

	waste(rig);
	fallow_park_context(&rig->heap, 0);
	(void)fallow_park_settle(&rig->heap, 0);
	CHECK_EQUAL(sweeps_of_another(rig, 6), 0);
	asked = rig->sim.made[SIM_WANTED];
	blocks[1] = fallow_alloc(&rig->heap, SIZE);
	CHECK_EQUAL(rig->sim.made[SIM_WANTED], asked + THREADS);
	blocks[2] = fallow_alloc(&rig->heap, 20 * SIZE);
	CHECK_EQUAL(rig->sim.made[SIM_WANTED], asked + THREADS);
	fallow_free(&rig->heap, blocks[1]);
	fallow_free(&rig->heap, blocks[2]);
	waste_end(rig);
}

/* A heap that asks for its first sweep, from 1 MiB on. */
static struct rig *asking_begin(void)
{
	struct rig *rig = rig_prepare(FALLOW_CLASS_WINDOW, WIDE, 2);

	sim_clock(&rig->sim);
	rig->config.epoch_ticks = TICKS;
	rig->config.floor_bytes = FALLOW_FLOOR_NONE;
	rig->config.sweep_from_bytes = MIB;
	CHECK_EQUAL(rig_init(rig), FALLOW_OK);
	return rig;
}

/* Nobody is asked for less; then the allocation that commits it asks, once. */
static void test_others_first(void)
{
	struct rig *rig = asking_begin();
	void *p[8], *small;

	small = fallow_alloc(&rig->heap, 900 * KIB);
	fallow_offline(&rig->heap);
	fallow_free(&rig->heap, fallow_alloc(&rig->heap, 100));
	CHECK_EQUAL(rig->sim.made[SIM_WANTED], 0);
	for (unsigned i = 0; i < 8; i++) {
		p[i] = fallow_alloc(&rig->heap, 100 * KIB + i);
		CHECK_EQUAL(rig->sim.made[SIM_WANTED],
			committed(rig) >= MIB);
	}
	CHECK_EQUAL(rig->sim.made[SIM_WANTED], 1);
	for (unsigned i = 0; i < 8; i++)
		fallow_free(&rig->heap, p[i]);
	fallow_free(&rig->heap, small);
	CHECK_EQUAL(drain(rig, 10) > 0, 1);
	CHECK_EQUAL(rig->sim.made[SIM_WANTED], 1);
	rig_end_now(rig, true);
}

/* In a copy of the heap the floor keeps nothing until the next epoch, and the
 * next call that takes the slow path asks for a sweep again. */
static void test_others_forked(void)
{
	struct rig *rig = asking_begin();
	const struct sweeping *sweeping = &white_heap(rig)->sweeping;
	void *p = fallow_alloc(&rig->heap, 2 * MIB);
	uint64_t asked;

	CHECK_EQUAL(rig->sim.made[SIM_WANTED], 1);
	epochs(rig, 3);
	/* A sweep that has been asked for is not there in the copy. */
	fl_sweep_wanted(white_heap(rig));
	asked = rig->sim.made[SIM_WANTED];
	/* Nor are a round, and a batch on its way back, of others that are not
	 * there. */
	white_heap(rig)->sweeping.giving = 1;
	white_heap(rig)->pacing.busy = 1;
	fl_sweep_forked(white_heap(rig));
	CHECK_EQUAL(sweeping->giving + white_heap(rig)->pacing.busy, 0);
	CHECK_EQUAL(sweeping->floor_kept + sweeping->current_left, 0);
	CHECK_EQUAL(sweeping->floor_ages, 0);
	fallow_free(&rig->heap, fallow_alloc(&rig->heap, 300 * KIB));
	CHECK_EQUAL(rig->sim.made[SIM_WANTED], asked + 1);
	fallow_free(&rig->heap, p);
	rig_end_now(rig, true);
}

const struct test tests[] = {
	{ "others_two_steps", test_others_two_steps },
	{ "others_comes_back", test_others_comes_back },
	{ "others_rouse", test_others_rouse },
	{ "others_first", test_others_first },
	{ "others_forked", test_others_forked },
	{ NULL, NULL },
};
