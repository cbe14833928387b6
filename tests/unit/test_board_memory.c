/* SPDX-License-Identifier: MIT */
/*
 * Memory maps, good and bad, to frames: boards/memory.c on the host.
 *
 * The file is included, so that each test begins with its state as it was at
 * power on.  Physical memory is a part of the host's, with addresses from
 * RAM_BASE on; a panic comes back here by longjmp().
 */
#include <setjmp.h>
#include <string.h>

#include "test.h"

#include "../../boards/memory.c"

#define RAM_BASE ((uint64_t)0x10000000)
#define RAM_BYTES ((size_t)64 << 20)
#define GRANULE ((uint64_t)4096)

static jmp_buf panicked;
static const char *panic_message;
static _Alignas(4096) unsigned char memory[RAM_BYTES];

_Noreturn void board_panic(const char *message)
{
	panic_message = message;
	longjmp(panicked, 1);
}

void board_print(const char *text)
{
	(void)text;
}

void board_print_hex(uint64_t value)
{
	(void)value;
}

/* Sets up memory from a map, as at power on; returns why it panicked, NULL if
 * it did not. */
static const char *boot(const struct board_ram *ram, size_t ram_count,
	const struct board_ram *taken, size_t taken_count)
{
	all_ram_count = 0;
	panic_message = NULL;
	if (setjmp(panicked) == 0)
		board_memory_init(ram, ram_count, taken, taken_count,
			(uintptr_t)memory - RAM_BASE);
	return panic_message;
}

/* Takes every frame there is; returns how many, and in *inside how many of
 * them overlap [base, end). */
static size_t drain(uint64_t base, uint64_t end, size_t *inside)
{
	size_t n = 0;
	uint64_t frame;

	*inside = 0;
	while ((frame = hooks.take(hooks.ctx, 12)) != FALLOW_FRAME_NONE) {
		n++;
		*inside += frame < end && frame + GRANULE > base;
	}
	return n;
}

static void test_no_ram(void)
{
	struct board_ram empty[2] = { { RAM_BASE, 0 }, { 0, 0 } };
	const char *why = boot(NULL, 0, NULL, 0);

	CHECK(why != NULL && strstr(why, "no RAM") != NULL);
	why = boot(empty, 2, NULL, 0);
	CHECK(why != NULL && strstr(why, "no RAM") != NULL);
}

static void test_too_little(void)
{
	struct board_ram ram = { RAM_BASE, BOARD_RAM_LEAST };
	struct board_ram taken = { RAM_BASE + 4096, RAM_BYTES / 2 };
	const char *why = boot(&ram, 1, NULL, 0);

	/* The allocator's own tables make it less than the least. */
	CHECK(why != NULL && strstr(why, "too little") != NULL);
	ram.size = BOARD_RAM_LEAST + (64 << 10);
	CHECK(boot(&ram, 1, NULL, 0) == NULL);
	why = boot(&ram, 1, &taken, 1);
	CHECK(why != NULL && strstr(why, "too little") != NULL);
	ram.size = 16;
	CHECK(boot(&ram, 1, NULL, 0) != NULL);
}

static void test_too_many_ranges(void)
{
	struct board_ram ram[BOARD_RAM_MAX + 1];
	const char *why;
	size_t i;

	for (i = 0; i <= BOARD_RAM_MAX; i++)
		ram[i] = (struct board_ram){ RAM_BASE + i * 2 * 262144,
			262144 };
	CHECK(boot(ram, BOARD_RAM_MAX, NULL, 0) == NULL);
	why = boot(ram, BOARD_RAM_MAX + 1, NULL, 0);
	CHECK(why != NULL && strstr(why, "too many") != NULL);
}

static void test_overlap_and_wrap(void)
{
	struct board_ram twice[2] = { { RAM_BASE, RAM_BYTES / 2 },
		{ RAM_BASE + 4096, RAM_BYTES / 4 } };
	struct board_ram wraps[2] = { { RAM_BASE, RAM_BYTES / 2 },
		{ UINT64_MAX - 4095, 8192 } };

	CHECK(boot(twice, 2, NULL, 0) != NULL);
	CHECK(boot(wraps, 2, NULL, 0) != NULL);
}

/* What is taken is never handed out, wherever its borders are. */
static void test_taken_is_left_out(void)
{
	struct board_ram ram = { RAM_BASE, RAM_BYTES };
	struct board_ram taken[4] = {
		{ RAM_BASE + 0x100123, 0x300001 },
		{ RAM_BASE + 0x200000, 0x1000 }, /* inside the first */
		{ 0, 0x1000 },                   /* no RAM at all */
		{ RAM_BASE + RAM_BYTES - 1, 4096 },
	};
	size_t inside, n;

	CHECK(boot(&ram, 1, taken, 4) == NULL);
	n = drain(taken[0].base, taken[0].base + taken[0].size, &inside);
	CHECK_EQUAL(inside, 0);
	/* 0x302 granules in the first, one at the end, tables besides. */
	CHECK(n <= RAM_BYTES / GRANULE - 0x302 + 1 - 1);
	CHECK(n >= RAM_BYTES / GRANULE - 0x302 - 1 - 16);
}

/* Borders that are no granule's are trimmed; what has no granule at all is
 * left out; the order does not matter. */
static void test_unaligned_ranges(void)
{
	struct board_ram ram[4] = {
		{ RAM_BASE + (32 << 20) + 1, (8 << 20) - 1 },
		{ RAM_BASE + 4095, 2 },
		{ RAM_BASE + (20 << 20) + 100, 3000 },
		{ RAM_BASE + (2 << 20) + 5, 4096 + (6 << 20) },
	};
	const struct board_ram *seen;
	size_t inside, n;

	CHECK(boot(ram, 4, NULL, 0) == NULL);
	CHECK_EQUAL(board_ram(&seen), 4);
	CHECK_EQUAL(seen[3].size, ram[3].size);
	n = drain(0, ram[3].base, &inside);
	CHECK_EQUAL(inside, 0);
	CHECK(n > (13 << 20) / GRANULE);
	CHECK(n <= (14 << 20) / GRANULE);
}

const struct test tests[] = {
	{ "no_ram", test_no_ram },
	{ "too_little", test_too_little },
	{ "too_many_ranges", test_too_many_ranges },
	{ "overlap_and_wrap", test_overlap_and_wrap },
	{ "taken_is_left_out", test_taken_is_left_out },
	{ "unaligned_ranges", test_unaligned_ranges },
	{ NULL, NULL },
};
