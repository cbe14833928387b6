/* SPDX-License-Identifier: MIT */
/*
 * An allocation's two ways, and what is tried before it fails.
 */
#include <string.h>

#include "white.h"

#define MIB ((size_t)1 << 20)
#define KIB ((size_t)1 << 10)

static struct rig *begin(void)
{
	return rig_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 2);
}

static struct local_counters *counters(struct rig *rig)
{
	return &white_heap(rig)->locals[0]->counters;
}

/* With a block in the current page no slow path is entered, for any small
 * size; the block is the page's first, and in use. */
static void test_alloc_hot(void)
{
	struct rig *rig = begin();

	for (size_t size = 0; size <= SIZE_DIRECT_MAX; size++) {
		unsigned class = size_class(size);
		struct page *page;
		void *block = fallow_alloc(&rig->heap, size);
		uint64_t slow = counters(rig)->slow_paths;
		uint32_t used;

		fallow_free(&rig->heap, block);
		page = white_heap(rig)->locals[0]->current[class];
		used = page_used(page);
		CHECK(page->free == block);
		CHECK(fallow_alloc(&rig->heap, size) == block);
		CHECK_EQUAL(page_used(page), used + 1);
		CHECK_EQUAL(counters(rig)->slow_paths, slow);
		CHECK(((struct block *)block)->mark != page->mark);
		fallow_free(&rig->heap, block);
	}
	white_check(rig);
	white_end(rig);
}

/* Every byte of the block, hot or not, whatever was there. */
static void test_alloc_zero(void)
{
	static const size_t sizes[] = { 1, 16, 100, 512, 513, 9000, 65536,
		100000, 700000 };
	struct rig *rig = begin();

	rig->sim.dirty_rate = 128;
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (unsigned round = 0; round < 6; round++) {
			unsigned char *p = round & 1
				? fallow_zalloc(&rig->heap, sizes[i])
				: fallow_calloc(&rig->heap, 1, sizes[i]);
			size_t usable = fallow_usable_size(&rig->heap, p);
			size_t bad = 0;

			CHECK_OR_RETURN(p != NULL);
			for (size_t j = 0; j < usable; j++)
				bad += p[j] != 0;
			CHECK_EQUAL(bad, 0);
			memset(p, 0xee, usable);
			if (round != 2)
				fallow_free(&rig->heap, p);
		}
	rig_end_now(rig, true);
}

/* Memory that came zeroed, of a block that nobody had, is not cleared: of
 * what is asked for, nothing is touched. */
static void test_alloc_zero_clean(void)
{
	struct rig *rig = begin();
	unsigned char *p = fallow_zalloc(&rig->heap, 60 * KIB), *q;

	/* Behind the heap's back: is it cleared again? */
	q = white_opaque(p + fallow_usable_size(&rig->heap, p));
	CHECK(fallow_alloc(&rig->heap, 60 * KIB) == q);
	fallow_free(&rig->heap, q);
	memset(q, 0x11, 60 * KIB);
	CHECK(fallow_zalloc(&rig->heap, 60 * KIB) == q);
	CHECK_EQUAL(q[0] | q[60 * KIB - 1], 0);
	white_page(rig, p)->clean |= 2;
	fallow_free(&rig->heap, q);
	memset(q, 0x11, 60 * KIB);
	CHECK(fallow_zalloc(&rig->heap, 60 * KIB) == q);
	CHECK_EQUAL(q[0] & q[60 * KIB - 1], 0x11);
	rig_end_now(rig, true);
}

/* What the rig's pressure hook saw, and what it frees. */
static struct {
	struct rig *rig;
	unsigned calls, again;
	size_t size;
	uint64_t decommits;
	void *give;
} pressed;

static bool pressure(void *ctx, size_t size)
{
	CHECK(ctx == &pressed);
	CHECK(!lock_held(&white_heap(pressed.rig)->lock));
	pressed.calls++;
	pressed.size = size;
	pressed.decommits = pressed.rig->sim.made[SIM_DECOMMIT];
	fallow_free(&pressed.rig->heap, pressed.give);
	pressed.give = NULL;
	return pressed.again-- > 0;
}

static struct rig *begin_pressed(unsigned again)
{
	struct rig *rig = rig_prepare(FALLOW_CLASS_WINDOW, 64 * MIB, 1);

	rig->config.pressure = pressure;
	rig->config.pressure_ctx = &pressed;
	CHECK_EQUAL(rig_init(rig), FALLOW_OK);
	memset(&pressed, 0, sizeof(pressed));
	pressed.rig = rig;
	pressed.again = again;
	return rig;
}

