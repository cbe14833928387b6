/* SPDX-License-Identifier: MIT */
/*
 * Physical memory: a buddy allocator over many regions.
 *
 * A region is one contiguous piece of memory with a struct runs (runs.c) that
 * knows which of its granules are free.  A take asks every region for its
 * smallest run that fits, takes the best, and cuts the highest part off it.
 * All of the bookkeeping is in tables outside of the free memory; they come
 * from what the embedder handed in, or are carved from a region's end before
 * it is handed over (frames_setup.c), so that nothing but a direct map need
 * exist yet.
 *
 * A region's runs are numbered from its *origin*, a multiple of the largest
 * run that fits in the region, so that an aligned number is an aligned
 * frame.  What lies between the origin and the region's begin is never free.
 *
 * Invariants, named as fallow_frames_check() prints them:
 *   "regions ascend and are apart"
 *   "free <= granules of the region"
 *   "nothing is free outside of the region"
 *   "free == sum over the regions"
 *   "total + tables inside == sum over the regions"
 *   "free <= total"
 * and those of runs.c.
 *
 * One lock protects the regions' runs, the list of regions and the counters.
 * It is held for the walk of one tree, never while the misuse hook runs.
 * The settings and the exclusions are written by set-up calls alone, which
 * come from one context at a time.
 *
 * What it does not do: nodes of memory, zeroing, taking a region back.
 */
#include "frames.h"

const char *fallow_frames_misuse_text(enum fallow_frames_misuse_kind kind)
{
	switch (kind) {
	case FALLOW_FRAMES_DOUBLE_GIVE:
		return "double give";
	case FALLOW_FRAMES_FOREIGN:
		return "run outside of the memory handed over";
	case FALLOW_FRAMES_MISALIGNED:
		return "frame is no multiple of the run's size";
	case FALLOW_FRAMES_BAD_SIZE:
		return "size that no run has";
	default:
		return "unknown misuse of frames";
	}
}

/* Counts the misuse and tells the hook. */
static void misuse_report(struct frames *f, enum fallow_frames_misuse_kind kind,
	uint64_t frame, unsigned size_log2, void *caller)
{
	struct fallow_frames_misuse report = {
		.kind = kind,
		.frame = frame,
		.size_log2 = size_log2,
		.caller = (uintptr_t)caller,
	};

	fl_add_relaxed(&f->misuses, 1);
	fl_watch_none();
	if (f->misuse)
		f->misuse(f->misuse_ctx, &report);
}

/* Whether no run has this size. */
static bool size_bad(const struct frames *f, unsigned size_log2)
{
	return size_log2 < f->granule_log2 || size_log2 > 63;
}

/*
 * Returns 0, or the misuse that naming this run is by itself.  A region may be
 * larger than the largest run, so that it is inside of one is no proof that the
 * books, which have a bit an order, know its order.
 */
static unsigned misuse_of_run(
	const struct frames *f, uint64_t frame, unsigned size_log2)
{
	if (size_bad(f, size_log2) ||
		size_log2 - f->granule_log2 > RUNS_ORDER_MAX)
		return FALLOW_FRAMES_BAD_SIZE;
	if (frame & (((uint64_t)1 << size_log2) - 1))
		return FALLOW_FRAMES_MISALIGNED;
	return 0;
}

/* Returns the region that holds all of the run, or NULL. */
struct frame_region *fl_frames_region(
	const struct frames *f, uint64_t frame, unsigned size_log2)
{
	uint64_t size = (uint64_t)1 << size_log2;

	for (unsigned i = 0; i < f->region_count; i++) {
		struct frame_region *region = f->regions[i];

		fl_watch_steps(1);
		if (frame >= region->base && frame < region->end)
			return region->end - frame >= size ? region : NULL;
	}
	return NULL;
}

/* Makes a free run of the region taken, or the reverse. */
void fl_frames_set(struct frames *f, struct frame_region *region,
	uint64_t frame, unsigned size_log2, bool free)
{
	uint64_t granule = (frame - region->origin) >> f->granule_log2;
	uint64_t size = (uint64_t)1 << size_log2;

	fl_runs_set(&region->runs, granule, size_log2 - f->granule_log2, free);
	if (free) {
		f->free += size;
		f->gives++;
		return;
	}
	f->free -= size;
	f->takes++;
	if (f->free < f->free_low)
		f->free_low = f->free;
}

/* Takes the highest part of the best run; see fallow_frames_take(). */
static uint64_t run_take(struct frames *f, unsigned size_log2)
{
	unsigned order = size_log2 - f->granule_log2;
	unsigned best_order = RUNS_ORDER_MAX + 1;
	struct frame_region *best = NULL;
	uint64_t frame;

	for (unsigned i = f->region_count; i-- > 0 && order < best_order;) {
		uint32_t fit = order > RUNS_ORDER_MAX ? 0 :
			fl_runs_orders(&f->regions[i]->runs) >> order << order;

		fl_watch_steps(1);
		if (fit && (unsigned)__builtin_ctz(fit) < best_order) {
			best = f->regions[i];
			best_order = (unsigned)__builtin_ctz(fit);
		}
	}
	if (!best)
		return FALLOW_FRAME_NONE;
	frame = granule_frame(
		f, best, fl_runs_highest(&best->runs, best_order));
	frame += (uint64_t)1 << (best_order + f->granule_log2);
	frame -= (uint64_t)1 << size_log2;
	fl_frames_set(f, best, frame, size_log2, false);
	return frame;
}

