/* SPDX-License-Identifier: MIT */
/*
 * What happens to the entries of a range: published, judged, kept, flushed,
 * released.
 *
 * A level-3 entry goes round in four steps, and a block's entry alike:
 *
 *   empty --commit: frames--> kept --publish--> valid
 *   valid --keep--> kept --flush, release--> empty
 *
 * A kept entry names its frame but is invalid (mmu.h).  So a commit that runs
 * out of frames only walks back over what it kept, and no CPU can ever have
 * cached it; and a decommit remembers, without memory, which frames to give
 * back after the one invalidation that covers all its ranges.
 *
 * Invariant: a frame is given back only when no valid entry names it and every
 * CPU has dropped the entry that did.
 *
 * Locks: a range's entries at level 3, and at level 2 those of chunks that it
 * covers whole, belong to the call that names it.  A block that a range covers
 * in part is shared with other ranges and changes under the lock (tables.c).
 * The invalidation runs with interrupts masked: a DSB waits for the TLBIs of
 * its own CPU only, so the thread must not move to another between them.
 */
#include "tables.h"

/*
 * From how many invalidations on dropping everything is cheaper.  One by
 * address is a message to every CPU, some tens of cycles; dropping all costs
 * each CPU the walks to get back what it uses, of a main TLB of about 1024
 * entries (Cortex-A72 TRM, "L2 TLB"), each about as much as a message, and
 * part of them is never used again.  A quarter of the TLB also bounds how
 * long interrupts are masked.
 */
#define FLUSH_ALL_FROM 256

/*
 * Makes what is kept in [at, end) valid.  The thread may move to another CPU
 * before the barrier: then that one has seen the stores, and so has every
 * other (Arm ARM, "Other-multi-copy atomicity").
 */
void fl_range_publish(struct pagetable *pt, uintptr_t at, uintptr_t end)
{
	for (; at < end; at = chunk_end(at, end)) {
		uint64_t *entry = fl_table_entry(pt, at);
		uintptr_t stop = chunk_end(at, end);
		uint64_t value = mmu_get(entry);
		uint64_t *page;

		if (!mmu_is_table(value)) {
			mmu_set(entry, value | MMU_VALID);
			continue;
		}
		page = table_at(pt, value & MMU_ADDRESS) + mmu_index(at, 3);
		for (uintptr_t a = at; a < stop; a += MMU_PAGE, page++)
			mmu_set(page, mmu_get(page) | MMU_VALID);
	}
	mmu_published();
}

/* Empties the kept entry of a block and gives its frame back. */
static void block_release(struct pagetable *pt, uint64_t *entry)
{
	uint64_t kept = fl_table_block_drop(pt, entry);
	uint64_t frame = kept & MMU_ADDRESS;

	if (!(kept & MMU_JOINED)) {
		pt->frames.give(pt->frames.ctx, frame, MMU_BLOCK_LOG2);
		return;
	}
	for (size_t at = 0; at < MMU_BLOCK; at += MMU_PAGE)
		pt->frames.give(pt->frames.ctx, frame + at, MMU_PAGE_LOG2);
}

/* Empties what is kept in [at, end) and gives the frames back. */
void fl_range_release(struct pagetable *pt, uintptr_t at, uintptr_t end)
{
	for (; at < end; at = chunk_end(at, end)) {
		uint64_t *entry = fl_table_entry(pt, at);
		uintptr_t stop = chunk_end(at, end);
		uint64_t value = mmu_get(entry);
		uint64_t *page;

		if (!mmu_is_table(value)) {
			block_release(pt, entry);
			continue;
		}
		page = table_at(pt, value & MMU_ADDRESS) + mmu_index(at, 3);
		for (uintptr_t a = at; a < stop; a += MMU_PAGE, page++) {
			uint64_t frame = mmu_get(page) & MMU_ADDRESS;

			mmu_set(page, 0);
			pt->frames.give(pt->frames.ctx, frame, MMU_PAGE_LOG2);
		}
	}
}

