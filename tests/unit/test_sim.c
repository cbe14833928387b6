/* SPDX-License-Identifier: MIT */
/*
 * The simulated provider itself: that it does what it is asked, refuses what
 * it is told to, and sees each broken promise.  Here the provider is called
 * directly, as a wrong heap would.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>

#include "sim.h"
#include "test.h"

#define MIB ((size_t)1 << 20)
#define G SIM_GRANULE

static struct sim sim;

static unsigned commit(uintptr_t base, size_t size)
{
	return sim.provider.commit(sim.provider.ctx, base, size, 0);
}

static enum fallow_range_result decommit(uintptr_t base, size_t size)
{
	struct fallow_range range = { .base = base, .size = size };

	sim.provider.decommit(sim.provider.ctx, &range, 1);
	return range.result;
}

/* Exactly one promise was broken since the last call; it is forgiven. */
static void one_violation(int line)
{
	if (sim.violations != 1)
		test_fail_values(__FILE__, line, "violations", sim.violations,
			1);
	sim.violations = 0;
}

/* Two that one call broke count as well. */
static void some_violation(int line)
{
	if (sim.violations)
		sim.violations = 1;
	one_violation(line);
}

static void test_sim_commits_and_decommits(void)
{
	unsigned char *p;

	sim_begin(&sim, FALLOW_CLASS_WINDOW, 16 * MIB);
	p = (unsigned char *)sim.base;
	CHECK_EQUAL(commit(sim.base, 4 * G),
		FALLOW_COMMIT_DONE | FALLOW_COMMIT_ZEROED);
	CHECK_EQUAL(sim.committed, 4 * G);
	CHECK(p[0] == 0 && p[4 * G - 1] == 0);
	p[G] = 1;
	CHECK_EQUAL(decommit(sim.base + G, G), FALLOW_RANGE_DONE);
	CHECK_EQUAL(sim.committed, 3 * G);
	sim.dirty_rate = 256;
	CHECK_EQUAL(commit(sim.base + G, G), FALLOW_COMMIT_DONE);
	CHECK(p[G] == SIM_DIRT && p[2 * G - 1] == SIM_DIRT);
	CHECK_EQUAL(decommit(sim.base, 4 * G), FALLOW_RANGE_DONE);
	sim_end(&sim);
}

static void test_sim_refuses(void)
{
	sim_begin(&sim, FALLOW_CLASS_WINDOW, 16 * MIB);
	sim.refuse_call = 2;
	CHECK(commit(sim.base, G));
	CHECK_EQUAL(commit(sim.base + G, G), FALLOW_COMMIT_NO_MEMORY);
	CHECK(commit(sim.base + G, G));
	sim.budget = 3 * G;
	CHECK_EQUAL(commit(sim.base + 4 * G, 2 * G), FALLOW_COMMIT_NO_MEMORY);
	CHECK(commit(sim.base + 4 * G, G));
	CHECK_EQUAL(sim.refused, 2);
	sim.refuse_range = 1;
	CHECK_EQUAL(decommit(sim.base, 2 * G), FALLOW_RANGE_REFUSED);
	CHECK_EQUAL(decommit(sim.base, 2 * G), FALLOW_RANGE_DONE);
	CHECK_EQUAL(decommit(sim.base + 4 * G, G), FALLOW_RANGE_DONE);
	sim.refuse_from = 1;
	CHECK_EQUAL(commit(sim.base, G), FALLOW_COMMIT_NO_MEMORY);
	sim_end(&sim);
}

static void test_sim_sees_bad_ranges(void)
{
	sim_begin(&sim, FALLOW_CLASS_WINDOW, 16 * MIB);
	CHECK(!commit(sim.base, 0));
	one_violation(__LINE__);
	CHECK(!commit(sim.base + 16, G));
	one_violation(__LINE__);
	CHECK(!commit(sim.base, G + 1));
	one_violation(__LINE__);
	CHECK(!commit(sim.base - G, 2 * G));
	one_violation(__LINE__);
	CHECK(!commit(sim.base + 16 * MIB - G, 2 * G));
	one_violation(__LINE__);
	CHECK(!commit(sim.base, SIZE_MAX & ~(G - 1)));
	one_violation(__LINE__);
	CHECK(commit(sim.base + G, G));
	CHECK(!commit(sim.base, 2 * G));
	one_violation(__LINE__);
	decommit(sim.base, 2 * G);
	one_violation(__LINE__);
	CHECK_EQUAL(decommit(sim.base + G, G), FALLOW_RANGE_DONE);
	decommit(sim.base + G, G);
	one_violation(__LINE__);
	sim_end(&sim);
}

