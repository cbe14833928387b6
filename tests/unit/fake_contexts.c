/* SPDX-License-Identifier: MIT */
/*
 * One heap used by several contexts in turns: frees by a context that does not
 * own the page, contexts that go offline and pages that find new owners, calls
 * with interrupts off.  The port is checked after every call.
 */
#include "heap.h"
#include "sim_fake.h"
#include "test.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static const size_t sizes[] = { 16, 100, 1000, 8 * KIB, 20 * KIB, 64 * KIB,
	200 * KIB, 512 * KIB, MIB };
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static struct fallow_snapshot snapshot(struct fake *fake)
{
	struct fallow_snapshot now = { .size = sizeof(now) };

	fallow_snapshot(&fake->rig->heap, &now);
	return now;
}

/* Blocks of one context, all freed by another: free to both afterwards. */
static void test_contexts_free_remotely(void)
{
	for (size_t i = 0; i < SIZES; i++) {
		struct fake *fake = fake_begin(
			FALLOW_CLASS_WINDOW, 64 * MIB, 2);
		struct oracle *oracle = &fake->rig->oracle;
		size_t committed;

		for (unsigned n = 0; n < 30; n++)
			CHECK(oracle_alloc(oracle, sizes[i], 0));
		test_port.context = 1;
		oracle_shrink(oracle, 0);
		fake_check(fake);
		CHECK_EQUAL(snapshot(fake).blocks, 0);
		CHECK_EQUAL(snapshot(fake).live, 0);
		/* The owner takes them in: no more memory is needed. */
		test_port.context = 0;
		committed = fake->rig->sim.committed;
		for (unsigned n = 0; n < 30; n++)
			CHECK(oracle_alloc(oracle, sizes[i], 0));
		CHECK(fake->rig->sim.committed <= committed);
		test_port.context = 1;
		oracle_shrink(oracle, 0);
		test_port.context = 0;
		fallow_collect(&fake->rig->heap);
		CHECK_EQUAL(snapshot(fake).committed, 0);
		if (sizes[i] <= 64 * KIB)
			CHECK(snapshot(fake).remote_frees >= 30);
		fake_end(fake);
	}
}

/* Every block is freed in the context after the one that allocated it, and
 * some pages are kept by one block each. */
static void test_contexts_in_a_ring(void)
{
	struct fake *fake = fake_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 7);
	struct oracle *oracle = &fake->rig->oracle;
	size_t after_first = 0;

	oracle->size_max = 100 * KIB;
	for (unsigned round = 0; round < 400; round++) {
		test_port.context = round % 7;
		oracle_shrink(oracle, 50);
		for (unsigned n = 0; n < 150; n++)
			oracle_alloc(oracle, sizes[n % 6], 0);
		if (round == 20)
			after_first = fake->rig->sim.committed;
		if (round % 40 == 0)
			fake_check(fake);
	}
	/* It does not grow round by round. */
	CHECK(fake->rig->sim.committed <= 2 * after_first);
	fake_end(fake);
}

/* Random operations, each in a random context, interrupts on or off. */
static void random_contexts(
	enum fallow_provider_class class, unsigned contexts, size_t budget)
{
	/* Addresses for a page of every class in every context. */
	struct fake *fake = fake_begin(
		class, 256 * MIB + contexts * 32 * MIB, contexts);
	struct oracle *oracle = &fake->rig->oracle;

	fake->rig->sim.dirty_rate = 64;
	fake->rig->sim.budget = budget;
	oracle->may_fail = budget;
	oracle->volume = 16 * MIB;
	for (unsigned i = 1; i <= 20000 && !test_failures(); i++) {
		if (i % 3 == 0)
			fake_switch(fake);
		oracle_step(oracle);
		if (i % 500 == 0)
			fake_check(fake);
		if (i % 97 == 0)
			fallow_offline(&fake->rig->heap);
		if (i % 1001 == 0 && test_port_waits()) {
			test_port.entry_irqs_on = true;
			fallow_collect(&fake->rig->heap);
		}
	}
	fake_end(fake);
}

