/* SPDX-License-Identifier: MIT */
/*
 * A provider of class window over x86-64 page tables.
 *
 * It maps frames into a window of addresses by 4 KiB entries and 2 MiB
 * leaves of a set of tables that is the embedder's: it needs the physical
 * address of the top-level table, the offset at which physical memory is
 * mapped, and two functions that take and give frames.  It keeps nothing but
 * struct fallow_pagetable and the tables themselves.
 *
 * What the embedder must know:
 *   - Every top-level entry of the window (512 GiB each; 256 TiB under
 *     five-level paging) is filled in by fallow_pagetable_init(), once.  Roots
 *     made later must copy them; then they never differ.
 *   - The window is mapped writable, supervisor-only, global and no-execute;
 *     EFER.NXE must be on.
 *   - A large mapping is only made together with a table that a later split
 *     needs, so decommit never needs memory: 4 KiB per 2 MiB.
 *   - A table whose entries were emptied bit by bit stays; decommitting a
 *     whole chunk by one range gives its table back.  Tables of higher levels
 *     stay until fallow_pagetable_fini().
 *   - Tables that are there already are used, if the entries that lead to them
 *     are writable, and stay the embedder's: never given to the hooks, and a
 *     chunk below one is never promoted.
 *   - Nothing else is mapped inside the window, and nobody else makes tables
 *     there, but for providers of other windows under the same root.  These
 *     must not share a chunk (2 MiB).
 *   - Bits 9 and 10 of the window's entries, at every level, are the
 *     provider's; in tables that the embedder made they must be 0.
 *   - Frames come back to the embedder only after every CPU has forgotten
 *     them.
 *   - Four or five levels (CR4.LA57) are read from the CPU.  Not supported:
 *     memory encryption bits in entries, and protection keys.
 *
 * Contexts: as provider.h says for each function.  commit() may run in
 * interrupt handlers and never waits for another CPU: what it maps was not
 * mapped before, and it makes no entry present until nothing can fail.
 */
#ifndef FALLOW_PAGETABLE_H
#define FALLOW_PAGETABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <fallow/frames.h>
#include <fallow/provider.h>
#include <fallow/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A provider.  The embedder owns its storage, which must stay where it is as
 * long as a heap uses it; what is inside is fallow's.
 */
#define FALLOW_PAGETABLE_BYTES 384
struct fallow_pagetable {
	unsigned char opaque[FALLOW_PAGETABLE_BYTES]
		__attribute__((aligned(64)));
};

/*
 * What a CPU has to forget.  If `all`, everything it has cached of any
 * translation, global ones and those of all PCIDs too; else the granules of
 * the n ranges, which are few.
 */
struct fallow_pagetable_flush {
	bool all;
	const struct fallow_range *ranges;
	size_t n;
};

enum fallow_pagetable_flags {
	/* Zero every frame when it is committed, and report ZEROED.  Without
	 * it memory comes as the frame hooks gave it, and the heap zeroes
	 * the blocks for which that was asked: cheaper, but frames must not
	 * carry secrets. */
	FALLOW_PAGETABLE_ZERO = 1u << 0,
	/* Only granules: large_log2 is 0, no split, no promotion.  For builds
	 * whose chunk is not 2 MiB. */
	FALLOW_PAGETABLE_GRANULES = 1u << 1,
};

struct fallow_pagetable_config {
	/* sizeof(struct fallow_pagetable_config): lets the struct grow. */
	size_t size;
	/* The physical address of the top-level table: what CR3 holds,
	 * without its low 12 bits. */
	uint64_t root;
	/* Physical address p is mapped, writable, at p + direct_offset, for
	 * every frame that the hooks give and every table under `root`. */
	uintptr_t direct_offset;
	/* Copied; `claim` is optional. */
	struct fallow_frame_hooks frames;
	/* The window: granule-aligned, canonical, in one half. */
	uintptr_t window_base;
	size_t window_size;
	/*
	 * Makes every CPU call fallow_pagetable_flush(what), the one it runs
	 * on included, and returns when all have.  The caller may move to
	 * another CPU at any time, so the hook pins itself before it decides
	 * which CPU is its own; the provider flushes none by itself.  NULL iff
	 * there is one CPU.  Called by decommit, promote, move and fini,
	 * without locks, with interrupts as at the entry (on); must serve
	 * incoming shootdowns while it waits.
	 */
	void (*shootdown)(
		void *ctx, const struct fallow_pagetable_flush *what);
	void *shootdown_ctx;
	/* Of enum fallow_pagetable_flags. */
	unsigned flags;
};