static void test_sim_sees_bad_decommits(void)
{
	static struct fallow_range ranges[FALLOW_RANGES_MAX + 1];

	sim_begin(&sim, FALLOW_CLASS_WINDOW, 16 * MIB);
	CHECK(commit(sim.base, 128 * G));
	sim.provider.decommit(&sim, ranges, 0);
	one_violation(__LINE__);
	for (size_t i = 0; i <= FALLOW_RANGES_MAX; i++)
		ranges[i] = (struct fallow_range){ sim.base + i * G, G, 0 };
	sim.provider.decommit(&sim, ranges, FALLOW_RANGES_MAX + 1);
	one_violation(__LINE__);
	/* Ranges that overlap. */
	ranges[0].size = 2 * G;
	sim.provider.decommit(&sim, ranges, 2);
	one_violation(__LINE__);
	CHECK_EQUAL(ranges[0].result, FALLOW_RANGE_DONE);
	CHECK_EQUAL(decommit(sim.base + 2 * G, 126 * G), FALLOW_RANGE_DONE);
	sim_end(&sim);
}

static void test_sim_sees_bad_callers(void)
{
	sim_begin(&sim, FALLOW_CLASS_WINDOW, 16 * MIB);
	sim_nowait = true;
	commit(sim.base, G);
	one_violation(__LINE__);
	sim_nowait = false;
	sim_irqs_off = true;
	commit(sim.base + G, G);
	CHECK_EQUAL(sim.violations, 0);
	decommit(sim.base, 2 * G);
	one_violation(__LINE__);
	sim_irqs_off = false;
	sim_end(&sim);
}

/* Another call, in the middle of one, names the same granule. */
static void commit_inside(struct sim *inside, enum sim_call call)
{
	(void)call;
	inside->during = NULL;
	inside->provider.commit(inside, inside->base + G, G, 0);
}

static void test_sim_sees_calls_at_once(void)
{
	sim_begin(&sim, FALLOW_CLASS_WINDOW, 16 * MIB);
	sim.during = commit_inside;
	CHECK(commit(sim.base, 4 * G));
	one_violation(__LINE__);
	sim.during = commit_inside;
	CHECK_EQUAL(decommit(sim.base, 4 * G), FALLOW_RANGE_DONE);
	one_violation(__LINE__);
	sim_end(&sim);
}

static void test_sim_direct(void)
{
	struct fallow_provider *provider = &sim.provider;
	uintptr_t a, b;

	sim_begin(&sim, FALLOW_CLASS_DIRECT, 8 * MIB);
	a = provider->reserve(&sim, 3 * G, G);
	b = provider->reserve(&sim, MIB, 2 * MIB);
	CHECK(a && b && a != b);
	CHECK(b % (2 * MIB) == 0);
	CHECK_EQUAL(*(unsigned char *)a, SIM_DIRT);
	CHECK_EQUAL(provider->reserve(&sim, 8 * MIB, G), 0);
	CHECK_EQUAL(sim.refused, 1);
	provider->reserve(&sim, 100, G);
	one_violation(__LINE__);
	provider->reserve(&sim, G, 24);
	one_violation(__LINE__);
	provider->release(&sim, a + G, G);
	provider->release(&sim, a, 3 * G);
	one_violation(__LINE__);
	provider->release(&sim, a, G);
	provider->release(&sim, a + 2 * G, G);
	sim_irqs_off = true;
	provider->release(&sim, b, MIB);
	some_violation(__LINE__);
	sim_irqs_off = false;
	sim_end(&sim);
}

static jmp_buf landing;

static void fault(int number)
{
	(void)number;
	longjmp(landing, 1);
}

/* Whether a read of the byte faults. */
static bool faults(uintptr_t addr)
{
	struct sigaction action = { .sa_handler = fault,
		.sa_flags = (int)SA_NODEFER }, before;
	volatile bool faulted = true;

	sigaction(SIGSEGV, &action, &before);
	if (!setjmp(landing)) {
		(void)*(volatile unsigned char *)addr;
		faulted = false;
	}
	sigaction(SIGSEGV, &before, NULL);
	return faulted;
}

