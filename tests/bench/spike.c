/* SPDX-License-Identifier: MIT */
/*
 * Spike, idle, spike: the fifth scenario of make bench-return over plain
 * malloc().
 *
 * 64 MiB of blocks of many sizes come and go, nothing happens for a while, and
 * the same comes again: what it costs to need what was given back.
 */
#include "bench.h"

#define BYTES (64u << 20)
#define BLOCKS 40000
#define SPIKES 3
#define PAUSE_US 300000
/* One block of so many is in use when the program idles for good. */
#define LEFT 20

static struct bench_block blocks[BLOCKS];

static uint64_t spike_run(unsigned percent)
{
	uint64_t most = bench_part(BYTES, percent);
	uint64_t operations = 0;
	unsigned spike;

	bench_own(blocks, sizeof(blocks));
	for (spike = 0; spike < SPIKES; spike++) {
		uint64_t random = BENCH_SEED;
		uint64_t bytes = 0;
		uint64_t n;

		if (spike > 0)
			bench_sleep(PAUSE_US);
		for (n = 0; n < BLOCKS && bytes < most; n++) {
			bench_replace(
				&blocks[n], bench_size(&random, 32, 10));
			bench_touch(blocks[n].p, blocks[n].size);
			bytes += blocks[n].size;
		}
		bench_live(bench_thin(
			blocks, n, spike + 1 < SPIKES ? 0 : LEFT));
		operations += 2 * n;
	}
	return operations;
}

const struct bench bench = { .name = "spike",
	.run = spike_run,
	.paced = true };
