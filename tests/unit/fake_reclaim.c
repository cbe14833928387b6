/* SPDX-License-Identifier: MIT */
/*
 * Reclaims of several contexts: what those that run hand over, and what a sweep
 * that is under way, or comes after, makes of it.
 */
#include "swept_fake.h"

/* A context that is busy is asked, answers at its next slow path, and what it
 * hands over is fetched, by whoever sweeps next, who is told. */
static void test_reclaim_busy_owner(void)
{
	struct fake *fake = clock_begin(2, FALLOW_FLOOR_NONE);
	struct oracle *oracle = &fake->rig->oracle;
	struct sim *sim = &fake->rig->sim;
	size_t before, after;

	for (unsigned i = 0; i < 2000; i++)
		CHECK(oracle_alloc(oracle, 1000, 0));
	oracle_shrink(oracle, 60);
	for (unsigned i = 0; i < 4 && sweep_as(fake, 1) != 0; i++)
		sim->ticks += TICKS;
	before = committed(fake);
	CHECK_EQUAL(reclaim_as(fake, 1, FALLOW_RECLAIM_FLOOR), 0);
	CHECK_EQUAL(committed(fake), before);
	/* Slow paths: pages of other classes. */
	for (unsigned i = 0; i < 20; i++)
		CHECK(oracle_alloc(oracle, 2000 + 300 * i, 0));
	CHECK(inside(fake)->handed > 0);
	CHECK_EQUAL(sim->made[SIM_WANTED], 1);
	fake_check(fake);
	before = committed(fake);
	after = reclaim_as(fake, 1, FALLOW_RECLAIM_HOLD);
	CHECK_EQUAL(inside(fake)->handed, 0);
	CHECK(after > MIB);
	CHECK_EQUAL(committed(fake), before - after);
	fake_check(fake);
	fake_end(fake);
}

static size_t meanwhile_bytes;

static void reclaim_meanwhile(struct sim *sim, enum sim_call call)
{
	struct fake *fake = sim->during_arg;

	if (call != SIM_DECOMMIT || fake->nesting > 0)
		return;
	fake->nesting++;
	meanwhile_bytes += reclaim_as(fake, 1, FALLOW_RECLAIM_FLOOR);
	fake->nesting--;
}

/* A sweep that is under way is no reason for a reclaim to return nothing. */
static void test_reclaim_during_sweep(void)
{
	struct fake *fake = clock_begin(3, FALLOW_FLOOR_NONE);
	void *blocks[2][256];

	for (unsigned i = 0; i < 256; i++) {
		blocks[0][i] = alloc_as(fake, 0, 2 * KIB);
		blocks[1][i] = alloc_as(fake, 1, 2 * KIB);
	}
	for (unsigned i = 1; i < 256; i++) {
		free_as(fake, 0, blocks[0][i]);
		free_as(fake, 1, blocks[1][i]);
	}
	fake->rig->sim.during = reclaim_meanwhile;
	meanwhile_bytes = 0;
	sweep_as(fake, 0);
	CHECK(meanwhile_bytes >= 6 * SLICE_BYTES);
	fake->rig->sim.during = NULL;
	free_as(fake, 0, blocks[0][0]);
	free_as(fake, 1, blocks[1][0]);
	fake_end(fake);
}

/* What a reclaim left in the floor is old news to this epoch's sweep, which
 * must not say for that that nothing is left. */
static void test_sweep_after_reclaim(void)
{
	struct fake *fake = clock_begin(2, 4 * MIB);
	void *blocks[2];
	unsigned n;

	blocks[0] = alloc_as(fake, 1, 300 * KIB);
	blocks[1] = alloc_as(fake, 1, 300 * KIB);
	free_as(fake, 1, blocks[1]);
	sweep_as(fake, 0);
	fake->rig->sim.ticks += TICKS;
	sweep_as(fake, 0);
	reclaim_as(fake, 1, FALLOW_RECLAIM_HOLD);
	CHECK(committed(fake) >= 600 * KIB);
	for (n = 0; n < 400 && sweep_as(fake, 1) != 0; n++)
		fake->rig->sim.ticks += TICKS;
	CHECK(n > 0 && n < 400);
	CHECK(committed(fake) <= 344 * KIB);
	free_as(fake, 1, blocks[0]);
	fake_end(fake);
}

