/* SPDX-License-Identifier: MIT */
/*
 * The usage histogram: rows, and what each call counts, in builds that count;
 * in others, that nothing is.
 */
#include <fallow/usage.h>

#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "white.h"

#define MIB ((size_t)1 << 20)

static struct fallow_usage usage;

/* Every size is in one row, and rows are as the header says. */
static void test_usage_rows(void)
{
	size_t least = 0;

	for (unsigned row = 0; row < FALLOW_USAGE_ROWS; row++) {
		size_t most = fallow_usage_row_most(row);

		CHECK_EQUAL(fallow_usage_row_of(least), row);
		CHECK_EQUAL(fallow_usage_row_of(most), row);
		if (row < 64)
			CHECK_EQUAL(most, (row + 1) * 16);
		least = most + 1;
	}
	CHECK_EQUAL(fallow_usage_row_most(64), 1280);
	CHECK_EQUAL(fallow_usage_row_most(FALLOW_USAGE_ROWS - 2), 65536);
	CHECK_EQUAL(fallow_usage_row_most(FALLOW_USAGE_ROWS - 1), SIZE_MAX);
}

static struct fallow_usage_row sum(void)
{
	struct fallow_usage_row all = { 0 };

	for (unsigned row = 0; row < FALLOW_USAGE_ROWS; row++) {
		all.asked += usage.rows[row].asked;
		all.given += usage.rows[row].given;
		all.freed += usage.rows[row].freed;
		all.live += usage.rows[row].live;
	}
	return all;
}

/* What a row has to be, in a build that counts. */
static void row_is(size_t size, uint64_t asked, uint64_t given, uint64_t freed,
	uint64_t live)
{
	const struct fallow_usage_row *row =
		&usage.rows[fallow_usage_row_of(size)];

	CHECK_EQUAL(row->asked, FALLOW_USAGE ? asked : 0);
	CHECK_EQUAL(row->given, FALLOW_USAGE ? given : 0);
	CHECK_EQUAL(row->freed, FALLOW_USAGE ? freed : 0);
	CHECK_EQUAL(row->live, FALLOW_USAGE ? live : 0);
}

/* Begins to count, of a heap with a pool, which is filled before or after. */
static struct rig *counted_begin(bool after)
{
	struct rig *rig = rig_prepare(FALLOW_CLASS_WINDOW, 64 * MIB, 2);

	rig->config.reserve_bytes = MIB;
	rig->sim.budget = after ? MIB : 0;
	CHECK_EQUAL(rig_init(rig), 0);
	memset(&usage, 0, sizeof(usage));
	CHECK(fallow_usage_watch(&rig->heap, &usage) == FALLOW_USAGE);
	rig->sim.budget = 0;
	(void)fallow_collect(&rig->heap);
	return rig;
}

/* Sizes by name: what is asked for, and what is given. */
static void test_usage_heap(void)
{
	struct rig *rig = counted_begin(false);
	void *p[8];

	for (unsigned i = 0; i < 8; i++)
		p[i] = fallow_alloc(&rig->heap, 129);
	row_is(129, 8, 8, 0, 8 * 144);
	for (unsigned i = 0; i < 6; i++)
		fallow_free(&rig->heap, p[i]);
	/* As another context; and deferred, which counts when it is done. */
	white_free(rig, 1, p[6]);
	fallow_free_deferred(&rig->heap, p[7]);
	(void)fallow_collect(&rig->heap);
	row_is(129, 8, 8, 8, 0);
	p[0] = fallow_alloc(&rig->heap, 3 * MIB);
	p[0] = fallow_realloc(&rig->heap, p[0], 2 * MIB);
	p[1] = fallow_alloc(&rig->heap, 70000);
	CHECK_EQUAL(sum().live, FALLOW_USAGE
			? 2 * MIB + fallow_good_size(70000) : 0);
	fallow_free_sized(&rig->heap, p[1], 70000);
	fallow_free(&rig->heap, p[0]);
	CHECK_EQUAL(sum().live, 0);
	CHECK_EQUAL(sum().given, sum().freed);
	white_end(rig);
}

