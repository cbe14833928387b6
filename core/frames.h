/* SPDX-License-Identifier: MIT */
/*
 * What the files of the frame allocator share: frames.c (take, give, claim),
 * frames_setup.c and frames_check.c.  The opening comment of frames.c says
 * how it works.
 */
#ifndef CORE_FRAMES_H
#define CORE_FRAMES_H

#include <fallow/frames.h>

#include "lock.h"
#include "runs.h"

#pragma GCC visibility push(hidden)

/* One piece of memory that was handed over; it stands at the begin of its
 * table, followed by the memory of `runs`. */
struct frame_region {
	uint64_t origin; /* the frame of granule 0 of `runs` */
	uint64_t base;   /* what was handed over: [base, end) */
	uint64_t end;
	struct runs runs;
};

struct extent {
	uint64_t base, end;
};

struct frames {
	struct lock lock;
	unsigned granule_log2;
	unsigned region_count;
	unsigned excluded_count;
	/* Ascending, apart. */
	struct frame_region *regions[FALLOW_FRAMES_REGIONS_MAX];
	struct extent excluded[FALLOW_FRAMES_EXCLUDED_MAX];
	/* Memory for tables that no region has used yet. */
	unsigned char *spare;
	size_t spare_size;
	uintptr_t direct_offset;
	uint64_t direct_end;
	void (*misuse)(void *ctx, const struct fallow_frames_misuse *report);
	void *misuse_ctx;
	/* total: the regions without the tables that were taken out of them
	 * later, which are tables_inside. */
	uint64_t free, free_low, total, tables, tables_inside;
	uint64_t takes, gives, failures, misuses;
};

_Static_assert(sizeof(struct frames) <= FALLOW_FRAMES_BYTES,
	"FALLOW_FRAMES_BYTES is too small");
_Static_assert(_Alignof(struct frames) <= _Alignof(struct fallow_frames),
	"struct fallow_frames is not aligned enough");

/* Returns what is inside. */
static inline struct frames *frames_of(struct fallow_frames *frames)
{
	return (struct frames *)(void *)frames->opaque;
}

/* Returns floor(log2(value)); value is not 0. */
static inline unsigned log2_of(uint64_t value)
{
	return 63 - (unsigned)__builtin_clzll(value);
}

/* Returns the frame of a granule of the region. */
static inline uint64_t granule_frame(const struct frames *f,
	const struct frame_region *region, uint64_t granule)
{
	return region->origin + (granule << f->granule_log2);
}

/* Returns what the run of the region is. */
static inline enum runs_state run_state(const struct frames *f,
	const struct frame_region *region, uint64_t frame, unsigned size_log2)
{
	uint64_t granule = (frame - region->origin) >> f->granule_log2;

	return fl_runs_state(
		&region->runs, granule, size_log2 - f->granule_log2);
}

/* Returns the region that holds all of the run, or NULL.  With the lock
 * held. */
struct frame_region *fl_frames_region(
	const struct frames *f, uint64_t frame, unsigned size_log2);

/* Makes a free run of the region taken, or the reverse, and counts it.  With
 * the lock held. */
void fl_frames_set(struct frames *f, struct frame_region *region,
	uint64_t frame, unsigned size_log2, bool free);

/* As fallow_frames_take_below(), with the lock held. */
uint64_t fl_frames_take_below(
	struct frames *f, unsigned size_log2, uint64_t limit);

#pragma GCC visibility pop

#endif
