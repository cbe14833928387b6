/* SPDX-License-Identifier: MIT */
/*
 * The provider of class window over x86-64 page tables.
 *
 * A commit has two passes.  The first, *stage*, finds all frames and tables
 * and writes the entries as HELD, which no CPU sees: if memory runs out, what
 * was staged goes back, and no flush is needed, because a translation that was
 * never present is cached nowhere.  The second, *publish*, makes them present
 * and cannot fail.
 *
 * A decommit has three: *clear* turns present entries into HELD ones, then
 * every CPU flushes, once for all ranges, and then *reclaim* gives the frames
 * back, reading them from the entries.  It needs no memory: a partly cleared
 * large leaf is split into a table that was put by when the leaf was made.
 * Invariant: spares == large.
 *
 * A split, a promotion, and taking away a table change an upper level, so they
 * are followed by a flush of everything (see fallow_pagetable_flush()).
 * Between a split and its flush other CPUs may use the large translation or
 * small ones: both lead to the same frames with the same attributes, which is
 * allowed for data; fetching through such a page may machine-check, and that
 * is why the window is no-execute.
 *
 * The lock protects the spare tables and the places where a table begins or
 * ends; frame hooks and shootdowns run without it.  See tables.h for the rest.
 *
 * Deliberately not here: choosing when to use large mappings (the heap does),
 * and looking for ranges that are not committed: the contract forbids them;
 * they count as empty, and in a build with FALLOW_DEBUG they stop the CPU.
 */
#include "tables.h"

/*
 * Up to so many granules a flush goes one by one.  INVLPG takes 100 to 200
 * cycles (a serialising instruction), so 32 cost about as much as refilling
 * a few hundred of the 1500 to 2000 translations that a flush of everything
 * throws away, at 15 to 40 cycles each.
 */
#define FLUSH_GRANULES_MAX 32

/* Bits 16 to 23 of a commit's flags: the memory type, here a PAT index. */
#define COMMIT_TYPE_SHIFT 16
#define COMMIT_TYPE_MASK 0xff
#define PAT_INDEX_MAX 7

/* Returns what a granule's leaf is besides its frame, not yet present.
 * Accessed and dirty are set from the start: no CPU has to. */
static uint64_t leaf_flags(unsigned type)
{
	return ENTRY_WRITABLE | ENTRY_ACCESSED | ENTRY_DIRTY | ENTRY_GLOBAL |
		ENTRY_NO_EXECUTE | ENTRY_HELD | (type & 1 ? ENTRY_PWT : 0) |
		(type & 2 ? ENTRY_PCD : 0) | (type & 4 ? ENTRY_PAT : 0);
}

/* Returns the large leaf that maps as the chunk's first granule's does. */
static uint64_t leaf_to_large(uint64_t value)
{
	uint64_t pat = value & ENTRY_PAT ? ENTRY_PAT_LARGE : 0;

	return (value & ~ENTRY_PAT) | pat | ENTRY_LARGE;
}

/* Returns the leaf of the first granule of a large leaf. */
static uint64_t leaf_to_granule(uint64_t value)
{
	uint64_t pat = value & ENTRY_PAT_LARGE ? ENTRY_PAT : 0;

	return (value & ~(ENTRY_PAT_LARGE | ENTRY_LARGE)) | pat;
}

/* Puts a table by for the split of a large leaf that is being made. */
static void spare_push(struct pagetable *pt, uint64_t frame)
{
	struct fl_port_state state = lock_take(&pt->lock);

	*(uint64_t *)frame_pointer(pt, frame) = pt->spare;
	pt->spare = frame;
	pt->spares++;
	pt->large++;
	lock_leave(&pt->lock, state);
}

/* Takes a table that was put by for a large leaf which is no more.  Holding
 * the lock; spares == large > 0, so there is one. */
static uint64_t spare_pop(struct pagetable *pt)
{
	uint64_t frame = pt->spare;

	pt->spare = *(uint64_t *)frame_pointer(pt, frame);
	pt->spares--;
	pt->large--;
	return frame;
}

