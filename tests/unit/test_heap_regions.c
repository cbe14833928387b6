/* SPDX-License-Identifier: MIT */
/*
 * Heaps of class flat in tiny, unaligned and many regions, with tables in a
 * region and handed in; of class direct with tables handed in; of class window
 * in several regions.  Nothing outside of the regions is ever written.
 */
#include <stdlib.h>

#include "config.h"
#include "sim_rig.h"
#include "test.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

/* A rig over a flat arena, its heap begun and without a region. */
static struct rig *begin_flat(size_t window)
{
	struct rig *rig = rig_prepare(FALLOW_CLASS_FLAT, window, 1);

	CHECK_EQUAL(fallow_init(&rig->heap, &rig->config), FALLOW_OK);
	oracle_begin(&rig->oracle, &rig->heap, rig->blocks, RIG_BLOCKS,
		test_seed);
	rig->oracle.may_fail = true;
	return rig;
}

/* Uses the heap until it is full, and empties it. */
static size_t fill(struct rig *rig, size_t size)
{
	size_t got = 0;

	while (oracle_alloc(&rig->oracle, size, 0))
		got++;
	rig_check(rig);
	oracle_shrink(&rig->oracle, 0);
	fallow_collect(&rig->heap);
	rig_check(rig);
	return got;
}

/* The window of tests that make hundreds of heaps, twice what their regions
 * reach to: all outside of a region is fenced, and looked at several times. */
#define SMALL_WINDOW (2 * MIB)

/* From what size on one region alone is a heap; then, how much it holds. */
static void test_flat_smallest(void)
{
	size_t smallest = 0;

	for (size_t size = SIM_GRANULE; size <= 512 * KIB;
		size += SIM_GRANULE) {
		struct rig *rig = begin_flat(SMALL_WINDOW);
		uintptr_t base = sim_region(&rig->sim, 0, size);
		enum fallow_status status =
			fallow_add_region(&rig->heap, base, size);

		if (status == FALLOW_OK) {
			if (!smallest)
				smallest = size;
			CHECK(fill(rig, 100) >= SLICE_BYTES / 200);
		} else {
			CHECK_EQUAL(status, FALLOW_REGION_TOO_SMALL);
			CHECK_EQUAL(smallest, 0);
		}
		rig_end(rig);
	}
	/* A slice for blocks, and what its tables take, in whole slices. */
	CHECK(smallest > 0 && smallest <= 192 * KIB);
}

/* The embedder's first heap: no window named, one region. */
static void test_flat_window_from_region(void)
{
	for (size_t skew = 0; skew < 70000; skew += 9999) {
		struct rig *rig = rig_prepare(FALLOW_CLASS_FLAT, 2 * MIB, 1);
		uintptr_t base = sim_region(&rig->sim, skew, MIB + skew / 2);

		rig->config.window_base = 0;
		rig->config.window_size = 0;
		CHECK_EQUAL(
			fallow_init(&rig->heap, &rig->config), FALLOW_OK);
		oracle_begin(&rig->oracle, &rig->heap, rig->blocks,
			RIG_BLOCKS, test_seed);
		CHECK_EQUAL(fallow_add_region(
				    &rig->heap, base, MIB + skew / 2),
			FALLOW_OK);
		rig->oracle.window_base = base;
		rig->oracle.window_size = MIB + skew / 2;
		rig->oracle.may_fail = true;
		CHECK(fill(rig, 1000) > 600);
		rig_end(rig);
	}
}

/* Regions of any base and any size, and what they refuse. */
static void test_flat_unaligned(void)
{
	uint64_t random = test_seed;

	for (unsigned round = 0; round < 100 && !test_failures(); round++) {
		struct rig *rig = begin_flat(SMALL_WINDOW);
		size_t offset = test_random(&random) % (300 * KIB);
		size_t size = test_random(&random) % (600 * KIB) + 1;
		uintptr_t base = sim_region(&rig->sim, offset, size);
		enum fallow_status status =
			fallow_add_region(&rig->heap, base, size);

		if (status == FALLOW_OK) {
			rig->oracle.window_base = base;
			rig->oracle.window_size = size;
			CHECK(fill(rig, 500) > 0);
		} else {
			CHECK_EQUAL(status, FALLOW_REGION_TOO_SMALL);
			CHECK(size < 300 * KIB);
		}
		rig_end(rig);
	}
}

/* Regions of a byte, a granule, a slice less one: refused, not written. */
static void test_flat_too_small(void)
{
	static const size_t sizes[] = { 1, 15, 16, 64, 4095, 4096, 4097,
		65535 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct rig *rig = begin_flat(4 * MIB);

		/* Not a region: all of it is fenced. */
		CHECK_EQUAL(fallow_add_region(
				    &rig->heap, rig->sim.base, sizes[i]),
			FALLOW_REGION_TOO_SMALL);
		sim_verdict(&rig->sim);
		CHECK(fallow_alloc(&rig->heap, 1) == NULL);
		rig_end(rig);
	}
}

