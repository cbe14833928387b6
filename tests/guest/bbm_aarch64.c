/* SPDX-License-Identifier: MIT */
/*
 * A 2 MiB block is split, and made whole again, while other CPUs use what is
 * live in it.
 *
 * The architecture wants the old entry invalid everywhere before the new one
 * is written (break-before-make), and who touches the range in between faults:
 * here all CPUs touch it all the time, and a fault ends the machine with a
 * report.  Each test runs in each way that the provider has and the CPU allows:
 * without a gap (BBM level 2, as on `max`), and with the others stopped.
 *
 * Each CPU owns every eighth granule of a chunk.  It writes there what it
 * expects to find there at its next pass, and looks at the others' granules,
 * whose upper halves never change.  The first granules are those that come and
 * go.
 *
 * The emulator does show a gap in which nobody was stopped, and a CPU that was
 * not told to forget a translation (both were tried).  It does not show what
 * real TLBs may do with two sizes at once, nor raise conflict aborts.
 */
#include "arch.h"
#include "board.h"
#include "meet.h"
#include "paging.h"
#include "test.h"
#include "virt/virt.h"

#define GRANULE ((uintptr_t)4096)
#define CHUNK ((uintptr_t)2 << 20)
#define CHUNK_GRANULES (CHUNK / GRANULE)
/* Entry 288 of TTBR1's root, which the board leaves. */
#define WINDOW 0xffff900000000000
#define WINDOW_BYTES ((size_t)1 << 30)
/* The granules below come and go, the others are live. */
#define LIVE 16
#define ROUNDS 12
/* For how many steps a CPU stays where another one must not come. */
#define LINGER 20000

enum way { WAY_BOARD, WAY_STOP, WAYS };

static uint64_t free_before;
/* CPUs between stop and resume, the most at once, and how often; CPUs that
 * are about to split. */
static uint32_t stopping, stopping_most, stops, about_to;
static bool linger;
/* CPUs that still split. */
static uint32_t splitting;

static uint64_t frames_free(void)
{
	struct fallow_frames_counts counts = { .size = sizeof(counts) };

	fallow_frames_counts(board_frames(), &counts);
	return counts.free;
}

/* Stops the others, and notes whether somebody else was about that. */
static void stop_others(void *ctx)
{
	uint32_t now = test_add(&stopping, 1) + 1;

	CHECK(ctx == &stops);
	CHECK(board_interrupts_on());
	if (now > test_load(&stopping_most))
		test_store(&stopping_most, now);
	test_add(&stops, 1);
	/* Everybody who splits is at it before the first one is done. */
	while (linger && test_load(&about_to) != board_cpus())
		fl_port_pause();
	for (unsigned i = 0; linger && i < LINGER; i++)
		fl_port_pause();
	board_stop_others();
}

static void resume_others(void *ctx)
{
	CHECK(ctx == &stops);
	board_resume_others();
	test_add(&stopping, (uint32_t)-1);
}

/* Makes the provider; false if that failed. */
static bool begin(enum way way)
{
	struct fallow_pagetable_config config = board_pagetable_config(
		board_frame_hooks(), WINDOW, WINDOW_BYTES, 0);
	enum fallow_status status;

	if (way == WAY_STOP) {
		config.flags &= ~(unsigned)(FALLOW_PAGETABLE_NO_CONFLICT |
			FALLOW_PAGETABLE_ONE_CPU);
		config.stop_others = stop_others;
		config.resume_others = resume_others;
		config.stop_ctx = &stops;
	}
	stopping = stopping_most = stops = about_to = 0;
	linger = false;
	free_before = frames_free();
	status = fallow_pagetable_init(&test_pagetable, &config);
	return test_provider_begin(status);
}

/* Takes it down: every frame is back. */
static void end(void)
{
	CHECK(fallow_pagetable_fini(&test_pagetable, true));
	CHECK_EQUAL(frames_free(), free_before);
	CHECK_EQUAL(stopping, 0);
	CHECK(stopping_most <= 1);
}

/* The word of a chunk's granule, and what is in it after so many passes. */
static volatile uint64_t *word(uintptr_t chunk, size_t granule)
{
	return (volatile uint64_t *)(chunk + granule * GRANULE);
}

static uint64_t content(size_t granule, uint32_t passes)
{
	return (uint64_t)(granule + 1) << 32 | passes;
}

/* Maps a chunk as a block, with all live granules as before the first pass. */
static void chunk_begin(uintptr_t chunk)
{
	test_commit(chunk, CHUNK, FALLOW_PREFER_LARGE);
	CHECK_EQUAL(test_mapped_log2(chunk), 21);
	for (size_t i = LIVE; i < CHUNK_GRANULES; i++)
		*word(chunk, i) = content(i, 0);
}

