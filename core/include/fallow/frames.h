/* SPDX-License-Identifier: MIT */
#ifndef FALLOW_FRAMES_H
#define FALLOW_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* No frame: what a take returns when there is none. */
#define FALLOW_FRAME_NONE UINT64_MAX

/*
 * Where a provider gets physical memory from: the embedder's frame allocator,
 * or struct fallow_frames by fallow_frames_hooks().  A run of 2^size_log2
 * bytes is aligned to its size; size_log2 is at least the granule's.
 * Context of each: any, from interrupt handlers too; never called with a lock
 * of fallow's heap held.
 */
struct fallow_frame_hooks {
	void *ctx;
	/* Returns the physical address, or FALLOW_FRAME_NONE iff none. */
	uint64_t (*take)(void *ctx, unsigned size_log2);
	/* Gives back a run, or an aligned part of one that was taken. */
	void (*give)(void *ctx, uint64_t frame, unsigned size_log2);
	/* Optional: takes this run iff all of it is free. */
	bool (*claim)(void *ctx, uint64_t frame, unsigned size_log2);
};

#ifdef __cplusplus
}
#endif

#endif
