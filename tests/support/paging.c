/* SPDX-License-Identifier: MIT */
/*
 * The page-table provider under test.
 *
 * There is one, and nothing here takes a lock: on several CPUs the provider's
 * own must do, which is part of what is tried.
 */
#include "paging.h"
#include "board.h"
#include "test.h"

#define GRANULE ((uintptr_t)4096)
/* None of the results: the provider must write one. */
#define UNSET ((enum fallow_range_result)2)

struct fallow_pagetable test_pagetable;
struct fallow_provider test_provider;

bool test_provider_begin(enum fallow_status status)
{
	CHECK_EQUAL(status, FALLOW_OK);
	fallow_pagetable_provider(&test_pagetable, &test_provider);
	return status == FALLOW_OK;
}

struct fallow_pagetable_counters test_counters(void)
{
	struct fallow_pagetable_counters now = { .size = sizeof(now) };

	fallow_pagetable_counters(&test_pagetable, &now);
	return now;
}

unsigned test_try_commit(uintptr_t base, size_t size, unsigned flags)
{
	return test_provider.commit(test_provider.ctx, base, size, flags);
}

void test_commit(uintptr_t base, size_t size, unsigned flags)
{
	CHECK(test_try_commit(base, size, flags) & FALLOW_COMMIT_DONE);
}

enum fallow_range_result test_try_decommit(uintptr_t base, size_t size)
{
	struct fallow_range range = {
		.base = base, .size = size, .result = UNSET,
	};

	test_provider.decommit(test_provider.ctx, &range, 1);
	return range.result;
}

void test_decommit(uintptr_t base, size_t size)
{
	CHECK_EQUAL(test_try_decommit(base, size), FALLOW_RANGE_DONE);
}

unsigned test_mapped_log2(uintptr_t addr)
{
	struct fallow_mapping mapping;

	return fallow_pagetable_lookup(&test_pagetable, addr, &mapping)
		? mapping.size_log2
		: 0;
}

size_t test_readable(uintptr_t base, size_t size)
{
	uintptr_t addr;
	size_t n = 0;

	for (addr = base; addr < base + size; addr += GRANULE)
		n += board_can_read(addr);
	return n;
}
