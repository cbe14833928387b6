/* SPDX-License-Identifier: MIT */
/*
 * The boundary to the provider: which granules are asked for, what is known of
 * them afterwards, and what a call inside a call is.
 */
#include <string.h>

#include "white.h"

#define MIB ((size_t)1 << 20)

/* A heap with two free chunks that the test holds, as one range. */
struct scene {
	struct rig *rig;
	struct heap *heap;
	uintptr_t base;
	struct op op;
};

static void scene_begin(struct scene *s)
{
	struct run run;

	s->rig = rig_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 2);
	s->heap = white_heap(s->rig);
	s->op = white_op(s->rig, 0);
	CHECK(fl_region_grow(&s->op, 3 * CHUNK_SLICES, CHUNK_BYTES) ==
		GROW_YES);
	run = fl_chunk_take_run(s->heap, 2 * CHUNK_SLICES, CHUNK_BYTES);
	CHECK(run.chunk != NULL);
	s->base = run.chunk->base;
}

static void scene_end(struct scene *s)
{
	op_drop(&s->op);
	rig_end_now(s->rig, true);
}

static unsigned populate(
	struct scene *s, size_t granule, size_t n, bool fill)
{
	return fl_memory_populate(&s->op, s->base + granule * GRANULE_BYTES,
		n * GRANULE_BYTES, fill);
}

static bool populated(struct scene *s, size_t granule, size_t n)
{
	return fl_memory_populated(s->heap,
		s->base + granule * GRANULE_BYTES, n * GRANULE_BYTES);
}

/* The word of each slice, against a naive one, for random ranges. */
static void test_memory_mark(void)
{
	static bool model[2 * CHUNK_SLICES * SLICE_GRANULES];
	const size_t all = sizeof(model);
	uint64_t random = test_seed;
	struct scene s;

	scene_begin(&s);
	memset(model, 0, all);
	for (unsigned i = 0; i < 3000; i++) {
		size_t first = test_random(&random) % all;
		size_t n = 1 + test_random(&random) % (i % 4 ? 20 : 300);
		bool set = test_random(&random) & 1, whole = true;

		n = n < all - first ? n : all - first;
		for (size_t j = 0; j < n; j++)
			whole &= model[first + j];
		CHECK_EQUAL(populated(&s, first, n), whole);
		fl_memory_mark(s.heap, s.base + first * GRANULE_BYTES,
			n * GRANULE_BYTES, set);
		memset(model + first, set, n);
	}
	for (size_t i = 0; i < all; i++)
		CHECK_EQUAL(populated(&s, i, 1), model[i]);
	fl_memory_mark(s.heap, s.base, 2 * CHUNK_BYTES, false);
	scene_end(&s);
}

/* One commit for each run of granules that are not there, however many slices
 * and chunks it goes over, and none for those that are. */
static void test_memory_populate_runs(void)
{
	size_t half = CHUNK_SLICES * SLICE_GRANULES;
	struct scene s;
	uint64_t before;

	scene_begin(&s);
	before = s.heap->counters.commits;
	CHECK_EQUAL(populate(&s, 3, 2, false),
		FALLOW_COMMIT_DONE | FALLOW_COMMIT_ZEROED);
	populate(&s, 100, 1, false);
	populate(&s, half - 1, 2, false);
	CHECK_EQUAL(s.heap->counters.commits, before + 3);
	CHECK_EQUAL(s.heap->counters.committed, 5 * GRANULE_BYTES);
	CHECK(populate(&s, 0, half + 40, false) & FALLOW_COMMIT_DONE);
	/* 0-3, 5-100, 101-half-1, half+1-half+40. */
	CHECK_EQUAL(s.heap->counters.commits, before + 7);
	CHECK_EQUAL(s.heap->counters.committed, (half + 40) * GRANULE_BYTES);
	CHECK_EQUAL(s.heap->counters.committed_peak,
		(half + 40) * GRANULE_BYTES);
	CHECK(populated(&s, 0, half + 40));
	CHECK(!populated(&s, half + 40, 1));
	CHECK_EQUAL(populate(&s, 7, half, false), FALLOW_COMMIT_DONE);
	CHECK_EQUAL(s.heap->counters.commits, before + 7);
	scene_end(&s);
}

/* ZEROED only if all of it is known to be. */
static void test_memory_populate_zeroed(void)
{
	struct scene s;

	scene_begin(&s);
	CHECK(populate(&s, 0, 4, false) & FALLOW_COMMIT_ZEROED);
	/* What was there already may have been used. */
	CHECK(!(populate(&s, 3, 4, false) & FALLOW_COMMIT_ZEROED));
	CHECK(!(populate(&s, 0, 4, false) & FALLOW_COMMIT_ZEROED));
	s.rig->sim.dirty_rate = 256;
	CHECK_EQUAL(populate(&s, 10, 4, false), FALLOW_COMMIT_DONE);
	s.rig->sim.dirty_rate = 0;
	CHECK(populate(&s, 20, 40, false) & FALLOW_COMMIT_ZEROED);
	scene_end(&s);
}

