/* SPDX-License-Identifier: MIT */
/*
 * The provider of class window on aarch64's page tables.
 *
 * Here are the calls themselves, and where commit() gets frames from: a chunk
 * that is wanted large from one 2 MiB frame; with RESERVED each page from its
 * own place in one, so that the chunk can be promoted later; else any.  What
 * becomes of the entries is in ranges.c, of tables and blocks in tables.c.
 *
 * Other CPUs are stopped, where that is the way, before any lock is taken: a
 * CPU that waits for a lock with interrupts masked cannot be stopped.
 *
 * Not done here: giving table pages back before the end; mapping anything but
 * Normal memory; a policy for when to use blocks, which is the heap's.
 */
#include "string.h"
#include "tables.h"

/* The memory type of a commit; only 0, Normal, is known. */
#define FLAGS_MEMORY_TYPE 0x00ff0000u

/* Where in its chunk's frame the page at addr lies. */
static uint64_t page_offset(uintptr_t addr)
{
	return addr & (MMU_BLOCK - 1);
}

/* Gives back [frame, end), part of one run, in the largest aligned pieces. */
static void run_give(struct pagetable *pt, uint64_t frame, uint64_t end)
{
	while (frame < end) {
		unsigned log2 = MMU_BLOCK_LOG2;

		while (frame & (((uint64_t)1 << log2) - 1) ||
			end - frame < (uint64_t)1 << log2)
			log2--;
		pt->frames.give(pt->frames.ctx, frame, log2);
		frame += (uint64_t)1 << log2;
	}
}

/*
 * Returns the 2 MiB frame that the chunk's pages lie in, judging by the first
 * page whose frame is at the page's own place in one; or FALLOW_FRAME_NONE.
 * (One in 512 frames is so by chance; it costs a promotion, nothing else.)
 */
static uint64_t home_seen(const uint64_t *table, bool *empty)
{
	*empty = true;
	for (size_t i = 0; i < MMU_ENTRIES; i++) {
		uint64_t entry = mmu_get(&table[i]);
		uint64_t home = (entry & MMU_ADDRESS) - (i << MMU_PAGE_LOG2);

		if (!entry)
			continue;
		*empty = false;
		if (!(home & (MMU_BLOCK - 1)))
			return home;
	}
	return FALLOW_FRAME_NONE;
}

/*
 * For a commit of [at, end), of one chunk, with RESERVED: returns the chunk's
 * home or FALLOW_FRAME_NONE.  *held tells whether the frames of the range are
 * already ours: a new home is taken whole, and what is not wanted yet given
 * back at once, to be claimed later if it is still free.
 */
static uint64_t home_find(struct pagetable *pt, const uint64_t *table,
	uintptr_t at, uintptr_t end, bool *held)
{
	bool empty;
	uint64_t home = home_seen(table, &empty);

	*held = false;
	if (!empty)
		return pt->frames.claim ? home : FALLOW_FRAME_NONE;
	/* Without a claim the rest could not be had later. */
	if (!pt->frames.claim && !chunk_whole(at, end))
		return FALLOW_FRAME_NONE;
	home = fl_table_frame(pt, MMU_BLOCK_LOG2);
	if (home == FALLOW_FRAME_NONE)
		return home;
	*held = true;
	run_give(pt, home, home + page_offset(at));
	run_give(pt, home + page_offset(end - 1) + 1, home + MMU_BLOCK);
	return home;
}

/* Takes the frame for the page at addr: at its place in `home` if it can. */
static uint64_t page_frame(struct pagetable *pt, uint64_t home, uintptr_t addr)
{
	uint64_t frame = home + page_offset(addr);

	if (home != FALLOW_FRAME_NONE &&
		pt->frames.claim(pt->frames.ctx, frame, MMU_PAGE_LOG2))
		return frame;
	return fl_table_frame(pt, MMU_PAGE_LOG2);
}

/* Clears the frame if that is asked for. */
static void frame_clear(struct pagetable *pt, uint64_t frame, size_t size)
{
	if (pt->zero)
		memset(table_at(pt, frame), 0, size);
}

/* Keeps pages for [at, end), of one chunk; returns where it ran out of
 * memory, or `end`. */
