/* SPDX-License-Identifier: MIT */
/*
 * What stays although it could go, and for how long: the hold, the floor, the
 * pages that classes allocate from.
 */
#include "class.h"
#include "floor.h"
#include "swept.h"

/* Slices in use, side by side, with so many granules each, from their begins:
 * when they are given back, pieces of that size. */
static struct run pieces_make(
	struct rig *rig, const unsigned *granules, unsigned n)
{
	struct run run = white_slices(rig, n);
	struct op op = white_op(rig, 0);

	for (unsigned i = 0; i < n; i++)
		CHECK(fl_memory_populate(&op, run.chunk->base +
				(run.first + i) * SLICE_BYTES,
			      granules[i] * GRANULE_BYTES, false) &
			FALLOW_COMMIT_DONE);
	op_drop(&op);
	return run;
}

/* Gives pieces [first, first + n) back. */
static void pieces_give(
	struct rig *rig, struct run run, unsigned first, unsigned n)
{
	fl_chunk_give(white_heap(rig),
		run.chunk->base + (run.first + first) * SLICE_BYTES, n,
		heap_epoch(white_heap(rig)));
}

/* Whether the piece is there. */
static bool piece_stays(struct rig *rig, struct run run, unsigned piece)
{
	return fl_memory_populated(white_heap(rig),
		run.chunk->base + (run.first + piece) * SLICE_BYTES,
		GRANULE_BYTES);
}

/* Free memory stays for two epochs; what is used in every other does not go. */
static void test_sweep_hold(void)
{
	struct rig *rig = clock_begin(
		FALLOW_CLASS_WINDOW, WIDE, FALLOW_FLOOR_NONE);
	void *blocks[2];

	for (unsigned i = 0; i < 2; i++)
		blocks[i] = fallow_alloc(&rig->heap, 256 * KIB);
	epochs(rig, 4);
	fallow_free(&rig->heap, blocks[1]);
	CHECK(sweep(rig) != 0);
	CHECK_EQUAL(committed(rig), 2 * 256 * KIB);
	epochs(rig, 1);
	CHECK_EQUAL(committed(rig), 2 * 256 * KIB);
	for (unsigned n = 0; n < 6; n++) {
		epochs(rig, 1);
		if (n % 2 == 0)
			fallow_free(&rig->heap, blocks[0]);
		else
			blocks[0] = fallow_alloc(&rig->heap, 256 * KIB);
		CHECK_EQUAL(committed(rig), 256 * KIB);
	}
	fallow_free(&rig->heap, blocks[0]);
	epochs(rig, 3);
	CHECK_EQUAL(committed(rig), 0);
	white_end(rig);
}

/* The floor keeps what was used last, and only so much. */
static void test_sweep_floor_recent_first(void)
{
	struct rig *rig = clock_begin(
		FALLOW_CLASS_WINDOW, WIDE, 2 * MIB);
	void *spans[3];

	for (unsigned i = 0; i < 3; i++)
		spans[i] = fallow_alloc(&rig->heap, 2 * MIB);
	for (unsigned i = 0; i < 3; i++) {
		fallow_free(&rig->heap, spans[i]);
		epochs(rig, 8);
	}
	epochs(rig, 2);
	CHECK_EQUAL(committed(rig), 2 * MIB);
	/* It is the last one that has been kept. */
	CHECK(fl_memory_populated(
		white_heap(rig), (uintptr_t)spans[2], 2 * MIB));
	/* And it goes in time. */
	epochs(rig, FALLOW_FLOOR_EPOCHS);
	CHECK_EQUAL(committed(rig), 0);
	white_end(rig);
}

/* What does not fit does not stop what is smaller: a piece of 16 granules,
 * younger, and one of four, older, in a floor of eight. */
static void test_sweep_floor_smaller_fits(void)
{
	static const unsigned granules[] = { 4, 16 };
	struct rig *rig = clock_begin(
		FALLOW_CLASS_WINDOW, WIDE, 8 * GRANULE_BYTES);
	struct run run = pieces_make(rig, granules, 2);

	pieces_give(rig, run, 0, 1);
	/* Ages are told apart in 64 steps. */
	epochs(rig, 8);
	CHECK(piece_stays(rig, run, 0));
	pieces_give(rig, run, 1, 1);
	epochs(rig, 6);
	CHECK(piece_stays(rig, run, 0));
	CHECK(!piece_stays(rig, run, 1));
	white_check(rig);
	rig_end_now(rig, true);
}

