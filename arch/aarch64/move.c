/* SPDX-License-Identifier: MIT */
/*
 * The provider's move(): frames reappear at another address.
 *
 * A journey is done in parts that lie within one chunk at both of its ends.
 * First all tables at the end are made, which may fail and then has changed
 * nothing; then blocks that cannot travel whole are split; then the entries
 * are kept, invalidated everywhere, and written at the end.  Nobody touches
 * either range meanwhile (provider.h), so only splitting has a gap to mind.
 */
#include "tables.h"

/* A range on its way from `from` to `to`. */
struct journey {
	uintptr_t from, to;
	size_t size;
};

/* How far the part of a journey at this offset goes: within one chunk at both
 * ends. */
static size_t part_size(const struct journey *j, size_t at)
{
	size_t from = chunk_end(j->from + at, j->from + j->size) - j->from - at;
	size_t to = chunk_end(j->to + at, j->to + j->size) - j->to - at;

	return from < to ? from : to;
}

/* Whether the part at this offset is a block that arrives as one. */
static bool part_is_block(
	const struct pagetable *pt, const struct journey *j, size_t at)
{
	uint64_t value = mmu_get(fl_table_entry(pt, j->from + at));

	return part_size(j, at) == MMU_BLOCK && !mmu_is_table(value);
}

/* Makes the tables that the journey needs at its end; false iff it cannot. */
static bool journey_prepare(struct pagetable *pt, const struct journey *j)
{
	for (size_t at = 0; at < j->size; at += part_size(j, at)) {
		if (part_is_block(pt, j, at)
				? !fl_table_block_room(pt, j->to + at)
				: !fl_table_pages(pt, j->to + at))
			return false;
	}
	return true;
}

/* Whether a block at the begin must travel as pages. */
static bool journey_splits(const struct pagetable *pt, const struct journey *j)
{
	for (size_t at = 0; at < j->size; at += part_size(j, at))
		if (!part_is_block(pt, j, at) &&
			mmu_is_block(mmu_get(fl_table_entry(pt, j->from + at))))
			return true;
	return false;
}

/* Splits the blocks that must travel as pages; nothing in them changes. */
static void journey_split(struct pagetable *pt, const struct journey *j)
{
	fl_others_stop(pt);
	for (size_t at = 0; at < j->size; at += part_size(j, at))
		if (!part_is_block(pt, j, at))
			fl_range_cut(pt, fl_table_entry(pt, j->from + at),
				j->from + at, j->from + at);
	fl_others_resume(pt);
}

/* Moves the kept entries of one part. */
static void part_move(struct pagetable *pt, const struct journey *j, size_t at)
{
	uint64_t *from = fl_table_entry(pt, j->from + at);
	uint64_t *to = fl_table_entry(pt, j->to + at);

	if (part_is_block(pt, j, at)) {
		fl_table_block_move(pt, from, j->to + at);
		return;
	}
	from = table_at(pt, mmu_get(from) & MMU_ADDRESS) +
	       mmu_index(j->from + at, 3);
	to = table_at(pt, mmu_get(to) & MMU_ADDRESS) + mmu_index(j->to + at, 3);
	for (size_t n = part_size(j, at) >> MMU_PAGE_LOG2; n > 0; n--) {
		mmu_set(to++, mmu_get(from) | MMU_VALID);
		mmu_set(from++, 0);
	}
}

/* Moves the range; false, with nothing changed, iff tables are not to be had or
 * a block would have to be split that cannot be. */
bool fl_range_move(
	struct pagetable *pt, uintptr_t from, uintptr_t to, size_t size)
{
	struct fallow_range range = { from, size, FALLOW_RANGE_DONE };
	struct journey journey = { from, to, size };
	bool split = journey_splits(pt, &journey);
	bool able = (!split || pt->resizable) && journey_prepare(pt, &journey);

	if (able && split)
		journey_split(pt, &journey);
	if (able) {
		fl_ranges_flush(
			pt, &range, 1, fl_range_keep(pt, from, from + size));
		for (size_t at = 0; at < size; at += part_size(&journey, at))
			part_move(pt, &journey, at);
		mmu_published();
	}
	fl_table_trim(pt);
	return able;
}
