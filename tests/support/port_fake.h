/* SPDX-License-Identifier: MIT */
/*
 * A port for deterministic tests of many contexts on one thread, in the models
 * IRQ and PREEMPT; selected by FALLOW_PORT_HEADER.
 *
 * A test says which context runs and whether interrupts are on, and sees
 * whether every enter had its leave, in the right order, and restored what it
 * found.  A wait that no other execution can end ends the program by name.
 *
 * An *execution* is what test_port_begin() opens and test_port_end() closes: an
 * interrupt handler on the same CPU, or code on another CPU, that runs in the
 * middle of what was running.  It is legal where a real one would be: anywhere
 * for another CPU that needs no lock; with interrupts on for a handler.
 */
#ifndef PORT_FAKE_H
#define PORT_FAKE_H

#include "fake.h"

/* Lets others in. */
static inline void port_step(void)
{
	if (test_port.step == NULL || test_port.stepping)
		return;
	test_port.stepping = true;
	test_port.step();
	test_port.stepping = false;
}

/* state.flags: bit 0 whether the code may wait, bit 1 whether interrupts were
 * on, above them the depth before. */
static inline struct fl_port_state port_fake_save(void)
{
	struct fl_port_state state = { (uintptr_t)test_port.depth << 2 |
		(uintptr_t)test_port.irqs_on << 1 |
		(test_port_waits() && test_port.depth == 0) };

	test_port.depth++;
	test_port.pauses = 0;
	return state;
}

static inline void port_fake_restore(struct fl_port_state state)
{
	if (test_port.depth == 0 || test_port.depth - 1 != state.flags >> 2)
		test_port_crime("a leave that is not of the last enter");
	test_port.depth = (unsigned)(state.flags >> 2);
	test_port.irqs_on = state.flags >> 1 & 1;
	port_step();
}

/* Model PREEMPT: interrupts stay as they are. */
static inline struct fl_port_state fl_port_enter(void)
{
	struct fl_port_state state = port_fake_save();

	if (FALLOW_MODEL == FALLOW_MODEL_IRQ)
		test_port.irqs_on = false;
	port_step();
	return state;
}

static inline void fl_port_leave(struct fl_port_state state)
{
	bool on = FALLOW_MODEL == FALLOW_MODEL_PREEMPT && (state.flags & 2);

	if (test_port.irqs_on != on)
		test_port_crime("interrupts changed between enter and leave");
	port_fake_restore(state);
}

static inline bool fl_port_may_wait(struct fl_port_state state)
{
	if (test_port.locks)
		test_port_crime("it is asked under a lock whether to wait");
	return state.flags & 1;
}

static inline unsigned fl_port_context(void)
{
	if (test_port.depth == 0)
		test_port_crime("the context is read where it may change");
	return test_port.context;
}

static inline struct fl_port_state fl_port_lock_enter(void)
{
	struct fl_port_state state = port_fake_save();

	test_port.irqs_on = false;
	test_port.locks++;
	port_step();
	return state;
}

static inline void fl_port_lock_leave(struct fl_port_state state)
{
	if (test_port.locks == 0)
		test_port_crime("a lock left that was not taken");
	else
		test_port.locks--;
	if (test_port.irqs_on)
		test_port_crime("interrupts came on under a lock");
	port_fake_restore(state);
}

/* No other execution can run: what waits longer than this waits for itself. */
#define TEST_PORT_PAUSES 1000000

static inline void fl_port_pause(void)
{
	test_port.waits++;
	test_port.masked_waits += !test_port.irqs_on;
	if (++test_port.pauses > TEST_PORT_PAUSES)
		test_port_hang();
	port_step();
}

_Noreturn static inline void fl_port_halt(void)
{
	if (test_port.halt)
		test_port.halt();
	test_port_halted();
}

#endif