/* The floor counts what is there: memory that nobody touched takes no room in
 * it. */
static void test_sweep_floor_counts_formed(void)
{
	struct rig *rig = clock_begin(
		FALLOW_CLASS_WINDOW, WIDE, 2 * MIB);
	struct heap *heap = white_heap(rig);
	struct op op;

	/* Of eight slices one was ever formed. */
	fallow_free(&rig->heap,
		fallow_alloc(&rig->heap, class_size(CLASS_COUNT - 1)));
	op = white_op(rig, 0);
	fl_class_trim_all(&op);
	op_drop(&op);
	epochs(rig, 6);
	CHECK_EQUAL(heap->sweeping.floor_kept * GRANULE_BYTES,
		class_size(CLASS_COUNT - 1));
	epochs(rig, FALLOW_FLOOR_EPOCHS + 4);
	CHECK_EQUAL(committed(rig), 0);
	white_end(rig);
}

/* A heap that was never big has no big floor: 1/64 of its addresses. */
static void test_sweep_floor_share(void)
{
	struct rig *rig = clock_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 0);
	void *spans[8];

	for (unsigned i = 0; i < 8; i++)
		spans[i] = fallow_alloc(&rig->heap, MIB);
	for (unsigned i = 0; i < 8; i++)
		fallow_free(&rig->heap, spans[i]);
	epochs(rig, 4);
	CHECK(committed(rig) <= MIB);
	CHECK(committed(rig) >= MIB - SLICE_BYTES);
	epochs(rig, FALLOW_FLOOR_EPOCHS);
	CHECK_EQUAL(committed(rig), 0);
	white_end(rig);
}

/* The page that a class allocates from stays for a while with what it has
 * free, its tail apart, in all at most a MiB. */
static void test_sweep_current(void)
{
	struct rig *rig = clock_begin(FALLOW_CLASS_WINDOW, WIDE, 0);
	struct crowd crowd = crowd_begin(rig, 4000);
	size_t kept;

	for (unsigned class = 0; class < CLASS_COUNT; class++)
		for (unsigned i = 0; i < 8; i++)
			crowd_add(&crowd, class_size(class));
	while (crowd.count > 0)
		crowd_free(&crowd, crowd.count - 1);
	epochs(rig, 4);
	kept = committed(rig);
	/* Beside it free slices may be in the floor. */
	CHECK(kept > 0);
	CHECK(kept <= MIB + 4 * MIB);
	fallow_reclaim(&rig->heap, FALLOW_RECLAIM_HOLD);
	CHECK(committed(rig) > 0);
	CHECK(drain(rig, FALLOW_FLOOR_EPOCHS + 8) > 200);
	CHECK_EQUAL(committed(rig), 0);
	crowd_end(&crowd);
}

/* The same with blocks in use, at the same number for ever: in the end it goes
 * as any other, and nothing is left. */
static void test_sweep_current_drains(void)
{
	struct rig *rig = clock_begin(FALLOW_CLASS_WINDOW, WIDE, 0);
	void *blocks[64];
	struct page *page;

	for (unsigned i = 0; i < 64; i++)
		blocks[i] = fallow_alloc(&rig->heap, 512);
	page = white_page(rig, blocks[0]);
	for (unsigned i = 1; i < 64; i++)
		fallow_free(&rig->heap, blocks[i]);
	CHECK_EQUAL(page->place, PLACE_CURRENT);
	epochs(rig, 100);
	CHECK_EQUAL(page->committed, 64 * 512);
	drain(rig, FALLOW_FLOOR_EPOCHS + 8);
	CHECK_EQUAL(page->committed, GRANULE_BYTES);
	CHECK_EQUAL(committed(rig), GRANULE_BYTES);
	fallow_free(&rig->heap, blocks[0]);
	white_end(rig);
}

/* The same for a full page that serves where it is, as long as less than an
 * eighth of it is free: a granule of that stays, too. */
