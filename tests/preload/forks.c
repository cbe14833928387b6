/* SPDX-License-Identifier: MIT */
/*
 * fork() while threads storm: every child allocates, frees what others had,
 * makes threads, and forks again; the parent goes on.
 */
#define _GNU_SOURCE

#include "library.h"

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#define STORMS 4
#define SLOTS 300
#define FORKS 25
/* With an emulator beneath. */
#define FORKS_EMULATED 8
/* A child that hangs is told so, on a machine that is busy too. */
#define HANGS_S 100

static bool over;
/* Blocks that a storm has at any time, for children to look at. */
static struct slot {
	unsigned char *p;
} slots[STORMS][SLOTS];

/* Replaces blocks of all sizes at random until it is told to stop. */
static void *storm(void *arg)
{
	struct slot *mine = slots[(uintptr_t)arg];
	uint64_t random = test_seed + (uintptr_t)arg;

	while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
		struct slot *slot = &mine[test_random(&random) % SLOTS];
		/* Those that are spans are made under the heap's lock. */
		size_t size = test_random(&random) %
			(test_random(&random) % 4 != 0 ? 600 : 1200000);
		unsigned char *p;

		/* A child finds in the slots what is in use, and no more. */
		p = __atomic_exchange_n(&slot->p, NULL, __ATOMIC_RELAXED);
		free(p);
		p = malloc(size);
		if (p == NULL)
			abort();
		memset(p, 0x5a, size < 600 ? size : 600);
		__atomic_store_n(&slot->p, p, __ATOMIC_RELEASE);
	}
	for (unsigned i = 0; i < SLOTS; i++)
		free(__atomic_exchange_n(&mine[i].p, NULL, __ATOMIC_RELAXED));
	return NULL;
}

/* Allocates in every size, whoever had the memory; returns whether it is all
 * there. */
static bool use(void)
{
	unsigned char *blocks[400];
	bool good = true;

	for (unsigned i = 0; i < 400; i++) {
		blocks[i] = malloc(1 + i * i % 70000);
		if (blocks[i] == NULL)
			return false;
		memset(blocks[i], (int)i, 1 + i * i % 70000);
	}
	for (unsigned i = 0; i < 400; i++) {
		good = good && blocks[i][i * i % 70000] == (i & 0xff);
		free(blocks[i]);
	}
	return good;
}

static void *user(void *arg)
{
	return use() ? arg : NULL;
}

/* Whether threads can be made that allocate. */
static bool threads_use(void)
{
	pthread_t threads[3];
	bool good = true;

	for (uintptr_t i = 0; i < 3; i++)
		if (pthread_create(&threads[i], NULL, user, (void *)(i + 1)))
			return false;
	for (unsigned i = 0; i < 3; i++) {
		void *result = NULL;

		pthread_join(threads[i], &result);
		good = good && result != NULL;
	}
	return good;
}

/* What a storm had is to be freed by the child, but for the one that it was
 * just replacing. */
static void others_free(void)
{
	for (unsigned s = 0; s < STORMS; s++)
		for (unsigned i = 0; i < SLOTS; i++)
			if (i % 3 != 0 && slots[s][i].p != NULL &&
				malloc_usable_size(slots[s][i].p) > 0)
				slots[s][i].p = realloc(slots[s][i].p, 40);
}

/* Returns the exit status of a child that ran this. */
static int child_run(unsigned depth)
{
	int status = 0;
	pid_t again;

	alarm(HANGS_S);
	if (!use())
		return 1;
	others_free();
	if ((!emulated() && !threads_use()) || !use())
		return 2;
	(void)malloc_trim(0);
	if (depth == 0)
		return 0;
	again = fork();
	if (again == 0)
		_exit(child_run(depth - 1));
	if (again < 0 || waitpid(again, &status, 0) != again || status != 0)
		return 3;
	return use() ? 0 : 4;
}

/* Forks; returns the child's status as waitpid() has it. */
static int fork_once(unsigned depth)
{
	int status = -1;
	pid_t child = fork();

	if (child == 0)
		_exit(child_run(depth));
	if (child > 0)
		waitpid(child, &status, 0);
	return status;
}

/* How much longer than a short run is wanted. */
static unsigned seconds(void)
{
	const char *text = getenv("SECONDS");

	return text == NULL ? 0 : (unsigned)atoi(text);
}

static void test_forks_in_a_storm(void)
{
	unsigned forks = emulated() ? FORKS_EMULATED : FORKS;
	pthread_t threads[STORMS];

	CHECK(of_library((void *)malloc));
	for (uintptr_t i = 0; i < STORMS; i++)
		CHECK_OR_RETURN(pthread_create(
			&threads[i], NULL, storm, (void *)i) == 0);
	for (unsigned i = 0; i < forks * (1 + seconds()); i++)
		CHECK_EQUAL(fork_once(i % 10 == 0 ? 2 : 0), 0);
	__atomic_store_n(&over, true, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < STORMS; i++)
		pthread_join(threads[i], NULL);
	CHECK(use());
}

/* One thread alone, which is the simple case, and then no thread that has ever
 * allocated but this. */
static void test_forks_alone(void)
{
	for (unsigned i = 0; i < 8; i++)
		CHECK_EQUAL(fork_once(1), 0);
	CHECK(use());
}

/* Two threads that fork at the same time. */
static void *forker(void *arg)
{
	for (unsigned i = 0; i < 10; i++)
		if (fork_once(0) != 0)
			return NULL;
	return arg;
}

static void test_forks_at_once(void)
{
	pthread_t threads[2];

	for (uintptr_t i = 0; i < 2; i++)
		CHECK_OR_RETURN(pthread_create(&threads[i], NULL, forker,
					(void *)(i + 1)) == 0);
	for (uintptr_t i = 0; i < 2; i++) {
		void *result = NULL;

		pthread_join(threads[i], &result);
		CHECK(result == (void *)(i + 1));
	}
}

/* A handler of the program's may allocate around a fork. */
static void *kept;

static void handler(void)
{
	free(kept);
	kept = malloc(1234);
}

static void test_forks_with_handlers(void)
{
	pthread_atfork(handler, handler, handler);
	test_forks_alone();
	CHECK(malloc_usable_size(kept) >= 1234);
}

/* One that is older than the heap, and so than the library's own. */
static void *older;

static void older_handler(void)
{
	free(older);
	older = malloc(777);
}

static void older_add(void)
{
	pthread_atfork(older_handler, older_handler, older_handler);
}
__attribute__((section(".preinit_array"), used)) static void (*const
		older_function)(void) = older_add;

/* A thread that has not allocated yet, and then does so in a handler. */
static void *fresh_forker(void *arg)
{
	return fork_once(0) == 0 ? arg : NULL;
}

static void test_forks_by_a_fresh_thread(void)
{
	for (unsigned i = 0; i < 5; i++) {
		pthread_t thread;
		void *result = NULL;

		CHECK_OR_RETURN(pthread_create(
			&thread, NULL, fresh_forker, &older) == 0);
		pthread_join(thread, &result);
		CHECK(result == &older);
	}
	CHECK(malloc_usable_size(older) >= 777);
}

const struct test tests[] = {
	{ "forks_alone", test_forks_alone },
	{ "forks_in_a_storm", test_forks_in_a_storm },
	{ "forks_at_once", test_forks_at_once },
	{ "forks_with_handlers", test_forks_with_handlers },
	{ "forks_by_a_fresh_thread", test_forks_by_a_fresh_thread },
	{ NULL, NULL },
};