/* Whether addr is in a block that sticks out of [base, end). */
static bool block_sticks_out(const struct pagetable *pt, uintptr_t addr,
	uintptr_t base, uintptr_t end)
{
	const uint64_t *entry = fl_table_entry(pt, addr);
	uintptr_t chunk = addr & -MMU_BLOCK;

	return entry && mmu_is_block(mmu_get(entry)) &&
	       (chunk < base || end - chunk < MMU_BLOCK);
}

/*
 * Writes each range's result; returns whether a block must be split.  Others
 * may split the same block meanwhile, never make one of a chunk that a range
 * is in: the answer errs on the safe side only.
 */
bool fl_ranges_judge(
	const struct pagetable *pt, struct fallow_range *ranges, size_t n)
{
	bool any = false;

	for (size_t i = 0; i < n; i++) {
		uintptr_t base = ranges[i].base;
		uintptr_t end = base + ranges[i].size;
		bool split = block_sticks_out(pt, base, base, end) ||
			     block_sticks_out(pt, end - MMU_PAGE, base, end);

		ranges[i].result = split && !pt->resizable
					   ? FALLOW_RANGE_REFUSED
					   : FALLOW_RANGE_DONE;
		any |= split && pt->resizable;
	}
	return any;
}

/* Keeps [at, end) of a block, splitting it if that is not all of it; returns
 * false if it is no block any more. */
bool fl_range_cut(
	struct pagetable *pt, uint64_t *entry, uintptr_t at, uintptr_t end)
{
	struct fl_port_state state = lock_take(&pt->lock);
	uint64_t value = mmu_get(entry);
	bool block = mmu_is_block(value);

	if (block && chunk_whole(at, end))
		mmu_set(entry, value & ~MMU_VALID);
	else if (block)
		fl_table_split(pt, entry, at, end);
	lock_leave(&pt->lock, state);
	return block;
}

/* Makes what is valid in [at, end) kept; returns how many invalidations by
 * address that takes. */
size_t fl_range_keep(struct pagetable *pt, uintptr_t at, uintptr_t end)
{
	size_t flushes = 0;

	for (; at < end; at = chunk_end(at, end)) {
		uint64_t *entry = fl_table_entry(pt, at);
		uintptr_t stop = chunk_end(at, end);
		uint64_t *page;

		if (mmu_is_block(mmu_get(entry)) &&
			fl_range_cut(pt, entry, at, stop)) {
			flushes += chunk_whole(at, stop)
					   ? 1
					   : (stop - at) >> MMU_PAGE_LOG2;
			continue;
		}
		page = table_at(pt, mmu_get(entry) & MMU_ADDRESS) +
		       mmu_index(at, 3);
		flushes += (stop - at) >> MMU_PAGE_LOG2;
		for (uintptr_t a = at; a < stop; a += MMU_PAGE, page++)
			mmu_set(page, mmu_get(page) & ~MMU_VALID);
	}
	return flushes;
}

/* Issues the invalidations for what is kept in [at, end). */
static void range_flush(struct pagetable *pt, uintptr_t at, uintptr_t end)
{
	while (at < end) {
		bool table = mmu_is_table(mmu_get(fl_table_entry(pt, at)));
		uintptr_t stop = chunk_end(at, end);

		mmu_flush_address(at);
		at = table ? at + MMU_PAGE : stop;
	}
}

/* Afterwards no CPU reaches the kept frames of the ranges that are DONE. */
void fl_ranges_flush(struct pagetable *pt, const struct fallow_range *ranges,
	size_t n, size_t flushes)
{
	bool all = flushes >= FLUSH_ALL_FROM;
	struct fl_port_state state = lock_take(&pt->lock);

	mmu_flush_begin();
	if (all)
		mmu_flush_all();
	fl_watch_steps(all ? 1 : flushes);
	for (size_t i = 0; i < n && !all; i++)
		if (ranges[i].result == FALLOW_RANGE_DONE)
			range_flush(pt, ranges[i].base,
				ranges[i].base + ranges[i].size);
	mmu_flush_end();
	pt->flushes++;
	pt->flushes_all += all;
	lock_leave(&pt->lock, state);
}
