/* SPDX-License-Identifier: MIT */
/*
 * Epochs of one context: how long they are, when a sweep is due, what regret
 * counts.  Several contexts are in fake_epoch.c.
 */
#include "swept.h"

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

const struct test tests[] = {
	{ "sweep_next_due", test_sweep_next_due },
	{ "sweep_without_a_clock", test_sweep_without_a_clock },
	{ "sweep_regret", test_sweep_regret },
	{ NULL, NULL },
};
