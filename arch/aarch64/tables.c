/* SPDX-License-Identifier: MIT */
/*
 * The tables under the window: finding, making, splitting and joining them.
 *
 * All entries of the root that cover the window are filled at init.  Below,
 * tables are linked when they are first needed, and stay: a table that is
 * empty again costs one page and saves an invalidation of the walk caches.
 *
 * A block is only ever made with a table page put by (invariant "spares cover
 * blocks": spares >= blocks), so cutting a hole into it needs no memory.  Any
 * spare serves any block; what is left over at the end of a call goes back.
 *
 * Lock: tables are linked and unlinked, blocks made and split, spares and
 * counters changed under pt->lock.  What needs none is the entry of a granule,
 * or of a chunk, that a call names: two calls never name the same granule.  A
 * level-3 table disappears only in favour of a block, and whoever makes one
 * names the whole chunk.  The frame hooks are called without the lock, which
 * is why making a table is a loop: put a page by, then try again.
 *
 * Not done here: the entries of ranges (ranges.c).
 */
#include "tables.h"

/* Takes a frame that a descriptor can name, or returns FALLOW_FRAME_NONE. */
uint64_t fl_table_frame(struct pagetable *pt, unsigned size_log2)
{
	uint64_t frame;

	fl_watch_none();
	frame = pt->frames.take(pt->frames.ctx, size_log2);
	if (frame == FALLOW_FRAME_NONE || frame < pt->frame_limit)
		return frame;
	fl_watch_none();
	pt->frames.give(pt->frames.ctx, frame, size_log2);
	return FALLOW_FRAME_NONE;
}

/* Whether the entry is a table that the provider made. */
static bool table_ours(uint64_t entry)
{
	return mmu_is_table(entry) && entry & MMU_OURS;
}

/* Adds the page to the spares.  Under the lock. */
static void spare_push(struct pagetable *pt, uint64_t frame)
{
	*table_at(pt, frame) = pt->spare;
	pt->spare = frame;
	pt->spares++;
}

/* Takes a page, with anything in it, from the spares.  Under the lock. */
static uint64_t spare_pop(struct pagetable *pt)
{
	uint64_t frame = pt->spare;

	pt->spare = *table_at(pt, frame);
	pt->spares--;
	return frame;
}

/* Gives back the spares that no block needs. */
void fl_table_trim(struct pagetable *pt)
{
	for (;;) {
		struct fl_port_state state = lock_take(&pt->lock);
		bool surplus = pt->spares > pt->blocks;
		uint64_t frame = surplus ? spare_pop(pt) : FALLOW_FRAME_NONE;

		lock_leave(&pt->lock, state);
		if (!surplus)
			return;
		fl_watch_none();
		pt->frames.give(pt->frames.ctx, frame, MMU_PAGE_LOG2);
	}
}

/* Whether all spares are the blocks'.  Under the lock. */
static bool spare_wanted(const struct pagetable *pt)
{
	return pt->spares <= pt->blocks;
}

/* Puts one more table page by; returns false iff there is none. */
static bool spare_put_by(struct pagetable *pt)
{
	uint64_t frame = fl_table_frame(pt, MMU_PAGE_LOG2);
	struct fl_port_state state;

	if (frame == FALLOW_FRAME_NONE)
		return false;
	state = lock_take(&pt->lock);
	spare_push(pt, frame);
	lock_leave(&pt->lock, state);
	return true;
}

/*
 * Links an empty table into the entry, if it is empty and a spare can be
 * spared.  Under the lock.  The entry was invalid, so nothing is cached; the
 * release in mmu_set() puts the zeroes before the link.
 */
static void table_link(struct pagetable *pt, uint64_t *entry)
{
	uint64_t frame;

	if (mmu_get(entry) || spare_wanted(pt))
		return;
	frame = spare_pop(pt);
	fl_watch_steps(MMU_ENTRIES);
	for (size_t i = 0; i < MMU_ENTRIES; i++)
		table_at(pt, frame)[i] = 0;
	mmu_set(entry, frame | MMU_OURS | MMU_TABLE | MMU_VALID);
	pt->tables++;
}

/*
 * Returns addr's entry at `level`, or NULL if a table above is missing; with
 * `make`, under the lock, links what is missing as far as spares go.
 */
static uint64_t *descend(
	struct pagetable *pt, uintptr_t addr, unsigned level, bool make)
{
	uint64_t *table = table_at(pt, pt->root);
	uint64_t *entry;
	unsigned at = pt->top_level;

	addr &= pt->address_mask;
	for (;; at++) {
		entry = &table[mmu_index(addr, at)];
		if (at == level)
			return entry;
		if (make)
			table_link(pt, entry);
		if (!mmu_is_table(mmu_get(entry)))
			return NULL;
		table = table_at(pt, mmu_get(entry) & MMU_ADDRESS);
	}
}

