/* SPDX-License-Identifier: MIT */
/*
 * The provider on Linux: committed memory is there and zero, what is not
 * faults, and both are seen from outside by mincore and by a signal handler.
 */
#define _GNU_SOURCE /* mincore(), syscall() */

#include "linux/mmap.h"

#include "test.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define G ((size_t)4096)
#define CHUNK ((size_t)2 << 20)
#define WINDOW (64 * CHUNK)

static struct board_mmap m;

static enum fallow_status start(bool demand, bool no_large)
{
	struct board_mmap_config config = {
		.size = sizeof(config),
		.window_size = WINDOW,
		.demand = demand,
		.no_large = no_large,
	};

	return board_mmap_init(&m, &config);
}

static sigjmp_buf fault_env;

static void on_fault(int signal)
{
	(void)signal;
	siglongjmp(fault_env, 1);
}

/* Whether reading the byte faults. */
static bool faults(uintptr_t addr)
{
	struct sigaction now = { .sa_handler = on_fault }, before;
	volatile bool faulted = false;

	sigaction(SIGSEGV, &now, &before);
	if (sigsetjmp(fault_env, 1) == 0)
		(void)*(volatile unsigned char *)addr;
	else
		faulted = true;
	sigaction(SIGSEGV, &before, NULL);
	return faulted;
}

/* How many granules of the range have memory behind them. */
static size_t resident(uintptr_t base, size_t size)
{
	static unsigned char map[WINDOW / G];
	size_t n = 0;

	CHECK_EQUAL(mincore((void *)base, size, map), 0);
	for (size_t i = 0; i < size / G; i++)
		n += map[i] & 1;
	return n;
}

/* Whether every byte of the range is the value. */
static bool all_are(uintptr_t base, size_t size, unsigned char value)
{
	const unsigned char *p = (const unsigned char *)base;

	return p[0] == value && memcmp(p, p + 1, size - 1) == 0;
}

static unsigned commit(size_t at, size_t size, unsigned flags)
{
	return m.provider.commit(
		m.provider.ctx, m.window_base + at, size, flags);
}

static void test_mmap_window(void)
{
	CHECK_OR_RETURN(start(false, true) == FALLOW_OK);
	CHECK_EQUAL(m.provider.size, sizeof(struct fallow_provider));
	CHECK_EQUAL(m.provider.provider_class, FALLOW_CLASS_WINDOW);
	CHECK_EQUAL(m.provider.large_log2, 0);
	CHECK_EQUAL(m.provider.capabilities, 0);
	CHECK(!m.provider.promote && !m.provider.reserve);
	CHECK_EQUAL(m.window_base % CHUNK, 0);
	CHECK_EQUAL(m.window_size, WINDOW);
	CHECK(faults(m.window_base) && faults(m.window_base + WINDOW - 1));
	CHECK(m.provider.now(m.provider.ctx) > 0);
	board_mmap_fini(&m);
}

static void test_mmap_commit(void)
{
	CHECK_OR_RETURN(start(false, true) == FALLOW_OK);
	CHECK_EQUAL(commit(3 * G, 5 * G, FALLOW_PREFER_LARGE),
		FALLOW_COMMIT_DONE | FALLOW_COMMIT_ZEROED);
	CHECK(all_are(m.window_base + 3 * G, 5 * G, 0));
	memset((void *)(m.window_base + 3 * G), 0xee, 5 * G);
	CHECK(faults(m.window_base + 3 * G - 1));
	CHECK(faults(m.window_base + 8 * G));
	/* A neighbour leaves it as it is. */
	CHECK(commit(8 * G, G, 0) != FALLOW_COMMIT_NO_MEMORY);
	CHECK(all_are(m.window_base + 3 * G, 5 * G, 0xee));
	CHECK(!faults(m.window_base + 8 * G));
	board_mmap_fini(&m);
}

/* Every range of a batch is gone, its neighbours are intact, and it comes back
 * zeroed. */
static void decommit_batch(bool demand)
{
	struct fallow_range ranges[FALLOW_RANGES_MAX];

	CHECK_OR_RETURN(start(demand, true) == FALLOW_OK);
	CHECK(commit(0, CHUNK, 0) & FALLOW_COMMIT_DONE);
	memset((void *)m.window_base, 0xcc, CHUNK);
	for (size_t i = 0; i < FALLOW_RANGES_MAX; i++)
		ranges[i] = (struct fallow_range){
			m.window_base + (4 * i + 1) * G,
			(1 + i % 3) * G,
			FALLOW_RANGE_REFUSED,
		};
	m.provider.decommit(m.provider.ctx, ranges, FALLOW_RANGES_MAX);
	for (size_t i = 0; i < FALLOW_RANGES_MAX; i++) {
		uintptr_t base = ranges[i].base, end = base + ranges[i].size;

		CHECK_EQUAL(ranges[i].result, FALLOW_RANGE_DONE);
		CHECK_EQUAL(resident(base, ranges[i].size), 0);
		CHECK(all_are(base - G, G, 0xcc));
		CHECK(*(unsigned char *)end == 0xcc);
		CHECK_EQUAL(faults(base), !demand);
		CHECK_EQUAL(faults(end - 1), !demand);
		CHECK_EQUAL(m.provider.commit(m.provider.ctx, base,
				    ranges[i].size, 0),
			FALLOW_COMMIT_DONE | FALLOW_COMMIT_ZEROED);
		CHECK(all_are(base, ranges[i].size, 0));
	}
	board_mmap_fini(&m);
}

