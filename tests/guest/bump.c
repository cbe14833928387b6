/* SPDX-License-Identifier: MIT */
/*
 * Arenas on a real machine's page tables and RAM: random operations with a
 * shadow, RAM that runs out in the middle of a realloc, interrupts masked, and
 * every frame back when the heap has ended.
 */
#include <fallow/bump.h>
#include <fallow/frames.h>

#include "arch.h"
#include "arena.h"
#include "board.h"
#include "guest_heap.h"

#define KIB ((size_t)1 << 10)

static struct fallow heap;
static struct arena arena;

/* A heap over the board's window, and an arena on it. */
static bool begin(void)
{
	struct fallow_config config = {
		.size = sizeof(config),
		.provider = board_provider(),
		.window_base = board_window_base(),
		.window_size = board_window_size(),
		.contexts = 1,
		.misuse = misuse_note,
	};
	struct fallow_bump_settings settings = { .size = sizeof(settings),
		.chunk_bytes = 256 * KIB };
	enum fallow_status status = fallow_init(&heap, &config);

	misuses = 0;
	if (status == FALLOW_OK)
		status = fallow_add_region(&heap, config.window_base,
			config.window_size);
	if (status == FALLOW_OK)
		status = fallow_bump_init(&arena.bump, &heap, &settings);
	CHECK_EQUAL(status, FALLOW_OK);
	arena_begin(&arena, test_seed);
	return status == FALLOW_OK;
}

static void end(void)
{
	arena_verify(&arena);
	fallow_bump_fini(&arena.bump);
	CHECK_EQUAL(misuses, 0);
	CHECK(fallow_check(&heap, NULL) == NULL);
	fallow_fini(&heap);
}

static void test_guest_bump_random(void)
{
	if (!begin())
		return;
	for (size_t n = 0; n < 8000; n++)
		arena_step(&arena, n, 0);
	CHECK(arena.moves > 50);
	end();
}

/* The same where no interrupt can come: as in a handler. */
static void test_guest_bump_masked(void)
{
	struct fl_port_state state;

	if (!begin())
		return;
	state = fl_port_enter();
	for (size_t n = 0; n < 1000; n++)
		arena_step(&arena, n, n % 2 ? FALLOW_NOWAIT : 0);
	fl_port_leave(state);
	end();
}

/* RAM ends; a block that cannot grow is as it was. */
static void test_guest_bump_exhausted(void)
{
	size_t size = 60 * KIB;
	unsigned char *p;

	if (!begin())
		return;
	p = fallow_bump_alloc(&arena.bump, size);
	CHECK_OR_RETURN(p != NULL);
	arena_fill(p, 0, size, 7);
	while (fallow_bump_alloc(&arena.bump, size) != NULL)
		;
	while (fallow_bump_alloc(&arena.bump, 1) != NULL)
		;
	CHECK(fallow_bump_realloc(&arena.bump, p, size, 4 * size) == NULL);
	CHECK(arena_is(p, size, 7));
	CHECK(fallow_bump_realloc(&arena.bump, p, size, 1) == p);
	CHECK(arena_is(p, 1, 7));
	end();
}

/* The page tables of the window stay, so that the second round says it. */
static void test_guest_bump_gives_all_back(void)
{
	size_t before = 0;

	for (unsigned round = 0; round < 2; round++) {
		before = frames_free();
		test_guest_bump_exhausted();
	}
	CHECK_EQUAL(frames_free(), before);
}

const struct test tests[] = {
	{ "guest_bump_random", test_guest_bump_random },
	{ "guest_bump_masked", test_guest_bump_masked },
	{ "guest_bump_exhausted", test_guest_bump_exhausted },
	{ "guest_bump_gives_all_back", test_guest_bump_gives_all_back },
	{ NULL, NULL },
};
