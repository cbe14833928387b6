/* SPDX-License-Identifier: MIT */
/*
 * The scenarios of returns.h on this machine:
 *
 *   returns_host [samples]
 *
 * Resident bytes are what the kernel says of the window's pages, not what the
 * heap believes.  All of the window may be touched, so that a hole costs the
 * kernel no mapping, of which there are 65530; the heap is not told, and
 * commits what it uses.  Huge pages are kept away: they would be resident whole.
 */
#define _GNU_SOURCE /* mincore(), PR_SET_THP_DISABLE */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>

#include "config.h"
#include "host/host.h"
#include "linux/mmap.h"
#include "returns.h"
#include "test.h"

#define WINDOW_BYTES ((size_t)4 << 30)
#define MEMORY_BYTES ((size_t)1 << 30)
#define SCRATCH_BYTES ((size_t)64 << 20)
#define GRANULE ((size_t)1 << FALLOW_GRANULE_LOG2)

static struct board_mmap mapping;
static struct fallow_provider provider;

/* test.c runs the tests of a program; this one has none. */
const struct test tests[] = { { NULL, NULL } };

void test_write(const char *text, size_t size)
{
	fwrite(text, 1, size, stdout);
}

static uint64_t nanoseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* What the kernel has given the window. */
static size_t resident(uintptr_t base, size_t size)
{
	static unsigned char pages[WINDOW_BYTES / GRANULE];
	size_t n = 0;
	size_t i;

	if (mincore((void *)base, size, pages) != 0)
		abort();
	for (i = 0; i < size / GRANULE; i++)
		n += pages[i] & 1;
	return n * GRANULE;
}

static void context_set(unsigned index)
{
	fallow_host_context = index;
}

int main(int argc, char **argv)
{
	struct board_mmap_config config = { .size = sizeof(config),
		.window_size = WINDOW_BYTES,
		.demand = true,
		.no_large = true };
	struct returns_machine machine = { .provider = &provider,
		.window_size = WINDOW_BYTES,
		.memory = MEMORY_BYTES,
		.scratch = malloc(SCRATCH_BYTES),
		.scratch_size = SCRATCH_BYTES,
		.resident = resident,
		.context = context_set,
		.ticks = nanoseconds,
		.ticks_unit = "ns",
		.contexts = RETURNS_CONTEXTS,
		.samples = argc > 1 && strcmp(argv[1], "samples") == 0 };

	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	if (machine.scratch == NULL ||
		board_mmap_init(&mapping, &config) != FALLOW_OK) {
		printf("returns: no window of 4 GiB\n");
		return 2;
	}
	provider = mapping.provider;
	provider.capabilities = 0;
	machine.window_base = mapping.window_base;
	return test_returns_report(&machine) ? 0 : 1;
}
