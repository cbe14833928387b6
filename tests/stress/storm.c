/* SPDX-License-Identifier: MIT */
/*
 * Storms of threads (tests/support/storm.h): a worker is a thread.
 *
 * In the model THREAD a signal's handler would be the same context as what it
 * interrupts, in the middle of a call, so there are none.  What is the handler
 * of a worker in a guest is here a second thread beside it, with a context of
 * its own: it comes as often, and does the same.  A lock is held while it runs
 * and taken by the worker to silence it, so that silence means the same too.
 *
 * The provider is simulated: it makes memory that was given back fault, checks
 * that no two calls name the same memory, has a budget that the storm changes
 * all the time, and refuses to take some ranges back.
 */
#define _POSIX_C_SOURCE 200809L /* clock_gettime(), nanosleep() */

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "heap.h"
#include "sim_rig.h"
#include "storm.h"
#include "test.h"

/* Of arch/host/port.h: the index of the context that a thread is. */
extern _Thread_local unsigned fallow_host_context
	__attribute__((tls_model("initial-exec")));

#define MIB ((size_t)1 << 20)

/* What comes back only with a timer's slack is not worth asking for. */
#define SLEEP_MIN 50000u
#define WATCH_NANOSECONDS 10000000u

/* Steps of a worker in a round, and the rounds of a short storm, as long as it
 * does not take longer than that. */
#define STEPS 400
#define ROUNDS 22
#define ROUND_MILLISECONDS 1000
#define ENOUGH_MILLISECONDS 8000

/* What a heap with a window holds before it makes rounds as it grows. */
#define PACE_BYTES ((size_t)256 << 10)

/* Of the emergency pool. */
#define RESERVE_BYTES ((size_t)256 << 10)

/* A worker's thread, and the one that is its handler. */
struct thread {
	pthread_t worker, handler;
	unsigned index;
	/* Held while the handler runs. */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* Under the lock: of the timer, 0 for silence; no more handlers. */
	uint64_t period;
	bool ended;
};

static struct storm storm;
static struct rig *rig;
static size_t budget;
/* How often the mark of core/pace.c was found moved, by a round. */
static unsigned paced;
static struct thread threads[STORM_WORKERS_MAX];
static void (*thread_work)(void *arg, unsigned worker);
static void *thread_arg;
static uint32_t workers_done;
/* This thread is a handler, and has its lock. */
static _Thread_local bool in_handler;

/* Ends the program: the host is broken. */
static void must(int error, const char *what)
{
	if (error) {
		fprintf(stderr, "storm: %s: error %d\n", what, error);
		exit(97);
	}
}

static void host_sleep(uint64_t nanoseconds)
{
	struct timespec sleep = { .tv_nsec = (long)nanoseconds };

	nanosleep(&sleep, NULL);
}

/* What the handler's thread does: its handler, again and again. */
static void *handler_run(void *arg)
{
	struct thread *thread = arg;

	in_handler = true;
	fallow_host_context = storm.config.host->workers + thread->index;
	must(pthread_mutex_lock(&thread->lock), "lock");
	while (!thread->ended) {
		uint64_t period;

		if (!thread->period) {
			must(pthread_cond_wait(
				     &thread->changed, &thread->lock),
				"wait");
			continue;
		}
		storm_handler(&storm, thread->index);
		period = thread->period;
		must(pthread_mutex_unlock(&thread->lock), "unlock");
		host_sleep(period < SLEEP_MIN ? SLEEP_MIN : period);
		must(pthread_mutex_lock(&thread->lock), "lock");
	}
	must(pthread_mutex_unlock(&thread->lock), "unlock");
	return NULL;
}

static void *worker_run(void *arg)
{
	struct thread *thread = arg;

	fallow_host_context = thread->index;
	thread_work(thread_arg, thread->index);
	__atomic_fetch_add(&workers_done, 1, __ATOMIC_RELAXED);
	return NULL;
}

