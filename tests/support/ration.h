/* SPDX-License-Identifier: MIT */
/*
 * Frame hooks between a provider and the frame allocator that refuse from the
 * n-th take on, or above so many bytes, count what is out, and poison what
 * comes back.  They may be used by any number of CPUs at once; the settings are
 * the test's alone.
 */
#ifndef RATION_H
#define RATION_H

#include <fallow/frames.h>

#define TEST_RATION_NONE UINT64_MAX

struct test_ration {
	const struct fallow_frame_hooks *under;
	uintptr_t direct_offset;
	/* Takes and claims that may still succeed; UINT64_MAX: no limit. */
	uint64_t left;
	/* Bytes that may be out at most; 0: no limit. */
	uint64_t limit;
	/* Whatever `under` has was given back through these hooks before, and
	 * so is poisoned.  Then a word that is not, as a frame is taken, was
	 * written by somebody who had it no more: counted in `stale`. */
	bool poisoned;
	uint64_t stale;
	/* Bytes taken and not given back. */
	uint64_t out;
	/* Calls of each kind, refused ones too. */
	uint64_t takes, gives;
	/* Optional: called at each give, before anything happens to it. */
	void (*given)(uint64_t frame);
};

/* What a frame that was given back is filled with. */
#define TEST_RATION_POISON 0xdb

/* Takes all that `under` has and gives it back, poisoned; nobody else uses it.
 * Returns: how many bytes that were. */
uint64_t test_ration_poison(struct test_ration *ration);

/* Returns hooks over *ration, without `claim` if there is none under it. */
struct fallow_frame_hooks test_ration_hooks(struct test_ration *ration);

#endif
