/* SPDX-License-Identifier: MIT */
/*
 * What allocators that give memory back have got wrong before, where contexts
 * meet (test_lessons.c has what one can show): a floor that everybody has a
 * share of and that somebody's going defeats; epochs that eight idle loops make
 * eight times as short; two CPUs that want a shootdown and cannot wait for it;
 * and the word "nothing is left", which must be true whoever says it.
 */
#include <string.h>

#include "heap.h"
#include "sim_fake.h"
#include "test.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define TICKS 100
#define WIDE (1100 * MIB)
#define SETTLED 4

static struct heap *inside(struct fake *fake)
{
	return heap_of(&fake->rig->heap);
}

static size_t committed(struct fake *fake)
{
	return inside(fake)->counters.committed;
}

/* From now on this code is a task on CPU `context`. */
static struct fallow *as(struct fake *fake, unsigned context)
{
	test_port.context = context;
	test_port.irqs_on = test_port.entry_irqs_on = true;
	test_port.held = false;
	return &fake->rig->heap;
}

/* The same where it may not wait for other CPUs. */
static struct fallow *as_masked(struct fake *fake, unsigned context)
{
	struct fallow *heap = as(fake, context);

	test_port.irqs_on = test_port.entry_irqs_on = false;
	test_port.held = FALLOW_MODEL == FALLOW_MODEL_PREEMPT;
	return heap;
}

/* Several contexts, and a clock if epochs are to have a length. */
static struct fake *begin(unsigned contexts, size_t floor, uint64_t ticks)
{
	struct fake *fake = fake_prepare(FALLOW_CLASS_WINDOW, WIDE, contexts);

	if (ticks > 0)
		sim_clock(&fake->rig->sim);
	fake->rig->config.epoch_ticks = ticks;
	fake->rig->config.floor_bytes = floor;
	fake_init(fake);
	return fake;
}

/* In each of the next n epochs a sweep of every context. */
static void epochs(struct fake *fake, unsigned n)
{
	for (; n > 0; n--) {
		fake->rig->sim.ticks += TICKS;
		for (unsigned i = 0; i < fake->contexts; i++)
			fallow_sweep(as(fake, i), SIZE_MAX);
	}
}

/* Calls of the provider that moved memory. */
static uint64_t calls(const struct fake *fake)
{
	return fake->rig->sim.made[SIM_COMMIT] +
		fake->rig->sim.made[SIM_DECOMMIT];
}

/* ----------------------------------------------------------------- floor -- */

#define BUFFERS 8
#define BUFFER (256 * KIB)

/* What becomes of a context whose pages the floor keeps. */
enum going {
	GOING_RETIRE,  /* its pages empty by its own frees, and go */
	GOING_REMOTE,  /* the same by another's frees */
	GOING_COLLECT, /* a reclaim that is not to touch the floor */
	GOING_PARK,
	GOING_EXIT,    /* it goes offline, with all free */
	GOING_ABANDON, /* it goes offline with blocks in use, freed later */
	GOING_LEFT,    /* it goes offline with one block in use, which stays */
	GOINGS,
};

static void buffers_take(struct fallow *heap, void **buffers)
{
	for (unsigned i = 0; i < BUFFERS; i++) {
		buffers[i] = fallow_alloc(heap, BUFFER);
		CHECK_OR_RETURN(buffers[i] != NULL);
		memset(buffers[i], 0x5a, BUFFER);
	}
}

static void buffers_give(struct fallow *heap, void **buffers)
{
	for (unsigned i = 0; i < BUFFERS; i++)
		fallow_free(heap, buffers[i]);
}

/* Context 0 has its buffers no more, in one of the ways; LEFT leaves the first
 * one in use. */
static void buffers_end(struct fake *fake, void **buffers, enum going going)
{
	if (going == GOING_LEFT) {
		for (unsigned i = 1; i < BUFFERS; i++)
			fallow_free(as(fake, 0), buffers[i]);
		fallow_offline(as(fake, 0));
		return;
	}
	if (going == GOING_ABANDON) {
		fallow_offline(as(fake, 0));
		buffers_give(as(fake, 1), buffers);
		return;
	}
	buffers_give(as(fake, going == GOING_REMOTE ? 1 : 0), buffers);
	if (going == GOING_COLLECT) {
		/* Its pages have gone to the free slices. */
		epochs(fake, 1);
		fallow_reclaim(as(fake, 1), FALLOW_RECLAIM_HOLD);
	} else if (going == GOING_PARK) {
		fallow_park(as(fake, 0));
	} else if (going == GOING_EXIT) {
		fallow_offline(as(fake, 0));
	}
}

