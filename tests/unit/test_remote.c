/* SPDX-License-Identifier: MIT */
/*
 * The remote word: what its bits mean, and that pushing, taking and changing
 * the state each leave the other half as it was.
 */
#include "remote.h"
#include "page.h"
#include "test.h"

static const enum remote_state states[] = { REMOTE_TRANSIT, REMOTE_OWNED,
	REMOTE_FULL, REMOTE_NOTIFIED, REMOTE_ABANDONED };
#define STATES (sizeof(states) / sizeof(states[0]))

/* A slice of real memory for a small page's blocks. */
static _Alignas(4096) unsigned char memory[SLICE_BYTES];

/* A page of the class whose blocks are in `memory`, if they are small. */
static struct page page_of(unsigned class)
{
	struct chunk chunk = { .base = (uintptr_t)memory };
	struct page page;

	fl_page_init(&page, &chunk, 0, class,
		fl_size_page_slices(class, false));
	return page;
}

static void *block_at(const struct page *page, uint32_t index)
{
	return (void *)(page->base + (uintptr_t)index * page->block_size);
}

/* State and blocks do not touch each other, whatever the blocks are. */
static void test_remote_word(void)
{
	static const uint64_t blocks[] = { 0, 1, REMOTE_BLOCKS, 0x1234567890abc,
		(uint64_t)1 << 55 };

	CHECK_EQUAL(REMOTE_BLOCKS, ((uint64_t)1 << 56) - 1);
	for (unsigned i = 0; i < STATES; i++)
		for (unsigned j = 0; j < 5; j++) {
			uint64_t word = remote_word(states[i], blocks[j]);

			CHECK_EQUAL(remote_state(word), states[i]);
			CHECK_EQUAL(word & REMOTE_BLOCKS, blocks[j]);
			for (unsigned k = 0; k < STATES; k++)
				CHECK_EQUAL(remote_with(word, states[k]),
					remote_word(states[k], blocks[j]));
		}
}

/* A small page: count and head, newest first, links in the blocks. */
static void test_remote_small(void)
{
	struct page page = page_of(0);
	uint32_t n = page.capacity;
	struct block *block;
	bool taken;

	CHECK_EQUAL(n, SLICE_BYTES / 16);
	for (unsigned i = 0; i < STATES; i++) {
		uint64_t word = 0;
		uint32_t index;

		page.remote = remote_word(states[i], 0);
		CHECK(remote_head(&page, page.remote) == NULL);
		for (index = 0; index < n; index++) {
			word = remote_push(&page, block_at(&page, index),
				index, &taken);
			CHECK(!taken);
			if (remote_count(&page, word) != index + 1)
				CHECK_EQUAL(remote_count(&page, word),
					index + 1);
		}
		CHECK_EQUAL(page.remote, word);
		CHECK_EQUAL(remote_state(word), states[i]);
		block = remote_head(&page, word);
		for (index = n; index > 0 && block != NULL; index--) {
			if (block != block_at(&page, index - 1))
				break;
			block = block->next;
		}
		CHECK_EQUAL(index, 0);
		CHECK(block == NULL);
		CHECK_EQUAL(remote_take(&page), word);
		CHECK_EQUAL(page.remote, remote_word(states[i], 0));
	}
}

/* A bit-word page: a bit a block, and a second push of one is seen. */
static void test_remote_bits(void)
{
	struct page page = page_of(CLASS_FIRST_MEDIUM);
	uint64_t word;
	bool taken;

	CHECK_EQUAL(page.capacity, 14);
	for (unsigned i = 0; i < STATES; i++) {
		page.remote = remote_word(states[i], 0);
		for (uint32_t index = 0; index < page.capacity; index++) {
			word = remote_push(&page, NULL, index, &taken);
			CHECK(!taken);
			CHECK_EQUAL(word,
				remote_word(states[i],
					((uint64_t)2 << index) - 1));
			CHECK_EQUAL(remote_count(&page, word), index + 1);
			word = remote_push(&page, NULL, index, &taken);
			CHECK(taken);
			CHECK_EQUAL(word, page.remote);
		}
		word = page.remote;
		CHECK_EQUAL(remote_take(&page), word);
		CHECK_EQUAL(page.remote, remote_word(states[i], 0));
	}
}

static void test_remote_change(void)
{
	struct page page = page_of(CLASS_FIRST_MEDIUM);

	for (unsigned i = 0; i < STATES; i++)
		for (unsigned j = 0; j < STATES; j++) {
			uint64_t was = remote_word(states[i], 0x5a5a5a);

			page.remote = was;
			CHECK_EQUAL(remote_change(&page, states[j]), was);
			CHECK_EQUAL(page.remote,
				remote_word(states[j], 0x5a5a5a));
		}
}

/* An eighth of a page, and at least one block. */
static void test_remote_worth(void)
{
	for (unsigned class = 0; class < CLASS_COUNT; class++)
		for (int lean = 0; lean < 2; lean++) {
			struct chunk chunk = { .base = CHUNK_BYTES };
			struct page page;
			uint32_t worth;

			fl_page_init(&page, &chunk, 0, class,
				fl_size_page_slices(class, lean));
			worth = capacity_worth(page.capacity);
			CHECK(worth >= 1 && worth <= page.capacity);
			CHECK(worth == 1 || worth * 8 <= page.capacity);
			CHECK((worth + 1) * 8 > page.capacity);
		}
}

const struct test tests[] = {
	{ "remote_word", test_remote_word },
	{ "remote_small", test_remote_small },
	{ "remote_bits", test_remote_bits },
	{ "remote_change", test_remote_change },
	{ "remote_worth", test_remote_worth },
	{ NULL, NULL },
};
