/* SPDX-License-Identifier: MIT */
/*
 * Contexts that are parked: what another's collect may then take, what a
 * handler on the parked CPU may still do, and that whoever comes back finds
 * everything.
 */
#include "heap.h"
#include "sim_fake.h"
#include "test.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

/* Of each kind of page. */
static const size_t sizes[] = { 64, 8 * KIB, 9 * KIB, 40 * KIB };
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static struct fallow_snapshot snapshot(struct fake *fake)
{
	struct fallow_snapshot now = { .size = sizeof(now) };

	fallow_snapshot(&fake->rig->heap, &now);
	return now;
}

/* A collect by another context, in a task. */
static size_t collect_as(struct fake *fake, unsigned context)
{
	struct test_port interrupted = test_port_begin(context, true);
	size_t bytes;

	test_port.entry_irqs_on = true;
	bytes = fallow_collect(&fake->rig->heap);
	test_port_end(interrupted);
	return bytes;
}

/* Context 0 with a page of each kind that has no block in use. */
static struct fake *begin_idle(void)
{
	struct fake *fake = fake_begin(FALLOW_CLASS_WINDOW, 512 * MIB, 3);

	for (size_t i = 0; i < SIZES; i++)
		CHECK(oracle_alloc(&fake->rig->oracle, sizes[i], 0));
	oracle_shrink(&fake->rig->oracle, 0);
	CHECK(snapshot(fake).pages == SIZES);
	return fake;
}

/* What a running context holds is its own; what a parked one holds without a
 * block goes. */
static void test_park_swept(void)
{
	struct fake *fake = begin_idle();

	collect_as(fake, 1);
	CHECK_EQUAL(snapshot(fake).pages, SIZES);
	fallow_park(&fake->rig->heap);
	fake_check(fake);
	CHECK(collect_as(fake, 1) > 0);
	CHECK_EQUAL(snapshot(fake).pages, 0);
	CHECK_EQUAL(snapshot(fake).committed, 0);
	fake_check(fake);
	/* It comes back by itself. */
	for (size_t i = 0; i < SIZES; i++)
		CHECK(oracle_alloc(&fake->rig->oracle, sizes[i], 0));
	fake_check(fake);
	collect_as(fake, 1);
	CHECK_EQUAL(snapshot(fake).pages, SIZES);
	fake_end(fake);
}

/* Blocks in use keep their pages, whoever sweeps, and blocks freed by others
 * while their page's owner is parked count. */
static void test_park_keeps_blocks(void)
{
	struct fake *fake = fake_begin(FALLOW_CLASS_WINDOW, 512 * MIB, 3);
	struct oracle *oracle = &fake->rig->oracle;

	for (unsigned n = 0; n < 200; n++)
		CHECK(oracle_alloc(oracle, sizes[n % SIZES], 0));
	fallow_park(&fake->rig->heap);
	collect_as(fake, 1);
	fake_check(fake);
	test_port.context = 2;
	oracle_shrink(oracle, 50);
	fake_check(fake);
	collect_as(fake, 1);
	fake_check(fake);
	oracle_shrink(oracle, 0);
	collect_as(fake, 1);
	CHECK_EQUAL(snapshot(fake).pages, 0);
	CHECK_EQUAL(snapshot(fake).committed, 0);
	fake_end(fake);
}

/* Unparking gives the pages back to their owner alone. */
static void test_park_unpark(void)
{
	struct fake *fake = begin_idle();
	uint64_t slow;

	fallow_park(&fake->rig->heap);
	fallow_park(&fake->rig->heap);
	fallow_unpark(&fake->rig->heap);
	fake_check(fake);
	collect_as(fake, 1);
	CHECK_EQUAL(snapshot(fake).pages, SIZES);
	slow = snapshot(fake).slow_paths;
	CHECK(oracle_alloc(&fake->rig->oracle, sizes[0], 0));
	CHECK_EQUAL(snapshot(fake).slow_paths, slow);
	fallow_unpark(&fake->rig->heap);
	fake_end(fake);
}

/* A context that comes back while it is swept: at which step, and the pages that
 * it had then. */
static struct {
	struct heap *heap;
	unsigned steps;
	bool back;
	size_t pages;
} late;

/* The pages of context 0 that have room. */
static size_t late_pages(void)
{
	const struct local *local = late.heap->locals[0];
	size_t n = 0;

	for (unsigned class = 0; class < CLASS_COUNT; class++) {
		const struct page *page = local->queue[class];

		n += local->current[class] != &fl_page_none;
		for (; page != NULL; page = page->next) {
			n++;
			if (page->next == local->queue[class])
				break;
		}
	}
	return n;
}

/* It comes as soon as nobody has its lock. */
static void late_step(void)
{
	struct test_port interrupted;

	if (late.steps > 0) {
		late.steps--;
		return;
	}
	if (late.back || lock_held(&late.heap->locals[0]->lock))
		return;
	interrupted = test_port_begin(0, true);
	fallow_unpark((struct fallow *)late.heap);
	test_port_end(interrupted);
	late.pages = late_pages();
	late.back = true;
}

/* From then on its pages are its own, also for a sweep that saw it parked. */
static void test_park_unpark_while_swept(void)
{
	unsigned kept = 0;

	for (unsigned n = 0; n < 60; n++) {
		struct fake *fake = begin_idle();

		late.heap = heap_of(&fake->rig->heap);
		late.steps = n;
		late.back = false;
		fallow_park(&fake->rig->heap);
		test_port.step = late_step;
		collect_as(fake, 1);
		test_port.step = NULL;
		CHECK(late.back);
		CHECK_EQUAL(late_pages(), late.pages);
		kept += late.pages > 0;
		fake_end(fake);
	}
	CHECK(kept > 10);
}

