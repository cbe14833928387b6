/* SPDX-License-Identifier: MIT */
/*
 * Arenas that are told nonsense: blocks that a rewind or a reset took, marks
 * that are no open scope's, ends in any order, settings that no machine has.
 * What a debug build sees leaves the arena as it was.
 */
#include "bump.h"

#include <string.h>

#include "arena.h"
#include "white.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static struct rig *rig;
static struct fallow_bump bump, other;

static void begin(size_t keep)
{
	struct fallow_bump_settings settings = { .size = sizeof(settings),
		.chunk_bytes = 256 * KIB, .keep_bytes = keep };

	rig = rig_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 1);
	CHECK_EQUAL(fallow_bump_init(&bump, &rig->heap, &settings), 0);
	CHECK_EQUAL(fallow_bump_init(&other, &rig->heap, NULL), 0);
}

static void end(void)
{
	arena_look(&bump);
	arena_look(&other);
	fallow_bump_fini(&bump);
	fallow_bump_fini(&other);
	white_end(rig);
}

/* The call before it was one more misuse, of this kind. */
static void misused(enum fallow_misuse_kind kind)
{
	CHECK_EQUAL(rig->misuses, ++rig->misuses_expected);
	CHECK_EQUAL(rig->misuse.kind, kind);
	arena_look(&bump);
}

/* Frees and resizes what is no block any more. */
static void stale(void *p, size_t size, enum fallow_misuse_kind kind)
{
	p = white_opaque(p);
	fallow_bump_free(&bump, p, size);
	misused(kind);
	CHECK(fallow_bump_realloc(&bump, white_opaque(p), size, 3000) == NULL);
	misused(kind);
}

/* What a reset took, in a chunk that is kept or is the heap's again. */
static void test_misuse_after_reset(void)
{
	for (unsigned kept = 0; kept < 2; kept++) {
		enum fallow_misuse_kind kind = kept
			? FALLOW_MISUSE_DOUBLE_FREE
			: FALLOW_MISUSE_FOREIGN;
		void *p, *large;

		begin(kept ? 0 : FALLOW_BUMP_KEEP_NONE);
		p = fallow_bump_alloc(&bump, 1000);
		large = fallow_bump_alloc(&bump, 100000);
		fallow_bump_reset(&bump);
		stale(p, 1000, kind);
		stale(p, 100000, kind);
		stale(large, 100000, FALLOW_MISUSE_FOREIGN);
		end();
	}
}

/* What a rewind took: in the area, in what the area has not come to yet, and
 * where others are by now. */
static void test_misuse_after_rewind(void)
{
	struct fallow_bump_mark mark;
	void *first, *far = NULL, *over;

	begin(0);
	CHECK(fallow_bump_alloc(&bump, 100) != NULL);
	fallow_bump_mark(&bump, &mark);
	/* Neither block begins where the first one did. */
	CHECK(fallow_bump_alloc(&bump, 100) != NULL);
	first = fallow_bump_alloc(&bump, 200);
	for (unsigned i = 0; i < 3; i++)
		far = fallow_bump_alloc(&bump, 60000);
	fallow_bump_rewind(&bump, &mark);
	stale(first, 200, FALLOW_MISUSE_DOUBLE_FREE);
	stale(far, 60000, FALLOW_MISUSE_DOUBLE_FREE);
	over = fallow_bump_alloc(&bump, 2000);
	CHECK((char *)over < (char *)first &&
		(char *)first < (char *)over + 2000);
	stale(first, 200, FALLOW_MISUSE_INTERIOR);
	/* What has grown over it likewise. */
	fallow_bump_mark(&bump, &mark);
	CHECK(fallow_bump_alloc(&bump, 100) != NULL);
	first = fallow_bump_alloc(&bump, 200);
	fallow_bump_rewind(&bump, &mark);
	CHECK(fallow_bump_realloc(&bump, over, 2000, 4000) == over);
	stale(first, 200, FALLOW_MISUSE_INTERIOR);
	end();
}

/* A second free where a join took the mark of the first; and in a scope. */
static void test_misuse_twice(void)
{
	struct fallow_bump_mark mark;
	void *p[40];

	begin(0);
	for (unsigned i = 0; i < 40; i++)
		p[i] = fallow_bump_alloc(&bump, 600);
	for (unsigned i = 0; i < 39; i++)
		fallow_bump_free(&bump, p[i], 600);
	bump_of(&bump)->join = 0;
	CHECK(fl_bump_join(bump_of(&bump)));
	for (unsigned i = 0; i < 39; i++)
		stale(p[i], 600, FALLOW_MISUSE_DOUBLE_FREE);
	fallow_bump_mark(&bump, &mark);
	fallow_bump_free(&bump, p[39], 600);
	fallow_bump_free(&bump, white_opaque(p[39]), 600);
	misused(FALLOW_MISUSE_INTERIOR);
	fallow_bump_rewind(&bump, &mark);
	end();
}

/* A large block over what was a chunk with blocks in it. */
static void test_misuse_in_a_large_block(void)
{
	void *p, *large;

	begin(FALLOW_BUMP_KEEP_NONE);
	CHECK(fallow_bump_alloc(&bump, 64) != NULL);
	p = fallow_bump_alloc(&bump, 64);
	fallow_bump_reset(&bump);
	large = fallow_bump_alloc(&bump, 200 * KIB);
	CHECK((char *)large < (char *)p && (char *)p < (char *)large + 200);
	stale(p, 64, FALLOW_MISUSE_INTERIOR);
	fallow_bump_free(&bump, large, 200 * KIB);
	end();
}

