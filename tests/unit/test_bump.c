/* SPDX-License-Identifier: MIT */
/*
 * Arenas: a shadow of every block under random operations, and each rule by
 * itself.  test_bump_bare.c runs the same on arenas without sizes in front of
 * their blocks.
 */
#include "bump.h"

#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "white.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
struct shadows {
	struct rig *rig;
	struct arena arena;
};

/* A rig with an arena; `chunk` and `keep` as in the settings. */
static struct shadows *shadows_begin(enum fallow_provider_class class,
	size_t window, size_t chunk, size_t keep)
{
	struct shadows *s = aligned_alloc(
		_Alignof(struct shadows), sizeof(*s));
	struct fallow_bump_settings settings = { .size = sizeof(settings),
		.chunk_bytes = chunk, .keep_bytes = keep };

	if (!s)
		exit(97);
	memset(s, 0xcc, sizeof(*s));
	s->rig = rig_begin(class, window, 1);
	arena_begin(&s->arena, test_seed);
	CHECK_EQUAL(fallow_bump_init(
			    &s->arena.bump, &s->rig->heap, &settings),
		0);
	return s;
}

static struct fallow_bump_counts counts_now(struct fallow_bump *bump)
{
	struct fallow_bump_counts now = { .size = sizeof(now) };

	fallow_bump_counts(bump, &now);
	return now;
}

/* The arena's end: the heap has no block left. */
static void shadows_end(struct shadows *s)
{
	struct fallow_snapshot now = { .size = sizeof(now) };

	arena_look(&s->arena.bump);
	fallow_bump_fini(&s->arena.bump);
	fallow_snapshot(&s->rig->heap, &now);
	CHECK_EQUAL(now.blocks, 0);
	white_end(s->rig);
	free(s);
}

/* Without a scope every byte of the chunks is in a block, listed, or was never
 * handed out. */
static void books_check(struct arena *arena)
{
	struct fallow_bump_counts now = counts_now(&arena->bump);
	size_t bytes = now.listed + now.unused;

	if (now.scopes > 0)
		return;
	for (size_t i = 0; i < arena->count; i++)
		if (arena->blocks[i].size <= bump_of(&arena->bump)->limit)
			bytes += bump_piece_size(arena->blocks[i].size);
	CHECK_EQUAL(bytes, now.chunks);
}

/* Random operations on every class of provider, with small chunks and large;
 * at every moment each block holds what was written into it. */
static void test_bump_random(void)
{
	for (int class = FALLOW_CLASS_WINDOW; class <= FALLOW_CLASS_FLAT;
		class++) {
		for (unsigned i = 0; i < 3; i++) {
			struct shadows *s = shadows_begin(
				(enum fallow_provider_class)class, 64 * MIB,
				i == 0 ? 0 : i == 1 ? 64 * KIB : 3 * MIB,
				i == 1 ? FALLOW_BUMP_KEEP_NONE : 0);

			s->arena.random += (uint64_t)class * 8 + i;
			for (size_t n = 0; n < 15000; n++) {
				arena_step(&s->arena, n, 0);
				if (n % 100 == 0)
					books_check(&s->arena);
				if (n % 2500 == 0)
					(void)fallow_collect(&s->rig->heap);
				if (n % 2500 == 1)
					CHECK(!fallow_check(
						&s->rig->heap, NULL));
			}
			CHECK(s->arena.moves > 100 && s->arena.stays > 10);
			arena_verify(&s->arena);
			shadows_end(s);
		}
	}
}

/* The same where memory runs out all the time, and where each provider call may
 * be refused. */
static void test_bump_random_exhausted(void)
{
	for (unsigned i = 0; i < 4; i++) {
		struct shadows *s = shadows_begin(
			i % 2 ? FALLOW_CLASS_FLAT : FALLOW_CLASS_WINDOW,
			i % 2 ? MIB : 32 * MIB, 0, 0);

		s->arena.random += i;
		s->rig->sim.refuse_rate = i == 2 ? 128 : 0;
		s->rig->sim.budget = 2 * MIB;
		for (size_t n = 0; n < 15000; n++)
			arena_step(&s->arena, n,
				i == 0 && n % 3 == 0 ? FALLOW_NOWAIT : 0);
		CHECK(s->arena.nulls > 0);
		arena_verify(&s->arena);
		s->rig->sim.refuse_rate = 0;
		shadows_end(s);
	}
}

