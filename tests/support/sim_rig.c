/* SPDX-License-Identifier: MIT */
/*
 * Sets up and takes down what most host tests of the heap need.
 *
 * A rig is an ordinary heap: nothing in it is known of fallow but its headers.
 * A misuse report is counted; one that the test did not expect fails it, since
 * a report that nobody made by intent is a bug of the heap.
 */
#include "sim_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

static void misuse_note(void *ctx, const struct fallow_misuse *report)
{
	struct rig *rig = ctx;

	rig->misuses++;
	rig->misuse = *report;
}

struct rig *rig_prepare(enum fallow_provider_class provider_class,
	size_t window_size, unsigned contexts)
{
	/* struct fallow is aligned to a cache line, so a rig is. */
	struct rig *rig = aligned_alloc(
		_Alignof(struct rig), sizeof(struct rig));

	if (!rig) {
		perror("rig");
		exit(97);
	}
	memset(rig, 0, sizeof(*rig));
	/* fallow_init() must not rely on what the storage held. */
	memset(&rig->heap, 0xcc, sizeof(rig->heap));
	sim_begin(&rig->sim, provider_class, window_size);
	rig->sim.random = test_seed;
	rig->config = (struct fallow_config){
		.size = sizeof(struct fallow_config),
		.provider = &rig->sim.provider,
		.window_base = rig->sim.base,
		.window_size = rig->sim.size,
		.contexts = contexts,
		.misuse = misuse_note,
		.misuse_ctx = rig,
		.secret = test_seed * 0x9e3779b97f4a7c15u,
	};
	return rig;
}

/* Hands the window over, as the class wants it. */
static enum fallow_status region_add(struct rig *rig)
{
	struct sim *sim = &rig->sim;

	switch (sim->provider.provider_class) {
	case FALLOW_CLASS_WINDOW:
		return fallow_add_region(&rig->heap, sim->base, sim->size);
	case FALLOW_CLASS_FLAT:
		return fallow_add_region(
			&rig->heap, sim_region(sim, 0, sim->size), sim->size);
	case FALLOW_CLASS_DIRECT:
		break;
	}
	return FALLOW_OK;
}

enum fallow_status rig_init(struct rig *rig)
{
	enum fallow_status status = fallow_init(&rig->heap, &rig->config);

	oracle_begin(&rig->oracle, &rig->heap, rig->blocks, RIG_BLOCKS,
		test_seed);
	rig->oracle.window_base = rig->sim.base;
	rig->oracle.window_size = rig->sim.size;
	if (status)
		return status;
	status = region_add(rig);
	if (status)
		fallow_fini(&rig->heap);
	return status;
}

struct rig *rig_begin(enum fallow_provider_class provider_class,
	size_t window_size, unsigned contexts)
{
	struct rig *rig = rig_prepare(provider_class, window_size, contexts);
	enum fallow_status status = rig_init(rig);

	if (status) {
		test_printf("\n    %s", fallow_status_text(status));
		test_fail(__FILE__, __LINE__, "the heap begins");
		exit(1);
	}
	return rig;
}

/* Compares the snapshot with the provider's books. */
static void books_compare(struct rig *rig)
{
	const struct sim *sim = &rig->sim;
	struct fallow_snapshot now = { .size = sizeof(now) };

	if (sim->provider.provider_class == FALLOW_CLASS_FLAT)
		return;
	fallow_snapshot(&rig->heap, &now);
	if (!rig->config.tables)
		CHECK_EQUAL(now.committed + now.tables, sim->committed);
	CHECK_EQUAL(now.commits, sim->made[SIM_COMMIT]);
	CHECK_EQUAL(now.reserves, sim->made[SIM_RESERVE]);
	CHECK_EQUAL(now.decommits, sim->made[SIM_DECOMMIT]);
	CHECK_EQUAL(now.releases, sim->made[SIM_RELEASE]);
	CHECK_EQUAL(now.no_memory, sim->refused);
	CHECK_EQUAL(now.refusals, sim->refused_ranges);
}

void rig_check(struct rig *rig)
{
	oracle_check(&rig->oracle);
	books_compare(rig);
	CHECK_EQUAL(rig->misuses, rig->misuses_expected);
	sim_verdict(&rig->sim);
}

void rig_end_now(struct rig *rig, bool began)
{
	/* What is refused for good can never be given back. */
	rig->sim.refuse_range = 0;
	rig->sim.refuse_range_rate = 0;
	if (began)
		fallow_fini(&rig->heap);
	CHECK_EQUAL(rig->misuses, rig->misuses_expected);
	sim_end(&rig->sim);
	free(rig);
}

void rig_end(struct rig *rig)
{
	rig_check(rig);
	oracle_shrink(&rig->oracle, 0);
	rig_check(rig);
	rig_end_now(rig, true);
}
