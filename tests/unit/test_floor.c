/* SPDX-License-Identifier: MIT */
/*
 * What stays although it could go, and for how long: the hold, the floor, the
 * pages that classes allocate from.
 */
#include "swept.h"

/* A page of large blocks that is in use stays whole for two epochs; then a
 * block that was free at two sweeps in a row goes, one that is free at every
 * other sweep does not. */
static void test_sweep_hold(void)
{
	struct rig *rig = clock_begin(
		FALLOW_CLASS_WINDOW, WIDE, FALLOW_FLOOR_NONE);
	struct heap *heap = white_heap(rig);
	void *blocks[8];
	struct page *page;

	for (unsigned i = 0; i < 8; i++)
		blocks[i] = fallow_alloc(&rig->heap, 256 * KIB);
	page = white_page(rig, blocks[0]);
	CHECK_EQUAL(page->capacity, 8);
	epochs(rig, 4);
	fallow_free(&rig->heap, blocks[5]);
	CHECK(sweep(rig) != 0);
	rig->sim.ticks += TICKS;
	/* The page is busy from here on: it is used in every epoch. */
	for (unsigned n = 0; n < 6; n++) {
		CHECK(n > 0 || !fl_hole_gone(heap, page, 5));
		if (n % 2 == 0)
			fallow_free(&rig->heap, blocks[2]);
		else
			blocks[2] = fallow_alloc(&rig->heap, 256 * KIB);
		CHECK(white_page(rig, blocks[2]) == page);
		sweep(rig);
		CHECK(!fl_hole_gone(heap, page, 2));
		rig->sim.ticks += TICKS;
	}
	CHECK(fl_hole_gone(heap, page, 5));
	CHECK_EQUAL(committed(rig), 7 * 256 * KIB);
	for (unsigned i = 0; i < 8; i++)
		if (i != 5)
			fallow_free(&rig->heap, blocks[i]);
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

/* What does not fit does not stop what is smaller: a page of 1.5 MiB free,
 * younger, and a span of 256 KiB, older, in a floor of 512 KiB. */
static void test_sweep_floor_smaller_fits(void)
{
	struct rig *rig = clock_begin(
		FALLOW_CLASS_WINDOW, WIDE, 512 * KIB);
	void *rest = fallow_alloc(&rig->heap, 600 * KIB);
	void *blocks[4];

	for (unsigned i = 0; i < 4; i++)
		blocks[i] = fallow_alloc(&rig->heap, 512 * KIB);
	epochs(rig, 3);
	CHECK_EQUAL(committed(rig), 2 * MIB + 600 * KIB);
	fallow_free(&rig->heap, rest);
	/* Ages are told apart in 64 steps. */
	epochs(rig, 8);
	for (unsigned i = 1; i < 4; i++)
		fallow_free(&rig->heap, blocks[i]);
	epochs(rig, 6);
	/* Of the span's 600 KiB 512 KiB are kept, slice by slice. */
	CHECK(committed(rig) > 512 * KIB + 400 * KIB);
	CHECK(committed(rig) <= 512 * KIB + 512 * KIB);
	fallow_free(&rig->heap, blocks[0]);
	white_end(rig);
}

/* The floor counts what is formed and there: memory that nobody touched, and
 * holes, take no room in it. */
static void test_sweep_floor_counts_formed(void)
{
	struct rig *rig = clock_begin(
		FALLOW_CLASS_WINDOW, WIDE, 2 * MIB);
	struct heap *heap = white_heap(rig);
	void *first[4], *block;
	struct page *page;

	/* Four pages of each of which a block alone was ever formed: what is
	 * kept of them is a block of 512 KiB each. */
	for (unsigned i = 0; i < 4; i++)
		first[i] = fallow_alloc(&rig->heap,
			class_size(CLASS_COUNT - 1 - i));
	block = fallow_alloc(&rig->heap, class_size(CLASS_COUNT - 1));
	page = white_page(rig, block);
	fallow_free(&rig->heap, block);
	epochs(rig, 6);
	CHECK(page->used < page->formed);
	CHECK(!fl_hole_any(heap, page));
	CHECK_EQUAL(heap->sweeping.floor_left < 2 * MIB ||
			heap->sweeping.floor_age > 0, 1);
	for (unsigned i = 0; i < 4; i++)
		fallow_free(&rig->heap, first[i]);
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

	for (unsigned class = 0; class < CLASS_FIRST_WHOLE; class++)
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

/* The same with blocks in use, at the same number for ever: in the end it has
 * holes as any other, and nothing is left. */
static void test_sweep_current_drains(void)
{
	struct rig *rig = clock_begin(FALLOW_CLASS_WINDOW, WIDE, 0);
	struct heap *heap = white_heap(rig);
	void *blocks[64];
	struct page *page;

	for (unsigned i = 0; i < 64; i++)
		blocks[i] = fallow_alloc(&rig->heap, 512);
	page = white_page(rig, blocks[0]);
	for (unsigned i = 1; i < 64; i++)
		fallow_free(&rig->heap, blocks[i]);
	CHECK_EQUAL(page->place, PLACE_CURRENT);
	epochs(rig, 100);
	CHECK(!fl_hole_any(heap, page));
	drain(rig, FALLOW_FLOOR_EPOCHS + 8);
	CHECK(fl_hole_any(heap, page));
	CHECK_EQUAL(committed(rig), GRANULE_BYTES);
	fallow_free(&rig->heap, blocks[0]);
	white_end(rig);
}

/* The floor is one sum: of pages of this context, and of none. */
static void test_sweep_floor_abandoned(void)
{
	struct rig *rig = clock_begin(
		FALLOW_CLASS_WINDOW, WIDE, 2 * MIB);
	struct crowd crowd = crowd_begin(rig, 100);

	for (unsigned i = 0; i < 16; i++)
		crowd_add(&crowd, 256 * KIB);
	fallow_offline(&rig->heap);
	for (unsigned i = 0; i < 16; i++)
		crowd_add(&crowd, 256 * KIB);
	/* Each of the four pages keeps one block. */
	for (size_t i = crowd.count; i > 0; i--)
		if (i % 8 != 0)
			crowd_free(&crowd, i - 1);
	epochs(rig, 6);
	CHECK(committed(rig) <= 2 * MIB + 4 * 256 * KIB);
	CHECK(committed(rig) > MIB / 2 + 4 * 256 * KIB);
	drain(rig, FALLOW_FLOOR_EPOCHS + 8);
	CHECK_EQUAL(committed(rig), 4 * 256 * KIB);
	crowd_end(&crowd);
}

const struct test tests[] = {
	{ "sweep_hold", test_sweep_hold },
	{ "sweep_floor_recent_first", test_sweep_floor_recent_first },
	{ "sweep_floor_smaller_fits", test_sweep_floor_smaller_fits },
	{ "sweep_floor_counts_formed", test_sweep_floor_counts_formed },
	{ "sweep_floor_share", test_sweep_floor_share },
	{ "sweep_current", test_sweep_current },
	{ "sweep_current_drains", test_sweep_current_drains },
	{ "sweep_floor_abandoned", test_sweep_floor_abandoned },
	{ NULL, NULL },
};