static void thread_begin(struct thread *thread, unsigned index)
{
	thread->index = index;
	thread->period = 0;
	thread->ended = false;
	must(pthread_mutex_init(&thread->lock, NULL), "init");
	must(pthread_cond_init(&thread->changed, NULL), "init");
	must(pthread_create(&thread->handler, NULL, handler_run, thread),
		"create");
	must(pthread_create(&thread->worker, NULL, worker_run, thread),
		"create");
}

static void thread_end(struct thread *thread)
{
	must(pthread_join(thread->worker, NULL), "join");
	must(pthread_mutex_lock(&thread->lock), "lock");
	thread->ended = true;
	must(pthread_cond_signal(&thread->changed), "signal");
	must(pthread_mutex_unlock(&thread->lock), "unlock");
	must(pthread_join(thread->handler, NULL), "join");
	must(pthread_cond_destroy(&thread->changed), "destroy");
	must(pthread_mutex_destroy(&thread->lock), "destroy");
}

static void host_run(void (*work)(void *arg, unsigned worker), void *arg)
{
	unsigned n = storm.config.host->workers;

	thread_work = work;
	thread_arg = arg;
	workers_done = 0;
	for (unsigned i = 0; i < n; i++)
		thread_begin(&threads[i], i);
	/* Workers may wait for a handler that hangs, and then none looks. */
	while (__atomic_load_n(&workers_done, __ATOMIC_RELAXED) < n) {
		storm_watch(&storm);
		host_sleep(WATCH_NANOSECONDS);
	}
	for (unsigned i = 0; i < n; i++)
		thread_end(&threads[i]);
}

static unsigned host_self(void)
{
	return fallow_host_context;
}

static uint64_t host_milliseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void host_pause(void)
{
	sched_yield();
}

/* As long as a handler's thread sleeps at least. */
static void host_idle(void)
{
	host_sleep(SLEEP_MIN);
}

static void host_timer(unsigned worker, uint64_t nanoseconds)
{
	struct thread *thread = &threads[worker];

	if (!in_handler)
		must(pthread_mutex_lock(&thread->lock), "lock");
	thread->period = nanoseconds;
	if (in_handler)
		return;
	must(pthread_cond_signal(&thread->changed), "signal");
	must(pthread_mutex_unlock(&thread->lock), "unlock");
}

/* The worker is the handler's context for a while. */
static uintptr_t host_handler_enter(unsigned worker)
{
	must(pthread_mutex_lock(&threads[worker].lock), "lock");
	fallow_host_context = storm.config.host->workers + worker;
	return 0;
}

static void host_handler_leave(unsigned worker, uintptr_t state)
{
	(void)state;
	fallow_host_context = worker;
	must(pthread_mutex_unlock(&threads[worker].lock), "unlock");
}

static void host_before(unsigned worker, bool handler, unsigned flags)
{
	(void)worker;
	(void)handler;
	sim_nowait = flags & FALLOW_NOWAIT;
}

static void host_after(unsigned worker, bool handler)
{
	(void)worker;
	(void)handler;
	sim_nowait = false;
}

/* Rounds begin anew, unless one is under way: the mark would soon be above all
 * that a storm ever holds.  As one that makes a round. */
static void pace_anew(void)
{
	struct pacing *pacing = &heap_of(&rig->heap)->pacing;
	uint32_t idle = 0;

	if (rig->sim.provider.provider_class != FALLOW_CLASS_WINDOW ||
		!fl_cas_acquire(&pacing->busy, &idle, (uint32_t)1))
		return;
	paced += pacing->at != PACE_BYTES;
	fl_store_relaxed(&pacing->at, PACE_BYTES);
	fl_store_release(&pacing->busy, 0);
}

/* Others take up to half of the memory; some ranges are not taken back. */
static void host_squeeze(unsigned worker, uint64_t random)
{
	(void)worker;
	pace_anew();
	must(pthread_mutex_lock(&rig->sim.lock), "lock");
	rig->sim.budget = budget - random % (budget / 2);
	rig->sim.refuse_range_rate = (random >> 32) % 16;
	must(pthread_mutex_unlock(&rig->sim.lock), "unlock");
}

