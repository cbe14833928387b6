/* SPDX-License-Identifier: MIT */
/*
 * Many contexts on one thread, and what may happen in a provider call.
 *
 * A provider call is made outside of the context: the caller may go on
 * elsewhere, and others may use the heap meanwhile.  fake_during() makes that
 * happen on one thread, in the three ways that it can:
 *
 *   - the caller is preempted and goes on on another CPU: the port's context
 *     is another when the call returns (only with interrupts on);
 *   - an interrupt handler runs on the caller's CPU, and allocates and frees
 *     there (only with interrupts on: a context that is masked is not left);
 *     in the model PREEMPT as a context of its own;
 *   - code on another CPU runs.
 *
 * The latter two are executions of their own (test_port_begin()): they have
 * blocks of their own in `inner`, may call the provider in turn, and fallow
 * must not take them for a re-entry.  Nesting ends at FAKE_NESTING_MAX, as
 * interrupt stacks do.
 */
#include "sim_fake.h"

#include <stdio.h>
#include <stdlib.h>

#include "test.h"

/* Returns the promise about the port that a provider call breaks, or NULL. */
static const char *observe(bool waits)
{
	if (test_port.locks)
		return "no lock of fallow is held";
	if (test_port.depth)
		return "the context is left before the provider is called";
	if (test_port.irqs_on != test_port.entry_irqs_on)
		return "interrupts are as at the entry to fallow";
	if (waits && !test_port_waits())
		return "no call that waits where interrupts were off at entry, "
		       "or preemption";
	return NULL;
}

static void call_before(void *arg, unsigned flags)
{
	(void)arg;
	test_port.entry_irqs_on = test_port.irqs_on;
	sim_nowait = flags & FALLOW_NOWAIT;
}

/* After each call: nothing of the port is left entered or locked. */
static void call_after(void *arg)
{
	(void)arg;
	CHECK_EQUAL(test_port.locks, 0);
	CHECK_EQUAL(test_port.depth, 0);
	CHECK_EQUAL(test_port.irqs_on, test_port.entry_irqs_on);
	sim_nowait = false;
}

static bool chance(struct fake *fake, unsigned rate)
{
	return rate && test_random(&fake->random) % 256 < rate;
}

/* A few operations of an execution inside a provider call. */
static void inner_run(struct fake *fake)
{
	unsigned n = test_random(&fake->random) % 6 + 1;

	for (unsigned i = 0; i < n; i++)
		oracle_step(&fake->inner);
	if (test_port_waits() && chance(fake, 16)) {
		test_port.entry_irqs_on = true;
		fallow_collect(&fake->rig->heap);
	}
	if (test_port_waits() && chance(fake, fake->sweep_rate)) {
		test_port.entry_irqs_on = true;
		if (n % 2)
			fallow_sweep(&fake->rig->heap, n * 7);
		else
			fallow_reclaim(&fake->rig->heap, n / 2);
	}
	if (chance(fake, 8))
		fallow_offline(&fake->rig->heap);
	if (chance(fake, fake->park_rate))
		fallow_park(&fake->rig->heap);
}

struct test_port fake_handler_begin(struct fake *fake)
{
	unsigned context = test_port.context;
	struct test_port interrupted;

	if (FALLOW_MODEL == FALLOW_MODEL_PREEMPT)
		context += fake->contexts;
	interrupted = test_port_begin(context, false);
	test_port.held = FALLOW_MODEL == FALLOW_MODEL_PREEMPT;
	return interrupted;
}

/* Returns a CPU that code can run on now: not one that is inside a provider
 * call of code that may not wait; or the context that this runs in. */
static unsigned other_choose(struct fake *fake)
{
	unsigned other = test_random(&fake->random) % fake->contexts;

	if (fake->masked[other] ||
		other == test_port.context % fake->contexts)
		return test_port.context;
	return other;
}

/*
 * Whether an execution that may wait can run inside this call.  Not while the
 * heap extends its tables: there is one call at a time that does, others wait
 * for it, and here it could never go on.  The tables of class window are at
 * the window's head; a reserve may be for tables.
 */
static bool waiting_ends(const struct fake *fake, enum sim_call call)
{
	const struct sim *sim = &fake->rig->sim;

	if (call == SIM_COMMIT)
		return sim->during_base - sim->base >= fake->tables;
	return call != SIM_RESERVE;
}

