/* SPDX-License-Identifier: MIT */
/*
 * Physical memory: a buddy allocator over many regions.
 *
 * A region is one contiguous piece of memory with a struct runs (runs.c) that
 * knows which of its granules are free.  A take asks every region for its
 * smallest run that fits, takes the best, and cuts the highest part off it.
 * All of the bookkeeping is in tables outside of the free memory; they come
 * from what the embedder handed in, or are carved from a region's end before
 * it is handed over, so that nothing but a direct map need exist yet.
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
#include <fallow/frames.h>

#include "grow.h"
#include "lock.h"
#include "runs.h"

#define GRANULE_LOG2_DEFAULT 12u
#define GRANULE_LOG2_MIN 8u
#define GRANULE_LOG2_MAX 30u
#define TABLE_ALIGN 64u

struct region {
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
	struct region *regions[FALLOW_FRAMES_REGIONS_MAX];
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
_Static_assert(TABLE_ALIGN % _Alignof(struct region) == 0,
	"a table begins with a region");
_Static_assert(TABLE_ALIGN <= 1u << GRANULE_LOG2_MIN,
	"a carved granule is aligned for a table");

/* Returns what is inside. */
static struct frames *frames_of(struct fallow_frames *frames)
{
	return (struct frames *)(void *)frames->opaque;
}

/* Returns the next multiple of 2^log2; the caller knows that there is one. */
static uint64_t round_up(uint64_t value, unsigned log2)
{
	uint64_t mask = ((uint64_t)1 << log2) - 1;

	return (value + mask) & ~mask;
}

/* Returns the multiple of 2^log2 at or below. */
static uint64_t round_down(uint64_t value, unsigned log2)
{
	return value >> log2 << log2;
}

/* Returns floor(log2(value)); value is not 0. */
static unsigned log2_of(uint64_t value)
{
	return 63 - (unsigned)__builtin_clzll(value);
}

/* ---- misuse ---- */

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
		return "size below the granule or above 2^63";
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
	if (f->misuse)
		f->misuse(f->misuse_ctx, &report);
}

/* Returns 0, or the misuse that these arguments are by themselves. */
static unsigned misuse_of_run(
	const struct frames *f, uint64_t frame, unsigned size_log2)
{
	if (size_log2 < f->granule_log2 || size_log2 > 63)
		return FALLOW_FRAMES_BAD_SIZE;
	if (frame & (((uint64_t)1 << size_log2) - 1))
		return FALLOW_FRAMES_MISALIGNED;
	return 0;
}

/* ---- regions ---- */

/* Returns the origin of a region at `base`: see the opening comment. */
static uint64_t region_origin(
	uint64_t base, uint64_t size, unsigned granule_log2)
{
	unsigned log2 = log2_of(size);

	if (log2 > granule_log2 + RUNS_ORDER_MAX)
		log2 = granule_log2 + RUNS_ORDER_MAX;
	return round_down(base, log2);
}

/* Returns the granules from the origin of a region to its end. */
static uint64_t region_granules(
	uint64_t base, uint64_t size, unsigned granule_log2)
{
	uint64_t origin = region_origin(base, size, granule_log2);

	return (base + size - origin) >> granule_log2;
}

/* Returns the size of the table of a region. */
static size_t region_table_bytes(
	uint64_t base, uint64_t size, unsigned granule_log2)
{
	uint64_t granules = region_granules(base, size, granule_log2);

	return (sizeof(struct region) + fl_runs_bytes(granules) +
		       TABLE_ALIGN - 1) &
		~(size_t)(TABLE_ALIGN - 1);
}

