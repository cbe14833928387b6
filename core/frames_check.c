/* SPDX-License-Identifier: MIT */
/*
 * What can be seen of a frame allocator: its counts, and its invariants
 * verified.  Both hold the lock, so that what they see is of one moment.
 */
#include "frames.h"
#include "grow.h"

/* Returns log2 of the largest free run, or 0. */
static unsigned largest_log2(const struct frames *f)
{
	uint32_t orders = 0;

	for (unsigned i = 0; i < f->region_count; i++)
		orders |= fl_runs_orders(&f->regions[i]->runs);
	return orders ? log2_of(orders) + f->granule_log2 : 0;
}

void fallow_frames_counts(
	struct fallow_frames *frames, struct fallow_frames_counts *counts)
{
	struct frames *f = frames_of(frames);
	struct fallow_frames_counts all = { 0 };
	struct fl_port_state state = lock_take(&f->lock);

	all.total = f->total;
	all.free = f->free;
	all.free_low = f->free_low;
	all.tables = fl_load_relaxed(&f->tables);
	all.regions = f->region_count;
	all.largest_log2 = largest_log2(f);
	all.takes = f->takes;
	all.gives = f->gives;
	all.failures = f->failures;
	all.misuses = fl_load_relaxed(&f->misuses);
	lock_leave(&f->lock, state);
	grow_write(counts, &all, sizeof(all));
}

/* Returns the broken invariant of one region, or NULL. */
static const char *region_check(const struct frames *f,
	const struct frame_region *region, uint64_t *where)
{
	uint64_t granules = (region->end - region->base) >> f->granule_log2;
	uint64_t granule = 0;
	const char *broken = fl_runs_check(&region->runs, &granule);

	*where = granule_frame(f, region, granule);
	if (broken)
		return broken;
	if (region->runs.free > granules)
		return "free <= granules of the region";
	/* The end is the runs' own; before the begin, one granule at a time,
	 * is at most as much again as the region. */
	for (*where = region->origin; *where < region->base;
		*where += (uint64_t)1 << f->granule_log2)
		if (run_state(f, region, *where, f->granule_log2) !=
			RUNS_TAKEN)
			return "nothing is free outside of the region";
	return NULL;
}

/* fallow_frames_check(), with the lock held. */
static const char *frames_check(const struct frames *f, uint64_t *where)
{
	uint64_t free = 0, total = 0, last = 0;

	for (unsigned i = 0; i < f->region_count; i++) {
		const struct frame_region *region = f->regions[i];
		const char *broken;

		*where = region->base;
		if (region->base < last || region->end <= region->base)
			return "regions ascend and are apart";
		last = region->end;
		broken = region_check(f, region, where);
		if (broken)
			return broken;
		free += region->runs.free << f->granule_log2;
		total += region->end - region->base;
	}
	*where = 0;
	if (free != f->free)
		return "free == sum over the regions";
	if (f->total + f->tables_inside != total)
		return "total + tables inside == sum over the regions";
	if (f->free > f->total)
		return "free <= total";
	return NULL;
}

const char *fallow_frames_check(struct fallow_frames *frames, uint64_t *where)
{
	struct frames *f = frames_of(frames);
	struct fl_port_state state = lock_take(&f->lock);
	uint64_t ignored;
	const char *broken;

	/* All of it is looked at in one hold: it is for tests. */
	fl_watch_allow(UINT32_MAX / 2);
	broken = frames_check(f, where ? where : &ignored);
	lock_leave(&f->lock, state);
	return broken;
}
