/* SPDX-License-Identifier: MIT */
/*
 * The provider of class window on aarch64's own page tables.
 *
 * It maps 4 KiB pages (level 3) and 2 MiB blocks (level 2) into a window of
 * addresses that the embedder sets aside, with frames from the embedder's
 * hooks or from struct fallow_frames.  It works at EL1, on the tables that
 * TTBR0_EL1 or TTBR1_EL1 already names, with a granule of 4 KiB.
 *
 * What it maps is Normal memory, inner shareable, global, readable and
 * writable at EL1, and never executable.
 *
 * Other CPUs need nothing: invalidations are broadcast by the hardware.  Only
 * a change of the mapping's *size* under bytes in use is special: the Arm ARM
 * (DDI 0487, "Using break-before-make when updating translation table
 * entries") wants the old entry invalid, and invalidated everywhere, before the
 * new one is written, and another CPU that touches the range in that gap takes
 * a fault.  So a block is split, and made in place, only if one of these holds,
 * and the capability bits say so:
 *
 *   - FALLOW_PAGETABLE_ONE_CPU: nobody else is there.  Interrupts are masked
 *     in the gap, and not even the stack is touched in it.
 *   - stop_others and resume_others are given.
 *   - ID_AA64MMFR2_EL1.BBM is 2, and FALLOW_PAGETABLE_NO_CONFLICT is the
 *     embedder's word that its CPUs raise no TLB conflict abort either, which
 *     level 2 alone permits.  Then there is no gap.
 *
 * CPUs without FEAT_ETS2 (ID_AA64MMFR1_EL1.ETS below 2) may translate an
 * address ahead of the load by which they learn of it.  Where another CPU has
 * just committed it they may so report a translation fault although the page
 * is there.  On several such CPUs the kernel's handler returns from a
 * translation fault in the window whose address fallow_pagetable_lookup()
 * finds mapped, and the access succeeds.  (Nothing that a provider executes on
 * one CPU can order the walks of another.)
 *
 * Not supported: granules of 16 and 64 KiB, 52-bit addresses (LPA2), EL2,
 * walks that are not shareable unless with ONE_CPU, indirect permissions and
 * 128-bit descriptors (PIE, D128); each is refused by name.  Where
 * ID_AA64MMFR3_EL1 has TCR2_EL1, EL1 must be allowed to read it: HCRX_EL2 and
 * SCR_EL3 can trap that.  Not done: the repeated TLBI that some CPUs with errata
 * need (Cortex-A76 1286807 and its like).
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

enum fallow_pagetable_flags {
	/* Zero every frame when it is committed, and report ZEROED.  Without
	 * it memory comes as the frame hooks gave it, and the heap zeroes
	 * the blocks for which that was asked: cheaper, but frames must not
	 * carry secrets. */
	FALLOW_PAGETABLE_ZERO = 1u << 0,
	/* Only granules: large_log2 is 0, and there is no split, no promotion.
	 * For builds whose chunk is not 2 MiB. */
	FALLOW_PAGETABLE_GRANULES = 1u << 1,
	/* Only one CPU ever runs while the provider is in use, and a handler
	 * of what cannot be masked (FEAT_NMI) does not touch the window. */
	FALLOW_PAGETABLE_ONE_CPU = 1u << 2,
	/* No CPU raises a TLB conflict abort when the size of a mapping
	 * changes under it (Linux keeps a list of such CPUs for its
	 * capability BBML2_NOABORT).  Ignored unless BBM is 2. */
	FALLOW_PAGETABLE_NO_CONFLICT = 1u << 3,
};

struct fallow_pagetable_config {
	/* sizeof(struct fallow_pagetable_config): lets the struct grow. */
	size_t size;
	/* The physical address of the table that the TTBR names, without
	 * its ASID and CnP bits. */
	uint64_t root;
	/* A frame's address in the direct map, minus its physical address.
	 * The direct map covers the root, all tables above the window, and
	 * every frame that the hooks return, as Normal write-back memory. */
	uintptr_t direct_offset;
	/* Copied.  Frames are RAM below 2^48 and below what TCR_EL1.IPS
	 * allows; `claim` is optional. */
	struct fallow_frame_hooks frames;
	/* Multiples of 4 KiB.  Nothing in the window is mapped, and no other
	 * provider's window is within the same GiB. */
	uintptr_t window_base;
	size_t window_size;
	/* The TTBR that translates the window: 0 or 1.  Every other root
	 * that this TTBR ever takes must hold the same entries for the
	 * window; init fills them all, so they never change again. */
	unsigned ttbr;
	/* Which field of MAIR_EL1 is Normal write-back memory: 0 to 7. */
	unsigned attr_index;
	/*
	 * Optional, both or neither.  Between the two no other CPU touches
	 * the window, its own stack included.  Called in task context, with
	 * interrupts on and no lock held.  A CPU must be stopped where its
	 * interrupts are on.  Of one provider they are called by one CPU at a
	 * time: another that needs them waits in a loop, where it can be
	 * stopped, so a thread between the two must not lose its CPU for good
	 * to one that waits.  A CPU that was stopped goes on through an
	 * exception's return or an ISB, for it may have translated ahead what
	 * was invalid meanwhile.
	 */
	void (*stop_others)(void *ctx);
	void (*resume_others)(void *ctx);
	void *stop_ctx;
	/* Of enum fallow_pagetable_flags. */
	unsigned flags;
};