/* Gives back the table put by for a large leaf that is gone. */
static void spare_drop(struct pagetable *pt)
{
	struct fl_port_state state = lock_take(&pt->lock);
	uint64_t frame = spare_pop(pt);

	lock_leave(&pt->lock, state);
	fl_table_frame_give(pt, frame);
}

/* Gives [frame, end), parts of one run, in the largest aligned runs. */
static void run_give(struct pagetable *pt, uint64_t frame, uint64_t end)
{
	while (frame < end) {
		unsigned log2 = CHUNK_LOG2;
		uint64_t bytes = CHUNK_BYTES;

		while ((frame & (bytes - 1)) != 0 || bytes > end - frame) {
			log2--;
			bytes >>= 1;
		}
		pt->frames.give(pt->frames.ctx, frame, log2);
		frame += bytes;
	}
}

/* Zeroes frames on their way to a commit, if that is wished. */
static void run_zero(struct pagetable *pt, uint64_t frame, size_t bytes)
{
	if (pt->flags & FALLOW_PAGETABLE_ZERO)
		__builtin_memset(frame_pointer(pt, frame), 0, bytes);
}

/* Gives back the frames of HELD entries, which become empty. */
static void entries_reclaim(struct pagetable *pt, uint64_t *entry, size_t n)
{
	for (; n > 0; n--, entry++) {
		uint64_t value = fl_load_relaxed(entry);

		if (!entry_is_held(value))
			continue;
		fl_store_relaxed(entry, 0);
		pt->frames.give(
			pt->frames.ctx, value & ENTRY_FRAME, GRANULE_LOG2);
	}
}

/* Gives back what is HELD in [addr, end), inside one chunk. */
static void piece_reclaim(
	struct pagetable *pt, uintptr_t addr, uintptr_t end)
{
	unsigned level = LEVEL_CHUNK;
	uint64_t *entry = fl_entry_find(pt, addr, &level);
	/* Pairs with the release stores that publish a table. */
	uint64_t value = fl_load_acquire(entry);
	size_t first = entry_index(addr, LEVEL_GRANULE);
	size_t n = (end - addr) >> GRANULE_LOG2;

	if (level != LEVEL_CHUNK)
		return;
	if (entry_is_held(value) && (value & ENTRY_LARGE)) {
		fl_store_relaxed(entry, 0);
		pt->frames.give(pt->frames.ctx, value & ENTRY_FRAME_LARGE,
			CHUNK_LOG2);
		spare_drop(pt);
	} else if (entry_is_held(value) && (value & ENTRY_OURS)) {
		entries_reclaim(pt, table_of(pt, value), ENTRIES);
		fl_store_relaxed(entry, 0);
		fl_table_frame_give(pt, value & ENTRY_FRAME);
	} else if (entry_is_table(value, LEVEL_CHUNK)) {
		entries_reclaim(pt, table_of(pt, value) + first, n);
	}
}

/* Gives back what is HELD in [addr, end). */
static void range_reclaim(struct pagetable *pt, uintptr_t addr, uintptr_t end)
{
	uintptr_t next;

	for (; addr < end; addr = next) {
		next = piece_end(addr, end);
		piece_reclaim(pt, addr, next);
	}
}

/* Writes a HELD entry where nothing is committed. */
static void entry_stage(uint64_t *entry, uint64_t value)
{
	promised(fl_load_relaxed(entry) == 0);
	fl_store_relaxed(entry, value);
}

/* Stages a whole chunk as one large leaf; false iff it cannot be one. */
static bool large_stage(struct pagetable *pt, uintptr_t addr, uint64_t leaf)
{
	uint64_t *entry = fl_entry_make(pt, addr, LEVEL_CHUNK);
	uint64_t run, table;

	/* A table that is there may be in the caches of upper levels, and a
	 * commit cannot wait for a flush: granules then, to be promoted. */
	if (entry == NULL || fl_load_relaxed(entry) != 0)
		return false;
	run = pt->frames.take(pt->frames.ctx, CHUNK_LOG2);
	if (run == FALLOW_FRAME_NONE)
		return false;
	table = fl_table_frame_take(pt);
	if (table == FALLOW_FRAME_NONE) {
		pt->frames.give(pt->frames.ctx, run, CHUNK_LOG2);
		return false;
	}
	run_zero(pt, run, CHUNK_BYTES);
	spare_push(pt, table);
	entry_stage(entry, run | leaf_to_large(leaf));
	return true;
}

