/* SPDX-License-Identifier: MIT */
/*
 * An arena with a shadow of every block in use beside it: what it was asked
 * for, what was written into it, and in which scope.  Needs no libc, so that
 * it runs on the host and in a guest.
 */
#ifndef ARENA_H
#define ARENA_H

#include <fallow/bump.h>

#include "test.h"

#define ARENA_BLOCKS 3000
#define ARENA_SCOPES 6

/* A block in use: where, and what its bytes begin with. */
struct arena_block {
	unsigned char *p;
	size_t size;
	uint64_t seed;
	unsigned scope; /* how many were open when it came */
};

struct arena {
	struct fallow_bump bump;
	struct fallow_bump_mark marks[ARENA_SCOPES];
	unsigned scopes;
	uint64_t random;
	/* Read by the test: blocks in use; calls that returned NULL; blocks
	 * that grew and moved, and that did not. */
	size_t count, nulls, moves, stays;
	struct arena_block blocks[ARENA_BLOCKS];
};

/* The shadow of an arena without blocks, which has been made. */
void arena_begin(struct arena *arena, uint64_t seed);

/* One random operation, the n-th, with these flags; its result is checked, and
 * now and then everything. */
void arena_step(struct arena *arena, size_t n, unsigned flags);

/* Verifies every block, and the arena. */
void arena_verify(struct arena *arena);

/* Fails the test for an invariant of the arena that is broken. */
void arena_look(struct fallow_bump *bump);

/* Fills bytes of a block that begins with `seed`; looks at its first `size`. */
void arena_fill(unsigned char *p, size_t from, size_t to, uint64_t seed);
bool arena_is(const unsigned char *p, size_t size, uint64_t seed);

/* Whether bytes are zero. */
bool arena_zero(const unsigned char *p, size_t from, size_t to);

#endif