/* Marks: ended, out of order, another arena's, never one, and one that is set
 * again while its scope is open. */
static void test_misuse_marks(void)
{
	struct fallow_bump_mark a, b, none = { { 0 } };
	void *p;

	begin(0);
	fallow_bump_rewind(&bump, &none);
	misused(FALLOW_MISUSE_BAD_MARK);
	fallow_bump_mark(&bump, &a);
	fallow_bump_mark(&bump, &b);
	fallow_bump_mark(&bump, &a);
	misused(FALLOW_MISUSE_BAD_MARK);
	fallow_bump_mark(&bump, &b);
	misused(FALLOW_MISUSE_BAD_MARK);
	fallow_bump_rewind(&other, &b);
	misused(FALLOW_MISUSE_BAD_MARK);
	fallow_bump_rewind(&bump, &a);
	fallow_bump_rewind(&bump, &b);
	misused(FALLOW_MISUSE_BAD_MARK);
	fallow_bump_rewind(&bump, &a);
	misused(FALLOW_MISUSE_BAD_MARK);
	fallow_bump_mark(&bump, &a);
	p = fallow_bump_alloc(&bump, 100);
	fallow_bump_reset(&bump);
	fallow_bump_rewind(&bump, &a);
	misused(FALLOW_MISUSE_BAD_MARK);
	stale(p, 100, FALLOW_MISUSE_DOUBLE_FREE);
	end();
}

/* The end, in a scope, twice, and a new begin behind it. */
static void test_misuse_ends(void)
{
	struct fallow_snapshot now = { .size = sizeof(now) };
	struct fallow_bump_mark mark;
	void *p;

	begin(0);
	p = fallow_bump_alloc(&bump, 100);
	fallow_bump_mark(&bump, &mark);
	CHECK(fallow_bump_alloc(&bump, 100000) != NULL);
	fallow_bump_fini(&bump);
	fallow_bump_fini(&bump);
	fallow_snapshot(&rig->heap, &now);
	CHECK_EQUAL(now.blocks, 0);
	stale(p, 100, FALLOW_MISUSE_FOREIGN);
	fallow_bump_rewind(&bump, &mark);
	misused(FALLOW_MISUSE_BAD_MARK);
	CHECK(fallow_bump_alloc(&bump, 100) != NULL);
	end();
}

/* Settings that are absurd, but say something. */
static void test_misuse_settings(void)
{
	static const size_t sizes[][2] = { { 1, SLICE_BYTES },
		{ SLICE_BYTES + 1, 2 * SLICE_BYTES },
		{ 999999999, (999999999 / SLICE_BYTES + 1) * SLICE_BYTES },
		{ FALLOW_BUMP_CHUNK_MAX, FALLOW_BUMP_CHUNK_MAX },
		{ FALLOW_BUMP_CHUNK_MAX + 1, 0 }, { SIZE_MAX, 0 } };
	struct fallow_bump_counts now = { .size = sizeof(now) };

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		struct fallow_bump_settings settings = {
			.size = sizeof(settings),
			.chunk_bytes = sizes[i][0],
			.keep_bytes = SIZE_MAX - 1 };

		begin(0);
		CHECK_EQUAL(fallow_bump_init(&bump, &rig->heap, &settings),
			sizes[i][1] ? FALLOW_OK : FALLOW_BAD_SETTING);
		for (unsigned n = 0; sizes[i][1] && n < 50; n++)
			CHECK(fallow_bump_alloc(&bump, 7000) != NULL);
		fallow_bump_counts(&bump, &now);
		CHECK(!sizes[i][1] || now.chunk_bytes == sizes[i][1]);
		fallow_bump_reset(&bump);
		end();
	}
}

/* Each call of a provider refused in its turn: what returned NULL changed
 * nothing, and the rest goes on. */
static void test_misuse_each_refusal(void)
{
	for (uint64_t nth = 1;; nth++) {
		size_t size = 100;
		unsigned char *p, *q;
		unsigned nulls = 0;

		begin(0);
		p = fallow_bump_alloc(&bump, size);
		CHECK_OR_RETURN(p != NULL);
		arena_fill(p, 0, size, 7);
		rig->sim.refuse_call = rig->sim.calls + nth;
		for (unsigned n = 0; n < 60; n++) {
			size_t more = n % 6 == 5 ? 100 : size + n * 9001 % 99991;

			nulls += !fallow_bump_alloc(&bump, 50000);
			nulls += !fallow_bump_alloc_aligned(
				&bump, 4096, 5000);
			q = fallow_bump_realloc(&bump, p, size, more);
			nulls += q == NULL;
			CHECK(arena_is(q ? q : p, 100, 7));
			if (q == NULL)
				continue;
			p = q;
			size = more;
			arena_look(&bump);
		}
		CHECK(rig->sim.refused > 0 || nulls == 0);
		if (rig->sim.refused == 0) {
			end();
			CHECK(nth > 20);
			return;
		}
		end();
	}
}

const struct test tests[] = {
	{ "misuse_after_reset", test_misuse_after_reset },
	{ "misuse_after_rewind", test_misuse_after_rewind },
	{ "misuse_twice", test_misuse_twice },
	{ "misuse_in_a_large_block", test_misuse_in_a_large_block },
	{ "misuse_marks", test_misuse_marks },
	{ "misuse_ends", test_misuse_ends },
	{ "misuse_settings", test_misuse_settings },
	{ "misuse_each_refusal", test_misuse_each_refusal },
	{ NULL, NULL },
};
