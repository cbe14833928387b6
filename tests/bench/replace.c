/* SPDX-License-Identifier: MIT */
/*
 * Blocks of many sizes, replaced at random: 16 B to 32 KiB, each doubling as
 * likely as any other, in one thread.
 *
 * Nothing is ever sorted by age or size, which is where allocators that keep
 * pages of one size have many of them partly used, and those that coalesce have
 * many gaps.
 */
#include "bench.h"

#define SLOTS 20000
#define STEPS 1500000
#define LEFT 10

static struct bench_block slots[SLOTS];

static uint64_t replace_run(unsigned percent)
{
	uint64_t steps = bench_part(STEPS, percent);
	uint64_t random = BENCH_SEED;
	uint64_t i;

	bench_own(slots, sizeof(slots));
	for (i = 0; i < steps; i++) {
		struct bench_block *block =
			&slots[bench_below(&random, SLOTS)];

		bench_replace(block, bench_size(&random, 16, 11));
		bench_touch(block->p, block->size);
	}
	bench_live(bench_thin(slots, SLOTS, LEFT));
	return steps;
}

const struct bench bench = { .name = "replace", .run = replace_run };
