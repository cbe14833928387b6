/* SPDX-License-Identifier: MIT */
/*
 * The page-table provider of either CPU, on its board.
 *
 * Each test makes a provider of its own in the upper half of the board's
 * window, over rationed frame hooks, and at its end takes it down: then every
 * frame must be back.  What the provider says is compared with what the tables
 * say (fallow_pagetable_lookup()), with what the CPU does (the probes), and
 * with what the bytes are through the direct map.  What is of one CPU alone is
 * in pagetable_x86_64.c and pagetable_aarch64.c.
 */
#include "board.h"
#include "paging.h"
#include "ration.h"
#include "test.h"

#define GRANULE ((uintptr_t)4096)
#define CHUNK ((uintptr_t)2 << 20)
#define CHUNK_GRANULES (CHUNK / GRANULE)

static struct test_ration ration;
static uintptr_t window;

/* Makes test_provider over unlimited frames; false, and a failure, if that
 * fails. */
static bool begin(unsigned flags)
{
	struct fallow_frame_hooks hooks;
	enum fallow_status status;

	ration = (struct test_ration){
		.under = board_frame_hooks(),
		.direct_offset = board_direct_offset(),
		.left = TEST_RATION_NONE,
	};
	hooks = test_ration_hooks(&ration);
	window = board_window_base() + board_window_size() / 2;
	status = board_pagetable_init(&test_pagetable, &hooks, window,
		board_window_size() / 2, flags);
	return test_provider_begin(status);
}

/* Takes the provider down: its window is empty, and every frame is back. */
static void end(void)
{
	CHECK(fallow_pagetable_fini(&test_pagetable, false));
	CHECK_EQUAL(ration.out, 0);
}

static uint64_t mapped_physical(uintptr_t addr)
{
	struct fallow_mapping mapping = { 0 };

	return fallow_pagetable_lookup(&test_pagetable, addr, &mapping)
		? mapping.physical
		: FALLOW_FRAME_NONE;
}

/* What the word at `addr` is filled with: no two alike. */
static uint64_t stamp(uintptr_t addr)
{
	return addr * 0x9e3779b97f4a7c15u ^ 0x66616c6c6f77;
}

/* Stamps the first and last word of each granule. */
static void fill(uintptr_t base, size_t size)
{
	uintptr_t addr;

	for (addr = base; addr < base + size; addr += GRANULE) {
		*(volatile uint64_t *)addr = stamp(addr);
		*(volatile uint64_t *)(addr + GRANULE - 8) = stamp(addr + 8);
	}
}

/* Returns how many granules do not have the stamps of fill(origin). */
static size_t spoilt(uintptr_t base, size_t size, uintptr_t origin)
{
	uintptr_t i;
	size_t n = 0;

	for (i = 0; i < size; i += GRANULE) {
		const volatile uint64_t *word = (uint64_t *)(base + i);

		n += word[0] != stamp(origin + i) ||
			word[GRANULE / 8 - 1] != stamp(origin + i + 8);
	}
	return n;
}

/* Tables and bytes agree: what is written at a committed address is in the
 * frame that the tables name. */
static void test_commit_reads_back(void)
{
	struct fallow_mapping mapping;
	uintptr_t addr;

	if (!begin(0))
		return;
	CHECK_EQUAL(test_readable(window, 8 * GRANULE), 0);
	CHECK_EQUAL(test_try_commit(window + GRANULE, 5 * GRANULE, 0),
		FALLOW_COMMIT_DONE);
	fill(window + GRANULE, 5 * GRANULE);
	for (addr = window + GRANULE; addr < window + 6 * GRANULE;
		addr += GRANULE) {
		CHECK_OR_RETURN(fallow_pagetable_lookup(
			&test_pagetable, addr + 24, &mapping));
		CHECK_EQUAL(mapping.size_log2, 12);
		CHECK_EQUAL(mapping.physical % GRANULE, 24);
		CHECK(mapping.writable);
		CHECK(!mapping.executable);
		CHECK(board_can_write(addr));
		CHECK_EQUAL(*(volatile uint64_t *)(uintptr_t)(
				    mapping.physical - 24 +
				    board_direct_offset()),
			stamp(addr));
	}
	CHECK_EQUAL(test_mapped_log2(window), 0);
	CHECK_EQUAL(test_mapped_log2(window + 6 * GRANULE), 0);
	test_decommit(window + GRANULE, 5 * GRANULE);
	end();
}

