/* SPDX-License-Identifier: MIT */
/*
 * Going over a heap: every page and span once, the blocks in use of each and
 * no others, in address order; and stopping when told.
 */
#include "walk.h"
#include "white.h"

#define MIB ((size_t)1 << 20)
#define BLOCKS 600

/* Blocks in use that the test knows; of 0: freed. */
static uintptr_t blocks[BLOCKS];
static size_t sizes[BLOCKS];

/* What a walk has seen. */
struct seen {
	unsigned pages, spans, found, calls, stop_at;
	struct fallow_item page;
	uintptr_t last;
	struct rig *rig;
};

/* A heap with blocks of all sorts, every third one freed, others' frees too. */
static struct rig *begin(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 2);
	uint64_t random = test_seed;

	for (unsigned i = 0; i < BLOCKS; i++) {
		size_t size = (size_t)1 << test_random(&random) % 16;

		if (i % 60 == 7)
			size = 700000;
		blocks[i] = (uintptr_t)fallow_alloc(&rig->heap, size);
		sizes[i] = fallow_good_size(size);
		CHECK(blocks[i] != 0);
	}
	for (unsigned i = 0; i < BLOCKS; i++)
		if (i % 3 != 0) {
			white_free(rig, i % 3 - 1, (void *)blocks[i]);
			blocks[i] = 0;
		}
	return rig;
}

/* The number of the block in use at an address; BLOCKS if there is none. */
static unsigned find(uintptr_t base)
{
	unsigned i = 0;

	while (i < BLOCKS && blocks[i] != base)
		i++;
	return i;
}

static void block_see(struct seen *seen, const struct fallow_item *item)
{
	const struct fallow_item *page = &seen->page;
	unsigned i = find(item->base);

	CHECK(i < BLOCKS);
	if (i < BLOCKS)
		CHECK_EQUAL(item->size, sizes[i]);
	CHECK_EQUAL(item->block_size, item->size);
	CHECK_EQUAL(item->owner, page->owner);
	CHECK(item->base >= page->base &&
		item->base + item->size <= page->base + page->size);
	CHECK(item->base > seen->last);
	seen->last = item->base;
	seen->found++;
}

static void page_see(struct seen *seen, const struct fallow_item *item)
{
	const struct page *page = white_page(seen->rig, (void *)item->base);

	CHECK(page->base == item->base);
	CHECK_EQUAL(item->block_size, page->block_size);
	CHECK_EQUAL(item->size, page->slices * SLICE_BYTES);
	CHECK_EQUAL(item->formed, page->formed);
	CHECK_EQUAL(item->capacity, page->capacity);
	CHECK_EQUAL(item->used,
		page_used(page) - remote_count(page, page->remote));
	CHECK_EQUAL(item->committed, page->committed);
	seen->pages++;
	seen->page = *item;
	seen->last = 0;
}

static bool visit(void *arg, const struct fallow_item *item)
{
	struct seen *seen = arg;

	seen->calls++;
	if (item->kind == FALLOW_ITEM_BLOCK) {
		block_see(seen, item);
	} else if (item->kind == FALLOW_ITEM_PAGE) {
		page_see(seen, item);
	} else {
		unsigned i = find(item->base);

		CHECK(i < BLOCKS && item->block_size == sizes[i]);
		CHECK_EQUAL(item->committed, item->block_size);
		CHECK_EQUAL(item->used, 1);
		CHECK_EQUAL(item->owner, FALLOW_NO_CONTEXT);
		seen->spans++;
		seen->found++;
	}
	return seen->calls != seen->stop_at;
}

static void test_walk_visits_all(void)
{
	struct rig *rig = begin();
	struct fallow_snapshot now = { .size = sizeof(now) };
	struct seen seen = { .rig = rig };

	CHECK(fallow_walk(&rig->heap, true, visit, &seen));
	CHECK_EQUAL(seen.found, BLOCKS / 3);
	fallow_snapshot(&rig->heap, &now);
	CHECK_EQUAL(seen.pages, now.pages);
	CHECK_EQUAL(seen.spans, now.spans);
	seen = (struct seen){ .rig = rig };
	CHECK(fallow_walk(&rig->heap, false, visit, &seen));
	CHECK_EQUAL(seen.calls, now.pages + now.spans);
	rig_end_now(rig, true);
}

