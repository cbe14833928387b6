/* SPDX-License-Identifier: MIT */
/*
 * What the hot pair costs: an allocation and the free of the same block, in
 * instructions, the loop around them not counted.
 *
 * Under -icount the clock is the number of instructions, so the figure is exact
 * and the same on every machine.  The image is linked with archives without
 * assertions, once for each context model; tests/bench/counts compares what
 * they print.
 */
#include <fallow/fallow.h>

#include "board.h"
#include "test.h"

#define PAIRS 10000
#define SIZES 4

static struct fallow heap;

/* As a call, but one that does nothing: what the loop itself costs. */
static __attribute__((noinline)) void *nothing_alloc(
	struct fallow *which, size_t size)
{
	__asm__ volatile("" : "+r"(which), "+r"(size));
	return which;
}

static __attribute__((noinline)) void nothing_free(
	struct fallow *which, void *p)
{
	__asm__ volatile("" : "+r"(which), "+r"(p));
}

/* Ticks of PAIRS rounds. */
static uint64_t pairs(void *(*alloc)(struct fallow *, size_t),
	void (*give)(struct fallow *, void *), size_t size)
{
	uint64_t begin = board_ticks();

	for (unsigned i = 0; i < PAIRS; i++)
		give(&heap, alloc(&heap, size));
	return board_ticks() - begin;
}

static void test_bench_hot(void)
{
	static const size_t sizes[SIZES] = { 16, 64, 256, 1024 };
	struct fallow_config config = {
		.size = sizeof(config),
		.provider = board_provider(),
		.window_base = board_window_base(),
		.window_size = board_window_size(),
		.contexts = 1,
	};
	uint64_t hundredths;

	CHECK_EQUAL(fallow_init(&heap, &config), FALLOW_OK);
	CHECK_EQUAL(fallow_add_region(
			    &heap, config.window_base, config.window_size),
		FALLOW_OK);
	for (unsigned i = 0; i < SIZES; i++) {
		/* Twice, so that the page is there. */
		(void)pairs(fallow_alloc, fallow_free, sizes[i]);
		hundredths = pairs(fallow_alloc, fallow_free, sizes[i]);
		/* A call and a return are the pair's own. */
		hundredths -= pairs(nothing_alloc, nothing_free, sizes[i]);
		hundredths = (hundredths + 4 * PAIRS) * 100 / PAIRS;
		/* To the nearest: reading the clock costs one. */
		hundredths += 50;
		test_printf("\nhot: %lu bytes %lu", (unsigned long)sizes[i],
			(unsigned long)hundredths / 100);
		CHECK(hundredths > 1000);
	}
	test_printf("\n");
	CHECK(fallow_check(&heap, NULL) == NULL);
	fallow_fini(&heap);
}

const struct test tests[] = {
	{ "bench_hot", test_bench_hot },
	{ NULL, NULL },
};
