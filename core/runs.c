/* SPDX-License-Identifier: MIT */
/*
 * Free runs of granules, as a tree of summaries over a bitmap.
 *
 * Level 0 is a bitmap, 64 granules a word, 1 is free.  Every node above
 * stands for two below it and holds the *set of orders* of the free runs under
 * it that are no part of a larger one.  So the smallest run that fits is known
 * at the root, and one walk down finds it: the classic buddy allocator's
 * choice, without lists and therefore without links in the free memory, which
 * is never touched.  Merging two buddies is what a node's value means and no
 * step of its own.
 *
 *        level 2            { 3, 7 }            256 granules
 *                          /        \
 *        level 1        { 3 }       { 7 }       128 each; 7 is all of it
 *                      /    \      (stale)
 *        level 0   0..0ff0  0000                64 each, a word
 *
 * Invariants, named as fl_runs_check() prints them:
 *   "node == join of its children": a node is full(level) iff both children
 *     are full, else the union of theirs.
 *   "free == granules in free runs".
 *   "no free run past the end".
 * A node that is all free or all taken says everything about what is under it:
 * its children are *stale*, are not read, and are written from it before a
 * walk goes below it.  That is why taking or freeing a run of any size, and
 * starting with uninitialised memory, costs one walk: two steps for each of
 * at most RUNS_LEVELS levels.
 *
 * The cost in memory is 8 bytes a word and 4 a node, together a quarter of a
 * byte a granule: 0.006 % for granules of 4 KiB.
 */
#include "runs.h"
#include "watch.h"

#include "bits.h"

_Static_assert(RUNS_WORD_LOG2 == 6, "level 0 is made of 64-bit words");
_Static_assert(RUNS_ORDER_MAX < 32, "a node's set of orders is 32 bits");

/* Returns the order of the run that a node of this level stands for. */
static unsigned level_order(unsigned level)
{
	return level + RUNS_WORD_LOG2;
}

/* Returns the set that says "all of it is one free run", or the empty set on
 * levels whose runs are too large to be one. */
static uint32_t level_full(unsigned level)
{
	unsigned order = level_order(level);

	return order <= RUNS_ORDER_MAX ? (uint32_t)1 << order : 0;
}

/* Returns how many nodes the level has. */
static uint64_t level_count(uint64_t granules, unsigned level)
{
	unsigned order = level_order(level);

	return (granules + (((uint64_t)1 << order) - 1)) >> order;
}

/* Returns the bits of a word at which an aligned free run of 2^(order + 1)
 * begins, from those at which one of 2^order does. */
static uint64_t word_pair(uint64_t begins, unsigned order)
{
	static const uint64_t aligned[RUNS_WORD_LOG2] = {
		0x5555555555555555u,
		0x1111111111111111u,
		0x0101010101010101u,
		0x0001000100010001u,
		0x0000000100000001u,
		0x0000000000000001u,
	};

	return begins & (begins >> (1u << order)) & aligned[order];
}

/* Returns the bits of a word at which an aligned free run of 2^order begins. */
static uint64_t word_begins(uint64_t word, unsigned order)
{
	for (unsigned i = 0; i < order; i++)
		word = word_pair(word, i);
	return word;
}

/* As word_begins(), without the runs that are a part of a larger one. */
static uint64_t word_maximal(uint64_t begins, unsigned order)
{
	uint64_t larger;

	if (order == RUNS_WORD_LOG2)
		return begins;
	larger = word_pair(begins, order);
	return begins & ~(larger | larger << (1u << order));
}

/* Returns the set of orders of the free runs of a word. */
static uint32_t word_orders(uint64_t word)
{
	uint32_t set = 0;

	for (unsigned order = 0; word; order++) {
		if (word_maximal(word, order))
			set |= (uint32_t)1 << order;
		if (order == RUNS_WORD_LOG2)
			break;
		word = word_pair(word, order);
	}
	return set;
}

/* Returns the bits of the run in its word; order is at most 6. */
static uint64_t word_bits(uint64_t granule, unsigned order)
{
	uint64_t ones = ~(uint64_t)0 >> (64 - (1u << order));

	return ones << (granule % 64);
}

/* Returns the set of orders under a node; the empty one past the end. */
static uint32_t node_orders(
	const struct runs *runs, unsigned level, uint64_t i)
{
	if (i >= level_count(runs->granules, level))
		return 0;
	if (level == 0)
		return word_orders(runs->words[i]);
	return runs->nodes[runs->offset[level] + i];
}

/* Makes all that is under a node free or taken. */
static void node_fill(
	const struct runs *runs, unsigned level, uint64_t i, bool free)
{
	if (i >= level_count(runs->granules, level))
		return;
	if (level == 0)
		runs->words[i] = free ? ~(uint64_t)0 : 0;
	else
		runs->nodes[runs->offset[level] + i] =
			free ? level_full(level) : 0;
}

/* Returns whether the set says "all of it is free". */
static bool orders_full(uint32_t orders, unsigned level)
{
	return orders && orders == level_full(level);
}

/* Returns the set of a node of this level from the sets of its children. */
static uint32_t orders_join(unsigned level, uint32_t left, uint32_t right)
{
	if (orders_full(left, level - 1) && left == right && level_full(level))
		return level_full(level);
	return left | right;
}

/* Writes the children of a node that says all about them. */
static void node_refresh_children(
	const struct runs *runs, unsigned level, uint64_t i)
{
	uint32_t orders = node_orders(runs, level, i);
	bool full = orders_full(orders, level);

	if (orders && !full)
		return;
	node_fill(runs, level - 1, 2 * i, full);
	node_fill(runs, level - 1, 2 * i + 1, full);
}