/* Makes a free region in its table. */
static struct region *region_make(
	void *table, uint64_t base, uint64_t size, unsigned granule_log2)
{
	struct region *region = table;
	uint64_t at;

	region->origin = region_origin(base, size, granule_log2);
	region->base = base;
	region->end = base + size;
	fl_runs_init(&region->runs, region + 1,
		region_granules(base, size, granule_log2));
	/* The largest aligned runs there are: they ascend, then descend. */
	for (at = base; at < region->end;) {
		unsigned order = log2_of(region->end - at);

		if (at && (unsigned)__builtin_ctzll(at) < order)
			order = (unsigned)__builtin_ctzll(at);
		order -= granule_log2;
		if (order > RUNS_ORDER_MAX)
			order = RUNS_ORDER_MAX;
		fl_runs_set(&region->runs,
			(at - region->origin) >> granule_log2, order, true);
		at += (uint64_t)1 << (order + granule_log2);
	}
	return region;
}

/* Returns the region that holds all of the run, or NULL. */
static struct region *region_of(
	const struct frames *f, uint64_t frame, unsigned size_log2)
{
	uint64_t size = (uint64_t)1 << size_log2;

	for (unsigned i = 0; i < f->region_count; i++) {
		struct region *region = f->regions[i];

		if (frame >= region->base && frame < region->end)
			return region->end - frame >= size ? region : NULL;
	}
	return NULL;
}

/* Returns whether a part of [base, end) was handed over. */
static bool region_overlaps(const struct frames *f, uint64_t base, uint64_t end)
{
	for (unsigned i = 0; i < f->region_count; i++)
		if (base < f->regions[i]->end && end > f->regions[i]->base)
			return true;
	return false;
}

/* Puts the region in its place in the list; the list has room. */
static void region_insert(struct frames *f, struct region *region)
{
	struct fl_port_state state = lock_take(&f->lock);
	uint64_t size = region->end - region->base;
	unsigned i = f->region_count++;

	for (; i > 0 && f->regions[i - 1]->base > region->base; i--)
		f->regions[i] = f->regions[i - 1];
	f->regions[i] = region;
	f->total += size;
	f->free += size;
	f->free_low = f->free;
	lock_leave(&f->lock, state);
}

/* ---- taking and giving, with the lock held ---- */

/* Makes a free run of the region taken, or the reverse. */
static void run_set(struct frames *f, struct region *region, uint64_t frame,
	unsigned size_log2, bool free)
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

/* Returns what the run of the region is. */
static enum runs_state run_state(const struct frames *f,
	const struct region *region, uint64_t frame, unsigned size_log2)
{
	uint64_t granule = (frame - region->origin) >> f->granule_log2;

	return fl_runs_state(
		&region->runs, granule, size_log2 - f->granule_log2);
}

/* Returns the frame of a granule of the region. */
static uint64_t granule_frame(
	const struct frames *f, const struct region *region, uint64_t granule)
{
	return region->origin + (granule << f->granule_log2);
}