/* Asked as long as it says that it is worth it, after a collect. */
static void test_alloc_pressure(void)
{
	struct rig *rig = begin_pressed(3);

	fallow_free(&rig->heap, fallow_alloc(&rig->heap, 700000));
	rig->sim.refuse_from = rig->sim.calls + 1;
	CHECK(fallow_alloc(&rig->heap, 5 * MIB) == NULL);
	CHECK_EQUAL(pressed.calls, 4);
	CHECK_EQUAL(pressed.size, 5 * MIB);
	CHECK(pressed.decommits > 0);
	CHECK_EQUAL(counters(rig)->failures, 1);
	rig->sim.refuse_from = 0;
	rig_end_now(rig, true);
}

/* What it frees is what the call gets. */
static void test_alloc_pressure_helps(void)
{
	struct rig *rig = begin_pressed(1);
	void *p;

	rig->sim.budget = 6 * MIB;
	pressed.give = p = fallow_alloc(&rig->heap, 5 * MIB);
	CHECK(p != NULL);
	CHECK(fallow_alloc(&rig->heap, 4 * MIB) == p);
	CHECK_EQUAL(pressed.calls, 1);
	CHECK_EQUAL(counters(rig)->failures, 0);
	white_check(rig);
	rig_end_now(rig, true);
}

/* NORECLAIM and NOWAIT ask nobody. */
static void test_alloc_no_pressure(void)
{
	struct rig *rig = begin_pressed(0);
	uint64_t decommits;

	fallow_free(&rig->heap, fallow_alloc(&rig->heap, 700000));
	rig->sim.refuse_from = rig->sim.calls + 1;
	decommits = rig->sim.made[SIM_DECOMMIT];
	CHECK(fallow_alloc_flags(&rig->heap, 5 * MIB, FALLOW_NORECLAIM) ==
		NULL);
	CHECK(fallow_alloc_flags(&rig->heap, 5 * MIB, FALLOW_NOWAIT) == NULL);
	CHECK_EQUAL(pressed.calls, 0);
	CHECK_EQUAL(rig->sim.made[SIM_DECOMMIT], decommits);
	rig->sim.refuse_from = 0;
	rig_end_now(rig, true);
}

/* Before anybody is asked the context's own empty pages go: that costs no
 * call, so a NOWAIT allocation has their memory too. */
static void test_alloc_trims(void)
{
	struct rig *rig = begin();
	void *blocks[64];

	for (unsigned i = 0; i < 64; i++)
		CHECK((blocks[i] = fallow_alloc(&rig->heap, 1024)) != NULL);
	for (unsigned i = 0; i < 64; i++)
		fallow_free(&rig->heap, blocks[i]);
	CHECK_EQUAL(white_page(rig, blocks[0])->place, PLACE_CURRENT);
	sim_nowait = true;
	blocks[1] = fallow_alloc_flags(&rig->heap, 2048, FALLOW_NOWAIT);
	sim_nowait = false;
	CHECK(blocks[1] != NULL);
	CHECK_EQUAL(white_page(rig, blocks[1])->block_size, 2048);
	white_check(rig);
	rig_end_now(rig, true);
}

/* Where no page of the class fits the block alone may, as a span. */
static void test_alloc_span_instead(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_FLAT, 256 * KIB, 1);
	void *p = fallow_alloc(&rig->heap, 60 * KIB);

	CHECK_OR_RETURN(p != NULL);
	/* Which takes 4 slices; there are 3. */
	CHECK_EQUAL(fl_size_page_slices(size_class(60 * KIB), true), 4);
	CHECK_EQUAL(white_page(rig, p)->kind, PAGE_SPAN);
	CHECK_EQUAL(fallow_usable_size(&rig->heap, p),
		fallow_good_size(60 * KIB));
	white_check(rig);
	rig_end_now(rig, true);
}

