/* SPDX-License-Identifier: MIT */
/*
 * Where the heap keeps what it knows: what the tables need, that they lie
 * apart and are zero, and that room kept for one call is not another's.
 */
#include "white.h"

#define MIB ((size_t)1 << 20)

static bool apart(uintptr_t a, size_t a_size, uintptr_t b, size_t b_size)
{
	return a + a_size <= b || b + b_size <= a;
}

/* The window's head: locals, pointers, map, records, one behind the other. */
static void test_table_window_layout(void)
{
	static const size_t windows[] = { 2 * MIB, 3 * MIB, 64 * MIB,
		(size_t)4 << 30 };

	for (unsigned i = 0; i < 4; i++) {
		struct rig *rig =
			rig_begin(FALLOW_CLASS_WINDOW, windows[i], 5);
		struct heap *heap = white_heap(rig);
		const struct area *areas[] = { &heap->area_chunks,
			&heap->area_map, &heap->area_records };
		uintptr_t at = (uintptr_t)heap->locals[4] +
			sizeof(struct local);

		CHECK_EQUAL((uintptr_t)heap->locals, rig->sim.base);
		for (unsigned j = 0; j < 3; j++) {
			CHECK(areas[j]->base >= at);
			CHECK_EQUAL(areas[j]->base % GRANULE_BYTES, 0);
			at = areas[j]->base + areas[j]->limit;
		}
		CHECK(heap->tables_end >= at);
		CHECK(heap->regions[0].base >= heap->tables_end);
		/* For the tables themselves there are no entries. */
		CHECK_EQUAL(heap->base,
			align_down(heap->tables_end, CHUNK_BYTES));
		CHECK_EQUAL(heap->chunk_limit,
			(rig->sim.base + windows[i] - heap->base +
				CHUNK_BYTES - 1) >> CHUNK_LOG2);
		CHECK(heap->area_chunks.limit >=
			heap->chunk_limit * sizeof(struct chunk *));
		CHECK(heap->area_map.limit >= heap->chunk_limit *
				CHUNK_SLICES * sizeof(struct page *));
		CHECK(heap->area_records.limit >= heap->chunk_limit *
				(CHUNK_TABLE_BYTES + RECORDS_BYTES));
		CHECK_EQUAL(heap->counters.tables, rig->sim.committed);
		rig_end_now(rig, true);
	}
}

/* Locals are apart, on lines of their own, and own nothing. */
static void test_table_locals(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 7);
	struct heap *heap = white_heap(rig);

	CHECK_EQUAL(heap->contexts, 7);
	for (unsigned i = 0; i < 7; i++) {
		struct local *local = heap->locals[i];

		CHECK_EQUAL(local->index, i);
		CHECK_EQUAL((uintptr_t)local % CACHE_LINE_BYTES, 0);
		CHECK(i == 0 || apart((uintptr_t)local, sizeof(*local),
					(uintptr_t)heap->locals[i - 1],
					sizeof(*local)));
		CHECK(!lock_held(&local->lock) && local->notified == NULL);
		for (unsigned class = 0; class < CLASS_COUNT; class++)
			CHECK(local->current[class] == &fl_page_none &&
				local->queue[class] == NULL &&
				local->full[class] == NULL);
	}
	rig_end_now(rig, true);
}

/* What is taken is zero, aligned, apart, and inside what is committed. */
static void test_table_take(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 1);
	struct heap *heap = white_heap(rig);
	uintptr_t last = 0;
	struct op op = white_op(rig, 0);
	unsigned taken = 0;

	CHECK(fl_table_take(heap, 1) == NULL);
	CHECK_EQUAL(fl_region_grow(&op, 0, SLICE_BYTES), GROW_YES);
	op_drop(&op);
	for (size_t size = 1; size < 400; size += 37, taken++) {
		unsigned char *p = fl_table_take(heap, size);

		if (p == NULL)
			break;
		CHECK_EQUAL((uintptr_t)p % CACHE_LINE_BYTES, 0);
		CHECK((uintptr_t)p >= last);
		last = (uintptr_t)p + size;
		for (size_t i = 0; i < size; i++)
			CHECK_EQUAL(p[i], 0);
		for (size_t i = 0; i < size; i++)
			p[i] = 0xff;
	}
	CHECK(taken > 5);
	while (fl_table_take(heap, 64) != NULL)
		;
	CHECK_EQUAL(heap->area_records.used, heap->area_records.committed);
	rig_end_now(rig, true);
}

/* Room that is kept is there for a descriptor, and for nothing else. */
static void test_table_kept(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 1);
	struct heap *heap = white_heap(rig);
	struct op op = white_op(rig, 0);
	struct chunk *chunk;

	heap->growing = true;
	CHECK(fl_table_reach(&op, 3, 3));
	op_drop(&op);
	CHECK_EQUAL(heap->chunk_count, 3);
	CHECK_EQUAL(heap->kept, 3 * CHUNK_TABLE_BYTES);
	while (fl_table_take(heap, 64) != NULL)
		;
	CHECK(fl_table_chunk(heap, 0) == NULL);
	for (size_t i = 0; i < 3; i++) {
		chunk = fl_table_chunk_kept(heap, i);
		CHECK_OR_RETURN(chunk != NULL);
		CHECK_EQUAL(chunk->base, heap->base + i * CHUNK_BYTES);
		CHECK(heap->chunks[i] == chunk && chunk->present == 0);
		CHECK(fl_table_chunk_kept(heap, i) == chunk);
		CHECK_EQUAL(heap->kept, (2 - i) * CHUNK_TABLE_BYTES);
	}
	CHECK(!fl_table_records(heap, heap->chunks[0]));
	heap->growing = false;
	rig_end_now(rig, true);
}