/* One behind the other, 16 bytes apart at the least. */
static void test_bump_is_dense(void)
{
	struct shadows *s = shadows_begin(
		FALLOW_CLASS_WINDOW, 64 * MIB, 8 * MIB, 0);
	char *next = fallow_bump_alloc(&s->arena.bump, 0);

	next += 16 + BUMP_LEAD;
	for (size_t size = 1; size < 3000; size++) {
		CHECK_EQUAL((uintptr_t)fallow_bump_alloc(&s->arena.bump, size),
			(uintptr_t)next);
		next += (size + 15) / 16 * 16 + BUMP_LEAD;
	}
	shadows_end(s);
}

/* What was freed serves the next of just its size, of any in 16 bytes up to
 * 1 KiB, and a smaller one with the rest left over. */
static void test_bump_free_is_used_again(void)
{
	struct shadows *s = shadows_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 0, 0);
	struct fallow_bump_counts now;

	for (size_t size = 1; size <= 65536; size = size * 5 / 4 + 1) {
		void *p = fallow_bump_alloc(&s->arena.bump, size);
		void *fence = fallow_bump_alloc(&s->arena.bump, 1);

		CHECK(p && fence);
		fallow_bump_free(&s->arena.bump, p, size);
		now = counts_now(&s->arena.bump);
		CHECK_EQUAL(now.listed, bump_piece_size(size));
		CHECK(fallow_bump_alloc(&s->arena.bump, size) == p);
		CHECK_EQUAL(counts_now(&s->arena.bump).listed, 0);
	}
	{
		char *p = fallow_bump_alloc(&s->arena.bump, 20000);
		char *q;

		CHECK(fallow_bump_alloc(&s->arena.bump, 1) != NULL);
		fallow_bump_free(&s->arena.bump, p, 20000);
		q = fallow_bump_alloc(&s->arena.bump, 2000);
		CHECK(q == p);
		CHECK_EQUAL(counts_now(&s->arena.bump).listed,
			bump_piece_size(20000) - bump_piece_size(2000));
	}
	shadows_end(s);
}

/* The last block is taken back, and the one before it then. */
static void test_bump_last_is_taken_back(void)
{
	struct shadows *s = shadows_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 0, 0);
	void *a = fallow_bump_alloc(&s->arena.bump, 100);
	void *b = fallow_bump_alloc(&s->arena.bump, 5000);
	void *c = fallow_bump_alloc(&s->arena.bump, 0);

	fallow_bump_free(&s->arena.bump, c, 0);
	fallow_bump_free(&s->arena.bump, b, 5000);
	CHECK_EQUAL(counts_now(&s->arena.bump).listed, 0);
	CHECK(fallow_bump_alloc(&s->arena.bump, 64) == b);
	fallow_bump_free(&s->arena.bump, a, 100);
	CHECK_EQUAL(counts_now(&s->arena.bump).listed, bump_piece_size(100));
	fallow_bump_free(&s->arena.bump, NULL, 77);
	shadows_end(s);
}

/* The last block grows and shrinks where it is, to the end of the chunk. */
static void test_bump_grows_in_place(void)
{
	struct shadows *s = shadows_begin(
		FALLOW_CLASS_WINDOW, 64 * MIB, 256 * KIB, 0);
	unsigned char *fence = fallow_bump_alloc(&s->arena.bump, 16);
	unsigned char *p = fallow_bump_alloc(&s->arena.bump, 16);
	size_t size = 16;

	CHECK(fence && p);
	arena_fill(p, 0, 16, 5);
	for (; size + 500 <= 64 * KIB; size += 500) {
		unsigned char *q = fallow_bump_realloc(
			&s->arena.bump, p, size, size + 500);

		CHECK_OR_RETURN(q == p);
		arena_fill(q, size, size + 500, 5);
		p = q;
	}
	for (; size > 16; size -= 500)
		CHECK(fallow_bump_realloc(
			      &s->arena.bump, p, size, size - 500) == p);
	CHECK(arena_is(p, 16, 5));
	CHECK_EQUAL(counts_now(&s->arena.bump).listed, 0);
	/* Beyond the step by which the chunk is used up too. */
	CHECK(fallow_bump_alloc(&s->arena.bump, 60000) != NULL);
	p = fallow_bump_alloc(&s->arena.bump, 16);
	CHECK(fallow_bump_realloc(&s->arena.bump, p, 16, 60000) == p);
	CHECK_EQUAL(counts_now(&s->arena.bump).listed, 0);
	/* One that is not the last moves, and what it was is free. */
	CHECK(fallow_bump_realloc(&s->arena.bump, fence, 16, 17) != fence);
	CHECK_EQUAL(counts_now(&s->arena.bump).listed, bump_piece_size(16));
	/* One that shrinks stays, and what it had is free. */
	p = fallow_bump_alloc(&s->arena.bump, 1000);
	CHECK(fallow_bump_alloc(&s->arena.bump, 500) != NULL);
	CHECK(fallow_bump_realloc(&s->arena.bump, p, 1000, 100) == p);
	CHECK_EQUAL(counts_now(&s->arena.bump).listed, bump_piece_size(16) +
			bump_piece_size(1000) - bump_piece_size(100));
	shadows_end(s);
}

