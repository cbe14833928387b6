/* SPDX-License-Identifier: MIT */
/*
 * Counting bits, against a loop over them.
 */
#include "bits.h"
#include "test.h"

static unsigned naive(uint64_t word)
{
	unsigned count = 0;

	for (unsigned i = 0; i < 64; i++)
		count += word >> i & 1;
	return count;
}

static void test_bits_count(void)
{
	uint64_t random = test_seed;

	CHECK_EQUAL(bits_count(0), 0);
	CHECK_EQUAL(bits_count(UINT64_MAX), 64);
	for (unsigned i = 0; i < 64; i++) {
		CHECK_EQUAL(bits_count((uint64_t)1 << i), 1);
		CHECK_EQUAL(bits_count(UINT64_MAX >> i), 64 - i);
		CHECK_EQUAL(bits_count(UINT64_MAX << i), 64 - i);
	}
	for (unsigned i = 0; i < 10000; i++) {
		uint64_t word = test_random(&random);

		/* Dense and sparse ones too. */
		if (i % 3 == 1)
			word |= test_random(&random) | test_random(&random);
		if (i % 3 == 2)
			word &= test_random(&random) & test_random(&random);
		CHECK_EQUAL(bits_count(word), naive(word));
	}
}

const struct test tests[] = {
	{ "bits_count", test_bits_count },
	{ NULL, NULL },
};
