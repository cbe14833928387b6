/* SPDX-License-Identifier: MIT */
/*
 * Threads come and go: ten thousand in turn, a thousand at once, more than there
 * are contexts, and those that still allocate when they are about to end; and a
 * thread's signal handler.
 */
#define _GNU_SOURCE

#include "library.h"

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#define IN_TURN 10000
/* With an emulator beneath. */
#define IN_TURN_EMULATED 400
#define AT_ONCE 1000
/* There are 1024 contexts. */
#define TOO_MANY 1300
/* Or what the C library takes at least. */
#define STACK (64 * KIB)

static pthread_attr_t small;

/* Some work; returns whether every byte was as written. */
static bool work(unsigned seed)
{
	unsigned char *blocks[40];
	bool good = true;

	for (unsigned i = 0; i < 40; i++) {
		size_t size = 1 + (seed * 31 + i * 7919) % 3000;

		blocks[i] = malloc(size);
		if (blocks[i] == NULL)
			return false;
		memset(blocks[i], (int)i, size);
	}
	for (unsigned i = 0; i < 40; i++) {
		good = good && blocks[i][0] == i;
		free(blocks[i]);
	}
	return good;
}

static void *one_of_many(void *arg)
{
	return work((unsigned)(uintptr_t)arg) ? arg : NULL;
}

static void test_threads_in_turn(void)
{
	uintptr_t n = emulated() ? IN_TURN_EMULATED : IN_TURN;
	size_t after_few = 0, committed = 0;

	for (uintptr_t i = 1; i <= n; i++) {
		pthread_t thread;
		void *result = NULL;

		CHECK_OR_RETURN(pthread_create(&thread, &small, one_of_many,
					(void *)i) == 0);
		pthread_join(thread, &result);
		CHECK_OR_RETURN(result == (void *)i);
		if (i == 100) {
			after_few = resident();
			committed = mallinfo2().arena;
		}
	}
	/* What each had has gone to the next. */
	CHECK(mallinfo2().arena < committed + MIB);
	CHECK(emulated() || resident() < after_few + 2 * MIB);
}

static pthread_barrier_t all_here;

static void *one_at_once(void *arg)
{
	void *kept = malloc(500);
	bool good = kept != NULL && work((unsigned)(uintptr_t)arg);

	pthread_barrier_wait(&all_here);
	good = good && work((unsigned)(uintptr_t)arg + 5);
	kept = realloc(kept, 3000);
	good = good && kept != NULL && malloc_usable_size(kept) >= 3000;
	pthread_barrier_wait(&all_here);
	free(kept);
	return good ? arg : NULL;
}

static void at_once(uintptr_t n)
{
	static pthread_t threads[TOO_MANY];
	uintptr_t good = 0;

	pthread_barrier_init(&all_here, NULL, (unsigned)n);
	for (uintptr_t i = 0; i < n; i++)
		if (pthread_create(&threads[i], &small, one_at_once,
			    (void *)(i + 1)) != 0) {
			/* The others wait for ever. */
			test_fail(__FILE__, __LINE__, "there is a thread");
			exit(1);
		}
	for (uintptr_t i = 0; i < n; i++) {
		void *result = NULL;

		pthread_join(threads[i], &result);
		good += result == (void *)(i + 1);
	}
	CHECK_EQUAL(good, n);
	pthread_barrier_destroy(&all_here);
}

static void test_threads_at_once(void)
{
	at_once(AT_ONCE);
}

static void test_threads_too_many(void)
{
	at_once(TOO_MANY);
	/* And there are contexts again. */
	at_once(100);
}

static pthread_key_t keys[3];
static unsigned rounds;

/* Frees and allocates in every round of destructors, up to the last. */
static void ends(void *arg)
{
	char *block = arg;
	unsigned round = (unsigned)block[0];

	__atomic_fetch_add(&rounds, 1, __ATOMIC_RELAXED);
	CHECK(work(round));
	free(block);
	if (round == 4)
		return;
	block = malloc(200);
	CHECK_OR_RETURN(block != NULL);
	block[0] = (char)(round + 1);
	for (int i = 0; i < 3; i++)
		if (pthread_getspecific(keys[i]) == NULL) {
			pthread_setspecific(keys[i], block);
			return;
		}
	free(block);
}

static void *ender(void *arg)
{
	for (int i = 0; i < 3; i++) {
		char *block = malloc(100);

		block[0] = 1;
		pthread_setspecific(keys[i], block);
	}
	return arg;
}