/*
 * Stages [addr, end), inside one chunk, from `entry` on, by runs as large as
 * they come: fewer calls, and fewer frames apart.  Returns where it had to
 * stop, `end` if it did not.
 */
static uintptr_t runs_stage(struct pagetable *pt, uint64_t *entry,
	uintptr_t addr, uintptr_t end, uint64_t leaf)
{
	unsigned log2 = CHUNK_LOG2;

	while (addr < end) {
		uint64_t run, bytes = (uint64_t)1 << log2;
		size_t done;

		if (bytes > end - addr) {
			log2--;
			continue;
		}
		run = pt->frames.take(pt->frames.ctx, log2);
		if (run == FALLOW_FRAME_NONE) {
			if (log2 == GRANULE_LOG2)
				return addr;
			log2--;
			continue;
		}
		run_zero(pt, run, bytes);
		for (done = 0; done < bytes; done += GRANULE_BYTES)
			entry_stage(entry++, (run + done) | leaf);
		addr += bytes;
	}
	return end;
}

/* Returns the physical run out of which a chunk's granules come, judged by the
 * first that is there; FALLOW_FRAME_NONE if none is, or by no such run. */
static uint64_t chunk_run(const uint64_t *table, bool *empty)
{
	size_t i;
	uint64_t run;

	*empty = false;
	for (i = 0; i < ENTRIES; i++) {
		uint64_t value = fl_load_relaxed(&table[i]);

		if (value == 0)
			continue;
		run = (value & ENTRY_FRAME) - i * GRANULE_BYTES;
		return run & (CHUNK_BYTES - 1) ? FALLOW_FRAME_NONE : run;
	}
	*empty = true;
	return FALLOW_FRAME_NONE;
}

/* Takes the frame that is `offset` into the chunk's run if it is free, else
 * any. */
static uint64_t placed_take(
	struct pagetable *pt, uint64_t run, uintptr_t offset)
{
	if (pt->frames.claim != NULL &&
		pt->frames.claim(pt->frames.ctx, run + offset, GRANULE_LOG2))
		return run + offset;
	return pt->frames.take(pt->frames.ctx, GRANULE_LOG2);
}

/*
 * As runs_stage(), with the frames placed so that the chunk can be promoted in
 * place: all out of one run of 2 MiB, each at its granule's offset.  The run
 * is nobody's while it is not used: what a later commit finds of it still free
 * it claims.
 */
static uintptr_t placed_stage(struct pagetable *pt, uint64_t *entry,
	uintptr_t addr, uintptr_t end, uint64_t leaf)
{
	uint64_t *table = entry - entry_index(addr, LEVEL_GRANULE);
	uintptr_t offset = addr & (CHUNK_BYTES - 1);
	bool empty, owned = false;
	uint64_t frame, run = chunk_run(table, &empty);

	if (empty && (pt->frames.claim != NULL || piece_whole(addr, end))) {
		run = pt->frames.take(pt->frames.ctx, CHUNK_LOG2);
		owned = run != FALLOW_FRAME_NONE;
	}
	if (run == FALLOW_FRAME_NONE)
		return runs_stage(pt, entry, addr, end, leaf);
	if (owned) {
		run_give(pt, run, run + offset);
		run_give(pt, run + offset + (end - addr), run + CHUNK_BYTES);
	}
	for (; addr < end; addr += GRANULE_BYTES, offset += GRANULE_BYTES) {
		frame = owned ? run + offset : placed_take(pt, run, offset);
		if (frame == FALLOW_FRAME_NONE)
			return addr;
		run_zero(pt, frame, GRANULE_BYTES);
		entry_stage(entry++, frame | leaf);
	}
	return end;
}

/* Stages [addr, end), inside one chunk, as granules; returns where it had to
 * stop, `end` if it did not. */
