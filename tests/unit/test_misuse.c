/* SPDX-License-Identifier: MIT */
/*
 * The verdict on a pointer, for every pointer into pages of each kind; and
 * what is said of it, to whom.
 */
#include <string.h>

#include "white.h"

#define MIB ((size_t)1 << 20)

/* The kind, or 0 for a block in use. */
static int judge(struct rig *rig, unsigned context, uintptr_t addr)
{
	struct op op = white_op(rig, context);
	enum fallow_misuse_kind kind;
	bool in_use = fl_misuse_judge(
		&op, addr, map_find(op.heap, addr), &kind);

	op_drop(&op);
	return in_use ? 0 : (int)kind;
}

static void test_misuse_text(void)
{
	for (int i = 1; i < FALLOW_MISUSE_COUNT; i++) {
		const char *text = fallow_misuse_text(
			(enum fallow_misuse_kind)i);

		CHECK(text[0] != '\0');
		CHECK(strcmp(text, "unknown misuse") != 0);
		for (int j = 1; j < i; j++)
			CHECK(strcmp(text, fallow_misuse_text(
				(enum fallow_misuse_kind)j)) != 0);
	}
	CHECK(!strcmp(fallow_misuse_text(0), "unknown misuse"));
	CHECK(!strcmp(fallow_misuse_text(FALLOW_MISUSE_COUNT),
		"unknown misuse"));
}

/* What the verdict on an offset into a page is to be: blocks below `used` in
 * use, from there to `formed` free. */
static int expected(const struct page *page, size_t offset, uint32_t used)
{
	size_t index = offset / page->block_size;

	if (index >= page->capacity)
		return FALLOW_MISUSE_UNFORMED;
	if (offset % page->block_size != 0)
		return FALLOW_MISUSE_INTERIOR;
	if (index >= page->formed)
		return FALLOW_MISUSE_UNFORMED;
	return index < used ? 0 : FALLOW_MISUSE_DOUBLE_FREE;
}

/* Every `step`th byte of a page, by its owner and by another context. */
static void page_judge(struct rig *rig, size_t size, unsigned n, size_t step)
{
	void *blocks[64];
	struct page *page;
	size_t bytes;

	for (unsigned i = 0; i < n + 2; i++)
		blocks[i] = fallow_alloc(&rig->heap, size);
	page = white_page(rig, blocks[0]);
	CHECK(blocks[n + 1] == white_block(page, n + 1));
	/* One freed by each; both are as free to both. */
	white_free(rig, 0, blocks[n]);
	white_free(rig, 1, blocks[n + 1]);
	bytes = page->slices * SLICE_BYTES;
	for (unsigned context = 0; context < 2; context++)
		for (size_t at = 0; at < bytes; at += step) {
			int seen = judge(rig, context, page->base + at);

			if (seen == expected(page, at, n))
				continue;
			test_printf("\n    size %zu offset %zu context %u",
				size, at, context);
			CHECK_EQUAL(seen, expected(page, at, n));
			return;
		}
	white_check(rig);
}

static void test_misuse_judge_pages(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 2);

	page_judge(rig, 48, 40, 1);
	page_judge(rig, SLICE_BYTES / 64, 5, 1);
	page_judge(rig, SLICE_BYTES / 7, 3, 8);
	page_judge(rig, SLICE_BYTES, 1, 64);
	rig_end_now(rig, true);
}

static void test_misuse_judge_span(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 2);
	char *p = fallow_alloc(&rig->heap, 700000);
	uintptr_t addr = (uintptr_t)p;

	CHECK_EQUAL(judge(rig, 1, addr), 0);
	CHECK_EQUAL(judge(rig, 0, addr + 16), FALLOW_MISUSE_INTERIOR);
	CHECK_EQUAL(judge(rig, 0, addr + 699999), FALLOW_MISUSE_INTERIOR);
	CHECK_EQUAL(judge(rig, 0, addr - 1), FALLOW_MISUSE_FOREIGN);
	CHECK_EQUAL(judge(rig, 0, addr + 1400 * 1024),
		FALLOW_MISUSE_FOREIGN);
	CHECK_EQUAL(judge(rig, 0, 16), FALLOW_MISUSE_FOREIGN);
	CHECK_EQUAL(judge(rig, 0, UINTPTR_MAX), FALLOW_MISUSE_FOREIGN);
	rig_end_now(rig, true);
}

/* A block in use that holds a free block's mark by chance is in use, for its
 * owner, who walks the list. */
