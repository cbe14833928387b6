/* SPDX-License-Identifier: MIT */
/*
 * The cells of tests/support/cells.h in a guest, where instructions are the
 * clock (-icount), of the malloc() that the image is linked with:
 * guest_fallow.c or guest_picolibc.c.  tests/bench/instructions reads what it
 * prints.
 */
#include "board.h"
#include "cells.h"
#include "guest_cells.h"
#include "test.h"

/* Of blocks at once: what is larger is done with fewer. */
#define MEMORY ((size_t)96 << 20)

static uint64_t begun;

/* The number behind `key` at the begin of the image's arguments; 0 if it is not
 * there. */
static size_t argument(const char *key)
{
	const char *at = board_args();
	size_t number = 0;

	for (; *key != '\0'; key++, at++)
		if (*at != *key)
			return 0;
	for (; *at >= '0' && *at <= '9'; at++)
		number = number * 10 + (size_t)(*at - '0');
	return number;
}

static void count_begin(void)
{
	begun = board_ticks();
}

static void count_end(
	const char *pattern, size_t size, unsigned pairs, bool empty)
{
	uint64_t ticks = board_ticks() - begun;

	test_printf("\ncell: %s %lu %u %u %llu", pattern, (unsigned long)size,
		pairs, (unsigned)empty, (unsigned long long)ticks);
}

static void test_cells(void)
{
	struct cells cells = { .alloc = malloc,
		.give = free,
		.begin = count_begin,
		.end = count_end,
		.memory = MEMORY,
		.largest = argument("largest=") };

	CHECK_OR_RETURN(guest_cells_begin(MEMORY));
	CHECK(test_cells_run(&cells));
	CHECK(guest_cells_end());
	test_printf("\n");
}

const struct test tests[] = {
	{ "cells", test_cells },
	{ NULL, NULL },
};
