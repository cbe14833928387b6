/* SPDX-License-Identifier: MIT */
/*
 * Size-class arithmetic over every size there is a class for, against the
 * definition: the class of a size is the smallest whose blocks hold it.
 */
#include "alloc.h"
#include "walk.h"
#include "test.h"

#define KIB ((size_t)1 << 10)

static void test_sizeclass_smallest(void)
{
	unsigned class = 0;

	for (size_t size = 0; size <= SIZE_CLASS_MAX; size++) {
		while (class_size(class) < size)
			class++;
		if (size_class(size) != class) {
			test_printf("\n    size %zu", size);
			CHECK_EQUAL(size_class(size), class);
			return;
		}
	}
	CHECK_EQUAL(class, CLASS_COUNT - 1);
	CHECK_EQUAL(class_size(class), SIZE_CLASS_MAX);
	CHECK_EQUAL(class_size(CLASS_DIRECT - 1), SIZE_DIRECT_MAX);
	for (class = 1; class < CLASS_COUNT; class++)
		CHECK(class_size(class) > class_size(class - 1));
}

/* Returns whether a size wastes no more than sizeclass.h and .c say. */
static bool waste_bounded(size_t size)
{
	size_t waste = class_size(size_class(size)) - size;

	if (size <= 128)
		return waste < 16;
	return waste * 8 < size;
}

static void test_sizeclass_waste(void)
{
	for (size_t size = 1; size <= SIZE_CLASS_MAX; size++)
		if (!waste_bounded(size)) {
			test_printf("\n    size %zu", size);
			CHECK(waste_bounded(size));
			return;
		}
}

/* What holds of each class's size, by its kind. */
static void test_sizeclass_kinds(void)
{
	for (unsigned class = 0; class < CLASS_COUNT; class++) {
		size_t size = class_size(class);
		enum page_kind kind = class_kind(class);

		CHECK_EQUAL(size % 16, 0);
		CHECK_EQUAL(kind == PAGE_SMALL, size <= SIZE_SMALL_MAX);
		CHECK_EQUAL(kind == PAGE_MEDIUM,
			size > SIZE_SMALL_MAX && size <= SIZE_CLASS_MAX);
	}
	/* What programs ask for most has a class of its own. */
	for (size_t size = 16; size <= SIZE_CLASS_MAX; size *= 2)
		CHECK_EQUAL(class_size(size_class(size)), size);
}

/* Whether n slices are enough for a page of `least` blocks of the class. */
static bool enough(unsigned class, unsigned n, unsigned least)
{
	size_t bytes = n * SLICE_BYTES;
	size_t capacity = bytes / class_size(class);

	return capacity >= least &&
		bytes - capacity * class_size(class) <= bytes / 8;
}

static void page_slices_check(unsigned class, bool lean, unsigned least)
{
	unsigned n = fl_size_page_slices(class, lean);
	size_t capacity = n * SLICE_BYTES / class_size(class);

	CHECK(capacity >= least);
	if (class_kind(class) == PAGE_SMALL) {
		CHECK_EQUAL(n, 1);
		CHECK(capacity >= 8 && capacity <= BLOCKS_MAX);
		return;
	}
	CHECK(capacity <= REMOTE_BITS_MAX);
	CHECK(n == PAGE_MEDIUM_SLICES || enough(class, n, least));
	for (unsigned less = 1; less < n; less++)
		CHECK(!enough(class, less, least));
}

static void test_sizeclass_page_slices(void)
{
	for (unsigned class = 0; class < CLASS_COUNT; class++)
		page_slices_check(class, false, 8);
}

static void test_sizeclass_page_slices_lean(void)
{
	for (unsigned class = 0; class < CLASS_COUNT; class++)
		page_slices_check(class, true, 4);
}

/* The class for an alignment, by looking at where blocks would be. */
static unsigned naive_aligned(size_t size, size_t align)
{
	for (unsigned class = 0; class < CLASS_COUNT; class++)
		if (class_size(class) >= size && align <= SLICE_BYTES &&
			class_size(class) % align == 0)
			return class;
	return CLASS_NONE;
}

static void aligned_compare(size_t size, size_t align)
{
	unsigned seen = fl_size_aligned_class(size, align);
	unsigned expected = naive_aligned(size, align);

	if (seen != expected)
		test_printf("\n    size %zu align %zu", size, align);
	CHECK_EQUAL(seen, expected);
}