static void test_flat_many_regions(void)
{
	struct rig *rig = begin_flat(32 * MIB);
	struct oracle *oracle = &rig->oracle;
	size_t total = 0;

	for (unsigned i = 0; i < FALLOW_REGIONS_MAX; i++) {
		size_t size = (size_t)300 * KIB + i * 50000;

		/* The first has the tables of all. */
		if (i == 0)
			size += fallow_table_bytes(
				rig->sim.base, 32 * MIB, 1);
		uintptr_t base =
			sim_region(&rig->sim, i * 2 * MIB + i * 777, size);

		CHECK_EQUAL(fallow_add_region(&rig->heap, base, size),
			FALLOW_OK);
		total += size;
	}
	for (size_t size = 256 * KIB; size >= 4 * KIB; size /= 2)
		while (oracle_alloc(oracle, size, 0))
			;
	CHECK(oracle->live > total / 2);
	rig_check(rig);
	oracle_shrink(oracle, 0);
	fallow_collect(&rig->heap);
	for (unsigned i = 0; i < 5000; i++) {
		oracle->size_max = 100 * KIB;
		oracle->volume = total / 2;
		oracle_step(oracle);
	}
	rig_end(rig);
}

/* Regions next to each other hold blocks, whichever side they are on. */
static void test_flat_adjacent(void)
{
	struct rig *rig = begin_flat(16 * MIB);
	uintptr_t base = sim_region(&rig->sim, 0, 8 * MIB);

	CHECK_EQUAL(fallow_add_region(&rig->heap, base + 4 * MIB, 2 * MIB),
		FALLOW_OK);
	CHECK_EQUAL(fallow_add_region(&rig->heap, base + 6 * MIB, 2 * MIB),
		FALLOW_OK);
	CHECK_EQUAL(fallow_add_region(&rig->heap, base, 4 * MIB), FALLOW_OK);
	CHECK(fill(rig, 60000) > 90);
	rig_end(rig);
}

/* Tables handed in: regions carry none, and fallow_table_bytes() is enough. */
static void test_flat_tables_handed_in(void)
{
	static const unsigned contexts[] = { 1, 3, 64 };

	for (unsigned i = 0; i < 3; i++) {
		struct rig *rig =
			rig_prepare(FALLOW_CLASS_FLAT, 16 * MIB, contexts[i]);
		size_t bytes = fallow_table_bytes(
			rig->sim.base, rig->sim.size, contexts[i]);
		size_t rounded = (bytes + 63) & ~(size_t)63;
		unsigned char *tables = aligned_alloc(64, rounded + 64);

		CHECK_OR_RETURN(tables && bytes > 0);
		for (size_t j = 0; j < rounded + 64; j++)
			tables[j] = 0x3c;
		rig->config.tables = tables;
		rig->config.tables_size = bytes;
		CHECK_EQUAL(rig_init(rig), FALLOW_OK);
		rig->oracle.may_fail = true;
		/* All 256 slices are for blocks. */
		CHECK_EQUAL(fill(rig, 64 * KIB), 256);
		for (unsigned j = 0; j < 3000; j++)
			oracle_step(&rig->oracle);
		rig_end(rig);
		for (size_t j = bytes; j < rounded + 64; j++)
			CHECK_EQUAL(tables[j], 0x3c);
		free(tables);
	}
}

static void test_direct_tables_handed_in(void)
{
	struct rig *rig = rig_prepare(FALLOW_CLASS_DIRECT, 64 * MIB, 2);
	size_t bytes = fallow_table_bytes(rig->sim.base, rig->sim.size, 2);
	void *tables = aligned_alloc(64, (bytes + 63) & ~(size_t)63);

	CHECK_OR_RETURN(tables);
	rig->config.tables = tables;
	rig->config.tables_size = bytes;
	CHECK_EQUAL(rig_init(rig), FALLOW_OK);
	CHECK_EQUAL(rig->sim.committed, 0);
	rig->oracle.volume = 8 * MIB;
	for (unsigned i = 0; i < 5000; i++)
		oracle_step(&rig->oracle);
	rig_check(rig);
	oracle_shrink(&rig->oracle, 0);
	fallow_collect(&rig->heap);
	CHECK_EQUAL(rig->sim.committed, 0);
	rig_end(rig);
	free(tables);
}

