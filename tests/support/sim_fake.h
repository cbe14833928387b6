/* SPDX-License-Identifier: MIT */
/*
 * A rig on the fake port: several contexts in turns, and executions that begin
 * in the middle of provider calls.
 */
#ifndef SIM_FAKE_H
#define SIM_FAKE_H

#include "arch.h"
#include "fake.h"
#include "sim_rig.h"

/* Blocks that the executions inside provider calls can have. */
#define FAKE_BLOCKS 512

/* The most CPUs of a fake. */
#define FAKE_CONTEXTS 64

/* How deep executions inside provider calls nest. */
#define FAKE_NESTING_MAX 3

/* What a CPU has of contexts: with its levels in the model PREEMPT, CPU c at
 * level l being c + l times the number of CPUs. */
#define FAKE_LEVELS \
	(FALLOW_MODEL == FALLOW_MODEL_PREEMPT ? FAKE_NESTING_MAX + 1 : 1)

struct fake {
	struct rig *rig;
	unsigned contexts; /* CPUs */
	uint64_t random;
	/* Bytes of the window's head that tables can take. */
	size_t tables;
	/* What executions inside provider calls have; same heap as the rig's
	 * oracle, and never a block of it. */
	struct oracle inner;
	struct oracle_block blocks[FAKE_BLOCKS];
	/* In so many of 256 provider calls: the caller goes on in another
	 * context; a handler runs; another CPU runs. */
	unsigned migrate_rate;
	unsigned handler_rate;
	unsigned other_rate;
	/* So many of 256 of those executions end by parking their context; so
	 * many sweep or reclaim, where they may wait. */
	unsigned park_rate;
	unsigned sweep_rate;
	/* What is going on, and what went on. */
	unsigned nesting;
	/* Calls under way in which the heap may extend its tables. */
	unsigned extending;
	/* Provider calls under way on each CPU in code that may not wait. */
	unsigned masked[FAKE_CONTEXTS];
	uint64_t migrations, handlers, others;
};

/* As rig_prepare() and rig_init(), on the port as after a boot, with every
 * promise about contexts, locks and interrupts checked at every call. */
struct fake *fake_prepare(enum fallow_provider_class provider_class,
	size_t window_size, unsigned contexts);
void fake_init(struct fake *fake);

/* Both. */
struct fake *fake_begin(enum fallow_provider_class provider_class,
	size_t window_size, unsigned contexts);

/* Opens the execution of an interrupt handler on the CPU that runs. */
struct test_port fake_handler_begin(struct fake *fake);

/* Goes on in another context, chosen at random, interrupts on or off; in the
 * model PREEMPT, preemption too. */
void fake_switch(struct fake *fake);

/* Compares both oracles with the heap, from context 0 in a task. */
void fake_check(struct fake *fake);

/* As rig_end(), with both oracles; ends *fake. */
void fake_end(struct fake *fake);

#endif