/* An allocation at an alignment that the compiler does not see. */
static void *aligned(struct shadows *s, size_t align, size_t size)
{
	volatile size_t hidden = align;

	return fallow_bump_alloc_aligned(&s->arena.bump, hidden, size);
}

/* Every alignment there is, small blocks and large; freed like all others. */
static void test_bump_alignment(void)
{
	static const size_t sizes[] = { 0, 1, 100, 4096, 60000, 100000 };
	struct shadows *s = shadows_begin(
		FALLOW_CLASS_WINDOW, 1024 * MIB, 0, 0);

	for (size_t align = 1; align <= 16 * MIB; align *= 2)
		for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
			unsigned char *p = fallow_bump_alloc_aligned(
				&s->arena.bump, align, sizes[i]);

			CHECK_OR_RETURN(p != NULL);
			CHECK_EQUAL((uintptr_t)p & (align - 1), 0);
			memset(p, 0x77, sizes[i]);
			arena_look(&s->arena.bump);
			if (i % 2 == 0)
				fallow_bump_free(&s->arena.bump, p, sizes[i]);
		}
	arena_look(&s->arena.bump);
	CHECK(aligned(s, (size_t)1 << 40, 8) == NULL);
	CHECK(aligned(s, (size_t)1 << 63, 8) == NULL);
	CHECK(aligned(s, (size_t)1 << 63, SIZE_MAX / 2) == NULL);
	CHECK_EQUAL(s->rig->misuses, 0);
	CHECK(aligned(s, 0, 8) == NULL);
	CHECK(aligned(s, 48, 8) == NULL);
	CHECK_EQUAL(s->rig->misuses, 2);
	CHECK_EQUAL(s->rig->misuse.kind, FALLOW_MISUSE_BAD_ALIGNMENT);
	CHECK_EQUAL(s->rig->misuse.address, 48);
	s->rig->misuses_expected = 2;
	shadows_end(s);
}

/* Sizes that no heap has are NULL, and nothing else happens. */
static void test_bump_sizes_near_the_end(void)
{
	struct shadows *s = shadows_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 0, 0);
	unsigned char *p = fallow_bump_alloc(&s->arena.bump, 40);
	unsigned char *large = fallow_bump_alloc(&s->arena.bump, 300 * KIB);

	CHECK_OR_RETURN(p && large);
	arena_fill(p, 0, 40, 1);
	arena_fill(large, 0, 300 * KIB, 2);
	for (size_t size = SIZE_MAX; size > SIZE_MAX / 8; size -= SIZE_MAX / 9)
		for (size_t off = 0; off < 64; off++) {
			CHECK(!fallow_bump_alloc(&s->arena.bump, size - off));
			CHECK(!fallow_bump_realloc(
				&s->arena.bump, p, 40, size - off));
			CHECK(!fallow_bump_realloc(&s->arena.bump, large,
				300 * KIB, size - off));
			CHECK(!fallow_bump_alloc_aligned(
				&s->arena.bump, 64, size - off));
		}
	CHECK(arena_is(p, 40, 1));
	CHECK(arena_is(large, 300 * KIB, 2));
	shadows_end(s);
}

/* Large blocks are spans of the heap: they grow where they are, go back when
 * they are freed, and become small where they are. */