/* Class window: several regions, blocks in each, none outside. */
static void test_window_regions(void)
{
	struct rig *rig = rig_prepare(FALLOW_CLASS_WINDOW, 64 * MIB, 1);
	struct oracle *oracle = &rig->oracle;
	uintptr_t base = rig->sim.base;

	CHECK_EQUAL(fallow_init(&rig->heap, &rig->config), FALLOW_OK);
	oracle_begin(oracle, &rig->heap, rig->blocks, RIG_BLOCKS, test_seed);
	oracle->may_fail = true;
	/* Unaligned to slices and to chunks, over the window's middle. */
	CHECK_EQUAL(fallow_add_region(&rig->heap, base + 20 * MIB + 4096,
			    3 * MIB + 8192),
		FALLOW_OK);
	CHECK_EQUAL(fallow_add_region(&rig->heap, base + 40 * MIB - 12288,
			    5 * MIB),
		FALLOW_OK);
	for (size_t size = 2 * MIB; size >= 4096; size /= 2)
		while (oracle_alloc(oracle, size, 0))
			;
	CHECK(oracle->live > 6 * MIB);
	for (size_t i = 0; i < oracle->count; i++) {
		uintptr_t first = oracle->blocks[i].base - base;
		uintptr_t last = first + oracle->blocks[i].usable;

		CHECK((first >= 20 * MIB + 4096 && last <= 23 * MIB + 12288) ||
			(first >= 40 * MIB - 12288 &&
				last <= 45 * MIB - 12288));
	}
	rig_check(rig);
	/* A region more, while it is full: it is used. */
	CHECK_EQUAL(fallow_add_region(&rig->heap, base + 48 * MIB, 4 * MIB),
		FALLOW_OK);
	CHECK(oracle_alloc(oracle, 2 * MIB, 0));
	rig_end(rig);
}

/* A first region without a whole slice leaves the heap as it was: the next one
 * is its first. */
static void test_flat_first_useless(void)
{
	struct rig *rig = rig_prepare(FALLOW_CLASS_FLAT, 8 * MIB, 1);
	uintptr_t base = rig->sim.base;
	void *tables = aligned_alloc(64, 256 * KIB);

	CHECK_OR_RETURN(tables);
	rig->config.tables = tables;
	rig->config.tables_size = 256 * KIB;
	rig->config.window_base = 0;
	rig->config.window_size = 0;
	CHECK_EQUAL(fallow_init(&rig->heap, &rig->config), FALLOW_OK);
	CHECK_EQUAL(fallow_add_region(&rig->heap, base + SLICE_BYTES / 16,
			    SLICE_BYTES + SLICE_BYTES / 2),
		FALLOW_REGION_TOO_SMALL);
	sim_region(&rig->sim, MIB, 4 * MIB);
	CHECK_EQUAL(fallow_add_region(&rig->heap, base + MIB, 4 * MIB),
		FALLOW_OK);
	oracle_begin(&rig->oracle, &rig->heap, rig->blocks, RIG_BLOCKS,
		test_seed);
	rig->oracle.may_fail = true;
	rig->oracle.window_base = base + MIB;
	rig->oracle.window_size = 4 * MIB;
	CHECK_EQUAL(fill(rig, 64 * KIB), 64);
	rig_end(rig);
	free(tables);
}

/* Tables that are too small are so for every region, and count as none. */
static void test_flat_bad_tables(void)
{
	struct rig *rig = rig_prepare(FALLOW_CLASS_FLAT, 4 * MIB, 1);
	struct fallow_snapshot now = { .size = sizeof(now) };
	static _Alignas(64) unsigned char tables[256];

	rig->config.tables = tables;
	rig->config.tables_size = sizeof(tables);
	rig->config.window_base = 0;
	rig->config.window_size = 0;
	CHECK_EQUAL(fallow_init(&rig->heap, &rig->config), FALLOW_OK);
	for (unsigned i = 0; i < 3; i++) {
		CHECK_EQUAL(fallow_add_region(
				    &rig->heap, rig->sim.base, 4 * MIB),
			FALLOW_BAD_TABLES);
		fallow_snapshot(&rig->heap, &now);
		CHECK_EQUAL(now.tables, 0);
	}
	CHECK(fallow_alloc(&rig->heap, 1) == NULL);
	rig_end_now(rig, true);
}

const struct test tests[] = {
	{ "flat_smallest", test_flat_smallest },
	{ "flat_window_from_region", test_flat_window_from_region },
	{ "flat_unaligned", test_flat_unaligned },
	{ "flat_too_small", test_flat_too_small },
	{ "flat_many_regions", test_flat_many_regions },
	{ "flat_adjacent", test_flat_adjacent },
	{ "flat_tables_handed_in", test_flat_tables_handed_in },
	{ "direct_tables_handed_in", test_direct_tables_handed_in },
	{ "window_regions", test_window_regions },
	{ "flat_first_useless", test_flat_first_useless },
	{ "flat_bad_tables", test_flat_bad_tables },
	{ NULL, NULL },
};