static void test_misuse_judge_chance(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 2);
	struct block *block = fallow_alloc(&rig->heap, 100);
	void *other = fallow_alloc(&rig->heap, 100);

	block->mark = white_page(rig, block)->mark;
	CHECK_EQUAL(judge(rig, 0, (uintptr_t)block), 0);
	fallow_free(&rig->heap, block);
	CHECK_EQUAL(rig->misuses, 0);
	CHECK_EQUAL(judge(rig, 0, (uintptr_t)block),
		FALLOW_MISUSE_DOUBLE_FREE);
	/* Also if it is in the remote word, which stays as it is: taking blocks
	 * in is the business of those who look at `wake` then. */
	white_free(rig, 1, other);
	CHECK_EQUAL(judge(rig, 0, (uintptr_t)other),
		FALLOW_MISUSE_DOUBLE_FREE);
	CHECK(white_page(rig, other)->remote & REMOTE_BLOCKS);
	white_check(rig);
	rig_end_now(rig, true);
}

/* What a page's free blocks hold is none of the page's that is there after it:
 * whoever has such a word out of memory that was not cleared may free his block,
 * as another context too. */
static void test_misuse_judge_stale(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 2);
	struct block *block = fallow_alloc(&rig->heap, 48);
	uintptr_t base = white_page(rig, block)->base;
	uint64_t stale = white_page(rig, block)->mark;

	CHECK(stale % 2 == 1);
	for (unsigned life = 0; life < 8; life++) {
		fallow_free(&rig->heap, block);
		fallow_collect(&rig->heap);
		CHECK(white_page(rig, (void *)base) == NULL);
		block = fallow_alloc(&rig->heap, life % 2 ? 48 : 80);
		CHECK_OR_RETURN(white_page(rig, block)->base == base);
		block->mark = stale;
		CHECK_EQUAL(judge(rig, 1, (uintptr_t)block), 0);
		stale = white_page(rig, block)->mark;
		CHECK(stale % 2 == 1);
	}
	white_free(rig, 1, block);
	CHECK_EQUAL(rig->misuses, 0);
	white_check(rig);
	rig_end_now(rig, true);
}

/* Reports a misuse as context 1 with the rig's policy. */
static void report(struct rig *rig, uintptr_t addr)
{
	struct op op = white_op(rig, 1);

	op.caller = 0x1234;
	op.given_size = 99;
	fl_misuse(&op, FALLOW_MISUSE_INTERIOR, addr,
		map_find(op.heap, addr));
	CHECK_EQUAL(white_heap(rig)->locals[1]->calling, 0);
}

static void test_misuse_report(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 2);
	const struct fallow_misuse *seen = &rig->misuse;
	uintptr_t p = (uintptr_t)fallow_alloc(&rig->heap, 1000);
	uintptr_t q = (uintptr_t)fallow_alloc(&rig->heap, 700000);

	report(rig, p + 1030);
	CHECK_EQUAL(rig->misuses, 1);
	CHECK_EQUAL(seen->kind, FALLOW_MISUSE_INTERIOR);
	CHECK_EQUAL(seen->address, p + 1030);
	CHECK_EQUAL(seen->block, p + 1024);
	CHECK_EQUAL(seen->block_size, 1024);
	CHECK_EQUAL(seen->given_size, 99);
	CHECK_EQUAL(seen->owner, 0);
	CHECK_EQUAL(seen->caller, 0x1234);
	CHECK_EQUAL(seen->context, fl_port_context());
	report(rig, q + 5);
	CHECK_EQUAL(seen->block, q);
	CHECK_EQUAL(seen->block_size, align_up(700000, GRANULE_BYTES));
	CHECK_EQUAL(seen->owner, FALLOW_NO_CONTEXT);
	report(rig, 5);
	CHECK_EQUAL(seen->block, 0);
	CHECK_EQUAL(seen->block_size, 0);
	CHECK_EQUAL(seen->owner, FALLOW_NO_CONTEXT);
	CHECK_EQUAL(white_heap(rig)->locals[1]->counters.misuses, 3);
	rig->misuses_expected = 3;
	rig_end_now(rig, true);
}

/* LEAK only counts; without a hook so does REPORT. */
static void test_misuse_policies(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 2);
	struct heap *heap = white_heap(rig);

	heap->policy = FALLOW_POLICY_LEAK;
	report(rig, 5);
	heap->policy = FALLOW_POLICY_REPORT;
	heap->misuse = NULL;
	report(rig, 5);
	CHECK_EQUAL(rig->misuses, 0);
	CHECK_EQUAL(heap->locals[1]->counters.misuses, 2);
	rig_end_now(rig, true);
}