static void test_bump_large(void)
{
	struct shadows *s = shadows_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 0, 0);
	struct fallow_snapshot now = { .size = sizeof(now) };
	unsigned char *p = fallow_bump_alloc(&s->arena.bump, 65537);
	unsigned char *q;

	CHECK_OR_RETURN(p != NULL);
	CHECK_EQUAL(counts_now(&s->arena.bump).chunks, 0);
	CHECK(counts_now(&s->arena.bump).large >= 65537);
	arena_fill(p, 0, 65537, 3);
	q = fallow_bump_realloc_flags(
		&s->arena.bump, p, 65537, 3 * MIB, FALLOW_ZERO);
	CHECK_OR_RETURN(q != NULL);
	CHECK(arena_is(q, 65537, 3));
	CHECK(arena_zero(q, 65537, 3 * MIB));
	CHECK(fallow_bump_realloc(&s->arena.bump, q, 3 * MIB, 70000) == q);
	CHECK(counts_now(&s->arena.bump).large < 70000 + 8192);
	/* Beyond its size, but not beyond its granules, is what was there. */
	memset(q, 0xee, 70000);
	CHECK(fallow_bump_realloc(&s->arena.bump, q, 70000, 66000) == q);
	CHECK(fallow_bump_realloc_flags(
		      &s->arena.bump, q, 66000, 70000, FALLOW_ZERO) == q);
	CHECK(arena_zero(q, 66000, 70000));
	CHECK(fallow_bump_realloc(&s->arena.bump, q, 70000, 0) == q);
	CHECK_EQUAL(counts_now(&s->arena.bump).large, 0);
	CHECK(counts_now(&s->arena.bump).chunks > 0);
	arena_look(&s->arena.bump);
	fallow_bump_free(&s->arena.bump, q, 0);
	p = fallow_bump_alloc(&s->arena.bump, 5 * MIB);
	fallow_bump_free(&s->arena.bump, p, 5 * MIB);
	CHECK_EQUAL(counts_now(&s->arena.bump).large, 0);
	fallow_snapshot(&s->rig->heap, &now);
	CHECK_EQUAL(now.spans, 1);
	shadows_end(s);
}

/* What is freed and what is allocated in a scope, and what comes of it. */
static void test_bump_rewind_over_freed(void)
{
	struct shadows *s = shadows_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 0, 0);
	void *old[40], *new[40];
	struct fallow_bump_mark mark;
	size_t listed, unused;

	for (unsigned i = 0; i < 40; i++)
		old[i] = fallow_bump_alloc(&s->arena.bump, 100 + i % 8 * 300);
	for (unsigned i = 0; i < 40; i += 4)
		fallow_bump_free(&s->arena.bump, old[i], 100 + i % 8 * 300);
	listed = counts_now(&s->arena.bump).listed;
	unused = counts_now(&s->arena.bump).unused;
	fallow_bump_mark(&s->arena.bump, &mark);
	CHECK_EQUAL(counts_now(&s->arena.bump).scopes, 1);
	CHECK_EQUAL(counts_now(&s->arena.bump).listed, 0);
	for (unsigned i = 0; i < 40; i++) {
		new[i] = fallow_bump_alloc(&s->arena.bump, 100 + i % 8 * 300);
		for (unsigned j = 0; j < 40; j++)
			CHECK(new[i] != old[j]);
	}
	for (unsigned i = 0; i < 40; i += 2)
		fallow_bump_free(&s->arena.bump, new[i], 100 + i % 8 * 300);
	/* A block that is older: free after the scope, not in it. */
	fallow_bump_free(&s->arena.bump, old[1], 400);
	fallow_bump_free(&s->arena.bump, old[39], 100 + 39 % 8 * 300);
	CHECK(fallow_bump_alloc(&s->arena.bump, 400) != old[1]);
	fallow_bump_rewind(&s->arena.bump, &mark);
	CHECK_EQUAL(counts_now(&s->arena.bump).scopes, 0);
	/* The last one went back into the area. */
	CHECK_EQUAL(counts_now(&s->arena.bump).listed,
		listed + bump_piece_size(400));
	CHECK_EQUAL(counts_now(&s->arena.bump).unused,
		unused + bump_piece_size(100 + 39 % 8 * 300));
	arena_look(&s->arena.bump);
	CHECK(fallow_bump_alloc(&s->arena.bump, 400) == old[1]);
	shadows_end(s);
}

