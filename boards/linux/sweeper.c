/* SPDX-License-Identifier: MIT */
/*
 * The thread that gives memory back.
 *
 * It is not there until the heap has more than a floor leaves anyway: the heap
 * says so once, in a slow path, and the thread that is in it makes this one.
 * From then on it sweeps when the last sweep said that the next would be of
 * use, and where that said never, it sleeps until the heap asks; before that it
 * makes chunks large that are whole (large.c), which ends by itself.
 *
 * A sweep reaches what parked contexts own, but threads of programs block
 * without a word.  So before each sweep the sweeper announces the parking of
 * every context that is not (thread.c): one that allocates takes it back, in
 * one slow path.  Those that have not until the next sweep are not using their
 * memory, whether they are blocked or compute, and are swept.  There is nothing
 * left to do only when all are parked; the first that allocates again then
 * rouses the sweeper.
 *
 * An allocation that finds no memory has what idle threads own given back at
 * once, before it fails.
 *
 * `sweeping` is held while anything looks at the whole heap: by the sweeper, by
 * malloc_trim() and failing allocations, by reports, and around a fork.
 */
#define _GNU_SOURCE

#include "linux/preload.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "arch.h"

/* A sweep takes 2 KiB of it, the C library and its thread's storage more. */
#define STACK_BYTES ((size_t)64 << 10)
#define NS_PER_S 1000000000u

enum state { SWEEPER_NONE, SWEEPER_RUNS, SWEEPER_FAILED };

static pthread_mutex_t sweeping = PTHREAD_MUTEX_INITIALIZER;
static enum state state;
/* Whether there is something to sweep, or may be: what the thread waits for. */
static uint32_t asked;
/* Whether the next look at large pages may do something. */
static bool large_waits;

/* Waits so many nanoseconds. */
static void sleep_ns(uint64_t ns)
{
	struct timespec left = {
		.tv_sec = (time_t)(ns / NS_PER_S),
		.tv_nsec = (long)(ns % NS_PER_S),
	};

	while (nanosleep(&left, &left) != 0 && errno == EINTR)
		;
}

/* An epoch in nanoseconds. */
static uint64_t epoch_ns(void)
{
	return board_settings.epoch_ms * 1000000;
}

/* Waits until somebody asks; with `ns` not 0, no longer than that.  Where the
 * kernel refuses to wait (a sandbox) it is looked at once an epoch. */
static void asked_wait(uint64_t ns)
{
	struct timespec most = {
		.tv_sec = (time_t)(ns / NS_PER_S),
		.tv_nsec = (long)(ns % NS_PER_S),
	};

	/* Pairs with the release in board_sweeper_rouse(). */
	while (__atomic_load_n(&asked, __ATOMIC_ACQUIRE) == 0) {
		if (syscall(SYS_futex, &asked, FUTEX_WAIT_PRIVATE, 0,
			    ns == 0 ? NULL : &most, NULL, 0) == 0 ||
			errno == EINTR || errno == EAGAIN)
			continue;
		if (errno == ETIMEDOUT)
			return;
		sleep_ns(epoch_ns());
		if (ns != 0 && ns <= epoch_ns())
			return;
		ns -= ns == 0 ? 0 : epoch_ns();
	}
}

/* Waits so long, while there are chunks to make large in epochs of which each
 * ends with a look at them; if `asked_ends`, until there are none or somebody
 * asks. */
static void sleep_large(uint64_t ns, bool asked_ends)
{
	while (large_waits && ns > epoch_ns() &&
		!(asked_ends &&
			__atomic_load_n(&asked, __ATOMIC_RELAXED) != 0)) {
		sleep_ns(epoch_ns());
		ns -= epoch_ns();
		pthread_mutex_lock(&sweeping);
		large_waits = board_large_round();
		pthread_mutex_unlock(&sweeping);
	}
	if (!asked_ends)
		sleep_ns(ns);
}