static uintptr_t pages_keep(
	struct pagetable *pt, uintptr_t at, uintptr_t end, unsigned flags)
{
	uint64_t *table = fl_table_pages(pt, at);
	uint64_t home = FALLOW_FRAME_NONE;
	bool held = false;

	if (!table)
		return at;
	if (flags & FALLOW_RESERVED)
		home = home_find(pt, table, at, end, &held);
	for (; at < end; at += MMU_PAGE) {
		uint64_t frame = held ? home + page_offset(at)
				      : page_frame(pt, home, at);

		if (frame == FALLOW_FRAME_NONE)
			return at;
		frame_clear(pt, frame, MMU_PAGE);
		mmu_set(&table[mmu_index(at, 3)],
			frame | pt->attributes | MMU_TABLE);
	}
	return at;
}

/* Keeps a block for the chunk; returns false iff there is no memory for it,
 * and then nothing is kept. */
static bool block_keep(struct pagetable *pt, uintptr_t chunk)
{
	uint64_t frame = fl_table_frame(pt, MMU_BLOCK_LOG2);

	if (frame == FALLOW_FRAME_NONE)
		return false;
	frame_clear(pt, frame, MMU_BLOCK);
	if (fl_table_block_keep(pt, chunk, frame))
		return true;
	pt->frames.give(pt->frames.ctx, frame, MMU_BLOCK_LOG2);
	return false;
}

static unsigned provider_commit(
	void *ctx, uintptr_t base, size_t size, unsigned flags)
{
	struct pagetable *pt = ctx;
	uintptr_t end = base + size, at = base;
	unsigned result = FALLOW_COMMIT_DONE | FALLOW_COMMIT_LARGE;

	if (flags & FLAGS_MEMORY_TYPE)
		return FALLOW_COMMIT_NO_MEMORY;
	if (pt->granules)
		flags &= ~(unsigned)FALLOW_PREFER_LARGE;
	while (at < end) {
		uintptr_t stop = chunk_end(at, end);

		if (flags & FALLOW_PREFER_LARGE && chunk_whole(at, stop) &&
			block_keep(pt, at)) {
			at = stop;
			continue;
		}
		result &= ~(unsigned)FALLOW_COMMIT_LARGE;
		at = pages_keep(pt, at, stop, flags);
		if (at < stop) {
			fl_range_release(pt, base, at);
			fl_table_trim(pt);
			return FALLOW_COMMIT_NO_MEMORY;
		}
	}
	fl_range_publish(pt, base, end);
	fl_table_trim(pt);
	return pt->zero ? result | FALLOW_COMMIT_ZEROED : result;
}

static void provider_decommit(void *ctx, struct fallow_range *ranges, size_t n)
{
	struct pagetable *pt = ctx;
	bool split = fl_ranges_judge(pt, ranges, n);
	size_t flushes = 0;

	if (split)
		fl_others_stop(pt);
	for (size_t i = 0; i < n; i++)
		if (ranges[i].result == FALLOW_RANGE_DONE)
			flushes += fl_range_keep(pt, ranges[i].base,
				ranges[i].base + ranges[i].size);
	if (split)
		fl_others_resume(pt);
	if (!flushes)
		return;
	fl_ranges_flush(pt, ranges, n, flushes);
	for (size_t i = 0; i < n; i++)
		if (ranges[i].result == FALLOW_RANGE_DONE)
			fl_range_release(pt, ranges[i].base,
				ranges[i].base + ranges[i].size);
	fl_table_trim(pt);
}

/* Whether the table's 512 pages are valid, alike, and lie as in one 2 MiB
 * frame. */
static bool pages_joinable(const uint64_t *table)
{
	uint64_t first = mmu_get(table);

	if (!(first & MMU_VALID) || first & MMU_ADDRESS & (MMU_BLOCK - 1))
		return false;
	for (size_t i = 1; i < MMU_ENTRIES; i++)
		if (mmu_get(&table[i]) != first + (i << MMU_PAGE_LOG2))
			return false;
	return true;
}

