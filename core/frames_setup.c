/* SPDX-License-Identifier: MIT */
/*
 * Setting a frame allocator up: its configuration, what is excluded, regions
 * and where their tables come from.
 *
 * What is handed over is trimmed to granules and cut at the exclusions; every
 * piece becomes a region.  Its table comes, in this order, from the memory
 * that is handed in or left over, from the piece's own less aligned end, or,
 * if the direct map does not reach that, out of what was handed over before.
 *
 * A region is made before anybody can see it; only its place in the list is
 * taken under the lock.  Everything else here is for one context at a time.
 */
#include "frames.h"
#include "grow.h"

#define GRANULE_LOG2_DEFAULT 12u
#define GRANULE_LOG2_MIN 8u
#define GRANULE_LOG2_MAX 30u
#define TABLE_ALIGN 64u

_Static_assert(TABLE_ALIGN % _Alignof(struct frame_region) == 0,
	"a table begins with a region");
_Static_assert(TABLE_ALIGN <= 1u << GRANULE_LOG2_MIN,
	"a carved granule is aligned for a table");

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

	return (sizeof(struct frame_region) + fl_runs_bytes(granules) +
		       TABLE_ALIGN - 1) &
		~(size_t)(TABLE_ALIGN - 1);
}

/* Makes a free region in its table. */
static struct frame_region *region_make(
	void *table, uint64_t base, uint64_t size, unsigned granule_log2)
{
	struct frame_region *region = table;
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

/* Returns whether a part of [base, end) was handed over. */
static bool region_overlaps(const struct frames *f, uint64_t base, uint64_t end)
{
	for (unsigned i = 0; i < f->region_count; i++)
		if (base < f->regions[i]->end && end > f->regions[i]->base)
			return true;
	return false;
}

/* Puts the region in its place in the list; the list has room. */
static void region_insert(struct frames *f, struct frame_region *region)
{
	struct fl_port_state state = lock_take(&f->lock);
	uint64_t size = region->end - region->base;
	unsigned i = f->region_count++;

	for (; i > 0 && f->regions[i - 1]->base > region->base; i--) {
		f->regions[i] = f->regions[i - 1];
		fl_watch_steps(1);
	}
	f->regions[i] = region;
	f->total += size;
	f->free += size;
	f->free_low = f->free;
	lock_leave(&f->lock, state);
}

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
	lock_kind_set(&f->lock, LOCK_FRAMES);
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
	uint64_t frame = fl_frames_take_below(f, size_log2, f->direct_end);
	uint64_t tail = (uint64_t)1 << size_log2;

	/* It is no memory of the allocator's any more; what is too much goes
	 * back, the highest and largest parts last. */
	if (frame != FALLOW_FRAME_NONE) {
		struct frame_region *region =
			fl_frames_region(f, frame, size_log2);

		f->total -= bytes;
		f->tables_inside += bytes;
		while (tail > bytes) {
			unsigned log2 = f->granule_log2 +
				(unsigned)__builtin_ctzll(
					bytes >> f->granule_log2);

			fl_frames_set(f, region, frame + bytes, log2, true);
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
	/* Others may be counting. */
	if (table)
		fl_add_relaxed(&f->tables, need);
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
