/* SPDX-License-Identifier: MIT */
/*
 * The heap on a real machine's page tables and RAM.
 *
 * Over the board's window: random operations under the oracle, memory that is
 * really gone after a collect, RAM that runs out and comes back, interrupts
 * off, two heaps in one window.  Then the same RAM through the direct map, and
 * a flat heap in a run of it.  Frames are counted before and after: a heap
 * that ended has given everything back.  The window's page tables stay, as
 * the provider says; so a test that counts makes them first, by running twice.
 *
 * Sizes follow the RAM that is free, so that one image serves 16 MiB and
 * 512 MiB.
 */
#include <fallow/direct.h>
#include <fallow/fallow.h>
#include <fallow/flat.h>
#include <fallow/frames.h>

#include "arch.h"
#include "board.h"
#include "guest_heap.h"
#include "oracle.h"
#include "test.h"
#include "workload.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define GRANULE ((size_t)4096)
#define CHUNK ((size_t)2 << 20)

#define BLOCKS 2048

static struct fallow heap;
static struct oracle oracle;
static struct oracle_block blocks[BLOCKS];
static struct fallow_direct direct;

/* Begins the heap and its oracle; a quarter of free RAM is the volume. */
static bool begin(struct fallow *which, const struct fallow_provider *provider,
	uintptr_t window_base, size_t window_size)
{
	struct fallow_config config = {
		.size = sizeof(config),
		.provider = provider,
		.window_base = window_base,
		.window_size = window_size,
		.contexts = 1,
		.misuse = misuse_note,
	};
	enum fallow_status status = fallow_init(which, &config);

	misuses = 0;
	oracle_begin(&oracle, which, blocks, BLOCKS, test_seed);
	oracle.window_base = window_base;
	oracle.window_size = window_size;
	oracle.volume = frames_free() / 4;
	oracle.size_max = frames_free() / 32;
	if (status == FALLOW_OK &&
		provider->provider_class == FALLOW_CLASS_WINDOW)
		status = fallow_add_region(which, window_base, window_size);
	if (status)
		test_printf("\n    %s", fallow_status_text(status));
	CHECK_EQUAL(status, FALLOW_OK);
	return status == FALLOW_OK;
}

static bool begin_window(void)
{
	return begin(&heap, board_provider(), board_window_base(),
		board_window_size());
}

/* Ends the heap: every block, then everything. */
static void end(void)
{
	oracle_check(&oracle);
	oracle_shrink(&oracle, 0);
	oracle_check(&oracle);
	CHECK_EQUAL(misuses, 0);
	fallow_fini(&heap);
}

static void run(unsigned n)
{
	for (unsigned i = 1; i <= n && !oracle.failures; i++) {
		oracle_step(&oracle);
		if (i % 1000 == 0)
			oracle_check(&oracle);
		if (i % 1777 == 0)
			fallow_collect(&heap);
		if (i % 3001 == 0)
			fallow_offline(&heap);
	}
}

static void between_check(void *arg)
{
	(void)arg;
	oracle_check(&oracle);
}

static void test_guest_workload(void)
{
	if (!begin_window())
		return;
	/* Its volume is more than the smallest machine has. */
	oracle.may_fail = true;
	workload_run(&oracle, between_check, NULL);
	end();
}

static void test_guest_random(void)
{
	if (!begin_window())
		return;
	run(10000);
	end();
}

static void test_guest_fini_gives_all_back(void)
{
	size_t before = 0;

	for (unsigned round = 0; round < 3; round++) {
		if (!begin_window())
			return;
		oracle.size_max = 128 * KIB;
		run(1500);
		CHECK(oracle.count > 0);
		fallow_fini(&heap);
		if (round)
			CHECK_EQUAL(frames_free(), before);
		before = frames_free();
	}
}