/* The same of what a context kept when it was asked for memory. */
static void test_sweep_after_answer(void)
{
	struct fake *fake = clock_begin(2, 4 * MIB);
	void *blocks[2], *other;
	unsigned n;

	blocks[0] = alloc_as(fake, 1, 300 * KIB);
	blocks[1] = alloc_as(fake, 1, 300 * KIB);
	free_as(fake, 1, blocks[1]);
	sweep_as(fake, 0);
	fake->rig->sim.ticks += TICKS;
	sweep_as(fake, 0);
	reclaim_as(fake, 0, FALLOW_RECLAIM_HOLD);
	/* Takes the slow path. */
	other = alloc_as(fake, 1, 2 * MIB);
	free_as(fake, 1, other);
	for (n = 0; n < 400 && sweep_as(fake, 1) != 0; n++)
		fake->rig->sim.ticks += TICKS;
	CHECK(n > 0 && n < 400);
	CHECK(committed(fake) <= 344 * KIB);
	free_as(fake, 1, blocks[0]);
	fake_end(fake);
}

/* A request that context 0 answers in full: slow paths of another size. */
static void answer(struct fake *fake)
{
	struct heap *heap = inside(fake);

	for (unsigned i = 0; i < 100 &&
		heap->request != heap->locals[0]->answered; i++)
		free_as(fake, 0, alloc_as(fake, 0, 2 * MIB));
	CHECK_EQUAL(heap->locals[0]->answered, heap->request);
}

/* A page that is as it was costs the owner next to nothing: its free blocks,
 * which are linked to nowhere here, are not looked at. */
static void test_answer_passes_what_is_as_it_was(void)
{
	struct fake *fake = clock_begin(2, FALLOW_FLOOR_NONE);
	void *blocks[4][128];
	struct block *link, *next;
	struct page *page;
	void *other;

	for (unsigned i = 0; i < 4; i++)
		for (unsigned n = 0; n < 128; n++)
			blocks[i][n] = alloc_as(fake, 0, 512);
	/* What the class allocates from. */
	other = alloc_as(fake, 0, 512);
	/* Every other block: no granule can go. */
	for (unsigned n = 0; n < 128; n += 2)
		free_as(fake, 0, blocks[0][n]);
	reclaim_as(fake, 1, FALLOW_RECLAIM_FLOOR);
	answer(fake);
	page = map_find(inside(fake), (uintptr_t)blocks[0][0]);
	CHECK(page->place == PLACE_QUEUE);
	link = page->free;
	next = link->next;
	link->next = (struct block *)GRANULE_BYTES;
	reclaim_as(fake, 1, FALLOW_RECLAIM_FLOOR);
	answer(fake);
	link->next = next;
	/* One that is not, is. */
	for (unsigned n = 1; n < 128; n += 2)
		free_as(fake, 0, n < 120 ? blocks[0][n] : NULL);
	reclaim_as(fake, 1, FALLOW_RECLAIM_FLOOR);
	answer(fake);
	/* With what the answer was made by. */
	CHECK_EQUAL(reclaim_as(fake, 1, FALLOW_RECLAIM_FLOOR),
		2 * MIB + 15 * GRANULE_BYTES);
	for (unsigned n = 0; n < 4 * 128; n++)
		if (n > 127 || (n > 119 && n % 2 == 1))
			free_as(fake, 0, blocks[n / 128][n % 128]);
	free_as(fake, 0, other);
	fake_end(fake);
}

/* The owner answers again while what it handed over is being given back. */
static void *pending_blocks[2][64];

static void pending_during(struct sim *sim, enum sim_call call)
{
	struct fake *fake = sim->during_arg;

	if (call != SIM_DECOMMIT || fake->nesting > 0)
		return;
	fake->nesting++;
	for (unsigned n = 32; n < 64; n++)
		if (pending_blocks[0][n] != NULL) {
			free_as(fake, 0, pending_blocks[0][n]);
			pending_blocks[0][n] = NULL;
		}
	if (inside(fake)->handed == 0)
		answer(fake);
	fake->nesting--;
}

static void test_answer_leaves_what_is_pending(void)
{
	struct fake *fake = clock_begin(2, FALLOW_FLOOR_NONE);

	for (unsigned i = 0; i < 2; i++)
		for (unsigned n = 0; n < 32 * (2 - i); n++)
			pending_blocks[i][n] = alloc_as(fake, 0, 1024);
	for (unsigned n = 0; n < 32; n++)
		free_as(fake, 0, pending_blocks[0][n]);
	reclaim_as(fake, 1, FALLOW_RECLAIM_FLOOR);
	answer(fake);
	CHECK(inside(fake)->handed > 0);
	fake->rig->sim.during = pending_during;
	CHECK(reclaim_as(fake, 1, FALLOW_RECLAIM_FLOOR) > 0);
	fake->rig->sim.during = NULL;
	CHECK(pending_blocks[0][63] == NULL);
	CHECK(fallow_check(&fake->rig->heap, NULL) == NULL);
	for (unsigned n = 0; n < 32; n++)
		free_as(fake, 0, pending_blocks[1][n]);
	fake_end(fake);
}

