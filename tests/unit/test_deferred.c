/* SPDX-License-Identifier: MIT */
/*
 * Deferred frees: put by, freed by whatever drains; and every misuse of them
 * found, by the call that commits it or by the drain, without harm to others.
 */
#include <string.h>

#include "reclaim.h"
#include "white.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
/* Of a medium page. */
#define MEDIUM_BYTES (SLICE_BYTES / 16 * 5)

static const size_t sizes[] = { 16, 100, 2000, 8 * KIB, 20 * KIB, 64 * KIB,
	200 * KIB, 512 * KIB, MIB };
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static struct rig *begin(void)
{
	return rig_begin(FALLOW_CLASS_WINDOW, 128 * MIB, 3);
}

static struct fallow_snapshot now(struct rig *rig)
{
	struct fallow_snapshot sum = { .size = sizeof(sum) };

	fallow_snapshot(&rig->heap, &sum);
	return sum;
}

/* A slow path that takes nothing: what it drains, it drains. */
static void drain(struct rig *rig)
{
	void *p = fallow_alloc_aligned(&rig->heap, 64, 64);

	CHECK(p != NULL);
	fallow_free(&rig->heap, p);
}

/* Blocks of a size into blocks[], all deferred. */
static void defer(struct rig *rig, void **blocks, unsigned n, size_t size)
{
	for (unsigned i = 0; i < n; i++)
		CHECK((blocks[i] = fallow_alloc(&rig->heap, size)) != NULL);
	for (unsigned i = 0; i < n; i++)
		fallow_free_deferred(&rig->heap, blocks[i]);
}

/* In use until the drain, free after it: blocks of the caller's pages, of
 * nobody's, of those of a context that is parked. */
static void test_deferred_then_drained(void)
{
	for (size_t i = 0; i < SIZES * 3; i++) {
		struct rig *rig = begin();
		void *blocks[12];

		for (unsigned n = 0; n < 12; n++)
			blocks[n] = fallow_alloc(&rig->heap, sizes[i / 3]);
		if (i % 3 == 1)
			fallow_offline(&rig->heap);
		else if (i % 3 == 2)
			fallow_park(&rig->heap);
		for (unsigned n = 0; n < 12; n++)
			fallow_free_deferred(&rig->heap, blocks[n]);
		CHECK_EQUAL(now(rig).blocks, 12);
		CHECK_EQUAL(now(rig).deferred, 12);
		white_check(rig);
		if (i % 3 == 2)
			fallow_offline(&rig->heap);
		else
			drain(rig);
		CHECK_EQUAL(now(rig).blocks, 0);
		CHECK_EQUAL(now(rig).deferred, 0);
		CHECK_EQUAL(rig->misuses, 0);
		white_end(rig);
	}
}

/* Each of the calls that drain does. */
static void test_deferred_drains(void)
{
	struct rig *rig = begin();
	void *p;

	for (unsigned way = 0; way < 4; way++) {
		p = fallow_alloc(&rig->heap, 300);
		fallow_free_deferred(&rig->heap, p);
		if (way == 0)
			drain(rig);
		else if (way == 1)
			fallow_collect(&rig->heap);
		else if (way == 2)
			fallow_offline(&rig->heap);
		else
			p = fallow_realloc(&rig->heap, NULL, 3 * MIB);
		CHECK_EQUAL(now(rig).deferred, 0);
	}
	fallow_free(&rig->heap, p);
	/* A NOWAIT call does not: frees take locks. */
	p = fallow_alloc(&rig->heap, 300);
	fallow_free_deferred(&rig->heap, p);
	p = fallow_alloc_aligned_flags(&rig->heap, 64, 64, FALLOW_NOWAIT);
	CHECK_EQUAL(now(rig).deferred, 1);
	fallow_free(&rig->heap, p);
	/* And at the end nobody minds. */
	rig_end_now(rig, true);
}

/* NULL is nothing, also for a heap that has nothing yet. */
static void test_deferred_null(void)
{
	struct rig *rig = begin();

	fallow_free_deferred(&rig->heap, NULL);
	CHECK_EQUAL(now(rig).deferred, 0);
	CHECK(!deferred_waiting(white_heap(rig)));
	white_end(rig);
}

/* Drains, and expects that to report one misuse of this kind. */
static void drain_reports(struct rig *rig, enum fallow_misuse_kind kind,
	const void *address)
{
	unsigned before = rig->misuses;

	drain(rig);
	CHECK_EQUAL(rig->misuses, before + 1);
	CHECK_EQUAL(rig->misuse.kind, kind);
	CHECK_EQUAL(rig->misuse.address, (uintptr_t)address);
	rig->misuses_expected = rig->misuses;
	white_check(rig);
}