static uintptr_t granules_stage(struct pagetable *pt, uintptr_t addr,
	uintptr_t end, unsigned flags)
{
	uint64_t leaf = leaf_flags(flags >> COMMIT_TYPE_SHIFT);
	uint64_t *entry = fl_entry_make(pt, addr, LEVEL_GRANULE);

	if (entry == NULL)
		return addr;
	if (flags & (FALLOW_RESERVED | FALLOW_PREFER_LARGE))
		return placed_stage(pt, entry, addr, end, leaf);
	return runs_stage(pt, entry, addr, end, leaf);
}

/* Makes what is HELD in [addr, end) present. */
static void range_publish(struct pagetable *pt, uintptr_t addr, uintptr_t end)
{
	uintptr_t next;

	for (; addr < end; addr = next) {
		unsigned level = LEVEL_GRANULE;
		uint64_t *entry = fl_entry_find(pt, addr, &level);
		size_t n = 1;

		next = piece_end(addr, end);
		if (level == LEVEL_GRANULE)
			n = (next - addr) >> GRANULE_LOG2;
		/* Pairs with any CPU's walk: a frame that was zeroed is zero
		 * before it can be seen through its new address. */
		for (; n > 0; n--, entry++)
			fl_store_release(entry,
				(*entry & ~ENTRY_HELD) | ENTRY_PRESENT);
	}
}

/* provider.h: commit. */
static unsigned pagetable_commit(
	void *ctx, uintptr_t base, size_t size, unsigned flags)
{
	struct pagetable *pt = inside(ctx);
	unsigned type = flags >> COMMIT_TYPE_SHIFT & COMMIT_TYPE_MASK;
	bool large = flags & FALLOW_PREFER_LARGE &&
		!(pt->flags & FALLOW_PAGETABLE_GRANULES);
	bool all_large = large;
	uintptr_t addr, next, end = base + size;

	if (type > PAT_INDEX_MAX)
		return FALLOW_COMMIT_NO_MEMORY;
	for (addr = base; addr < end; addr = next) {
		next = piece_end(addr, end);
		if (large && piece_whole(addr, next) &&
			large_stage(pt, addr, leaf_flags(type)))
			continue;
		all_large = false;
		addr = granules_stage(pt, addr, next, flags);
		if (addr != next) {
			range_reclaim(pt, base, addr);
			return FALLOW_COMMIT_NO_MEMORY;
		}
	}
	range_publish(pt, base, end);
	return FALLOW_COMMIT_DONE | (all_large ? FALLOW_COMMIT_LARGE : 0) |
		(pt->flags & FALLOW_PAGETABLE_ZERO ? FALLOW_COMMIT_ZEROED : 0);
}

/*
 * Replaces a large leaf by the table that was put by for it, with the same
 * frames and attributes.  Holding the lock.
 */
static void leaf_split(struct pagetable *pt, uint64_t *entry)
{
	uint64_t frame = spare_pop(pt);
	uint64_t *table = frame_pointer(pt, frame);
	uint64_t leaf = leaf_to_granule(*entry);
	size_t i;

	fl_watch_steps(ENTRIES);
	for (i = 0; i < ENTRIES; i++)
		table[i] = leaf + i * GRANULE_BYTES;
	pt->splits++;
	/* Pairs with fl_entry_find(), and with any CPU's walk: the table is
	 * whole before it is there. */
	fl_store_release(entry, frame | ENTRY_TABLE);
}

/*
 * Returns the entry of addr's chunk, which is no large leaf afterwards, unless
 * all of it is named; sets *all if it split one.
 */
static uint64_t *chunk_open(
	struct pagetable *pt, uintptr_t addr, bool whole, bool *all)
{
	struct fl_port_state state = lock_take(&pt->lock);
	unsigned level = LEVEL_CHUNK;
	uint64_t *entry = fl_entry_find(pt, addr, &level);

	if (level != LEVEL_CHUNK)
		entry = NULL;
	else if (!whole && entry_is_large(*entry)) {
		leaf_split(pt, entry);
		*all = true;
	}
	lock_leave(&pt->lock, state);
	return entry;
}

/*
 * Turns the present entries of [addr, end), inside one chunk, into HELD ones;
 * a chunk that is named whole loses its leaf or, if the hooks gave it, its
 * table.  Sets *all if the flush must be of everything.
 */
