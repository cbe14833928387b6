/* SPDX-License-Identifier: MIT */
/*
 * Many blocks, of which nine in ten go: the first scenario of make bench-return
 * over plain malloc().  Sizes are 64 * 2^x, x below 10 and more often small:
 * 64 B to 64 KiB, about 5 KiB in the mean.  What an allocator can give back
 * afterwards is what lies between the blocks that stay.
 */
#include "bench.h"

#define BLOCKS 40000
#define LEFT 10

static struct bench_block blocks[BLOCKS];

/* The square of an even number is more often small. */
static size_t churn_size(uint64_t *random)
{
	uint64_t even = bench_below(random, 1024);
	uint64_t doublings_1024 = even * even * 10 / 1024;
	size_t base = (size_t)64 << (doublings_1024 >> 10);

	return base + base * (doublings_1024 & 1023) / 1024;
}

static uint64_t churn_run(unsigned percent)
{
	uint64_t count = bench_part(BLOCKS, percent);
	uint64_t random = BENCH_SEED;
	uint64_t i;

	bench_own(blocks, sizeof(blocks));
	for (i = 0; i < count; i++) {
		bench_replace(&blocks[i], churn_size(&random));
		bench_touch(blocks[i].p, blocks[i].size);
	}
	for (i = count - 1; i > 0; i--) {
		uint64_t other = bench_below(&random, i + 1);
		struct bench_block block = blocks[i];

		blocks[i] = blocks[other];
		blocks[other] = block;
	}
	bench_live(bench_thin(blocks, count, LEFT));
	return 2 * count;
}

const struct bench bench = { .name = "churn", .run = churn_run };
