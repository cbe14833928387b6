/* SPDX-License-Identifier: MIT */
/*
 * A provider that passes every call on to another and sums up what they take,
 * so that what a heap costs can be told from what its provider costs.
 */
#ifndef METERED_H
#define METERED_H

#include <fallow/provider.h>

struct metered {
	/* What fallow_config.provider takes; written by the init. */
	struct fallow_provider provider;
	const struct fallow_provider *inner;
	uint64_t (*ticks)(void);
	/* So far, over all calls. */
	uint64_t calls;
	uint64_t ticks_spent;
};

/* Afterwards metered->provider does what `inner` does; both must stay where
 * they are.  One context at a time. */
void test_metered_init(struct metered *metered,
	const struct fallow_provider *inner, uint64_t (*ticks)(void));

#endif
