/* SPDX-License-Identifier: MIT */
/*
 * Cache lines that two threads write to, after the cache-scratch and
 * cache-thrash programs of Berger's Hoard.
 *
 * Small blocks that one thread allocated, and so close together, are given to
 * several.  Each frees its own and goes on with blocks of the same size, which
 * it writes to often.  An allocator that gives a thread what lies in a line
 * with another thread's block makes both wait for that line.
 */
#define _GNU_SOURCE
#include "bench.h"

#define WORKERS 4
#define BLOCK 24
#define ROUNDS 100000
#define WRITES 1000
#define GIVEN 16

struct worker {
	void *given[GIVEN];
	uint64_t rounds;
};

static void *worker_run(void *arg)
{
	struct worker *worker = arg;
	unsigned i;

	for (i = 0; i < GIVEN; i++)
		bench_free(worker->given[i], BLOCK);
	for (; worker->rounds > 0; worker->rounds--) {
		volatile uint64_t *p = bench_alloc(BLOCK);

		/* Not the words that are marked. */
		for (i = 0; i < WRITES; i++)
			p[1] += i;
		bench_free((void *)(uintptr_t)p, BLOCK);
	}
	return NULL;
}

static uint64_t pingpong_run(unsigned percent)
{
	struct worker workers[WORKERS];
	uint64_t rounds = bench_part(ROUNDS, percent);
	unsigned i;

	/* By turns: neighbours go to different threads. */
	for (i = 0; i < GIVEN * WORKERS; i++)
		workers[i % WORKERS].given[i / WORKERS] = bench_alloc(BLOCK);
	for (i = 0; i < WORKERS; i++)
		workers[i].rounds = rounds;
	bench_threads(WORKERS, worker_run, workers, sizeof(workers[0]));
	return WORKERS * rounds;
}

const struct bench bench = { .name = "pingpong", .run = pingpong_run };
