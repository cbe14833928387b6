/* SPDX-License-Identifier: MIT */
/*
 * Sweeps over a provider that refuses call number n, for every n: commits that
 * bring holes back, ranges that are to become holes or free slices, in sweeps,
 * reclaims of each level, collects, with the pages the context's own, parked
 * and nobody's.
 *
 * A script makes holes in every way there is and takes most of them back.
 * Between its steps the heap is whole, and the simulated provider has poisoned
 * what it took.  What was refused once goes later, without anybody's doing: at
 * the end of each run what is committed is what blocks lie in; then nothing is.
 */
#include <stdlib.h>

#include "heap.h"
#include "sim_rig.h"
#include "test.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define WINDOW (1100 * MIB)
#define TICKS 100
#define BLOCKS 150
/* Bytes of holes that a run has at some time. */
#define HOLES_LEAST (100 * KIB)

struct run {
	struct rig *rig;
	size_t holes; /* bytes, the most that there were between two steps */
};

/* Checks everything that must be true between two steps. */
static void between(struct run *run)
{
	struct fallow_snapshot now = { .size = sizeof(now) };

	rig_check(run->rig);
	fallow_snapshot(&run->rig->heap, &now);
	if (run->holes < now.holes)
		run->holes = now.holes;
}

/* Blocks of many sizes, most of them small. */
static void script_fill(struct run *run, unsigned n)
{
	struct oracle *oracle = &run->rig->oracle;

	for (unsigned i = 0; i < n; i++) {
		size_t most = (size_t)64 << test_random(&oracle->random) % 11;

		oracle_alloc(oracle,
			most / 2 + test_random(&oracle->random) % (most / 2), 0);
	}
	/* Pages of large blocks, and spans. */
	for (unsigned i = 0; i < n / 25; i++)
		oracle_alloc(oracle, (96 + 100 * (i % 8)) * KIB, 0);
}

/* A sweep in each of the next epochs, some in small steps. */
static void script_sweep(struct run *run, unsigned epochs)
{
	for (unsigned i = 0; i < epochs; i++) {
		run->rig->sim.ticks += TICKS;
		if (i % 2 == 0)
			while (fallow_sweep(&run->rig->heap, 7) == 1)
				;
		fallow_sweep(&run->rig->heap, SIZE_MAX);
	}
}

/* The pages are nobody's until what is wanted is found in them. */
static void script_offline(struct run *run)
{
	struct oracle *oracle = &run->rig->oracle;

	fallow_offline(&run->rig->heap);
	oracle_shrink(oracle, oracle->count / 2);
	script_sweep(run, 2);
	between(run);
	script_fill(run, BLOCKS / 8);
}

static void script_run(struct run *run)
{
	struct fallow *heap = &run->rig->heap;
	struct oracle *oracle = &run->rig->oracle;

	script_fill(run, BLOCKS);
	oracle_shrink(oracle, oracle->count / 5);
	script_sweep(run, 3);
	between(run);
	script_fill(run, BLOCKS / 5);
	oracle_shrink(oracle, oracle->count / 3);
	fallow_reclaim(heap, FALLOW_RECLAIM_HOLD);
	between(run);
	script_fill(run, BLOCKS / 5);
	fallow_park(heap);
	oracle_shrink(oracle, oracle->count / 2);
	script_sweep(run, 2);
	between(run);
	script_offline(run);
	fallow_collect(heap);
	between(run);
	script_fill(run, BLOCKS / 8);
	oracle_shrink(oracle, oracle->count / 2);
	fallow_reclaim(heap, FALLOW_RECLAIM_SPLIT);
	between(run);
}

/* Whether the granule at `addr` has been counted; counts it. */
static bool granule_mark(struct rig *rig, unsigned char *seen, uintptr_t addr)
{
	size_t granule = (addr - rig->sim.base) / SIM_GRANULE;
	bool before = seen[granule];

	seen[granule] = 1;
	return before;
}

/* Bytes of the granules that a block lies in. */
static size_t bound(struct rig *rig)
{
	unsigned char *seen = calloc(rig->sim.size / SIM_GRANULE, 1);
	size_t bytes = 0;

	for (size_t i = 0; i < rig->oracle.count; i++) {
		const struct oracle_block *block = &rig->oracle.blocks[i];
		uintptr_t at = block->base & ~(uintptr_t)(SIM_GRANULE - 1);

		for (; at < block->base + block->usable; at += SIM_GRANULE)
			if (!granule_mark(rig, seen, at))
				bytes += SIM_GRANULE;
	}
	free(seen);
	return bytes;
}

