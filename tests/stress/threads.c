/* SPDX-License-Identifier: MIT */
/*
 * Threads that are contexts, all in one heap at once, for seconds.
 *
 * Each thread has an oracle of its own and runs random operations; blocks pass
 * from thread to thread through mailboxes, so that most frees of some threads
 * are of pages that another owns.  Threads go offline, end, and others begin
 * in their place.  Between rounds, with no thread in the heap, everything is
 * compared: fallow_check(), the walk against all oracles, the snapshot.
 *
 * A mailbox has a lock, and so an order, between the one who gave and the one
 * who takes; nothing else orders threads but the heap.  The simulated provider
 * checks that no two calls that run at once name the same memory, and makes
 * memory that was given back fault.
 */
#include <pthread.h>
#include <sched.h>
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
#define BLOCKS 1500
#define MAILBOX 256

struct mailbox {
	pthread_mutex_t lock;
	struct oracle_block blocks[MAILBOX];
	unsigned count;
};

struct worker {
	pthread_t thread;
	struct stress *stress;
	unsigned context;
	struct oracle oracle;
	struct oracle_block blocks[BLOCKS];
	struct mailbox mailbox;
	uint64_t random;
};

struct stress {
	struct rig *rig;
	struct worker workers[THREADS];
	/* So many of 256 steps pass a block on; go offline; collect; look;
	 * park; sweep or reclaim. */
	unsigned pass_rate, offline_rate, collect_rate, look_rate, park_rate;
	unsigned sweep_rate;
	/* Workers below this only allocate and pass; the others only take and
	 * free.  0: all do all. */
	unsigned producers;
	/* Steps of a worker in a round. */
	unsigned steps;
};

static void call_before(void *arg, unsigned flags)
{
	(void)arg;
	sim_nowait = flags & FALLOW_NOWAIT;
}

static void call_after(void *arg)
{
	(void)arg;
	sim_nowait = false;
}

static bool chance(struct worker *worker, unsigned rate)
{
	return rate && test_random(&worker->random) % 256 < rate;
}

/* Ends the program: the host is broken. */
static void must(int error, const char *what)
{
	if (error) {
		fprintf(stderr, "stress: %s: error %d\n", what, error);
		exit(97);
	}
}

/* Passes one block to another worker, if its mailbox has room. */
static void block_send(struct worker *worker)
{
	struct stress *stress = worker->stress;
	unsigned first = stress->producers;
	unsigned to = first +
		(unsigned)(test_random(&worker->random) % (THREADS - first));
	struct mailbox *mailbox = &stress->workers[to].mailbox;

	if (!worker->oracle.count)
		return;
	must(pthread_mutex_lock(&mailbox->lock), "lock");
	if (mailbox->count < MAILBOX)
		mailbox->blocks[mailbox->count++] =
			oracle_forget(&worker->oracle,
				test_random(&worker->random) %
					worker->oracle.count);
	must(pthread_mutex_unlock(&mailbox->lock), "unlock");
}

/* Takes what came by mail. */
static void blocks_receive(struct worker *worker)
{
	struct mailbox *mailbox = &worker->mailbox;

	must(pthread_mutex_lock(&mailbox->lock), "lock");
	while (mailbox->count &&
		oracle_learn(&worker->oracle,
			mailbox->blocks[mailbox->count - 1]))
		mailbox->count--;
	must(pthread_mutex_unlock(&mailbox->lock), "unlock");
}

/* What may be called at any time beside everything else. */
static void look(struct worker *worker)
{
	struct fallow_snapshot now = { .size = sizeof(now) };
	static _Thread_local struct fallow_class_row rows[128];
	struct fallow *heap = worker->oracle.heap;

	fallow_snapshot(heap, &now);
	CHECK(now.committed <= now.reserved + now.tables + 64 * MIB);
	fallow_class_table(heap, rows, 128);
	CHECK(!fallow_owns(heap, &now));
}

/* Blocks for a moment, parked; frees of its own blocks, and what others do to
 * its pages, come in between. */
static void park(struct worker *worker)
{
	struct oracle *oracle = &worker->oracle;
	unsigned frees = test_random(&worker->random) % 8;

	fallow_park(oracle->heap);
	for (unsigned i = 0; i < frees && oracle->count; i++)
		oracle_free(oracle,
			test_random(&worker->random) % oracle->count);
	sched_yield();
	if (chance(worker, 64))
		fallow_unpark(oracle->heap);
}

