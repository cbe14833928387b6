/* SPDX-License-Identifier: MIT */
/*
 * What every other test relies on: that tests/support/test.c counts, filters
 * and prints as it says.  This program has tests that pass, fail and are
 * skipped; its whole output is compared with harness.expected, so a check that
 * cannot fail, or a count that is wrong, is seen here.
 */
#include "test.h"

#include <stdio.h>

void test_write(const char *text, size_t size)
{
	fwrite(text, 1, size, stdout);
}

static unsigned runs;

static void harness_passes(void)
{
	runs++;
	CHECK(runs == 1);
	CHECK_EQUAL(runs, 1);
	CHECK_EQUAL(test_seed, 7);
	test_seed = 0; /* each test begins with the seed that was given */
}

static void harness_fails(void)
{
	CHECK_EQUAL(test_seed, 7);
	CHECK(runs == 0);
	CHECK_EQUAL(runs + 1u, UINT64_MAX);
	CHECK_EQUAL(test_failures(), 2);
}

static void harness_returns_early(void)
{
	CHECK_OR_RETURN(runs == 0);
	CHECK(runs == 99);
}

static void harness_fails_often(void)
{
	int i;

	for (i = 0; i < 30; i++)
		CHECK(i < 0);
}

static void harness_skips(void)
{
	test_skip("there is no moon");
}

static void harness_fails_and_skips(void)
{
	test_skip("there is no moon");
	CHECK(runs == 0);
}

static void harness_prints(void)
{
	test_printf("\n%s|%5s|%-5s|%c|%%|%s\n", "a", "b", "c", 'd', "");
	test_printf("%d|%d|%u|%5u|%-5u|%05u\n", -1, INT32_MIN, UINT32_MAX, 42u,
		42u, 42u);
	test_printf("%x|%08x|%lx|%llx\n", 0u, 0xbeefu, 1ul << 63, 1ull << 63);
	test_printf("%ld|%lu|%zu|%llu\n", INT64_MIN, UINT64_MAX, (size_t)12,
		UINT64_MAX ^ 0ull);
	test_printf("%p\n", (void *)0x1000);
	/* Longer than a line's buffer. */
	test_printf("%300u|\n", 1u);
}

/* Its name does not contain the filter: it never runs. */
static void harmless_is_left_out(void)
{
	CHECK(false);
}

const struct test tests[] = {
	{ "harness_passes", harness_passes },
	{ "harness_fails", harness_fails },
	{ "harness_returns_early", harness_returns_early },
	{ "harness_fails_often", harness_fails_often },
	{ "harness_skips", harness_skips },
	{ "harness_fails_and_skips", harness_fails_and_skips },
	{ "harness_prints", harness_prints },
	{ "harmless_is_left_out", harmless_is_left_out },
	{ NULL, NULL },
};

int main(void)
{
	int status;

	test_again_head = "head";
	test_again_tail = " tail";
	status = test_main("harness", 7);
	printf("status %d, with a filter that nothing matches %d\n", status,
		test_main("moon", 7));
	return 0;
}
