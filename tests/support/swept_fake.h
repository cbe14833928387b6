/* SPDX-License-Identifier: MIT */
/*
 * What tests of several contexts' sweeps have in common: a heap with a clock on
 * the fake port, and calls as one context or another, in a task.
 */
#ifndef SWEPT_FAKE_H
#define SWEPT_FAKE_H

#include "heap.h"
#include "sim_fake.h"
#include "test.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define TICKS 100
#define WIDE (1100 * MIB)

static inline struct heap *inside(struct fake *fake)
{
	return heap_of(&fake->rig->heap);
}

static inline size_t committed(struct fake *fake)
{
	return inside(fake)->counters.committed;
}

/* Several contexts over a provider with a clock. */
static inline struct fake *clock_begin(unsigned contexts, size_t floor)
{
	struct fake *fake = fake_prepare(FALLOW_CLASS_WINDOW, WIDE, contexts);

	sim_clock(&fake->rig->sim);
	fake->rig->config.epoch_ticks = TICKS;
	fake->rig->config.floor_bytes = floor;
	fake_init(fake);
	return fake;
}

static inline uint64_t sweep_as(struct fake *fake, unsigned context)
{
	struct test_port interrupted = test_port_begin(context, true);
	uint64_t due;

	test_port.entry_irqs_on = true;
	due = fallow_sweep(&fake->rig->heap, SIZE_MAX);
	test_port_end(interrupted);
	return due;
}

static inline size_t reclaim_as(struct fake *fake, unsigned context,
	enum fallow_reclaim_level level)
{
	struct test_port interrupted = test_port_begin(context, true);
	size_t bytes;

	test_port.entry_irqs_on = true;
	bytes = fallow_reclaim(&fake->rig->heap, level);
	test_port_end(interrupted);
	return bytes;
}

static inline void *alloc_as(struct fake *fake, unsigned context, size_t size)
{
	struct test_port interrupted = test_port_begin(context, true);
	void *block;

	test_port.entry_irqs_on = true;
	block = fallow_alloc(&fake->rig->heap, size);
	test_port_end(interrupted);
	CHECK(block != NULL);
	return block;
}

static inline void free_as(struct fake *fake, unsigned context, void *block)
{
	struct test_port interrupted = test_port_begin(context, true);

	test_port.entry_irqs_on = true;
	fallow_free(&fake->rig->heap, block);
	test_port_end(interrupted);
}

static inline void park_as(struct fake *fake, unsigned context)
{
	struct test_port interrupted = test_port_begin(context, true);

	test_port.entry_irqs_on = true;
	fallow_park(&fake->rig->heap);
	test_port_end(interrupted);
}

static inline void offline_as(struct fake *fake, unsigned context)
{
	struct test_port interrupted = test_port_begin(context, true);

	test_port.entry_irqs_on = true;
	fallow_offline(&fake->rig->heap);
	test_port_end(interrupted);
}

#endif
