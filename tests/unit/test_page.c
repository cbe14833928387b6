/* SPDX-License-Identifier: MIT */
/*
 * One page on its own: how it commits, forms, pops and folds, by kind.
 */
#include "white.h"

#define MIB ((size_t)1 << 20)
/* 64 blocks of 1 KiB, 14 of 9 KiB, 8 of 64 KiB. */
#define SMALL size_class(1024)
#define MEDIUM CLASS_FIRST_MEDIUM
#define LARGEST (CLASS_COUNT - 1)

static struct rig *begin(void)
{
	/* Not lean: pages are those of their kind. */
	return rig_begin(FALLOW_CLASS_WINDOW, 1100 * MIB, 2);
}

static void test_page_init(void)
{
	struct rig *rig = begin();

	for (unsigned class = 0; class < CLASS_COUNT; class++) {
		struct page *page = white_page_new(rig, class);
		bool clean;

		CHECK_EQUAL(page->block_size, class_size(class));
		CHECK_EQUAL(page->kind, class_kind(class));
		CHECK_EQUAL(page->capacity,
			page->slices * SLICE_BYTES / page->block_size);
		CHECK_EQUAL(page->base,
			page->chunk->base + page->first_slice * SLICE_BYTES);
		CHECK_EQUAL(remote_state(page->remote), REMOTE_TRANSIT);
		CHECK_EQUAL(page->owner, OWNER_NONE);
		CHECK(page_pop(page, &clean) == NULL && !clean);
		CHECK(!fl_page_form(page));
		CHECK(fl_page_extent(page) % GRANULE_BYTES == 0);
		CHECK(fl_page_extent(page) <= page->slices * SLICE_BYTES);
		CHECK(fl_page_extent(page) >=
			(size_t)page->capacity * page->block_size);
	}
	rig_end_now(rig, true);
}

/* Commits and forms a page to its end; every step is bounded, and no block is
 * formed where nothing is committed. */
static void steps_check(struct rig *rig, unsigned class)
{
	struct page *page = white_page_new(rig, class);
	struct op op = white_op(rig, 0);
	uint32_t committed = 0;

	while (page->formed < page->capacity && !test_failures()) {
		uint32_t formed = page->formed;

		if (fl_page_form(page)) {
			uint32_t n = page->formed - formed;

			CHECK(n == 1 || n * page->block_size <= 4096);
			CHECK(page_formed_end(page) <= committed);
			CHECK_EQUAL(page_formed_end(page),
				(size_t)page->formed * page->block_size);
			continue;
		}
		CHECK((size_t)(formed + 1) * page->block_size > committed);
		CHECK(fl_page_commit(&op, page));
		CHECK(page->committed > committed);
		/* Twice as much, a block's worth if that is more, and 64 KiB
		 * more at most but for a block's worth. */
		CHECK(page->committed <= 2 * committed ||
			page->committed - committed <
				page->block_size + GRANULE_BYTES);
		CHECK(page->committed - committed <= 64 * 1024 ||
			page->block_size > 64 * 1024);
		committed = page->committed;
		CHECK(fl_memory_populated(op.heap, page->base, committed));
	}
	CHECK_EQUAL(committed, fl_page_extent(page));
	CHECK(!fl_page_form(page));
	op_drop(&op);
}

static void test_page_commit_steps(void)
{
	struct rig *rig = begin();

	for (unsigned class = 0; class < CLASS_COUNT; class++)
		steps_check(rig, class);
	rig_end_now(rig, true);
}

/* The first granule alone, then two, four, eight and sixteen. */
static void test_page_commit_doubles(void)
{
	struct rig *rig = begin();
	struct page *page = white_page_new(rig, 0);
	struct op op = white_op(rig, 0);

	for (unsigned granules = 1; granules <= 16; granules *= 2) {
		CHECK(fl_page_commit(&op, page));
		CHECK_EQUAL(page->committed, granules * GRANULE_BYTES);
		while (fl_page_form(page))
			;
	}
	CHECK_EQUAL(page->formed, page->capacity);
	op_drop(&op);
	rig_end_now(rig, true);
}