/* What a collect gave back faults, and what lives is there. */
static void test_guest_collect_unmaps(void)
{
	uintptr_t gone[4];

	if (!begin_window())
		return;
	for (unsigned i = 0; i < 4; i++) {
		CHECK(oracle_alloc(&oracle, 600 * KIB, 0));
		gone[i] = oracle.blocks[oracle_last(&oracle)].base;
		CHECK(oracle_alloc(&oracle, 100, 0));
		CHECK(board_can_read(gone[i]) && board_can_write(gone[i]));
	}
	for (size_t i = 0; i < oracle.count;) {
		if (oracle.blocks[i].size == 600 * KIB)
			oracle_free(&oracle, i);
		else
			i++;
	}
	CHECK(fallow_collect(&heap) >= 4 * 600 * KIB);
	for (unsigned i = 0; i < 4; i++) {
		CHECK(!board_can_read(gone[i]));
		CHECK(!board_can_write(gone[i] + 300 * KIB));
	}
	end();
}

/* Takes blocks of `size` bytes until there is no memory; returns how many
 * bytes that were. */
static size_t exhaust(size_t size)
{
	oracle.may_fail = true;
	while (oracle_alloc(&oracle, size, 0))
		;
	return oracle.live;
}

static void test_guest_exhausted(void)
{
	size_t before, after = 0;

	for (unsigned round = 0; round < 4; round++) {
		if (!begin_window())
			return;
		before = frames_free();
		/* Few enough blocks for the oracle on a large machine. */
		CHECK(exhaust(before / 256) > before / 4 * 3);
		oracle_check(&oracle);
		/* A free is enough for an allocation of the same size. */
		for (unsigned i = 0; i < 20; i++) {
			oracle_free(&oracle, i % oracle.count);
			CHECK(oracle_alloc(&oracle, before / 256, 0));
		}
		/* Pages that are all free are enough for anything. */
		oracle_shrink(&oracle, 0);
		CHECK(oracle_alloc(&oracle, before / 4 * 3, 0));
		run(500);
		end();
		/* The first round leaves page tables behind, and which frames
		 * the second finds for its own depends on that. */
		if (round > 1)
			CHECK_EQUAL(frames_free(), after);
		after = frames_free();
	}
}

static void test_guest_random_exhausted(void)
{
	if (!begin_window())
		return;
	oracle.may_fail = true;
	oracle.volume = frames_free() * 2;
	run(5000);
	end();
}

/* With interrupts off allocation is legal, and leaves them off. */
static void test_guest_irqs_off(void)
{
	if (!begin_window())
		return;
	for (unsigned i = 0; i < 300; i++) {
		uintptr_t state = board_interrupts_mask();
		struct fl_port_state inner;

		for (unsigned j = 0; j < 10; j++) {
			oracle_step(&oracle);
			CHECK(!board_interrupts_on());
		}
		inner = fl_port_enter();
		CHECK(!fl_port_may_wait(inner));
		fl_port_leave(inner);
		board_interrupts_restore(state);
		inner = fl_port_enter();
		CHECK(fl_port_may_wait(inner));
		fl_port_leave(inner);
	}
	end();
}

/* Two heaps, each with half of the window, over one provider. */
static void test_guest_two_heaps(void)
{
	static struct fallow second;
	size_t half = board_window_size() / 2 & ~(CHUNK - 1);
	void *p;

	if (!begin(&second, board_provider(), board_window_base() + half, half))
		return;
	p = fallow_alloc(&second, 100000);
	CHECK(p != NULL);
	if (begin(&heap, board_provider(), board_window_base(), half)) {
		run(2000);
		CHECK(!fallow_owns(&heap, p));
		CHECK(fallow_owns(&second, p));
		end();
	}
	fallow_free(&second, p);
	CHECK(fallow_check(&second, NULL) == NULL);
	fallow_fini(&second);
}