static void test_contexts_random(void)
{
	random_contexts(FALLOW_CLASS_WINDOW, 4, 0);
}

static void test_contexts_random_many(void)
{
	random_contexts(FALLOW_CLASS_WINDOW, 64, 0);
}

static void test_contexts_random_direct(void)
{
	random_contexts(FALLOW_CLASS_DIRECT, 3, 0);
}

static void test_contexts_random_exhausted(void)
{
	random_contexts(FALLOW_CLASS_WINDOW, 4, 12 * MIB);
}

/* Thousands of contexts' lives: nothing is lost from one to the next. */
static void test_contexts_offline_cycles(void)
{
	struct fake *fake = fake_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 4);
	struct oracle *oracle = &fake->rig->oracle;
	size_t committed = 0;

	for (unsigned round = 0; round < 4000; round++) {
		test_port.context = round % 4;
		for (unsigned n = 0; n < 8; n++)
			CHECK(oracle_alloc(oracle, sizes[n % SIZES], 0));
		fallow_offline(&fake->rig->heap);
		/* The next one frees what the last one left. */
		test_port.context = (round + 1) % 4;
		oracle_shrink(oracle, 8);
		if (round == 100)
			committed = fake->rig->sim.committed;
		if (round % 250 == 0)
			fake_check(fake);
	}
	CHECK(fake->rig->sim.committed <= 2 * committed);
	CHECK(snapshot(fake).abandoned > 4000);
	CHECK(snapshot(fake).adopted > 0);
	oracle_shrink(oracle, 0);
	for (unsigned i = 0; i < 4; i++) {
		test_port.context = i;
		fallow_collect(&fake->rig->heap);
	}
	CHECK_EQUAL(snapshot(fake).committed, 0);
	fake_end(fake);
}

/* A page that nobody owns gives its free blocks to whoever asks. */
static void test_contexts_adopt(void)
{
	for (size_t i = 0; i < SIZES && sizes[i] <= 64 * KIB; i++) {
		struct fake *fake = fake_begin(
			FALLOW_CLASS_WINDOW, 64 * MIB, 3);
		struct oracle *oracle = &fake->rig->oracle;
		size_t committed;

		for (unsigned n = 0; n < 60; n++)
			CHECK(oracle_alloc(oracle, sizes[i], 0));
		oracle_shrink(oracle, 30);
		fallow_offline(&fake->rig->heap);
		committed = fake->rig->sim.committed;
		test_port.context = 2;
		for (unsigned n = 0; n < 30; n++)
			CHECK(oracle_alloc(oracle, sizes[i], 0));
		CHECK(fake->rig->sim.committed <= committed);
		CHECK(snapshot(fake).adopted > 0);
		fake_end(fake);
	}
}

/* The last free into a page that nobody owns: a collect gives it back. */
static void test_contexts_abandoned_then_freed(void)
{
	for (size_t i = 0; i < SIZES; i++) {
		struct fake *fake = fake_begin(
			FALLOW_CLASS_WINDOW, 64 * MIB, 3);
		struct oracle *oracle = &fake->rig->oracle;

		for (unsigned n = 0; n < 20; n++)
			CHECK(oracle_alloc(oracle, sizes[i], 0));
		fallow_offline(&fake->rig->heap);
		test_port.context = 1;
		oracle_shrink(oracle, 0);
		fake_check(fake);
		test_port.context = 2;
		fallow_collect(&fake->rig->heap);
		fallow_offline(&fake->rig->heap);
		test_port.context = 1;
		fallow_collect(&fake->rig->heap);
		CHECK_EQUAL(snapshot(fake).committed, 0);
		fake_end(fake);
	}
}

