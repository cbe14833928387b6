/* SPDX-License-Identifier: MIT */
/*
 * Where chunks come from: opened one after the other in a window, reserved in
 * class direct, there from the begin in class flat; regions that share a chunk
 * and regions that come late; one call at a time that extends the tables.
 */
#include <pthread.h>
#include <sched.h>

#include "white.h"

#define MIB ((size_t)1 << 20)
#define KIB ((size_t)1 << 10)

/* A window heap without a region. */
static struct rig *begin_bare(size_t window)
{
	struct rig *rig = rig_prepare(FALLOW_CLASS_WINDOW, window, 1);

	CHECK_EQUAL(fallow_init(&rig->heap, &rig->config), FALLOW_OK);
	return rig;
}

static enum grow grow(struct rig *rig, size_t n, size_t align, unsigned flags)
{
	struct op op = white_op(rig, 0);
	enum grow result;

	op.flags = flags;
	result = fl_region_grow(&op, n, align);
	op_drop(&op);
	CHECK(!white_heap(rig)->growing);
	CHECK_EQUAL(white_heap(rig)->kept, 0);
	return result;
}

static uint32_t present(struct rig *rig, size_t number)
{
	const struct chunk *chunk = white_heap(rig)->chunks[number];

	return chunk == NULL ? 0 : chunk->present;
}

/* One chunk a time, the region's lowest first; memory for tables alone. */
static void test_region_opens_in_order(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, 16 * MIB, 1);
	struct heap *heap = white_heap(rig);
	size_t first = (heap->regions[0].base - heap->base) >> CHUNK_LOG2;

	CHECK(first == 0 && heap->chunk_count == 0);
	for (size_t i = 0; i < 8; i++) {
		CHECK_EQUAL(grow(rig, 1, SLICE_BYTES, 0), GROW_YES);
		CHECK_EQUAL(heap->chunk_count, i + 1);
		CHECK_EQUAL(heap->map_slices, (i + 1) * CHUNK_SLICES);
		CHECK_EQUAL(heap->regions[0].frontier, i + 1);
		if (i > 0)
			CHECK_EQUAL(present(rig, i), UINT32_MAX);
		CHECK_EQUAL(heap->counters.committed, 0);
		white_check(rig);
	}
	/* The tables' slices are not the region's. */
	CHECK_EQUAL(present(rig, 0),
		UINT32_MAX << ((heap->tables_end - heap->base + SLICE_BYTES -
				       1) >> FALLOW_SLICE_LOG2));
	CHECK_EQUAL(grow(rig, 1, SLICE_BYTES, 0), GROW_NO);
	/* Records can still be had, for a chunk that has none. */
	CHECK_EQUAL(grow(rig, 0, SLICE_BYTES, 0), GROW_YES);
	rig_end_now(rig, true);
}

/* Many at once, from an aligned one on: those before it are opened too. */
static void test_region_opens_aligned(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 1);
	struct heap *heap = white_heap(rig);

	/* The sim's arena is aligned to 256 MiB, its base a chunk behind. */
	CHECK_EQUAL(heap->base % (8 * MIB), 2 * MIB);
	CHECK_EQUAL(grow(rig, 2 * CHUNK_SLICES + 1, 8 * MIB, 0), GROW_YES);
	/* Chunk 3 is the first that is aligned. */
	CHECK_EQUAL(heap->chunk_count, 6);
	CHECK(fl_chunk_take_run(heap, 2 * CHUNK_SLICES + 1, 8 * MIB).chunk ==
		heap->chunks[3]);
	CHECK_EQUAL(grow(rig, 64 * CHUNK_SLICES, SLICE_BYTES, 0), GROW_NO);
	CHECK_EQUAL(grow(rig, 1, (size_t)1 << 40, 0), GROW_NO);
	CHECK_EQUAL(heap->chunk_count, 6);
	rig_end_now(rig, true);
}

/* All that there is can be had at once, and not a chunk more. */
static void test_region_opens_all(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, 16 * MIB, 1);

	CHECK_EQUAL(grow(rig, 8 * CHUNK_SLICES + 1, SLICE_BYTES, 0), GROW_NO);
	CHECK_EQUAL(white_heap(rig)->chunk_count, 0);
	CHECK_EQUAL(grow(rig, 8 * CHUNK_SLICES, SLICE_BYTES, 0), GROW_YES);
	CHECK_EQUAL(white_heap(rig)->chunk_count, 8);
	white_check(rig);
	rig_end_now(rig, true);
}

