/* SPDX-License-Identifier: MIT */
/*
 * The sweeper: it comes when there is use for it, gives back what threads that
 * block have left, rests when nothing is left, and comes again in a child.
 *
 * Times are not tested: what must come is waited for.  Run with short epochs.
 */
#define _GNU_SOURCE

#include "library.h"

#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#define BLOCKS 60000
#define SIZE 1000

static void *blocks[BLOCKS];

/* Takes some 60 MB and leaves one block in 32. */
static void waste(void)
{
	for (unsigned i = 0; i < BLOCKS; i++) {
		blocks[i] = malloc(SIZE);
		memset(blocks[i], 1, SIZE);
	}
	for (unsigned i = 0; i < BLOCKS; i++)
		if (i % 32 != 0)
			free(blocks[i]);
}

static void waste_end(void)
{
	for (unsigned i = 0; i < BLOCKS; i += 32)
		free(blocks[i]);
}

/* A granule for each block that is left, and some. */
static bool resident_comes(size_t before)
{
	size_t most = before + BLOCKS / 32 * 4096 + 8 * MIB;
	unsigned waited = 0;

	while (resident() > most)
		if (!wait_on(&waited))
			return false;
	return true;
}

/* First of all, before the others take much. */
static void test_sweeper_not_for_little(void)
{
	char task[32];

	CHECK(of_library((void *)malloc));
	for (int i = 0; i < 10000; i++)
		free(opaque(malloc(1 + (size_t)i * 13 % 5000)));
	CHECK_EQUAL(sweepers(task), 0);
}

/* What this thread has left goes while it sleeps, and no signal of the
 * program's is the sweeper's. */
static void test_sweeper_comes(void)
{
	size_t before = resident();
	char task[32];

	waste();
	CHECK_OR_RETURN(sweeper_comes(task));
	CHECK(resident_comes(before));
	CHECK_EQUAL(sweepers(task), 1);
	/* All but the two that cannot be blocked, and the C library's own. */
	if (!emulated())
		CHECK_EQUAL(status_number(task, "SigBlk:", 16) &
				0xfffffffc7ffbfeff,
			0xfffffffc7ffbfeff);
	waste_end();
}

static pthread_barrier_t wasted, done;

static void *waster(void *arg)
{
	waste();
	pthread_barrier_wait(&wasted);
	/* It blocks, and owns what it has left. */
	pthread_barrier_wait(&done);
	waste_end();
	return arg;
}

static void test_sweeper_reaches_the_blocked(void)
{
	size_t before = resident();
	pthread_t thread;

	pthread_barrier_init(&wasted, NULL, 2);
	pthread_barrier_init(&done, NULL, 2);
	pthread_create(&thread, NULL, waster, NULL);
	pthread_barrier_wait(&wasted);
	CHECK(resident() > before + 40 * MIB);
	CHECK(resident_comes(before));
	for (unsigned i = 0; i < BLOCKS; i += 32)
		CHECK_EQUAL(((char *)blocks[i])[SIZE - 1], 1);
	pthread_barrier_wait(&done);
	pthread_join(thread, NULL);
}

/* How often a thread has gone to sleep, read without memory. */
static long long switches_of(const char *path)
{
	static const char key[] = "\nvoluntary_ctxt_switches:";
	static char text[8192];
	int fd = open(path, O_RDONLY);
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
	const char *at;

	if (fd >= 0)
		close(fd);
	text[n < 0 ? 0 : n] = '\0';
	at = strstr(text, key);
	return at == NULL ? -1 : atoll(at + sizeof(key) - 1);
}

/* resident(), without memory. */
static size_t resident_quietly(void)
{
	static char text[256];
	int fd = open("/proc/self/statm", O_RDONLY);
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
	const char *second = strchr(text, ' ');

	if (fd >= 0)
		close(fd);
	CHECK(n > 0 && second != NULL);
	return second == NULL ? 0 : (size_t)atoll(second) * 4096;
}

static char path[64];

/* Waits until the sweeper does not wake up any more: without memory, since a look
 * that allocates would rouse it.  Returns how often it has slept. */
static long long rest_comes(const char *task)
{
	long long switches = -1, before = -2;
	unsigned waited = 0;

	snprintf(path, sizeof(path), "/proc/self/task/%.20s/status", task);
	while (switches != before && wait_on(&waited)) {
		before = switches;
		/* Many epochs. */
		usleep(500000);
		switches = switches_of(path);
	}
	CHECK_EQUAL(switches, before);
	CHECK(switches > 0);
	return switches;
}

/* When nobody allocates any more there is an end of waking up. */
static void test_sweeper_rests(void)
{
	char task[32];

	waste();
	waste_end();
	CHECK_OR_RETURN(sweeper_comes(task));
	rest_comes(task);
	/* And it comes back. */
	test_sweeper_comes();
}

