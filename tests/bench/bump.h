/* SPDX-License-Identifier: MIT */
/*
 * What the programs of `make bench-bump` are made of: one work, and a way to
 * have memory for it.  Each way is a file bump_*.c of its own and a program.
 */
#ifndef BUMP_BENCH_H
#define BUMP_BENCH_H

#include <stddef.h>
#include <stdint.h>

/* Before anything is measured. */
void bump_way_begin(void);
/* NULL ends the program, so no way needs to care. */
void *bump_way_alloc(size_t size);
void *bump_way_zalloc(size_t size);
void *bump_way_aligned(size_t align, size_t size);
void *bump_way_realloc(void *p, size_t old_size, size_t new_size);
void bump_way_free(void *p, size_t size);
/* Frees all that is left; false if this way has to free block by block. */
int bump_way_reset(void);

/* An operation of the histogram's work. */
struct bump_step {
	uint32_t size; /* 0: a free */
	uint16_t bin;
	uint8_t place; /* among its bin's youngest */
	uint8_t spare;
};

/* Bins, and of each the blocks that are young. */
#define BUMP_BINS 317
#define BUMP_YOUNG 64

/* How many steps `percent` of the histogram are at most. */
size_t bump_histogram_steps(unsigned percent);
/* Writes them; returns how many they are. */
size_t bump_histogram(struct bump_step *steps, unsigned percent);

#endif