/* Without memory, or where no provider may be called, nothing changes. */
static void test_page_commit_fails(void)
{
	struct rig *rig = begin();
	struct page *page = white_page_new(rig, SMALL);
	struct op op = white_op(rig, 0);
	uint64_t calls;

	CHECK(fl_page_commit(&op, page));
	rig->sim.refuse_from = rig->sim.calls + 1;
	CHECK(!fl_page_commit(&op, page));
	CHECK_EQUAL(page->committed, GRANULE_BYTES);
	rig->sim.refuse_from = 0;
	op.flags = FALLOW_NOWAIT;
	calls = rig->sim.calls;
	CHECK(!fl_page_commit(&op, page));
	CHECK_EQUAL(rig->sim.calls, calls);
	CHECK_EQUAL(page->committed, GRANULE_BYTES);
	op.flags = 0;
	CHECK(fl_page_commit(&op, page));
	op_drop(&op);
	rig_end_now(rig, true);
}

/* Small blocks come in address order, marked while free, each once. */
static void test_page_pop_small(void)
{
	struct rig *rig = begin();
	struct page *page = white_page_new(rig, SMALL);
	struct op op = white_op(rig, 0);
	bool clean;

	CHECK(fl_page_commit(&op, page));
	CHECK(fl_page_form(page));
	CHECK_EQUAL(page->formed, 4);
	for (uint32_t i = 0; i < 4; i++) {
		struct block *block = white_block(page, i);

		CHECK_EQUAL(block->mark, page->mark);
		CHECK(fl_page_lists(page, i));
		CHECK(page_pop(page, &clean) == block);
		/* Links were in it. */
		CHECK(!clean);
		CHECK(block->mark != page->mark);
		CHECK(!fl_page_lists(page, i));
		CHECK_EQUAL(page_used(page), i + 1);
		CHECK_EQUAL(page_free_count(page), 3 - i);
	}
	CHECK(page_pop(page, &clean) == NULL);
	CHECK_EQUAL(page_used(page), 4);
	op_drop(&op);
	rig_end_now(rig, true);
}

/* Forming more while blocks are free: behind none of them, and all are had. */
static void test_page_form_keeps_list(void)
{
	struct rig *rig = begin();
	struct page *page = white_page_new(rig, SMALL);
	struct op op = white_op(rig, 0);

	CHECK(fl_page_commit(&op, page));
	CHECK(fl_page_form(page));
	CHECK(fl_page_commit(&op, page));
	CHECK(fl_page_form(page));
	CHECK_EQUAL(page->formed, 8);
	for (uint32_t i = 0; i < 8; i++)
		CHECK(fl_page_lists(page, i));
	white_pop(page, 8);
	CHECK(page->free == NULL);
	op_drop(&op);
	rig_end_now(rig, true);
}

/* Bit-word pages give the lowest block first; a block is clean until it was
 * handed out, if its memory came zeroed. */
static void test_page_pop_bits(void)
{
	struct rig *rig = begin();
	struct page *page = white_page_whole(rig, MEDIUM);
	uint64_t all = ((uint64_t)1 << page->capacity) - 1;
	bool clean;

	CHECK_EQUAL(page->capacity, 14);
	CHECK_EQUAL(page->bits, all);
	CHECK_EQUAL(page->clean, all);
	CHECK(page_pop(page, &clean) == white_block(page, 0) && clean);
	CHECK(page_pop(page, &clean) == white_block(page, 1) && clean);
	page->bits |= 1;
	page->above--;
	CHECK(page_pop(page, &clean) == white_block(page, 0) && !clean);
	CHECK(page_pop(page, &clean) == white_block(page, 2) && clean);
	CHECK_EQUAL(page_used(page), 3);
	CHECK(!fl_page_lists(page, 2) && fl_page_lists(page, 3));
	rig_end_now(rig, true);
}

/* Of memory that came dirty no block is clean, of what follows it again. */
static void test_page_clean_dirty(void)
{
	struct rig *rig = begin();
	struct page *page = white_page_new(rig, LARGEST);
	struct op op = white_op(rig, 0);
	static const bool dirty[4] = { false, true, true, false };

	for (unsigned i = 0; i < 4; i++) {
		rig->sim.dirty_rate = dirty[i] ? 256 : 0;
		CHECK(fl_page_commit(&op, page));
		CHECK(fl_page_form(page));
		CHECK(!fl_page_form(page));
	}
	CHECK_EQUAL(page->clean, 0x9);
	op_drop(&op);
	rig_end_now(rig, true);
}