static void host_relax(unsigned worker)
{
	(void)worker;
	must(pthread_mutex_lock(&rig->sim.lock), "lock");
	rig->sim.budget = budget;
	rig->sim.refuse_range_rate = 0;
	must(pthread_mutex_unlock(&rig->sim.lock), "unlock");
}

/* The provider's books are the heap's. */
static void host_inspect(bool empty)
{
	struct fallow_snapshot now = { .size = sizeof(now) };

	(void)empty;
	fallow_snapshot(&rig->heap, &now);
	CHECK_EQUAL(now.committed + now.tables, rig->sim.committed);
	CHECK_EQUAL(now.no_memory, rig->sim.refused);
	CHECK_EQUAL(now.refusals, rig->sim.refused_ranges);
	sim_verdict(&rig->sim);
}

_Noreturn static void host_die(void)
{
	exit(97);
}

static struct storm_host host = {
	.run = host_run,
	.self = host_self,
	.milliseconds = host_milliseconds,
	.pause = host_pause,
	.idle = host_idle,
	.timer = host_timer,
	.handler_enter = host_handler_enter,
	.handler_leave = host_handler_leave,
	.before = host_before,
	.after = host_after,
	.squeeze = host_squeeze,
	.relax = host_relax,
	.inspect = host_inspect,
	.die = host_die,
};

/* How long a storm has to take: 0, unless SECONDS asks for more. */
static uint64_t seconds_wanted(void)
{
	const char *seconds = getenv("SECONDS");

	return seconds ? strtoull(seconds, NULL, 10) : 0;
}

/* One storm of n threads over a provider of some class. */
static void storm_threads(
	const char *name, unsigned n, enum fallow_provider_class provider_class)
{
	uint64_t seconds = seconds_wanted();
	struct storm_config config = {
		.host = &host,
		.seed = test_seed,
		.steps = STEPS,
		.rounds = ROUNDS,
		.round_milliseconds = ROUND_MILLISECONDS,
		.milliseconds = seconds * 1000,
		.enough_milliseconds = seconds ? 0 : ENOUGH_MILLISECONDS,
		.holes = provider_class == FALLOW_CLASS_WINDOW,
		.progress_milliseconds = 10000,
	};

	host.workers = n;
	paced = 0;
	rig = rig_prepare(provider_class, 256 * MIB, 2 * n);
	rig->config.misuse = storm_misuse;
	rig->config.misuse_ctx = &storm;
	rig->config.pressure = storm_pressure;
	rig->config.pressure_ctx = &storm;
	rig->config.reserve_bytes = RESERVE_BYTES;
	rig->config.pace_from_bytes = PACE_BYTES;
	rig->sim.dirty_rate = 32;
	budget = (4 + 4 * (size_t)n) * MIB;
	rig->sim.budget = budget;
	CHECK_EQUAL(rig_init(rig), FALLOW_OK);
	config.heap = &rig->heap;
	config.memory = budget;
	storm_run(&storm, &config);
	storm_print(&storm, name);
	if (test_failures())
		return;
	CHECK(storm.counts.nulls > 0);
	CHECK(storm.counts.handlers > 0);
	CHECK(storm.counts.sweeps > 0);
	CHECK(storm.counts.reclaims > 0);
	CHECK(storm.counts.parks > 0);
	if (provider_class == FALLOW_CLASS_WINDOW) {
		CHECK(storm.counts.holed > 0);
		CHECK(paced > 0);
	}
	rig_end_now(rig, true);
}

static void test_storm_1(void)
{
	storm_threads("1 thread", 1, FALLOW_CLASS_WINDOW);
}

static void test_storm_2(void)
{
	storm_threads("2 threads", 2, FALLOW_CLASS_WINDOW);
}

static void test_storm_4(void)
{
	storm_threads("4 threads", 4, FALLOW_CLASS_WINDOW);
}

static void test_storm_direct(void)
{
	storm_threads("4 threads, direct", 4, FALLOW_CLASS_DIRECT);
}

const struct test tests[] = {
	{ "storm_1", test_storm_1 },
	{ "storm_2", test_storm_2 },
	{ "storm_4", test_storm_4 },
	{ "storm_direct", test_storm_direct },
	{ NULL, NULL },
};
