/* SPDX-License-Identifier: MIT */
/*
 * Physical memory by runs of frames: what a page-table provider takes frames
 * from, and usable alone as a kernel's physical memory manager.
 *
 * Units     Physical addresses and sizes are bytes in uint64_t; a *frame* is
 *           the physical address of a run.  A run of size_log2 is 2^size_log2
 *           bytes, aligned to its size.
 * Memory    The contents of the memory that is handed over are never read or
 *           written.  The bookkeeping is 0.006 % of it (see
 *           fallow_frames_table_bytes()).
 * Misuse    Giving what is free, or was never handed over, is reported through
 *           the hook of the configuration, and the call then does nothing.
 * Contexts  Set-up (init, exclude, add): one context at a time; add also while
 *           others take and give.  The rest: any, interrupt handlers too; one
 *           spin lock with interrupts masked, held for the Time of the call.
 * Time      Where not stated: bounded, by the regions (64) plus the orders
 *           (about 20 for 64 GiB).
 */
#ifndef FALLOW_FRAMES_H
#define FALLOW_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <fallow/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* No frame: what a take returns when there is none. */
#define FALLOW_FRAME_NONE UINT64_MAX

/*
 * Where a provider gets physical memory from: the embedder's frame allocator,
 * or struct fallow_frames by fallow_frames_hooks().  A run of 2^size_log2
 * bytes is aligned to its size; size_log2 is at least the granule's.
 * Context of each: any, from interrupt handlers too; never called with a lock
 * of fallow's heap held.
 */
struct fallow_frame_hooks {
	void *ctx;
	/* Returns the physical address, or FALLOW_FRAME_NONE iff none. */
	uint64_t (*take)(void *ctx, unsigned size_log2);
	/* Gives back a run, or an aligned part of one that was taken. */
	void (*give)(void *ctx, uint64_t frame, unsigned size_log2);
	/* Optional: takes this run iff all of it is free. */
	bool (*claim)(void *ctx, uint64_t frame, unsigned size_log2);
};

/* The most pieces of memory that are handed over, counted after exclusions
 * have cut them, and the most exclusions. */
#define FALLOW_FRAMES_REGIONS_MAX 64
#define FALLOW_FRAMES_EXCLUDED_MAX 32

/* A frame allocator.  The embedder owns its storage, which must stay where it
 * is; what is inside is fallow's. */
#define FALLOW_FRAMES_BYTES 1536
struct fallow_frames {
	__attribute__((aligned(64))) unsigned char opaque[FALLOW_FRAMES_BYTES];
};

enum fallow_frames_misuse_kind {
	/* All or a part of the run is free already. */
	FALLOW_FRAMES_DOUBLE_GIVE = 1,
	/* The run is not inside memory that was handed over. */
	FALLOW_FRAMES_FOREIGN,
	/* The frame is no multiple of the run's size. */
	FALLOW_FRAMES_MISALIGNED,
	/* size_log2 is below the granule's, or above 63; in give and claim,
	 * which name a run, also if that has more than 2^31 granules: no such
	 * run is ever taken. */
	FALLOW_FRAMES_BAD_SIZE,
	FALLOW_FRAMES_MISUSE_COUNT,
};

/* What the misuse hook is told. */
struct fallow_frames_misuse {
	enum fallow_frames_misuse_kind kind;
	/* What was passed; FALLOW_FRAME_NONE in a take. */
	uint64_t frame;
	unsigned size_log2;
	/* The return address of the public function that was misused. */
	uintptr_t caller;
};

/* Returns a few words, such as "double give"; never NULL. */
const char *fallow_frames_misuse_text(enum fallow_frames_misuse_kind kind);

struct fallow_frames_config {
	/* sizeof(struct fallow_frames_config): lets the struct grow. */
	size_t size;
	/* log2 of the smallest run: 0 is 12 (4 KiB); range 8 to 30. */
	unsigned granule_log2;
	/* Physical address + direct_offset is where its byte can be read and
	 * written, modulo 2^64 ... */
	uintptr_t direct_offset;
	/* ... for physical addresses below this; 0 is all of them.  Only the
	 * tables are ever touched through it, and only if `tables` is too
	 * small. */
	uint64_t direct_end;
	/* Optional: memory for the tables, 64-byte aligned.  Without, or when
	 * it is used up, they are carved from the memory handed over. */
	void *tables;
	size_t tables_size;
	/* Optional.  Called without locks, in the context of the misuse; must
	 * not call back. */
	void (*misuse)(void *ctx, const struct fallow_frames_misuse *report);
	void *misuse_ctx;
};

/*
 * Makes *frames an allocator without memory.
 * Fails iff: MISSING_ARGUMENT, BAD_SIZE_FIELD, BAD_GRANULE, BAD_TABLES
 * (unaligned).
 */
