/* SPDX-License-Identifier: MIT */
/*
 * The flat provider: nothing to ask for, and discards handed on one by one.
 */
#include <fallow/flat.h>

#include "config.h"
#include "test.h"

static void test_flat_constant(void)
{
	CHECK_EQUAL(fallow_flat.size, sizeof(struct fallow_provider));
	CHECK_EQUAL(fallow_flat.provider_class, FALLOW_CLASS_FLAT);
	CHECK_EQUAL(fallow_flat.granule_log2, FALLOW_GRANULE_LOG2);
	CHECK_EQUAL(fallow_flat.large_log2, 0);
	CHECK_EQUAL(fallow_flat.capabilities, 0);
	CHECK(!fallow_flat.commit && !fallow_flat.decommit);
	CHECK(!fallow_flat.reserve && !fallow_flat.release);
	CHECK(!fallow_flat.discard && !fallow_flat.now);
}

struct seen {
	uintptr_t base[4];
	size_t size[4];
	unsigned count;
};

/* Notes the range; refuses the third. */
static bool on_discard(void *ctx, uintptr_t base, size_t size)
{
	struct seen *seen = ctx;

	seen->base[seen->count] = base;
	seen->size[seen->count] = size;
	return ++seen->count != 3;
}

static void test_flat_discard(void)
{
	struct fallow_range ranges[] = {
		{ 0x1000, 0x1000, FALLOW_RANGE_REFUSED },
		{ 0x5000, 0x3000, FALLOW_RANGE_REFUSED },
		{ 0x9000, 0x1000, FALLOW_RANGE_DONE },
	};
	struct seen seen = { .count = 0 };
	struct fallow_flat flat;

	CHECK_EQUAL(fallow_flat_init(&flat, on_discard, &seen), FALLOW_OK);
	CHECK_EQUAL(flat.provider.provider_class, FALLOW_CLASS_FLAT);
	CHECK_EQUAL(flat.provider.capabilities, FALLOW_CAN_DISCARD);
	CHECK(!flat.provider.commit && !flat.provider.reserve);
	flat.provider.discard(flat.provider.ctx, ranges, 3);
	CHECK_EQUAL(seen.count, 3);
	for (unsigned i = 0; i < 3; i++) {
		CHECK_EQUAL(seen.base[i], ranges[i].base);
		CHECK_EQUAL(seen.size[i], ranges[i].size);
	}
	CHECK_EQUAL(ranges[0].result, FALLOW_RANGE_DONE);
	CHECK_EQUAL(ranges[1].result, FALLOW_RANGE_DONE);
	CHECK_EQUAL(ranges[2].result, FALLOW_RANGE_REFUSED);
}

static void test_flat_bad_arguments(void)
{
	struct fallow_flat flat;

	CHECK_EQUAL(fallow_flat_init(NULL, on_discard, NULL),
		FALLOW_MISSING_ARGUMENT);
	CHECK_EQUAL(
		fallow_flat_init(&flat, NULL, NULL), FALLOW_MISSING_ARGUMENT);
}

const struct test tests[] = {
	{ "flat_constant", test_flat_constant },
	{ "flat_discard", test_flat_discard },
	{ "flat_bad_arguments", test_flat_bad_arguments },
	{ NULL, NULL },
};