/* Scopes in scopes, over several chunks; a rewind ends those inside. */
static void test_bump_scopes_nest(void)
{
	struct shadows *s = shadows_begin(
		FALLOW_CLASS_WINDOW, 64 * MIB, 64 * KIB, 0);
	struct fallow_bump_mark marks[4];
	struct fallow_bump_counts before[4], now;
	unsigned char *kept[4];

	for (unsigned i = 0; i < 4; i++) {
		kept[i] = fallow_bump_alloc(&s->arena.bump, 10000);
		arena_fill(kept[i], 0, 10000, i);
		for (unsigned n = 0; n < 30; n++)
			CHECK(fallow_bump_alloc(&s->arena.bump, 9000) != NULL);
		CHECK(fallow_bump_alloc(&s->arena.bump, 200 * KIB) != NULL);
		before[i] = counts_now(&s->arena.bump);
		fallow_bump_mark(&s->arena.bump, &marks[i]);
	}
	/* The oldest block goes in the innermost scope. */
	fallow_bump_free(&s->arena.bump, kept[0], 10000);
	fallow_bump_free(&s->arena.bump, kept[2], 10000);
	fallow_bump_rewind(&s->arena.bump, &marks[2]);
	now = counts_now(&s->arena.bump);
	CHECK_EQUAL(now.scopes, 2);
	CHECK_EQUAL(now.chunks, before[2].chunks);
	CHECK_EQUAL(now.large, before[2].large);
	CHECK_EQUAL(now.unused, before[2].unused);
	CHECK_EQUAL(now.listed, before[2].listed + bump_piece_size(10000));
	CHECK(arena_is(kept[1], 10000, 1));
	arena_look(&s->arena.bump);
	/* It is gone: said, and nothing else. */
	fallow_bump_rewind(&s->arena.bump, &marks[3]);
	CHECK_EQUAL(s->rig->misuses, 1);
	CHECK_EQUAL(s->rig->misuse.kind, FALLOW_MISUSE_BAD_MARK);
	s->rig->misuses_expected = 1;
	fallow_bump_rewind(&s->arena.bump, &marks[0]);
	now = counts_now(&s->arena.bump);
	CHECK_EQUAL(now.scopes, 0);
	CHECK_EQUAL(now.chunks, before[0].chunks);
	CHECK_EQUAL(now.listed, before[0].listed + bump_piece_size(10000));
	arena_look(&s->arena.bump);
	shadows_end(s);
}

/* An older block in a scope: it shrinks, but does not grow, where it is. */
static void test_bump_older_does_not_grow(void)
{
	struct shadows *s = shadows_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 0, 0);
	unsigned char *p = fallow_bump_alloc(&s->arena.bump, 1000);
	struct fallow_bump_mark mark;
	size_t unused;

	arena_fill(p, 0, 1000, 9);
	unused = counts_now(&s->arena.bump).unused;
	fallow_bump_mark(&s->arena.bump, &mark);
	CHECK(fallow_bump_realloc(&s->arena.bump, p, 1000, 900) == p);
	CHECK_EQUAL(counts_now(&s->arena.bump).unused, unused);
	CHECK_EQUAL(counts_now(&s->arena.bump).listed, 0);
	CHECK(fallow_bump_realloc(&s->arena.bump, p, 900, 950) != p);
	fallow_bump_rewind(&s->arena.bump, &mark);
	unused += bump_piece_size(1000);
	CHECK(counts_now(&s->arena.bump).unused +
			counts_now(&s->arena.bump).listed >=
		unused);
	arena_look(&s->arena.bump);
	shadows_end(s);
}

/* An inner scope that has ended leaves the outer one's bounds as they were. */
static void test_bump_older_waits(void)
{
	struct shadows *s = shadows_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 0, 0);
	void *p = fallow_bump_alloc(&s->arena.bump, 1000);
	struct fallow_bump_mark outer, inner;
	size_t unused = counts_now(&s->arena.bump).unused;

	fallow_bump_mark(&s->arena.bump, &outer);
	fallow_bump_mark(&s->arena.bump, &inner);
	fallow_bump_rewind(&s->arena.bump, &inner);
	fallow_bump_free(&s->arena.bump, p, 1000);
	CHECK(fallow_bump_alloc(&s->arena.bump, 1000) != p);
	fallow_bump_rewind(&s->arena.bump, &outer);
	CHECK_EQUAL(counts_now(&s->arena.bump).unused,
		unused + bump_piece_size(1000));
	CHECK(fallow_bump_alloc(&s->arena.bump, 1000) == p);
	shadows_end(s);
}

/* A reset keeps chunks up to the limit, and what one large round took goes two
 * small rounds later. */