/* The CPU takes the fault in a hole, and only there. */
static void test_hole_faults(void)
{
	if (!begin(0))
		return;
	CHECK_EQUAL(test_try_commit(window, 16 * GRANULE, 0),
		FALLOW_COMMIT_DONE);
	fill(window, 16 * GRANULE);
	CHECK_EQUAL(test_readable(window, 16 * GRANULE), 16);
	test_decommit(window + 6 * GRANULE, 3 * GRANULE);
	CHECK_EQUAL(test_readable(window, 16 * GRANULE), 13);
	CHECK_EQUAL(test_readable(window + 6 * GRANULE, 3 * GRANULE), 0);
	CHECK(!board_can_write(window + 7 * GRANULE));
	CHECK_EQUAL(spoilt(window, 6 * GRANULE, window), 0);
	CHECK_EQUAL(spoilt(window + 9 * GRANULE, 7 * GRANULE,
			    window + 9 * GRANULE), 0);
	CHECK_EQUAL(test_try_commit(window + 6 * GRANULE, 3 * GRANULE, 0),
		FALLOW_COMMIT_DONE);
	CHECK_EQUAL(test_readable(window, 16 * GRANULE), 16);
	test_decommit(window, 16 * GRANULE);
	end();
}

/* A large commit is one leaf of 2 MiB, for each of its granules. */
static void test_large_is_one_leaf(void)
{
	uintptr_t i;
	uint64_t first;

	if (!begin(0))
		return;
	CHECK_EQUAL(test_provider.large_log2, 21);
	CHECK_EQUAL(test_try_commit(window, CHUNK, FALLOW_PREFER_LARGE),
		FALLOW_COMMIT_DONE | FALLOW_COMMIT_LARGE);
	first = mapped_physical(window);
	CHECK_EQUAL(first % CHUNK, 0);
	for (i = 0; i < CHUNK; i += GRANULE) {
		CHECK_EQUAL(test_mapped_log2(window + i), 21);
		CHECK_EQUAL(mapped_physical(window + i), first + i);
	}
	CHECK_EQUAL(test_counters().large, 1);
	CHECK_EQUAL(test_counters().tables_spare, 1);
	fill(window, CHUNK);
	CHECK_EQUAL(spoilt(window, CHUNK, window), 0);
	CHECK_EQUAL(test_mapped_log2(window + CHUNK), 0);
	test_decommit(window, CHUNK);
	CHECK_EQUAL(test_readable(window, CHUNK), 0);
	CHECK_EQUAL(test_counters().large, 0);
	end();
}

/* LARGE is reported only if all of the range is. */
static void test_large_is_not_claimed(void)
{
	if (!begin(0))
		return;
	CHECK_EQUAL(test_try_commit(window, CHUNK + GRANULE,
		FALLOW_PREFER_LARGE), FALLOW_COMMIT_DONE);
	CHECK_EQUAL(test_mapped_log2(window), 21);
	CHECK_EQUAL(test_mapped_log2(window + CHUNK), 12);
	test_decommit(window, CHUNK + GRANULE);
	CHECK_EQUAL(test_try_commit(window, CHUNK, 0), FALLOW_COMMIT_DONE);
	CHECK_EQUAL(test_mapped_log2(window), 12);
	test_decommit(window, CHUNK);
	end();
}