static void fake_during(struct sim *sim, enum sim_call call)
{
	struct fake *fake = sim->during_arg;
	struct test_port interrupted;
	unsigned here = test_port.context;
	unsigned cpu = here % fake->contexts;
	bool stays = !test_port_waits();
	unsigned other = other_choose(fake);
	bool waits = fake->extending == 0 && waiting_ends(fake, call);

	if (fake->nesting == FAKE_NESTING_MAX)
		return;
	fake->nesting++;
	fake->extending += !waits;
	fake->masked[cpu] += stays;
	if (test_port.irqs_on && chance(fake, fake->handler_rate)) {
		fake->handlers++;
		interrupted = fake_handler_begin(fake);
		inner_run(fake);
		test_port_end(interrupted);
	}
	if (other != here && chance(fake, fake->other_rate)) {
		fake->others++;
		interrupted = test_port_begin(
			other, waits && test_random(&fake->random) % 2);
		inner_run(fake);
		test_port_end(interrupted);
	}
	if (!stays && chance(fake, fake->migrate_rate)) {
		fake->migrations++;
		test_port.context = other;
	}
	fake->masked[cpu] -= stays;
	fake->extending -= !waits;
	fake->nesting--;
}

struct fake *fake_prepare(enum fallow_provider_class provider_class,
	size_t window_size, unsigned contexts)
{
	struct fake *fake = calloc(1, sizeof(*fake));
	struct rig *rig;

	if (!fake || contexts > FAKE_CONTEXTS) {
		perror("fake");
		exit(97);
	}
	test_port_reset();
	test_port.entry_irqs_on = true;
	rig = rig_prepare(provider_class, window_size, contexts * FAKE_LEVELS);
	rig->sim.observe = observe;
	rig->sim.during = fake_during;
	rig->sim.during_arg = fake;
	fake->rig = rig;
	fake->contexts = contexts;
	fake->random = test_seed;
	fake->tables = fallow_table_bytes(
		rig->sim.base, rig->sim.size, contexts * FAKE_LEVELS);
	return fake;
}

void fake_init(struct fake *fake)
{
	struct rig *rig = fake->rig;

	CHECK_EQUAL(rig_init(rig), FALLOW_OK);
	rig->oracle.before = call_before;
	rig->oracle.after = call_after;
	oracle_begin(&fake->inner, &rig->heap, fake->blocks, FAKE_BLOCKS,
		~test_seed);
	fake->inner.before = call_before;
	fake->inner.after = call_after;
	fake->inner.may_fail = true;
}

struct fake *fake_begin(enum fallow_provider_class provider_class,
	size_t window_size, unsigned contexts)
{
	struct fake *fake =
		fake_prepare(provider_class, window_size, contexts);

	fake_init(fake);
	return fake;
}

void fake_switch(struct fake *fake)
{
	test_port.context = test_random(&fake->random) % fake->contexts;
	test_port.irqs_on = test_random(&fake->random) % 4 != 0;
	test_port.held = FALLOW_MODEL == FALLOW_MODEL_PREEMPT &&
		test_random(&fake->random) % 4 == 0;
}

/* From here on one task runs alone on context 0. */
static void fake_calm(struct fake *fake)
{
	fake->nesting = FAKE_NESTING_MAX;
	test_port.context = 0;
	test_port.irqs_on = true;
	test_port.held = false;
	test_port.entry_irqs_on = true;
}

void fake_check(struct fake *fake)
{
	struct oracle *const oracles[] = { &fake->rig->oracle, &fake->inner };
	unsigned context = test_port.context;
	bool irqs_on = test_port.irqs_on;
	bool held = test_port.held;

	fake_calm(fake);
	oracle_verify(oracles[0]);
	oracle_verify(oracles[1]);
	oracle_compare(oracles, 2);
	CHECK_EQUAL(fake->rig->misuses, fake->rig->misuses_expected);
	sim_verdict(&fake->rig->sim);
	test_port_verdict();
	fake->nesting = 0;
	test_port.context = context;
	test_port.irqs_on = irqs_on;
	test_port.held = held;
}

void fake_end(struct fake *fake)
{
	fake_check(fake);
	fake_calm(fake);
	oracle_shrink(&fake->inner, 0);
	rig_end(fake->rig);
	test_port_verdict();
	free(fake);
}