/* A look at a full page's block leaves `used` alone: an owner's free that
 * passes `wake` unseen would leave the page among the full ones for ever. */
static void test_misuse_judge_full(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, 2048 * MIB, 2);
	void *blocks[65];
	struct page *page;

	for (unsigned i = 0; i < 65; i++)
		blocks[i] = fallow_alloc(&rig->heap, SLICE_BYTES / 64);
	page = white_page(rig, blocks[0]);
	CHECK_EQUAL(page->capacity, 64);
	/* Neither frees the eighth, which is 8, alone; both do. */
	for (unsigned i = 0; i < 3; i++)
		white_free(rig, 0, blocks[i]);
	for (unsigned i = 3; i < 9; i++)
		white_free(rig, 1, blocks[i]);
	CHECK_EQUAL(page->place, PLACE_FULL);
	CHECK_EQUAL(fallow_usable_size(&rig->heap, blocks[20]),
		page->block_size);
	for (unsigned i = 9; i < 64; i++)
		white_free(rig, 0, blocks[i]);
	CHECK_EQUAL(page->place, PLACE_QUEUE);
	fallow_collect(&rig->heap);
	CHECK(white_page(rig, blocks[0]) == NULL);
	white_check(rig);
	rig_end_now(rig, true);
}

/* Without a secret too, a block may hold its own address, with a tag. */
static void test_misuse_own_address(void)
{
	struct rig *rig = rig_prepare(FALLOW_CLASS_WINDOW, 64 * MIB, 2);

	rig->config.secret = 0;
	CHECK_EQUAL(rig_init(rig), FALLOW_OK);
	for (uintptr_t tag = 0; tag < 16; tag++) {
		uintptr_t *p = fallow_alloc(&rig->heap, 64);

		p[1] = (uintptr_t)p | tag;
		CHECK_EQUAL(judge(rig, 1, (uintptr_t)p), 0);
		white_free(rig, 1, p);
		CHECK_EQUAL(judge(rig, 0, (uintptr_t)p),
			FALLOW_MISUSE_DOUBLE_FREE);
	}
	CHECK_EQUAL(rig->misuses, 0);
	white_check(rig);
	rig_end_now(rig, true);
}

static unsigned hook_depth, hook_deepest;

/* A hook that does what no hook may. */
static void hook_misuses(void *ctx, const struct fallow_misuse *report)
{
	struct rig *rig = ctx;

	(void)report;
	if (++hook_depth > hook_deepest)
		hook_deepest = hook_depth;
	if (hook_depth < 10)
		CHECK(fallow_alloc(&rig->heap, 3000) == NULL);
	hook_depth--;
}

/* It is not asked what it thinks of that; it is counted. */
static void test_misuse_hook_misuses(void)
{
	struct rig *rig = rig_prepare(FALLOW_CLASS_WINDOW, 64 * MIB, 2);

	rig->config.misuse = hook_misuses;
	CHECK_EQUAL(rig_init(rig), FALLOW_OK);
	hook_depth = hook_deepest = 0;
	white_hold();
	fallow_free(&rig->heap, white_opaque(rig));
	CHECK_EQUAL(hook_deepest, 1);
	CHECK_EQUAL(white_heap(rig)->locals[0]->counters.misuses, 2);
	CHECK(fallow_alloc(&rig->heap, 3000) != NULL);
	/* It is asked about the next one. */
	hook_deepest = 0;
	fallow_free(&rig->heap, white_opaque(rig));
	CHECK_EQUAL(hook_deepest, 1);
	white_release();
	white_check(rig);
	rig_end_now(rig, true);
}

const struct test tests[] = {
	{ "misuse_text", test_misuse_text },
	{ "misuse_judge_pages", test_misuse_judge_pages },
	{ "misuse_judge_span", test_misuse_judge_span },
	{ "misuse_judge_chance", test_misuse_judge_chance },
	{ "misuse_judge_stale", test_misuse_judge_stale },
	{ "misuse_report", test_misuse_report },
	{ "misuse_policies", test_misuse_policies },
	{ "misuse_judge_full", test_misuse_judge_full },
	{ "misuse_own_address", test_misuse_own_address },
	{ "misuse_hook_misuses", test_misuse_hook_misuses },
	{ NULL, NULL },
};