/* Told to stop at any item, it does. */
static void test_walk_stops(void)
{
	struct rig *rig = begin();
	struct seen all = { .rig = rig };

	CHECK(fallow_walk(&rig->heap, true, visit, &all));
	for (unsigned i = 1; i <= all.calls; i++) {
		struct seen seen = { .rig = rig, .stop_at = i };

		CHECK(!fallow_walk(&rig->heap, true, visit, &seen));
		CHECK_EQUAL(seen.calls, i);
	}
	rig_end_now(rig, true);
}

/* Heads are found in address order, from any slice on. */
static void test_walk_next(void)
{
	struct rig *rig = begin();
	struct heap *heap = white_heap(rig);
	size_t slice = 0, slices = heap->chunk_count * CHUNK_SLICES;
	const struct page *page;
	size_t expected = 0;

	while ((page = fl_walk_next(heap, &slice)) != NULL) {
		while (expected < slices &&
			(heap->map[expected] == &fl_page_nobody ||
				heap->map[expected]->base !=
					heap->base + expected * SLICE_BYTES))
			expected++;
		CHECK(expected < slices && heap->map[expected] == page);
		expected++;
		CHECK_EQUAL(slice, expected);
	}
	CHECK_EQUAL(slice, slices);
	CHECK(fl_walk_next(heap, &slice) == NULL);
	CHECK_EQUAL(slice, slices);
	rig_end_now(rig, true);
}

/* Free blocks are those that are not in use, whoever freed them. */
static void test_walk_free(void)
{
	struct rig *rig = begin();
	struct heap *heap = white_heap(rig);
	struct block_set set;
	const struct page *page;
	size_t slice = 0;

	while ((page = fl_walk_next(heap, &slice)) != NULL) {
		if (page->kind == PAGE_SPAN)
			continue;
		CHECK(fl_walk_free(page, &set) == NULL);
		for (uint32_t i = 0; i < page->formed; i++)
			CHECK_EQUAL(block_set_has(&set, i),
				find((uintptr_t)white_block(page, i)) ==
					BLOCKS);
		for (uint32_t i = page->formed; i < BLOCKS_MAX; i++)
			if (block_set_has(&set, i))
				CHECK(i < page->formed);
	}
	rig_end_now(rig, true);
}

/* Holes are granules of the formed area without memory; the tail is none. */
static void test_walk_holes(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 1);
	struct heap *heap = white_heap(rig);
	struct page *page;
	struct op op;
	uint16_t *populated;

	if (SLICE_GRANULES < 4) {
		test_skip("a slice has too few granules");
		rig_end_now(rig, true);
		return;
	}
	page = white_page_new(rig, size_class(3072));
	populated = &page->chunk->populated[page->first_slice];
	op = white_op(rig, 0);
	for (unsigned i = 0; i < 3; i++) {
		CHECK(fl_page_commit(&op, page));
		while (fl_page_form(page))
			;
	}
	op_drop(&op);
	/* 4 granules hold 5 blocks: the fourth is formed in part. */
	CHECK_EQUAL(*populated, 0xf);
	CHECK_EQUAL(page->formed, 5);
	CHECK_EQUAL(fl_walk_committed(heap, page), 4 * GRANULE_BYTES);
	CHECK_EQUAL(fl_walk_holes(heap, page), 0);
	*populated = 0x5;
	CHECK_EQUAL(fl_walk_committed(heap, page), 2 * GRANULE_BYTES);
	CHECK_EQUAL(fl_walk_holes(heap, page), 2 * GRANULE_BYTES);
	page_form(page, 2);
	*populated = 0x3;
	CHECK_EQUAL(fl_walk_holes(heap, page), 0);
	*populated = 0xf;
	rig_end_now(rig, true);
}

const struct test tests[] = {
	{ "walk_visits_all", test_walk_visits_all },
	{ "walk_stops", test_walk_stops },
	{ "walk_next", test_walk_next },
	{ "walk_free", test_walk_free },
	{ "walk_holes", test_walk_holes },
	{ NULL, NULL },
};