static void test_sweep_current_full(void)
{
	struct rig *rig = clock_begin(FALLOW_CLASS_WINDOW, WIDE, 0);
	struct heap *heap = white_heap(rig);
	struct local *local = heap->locals[0];
	void *blocks[256];
	struct page *page;
	uint32_t n, i;

	for (i = 0; i < 256; i++)
		blocks[i] = fallow_alloc(&rig->heap, 512);
	page = white_page(rig, blocks[0]);
	n = page->capacity;
	CHECK(2 * n <= 256 && page->place == PLACE_FULL);
	for (i = 2 * n; i < 256; i++)
		fallow_free(&rig->heap, blocks[i]);
	fl_local_account(heap, local->current[page->class]);
	for (i = 0; i < page_worth(page); i++)
		fallow_free(&rig->heap, blocks[i]);
	CHECK(local->current[page->class] == page);
	blocks[0] = fallow_alloc(&rig->heap, 512);
	CHECK(white_page(rig, blocks[0]) == page);
	CHECK_EQUAL(page->place, PLACE_FULL);
	CHECK((page_worth(page) - 1u) * 512 >= 2 * GRANULE_BYTES - 512);
	epochs(rig, 100);
	CHECK(!fl_hole_any(heap, page));
	CHECK_EQUAL(page->place, PLACE_FULL);
	drain(rig, FALLOW_FLOOR_EPOCHS + 8);
	CHECK(fl_hole_any(heap, page));
	fallow_free(&rig->heap, blocks[0]);
	for (i = page_worth(page); i < 2 * n; i++)
		fallow_free(&rig->heap, blocks[i]);
	white_end(rig);
}

/* A reclaim in the middle of an epoch does not take from this epoch's sweeps what
 * they keep; and what was freed since the epoch began is not in the floor for
 * being young. */
static void test_floor_reclaim_spends_nothing(void)
{
	struct rig *rig = clock_begin(
		FALLOW_CLASS_WINDOW, WIDE, 2 * MIB);
	void *spans[5], *small;

	for (unsigned i = 0; i < 5; i++)
		spans[i] = fallow_alloc(&rig->heap, MIB);
	small = fallow_alloc(&rig->heap, 512);
	for (unsigned i = 0; i < 3; i++)
		fallow_free(&rig->heap, spans[i]);
	epochs(rig, 1);
	for (unsigned i = 0; i < 3; i++) {
		fallow_reclaim(&rig->heap, FALLOW_RECLAIM_HOLD);
		CHECK_EQUAL(committed(rig), 4 * MIB + GRANULE_BYTES);
	}
	fallow_free(&rig->heap, spans[3]);
	fallow_free(&rig->heap, spans[4]);
	fallow_reclaim(&rig->heap, FALLOW_RECLAIM_HOLD);
	CHECK_EQUAL(committed(rig), 2 * MIB + GRANULE_BYTES);
	epochs(rig, 1);
	CHECK_EQUAL(committed(rig), 2 * MIB + GRANULE_BYTES);
	fallow_free(&rig->heap, small);
	white_end(rig);
}

/* What came since the epoch began is not kept for being as young as what fits:
 * a reclaim counts anew. */
static void test_floor_reclaim_counts_anew(void)
{
	struct rig *rig = clock_begin(
		FALLOW_CLASS_WINDOW, WIDE, 2 * MIB);
	void *spans[5];

	for (unsigned i = 0; i < 5; i++)
		spans[i] = fallow_alloc(&rig->heap, MIB);
	fallow_free(&rig->heap, spans[0]);
	epochs(rig, 1);
	for (unsigned i = 1; i < 5; i++)
		fallow_free(&rig->heap, spans[i]);
	fallow_reclaim(&rig->heap, FALLOW_RECLAIM_HOLD);
	CHECK_EQUAL(committed(rig), 2 * MIB);
	white_end(rig);
}

/* Of one age, what does not fit stops nothing smaller behind it. */
static void test_floor_smaller_behind(void)
{
	static const unsigned granules[] = { 16, 16, 5, 16, 4, 2, 1, 3 };
	static const bool stays[] = { 1, 0, 1, 0, 0, 1, 1, 0 };
	struct rig *rig = clock_begin(
		FALLOW_CLASS_WINDOW, WIDE, 24 * GRANULE_BYTES);
	struct run run = pieces_make(rig, granules, 8);

	pieces_give(rig, run, 0, 8);
	epochs(rig, 3);
	for (unsigned i = 0; i < 8; i++)
		CHECK_EQUAL(piece_stays(rig, run, i), stays[i]);
	white_check(rig);
	rig_end_now(rig, true);
}