/*
 * Makes *pagetable a provider over the window, filling the window's top-level
 * entries of the root.
 * Fails iff: BAD_SIZE_FIELD, MISSING_ARGUMENT (take or give), UNALIGNED (root,
 * direct_offset or window), WINDOW_TOO_SMALL (empty), RANGE_WRAPS, BAD_SETTING
 * (the window is not canonical, an unknown flag, or a table in the window is
 * reached by an entry that is not writable), UNSUPPORTED_CPU (EFER.NXE is
 * off), NO_TABLE_MEMORY.  The tables are then as they were.
 * Context: boot, on a CPU that uses the paging mode of `root`.  Calls: take,
 * and give iff NO_TABLE_MEMORY.
 */
enum fallow_status fallow_pagetable_init(struct fallow_pagetable *pagetable,
	const struct fallow_pagetable_config *config)
	__attribute__((warn_unused_result));

/* Returns what the last fallow_pagetable_init() of *pagetable refused, as one
 * sentence without a final dot; NULL if it refused nothing. */
const char *fallow_pagetable_why(const struct fallow_pagetable *pagetable);

/*
 * Fills *provider, whose ctx is *pagetable, which must outlive it.  The
 * memory type of a commit (bits 16 to 23 of its flags) is the index of a PAT
 * entry, 0 to 7; a commit with another one has no memory.  One that is not
 * write-back is the embedder's risk: the direct map is an alias of another
 * type (Intel SDM volume 3, 11.12.4).  The memory node is ignored.  now() and
 * sweep_wanted() are left to the embedder to set.
 */
void fallow_pagetable_provider(
	struct fallow_pagetable *pagetable, struct fallow_provider *provider);

/*
 * Gives back the empty tables below the window's top-level entries, and with
 * `top` those that fallow_pagetable_init() filled in too (no other root may
 * still point to them).
 * Requires: nothing else uses the provider, nor one whose window shares a
 * top-level entry with it.  Returns: whether nothing was mapped in the window;
 * tables that map something, there or beside it, stay.
 * Context: task.  Calls: shootdown, give.
 */
bool fallow_pagetable_fini(struct fallow_pagetable *pagetable, bool top);

/* On each CPU, by the shootdown hook: afterwards this one has forgotten *what.
 * Context: any in which it stays on this CPU. */
void fallow_pagetable_flush(const struct fallow_pagetable_flush *what);

/* How an address is mapped. */
struct fallow_mapping {
	/* Of the address itself, not of its mapping's begin. */
	uint64_t physical;
	/* 12, 21 or 30: log2 of what the entry maps. */
	unsigned size_log2;
	/* As all the entries on the way to it say together. */
	bool writable;
	bool executable;
	/* The PAT index. */
	unsigned memory_type;
	/* The entry as the CPU sees it. */
	uint64_t entry;
};

/* Returns whether the address, in the window or not, is mapped under the
 * root; if so fills *mapping.  Context: any. */
bool fallow_pagetable_lookup(const struct fallow_pagetable *pagetable,
	uintptr_t addr, struct fallow_mapping *mapping);

struct fallow_pagetable_counters {
	/* sizeof(struct fallow_pagetable_counters), set by the caller. */
	size_t size;
	/* Now: tables taken from the hooks; of these, those put by for a
	 * split, and last-level tables without an entry. */
	size_t tables, tables_spare, tables_empty;
	/* Now: large mappings in the window. */
	size_t large;
	/* Counters: splits, promotions; flushes of all CPUs, and how many of
	 * these were of everything. */
	uint64_t splits, promotions, flushes, flushes_all;
};

/* Fills *counters up to the size it says; `tables_empty` is exact when nothing
 * else uses the provider.  Context: task; time proportional to the number of
 * tables. */
void fallow_pagetable_counters(const struct fallow_pagetable *pagetable,
	struct fallow_pagetable_counters *counters);

#ifdef __cplusplus
}
#endif

#endif