/* Sweeps until nothing is left: of a page the granule that the next block
 * begins in may stay; without holes, pages with a block in use. */
static void drain(struct rig *rig)
{
	bool holes = rig->sim.provider.provider_class == FALLOW_CLASS_WINDOW;
	struct fallow_snapshot now = { .size = sizeof(now) };
	size_t most;
	unsigned n = 0;

	while (fallow_sweep(&rig->heap, SIZE_MAX) != 0 && n++ < 400)
		rig->sim.ticks += TICKS;
	CHECK(n < 400);
	fallow_snapshot(&rig->heap, &now);
	most = bound(rig) + now.pages * SIM_GRANULE;
	if (holes && now.committed > most)
		CHECK_EQUAL(now.committed, most);
	rig_check(rig);
}

/* One run over a prepared provider; returns whether anything was refused. */
static bool run_prepared(struct rig *rig, size_t *holes)
{
	struct run run = { .rig = rig };
	enum fallow_status status;
	bool refused;

	sim_clock(&rig->sim);
	rig->config.epoch_ticks = TICKS;
	rig->config.floor_bytes = 256 * KIB;
	status = rig_init(rig);
	if (status != FALLOW_OK) {
		CHECK_EQUAL(status, FALLOW_NO_TABLE_MEMORY);
		rig_end_now(rig, false);
		return true;
	}
	rig->oracle.may_fail = true;
	script_run(&run);
	*holes = run.holes;
	refused = rig->sim.refused + rig->sim.refused_ranges > 0;
	rig->sim.refuse_from = 0;
	rig->sim.refuse_range_rate = 0;
	drain(rig);
	oracle_shrink(&rig->oracle, 0);
	drain(rig);
	CHECK_EQUAL(heap_of(&rig->heap)->counters.committed, 0);
	rig_end(rig);
	return refused;
}

/* Refuses by number n what `refuse` says, for every n that there is. */
static void refuse_each(enum fallow_provider_class class, unsigned dirty_rate,
	void (*refuse)(struct sim *sim, uint64_t n))
{
	bool refused = true;
	size_t most = 0;
	uint64_t n;

	for (n = 1; refused && test_failures() == 0; n++) {
		struct rig *rig = rig_prepare(class,
			class == FALLOW_CLASS_WINDOW ? WINDOW : 64 * MIB, 2);
		size_t holes = 0;

		rig->sim.dirty_rate = dirty_rate;
		refuse(&rig->sim, n);
		refused = run_prepared(rig, &holes);
		if (holes > most)
			most = holes;
		if (test_failures() > 0)
			test_printf("\n    number %u", (unsigned)n);
	}
	CHECK(class != FALLOW_CLASS_WINDOW || most > HOLES_LEAST);
	test_printf("(%u calls, %zu KiB of holes) ", (unsigned)n - 2,
		most / KIB);
}

static void call_refused(struct sim *sim, uint64_t n)
{
	sim->refuse_call = n;
}

static void calls_refused(struct sim *sim, uint64_t n)
{
	sim->refuse_from = n;
}

static void range_refused(struct sim *sim, uint64_t n)
{
	sim->refuse_range = n;
}

static void test_sweep_refusal_of_each_commit(void)
{
	refuse_each(FALLOW_CLASS_WINDOW, 64, call_refused);
}

static void test_sweep_refusal_of_all_commits_from_each(void)
{
	refuse_each(FALLOW_CLASS_WINDOW, 0, calls_refused);
}

static void test_sweep_refusal_of_each_range(void)
{
	refuse_each(FALLOW_CLASS_WINDOW, 0, range_refused);
}

static void test_sweep_refusal_of_each_reserve(void)
{
	refuse_each(FALLOW_CLASS_DIRECT, 0, call_refused);
}

const struct test tests[] = {
	{ "sweep_refusal_of_each_commit", test_sweep_refusal_of_each_commit },
	{ "sweep_refusal_of_all_commits_from_each",
		test_sweep_refusal_of_all_commits_from_each },
	{ "sweep_refusal_of_each_range", test_sweep_refusal_of_each_range },
	{ "sweep_refusal_of_each_reserve", test_sweep_refusal_of_each_reserve },
	{ NULL, NULL },
};
