/* SPDX-License-Identifier: MIT */
/*
 * A program whose calls of malloc are known, for check.sh: does the recorder
 * see all of them, and nothing else?
 *
 * THREADS threads make ROUNDS rounds of known calls each, and hand blocks to
 * each other in between, so that addresses are used again by other threads at
 * once.  One thread forks a child that allocates without exec: none of that is
 * to be recorded.  The program ends by _exit(), which flushes nothing.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 4
#define ROUNDS 5000
/* In a round: malloc twice, calloc, aligned_alloc, realloc, reallocarray, and
 * four frees, one of them by realloc.  Calls that fail or free nothing do not
 * count. */
#define OPS_ROUND 10
#define DESKS 16

/* Its square is more than a size can say; the compiler must not see it. */
static volatile size_t too_many = (size_t)1 << 40;
static void *desks[DESKS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Puts a block on a desk and returns the one that lay there. */
static void *swap(unsigned desk, void *block)
{
	void *old;

	pthread_mutex_lock(&lock);
	old = desks[desk];
	desks[desk] = block;
	pthread_mutex_unlock(&lock);
	return old;
}

/* Allocates and leaves, as a child without exec. */
static void child_run(void)
{
	pid_t child = fork();

	if (child == 0) {
		for (unsigned i = 0; i < 100000; i++)
			free(malloc(i % 5000));
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

/* Makes ROUNDS rounds of OPS_ROUND operations; every desk always has a
 * block. */
static void *work(void *arg)
{
	unsigned random = (unsigned)(size_t)arg;

	for (unsigned i = 0; i < ROUNDS; i++) {
		void *a = malloc(rand_r(&random) % 2000);
		void *b = calloc(3, rand_r(&random) % 200);
		void *c = aligned_alloc(64, 256), *d;

		a = realloc(a, 1 + rand_r(&random) % 4000);
		a = reallocarray(a, 2, 50);
		free(NULL);
		d = reallocarray(NULL, too_many, too_many);
		if (d || !a || !b || !c)
			abort();
		free(swap(rand_r(&random) % DESKS, a));
		free(b);
		if (realloc(c, 0))
			abort();
		if (i == ROUNDS / 2 && arg == NULL)
			child_run();
		d = malloc(0);
		free(d);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];

	for (unsigned i = 0; i < DESKS; i++)
		desks[i] = malloc(1);
	for (size_t i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, work, (void *)i))
			abort();
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (unsigned i = 0; i < DESKS; i++)
		free(desks[i]);
	/* Written without stdio, which has a buffer from malloc. */
	dprintf(1, "%d\n", 2 * DESKS + THREADS * ROUNDS * OPS_ROUND);
	_exit(0);
}
