/* SPDX-License-Identifier: MIT */
/*
 * Batches: what fits, what is merged, what each call carries, and how the books
 * stand after it, whatever the provider did with each range.
 */
#include "batch.h"
#include "bits.h"
#include "white.h"

#define MIB ((size_t)1 << 20)

/* A chunk, taken, of which n slices have their first granule. */
static struct chunk *chunk_warm(struct rig *rig, unsigned n)
{
	struct heap *heap = white_heap(rig);
	struct op op = white_op(rig, 0);
	struct run run = fl_chunk_take_run(heap, CHUNK_SLICES, CHUNK_BYTES);

	while (run.chunk == NULL) {
		CHECK(fl_region_grow(&op, 2 * CHUNK_SLICES, CHUNK_BYTES) ==
			GROW_YES);
		run = fl_chunk_take_run(heap, CHUNK_SLICES, CHUNK_BYTES);
	}
	for (unsigned i = 0; i < n; i++)
		CHECK(fl_memory_populate(&op,
			      run.chunk->base + i * SLICE_BYTES, GRANULE_BYTES,
			      false) &
			FALLOW_COMMIT_DONE);
	op_drop(&op);
	return run.chunk;
}

/* Its slices are free, and the first n warm. */
static struct chunk *chunk_free_warm(struct rig *rig, unsigned n)
{
	struct chunk *chunk = chunk_warm(rig, n);

	fl_chunk_give(white_heap(rig), chunk->base, CHUNK_SLICES, 1);
	return chunk;
}

/* Claims under the lock. */
static uint32_t claim(struct rig *rig, struct batch *batch,
	struct chunk *chunk, uint32_t slices)
{
	struct fl_port_state state = lock_take(&white_heap(rig)->lock);
	uint32_t left = fl_batch_claim(
		white_heap(rig), batch, chunk, slices);

	lock_leave(&white_heap(rig)->lock, state);
	return left;
}

static size_t give(struct rig *rig, struct batch *batch, bool *refused)
{
	struct op op = white_op(rig, 0);
	size_t bytes = fl_batch_give(&op, batch, refused);

	op_drop(&op);
	return bytes;
}

/* For ranges that are given to nobody. */
static struct heap nowhere;

/* Ranges of one entry that touch are one, but for a chunk's end and another
 * entry's. */
static void test_batch_merges(void)
{
	struct batch batch;
	uintptr_t base = 7 * CHUNK_BYTES;

	batch_begin(&batch);
	fl_batch_entry(&nowhere, &batch, (struct entry){ .slices = 1 });
	CHECK(fl_batch_range(&batch, base, GRANULE_BYTES));
	CHECK(fl_batch_range(&batch, base + GRANULE_BYTES, GRANULE_BYTES));
	CHECK_EQUAL(batch.range_count, 1);
	CHECK_EQUAL(batch.ranges[0].size, 2 * GRANULE_BYTES);
	/* One missing between. */
	CHECK(fl_batch_range(&batch, base + 3 * GRANULE_BYTES, GRANULE_BYTES));
	CHECK_EQUAL(batch.range_count, 2);
	/* Up to a chunk's end, and from there. */
	CHECK(fl_batch_range(
		&batch, base + CHUNK_BYTES - GRANULE_BYTES, GRANULE_BYTES));
	CHECK(fl_batch_range(&batch, base + CHUNK_BYTES, GRANULE_BYTES));
	CHECK_EQUAL(batch.range_count, 4);
	/* Of something else. */
	fl_batch_entry(&nowhere, &batch, (struct entry){ .slices = 2 });
	CHECK(fl_batch_range(
		&batch, base + CHUNK_BYTES + GRANULE_BYTES, GRANULE_BYTES));
	CHECK_EQUAL(batch.range_count, 5);
	CHECK_EQUAL(batch.of[3], 0);
	CHECK_EQUAL(batch.of[4], 1);
}

/* The last range that fits says so. */
static void test_batch_fills(void)
{
	struct batch batch;
	unsigned n = 1;

	batch_begin(&batch);
	fl_batch_entry(&nowhere, &batch, (struct entry){ .slices = 1 });
	while (fl_batch_range(&batch, CHUNK_BYTES + 2 * n * GRANULE_BYTES,
		GRANULE_BYTES))
		n++;
	CHECK_EQUAL(n, BATCH_RANGES);
	CHECK_EQUAL(batch.range_count, BATCH_RANGES);
	CHECK(!batch_has_room(&batch, 1));
	CHECK(!batch_goes_on(&batch, 1));
}

/* As many chunks as there is room for entries: each that is claimed of is
 * claimed of in truth, down to the last. */
static void test_batch_entries(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, 256 * MIB, 1);
	struct chunk *chunks[BATCH_ENTRIES + 2];
	struct batch batch;
	bool refused = false;
	unsigned n = 0;

	for (unsigned i = 0; i < BATCH_ENTRIES + 2; i++)
		chunks[i] = chunk_warm(rig, 1);
	for (unsigned i = 0; i < BATCH_ENTRIES + 2; i++)
		fl_chunk_give(white_heap(rig), chunks[i]->base, CHUNK_SLICES,
			1);
	batch_begin(&batch);
	while (n < BATCH_ENTRIES + 2 &&
		claim(rig, &batch, chunks[n], chunks[n]->warm) == 0)
		n++;
	CHECK_EQUAL(n, BATCH_ENTRIES);
	CHECK_EQUAL(batch.entry_count, n);
	for (unsigned i = 0; i < n; i++) {
		CHECK_EQUAL(batch.entries[i].slices, 1);
		CHECK_EQUAL(chunks[i]->free & 1, 0);
	}
	CHECK_EQUAL(give(rig, &batch, &refused), n * GRANULE_BYTES);
	CHECK(!refused);
	CHECK_EQUAL(batch.entry_count, 0);
	CHECK_EQUAL(batch.range_count, 0);
	for (unsigned i = 0; i < BATCH_ENTRIES + 2; i++)
		CHECK_EQUAL(chunks[i]->free, UINT32_MAX);
	CHECK_EQUAL(white_heap(rig)->warm_slices, 2);
	white_check(rig);
	rig_end_now(rig, true);
}