/* Destructors of others run before and after the library's own. */
static void test_threads_end(void)
{
	size_t live = 0;

	for (int i = 0; i < 3; i++)
		pthread_key_create(&keys[i], ends);
	for (int i = 0; i < 200; i++) {
		pthread_t thread;

		CHECK_OR_RETURN(
			pthread_create(&thread, &small, ender, NULL) == 0);
		pthread_join(thread, NULL);
		if (i == 20)
			live = mallinfo2().uordblks;
	}
	CHECK(rounds >= 200 * 3 * 4);
	/* What they freed at the very end is free. */
	(void)malloc_trim(0);
	CHECK(mallinfo2().uordblks < live + 20000);
}

/* A producer ends before what it made is freed. */
static void *producer(void *arg)
{
	void **blocks = arg;

	for (unsigned i = 0; i < 500; i++)
		blocks[i] = malloc(1 + i * 97 % 40000);
	return NULL;
}

static void test_threads_leave_blocks(void)
{
	static void *blocks[500];
	size_t before = mallinfo2().uordblks;

	for (int round = 0; round < 20; round++) {
		pthread_t thread;

		pthread_create(&thread, &small, producer, blocks);
		pthread_join(thread, NULL);
		for (unsigned i = 0; i < 500; i++) {
			CHECK_OR_RETURN(blocks[i] != NULL);
			free(blocks[i]);
		}
	}
	CHECK(mallinfo2().uordblks < before + 100000);
}

/* Blocks that the thread and its handler take, give and grow in turns. */
static void *shared[64];
static volatile unsigned handled;
static volatile bool harmed;

/* Takes a block out of its place, and puts another there. */
static void shared_step(unsigned n)
{
	unsigned char *old = shared[n % 64];
	size_t size = 1 + n * 7919 % (n % 50 == 0 ? 300000 : 3000);
	unsigned char *p = n % 3 != 0 ? malloc(size) : realloc(old, size);

	if (p == NULL || (n % 3 == 0 && old != NULL && p[0] != n % 64))
		harmed = true;
	if (p != NULL)
		p[0] = (unsigned char)(n % 64);
	if (n % 3 != 0)
		free(old);
	shared[n % 64] = p;
}

static void shared_handler(int number)
{
	(void)number;
	shared_step(handled * 31);
	handled++;
}

/* In a handler that comes between two calls the family is as good as elsewhere,
 * on a stack of the least that the system says handlers need. */
static void test_threads_handler(void)
{
	struct sigaction action = { .sa_handler = shared_handler,
		.sa_flags = SA_ONSTACK };
	stack_t stack = { .ss_size = (size_t)sysconf(_SC_SIGSTKSZ) };
	unsigned n = emulated() ? 2000 : 20000;
	size_t before = mallinfo2().uordblks;

	stack.ss_sp = mmap(NULL, stack.ss_size, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK_OR_RETURN(stack.ss_sp != MAP_FAILED);
	CHECK_EQUAL(sigaltstack(&stack, NULL), 0);
	CHECK_EQUAL(sigaction(SIGUSR1, &action, NULL), 0);
	for (unsigned i = 0; i < n; i++) {
		shared_step(i);
		CHECK_OR_RETURN(raise(SIGUSR1) == 0);
	}
	CHECK_EQUAL(handled, n);
	CHECK(!harmed);
	for (unsigned i = 0; i < 64; i++)
		free(shared[i]);
	CHECK(mallinfo2().uordblks < before + 100000);
	stack.ss_flags = SS_DISABLE;
	CHECK_EQUAL(sigaltstack(&stack, NULL), 0);
	munmap(stack.ss_sp, stack.ss_size);
}

static void test_threads_is_the_library(void)
{
	long least = sysconf(_SC_THREAD_STACK_MIN);

	CHECK(of_library((void *)malloc));
	CHECK_EQUAL(pthread_attr_init(&small), 0);
	CHECK_EQUAL(pthread_attr_setstacksize(&small,
			    least > (long)STACK ? (size_t)least : STACK),
		0);
}

const struct test tests[] = {
	{ "threads_is_the_library", test_threads_is_the_library },
	{ "threads_in_turn", test_threads_in_turn },
	{ "threads_at_once", test_threads_at_once },
	{ "threads_too_many", test_threads_too_many },
	{ "threads_end", test_threads_end },
	{ "threads_leave_blocks", test_threads_leave_blocks },
	{ "threads_handler", test_threads_handler },
	{ NULL, NULL },
};
