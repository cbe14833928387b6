/* SPDX-License-Identifier: MIT */
/*
 * From a pointer to its page, and the block back: by its owner, by another, of
 * each kind; and which sizes a sized free believes.
 */
#include "white.h"

#define MIB ((size_t)1 << 20)

static struct rig *begin(void)
{
	return rig_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 3);
}

/* Blocks of a size into blocks[]; returns their page. */
static struct page *take(
	struct rig *rig, void **blocks, unsigned n, size_t size)
{
	for (unsigned i = 0; i < n; i++)
		CHECK((blocks[i] = fallow_alloc(&rig->heap, size)) != NULL);
	return white_page(rig, blocks[0]);
}

/* The owner's small block: first in the list, marked. */
static void test_free_small_own(void)
{
	struct rig *rig = begin();
	struct block *blocks[8];
	struct page *page = take(rig, (void **)blocks, 8, 200);
	struct block *rest = page->free;
	uint32_t used = page_used(page);

	for (unsigned i = 0; i < 8; i++) {
		fallow_free(&rig->heap, blocks[i]);
		CHECK(page->free == blocks[i]);
		CHECK(blocks[i]->next == (i == 0 ? rest : blocks[i - 1]));
		CHECK_EQUAL(blocks[i]->mark, page->mark);
		CHECK_EQUAL(page_used(page), used - i - 1);
	}
	CHECK_EQUAL(page->remote, remote_word(REMOTE_OWNED, 0));
	white_check(rig);
	rig_end_now(rig, true);
}

/* Another's: into the word, marked as well; the owner's list stays. */
static void test_free_small_remote(void)
{
	struct rig *rig = begin();
	struct block *blocks[8];
	struct page *page = take(rig, (void **)blocks, 8, 200);
	struct block *rest = page->free;
	uint32_t used = page_used(page);

	for (unsigned i = 0; i < 8; i++) {
		white_free(rig, 1 + i % 2, blocks[i]);
		CHECK(remote_head(page, page->remote) == blocks[i]);
		CHECK_EQUAL(remote_count(page, page->remote), i + 1);
		CHECK_EQUAL(blocks[i]->mark, page->mark);
		white_check(rig);
	}
	CHECK(page->free == rest);
	CHECK_EQUAL(page_used(page), used);
	rig_end_now(rig, true);
}

/* Bit-word blocks are not touched. */
static void test_free_bits(void)
{
	struct rig *rig = begin();
	uint64_t *blocks[6];
	struct page *page = take(rig, (void **)blocks, 6, 9000);

	for (unsigned i = 0; i < 6; i++)
		blocks[i][0] = blocks[i][1] = 0x1122334455667788 + i;
	for (unsigned i = 0; i < 6; i++) {
		white_free(rig, i % 2, blocks[i]);
		CHECK_EQUAL((i % 2 ? page->remote : page->bits) >>
				page_index(page, (uintptr_t)blocks[i]) & 1, 1);
		CHECK_EQUAL(blocks[i][0], 0x1122334455667788 + i);
		CHECK_EQUAL(blocks[i][1], 0x1122334455667788 + i);
	}
	CHECK_EQUAL(page_used(page), 3);
	CHECK_EQUAL(fl_page_fold(page, white_heap(rig)->locals[0]), 3);
	white_check(rig);
	rig_end_now(rig, true);
}

/* Each second free, by whom ever, of each kind, is reported and changes
 * nothing. */
static void test_free_twice(void)
{
	static const size_t sizes[] = { 16, 1000, 9000, 80000, 700000 };
	struct rig *rig = begin();

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (unsigned how = 0; how < 4; how++) {
			void *blocks[3];

			take(rig, blocks, 3, sizes[i]);
			white_free(rig, how & 1, blocks[1]);
			rig->misuse.kind = 0;
			white_free(rig, how >> 1, blocks[1]);
			rig->misuses_expected++;
			CHECK_EQUAL(rig->misuses, rig->misuses_expected);
			CHECK_EQUAL(rig->misuse.kind,
				FALLOW_MISUSE_DOUBLE_FREE);
			CHECK_EQUAL(rig->misuse.address, blocks[1]);
			white_check(rig);
			white_free(rig, 0, blocks[0]);
			white_free(rig, 1, blocks[2]);
			white_check(rig);
		}
	white_end(rig);
}

