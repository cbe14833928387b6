/* SPDX-License-Identifier: MIT */
/*
 * Memory that is wanted at once: in batches, each slice once, what is refused
 * left as it was; what giving back means to each class of provider; levels.
 * Several contexts are in fake_reclaim.c.
 */
#include "sweep.h"
#include "swept.h"

static size_t collect(struct rig *rig)
{
	struct op op = white_op(rig, 0);
	size_t bytes = fl_sweep_slices(&op);

	op_drop(&op);
	return bytes;
}

/* Populates n granules of free slices; returns the slices' addresses. */
static void granules_warm(
	struct rig *rig, uintptr_t base, size_t granule, size_t n)
{
	struct op op = white_op(rig, 0);

	CHECK(fl_memory_populate(&op, base + granule * GRANULE_BYTES,
		      n * GRANULE_BYTES, false) &
		FALLOW_COMMIT_DONE);
	op_drop(&op);
}

/* Two chunks, taken as one run. */
static uintptr_t chunks_take(struct rig *rig)
{
	struct op op = white_op(rig, 0);
	struct run run;

	CHECK(fl_region_grow(&op, 3 * CHUNK_SLICES, CHUNK_BYTES) ==
		GROW_YES);
	op_drop(&op);
	run = fl_chunk_take_run(
		white_heap(rig), 2 * CHUNK_SLICES, CHUNK_BYTES);
	return run.chunk->base;
}

/* Every other granule of two chunks: more ranges than one call carries. */
static void test_collect_batches(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 1);
	struct heap *heap = white_heap(rig);
	uintptr_t base = chunks_take(rig);
	size_t all = 2 * CHUNK_SLICES * SLICE_GRANULES;
	uint64_t calls;

	for (size_t i = 0; i < all; i += 2)
		granules_warm(rig, base, i, 1);
	fl_chunk_give(heap, base, 2 * CHUNK_SLICES, 1);
	white_check(rig);
	calls = heap->counters.decommits;
	CHECK_EQUAL(collect(rig), all / 2 * GRANULE_BYTES);
	calls = heap->counters.decommits - calls;
	/* 512 ranges, at most 64 a call, and nearly as many as there can be. */
	CHECK(calls >= all / 2 / FALLOW_RANGES_MAX);
	CHECK(calls <= all / 2 / 16);
	CHECK_EQUAL(heap->counters.committed, 0);
	CHECK_EQUAL(heap->counters.decommitted_total,
		all / 2 * GRANULE_BYTES);
	CHECK_EQUAL(heap->warm_slices, 0);
	white_check(rig);
	CHECK_EQUAL(collect(rig), 0);
	CHECK_EQUAL(heap->counters.decommits, calls);
	rig_end_now(rig, true);
}

/* Granules next to each other are one range, but for a chunk's end: a range
 * may be a large mapping's. */
static void test_collect_merges(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 1);
	struct heap *heap = white_heap(rig);
	uintptr_t base = chunks_take(rig);

	granules_warm(rig, base, 3, 2 * CHUNK_SLICES * SLICE_GRANULES - 7);
	fl_chunk_give(heap, base, 2 * CHUNK_SLICES, 1);
	CHECK_EQUAL(collect(rig), 2 * CHUNK_BYTES - 7 * GRANULE_BYTES);
	CHECK_EQUAL(rig->sim.ranges, 2);
	CHECK_EQUAL(heap->counters.decommits, 1);
	rig_end_now(rig, true);
}

