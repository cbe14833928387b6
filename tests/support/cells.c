/* SPDX-License-Identifier: MIT */
/*
 * The patterns of cells.h.
 *
 * Each is done some times before it is measured, so that pages are there and
 * an allocator's caches are as full as they become.  It is done once more with
 * functions that do nothing: what the loop itself costs.  These are called and
 * return; since a pair's calls and returns are its own, who takes off the loop
 * adds CELLS_CALLS again.
 *
 * Blocks are not written to: what they cost is not the allocator's.
 */
#include "cells.h"

#include "test.h"

/* Pairs that are measured; a multiple of CELLS_FIFO. */
#define PAIRS 10000
#define WARM (2 * PAIRS)
_Static_assert(PAIRS % CELLS_FIFO == 0, "first-in first-out ends with a round");

/* A job's blocks. */
static void *slots[CELLS_SLOTS];
static bool failed;

#define SMALLEST 16
static const size_t sizes[] = { SMALLEST, 64, 256, 1024, 8192, 65536, 1u << 20 };

/* Anything but NULL. */
static __attribute__((noinline)) void *nothing_alloc(size_t size)
{
	__asm__ volatile("" : "+r"(size));
	return slots;
}

static __attribute__((noinline)) void nothing_give(void *p)
{
	__asm__ volatile("" : "+r"(p));
}

/* A pattern: so many pairs of this size, with at most n blocks at once. */
typedef void (*pattern_run)(
	const struct cells *cells, size_t size, unsigned pairs, unsigned n);

static void pair_run(
	const struct cells *cells, size_t size, unsigned pairs, unsigned n)
{
	unsigned i;

	(void)n;
	for (i = 0; i < pairs; i++) {
		void *p = cells->alloc(size);

		if (p == NULL)
			failed = true;
		cells->give(p);
	}
}

static void fifo_run(
	const struct cells *cells, size_t size, unsigned pairs, unsigned n)
{
	unsigned i, j;

	for (i = 0; i < pairs; i += n) {
		for (j = 0; j < n; j++) {
			slots[j] = cells->alloc(size);
			if (slots[j] == NULL)
				failed = true;
		}
		for (j = 0; j < n; j++)
			cells->give(slots[j]);
	}
}

/* A number below n.  Numerical Recipes' generator: its high bits are good
 * enough. */
static unsigned below(uint64_t n)
{
	static uint32_t random = 1;

	random = random * 1664525u + 1013904223u;
	return (unsigned)(random * n >> 32);
}

/* Replaces blocks by others of sizes from `least` to `size`.  The slots are full
 * before and after. */
static inline __attribute__((always_inline)) void slots_replace(
	const struct cells *cells, size_t least, size_t size, unsigned pairs,
	unsigned n)
{
	unsigned i;

	for (i = 0; i < pairs; i++) {
		void **slot = &slots[below(n)];
		size_t more = least < size ? below(size - least + 1) : 0;

		cells->give(*slot);
		*slot = cells->alloc(least + more);
		if (*slot == NULL)
			failed = true;
	}
}

static void replace_run(
	const struct cells *cells, size_t size, unsigned pairs, unsigned n)
{
	slots_replace(cells, size, size, pairs, n);
}

static void mixed_run(
	const struct cells *cells, size_t size, unsigned pairs, unsigned n)
{
	slots_replace(cells, SMALLEST, size, pairs, n);
}

/* Fills the slots with blocks that are not too large for what follows. */
static void slots_fill(const struct cells *cells, size_t size, unsigned n)
{
	unsigned i;

	for (i = 0; i < n; i++) {
		slots[i] = cells->alloc(size);
		if (slots[i] == NULL)
			failed = true;
	}
}

static void slots_empty(const struct cells *cells, unsigned n)
{
	unsigned i;

	for (i = 0; i < n; i++) {
		cells->give(slots[i]);
		slots[i] = NULL;
	}
}

static void cell_measure(const struct cells *cells, const char *name,
	pattern_run run, size_t size, unsigned n)
{
	struct cells nothing = *cells;
	bool full = run == replace_run || run == mixed_run;

	nothing.alloc = nothing_alloc;
	nothing.give = nothing_give;
	if (full)
		slots_fill(cells, run == mixed_run ? SMALLEST : size, n);
	/* Until every slot has been replaced a few times. */
	run(cells, size, WARM, n);
	cells->begin();
	run(cells, size, PAIRS, n);
	cells->end(name, size, PAIRS, false);
	if (full)
		slots_empty(cells, n);
	cells->begin();
	run(&nothing, size, PAIRS, n);
	cells->end(name, size, PAIRS, true);
}

bool test_cells_run(const struct cells *cells)
{
	static const struct {
		const char *name;
		pattern_run run;
		unsigned blocks;
	} patterns[] = {
		{ "pair", pair_run, 1 },
		{ "fifo", fifo_run, CELLS_FIFO },
		{ "replace", replace_run, CELLS_SLOTS },
		{ "mixed", mixed_run, CELLS_SLOTS },
	};
	size_t i, j;

	failed = false;
	for (i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
		for (j = 0; j < sizeof(sizes) / sizeof(sizes[0]); j++) {
			size_t most = cells->memory / sizes[j];
			unsigned n = patterns[i].blocks;

			if (cells->largest != 0 && sizes[j] > cells->largest)
				continue;
			/* A round number, that PAIRS is a multiple of. */
			while (n > most && n > 1)
				n /= 10;
			cell_measure(cells, patterns[i].name, patterns[i].run,
				sizes[j], n);
		}
	return !failed;
}
