/* SPDX-License-Identifier: MIT */
/*
 * The page tables themselves: what an entry looks like, and how to get to one.
 *
 * An entry is in one of these states:
 *
 *   0                 nothing
 *   PRESENT           a table, or a leaf, that the CPU uses
 *   HELD, not PRESENT the CPU sees nothing, but frame (or table) and flags
 *                     are still written there: a commit that may yet fail, or
 *                     a decommit before its flush.  This is why neither
 *                     needs memory for a list.
 *
 * Who may change an entry: a leaf, or a HELD one, only the call whose range it
 * is in (no two calls at once name the same granule).  Where a table begins
 * or a large leaf becomes one, calls of different ranges meet: that is done
 * under the lock.  Hence a table of the last level that was found under a
 * granule stays where it is as long as the call that owns the granule lasts:
 * it is only taken away by a call that owns the whole chunk.
 */
#ifndef X86_64_TABLES_H
#define X86_64_TABLES_H

#include <fallow/pagetable.h>

#include "atomic.h"
#include "lock.h"

/* What provider.h promises a provider; a heap that breaks it stops here. */
#define promised(condition) \
	do { \
		if (FALLOW_DEBUG && !(condition)) \
			fallow_broken(#condition, (const char *)0); \
	} while (0)

#define GRANULE_LOG2 12
#define CHUNK_LOG2 21
#define LEVEL_LOG2 9
#define GRANULE_BYTES ((uintptr_t)1 << GRANULE_LOG2)
#define CHUNK_BYTES ((uintptr_t)1 << CHUNK_LOG2)
#define ENTRIES ((size_t)1 << LEVEL_LOG2)
_Static_assert(GRANULE_LOG2 + LEVEL_LOG2 == CHUNK_LOG2,
	"a table of the last level maps one chunk");

/* Levels as the code counts them: 0 holds 4 KiB leaves. */
enum {
	LEVEL_GRANULE = 0,
	LEVEL_CHUNK = 1,
	/* The top, without and with CR4.LA57. */
	LEVEL_FOURTH = 3,
	LEVEL_FIFTH = 4,
};

/* Intel SDM volume 3, tables 4-15 to 4-20. */
#define ENTRY_PRESENT ((uint64_t)1 << 0)
#define ENTRY_WRITABLE ((uint64_t)1 << 1)
#define ENTRY_PWT ((uint64_t)1 << 3)
#define ENTRY_PCD ((uint64_t)1 << 4)
#define ENTRY_ACCESSED ((uint64_t)1 << 5)
#define ENTRY_DIRTY ((uint64_t)1 << 6)
#define ENTRY_LARGE ((uint64_t)1 << 7)     /* above the last level */
#define ENTRY_PAT ((uint64_t)1 << 7)       /* in the last level */
#define ENTRY_PAT_LARGE ((uint64_t)1 << 12) /* in a large leaf */
#define ENTRY_GLOBAL ((uint64_t)1 << 8)
#define ENTRY_NO_EXECUTE ((uint64_t)1 << 63)
/* Bits 9 to 11 are software's. */
#define ENTRY_HELD ((uint64_t)1 << 9)
#define ENTRY_OURS ((uint64_t)1 << 10) /* a table that the hooks gave */
#define ENTRY_FRAME ((uint64_t)0x000ffffffffff000)
#define ENTRY_FRAME_LARGE ((uint64_t)0x000fffffffe00000)
/* What a table's entry is besides its address. */
#define ENTRY_TABLE (ENTRY_PRESENT | ENTRY_WRITABLE | ENTRY_OURS)

/* What fallow_pagetable's bytes are.  It aliases them, so it may alias. */
struct pagetable {
	struct fallow_frame_hooks frames;
	uint64_t root;
	uintptr_t direct_offset;
	uintptr_t window_base;
	uintptr_t window_end;
	void (*shootdown)(
		void *ctx, const struct fallow_pagetable_flush *what);
	void *shootdown_ctx;
	unsigned flags;
	unsigned top; /* the level of the root: LEVEL_FOURTH or _FIFTH */
	const char *why;
	/* Protects all below, and the entries that point to tables. */
	struct lock lock;
	/* Tables put by for splits, linked by their first word;
	 * FALLOW_FRAME_NONE ends the list. */
	uint64_t spare;
	size_t tables;
	/* spares == large, whenever no call is in progress. */
	size_t spares;
	size_t large;
	uint64_t splits, promotions, flushes, flushes_all;
} __attribute__((may_alias));
_Static_assert(sizeof(struct pagetable) <= FALLOW_PAGETABLE_BYTES,
	"FALLOW_PAGETABLE_BYTES is too small");

static inline struct pagetable *inside(const struct fallow_pagetable *outer)
{
	return (struct pagetable *)(uintptr_t)outer->opaque;
}

/* Returns log2 of what an entry of this level maps. */
static inline unsigned level_log2(unsigned level)
{
	return GRANULE_LOG2 + level * LEVEL_LOG2;
}

static inline size_t entry_index(uintptr_t addr, unsigned level)
{
	return addr >> level_log2(level) & (ENTRIES - 1);
}

/* Returns where the direct map has this physical address. */
static inline void *frame_pointer(const struct pagetable *pt, uint64_t frame)
{
	return (void *)(uintptr_t)(frame + pt->direct_offset);
}

static inline bool entry_is_table(uint64_t value, unsigned level)
{
	return (value & ENTRY_PRESENT) && level > LEVEL_GRANULE &&
		!(value & ENTRY_LARGE);
}

static inline bool entry_is_large(uint64_t value)
{
	return (value & ENTRY_PRESENT) && (value & ENTRY_LARGE);
}

static inline bool entry_is_held(uint64_t value)
{
	return (value & ENTRY_HELD) && !(value & ENTRY_PRESENT);
}

static inline uint64_t *table_of(const struct pagetable *pt, uint64_t value)
{
	return frame_pointer(pt, value & ENTRY_FRAME);
}

/* Returns the end of the part of [addr, end) that is in addr's chunk. */
static inline uintptr_t piece_end(uintptr_t addr, uintptr_t end)
{
	uintptr_t last = addr | (CHUNK_BYTES - 1);

	return last < end - 1 ? last + 1 : end;
}

/* Whether [addr, end), inside one chunk, is all of it. */
static inline bool piece_whole(uintptr_t addr, uintptr_t end)
{
	return end - addr == CHUNK_BYTES;
}

/*
 * Returns the entry of `addr` at *level, or, where a leaf or nothing is in the
 * way, the entry above that ends the way, with *level the one it is in.
 */
uint64_t *fl_entry_find(
	const struct pagetable *pt, uintptr_t addr, unsigned *level);

/*
 * Returns the entry of `addr` at `level`, with the tables above it made; NULL
 * iff there was no frame for one or a larger leaf is in the way.  Takes no
 * frame and gives none with the lock held.
 */
uint64_t *fl_entry_make(struct pagetable *pt, uintptr_t addr, unsigned level);

/* Takes a frame for a table, zeroed; FALLOW_FRAME_NONE iff there is none. */
uint64_t fl_table_frame_take(struct pagetable *pt);

/* Gives the frame of a table back, which no CPU can reach any more. */
void fl_table_frame_give(struct pagetable *pt, uint64_t frame);

/* Makes every CPU forget *what; on return all have. */
void fl_flush(struct pagetable *pt, const struct fallow_pagetable_flush *what);

#endif
