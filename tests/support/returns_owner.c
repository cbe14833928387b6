/* SPDX-License-Identifier: MIT */
/*
 * A busy owner (returns.h): the memory is in pages of a context that never
 * idles, and another context asks for it.
 *
 * The owner alone may take blocks out of its lists, so what it parts with costs
 * it time; the reclaimer waits for none of it and calls the provider.  Both
 * numbers are looked at: what came back, and what the owner's operations cost.
 */
#include "returns.h"

#include "test.h"

/* Of so many blocks one comes and goes; the others stay what they were, in use
 * or free.  If all came and went, they would gather in few pages. */
#define BUSY 50

/* Frees a block, or allocates one where none is. */
static void owner_operate(
	struct returns *r, struct returns_block *blocks, size_t n)
{
	struct returns_block *block = &blocks[test_returns_below(r, n)];

	if (block->p != NULL) {
		test_returns_free(r, block->p, block->size);
		block->p = NULL;
		return;
	}
	block->size = test_returns_size(r);
	block->p = test_returns_alloc(r, block->size);
}

/* So many operations, counted. */
static void owner_round(struct returns *r, const struct returns_owner *owner,
	struct returns_block *blocks, struct returns_owner_result *result)
{
	uint64_t ticks = r->ticks;
	uint64_t commits = r->calls.commits;
	unsigned i;

	test_returns_context(r, 0);
	for (i = 0; i < owner->operations; i++)
		owner_operate(r, blocks, owner->blocks / BUSY);
	result->ticks += r->ticks - ticks;
	result->commits += r->calls.commits - commits;
	result->operations += owner->operations;
	r->now++;
	test_returns_sample(r);
}

struct returns_owner_result test_returns_owner(
	const struct returns_machine *machine,
	const struct returns_owner *owner, const char *series)
{
	static struct returns r;
	struct returns_owner_result result = { 0 };
	struct returns_block *blocks;
	size_t i;

	if (!test_returns_begin(&r, machine, 2, 0, 0))
		return result;
	r.series = series;
	blocks = test_returns_scratch(&r, owner->blocks * sizeof(*blocks));
	for (i = 0; i < owner->blocks; i++) {
		blocks[i].size = test_returns_size(&r);
		blocks[i].p = test_returns_alloc(&r, blocks[i].size);
	}
	test_returns_shuffle(&r, blocks, owner->blocks);
	for (i = 0; i < owner->blocks - owner->blocks / 10; i++) {
		test_returns_free(&r, blocks[i].p, blocks[i].size);
		blocks[i].p = NULL;
	}
	result.before = test_returns_resident(&r);
	for (i = 0; i < owner->rounds; i++) {
		owner_round(&r, owner, blocks, &result);
		if (!owner->reclaim)
			continue;
		test_returns_context(&r, 1);
		result.reported += fallow_reclaim(
			&r.heap, FALLOW_RECLAIM_FLOOR);
		r.now++;
		test_returns_sample(&r);
	}
	result.live = r.live;
	result.bound = test_returns_bound(&r, blocks, owner->blocks);
	result.after = test_returns_resident(&r);
	test_returns_context(&r, 0);
	for (i = 0; i < owner->blocks; i++)
		test_returns_free(&r, blocks[i].p, blocks[i].size);
	result.good = test_returns_end(&r);
	return result;
}
