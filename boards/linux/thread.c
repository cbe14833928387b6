/* SPDX-License-Identifier: MIT */
/*
 * Threads are contexts, and come and go.
 *
 * A thread gets the lowest index that is free when it first calls the heap (the
 * heap's attach hook), and gives it back when it ends (a key's destructor): its
 * pages go to whoever needs them.  So there are as many contexts as threads
 * were there at once, however many there were in turn.
 *
 * Other keys' destructors may run behind ours and allocate.  Therefore ours asks
 * to be called again, as often as POSIX grants for certain but once, and gives
 * the context back only then.
 *
 * Threads beyond BOARD_CONTEXTS, and those that call after they gave theirs
 * back, are guests: their frees are deferred, and their allocations are made by
 * one shared context under a lock.  That is slow and never wrong.
 *
 * Others' threads are parked from here, for the sweeper and around a fork: see
 * sweeper.c and fork.c.  It takes a barrier in every thread, by the kernel's
 * membarrier(), so that no thread needs one of its own.  Where that is refused
 * (an old kernel, a sandbox) the sweeper parks no thread, and a fork visits
 * every CPU instead: slow, but a child must not wait for a lock for ever.
 *
 * `lock` protects the table of threads and `guest` the shared context; they are
 * taken in this order, outside of the heap's calls.
 */
#define _GNU_SOURCE

#include "linux/preload.h"

#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "heap.h"
#include "own.h"

#define WORD_BITS 64
#define ROUNDS (_POSIX_THREAD_DESTRUCTOR_ITERATIONS - 1)
/* How often the CPU is given away for a thread to come out of a call, and then
 * a millisecond: on a busy machine it may not run for many.  After ten seconds
 * it is taken to stand there for good. */
#define YIELDS 1000
#define STOP_TRIES (YIELDS + 10000)
/* The same for a call that extends the heap's tables, fewer for all that is
 * waited for in each. */
#define GROW_TRIES (YIELDS + 1000)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t guest = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t key;

/* Indices that are taken, by bits; how many are free; whose they are. */
static uint64_t taken[BOARD_CONTEXTS / WORD_BITS] = { 1u << BOARD_GUEST };
static unsigned left = BOARD_CONTEXTS - 1;
static struct board_thread *threads[BOARD_CONTEXTS];
/* Indices are below this, ever. */
static unsigned threads_end;
/* The guest has been used since it was parked. */
static bool guest_awake;
static bool barrier_there;
_Static_assert(BOARD_CONTEXTS % WORD_BITS == 0 && BOARD_GUEST < WORD_BITS,
	"the guest's bit is in the first word");

/* The lowest free index.  Under the lock; one is left. */
static unsigned index_lowest(void)
{
	unsigned word = 0;

	while (taken[word] == UINT64_MAX)
		word++;
	return word * WORD_BITS + (unsigned)__builtin_ctzll(~taken[word]);
}

/* Takes or gives back an index.  Under the lock. */
static void index_mark(unsigned index, struct board_thread *thread)
{
	uint64_t bit = (uint64_t)1 << index % WORD_BITS;

	taken[index / WORD_BITS] ^= bit;
	left += thread == NULL ? 1 : (unsigned)-1;
	threads[index] = thread;
	if (index >= threads_end)
		threads_end = index + 1;
}

void fl_port_serve(unsigned context, void *local, void *own, uint32_t owner)
{
	struct board_thread *thread = context == board_thread.context
		? &board_thread
		: threads[context];

	if (thread == NULL)
		return;
	/* Its calls read them in no order: what they must not miss they see by
	 * the barrier of whoever parks it. */
	__atomic_store_n(&thread->local, local, __ATOMIC_RELAXED);
	__atomic_store_n(&thread->own, own == NULL ? &board_own_none : own,
		__ATOMIC_RELAXED);
	__atomic_store_n(&thread->owner, owner, __ATOMIC_RELAXED);
}

/* Addresses are reserved, and memory is where the context has pages: 4 KiB for
 * each 32 MiB, and so much at most that huge pages would be the most of it. */