/* A hole in a large mapping leaves every other byte where it was. */
static void test_split_keeps_bytes(void)
{
	uintptr_t i;
	uint64_t first;

	if (!begin(0))
		return;
	CHECK(test_try_commit(window, CHUNK, FALLOW_PREFER_LARGE) &
		FALLOW_COMMIT_LARGE);
	fill(window, CHUNK);
	first = mapped_physical(window);
	test_decommit(window + 100 * GRANULE, 3 * GRANULE);
	CHECK_EQUAL(test_counters().splits, 1);
	CHECK_EQUAL(test_counters().large, 0);
	for (i = 0; i < CHUNK; i += GRANULE) {
		bool hole = i / GRANULE >= 100 && i / GRANULE < 103;

		CHECK_EQUAL(test_mapped_log2(window + i), hole ? 0 : 12);
		CHECK_EQUAL(mapped_physical(window + i),
			hole ? FALLOW_FRAME_NONE : first + i);
	}
	CHECK_EQUAL(test_readable(window, CHUNK), CHUNK_GRANULES - 3);
	CHECK_EQUAL(test_readable(window + 100 * GRANULE, 3 * GRANULE), 0);
	CHECK_EQUAL(spoilt(window, 100 * GRANULE, window), 0);
	CHECK_EQUAL(spoilt(window + 103 * GRANULE, CHUNK - 103 * GRANULE,
			    window + 103 * GRANULE), 0);
	/* A second hole needs no second split. */
	test_decommit(window, GRANULE);
	CHECK_EQUAL(test_counters().splits, 1);
	test_decommit(window + GRANULE, 99 * GRANULE);
	test_decommit(window + 103 * GRANULE, CHUNK - 103 * GRANULE);
	CHECK_EQUAL(test_counters().tables_empty, 1);
	end();
}

/* Decommit takes no frame, even to split. */
static void test_decommit_needs_no_memory(void)
{
	uint64_t takes;

	if (!begin(0))
		return;
	CHECK(test_try_commit(window, 2 * CHUNK, FALLOW_PREFER_LARGE) &
		FALLOW_COMMIT_LARGE);
	fill(window, 2 * CHUNK);
	ration.left = 0;
	takes = ration.takes;
	test_decommit(window + CHUNK - GRANULE, 2 * GRANULE);
	CHECK_EQUAL(ration.takes, takes);
	CHECK_EQUAL(test_counters().splits, 2);
	CHECK_EQUAL(test_readable(window, 2 * CHUNK), 2 * CHUNK_GRANULES - 2);
	CHECK_EQUAL(spoilt(window, CHUNK - GRANULE, window), 0);
	test_decommit(window, CHUNK - GRANULE);
	test_decommit(window + CHUNK + GRANULE, CHUNK - GRANULE);
	CHECK_EQUAL(ration.takes, takes);
	end();
}

/* When all RAM is in use, holes still can be cut and used again. */
static void test_decommit_out_of_frames(void)
{
	uintptr_t addr = window;
	size_t chunks = 0, granules = 0;

	if (!begin(0))
		return;
	while (test_try_commit(addr, CHUNK, FALLOW_PREFER_LARGE)) {
		addr += CHUNK;
		chunks++;
	}
	CHECK(chunks > 0);
	while (test_try_commit(addr, GRANULE, 0)) {
		addr += GRANULE;
		granules++;
	}
	CHECK_EQUAL(board_frame_hooks()->take(board_frame_hooks()->ctx, 12),
		FALLOW_FRAME_NONE);
	CHECK_EQUAL(test_readable(window, addr - window),
		chunks * CHUNK_GRANULES + granules);
	test_decommit(window + 7 * GRANULE, GRANULE);
	CHECK(!board_can_read(window + 7 * GRANULE));
	CHECK_EQUAL(test_try_commit(addr, GRANULE, 0), FALLOW_COMMIT_DONE);
	CHECK(!test_try_commit(window + 7 * GRANULE, GRANULE, 0));
	test_decommit(addr, GRANULE);
	CHECK_EQUAL(test_try_commit(window + 7 * GRANULE, GRANULE, 0),
		FALLOW_COMMIT_DONE);
	test_decommit(window, addr - window);
	end();
}