/* What is refused stays, warm, is passed once, and goes the next time. */
static void test_collect_refused(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 1);
	struct heap *heap = white_heap(rig);
	uintptr_t base = chunks_take(rig);
	uint32_t bit = slice_mask(7, 1);

	for (unsigned i = 0; i < 2 * CHUNK_SLICES; i++)
		granules_warm(rig, base, i * SLICE_GRANULES + 2, 3);
	fl_chunk_give(heap, base, 2 * CHUNK_SLICES, 1);
	/* The eighth slice's range. */
	rig->sim.refuse_range = rig->sim.ranges + 8;
	CHECK_EQUAL(collect(rig), (64 - 1) * 3 * GRANULE_BYTES);
	CHECK_EQUAL(heap->counters.refusals, 1);
	CHECK_EQUAL(heap->counters.committed, 3 * GRANULE_BYTES);
	CHECK_EQUAL(chunk_of(heap, base)->warm, bit);
	CHECK_EQUAL(chunk_of(heap, base)->populated[7], 7 << 2);
	white_check(rig);
	CHECK_EQUAL(collect(rig), 3 * GRANULE_BYTES);
	CHECK_EQUAL(chunk_of(heap, base)->warm, 0);
	white_check(rig);
	rig_end_now(rig, true);
}

/* Where everything is refused a collect still ends. */
static void test_collect_all_refused(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 1);
	uintptr_t base = chunks_take(rig);

	for (unsigned i = 0; i < 2 * CHUNK_SLICES; i++)
		granules_warm(rig, base, i * SLICE_GRANULES, 1);
	fl_chunk_give(white_heap(rig), base, 2 * CHUNK_SLICES, 1);
	rig->sim.refuse_range_rate = 256;
	for (unsigned i = 1; i < 4; i++) {
		CHECK_EQUAL(collect(rig), 0);
		CHECK_EQUAL(rig->sim.ranges, i * 64);
	}
	CHECK_EQUAL(white_heap(rig)->warm_slices, 64);
	white_check(rig);
	rig_end_now(rig, true);
}

static struct rig *during_rig;
static unsigned during_calls;

/* Inside of a decommit: nobody gets what is being given back. */
static void during(struct sim *sim, enum sim_call call)
{
	const struct chunk *chunk = white_heap(during_rig)->chunks[1];

	(void)sim;
	if (call != SIM_DECOMMIT && call != SIM_DISCARD)
		return;
	during_calls++;
	CHECK_EQUAL(chunk->free & 0xff, 0);
	CHECK_EQUAL(chunk->warm & 0xff, 0);
	CHECK(!lock_held(&white_heap(during_rig)->lock));
}

static void test_collect_claims(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 1);
	uintptr_t base = chunks_take(rig);

	CHECK(white_heap(rig)->chunks[1]->base == base);
	granules_warm(rig, base, 0, 8 * SLICE_GRANULES);
	fl_chunk_give(white_heap(rig), base, 2 * CHUNK_SLICES, 1);
	during_rig = rig;
	during_calls = 0;
	rig->sim.during = during;
	CHECK_EQUAL(collect(rig), 8 * SLICE_BYTES);
	CHECK_EQUAL(during_calls, 1);
	rig->sim.during = NULL;
	CHECK_EQUAL(white_heap(rig)->chunks[1]->free, UINT32_MAX);
	rig_end_now(rig, true);
}

/* Class direct: the slices go too, and can come again. */
static void test_collect_direct(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_DIRECT, 16 * MIB, 1);
	struct heap *heap = white_heap(rig);
	struct run run = white_slices(rig, 3);
	struct chunk *chunk = run.chunk;
	size_t reserved = heap->counters.reserved;

	CHECK_EQUAL(reserved, CHUNK_BYTES);
	CHECK_EQUAL(collect(rig), CHUNK_BYTES - 3 * SLICE_BYTES);
	CHECK_EQUAL(heap->counters.reserved, 3 * SLICE_BYTES);
	CHECK_EQUAL(heap->counters.committed, 3 * SLICE_BYTES);
	CHECK_EQUAL(bits_count(chunk->present), 3);
	CHECK_EQUAL(chunk->free, 0);
	fl_chunk_give(heap, chunk->base + run.first * SLICE_BYTES, 3, 1);
	white_check(rig);
	CHECK_EQUAL(collect(rig), 3 * SLICE_BYTES);
	CHECK_EQUAL(chunk->present, 0);
	white_check(rig);
	run = white_slices(rig, 32);
	CHECK(run.chunk != NULL);
	fl_chunk_give(heap, run.chunk->base, 32, 1);
	white_check(rig);
	rig_end_now(rig, true);
}

