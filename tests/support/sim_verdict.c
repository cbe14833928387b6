/* SPDX-License-Identifier: MIT */
/*
 * What the simulated provider saw, as failures of the running test.
 *
 * Apart from sim.c, so that a program that is no test can have a provider.
 */
#include "sim.h"
#include "test.h"

static const char *const call_names[SIM_CALLS] = {
	[SIM_COMMIT] = "commit",
	[SIM_DECOMMIT] = "decommit",
	[SIM_RESERVE] = "reserve",
	[SIM_RELEASE] = "release",
	[SIM_DISCARD] = "discard",
	[SIM_NOW] = "now",
	[SIM_WANTED] = "sweep_wanted",
};

/* Fails the test for the first byte outside of every region that changed. */
static void fences_verify(struct sim *sim)
{
	const unsigned char *bytes = sim->mapping;
	uintptr_t origin = (uintptr_t)sim->mapping;

	for (size_t i = 0; i < sim->mapping_size; i++) {
		size_t rest;

		if (bytes[i] == SIM_FENCE)
			continue;
		rest = sim_region_rest(sim, origin + i);
		if (rest) {
			i += rest - 1;
			continue;
		}
		test_fail_values(__FILE__, __LINE__,
			"a byte outside of every region changed: its offset "
			"from the window, and 0",
			origin + i - sim->base, 0);
		return;
	}
}

void sim_verdict(struct sim *sim)
{
	size_t n = sizeof(sim->first) / sizeof(sim->first[0]);

	for (size_t i = 0; i < n && i < sim->violations; i++) {
		test_printf("\n    %s(window + 0x%lx, 0x%zx) breaks: %s",
			call_names[sim->first[i].call],
			(unsigned long)(sim->first[i].base - sim->base),
			sim->first[i].size, sim->first[i].promise);
	}
	if (sim->violations)
		test_fail_values(__FILE__, __LINE__,
			"promises of provider.h that were broken",
			sim->violations, 0);
	sim->violations = 0;
	if (sim->provider.provider_class == FALLOW_CLASS_FLAT)
		fences_verify(sim);
}

void sim_end(struct sim *sim)
{
	sim_verdict(sim);
	if (sim->committed)
		test_fail_values(__FILE__, __LINE__,
			"bytes not given back to the provider", sim->committed,
			0);
	sim_destroy(sim);
}