/* Sweeps, a few pages or all of them, or reclaims at some level. */
static void sweep(struct worker *worker)
{
	struct fallow *heap = worker->oracle.heap;
	unsigned n = test_random(&worker->random) % 8;

	if (n >= FALLOW_RECLAIM_HOLD && n <= FALLOW_RECLAIM_SPLIT)
		fallow_reclaim(heap, n);
	else
		fallow_sweep(heap, n == 7 ? 10 : SIZE_MAX);
}

/* One step of one worker, as its part is. */
static void worker_step(struct worker *worker)
{
	struct stress *stress = worker->stress;
	struct oracle *oracle = &worker->oracle;
	bool producer = worker->context < stress->producers;

	if (stress->producers && producer) {
		oracle_alloc(oracle,
			test_random(&worker->random) % (30 * KIB), 0);
		block_send(worker);
	} else if (stress->producers) {
		blocks_receive(worker);
		if (oracle->count)
			oracle_free(oracle,
				test_random(&worker->random) % oracle->count);
	} else {
		oracle_step(oracle);
		if (chance(worker, stress->pass_rate))
			block_send(worker);
		if (chance(worker, 32))
			blocks_receive(worker);
	}
	if (chance(worker, stress->offline_rate))
		fallow_offline(oracle->heap);
	if (chance(worker, stress->park_rate))
		park(worker);
	if (chance(worker, stress->collect_rate))
		fallow_collect(oracle->heap);
	if (chance(worker, stress->sweep_rate))
		sweep(worker);
	if (chance(worker, stress->look_rate))
		look(worker);
	__atomic_fetch_add(&stress->rig->sim.ticks, 1, __ATOMIC_RELAXED);
}

static void *worker_run(void *arg)
{
	struct worker *worker = arg;

	fallow_host_context = worker->context;
	for (unsigned i = 0; i < worker->stress->steps; i++) {
		worker_step(worker);
		if (worker->oracle.failures)
			break;
	}
	/* A thread that ends leaves its pages to the others. */
	fallow_offline(worker->oracle.heap);
	return NULL;
}

static struct stress *stress_begin(
	enum fallow_provider_class provider_class, size_t window)
{
	struct stress *stress = calloc(1, sizeof(*stress));

	if (!stress)
		must(1, "calloc");
	stress->rig = rig_prepare(provider_class, window, THREADS);
	/* All threads together make as many steps in an epoch. */
	sim_clock(&stress->rig->sim);
	stress->rig->config.epoch_ticks = 40;
	stress->rig->config.floor_epochs = 8;
	CHECK_EQUAL(rig_init(stress->rig), FALLOW_OK);
	stress->rig->sim.dirty_rate = 32;
	stress->pass_rate = 64;
	stress->offline_rate = 1;
	stress->collect_rate = 1;
	stress->look_rate = 1;
	stress->sweep_rate = 4;
	stress->steps = 1200;
	for (unsigned i = 0; i < THREADS; i++) {
		struct worker *worker = &stress->workers[i];

		must(pthread_mutex_init(&worker->mailbox.lock, NULL), "init");
		worker->stress = stress;
		worker->context = i;
		worker->random = test_seed * 31 + i;
		oracle_begin(&worker->oracle, &stress->rig->heap,
			worker->blocks, BLOCKS, test_seed * 17 + i);
		worker->oracle.before = call_before;
		worker->oracle.after = call_after;
		worker->oracle.size_max = 256 * KIB;
		worker->oracle.volume = 4 * MIB;
	}
	return stress;
}

/* With no thread in the heap: takes all mail in and compares everything. */
static void stress_check(struct stress *stress)
{
	struct oracle *oracles[THREADS];

	for (unsigned i = 0; i < THREADS; i++) {
		struct worker *worker = &stress->workers[i];

		blocks_receive(worker);
		while (worker->mailbox.count) {
			oracle_shrink(
				&worker->oracle, worker->oracle.count / 2);
			blocks_receive(worker);
		}
		oracle_verify(&worker->oracle);
		oracles[i] = &worker->oracle;
	}
	oracle_compare(oracles, THREADS);
	CHECK_EQUAL(stress->rig->misuses, 0);
	sim_verdict(&stress->rig->sim);
}

/* One round: threads begin, run and end; then all is compared. */
static void stress_round(struct stress *stress)
{
	for (unsigned i = 0; i < THREADS; i++)
		must(pthread_create(&stress->workers[i].thread, NULL,
			     worker_run, &stress->workers[i]),
			"create");
	for (unsigned i = 0; i < THREADS; i++)
		must(pthread_join(stress->workers[i].thread, NULL), "join");
	stress_check(stress);
}