/* Class flat: a discard is a hint; what was hinted is not hinted again until
 * it was used, and it is all still there. */
static void test_collect_flat(void)
{
	struct rig *rig = rig_prepare(FALLOW_CLASS_FLAT, 8 * MIB, 1);
	struct heap *heap = white_heap(rig);
	size_t free, committed;
	struct run run;

	rig->sim.provider.capabilities = FALLOW_CAN_DISCARD;
	CHECK_EQUAL(rig_init(rig), FALLOW_OK);
	committed = heap->counters.committed;
	free = heap->warm_slices * SLICE_BYTES;
	CHECK_EQUAL(collect(rig), free);
	CHECK_EQUAL(heap->counters.committed, committed);
	CHECK_EQUAL(heap->counters.decommitted_total, 0);
	white_check(rig);
	CHECK_EQUAL(collect(rig), 0);
	run = white_slices(rig, 2);
	fl_chunk_give(heap, run.chunk->base + run.first * SLICE_BYTES, 2, 1);
	CHECK_EQUAL(collect(rig), 2 * SLICE_BYTES);
	white_check(rig);
	rig_end_now(rig, true);
}

/* Without the capability nobody is asked. */
static void test_collect_flat_silent(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_FLAT, 8 * MIB, 1);

	CHECK_EQUAL(collect(rig), 0);
	CHECK_EQUAL(rig->sim.made[SIM_DISCARD], 0);
	rig_end_now(rig, true);
}

/* The public call: this context's empty pages and those that were others'
 * last free first, however many. */
static void test_collect_pages(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 2);
	struct heap *heap = white_heap(rig);
	void *blocks[60 * 8];

	for (unsigned i = 0; i < 60 * 8; i++)
		blocks[i] = fallow_alloc(&rig->heap, 8192);
	for (unsigned i = 0; i < 60 * 8; i++)
		white_free(rig, i % 2, blocks[i]);
	CHECK(heap->counters.committed > 0);
	CHECK_EQUAL(fallow_collect(&rig->heap), 60 * SLICE_BYTES);
	CHECK_EQUAL(heap->counters.committed, 0);
	CHECK_EQUAL(heap->counters.live, 0);
	for (unsigned i = 0; i < 60 * 8; i++)
		CHECK(white_page(rig, blocks[i]) == NULL);
	white_check(rig);
	rig_end_now(rig, true);
}

/* Levels of a reclaim: the hold ends, the floor and current pages stay; then
 * they go too.  What it says is what has gone. */
static void test_reclaim_levels(void)
{
	struct rig *rig = clock_begin(FALLOW_CLASS_WINDOW, WIDE, MIB);
	size_t before, bytes;
	void *block, *spans[4];

	for (unsigned i = 0; i < 4; i++)
		spans[i] = fallow_alloc(&rig->heap, MIB);
	sweep(rig);
	for (unsigned i = 0; i < 4; i++)
		fallow_free(&rig->heap, spans[i]);
	block = fallow_alloc(&rig->heap, 512);
	epochs(rig, 1);
	before = committed(rig);
	CHECK(before >= 4 * MIB);
	bytes = fallow_reclaim(&rig->heap, FALLOW_RECLAIM_HOLD);
	CHECK_EQUAL(bytes, before - committed(rig));
	CHECK(committed(rig) >= MIB && committed(rig) <= MIB + 64 * KIB);
	before = committed(rig);
	bytes = fallow_reclaim(&rig->heap, FALLOW_RECLAIM_FLOOR);
	CHECK_EQUAL(bytes, before - committed(rig));
	CHECK_EQUAL(committed(rig), GRANULE_BYTES);
	CHECK_EQUAL(fallow_reclaim(&rig->heap, FALLOW_RECLAIM_SPLIT), 0);
	fallow_free(&rig->heap, block);
	CHECK_EQUAL(fallow_collect(&rig->heap), GRANULE_BYTES);
	white_end(rig);
}