/* Nor does a reclaim spend what current pages may keep. */
static void test_floor_reclaim_current(void)
{
	struct rig *rig = clock_begin(
		FALLOW_CLASS_WINDOW, WIDE, GRANULE_BYTES);
	struct crowd crowd = crowd_begin(rig, 200);
	size_t kept;

	/* Ten medium pages of 120 KiB. */
	for (unsigned i = 0; i < 10; i++)
		for (unsigned n = 0; n < 8; n++)
			crowd_add(&crowd, class_size(CLASS_FIRST_MEDIUM + i));
	while (crowd.count > 0)
		crowd_free(&crowd, crowd.count - 1);
	epochs(rig, 1);
	fallow_reclaim(&rig->heap, FALLOW_RECLAIM_HOLD);
	kept = committed(rig);
	CHECK(kept > MIB / 2);
	for (unsigned i = 0; i < 4; i++)
		fallow_reclaim(&rig->heap, FALLOW_RECLAIM_HOLD);
	CHECK_EQUAL(committed(rig), kept);
	crowd_end(&crowd);
}

/* What can never go takes no room: fixed slices of class direct. */
static void test_floor_counts_what_can_go(void)
{
	struct rig *rig = clock_begin(FALLOW_CLASS_DIRECT, WIDE, MIB);
	struct heap *heap = white_heap(rig);
	struct chunk *chunk = NULL;
	unsigned slice;
	size_t number, kept;

	fallow_free(&rig->heap, fallow_alloc(&rig->heap, MIB));
	for (number = 0; number < heap->chunk_count; number++)
		if (heap->chunks[number] != NULL &&
			heap->chunks[number]->warm != 0)
			chunk = heap->chunks[number];
	CHECK_OR_RETURN(chunk != NULL);
	epochs(rig, 1);
	kept = heap->sweeping.floor_kept;
	CHECK(kept >= SLICE_GRANULES);
	slice = (unsigned)__builtin_ctz(chunk->warm);
	chunk->fixed |= slice_mask(slice, 1);
	epochs(rig, 1);
	CHECK_EQUAL(heap->sweeping.floor_kept, kept - SLICE_GRANULES);
	chunk->fixed &= ~slice_mask(slice, 1);
	white_end(rig);
}

/* The floor is one sum however many calls it takes to find what goes: a chunk
 * with more of it than one call of the provider carries. */
static void test_floor_many_calls(void)
{
	struct rig *rig = clock_begin(
		FALLOW_CLASS_WINDOW, WIDE, 24 * SLICE_BYTES);
	struct heap *heap = white_heap(rig);
	struct run run = white_slices(rig, CHUNK_SLICES);
	struct op op = white_op(rig, 0);

	/* Every other granule: each slice takes eight ranges. */
	for (unsigned i = 0; i < CHUNK_SLICES * SLICE_GRANULES; i += 2)
		(void)fl_memory_populate(&op, run.chunk->base +
				i * GRANULE_BYTES, GRANULE_BYTES, false);
	op_drop(&op);
	heap->sweeping.floor_wanted = 24 * SLICE_BYTES / 2;
	fl_chunk_give(heap, run.chunk->base, CHUNK_SLICES, heap->epoch);
	epochs(rig, 5);
	CHECK_EQUAL(committed(rig), 24 * SLICE_BYTES / 2);
	epochs(rig, FALLOW_FLOOR_EPOCHS);
	CHECK_EQUAL(committed(rig), 0);
	white_check(rig);
	rig_end_now(rig, true);
}

const struct test tests[] = {
	{ "sweep_hold", test_sweep_hold },
	{ "sweep_floor_recent_first", test_sweep_floor_recent_first },
	{ "sweep_floor_smaller_fits", test_sweep_floor_smaller_fits },
	{ "sweep_floor_counts_formed", test_sweep_floor_counts_formed },
	{ "sweep_floor_share", test_sweep_floor_share },
	{ "sweep_current", test_sweep_current },
	{ "sweep_current_drains", test_sweep_current_drains },
	{ "sweep_current_full", test_sweep_current_full },
	{ "floor_reclaim_spends_nothing", test_floor_reclaim_spends_nothing },
	{ "floor_reclaim_counts_anew", test_floor_reclaim_counts_anew },
	{ "floor_smaller_behind", test_floor_smaller_behind },
	{ "floor_reclaim_current", test_floor_reclaim_current },
	{ "floor_counts_what_can_go", test_floor_counts_what_can_go },
	{ "floor_many_calls", test_floor_many_calls },
	{ NULL, NULL },
};