static void test_bump_reset_keeps(void)
{
	struct shadows *s = shadows_begin(
		FALLOW_CLASS_WINDOW, 256 * MIB, MIB, 20 * MIB);
	size_t n;

	for (unsigned round = 0; round < 6; round++) {
		size_t chunks = round == 1 ? 40 : 3;
		size_t expected = round == 0 ? 3
			: round == 1	     ? 20
			: round == 2	     ? 20
					     : 3;

		for (n = 0; n < chunks * 17 - 1; n++)
			CHECK(fallow_bump_alloc(&s->arena.bump, 60000) != NULL);
		CHECK_EQUAL(counts_now(&s->arena.bump).chunks, chunks * MIB);
		fallow_bump_reset(&s->arena.bump);
		CHECK_EQUAL(counts_now(&s->arena.bump).chunks, 0);
		CHECK_EQUAL(counts_now(&s->arena.bump).kept, expected * MIB);
		arena_look(&s->arena.bump);
	}
	/* Kept chunks are used before the heap is asked. */
	n = s->rig->sim.calls;
	CHECK(fallow_bump_alloc(&s->arena.bump, 60000) != NULL);
	CHECK_EQUAL(s->rig->sim.calls, n);
	CHECK_EQUAL(counts_now(&s->arena.bump).kept, 2 * MIB);
	shadows_end(s);
}

/* Chunks that are kept go back when a large block needs the memory. */
static void test_bump_kept_goes_when_needed(void)
{
	struct shadows *s = shadows_begin(
		FALLOW_CLASS_FLAT, 16 * MIB, MIB, 64 * MIB);
	void *p;

	while (fallow_bump_alloc(&s->arena.bump, 1000))
		;
	fallow_bump_reset(&s->arena.bump);
	CHECK(counts_now(&s->arena.bump).kept > 10 * MIB);
	p = fallow_bump_alloc(&s->arena.bump, 12 * MIB);
	CHECK(p != NULL);
	CHECK_EQUAL(counts_now(&s->arena.bump).kept, 0);
	fallow_bump_free(&s->arena.bump, p, 12 * MIB);
	shadows_end(s);
}

/* Where no whole chunk is to be had, a part of it will do; all is used. */
static void test_bump_last_memory(void)
{
	struct shadows *s = shadows_begin(
		FALLOW_CLASS_FLAT, 16 * MIB, 4 * MIB, 0);
	struct fallow_snapshot now = { .size = sizeof(now) };
	size_t bytes = 0;

	while (fallow_bump_alloc(&s->arena.bump, 1000))
		bytes += bump_piece_size(1000);
	CHECK(bytes > 15 * MIB);
	/* Three whole ones, and halves of what is left. */
	fallow_snapshot(&s->rig->heap, &now);
	CHECK(now.spans <= 3 + 6);
	CHECK(counts_now(&s->arena.bump).unused < KIB);
	shadows_end(s);
}

/* Without memory a realloc leaves the block as it was, wherever it ends. */
static void test_bump_realloc_exhausted(void)
{
	static const size_t sizes[][2] = { { 100, 200 }, { 100, 30000 },
		{ 100, 300000 }, { 50000, 60000 }, { 60000, 70000 },
		{ 100000, 9000000 } };

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		for (unsigned flags = 0; flags < 2; flags++) {
			struct shadows *s = shadows_begin(FALLOW_CLASS_WINDOW,
				16 * MIB, 256 * KIB, FALLOW_BUMP_KEEP_NONE);
			size_t old = sizes[i][0], new = sizes[i][1];
			unsigned char *p = fallow_bump_alloc(
				&s->arena.bump, old);

			CHECK_OR_RETURN(p != NULL);
			arena_fill(p, 0, old, 4);
			while (fallow_bump_alloc(&s->arena.bump, 65536))
				;
			while (fallow_bump_alloc(&s->arena.bump, 1))
				;
			while (fallow_bump_alloc(&s->arena.bump, 100000))
				;
			if (flags)
				s->rig->sim.refuse_rate = 256;
			CHECK(!fallow_bump_realloc_flags(&s->arena.bump, p,
				old, new, flags ? FALLOW_NOWAIT : 0));
			CHECK(arena_is(p, old, 4));
			arena_look(&s->arena.bump);
			/* It may shrink, to nothing. */
			CHECK(fallow_bump_realloc(
				      &s->arena.bump, p, old, old / 2) == p);
			CHECK(arena_is(p, old / 2, 4));
			CHECK(fallow_bump_realloc(
				      &s->arena.bump, p, old / 2, 0) == p);
			arena_look(&s->arena.bump);
			s->rig->sim.refuse_rate = 0;
			shadows_end(s);
		}
}