static void piece_clear(
	struct pagetable *pt, uintptr_t addr, uintptr_t end, bool *all)
{
	bool whole = piece_whole(addr, end);
	uint64_t *entry = chunk_open(pt, addr, whole, all);
	/* Pairs with the release stores that publish a table. */
	uint64_t value = entry ? fl_load_acquire(entry) : 0;
	size_t n = (end - addr) >> GRANULE_LOG2;
	uint64_t *leaf;

	promised(value & ENTRY_PRESENT);
	if (entry_is_table(value, LEVEL_CHUNK)) {
		leaf = table_of(pt, value) + entry_index(addr, LEVEL_GRANULE);
		for (; n > 0; n--, leaf++) {
			promised(*leaf & ENTRY_PRESENT);
			if (*leaf & ENTRY_PRESENT)
				fl_store_relaxed(leaf,
					(*leaf & ~ENTRY_PRESENT) | ENTRY_HELD);
		}
	}
	if (whole && (entry_is_large(value) ||
			(value & ENTRY_PRESENT && value & ENTRY_OURS))) {
		fl_store_relaxed(entry, (value & ~ENTRY_PRESENT) | ENTRY_HELD);
		*all = true;
	}
}

/* Whether the ranges have more granules than are flushed one by one. */
static bool many_granules(const struct fallow_range *ranges, size_t n)
{
	size_t granules = 0, i;

	for (i = 0; i < n; i++)
		granules += ranges[i].size >> GRANULE_LOG2;
	return granules > FLUSH_GRANULES_MAX;
}

/* provider.h: decommit.  Nothing is ever refused. */
static void pagetable_decommit(
	void *ctx, struct fallow_range *ranges, size_t n)
{
	struct pagetable *pt = inside(ctx);
	struct fallow_pagetable_flush what = { .ranges = ranges, .n = n };
	size_t i;

	what.all = many_granules(ranges, n);
	for (i = 0; i < n; i++) {
		uintptr_t addr = ranges[i].base;
		uintptr_t next, end = addr + ranges[i].size;

		for (; addr < end; addr = next) {
			next = piece_end(addr, end);
			piece_clear(pt, addr, next, &what.all);
		}
	}
	fl_flush(pt, &what);
	for (i = 0; i < n; i++) {
		range_reclaim(pt, ranges[i].base,
			ranges[i].base + ranges[i].size);
		ranges[i].result = FALLOW_RANGE_DONE;
	}
}

/* Whether a table's entries are one aligned run of 2 MiB, mapped alike. */
static bool table_promotable(const uint64_t *table)
{
	uint64_t first = table[0] & ~(ENTRY_ACCESSED | ENTRY_DIRTY);
	size_t i;

	if (!(first & ENTRY_PRESENT) ||
		(first & ENTRY_FRAME & (CHUNK_BYTES - 1)))
		return false;
	for (i = 1; i < ENTRIES; i++)
		if ((table[i] & ~(ENTRY_ACCESSED | ENTRY_DIRTY)) !=
			first + i * GRANULE_BYTES)
			return false;
	return true;
}

/*
 * provider.h: promote.  The table becomes the one that is put by for a later
 * split, but only after the flush: until then a CPU may still walk it.  One
 * that the hooks did not give must not become theirs by this.
 */
static bool pagetable_promote(void *ctx, uintptr_t chunk)
{
	static const struct fallow_pagetable_flush everything = {
		.all = true,
	};
	struct pagetable *pt = inside(ctx);
	unsigned level = LEVEL_CHUNK;
	uint64_t *entry = fl_entry_find(pt, chunk, &level);
	/* Pairs with the release stores that publish a table. */
	uint64_t value = fl_load_acquire(entry);
	uint64_t *table;

	if (level != LEVEL_CHUNK || !entry_is_table(value, LEVEL_CHUNK))
		return level == LEVEL_CHUNK && entry_is_large(value);
	table = table_of(pt, value);
	if (!(value & ENTRY_OURS) || !table_promotable(table))
		return false;
	/* Pairs with any CPU's walk: what was written to the granules comes
	 * before they are one mapping. */
	fl_store_release(entry, leaf_to_large(table[0]));
	fl_flush(pt, &everything);
	spare_push(pt, value & ENTRY_FRAME);
	fl_add_relaxed(&pt->promotions, 1);
	return true;
}