/* Takes the highest part of the best run; see fallow_frames_take(). */
static uint64_t run_take(struct frames *f, unsigned size_log2)
{
	unsigned order = size_log2 - f->granule_log2;
	unsigned best_order = RUNS_ORDER_MAX + 1;
	struct region *best = NULL;
	uint64_t frame;

	for (unsigned i = f->region_count; i-- > 0 && order < best_order;) {
		uint32_t fit = order > RUNS_ORDER_MAX ? 0 :
			fl_runs_orders(&f->regions[i]->runs) >> order << order;

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
	run_set(f, best, frame, size_log2, false);
	return frame;
}

/* Takes the lowest run; see fallow_frames_take_below(). */
static uint64_t run_take_below(
	struct frames *f, unsigned size_log2, uint64_t limit)
{
	unsigned order = size_log2 - f->granule_log2;
	uint64_t size = (uint64_t)1 << size_log2;

	for (unsigned i = 0; i < f->region_count; i++) {
		struct region *region = f->regions[i];
		uint64_t frame;

		if (order > RUNS_ORDER_MAX ||
			!(fl_runs_orders(&region->runs) >> order))
			continue;
		frame = granule_frame(
			f, region, fl_runs_lowest(&region->runs, order));
		if (limit < size || frame > limit - size)
			return FALLOW_FRAME_NONE;
		run_set(f, region, frame, size_log2, false);
		return frame;
	}
	return FALLOW_FRAME_NONE;
}

/* ---- set-up ---- */

enum fallow_status fallow_frames_init(
	struct fallow_frames *frames, const struct fallow_frames_config *config)
{
	struct fallow_frames_config given = { 0 };
	struct frames *f;

	if (!frames || !config)
		return FALLOW_MISSING_ARGUMENT;
	if (!grow_read(&given, sizeof(given), config))
		return FALLOW_BAD_SIZE_FIELD;
	if (given.granule_log2 != 0 &&
		(given.granule_log2 < GRANULE_LOG2_MIN ||
			given.granule_log2 > GRANULE_LOG2_MAX))
		return FALLOW_BAD_GRANULE;
	if ((uintptr_t)given.tables % TABLE_ALIGN)
		return FALLOW_BAD_TABLES;
	f = frames_of(frames);
	*f = (struct frames){
		.granule_log2 = given.granule_log2 ? given.granule_log2 :
						       GRANULE_LOG2_DEFAULT,
		.spare = given.tables,
		.spare_size = given.tables ? given.tables_size : 0,
		.direct_offset = given.direct_offset,
		.direct_end = given.direct_end ? given.direct_end :
						   UINT64_MAX,
		.misuse = given.misuse,
		.misuse_ctx = given.misuse_ctx,
	};
	return FALLOW_OK;
}

enum fallow_status fallow_frames_exclude(
	struct fallow_frames *frames, uint64_t base, uint64_t size)
{
	struct frames *f;
	uint64_t end = base + size;

	if (!frames)
		return FALLOW_MISSING_ARGUMENT;
	f = frames_of(frames);
	if (size == 0)
		return FALLOW_OK;
	if (end < base || end > round_down(UINT64_MAX, f->granule_log2))
		return FALLOW_RANGE_WRAPS;
	base = round_down(base, f->granule_log2);
	end = round_up(end, f->granule_log2);
	if (region_overlaps(f, base, end))
		return FALLOW_REGION_OVERLAPS;
	if (f->excluded_count == FALLOW_FRAMES_EXCLUDED_MAX)
		return FALLOW_TOO_MANY_REGIONS;
	f->excluded[f->excluded_count++] = (struct extent){ base, end };
	return FALLOW_OK;
}

/*
 * Cuts `bytes`, whole granules, off the end of the extent that is the less
 * aligned one, which spoils the smaller runs.  Returns its frame, or
 * FALLOW_FRAME_NONE if no such end is in the direct map or nothing would be
 * left.
 */
static uint64_t extent_carve(
	const struct frames *f, struct extent *extent, uint64_t bytes)
{
	uint64_t size = extent->end - extent->base;
	bool head = size > bytes &&
		extent->base <= f->direct_end &&
		f->direct_end - extent->base >= bytes;
	bool tail = size > bytes && extent->end <= f->direct_end;

	if (head && tail)
		head = (extent->base & -extent->base) - 1 <
			(extent->end & -extent->end) - 1;
	if (head) {
		extent->base += bytes;
		return extent->base - bytes;
	}
	if (tail) {
		extent->end -= bytes;
		return extent->end;
	}
	return FALLOW_FRAME_NONE;
}

/* Takes whole granules for a table out of what is there already; returns the
 * frame or FALLOW_FRAME_NONE. */
static uint64_t table_take(struct frames *f, uint64_t bytes)
{
	unsigned size_log2 = log2_of(2 * bytes - 1);
	struct fl_port_state state = lock_take(&f->lock);
	uint64_t frame = run_take_below(f, size_log2, f->direct_end);
	uint64_t tail = (uint64_t)1 << size_log2;

	/* It is no memory of the allocator's any more; what is too much goes
	 * back, the highest and largest parts last. */
	if (frame != FALLOW_FRAME_NONE) {
		struct region *region = region_of(f, frame, size_log2);

		f->total -= bytes;
		f->tables_inside += bytes;
		while (tail > bytes) {
			unsigned log2 = f->granule_log2 +
				(unsigned)__builtin_ctzll(
					bytes >> f->granule_log2);

			run_set(f, region, frame + bytes, log2, true);
			bytes += (uint64_t)1 << log2;
		}
	}
	lock_leave(&f->lock, state);
	return frame;
}

/* Returns a table of `need` bytes in granules of its own: cut off the extent,
 * or taken out of what is there.  NULL if there is none. */
static unsigned char *table_new(
	struct frames *f, struct extent *extent, size_t need)
{
	uint64_t bytes = round_up(need, f->granule_log2);
	uint64_t frame = extent_carve(f, extent, bytes);
	unsigned char *table;

	if (frame == FALLOW_FRAME_NONE)
		frame = table_take(f, bytes);
	if (frame == FALLOW_FRAME_NONE)
		return NULL;
	table = (unsigned char *)((uintptr_t)frame + f->direct_offset);
	/* The larger rest serves the tables to come. */
	if (bytes - need > f->spare_size) {
		f->spare = table + need;
		f->spare_size = (size_t)bytes - need;
	}
	return table;
}

/* Returns memory for the table of the extent, which may become smaller by it;
 * NULL if there is none. */
static void *table_get(struct frames *f, struct extent *extent)
{
	size_t need = region_table_bytes(
		extent->base, extent->end - extent->base, f->granule_log2);
	unsigned char *table;

	if (f->spare_size >= need) {
		table = f->spare;
		f->spare += need;
		f->spare_size -= need;
	} else {
		table = table_new(f, extent, need);
	}
	f->tables += table ? need : 0;
	return table;
}

/* Hands over one extent of whole granules without exclusions in it. */
static enum fallow_status extent_add(struct frames *f, struct extent extent)
{
	uint64_t granules = (extent.end - extent.base) >> f->granule_log2;
	void *table;

	if (f->region_count == FALLOW_FRAMES_REGIONS_MAX)
		return FALLOW_TOO_MANY_REGIONS;
	table = table_get(f, &extent);
	if (!table)
		return granules > 1 ? FALLOW_NO_TABLE_MEMORY :
				      FALLOW_REGION_TOO_SMALL;
	region_insert(f, region_make(table, extent.base,
				 extent.end - extent.base, f->granule_log2));
	return FALLOW_OK;
}

/* Returns the end of an exclusion that holds `at`, else `at`. */
static uint64_t excluded_end(const struct frames *f, uint64_t at)
{
	for (unsigned i = 0; i < f->excluded_count; i++)
		if (f->excluded[i].base <= at && at < f->excluded[i].end)
			return f->excluded[i].end;
	return at;
}

/* Sets *piece to the first part of [at, end) that is not excluded; returns
 * whether there is one. */
static bool extent_next(const struct frames *f, uint64_t at, uint64_t end,
	struct extent *piece)
{
	/* Exclusions may overlap and are in no order: each can only move `at`
	 * once. */
	while (excluded_end(f, at) != at)
		at = excluded_end(f, at);
	if (at >= end)
		return false;
	*piece = (struct extent){ at, end };
	for (unsigned i = 0; i < f->excluded_count; i++)
		if (f->excluded[i].base > at &&
			f->excluded[i].base < piece->end)
			piece->end = f->excluded[i].base;
	return true;
}

enum fallow_status fallow_frames_add(
	struct fallow_frames *frames, uint64_t base, uint64_t size)
{
	enum fallow_status status = FALLOW_REGION_TOO_SMALL;
	uint64_t end = base + size;
	struct extent piece;
	bool added = false;
	struct frames *f;

	if (!frames)
		return FALLOW_MISSING_ARGUMENT;
	f = frames_of(frames);
	if (end < base)
		return FALLOW_RANGE_WRAPS;
	end = round_down(end, f->granule_log2);
	if (end <= base || round_up(base, f->granule_log2) >= end)
		return FALLOW_REGION_TOO_SMALL;
	base = round_up(base, f->granule_log2);
	if (region_granules(base, end - base, f->granule_log2) >
		RUNS_GRANULES_MAX)
		return FALLOW_BAD_SETTING;
	if (region_overlaps(f, base, end))
		return FALLOW_REGION_OVERLAPS;
	for (; extent_next(f, base, end, &piece); base = piece.end) {
		status = extent_add(f, piece);
		/* A piece too small to carry its own table is no loss. */
		if (status != FALLOW_OK && status != FALLOW_REGION_TOO_SMALL)
			return status;
		added |= status == FALLOW_OK;
	}
	return added ? FALLOW_OK : status;
}

size_t fallow_frames_table_bytes(
	uint64_t base, uint64_t size, unsigned granule_log2)
{
	uint64_t end = base + size;

	if (granule_log2 == 0)
		granule_log2 = GRANULE_LOG2_DEFAULT;
	if (size == 0 || end < base || granule_log2 < GRANULE_LOG2_MIN ||
		granule_log2 > GRANULE_LOG2_MAX)
		return 0;
	base = round_up(base, granule_log2);
	end = round_down(end, granule_log2);
	return base < end ? region_table_bytes(base, end - base, granule_log2) :
			    0;
}

/* ---- the public calls ---- */

uint64_t fallow_frames_take(struct fallow_frames *frames, unsigned size_log2)
{
	struct frames *f = frames_of(frames);
	struct fl_port_state state;
	uint64_t frame;

	if (misuse_of_run(f, 0, size_log2)) {
		misuse_report(f, FALLOW_FRAMES_BAD_SIZE, FALLOW_FRAME_NONE,
			size_log2, __builtin_return_address(0));
		return FALLOW_FRAME_NONE;
	}
	state = lock_take(&f->lock);
	frame = run_take(f, size_log2);
	f->failures += frame == FALLOW_FRAME_NONE;
	lock_leave(&f->lock, state);
	return frame;
}

uint64_t fallow_frames_take_below(
	struct fallow_frames *frames, unsigned size_log2, uint64_t limit)
{
	struct frames *f = frames_of(frames);
	struct fl_port_state state;
	uint64_t frame;

	if (misuse_of_run(f, 0, size_log2)) {
		misuse_report(f, FALLOW_FRAMES_BAD_SIZE, FALLOW_FRAME_NONE,
			size_log2, __builtin_return_address(0));
		return FALLOW_FRAME_NONE;
	}
	state = lock_take(&f->lock);
	frame = run_take_below(f, size_log2, limit);
	f->failures += frame == FALLOW_FRAME_NONE;
	lock_leave(&f->lock, state);
	return frame;
}

void fallow_frames_give(
	struct fallow_frames *frames, uint64_t frame, unsigned size_log2)
{
	struct frames *f = frames_of(frames);
	unsigned misuse = misuse_of_run(f, frame, size_log2);

	if (!misuse) {
		struct fl_port_state state = lock_take(&f->lock);
		struct region *region = region_of(f, frame, size_log2);

		if (!region)
			misuse = FALLOW_FRAMES_FOREIGN;
		else if (run_state(f, region, frame, size_log2) != RUNS_TAKEN)
			misuse = FALLOW_FRAMES_DOUBLE_GIVE;
		else
			run_set(f, region, frame, size_log2, true);
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
	struct region *region;
	bool claimed;

	if (misuse) {
		misuse_report(f, (enum fallow_frames_misuse_kind)misuse, frame,
			size_log2, __builtin_return_address(0));
		return false;
	}
	state = lock_take(&f->lock);
	region = region_of(f, frame, size_log2);
	claimed = region &&
		run_state(f, region, frame, size_log2) == RUNS_FREE;
	if (claimed)
		run_set(f, region, frame, size_log2, false);
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

/* ---- what can be seen ---- */

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
	all.tables = f->tables;
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
static const char *region_check(
	const struct frames *f, const struct region *region, uint64_t *where)
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
		const struct region *region = f->regions[i];
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
	const char *broken = frames_check(f, where ? where : &ignored);

	lock_leave(&f->lock, state);
	return broken;
}