/* A call that may not wait calls no provider; what is there it gets. */
static void test_bump_nowait(void)
{
	struct shadows *s = shadows_begin(
		FALLOW_CLASS_WINDOW, 64 * MIB, MIB, 8 * MIB);
	uint64_t calls = s->rig->sim.calls;
	unsigned char *p;

	sim_nowait = true;
	CHECK(!fallow_bump_alloc_flags(&s->arena.bump, 10, FALLOW_NOWAIT));
	CHECK(!fallow_bump_alloc_flags(&s->arena.bump, MIB, FALLOW_NOWAIT));
	CHECK_EQUAL(s->rig->sim.calls, calls);
	sim_nowait = false;
	p = fallow_bump_alloc(&s->arena.bump, 3 * MIB);
	CHECK_OR_RETURN(p != NULL);
	arena_fill(p, 0, 100000, 6);
	fallow_bump_free(&s->arena.bump, p, 3 * MIB);
	calls = s->rig->sim.calls;
	sim_nowait = true;
	/* The span's memory is still with the heap. */
	p = fallow_bump_alloc_flags(&s->arena.bump, 10, FALLOW_NOWAIT);
	CHECK(p != NULL);
	p = fallow_bump_alloc_flags(&s->arena.bump, 100000, FALLOW_NOWAIT);
	CHECK_OR_RETURN(p != NULL);
	CHECK_EQUAL(s->rig->sim.calls, calls);
	p = fallow_bump_realloc_flags(
		&s->arena.bump, p, 100000, 50000, FALLOW_NOWAIT);
	CHECK(p != NULL);
	/* A large block that moves: the heap is not asked to take the old. */
	p = fallow_bump_alloc_flags(&s->arena.bump, 100000, FALLOW_NOWAIT);
	CHECK(fallow_bump_alloc_flags(&s->arena.bump, 100000, FALLOW_NOWAIT));
	CHECK_EQUAL(counts_now(&s->arena.bump).kept, 0);
	p = fallow_bump_realloc_flags(
		&s->arena.bump, p, 100000, 300000, FALLOW_NOWAIT);
	CHECK(p != NULL);
	CHECK(counts_now(&s->arena.bump).kept >= 100000);
	arena_look(&s->arena.bump);
	sim_nowait = false;
	shadows_end(s);
}

/* Copies are copies. */
static void test_bump_copies(void)
{
	struct shadows *s = shadows_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 0, 0);
	unsigned char bytes[2000];
	char *text;

	arena_fill(bytes, 0, sizeof(bytes), 8);
	CHECK(arena_is(fallow_bump_copy(&s->arena.bump, bytes, sizeof(bytes)),
		sizeof(bytes), 8));
	CHECK(fallow_bump_copy(&s->arena.bump, bytes, 0) != NULL);
	text = fallow_bump_strdup(&s->arena.bump, "an arena");
	CHECK(text && !strcmp(text, "an arena"));
	fallow_bump_free(&s->arena.bump, text, 9);
	CHECK(fallow_bump_strdup(&s->arena.bump, "") == text);
	CHECK(*text == 0);
	shadows_end(s);
}

/* What the settings say, and what they may not. */
static void test_bump_settings(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, 256 * MIB, 1);
	struct rig *small = rig_begin(FALLOW_CLASS_FLAT, 16 * MIB, 1);
	struct rig *tiny = rig_begin(FALLOW_CLASS_FLAT, MIB, 1);
	struct fallow_bump_settings settings = { .size = sizeof(settings) };
	struct fallow_bump bump;

	CHECK_EQUAL(fallow_bump_init(NULL, &rig->heap, NULL),
		FALLOW_MISSING_ARGUMENT);
	CHECK_EQUAL(
		fallow_bump_init(&bump, NULL, NULL), FALLOW_MISSING_ARGUMENT);
	settings.size = 1;
	CHECK_EQUAL(fallow_bump_init(&bump, &rig->heap, &settings),
		FALLOW_BAD_SIZE_FIELD);
	settings.size = sizeof(settings);
	settings.chunk_bytes = FALLOW_BUMP_CHUNK_MAX + 1;
	CHECK_EQUAL(fallow_bump_init(&bump, &rig->heap, &settings),
		FALLOW_BAD_SETTING);
	CHECK_EQUAL(fallow_bump_init(&bump, &rig->heap, NULL), 0);
	CHECK_EQUAL(counts_now(&bump).chunk_bytes, CHUNK_BYTES);
	fallow_bump_fini(&bump);
	CHECK_EQUAL(fallow_bump_init(&bump, &small->heap, NULL), 0);
	CHECK_EQUAL(counts_now(&bump).chunk_bytes, 128 * KIB);
	CHECK_EQUAL(fallow_bump_init(&bump, &tiny->heap, NULL), 0);
	CHECK_EQUAL(counts_now(&bump).chunk_bytes, SLICE_BYTES);
	settings.chunk_bytes = SLICE_BYTES + 1;
	CHECK_EQUAL(fallow_bump_init(&bump, &rig->heap, &settings), 0);
	CHECK_EQUAL(counts_now(&bump).chunk_bytes, 2 * SLICE_BYTES);
	white_end(rig);
	white_end(small);
	white_end(tiny);
}