/* A second free is one when all around the block is free, and given back; a
 * pointer to where no block began is foreign there, and to what is in use again
 * is what it is in that. */
static void test_free_twice_gone(void)
{
	static const size_t sizes[] = { 16, 1000, 9000, 80000, 700000 };

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (unsigned how = 0; how < 2; how++) {
			struct rig *rig = begin();
			void *blocks[3];

			take(rig, blocks, 3, sizes[i]);
			for (unsigned j = 0; j < 3; j++)
				fallow_free(&rig->heap, blocks[j]);
			if (how == 1)
				fallow_collect(&rig->heap);
			CHECK_EQUAL(rig->misuses, 0);
			for (unsigned j = 0; j < 3; j++) {
				white_free(rig, j & 1, white_opaque(blocks[j]));
				CHECK_EQUAL(rig->misuse.kind,
					FALLOW_MISUSE_DOUBLE_FREE);
			}
			if (how == 1) {
				white_free(rig, 0, (char *)white_opaque(
						blocks[1]) + 8);
				CHECK_EQUAL(rig->misuse.kind,
					FALLOW_MISUSE_FOREIGN);
				rig->misuses_expected++;
			}
			rig->misuses_expected += 3;
			CHECK_EQUAL(rig->misuses, rig->misuses_expected);
			white_check(rig);
			white_end(rig);
		}
}

/* An address in a page that is no block's begin, or of a block that there was
 * not yet, is reported, by whomever it is freed; memory that is there, and looks
 * like that of a block in use, makes it no block. */
static void test_free_unformed(void)
{
	static const size_t sizes[] = { 16, 1000, 9000, 50000 };
	struct rig *rig = begin();

	for (unsigned i = 0; i < 4; i++) {
		unsigned class = size_class(sizes[i]);
		struct page *page = white_page_new(rig, class);
		size_t slice = (page->base - white_heap(rig)->base) >>
			FALLOW_SLICE_LOG2;
		struct op op = white_op(rig, 0);
		/* More than is formed at once. */
		size_t least = 2 * sizes[i] > 2 * GRANULE_BYTES
			? 2 * sizes[i]
			: 2 * GRANULE_BYTES;

		while (page->committed < least)
			CHECK_OR_RETURN(fl_page_commit(&op, page));
		CHECK(fl_page_form(page));
		white_pop(page, page->formed);
		for (unsigned j = 0; j < page->slices; j++)
			white_heap(rig)->map[slice + j] = page;
		CHECK(page->formed < page->capacity);
		fl_local_join(white_heap(rig), white_heap(rig)->locals[0], page);
		op_drop(&op);
		for (unsigned how = 0; how < 4; how++) {
			char *next = white_block(page, page->formed);
			enum fallow_misuse_kind kind = how & 2
				? FALLOW_MISUSE_INTERIOR
				: FALLOW_MISUSE_UNFORMED;

			rig->misuse.kind = 0;
			if (how & 2)
				next -= page->block_size - 8;
			white_free(rig, how & 1, next);
			if (!(how & 1)) {
				CHECK_EQUAL(rig->misuse.kind, kind);
				rig->misuse.kind = 0;
				fallow_free(&rig->heap, next);
				rig->misuses_expected++;
			}
			rig->misuses_expected++;
			CHECK_EQUAL(rig->misuse.kind, kind);
			CHECK_EQUAL(rig->misuses, rig->misuses_expected);
			CHECK_EQUAL(page_used(page), page->formed);
			CHECK(!page_has(page));
			CHECK_EQUAL(page->remote, remote_word(REMOTE_OWNED, 0));
		}
	}
	rig_end_now(rig, true);
}

/* The last block of a queued page takes the page with it; of the current one
 * it does not. */
