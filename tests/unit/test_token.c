/* SPDX-License-Identifier: MIT */
/*
 * Tokens: what is in one is there, whatever becomes of the heap meanwhile.
 */
#include <string.h>

#include "white.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static const size_t sizes[] = { 0, 1, 16, 100, 512, 2000, 8 * KIB, 20 * KIB,
	64 * KIB, 200 * KIB, 512 * KIB, MIB };
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static size_t blocks_now(struct rig *rig)
{
	struct fallow_snapshot now = { .size = sizeof(now) };

	fallow_snapshot(&rig->heap, &now);
	return now.blocks;
}

/* n blocks of each size, each usable in full; then none, and NULL. */
static void test_token_gives_what_was_filled(void)
{
	for (size_t i = 0; i < SIZES; i++) {
		struct rig *rig = rig_begin(
			FALLOW_CLASS_WINDOW, 64 * MIB, 1);
		struct fallow_token token = { 0 };
		uintptr_t align = fallow_good_size(sizes[i]);
		void *blocks[9];

		align &= 0 - align;
		if (align > SLICE_BYTES)
			align = SLICE_BYTES;
		CHECK(fallow_alloc_from(&token) == NULL);
		CHECK(fallow_prefill(&rig->heap, &token, sizes[i], 9, 0));
		CHECK_EQUAL(token.left, 9);
		CHECK_EQUAL(blocks_now(rig), 9);
		for (unsigned n = 0; n < 9; n++) {
			blocks[n] = fallow_alloc_from(&token);
			CHECK_OR_RETURN(blocks[n] != NULL);
			CHECK_EQUAL((uintptr_t)blocks[n] % align, 0);
			CHECK(fallow_usable_size(&rig->heap, blocks[n]) >=
				sizes[i]);
			memset(blocks[n], 0xee, sizes[i]);
		}
		CHECK_EQUAL(token.left, 0);
		CHECK(fallow_alloc_from(&token) == NULL);
		for (unsigned n = 0; n < 9; n++)
			fallow_free(&rig->heap, blocks[n]);
		white_end(rig);
	}
}

/* Every byte, the link's too. */
static void test_token_zero(void)
{
	for (size_t i = 0; i < SIZES; i++) {
		struct rig *rig = rig_begin(
			FALLOW_CLASS_WINDOW, 64 * MIB, 1);
		struct fallow_token token = { 0 };
		void *dirty[4];

		rig->sim.dirty_rate = 256;
		for (unsigned n = 0; n < 4; n++) {
			dirty[n] = fallow_alloc(&rig->heap, sizes[i]);
			CHECK_OR_RETURN(dirty[n] != NULL);
			memset(dirty[n], 0xee, sizes[i]);
		}
		for (unsigned n = 0; n < 4; n++)
			fallow_free(&rig->heap, dirty[n]);
		CHECK(fallow_prefill(&rig->heap, &token, sizes[i], 4,
			FALLOW_ZERO));
		for (unsigned n = 0; n < 4; n++) {
			unsigned char *p = fallow_alloc_from(&token);

			for (size_t at = 0; at < sizes[i]; at++)
				if (p[at] != 0) {
					CHECK_EQUAL(p[at], 0);
					break;
				}
			fallow_free(&rig->heap, p);
		}
		white_end(rig);
	}
}

/* Filled again, it is filled up; with fewer or another kind, not at all. */
static void test_token_fills_up(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 1);
	struct fallow_token token = { 0 };

	CHECK(fallow_prefill(&rig->heap, &token, 100, 3, 0));
	CHECK(fallow_prefill(&rig->heap, &token, 100, 5, 0));
	CHECK_EQUAL(token.left, 5);
	CHECK(fallow_prefill(&rig->heap, &token, 100, 2, 0));
	CHECK_EQUAL(token.left, 5);
	CHECK(!fallow_prefill(&rig->heap, &token, 101, 2, 0));
	CHECK(!fallow_prefill(&rig->heap, &token, 100, 6, FALLOW_ZERO));
	CHECK_EQUAL(token.left, 5);
	CHECK_EQUAL(blocks_now(rig), 5);
	fallow_unfill(&rig->heap, &token);
	CHECK_EQUAL(token.left, 0);
	CHECK_EQUAL(blocks_now(rig), 0);
	/* An empty one takes any kind. */
	CHECK(fallow_prefill(&rig->heap, &token, 5000, 2, FALLOW_ZERO));
	fallow_unfill(&rig->heap, &token);
	fallow_unfill(&rig->heap, &token);
	white_end(rig);
}