/* Passes over a chunk's live granules once; returns how many were wrong. */
static size_t chunk_pass(uintptr_t chunk, uint32_t pass)
{
	size_t wrong = 0;

	for (size_t i = LIVE; i < CHUNK_GRANULES; i++) {
		uint64_t seen = *word(chunk, i);

		if (i % BOARD_CPUS_MAX == board_cpu()) {
			wrong += seen != content(i, pass);
			*word(chunk, i) = content(i, pass + 1);
		} else {
			wrong += seen >> 32 != i + 1;
		}
	}
	return wrong;
}

/* Uses the live granules of `n` chunks until nobody splits any more. */
static void chunks_use(size_t n)
{
	size_t wrong = 0;

	for (uint32_t pass = 0; test_load(&splitting); pass++)
		for (size_t i = 0; i < n; i++)
			wrong += chunk_pass(WINDOW + i * CHUNK, pass);
	CHECK_EQUAL(wrong, 0);
}

/* Cuts holes into a chunk's begin, fills them, and makes it a block again. */
static void chunk_split(uintptr_t chunk)
{
	for (unsigned round = 0; round < ROUNDS; round++) {
		uintptr_t at = chunk + round % (LIVE - 1) * GRANULE;

		CHECK_EQUAL(test_mapped_log2(chunk), 21);
		test_decommit(at, 2 * GRANULE);
		CHECK_EQUAL(test_mapped_log2(chunk + CHUNK - GRANULE), 12);
		CHECK(!board_can_read(at));
		CHECK(!board_can_read(at + GRANULE));
		test_commit(at, 2 * GRANULE, FALLOW_RESERVED);
		CHECK(test_provider.promote(test_provider.ctx, chunk));
	}
	test_add(&splitting, (uint32_t)-1);
}

/* The first *splitters CPUs split a chunk each, the others use them all. */
static void run_split(void *splitters)
{
	size_t n = *(const size_t *)splitters;

	test_meet();
	if (board_cpu() < n)
		chunk_split(WINDOW + board_cpu() * CHUNK);
	else
		chunks_use(n);
}

/* Has so many chunks split and used. */
static void split_among_users(enum way way, size_t splitters)
{
	if (!begin(way))
		return;
	splitting = (uint32_t)splitters;
	for (size_t i = 0; i < splitters; i++)
		chunk_begin(WINDOW + i * CHUNK);
	board_run(run_split, &splitters);
	CHECK_EQUAL(test_counters().splits, splitters * ROUNDS);
	CHECK_EQUAL(test_counters().promotions, splitters * ROUNDS);
	if (way == WAY_STOP)
		CHECK_EQUAL(stops, 2 * splitters * ROUNDS);
	test_decommit(WINDOW, splitters * CHUNK);
	end();
}

static void test_split_among_users(void)
{
	if (board_cpus() < 2) {
		test_skip("nobody else is there");
		return;
	}
	for (enum way way = 0; way < WAYS; way++)
		split_among_users(way, 1);
}

/* Two CPUs split and promote at once, each in its own chunk. */
static void test_two_split_among_users(void)
{
	if (board_cpus() < 3) {
		test_skip("nobody beside the two would use the chunks");
		return;
	}
	for (enum way way = 0; way < WAYS; way++)
		split_among_users(way, 2);
}

/* All CPUs cut a hole into the same block, at the same time. */
static void run_split_together(void *arg)
{
	uintptr_t mine = WINDOW + board_cpu() * GRANULE;

	(void)arg;
	for (unsigned round = 0; round < ROUNDS; round++) {
		if (board_cpu() == 0)
			test_store(&about_to, 0);
		test_meet();
		test_add(&about_to, 1);
		test_decommit(mine, GRANULE);
		CHECK(!board_can_read(mine));
		CHECK(board_can_write(WINDOW + LIVE * GRANULE));
		test_meet();
		test_commit(mine, GRANULE, FALLOW_RESERVED);
		test_meet();
		if (board_cpu() == 0)
			CHECK(test_provider.promote(test_provider.ctx, WINDOW));
		test_meet();
		CHECK_EQUAL(test_mapped_log2(WINDOW), 21);
	}
}

/* One of them splits it, the others find pages; nothing is lost. */
static void test_all_split_one_block(void)
{
	for (enum way way = 0; way < WAYS; way++) {
		if (!begin(way))
			return;
		chunk_begin(WINDOW);
		board_run(run_split_together, NULL);
		CHECK_EQUAL(test_counters().splits, ROUNDS);
		CHECK_EQUAL(test_counters().promotions, ROUNDS);
		for (size_t i = LIVE; i < CHUNK_GRANULES; i++)
			CHECK_EQUAL(*word(WINDOW, i), content(i, 0));
		test_decommit(WINDOW, CHUNK);
		end();
	}
}

