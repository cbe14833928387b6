/* SPDX-License-Identifier: MIT */
/*
 * The tree of free runs against a shadow: one byte a granule, searched naively.
 * Sizes of one word, of a power of two and of neither; single granules to
 * whole trees.
 */
#include "runs.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

struct shadow {
	uint64_t granules;
	unsigned char *free;
	struct runs runs;
	void *memory;
};

/* Makes both with every granule taken; the memory of the tree is garbage. */
static void shadow_init(struct shadow *shadow, uint64_t granules)
{
	size_t bytes = fl_runs_bytes(granules);

	shadow->granules = granules;
	shadow->free = calloc(granules, 1);
	shadow->memory = malloc(bytes);
	memset(shadow->memory, 0xa5, bytes);
	fl_runs_init(&shadow->runs, shadow->memory, granules);
}

static void shadow_fini(struct shadow *shadow)
{
	free(shadow->free);
	free(shadow->memory);
}

/* What the run is, by looking at each granule. */
static enum runs_state shadow_state(
	const struct shadow *shadow, uint64_t granule, unsigned order)
{
	uint64_t n = (uint64_t)1 << order, count = 0;

	for (uint64_t i = 0; i < n; i++)
		count += shadow->free[granule + i];
	return count == 0 ? RUNS_TAKEN : count == n ? RUNS_FREE : RUNS_MIXED;
}

/* Whether the run fits into the range at all. */
static bool shadow_fits(
	const struct shadow *shadow, uint64_t granule, unsigned order)
{
	return order < 40 &&
		granule + ((uint64_t)1 << order) <= shadow->granules;
}

/* The orders of the free runs that no larger one holds, and per order the
 * highest of those and the lowest of all. */
static uint32_t shadow_orders(const struct shadow *shadow,
	uint64_t highest[32], uint64_t lowest[32])
{
	uint32_t orders = 0;

	for (unsigned order = 0; order < 32; order++) {
		uint64_t step = (uint64_t)1 << order;

		lowest[order] = UINT64_MAX;
		for (uint64_t at = 0; shadow_fits(shadow, at, order);
			at += step) {
			uint64_t up = at & ~(2 * step - 1);

			if (shadow_state(shadow, at, order) != RUNS_FREE)
				continue;
			if (lowest[order] == UINT64_MAX)
				lowest[order] = at;
			if (shadow_fits(shadow, up, order + 1) &&
				shadow_state(shadow, up, order + 1) ==
					RUNS_FREE)
				continue;
			orders |= (uint32_t)1 << order;
			highest[order] = at;
		}
	}
	return orders;
}

/* Everything that the tree answers is what the shadow says. */
static void shadow_compare(const struct shadow *shadow)
{
	uint64_t highest[32], lowest[32], where = 0;
	uint32_t orders = shadow_orders(shadow, highest, lowest);
	const char *broken = fl_runs_check(&shadow->runs, &where);

	if (broken)
		test_printf("granule %llu: %s\n", (unsigned long long)where,
			broken);
	CHECK(!broken);
	CHECK_EQUAL(fl_runs_orders(&shadow->runs), orders);
	for (unsigned order = 0; order < 32; order++) {
		if (orders >> order & 1)
			CHECK_EQUAL(fl_runs_highest(&shadow->runs, order),
				highest[order]);
		if (lowest[order] != UINT64_MAX)
			CHECK_EQUAL(fl_runs_lowest(&shadow->runs, order),
				lowest[order]);
		CHECK_EQUAL(orders >> order != 0,
			lowest[order] != UINT64_MAX);
	}
}

/* Sets a random run if it is all free or all taken. */
static void shadow_step(struct shadow *shadow, uint64_t *seed)
{
	unsigned order = (unsigned)(test_random(seed) % 12);
	uint64_t granule = test_random(seed) % shadow->granules;
	enum runs_state state;

	if (test_random(seed) % 4)
		order %= 7;
	granule = granule >> order << order;
	if (!shadow_fits(shadow, granule, order))
		return;
	state = shadow_state(shadow, granule, order);
	CHECK_EQUAL(fl_runs_state(&shadow->runs, granule, order), state);
	if (state == RUNS_MIXED)
		return;
	memset(shadow->free + granule, state == RUNS_TAKEN,
		(size_t)1 << order);
	fl_runs_set(&shadow->runs, granule, order, state == RUNS_TAKEN);
}

