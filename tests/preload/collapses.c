/* SPDX-License-Identifier: MIT */
/*
 * Memory that threads give back while the sweeper makes huge pages of what is
 * beside it: none of it may come back by that, and nothing may be lost.
 *
 * A collapse fills what is missing in its 2 MiB.  Sweeps are never in its way,
 * as the same thread does both; but whoever allocates gives back what is idle
 * when the heap is about to grow past its peak.  So each *life* is a process of
 * its own, whose heap has no peak yet.  Its threads take chunks full of blocks
 * and wait until huge pages are being made; then each frees nearly all that it
 * took, or all of it, and takes as much in another size, by which the heap grows
 * and holes and whole chunks go.  At the end a few blocks are left, all as they
 * were, and not much more is resident than the granules that they are in.
 *
 * The moment between the sweeper's look at a chunk and the kernel's work is made
 * longer here, as if the sweeper had lost its CPU: a hole cut in it is filled
 * again, and where its page has a block in use, for good.  That none is cut is
 * looked at, too: some would be filled for so short a time that none is seen.
 *
 * Times are not tested: what must come is waited for.  Run with the shortest
 * epochs, without a floor, and with the pace of growth from the first byte on.
 */
#define _GNU_SOURCE

#include "hugepages.h"
#include "library.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define THREADS 3
#define WAVES 9
/* What a thread takes in a wave: some chunks of its own. */
#define WAVE_BYTES (8 * MIB)
#define SIZE_LEAST ((size_t)400)
#define SIZE_MOST ((size_t)3400)
#define BLOCKS_MOST (WAVES * (WAVE_BYTES / SIZE_LEAST + 1))
/* One of so many is left: most granules have none, and no two are in one. */
#define LEFT 32
_Static_assert(LEFT * SIZE_LEAST > 2 * 4096, "a granule or two for a block");
#define LIVES 8
/* A longer run's are as many more; a life takes less than half a second. */
#define LIVES_PER_SECOND 2
#define GRANULE ((size_t)4096)
/* What the library has for itself, pages that are allocated from, and the
 * threads' stacks: 0.7 MiB.  Without the lock that this is about up to 5 MiB are
 * filled. */
#define SLACK (2 * MIB)
/* In as long a thread may give back what it freed. */
#define LOOK_US 3000
/* How long is waited for a huge page more: in the first wave one must come, in
 * others as many may go meanwhile. */
#define POLL_US 200
#define POLLS_FIRST (PATIENCE_MS * 1000 / POLL_US)
#define POLLS 250

struct block {
	unsigned char *p;
	uint32_t size;
	unsigned char mark;
};

struct owner {
	struct block *blocks; /* no memory of the library's */
	size_t count;
	uint64_t random;
	bool intact;
};

static struct owner owners[THREADS];
static pthread_barrier_t step;

/* The chunk that the library is about to have collapsed, or 0; and whether
 * memory in such a one was given back. */
static uintptr_t asked;
static bool cut;

/* In place of the C library's, for the library that is tested too.  A collapse
 * begins with the advice for huge pages, which comes late here, and ends with
 * that against them. */
int madvise(void *p, size_t size, int advice)
{
	uintptr_t chunk = __atomic_load_n(&asked, __ATOMIC_ACQUIRE);

	if (advice == MADV_DONTNEED && chunk != 0 &&
		(uintptr_t)p - chunk < CHUNK)
		__atomic_store_n(&cut, true, __ATOMIC_RELAXED);
	if (advice == MADV_NOHUGEPAGE)
		__atomic_store_n(&asked, 0, __ATOMIC_RELEASE);
	if (advice == MADV_HUGEPAGE) {
		__atomic_store_n(&asked, (uintptr_t)p, __ATOMIC_RELEASE);
		usleep(LOOK_US);
	}
	return (int)syscall(SYS_madvise, p, size, advice);
}

/* Takes a block and writes all of it. */
static void block_take(struct owner *owner, size_t size)
{
	struct block *block = &owner->blocks[owner->count++];

	block->size = (uint32_t)size;
	block->mark = (unsigned char)test_random(&owner->random);
	block->p = malloc(size);
	if (block->p == NULL)
		_exit(20);
	memset(block->p, block->mark, size);
}

/* Frees a block, if every byte is as it was written or not; the last one takes
 * its place in the table. */
static void block_free(struct owner *owner, struct block *block)
{
	owner->intact &= block->p[0] == block->mark &&
		memcmp(block->p, block->p + 1, block->size - 1) == 0;
	free(block->p);
	*block = owner->blocks[--owner->count];
}

