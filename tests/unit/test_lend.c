/* SPDX-License-Identifier: MIT */
/*
 * Blocks of one class for another: sizes that are used by turns share what one of
 * them has committed, and a block that was lent is what one of its own size would
 * be: as aligned, as zero, and right for a sized free.
 */
#include <string.h>

#include "white.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static struct rig *lend_begin(size_t from)
{
	struct rig *rig = rig_prepare(FALLOW_CLASS_WINDOW, 2048 * MIB, 2);

	rig->config.pace_from_bytes = from;
	CHECK_EQUAL(rig_init(rig), FALLOW_OK);
	return rig;
}

static size_t committed(struct rig *rig)
{
	return white_heap(rig)->counters.committed;
}

/* The smallest size of a class. */
static size_t class_least(unsigned class)
{
	return class_size(class - 1) + 1;
}

/* A free block in each of two classes; the larger one's was the last. */
static void two_free(struct rig *rig, unsigned class, unsigned other)
{
	void *p = fallow_alloc(&rig->heap, class_size(class));
	void *q = fallow_alloc(&rig->heap, class_size(other));

	CHECK(p != NULL && q != NULL);
	fallow_free(&rig->heap, p);
	fallow_free(&rig->heap, q);
}

/* One block at a time, of one size after the other. */
static size_t turns(size_t from)
{
	struct rig *rig = lend_begin(from);
	size_t held;

	for (unsigned turn = 0; turn < 4; turn++) {
		for (unsigned class = CLASS_COUNT; class-- > CLASS_DIRECT;) {
			void *p = fallow_alloc(
				&rig->heap, class_least(class));

			CHECK(p != NULL);
			fallow_free_sized(
				&rig->heap, p, class_least(class));
		}
	}
	CHECK_EQUAL(rig->misuses, 0);
	held = committed(rig);
	white_end(rig);
	return held;
}

static void test_lend_turns(void)
{
	size_t with = turns(64 * MIB);
	size_t without = turns(0);

	/* A class in eight, each an eighth of the next. */
	CHECK(with * 4 <= without);
	if (test_failures() > 0)
		test_printf("\n    held %zu KiB, without %zu KiB", with / KIB,
			without / KIB);
}

/* Each class borrows of the next ones that are aligned as it is, and of none that
 * is twice as large as its least size. */
static void test_lend_reach(void)
{
	for (unsigned class = CLASS_DIRECT; class < CLASS_COUNT - 1; class++) {
		size_t align = class_size(class) & (0 - class_size(class));

		for (unsigned other = class + 1;
			other < CLASS_COUNT && other < class + 10; other++) {
			struct rig *rig = lend_begin(64 * MIB);
			size_t least = class_least(class);
			bool lent = class_size(other) < 2 * least &&
				class_size(other) % align == 0;
			void *p = fallow_alloc(&rig->heap, class_size(other));
			void *q;

			fallow_free(&rig->heap, p);
			q = fallow_alloc(&rig->heap, least);
			CHECK_EQUAL(fallow_usable_size(&rig->heap, q),
				class_size(lent ? other : class));
			CHECK_EQUAL((uintptr_t)q % align, 0);
			fallow_free_sized(&rig->heap, q, least);
			CHECK_EQUAL(rig->misuses, 0);
			white_end(rig);
			if (test_failures() > 0)
				return;
		}
	}
}

/* A class for the next block of which memory is committed forms it; behind that it
 * borrows. */
static void test_lend_own_first(void)
{
	struct rig *rig = lend_begin(64 * MIB);
	void *blocks[6], *p = fallow_alloc(&rig->heap, 10 * KIB);
	size_t held;

	/* 12, 24 and 48 KiB are committed for the first three. */
	for (unsigned i = 0; i < 3; i++)
		blocks[i] = fallow_alloc(&rig->heap, 9 * KIB);
	fallow_free(&rig->heap, p);
	held = committed(rig);
	for (unsigned i = 3; i < 6; i++) {
		blocks[i] = fallow_alloc(&rig->heap, 9 * KIB);
		CHECK_EQUAL(fallow_usable_size(&rig->heap, blocks[i]),
			(i < 5 ? 9 : 10) * KIB);
	}
	CHECK_EQUAL(committed(rig), held);
	for (unsigned i = 0; i < 6; i++)
		fallow_free(&rig->heap, blocks[i]);
	white_end(rig);
}