/* A span that was used just now, and what a reclaim of a level takes of it. */
static size_t level_takes(unsigned level)
{
	struct rig *rig = clock_begin(FALLOW_CLASS_WINDOW, WIDE, MIB);
	size_t bytes;

	fallow_free(&rig->heap, fallow_alloc(&rig->heap, 4 * MIB));
	bytes = fallow_reclaim(&rig->heap, (enum fallow_reclaim_level)level);
	CHECK_EQUAL(committed(rig), 4 * MIB - bytes);
	white_end(rig);
	return bytes;
}

/* What is no level is the one next to it. */
static void test_reclaim_no_level(void)
{
	CHECK_EQUAL(level_takes(FALLOW_RECLAIM_HOLD), 3 * MIB);
	CHECK_EQUAL(level_takes(0), 3 * MIB);
	CHECK_EQUAL(level_takes(FALLOW_RECLAIM_SPLIT), 4 * MIB);
	CHECK_EQUAL(level_takes(FALLOW_RECLAIM_SPLIT + 1), 4 * MIB);
	/* Whose low bits are no level either. */
	CHECK_EQUAL(level_takes(256), 4 * MIB);
	CHECK_EQUAL(level_takes(UINT32_MAX), 4 * MIB);
}

/* A context whose full pages serve where they are, in turn, takes no slow path;
 * when it is asked for memory it does, and answers. */
static void test_reclaim_asks_full(void)
{
	struct rig *rig = clock_begin(
		FALLOW_CLASS_WINDOW, WIDE, FALLOW_FLOOR_NONE);
	struct heap *heap = white_heap(rig);
	struct local *local = heap->locals[0];
	void *blocks[256];
	unsigned n = 256, asked, i;
	struct page *page;

	for (i = 0; i < n; i++)
		blocks[i] = fallow_alloc(&rig->heap, 512);
	while (n % white_page(rig, blocks[0])->capacity != 0)
		fallow_free(&rig->heap, blocks[--n]);
	for (asked = 0; asked < 2; asked++) {
		page = white_page(rig, blocks[0]);
		fl_local_account(heap, local->current[page->class]);
		CHECK(local->current[page->class] != page);
		CHECK_EQUAL(page->place, PLACE_FULL);
		if (asked) {
			fallow_host_context = 1;
			fallow_collect(&rig->heap);
			fallow_host_context = 0;
			CHECK(local->answered != heap->request);
		}
		for (i = 0; i < page_worth(page); i++)
			fallow_free(&rig->heap, blocks[i]);
		CHECK_EQUAL(local->current[page->class] == page, !asked);
		for (i = 0; i < page_worth(page); i++)
			blocks[i] = fallow_alloc(&rig->heap, 512);
		/* The next time it is the other one's turn. */
		for (i = 0; i < n / 2; i++) {
			void *block = blocks[i];

			blocks[i] = blocks[n - 1 - i];
			blocks[n - 1 - i] = block;
		}
	}
	CHECK_EQUAL(local->answered, heap->request);
	while (n > 0)
		fallow_free(&rig->heap, blocks[--n]);
	white_end(rig);
}

/* A context whose pages all have free blocks answers with its next block that
 * has bits, but in a NOWAIT call. */