/* Memory that another is giving back while a call finds none: so long until it
 * has come. */
static struct {
	struct fake *fake;
	unsigned left;
} coming;

static void coming_step(void)
{
	struct heap *heap = inside(coming.fake);

	if (coming.left == 0 || --coming.left > 0)
		return;
	coming.fake->rig->sim.budget = 0;
	heap->sweeping.given++;
	heap->sweeping.giving = 0;
}

/* Tries to get memory that there is none of, while a batch is on its way for
 * `left` steps; 0: for ever. */
static void *coming_alloc(struct fake *fake, unsigned flags, unsigned left)
{
	void *block;

	coming.fake = fake;
	coming.left = left;
	fake->rig->sim.budget = committed(fake);
	inside(fake)->sweeping.giving = 1;
	test_port.waits = 0;
	test_port.step = coming_step;
	test_port.entry_irqs_on = test_port.irqs_on;
	block = fallow_alloc_flags(&fake->rig->heap, MIB, flags);
	test_port.step = NULL;
	inside(fake)->sweeping.giving = 0;
	fake->rig->sim.budget = 0;
	return block;
}

/* A call that may wait gets what another is just giving back; one that may not
 * does not wait; and nobody waits for ever. */
static void test_reclaim_waits_for_others(void)
{
	struct fake *fake = clock_begin(2, FALLOW_FLOOR_NONE);
	void *first = alloc_as(fake, 0, 100);
	void *block = coming_alloc(fake, 0, 1000);

	CHECK(block != NULL);
	CHECK(test_port.waits > 0);
	fallow_free(&fake->rig->heap, block);
	fallow_collect(&fake->rig->heap);
	CHECK(coming_alloc(fake, FALLOW_NOWAIT, 0) == NULL);
	CHECK_EQUAL(test_port.waits, 0);
	CHECK(coming_alloc(fake, FALLOW_NORECLAIM, 0) == NULL);
	CHECK_EQUAL(test_port.waits, 0);
	test_port.irqs_on = false;
	test_port.held = FALLOW_MODEL == FALLOW_MODEL_PREEMPT;
	CHECK(coming_alloc(fake, 0, 0) == NULL);
	CHECK_EQUAL(test_port.waits, 0);
	test_port.irqs_on = true;
	test_port.held = false;
	CHECK(coming_alloc(fake, 0, 0) == NULL);
	CHECK(test_port.waits > 0);
	free_as(fake, 0, first);
	fake_end(fake);
}

/* What is on its way is counted from the first range to the last. */
static void giving_seen(struct sim *sim, enum sim_call call)
{
	struct fake *fake = sim->during_arg;

	if (call == SIM_DECOMMIT)
		meanwhile_bytes += inside(fake)->sweeping.giving;
}

static void test_reclaim_counts_batches(void)
{
	struct fake *fake = clock_begin(1, FALLOW_FLOOR_NONE);
	uint32_t given = inside(fake)->sweeping.given;
	void *block = alloc_as(fake, 0, 100);

	free_as(fake, 0, alloc_as(fake, 0, MIB));
	meanwhile_bytes = 0;
	fake->rig->sim.during = giving_seen;
	reclaim_as(fake, 0, FALLOW_RECLAIM_FLOOR);
	fake->rig->sim.during = NULL;
	CHECK(meanwhile_bytes > 0);
	CHECK_EQUAL(inside(fake)->sweeping.given - given, meanwhile_bytes);
	CHECK_EQUAL(inside(fake)->sweeping.giving, 0);
	free_as(fake, 0, block);
	fake_end(fake);
}

const struct test tests[] = {
	{ "reclaim_busy_owner", test_reclaim_busy_owner },
	{ "reclaim_during_sweep", test_reclaim_during_sweep },
	{ "sweep_after_reclaim", test_sweep_after_reclaim },
	{ "sweep_after_answer", test_sweep_after_answer },
	{ "answer_passes_what_is_as_it_was",
		test_answer_passes_what_is_as_it_was },
	{ "answer_leaves_what_is_pending",
		test_answer_leaves_what_is_pending },
	{ "reclaim_waits_for_others", test_reclaim_waits_for_others },
	{ "reclaim_counts_batches", test_reclaim_counts_batches },
	{ NULL, NULL },
};
