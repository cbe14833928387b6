/* SPDX-License-Identifier: MIT */
/*
 * What the files of the page-table provider share.
 */
#ifndef AARCH64_TABLES_H
#define AARCH64_TABLES_H

#include <fallow/pagetable.h>

#include "lock.h"
#include "mmu.h"

/* What fallow_pagetable's storage holds. */
struct pagetable {
	/* Protects tables, blocks that several ranges share, the spares and
	 * the counters.  Other entries are the call's that names them. */
	struct lock lock;
	uint64_t root;
	uint64_t attributes; /* of every page and block */
	uint64_t frame_limit;
	uintptr_t direct_offset;
	uintptr_t window_base, window_end;
	uintptr_t address_mask; /* the bits that the TTBR's tables translate */
	struct fallow_frame_hooks frames;
	void (*stop_others)(void *ctx);
	void (*resume_others)(void *ctx);
	void *stop_ctx;
	uint32_t stopping; /* 1 while one CPU has the others stopped */
	const char *why;
	unsigned top_level;
	bool zero;      /* commit() clears */
	bool granules;  /* no blocks at all */
	bool resizable; /* blocks may be split, and made in place */
	bool gapless;   /* without break-before-make */
	uint64_t spare; /* the first of a list through their first words */
	/* `tables` are linked.  Invariant "spares cover blocks": spares >=
	 * blocks, and equal when no call is in progress. */
	size_t tables, spares, blocks;
	size_t top_tables; /* of them linked into the root */
	uint64_t flushes, flushes_all, splits, promotions;
};

_Static_assert(sizeof(struct pagetable) <= FALLOW_PAGETABLE_BYTES,
	"FALLOW_PAGETABLE_BYTES is too small");
_Static_assert(_Alignof(struct pagetable) <= _Alignof(struct fallow_pagetable),
	"struct fallow_pagetable is not aligned enough");

/* The table in this frame, through the direct map. */
static inline uint64_t *table_at(const struct pagetable *pt, uint64_t frame)
{
	return (uint64_t *)(uintptr_t)(frame + pt->direct_offset);
}

/* Where addr's part of the window ends: at its chunk's end, or at `end`. */
static inline uintptr_t chunk_end(uintptr_t addr, uintptr_t end)
{
	uintptr_t next = (addr | (MMU_BLOCK - 1)) + 1;

	return next - 1 < end - 1 ? next : end;
}

/* Whether [at, end), of one chunk, is all of it. */
static inline bool chunk_whole(uintptr_t at, uintptr_t end)
{
	return end - at == MMU_BLOCK;
}

/* tables.c */
uint64_t fl_table_frame(struct pagetable *pt, unsigned size_log2);
void fl_table_trim(struct pagetable *pt);
size_t fl_table_empty(struct pagetable *pt, unsigned level, bool unlink);
bool fl_table_fini(struct pagetable *pt, bool top);
bool fl_table_fill_top(struct pagetable *pt);
uint64_t *fl_table_entry(const struct pagetable *pt, uintptr_t addr);
uint64_t *fl_table_pages(struct pagetable *pt, uintptr_t addr);
bool fl_table_block_room(struct pagetable *pt, uintptr_t chunk);
bool fl_table_block_keep(struct pagetable *pt, uintptr_t chunk, uint64_t frame);
uint64_t fl_table_block_drop(struct pagetable *pt, uint64_t *entry);
void fl_table_block_move(struct pagetable *pt, uint64_t *from, uintptr_t to);
void fl_table_split(
	struct pagetable *pt, uint64_t *entry, uintptr_t base, uintptr_t end);
void fl_table_join(struct pagetable *pt, uint64_t *entry);

/* stop.c */
void fl_others_stop(struct pagetable *pt);
void fl_others_resume(struct pagetable *pt);

/* ranges.c */
void fl_range_publish(struct pagetable *pt, uintptr_t at, uintptr_t end);
void fl_range_release(struct pagetable *pt, uintptr_t at, uintptr_t end);
bool fl_ranges_judge(
	const struct pagetable *pt, struct fallow_range *ranges, size_t n);
bool fl_range_cut(
	struct pagetable *pt, uint64_t *entry, uintptr_t at, uintptr_t end);
size_t fl_range_keep(struct pagetable *pt, uintptr_t at, uintptr_t end);
void fl_ranges_flush(struct pagetable *pt, const struct fallow_range *ranges,
	size_t n, size_t flushes);

/* move.c */
bool fl_range_move(
	struct pagetable *pt, uintptr_t from, uintptr_t to, size_t size);

#endif
