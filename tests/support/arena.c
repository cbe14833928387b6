/* SPDX-License-Identifier: MIT */
/*
 * Random operations on an arena, with a shadow (arena.h).
 *
 * Every block is full of a pattern of its own, which is looked at before the
 * block is freed, changes its size, and now and then: two that overlap, a copy
 * that is short, memory that is used before it is free, all leave a byte that
 * is wrong.  The shadow knows which blocks a rewind takes.
 */
#include "arena.h"

#define KIB ((size_t)1 << 10)

void arena_begin(struct arena *arena, uint64_t seed)
{
	arena->scopes = 0;
	arena->count = arena->nulls = arena->moves = arena->stays = 0;
	arena->random = seed;
}

/* Fails the test for an invariant that is broken. */
void arena_look(struct fallow_bump *bump)
{
	uintptr_t where = 0;
	const char *broken = fallow_bump_check(bump, &where);

	if (broken) {
		test_printf("\n    at 0x%lx", (unsigned long)where);
		test_fail(__FILE__, __LINE__, broken);
	}
}

void arena_fill(unsigned char *p, size_t from, size_t to, uint64_t seed)
{
	for (size_t i = from; i < to; i++)
		p[i] = (unsigned char)(seed + i * 167 + (i >> 8) * 13);
}

bool arena_is(const unsigned char *p, size_t size, uint64_t seed)
{
	for (size_t i = 0; i < size; i++)
		if (p[i] != (unsigned char)(seed + i * 167 + (i >> 8) * 13))
			return false;
	return true;
}

bool arena_zero(const unsigned char *p, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		if (p[i] != 0)
			return false;
	return true;
}

/* A size as programs ask for them: mostly small, now and then anything. */
static size_t size_random(struct arena *arena)
{
	uint64_t r = test_random(&arena->random);
	size_t most = 1;

	if (r % 64 == 0)
		most = 300 * KIB;
	else if (r % 16 == 0)
		most = 70 * KIB;
	else if (r % 4 == 0)
		most = 3000;
	else
		most = 200;
	return (size_t)(test_random(&arena->random) % most);
}

/* Learns a block; NULL is counted. */
static void block_learn(
	struct arena *arena, unsigned char *p, size_t size, bool zero)
{
	struct arena_block *block = &arena->blocks[arena->count];

	if (!p) {
		arena->nulls++;
		return;
	}
	CHECK_EQUAL((uintptr_t)p % 16, 0);
	if (zero)
		CHECK(arena_zero(p, 0, size));
	*block = (struct arena_block){ p, size, test_random(&arena->random),
		arena->scopes };
	arena_fill(p, 0, size, block->seed);
	arena->count++;
}

static void step_alloc(struct arena *arena, unsigned flags)
{
	uint64_t r = test_random(&arena->random);
	size_t size = size_random(arena);
	size_t align = (size_t)1 << (r >> 32) % 17;
	unsigned char *p;

	if (arena->count == ARENA_BLOCKS)
		return;
	if (r % 8 == 0)
		flags |= FALLOW_ZERO;
	if (r % 16 == 1) {
		p = fallow_bump_alloc_aligned_flags(
			&arena->bump, align, size, flags);
		CHECK_EQUAL((uintptr_t)p & (align - 1), 0);
	} else if (flags) {
		p = fallow_bump_alloc_flags(&arena->bump, size, flags);
	} else {
		p = fallow_bump_alloc(&arena->bump, size);
	}
	block_learn(arena, p, size, flags & FALLOW_ZERO);
}

static void step_free(struct arena *arena, size_t index)
{
	struct arena_block *block = &arena->blocks[index];

	CHECK(arena_is(block->p, block->size, block->seed));
	fallow_bump_free(&arena->bump, block->p, block->size);
	*block = arena->blocks[--arena->count];
}

static void step_realloc(struct arena *arena, size_t index, unsigned flags)
{
	struct arena_block *block = &arena->blocks[index];
	uint64_t r = test_random(&arena->random);
	size_t size = r % 4 ? block->size + r / 4 % 200 : size_random(arena);
	size_t least = size < block->size ? size : block->size;
	unsigned char *p;

	CHECK(arena_is(block->p, block->size, block->seed));
	if (r % 8 == 1)
		flags |= FALLOW_ZERO;
	p = flags ? fallow_bump_realloc_flags(&arena->bump, block->p,
			    block->size, size, flags)
		  : fallow_bump_realloc(
			    &arena->bump, block->p, block->size, size);
	if (!p) {
		arena->nulls++;
		CHECK(size > block->size);
		CHECK(arena_is(block->p, block->size, block->seed));
		return;
	}
	CHECK(arena_is(p, least, block->seed));
	if (flags & FALLOW_ZERO)
		CHECK(arena_zero(p, least, size));
	if (size <= block->size)
		CHECK_EQUAL((uintptr_t)p, (uintptr_t)block->p);
	arena->moves += p != block->p;
	arena->stays += p == block->p && size > block->size;
	if (p != block->p)
		block->scope = arena->scopes;
	block->p = p;
	block->size = size;
	arena_fill(p, 0, size, block->seed);
}

/* Forgets the blocks of scopes that have ended. */
static void scopes_forget(struct arena *arena)
{
	size_t kept = 0;

	for (size_t i = 0; i < arena->count; i++)
		if (arena->blocks[i].scope <= arena->scopes)
			arena->blocks[kept++] = arena->blocks[i];
	arena->count = kept;
}

static void step_scope(struct arena *arena)
{
	uint64_t r = test_random(&arena->random);

	if (r % 2 && arena->scopes < ARENA_SCOPES) {
		fallow_bump_mark(&arena->bump, &arena->marks[arena->scopes++]);
	} else if (arena->scopes > 0) {
		arena->scopes = (unsigned)(r / 2 % arena->scopes);
		fallow_bump_rewind(&arena->bump, &arena->marks[arena->scopes]);
		scopes_forget(arena);
	}
}

void arena_verify(struct arena *arena)
{
	for (size_t i = 0; i < arena->count; i++)
		CHECK(arena_is(arena->blocks[i].p, arena->blocks[i].size,
			arena->blocks[i].seed));
	arena_look(&arena->bump);
}

/* One operation; frees and allocations in turn outnumber each other. */
void arena_step(struct arena *arena, size_t n, unsigned flags)
{
	uint64_t r = test_random(&arena->random);
	unsigned frees = n / 2000 % 2 ? 60 : 30;
	size_t index = arena->count ? (size_t)(r >> 16) % arena->count : 0;

	/* What came last is freed more often than anything else. */
	if (arena->count && r % 7 == 0)
		index = arena->count - 1;
	if (r % 2000 == 1999) {
		fallow_bump_reset(&arena->bump);
		arena->count = arena->scopes = 0;
	} else if (r % 100 == 99) {
		step_scope(arena);
	} else if (r % 100 < frees && arena->count) {
		step_free(arena, index);
	} else if (r % 100 < frees + 15 && arena->count) {
		step_realloc(arena, index, flags);
	} else {
		step_alloc(arena, flags);
	}
	if (n % 512 == 0)
		arena_verify(arena);
}