/* Two regions in one chunk: opened once, with the slices of both. */
static void test_region_shared_chunk(void)
{
	struct rig *rig = begin_bare(16 * MIB);
	uintptr_t base = rig->sim.base;

	CHECK_EQUAL(fallow_add_region(
			    &rig->heap, base + 4 * MIB, 2 * MIB + 192 * KIB),
		FALLOW_OK);
	CHECK_EQUAL(fallow_add_region(&rig->heap, base + 7 * MIB, 2 * MIB),
		FALLOW_OK);
	CHECK_EQUAL(grow(rig, 1, SLICE_BYTES, 0), GROW_YES);
	CHECK_EQUAL(present(rig, 2), UINT32_MAX);
	CHECK_EQUAL(present(rig, 3), 0);
	CHECK_EQUAL(grow(rig, 1, SLICE_BYTES, 0), GROW_YES);
	CHECK_EQUAL(present(rig, 3), 0xffff0007);
	white_check(rig);
	/* The second region's first chunk is open already. */
	CHECK_EQUAL(grow(rig, 1, SLICE_BYTES, 0), GROW_YES);
	CHECK_EQUAL(present(rig, 4), 0x0000ffff);
	CHECK_EQUAL(grow(rig, 1, SLICE_BYTES, 0), GROW_NO);
	CHECK_EQUAL(white_heap(rig)->counters.reserved,
		4 * MIB + 192 * KIB);
	white_check(rig);
	rig_end_now(rig, true);
}

/* A region that comes when the chunk at its end, or begin, is open: its slices
 * are there at once, its other chunks are opened later. */
static void test_region_late(void)
{
	struct rig *rig = begin_bare(16 * MIB);
	uintptr_t base = rig->sim.base;

	CHECK_EQUAL(fallow_add_region(&rig->heap, base + 7 * MIB, 2 * MIB),
		FALLOW_OK);
	CHECK_EQUAL(grow(rig, CHUNK_SLICES, SLICE_BYTES, 0), GROW_YES);
	CHECK_EQUAL(grow(rig, 1, SLICE_BYTES, 0), GROW_YES);
	CHECK_EQUAL(present(rig, 3), 0xffff0000);
	CHECK_EQUAL(present(rig, 4), 0x0000ffff);
	CHECK_EQUAL(fallow_add_region(&rig->heap, base + 4 * MIB, 3 * MIB),
		FALLOW_OK);
	CHECK_EQUAL(present(rig, 2), 0);
	CHECK_EQUAL(present(rig, 3), UINT32_MAX);
	CHECK_EQUAL(fallow_add_region(
			    &rig->heap, base + 9 * MIB + 64 * KIB, MIB),
		FALLOW_OK);
	CHECK_EQUAL(present(rig, 4), 0x0000ffff | 0xfffe0000);
	CHECK_EQUAL(present(rig, 5), 0);
	white_check(rig);
	/* The two whole chunks and the pieces hold what they should. */
	while (grow(rig, 1, SLICE_BYTES, 0) == GROW_YES)
		;
	CHECK_EQUAL(present(rig, 2), UINT32_MAX);
	CHECK_EQUAL(present(rig, 5), 0x00000001);
	CHECK(fl_chunk_take_run(white_heap(rig), 64 + 16, SLICE_BYTES).chunk);
	rig_end_now(rig, true);
}

/* A region inside of one chunk that is open: added once. */
static void test_region_inside_open_chunk(void)
{
	struct rig *rig = begin_bare(16 * MIB);
	uintptr_t base = rig->sim.base + 4 * MIB;

	CHECK_EQUAL(fallow_add_region(&rig->heap, base, 64 * KIB),
		FALLOW_OK);
	CHECK_EQUAL(grow(rig, 1, SLICE_BYTES, 0), GROW_YES);
	CHECK_EQUAL(fallow_add_region(
			    &rig->heap, base + 256 * KIB, 128 * KIB),
		FALLOW_OK);
	CHECK_EQUAL(present(rig, 2), 0x31);
	CHECK_EQUAL(white_heap(rig)->chunks[2]->free, 0x31);
	white_check(rig);
	rig_end_now(rig, true);
}

/* Only whole slices are used, whatever the region's ends are. */
static void test_region_trimmed(void)
{
	struct rig *rig = begin_bare(16 * MIB);
	uintptr_t base = rig->sim.base + 4 * MIB;

	CHECK_EQUAL(fallow_add_region(&rig->heap, base + GRANULE_BYTES,
			    128 * KIB - 2 * GRANULE_BYTES),
		FALLOW_REGION_TOO_SMALL);
	CHECK_EQUAL(fallow_add_region(&rig->heap, base + GRANULE_BYTES,
			    192 * KIB - 2 * GRANULE_BYTES),
		FALLOW_OK);
	CHECK_EQUAL(grow(rig, 1, SLICE_BYTES, 0), GROW_YES);
	CHECK_EQUAL(present(rig, 2), 0x2);
	CHECK_EQUAL(white_heap(rig)->counters.reserved, SLICE_BYTES);
	rig_end_now(rig, true);
}