/* The window of a direct heap: the direct map of all RAM. */
static bool begin_direct(void)
{
	const struct board_ram *ram;
	size_t n = board_ram(&ram);
	uint64_t low = UINT64_MAX, high = 0;
	struct fallow_direct_config config = {
		.size = sizeof(config),
		.hooks = board_frame_hooks(),
		.offset = board_direct_offset(),
	};

	for (size_t i = 0; i < n; i++) {
		if (ram[i].base < low)
			low = ram[i].base;
		if (ram[i].base + ram[i].size > high)
			high = ram[i].base + ram[i].size;
	}
	low &= ~(uint64_t)(GRANULE - 1);
	high &= ~(uint64_t)(GRANULE - 1);
	config.window_base = board_direct_offset() + low;
	config.window_size = high - low;
	CHECK_EQUAL(fallow_direct_init(&direct, &config), FALLOW_OK);
	return begin(&heap, &direct.provider, config.window_base,
		config.window_size);
}

static void test_guest_direct(void)
{
	size_t before = frames_free();

	if (!begin_direct())
		return;
	oracle.may_fail = true;
	run(5000);
	end();
	CHECK_EQUAL(frames_free(), before);
}

static void test_guest_direct_exhausted(void)
{
	size_t before = frames_free();

	if (!begin_direct())
		return;
	CHECK(exhaust(before / 256) > before / 2);
	oracle_check(&oracle);
	for (unsigned i = 0; i < 20; i++) {
		oracle_free(&oracle, i % oracle.count);
		CHECK(oracle_alloc(&oracle, before / 256, 0));
	}
	end();
	CHECK_EQUAL(frames_free(), before);
}

/* A flat heap in one run of frames, of 256 KiB to 4 MiB. */
static void test_guest_flat(void)
{
	size_t before = frames_free();

	for (unsigned log2 = 18; log2 <= 22; log2++) {
		uint64_t frame = fallow_frames_take(board_frames(), log2);
		uintptr_t base = board_direct_offset() + frame;
		size_t size = (size_t)1 << log2;

		/* The smallest machine need not have one of 4 MiB. */
		if (frame == FALLOW_FRAME_NONE) {
			CHECK(log2 >= 21);
			break;
		}
		if (begin(&heap, &fallow_flat, base, size)) {
			CHECK_EQUAL(fallow_add_region(&heap, base, size),
				FALLOW_OK);
			oracle.volume = size / 3;
			oracle.size_max = size / 8;
			oracle.may_fail = true;
			run(2000);
			oracle_shrink(&oracle, 0);
			CHECK(exhaust(1000) > size / 4);
			end();
		}
		fallow_frames_give(board_frames(), frame, log2);
	}
	CHECK_EQUAL(frames_free(), before);
}

/* The README's flat heap in a static array. */
static void test_guest_flat_array(void)
{
	static _Alignas(65536) unsigned char memory[256 << 10];
	struct fallow_config config = {
		.size = sizeof(config),
		.provider = &fallow_flat,
		.contexts = 1,
	};
	void *p;

	CHECK_EQUAL(fallow_init(&heap, &config), FALLOW_OK);
	CHECK_EQUAL(fallow_add_region(
			    &heap, (uintptr_t)memory, sizeof(memory)),
		FALLOW_OK);
	p = fallow_alloc(&heap, 1000);
	CHECK(p != NULL);
	fallow_free(&heap, p);
	CHECK(fallow_check(&heap, NULL) == NULL);
	fallow_fini(&heap);
}

/* Class direct comes first: it needs whole chunks of RAM, and the page tables
 * that the window keeps are all over it later. */
const struct test tests[] = {
	{ "guest_direct", test_guest_direct },
	{ "guest_direct_exhausted", test_guest_direct_exhausted },
	{ "guest_workload", test_guest_workload },
	{ "guest_random", test_guest_random },
	{ "guest_fini_gives_all_back", test_guest_fini_gives_all_back },
	{ "guest_collect_unmaps", test_guest_collect_unmaps },
	{ "guest_exhausted", test_guest_exhausted },
	{ "guest_random_exhausted", test_guest_random_exhausted },
	{ "guest_irqs_off", test_guest_irqs_off },
	{ "guest_two_heaps", test_guest_two_heaps },
	{ "guest_flat", test_guest_flat },
	{ "guest_flat_array", test_guest_flat_array },
	{ NULL, NULL },
};