size_t fl_runs_bytes(uint64_t granules)
{
	uint64_t bytes = level_count(granules, 0) * sizeof(uint64_t);
	unsigned level = 0;

	while (level_count(granules, level) > 1)
		bytes += level_count(granules, ++level) * sizeof(uint32_t);
	return (bytes + 7) & ~(uint64_t)7;
}

void fl_runs_init(struct runs *runs, void *memory, uint64_t granules)
{
	uint64_t words = level_count(granules, 0);
	uint32_t offset = 0;
	unsigned level = 0;

	*runs = (struct runs){ .granules = granules, .words = memory };
	runs->nodes = (uint32_t *)(runs->words + words);
	while (level_count(granules, level) > 1) {
		runs->offset[++level] = offset;
		offset += (uint32_t)level_count(granules, level);
	}
	runs->top = level;
	node_fill(runs, level, 0, false);
}

enum runs_state fl_runs_state(
	const struct runs *runs, uint64_t granule, unsigned order)
{
	unsigned target = order > RUNS_WORD_LOG2 ? order - RUNS_WORD_LOG2 : 0;
	uint64_t bits, word;

	for (unsigned level = runs->top; level > 0; level--) {
		fl_watch_steps(1);
		uint32_t orders = node_orders(
			runs, level, granule >> level_order(level));

		if (orders == 0)
			return RUNS_TAKEN;
		if (orders_full(orders, level))
			return RUNS_FREE;
		if (level == target)
			return RUNS_MIXED;
	}
	bits = word_bits(granule, order);
	word = runs->words[granule / 64] & bits;
	if (word == 0)
		return RUNS_TAKEN;
	return word == bits ? RUNS_FREE : RUNS_MIXED;
}

void fl_runs_set(struct runs *runs, uint64_t granule, unsigned order, bool free)
{
	unsigned target = order > RUNS_WORD_LOG2 ? order - RUNS_WORD_LOG2 : 0;
	unsigned level;

	fl_watch_steps(2 * (runs->top + 1 - target));
	for (level = runs->top; level > target; level--)
		node_refresh_children(
			runs, level, granule >> level_order(level));
	if (target > 0)
		node_fill(runs, target, granule >> order, free);
	else if (free)
		runs->words[granule / 64] |= word_bits(granule, order);
	else
		runs->words[granule / 64] &= ~word_bits(granule, order);
	for (level = target + 1; level <= runs->top; level++) {
		uint64_t i = granule >> level_order(level);

		runs->nodes[runs->offset[level] + i] = orders_join(level,
			node_orders(runs, level - 1, 2 * i),
			node_orders(runs, level - 1, 2 * i + 1));
	}
	if (free)
		runs->free += (uint64_t)1 << order;
	else
		runs->free -= (uint64_t)1 << order;
}

uint32_t fl_runs_orders(const struct runs *runs)
{
	return node_orders(runs, runs->top, 0);
}

uint64_t fl_runs_highest(const struct runs *runs, unsigned order)
{
	uint64_t i = 0, begins;

	for (unsigned level = runs->top; level > 0; level--) {
		fl_watch_steps(1);
		if (level_order(level) == order)
			return i << order;
		/* The children are not stale: this node has the order in its
		 * set and is not full, or it would be of that order. */
		i = 2 * i + 1;
		if (!(node_orders(runs, level - 1, i) >> order & 1))
			i--;
	}
	begins = word_maximal(word_begins(runs->words[i], order), order);
	return 64 * i + 63 - (unsigned)__builtin_clzll(begins);
}

uint64_t fl_runs_lowest(const struct runs *runs, unsigned order)
{
	uint64_t i = 0, begins;

	for (unsigned level = runs->top; level > 0; level--) {
		fl_watch_steps(1);
		if (orders_full(node_orders(runs, level, i), level))
			return i << level_order(level);
		i = 2 * i;
		if (!(node_orders(runs, level - 1, i) >> order))
			i++;
	}
	if (order >= RUNS_WORD_LOG2)
		return 64 * i;
	begins = word_begins(runs->words[i], order);
	return 64 * i + (unsigned)__builtin_ctzll(begins);
}

/*
 * Verifies the nodes on the way down to `granule`.  Sets *level to the level
 * of the node that says all about it (0 if none above the word does) and
 * returns the broken invariant.
 */
static const char *check_path(
	const struct runs *runs, uint64_t granule, unsigned *level)
{
	for (*level = runs->top; *level > 0; --*level) {
		uint64_t i = granule >> level_order(*level);
		uint32_t orders = node_orders(runs, *level, i);

		if (orders == 0 || orders_full(orders, *level))
			return NULL;
		if (orders != orders_join(*level,
				node_orders(runs, *level - 1, 2 * i),
				node_orders(runs, *level - 1, 2 * i + 1)))
			return "node == join of its children";
	}
	return NULL;
}

const char *fl_runs_check(const struct runs *runs, uint64_t *granule)
{
	uint64_t free = 0;
	unsigned level;

	for (uint64_t at = 0; at < runs->granules;
		at += (uint64_t)1 << level_order(level)) {
		const char *broken = check_path(runs, at, &level);
		uint64_t size = (uint64_t)1 << level_order(level);
		uint64_t left = runs->granules - at;
		uint64_t i = at >> level_order(level);

		*granule = at;
		if (broken)
			return broken;
		if (level > 0) {
			bool full = node_orders(runs, level, i) != 0;

			if (full && left < size)
				return "no free run past the end";
			free += full ? size : 0;
			continue;
		}
		if (left < 64 && runs->words[i] >> left)
			return "no free run past the end";
		free += bits_count(runs->words[i]);
	}
	*granule = 0;
	return free == runs->free ? NULL : "free == granules in free runs";
}