static void test_reclaim_asks_bits(void)
{
	static const size_t sizes[] = { 16 * KIB, 48 * KIB };
	struct rig *rig = clock_begin(
		FALLOW_CLASS_WINDOW, WIDE, FALLOW_FLOOR_NONE);
	struct heap *heap = white_heap(rig);
	struct local *local = heap->locals[0];

	for (unsigned i = 0; i < 2; i++) {
		void *block = fallow_alloc(&rig->heap, sizes[i]);
		void *other = fallow_alloc(&rig->heap, sizes[i]);

		fallow_free(&rig->heap, other);
		/* The page has it still: it is current. */
		fallow_host_context = 1;
		fallow_reclaim(&rig->heap, FALLOW_RECLAIM_HOLD);
		fallow_host_context = 0;
		CHECK(page_free_count(white_page(rig, block)) > 0 ||
			FALLOW_MODEL == FALLOW_MODEL_SINGLE);
		CHECK(local->answered != heap->request);
		other = fallow_alloc_flags(
			&rig->heap, sizes[i], FALLOW_NOWAIT);
		CHECK(local->answered != heap->request);
		fallow_free(&rig->heap, other);
		other = fallow_alloc(&rig->heap, sizes[i]);
		CHECK_EQUAL(local->answered, heap->request);
		fallow_free(&rig->heap, other);
		fallow_free(&rig->heap, block);
	}
	white_end(rig);
}

/* A page with more holes than one call of the provider carries goes too. */
static void test_reclaim_many_holes(void)
{
	struct rig *rig = clock_begin(
		FALLOW_CLASS_WINDOW, WIDE, FALLOW_FLOOR_NONE);
	char *blocks[510];

	for (unsigned i = 0; i < 510; i++)
		blocks[i] = fallow_alloc(&rig->heap, 10 * KIB);
	for (unsigned i = 0; i < 510; i += 2)
		fallow_free(&rig->heap, blocks[i]);
	CHECK(fallow_reclaim(&rig->heap, FALLOW_RECLAIM_FLOOR) > MIB);
	CHECK_EQUAL(fallow_reclaim(&rig->heap, FALLOW_RECLAIM_FLOOR), 0);
	for (unsigned i = 1; i < 510; i += 2)
		fallow_free(&rig->heap, blocks[i]);
	white_end(rig);
}

/* Where a context keeps any number of spans, a few of them go with each of its
 * slow paths until all have: interrupts may be masked. */
static void test_reclaim_asks_spans(void)
{
	struct rig *rig = rig_prepare(FALLOW_CLASS_WINDOW, WIDE, 2);
	struct local *local;
	uint32_t before, calls = 0;
	void *spans[100];

	rig->sim.provider.capabilities |= FALLOW_DEMAND;
	CHECK_EQUAL(rig_init(rig), FALLOW_OK);
	local = white_heap(rig)->locals[0];
	for (unsigned i = 0; i < 100; i++)
		spans[i] = fallow_alloc(&rig->heap, 100 * KIB);
	for (unsigned i = 0; i < 100; i++)
		fallow_free(&rig->heap, spans[i]);
	CHECK_EQUAL(local->kept_count, 100);
	white_heap(rig)->request = ++white_heap(rig)->sweeps;
	while (local->answered != white_heap(rig)->request && calls < 100) {
		struct op op = white_op(rig, 0);

		before = local->kept_count;
		(void)fl_reclaim_answer(&op);
		op_drop(&op);
		CHECK(before - local->kept_count <= 8);
		calls++;
	}
	CHECK_EQUAL(local->kept_count, 0);
	CHECK(calls <= 14);
	white_end(rig);
}

const struct test tests[] = {
	{ "collect_batches", test_collect_batches },
	{ "collect_merges", test_collect_merges },
	{ "collect_refused", test_collect_refused },
	{ "collect_all_refused", test_collect_all_refused },
	{ "collect_claims", test_collect_claims },
	{ "collect_direct", test_collect_direct },
	{ "collect_flat", test_collect_flat },
	{ "collect_flat_silent", test_collect_flat_silent },
	{ "collect_pages", test_collect_pages },
	{ "reclaim_levels", test_reclaim_levels },
	{ "reclaim_no_level", test_reclaim_no_level },
	{ "reclaim_asks_full", test_reclaim_asks_full },
	{ "reclaim_asks_bits", test_reclaim_asks_bits },
	{ "reclaim_many_holes", test_reclaim_many_holes },
	{ "reclaim_asks_spans", test_reclaim_asks_spans },
	{ NULL, NULL },
};