/* More slices than ranges: what is not claimed stays free meanwhile. */
static void test_batch_claims_part(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 1);
	struct chunk *chunk = chunk_free_warm(rig, CHUNK_SLICES);
	struct batch batch;
	bool refused = false;
	uint32_t left;
	unsigned n;

	batch_begin(&batch);
	left = claim(rig, &batch, chunk, chunk->warm);
	n = CHUNK_SLICES - bits_count(left);
	CHECK_EQUAL(n, BATCH_RANGES - SLICE_RANGES + 1);
	CHECK_EQUAL(chunk->free, left);
	CHECK_EQUAL(chunk->warm, left);
	/* No room: nothing happens. */
	CHECK_EQUAL(claim(rig, &batch, chunk, left), left);
	CHECK_EQUAL(batch.entry_count, 1);
	CHECK_EQUAL(give(rig, &batch, &refused), n * GRANULE_BYTES);
	CHECK_EQUAL(chunk->free, UINT32_MAX);
	CHECK_EQUAL(chunk->warm, left);
	white_check(rig);
	rig_end_now(rig, true);
}

/* Each range refused in turn: that slice is warm as before, the others are
 * stamped as purged. */
static void test_batch_refused(void)
{
	for (unsigned n = 1; n <= 4; n++) {
		struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 1);
		struct chunk *chunk = chunk_free_warm(rig, 4);
		struct batch batch;
		bool refused = false;

		rig->sim.refuse_range = rig->sim.ranges + n;
		batch_begin(&batch);
		CHECK_EQUAL(claim(rig, &batch, chunk, chunk->warm), 0);
		CHECK_EQUAL(give(rig, &batch, &refused), 3 * GRANULE_BYTES);
		CHECK(refused);
		CHECK_EQUAL(chunk->warm, 1u << (n - 1));
		for (unsigned i = 0; i < 4; i++)
			CHECK_EQUAL(!(chunk->stamp[i] & STAMP_PURGED),
				i == n - 1);
		CHECK_EQUAL(white_heap(rig)->counters.committed,
			GRANULE_BYTES);
		white_check(rig);
		rig_end_now(rig, true);
	}
}

/* Nothing is not given. */
static void test_batch_empty(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 1);
	struct batch batch;
	bool refused = false;

	batch_begin(&batch);
	CHECK_EQUAL(give(rig, &batch, &refused), 0);
	CHECK_EQUAL(rig->sim.made[SIM_DECOMMIT], 0);
	rig_end_now(rig, true);
}

static bool handed_count(void *arg, uintptr_t base, size_t size)
{
	unsigned *count = arg;

	(void)base;
	(void)size;
	return ++*count < HANDED_RANGES;
}

/* What a page was handed over with is found again, whole, if there is room for
 * all of it, and not at all if not. */
static void test_batch_handed(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, 1100 * MIB, 1);
	struct heap *heap = white_heap(rig);
	void *blocks[8];
	struct page *page;
	struct batch batch;
	bool refused = false;
	unsigned count = 0;
	size_t bytes;

	for (unsigned i = 0; i < 8; i++)
		blocks[i] = fallow_alloc(&rig->heap, 32 << 10);
	page = white_page(rig, blocks[0]);
	CHECK_EQUAL(page->capacity, 8);
	for (unsigned i = 1; i < 8; i += 2)
		fallow_free(&rig->heap, blocks[i]);
	bytes = fl_hole_make(heap, page, handed_count, &count);
	CHECK_EQUAL(count, 4);
	CHECK_EQUAL(bytes, 4 * page->block_size);
	batch_begin(&batch);
	fl_batch_entry(heap, &batch, (struct entry){ .slices = 1 });
	while (batch_has_room(&batch, HANDED_RANGES))
		fl_batch_range(&batch, CHUNK_BYTES +
				2 * batch.range_count * GRANULE_BYTES,
			GRANULE_BYTES);
	CHECK(!fl_batch_handed(heap, &batch, page));
	CHECK_EQUAL(batch.entry_count, 1);
	fl_batch_drop(heap, &batch);
	batch_begin(&batch);
	CHECK(fl_batch_handed(heap, &batch, page));
	CHECK_EQUAL(batch.range_count, count);
	CHECK_EQUAL(give(rig, &batch, &refused), bytes);
	CHECK(!fl_hole_pending(heap, page));
	white_check(rig);
	for (unsigned i = 0; i < 8; i += 2)
		fallow_free(&rig->heap, blocks[i]);
	white_end(rig);
}

const struct test tests[] = {
	{ "batch_merges", test_batch_merges },
	{ "batch_fills", test_batch_fills },
	{ "batch_entries", test_batch_entries },
	{ "batch_claims_part", test_batch_claims_part },
	{ "batch_refused", test_batch_refused },
	{ "batch_empty", test_batch_empty },
	{ "batch_handed", test_batch_handed },
	{ NULL, NULL },
};