static void test_sizeclass_aligned(void)
{
	uint64_t random = test_seed;

	for (size_t align = 1; align != 0 && !test_failures(); align *= 2) {
		for (unsigned class = 0; class < CLASS_COUNT; class++) {
			aligned_compare(class_size(class) - 1, align);
			aligned_compare(class_size(class), align);
			aligned_compare(class_size(class) + 1, align);
		}
		for (unsigned i = 0; i < 2000; i++)
			aligned_compare(
				test_random(&random) % (SIZE_CLASS_MAX + 2),
				align);
		aligned_compare(0, align);
		aligned_compare(SIZE_MAX, align);
	}
}

/* The block that an address is in, and whether it is its begin, at every byte
 * of a page of each class. */
static void test_sizeclass_place(void)
{
	struct chunk chunk = { .base = CHUNK_BYTES * 5 };
	struct page page;

	for (unsigned class = 0; class < CLASS_COUNT; class++) {
		unsigned n = fl_size_page_slices(class, false);
		size_t size = class_size(class);
		size_t bytes = n * SLICE_BYTES;
		uint32_t index = 0;

		fl_page_init(&page, &chunk, 0, class, n);
		CHECK_EQUAL(page.capacity, bytes / size);
		for (size_t at = 0, in = 0; at < bytes; at++, in++) {
			uint32_t place = page_place(&page, (uint32_t)at);

			if (in == size) {
				in = 0;
				index++;
			}
			if (page_index(&page, page.base + at) == index &&
				(in == 0 ? place == index
					 : place >= page.capacity))
				continue;
			test_printf("\n    size %zu at %zu", size, at);
			CHECK_EQUAL(page_index(&page, page.base + at), index);
			CHECK_EQUAL(place, index);
			return;
		}
	}
}

/* What the hot free asks, at every byte of a page of each small class, of which
 * none, one, half or all of the blocks are formed. */
static void test_sizeclass_begins(void)
{
	struct chunk chunk = { .base = CHUNK_BYTES * 5 };
	struct page page;

	for (unsigned class = 0; class < CLASS_FIRST_MEDIUM; class++) {
		size_t size = class_size(class);

		fl_page_init(&page, &chunk, 0, class, 1);
		for (unsigned part = 0; part < 4; part++) {
			uint32_t formed = part == 0 ? 0
				: part == 1         ? 1
						    : page.capacity * part / 3;

			page_form(&page, formed);
			for (size_t at = 0; at < SLICE_BYTES; at++)
				if (small_begins(&page, (uint32_t)at) !=
					(at % size == 0 && at / size < formed)) {
					test_printf("\n    size %zu at %zu of "
						    "%u blocks",
						size, at, formed);
					CHECK(false);
					return;
				}
		}
	}
}

/* Whether the address at this distance from a page's begin is taken for one of its
 * blocks, all of which are formed. */
static bool begins_far(const struct page *page, uint64_t offset)
{
	return page->kind == PAGE_SMALL
		? small_begins(page, offset)
		: bits_place_far(page, offset) < page->formed;
}

/* No address outside of a page is that of a block of it: beside it, at each power
 * of two, and anywhere. */
static void test_sizeclass_far(void)
{
	struct chunk chunk = { .base = CHUNK_BYTES * 5 };
	uint64_t random = test_seed;
	struct page page;

	for (unsigned class = 0; class < CLASS_COUNT; class++) {
		unsigned n = fl_size_page_slices(class, false);

		fl_page_init(&page, &chunk, 0, class, n);
		page_form(&page, page.capacity);
		for (unsigned i = 0; i < 4096; i++) {
			uint64_t near = i / 64 * page.block_size;
			uint64_t far = i % 64 < 49 ? (uint64_t)1 << i % 64
						   : test_random(&random) >> 16;
			uint64_t at = (i / 64 + i) % 2 == 0 ? near + far
							     : near - far;

			CHECK_EQUAL(begins_far(&page, at),
				at < page.capacity * page.block_size &&
					at % page.block_size == 0);
		}
	}
}

const struct test tests[] = {
	{ "sizeclass_smallest", test_sizeclass_smallest },
	{ "sizeclass_waste", test_sizeclass_waste },
	{ "sizeclass_kinds", test_sizeclass_kinds },
	{ "sizeclass_page_slices", test_sizeclass_page_slices },
	{ "sizeclass_page_slices_lean", test_sizeclass_page_slices_lean },
	{ "sizeclass_aligned", test_sizeclass_aligned },
	{ "sizeclass_place", test_sizeclass_place },
	{ "sizeclass_begins", test_sizeclass_begins },
	{ "sizeclass_far", test_sizeclass_far },
	{ NULL, NULL },
};