/* 64 ranges, far apart and of several kinds, are one flush. */
static void test_many_ranges_one_flush(void)
{
	struct fallow_range ranges[FALLOW_RANGES_MAX];
	uint64_t flushes;
	size_t i;

	if (!begin(0))
		return;
	CHECK(test_try_commit(window, CHUNK, FALLOW_PREFER_LARGE));
	CHECK(test_try_commit(window + CHUNK, CHUNK, 0));
	for (i = 0; i < FALLOW_RANGES_MAX; i++)
		ranges[i] = (struct fallow_range){
			.base = window + i * 9 * GRANULE,
			.size = 3 * GRANULE,
			.result = FALLOW_RANGE_REFUSED,
		};
	CHECK_EQUAL(test_readable(window, 2 * CHUNK), 2 * CHUNK_GRANULES);
	flushes = test_counters().flushes;
	test_provider.decommit(test_provider.ctx, ranges, FALLOW_RANGES_MAX);
	CHECK_EQUAL(test_counters().flushes, flushes + 1);
	for (i = 0; i < FALLOW_RANGES_MAX; i++) {
		CHECK_EQUAL(ranges[i].result, FALLOW_RANGE_DONE);
		CHECK_EQUAL(test_readable(ranges[i].base, 9 * GRANULE), 6);
		CHECK_EQUAL(test_readable(ranges[i].base, 3 * GRANULE), 0);
	}
	test_decommit(window + 63 * 9 * GRANULE + 3 * GRANULE,
		2 * CHUNK - 63 * 9 * GRANULE - 3 * GRANULE);
	for (i = 0; i < FALLOW_RANGES_MAX - 1; i++)
		test_decommit(ranges[i].base + 3 * GRANULE, 6 * GRANULE);
	end();
}

/* A few granules do not cost a flush of everything. */
static void test_few_granules_flush_few(void)
{
	uint64_t all;

	if (!begin(0))
		return;
	CHECK(test_try_commit(window, 40 * GRANULE, 0));
	CHECK_EQUAL(test_readable(window, 40 * GRANULE), 40);
	all = test_counters().flushes_all;
	test_decommit(window, 4 * GRANULE);
	CHECK_EQUAL(test_counters().flushes_all, all);
	CHECK_EQUAL(test_readable(window, 40 * GRANULE), 36);
	test_decommit(window + 4 * GRANULE, 36 * GRANULE);
	CHECK_EQUAL(test_readable(window, 40 * GRANULE), 0);
	end();
}

/* The address that must be gone whenever a frame is given back. */
static uintptr_t watched;
static size_t watched_gives;

static void give_watched(uint64_t frame)
{
	(void)frame;
	watched_gives++;
	CHECK(!board_can_read(watched));
	CHECK(!board_can_write(watched + GRANULE));
}

/* No frame is given back before the CPU has forgotten it. */
static void test_frames_after_flush(void)
{
	if (!begin(0))
		return;
	watched_gives = 0;
	CHECK(test_try_commit(window, CHUNK, FALLOW_PREFER_LARGE));
	CHECK(test_try_commit(window + CHUNK, 4 * GRANULE, 0));
	CHECK_EQUAL(test_readable(window, CHUNK + 4 * GRANULE),
		CHUNK_GRANULES + 4);
	ration.given = give_watched;
	watched = window + CHUNK + GRANULE;
	test_decommit(watched, 2 * GRANULE);
	CHECK_EQUAL(watched_gives, 2);
	watched = window + 9 * GRANULE;
	test_decommit(watched, 2 * GRANULE);
	CHECK_EQUAL(watched_gives, 4);
	watched = window + 20 * GRANULE;
	test_decommit(watched, 200 * GRANULE);
	CHECK_EQUAL(watched_gives, 204);
	ration.given = NULL;
	test_decommit(window, 9 * GRANULE);
	test_decommit(window + 11 * GRANULE, 9 * GRANULE);
	test_decommit(window + 220 * GRANULE, CHUNK - 220 * GRANULE);
	test_decommit(window + CHUNK, GRANULE);
	test_decommit(window + CHUNK + 3 * GRANULE, GRANULE);
	end();
}

