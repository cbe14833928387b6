/* SPDX-License-Identifier: MIT */
/*
 * A server whose threads die, after Larson and Krishnan's benchmark of 1998.
 *
 * Each of a few lines of work has a table of blocks, in which a thread replaces
 * blocks at random; then it starts its successor, which inherits the table, and
 * ends.  So blocks are freed by threads that did not allocate them, and whose
 * they were is gone.
 */
#define _GNU_SOURCE
#include "bench.h"

#include <pthread.h>
#include <semaphore.h>

#define LINES 4
#define SLOTS 8000
#define STEPS 12000
#define GENERATIONS 80
/* One block of so many is still in use at the end. */
#define LEFT 10

struct line {
	struct bench_block slots[SLOTS];
	uint64_t random;
	uint64_t left; /* generations */
};

static struct line lines[LINES];
static sem_t ended;

static void line_begin(struct line *line);

/* A thread's life. */
static void *line_run(void *arg)
{
	struct line *line = arg;
	unsigned i;

	for (i = 0; i < STEPS; i++)
		bench_replace(&line->slots[bench_below(&line->random, SLOTS)],
			bench_size(&line->random, 16, 6));
	if (--line->left > 0)
		line_begin(line);
	else
		sem_post(&ended);
	return NULL;
}

static void line_begin(struct line *line)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, line_run, line) != 0)
		bench_fail("no thread");
	pthread_detach(thread);
}

static uint64_t larson_run(unsigned percent)
{
	uint64_t generations = bench_part(GENERATIONS, percent);
	uint64_t live = 0;
	unsigned i;

	bench_own(lines, sizeof(lines));
	sem_init(&ended, 0, 0);
	for (i = 0; i < LINES; i++) {
		lines[i].random = BENCH_SEED + i;
		lines[i].left = generations;
		line_begin(&lines[i]);
	}
	for (i = 0; i < LINES; i++)
		while (sem_wait(&ended) != 0)
			continue;
	for (i = 0; i < LINES; i++)
		live += bench_thin(lines[i].slots, SLOTS, LEFT);
	bench_live(live);
	return generations * LINES * STEPS;
}

const struct bench bench = { .name = "larson", .run = larson_run };
