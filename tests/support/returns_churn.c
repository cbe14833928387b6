/* SPDX-License-Identifier: MIT */
/*
 * Churn, then idle (returns.h): blocks of many sizes are allocated, most of
 * them, chosen at random, are freed, and then there are only sweeps.
 *
 * Compared with the granules in which a byte that was asked for is in use, so
 * that rounding and records are the allocator's to answer for.
 */
#include "returns.h"

#include "test.h"

/* Allocates them all, and frees all but the last so many in random order. */
static void blocks_churn(struct returns *r, const struct returns_churn *churn,
	struct returns_block *blocks, size_t left)
{
	size_t step = churn->blocks / 128 + 1;
	uint64_t begin = r->now;
	size_t i;

	for (i = 0; i < churn->blocks; i++) {
		blocks[i].size = churn->size != 0 ? churn->size
						  : test_returns_size(r);
		blocks[i].p = test_returns_alloc(r, blocks[i].size);
		test_returns_busy(r, begin, i, churn->blocks);
		if (i % step == 0)
			test_returns_sample(r);
	}
	test_returns_shuffle(r, blocks, churn->blocks);
	begin = r->now;
	for (i = 0; i < churn->blocks - left; i++) {
		test_returns_free(r, blocks[i].p, blocks[i].size);
		test_returns_busy(r, begin, i, churn->blocks - left);
		if (i % step == 0)
			test_returns_sample(r);
	}
}

/* What the sweeps do, from the first to the last that is of use. */
static void churn_sweep(struct returns *r, struct returns_churn_result *result)
{
	uint64_t begin = r->now;
	unsigned i;

	test_returns_rest(r, 0);
	result->after[0] = test_returns_resident(r);
	for (i = 1; i < 4; i++) {
		test_returns_idle(r, begin + i * RETURNS_EPOCH);
		result->after[i] = test_returns_resident(r);
	}
	test_returns_check(r);
	/* A picture of all of it would show nothing of this. */
	test_returns_idle(r, begin + RETURNS_SECOND);
	test_returns_sample(r);
	r->series = NULL;
	/* Twice as long as the floor can last. */
	test_returns_idle(r,
		begin + 2 * FALLOW_FLOOR_EPOCHS * RETURNS_EPOCH);
	result->end = test_returns_resident(r);
	result->epochs = test_returns_due(r) == UINT64_MAX
		? (r->swept - begin) / RETURNS_EPOCH
		: UINT64_MAX;
}

struct returns_churn_result test_returns_churn(
	const struct returns_machine *machine,
	const struct returns_churn *churn, const char *series)
{
	static struct returns r;
	struct returns_churn_result result = { 0 };
	size_t left = churn->blocks - churn->blocks * churn->freed / churn->of;
	struct fallow_snapshot snapshot = { .size = sizeof(snapshot) };
	struct returns_block *blocks, *survivors;
	size_t i;

	if (!test_returns_begin(&r, machine, 1, churn->floor, 0))
		return result;
	r.series = series;
	blocks = test_returns_scratch(&r, churn->blocks * sizeof(*blocks));
	blocks_churn(&r, churn, blocks, left);
	survivors = blocks + churn->blocks - left;
	result.live = r.live;
	result.bound = test_returns_bound(&r, survivors, left);
	result.before = test_returns_resident(&r);
	churn_sweep(&r, &result);
	fallow_snapshot(&r.heap, &snapshot);
	result.tables = snapshot.tables;
	result.refusals = snapshot.refusals;
	result.decommits = r.calls.decommits;
	result.ranges = r.calls.ranges;
	for (i = 0; i < left; i++)
		test_returns_free(&r, survivors[i].p, survivors[i].size);
	result.good = test_returns_end(&r);
	return result;
}