/* All or nothing, wherever the memory ends. */
static void test_token_all_or_nothing(void)
{
	for (unsigned nowait = 0; nowait < 2; nowait++) {
		struct rig *rig = rig_begin(
			FALLOW_CLASS_WINDOW, 64 * MIB, 1);
		struct fallow_token token = { 0 };

		CHECK(fallow_prefill(&rig->heap, &token, 3000, 7, 0));
		rig->sim.budget = 4 * MIB;
		CHECK(!fallow_prefill(&rig->heap, &token, 3000, 100000,
			nowait ? FALLOW_NOWAIT : 0));
		CHECK_EQUAL(token.left, 7);
		CHECK_EQUAL(blocks_now(rig), 7);
		white_check(rig);
		for (unsigned n = 0; n < 7; n++)
			fallow_free(&rig->heap, fallow_alloc_from(&token));
		white_end(rig);
	}
}

/* More than there can be at once, and sizes that no heap has. */
static void test_token_impossible(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_FLAT, 4 * MIB, 1);
	struct fallow_token token = { 0 };

	CHECK(!fallow_prefill(&rig->heap, &token, 1000, SIZE_MAX, 0));
	CHECK(!fallow_prefill(&rig->heap, &token, SIZE_MAX, 1, 0));
	CHECK(fallow_prefill(&rig->heap, &token, SIZE_MAX, 0, 0));
	CHECK_EQUAL(token.left, 0);
	white_end(rig);
}

/* Exhaustion, collects and an offline in between take nothing out of it. */
static void test_token_survives(void)
{
	for (int class = FALLOW_CLASS_WINDOW; class <= FALLOW_CLASS_FLAT;
		class++) {
		struct rig *rig = rig_begin(
			(enum fallow_provider_class)class, 16 * MIB, 2);
		struct fallow_token tokens[3] = { 0 };
		const size_t size[3] = { 64, 12 * KIB, 700 * KIB };
		void *p;

		for (unsigned i = 0; i < 3; i++)
			CHECK(fallow_prefill(
				&rig->heap, &tokens[i], size[i], 4, 0));
		rig->oracle.may_fail = true;
		while (oracle_alloc(&rig->oracle, 64 * KIB, 0))
			;
		fallow_offline(&rig->heap);
		oracle_shrink(&rig->oracle, 0);
		fallow_collect(&rig->heap);
		white_check(rig);
		CHECK_EQUAL(blocks_now(rig), 12);
		for (unsigned i = 0; i < 12; i++) {
			p = fallow_alloc_from(&tokens[i % 3]);
			CHECK_OR_RETURN(p != NULL);
			memset(p, 0xdd, size[i % 3]);
			fallow_free(&rig->heap, p);
		}
		white_end(rig);
	}
}

/* A call that is a misuse does nothing: the blocks are in the token still. */
static void test_token_misuse(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, 16 * MIB, 1);
	struct fallow_token token = { 0 };

	CHECK(fallow_prefill(&rig->heap, &token, 100, 3, 0));
	white_heap(rig)->locals[0]->calling = 1;
	fallow_unfill(&rig->heap, &token);
	CHECK_EQUAL(rig->misuse.kind, FALLOW_MISUSE_REENTRY);
	CHECK_EQUAL(rig->misuses, 1);
	CHECK_EQUAL(token.left, 3);
	white_heap(rig)->locals[0]->calling = 0;
	rig->misuses_expected = 1;
	fallow_unfill(&rig->heap, &token);
	CHECK_EQUAL(token.left, 0);
	CHECK_EQUAL(blocks_now(rig), 0);
	white_end(rig);
}

const struct test tests[] = {
	{ "token_gives_what_was_filled", test_token_gives_what_was_filled },
	{ "token_zero", test_token_zero },
	{ "token_fills_up", test_token_fills_up },
	{ "token_all_or_nothing", test_token_all_or_nothing },
	{ "token_impossible", test_token_impossible },
	{ "token_survives", test_token_survives },
	{ "token_misuse", test_token_misuse },
	{ NULL, NULL },
};