/* Commits `size` at `base` with n takes, then n + 1, ... until that is enough;
 * after each refusal nothing is committed and no frame is lost. */
static void refuse_each(uintptr_t base, size_t size, unsigned flags)
{
	uint64_t n;
	bool done = false;

	for (n = 0; !done && n < 4 * (size / GRANULE) + 16; n++) {
		ration.left = n;
		done = test_try_commit(base, size, flags) & FALLOW_COMMIT_DONE;
		if (done)
			break;
		CHECK_EQUAL(test_readable(base, size), 0);
		CHECK_EQUAL(test_mapped_log2(base), 0);
		CHECK_EQUAL(ration.out, test_counters().tables * GRANULE);
		CHECK_EQUAL(test_counters().large, 0);
	}
	CHECK(done);
	ration.left = TEST_RATION_NONE;
	CHECK_EQUAL(test_readable(base, size), size / GRANULE);
	fill(base, size);
	CHECK_EQUAL(spoilt(base, size, base), 0);
	test_decommit(base, size);
	CHECK_EQUAL(ration.out, test_counters().tables * GRANULE);
}

static void test_all_or_nothing(void)
{
	if (!begin(0))
		return;
	refuse_each(window + 3 * GRANULE, 12 * GRANULE, 0);
	end();
	if (!begin(0))
		return;
	refuse_each(window + CHUNK - 2 * GRANULE, 5 * GRANULE, FALLOW_RESERVED);
	end();
	if (!begin(0))
		return;
	refuse_each(window + CHUNK - 3 * GRANULE, CHUNK + 5 * GRANULE,
		FALLOW_PREFER_LARGE);
	end();
	if (!begin(FALLOW_PAGETABLE_ZERO))
		return;
	refuse_each(window, 2 * CHUNK, FALLOW_PREFER_LARGE);
	end();
}

/* A chunk populated piece by piece becomes one leaf, every byte where it
 * was, and can be split again. */
static void test_promote_in_place(void)
{
	uintptr_t i;
	uint64_t first;

	if (!begin(0))
		return;
	for (i = 0; i < CHUNK; i += 16 * GRANULE) {
		CHECK_EQUAL(test_try_commit(window + i, 16 * GRANULE,
			FALLOW_RESERVED), FALLOW_COMMIT_DONE);
		CHECK_EQUAL(test_mapped_log2(window + i), 12);
	}
	fill(window, CHUNK);
	first = mapped_physical(window);
	CHECK_EQUAL(first % CHUNK, 0);
	ration.left = 0;
	CHECK(test_provider.promote(test_provider.ctx, window));
	CHECK_EQUAL(test_mapped_log2(window + 77 * GRANULE), 21);
	CHECK_EQUAL(mapped_physical(window + 77 * GRANULE),
		first + 77 * GRANULE);
	CHECK_EQUAL(spoilt(window, CHUNK, window), 0);
	CHECK_EQUAL(test_counters().promotions, 1);
	CHECK_EQUAL(test_counters().tables_spare, 1);
	/* It is large already. */
	CHECK(test_provider.promote(test_provider.ctx, window));
	CHECK_EQUAL(test_counters().tables_spare, 1);
	test_decommit(window + GRANULE, GRANULE);
	CHECK_EQUAL(test_mapped_log2(window + 77 * GRANULE), 12);
	CHECK_EQUAL(spoilt(window + 2 * GRANULE, CHUNK - 2 * GRANULE,
			    window + 2 * GRANULE), 0);
	/* Its frame is still free: the chunk is whole again, without a copy. */
	ration.left = TEST_RATION_NONE;
	CHECK(!test_provider.promote(test_provider.ctx, window));
	CHECK(test_try_commit(window + GRANULE, GRANULE, FALLOW_RESERVED));
	CHECK(test_provider.promote(test_provider.ctx, window));
	CHECK_EQUAL(spoilt(window + 2 * GRANULE, CHUNK - 2 * GRANULE,
			    window + 2 * GRANULE), 0);
	test_decommit(window, CHUNK);
	end();
}

