/* SPDX-License-Identifier: MIT */
/*
 * A heap over a simulated provider with an oracle beside it: what most host
 * tests of the heap begin with.
 *
 *	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, (size_t)64 << 20, 1);
 *
 *	oracle_alloc(&rig->oracle, 100, 0);
 *	rig_end(rig);
 */
#ifndef SIM_RIG_H
#define SIM_RIG_H

#include <fallow/fallow.h>

#include "oracle.h"
#include "sim.h"

/* Blocks that a rig's oracle has room for. */
#define RIG_BLOCKS 4096

struct rig {
	struct sim sim;
	struct fallow heap;
	struct fallow_config config;
	struct oracle oracle;
	/* Misuse reports: how many, the last, and how many are expected. */
	unsigned misuses;
	unsigned misuses_expected;
	struct fallow_misuse misuse;
	struct oracle_block blocks[RIG_BLOCKS];
};

/*
 * Returns a rig whose heap has all of a window of `window_size` bytes (class
 * flat: as one region), and `contexts` contexts.  Ends the program iff the
 * host has no memory; a heap that does not begin fails the test.
 */
struct rig *rig_begin(enum fallow_provider_class provider_class,
	size_t window_size, unsigned contexts);

/* In steps: afterwards the provider and the configuration are ready to be
 * changed; then the heap is made, of which the result is whether it was. */
struct rig *rig_prepare(enum fallow_provider_class provider_class,
	size_t window_size, unsigned contexts);
enum fallow_status rig_init(struct rig *rig);

/* Checks all that can be while the heap is in use. */
void rig_check(struct rig *rig);

/* Checks, frees every block, checks, ends the heap, and verifies that the
 * provider has everything back. */
void rig_end(struct rig *rig);

/* As rig_end(), with blocks in use, or with a heap that did not begin. */
void rig_end_now(struct rig *rig, bool began);

#endif