/* Again and again: whoever needs buffers next finds those that are kept. */
static void floor_run(enum going going)
{
	struct fake *fake = begin(2, 2 * MIB, TICKS);
	void *buffers[BUFFERS];
	uint64_t before = 0;

	for (unsigned round = 0; round < 12; round++) {
		buffers_take(as(fake, 0), buffers);
		epochs(fake, 1);
		buffers_end(fake, buffers, going);
		epochs(fake, SETTLED);
		if (round == 1)
			before = calls(fake);
		/* Of the buffer that was left over another context, which
		 * freed it, has the memory when the next round begins. */
		CHECK(committed(fake) >= BUFFERS * BUFFER);
		CHECK(committed(fake) <= BUFFERS * BUFFER +
				(going == GOING_LEFT ? BUFFER : 0));
		if (going == GOING_LEFT)
			fallow_free(as(fake, 1), buffers[0]);
	}
	CHECK_EQUAL(calls(fake), before);
	/* It is not kept for ever for that. */
	epochs(fake, FALLOW_FLOOR_EPOCHS + 2);
	CHECK_EQUAL(committed(fake), 0);
	if (test_failures() > 0)
		test_printf("\n    going %u", going);
	as(fake, 0);
	fake_end(fake);
}

static void test_floor_outlives_its_context(void)
{
	for (unsigned going = 0; going < GOINGS && test_failures() == 0;
		going++)
		floor_run((enum going)going);
}

/* ---------------------------------------------------------------- epochs -- */

/* The sweeps of one idle loop until a span that was freed, and that is too large
 * for its context to keep, has gone. */
static unsigned age_run(unsigned contexts, unsigned first)
{
	struct fake *fake = begin(contexts, FALLOW_FLOOR_NONE, 0);
	void *span = fallow_alloc(as(fake, 0), 2 * MIB);
	unsigned n = 0;

	/* Epochs are somebody's already. */
	fallow_sweep(as(fake, first), SIZE_MAX);
	fallow_free(as(fake, 0), span);
	for (; committed(fake) > 0 && n < 100; n++)
		for (unsigned i = 0; i < contexts; i++)
			fallow_sweep(
				as(fake, (i + first) % contexts), SIZE_MAX);
	as(fake, 0);
	fake_end(fake);
	return n;
}

/* Without a clock memory ages by one context's sweeps, however many sweep. */
static void test_age_is_of_one_context(void)
{
	unsigned alone = age_run(1, 0);

	CHECK(alone >= 2 && alone < 100);
	for (unsigned contexts = 2; contexts <= 8; contexts++)
		for (unsigned first = 0; first < contexts; first++)
			CHECK(age_run(contexts, first) >= alone);
}

static unsigned late_reads;

/* Another CPU begins an epoch between the second time that the clock was read
 * and what is done with that: the caller has the time of before. */
static void late_during(struct sim *sim, enum sim_call call)
{
	struct fake *fake = sim->during_arg;
	struct test_port interrupted;
	uint64_t before = sim->ticks;

	if (call != SIM_NOW || fake->nesting > 0 || ++late_reads != 2)
		return;
	fake->nesting++;
	interrupted = test_port_begin(1, true);
	sim->ticks += TICKS;
	fallow_sweep(as(fake, 1), SIZE_MAX);
	test_port_end(interrupted);
	sim->ticks = before;
	fake->nesting--;
}