/* What is not one run is not promoted, and stays as it is. */
static void test_promote_refuses_scattered(void)
{
	uint64_t first;

	if (!begin(0))
		return;
	CHECK(!test_provider.promote(test_provider.ctx, window));
	/* The frames of the second half are two granules off. */
	CHECK(test_try_commit(window, CHUNK / 2, FALLOW_RESERVED));
	first = mapped_physical(window) + CHUNK / 2;
	CHECK(board_frame_hooks()->claim(
		board_frame_hooks()->ctx, first, 12));
	CHECK(test_try_commit(window + CHUNK / 2, CHUNK / 2, FALLOW_RESERVED));
	fill(window, CHUNK);
	CHECK(!test_provider.promote(test_provider.ctx, window));
	CHECK_EQUAL(test_mapped_log2(window), 12);
	CHECK_EQUAL(spoilt(window, CHUNK, window), 0);
	board_frame_hooks()->give(board_frame_hooks()->ctx, first, 12);
	test_decommit(window, CHUNK);
	CHECK_EQUAL(test_counters().promotions, 0);
	end();
}

/* Moved memory is at its new address alone, in the same order. */
static void move_each(uintptr_t from, uintptr_t to, size_t size, unsigned flags)
{
	uint64_t n;

	CHECK(test_try_commit(from, size, flags));
	fill(from, size);
	CHECK_EQUAL(test_readable(from, size), size / GRANULE);
	for (n = 0; n < 8; n++) {
		ration.left = n;
		if (test_provider.move(test_provider.ctx, from, to, size))
			break;
		CHECK_EQUAL(spoilt(from, size, from), 0);
		CHECK_EQUAL(test_readable(to, size), 0);
	}
	ration.left = TEST_RATION_NONE;
	CHECK(n < 8);
	CHECK_EQUAL(test_readable(from, size), 0);
	CHECK_EQUAL(test_readable(to, size), size / GRANULE);
	CHECK_EQUAL(spoilt(to, size, from), 0);
	test_decommit(to, size);
}

static void test_move(void)
{
	if (!begin(0))
		return;
	if (!(test_provider.capabilities & FALLOW_CAN_MOVE)) {
		test_skip("the provider does not move");
		return;
	}
	move_each(window + 3 * GRANULE, window + 40 * GRANULE, 9 * GRANULE, 0);
	move_each(window + 8 * CHUNK - 5 * GRANULE,
		window + 17 * CHUNK - 2 * GRANULE, 9 * GRANULE, 0);
	move_each(window + 20 * CHUNK, window + 30 * CHUNK,
		CHUNK + 3 * GRANULE, FALLOW_PREFER_LARGE);
	CHECK_EQUAL(test_counters().splits, 0);
	move_each(window + 40 * CHUNK, window + 50 * CHUNK + GRANULE,
		CHUNK, FALLOW_PREFER_LARGE);
	CHECK_EQUAL(test_counters().splits, 1);
	CHECK(test_counters().tables_spare >= test_counters().large);
	end();
}

/* Returns how many bytes of the range are not zero, by words. */
static size_t dirt(uintptr_t base, size_t size)
{
	uintptr_t addr;
	size_t n = 0;

	for (addr = base; addr < base + size; addr += 8)
		n += *(volatile uint64_t *)addr != 0;
	return n;
}

