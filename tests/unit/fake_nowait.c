/* SPDX-License-Identifier: MIT */
/*
 * FALLOW_NOWAIT: whatever others hold and wherever they are, such a call
 * neither waits nor calls the provider.
 *
 * The port lets another execution in wherever the code that runs enters or
 * leaves a context or a lock.  There some or all of the heap's locks become
 * held, as if CPUs that do not go on had them, and a handler allocates, grows
 * blocks, takes from a token and defers frees; a single pause of it fails the
 * test.  In its middle others take those locks and let them go.
 */
#include "reserve.h"
#include "sim_fake.h"
#include "test.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

#define CONTEXTS 3
/* heap->lock, reserve_lock, the same lock and the local's of the pool, and each
 * context's. */
#define LOCKS (4 + CONTEXTS)

static struct fake *running;
/* Of the handlers: how many ran, and how many blocks and NULLs they got. */
static uint64_t handlers, blocks, nulls;

static struct heap *heap_now(void)
{
	return heap_of(&running->rig->heap);
}

/* The heap's i-th lock; NULL if there is no such. */
static struct lock *lock_at(unsigned i)
{
	struct heap *heap = heap_now();
	struct heap *pool = heap_reserve(heap);

	if (i == 0)
		return &heap->lock;
	if (i == 1)
		return &heap->reserve_lock;
	if (i < 4 && pool == NULL)
		return NULL;
	if (i == 2)
		return &pool->lock;
	if (i == 3)
		return &pool->locals[0]->lock;
	return &heap->locals[i - 4]->lock;
}

/* Makes the locks of a set held by somebody who does not go on; returns those
 * that were not held before. */
static unsigned locks_hold(unsigned set)
{
	unsigned held = 0;

	for (unsigned i = 0; i < LOCKS; i++) {
		struct lock *lock = lock_at(i);

		if (!(set >> i & 1) || lock == NULL || lock_held(lock))
			continue;
		lock->next++;
		held |= 1u << i;
	}
	return held;
}

static void locks_release(unsigned held)
{
	for (unsigned i = 0; i < LOCKS; i++)
		if (held >> i & 1)
			lock_at(i)->serving++;
}

/* The locks that are held so now. */
static unsigned held_now;

/* Other locks are held from now on, or the same. */
static void locks_change(unsigned set)
{
	locks_release(held_now);
	held_now = locks_hold(set);
}

static uint64_t draw(unsigned below)
{
	return test_random(&running->random) % below;
}

/* A size of any kind of page, or of a span. */
static size_t size_draw(void)
{
	return draw(200) << draw(15);
}

/* One operation of a handler, which may have all that is there and waits for
 * nothing. */
static void handler_operate(void)
{
	struct oracle *inner = &running->inner;
	unsigned flags = FALLOW_NOWAIT | (draw(2) ? FALLOW_ZERO : 0) |
		(draw(2) ? FALLOW_RESERVE : 0);

	if (inner->count > 0 && (inner->count > 60 || draw(3) == 0)) {
		size_t index = draw((unsigned)inner->count);

		if (draw(2))
			oracle_realloc(inner, index, size_draw(), flags);
		else
			fallow_free_deferred(&running->rig->heap,
				(void *)oracle_forget(inner, index).base);
		return;
	}
	if (oracle_alloc(inner, size_draw(), flags))
		blocks++;
	else
		nulls++;
}

/* All, none, or some of them. */
static unsigned set_draw(void)
{
	static const unsigned all = (1u << LOCKS) - 1;
	unsigned set = (unsigned)draw(all + 1);

	switch (draw(3)) {
	case 0:
		return all;
	case 1:
		return 0;
	default:
		return set;
	}
}

/* In the middle of a handler's operation. */
static void locks_step(void)
{
	locks_change(set_draw());
}

/* What handlers take their blocks from that they must have. */
static struct fallow_token handler_token;