/*
 * A provider.  The embedder owns its storage, outside of the window, which
 * must stay where it is as long as a heap uses it; what is inside is fallow's.
 */
#define FALLOW_PAGETABLE_BYTES 320
struct fallow_pagetable {
	__attribute__((aligned(16))) unsigned char opaque[FALLOW_PAGETABLE_BYTES];
};

/*
 * Makes *pagetable a provider for the window and fills the entries of the root
 * that cover it.
 * Fails iff: BAD_SIZE_FIELD, MISSING_ARGUMENT, BAD_SETTING (ttbr, attr_index,
 * flags, root, or one of the two stop hooks alone), UNALIGNED (root,
 * direct_offset or window), RANGE_WRAPS, WINDOW_TOO_SMALL (empty),
 * NO_TABLE_MEMORY, or UNSUPPORTED_CPU, whose causes are: the exception level, the MMU
 * being off, TCR_EL1 (granule, size, disabled, uncached or private walks,
 * 52-bit descriptors), TCR2_EL1 (PIE, D128), MAIR_EL1, or what is in the window already.
 * Context: boot, or task.  Calls: frames.take and .give.
 */
enum fallow_status fallow_pagetable_init(struct fallow_pagetable *pagetable,
	const struct fallow_pagetable_config *config)
	__attribute__((warn_unused_result));

/* Returns what the last fallow_pagetable_init() of *pagetable refused, as one
 * sentence without a final dot; NULL if it refused nothing. */
const char *fallow_pagetable_why(const struct fallow_pagetable *pagetable);

/*
 * Fills *provider, whose ctx is *pagetable.  now() and sweep_wanted() are left
 * to the embedder to set.  Its functions:
 *   commit    takes frames and table pages, with no lock held.  PREFER_LARGE:
 *             chunks that get no 2 MiB frame are mapped by granules.
 *             RESERVED: each granule's frame is the one at its own place in a
 *             2 MiB frame, as long as frames.claim is there and grants it.
 *             A memory type (bits 16 to 23) other than 0 has no memory: the
 *             direct map would be an alias of another type.
 *   decommit  one invalidation for all ranges.  Table pages stay.
 *   promote   iff the chunk's 512 frames lie as in one 2 MiB frame.
 *   move      iff table pages can be had; blocks move as blocks where whole
 *             chunks of `from` become whole chunks of `to`, others are split,
 *             and without CAN_DEMOTE it fails if there is one.
 */
void fallow_pagetable_provider(
	struct fallow_pagetable *pagetable, struct fallow_provider *provider);

/*
 * Gives back the empty tables below the window's entries of the root, and with
 * `top` those that fallow_pagetable_init() filled in too (no other root, and no
 * other provider, may still use them).  Tables that were there before it are the embedder's.
 * Requires: nothing else uses the provider.  Returns: whether the window was
 * empty; tables that map something stay, and so do the spares for them.
 * Context: task.  Calls: frames.give.
 */
bool fallow_pagetable_fini(struct fallow_pagetable *pagetable, bool top);

/* How an address is mapped. */
struct fallow_mapping {
	/* Of the address itself, not of its mapping's begin. */
	uint64_t physical;
	/* 12, 21 or 30: log2 of what the entry maps. */
	unsigned size_log2;
	/* At EL1. */
	bool writable;
	bool executable;
	/* The field of MAIR_EL1. */
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
	/* Now: tables taken from the hooks; of these, those put by (never
	 * fewer than `large`), and last-level tables without an entry. */
	size_t tables, tables_spare, tables_empty;
	/* Now: large mappings in the window. */
	size_t large;
	/* Counters: splits, promotions; flushes, of decommit and move, and
	 * how many of these were of everything. */
	uint64_t splits, promotions, flushes, flushes_all;
};

/* Fills *counters up to the size it says.  Context: task; time proportional
 * to the number of tables. */
void fallow_pagetable_counters(const struct fallow_pagetable *pagetable,
	struct fallow_pagetable_counters *counters);

#ifdef __cplusplus
}
#endif

#endif