/* Takes chunks full of blocks of one size. */
static void wave_take(struct owner *owner)
{
	size_t size = SIZE_LEAST +
		test_random(&owner->random) % (SIZE_MOST - SIZE_LEAST);
	size_t bytes;

	for (bytes = 0; bytes < WAVE_BYTES; bytes += size)
		block_take(owner, size);
}

/* Frees those from `from` on: all, which empties chunks, or all but some, which
 * leaves holes. */
static void wave_free(struct owner *owner, size_t from)
{
	bool holes = test_random(&owner->random) % 4 != 0;
	size_t i = owner->count;

	while (i-- > from)
		if (!holes || i % LEFT != 0)
			block_free(owner, &owner->blocks[i]);
}

/* A thread's life; its steps are those of life(). */
static void *owner_run(void *arg)
{
	struct owner *owner = arg;

	for (unsigned i = 0; i < WAVES; i++) {
		size_t from = owner->count;

		wave_take(owner);
		pthread_barrier_wait(&step);
		pthread_barrier_wait(&step);
		wave_free(owner, from);
	}
	pthread_barrier_wait(&step);
	/* It blocks; what it has left is for the sweeper. */
	pthread_barrier_wait(&step);
	while (owner->count > 0)
		block_free(owner, &owner->blocks[owner->count - 1]);
	return NULL;
}

/* The granules that what is left is in. */
static size_t granules_left(void)
{
	size_t n = 0;

	for (unsigned t = 0; t < THREADS; t++)
		for (size_t i = 0; i < owners[t].count; i++) {
			uintptr_t at = (uintptr_t)owners[t].blocks[i].p;

			n += (at + owners[t].blocks[i].size - 1) / GRANULE -
				at / GRANULE + 1;
		}
	return n;
}

/* Waits until there is more in huge pages; returns whether there is. */
static bool huge_grows(unsigned polls)
{
	size_t before = huge();

	for (unsigned i = 0; i < polls; i++) {
		if (huge() > before)
			return true;
		usleep(POLL_US);
	}
	return false;
}

/* The owners' tables, all of which is resident. */
static void owners_make(uint64_t seed)
{
	for (unsigned t = 0; t < THREADS; t++) {
		owners[t] = (struct owner){ .random = seed + t, .intact = true };
		owners[t].blocks = mmap(NULL,
			BLOCKS_MOST * sizeof(struct block),
			PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
		if (owners[t].blocks == MAP_FAILED)
			_exit(21);
	}
	pthread_barrier_init(&step, NULL, THREADS + 1);
}

/* Waits for the threads' end; returns whether they found all as it was. */
static bool owners_end(pthread_t threads[THREADS])
{
	bool intact = true;

	for (unsigned t = 0; t < THREADS; t++) {
		pthread_join(threads[t], NULL);
		intact &= owners[t].intact;
	}
	return intact;
}

/* Runs in a process of its own; returns 0, or where it failed. */
static int life(uint64_t seed)
{
	pthread_t threads[THREADS];
	size_t before;

	owners_make(seed);
	before = resident();
	for (unsigned t = 0; t < THREADS; t++)
		if (pthread_create(&threads[t], NULL, owner_run, &owners[t]))
			return 1;
	for (unsigned i = 0; i < WAVES; i++) {
		pthread_barrier_wait(&step);
		if (!huge_grows(i == 0 ? POLLS_FIRST : POLLS) && i == 0)
			return 2;
		pthread_barrier_wait(&step);
	}
	pthread_barrier_wait(&step);
	if (!resident_falls(before + granules_left() * GRANULE + SLACK))
		return 3;
	pthread_barrier_wait(&step);
	if (!owners_end(threads))
		return 4;
	if (!resident_falls(before + SLACK))
		return 5;
	return __atomic_load_n(&cut, __ATOMIC_RELAXED) ? 6 : 0;
}

/* How many lives: more if a longer run is wanted. */
static unsigned lives(void)
{
	const char *text = getenv("SECONDS");

	return LIVES +
		(text == NULL ? 0 : LIVES_PER_SECOND * (unsigned)atoi(text));
}

static void test_collapses_beside_holes(void)
{
	const char *why = missing();

	CHECK(of_library((void *)malloc));
	if (why != NULL) {
		test_skip(why);
		return;
	}
	for (unsigned i = 0; i < lives(); i++) {
		int status = -1;
		pid_t child = fork();

		if (child == 0)
			_exit(life(test_seed + i * THREADS));
		CHECK_OR_RETURN(child > 0 &&
			waitpid(child, &status, 0) == child);
		CHECK_EQUAL(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0);
		/* What it waited for would take the others as long. */
		if (status != 0)
			return;
	}
}

const struct test tests[] = {
	{ "collapses_beside_holes", test_collapses_beside_holes },
	{ NULL, NULL },
};