/* Sweeps once; returns how long to wait, or 0: until somebody asks. */
static uint64_t sweep_once(void)
{
	bool awake;
	uint64_t next;

	/* Who asks from here on is heard. */
	__atomic_store_n(&asked, 0, __ATOMIC_RELAXED);
	pthread_mutex_lock(&sweeping);
	awake = board_threads_park();
	next = fallow_sweep(&board_heap, SIZE_MAX);
	large_waits = board_large_round();
	pthread_mutex_unlock(&sweeping);
	return awake && (next == 0 || next > epoch_ns()) ? epoch_ns() : next;
}

/* The thread. */
static void *sweeper_run(void *arg)
{
	(void)arg;
	pthread_setname_np(pthread_self(), "fallow-sweeper");
	for (;;) {
		uint64_t next = sweep_once();

		/* At rest: for good, or till what was refused is tried again. */
		if (next == 0 || next > epoch_ns()) {
			sleep_large(next == 0 ? UINT64_MAX : next, true);
			asked_wait(next);
			next = epoch_ns();
		}
		sleep_large(next, false);
	}
	return NULL;
}

/* The stack that is wanted: on some CPUs the C library takes no less than more
 * than that (aarch64: 128 KiB). */
static size_t stack_bytes(void)
{
	long least = sysconf(_SC_THREAD_STACK_MIN);

	return least > (long)STACK_BYTES ? (size_t)least : STACK_BYTES;
}

/* Makes the thread, of the stack size wanted or, where that is too little for a
 * program's thread-local variables, of the usual one. */
static bool sweeper_create(void)
{
	pthread_attr_t attributes;
	pthread_t thread;
	int failed;

	if (pthread_attr_init(&attributes) != 0)
		return false;
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, stack_bytes());
	failed = pthread_create(&thread, &attributes, sweeper_run, NULL);
	pthread_attr_destroy(&attributes);
	if (failed != EINVAL)
		return failed == 0;
	if (pthread_create(&thread, NULL, sweeper_run, NULL) != 0)
		return false;
	pthread_detach(thread);
	return true;
}

/* Makes the thread, which no signal of the program's reaches. */
static void sweeper_start(void)
{
	enum state none = SWEEPER_NONE;
	sigset_t all, before;

	/* Orders nothing: it decides between those who would start it. */
	if (!__atomic_compare_exchange_n(&state, &none, SWEEPER_RUNS, false,
		    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (!sweeper_create())
		__atomic_store_n(&state, SWEEPER_FAILED, __ATOMIC_RELAXED);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void board_sweeper_rouse(void)
{
	if (__atomic_load_n(&state, __ATOMIC_RELAXED) != SWEEPER_RUNS ||
		__atomic_load_n(&asked, __ATOMIC_RELAXED) != 0)
		return;
	/* Pairs with the acquire in asked_wait(). */
	__atomic_store_n(&asked, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &asked, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void board_sweep_wanted(void *ctx, uint64_t ticks)
{
	int before = errno;

	(void)ctx;
	(void)ticks;
	if (__atomic_load_n(&state, __ATOMIC_RELAXED) == SWEEPER_NONE)
		sweeper_start();
	else
		board_sweeper_rouse();
	errno = before;
}

void board_sweeper_hold(void)
{
	pthread_mutex_lock(&sweeping);
}

void board_sweeper_release(void)
{
	pthread_mutex_unlock(&sweeping);
}

size_t board_collect(void)
{
	size_t bytes;

	pthread_mutex_lock(&sweeping);
	/* Announced, and settled as far as they are outside. */
	(void)board_threads_park();
	(void)board_threads_park();
	bytes = fallow_collect(&board_heap);
	pthread_mutex_unlock(&sweeping);
	return bytes;
}

/* What blocked threads have kept may be what is missing.  Not for a guest, who
 * holds a mutex that this would want. */
bool board_pressure(void *ctx, size_t size)
{
	(void)ctx;
	(void)size;
	return board_thread.context != BOARD_GUEST && board_collect() > 0;
}

void board_sweeper_forked(void)
{
	sweeping = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	state = SWEEPER_NONE;
	asked = 0;
	large_waits = false;
}