/* Takes it all; later frees it, which is all that it does then. */
static void *freer(void *arg)
{
	for (unsigned i = 0; i < BLOCKS; i++) {
		blocks[i] = malloc(SIZE);
		memset(blocks[i], 1, SIZE);
	}
	pthread_barrier_wait(&wasted);
	pthread_barrier_wait(&wasted);
	for (unsigned i = 0; i < BLOCKS; i++)
		free(blocks[i]);
	pthread_barrier_wait(&wasted);
	pthread_barrier_wait(&done);
	return arg;
}

/* A thread that was taken to be idle, and then frees without ever allocating,
 * is not what it was to itself, either: what it frees is heard of.  Nobody else
 * may rouse the sweeper. */
static void test_sweeper_hears_of_frees(void)
{
	size_t before = resident();
	unsigned waited = 0;
	pthread_t thread;
	char task[32];

	pthread_barrier_init(&wasted, NULL, 2);
	pthread_barrier_init(&done, NULL, 2);
	pthread_create(&thread, NULL, freer, NULL);
	pthread_barrier_wait(&wasted);
	CHECK_OR_RETURN(sweeper_comes(task));
	rest_comes(task);
	CHECK(resident_quietly() > before + 40 * MIB);
	pthread_barrier_wait(&wasted);
	pthread_barrier_wait(&wasted);
	while (resident_quietly() > before + 20 * MIB)
		if (!wait_on(&waited))
			break;
	CHECK(resident_quietly() <= before + 20 * MIB);
	pthread_barrier_wait(&done);
	pthread_join(thread, NULL);
}

/* Takes a block from a page that has another in use, and so memory. */
static void *taker(void *arg)
{
	void *first = opaque(malloc(16));
	void *second;

	free(opaque(malloc(16)));
	pthread_barrier_wait(&wasted);
	pthread_barrier_wait(&wasted);
	second = opaque(malloc(16));
	pthread_barrier_wait(&done);
	free(first);
	free(second);
	return arg;
}

/* The same of one that allocates. */
static void test_sweeper_hears_of_allocations(void)
{
	long long switches;
	unsigned waited = 0;
	pthread_t thread;
	char task[32];

	waste();
	waste_end();
	CHECK_OR_RETURN(sweeper_comes(task));
	pthread_barrier_init(&wasted, NULL, 2);
	pthread_barrier_init(&done, NULL, 2);
	pthread_create(&thread, NULL, taker, NULL);
	pthread_barrier_wait(&wasted);
	switches = rest_comes(task);
	pthread_barrier_wait(&wasted);
	while (switches_of(path) == switches)
		if (!wait_on(&waited))
			break;
	CHECK(switches_of(path) > switches);
	pthread_barrier_wait(&done);
	pthread_join(thread, NULL);
}

/* In a child it is not there, until there is use for it. */
static void test_sweeper_in_a_child(void)
{
	int status = 0;
	char task[32];
	pid_t child;

	if (emulated()) {
		test_skip("it cannot be made there");
		return;
	}
	waste();
	waste_end();
	CHECK_OR_RETURN(sweeper_comes(task));
	child = fork();
	if (child == 0) {
		size_t before;

		if (sweepers(task) != 0)
			_exit(1);
		before = resident();
		waste();
		if (!sweeper_comes(task))
			_exit(2);
		_exit(resident_comes(before) ? 0 : 3);
	}
	CHECK(child > 0 && waitpid(child, &status, 0) == child);
	CHECK_EQUAL(status, 0);
}

/* Nor does it have to allocate for that: what it has of its parent goes when all
 * that it does is free. */
static void test_sweeper_in_a_child_that_frees(void)
{
	char task[32];
	int status = 0;
	pid_t child;

	if (emulated()) {
		test_skip("it cannot be made there");
		return;
	}
	for (unsigned i = 0; i < BLOCKS; i++) {
		blocks[i] = malloc(SIZE);
		memset(blocks[i], 1, SIZE);
	}
	CHECK_OR_RETURN(sweeper_comes(task));
	child = fork();
	if (child == 0) {
		size_t before = resident();
		unsigned waited = 0;

		for (unsigned i = 0; i < BLOCKS; i++)
			free(blocks[i]);
		while (resident() + 30 * MIB > before)
			if (!wait_on(&waited))
				_exit(1);
		_exit(0);
	}
	CHECK(child > 0 && waitpid(child, &status, 0) == child);
	CHECK_EQUAL(status, 0);
	for (unsigned i = 0; i < BLOCKS; i++)
		free(blocks[i]);
}

const struct test tests[] = {
	{ "sweeper_not_for_little", test_sweeper_not_for_little },
	{ "sweeper_comes", test_sweeper_comes },
	{ "sweeper_reaches_the_blocked", test_sweeper_reaches_the_blocked },
	{ "sweeper_rests", test_sweeper_rests },
	{ "sweeper_hears_of_frees", test_sweeper_hears_of_frees },
	{ "sweeper_hears_of_allocations",
		test_sweeper_hears_of_allocations },
	{ "sweeper_in_a_child", test_sweeper_in_a_child },
	{ "sweeper_in_a_child_that_frees", test_sweeper_in_a_child_that_frees },
	{ NULL, NULL },
};
