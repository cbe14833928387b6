/* SPDX-License-Identifier: MIT */
/*
 * Spike, idle, spike (returns.h): what it costs to need again what was given
 * back, by how long it was not needed.
 */
#include "returns.h"

#include "test.h"

/* The bytes of a block in the mean, rounded down. */
#define MEAN 5000

/* Allocates as much as is to be, the same each time, and frees it. */
static uint64_t spike_run(struct returns *r, const struct returns_spike *spike,
	struct returns_block *blocks, size_t most)
{
	uint64_t begin = r->now;
	size_t n = 0;
	size_t i;

	r->random = test_seed;
	while (r->live < spike->bytes && n < most && r->failed == 0) {
		blocks[n].size = test_returns_size(r);
		blocks[n].p = test_returns_alloc(r, blocks[n].size);
		test_returns_busy(r, begin, r->live, spike->bytes);
		if (++n % (most / 64) == 0)
			test_returns_sample(r);
	}
	begin = r->now;
	for (i = 0; i < n; i++) {
		test_returns_free(r, blocks[i].p, blocks[i].size);
		test_returns_busy(r, begin, i, n);
		if (i % (most / 64) == 0)
			test_returns_sample(r);
	}
	return n;
}

struct returns_spike_result test_returns_spike(
	const struct returns_machine *machine,
	const struct returns_spike *spike, const char *series)
{
	static struct returns r;
	struct returns_spike_result result = { 0 };
	size_t most = spike->bytes / MEAN + 64;
	struct returns_block *blocks;
	unsigned i;

	if (!test_returns_begin(&r, machine, 1, spike->floor, 0))
		return result;
	r.series = series;
	blocks = test_returns_scratch(&r, most * sizeof(*blocks));
	for (i = 0; i < 2; i++) {
		struct returns_calls before = r.calls;
		uint64_t ticks = r.ticks;

		result.operations = 2 * spike_run(&r, spike, blocks, most);
		result.ticks[i] = r.ticks - ticks;
		result.commits[i] = r.calls.commits - before.commits;
		result.committed[i] = r.calls.committed - before.committed;
		if (i > 0)
			break;
		test_returns_rest(&r, 0);
		test_returns_idle(&r, r.now + spike->epochs * RETURNS_EPOCH);
		result.kept = test_returns_resident(&r);
	}
	test_returns_check(&r);
	result.good = test_returns_end(&r);
	return result;
}
