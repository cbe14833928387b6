/* SPDX-License-Identifier: MIT */
/*
 * What images that have a heap over the board's window share: misuses are
 * counted and printed, and a test can say how much of RAM is free.
 */
#ifndef GUEST_HEAP_H
#define GUEST_HEAP_H

#include <fallow/fallow.h>
#include <fallow/frames.h>

#include "board.h"
#include "test.h"

/* Since the test set it to 0. */
static unsigned misuses;

/* The heap's misuse hook: none of these tests makes one on purpose. */
static inline void misuse_note(void *ctx, const struct fallow_misuse *report)
{
	(void)ctx;
	misuses++;
	test_printf("\n    %s: 0x%lx, caller 0x%lx",
		fallow_misuse_text(report->kind),
		(unsigned long)report->address, (unsigned long)report->caller);
}

/* Bytes of RAM that nobody has. */
static inline size_t frames_free(void)
{
	struct fallow_frames_counts counts = { .size = sizeof(counts) };

	fallow_frames_counts(board_frames(), &counts);
	return (size_t)counts.free;
}

#endif