/* Whoever is held up with an old time makes nobody's epoch shorter. */
static void test_age_of_a_late_writer(void)
{
	struct fake *fake = begin(2, FALLOW_FLOOR_NONE, TICKS);
	struct sim *sim = &fake->rig->sim;
	uint32_t epoch;

	sim->ticks = 5000;
	fallow_sweep(as(fake, 0), SIZE_MAX);
	sim->ticks += TICKS;
	epoch = inside(fake)->epoch;
	late_reads = 0;
	sim->during = late_during;
	fallow_sweep(as(fake, 0), SIZE_MAX);
	sim->during = NULL;
	CHECK_EQUAL(inside(fake)->epoch, epoch + 2);
	/* The other's epoch began a whole one later than that time. */
	sim->ticks += 2 * TICKS - 1;
	fallow_sweep(as(fake, 1), SIZE_MAX);
	CHECK_EQUAL(inside(fake)->epoch, epoch + 2);
	sim->ticks += 1;
	fallow_sweep(as(fake, 1), SIZE_MAX);
	CHECK_EQUAL(inside(fake)->epoch, epoch + 3);
	as(fake, 0);
	fake_end(fake);
}

/* ------------------------------------------------------------- shootdown -- */

#define CROSSED 600

static struct {
	void *blocks[2][CROSSED];
	bool crossing;
} crossed;

/* All that asks for memory to be taken away, where nobody may wait. */
static void crossed_want(struct fallow *heap)
{
	CHECK_EQUAL(fallow_sweep(heap, SIZE_MAX), 1);
	CHECK_EQUAL(fallow_reclaim(heap, FALLOW_RECLAIM_SPLIT), 0);
	CHECK_EQUAL(fallow_collect(heap), 0);
}

/* The other CPU, masked too, in the middle of the first one's call. */
static void crossed_during(struct sim *sim, enum sim_call call)
{
	struct fake *fake = sim->during_arg;
	struct test_port interrupted;

	CHECK(call != SIM_DECOMMIT);
	if (call != SIM_COMMIT || crossed.crossing)
		return;
	crossed.crossing = true;
	interrupted = test_port_begin(1, false);
	crossed_want(as_masked(fake, 1));
	/* More than there is: the last resort is a collect. */
	CHECK(fallow_alloc(&fake->rig->heap, 64 * MIB) == NULL);
	test_port_end(interrupted);
	crossed.crossing = false;
}

/* A page of which a few blocks are in use. */
static void crossed_fill(struct fake *fake, unsigned context, unsigned step)
{
	struct fallow *heap = as(fake, context);
	void **blocks = crossed.blocks[context];

	for (unsigned i = 0; i < CROSSED; i++)
		blocks[i] = fallow_alloc(heap, 2 * KIB);
	for (unsigned i = 0; i < CROSSED; i++)
		if (i % step != 0) {
			fallow_free(heap, blocks[i]);
			blocks[i] = NULL;
		}
}

/* Two CPUs that may not wait both want memory taken away: neither calls for it
 * or waits for the other, and what was wanted goes when they may. */
static void test_shootdown_is_not_wanted_masked(void)
{
	struct fake *fake = begin(2, FALLOW_FLOOR_NONE, TICKS);
	struct sim *sim = &fake->rig->sim;
	void *block;

	crossed_fill(fake, 0, 8);
	crossed_fill(fake, 1, 8);
	sim->budget = sim->committed + MIB;
	sim->during = crossed_during;
	crossed_want(as_masked(fake, 0));
	/* Its commit is where the other one comes in. */
	block = fallow_alloc(&fake->rig->heap, 700 * KIB);
	CHECK(block != NULL);
	CHECK(fallow_alloc(&fake->rig->heap, 64 * MIB) == NULL);
	CHECK_EQUAL(test_port.masked_waits, 0);
	sim->during = NULL;
	CHECK_EQUAL(sim->made[SIM_DECOMMIT], 0);
	fallow_free(as(fake, 0), block);
	epochs(fake, SETTLED);
	/* Every eighth block, each in a granule of its own, of both. */
	CHECK(committed(fake) <= 2 * (CROSSED / 8 + 2) * 4 * KIB);
	for (unsigned context = 0; context < 2; context++)
		for (unsigned i = 0; i < CROSSED; i++)
			fallow_free(as(fake, context),
				crossed.blocks[context][i]);
	as(fake, 0);
	fake_end(fake);
}

/* --------------------------------------------------------------- the end -- */

#define END_CONTEXTS 4

/* Any block of any context goes, or all but a few. */
static void end_free(struct fake *fake, struct oracle *oracle)
{
	unsigned n = (unsigned)(test_random(&fake->random) % 3);

	as(fake, (unsigned)(test_random(&fake->random) % fake->contexts));
	oracle_shrink(oracle, n == 0 ? oracle->count / 20 : oracle->count / 2);
}

