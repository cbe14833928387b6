/* SPDX-License-Identifier: MIT */
/*
 * Producers allocate, consumers free: no block is freed by who allocated it.
 *
 * Two pairs of threads, each with a queue between them that takes blocks by the
 * batch, so that it is the allocator that is measured and not the queue's lock.
 */
#define _GNU_SOURCE
#include "bench.h"

#include <pthread.h>

#define PAIRS 2
#define BATCH 100
#define DEPTH 256
#define BATCHES 20000
/* The last blocks are not freed: they are in use at the end. */
#define LEFT_BATCHES 100

struct batch {
	struct bench_block blocks[BATCH];
};

struct queue {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct batch batches[DEPTH];
	uint64_t in, out; /* of batches, ever */
	uint64_t count;
	uint64_t live;
};

/* One end of a queue. */
struct end {
	struct queue *queue;
	bool produces;
};

static struct queue queues[PAIRS];

/* Waits until there is room, or a batch; returns its place. */
static struct batch *queue_wait(struct queue *queue, bool room)
{
	struct batch *batch;

	pthread_mutex_lock(&queue->lock);
	while (room ? queue->in - queue->out == DEPTH : queue->in == queue->out)
		pthread_cond_wait(&queue->changed, &queue->lock);
	batch = &queue->batches[(room ? queue->in : queue->out) % DEPTH];
	pthread_mutex_unlock(&queue->lock);
	return batch;
}

/* A batch is in, or out: the other end may go on. */
static void queue_step(struct queue *queue, uint64_t *counter)
{
	pthread_mutex_lock(&queue->lock);
	++*counter;
	pthread_cond_signal(&queue->changed);
	pthread_mutex_unlock(&queue->lock);
}

static void produce(struct queue *queue, uint64_t *random)
{
	struct batch *batch = queue_wait(queue, true);
	unsigned i;

	for (i = 0; i < BATCH; i++) {
		size_t size = bench_size(random, 16, 6);

		batch->blocks[i] =
			(struct bench_block){ bench_alloc(size), size };
	}
	queue_step(queue, &queue->in);
}

static void consume(struct queue *queue)
{
	struct batch *batch = queue_wait(queue, false);
	bool left = queue->out + LEFT_BATCHES >= queue->count;
	unsigned i;

	for (i = 0; i < BATCH; i++) {
		if (left)
			queue->live += batch->blocks[i].size;
		else
			bench_free(batch->blocks[i].p, batch->blocks[i].size);
	}
	queue_step(queue, &queue->out);
}

static void *end_run(void *arg)
{
	struct end *end = arg;
	uint64_t random = BENCH_SEED + (uint64_t)(end->queue - queues);
	uint64_t i;

	for (i = 0; i < end->queue->count; i++) {
		if (end->produces)
			produce(end->queue, &random);
		else
			consume(end->queue);
	}
	return NULL;
}

static uint64_t handoff_run(unsigned percent)
{
	struct end ends[2 * PAIRS];
	uint64_t live = 0;
	unsigned i;

	bench_own(queues, sizeof(queues));
	for (i = 0; i < PAIRS; i++) {
		pthread_mutex_init(&queues[i].lock, NULL);
		pthread_cond_init(&queues[i].changed, NULL);
		queues[i].count = bench_part(BATCHES, percent);
		ends[2 * i] = (struct end){ &queues[i], true };
		ends[2 * i + 1] = (struct end){ &queues[i], false };
	}
	bench_threads(2 * PAIRS, end_run, ends, sizeof(ends[0]));
	for (i = 0; i < PAIRS; i++)
		live += queues[i].live;
	bench_live(live);
	return PAIRS * queues[0].count * BATCH;
}

const struct bench bench = { .name = "handoff", .run = handoff_run };