/* There is a block as long as there is one, wherever this comes in. */
static void handler_take(void)
{
	size_t left = handler_token.left;
	void *block = fallow_alloc_from(&handler_token);

	CHECK((block != NULL) == (left > 0));
	CHECK_EQUAL(test_port.depth, 0);
	fallow_free_deferred(&running->rig->heap, block);
}

/* What comes in at a step: a handler on this CPU if that can be interrupted,
 * else code on another one, interrupts masked. */
static void handler_run(void)
{
	unsigned context = test_port.context;
	struct test_port interrupted;
	bool nowait = sim_nowait;

	if (!test_port.irqs_on || FALLOW_MODEL == FALLOW_MODEL_PREEMPT)
		context = (context + 1) % CONTEXTS;
	locks_change(set_draw());
	interrupted = test_port_begin(context, false);
	test_port.step = locks_step;
	test_port.stepping = false;
	handlers++;
	if (draw(8))
		handler_operate();
	else
		handler_take();
	CHECK_EQUAL(test_port.waits, 0);
	test_port_end(interrupted);
	locks_change(0);
	sim_nowait = nowait;
}

/* At some of the steps. */
static void step(void)
{
	if (running->nesting == 0 && draw(8) == 0)
		handler_run();
}

static struct fake *begin(
	enum fallow_provider_class class, size_t budget, size_t reserve)
{
	struct fake *fake = fake_begin(class, 512 * MIB, CONTEXTS);
	struct rig *rig = fake->rig;

	if (reserve > 0) {
		fallow_fini(&rig->heap);
		for (unsigned i = 0; i < SIM_CALLS; i++)
			rig->sim.made[i] = 0;
		rig->config.reserve_bytes = reserve;
		CHECK_EQUAL(rig_init(rig), FALLOW_OK);
		rig->oracle.before = fake->inner.before;
		rig->oracle.after = fake->inner.after;
	}
	rig->sim.budget = budget;
	rig->oracle.may_fail = true;
	rig->oracle.volume = 8 * MIB;
	rig->oracle.size_max = 2 * MIB;
	running = fake;
	handlers = blocks = nulls = 0;
	return fake;
}

static void end(struct fake *fake)
{
	test_port.step = NULL;
	fake_end(fake);
	running = NULL;
}

/* One thing that a task does, of all that take locks. */
static void task_operate(struct fake *fake, unsigned i)
{
	struct fallow *heap = &fake->rig->heap;
	struct fallow_token token = { 0 };

	test_port.context = (unsigned)draw(CONTEXTS);
	test_port.entry_irqs_on = true;
	oracle_step(&fake->rig->oracle);
	if (i % 31 == 0)
		fallow_offline(heap);
	if (i % 17 == 0)
		fallow_park(heap);
	if (i % 101 == 0)
		fallow_collect(heap);
	if (i % 23 == 0) {
		(void)!fallow_prefill(heap, &token, size_draw(), 5, 0);
		fallow_unfill(heap, &token);
	}
}

static void storm(
	enum fallow_provider_class class, size_t budget, size_t reserve)
{
	struct fake *fake = begin(class, budget, reserve);

	for (unsigned i = 1; i <= 6000 && !test_failures(); i++) {
		if (i % 100 == 1)
			(void)!fallow_prefill(&fake->rig->heap, &handler_token,
				300, handler_token.left + 100, 0);
		test_port.step = step;
		task_operate(fake, i);
		test_port.step = NULL;
		if (i % 300 == 0) {
			fallow_unfill(&fake->rig->heap, &handler_token);
			fake_check(fake);
		}
	}
	fallow_unfill(&fake->rig->heap, &handler_token);
	CHECK(handlers > 1000);
	CHECK(blocks > 100);
	CHECK(nulls > 100);
	end(fake);
}

static void test_nowait_never_waits(void)
{
	storm(FALLOW_CLASS_WINDOW, 0, 0);
}

static void test_nowait_never_waits_exhausted(void)
{
	storm(FALLOW_CLASS_WINDOW, 8 * MIB, 0);
}

static void test_nowait_never_waits_direct(void)
{
	storm(FALLOW_CLASS_DIRECT, 12 * MIB, 0);
}