/* A context that went offline may come back. */
static void test_contexts_offline_is_not_final(void)
{
	struct fake *fake = fake_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 2);
	struct oracle *oracle = &fake->rig->oracle;

	for (unsigned round = 0; round < 1000; round++) {
		fallow_offline(&fake->rig->heap);
		if (round % 3 == 0)
			fallow_offline(&fake->rig->heap);
		oracle_step(oracle);
	}
	fake_end(fake);
}

/* With interrupts off memory runs out sooner: nothing that waits is called,
 * nor is the pressure hook; with interrupts on again all of it is there. */
static bool pressure_never(void *arg, size_t size)
{
	unsigned *calls = arg;

	(void)size;
	++*calls;
	CHECK(test_port.entry_irqs_on);
	CHECK_EQUAL(test_port.depth, 0);
	CHECK_EQUAL(test_port.locks, 0);
	return false;
}

static void test_contexts_irqs_off_exhausted(void)
{
	struct fake *fake = fake_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 2);
	struct rig *rig = fake->rig;
	struct oracle *oracle = &rig->oracle;
	unsigned calls = 0;

	fallow_fini(&rig->heap);
	rig->config.pressure = pressure_never;
	rig->config.pressure_ctx = &calls;
	CHECK_EQUAL(fallow_init(&rig->heap, &rig->config), FALLOW_OK);
	CHECK_EQUAL(fallow_add_region(
			    &rig->heap, rig->sim.base, rig->sim.size),
		FALLOW_OK);
	rig->sim.budget = 8 * MIB;
	oracle->may_fail = true;
	test_port.irqs_on = false;
	while (oracle_alloc(oracle, 64 * KIB, 0))
		;
	CHECK_EQUAL(calls, 0);
	/* One in the middle stays, or the large block had memory there. */
	while (oracle->count > 1)
		oracle_free(oracle, oracle->count > 64 ? oracle->count - 1 : 0);
	CHECK(!oracle_alloc(oracle, 6 * MIB, 0));
	CHECK_EQUAL(calls, 0);
	test_port.irqs_on = true;
	CHECK(oracle_alloc(oracle, 6 * MIB, 0));
	CHECK(!oracle_alloc(oracle, 6 * MIB, 0));
	CHECK(calls > 0);
	fake->rig->sim.made[SIM_COMMIT] = snapshot(fake).commits;
	fake->rig->sim.made[SIM_DECOMMIT] = snapshot(fake).decommits;
	fake_end(fake);
}

/* Several heaps share the contexts and nothing else. */
static void test_contexts_two_heaps(void)
{
	struct fake *one = fake_begin(FALLOW_CLASS_WINDOW, 256 * MIB, 4);
	struct fake *two = fake_begin(FALLOW_CLASS_DIRECT, 256 * MIB, 4);

	one->rig->oracle.volume = 16 * MIB;
	two->rig->oracle.volume = 16 * MIB;
	for (unsigned i = 1; i <= 6000 && !test_failures(); i++) {
		fake_switch(one);
		oracle_step(i % 2 ? &one->rig->oracle : &two->rig->oracle);
		if (i % 1000 == 0) {
			fake_check(one);
			fake_check(two);
		}
	}
	fake_end(one);
	fake_end(two);
}