/* Returns addr's entry at level 2, or NULL if a table above is missing.  No
 * lock is needed: tables there are only ever added. */
uint64_t *fl_table_entry(const struct pagetable *pt, uintptr_t addr)
{
	return descend((struct pagetable *)pt, addr, 2, false);
}

/* Returns addr's level-3 table, made if it was missing, or NULL iff there is
 * no memory for it. */
uint64_t *fl_table_pages(struct pagetable *pt, uintptr_t addr)
{
	bool wanted;

	do {
		struct fl_port_state state = lock_take(&pt->lock);
		uint64_t *page = descend(pt, addr, 3, true);

		wanted = spare_wanted(pt);
		lock_leave(&pt->lock, state);
		if (page)
			return page - mmu_index(addr, 3);
	} while (wanted && spare_put_by(pt));
	return NULL;
}

/* Whether nothing is in the table: nothing valid, nothing kept. */
static bool table_empty(const uint64_t *table)
{
	for (size_t i = 0; i < MMU_ENTRIES; i++)
		if (mmu_get(&table[i]))
			return false;
	return true;
}

/* How many entries of the root that cover the window are empty. */
static size_t top_missing(struct pagetable *pt)
{
	uintptr_t step = (uintptr_t)1 << mmu_level_log2(pt->top_level);
	uintptr_t at = pt->window_base & -step;
	size_t missing = 0;

	for (; at < pt->window_end; at += step) {
		missing += !mmu_get(descend(pt, at, pt->top_level, false));
		if (at + step < at)
			break;
	}
	return missing;
}

/*
 * Afterwards every entry of the root that covers the window has a table.
 * All pages are there before the first is linked, so that a failure, which
 * returns false, leaves the root as it was.
 */
bool fl_table_fill_top(struct pagetable *pt)
{
	uintptr_t step = (uintptr_t)1 << mmu_level_log2(pt->top_level);
	uintptr_t at = pt->window_base & -step;
	size_t missing = top_missing(pt);

	while (pt->spares < missing && spare_put_by(pt))
		continue;
	if (pt->spares < missing) {
		fl_table_trim(pt);
		return false;
	}
	pt->top_tables = missing;
	for (; missing; at += step) {
		uint64_t *entry = descend(pt, at, pt->top_level, false);

		missing -= !mmu_get(entry);
		table_link(pt, entry);
	}
	mmu_published();
	return true;
}

/*
 * Takes an empty level-3 table out of its entry and puts it by.  Under the
 * lock.  Nobody is in the chunk, so the gap until the block is written hurts
 * nobody, but walk caches must have forgotten the table before it is reused.
 */
static void table_unlink(struct pagetable *pt, uint64_t *entry, uintptr_t chunk)
{
	uint64_t frame = mmu_get(entry) & MMU_ADDRESS;

	mmu_set(entry, 0);
	mmu_flush_begin();
	mmu_flush_address(chunk);
	mmu_flush_end();
	pt->tables--;
	spare_push(pt, frame);
}

/* Where the next entry of this level begins, or `end`. */
static uintptr_t level_next(uintptr_t at, unsigned level, uintptr_t end)
{
	uintptr_t last = at | (((uintptr_t)1 << mmu_level_log2(level)) - 1);

	return last < end - 1 ? last + 1 : end;
}

/*
 * Counts the provider's empty tables under the window's entries at `level`,
 * and with `unlink`, when nobody else is there, puts them by.
 */
size_t fl_table_empty(struct pagetable *pt, unsigned level, bool unlink)
{
	uintptr_t at = pt->window_base, end = pt->window_end;
	size_t count = 0;

	while (at < end) {
		uint64_t *entry = descend(pt, at, level, false);
		uint64_t value = entry ? mmu_get(entry) : 0;

		if (table_ours(value) &&
			table_empty(table_at(pt, value & MMU_ADDRESS))) {
			count++;
			if (unlink)
				table_unlink(pt, entry, at);
		}
		at = level_next(at, entry ? level : level - 1, end);
	}
	return count;
}

/* See fallow_pagetable_fini().  Level by level from below, for a table is only
 * empty when those under it are gone. */
bool fl_table_fini(struct pagetable *pt, bool top)
{
	for (unsigned level = 2; level > pt->top_level; level--)
		fl_table_empty(pt, level, true);
	if (top && pt->top_tables) {
		fl_table_empty(pt, pt->top_level, true);
		pt->top_tables = 0;
	}
	fl_table_trim(pt);
	return pt->tables == pt->top_tables && !pt->blocks;
}

