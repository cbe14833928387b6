/* SPDX-License-Identifier: MIT */
/*
 * When a block stays where it is, what a move keeps, and what is left when it
 * fails.
 */
#include <string.h>

#include "white.h"

#define MIB ((size_t)1 << 20)

static struct rig *begin(void)
{
	return rig_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 2);
}

/* Of every class: it stays while more than half of the block is used. */
static void test_realloc_stays(void)
{
	struct rig *rig = begin();

	for (unsigned class = 0; class < CLASS_COUNT; class++) {
		size_t size = class_size(class);
		char *p = fallow_alloc(&rig->heap, size), *q;

		CHECK_OR_RETURN(p != NULL);
		CHECK(fallow_realloc(&rig->heap, p, size) == p);
		CHECK(fallow_realloc(&rig->heap, p, size / 2 + 1) == p);
		q = fallow_realloc(&rig->heap, p, size / 2);
		CHECK((q == p) == (size == 16));
		CHECK_EQUAL(fallow_usable_size(&rig->heap, q),
			fallow_good_size(size / 2));
		p = fallow_realloc(&rig->heap, q, size + 1);
		CHECK(p != q && p != NULL);
		CHECK(fallow_usable_size(&rig->heap, p) > size);
		fallow_free(&rig->heap, p);
	}
	white_check(rig);
	white_end(rig);
}

/* Bytes of the smaller size go along; the old block is free afterwards. */
static void test_realloc_moves(void)
{
	static const size_t sizes[] = { 1, 16, 100, 5000, 70000, 600000, 3000,
		40, 1300000, 9 };
	struct rig *rig = begin();
	unsigned char *p = fallow_alloc(&rig->heap, 1);
	size_t old = 1;

	p[0] = 0;
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct fallow_snapshot now = { .size = sizeof(now) };
		size_t same = old < sizes[i] ? old : sizes[i];

		p = fallow_realloc(&rig->heap, p, sizes[i]);
		CHECK_OR_RETURN(p != NULL);
		for (size_t j = 0; j < same; j++)
			if (p[j] != (unsigned char)(j * 3)) {
				CHECK_EQUAL(p[j], (unsigned char)(j * 3));
				break;
			}
		for (size_t j = 0; j < sizes[i]; j++)
			p[j] = (unsigned char)(j * 3);
		old = sizes[i];
		fallow_snapshot(&rig->heap, &now);
		CHECK_EQUAL(now.blocks, 1);
	}
	fallow_free(&rig->heap, p);
	white_end(rig);
}

/* The alignment asked for is kept, bounded by what the block had. */
static void test_realloc_alignment(void)
{
	struct rig *rig = begin();

	for (size_t align = 16; align <= 4 * MIB; align *= 2) {
		static const size_t sizes[] = { 3000, 70000, 10, 700000, 1 };
		char *p = fallow_alloc_aligned(&rig->heap, align, 100);

		CHECK_EQUAL((uintptr_t)p % align, 0);
		for (unsigned i = 0; i < 5 && p != NULL; i++) {
			p = fallow_realloc(&rig->heap, p, sizes[i]);
			CHECK(p != NULL);
			CHECK_EQUAL((uintptr_t)p % align, 0);
		}
		fallow_free(&rig->heap, p);
	}
	white_end(rig);
}

/* No memory: a growing one is as it was; a shrinking one stays as it is, and
 * a sized free of it may say the new size. */
static void test_realloc_refused(void)
{
	struct rig *rig = begin();
	/* Of a medium page. */
	size_t size = SLICE_BYTES / 64 * 9;
	unsigned char *p = fallow_alloc(&rig->heap, size - 16);
	struct page *page = white_page(rig, p);

	memset(p, 0x21, size - 16);
	rig->sim.refuse_from = 1;
	CHECK(fallow_realloc(&rig->heap, p, 5 * MIB) == NULL);
	CHECK_EQUAL(page->loose, 0);
	CHECK(fallow_realloc(&rig->heap, p, 100) == p);
	CHECK_EQUAL(page->loose, 1);
	for (unsigned i = 0; i < size - 16; i++)
		CHECK_EQUAL(p[i], 0x21);
	CHECK_EQUAL(fallow_usable_size(&rig->heap, p), size);
	white_check(rig);
	fallow_free_sized(&rig->heap, p, 100);
	CHECK_EQUAL(rig->misuses, 0);
	rig->sim.refuse_from = 0;
	rig_end_now(rig, true);
}