enum fallow_status fallow_frames_init(
	struct fallow_frames *frames, const struct fallow_frames_config *config)
	__attribute__((warn_unused_result));

/*
 * What later adds hand over will lack the granules that overlap
 * [base, base + size): a kernel's image, its modules, a frame buffer.
 * A size of 0 excludes nothing.
 * Fails iff: MISSING_ARGUMENT, RANGE_WRAPS, TOO_MANY_REGIONS (above
 * FALLOW_FRAMES_EXCLUDED_MAX), or REGION_OVERLAPS: a part of it was handed
 * over already.
 */
enum fallow_status fallow_frames_exclude(
	struct fallow_frames *frames, uint64_t base, uint64_t size)
	__attribute__((warn_unused_result));

/*
 * Hands over the whole granules of [base, base + size) that are not excluded;
 * some may become tables.  Runs do not cross from one call's memory into
 * another's: hand over neighbours as one.
 * Fails iff: MISSING_ARGUMENT, RANGE_WRAPS (ending at 2^64 is wrapping too),
 * REGION_TOO_SMALL (no whole granule is left, or none beside the tables),
 * BAD_SETTING (too large; 2^31 granules, 8 TiB of 4 KiB, are not),
 * REGION_OVERLAPS, TOO_MANY_REGIONS, NO_TABLE_MEMORY.  Nothing has changed
 * then, except with the last two, where pieces below the one that failed may
 * have been handed over.
 */
enum fallow_status fallow_frames_add(
	struct fallow_frames *frames, uint64_t base, uint64_t size)
	__attribute__((warn_unused_result));

/* Returns the bytes of tables that this range needs at most, if no exclusion
 * cuts it; add as much again, up to 512 bytes, for each piece it is cut to. */
size_t fallow_frames_table_bytes(
	uint64_t base, uint64_t size, unsigned granule_log2)
	__attribute__((const));

/*
 * Takes a run out of the smallest free one that holds it, the highest among
 * equals, so that low memory lasts.
 * Returns: its frame, or FALLOW_FRAME_NONE iff there is none.
 * Misuse: BAD_SIZE.
 */
uint64_t fallow_frames_take(struct fallow_frames *frames, unsigned size_log2)
	__attribute__((warn_unused_result));

/*
 * Takes the lowest run there is, for devices that reach only a part of the
 * memory.
 * Returns: its frame, or FALLOW_FRAME_NONE iff no free run of this size ends
 * at or below `limit`.
 * Misuse: BAD_SIZE.
 */
uint64_t fallow_frames_take_below(
	struct fallow_frames *frames, unsigned size_log2, uint64_t limit)
	__attribute__((warn_unused_result));

/*
 * Gives back a run that was taken, or an aligned part of one.  (Parts may go
 * to different owners; what is whole again is one run again.)
 * Misuse: DOUBLE_GIVE, FOREIGN, MISALIGNED, BAD_SIZE.
 */
void fallow_frames_give(
	struct fallow_frames *frames, uint64_t frame, unsigned size_log2);

/*
 * Takes this very run iff all of it is free.
 * Returns: whether it did; false too for memory that is none of ours.
 * Misuse: MISALIGNED, BAD_SIZE.
 */
bool fallow_frames_claim(
	struct fallow_frames *frames, uint64_t frame, unsigned size_log2)
	__attribute__((warn_unused_result));

/* Returns the hooks that take from and give to this allocator. */
struct fallow_frame_hooks fallow_frames_hooks(struct fallow_frames *frames);

/* What can be seen.  Counters never fall. */
struct fallow_frames_counts {
	/* sizeof(struct fallow_frames_counts), set by the caller. */
	size_t size;
	/* Now: bytes handed over, without tables; of them free. */
	uint64_t total, free;
	/* The least `free` since the last add. */
	uint64_t free_low;
	/* Now: bytes of tables, whether carved or of config.tables. */
	uint64_t tables;
	/* Now: pieces of memory, cut by exclusions. */
	unsigned regions;
	/* Now: log2 of the largest free run; 0 iff nothing is free. */
	unsigned largest_log2;
	/* Counters: calls that took a run (claims among them), that gave one,
	 * that found none, that were misuse. */
	uint64_t takes, gives, failures, misuses;
};

/* Fills *counts up to the size it says. */
void fallow_frames_counts(
	struct fallow_frames *frames, struct fallow_frames_counts *counts);

/*
 * Verifies every invariant.
 * Returns: NULL if all hold, else the invariant that is broken, as it is
 * written in the source; *where, if not NULL, is a frame it is about.
 * Time: proportional to the memory handed over, with the lock held.
 */
const char *fallow_frames_check(struct fallow_frames *frames, uint64_t *where)
	__attribute__((warn_unused_result));

#ifdef __cplusplus
}
#endif

#endif