static void test_free_last(void)
{
	struct rig *rig = begin();
	void *blocks[65];
	struct page *page = take(rig, blocks, 65, 1024);
	struct page *current = white_page(rig, blocks[64]);

	for (unsigned i = 0; i < 64; i++) {
		CHECK(white_page(rig, blocks[i]) == page);
		fallow_free(&rig->heap, blocks[i]);
	}
	CHECK(white_page(rig, blocks[0]) == NULL);
	fallow_free(&rig->heap, blocks[64]);
	CHECK(white_page(rig, blocks[64]) == current);
	CHECK_EQUAL(page_used(current), 0);
	white_check(rig);
	white_end(rig);
}

/* Whether a sized free of a fresh block believes a size. */
static bool believed(struct rig *rig, size_t asked, size_t align, size_t given)
{
	void *p = fallow_alloc_aligned(&rig->heap, align, asked);
	unsigned before = rig->misuses;

	fallow_free_sized(&rig->heap, p, given);
	if (rig->misuses == before)
		return true;
	CHECK_EQUAL(rig->misuse.kind, FALLOW_MISUSE_WRONG_SIZE);
	CHECK_EQUAL(rig->misuse.given_size, given);
	rig->misuses = before;
	fallow_free(&rig->heap, p);
	CHECK_EQUAL(rig->misuses, before);
	rig->misuses = before;
	return false;
}

/* What was asked for, always; what fills half of the block or less, never,
 * but of the smallest and of pages with aligned blocks. */
static void test_free_sized(void)
{
	struct rig *rig = begin();

	for (unsigned class = 0; class < CLASS_COUNT; class++) {
		size_t size = class_size(class);
		size_t least = class == 0 ? 0 : class_size(class - 1) + 1;

		CHECK(believed(rig, size, 16, size));
		CHECK(believed(rig, least, 16, least));
		CHECK(believed(rig, size, 16, size / 2 + 1));
		CHECK(!believed(rig, size, 16, size + 1));
		CHECK(!believed(rig, size, 16, SIZE_MAX));
		CHECK_EQUAL(believed(rig, size, 16, size / 2), size == 16);
	}
	CHECK(believed(rig, 700000, 16, 700000));
	CHECK(believed(rig, 700000, 16, 400000));
	CHECK(!believed(rig, 700000, 16, 300000));
	CHECK(!believed(rig, 700000, 16, 800000));
	CHECK(believed(rig, 10, 4096, 10));
	white_end(rig);
}

static void test_free_usable_and_owns(void)
{
	static const size_t sizes[] = { 1, 600, 9000, 80000, 700000 };
	struct rig *rig = begin();

	CHECK_EQUAL(fallow_usable_size(&rig->heap, NULL), 0);
	CHECK(!fallow_owns(&rig->heap, NULL));
	CHECK(!fallow_owns(&rig->heap, &rig));
	fallow_free(&rig->heap, NULL);
	fallow_free_sized(&rig->heap, NULL, 5);
	for (unsigned i = 0; i < 5; i++) {
		char *p = fallow_alloc(&rig->heap, sizes[i]);
		size_t usable = fallow_usable_size(&rig->heap, p);

		CHECK_EQUAL(usable, fallow_good_size(sizes[i]));
		CHECK(fallow_owns(&rig->heap, p));
		CHECK(fallow_owns(&rig->heap, p + usable - 1));
		fallow_free(&rig->heap, p);
	}
	CHECK_EQUAL(rig->misuses, 0);
	white_end(rig);
}

const struct test tests[] = {
	{ "free_small_own", test_free_small_own },
	{ "free_small_remote", test_free_small_remote },
	{ "free_bits", test_free_bits },
	{ "free_twice", test_free_twice },
	{ "free_twice_gone", test_free_twice_gone },
	{ "free_unformed", test_free_unformed },
	{ "free_last", test_free_last },
	{ "free_sized", test_free_sized },
	{ "free_usable_and_owns", test_free_usable_and_owns },
	{ NULL, NULL },
};