/* Adds blocks of a size to a list until they are so many bytes; returns how many
 * of them are of another class. */
static unsigned fill(struct rig *rig, void ***list, size_t size, size_t bytes)
{
	unsigned lent = 0;

	for (size_t had = 0; had < bytes && test_failures() == 0; had += size) {
		void **block = fallow_alloc(&rig->heap, size);

		CHECK(block != NULL);
		lent += white_page(rig, block)->block_size != size;
		*block = *list;
		*list = block;
	}
	return lent;
}

/* A class with a page borrows when that is used up; one that has more pages than
 * one commits its own, and so does any in a heap without rounds, and one of small
 * blocks. */
static void test_lend_few(void)
{
	static const struct {
		size_t from, size, had;
		unsigned lent;
	} rows[] = {
		{ 64 * MIB, 5 * KIB, 0, 1 },
		{ 64 * MIB, 5 * KIB, 2 * SLICE_BYTES, 0 },
		{ 0, 5 * KIB, 0, 0 },
		{ 64 * MIB, 960, 0, 0 },
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct rig *rig = lend_begin(rows[i].from);
		void **list = NULL, **block;

		CHECK_EQUAL(fill(rig, &list, rows[i].size, rows[i].had), 0);
		two_free(rig, size_class(rows[i].size),
			size_class(rows[i].size * 6 / 5));
		CHECK_EQUAL(fill(rig, &list, rows[i].size, 2 * SLICE_BYTES),
			rows[i].lent);
		while ((block = list) != NULL) {
			list = *block;
			fallow_free(&rig->heap, block);
		}
		white_end(rig);
	}
}

/* All of it is cleared, of a block that was another size's. */
static void test_lend_zero(void)
{
	struct rig *rig = lend_begin(64 * MIB);
	unsigned char *p = fallow_alloc(&rig->heap, 20 * KIB);
	size_t i, n;

	memset(p, 0x55, 20 * KIB);
	fallow_free(&rig->heap, p);
	/* It is more than a compiler knows of. */
	p = white_opaque(fallow_zalloc(&rig->heap, 15 * KIB));
	n = fallow_usable_size(&rig->heap, p);
	CHECK_EQUAL(n, 20 * KIB);
	for (i = 0; i < n; i++)
		if (p[i] != 0)
			break;
	CHECK_EQUAL(i, n);
	fallow_free(&rig->heap, p);
	white_end(rig);
}

/* With an alignment that was asked for. */
static void test_lend_aligned(void)
{
	struct rig *rig = lend_begin(64 * MIB);
	void *p;

	/* Of 4.5 and 5 KiB none is aligned to 2 KiB by rule. */
	two_free(rig, size_class(4608), size_class(5 * KIB));
	p = fallow_alloc_aligned(&rig->heap, 2048, 4 * KIB + 1);
	CHECK_EQUAL((uintptr_t)p % 2048, 0);
	fallow_free_sized(&rig->heap, p, 4 * KIB + 1);
	/* One of 3 KiB would be right for it; it is less than half of this. */
	p = fallow_alloc_aligned(&rig->heap, 1024, 2 * KIB + 1);
	CHECK_EQUAL(fallow_usable_size(&rig->heap, p), 5 * KIB);
	fallow_free_sized(&rig->heap, p, 2 * KIB + 1);
	CHECK_EQUAL(rig->misuses, 0);
	white_end(rig);
}

const struct test tests[] = {
	{ "lend_turns", test_lend_turns },
	{ "lend_reach", test_lend_reach },
	{ "lend_own_first", test_lend_own_first },
	{ "lend_few", test_lend_few },
	{ "lend_zero", test_lend_zero },
	{ "lend_aligned", test_lend_aligned },
	{ NULL, NULL },
};
