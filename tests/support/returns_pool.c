/* SPDX-License-Identifier: MIT */
/*
 * A pool of workers (returns.h): few buffers are in use at any time, but every
 * worker has used some of each size.
 *
 * A floor for each context would keep several MiB for each; the heap's is one
 * sum.  What is in use changes hands by the millisecond, so what the hold keeps
 * is seen here too.
 */
#include "returns.h"

#include "test.h"

#define BUFFER_MIN ((size_t)96 << 10)
#define BUFFER_MAX ((size_t)512 << 10)

struct worker {
	struct returns_block block; /* in use, if p is not NULL */
	uint64_t next;              /* when it changes */
};

/* Ends a worker's job or begins its next. */
static void worker_change(struct returns *r, const struct returns_pool *pool,
	struct worker *worker, unsigned index)
{
	struct returns_block *block = &worker->block;
	unsigned by = index;

	worker->next = r->now + 1 + test_returns_below(r, RETURNS_EPOCH);
	if (block->p != NULL) {
		if (test_returns_below(r, 8) == 0)
			by = (index + 1) % pool->workers;
		test_returns_context(r, by);
		test_returns_free(r, block->p, block->size);
		block->p = NULL;
		test_returns_rest(r, by);
		if (by != index)
			test_returns_rest(r, index);
		return;
	}
	test_returns_context(r, index);
	block->size = BUFFER_MIN +
		test_returns_below(r, BUFFER_MAX - BUFFER_MIN + 1);
	block->p = test_returns_alloc(r, block->size);
}

/* The worker whose turn is next. */
static unsigned workers_next(const struct worker *workers, unsigned n)
{
	unsigned next = 0;
	unsigned i;

	for (i = 1; i < n; i++)
		if (workers[i].next < workers[next].next)
			next = i;
	return next;
}

/* All work until `until`; sums up what is seen between two turns. */
static void pool_work(struct returns *r, const struct returns_pool *pool,
	struct worker *workers, struct returns_pool_result *result)
{
	uint64_t until = r->now + pool->epochs * RETURNS_EPOCH;
	uint64_t turns = 0, live = 0, resident = 0;
	unsigned i;

	for (;;) {
		i = workers_next(workers, pool->workers);
		if (workers[i].next > until)
			break;
		test_returns_idle(r, workers[i].next);
		result->jobs += workers[i].block.p == NULL;
		worker_change(r, pool, &workers[i], i);
		live += r->live;
		resident += test_returns_resident(r);
		turns++;
	}
	result->live = live / turns;
	result->resident = resident / turns;
	result->live_peak = r->live_peak;
	result->resident_peak = r->resident_peak;
	result->commits = r->calls.commits;
	for (i = 0; i < pool->workers; i++)
		if (workers[i].block.p != NULL)
			worker_change(r, pool, &workers[i], i);
}

struct returns_pool_result test_returns_pool(
	const struct returns_machine *machine,
	const struct returns_pool *pool, const char *series)
{
	static struct returns r;
	struct returns_pool_result result = { 0 };
	struct fallow_snapshot snapshot = { .size = sizeof(snapshot) };
	struct worker workers[RETURNS_CONTEXTS] = { 0 };
	uint64_t begin;

	if (!test_returns_begin(&r, machine, pool->workers, pool->floor, 0))
		return result;
	r.series = series;
	r.park = pool->park;
	pool_work(&r, pool, workers, &result);
	test_returns_check(&r);
	begin = r.now;
	test_returns_idle(&r, begin + 3 * RETURNS_EPOCH);
	result.kept = test_returns_resident(&r);
	test_returns_idle(
		&r, begin + 2 * FALLOW_FLOOR_EPOCHS * RETURNS_EPOCH);
	result.end = test_returns_resident(&r);
	fallow_snapshot(&r.heap, &snapshot);
	result.tables = snapshot.tables;
	result.epochs = test_returns_due(&r) == UINT64_MAX
		? (r.swept - begin) / RETURNS_EPOCH
		: UINT64_MAX;
	result.good = test_returns_end(&r);
	return result;
}