/* Whatever happens, live is what the heap says is. */
static void usage_random(bool after)
{
	struct rig *rig = counted_begin(after);
	struct fallow_snapshot now = { .size = sizeof(now) };

	rig->oracle.may_fail = true;
	rig->sim.budget = 12 * MIB;
	rig->oracle.flags = FALLOW_RESERVE;
	for (unsigned i = 0; i < 20000; i++) {
		oracle_step(&rig->oracle);
		if (i % 4000 == 0)
			(void)fallow_collect(&rig->heap);
	}
	fallow_snapshot(&rig->heap, &now);
	CHECK(now.reserve_served > 0);
	CHECK_EQUAL(sum().live, FALLOW_USAGE ? now.live : 0);
	CHECK_EQUAL(sum().given - sum().freed, FALLOW_USAGE ? now.blocks : 0);
	rig_end(rig);
}

static void test_usage_random(void)
{
	usage_random(false);
	usage_random(true);
}

/* Of an arena every size is known. */
static void test_usage_arena(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 1);
	struct arena *arena = aligned_alloc(
		_Alignof(struct arena), sizeof(*arena));
	const size_t limit = 65536;
	uint64_t live = 0;

	CHECK_OR_RETURN(arena != NULL);
	memset(&usage, 0, sizeof(usage));
	CHECK_EQUAL(fallow_bump_init(
			    &arena->bump, &rig->heap, NULL),
		0);
	CHECK(fallow_bump_usage(&arena->bump, &usage) == FALLOW_USAGE);
	arena_begin(arena, test_seed);
	CHECK(fallow_bump_alloc(&arena->bump, 100) != NULL);
	row_is(100, 1, 1, 0, 112);
	fallow_bump_reset(&arena->bump);
	memset(&usage, 0, sizeof(usage));
	/* Neither a rewind nor a reset: they count nothing. */
	for (size_t n = 1; n < 4000; n++) {
		uint64_t r = arena->random;

		r = test_random(&r);
		if (r % 2000 == 1999 || r % 100 == 99)
			(void)test_random(&arena->random);
		else
			arena_step(arena, n, 0);
	}
	for (size_t i = 0; i < arena->count; i++) {
		size_t size = arena->blocks[i].size;

		live += size == 0 ? 16
			: size > limit
			? (size + 4095) / 4096 * 4096
			: (size + 15) / 16 * 16;
	}
	CHECK_EQUAL(sum().live, FALLOW_USAGE ? live : 0);
	CHECK_EQUAL(
		sum().given - sum().freed, FALLOW_USAGE ? arena->count : 0);
	fallow_bump_fini(&arena->bump);
	free(arena);
	white_end(rig);
}

static char text[4096];

static void text_put(void *arg, char c)
{
	size_t *used = arg;

	if (*used < sizeof(text) - 1)
		text[(*used)++] = c;
	text[*used] = 0;
}

static void test_usage_print(void)
{
	size_t used = 0;

	memset(&usage, 0, sizeof(usage));
	usage.rows[0] = (struct fallow_usage_row){ 7, 7, 3, 64 };
	usage.rows[316] = (struct fallow_usage_row){ 1, 2, 3, 1 << 20 };
	fallow_usage_print(&usage, text_put, &used);
	CHECK(!strcmp(text,
		"bytes                 asked       given       freed"
		"      in use     live bytes\n"
		"    0 to    16           7           7           3"
		"           4             64\n"
		"65537 to    up           1           2           3"
		"18446744073709551615        1048576\n"
		"all                      8           9           6"
		"           3        1048640\n"));
}

const struct test tests[] = {
	{ "usage_rows", test_usage_rows },
	{ "usage_heap", test_usage_heap },
	{ "usage_random", test_usage_random },
	{ "usage_arena", test_usage_arena },
	{ "usage_print", test_usage_print },
	{ NULL, NULL },
};
