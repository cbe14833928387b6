/* SPDX-License-Identifier: MIT */
/*
 * A rig on the fake port: several contexts in turns, and executions that begin
 * in the middle of provider calls.
 */
#ifndef SIM_FAKE_H
#define SIM_FAKE_H

#include "fake.h"
#include "sim_rig.h"

/* Blocks that the executions inside provider calls can have. */
#define FAKE_BLOCKS 512

/* The most contexts of a fake. */
#define FAKE_CONTEXTS 64

struct fake {
	struct rig *rig;
	unsigned contexts;
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
	/* So many of 256 of those executions end by parking their context. */
	unsigned park_rate;
	/* What is going on, and what went on. */
	unsigned nesting;
	/* Calls under way in which the heap may extend its tables. */
	unsigned extending;
	/* Provider calls under way on each CPU with interrupts masked. */
	unsigned masked[FAKE_CONTEXTS];
	uint64_t migrations, handlers, others;
};

/* As rig_prepare() and rig_init(), on the port as after a boot, with every
 * promise about contexts, locks and interrupts checked at every call. */
struct fake *fake_begin(enum fallow_provider_class provider_class,
	size_t window_size, unsigned contexts);

/* Goes on in another context, chosen at random, interrupts on or off. */
void fake_switch(struct fake *fake);

/* Compares both oracles with the heap, from context 0 in a task. */
void fake_check(struct fake *fake);

/* As rig_end(), with both oracles; ends *fake. */
void fake_end(struct fake *fake);

#endif