/* The part of a move that is inside one chunk at either end. */
struct step {
	uintptr_t from, to;
	size_t size;
};

/* Cuts the first step off what is left of a move. */
static struct step step_take(struct step *left)
{
	uintptr_t from_end = piece_end(left->from, left->from + left->size);
	uintptr_t to_end = piece_end(left->to, left->to + left->size);
	struct step step = *left;

	if (step.size > from_end - step.from)
		step.size = from_end - step.from;
	if (step.size > to_end - step.to)
		step.size = to_end - step.to;
	left->from += step.size;
	left->to += step.size;
	left->size -= step.size;
	return step;
}

/* Returns the entry of the large leaf that the step moves as one, or NULL. */
static uint64_t *step_large(struct pagetable *pt, struct step step)
{
	unsigned level = LEVEL_CHUNK;
	uint64_t *entry;

	if (step.size != CHUNK_BYTES)
		return NULL;
	entry = fl_entry_find(pt, step.from, &level);
	if (level != LEVEL_CHUNK || !entry_is_large(*entry))
		return NULL;
	level = LEVEL_CHUNK;
	if (*fl_entry_find(pt, step.to, &level) != 0)
		return NULL;
	return entry;
}

/* Makes the tables that the step needs at its destination; false iff there is
 * no memory for one. */
static bool step_prepare(struct pagetable *pt, struct step step)
{
	unsigned level =
		step_large(pt, step) != NULL ? LEVEL_CHUNK : LEVEL_GRANULE;

	return fl_entry_make(pt, step.to, level) != NULL;
}

/* Moves a prepared step's entries; sets *all if the flush must be of
 * everything. */
static void step_move(struct pagetable *pt, struct step step, bool *all)
{
	unsigned level = LEVEL_CHUNK;
	uint64_t *from = step_large(pt, step);
	uint64_t *to;
	size_t n = 1;

	if (from == NULL) {
		chunk_open(pt, step.from, false, all);
		level = LEVEL_GRANULE;
		from = fl_entry_find(pt, step.from, &level);
		n = step.size >> GRANULE_LOG2;
	} else {
		*all = true;
	}
	to = fl_entry_find(pt, step.to, &level);
	for (; n > 0; n--, from++, to++) {
		fl_store_relaxed(to, *from);
		fl_store_relaxed(from, 0);
	}
}

/* provider.h: move. */
static bool pagetable_move(
	void *ctx, uintptr_t from, uintptr_t to, size_t size)
{
	struct pagetable *pt = inside(ctx);
	struct fallow_range range = { .base = from, .size = size };
	struct fallow_pagetable_flush what = { .ranges = &range, .n = 1 };
	struct step left = { from, to, size };

	while (left.size > 0)
		if (!step_prepare(pt, step_take(&left)))
			return false;
	what.all = many_granules(&range, 1);
	left = (struct step){ from, to, size };
	while (left.size > 0)
		step_move(pt, step_take(&left), &what.all);
	fl_flush(pt, &what);
	return true;
}

void fallow_pagetable_provider(
	struct fallow_pagetable *pagetable, struct fallow_provider *provider)
{
	bool granules = inside(pagetable)->flags & FALLOW_PAGETABLE_GRANULES;

	*provider = (struct fallow_provider){
		.size = sizeof(*provider),
		.provider_class = FALLOW_CLASS_WINDOW,
		.capabilities = granules
			? FALLOW_CAN_MOVE
			: FALLOW_CAN_DEMOTE | FALLOW_CAN_PROMOTE |
				FALLOW_CAN_MOVE,
		.granule_log2 = GRANULE_LOG2,
		.large_log2 = granules ? 0 : CHUNK_LOG2,
		.ctx = pagetable,
		.commit = pagetable_commit,
		.decommit = pagetable_decommit,
		.promote = granules ? NULL : pagetable_promote,
		.move = pagetable_move,
	};
}