/* ZEROED is said when it is so; the frames all come poisoned. */
static void test_zeroed_is_true(void)
{
	if (!begin(0))
		return;
	CHECK_EQUAL(test_try_commit(window, 4 * GRANULE, 0),
		FALLOW_COMMIT_DONE);
	CHECK_EQUAL(dirt(window, 4 * GRANULE), 4 * GRANULE / 8);
	test_decommit(window, 4 * GRANULE);
	end();
	if (!begin(FALLOW_PAGETABLE_ZERO))
		return;
	CHECK_EQUAL(test_try_commit(window, 4 * GRANULE, 0),
		FALLOW_COMMIT_DONE | FALLOW_COMMIT_ZEROED);
	CHECK_EQUAL(dirt(window, 4 * GRANULE), 0);
	CHECK_EQUAL(test_try_commit(window + 4 * GRANULE, 4 * GRANULE,
		FALLOW_RESERVED), FALLOW_COMMIT_DONE | FALLOW_COMMIT_ZEROED);
	CHECK_EQUAL(dirt(window, 8 * GRANULE), 0);
	CHECK_EQUAL(test_try_commit(window + CHUNK, CHUNK, FALLOW_PREFER_LARGE),
		FALLOW_COMMIT_DONE | FALLOW_COMMIT_ZEROED |
			FALLOW_COMMIT_LARGE);
	CHECK_EQUAL(dirt(window + CHUNK, CHUNK), 0);
	test_decommit(window, 8 * GRANULE);
	test_decommit(window + CHUNK, CHUNK);
	end();
}

/* Every refusal of a wrong configuration, by its cause. */
static void test_bad_configuration(void)
{
	struct fallow_frame_hooks hooks = *board_frame_hooks();
	struct fallow_frame_hooks none = hooks;
	uintptr_t base = board_window_base();

	none.take = NULL;
	CHECK_EQUAL(board_pagetable_init(&test_pagetable, &none, base, CHUNK,
		0), FALLOW_MISSING_ARGUMENT);
	none = hooks;
	none.give = NULL;
	CHECK_EQUAL(board_pagetable_init(&test_pagetable, &none, base, CHUNK,
		0), FALLOW_MISSING_ARGUMENT);
	CHECK_EQUAL(board_pagetable_init(
			    &test_pagetable, &hooks, base + 8, CHUNK, 0),
		FALLOW_UNALIGNED);
	CHECK_EQUAL(board_pagetable_init(
			    &test_pagetable, &hooks, base, CHUNK + 1, 0),
		FALLOW_UNALIGNED);
	CHECK_EQUAL(board_pagetable_init(&test_pagetable, &hooks, base, 0, 0),
		FALLOW_WINDOW_TOO_SMALL);
	CHECK_EQUAL(board_pagetable_init(&test_pagetable, &hooks, base,
			    (size_t)0 - base + GRANULE, 0),
		FALLOW_RANGE_WRAPS);
	CHECK_EQUAL(board_pagetable_init(
			    &test_pagetable, &hooks, base, CHUNK, 1u << 31),
		FALLOW_BAD_SETTING);
	CHECK(fallow_pagetable_why(&test_pagetable) != NULL);
}

/* What the random operations know of each granule of four chunks. */
#define SHADOW_CHUNKS 4
#define SHADOW_GRANULES (SHADOW_CHUNKS * CHUNK_GRANULES)
static bool shadow[SHADOW_GRANULES];

/* Whether granules [first, first + n) are all committed, or all not. */
static bool shadow_all(size_t first, size_t n, bool committed)
{
	size_t i;

	for (i = first; i < first + n; i++)
		if (shadow[i] != committed)
			return false;
	return true;
}

static void shadow_set(size_t first, size_t n, bool committed)
{
	size_t i;

	for (i = first; i < first + n; i++)
		shadow[i] = committed;
}

/* Compares everything that can be seen with the shadow. */
static void shadow_compare(void)
{
	size_t i, wrong = 0, committed = 0;

	for (i = 0; i < SHADOW_GRANULES; i++) {
		uintptr_t addr = window + i * GRANULE;

		committed += shadow[i];
		wrong += board_can_read(addr) != shadow[i] ||
			(test_mapped_log2(addr) != 0) != shadow[i];
		if (shadow[i] && test_mapped_log2(addr) != 0)
			wrong += spoilt(addr, GRANULE, addr);
	}
	CHECK_EQUAL(wrong, 0);
	CHECK_EQUAL(ration.out, (committed + test_counters().tables) * GRANULE);
	CHECK(test_counters().tables_spare >= test_counters().large);
}