void *fl_port_own_make(unsigned context)
{
	void *own = mmap(NULL, sizeof(struct own), PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	(void)context;
	if (own == MAP_FAILED)
		return NULL;
	(void)madvise(own, sizeof(struct own), MADV_NOHUGEPAGE);
	return own;
}

/* Makes the calling thread one context, or none.  Nobody parks that context
 * meanwhile. */
static void context_become(uint32_t context)
{
	const struct heap *heap = heap_of(&board_heap);

	board_thread.context = context;
	if (context == BOARD_NO_CONTEXT)
		fl_port_serve(context, &fl_local_none, NULL, OWNER_PARKED);
	else
		fl_port_serve(context, served_local(heap, context),
			served_own(heap, context),
			served_owner(heap, context));
}

/* Gives the calling thread an index; returns whether there was one. */
static bool index_take(void)
{
	bool got = false;

	pthread_mutex_lock(&lock);
	if (left > 0) {
		unsigned index = index_lowest();

		got = fallow_more_contexts(&board_heap, index + 1);
		if (got) {
			index_mark(index, &board_thread);
			context_become(index);
		}
	}
	pthread_mutex_unlock(&lock);
	return got;
}

/* Gives the calling thread's index back.  Its pages are others' before. */
static void index_give(void)
{
	fallow_offline(&board_heap);
	pthread_mutex_lock(&lock);
	index_mark(board_thread.context, NULL);
	context_become(BOARD_NO_CONTEXT);
	pthread_mutex_unlock(&lock);
}

/* The key's destructor: the thread ends. */
static void thread_ends(void *arg)
{
	uintptr_t round = (uintptr_t)arg;

	if (round < ROUNDS &&
		pthread_setspecific(key, (void *)(round + 1)) == 0)
		return;
	board_thread.gone = true;
	if (board_thread.context != BOARD_NO_CONTEXT)
		index_give();
}

bool board_thread_begin(void)
{
	return pthread_key_create(&key, thread_ends) == 0;
}

bool board_thread_attach(void *ctx)
{
	struct board_thread *thread = &board_thread;

	(void)ctx;
	if (thread->gone || __atomic_load_n(&left, __ATOMIC_RELAXED) == 0 ||
		!index_take())
		return false;
	board_sweeper_rouse();
	/* It may allocate, which is legal from here on. */
	if (pthread_setspecific(key, (void *)(uintptr_t)1) == 0)
		return true;
	index_give();
	thread->gone = true;
	return false;
}

void board_guest_enter(void)
{
	pthread_mutex_lock(&guest);
	context_become(BOARD_GUEST);
	guest_awake = true;
}

void board_guest_leave(void)
{
	context_become(BOARD_NO_CONTEXT);
	pthread_mutex_unlock(&guest);
}

void board_barrier_begin(void)
{
	barrier_there = syscall(SYS_membarrier,
		MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

bool board_barrier(void)
{
	return barrier_there && syscall(SYS_membarrier,
		MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
}

/* Runs on every CPU that a thread of this process can be on: whichever was
 * there has been switched from meanwhile, and the switch is a barrier. */
static void cpus_visit(void)
{
	cpu_set_t before, all, one;
	int cpu;

	if (sched_getaffinity(0, sizeof(before), &before) != 0)
		return;
	memset(&all, 0xff, sizeof(all));
	/* The kernel takes away what is not there, or not for us. */
	if (sched_setaffinity(0, sizeof(all), &all) == 0 &&
		sched_getaffinity(0, sizeof(all), &all) == 0)
		for (cpu = 0; cpu < CPU_SETSIZE; cpu++) {
			if (!CPU_ISSET(cpu, &all))
				continue;
			CPU_ZERO(&one);
			CPU_SET(cpu, &one);
			(void)sched_setaffinity(0, sizeof(one), &one);
		}
	(void)sched_setaffinity(0, sizeof(before), &before);
}

/* The same by whatever means there are, for a fork. */
static void barrier_surely(void)
{
	if (!board_barrier())
		cpus_visit();
}

/* Whether the thread is outside of the heap.  Behind a barrier. */
static bool is_outside(const struct board_thread *thread)
{
	/* Pairs with the release in fl_port_leave(). */
	return __atomic_load_n(&thread->busy, __ATOMIC_ACQUIRE) == 0;
}

/* Parks what the guests have left, as one of them. */
static void guest_park(void)
{
	uint32_t context = board_thread.context;

	pthread_mutex_lock(&guest);
	if (guest_awake) {
		context_become(BOARD_GUEST);
		fallow_park(&board_heap);
		context_become(context);
		guest_awake = false;
	}
	pthread_mutex_unlock(&guest);
}

bool board_threads_park(void)
{
	bool awake = false;
	unsigned i;

	guest_park();
	if (!barrier_there)
		return false;
	pthread_mutex_lock(&lock);
	for (i = 0; i < threads_end; i++) {
		if (threads[i] == NULL || threads[i] == &board_thread ||
			(is_outside(threads[i]) &&
				fallow_park_settle(&board_heap, i)))
			continue;
		fallow_park_context(&board_heap, i);
		awake = true;
	}
	pthread_mutex_unlock(&lock);
	return awake && board_barrier();
}

void board_threads_hold(void)
{
	/* Handlers that are older than ours may allocate while it is held. */
	if (board_thread.context == BOARD_NO_CONTEXT)
		(void)board_thread_attach(NULL);
	pthread_mutex_lock(&lock);
	pthread_mutex_lock(&guest);
}

void board_threads_release(void)
{
	pthread_mutex_unlock(&guest);
	pthread_mutex_unlock(&lock);
}

/* Whether the thread holds no lock and changes no list, and will not before the
 * gate opens.  Behind a barrier that came after the announcements. */
static bool stands_still(const struct board_thread *thread)
{
	/* Pairs with the releases in board_gate_wait(), fl_port_leave() and
	 * fl_port_lock_leave(). */
	if (__atomic_load_n(&thread->gated, __ATOMIC_ACQUIRE) != 0)
		return true;
	return is_outside(thread) &&
		__atomic_load_n(&thread->locks, __ATOMIC_ACQUIRE) == 0;
}

/* Lets others run, in the next of so many tries. */
static void try_wait(unsigned tried)
{
	struct timespec millisecond = { .tv_nsec = 1000000 };

	if (tried < YIELDS)
		sched_yield();
	else
		/* Not the library's: a thread could be cancelled in it. */
		(void)syscall(SYS_nanosleep, &millisecond, NULL);
}

/* The threads that were seen to stand still, in the last stop. */
static bool still[BOARD_CONTEXTS];

/* Waits for every other thread; returns whether all stand still. */
static bool threads_wait(void)
{
	unsigned tried = 0;
	bool all = true;
	unsigned i;

	for (i = 0; i < threads_end; i++) {
		still[i] = false;
		if (threads[i] == NULL || threads[i] == &board_thread)
			continue;
		while (!(still[i] = stands_still(threads[i])) &&
			tried < STOP_TRIES)
			try_wait(tried++);
		all = all && still[i];
	}
	return all;
}

/* Shuts the gate, announces, and waits. */
static void stop_once(void)
{
	unsigned i;

	__atomic_store_n(&board_gate_shut, 1, __ATOMIC_RELAXED);
	/* Whoever goes to a lock from here on sees the gate. */
	barrier_surely();
	for (i = 0; i < threads_end; i++)
		if (threads[i] != NULL && threads[i] != &board_thread)
			fallow_park_context(&board_heap, i);
	barrier_surely();
	(void)threads_wait();
}

/* Opens the gate. */
static void gate_open(void)
{
	__atomic_store_n(&board_gate_shut, 0, __ATOMIC_RELEASE);
	syscall(SYS_futex, &board_gate_shut, FUTEX_WAKE_PRIVATE, INT_MAX, NULL,
		NULL, 0);
}

/* Whether there is another thread with a context. */
static bool others_there(void)
{
	unsigned i;

	for (i = 0; i < threads_end; i++)
		if (threads[i] != NULL && threads[i] != &board_thread)
			return true;
	return false;
}

void board_threads_stop(void)
{
	struct heap *heap = heap_of(&board_heap);
	unsigned tried = 0;

	/* This thread is let through the gate. */
	board_thread.locks++;
	if (!others_there())
		return;
	stop_once();
	/* A call that extends the tables stands at the gate: the child would
	 * wait for it. */
	while (fl_load_relaxed(&heap->growing) && tried < GROW_TRIES) {
		gate_open();
		try_wait(tried++);
		stop_once();
	}
}

void board_threads_resume(void)
{
	unsigned i;

	for (i = 0; i < threads_end; i++)
		if (threads[i] != NULL && threads[i] != &board_thread)
			fallow_park_cancel(&board_heap, i);
	board_thread.locks--;
	gate_open();
}

/* Hands on what a thread owned that is not there. */
static void context_inherit(unsigned index)
{
	struct local *local = heap_of(&board_heap)->locals[index];

	context_become(index);
	/* It may have been in the middle of a call of the kernel. */
	local->calling = 0;
	local->reporting = 0;
	fallow_offline(&board_heap);
	index_mark(index, NULL);
}

void board_threads_inherit(void)
{
	uint32_t context = board_thread.context;
	bool all = true;
	unsigned i;

	lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	guest = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	board_gate_shut = 0;
	board_barrier_begin();
	for (i = 0; i < threads_end; i++)
		all = all && (threads[i] == NULL ||
				threads[i] == &board_thread || still[i]);
	for (i = 0; i < threads_end; i++) {
		if (threads[i] == NULL || threads[i] == &board_thread)
			continue;
		if (all)
			context_inherit(i);
		/* Or for ever the index of one that is not there. */
		threads[i] = NULL;
	}
	context_become(context);
	board_thread.locks--;
}
