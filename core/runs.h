/* SPDX-License-Identifier: MIT */
/*
 * Which granules of one contiguous range are free, found by aligned runs: the
 * bookkeeping under core/frames.c.  Nothing here locks, and nothing here
 * knows addresses: granules are numbered, and a run of *order* k is 2^k of
 * them, the first a multiple of 2^k.
 */
#ifndef CORE_RUNS_H
#define CORE_RUNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

/* A word of the lowest level has one bit a granule: orders 0 to 6. */
#define RUNS_WORD_LOG2 6u
/* A node has one bit an order. */
#define RUNS_ORDER_MAX 31u
/* 2^26 words are 2^32 granules: 16 TiB of 4 KiB. */
#define RUNS_LEVELS 27u
#define RUNS_GRANULES_MAX \
	((uint64_t)1 << (RUNS_LEVELS - 1 + RUNS_WORD_LOG2))

/* What a run is as a whole. */
enum runs_state {
	RUNS_TAKEN, /* no granule of it is free */
	RUNS_FREE,  /* every granule is */
	RUNS_MIXED,
};

struct runs {
	uint64_t granules;
	/* Equals the number of granules that are free. */
	uint64_t free;
	uint64_t *words; /* level 0 */
	uint32_t *nodes; /* levels 1 to top, the node of level l, number i
			  * at offset[l] + i */
	unsigned top;    /* the level that has one node, the root */
	uint32_t offset[RUNS_LEVELS];
};

/* Returns the bytes of memory that fl_runs_init() wants. */
size_t fl_runs_bytes(uint64_t granules);

/*
 * Afterwards every granule is taken.  `memory` is 8-byte aligned and need not
 * be zero; 1 <= granules <= RUNS_GRANULES_MAX.
 */
void fl_runs_init(struct runs *runs, void *memory, uint64_t granules);

/* Returns what the run is now; it lies inside, and its number is aligned. */
enum runs_state fl_runs_state(
	const struct runs *runs, uint64_t granule, unsigned order);

/* Makes a run that is RUNS_TAKEN free, or one that is RUNS_FREE taken. */
void fl_runs_set(
	struct runs *runs, uint64_t granule, unsigned order, bool free);

/* Returns the set of orders of which there is a free run that is no part of
 * a larger one: bit k is order k. */
uint32_t fl_runs_orders(const struct runs *runs);

/* Returns the highest free run of exactly this order that is no part of a
 * larger one; fl_runs_orders() has its bit. */
uint64_t fl_runs_highest(const struct runs *runs, unsigned order);

/* Returns the lowest free run of this order, which may be a part of a larger
 * one; fl_runs_orders() has a bit at or above it. */
uint64_t fl_runs_lowest(const struct runs *runs, unsigned order);

/* Returns NULL if every invariant holds, else the broken one; *granule is then
 * where. */
const char *fl_runs_check(const struct runs *runs, uint64_t *granule)
	__attribute__((warn_unused_result));

#pragma GCC visibility pop

#endif