/* A context beyond the heap's: reported, nothing done. */
static void test_contexts_beyond(void)
{
	struct fake *fake = fake_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 2);
	struct rig *rig = fake->rig;
	unsigned beyond = 2 * FAKE_LEVELS;
	void *p;

	CHECK(oracle_alloc(&rig->oracle, 100, 0));
	CHECK(oracle_alloc(&rig->oracle, 3 * MIB, 0));
	test_port.context = beyond;
	CHECK(fallow_alloc(&rig->heap, 100) == NULL);
	CHECK_EQUAL(rig->misuses, 1);
	CHECK_EQUAL(rig->misuse.kind, FALLOW_MISUSE_BAD_CONTEXT);
	CHECK_EQUAL(rig->misuse.context, beyond);
	p = fallow_realloc(
		&rig->heap, (void *)rig->oracle.blocks[0].base, 5000);
	CHECK(p == NULL);
	fallow_free(&rig->heap, (void *)rig->oracle.blocks[0].base);
	CHECK_EQUAL(rig->misuse.kind, FALLOW_MISUSE_BAD_CONTEXT);
	/* What was never set looks like this. */
	test_port.context = UINT32_MAX;
	rig->misuse.kind = 0;
	fallow_free(&rig->heap, (void *)rig->oracle.blocks[1].base);
	CHECK_EQUAL(rig->misuse.kind, FALLOW_MISUSE_BAD_CONTEXT);
	rig->misuses_expected = rig->misuses;
	CHECK(rig->misuses >= 3);
	test_port.context = 1;
	CHECK(oracle_alloc(&rig->oracle, 100, 0));
	fake_end(fake);
}

/* A free of another's block while a call of the context's is in the provider. */
static void test_contexts_free_inside_call(void)
{
	struct fake *fake = fake_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 2);
	struct rig *rig = fake->rig;
	void *p = fallow_alloc(&rig->heap, 100);
	struct local *local = heap_of(&rig->heap)->locals[1];

	test_port.context = 1;
	local->calling = 1;
	fallow_free(&rig->heap, p);
	local->calling = 0;
	CHECK_EQUAL(rig->misuses, 1);
	CHECK_EQUAL(rig->misuse.kind, FALLOW_MISUSE_REENTRY);
	rig->misuses_expected = 1;
	fallow_free(&rig->heap, p);
	fake_end(fake);
}

/* A second free, by another, of a block whose memory is gone: seen without a
 * look at it. */
static void test_contexts_free_in_hole(void)
{
	static void *volatile blocks[4096];
	struct fake *fake = fake_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 2);
	struct rig *rig = fake->rig;

	for (unsigned i = 0; i < 4096; i++)
		CHECK((blocks[i] = fallow_alloc(&rig->heap, 64)) != NULL);
	for (unsigned i = 1; i < 4096; i++)
		if (i % 1000 != 0)
			fallow_free(&rig->heap, blocks[i]);
	fallow_collect(&rig->heap);
	CHECK(snapshot(fake).holes > 0);
	test_port.context = 1;
	fallow_free(&rig->heap, blocks[1500]);
	CHECK_EQUAL(rig->misuses, 1);
	CHECK_EQUAL(rig->misuse.kind, FALLOW_MISUSE_DOUBLE_FREE);
	rig->misuses_expected = 1;
	for (unsigned i = 0; i < 4096; i += 1000)
		fallow_free(&rig->heap, blocks[i]);
	fake_end(fake);
}

const struct test tests[] = {
	{ "contexts_free_remotely", test_contexts_free_remotely },
	{ "contexts_in_a_ring", test_contexts_in_a_ring },
	{ "contexts_random", test_contexts_random },
	{ "contexts_random_many", test_contexts_random_many },
	{ "contexts_random_direct", test_contexts_random_direct },
	{ "contexts_random_exhausted", test_contexts_random_exhausted },
	{ "contexts_offline_cycles", test_contexts_offline_cycles },
	{ "contexts_adopt", test_contexts_adopt },
	{ "contexts_abandoned_then_freed",
		test_contexts_abandoned_then_freed },
	{ "contexts_offline_is_not_final",
		test_contexts_offline_is_not_final },
	{ "contexts_irqs_off_exhausted", test_contexts_irqs_off_exhausted },
	{ "contexts_two_heaps", test_contexts_two_heaps },
	{ "contexts_beyond", test_contexts_beyond },
	{ "contexts_free_inside_call", test_contexts_free_inside_call },
	{ "contexts_free_in_hole", test_contexts_free_in_hole },
	{ NULL, NULL },
};