/* What contexts do before they idle for good. */
static void end_settle(struct fake *fake)
{
	for (unsigned i = 0; i < fake->contexts; i++) {
		unsigned n = (unsigned)(test_random(&fake->random) % 4);

		if (n == 0)
			fallow_park(as(fake, i));
		else if (n == 1)
			fallow_offline(as(fake, i));
	}
}

/* The next of the idle loops, and how long until then; the first where none
 * is due any more. */
static unsigned end_next(const uint64_t *due, unsigned contexts)
{
	unsigned next = 0;

	for (unsigned i = 1; i < contexts; i++)
		if (due[i] < due[next])
			next = i;
	return next;
}

/* All idle loops, each when it is due, in small steps or large, until none is.
 * Fails if there is no end. */
static void end_idle(struct fake *fake, size_t budget)
{
	struct sim *sim = &fake->rig->sim;
	uint64_t due[END_CONTEXTS] = { 0 };
	unsigned next = 0, n = 0;

	while (due[next] != UINT64_MAX && n++ < 20000) {
		uint64_t ticks;

		if (due[next] > sim->ticks)
			sim->ticks = due[next];
		ticks = fallow_sweep(as(fake, next), budget);
		CHECK(ticks <= TICKS);
		due[next] = ticks == 0 ? UINT64_MAX : sim->ticks + ticks;
		/* Somebody is told: the first wakes up. */
		if (sim->made[SIM_WANTED] > 0)
			due[0] = sim->ticks + sim->wanted_ticks;
		sim->made[SIM_WANTED] = 0;
		next = end_next(due, fake->contexts);
	}
	CHECK(n < 20000);
}

/* When every idle loop has been told that nothing is left, nothing is: not by
 * force either; and none of them wakes up any more. */
static void end_run(struct fake *fake, unsigned round)
{
	struct oracle *oracle = &fake->rig->oracle;
	size_t before;
	uint64_t made;

	for (unsigned i = 0; i < 700; i++) {
		if (i % 7 == 0)
			as(fake, i / 7 % fake->contexts);
		oracle_step(oracle);
	}
	end_free(fake, oracle);
	end_settle(fake);
	end_idle(fake, round % 3 == 0 ? 5 : SIZE_MAX);
	before = committed(fake);
	made = calls(fake);
	for (unsigned i = 0; i < fake->contexts; i++) {
		fake->rig->sim.ticks += 100 * TICKS;
		CHECK_EQUAL(fallow_sweep(as(fake, i), SIZE_MAX), 0);
	}
	CHECK_EQUAL(calls(fake), made);
	CHECK_EQUAL(fake->rig->sim.made[SIM_WANTED], 0);
	for (unsigned i = 0; i < fake->contexts; i++)
		CHECK_EQUAL(fallow_reclaim(as(fake, i),
				    FALLOW_RECLAIM_FLOOR), 0);
	CHECK_EQUAL(committed(fake), before);
}

static void test_end_is_the_end(void)
{
	for (unsigned round = 0; round < 24 && test_failures() == 0; round++) {
		struct fake *fake = begin(1 + round % END_CONTEXTS,
			round % 2 == 0 ? MIB : FALLOW_FLOOR_NONE, TICKS);

		fake->random += round;
		fake->rig->sim.during = NULL;
		fake->rig->oracle.random += round;
		fake->rig->oracle.size_max = 400 * KIB;
		fake->rig->oracle.volume = 12 * MIB;
		for (unsigned i = 0; i < 3 && test_failures() == 0; i++)
			end_run(fake, round);
		if (test_failures() > 0)
			test_printf("\n    round %u", round);
		as(fake, 0);
		fake_end(fake);
	}
}

const struct test tests[] = {
	{ "floor_outlives_its_context", test_floor_outlives_its_context },
	{ "age_is_of_one_context", test_age_is_of_one_context },
	{ "age_of_a_late_writer", test_age_of_a_late_writer },
	{ "shootdown_is_not_wanted_masked",
		test_shootdown_is_not_wanted_masked },
	{ "end_is_the_end", test_end_is_the_end },
	{ NULL, NULL },
};
