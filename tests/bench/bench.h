/* SPDX-License-Identifier: MIT */
/*
 * What the programs of `make bench` have in common.
 *
 * Each is a program of malloc() and free() alone, so that any allocator can be
 * put under it by LD_PRELOAD.  It does a fixed amount of work, in an order that
 * depends on nothing but the program; marks every block that it gets and looks
 * at the marks before it frees; and ends with some blocks still in use, as a
 * program that idles would.  bench.c measures it and prints one line.
 */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "test.h"

/* The end of the generator's sequence does not matter; its begin does. */
#define BENCH_SEED 1

/* A program. */
struct bench {
	const char *name;
	/* Works; of everything that it repeats it does so many percent.
	 * Returns the operations that it did. */
	uint64_t (*run)(unsigned percent);
	/* It sleeps in between: only its CPU time says anything. */
	bool paced;
	/* If set, what it does first, not measured; it has a file to read. */
	void (*prepare)(void);
};

/* Each program defines one. */
extern const struct bench bench;
/* The argument of a program that wants a file. */
extern const char *bench_file;

/* Prints what is wrong and ends the program, which has failed. */
void bench_fail(const char *what) __attribute__((noreturn));

/* Runs `run` in n threads, with the addresses of n things of `size` bytes from
 * `arguments` on; returns when all have ended. */
void bench_threads(unsigned n, void *(*run)(void *), void *arguments,
	size_t size);

/* So many microseconds go by. */
void bench_sleep(unsigned us);

/* A table of the program's own: afterwards all of it is resident, and what is
 * told to be resident is without it. */
void bench_own(void *table, size_t size);

/* Bytes that the program still holds, for the settled figure's reader. */
void bench_live(uint64_t bytes);

/* One more figure of the program's own: "NAME=NUMBER" at the line's end. */
void bench_note(const char *name, uint64_t number);

/* Minor faults of this process so far. */
uint64_t bench_faults(void);

/* Bytes that are resident now, without the program's own tables and what an
 * allocator gave up with MADV_FREE. */
uint64_t bench_resident(void);

/* Bytes of this process that are in huge pages, by the kernel. */
uint64_t bench_huge(void);

/* `percent` of n, at least 1. */
static inline uint64_t bench_part(uint64_t n, unsigned percent)
{
	uint64_t part = n * percent / 100;

	return part > 0 ? part : 1;
}

/* A number below n. */
static inline uint64_t bench_below(uint64_t *random, uint64_t n)
{
	return test_random(random) % n;
}

/* A size of low * 2^x bytes or a little more, x drawn evenly below doublings:
 * every doubling is as likely as any other. */
static inline size_t bench_size(
	uint64_t *random, size_t low, unsigned doublings)
{
	size_t base = low << bench_below(random, doublings);

	return base + bench_below(random, base);
}

/* Marks a block of at least 8 bytes, its begin and its end. */
static inline void *bench_mark(void *p, size_t size)
{
	unsigned char *bytes = p;

	*(uint64_t *)p = (uintptr_t)p ^ size;
	if (size > sizeof(uint64_t))
		bytes[size - 1] = (unsigned char)size;
	return p;
}

/* The marks are as they were left. */
static inline void bench_look(const void *p, size_t size)
{
	const unsigned char *bytes = p;

	if (*(const uint64_t *)p != ((uintptr_t)p ^ size) ||
		(size > sizeof(uint64_t) &&
			bytes[size - 1] != (unsigned char)size))
		bench_fail("a block is not as it was left");
}

/* A marked block; there always is one. */
static inline void *bench_alloc(size_t size)
{
	void *p = malloc(size);

	if (p == NULL)
		bench_fail("malloc() returned NULL");
	return bench_mark(p, size);
}

/* Zeroed memory from the kernel, which no allocator counts; ends the program if
 * there is none. */
void *bench_pages(size_t size);

/* Looks at a block and frees it; NULL does nothing. */
static inline void bench_free(void *p, size_t size)
{
	if (p == NULL)
		return;
	bench_look(p, size);
	free(p);
}

/* Writes to each granule of a block, as who uses it would. */
static inline void bench_touch(void *p, size_t size)
{
	volatile unsigned char *bytes = p;
	size_t i;

	for (i = 4096; i + 1 < size; i += 4096)
		bytes[i] = (unsigned char)i;
}

/* A block that a program remembers. */
struct bench_block {
	void *p;
	size_t size;
};

/* Frees all blocks but one of `left` (0: all) in the order that they are in;
 * returns the bytes of those that stay. */
uint64_t bench_thin(struct bench_block *blocks, size_t n, unsigned left);

/* Frees a block and allocates another in its place. */
static inline void bench_replace(struct bench_block *block, size_t size)
{
	bench_free(block->p, block->size);
	block->size = size;
	block->p = bench_alloc(size);
}

#endif