static void test_mmap_decommit(void)
{
	decommit_batch(false);
}

static void test_mmap_demand(void)
{
	decommit_batch(true);
	CHECK_OR_RETURN(start(true, true) == FALLOW_OK);
	CHECK_EQUAL(m.provider.capabilities, FALLOW_DEMAND);
	CHECK(!faults(m.window_base + WINDOW / 2));
	board_mmap_fini(&m);
}

/* Locked memory cannot be discarded: refused, committed and intact. */
static void refuse_locked(bool demand)
{
	struct fallow_range range;

	CHECK_OR_RETURN(start(demand, true) == FALLOW_OK);
	CHECK(commit(0, 8 * G, 0) & FALLOW_COMMIT_DONE);
	memset((void *)m.window_base, 0x33, 8 * G);
	range = (struct fallow_range){ m.window_base + 2 * G, 4 * G,
		FALLOW_RANGE_DONE };
	/* The address sanitizer makes mlock() do nothing. */
	if (syscall(SYS_mlock, range.base, 2 * G) != 0) {
		test_skip("no memory may be locked");
		return;
	}
	m.provider.decommit(m.provider.ctx, &range, 1);
	CHECK_EQUAL(range.result, FALLOW_RANGE_REFUSED);
	CHECK(!faults(range.base));
	/* The kernel may have discarded what comes before the locked part, but
	 * not here, where that is first. */
	CHECK(all_are(m.window_base, 8 * G, 0x33));
	board_mmap_fini(&m);
}

static void test_mmap_refused(void)
{
	refuse_locked(false);
	refuse_locked(true);
}

/* If not 0, where the next mprotect() of a range that goes beyond it stops, as
 * the kernel's does at a mapping that it cannot split; and how many of those
 * behind it stop too. */
static uintptr_t stop_at;
static unsigned stops;

/* In the place of libc's. */
int mprotect(void *base, size_t size, int protection)
{
	uintptr_t begin = (uintptr_t)base;

	if (stops > 0 && begin < stop_at && begin + size > stop_at) {
		stops--;
		if (syscall(SYS_mprotect, begin, stop_at - begin, protection))
			return -1;
		errno = ENOMEM;
		return -1;
	}
	return (int)syscall(SYS_mprotect, begin, size, protection);
}

/* A decommit that fails half-way is refused with all of it as it was; one that
 * cannot go back either is done, and what it covers reads zero when it is
 * committed again. */
static void test_mmap_decommit_half(void)
{
	struct fallow_range range;

	CHECK_OR_RETURN(start(false, true) == FALLOW_OK);
	CHECK(commit(0, 8 * G, 0) & FALLOW_COMMIT_DONE);
	memset((void *)m.window_base, 0x55, 8 * G);
	range = (struct fallow_range){ m.window_base + 2 * G, 4 * G,
		FALLOW_RANGE_DONE };
	stop_at = m.window_base + 4 * G;
	stops = 1;
	m.provider.decommit(m.provider.ctx, &range, 1);
	CHECK_EQUAL(range.result, FALLOW_RANGE_REFUSED);
	CHECK(!faults(range.base));
	if (!faults(range.base))
		CHECK(all_are(m.window_base, 8 * G, 0x55));
	stops = 2;
	m.provider.decommit(m.provider.ctx, &range, 1);
	CHECK_EQUAL(stops, 0);
	CHECK_EQUAL(range.result, FALLOW_RANGE_DONE);
	CHECK_EQUAL(resident(range.base, range.size), 0);
	CHECK(commit(2 * G, 4 * G, 0) & FALLOW_COMMIT_ZEROED);
	CHECK(all_are(range.base, range.size, 0));
	CHECK(all_are(m.window_base, 2 * G, 0x55));
	CHECK(all_are(m.window_base + 6 * G, 2 * G, 0x55));
	board_mmap_fini(&m);
}

/* A commit that fails half-way leaves nothing accessible. */
static void test_mmap_commit_half(void)
{
	CHECK_OR_RETURN(start(false, true) == FALLOW_OK);
	stop_at = m.window_base + 4 * G;
	stops = 1;
	CHECK_EQUAL(commit(2 * G, 4 * G, 0), FALLOW_COMMIT_NO_MEMORY);
	CHECK_EQUAL(stops, 0);
	CHECK(faults(m.window_base + 2 * G));
	CHECK(faults(m.window_base + 4 * G));
	board_mmap_fini(&m);
}

/* The bytes of huge pages in the mappings of the range, as the kernel counts
 * them in /proc/self/smaps. */