/* The second one is noticed, and freed is the block once. */
static void test_deferred_twice(void)
{
	for (size_t i = 0; i < SIZES; i++) {
		struct rig *rig = begin();
		void *p = fallow_alloc(&rig->heap, sizes[i]);
		void *q = fallow_alloc(&rig->heap, sizes[i]);

		fallow_free_deferred(&rig->heap, p);
		fallow_free_deferred(&rig->heap, q);
		fallow_free_deferred(&rig->heap, p);
		CHECK_EQUAL(now(rig).deferred, 2);
		CHECK_EQUAL(rig->misuses, 0);
		drain_reports(rig, FALLOW_MISUSE_DOUBLE_FREE, p);
		CHECK_EQUAL(rig->misuse.block_size,
			fallow_good_size(sizes[i]));
		white_end(rig);
	}
}

/* Two that defer a block at once: both have found it in use, one has it. */
static void test_deferred_at_once(void)
{
	for (size_t i = 0; i < SIZES; i++) {
		struct rig *rig = begin();
		void *p = fallow_alloc(&rig->heap, sizes[i]);
		struct page *page = white_page(rig, p);

		CHECK(fl_deferred_push(white_heap(rig), page, p));
		CHECK(!fl_deferred_push(white_heap(rig), page, p));
		CHECK_EQUAL(now(rig).deferred, 1);
		drain(rig);
		CHECK_EQUAL(rig->misuses, 0);
		white_end(rig);
	}
}

/* A block that is free already is not written to; by its owner's free, by
 * another's. */
static void test_deferred_after_free(void)
{
	for (size_t i = 0; i < SIZES * 2; i++) {
		struct rig *rig = begin();
		void *keep = fallow_alloc(&rig->heap, sizes[i / 2]);
		void *p = fallow_alloc(&rig->heap, sizes[i / 2]);

		white_free(rig, i % 2, p);
		fallow_free_deferred(&rig->heap, white_opaque(p));
		CHECK_EQUAL(now(rig).deferred, 0);
		drain_reports(rig,
			sizes[i / 2] > SLICE_BYTES
				? FALLOW_MISUSE_FOREIGN
				: FALLOW_MISUSE_DOUBLE_FREE, p);
		fallow_free(&rig->heap, keep);
		white_end(rig);
	}
}

/* A free, a realloc, a question after the deferral are reported at once, and
 * what was deferred before and after is freed all the same. */
static void test_deferred_then_freed(void)
{
	for (size_t i = 0; i < SIZES * 4; i++) {
		struct rig *rig = begin();
		void *blocks[3];
		void *p;

		defer(rig, blocks, 3, sizes[i / 4]);
		p = white_opaque(blocks[1]);
		if (i % 4 == 2)
			CHECK(fallow_realloc(&rig->heap, p,
				      sizes[i / 4] * 3) == NULL);
		else if (i % 4 == 3)
			CHECK_EQUAL(fallow_usable_size(&rig->heap, p), 0);
		else
			white_free(rig, i % 4, p);
		CHECK_EQUAL(rig->misuses, 1);
		CHECK_EQUAL(rig->misuse.kind, FALLOW_MISUSE_DOUBLE_FREE);
		rig->misuses_expected = 1;
		CHECK_EQUAL(now(rig).deferred, 3);
		drain(rig);
		CHECK_EQUAL(rig->misuses, 1);
		white_end(rig);
	}
}

/* Nothing but the word that a block's second word is tested by is read of a
 * pointer that is no block, and nothing is written. */
static void test_deferred_foreign(void)
{
	struct rig *rig = begin();
	char *small = fallow_alloc(&rig->heap, 100);
	char *medium = fallow_alloc(&rig->heap, MEDIUM_BYTES);
	char *span = fallow_alloc(&rig->heap, MIB);
	uint64_t other[4] = { 1, 2, 3, 4 };
	const struct {
		void *p;
		enum fallow_misuse_kind kind;
	} wrong[] = {
		{ other, FALLOW_MISUSE_FOREIGN },
		{ (void *)16, FALLOW_MISUSE_FOREIGN },
		{ (void *)(UINTPTR_MAX - 15), FALLOW_MISUSE_FOREIGN },
		{ (void *)(rig->sim.base + rig->sim.size - 4 * KIB),
			FALLOW_MISUSE_FOREIGN },
		{ small + 16, FALLOW_MISUSE_INTERIOR },
		{ medium + 64, FALLOW_MISUSE_INTERIOR },
		{ span + 4 * KIB, FALLOW_MISUSE_INTERIOR },
		{ (void *)(white_page(rig, medium)->base + 5 * MEDIUM_BYTES),
			FALLOW_MISUSE_UNFORMED },
	};

	memset(small, 7, 100);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		fallow_free_deferred(&rig->heap, wrong[i].p);
		CHECK_EQUAL(now(rig).deferred, 0);
		drain_reports(rig, wrong[i].kind, wrong[i].p);
	}
	for (unsigned i = 0; i < 100; i++)
		CHECK_EQUAL(small[i], 7);
	CHECK(other[0] == 1 && other[1] == 2);
	fallow_free(&rig->heap, small);
	fallow_free(&rig->heap, medium);
	fallow_free(&rig->heap, span);
	white_end(rig);
}

