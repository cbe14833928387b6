/* SPDX-License-Identifier: MIT */
/*
 * Rationed frame hooks.
 *
 * Each passes on to the hooks under it what the ration allows.  A frame is
 * poisoned as it is given back, through the direct map, and once more as it is
 * taken, so that a provider which uses a frame too long, or takes it for
 * zeroed, is seen.  No locks: one context at a time.
 */
#include <stddef.h>

#include "ration.h"

/* Fills a run with the poison. */
static void poison(const struct test_ration *ration, uint64_t frame,
	unsigned size_log2)
{
	volatile uint64_t *word =
		(uint64_t *)(uintptr_t)(frame + ration->direct_offset);
	size_t n = ((size_t)1 << size_log2) / sizeof(*word);

	while (n-- > 0)
		*word++ = TEST_RATION_POISON * (UINT64_MAX / 255);
}

/* Takes one from the ration; returns whether there was one. */
static bool ration_use(struct test_ration *ration)
{
	if (ration->left == 0)
		return false;
	if (ration->left != TEST_RATION_NONE)
		ration->left--;
	return true;
}

static uint64_t ration_take(void *ctx, unsigned size_log2)
{
	struct test_ration *ration = ctx;
	uint64_t frame = FALLOW_FRAME_NONE;

	ration->takes++;
	if (ration_use(ration))
		frame = ration->under->take(ration->under->ctx, size_log2);
	if (frame != FALLOW_FRAME_NONE) {
		ration->out += (uint64_t)1 << size_log2;
		poison(ration, frame, size_log2);
	}
	return frame;
}

static void ration_give(void *ctx, uint64_t frame, unsigned size_log2)
{
	struct test_ration *ration = ctx;

	ration->gives++;
	if (ration->given != NULL)
		ration->given(frame);
	poison(ration, frame, size_log2);
	ration->out -= (uint64_t)1 << size_log2;
	ration->under->give(ration->under->ctx, frame, size_log2);
}

static bool ration_claim(void *ctx, uint64_t frame, unsigned size_log2)
{
	struct test_ration *ration = ctx;

	ration->takes++;
	if (!ration_use(ration) ||
		!ration->under->claim(ration->under->ctx, frame, size_log2))
		return false;
	ration->out += (uint64_t)1 << size_log2;
	poison(ration, frame, size_log2);
	return true;
}

struct fallow_frame_hooks test_ration_hooks(struct test_ration *ration)
{
	return (struct fallow_frame_hooks){
		.ctx = ration,
		.take = ration_take,
		.give = ration_give,
		.claim = ration->under->claim ? ration_claim : NULL,
	};
}
