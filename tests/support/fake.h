/* SPDX-License-Identifier: MIT */
/*
 * What a test sets and sees of the fake port (port_fake.h).
 */
#ifndef FAKE_H
#define FAKE_H

#include <stdbool.h>

struct test_port {
	/* The CPU that the execution is on; in the model PREEMPT, and the
	 * interrupt level. */
	unsigned context;
	bool irqs_on;
	/* Model PREEMPT: preemption is off, not by fallow. */
	bool held;
	/* As `irqs_on` was when the execution last called into fallow. */
	bool entry_irqs_on;
	/* Enters, and locks among them, without their leave. */
	unsigned depth;
	unsigned locks;
	/* Pauses in a row; those of this execution, and of these the ones
	 * with interrupts masked. */
	unsigned pauses;
	unsigned waits;
	unsigned masked_waits;
	/* If set, runs at every enter and leave, of a context or a lock, and at
	 * every pause: at the points of an operation where another execution may
	 * come in.  Not within itself. */
	void (*step)(void);
	bool stepping;
	/* What was done wrong: how often, and the first. */
	unsigned crimes;
	const char *crime;
	/* If set, what fl_port_halt() does; must not return. */
	void (*halt)(void);
};

extern struct test_port test_port;

/* The port as after a boot: context 0, interrupts on, nothing entered. */
void test_port_reset(void);

/* Notes a crime. */
void test_port_crime(const char *what);

/* Whether the code that runs may wait for other CPUs. */
bool test_port_waits(void);

/* Opens an execution in context `context`; returns what test_port_end() needs. */
struct test_port test_port_begin(unsigned context, bool irqs_on);

/* Closes it: it must have left what it entered. */
void test_port_end(struct test_port interrupted);

/* Fails the running test for every crime, and for what is not left. */
void test_port_verdict(void);

/* Ends the program: a wait that nothing can end. */
_Noreturn void test_port_hang(void);
_Noreturn void test_port_halted(void);

#endif
