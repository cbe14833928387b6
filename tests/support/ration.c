/* SPDX-License-Identifier: MIT */
/*
 * Rationed frame hooks.
 *
 * Each passes on to the hooks under it what the ration allows.  A frame is
 * poisoned as it is given back, through the direct map, and once more as it is
 * taken, so that a provider which uses a frame too long, or takes it for
 * zeroed, is seen.  If all that there is was poisoned, a take can also tell
 * whether anybody wrote to a frame after it was given back: a CPU that still
 * reaches it, which is what a missing shootdown looks like.
 *
 * Counters are atomic; a frame's bytes are touched only by whoever has it.
 */
#include <stddef.h>

#include "ration.h"

#define POISON_WORD (TEST_RATION_POISON * (UINT64_MAX / 255))
/* The largest run that test_ration_poison() asks for: 2 MiB. */
#define LARGEST_LOG2 21

/* Where the words of a run are. */
static volatile uint64_t *words_of(
	const struct test_ration *ration, uint64_t frame)
{
	return (uint64_t *)(uintptr_t)(frame + ration->direct_offset);
}

/* Fills a run with the poison. */
static void poison(const struct test_ration *ration, uint64_t frame,
	unsigned size_log2)
{
	volatile uint64_t *word = words_of(ration, frame);
	size_t n = ((size_t)1 << size_log2) / sizeof(*word);

	while (n-- > 0)
		*word++ = POISON_WORD;
}

/* Counts the words of a run that are not the poison, if they should be. */
static void poison_check(struct test_ration *ration, uint64_t frame,
	unsigned size_log2)
{
	volatile uint64_t *word = words_of(ration, frame);
	size_t n = ((size_t)1 << size_log2) / sizeof(*word);
	uint64_t stale = 0;

	if (!ration->poisoned)
		return;
	while (n-- > 0)
		stale += *word++ != POISON_WORD;
	if (stale != 0)
		__atomic_fetch_add(&ration->stale, stale, __ATOMIC_RELAXED);
}

/* Takes one run from the ration; returns whether there was one. */
static bool ration_use(struct test_ration *ration, unsigned size_log2)
{
	uint64_t size = (uint64_t)1 << size_log2;
	uint64_t left = __atomic_load_n(&ration->left, __ATOMIC_RELAXED);

	__atomic_fetch_add(&ration->takes, 1, __ATOMIC_RELAXED);
	do {
		if (left == 0)
			return false;
		if (left == TEST_RATION_NONE)
			break;
	} while (!__atomic_compare_exchange_n(&ration->left, &left, left - 1,
		false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	if (__atomic_add_fetch(&ration->out, size, __ATOMIC_RELAXED) <=
			ration->limit ||
		ration->limit == 0)
		return true;
	__atomic_fetch_sub(&ration->out, size, __ATOMIC_RELAXED);
	return false;
}

/* What ration_use() took is not out after all, or no more. */
static void ration_return(struct test_ration *ration, unsigned size_log2)
{
	__atomic_fetch_sub(
		&ration->out, (uint64_t)1 << size_log2, __ATOMIC_RELAXED);
}

static uint64_t ration_take(void *ctx, unsigned size_log2)
{
	struct test_ration *ration = ctx;
	uint64_t frame;

	if (!ration_use(ration, size_log2))
		return FALLOW_FRAME_NONE;
	frame = ration->under->take(ration->under->ctx, size_log2);
	if (frame == FALLOW_FRAME_NONE) {
		ration_return(ration, size_log2);
		return FALLOW_FRAME_NONE;
	}
	poison_check(ration, frame, size_log2);
	poison(ration, frame, size_log2);
	return frame;
}

static void ration_give(void *ctx, uint64_t frame, unsigned size_log2)
{
	struct test_ration *ration = ctx;

	__atomic_fetch_add(&ration->gives, 1, __ATOMIC_RELAXED);
	if (ration->given != NULL)
		ration->given(frame);
	poison(ration, frame, size_log2);
	ration_return(ration, size_log2);
	ration->under->give(ration->under->ctx, frame, size_log2);
}

static bool ration_claim(void *ctx, uint64_t frame, unsigned size_log2)
{
	struct test_ration *ration = ctx;

	if (!ration_use(ration, size_log2))
		return false;
	if (!ration->under->claim(ration->under->ctx, frame, size_log2)) {
		ration_return(ration, size_log2);
		return false;
	}
	poison_check(ration, frame, size_log2);
	poison(ration, frame, size_log2);
	return true;
}

uint64_t test_ration_poison(struct test_ration *ration)
{
	uint64_t taken = FALLOW_FRAME_NONE, bytes = 0;
	unsigned log2 = LARGEST_LOG2;

	/* A list through the frames: the next one, and this one's size. */
	while (log2 >= 12) {
		uint64_t frame = ration->under->take(ration->under->ctx, log2);

		if (frame == FALLOW_FRAME_NONE) {
			log2--;
			continue;
		}
		words_of(ration, frame)[0] = taken;
		words_of(ration, frame)[1] = log2;
		taken = frame;
	}
	while (taken != FALLOW_FRAME_NONE) {
		uint64_t frame = taken;

		taken = words_of(ration, frame)[0];
		log2 = (unsigned)words_of(ration, frame)[1];
		bytes += (uint64_t)1 << log2;
		poison(ration, frame, log2);
		ration->under->give(ration->under->ctx, frame, log2);
	}
	return bytes;
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