static void test_nowait_never_waits_reserve(void)
{
	storm(FALLOW_CLASS_WINDOW, 8 * MIB, MIB);
}

/* A handler gets the emergency pool's blocks when there is nothing else, with
 * one lock held or another, but for the pool's own. */
static void test_nowait_reserve(void)
{
	struct fake *fake = begin(FALLOW_CLASS_WINDOW, 8 * MIB, MIB);
	struct fallow *heap = &fake->rig->heap;
	struct test_port interrupted;
	void *p;

	while (oracle_alloc(&fake->rig->oracle, 64 * KIB, 0))
		;
	for (unsigned i = 0; i < LOCKS; i++) {
		locks_change(1u << i);
		interrupted = test_port_begin(1, false);
		sim_nowait = true;
		p = fallow_alloc_flags(
			heap, 64 * KIB, FALLOW_RESERVE | FALLOW_NOWAIT);
		CHECK_EQUAL(test_port.waits, 0);
		/* Under the pool's inner lock it may have a page already. */
		CHECK((p != NULL) == (i != 1) || i == 2);
		CHECK(fallow_alloc_flags(heap, 64 * KIB, FALLOW_NOWAIT) ==
			NULL);
		CHECK_EQUAL(test_port.waits, 0);
		test_port_end(interrupted);
		sim_nowait = false;
		locks_change(0);
		fallow_free(heap, p);
	}
	end(fake);
}

/* A kernel adds its memory before it enables interrupts. */
static void test_reserve_masked_boot(void)
{
	struct fake *fake = begin(FALLOW_CLASS_WINDOW, 0, MIB);
	struct rig *rig = fake->rig;
	struct fallow_snapshot now = { .size = sizeof(now) };
	struct test_port interrupted;

	fallow_fini(&rig->heap);
	for (unsigned i = 0; i < SIM_CALLS; i++)
		rig->sim.made[i] = 0;
	interrupted = test_port_begin(0, false);
	test_port.entry_irqs_on = false;
	sim_irqs_off = true;
	CHECK_EQUAL(rig_init(rig), FALLOW_OK);
	sim_irqs_off = false;
	test_port_end(interrupted);
	fallow_snapshot(&rig->heap, &now);
	CHECK(now.reserve >= MIB);
	end(fake);
}

/* What a token took before memory ended is given back without waiting, whoever
 * holds which lock by then. */
static void test_nowait_prefill_fails(void)
{
	for (unsigned i = 0; i < 40; i++) {
		struct fake *fake = begin(FALLOW_CLASS_WINDOW, 0, 0);
		struct fallow *heap = &fake->rig->heap;
		struct fallow_token token = { 0 };
		size_t size = size_draw() + (i % 4 < 2 ? 0 : MIB);

		/* Blocks that have been handed out by now are another's. */
		CHECK(fallow_prefill(heap, &token, size, 20, 0));
		test_port.context = i % 2;
		fallow_unfill(heap, &token);
		test_port.context = 0;
		test_port.waits = 0;
		test_port.step = locks_step;
		sim_nowait = true;
		CHECK(!fallow_prefill(heap, &token, size, 1000000,
			FALLOW_NOWAIT));
		sim_nowait = false;
		test_port.step = NULL;
		locks_change(0);
		CHECK_EQUAL(test_port.waits, 0);
		CHECK_EQUAL(token.left, 0);
		end(fake);
	}
}

/* A realloc that moves the last block out of a page of the context's own, with
 * all locks held: the page stays, empty, and is used again. */