/* A handler on a parked CPU frees without taking its pages into use, and
 * allocates by taking them. */
static void test_park_handler(void)
{
	struct fake *fake = fake_begin(FALLOW_CLASS_WINDOW, 512 * MIB, 3);
	struct oracle *oracle = &fake->rig->oracle;
	struct test_port interrupted;

	for (unsigned n = 0; n < 100; n++)
		CHECK(oracle_alloc(oracle, sizes[n % SIZES], 0));
	fallow_park(&fake->rig->heap);
	interrupted = test_port_begin(0, false);
	while (oracle->count > 0)
		oracle_free(oracle, oracle->count - 1);
	test_port_end(interrupted);
	CHECK(heap_of(&fake->rig->heap)->parked[0]);
	fake_check(fake);
	collect_as(fake, 1);
	CHECK_EQUAL(snapshot(fake).pages, 0);
	CHECK_EQUAL(snapshot(fake).remote_frees, 100);
	interrupted = test_port_begin(0, false);
	CHECK(oracle_alloc(oracle, 64, 0));
	test_port_end(interrupted);
	CHECK(!heap_of(&fake->rig->heap)->parked[0]);
	fake_end(fake);
}

/* A second free in a parked context is one, whichever kind of page. */
static void test_park_double_free(void)
{
	for (size_t i = 0; i < SIZES; i++) {
		struct fake *fake = fake_begin(
			FALLOW_CLASS_WINDOW, 512 * MIB, 2);
		void *volatile p = fallow_alloc(&fake->rig->heap, sizes[i]);
		void *q = fallow_alloc(&fake->rig->heap, sizes[i]);

		fallow_park(&fake->rig->heap);
		fallow_free(&fake->rig->heap, p);
		CHECK_EQUAL(fake->rig->misuses, 0);
		fallow_free(&fake->rig->heap, p);
		CHECK_EQUAL(fake->rig->misuses, 1);
		CHECK_EQUAL(fake->rig->misuse.kind, FALLOW_MISUSE_DOUBLE_FREE);
		CHECK_EQUAL(fake->rig->misuse.block, p);
		fake->rig->misuses_expected = 1;
		fallow_unpark(&fake->rig->heap);
		fallow_free(&fake->rig->heap, q);
		fake_end(fake);
	}
}

/* While somebody looks at a page of a parked context, its handler's call does
 * not wait if it says so, and its frees never do. */
static void test_park_nowait(void)
{
	struct fake *fake = begin_idle();
	struct fallow *heap = &fake->rig->heap;
	struct lock *lock = &heap_of(heap)->locals[0]->lock;
	void *p = fallow_alloc(heap, 64);
	struct test_port interrupted, other;
	struct fl_port_state state;

	fallow_park(heap);
	other = test_port_begin(1, true);
	state = lock_take(lock);
	interrupted = test_port_begin(0, false);
	CHECK(fallow_alloc_flags(heap, 64, FALLOW_NOWAIT) == NULL);
	fallow_free(heap, p);
	test_port_end(interrupted);
	lock_leave(lock, state);
	test_port_end(other);
	interrupted = test_port_begin(0, false);
	p = fallow_alloc_flags(heap, 64, FALLOW_NOWAIT);
	CHECK(p != NULL);
	fallow_free(heap, p);
	test_port_end(interrupted);
	fake_end(fake);
}

/* Thousands of times, in all contexts, with everything else in between: also
 * the CPU that a thread comes to in the middle of a call may be parked. */
static void park_cycles(size_t budget)
{
	struct fake *fake = fake_begin(FALLOW_CLASS_WINDOW, 512 * MIB, 4);
	struct oracle *oracle = &fake->rig->oracle;

	fake->migrate_rate = fake->handler_rate = fake->other_rate = 64;
	fake->park_rate = 128;
	fake->rig->sim.budget = budget;
	oracle->may_fail = budget;
	oracle->volume = 16 * MIB;
	for (unsigned i = 1; i <= 20000 && !test_failures(); i++) {
		if (i % 3 == 0)
			fake_switch(fake);
		oracle_step(oracle);
		if (i % 5 == 0)
			fallow_park(&fake->rig->heap);
		if (i % 11 == 0)
			fallow_unpark(&fake->rig->heap);
		if (i % 97 == 0)
			fallow_offline(&fake->rig->heap);
		if (i % 101 == 0 && test_port_waits()) {
			test_port.entry_irqs_on = true;
			fallow_collect(&fake->rig->heap);
		}
		if (i % 500 == 0)
			fake_check(fake);
	}
	CHECK(fake->migrations > 0 && fake->handlers > 0 && fake->others > 0);
	oracle_shrink(oracle, 0);
	oracle_shrink(&fake->inner, 0);
	for (unsigned i = 0; i < 4 * FAKE_LEVELS; i++) {
		test_port.context = i;
		fallow_park(&fake->rig->heap);
	}
	fake->migrate_rate = fake->handler_rate = fake->other_rate = 0;
	collect_as(fake, 0);
	CHECK_EQUAL(snapshot(fake).committed, 0);
	fake_end(fake);
}

static void test_park_cycles(void)
{
	park_cycles(0);
}

static void test_park_cycles_exhausted(void)
{
	park_cycles(12 * MIB);
}

const struct test tests[] = {
	{ "park_swept", test_park_swept },
	{ "park_keeps_blocks", test_park_keeps_blocks },
	{ "park_unpark", test_park_unpark },
	{ "park_unpark_while_swept", test_park_unpark_while_swept },
	{ "park_handler", test_park_handler },
	{ "park_double_free", test_park_double_free },
	{ "park_nowait", test_park_nowait },
	{ "park_cycles", test_park_cycles },
	{ "park_cycles_exhausted", test_park_cycles_exhausted },
	{ NULL, NULL },
};