/* What is an arena's is not the heap's to free, and the other way round. */
static void test_bump_is_not_the_heap(void)
{
	struct shadows *s = shadows_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 0, 0);
	struct fallow *heap = &s->rig->heap;
	unsigned char *p = fallow_bump_alloc(&s->arena.bump, 100);
	unsigned char *large = fallow_bump_alloc(&s->arena.bump, 100000);
	void *mine = fallow_alloc(heap, 100000);
	void *begin = (void *)white_page(s->rig, p)->base;

	fallow_free(heap, white_opaque(p));
	fallow_free(heap, white_opaque(begin));
	fallow_free(heap, white_opaque(large));
	CHECK(fallow_realloc(heap, white_opaque(begin), 5) == NULL);
	CHECK_EQUAL(fallow_usable_size(heap, begin), 0);
	CHECK_EQUAL(s->rig->misuse.kind, FALLOW_MISUSE_FOREIGN);
	fallow_bump_free(&s->arena.bump, mine, 100000);
	CHECK_EQUAL(s->rig->misuse.kind, FALLOW_MISUSE_FOREIGN);
	CHECK_EQUAL(s->rig->misuses, 6);
	fallow_bump_free(&s->arena.bump, large, 100001);
	CHECK_EQUAL(s->rig->misuse.kind, FALLOW_MISUSE_WRONG_SIZE);
	CHECK_EQUAL(s->rig->misuse.block, (uintptr_t)large);
	CHECK_EQUAL(s->rig->misuse.block_size, 100000);
	CHECK_EQUAL(s->rig->misuse.given_size, 100001);
	CHECK(fallow_bump_realloc(&s->arena.bump, large, 99999, 5) == NULL);
	CHECK_EQUAL(s->rig->misuses, 8);
	s->rig->misuses_expected = 8;
	fallow_bump_free(&s->arena.bump, large, 100000);
	fallow_free(heap, mine);
	shadows_end(s);
}

const struct test tests[] = {
	{ "bump_random", test_bump_random },
	{ "bump_random_exhausted", test_bump_random_exhausted },
	{ "bump_is_dense", test_bump_is_dense },
	{ "bump_free_is_used_again", test_bump_free_is_used_again },
	{ "bump_last_is_taken_back", test_bump_last_is_taken_back },
	{ "bump_grows_in_place", test_bump_grows_in_place },
	{ "bump_alignment", test_bump_alignment },
	{ "bump_sizes_near_the_end", test_bump_sizes_near_the_end },
	{ "bump_large", test_bump_large },
	{ "bump_rewind_over_freed", test_bump_rewind_over_freed },
	{ "bump_scopes_nest", test_bump_scopes_nest },
	{ "bump_older_does_not_grow", test_bump_older_does_not_grow },
	{ "bump_older_waits", test_bump_older_waits },
	{ "bump_reset_keeps", test_bump_reset_keeps },
	{ "bump_kept_goes_when_needed", test_bump_kept_goes_when_needed },
	{ "bump_last_memory", test_bump_last_memory },
	{ "bump_realloc_exhausted", test_bump_realloc_exhausted },
	{ "bump_nowait", test_bump_nowait },
	{ "bump_copies", test_bump_copies },
	{ "bump_settings", test_bump_settings },
	{ "bump_is_not_the_heap", test_bump_is_not_the_heap },
	{ NULL, NULL },
};
