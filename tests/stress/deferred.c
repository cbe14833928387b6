/* SPDX-License-Identifier: MIT */
/*
 * Threads that defer frees, fill tokens and use the emergency pool, in one heap
 * at once.
 *
 * Blocks wait in slots that all threads exchange atomically, so a block is
 * mostly freed by another thread than the one that took it; nothing else orders
 * threads but the heap.  Each block says its size at its begin and its address
 * at its end, which whoever frees it reads.  Between rounds, with no thread in
 * the heap, nothing may be left but what the slots hold.
 */
#define _POSIX_C_SOURCE 200809L /* barriers */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim_rig.h"
#include "test.h"

/* Of arch/host/port.h: the index of the context that a thread is. */
extern _Thread_local unsigned fallow_host_context
	__attribute__((tls_model("initial-exec")));

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

#define THREADS 4
#define SLOTS 256

struct worker {
	pthread_t thread;
	struct stress *stress;
	unsigned context;
	uint64_t random;
	struct fallow_token token;
};

struct stress {
	struct rig *rig;
	_Atomic(uint64_t *) slots[SLOTS];
	struct worker workers[THREADS];
	void *(*run)(void *worker);
	pthread_barrier_t barrier;
	unsigned steps;
	size_t size_max;
	/* Of blocks whose stamps were not as written. */
	atomic_uint broken;
	/* What test_deferred_at_once() has its threads defer. */
	void *shared;
};

/* Ends the program: the host is broken. */
static void must(int error, const char *what)
{
	if (error) {
		fprintf(stderr, "stress: %s: error %d\n", what, error);
		exit(97);
	}
}

static uint64_t draw(struct worker *worker, uint64_t below)
{
	return test_random(&worker->random) % below;
}

static void stamp(uint64_t *block, size_t size)
{
	block[0] = size;
	block[size / 8 - 1] = (uintptr_t)block ^ size;
}

static void stamp_check(struct stress *stress, const uint64_t *block)
{
	if (block[block[0] / 8 - 1] != ((uintptr_t)block ^ block[0]))
		atomic_fetch_add(&stress->broken, 1);
}

/* A block of a random size, from the heap or out of the worker's token. */
static uint64_t *block_take(struct worker *worker)
{
	struct fallow *heap = &worker->stress->rig->heap;
	size_t size = 16 + (draw(worker, worker->stress->size_max) &
				   ~(size_t)7);
	uint64_t *block;

	if (draw(worker, 4) == 0) {
		if (!fallow_prefill(heap, &worker->token, 480, 5,
			    FALLOW_RESERVE))
			return NULL;
		size = 480;
		block = fallow_alloc_from(&worker->token);
	} else {
		block = fallow_alloc_flags(heap, size,
			draw(worker, 2) ? FALLOW_RESERVE
					: FALLOW_RESERVE | FALLOW_NOWAIT);
	}
	if (block != NULL)
		stamp(block, size);
	return block;
}

/* Frees a block in one of the ways. */
static void block_give(struct worker *worker, uint64_t *block)
{
	struct fallow *heap = &worker->stress->rig->heap;
	uint64_t *moved;

	stamp_check(worker->stress, block);
	if (draw(worker, 8) == 0) {
		moved = fallow_realloc_flags(heap, block, block[0] * 3,
			FALLOW_NOWAIT | FALLOW_RESERVE);
		if (moved != NULL)
			block = moved;
	}
	if (draw(worker, 3) == 0)
		fallow_free(heap, block);
	else
		fallow_free_deferred(heap, block);
}

/* What makes pages change hands and deferred blocks be freed. */
static void disturb(struct worker *worker)
{
	struct fallow *heap = &worker->stress->rig->heap;
	struct fallow_snapshot now = { .size = sizeof(now) };

	switch (draw(worker, 256)) {
	case 0:
		fallow_offline(heap);
		break;
	case 1:
		fallow_collect(heap);
		break;
	case 2:
	case 3:
		fallow_park(heap);
		break;
	case 4:
		fallow_snapshot(heap, &now);
		break;
	default:
		break;
	}
}

static void *worker_run(void *arg)
{
	struct worker *worker = arg;
	struct stress *stress = worker->stress;

	fallow_host_context = worker->context;
	for (unsigned i = 0; i < stress->steps; i++) {
		uint64_t *block = block_take(worker);

		block = atomic_exchange(
			&stress->slots[draw(worker, SLOTS)], block);
		if (block != NULL)
			block_give(worker, block);
		disturb(worker);
	}
	fallow_unfill(&stress->rig->heap, &worker->token);
	fallow_offline(&stress->rig->heap);
	return NULL;
}

static struct stress *stress_begin(size_t reserve, size_t budget)
{
	struct stress *stress = calloc(1, sizeof(*stress));

