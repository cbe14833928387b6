/* SPDX-License-Identifier: MIT */
/*
 * A pool of workers: the third scenario of make bench-return over plain
 * malloc().
 *
 * Eight threads.  Each takes a buffer of 96 to 512 KiB, uses it, waits as if for
 * a disk, and frees it; one buffer in eight is freed by the next worker.  Few
 * are in use at any time, but every worker has used some of each size: an
 * allocator that keeps them for each thread has eight times as many.
 */
#define _GNU_SOURCE
#include "bench.h"

#include <pthread.h>

#define WORKERS 8
#define JOBS 100
#define BUFFER_MIN ((size_t)96 << 10)
#define BUFFER_MAX ((size_t)512 << 10)
#define WAIT_US 4000

struct worker {
	uint64_t jobs;
	uint64_t random;
	pthread_mutex_t lock;
	struct bench_block passed; /* to be freed by this worker */
};

static struct worker workers[WORKERS];

/* Puts a buffer where the worker finds it; returns what was there. */
static struct bench_block passed_swap(
	struct worker *worker, struct bench_block block)
{
	struct bench_block before;

	pthread_mutex_lock(&worker->lock);
	before = worker->passed;
	worker->passed = block;
	pthread_mutex_unlock(&worker->lock);
	return before;
}

static void job_run(struct worker *worker)
{
	struct worker *next = &workers[(worker - workers + 1) % WORKERS];
	struct bench_block block = { 0 };

	bench_replace(&block,
		BUFFER_MIN +
			bench_below(&worker->random,
				BUFFER_MAX - BUFFER_MIN + 1));
	bench_touch(block.p, block.size);
	bench_sleep(1 + (unsigned)bench_below(&worker->random, WAIT_US));
	if (bench_below(&worker->random, 8) == 0)
		block = passed_swap(next, block);
	bench_free(block.p, block.size);
	block = passed_swap(worker, (struct bench_block){ 0 });
	bench_free(block.p, block.size);
	bench_sleep(1 + (unsigned)bench_below(&worker->random, WAIT_US));
}

static void *worker_run(void *arg)
{
	struct worker *worker = arg;

	for (; worker->jobs > 0; worker->jobs--)
		job_run(worker);
	return NULL;
}

static uint64_t pool_run(unsigned percent)
{
	uint64_t jobs = bench_part(JOBS, percent);
	unsigned i;

	for (i = 0; i < WORKERS; i++) {
		workers[i] = (struct worker){ .jobs = jobs,
			.random = BENCH_SEED + i };
		pthread_mutex_init(&workers[i].lock, NULL);
	}
	bench_threads(WORKERS, worker_run, workers, sizeof(workers[0]));
	for (i = 0; i < WORKERS; i++)
		bench_free(workers[i].passed.p, workers[i].passed.size);
	return 2 * WORKERS * jobs;
}

const struct bench bench = { .name = "pool", .run = pool_run, .paced = true };