/* Frees every block, from context 0: nothing may be left. */
static void stress_end(struct stress *stress)
{
	for (unsigned i = 0; i < THREADS; i++) {
		oracle_shrink(&stress->workers[i].oracle, 0);
		must(pthread_mutex_destroy(&stress->workers[i].mailbox.lock),
			"destroy");
	}
	rig_check(stress->rig);
	stress->rig->sim.refuse_range_rate = 0;
	fallow_collect(&stress->rig->heap);
	{
		struct fallow_snapshot now = { .size = sizeof(now) };

		fallow_snapshot(&stress->rig->heap, &now);
		CHECK_EQUAL(now.committed, 0);
	}
	rig_end(stress->rig);
	free(stress);
}

static void run(struct stress *stress, unsigned rounds)
{
	for (unsigned i = 0; i < rounds && !test_failures(); i++)
		stress_round(stress);
	stress_end(stress);
}

static void test_threads_mixed(void)
{
	run(stress_begin(FALLOW_CLASS_WINDOW, 512 * MIB), 4);
}

static void test_threads_direct(void)
{
	run(stress_begin(FALLOW_CLASS_DIRECT, 512 * MIB), 3);
}

/* Few sizes, many small blocks: the remote words are where it happens. */
static void test_threads_small(void)
{
	struct stress *stress = stress_begin(FALLOW_CLASS_WINDOW, 256 * MIB);

	for (unsigned i = 0; i < THREADS; i++)
		stress->workers[i].oracle.size_max = 256;
	stress->pass_rate = 200;
	stress->steps = 4000;
	run(stress, 3);
}

static void test_threads_producers(void)
{
	struct stress *stress = stress_begin(FALLOW_CLASS_WINDOW, 512 * MIB);

	stress->producers = THREADS / 2;
	stress->steps = 3000;
	run(stress, 3);
}

/* Pages find new owners all the time, by frees too: the heap is not lean. */
static void test_threads_offline(void)
{
	struct stress *stress = stress_begin(FALLOW_CLASS_WINDOW, 1100 * MIB);

	stress->offline_rate = 40;
	stress->collect_rate = 8;
	run(stress, 4);
}

/* Contexts are parked all the time, and what they hold is swept by others. */
static void test_threads_parked(void)
{
	struct stress *stress = stress_begin(FALLOW_CLASS_WINDOW, 512 * MIB);

	for (unsigned i = 0; i < THREADS; i++)
		stress->workers[i].oracle.size_max = 4 * KIB;
	stress->park_rate = 40;
	stress->collect_rate = 30;
	stress->offline_rate = 2;
	stress->pass_rate = 100;
	run(stress, 4);
}

/* Everybody sweeps everybody all the time, and much is refused. */
static void test_threads_sweep(void)
{
	struct stress *stress = stress_begin(FALLOW_CLASS_WINDOW, 512 * MIB);

	for (unsigned i = 0; i < THREADS; i++)
		stress->workers[i].oracle.size_max = 40 * KIB;
	stress->sweep_rate = 60;
	stress->park_rate = 20;
	stress->offline_rate = 4;
	stress->pass_rate = 120;
	stress->rig->sim.refuse_range_rate = 40;
	run(stress, 4);
}

/* Memory runs out in all threads at once. */
static void test_threads_exhausted(void)
{
	struct stress *stress = stress_begin(FALLOW_CLASS_WINDOW, 256 * MIB);

	stress->park_rate = 4;
	stress->rig->sim.budget = 10 * MIB;
	stress->rig->sim.refuse_range_rate = 16;
	for (unsigned i = 0; i < THREADS; i++)
		stress->workers[i].oracle.may_fail = true;
	run(stress, 4);
}

/* Threads that live for a hundred operations, one after the other. */
static void test_threads_short_lives(void)
{
	struct stress *stress = stress_begin(FALLOW_CLASS_WINDOW, 256 * MIB);

	stress->steps = 100;
	run(stress, 30);
}

const struct test tests[] = {
	{ "threads_mixed", test_threads_mixed },
	{ "threads_direct", test_threads_direct },
	{ "threads_small", test_threads_small },
	{ "threads_producers", test_threads_producers },
	{ "threads_offline", test_threads_offline },
	{ "threads_parked", test_threads_parked },
	{ "threads_sweep", test_threads_sweep },
	{ "threads_exhausted", test_threads_exhausted },
	{ "threads_short_lives", test_threads_short_lives },
	{ NULL, NULL },
};