/* Zero is what is beyond the old block, wherever the new one lies. */
static void test_realloc_zero(void)
{
	static const size_t sizes[] = { 40, 1000, 20000, 90000, 800000,
		900000 };
	struct rig *rig = begin();
	unsigned char *p = fallow_alloc(&rig->heap, 20);
	size_t usable = fallow_usable_size(&rig->heap, p);

	rig->sim.dirty_rate = 256;
	memset(p, 0x99, usable);
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t bad = 0;

		p = fallow_realloc_flags(
			&rig->heap, p, sizes[i], FALLOW_ZERO);
		CHECK_OR_RETURN(p != NULL);
		for (size_t j = 0; j < fallow_usable_size(&rig->heap, p); j++)
			bad += p[j] != (j < usable ? 0x99 : 0);
		CHECK_EQUAL(bad, 0);
		usable = fallow_usable_size(&rig->heap, p);
		memset(p, 0x99, usable);
	}
	fallow_free(&rig->heap, p);
	white_end(rig);
}

/* NULL allocates, 0 makes the smallest block, and what is too large or no
 * block changes nothing. */
static void test_realloc_edges(void)
{
	struct rig *rig = begin();
	char *p = fallow_realloc(&rig->heap, NULL, 100);

	CHECK_EQUAL(fallow_usable_size(&rig->heap, p), 112);
	p = fallow_realloc(&rig->heap, p, 0);
	CHECK_EQUAL(fallow_usable_size(&rig->heap, p), 16);
	CHECK(fallow_realloc(&rig->heap, white_opaque(p),
		      (size_t)(uintptr_t)white_opaque((void *)-1)) == NULL);
	CHECK_EQUAL(rig->misuses, 0);
	CHECK(fallow_realloc(&rig->heap, (char *)white_opaque(p) + 8, 5) ==
		NULL);
	CHECK_EQUAL(rig->misuses, 1);
	CHECK_EQUAL(rig->misuse.kind, FALLOW_MISUSE_INTERIOR);
	fallow_free(&rig->heap, p);
	CHECK(fallow_realloc(&rig->heap, white_opaque(p), 5) == NULL);
	CHECK_EQUAL(rig->misuse.kind, FALLOW_MISUSE_DOUBLE_FREE);
	rig->misuses_expected = 2;
	white_end(rig);
}

/* A span that shrinks under NOWAIT waits for nobody; if its slices cannot go
 * now it stays as large as it is, and a sized free of it is right. */
static void test_realloc_nowait_locked(void)
{
	struct rig *rig = begin();
	void *p = fallow_alloc(&rig->heap, 4 * MIB);

	white_lock_hold(white_heap(rig));
	CHECK(fallow_realloc_flags(&rig->heap, p, MIB, FALLOW_NOWAIT) == p);
	white_lock_release(white_heap(rig));
	CHECK_EQUAL(fallow_usable_size(&rig->heap, p), 4 * MIB);
	white_check(rig);
	fallow_free_sized(&rig->heap, p, MIB);
	CHECK_EQUAL(rig->misuses, 0);
	p = fallow_alloc(&rig->heap, 4 * MIB);
	CHECK(fallow_realloc_flags(&rig->heap, p, MIB, FALLOW_NOWAIT) == p);
	CHECK_EQUAL(fallow_usable_size(&rig->heap, p), MIB);
	fallow_free(&rig->heap, p);
	white_end(rig);
}

/* Of no block: a misuse is the caller's of the public function all the same. */
static void test_realloc_null_caller(void)
{
	struct rig *rig = begin();
	uintptr_t here = (uintptr_t)test_realloc_null_caller;

	white_heap(rig)->locals[0]->calling = 1;
	CHECK(fallow_realloc(&rig->heap, NULL, 10) == NULL);
	white_heap(rig)->locals[0]->calling = 0;
	CHECK_EQUAL(rig->misuse.kind, FALLOW_MISUSE_REENTRY);
	CHECK(rig->misuse.caller - here < 4096);
	rig->misuses_expected = 1;
	white_end(rig);
}

const struct test tests[] = {
	{ "realloc_null_caller", test_realloc_null_caller },
	{ "realloc_stays", test_realloc_stays },
	{ "realloc_moves", test_realloc_moves },
	{ "realloc_alignment", test_realloc_alignment },
	{ "realloc_refused", test_realloc_refused },
	{ "realloc_zero", test_realloc_zero },
	{ "realloc_edges", test_realloc_edges },
	{ "realloc_nowait_locked", test_realloc_nowait_locked },
	{ NULL, NULL },
};
