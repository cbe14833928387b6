/* SPDX-License-Identifier: MIT */
/*
 * What must be true of a heap, kept beside it: every block in use, with its
 * address, sizes, alignment and contents.  Needs no libc and no memory of its
 * own, so that it runs on the host and in a guest.
 *
 * An oracle knows the blocks that it allocated or was given; a heap may have
 * several (one a thread), which together know all its blocks.  An oracle is
 * used by one thread at a time.
 */
#ifndef ORACLE_H
#define ORACLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <fallow/fallow.h>

/* A block in use. */
struct oracle_block {
	uintptr_t base;
	size_t size;   /* asked for last */
	size_t usable;
	size_t align;  /* asked for when it was allocated; at least 16 */
	uint64_t seed; /* of its contents */
};

struct oracle {
	struct fallow *heap;
	/* Sorted by base; room for `max`. */
	struct oracle_block *blocks;
	size_t max;
	size_t count;
	/* Sum of their usable bytes. */
	size_t live;

	/* Set by the test; all may stay 0. */

	/* Where blocks must be; a size of 0 does not care. */
	uintptr_t window_base;
	size_t window_size;
	/* NULL is not a failure by itself. */
	bool may_fail;
	/* Random operations: the largest size (0: 4 MiB), the largest
	 * alignment (0: 64 KiB), and the bytes in use from which on frees
	 * outnumber allocations (0: 32 MiB). */
	size_t size_max;
	size_t align_max;
	size_t volume;
	/* Blocks above this are filled and verified in part: their first and
	 * last bytes, and a word a granule between (0: 64 KiB). */
	size_t sampled;
	/* Flags that every call is made with. */
	unsigned flags;
	/* Around every call into the heap, with the call's flags. */
	void (*before)(void *arg, unsigned flags);
	void (*after)(void *arg);
	void *arg;

	/* Read by the test. */

	uint64_t random;
	uint64_t operations;
	/* The call last made: its name, the size asked for, and the block that
	 * it was given, 0 for none. */
	const char *doing;
	size_t doing_size;
	uintptr_t doing_base;
	uint64_t nulls;
	/* Checks that failed; each also failed the running test. */
	unsigned failures;
	/* The base of the block last learnt. */
	uintptr_t last;
};

/* Afterwards *oracle knows no block; `blocks` is memory for `max`. */
void oracle_begin(struct oracle *oracle, struct fallow *heap,
	struct oracle_block *blocks, size_t max, uint64_t seed);

/*
 * One operation, its result checked, and the block known or forgotten.
 * Return whether there is a block (a NULL that is not allowed is a failure);
 * without a call iff there is no room for one more and three spare.
 * An `index` is of oracle->blocks; any operation may change the indices.
 */
bool oracle_alloc(struct oracle *oracle, size_t size, unsigned flags);
bool oracle_zalloc(struct oracle *oracle, size_t size);
bool oracle_calloc(struct oracle *oracle, size_t count, size_t size);
bool oracle_aligned(
	struct oracle *oracle, size_t align, size_t size, unsigned flags);
bool oracle_realloc(
	struct oracle *oracle, size_t index, size_t size, unsigned flags);
void oracle_free(struct oracle *oracle, size_t index);
void oracle_free_sized(struct oracle *oracle, size_t index);

/*
 * A block that the test had by itself of this heap, of `size` bytes and with
 * these flags, NULL for none: checked, and known from now on.  For `p` from
 * fallow_alloc_from() and the like.  Returns: whether there is a block.
 * Requires: room for it.
 */
bool oracle_adopt(
	struct oracle *oracle, void *p, size_t size, unsigned flags);

/* Verifies the block and forgets it, for the test to free by itself; returns
 * its address. */
void *oracle_release(struct oracle *oracle, size_t index);

/* The index of the first block whose base is not below `base`. */
size_t oracle_find(const struct oracle *oracle, uintptr_t base);

/* The index of the block that the last successful operation returned. */
size_t oracle_last(const struct oracle *oracle);

/* One random operation. */
void oracle_step(struct oracle *oracle);

/* Frees blocks at random until `count` are left. */
void oracle_shrink(struct oracle *oracle, size_t count);

/* Moves a block to another oracle of the same heap; false iff it is full. */
bool oracle_pass(struct oracle *from, size_t index, struct oracle *to);

/* The same in two steps, by way of anything: forgets a block; learns one. */
struct oracle_block oracle_forget(struct oracle *oracle, size_t index);
bool oracle_learn(struct oracle *oracle, struct oracle_block block);

/* Verifies the contents of every block. */
void oracle_verify(struct oracle *oracle);

/*
 * With no call in progress in any context: fallow_check() finds nothing, the
 * blocks in use that fallow_walk() visits are exactly those that the n oracles
 * know, and the snapshot's sums are theirs.  All are of one heap.  What was
 * deferred is freed first.
 */
void oracle_compare(struct oracle *const *oracles, size_t n);

/* oracle_verify() and oracle_compare() for an oracle that knows all. */
void oracle_check(struct oracle *oracle);

#endif
