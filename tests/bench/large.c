/* SPDX-License-Identifier: MIT */
/*
 * Large buffers, 64 KiB to 4 MiB, that come and go and are used: what programs
 * do that read files, decompress, or draw.
 *
 * An allocator that asks the kernel for each pays a page fault for every 4 KiB;
 * one that keeps them all pays in memory.
 */
#include "bench.h"

#define SLOTS 24
#define STEPS 3000
#define LEFT 8

static struct bench_block slots[SLOTS];

static uint64_t large_run(unsigned percent)
{
	uint64_t steps = bench_part(STEPS, percent);
	uint64_t random = BENCH_SEED;
	uint64_t i;

	for (i = 0; i < steps; i++) {
		struct bench_block *block =
			&slots[bench_below(&random, SLOTS)];

		bench_replace(block, bench_size(&random, 65536, 6));
		bench_touch(block->p, block->size);
	}
	bench_live(bench_thin(slots, SLOTS, LEFT));
	return steps;
}

const struct bench bench = { .name = "large", .run = large_run };