/* Returns the chunk's entry, empty, an empty table in it put by; or NULL if a
 * table above is missing, or an embedder's is there.  Under the lock. */
static uint64_t *block_entry(struct pagetable *pt, uintptr_t chunk)
{
	uint64_t *entry = descend(pt, chunk, 2, true);

	if (entry && table_ours(mmu_get(entry)))
		table_unlink(pt, entry, chunk);
	return entry && !mmu_get(entry) ? entry : NULL;
}

/*
 * Afterwards the uncommitted chunk's entry is empty, and if `frame` is one, a
 * kept block of it.  Returns false, with nothing kept, iff there is no memory
 * for tables or a table of the embedder is in the way.
 */
static bool block_make(struct pagetable *pt, uintptr_t chunk, uint64_t frame)
{
	bool done, wanted;

	do {
		struct fl_port_state state = lock_take(&pt->lock);
		uint64_t *entry = block_entry(pt, chunk);

		wanted = spare_wanted(pt);
		done = entry && (!wanted || frame == FALLOW_FRAME_NONE);
		if (done && frame != FALLOW_FRAME_NONE) {
			mmu_set(entry, frame | pt->attributes);
			pt->blocks++;
		}
		lock_leave(&pt->lock, state);
	} while (!done && wanted && spare_put_by(pt));
	return done;
}

/* Makes room for a block: afterwards the uncommitted chunk has an empty entry;
 * false iff there is no memory for it, or it cannot be. */
bool fl_table_block_room(struct pagetable *pt, uintptr_t chunk)
{
	return block_make(pt, chunk, FALLOW_FRAME_NONE);
}

/* Makes the uncommitted chunk a kept block of this 2 MiB frame; false iff
 * there is no memory for tables, or it cannot be. */
bool fl_table_block_keep(struct pagetable *pt, uintptr_t chunk, uint64_t frame)
{
	return block_make(pt, chunk, frame);
}

/* Makes a kept block valid at the chunk `to`, where fl_table_block_room() made
 * room; `from` is empty afterwards.  Its spare goes with it. */
void fl_table_block_move(struct pagetable *pt, uint64_t *from, uintptr_t to)
{
	mmu_set(fl_table_entry(pt, to), mmu_get(from) | MMU_VALID);
	mmu_set(from, 0);
}

/* Empties the entry of a kept block and returns what it held.  The block's
 * spare becomes surplus. */
uint64_t fl_table_block_drop(struct pagetable *pt, uint64_t *entry)
{
	struct fl_port_state state = lock_take(&pt->lock);
	uint64_t kept = mmu_get(entry);

	mmu_set(entry, 0);
	pt->blocks--;
	lock_leave(&pt->lock, state);
	return kept;
}

/*
 * Replaces a block by a table that maps the same, with [base, end) of it kept.
 * Under the lock.  Without a gap nothing is invalidated here: the caller
 * invalidates [base, end), and one address drops all of a block.
 */
void fl_table_split(
	struct pagetable *pt, uint64_t *entry, uintptr_t base, uintptr_t end)
{
	uint64_t block = mmu_get(entry) & ~MMU_JOINED;
	uint64_t frame = spare_pop(pt);
	uint64_t *table = table_at(pt, frame);
	size_t first = mmu_index(base, 3);
	size_t count = (end - base) >> MMU_PAGE_LOG2;

	fl_watch_steps(MMU_ENTRIES);
	for (size_t i = 0; i < MMU_ENTRIES; i++) {
		uint64_t page = (block | MMU_TABLE) + (i << MMU_PAGE_LOG2);

		table[i] = i - first < count ? page & ~MMU_VALID : page;
	}
	pt->blocks--;
	pt->tables++;
	pt->splits++;
	frame |= MMU_OURS | MMU_TABLE | MMU_VALID;
	if (pt->gapless)
		mmu_set(entry, frame);
	else
		mmu_replace_block(entry, frame, base);
}

/*
 * Replaces a table, whose 512 pages are valid and lie as in one 2 MiB frame,
 * by a block, whose spare the table becomes.  Under the lock.
 */
void fl_table_join(struct pagetable *pt, uint64_t *entry)
{
	uint64_t frame = mmu_get(entry) & MMU_ADDRESS;
	uint64_t block = (*table_at(pt, frame) & ~MMU_TABLE) | MMU_JOINED;

	if (pt->gapless) {
		mmu_set(entry, block);
		mmu_flush_begin();
		mmu_flush_all();
		mmu_flush_end();
	} else {
		mmu_replace_table(entry, block);
	}
	pt->tables--;
	pt->blocks++;
	pt->promotions++;
	spare_push(pt, frame);
}