/* Each CPU splits a chunk of its own when all others are at it, too. */
static void run_stop_together(void *arg)
{
	uintptr_t mine = WINDOW + board_cpu() * CHUNK;

	(void)arg;
	test_meet();
	test_add(&about_to, 1);
	test_decommit(mine, GRANULE);
	test_decommit(mine + GRANULE, CHUNK - GRANULE);
}

/*
 * Of several CPUs that want the others stopped one does so at a time: each
 * stays in the hook while all others wait for their turn, or would be in it.
 * They wait where they can be stopped, or this would not end.
 */
static void test_stops_take_turns(void)
{
	size_t n = board_cpus();

	if (!begin(WAY_STOP))
		return;
	for (size_t i = 0; i < n; i++)
		chunk_begin(WINDOW + i * CHUNK);
	linger = true;
	board_run(run_stop_together, NULL);
	CHECK_EQUAL(stops, n);
	CHECK_EQUAL(stopping_most, 1);
	CHECK_EQUAL(test_counters().splits, n);
	end();
}

/* What every CPU had cached of a block is gone with the hole: it was touched
 * right before, as part of the block. */
static void run_hole_in_block(void *gone)
{
	for (uint32_t round = 1; round <= ROUNDS; round++) {
		uintptr_t at = WINDOW + round % LIVE * GRANULE;
		bool mine = round % board_cpus() == board_cpu();

		test_meet();
		CHECK(board_can_write(at));
		test_meet();
		if (mine) {
			test_decommit(at, GRANULE);
			test_store(gone, round);
		}
		while (test_load(gone) != round) {
			board_can_read(at);
			fl_port_pause();
		}
		CHECK(!board_can_read(at));
		CHECK(!board_can_write(at));
		CHECK(board_can_write(WINDOW + LIVE * GRANULE));
		test_meet();
		if (mine) {
			test_commit(at, GRANULE, FALLOW_RESERVED);
			CHECK(test_provider.promote(test_provider.ctx, WINDOW));
		}
	}
}

static void test_hole_in_block_is_gone(void)
{
	for (enum way way = 0; way < WAYS; way++) {
		uint32_t gone = 0;

		if (!begin(way))
			return;
		chunk_begin(WINDOW);
		board_run(run_hole_in_block, &gone);
		CHECK_EQUAL(test_counters().splits, ROUNDS);
		CHECK_EQUAL(test_counters().flushes_all, 0);
		test_decommit(WINDOW, CHUNK);
		end();
	}
}

/* Cached pages are gone with the block that took their place: one address
 * drops all of it, everywhere. */
static void run_block_of_pages(void *gone)
{
	for (uint32_t round = 1; round <= ROUNDS; round++) {
		bool mine = round % board_cpus() == board_cpu();

		if (mine)
			test_commit(WINDOW, CHUNK, FALLOW_RESERVED);
		test_meet();
		for (size_t i = 100; i < 140; i++)
			CHECK(board_can_write(WINDOW + i * GRANULE));
		test_meet();
		if (mine) {
			CHECK(test_provider.promote(test_provider.ctx, WINDOW));
			test_decommit(WINDOW, CHUNK);
			test_store(gone, round);
		}
		while (test_load(gone) != round)
			fl_port_pause();
		for (size_t i = 100; i < 140; i++)
			CHECK(!board_can_read(WINDOW + i * GRANULE));
		test_meet();
	}
}

static void test_block_of_pages_is_gone(void)
{
	for (enum way way = 0; way < WAYS; way++) {
		uint32_t gone = 0;

		if (!begin(way))
			return;
		board_run(run_block_of_pages, &gone);
		CHECK_EQUAL(test_counters().promotions, ROUNDS);
		CHECK_EQUAL(test_counters().flushes_all, 0);
		end();
	}
}

/* The board's provider splits on any model, and on any number of CPUs. */
static void test_board_provider_splits(void)
{
	CHECK(board_provider()->capabilities & FALLOW_CAN_DEMOTE);
	CHECK(board_provider()->capabilities & FALLOW_CAN_PROMOTE);
}

const struct test tests[] = {
	{ "board_provider_splits", test_board_provider_splits },
	{ "split_among_users", test_split_among_users },
	{ "two_split_among_users", test_two_split_among_users },
	{ "all_split_one_block", test_all_split_one_block },
	{ "stops_take_turns", test_stops_take_turns },
	{ "hole_in_block_is_gone", test_hole_in_block_is_gone },
	{ "block_of_pages_is_gone", test_block_of_pages_is_gone },
	{ NULL, NULL },
};