static bool provider_promote(void *ctx, uintptr_t chunk)
{
	struct pagetable *pt = ctx;
	uint64_t *entry = fl_table_entry(pt, chunk);
	uint64_t value = entry ? mmu_get(entry) : 0;
	struct fl_port_state state;

	if (!mmu_is_table(value))
		return mmu_is_block(value);
	/* A table of the embedder's must not become a spare. */
	if (!(value & MMU_OURS) ||
		!pages_joinable(table_at(pt, value & MMU_ADDRESS)))
		return false;
	fl_others_stop(pt);
	state = lock_take(&pt->lock);
	fl_table_join(pt, entry);
	lock_leave(&pt->lock, state);
	fl_others_resume(pt);
	return true;
}

static bool provider_move(void *ctx, uintptr_t from, uintptr_t to, size_t size)
{
	return fl_range_move(ctx, from, to, size);
}

void fallow_pagetable_provider(
	struct fallow_pagetable *pagetable, struct fallow_provider *provider)
{
	struct pagetable *pt = (struct pagetable *)pagetable;

	*provider = (struct fallow_provider){
		.size = sizeof(*provider),
		.provider_class = FALLOW_CLASS_WINDOW,
		.capabilities = FALLOW_CAN_MOVE,
		.granule_log2 = MMU_PAGE_LOG2,
		.large_log2 = pt->granules ? 0 : MMU_BLOCK_LOG2,
		.ctx = pt,
		.commit = provider_commit,
		.decommit = provider_decommit,
		.move = provider_move,
	};
	if (!pt->resizable)
		return;
	provider->capabilities |= FALLOW_CAN_DEMOTE | FALLOW_CAN_PROMOTE;
	provider->promote = provider_promote;
}

/* What the tables above restrict; *entry is the first that is no table.
 * Returns its level. */
static unsigned walk(const struct pagetable *pt, uintptr_t addr,
	uint64_t *entry, uint64_t *above)
{
	const uint64_t *table = table_at(pt, pt->root);
	unsigned level = pt->top_level;

	*above = 0;
	for (;; level++) {
		*entry = mmu_get(
			&table[mmu_index(addr & pt->address_mask, level)]);
		if (level == 3 || !mmu_is_table(*entry))
			return level;
		*above |= *entry;
		table = table_at(pt, *entry & MMU_ADDRESS);
	}
}

bool fallow_pagetable_lookup(const struct fallow_pagetable *pagetable,
	uintptr_t addr, struct fallow_mapping *mapping)
{
	const struct pagetable *pt = (const struct pagetable *)pagetable;
	uint64_t entry, above, offset;
	unsigned level;

	if ((addr ^ pt->window_base) & ~pt->address_mask)
		return false;
	level = walk(pt, addr, &entry, &above);
	if (!(entry & MMU_VALID))
		return false;
	offset = ((uint64_t)1 << mmu_level_log2(level)) - 1;
	*mapping = (struct fallow_mapping){
		.physical = (entry & MMU_ADDRESS & ~offset) | (addr & offset),
		.size_log2 = mmu_level_log2(level),
		.writable = !(entry & MMU_READ_ONLY) &&
			    !(above & MMU_APTABLE_READ_ONLY),
		.executable = !(entry & MMU_PXN) && !(above & MMU_PXNTABLE),
		.memory_type = MMU_ATTR(entry),
		.entry = entry,
	};
	return true;
}

void fallow_pagetable_counters(const struct fallow_pagetable *pagetable,
	struct fallow_pagetable_counters *counters)
{
	struct pagetable *pt = (struct pagetable *)pagetable;
	size_t empty = fl_table_empty(pt, 2, false);
	struct fl_port_state state = lock_take(&pt->lock);
	struct fallow_pagetable_counters all = {
		.size = counters->size,
		.tables = pt->tables + pt->spares,
		.tables_spare = pt->spares,
		.tables_empty = empty,
		.large = pt->blocks,
		.splits = pt->splits,
		.promotions = pt->promotions,
		.flushes = pt->flushes,
		.flushes_all = pt->flushes_all,
	};

	lock_leave(&pt->lock, state);
	memcpy(counters, &all, all.size < sizeof(all) ? all.size : sizeof(all));
}

bool fallow_pagetable_fini(struct fallow_pagetable *pagetable, bool top)
{
	return fl_table_fini((struct pagetable *)pagetable, top);
}
