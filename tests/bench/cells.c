/* SPDX-License-Identifier: MIT */
/*
 * The cells of tests/support/cells.h under whatever malloc() is there, for
 * valgrind's callgrind: it writes its counters at the end of each, with the
 * cell's name.  Without valgrind the requests do nothing.
 */
#include "cells.h"
#include "owner.h"

#include <stdio.h>
#include <stdlib.h>
#if !__has_include(<valgrind/callgrind.h>)
#error "make bench-instructions needs valgrind (Debian: valgrind)"
#endif
#include <valgrind/callgrind.h>

/* As many as are wanted of a megabyte: only addresses are used up. */
#define MEMORY ((size_t)16 << 30)

static void count_begin(void)
{
	CALLGRIND_ZERO_STATS;
}

static void count_end(
	const char *pattern, size_t size, unsigned pairs, bool empty)
{
	char name[64];

	snprintf(name, sizeof(name), "%s %zu %u %d", pattern, size, pairs,
		empty);
	CALLGRIND_DUMP_STATS_AT(name);
}

int main(void)
{
	static const struct cells cells = { .alloc = malloc,
		.give = free,
		.begin = count_begin,
		.end = count_end,
		.memory = MEMORY };

	if (!test_cells_run(&cells)) {
		fprintf(stderr, "cells: malloc() returned NULL\n");
		return 1;
	}
	printf("bench: owner=%s\n", bench_malloc_owner());
	return 0;
}
