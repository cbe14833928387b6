/* SPDX-License-Identifier: MIT */
/*
 * What an allocation and a free cost, by size and by pattern: the cells of a
 * table that has a row for each.
 *
 * Freestanding: the same on the host, under a tool that counts instructions, and
 * in a guest whose clock they are.  What is counted, the program says; here is
 * only what is done.
 */
#ifndef CELLS_H
#define CELLS_H

#include <stdbool.h>
#include <stddef.h>

#define CELLS_FIFO 1000
#define CELLS_SLOTS 10000

/* An allocator, and how a measurement begins and ends. */
struct cells {
	void *(*alloc)(size_t size);
	void (*give)(void *p);
	/* What is between a begin and its end is counted. */
	void (*begin)(void);
	/* `pattern` with blocks of `size` bytes, `pairs` allocations and frees.
	 * `empty`: all but these; to be taken off. */
	void (*end)(const char *pattern, size_t size, unsigned pairs,
		bool empty);
	/* Bytes that blocks may take at most; what would be more, is done with
	 * fewer of them. */
	size_t memory;
	/* Blocks that are larger are left out; 0: none is. */
	size_t largest;
};

/*
 * Every pattern with every size:
 *   pair      a block is allocated and freed at once
 *   fifo      CELLS_FIFO are allocated, and freed in that order
 *   replace   of CELLS_SLOTS one drawn at random is freed, and another
 *             allocated in its place
 *   mixed     the same, each of a size drawn from 16 bytes to the cell's, so
 *             that what was freed rarely is what is wanted next
 * Returns: false iff an allocation failed.
 */
bool test_cells_run(const struct cells *cells);

#endif