/* A context that there is not; a heap that has nothing yet. */
static void test_alloc_illegal(void)
{
	struct rig *rig = rig_prepare(FALLOW_CLASS_FLAT, MIB, 1);
	struct heap *heap = white_heap(rig);

	rig->config.window_base = rig->config.window_size = 0;
	CHECK_EQUAL(fallow_init(&rig->heap, &rig->config), FALLOW_OK);
	CHECK(fallow_alloc(&rig->heap, 10) == NULL);
	CHECK(fallow_alloc(&rig->heap, 10 * MIB) == NULL);
	CHECK_EQUAL(rig->misuses, 0);
	fallow_fini(&rig->heap);
	rig->config.window_base = rig->sim.base;
	rig->config.window_size = rig->sim.size;
	CHECK_EQUAL(rig_init(rig), FALLOW_OK);
	heap->locals[0]->calling = 1;
	CHECK(fallow_alloc(&rig->heap, 10) == NULL);
	CHECK_EQUAL(rig->misuse.kind, FALLOW_MISUSE_REENTRY);
	CHECK_EQUAL(fallow_collect(&rig->heap), 0);
	CHECK_EQUAL(rig->misuses, 2);
	heap->locals[0]->calling = 0;
	CHECK(fallow_alloc(&rig->heap, 10) != NULL);
	rig->misuses_expected = 2;
	rig_end_now(rig, true);
}

/* The last of the memory freed is had again, though its page is full but for
 * one block. */
static void test_alloc_last_block(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_FLAT, 512 * KIB, 1);
	static void *blocks[8 * KIB];
	size_t n = 0;

	while (n < 8 * KIB &&
		(blocks[n] = fallow_alloc(&rig->heap, 64)) != NULL)
		n++;
	CHECK_OR_RETURN(n > 5 * KIB && n < 8 * KIB);
	for (size_t i = 0; i < n; i += 311) {
		fallow_free(&rig->heap, blocks[i]);
		CHECK(fallow_alloc(&rig->heap, 64) == blocks[i]);
		fallow_free(&rig->heap, blocks[i]);
		CHECK(fallow_alloc_flags(&rig->heap, 64, FALLOW_NOWAIT) ==
			blocks[i]);
		CHECK(fallow_alloc(&rig->heap, 64) == NULL);
	}
	white_check(rig);
	rig_end_now(rig, true);
}

/* NOWAIT waits for nobody, however short of memory it is. */
static void test_alloc_nowait_locked(void)
{
	struct rig *rig = begin();
	void *p;

	for (size_t i = 1; i < 64; i++)
		fallow_free(&rig->heap, fallow_alloc(&rig->heap, i * 4096));
	white_lock_hold(white_heap(rig));
	CHECK(fallow_alloc_flags(&rig->heap, MIB, FALLOW_NOWAIT) == NULL);
	/* Pages of other sizes are empty, and are not released now. */
	p = fallow_alloc_flags(&rig->heap, 3000, FALLOW_NOWAIT);
	CHECK(p == NULL || fallow_usable_size(&rig->heap, p) > 3072);
	white_lock_release(white_heap(rig));
	fallow_free(&rig->heap, p);
	white_check(rig);
	white_end(rig);
}

/* A flat heap of seven slices, each of them a page of the sizes given. */
static struct rig *begin_borrow(const size_t *sizes)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_FLAT, 512 * KIB, 1);

	for (unsigned i = 0; i < 7; i++) {
		void *p = fallow_alloc(&rig->heap, sizes[i]);

		CHECK(p != NULL);
		CHECK_EQUAL(white_page(rig, p)->block_size, sizes[i]);
	}
	return rig;
}

/* Where no page can be had for a size a larger block serves, aligned as the
 * right one would be, and a sized free of it is right. */
static void test_alloc_borrow(void)
{
	static const size_t sizes[] = { 80, 96, 112, 128, 160, 192, 320 };
	struct rig *rig = begin_borrow(sizes);
	void *p = fallow_alloc(&rig->heap, 64);

	CHECK_OR_RETURN(p != NULL);
	CHECK_EQUAL((uintptr_t)p % 64, 0);
	CHECK_EQUAL(fallow_usable_size(&rig->heap, p), 128);
	fallow_free_sized(&rig->heap, p, 64);
	p = fallow_alloc(&rig->heap, 16);
	CHECK_EQUAL(fallow_usable_size(&rig->heap, p), 80);
	fallow_free_sized(&rig->heap, p, 16);
	p = fallow_alloc_aligned(&rig->heap, 64, 1);
	CHECK_EQUAL((uintptr_t)p % 64, 0);
	fallow_free(&rig->heap, p);
	/* None is as large, or aligned enough. */
	CHECK(fallow_alloc(&rig->heap, 400) == NULL);
	CHECK(fallow_alloc_aligned(&rig->heap, 256, 256) == NULL);
	CHECK_EQUAL(rig->misuses, 0);
	white_check(rig);
	rig_end_now(rig, true);
}