/* Commits or decommits n granules, which are all in one state. */
static void shadow_toggle(size_t first, size_t n, unsigned flags)
{
	uintptr_t addr = window + first * GRANULE;

	if (shadow[first]) {
		test_decommit(addr, n * GRANULE);
		shadow_set(first, n, false);
	} else if (test_try_commit(addr, n * GRANULE, flags)) {
		shadow_set(first, n, true);
		fill(addr, n * GRANULE);
	}
}

/* Commits what is missing of a chunk, placed, and tries to promote it. */
static void shadow_complete(size_t first)
{
	size_t i;

	for (i = first; i < first + CHUNK_GRANULES; i++)
		if (!shadow[i])
			shadow_toggle(i, 1, FALLOW_RESERVED);
	if (shadow_all(first, CHUNK_GRANULES, true))
		test_provider.promote(test_provider.ctx,
			window + first * GRANULE);
}

/* One random operation; those that the contract forbids are left out. */
static void shadow_step(uint64_t *random)
{
	static const unsigned flags[] = { 0, FALLOW_RESERVED,
		FALLOW_RESERVED, FALLOW_PREFER_LARGE };
	uint64_t r = test_random(random);
	size_t n = 1 + (r >> 8) % ((r >> 4 & 1) ? 8 : 300);
	size_t first = (r >> 20) % (SHADOW_GRANULES - n + 1);
	size_t chunk = first - first % CHUNK_GRANULES;

	switch (r & 7) {
	case 0:
		shadow_complete(chunk);
		break;
	case 1:
	case 2:
		if (shadow_all(chunk, CHUNK_GRANULES, shadow[chunk]))
			shadow_toggle(chunk, CHUNK_GRANULES, flags[r >> 5 & 3]);
		break;
	default:
		if (shadow_all(first, n, shadow[first]))
			shadow_toggle(first, n, flags[r >> 5 & 3]);
		break;
	}
}

static void test_random_operations(void)
{
	uint64_t random = test_seed;
	size_t i, first, n;

	if (!begin(0))
		return;
	shadow_set(0, SHADOW_GRANULES, false);
	for (i = 0; i < 1000 && test_failures() == 0; i++) {
		ration.left = i % 16 ? TEST_RATION_NONE : 50;
		shadow_step(&random);
		shadow_compare();
	}
	for (first = 0; first < SHADOW_GRANULES; first += n) {
		for (n = 1; first + n < SHADOW_GRANULES &&
			shadow[first + n] == shadow[first]; n++)
			;
		if (shadow[first])
			test_decommit(window + first * GRANULE, n * GRANULE);
	}
	CHECK(test_counters().promotions > 0);
	CHECK(test_counters().splits > 0);
	end();
}

/* Frames of the board are as many at the end as at the begin. */
static void test_board_frames_whole(void)
{
	CHECK(fallow_frames_check(board_frames(), NULL) == NULL);
}

const struct test tests[] = {
	{ "commit_reads_back", test_commit_reads_back },
	{ "hole_faults", test_hole_faults },
	{ "large_is_one_leaf", test_large_is_one_leaf },
	{ "large_is_not_claimed", test_large_is_not_claimed },
	{ "split_keeps_bytes", test_split_keeps_bytes },
	{ "decommit_needs_no_memory", test_decommit_needs_no_memory },
	{ "decommit_out_of_frames", test_decommit_out_of_frames },
	{ "many_ranges_one_flush", test_many_ranges_one_flush },
	{ "few_granules_flush_few", test_few_granules_flush_few },
	{ "frames_after_flush", test_frames_after_flush },
	{ "all_or_nothing", test_all_or_nothing },
	{ "promote_in_place", test_promote_in_place },
	{ "promote_refuses_scattered", test_promote_refuses_scattered },
	{ "move", test_move },
	{ "zeroed_is_true", test_zeroed_is_true },
	{ "bad_configuration", test_bad_configuration },
	{ "random_operations", test_random_operations },
	{ "board_frames_whole", test_board_frames_whole },
	{ NULL, NULL },
};