/* Takes the lowest run; see fallow_frames_take_below(). */
uint64_t fl_frames_take_below(
	struct frames *f, unsigned size_log2, uint64_t limit)
{
	unsigned order = size_log2 - f->granule_log2;
	uint64_t size = (uint64_t)1 << size_log2;

	for (unsigned i = 0; i < f->region_count; i++) {
		struct frame_region *region = f->regions[i];
		uint64_t frame;

		fl_watch_steps(1);
		if (order > RUNS_ORDER_MAX ||
			!(fl_runs_orders(&region->runs) >> order))
			continue;
		frame = granule_frame(
			f, region, fl_runs_lowest(&region->runs, order));
		if (limit < size || frame > limit - size)
			return FALLOW_FRAME_NONE;
		fl_frames_set(f, region, frame, size_log2, false);
		return frame;
	}
	return FALLOW_FRAME_NONE;
}

/* Takes a run that ends at or below `limit`, FALLOW_FRAME_NONE for anywhere,
 * for the public function that `caller` called. */
static uint64_t frame_take(struct frames *f, unsigned size_log2,
	uint64_t limit, void *caller)
{
	struct fl_port_state state;
	uint64_t frame;

	if (size_bad(f, size_log2)) {
		misuse_report(f, FALLOW_FRAMES_BAD_SIZE, FALLOW_FRAME_NONE,
			size_log2, caller);
		return FALLOW_FRAME_NONE;
	}
	state = lock_take(&f->lock);
	frame = limit == FALLOW_FRAME_NONE
		? run_take(f, size_log2)
		: fl_frames_take_below(f, size_log2, limit);
	f->failures += frame == FALLOW_FRAME_NONE;
	lock_leave(&f->lock, state);
	return frame;
}

uint64_t fallow_frames_take(struct fallow_frames *frames, unsigned size_log2)
{
	return frame_take(frames_of(frames), size_log2, FALLOW_FRAME_NONE,
		__builtin_return_address(0));
}

uint64_t fallow_frames_take_below(
	struct fallow_frames *frames, unsigned size_log2, uint64_t limit)
{
	return frame_take(frames_of(frames), size_log2, limit,
		__builtin_return_address(0));
}

void fallow_frames_give(
	struct fallow_frames *frames, uint64_t frame, unsigned size_log2)
{
	struct frames *f = frames_of(frames);
	unsigned misuse = misuse_of_run(f, frame, size_log2);

	if (!misuse) {
		struct fl_port_state state = lock_take(&f->lock);
		struct frame_region *region =
			fl_frames_region(f, frame, size_log2);

		if (!region)
			misuse = FALLOW_FRAMES_FOREIGN;
		else if (run_state(f, region, frame, size_log2) != RUNS_TAKEN)
			misuse = FALLOW_FRAMES_DOUBLE_GIVE;
		else
			fl_frames_set(f, region, frame, size_log2, true);
		lock_leave(&f->lock, state);
	}
	if (misuse)
		misuse_report(f, (enum fallow_frames_misuse_kind)misuse, frame,
			size_log2, __builtin_return_address(0));
}

bool fallow_frames_claim(
	struct fallow_frames *frames, uint64_t frame, unsigned size_log2)
{
	struct frames *f = frames_of(frames);
	unsigned misuse = misuse_of_run(f, frame, size_log2);
	struct fl_port_state state;
	struct frame_region *region;
	bool claimed;

	if (misuse) {
		misuse_report(f, (enum fallow_frames_misuse_kind)misuse, frame,
			size_log2, __builtin_return_address(0));
		return false;
	}
	state = lock_take(&f->lock);
	region = fl_frames_region(f, frame, size_log2);
	claimed = region &&
		run_state(f, region, frame, size_log2) == RUNS_FREE;
	if (claimed)
		fl_frames_set(f, region, frame, size_log2, false);
	else
		f->failures++;
	lock_leave(&f->lock, state);
	return claimed;
}

/* The hooks: the public calls, with the context's type lost. */
static uint64_t hook_take(void *ctx, unsigned size_log2)
{
	return fallow_frames_take(ctx, size_log2);
}

static void hook_give(void *ctx, uint64_t frame, unsigned size_log2)
{
	fallow_frames_give(ctx, frame, size_log2);
}

static bool hook_claim(void *ctx, uint64_t frame, unsigned size_log2)
{
	return fallow_frames_claim(ctx, frame, size_log2);
}

struct fallow_frame_hooks fallow_frames_hooks(struct fallow_frames *frames)
{
	return (struct fallow_frame_hooks){
		.ctx = frames,
		.take = hook_take,
		.give = hook_give,
		.claim = hook_claim,
	};
}