static void test_nowait_realloc_empties(void)
{
	static const size_t sizes[] = {
		100, 2000, 8 * KIB, 20 * KIB, 64 * KIB
	};

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct fake *fake = begin(FALLOW_CLASS_WINDOW, 0, 0);
		struct fallow *heap = &fake->rig->heap;
		struct fallow_token first = { 0 }, second = { 0 };
		struct page *page;
		size_t n;
		void *p, *to;

		/* A page full, and another one begun. */
		p = fallow_alloc(heap, sizes[i]);
		CHECK_OR_RETURN(p != NULL);
		page = map_find(heap_now(), (uintptr_t)p);
		n = page->capacity - 1u;
		CHECK(fallow_prefill(heap, &first, sizes[i], n, 0));
		CHECK(fallow_prefill(heap, &second, sizes[i], 1, 0));
		fallow_unfill(heap, &first);
		CHECK(map_find(heap_now(), (uintptr_t)p) == page);
		CHECK_EQUAL(page_used(page), 1);
		/* Room for the block to go to. */
		to = fallow_alloc(heap, sizes[i] * 3);
		fallow_free(heap, to);
		locks_change(~0u);
		test_port.waits = 0;
		sim_nowait = true;
		to = fallow_realloc_flags(
			heap, p, sizes[i] * 3, FALLOW_NOWAIT);
		sim_nowait = false;
		CHECK_EQUAL(test_port.waits, 0);
		locks_change(0);
		if (sizes[i] * 3 <= SIZE_CLASS_MAX) {
			CHECK(to != NULL);
			CHECK_EQUAL(page_used(page), 0);
			CHECK(map_find(heap_now(), page->base) == page);
		}
		fallow_free(heap, to != NULL ? to : p);
		fallow_unfill(heap, &second);
		end(fake);
	}
}

/* The other call that extends the tables has done so. */
static void growing_over(void)
{
	if (test_port.waits <= 2)
		return;
	fl_store_relaxed(&heap_now()->growing, false);
	test_port.step = NULL;
}

/* While the tables are being extended, who may wait does so with interrupts as
 * at the entry; who may not gets NULL. */
static void test_nowait_growing(void)
{
	struct fake *fake = begin(FALLOW_CLASS_WINDOW, 0, 0);
	struct fallow *heap = &fake->rig->heap;
	struct test_port interrupted;
	void *p;

	heap_now()->growing = true;
	interrupted = test_port_begin(1, false);
	CHECK(fallow_alloc(heap, 3 * MIB) == NULL);
	CHECK_EQUAL(test_port.waits, 0);
	test_port_end(interrupted);
	test_port.waits = 0;
	test_port.step = growing_over;
	p = fallow_alloc(heap, 3 * MIB);
	CHECK(p != NULL);
	CHECK(test_port.waits > 2);
	CHECK_EQUAL(test_port.masked_waits, 0);
	fallow_free(heap, p);
	end(fake);
}

/* So does the adding of a region. */
static void test_nowait_add_region(void)
{
	struct fake *fake = fake_begin(FALLOW_CLASS_WINDOW, 64 * MIB, CONTEXTS);
	struct rig *rig = fake->rig;

	running = fake;
	fallow_fini(&rig->heap);
	for (unsigned i = 0; i < SIM_CALLS; i++)
		rig->sim.made[i] = 0;
	CHECK_EQUAL(fallow_init(&rig->heap, &rig->config), FALLOW_OK);
	heap_now()->growing = true;
	test_port.waits = test_port.masked_waits = 0;
	test_port.step = growing_over;
	CHECK_EQUAL(fallow_add_region(
			    &rig->heap, rig->sim.base, rig->sim.size),
		FALLOW_OK);
	CHECK(test_port.waits > 2);
	CHECK_EQUAL(test_port.masked_waits, 0);
	end(fake);
}

const struct test tests[] = {
	{ "nowait_never_waits", test_nowait_never_waits },
	{ "nowait_never_waits_exhausted", test_nowait_never_waits_exhausted },
	{ "nowait_never_waits_direct", test_nowait_never_waits_direct },
	{ "nowait_never_waits_reserve", test_nowait_never_waits_reserve },
	{ "nowait_reserve", test_nowait_reserve },
	{ "reserve_masked_boot", test_reserve_masked_boot },
	{ "nowait_prefill_fails", test_nowait_prefill_fails },
	{ "nowait_realloc_empties", test_nowait_realloc_empties },
	{ "nowait_growing", test_nowait_growing },
	{ "nowait_add_region", test_nowait_add_region },
	{ NULL, NULL },
};
