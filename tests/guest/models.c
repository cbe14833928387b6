/* SPDX-License-Identifier: MIT */
/*
 * Every public function leaves the CPU as it found it: the interrupt flag, and
 * in the model PREEMPT the count of holds, on the board's own page tables.
 *
 * The image is the same in all four models.
 */
#include "arch.h"
#include "board.h"
#include "restores.h"
#include "test.h"

static bool irqs_on;
static uint32_t held;

/* The word behind the index, where the ports count holds. */
static uint32_t *held_word(void)
{
	return (uint32_t *)board_block() + 1;
}

static bool same(void)
{
	bool is = board_interrupts_on() == irqs_on && *held_word() == held;

	if (!is)
		test_printf("\n    interrupts %d, holds %u",
			board_interrupts_on(), *held_word());
	return is;
}

static uintptr_t task_state;

static void task(void)
{
	*held_word() = held = 0;
	irqs_on = true;
	board_interrupts_restore(task_state);
}

static void run(bool with_irqs, uint32_t with_holds)
{
	struct restores_port port = { .same = same,
		.task = task,
		.waits = with_irqs && with_holds == 0 };

	task_state = board_interrupts_mask();
	if (with_irqs)
		board_interrupts_restore(task_state);
	irqs_on = with_irqs;
	*held_word() = held = with_holds;
	CHECK(restores_run(&port, board_provider(), board_window_base(),
		      board_window_size(), 1) > 1000);
	CHECK(same());
}

static void test_models_task(void)
{
	run(true, 0);
}

static void test_models_masked(void)
{
	run(false, 0);
}

static void test_models_held(void)
{
	uint32_t holds = FALLOW_MODEL == FALLOW_MODEL_PREEMPT;

	run(true, holds);
	run(false, holds);
	run(true, 2 * holds);
}

const struct test tests[] = {
	{ "models_task", test_models_task },
	{ "models_masked", test_models_masked },
	{ "models_held", test_models_held },
	{ NULL, NULL },
};