static void test_sim_gone_memory_faults(void)
{
	sim_begin(&sim, FALLOW_CLASS_WINDOW, 16 * MIB);
	CHECK(faults(sim.base));
	CHECK(commit(sim.base, 2 * G));
	CHECK(!faults(sim.base));
	CHECK(faults(sim.base + 2 * G));
	CHECK_EQUAL(decommit(sim.base, 2 * G), FALLOW_RANGE_DONE);
	CHECK(faults(sim.base));
	sim_end(&sim);
}

static uintptr_t during_addr;
static bool during_faults;
static unsigned during_byte;

/* What is seen in the middle of a call that takes memory away. */
static void look_inside(struct sim *inside, enum sim_call call)
{
	if (call == SIM_DISCARD)
		during_byte = *(volatile unsigned char *)during_addr;
	else
		during_faults = faults(during_addr);
	(void)inside;
}

/* Memory is gone before the call that takes it away is over, and what was only
 * discarded is poisoned then; what is refused is neither. */
static void test_sim_takes_away_first(void)
{
	struct fallow_range range = { .size = G };

	sim_begin(&sim, FALLOW_CLASS_WINDOW, 16 * MIB);
	during_addr = sim.base;
	CHECK(commit(sim.base, 2 * G));
	sim.during = look_inside;
	sim.refuse_range = 1;
	CHECK_EQUAL(decommit(sim.base, G), FALLOW_RANGE_REFUSED);
	CHECK(!during_faults);
	CHECK_EQUAL(decommit(sim.base, 2 * G), FALLOW_RANGE_DONE);
	CHECK(during_faults);
	sim_end(&sim);
	sim_begin(&sim, FALLOW_CLASS_DIRECT, 16 * MIB);
	during_addr = sim.provider.reserve(&sim, G, G);
	sim.during = look_inside;
	during_faults = false;
	sim.provider.release(&sim, during_addr, G);
	CHECK(during_faults);
	sim_end(&sim);
	sim_begin(&sim, FALLOW_CLASS_FLAT, 16 * MIB);
	during_addr = sim_region(&sim, 0, MIB);
	*(volatile unsigned char *)during_addr = 0x11;
	sim.during = look_inside;
	range.base = during_addr;
	sim.provider.discard(&sim, &range, 1);
	CHECK_EQUAL(range.result, FALLOW_RANGE_DONE);
	CHECK_EQUAL(during_byte, SIM_DIRT);
	sim_end(&sim);
}

static void test_sim_large_mappings(void)
{
	unsigned result;

	sim_begin(&sim, FALLOW_CLASS_WINDOW, 16 * MIB);
	sim.provider.large_log2 = SIM_CHUNK_LOG2;
	result = sim.provider.commit(
		&sim, sim.base, SIM_CHUNK, FALLOW_PREFER_LARGE);
	CHECK(result & FALLOW_COMMIT_LARGE);
	CHECK_EQUAL(decommit(sim.base, G), FALLOW_RANGE_REFUSED);
	sim.provider.capabilities = FALLOW_CAN_DEMOTE;
	CHECK_EQUAL(decommit(sim.base, G), FALLOW_RANGE_DONE);
	CHECK_EQUAL(decommit(sim.base + G, SIM_CHUNK - G), FALLOW_RANGE_DONE);
	sim_end(&sim);
}

const struct test tests[] = {
	{ "sim_commits_and_decommits", test_sim_commits_and_decommits },
	{ "sim_refuses", test_sim_refuses },
	{ "sim_sees_bad_ranges", test_sim_sees_bad_ranges },
	{ "sim_sees_bad_decommits", test_sim_sees_bad_decommits },
	{ "sim_sees_bad_callers", test_sim_sees_bad_callers },
	{ "sim_sees_calls_at_once", test_sim_sees_calls_at_once },
	{ "sim_direct", test_sim_direct },
	{ "sim_gone_memory_faults", test_sim_gone_memory_faults },
	{ "sim_takes_away_first", test_sim_takes_away_first },
	{ "sim_large_mappings", test_sim_large_mappings },
	{ NULL, NULL },
};