/* With `fill` it always is, and what is outside stays. */
static void test_memory_populate_fill(void)
{
	unsigned char *bytes;
	struct scene s;

	scene_begin(&s);
	bytes = (unsigned char *)s.base;
	populate(&s, 0, 8, false);
	memset(bytes, 0x77, 8 * GRANULE_BYTES);
	s.rig->sim.dirty_rate = 256;
	CHECK_EQUAL(populate(&s, 2, 9, true),
		FALLOW_COMMIT_DONE | FALLOW_COMMIT_ZEROED);
	for (size_t i = 0; i < 11 * GRANULE_BYTES; i += 8)
		if (bytes[i] != (i < 2 * GRANULE_BYTES ? 0x77 : 0)) {
			CHECK_EQUAL(bytes[i], i);
			break;
		}
	CHECK_EQUAL(bytes[2 * GRANULE_BYTES - 1], 0x77);
	CHECK_EQUAL(bytes[11 * GRANULE_BYTES - 1], 0);
	scene_end(&s);
}

/* A refused commit ends it; what came before stays, and is known to. */
static void test_memory_populate_refused(void)
{
	struct scene s;

	scene_begin(&s);
	populate(&s, 4, 1, false);
	s.rig->sim.refuse_call = s.rig->sim.calls + 2;
	CHECK_EQUAL(populate(&s, 0, 20, false), FALLOW_COMMIT_NO_MEMORY);
	CHECK(populated(&s, 0, 5) && !populated(&s, 5, 1));
	CHECK_EQUAL(s.heap->counters.no_memory, 1);
	CHECK_EQUAL(s.heap->counters.committed, 5 * GRANULE_BYTES);
	CHECK(populate(&s, 0, 20, false) & FALLOW_COMMIT_DONE);
	CHECK_EQUAL(s.heap->counters.committed, 20 * GRANULE_BYTES);
	scene_end(&s);
}

/* Under NOWAIT nobody is called, and what is there is enough. */
static void test_memory_nowait(void)
{
	struct scene s;

	scene_begin(&s);
	populate(&s, 0, 4, false);
	s.op.flags = FALLOW_NOWAIT;
	sim_nowait = true;
	CHECK_EQUAL(populate(&s, 0, 4, false), FALLOW_COMMIT_DONE);
	CHECK_EQUAL(populate(&s, 0, 5, false), FALLOW_COMMIT_NO_MEMORY);
	CHECK_EQUAL(fl_memory_commit(&s.op, s.base + 9 * GRANULE_BYTES,
			    GRANULE_BYTES),
		FALLOW_COMMIT_NO_MEMORY);
	CHECK_EQUAL(fl_memory_reserve(&s.op, GRANULE_BYTES, GRANULE_BYTES),
		0);
	sim_nowait = false;
	CHECK_EQUAL(s.heap->counters.no_memory, 0);
	sim_verdict(&s.rig->sim);
	scene_end(&s);
}

/* Each range of a decommit that was refused is counted. */
static void test_memory_decommit(void)
{
	struct fallow_range ranges[3];
	struct scene s;

	scene_begin(&s);
	populate(&s, 0, 6, false);
	for (unsigned i = 0; i < 3; i++)
		ranges[i] = (struct fallow_range){
			s.base + 2 * i * GRANULE_BYTES, GRANULE_BYTES,
			FALLOW_RANGE_DONE
		};
	s.rig->sim.refuse_range = s.rig->sim.ranges + 2;
	fl_memory_decommit(&s.op, ranges, 3);
	CHECK_EQUAL(ranges[0].result, FALLOW_RANGE_DONE);
	CHECK_EQUAL(ranges[1].result, FALLOW_RANGE_REFUSED);
	CHECK_EQUAL(ranges[2].result, FALLOW_RANGE_DONE);
	CHECK_EQUAL(s.heap->counters.decommits, 1);
	CHECK_EQUAL(s.heap->counters.refusals, 1);
	fl_memory_mark(s.heap, s.base, GRANULE_BYTES, false);
	fl_memory_mark(
		s.heap, s.base + 4 * GRANULE_BYTES, GRANULE_BYTES, false);
	scene_end(&s);
}

static struct rig *calling_rig;
static unsigned calling_seen;

/* Inside of a provider call: is it marked as one? */
static void during(struct sim *sim, enum sim_call call)
{
	(void)sim;
	(void)call;
	calling_seen += white_heap(calling_rig)->locals[0]->calling;
}

static void test_memory_calling(void)
{
	struct scene s;

	white_hold();
	scene_begin(&s);
	calling_rig = s.rig;
	calling_seen = 0;
	s.rig->sim.during = during;
	populate(&s, 0, 1, false);
	CHECK_EQUAL(calling_seen, 1);
	populate(&s, 0, 1, false);
	CHECK_EQUAL(calling_seen, 1);
	CHECK_EQUAL(s.op.local->calling, 0);
	s.rig->sim.during = NULL;
	scene_end(&s);
	white_release();
}

const struct test tests[] = {
	{ "memory_mark", test_memory_mark },
	{ "memory_populate_runs", test_memory_populate_runs },
	{ "memory_populate_zeroed", test_memory_populate_zeroed },
	{ "memory_populate_fill", test_memory_populate_fill },
	{ "memory_populate_refused", test_memory_populate_refused },
	{ "memory_nowait", test_memory_nowait },
	{ "memory_decommit", test_memory_decommit },
	{ "memory_calling", test_memory_calling },
	{ NULL, NULL },
};