/* More misuses than there are notes: the rest is counted. */
static void test_deferred_notes_run_out(void)
{
	struct rig *rig = begin();
	uint64_t other[4];

	for (unsigned round = 1; round <= 3; round++) {
		for (unsigned i = 0; i < NOTES + 5; i++)
			fallow_free_deferred(&rig->heap, other);
		drain(rig);
		CHECK_EQUAL(rig->misuses, round * NOTES);
		CHECK_EQUAL(now(rig).misuses, round * (NOTES + 5));
	}
	rig->misuses_expected = rig->misuses;
	white_end(rig);
}

/* A block that was written to after it was deferred: reported, no loop, no
 * free of it, and what was deferred later is freed. */
static void test_deferred_written_to(void)
{
	for (size_t i = 0; i < SIZES; i++) {
		struct rig *rig = begin();
		void *blocks[3];

		defer(rig, blocks, 3, sizes[i]);
		/* A link that would be a loop, did the drain follow it. */
		((void **)white_opaque(blocks[1]))[0] = blocks[2];
		((void **)white_opaque(blocks[1]))[1] = NULL;
		drain(rig);
		CHECK_EQUAL(rig->misuses, 1);
		CHECK_EQUAL(rig->misuse.address, (uintptr_t)blocks[1]);
		rig->misuses_expected = 1;
		CHECK_EQUAL(now(rig).blocks, 2);
		white_check(rig);
		rig_end_now(rig, true);
	}
}

/* One that was written to and then freed besides, which no free can notice: its
 * memory is gone by the time that the drain comes, which touches none of it. */
static void test_deferred_gone(void)
{
	for (size_t i = 0; i < SIZES * 2; i++) {
		struct rig *rig = begin();
		void *keep = fallow_alloc(&rig->heap, sizes[i / 2]);
		void *blocks[600];
		unsigned n = sizes[i / 2] < 2000 ? 600 : 6;
		struct op op;

		for (unsigned k = 0; k < n; k++)
			blocks[k] = fallow_alloc(&rig->heap, sizes[i / 2]);
		fallow_free_deferred(&rig->heap, blocks[n / 2]);
		((struct block *)white_opaque(blocks[n / 2]))->mark = 0;
		for (unsigned k = 0; k < n; k++)
			fallow_free(&rig->heap, blocks[k]);
		/* With the whole page, or with others in use beside it. */
		if (i % 2)
			fallow_free(&rig->heap, keep);
		op = white_op(rig, 0);
		CHECK(fl_reclaim(&op, FALLOW_RECLAIM_FLOOR) > 0);
		op_drop(&op);
		CHECK(fallow_check(&rig->heap, NULL) != NULL);
		drain_reports(rig, FALLOW_MISUSE_DOUBLE_FREE, blocks[n / 2]);
		CHECK_EQUAL(now(rig).blocks, 1 - i % 2);
		rig_end_now(rig, true);
	}
}

static void broken_is(struct rig *rig, const char *sentence)
{
	const char *broken = fallow_check(&rig->heap, NULL);

	CHECK(broken != NULL && strcmp(broken, sentence) == 0);
}

/* The checker sees a list that is not as it must be. */
static void test_deferred_checked(void)
{
	struct rig *rig = begin();
	struct heap *heap = white_heap(rig);
	struct block *blocks[3];
	uintptr_t mark;

	defer(rig, (void **)blocks, 3, 20 * KIB);
	mark = blocks[1]->mark;
	blocks[1]->mark = 0;
	broken_is(rig, "a deferred block carries its mark");
	blocks[1]->mark = mark;
	blocks[0]->next = blocks[1];
	broken_is(rig, "deferred blocks are counted");
	blocks[0]->next = NULL;
	heap->deferred_count--;
	broken_is(rig, "deferred blocks are counted");
	heap->deferred_count++;
	white_check(rig);
	drain(rig);
	white_end(rig);
}

/* A mark that the drain left would be found in the next user's block. */
static void test_deferred_leaves_no_mark(void)
{
	for (size_t i = 0; i < SIZES; i++) {
		struct rig *rig = begin();

		for (unsigned n = 0; n < 50; n++) {
			void *p = fallow_alloc(&rig->heap, sizes[i]);

			CHECK_OR_RETURN(p != NULL);
			if (n % 2)
				fallow_free(&rig->heap, p);
			else
				fallow_free_deferred(&rig->heap, p);
			drain(rig);
		}
		CHECK_EQUAL(rig->misuses, 0);
		white_end(rig);
	}
}

const struct test tests[] = {
	{ "deferred_then_drained", test_deferred_then_drained },
	{ "deferred_drains", test_deferred_drains },
	{ "deferred_null", test_deferred_null },
	{ "deferred_twice", test_deferred_twice },
	{ "deferred_at_once", test_deferred_at_once },
	{ "deferred_after_free", test_deferred_after_free },
	{ "deferred_then_freed", test_deferred_then_freed },
	{ "deferred_foreign", test_deferred_foreign },
	{ "deferred_notes_run_out", test_deferred_notes_run_out },
	{ "deferred_written_to", test_deferred_written_to },
	{ "deferred_gone", test_deferred_gone },
	{ "deferred_checked", test_deferred_checked },
	{ "deferred_leaves_no_mark", test_deferred_leaves_no_mark },
	{ NULL, NULL },
};