/* A block that shrinks stays, rather than to be had from another. */
static void test_alloc_borrow_shrink(void)
{
	static const size_t sizes[] = { 80, 96, 112, 128, 160, 192, 320 };
	struct rig *rig = begin_borrow(sizes);
	void *p = fallow_alloc(&rig->heap, 320);

	CHECK(fallow_realloc(&rig->heap, p, 48) == p);
	CHECK_EQUAL(fallow_usable_size(&rig->heap, p), 320);
	fallow_free_sized(&rig->heap, p, 48);
	CHECK_EQUAL(rig->misuses, 0);
	white_check(rig);
	rig_end_now(rig, true);
}

/* A size that no heap can have is a failure as any other, and misuse where any
 * other would be. */
static void test_alloc_too_large(void)
{
	struct rig *rig = begin();
	/* Compilers know that no such size can be had. */
	volatile size_t size = SIZE_MAX;

	CHECK(fallow_alloc(&rig->heap, size) == NULL);
	size = (size_t)FALLOW_SIZE_MAX + 1;
	CHECK(fallow_alloc(&rig->heap, size) == NULL);
	CHECK_EQUAL(counters(rig)->failures, 2);
	CHECK_EQUAL(rig->misuses, 0);
	white_heap(rig)->locals[0]->calling = 1;
	CHECK(fallow_alloc(&rig->heap, size) == NULL);
	CHECK_EQUAL(rig->misuse.kind, FALLOW_MISUSE_REENTRY);
	CHECK_EQUAL(counters(rig)->failures, 2);
	white_heap(rig)->locals[0]->calling = 0;
	rig->misuses_expected = 1;
	white_check(rig);
	rig_end_now(rig, true);
}

/* A page of the context's whose list is shorter than its count says, as two
 * frees of one block at the same moment leave it: no search goes round for it. */
static struct page *page_short(struct rig *rig, bool tail)
{
	struct page *page = tail ? white_page_new(rig, size_class(1024))
				 : white_page_whole(rig, size_class(1024));
	struct op op = white_op(rig, 0);
	size_t slice = (page->base - op.heap->base) >> FALLOW_SLICE_LOG2;

	if (tail) {
		CHECK(fl_page_commit(&op, page));
		CHECK(fl_page_form(page));
		op.heap->map[slice] = page;
	}
	white_pop(page, page->formed);
	page_used_set(page, page->formed - 1);
	fl_local_join(op.heap, op.local, page);
	op_drop(&op);
	return page;
}

/* Such pages, one of which is current, are passed by. */
static void test_alloc_list_short(void)
{
	for (unsigned what = 0; what < 3; what++) {
		struct rig *rig = begin();
		struct page *page, *other = NULL;
		void *block;

		page = page_short(rig, what > 0);
		(void)page_short(rig, what > 0);
		if (what == 0) {
			other = white_page_whole(rig, size_class(1024));
			fl_local_join(white_heap(rig),
				white_heap(rig)->locals[0], other);
		} else if (what == 2) {
			rig->sim.refuse_from = rig->sim.calls + 1;
		}
		block = fallow_alloc(&rig->heap, 1024);
		if (what == 2)
			CHECK(block == NULL);
		else
			CHECK(block != NULL && (what == 0
				? white_page(rig, block) == other
				: white_page(rig, block)->formed == 8));
		CHECK(page->formed > 0);
		/* What was lost is seen by whoever asks. */
		CHECK(fallow_check(&rig->heap, NULL) != NULL);
		rig->sim.refuse_from = 0;
		rig_end_now(rig, true);
	}
}

const struct test tests[] = {
	{ "alloc_hot", test_alloc_hot },
	{ "alloc_zero", test_alloc_zero },
	{ "alloc_list_short", test_alloc_list_short },
	{ "alloc_zero_clean", test_alloc_zero_clean },
	{ "alloc_pressure", test_alloc_pressure },
	{ "alloc_pressure_helps", test_alloc_pressure_helps },
	{ "alloc_no_pressure", test_alloc_no_pressure },
	{ "alloc_trims", test_alloc_trims },
	{ "alloc_span_instead", test_alloc_span_instead },
	{ "alloc_illegal", test_alloc_illegal },
	{ "alloc_last_block", test_alloc_last_block },
	{ "alloc_nowait_locked", test_alloc_nowait_locked },
	{ "alloc_borrow", test_alloc_borrow },
	{ "alloc_borrow_shrink", test_alloc_borrow_shrink },
	{ "alloc_too_large", test_alloc_too_large },
	{ NULL, NULL },
};