/* A block that begins in dirty memory and ends in clean is not clean. */
static void test_page_clean_straddles(void)
{
	struct rig *rig = begin();
	struct page *page = white_page_new(rig, MEDIUM);
	struct op op = white_op(rig, 0);

	/* 9 KiB are three granules: the next block begins in the third. */
	rig->sim.dirty_rate = 256;
	CHECK(fl_page_commit(&op, page));
	CHECK_EQUAL(page->committed, 3 * GRANULE_BYTES);
	CHECK_EQUAL(page->clean_from, 3 * GRANULE_BYTES);
	rig->sim.dirty_rate = 0;
	CHECK(fl_page_commit(&op, page));
	while (fl_page_form(page))
		;
	CHECK_EQUAL(page->formed, 2);
	CHECK_EQUAL(page->clean, 0);
	CHECK(fl_page_commit(&op, page));
	while (fl_page_form(page))
		;
	CHECK_EQUAL(page->clean | 3, ((uint64_t)1 << page->formed) - 1);
	CHECK_EQUAL(page->clean & 3, 0);
	op_drop(&op);
	rig_end_now(rig, true);
}

/* Others' frees are taken in: the newest first, before the own ones. */
static void test_page_fold_small(void)
{
	struct rig *rig = begin();
	struct local *local = white_heap(rig)->locals[0];
	struct page *page = white_page_whole(rig, SMALL);
	bool taken, clean;
	void *last;

	/* Blocks are formed before those that are free: the page's first four
	 * are the list's last. */
	white_pop(page, page->capacity - 1);
	last = page->free;
	CHECK(last == white_block(page, 3));
	CHECK_EQUAL(fl_page_fold(page, local), 0);
	for (uint32_t i = 4; i < 12; i++)
		remote_push(page, white_block(page, i), i, &taken);
	CHECK_EQUAL(fl_page_fold(page, local), 8);
	CHECK_EQUAL(page_used(page), page->capacity - 9);
	CHECK_EQUAL(local->counters.remote_frees, 8);
	CHECK_EQUAL(page->remote, remote_word(REMOTE_TRANSIT, 0));
	for (uint32_t i = 11; i >= 4; i--)
		CHECK(page_pop(page, &clean) == white_block(page, i));
	CHECK(page_pop(page, &clean) == last);
	CHECK(page->free == NULL);
	CHECK_EQUAL(page_used(page), page->capacity);
	rig_end_now(rig, true);
}

/* The same by bits; what owner and another freed at once counts once, and is
 * counted as a misuse. */
static void test_page_fold_bits(void)
{
	struct rig *rig = begin();
	struct local *local = white_heap(rig)->locals[0];
	struct page *page = white_page_whole(rig, MEDIUM);
	bool taken;

	white_pop(page, page->capacity);
	CHECK_EQUAL(page->bits, 0);
	remote_push(page, NULL, 3, &taken);
	remote_push(page, NULL, 13, &taken);
	CHECK_EQUAL(fl_page_fold(page, local), 2);
	CHECK_EQUAL(page->bits, (uint64_t)1 << 13 | 1 << 3);
	CHECK_EQUAL(page_used(page), 12);
	CHECK_EQUAL(local->counters.misuses, 0);
	remote_push(page, NULL, 3, &taken);
	remote_push(page, NULL, 4, &taken);
	CHECK_EQUAL(fl_page_fold(page, local), 1);
	CHECK_EQUAL(page_used(page), 11);
	CHECK_EQUAL(local->counters.misuses, 1);
	CHECK_EQUAL(local->counters.remote_frees, 3);
	rig_end_now(rig, true);
}

const struct test tests[] = {
	{ "page_init", test_page_init },
	{ "page_commit_steps", test_page_commit_steps },
	{ "page_commit_doubles", test_page_commit_doubles },
	{ "page_commit_fails", test_page_commit_fails },
	{ "page_pop_small", test_page_pop_small },
	{ "page_form_keeps_list", test_page_form_keeps_list },
	{ "page_pop_bits", test_page_pop_bits },
	{ "page_clean_dirty", test_page_clean_dirty },
	{ "page_clean_straddles", test_page_clean_straddles },
	{ "page_fold_small", test_page_fold_small },
	{ "page_fold_bits", test_page_fold_bits },
	{ NULL, NULL },
};
