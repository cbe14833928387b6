/* SPDX-License-Identifier: MIT */
/*
 * What happens in a provider call: the caller goes on on another CPU, handlers
 * and other CPUs use the heap meanwhile.  Everything read before the call must
 * have been read again after it.
 */
#include "sim_fake.h"
#include "test.h"
#include "workload.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static void between_check(void *arg)
{
	fake_check(arg);
}

/* The workload once, in the company that `set` asks for. */
static void run_workload(enum fallow_provider_class class,
	void (*set)(struct fake *fake))
{
	for (unsigned round = 0; round < 20 && !test_failures(); round++) {
		struct fake *fake = fake_begin(class, 64 * MIB, 3);

		fake->random += round;
		fake->inner.random += round;
		fake->inner.volume = 2 * MIB;
		fake->inner.size_max = 200 * KIB;
		set(fake);
		workload_run(&fake->rig->oracle, between_check, fake);
		fake_end(fake);
	}
}

static void set_migrate(struct fake *fake)
{
	fake->migrate_rate = 256;
}

static void set_handlers(struct fake *fake)
{
	fake->handler_rate = 256;
}

static void set_others(struct fake *fake)
{
	fake->other_rate = 256;
}

static void set_all(struct fake *fake)
{
	fake->migrate_rate = 100;
	fake->handler_rate = 100;
	fake->other_rate = 100;
}

static void set_all_refused(struct fake *fake)
{
	set_all(fake);
	fake->rig->sim.refuse_rate = 64;
	fake->rig->sim.refuse_range_rate = 64;
	fake->rig->sim.dirty_rate = 64;
	fake->rig->sim.budget = 10 * MIB;
	fake->rig->oracle.may_fail = true;
}

static void test_provider_migrates(void)
{
	run_workload(FALLOW_CLASS_WINDOW, set_migrate);
}

static void test_provider_handlers(void)
{
	run_workload(FALLOW_CLASS_WINDOW, set_handlers);
}

static void test_provider_others(void)
{
	run_workload(FALLOW_CLASS_WINDOW, set_others);
}

static void test_provider_all(void)
{
	run_workload(FALLOW_CLASS_WINDOW, set_all);
}

static void test_provider_all_direct(void)
{
	run_workload(FALLOW_CLASS_DIRECT, set_all);
}

static void test_provider_all_refused(void)
{
	run_workload(FALLOW_CLASS_WINDOW, set_all_refused);
}

static void test_provider_all_refused_direct(void)
{
	run_workload(FALLOW_CLASS_DIRECT, set_all_refused);
}

/* Random operations in random contexts, in all company. */
static void random_company(enum fallow_provider_class class, size_t budget)
{
	struct fake *fake = fake_begin(class, 128 * MIB, 4);
	struct oracle *oracle = &fake->rig->oracle;

	set_all(fake);
	fake->inner.volume = 4 * MIB;
	fake->inner.size_max = MIB;
	fake->rig->sim.budget = budget;
	fake->rig->sim.dirty_rate = 64;
	fake->rig->sim.refuse_range_rate = 16;
	/* A handler may take the last of the memory at any time. */
	oracle->may_fail = true;
	oracle->volume = 16 * MIB;
	for (unsigned i = 1; i <= 15000 && !test_failures(); i++) {
		fake_switch(fake);
		oracle_step(oracle);
		if (i % 7 == 0 && oracle->count && fake->inner.count < 400)
			oracle_pass(oracle, i % oracle->count, &fake->inner);
		if (i % 500 == 0)
			fake_check(fake);
		if (i % 211 == 0)
			fallow_offline(&fake->rig->heap);
		if (i % 401 == 0 && test_port_waits()) {
			test_port.entry_irqs_on = true;
			fallow_collect(&fake->rig->heap);
		}
	}
	CHECK(fake->migrations > 10);
	CHECK(fake->handlers > 10);
	CHECK(fake->others > 10);
	fake_end(fake);
}

static void test_provider_random(void)
{
	random_company(FALLOW_CLASS_WINDOW, 0);
}

static void test_provider_random_direct(void)
{
	random_company(FALLOW_CLASS_DIRECT, 0);
}

static void test_provider_random_exhausted(void)
{
	random_company(FALLOW_CLASS_WINDOW, 10 * MIB);
}

/* The first commit of a page: a handler takes a page of the same class then,
 * and both end up with blocks of their own. */
static void same_class(struct sim *sim, enum sim_call call)
{
	struct fake *fake = sim->during_arg;
	struct test_port interrupted;

	/* Not of tables: who extends them is waited for, or does without. */
	if (call != SIM_COMMIT || fake->nesting ||
		sim->during_base - sim->base < fake->tables)
		return;
	fake->nesting = 1;
	interrupted = fake_handler_begin(fake);
	for (unsigned i = 0; i < 3; i++)
		CHECK(oracle_alloc(&fake->inner, 1000, 0));
	test_port_end(interrupted);
	fake->nesting = 0;
}

static void test_provider_same_class(void)
{
	struct fake *fake = fake_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 2);

	fake->rig->sim.during = same_class;
	for (unsigned i = 0; i < 100; i++) {
		CHECK(oracle_alloc(&fake->rig->oracle, 1000, 0));
		if (i % 10 == 0)
			fake_check(fake);
	}
	fake_end(fake);
}

/* The owner of the page that a block is in. */
struct owner_search {
	uintptr_t block;
	uint32_t page_owner;
	uint32_t owner;
};

static bool owner_visit(void *arg, const struct fallow_item *item)
{
	struct owner_search *search = arg;

	if (item->kind == FALLOW_ITEM_PAGE)
		search->page_owner = item->owner;
	if (item->kind == FALLOW_ITEM_BLOCK && item->base == search->block)
		search->owner = search->page_owner;
	return true;
}

/* A page whose memory was committed belongs to the context that the caller is
 * in afterwards, not to the one it came from. */
static void test_provider_page_follows(void)
{
	static const size_t sizes[] = { 16, 1000, 8000, 20000, 60000 };

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct fake *fake = fake_begin(
			FALLOW_CLASS_WINDOW, 64 * MIB, 5);
		struct oracle *oracle = &fake->rig->oracle;
		uint64_t moved = 0;

		fake->migrate_rate = 256;
		for (unsigned n = 0; n < 50; n++) {
			uint64_t before = fake->migrations;
			struct owner_search search = { 0 };

			CHECK(oracle_alloc(oracle, sizes[i], 0));
			if (fake->migrations == before)
				continue;
			search.block =
				oracle->blocks[oracle_last(oracle)].base;
			search.owner = FALLOW_NO_CONTEXT;
			fallow_walk(&fake->rig->heap, true, owner_visit,
				&search);
			CHECK_EQUAL(search.owner, test_port.context);
			moved++;
		}
		CHECK(moved > 0);
		fake_end(fake);
	}
}

const struct test tests[] = {
	{ "provider_migrates", test_provider_migrates },
	{ "provider_handlers", test_provider_handlers },
	{ "provider_others", test_provider_others },
	{ "provider_all", test_provider_all },
	{ "provider_all_direct", test_provider_all_direct },
	{ "provider_all_refused", test_provider_all_refused },
	{ "provider_all_refused_direct", test_provider_all_refused_direct },
	{ "provider_random", test_provider_random },
	{ "provider_random_direct", test_provider_random_direct },
	{ "provider_random_exhausted", test_provider_random_exhausted },
	{ "provider_same_class", test_provider_same_class },
	{ "provider_page_follows", test_provider_page_follows },
	{ NULL, NULL },
};
