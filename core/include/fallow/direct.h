/* SPDX-License-Identifier: MIT */
/*
 * The provider of class direct: runs of frames, used where a direct map of all
 * RAM has them.  For a kernel whose boot loader made such a map and that does
 * not want to touch page tables yet.
 */
#ifndef FALLOW_DIRECT_H
#define FALLOW_DIRECT_H

#include <fallow/frames.h>
#include <fallow/provider.h>
#include <fallow/status.h>

#ifdef __cplusplus
extern "C" {
#endif

struct fallow_direct_config {
	/* sizeof(struct fallow_direct_config): lets the struct grow. */
	size_t size;
	/*
	 * Copied by the init.  All frames that they give must be inside the
	 * window, but for the one at address 0: a reserve that gets two runs
	 * outside gives both back and returns 0, whatever else is free.
	 *
	 * claim is optional.  Without, a reserve succeeds iff there is a run of
	 * the next power of two.  With it, it also does if a free run holds
	 * size and alignment and the seed: the block of half or of a quarter of
	 * that power, not below the alignment, that `take` gives for it.  Of
	 * several free runs that may be one in which the rest is not free, and
	 * the reserve then returns 0.
	 */
	const struct fallow_frame_hooks *hooks;
	/* Physical address + offset is the address, modulo 2^64. */
	uintptr_t offset;
	/* The window of the heap; a run outside of it is never returned. */
	uintptr_t window_base;
	size_t window_size;
	/* Optional: the provider's now(). */
	uint64_t (*now)(void *ctx);
	void *now_ctx;
};

/* The embedder owns its storage, which must stay where it is as long as a heap
 * uses the provider. */
struct fallow_direct {
	/* What fallow_config.provider takes; written by the init. */
	struct fallow_provider provider;
	/* The provider's own. */
	struct fallow_direct_config config;
	struct fallow_frame_hooks hooks;
};

/*
 * Makes a provider.  Several heaps may share one.
 * Fails iff: MISSING_ARGUMENT (direct, config, hooks, take or give),
 * BAD_SIZE_FIELD, RANGE_WRAPS (the window).  Context: any.
 */
enum fallow_status fallow_direct_init(struct fallow_direct *direct,
	const struct fallow_direct_config *config)
	__attribute__((warn_unused_result));

#ifdef __cplusplus
}
#endif

#endif