/* Records of a chunk come once, together. */
static void test_table_records(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 1);
	struct heap *heap = white_heap(rig);
	struct op op = white_op(rig, 0);
	struct page *records;

	CHECK_EQUAL(fl_region_grow(&op, 1, SLICE_BYTES), GROW_YES);
	op_drop(&op);
	CHECK(fl_table_records(heap, heap->chunks[0]));
	records = heap->chunks[0]->records;
	CHECK_EQUAL((uintptr_t)records % CACHE_LINE_BYTES, 0);
	CHECK(fl_table_records(heap, heap->chunks[0]));
	CHECK(heap->chunks[0]->records == records);
	CHECK(apart((uintptr_t)records, RECORDS_BYTES,
		(uintptr_t)heap->chunks[0], CHUNK_TABLE_BYTES));
	rig_end_now(rig, true);
}

/* As much as is said to be enough is, whatever is used of the window. */
static void test_table_bytes(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_FLAT, 32 * MIB, 3);
	struct heap *heap = white_heap(rig);
	size_t most = fl_table_bytes(heap->chunk_limit, 3);

	CHECK_EQUAL(heap->counters.tables, most);
	CHECK(heap->area_records.used <= heap->area_records.limit);
	/* Before the region there are only tables. */
	for (size_t i = (heap->regions[0].base - heap->base) / CHUNK_BYTES;
		i < heap->chunk_count; i++)
		CHECK(heap->chunks[i] != NULL && heap->chunks[i]->records);
	for (size_t chunks = 1; chunks < 100; chunks++)
		for (unsigned contexts = 1; contexts < 9; contexts++) {
			size_t bytes = fl_table_bytes(chunks, contexts);

			CHECK(bytes < fl_table_bytes(chunks + 1, contexts));
			CHECK(bytes < fl_table_bytes(chunks, contexts + 1));
		}
	/* A fifth of a percent for the records, as core/heap.h says, where a
	 * slice is 64 KiB. */
	CHECK((CHUNK_TABLE_BYTES + RECORDS_BYTES) * 400 <
		CHUNK_BYTES * (64 * 1024 / SLICE_BYTES));
	rig_end_now(rig, true);
}

/* Direct: more records than one extent holds; all goes back at the end. */
static void test_table_direct_extents(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_DIRECT, 128 * MIB, 1);
	struct heap *heap = white_heap(rig);
	struct op op = white_op(rig, 0);
	const struct extent *extent;
	size_t bytes = 0, n = 0;

	for (unsigned i = 0; i < 40; i++) {
		CHECK_EQUAL(fl_region_grow(&op, CHUNK_SLICES, SLICE_BYTES),
			GROW_YES);
		CHECK_EQUAL(fl_region_grow(&op, 0, SLICE_BYTES), GROW_YES);
	}
	for (size_t i = 0; i < heap->chunk_count; i++)
		while (heap->chunks[i] != NULL &&
			!fl_table_records(heap, heap->chunks[i]))
			CHECK_EQUAL(fl_region_grow(&op, 0, SLICE_BYTES),
				GROW_YES);
	op_drop(&op);
	for (extent = heap->extents; extent != NULL; extent = extent->next) {
		bytes += extent->size;
		n++;
	}
	CHECK(n >= 3);
	CHECK_EQUAL(heap->counters.tables, bytes);
	CHECK_EQUAL(rig->sim.committed,
		bytes + heap->counters.committed);
	white_check(rig);
	/* sim_end() in here sees what is not given back. */
	rig_end_now(rig, true);
}

/* Direct: one extent more is enough, for any number of chunks, though its first
 * line is its own: also where what is needed fills whole granules. */
static void test_table_direct_line(void)
{
	bool whole = false;

	for (size_t n = 300; n < 340; n++) {
		struct rig *rig =
			rig_begin(FALLOW_CLASS_DIRECT, 64 * MIB, 1);
		struct heap *heap = white_heap(rig);
		size_t need = n * CHUNK_TABLE_BYTES + RECORDS_BYTES;
		struct op op = white_op(rig, 0);
		size_t tables = heap->counters.tables;

		whole = whole || need % GRANULE_BYTES == 0;
		/* If it never is, the memory ends some time. */
		rig->sim.budget = rig->sim.committed + MIB;
		heap->growing = true;
		CHECK(fl_table_reach(&op, 0, n));
		heap->kept = 0;
		heap->growing = false;
		op_drop(&op);
		CHECK(heap->counters.tables - tables <=
			need + GRANULE_BYTES);
		CHECK_EQUAL(rig->sim.refused, 0);
		rig_end_now(rig, true);
	}
	CHECK(whole);
}

const struct test tests[] = {
	{ "table_window_layout", test_table_window_layout },
	{ "table_locals", test_table_locals },
	{ "table_take", test_table_take },
	{ "table_kept", test_table_kept },
	{ "table_records", test_table_records },
	{ "table_bytes", test_table_bytes },
	{ "table_direct_extents", test_table_direct_extents },
	{ "table_direct_line", test_table_direct_line },
	{ NULL, NULL },
};
