/* SPDX-License-Identifier: MIT */
/*
 * Random operations under the oracle: over each class of provider, with memory
 * that runs out, with refusals, and in several heaps at once.  The seed is
 * SEED; each test takes it further by itself.
 */
#include "sim_rig.h"
#include "test.h"

#define MIB ((size_t)1 << 20)

/* Operations between two checks of everything. */
#define CHECK_EVERY 500

/* Runs n operations, checking now and then. */
static void run(struct rig *rig, unsigned n)
{
	for (unsigned i = 1; i <= n && !test_failures(); i++) {
		oracle_step(&rig->oracle);
		if (i % CHECK_EVERY == 0)
			rig_check(rig);
		if (i % 1777 == 0)
			fallow_collect(&rig->heap);
		if (i % 3001 == 0)
			fallow_offline(&rig->heap);
	}
}

static void test_random_window(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, 256 * MIB, 1);

	rig->sim.dirty_rate = 32;
	run(rig, 20000);
	rig_end(rig);
}

static void test_random_direct(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_DIRECT, 256 * MIB, 1);

	run(rig, 20000);
	rig_end(rig);
}

static void test_random_flat(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_FLAT, 64 * MIB, 1);

	rig->oracle.volume = 16 * MIB;
	rig->oracle.size_max = MIB;
	rig->oracle.may_fail = true;
	run(rig, 20000);
	rig_end(rig);
}

static void test_random_flat_discard(void)
{
	struct rig *rig = rig_prepare(FALLOW_CLASS_FLAT, 64 * MIB, 1);

	rig->sim.provider.capabilities = FALLOW_CAN_DISCARD;
	CHECK_EQUAL(rig_init(rig), FALLOW_OK);
	rig->sim.refuse_range_rate = 64;
	rig->oracle.volume = 16 * MIB;
	rig->oracle.size_max = MIB;
	rig->oracle.may_fail = true;
	run(rig, 20000);
	rig_end(rig);
}

/* Small blocks only: many a page, and lists that get long. */
static void test_random_small(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 1);

	rig->oracle.size_max = 2048;
	rig->oracle.align_max = 1024;
	run(rig, 60000);
	rig_end(rig);
}

/* Spans only, of a few granules to many chunks. */
static void test_random_large(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, 512 * MIB, 1);

	rig->oracle.size_max = 12 * MIB;
	rig->oracle.align_max = 8 * MIB;
	rig->oracle.volume = 128 * MIB;
	rig->oracle.max = 64;
	run(rig, 3000);
	rig_end(rig);
}

static void test_random_exhausted(void)
{
	static const enum fallow_provider_class classes[] = {
		FALLOW_CLASS_WINDOW, FALLOW_CLASS_DIRECT
	};

	for (unsigned c = 0; c < 2; c++) {
		struct rig *rig = rig_begin(classes[c], 128 * MIB, 1);

		rig->sim.budget = 12 * MIB;
		rig->oracle.may_fail = true;
		rig->oracle.volume = 64 * MIB;
		run(rig, 15000);
		CHECK(rig->sim.refused > 0);
		rig_end(rig);
	}
}

static void test_random_refused(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, 128 * MIB, 1);

	rig->sim.refuse_rate = 64;
	rig->sim.refuse_range_rate = 64;
	rig->sim.dirty_rate = 64;
	rig->oracle.may_fail = true;
	run(rig, 15000);
	rig_end(rig);
}

/* A provider with large mappings that must not be split, or may be. */
static void test_random_large_mappings(void)
{
	for (unsigned demote = 0; demote < 2; demote++) {
		struct rig *rig =
			rig_prepare(FALLOW_CLASS_WINDOW, 128 * MIB, 1);

		rig->sim.provider.large_log2 = SIM_CHUNK_LOG2;
		if (demote)
			rig->sim.provider.capabilities = FALLOW_CAN_DEMOTE;
		CHECK_EQUAL(rig_init(rig), FALLOW_OK);
		run(rig, 10000);
		rig_end(rig);
	}
}

/* Heaps of all classes in turns; each knows its own blocks only. */
static void test_random_heaps(void)
{
	static const enum fallow_provider_class classes[] = {
		FALLOW_CLASS_WINDOW, FALLOW_CLASS_DIRECT, FALLOW_CLASS_FLAT,
		FALLOW_CLASS_WINDOW
	};
	enum { HEAPS = sizeof(classes) / sizeof(classes[0]) };
	struct rig *rigs[HEAPS];
	uint64_t random = test_seed;

	for (unsigned i = 0; i < HEAPS; i++) {
		rigs[i] = rig_begin(classes[i], 32 * MIB, 1 + i);
		rigs[i]->oracle.random += i;
		rigs[i]->oracle.may_fail = true;
		rigs[i]->oracle.volume = 8 * MIB;
		rigs[i]->oracle.size_max = MIB;
		rigs[i]->oracle.max = 1000;
	}
	for (unsigned n = 1; n <= 20000 && !test_failures(); n++) {
		struct rig *rig = rigs[test_random(&random) % HEAPS];
		struct rig *other = rigs[test_random(&random) % HEAPS];

		oracle_step(&rig->oracle);
		if (other != rig && other->oracle.count)
			CHECK(!fallow_owns(&rig->heap,
				(void *)other->oracle.blocks[0].base));
		if (n % 2000 == 0)
			for (unsigned i = 0; i < HEAPS; i++)
				rig_check(rigs[i]);
	}
	for (unsigned i = 0; i < HEAPS; i++)
		rig_end(rigs[i]);
}

const struct test tests[] = {
	{ "random_window", test_random_window },
	{ "random_direct", test_random_direct },
	{ "random_flat", test_random_flat },
	{ "random_flat_discard", test_random_flat_discard },
	{ "random_small", test_random_small },
	{ "random_large", test_random_large },
	{ "random_exhausted", test_random_exhausted },
	{ "random_refused", test_random_refused },
	{ "random_large_mappings", test_random_large_mappings },
	{ "random_heaps", test_random_heaps },
	{ NULL, NULL },
};
