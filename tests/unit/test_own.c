/* SPDX-License-Identifier: MIT */
/*
 * The own map of a context, of pages in no heap: what leads where, and what of it
 * is left when pages go.  The host's port has no such map, so its functions are
 * compiled here as for a port that has.
 */
#include "arch.h"

#undef FL_PORT_SERVES
#define FL_PORT_SERVES 1

#include "misuse.h"
#include "own.h"
#include "test.h"

/* Where the pages are: two, as far apart as an entry sees no difference. */
#define FAR ((uintptr_t)1 << 32)
#define CONTEXT 5

static struct own map;
static struct local local = { .index = CONTEXT, .own = &map };
static struct page pages[2];

/* A page of the class, in the chunk at this address, that the context owns. */
static struct page *page_make(
	unsigned i, uintptr_t base, unsigned first, unsigned class)
{
	static struct chunk chunks[2];
	struct page *page = &pages[i];

	chunks[i].base = base;
	fl_page_init(page, &chunks[i], first, class,
		fl_size_page_slices(class, false));
	page_form(page, page->capacity);
	page->owner = CONTEXT |
		(class_kind(class) == PAGE_SMALL ? 0 : OWNER_BITS);
	return page;
}

/* Whether all of the page is led to it. */
static bool leads(const struct page *page)
{
	for (size_t i = 0; i < page->slices; i++)
		if (own_look(&map, page->base + i * SLICE_BYTES) != page ||
			own_look(&map, page->base + (i + 1) * SLICE_BYTES -
					1) != page)
			return false;
	return true;
}

/* How many entries lead anywhere. */
static size_t entries(void)
{
	size_t n = 0;

	for (size_t i = 0; i < OWN_COUNT; i++)
		n += map.away[i] != 0;
	return n;
}

/* A page is found from the first to the last byte, and by nobody when it is
 * gone. */
static void test_own_put(void)
{
	for (unsigned class = 0; class < CLASS_COUNT; class++) {
		struct page *page =
			page_make(0, CHUNK_BYTES * 5000, 3, class);

		own_put(&local, page);
		CHECK(leads(page));
		CHECK_EQUAL(entries(), page->slices);
		own_drop(&local, page);
		CHECK_EQUAL(entries(), 0);
	}
}

/* An entry of 0 has no block, whatever the address. */
static void test_own_nobody(void)
{
	for (unsigned bit = 0; bit < 64; bit++) {
		void *p = (void *)((uintptr_t)1 << bit);

		CHECK(own_look(&map, (uintptr_t)p) == &map.nobody);
		CHECK(misuse_doubtful_own(&map.nobody, p));
	}
	CHECK(misuse_doubtful_own(&map.nobody, NULL));
	CHECK(map.nobody.owner != (CONTEXT | OWNER_BITS));
}

/* Of two pages with the same entry it leads to the one that came last, whose end
 * leaves nothing; and the other's end leaves it. */
static void test_own_shared(void)
{
	for (unsigned class = 0; class < CLASS_COUNT; class++) {
		struct page *old = page_make(0, FAR + CHUNK_BYTES, 0, class);
		struct page *new =
			page_make(1, 7 * FAR + CHUNK_BYTES, 0, class);

		own_put(&local, old);
		own_put(&local, new);
		CHECK(leads(new));
		CHECK(own_look(&map, old->base) == new);
		own_drop(&local, old);
		CHECK(leads(new));
		own_put(&local, old);
		own_drop(&local, new);
		CHECK(leads(old));
		own_drop(&local, old);
		CHECK_EQUAL(entries(), 0);
	}
}

/* Blocks of one page are none of the other, though its entry is the same. */
static void test_own_other(void)
{
	for (unsigned class = 0; class < CLASS_COUNT; class++) {
		struct page *page = page_make(0, FAR + CHUNK_BYTES, 0, class);

		for (size_t i = 0; i < page->capacity; i++)
			for (uintptr_t far = 0; far < 9 * FAR; far += FAR) {
				uintptr_t addr = CHUNK_BYTES + far +
					i * page->block_size;
				uint64_t offset = addr - page->base;

				if ((page->kind == PAGE_SMALL
						    ? small_begins(page, offset)
						    : bits_place_far(page,
							      offset) <
							      page->formed) ==
					(far == FAR))
					continue;
				test_printf("\n    size %u at %zx",
					page->block_size, (size_t)addr);
				CHECK(false);
				return;
			}
	}
}

/* A page with holes is not found, and one is where a context has no map. */
static void test_own_not(void)
{
	struct local none = { .index = CONTEXT };
	struct page *page = page_make(0, CHUNK_BYTES, 0, 0);

	page->owner |= OWNER_HOLES;
	own_put(&local, page);
	CHECK_EQUAL(entries(), 0);
	own_drop(&local, page);
	page->owner &= ~OWNER_HOLES;
	own_put(&none, page);
	own_drop(&none, page);
	CHECK_EQUAL(entries(), 0);
}

const struct test tests[] = {
	{ "own_put", test_own_put },
	{ "own_nobody", test_own_nobody },
	{ "own_shared", test_own_shared },
	{ "own_other", test_own_other },
	{ "own_not", test_own_not },
	{ NULL, NULL },
};
