/* SPDX-License-Identifier: MIT */
/*
 * Every public function leaves the fake port as it found it: with interrupts on
 * and masked, and in the model PREEMPT with preemption held off too.
 */
#include "arch.h"
#include "fake.h"
#include "restores.h"
#include "sim.h"
#include "test.h"

#define WINDOW ((size_t)64 << 20)

static bool irqs_on, held;

static bool same(void)
{
	bool is = test_port.irqs_on == irqs_on && test_port.held == held &&
		test_port.depth == 0 && test_port.locks == 0 &&
		test_port.crimes == 0;

	if (!is)
		test_printf("\n    irqs %d held %d depth %u locks %u",
			test_port.irqs_on, test_port.held, test_port.depth,
			test_port.locks);
	return is;
}

static void task(void)
{
	test_port.irqs_on = irqs_on = true;
	test_port.held = held = false;
	sim_irqs_off = false;
}

static void run(bool with_irqs, bool with_hold)
{
	struct restores_port port = { .same = same,
		.task = task,
		.waits = with_irqs && !with_hold };
	struct sim sim;

	test_port_reset();
	test_port.irqs_on = irqs_on = with_irqs;
	test_port.held = held = with_hold;
	sim_irqs_off = !port.waits;
	sim_begin(&sim, FALLOW_CLASS_WINDOW, WINDOW);
	CHECK(restores_run(&port, &sim.provider, sim.base, sim.size, 2) > 1000);
	test_port_verdict();
	sim_end(&sim);
}

static void test_restores_task(void)
{
	run(true, false);
}

static void test_restores_masked(void)
{
	run(false, false);
}

static void test_restores_held(void)
{
	run(true, FALLOW_MODEL == FALLOW_MODEL_PREEMPT);
	run(false, FALLOW_MODEL == FALLOW_MODEL_PREEMPT);
}

const struct test tests[] = {
	{ "restores_task", test_restores_task },
	{ "restores_masked", test_restores_masked },
	{ "restores_held", test_restores_held },
	{ NULL, NULL },
};
