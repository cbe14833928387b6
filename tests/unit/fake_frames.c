/* SPDX-License-Identifier: MIT */
/*
 * The frame allocator's lock and interrupts: every call restores what it
 * found, the lock is held while tables change and never while the misuse hook
 * runs.
 */
#include <fallow/frames.h>

#include "fake.h"
#include "test.h"

#define MIB ((uint64_t)1 << 20)

static struct fallow_frames frames;
static _Alignas(64) unsigned char tables[4096];
static unsigned misuses;

/* Runs where nothing is locked, with interrupts as at the call. */
static void on_misuse(void *ctx, const struct fallow_frames_misuse *report)
{
	(void)ctx;
	(void)report;
	misuses++;
	CHECK_EQUAL(test_port.depth, 0);
	CHECK_EQUAL(test_port.locks, 0);
	CHECK_EQUAL(test_port.irqs_on, test_port.entry_irqs_on);
}

/* Nothing is entered any more, and interrupts are as they were. */
static void expect_restored(bool irqs_on)
{
	CHECK_EQUAL(test_port.depth, 0);
	CHECK_EQUAL(test_port.locks, 0);
	CHECK_EQUAL(test_port.irqs_on, irqs_on);
}

/* Every public call once or more, on every way out of it. */
static void call_all(bool irqs_on)
{
	struct fallow_frames_config config = {
		.size = sizeof(config),
		.direct_end = 1,
		.tables = tables,
		.tables_size = sizeof(tables),
		.misuse = on_misuse,
	};
	struct fallow_frames_counts counts = { .size = sizeof(counts) };
	uint64_t frame;

	test_port_reset();
	test_port.irqs_on = irqs_on;
	test_port.entry_irqs_on = irqs_on;
	misuses = 0;
	CHECK_EQUAL(fallow_frames_init(&frames, &config), FALLOW_OK);
	expect_restored(irqs_on);
	CHECK_EQUAL(fallow_frames_exclude(&frames, MIB, 1), FALLOW_OK);
	expect_restored(irqs_on);
	CHECK_EQUAL(fallow_frames_add(&frames, MIB, 7 * MIB), FALLOW_OK);
	expect_restored(irqs_on);
	CHECK_EQUAL(fallow_frames_add(&frames, MIB, 7 * MIB),
		FALLOW_REGION_OVERLAPS);
	expect_restored(irqs_on);
	frame = fallow_frames_take(&frames, 14);
	expect_restored(irqs_on);
	CHECK(fallow_frames_take(&frames, 30) == FALLOW_FRAME_NONE);
	expect_restored(irqs_on);
	CHECK(fallow_frames_take_below(&frames, 12, MIB) == FALLOW_FRAME_NONE);
	expect_restored(irqs_on);
	CHECK(!fallow_frames_claim(&frames, frame, 12));
	expect_restored(irqs_on);
	fallow_frames_give(&frames, frame, 14);
	expect_restored(irqs_on);
	CHECK(fallow_frames_claim(&frames, frame, 14));
	expect_restored(irqs_on);
	fallow_frames_give(&frames, frame, 14);
	fallow_frames_give(&frames, frame, 14);
	fallow_frames_give(&frames, 64 * MIB, 14);
	fallow_frames_give(&frames, 1, 14);
	CHECK(fallow_frames_take(&frames, 1) == FALLOW_FRAME_NONE);
	CHECK(fallow_frames_take_below(&frames, 1, 1) == FALLOW_FRAME_NONE);
	CHECK(!fallow_frames_claim(&frames, 1, 14));
	CHECK_EQUAL(misuses, 6);
	expect_restored(irqs_on);
	fallow_frames_counts(&frames, &counts);
	expect_restored(irqs_on);
	CHECK(!fallow_frames_check(&frames, NULL));
	expect_restored(irqs_on);
	CHECK_EQUAL(counts.free, 7 * MIB - 4096);
	test_port_verdict();
}

static void test_frames_task(void)
{
	call_all(true);
}

/* Interrupt handlers may call all of it: nothing turns interrupts on. */
static void test_frames_irq(void)
{
	call_all(false);
}

const struct test tests[] = {
	{ "frames_task", test_frames_task },
	{ "frames_irq", test_frames_irq },
	{ NULL, NULL },
};