static void test_runs_random(void)
{
	static const uint64_t sizes[] = { 1, 2, 5, 63, 64, 65, 127, 128, 129,
		1000, 1024, 4095, 4096, 5000 };
	uint64_t seed = test_seed;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct shadow shadow;

		shadow_init(&shadow, sizes[i]);
		shadow_compare(&shadow);
		for (unsigned n = 0; n < 3000 && !test_failures(); n++) {
			shadow_step(&shadow, &seed);
			if (n % 64 == 0 || n < 40)
				shadow_compare(&shadow);
		}
		shadow_compare(&shadow);
		shadow_fini(&shadow);
	}
}

/* A large tree begins and splits without its memory being initialised: only
 * the way down to what is used is written. */
static void test_runs_lazy(void)
{
	uint64_t granules = (uint64_t)1 << 24, where;
	struct shadow shadow;

	shadow_init(&shadow, granules);
	fl_runs_set(&shadow.runs, 0, 24, true);
	CHECK_EQUAL(fl_runs_orders(&shadow.runs), 1u << 24);
	fl_runs_set(&shadow.runs, granules - 1, 0, false);
	CHECK_EQUAL(fl_runs_orders(&shadow.runs), (1u << 24) - 1);
	CHECK_EQUAL(fl_runs_highest(&shadow.runs, 0), granules - 2);
	CHECK_EQUAL(fl_runs_lowest(&shadow.runs, 23), 0);
	CHECK(!fl_runs_check(&shadow.runs, &where));
	CHECK_EQUAL(((uint64_t *)shadow.memory)[12345], 0xa5a5a5a5a5a5a5a5u);
	shadow_fini(&shadow);
}

/* Levels above the largest order never merge: 2^32 granules are two runs.
 * The memory is a gigabyte of which little is touched. */
static void test_runs_largest(void)
{
	uint64_t granules = RUNS_GRANULES_MAX, where;
	void *memory = malloc(fl_runs_bytes(granules));
	struct runs runs;

	if (!memory) {
		test_skip("no gigabyte of addresses");
		return;
	}
	fl_runs_init(&runs, memory, granules);
	fl_runs_set(&runs, 0, 31, true);
	fl_runs_set(&runs, granules / 2, 31, true);
	CHECK_EQUAL(fl_runs_orders(&runs), 1u << 31);
	CHECK_EQUAL(fl_runs_highest(&runs, 31), granules / 2);
	CHECK_EQUAL(fl_runs_lowest(&runs, 31), 0);
	CHECK_EQUAL(fl_runs_state(&runs, granules / 2, 31), RUNS_FREE);
	fl_runs_set(&runs, granules / 2, 31, false);
	CHECK_EQUAL(fl_runs_state(&runs, granules / 2, 31), RUNS_TAKEN);
	CHECK_EQUAL(fl_runs_highest(&runs, 31), 0);
	CHECK(!fl_runs_check(&runs, &where));
	free(memory);
}

/* The checker names each invariant that is broken on purpose. */
static void test_runs_check_names(void)
{
	struct shadow shadow;
	uint64_t where;

	shadow_init(&shadow, 200);
	fl_runs_set(&shadow.runs, 0, 7, true);
	fl_runs_set(&shadow.runs, 3, 0, false);
	CHECK(!fl_runs_check(&shadow.runs, &where));
	shadow.runs.words[0] ^= 1u << 8;
	CHECK(fl_runs_check(&shadow.runs, &where));
	CHECK(!strcmp(fl_runs_check(&shadow.runs, &where),
		"node == join of its children"));
	shadow.runs.words[0] ^= 1u << 8;
	shadow.runs.free++;
	CHECK(fl_runs_check(&shadow.runs, &where) &&
		!strcmp(fl_runs_check(&shadow.runs, &where),
			"free == granules in free runs"));
	shadow.runs.free--;
	/* 192 to 199 exist of the last word. */
	fl_runs_set(&shadow.runs, 192, 3, true);
	CHECK(!fl_runs_check(&shadow.runs, &where));
	shadow.runs.words[3] |= 1u << 16;
	CHECK(fl_runs_check(&shadow.runs, &where));
	shadow_fini(&shadow);
}

const struct test tests[] = {
	{ "runs_random", test_runs_random },
	{ "runs_lazy", test_runs_lazy },
	{ "runs_largest", test_runs_largest },
	{ "runs_check_names", test_runs_check_names },
	{ NULL, NULL },
};
