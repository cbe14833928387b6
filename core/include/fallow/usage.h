/* SPDX-License-Identifier: MIT */
/*
 * Which sizes are asked for, how often, and how many bytes that comes to: what
 * somebody wants to know who tunes a program, or the size classes.
 *
 * Counted only in builds with FALLOW_USAGE=1, where each allocation and each
 * free costs some ten instructions and two atomic additions more.
 */
#ifndef FALLOW_USAGE_H
#define FALLOW_USAGE_H

#include <fallow/bump.h>
#include <fallow/fallow.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A row for each 16 bytes up to 1 KiB, for each 256 bytes from there to 64 KiB,
 * and one for all that is larger. */
#define FALLOW_USAGE_ROWS 317

struct fallow_usage_row {
	/* Counters: allocations, and reallocations that moved a block or changed
	 * the size of an arena's, that asked for a size of this row; a size of
	 * 0 counts as 1. */
	uint64_t asked;
	/* Counters: blocks of a size of this row that were given and freed.  Of
	 * the heap that is the size of the class, or of the span; of an arena
	 * it is what was asked for, rounded up to 16. */
	uint64_t given, freed;
	/* Now: bytes of those given and not freed.  What a rewind or a reset of
	 * an arena takes at once was not freed. */
	uint64_t live;
};

/* The embedder's storage, zero at the begin. */
struct fallow_usage {
	struct fallow_usage_row rows[FALLOW_USAGE_ROWS];
};

/*
 * From now on calls into the heap, or the arena, are counted in *usage, which
 * must stay until another is named; NULL counts no more.  Several may share one.
 * What was given before and is freed from now on makes `live` wrap: begin before
 * the first allocation.
 * Returns: whether this build counts.  Context: boot, or task while nobody else
 * is in the heap or the arena.
 */
bool fallow_usage_watch(struct fallow *heap, struct fallow_usage *usage);
bool fallow_bump_usage(struct fallow_bump *bump, struct fallow_usage *usage);

/* The row of a size, below FALLOW_USAGE_ROWS. */
unsigned fallow_usage_row_of(size_t size) __attribute__((const));

/* The largest size of a row; SIZE_MAX for the last. */
size_t fallow_usage_row_most(unsigned row) __attribute__((const));

/* Prints the rows that are not empty and their sums, as text with \n, one byte
 * at a time.  Needs no memory.  Context: any.  Calls: putc. */
void fallow_usage_print(const struct fallow_usage *usage,
	void (*putc)(void *arg, char c), void *arg);

#ifdef __cplusplus
}
#endif

#endif