/* NOWAIT never grows, whatever others do. */
static void test_region_nowait(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, 16 * MIB, 1);
	uint64_t calls = rig->sim.calls;

	/* Nor does it wait for the lock. */
	white_lock_hold(white_heap(rig));
	CHECK_EQUAL(grow(rig, 1, SLICE_BYTES, FALLOW_NOWAIT), GROW_NO);
	white_lock_release(white_heap(rig));
	CHECK_EQUAL(rig->sim.calls, calls);
	CHECK_EQUAL(white_heap(rig)->chunk_count, 0);
	rig_end_now(rig, true);
}

/* No memory for tables: nothing is opened, and the next call may succeed. */
static void test_region_tables_refused(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, 16 * MIB, 1);
	uint64_t n;

	for (n = 1; n < 10; n++) {
		rig->sim.refuse_call = rig->sim.calls + n;
		if (grow(rig, 1, SLICE_BYTES, 0) == GROW_YES)
			break;
		CHECK(white_heap(rig)->chunk_count == 0 ||
			present(rig, 0) == 0);
		CHECK(fallow_check(&rig->heap, NULL) == NULL);
	}
	/* Chunk pointers, slice map, records. */
	CHECK(n > 1 && n < 10);
	white_check(rig);
	rig_end_now(rig, true);
}

/* Direct: a chunk, or less where there is no more; given slices are there,
 * and are not fixed. */
static void test_region_direct(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_DIRECT, 16 * MIB, 1);
	struct heap *heap = white_heap(rig);
	size_t before = rig->sim.committed;

	CHECK_EQUAL(grow(rig, 3, SLICE_BYTES, 0), GROW_YES);
	CHECK_EQUAL(heap->counters.reserved, CHUNK_BYTES);
	CHECK_EQUAL(heap->counters.committed, CHUNK_BYTES);
	white_check(rig);
	/* With less RAM than that, half, a quarter... what is needed. */
	rig->sim.budget = rig->sim.committed + 512 * KIB;
	CHECK_EQUAL(grow(rig, 3, SLICE_BYTES, 0), GROW_YES);
	CHECK_EQUAL(heap->counters.reserved, CHUNK_BYTES + 512 * KIB);
	rig->sim.budget = rig->sim.committed + 192 * KIB;
	CHECK_EQUAL(grow(rig, 4, SLICE_BYTES, 0), GROW_NO);
	CHECK_EQUAL(grow(rig, 3, SLICE_BYTES, 0), GROW_YES);
	CHECK_EQUAL(heap->counters.reserved, CHUNK_BYTES + 704 * KIB);
	rig->sim.budget = 0;
	for (size_t i = 0; i < heap->chunk_count; i++)
		if (heap->chunks[i] != NULL)
			CHECK_EQUAL(heap->chunks[i]->fixed, 0);
	white_check(rig);
	/* More than a chunk: exactly that, aligned as asked. */
	CHECK_EQUAL(grow(rig, 40, 4 * MIB, 0), GROW_YES);
	CHECK_EQUAL(heap->counters.reserved,
		CHUNK_BYTES + 704 * KIB + 40 * SLICE_BYTES);
	CHECK(fl_chunk_take_run(heap, 40, 4 * MIB).chunk != NULL);
	CHECK(rig->sim.committed > before);
	rig_end_now(rig, true);
}

/* Flat: all of a region is there, with its memory, and never more. */
static void test_region_flat(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_FLAT, 8 * MIB, 1);
	struct heap *heap = white_heap(rig);
	size_t slices = 0;

	for (size_t i = 0; i < heap->chunk_count; i++) {
		const struct chunk *chunk = heap->chunks[i];

		CHECK_OR_RETURN(chunk != NULL && chunk->records != NULL);
		slices += bits_count(chunk->present);
		CHECK_EQUAL(chunk->warm, chunk->free);
		CHECK_EQUAL(chunk->fixed, chunk->present);
	}
	CHECK_EQUAL(heap->counters.reserved, slices * SLICE_BYTES);
	CHECK_EQUAL(heap->counters.committed, slices * SLICE_BYTES);
	CHECK(slices >= 126 && slices < 128);
	CHECK_EQUAL(grow(rig, 1, SLICE_BYTES, 0), GROW_NO);
	CHECK_EQUAL(grow(rig, 0, SLICE_BYTES, 0), GROW_NO);
	white_check(rig);
	rig_end_now(rig, true);
}

/* The same where the tables have room for no more chunks than there are: what
 * a neighbour opened needs none, and the end is NULL, not a search for ever. */