static size_t huge_bytes(uintptr_t base, size_t size)
{
	FILE *file = fopen("/proc/self/smaps", "r");
	size_t kib, total = 0;
	bool inside = false;
	char line[256];

	while (file && fgets(line, sizeof(line), file)) {
		unsigned long from, to;

		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			inside = from < base + size && to > base;
		else if (inside &&
			sscanf(line, "AnonHugePages: %zu kB", &kib) == 1)
			total += kib * 1024;
	}
	if (file)
		fclose(file);
	return total;
}

/* LARGE is said only of what is one huge page. */
static void test_mmap_large(void)
{
	struct fallow_range range;
	unsigned result;

	CHECK_OR_RETURN(start(false, false) == FALLOW_OK);
	if (m.provider.large_log2 == 0) {
		board_mmap_fini(&m);
		test_skip("the kernel makes no huge pages");
		return;
	}
	CHECK_EQUAL(m.provider.large_log2, 21);
	CHECK_EQUAL(m.provider.capabilities,
		FALLOW_CAN_DEMOTE | FALLOW_CAN_PROMOTE);
	result = commit(0, 2 * CHUNK, FALLOW_PREFER_LARGE);
	CHECK(result & FALLOW_COMMIT_ZEROED);
	if (result & FALLOW_COMMIT_LARGE)
		CHECK_EQUAL(huge_bytes(m.window_base, 2 * CHUNK), 2 * CHUNK);
	CHECK(all_are(m.window_base, 2 * CHUNK, 0));
	memset((void *)m.window_base, 0x44, 2 * CHUNK);
	/* A hole in it faults and leaves the rest. */
	range = (struct fallow_range){ m.window_base + CHUNK / 2, 4 * G,
		FALLOW_RANGE_REFUSED };
	m.provider.decommit(m.provider.ctx, &range, 1);
	CHECK_EQUAL(range.result, FALLOW_RANGE_DONE);
	CHECK(faults(range.base) && !faults(range.base + range.size));
	CHECK(all_are(m.window_base, CHUNK / 2, 0x44));
	/* And is healed: committed, then promoted. */
	CHECK(m.provider.commit(m.provider.ctx, range.base, range.size, 0));
	if (m.provider.promote(m.provider.ctx, m.window_base)) {
		if (result & FALLOW_COMMIT_LARGE)
			CHECK_EQUAL(huge_bytes(m.window_base, 2 * CHUNK),
				2 * CHUNK);
		CHECK(all_are(m.window_base, CHUNK / 2, 0x44));
		CHECK(all_are(range.base, range.size, 0));
	}
	/* Not of a range with a part of a chunk, whatever the flag. */
	CHECK_EQUAL(commit(4 * CHUNK, 2 * CHUNK - G, FALLOW_PREFER_LARGE),
		FALLOW_COMMIT_DONE | FALLOW_COMMIT_ZEROED);
	CHECK_EQUAL(commit(7 * CHUNK - G, 2 * CHUNK, FALLOW_PREFER_LARGE),
		FALLOW_COMMIT_DONE | FALLOW_COMMIT_ZEROED);
	CHECK_EQUAL(commit(10 * CHUNK, CHUNK, 0),
		FALLOW_COMMIT_DONE | FALLOW_COMMIT_ZEROED);
	/* The kernel made one for the probe; one in many it makes again. */
	for (size_t at = 12; at < 32 && !(result & FALLOW_COMMIT_LARGE); at++)
		result = commit(at * CHUNK, CHUNK, FALLOW_PREFER_LARGE);
	CHECK(result & FALLOW_COMMIT_LARGE);
	board_mmap_fini(&m);
}

static void test_mmap_bad_config(void)
{
	struct board_mmap_config config = {
		.size = sizeof(config),
		.window_size = CHUNK,
	};

	CHECK_EQUAL(board_mmap_init(NULL, &config), FALLOW_MISSING_ARGUMENT);
	CHECK_EQUAL(board_mmap_init(&m, NULL), FALLOW_MISSING_ARGUMENT);
	config.size = 4;
	CHECK_EQUAL(board_mmap_init(&m, &config), FALLOW_BAD_SIZE_FIELD);
	config.size = sizeof(config);
	config.window_size = CHUNK + G;
	CHECK_EQUAL(board_mmap_init(&m, &config), FALLOW_UNALIGNED);
	config.window_size = 0;
	CHECK_EQUAL(board_mmap_init(&m, &config), FALLOW_WINDOW_TOO_SMALL);
	config.window_size = (size_t)1 << 60;
	CHECK_EQUAL(board_mmap_init(&m, &config), FALLOW_NO_TABLE_MEMORY);
	config.window_size = -CHUNK;
	CHECK_EQUAL(board_mmap_init(&m, &config), FALLOW_NO_TABLE_MEMORY);
}

const struct test tests[] = {
	{ "mmap_window", test_mmap_window },
	{ "mmap_commit", test_mmap_commit },
	{ "mmap_decommit", test_mmap_decommit },
	{ "mmap_demand", test_mmap_demand },
	{ "mmap_refused", test_mmap_refused },
	{ "mmap_decommit_half", test_mmap_decommit_half },
	{ "mmap_commit_half", test_mmap_commit_half },
	{ "mmap_large", test_mmap_large },
	{ "mmap_bad_config", test_mmap_bad_config },
	{ NULL, NULL },
};
