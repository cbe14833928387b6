/* SPDX-License-Identifier: MIT */
/*
 * The heap over a provider that refuses call number n, for every n until the
 * workload no longer makes so many calls.
 *
 * After every step of the workload the heap is whole: fallow_check() finds
 * nothing, the oracle's blocks are the heap's, the snapshot agrees with the
 * provider's books; at the end everything is given back.  A refusal of a
 * commit or reserve may only ever cost a NULL; a refusal of a decommit costs
 * nothing that fallow_fini() does not repair.
 */
#include "sim_rig.h"
#include "test.h"
#include "workload.h"

#define MIB ((size_t)1 << 20)
#define WINDOW (64 * MIB)

static void between_check(void *arg)
{
	rig_check(arg);
}

/* Runs the workload over a prepared provider.  Returns whether the heap began;
 * if not, everything must have been given back at once. */
static bool run_prepared(struct rig *rig)
{
	enum fallow_status status = rig_init(rig);

	if (status) {
		CHECK_EQUAL(status, FALLOW_NO_TABLE_MEMORY);
		CHECK(rig->sim.refused > 0);
		CHECK_EQUAL(rig->sim.committed, 0);
		return false;
	}
	rig->oracle.may_fail = rig->sim.refuse_call || rig->sim.refuse_from;
	workload_run(&rig->oracle, between_check, rig);
	return true;
}

/* Refuses one commit or reserve, or all from it on, for every n. */
static void refuse_each(enum fallow_provider_class class, bool from,
	unsigned dirty_rate)
{
	bool reached = true;

	for (uint64_t n = 1; reached && !test_failures(); n++) {
		struct rig *rig = rig_prepare(class, WINDOW, 1);
		bool began;

		rig->sim.dirty_rate = dirty_rate;
		if (from)
			rig->sim.refuse_from = n;
		else
			rig->sim.refuse_call = n;
		began = run_prepared(rig);
		reached = rig->sim.refused > 0;
		if (began) {
			/* Memory is there again: so is the heap. */
			rig->sim.refuse_from = 0;
			rig->sim.refuse_call = 0;
			rig->oracle.may_fail = false;
			oracle_alloc(&rig->oracle, 3 * MIB, 0);
			oracle_alloc(&rig->oracle, 33, 0);
			rig_check(rig);
			oracle_shrink(&rig->oracle, 0);
		}
		if (test_failures())
			test_printf("\n    with call %llu refused",
				(unsigned long long)n);
		rig_end_now(rig, began);
	}
}

static void test_refusal_of_each_commit(void)
{
	refuse_each(FALLOW_CLASS_WINDOW, false, 0);
}

static void test_refusal_of_each_commit_dirty(void)
{
	refuse_each(FALLOW_CLASS_WINDOW, false, 128);
}

static void test_refusal_of_all_commits_from_each(void)
{
	refuse_each(FALLOW_CLASS_WINDOW, true, 0);
}

static void test_refusal_of_each_reserve(void)
{
	refuse_each(FALLOW_CLASS_DIRECT, false, 0);
}

static void test_refusal_of_all_reserves_from_each(void)
{
	refuse_each(FALLOW_CLASS_DIRECT, true, 0);
}

static void test_refusal_of_each_decommit(void)
{
	bool reached = true;

	for (uint64_t n = 1; reached && !test_failures(); n++) {
		struct rig *rig = rig_prepare(FALLOW_CLASS_WINDOW, WINDOW, 1);
		bool began;

		rig->sim.refuse_range = n;
		began = run_prepared(rig);
		CHECK(began);
		reached = rig->sim.refused_ranges > 0;
		if (test_failures())
			test_printf("\n    with range %llu refused",
				(unsigned long long)n);
		rig_end_now(rig, began);
	}
}

/* Refuses at random, often, with a budget below what the workload needs. */
static void refuse_at_random(enum fallow_provider_class class)
{
	for (unsigned round = 0; round < 20 && !test_failures(); round++) {
		struct rig *rig = rig_begin(class, WINDOW, 1);

		rig->sim.random += round;
		rig->sim.refuse_rate = 64;
		rig->sim.refuse_range_rate = 64;
		rig->sim.dirty_rate = 64;
		rig->sim.budget = 8 * MIB;
		rig->oracle.may_fail = true;
		workload_run(&rig->oracle, between_check, rig);
		rig_end(rig);
	}
}

static void test_refusal_at_random_window(void)
{
	refuse_at_random(FALLOW_CLASS_WINDOW);
}

static void test_refusal_at_random_direct(void)
{
	refuse_at_random(FALLOW_CLASS_DIRECT);
}

const struct test tests[] = {
	{ "refusal_of_each_commit", test_refusal_of_each_commit },
	{ "refusal_of_each_commit_dirty", test_refusal_of_each_commit_dirty },
	{ "refusal_of_all_commits_from_each",
		test_refusal_of_all_commits_from_each },
	{ "refusal_of_each_reserve", test_refusal_of_each_reserve },
	{ "refusal_of_all_reserves_from_each",
		test_refusal_of_all_reserves_from_each },
	{ "refusal_of_each_decommit", test_refusal_of_each_decommit },
	{ "refusal_at_random_window", test_refusal_at_random_window },
	{ "refusal_at_random_direct", test_refusal_at_random_direct },
	{ NULL, NULL },
};