static void test_region_shared_limit(void)
{
	struct rig *rig = begin_bare(4 * MIB);
	uintptr_t base = rig->sim.base;
	unsigned n = 0;

	CHECK_EQUAL(fallow_add_region(&rig->heap, base, 3 * MIB), FALLOW_OK);
	CHECK_EQUAL(fallow_add_region(&rig->heap, base + 3 * MIB, MIB),
		FALLOW_OK);
	while (n < 8 * KIB && fallow_alloc(&rig->heap, 1024) != NULL)
		n++;
	CHECK(n > 3 * KIB && n <= 4 * KIB);
	CHECK_EQUAL(present(rig, 1), UINT32_MAX);
	CHECK_EQUAL(white_heap(rig)->regions[0].frontier, 2);
	CHECK_EQUAL(white_heap(rig)->regions[1].frontier, 2);
	white_check(rig);
	rig_end_now(rig, true);
}

/* A span may lie in the free slices before the frontier and in chunks that are
 * opened for it. */
static void test_region_before_frontier(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 1);
	void *p;

	/* The tables are in the first chunk, so it alone is not enough. */
	CHECK(fallow_alloc(&rig->heap, 62 * MIB) != NULL);
	white_check(rig);
	rig_end_now(rig, true);
	rig = rig_begin(FALLOW_CLASS_WINDOW, 100 * MIB, 1);
	p = fallow_alloc(&rig->heap, 60 * MIB);
	CHECK(p != NULL);
	fallow_free(&rig->heap, p);
	CHECK(fallow_alloc(&rig->heap, 70 * MIB) != NULL);
	white_check(rig);
	rig_end_now(rig, true);
}

/* What a thread is to do: add a region. */
struct adding {
	struct rig *rig;
	uintptr_t base;
	enum fallow_status status;
};

static void *add_late(void *arg)
{
	struct adding *adding = arg;

	adding->status = fallow_add_region(
		&adding->rig->heap, adding->base, 4 * MIB);
	return NULL;
}

/*
 * With ticket `first` of a lock the test's, lets a thread have the lock once,
 * which waits for it or will; returns when it waits for its second turn, and
 * the lock is the test's, with ticket first + 2.
 */
static void second_turn_await(struct lock *lock, uint32_t first)
{
	while (fl_load_acquire(&lock->next) != first + 2)
		sched_yield();
	fl_store_relaxed(&lock->next, first + 3);
	fl_store_release(&lock->serving, first + 1);
	while (fl_load_acquire(&lock->next) != first + 4)
		sched_yield();
}

/* Class direct: the tables in a late region's head are not the heap's before
 * its chunks have them; until then others find what there was. */
static void test_region_direct_late(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_DIRECT, 64 * MIB, 1);
	struct fallow_provider *from = &rig->sim.provider;
	struct lock *lock = &white_heap(rig)->lock;
	struct adding adding = { .rig = rig };
	uint32_t first = lock->next;
	pthread_t thread;

	if (FALLOW_MODEL == FALLOW_MODEL_SINGLE) {
		test_skip("two threads");
		rig_end_now(rig, true);
		return;
	}
	adding.base = from->reserve(from->ctx, 4 * MIB, 2 * MIB);
	while (fl_table_take(white_heap(rig), 64) != NULL)
		;
	lock->next += 1;
	CHECK_EQUAL(pthread_create(&thread, NULL, add_late, &adding), 0);
	second_turn_await(lock, first);
	CHECK(fl_table_take(white_heap(rig), 64) == NULL);
	fl_store_release(&lock->serving, first + 3);
	CHECK_EQUAL(pthread_join(thread, NULL), 0);
	CHECK_EQUAL(adding.status, FALLOW_OK);
	CHECK(fallow_alloc(&rig->heap, MIB) != NULL);
	white_check(rig);
	fallow_fini(&rig->heap);
	from->release(from->ctx, adding.base, 4 * MIB);
	rig_end_now(rig, false);
}

const struct test tests[] = {
	{ "region_opens_in_order", test_region_opens_in_order },
	{ "region_opens_aligned", test_region_opens_aligned },
	{ "region_opens_all", test_region_opens_all },
	{ "region_shared_chunk", test_region_shared_chunk },
	{ "region_late", test_region_late },
	{ "region_inside_open_chunk", test_region_inside_open_chunk },
	{ "region_trimmed", test_region_trimmed },
	{ "region_nowait", test_region_nowait },
	{ "region_tables_refused", test_region_tables_refused },
	{ "region_direct", test_region_direct },
	{ "region_flat", test_region_flat },
	{ "region_shared_limit", test_region_shared_limit },
	{ "region_before_frontier", test_region_before_frontier },
	{ "region_direct_late", test_region_direct_late },
	{ NULL, NULL },
};