	if (!stress)
		must(1, "calloc");
	stress->rig = rig_prepare(FALLOW_CLASS_WINDOW, 512 * MIB, THREADS);
	stress->rig->config.reserve_bytes = reserve;
	CHECK_EQUAL(rig_init(stress->rig), FALLOW_OK);
	stress->rig->sim.budget = budget;
	stress->run = worker_run;
	stress->steps = 2500;
	stress->size_max = 100 * KIB;
	must(pthread_barrier_init(&stress->barrier, NULL, THREADS),
		"barrier");
	for (unsigned i = 0; i < THREADS; i++) {
		stress->workers[i].stress = stress;
		stress->workers[i].context = i;
		stress->workers[i].random = test_seed * 31 + i;
	}
	return stress;
}

static struct fallow_snapshot snapshot(struct stress *stress)
{
	struct fallow_snapshot now = { .size = sizeof(now) };

	fallow_snapshot(&stress->rig->heap, &now);
	return now;
}

/* Threads begin, run and end; then what is deferred is freed, and counted. */
static void stress_round(struct stress *stress)
{
	const char *broken;
	size_t held = 0;

	for (unsigned i = 0; i < THREADS; i++)
		must(pthread_create(&stress->workers[i].thread, NULL,
			     stress->run, &stress->workers[i]),
			"create");
	for (unsigned i = 0; i < THREADS; i++)
		must(pthread_join(stress->workers[i].thread, NULL), "join");
	broken = fallow_check(&stress->rig->heap, NULL);
	if (broken)
		test_printf("\n    broken: %s", broken);
	CHECK(!broken);
	fallow_collect(&stress->rig->heap);
	for (unsigned i = 0; i < SLOTS; i++)
		held += stress->slots[i] != NULL;
	CHECK_EQUAL(snapshot(stress).deferred, 0);
	CHECK_EQUAL(snapshot(stress).blocks, held);
	CHECK_EQUAL(stress->broken, 0);
	CHECK(!fallow_check(&stress->rig->heap, NULL));
	sim_verdict(&stress->rig->sim);
}

/* Frees what the slots hold: nothing may be left. */
static void stress_end(struct stress *stress)
{
	for (unsigned i = 0; i < SLOTS; i++)
		fallow_free_deferred(&stress->rig->heap, stress->slots[i]);
	fallow_collect(&stress->rig->heap);
	CHECK_EQUAL(snapshot(stress).blocks, 0);
	CHECK_EQUAL(snapshot(stress).live, 0);
	must(pthread_barrier_destroy(&stress->barrier), "barrier");
	rig_end_now(stress->rig, true);
	free(stress);
}

static void run(struct stress *stress, unsigned rounds)
{
	for (unsigned i = 0; i < rounds && !test_failures(); i++)
		stress_round(stress);
	CHECK_EQUAL(stress->rig->misuses, 0);
	stress_end(stress);
}

static void test_deferred_mixed(void)
{
	run(stress_begin(0, 0), 3);
}

/* Small blocks, so that most pages are full and told of. */
static void test_deferred_small(void)
{
	struct stress *stress = stress_begin(0, 0);

	stress->size_max = 300;
	stress->steps = 8000;
	run(stress, 3);
}

/* Memory for half of it: the emergency pool is used by all at once. */
static void test_deferred_reserve(void)
{
	struct stress *stress = stress_begin(2 * MIB, 8 * MIB);

	run(stress, 4);
}

/* All defer the same block in the same moment. */
static void *at_once_run(void *arg)
{
	struct worker *worker = arg;
	struct stress *stress = worker->stress;

	fallow_host_context = worker->context;
	for (unsigned i = 0; i < 500; i++) {
		if (worker->context == 0)
			stress->shared = fallow_alloc(&stress->rig->heap,
				i % 2 ? 100 : 20 * KIB);
		(void)pthread_barrier_wait(&stress->barrier);
		fallow_free_deferred(&stress->rig->heap, stress->shared);
		(void)pthread_barrier_wait(&stress->barrier);
		if (worker->context == 0)
			fallow_collect(&stress->rig->heap);
	}
	return NULL;
}

static void test_deferred_at_once(void)
{
	struct stress *stress = stress_begin(0, 0);

	stress->run = at_once_run;
	stress_round(stress);
	/* Of each block, all but one. */
	CHECK_EQUAL(snapshot(stress).misuses, 500 * (THREADS - 1));
	CHECK_EQUAL(stress->rig->misuses, 500 * (THREADS - 1));
	CHECK_EQUAL(stress->rig->misuse.kind, FALLOW_MISUSE_DOUBLE_FREE);
	stress->rig->misuses_expected = stress->rig->misuses;
	stress_end(stress);
}

const struct test tests[] = {
	{ "deferred_mixed", test_deferred_mixed },
	{ "deferred_small", test_deferred_small },
	{ "deferred_reserve", test_deferred_reserve },
	{ "deferred_at_once", test_deferred_at_once },
	{ NULL, NULL },
};
