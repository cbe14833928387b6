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
 * `lock` protects the table of indices; it is taken outside of the heap's calls
 * and never inside one.
 */
#define _GNU_SOURCE

#include "linux/preload.h"

#include <limits.h>
#include <pthread.h>

#include "arch.h"

#define WORD_BITS 64
#define ROUNDS (_POSIX_THREAD_DESTRUCTOR_ITERATIONS - 1)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t guest = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t key;

/* Indices that are taken, by bits; how many are free; whose they are. */
static uint64_t taken[BOARD_CONTEXTS / WORD_BITS] = { 1u << BOARD_GUEST };
static unsigned left = BOARD_CONTEXTS - 1;
static struct board_thread *threads[BOARD_CONTEXTS];
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
}

/* Gives the calling thread an index; returns whether there was one. */
static bool index_take(struct board_thread *thread)
{
	bool got = false;

	pthread_mutex_lock(&lock);
	if (left > 0) {
		unsigned index = index_lowest();

		got = fallow_more_contexts(&board_heap, index + 1);
		if (got) {
			index_mark(index, thread);
			thread->context = index;
		}
	}
	pthread_mutex_unlock(&lock);
	return got;
}

/* Gives the calling thread's index back.  Its pages are others' before. */
static void index_give(struct board_thread *thread)
{
	fallow_offline(&board_heap);
	pthread_mutex_lock(&lock);
	index_mark(thread->context, NULL);
	thread->context = BOARD_NO_CONTEXT;
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
		index_give(&board_thread);
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
		!index_take(thread))
		return false;
	/* It may allocate, which is legal from here on. */
	if (pthread_setspecific(key, (void *)(uintptr_t)1) == 0)
		return true;
	index_give(thread);
	thread->gone = true;
	return false;
}

void board_guest_enter(void)
{
	pthread_mutex_lock(&guest);
	board_thread.context = BOARD_GUEST;
}

void board_guest_leave(void)
{
	board_thread.context = BOARD_NO_CONTEXT;
	pthread_mutex_unlock(&guest);
}
