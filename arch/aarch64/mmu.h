/* SPDX-License-Identifier: MIT */
/*
 * The words that the MMU reads, and the instructions that order them.
 *
 * Section titles are those of the Arm Architecture Reference Manual for
 * A-profile (DDI 0487); its section numbers move from issue to issue.
 *
 * A VMSAv8-64 descriptor ("Translation table descriptor formats"), granule
 * 4 KiB, levels 0 to 3, output addresses of 48 bits (TCR_EL1.DS is 0):
 *
 *   63   55 54 53 52 51 50 48 47            12 11 10 9  8 7 6 5  4  2 1 0
 *   |soft  |UXN|PXN|C|DBM|   | output address |nG|AF| SH | AP|NS|Attr|T V|
 *
 * V is 0 in what the hardware ignores.  Then all other bits are ours, and a
 * *kept* entry is one with its V taken away: no CPU can reach the frame, but
 * the table still says which it is.  Decommit keeps entries until the
 * invalidation is over and so needs no memory of its own; commit keeps them
 * until all frames are there, and so rolls back without an invalidation.
 */
#ifndef AARCH64_MMU_H
#define AARCH64_MMU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "atomic.h"

#define MMU_PAGE_LOG2 12
#define MMU_BLOCK_LOG2 21
#define MMU_PAGE ((size_t)1 << MMU_PAGE_LOG2)
#define MMU_BLOCK ((size_t)1 << MMU_BLOCK_LOG2)

/* A table is one page of 8-byte entries: 9 bits of the address a level. */
#define MMU_LEVEL_LOG2 9
#define MMU_ENTRIES ((size_t)1 << MMU_LEVEL_LOG2)
_Static_assert(
	MMU_ENTRIES * sizeof(uint64_t) == MMU_PAGE, "a table is one page");
_Static_assert(MMU_PAGE_LOG2 + MMU_LEVEL_LOG2 == MMU_BLOCK_LOG2,
	"a level-2 block covers what one level-3 table does");

#define MMU_VALID ((uint64_t)1 << 0)
/* With V: a table at levels 0 to 2, a page at level 3; without: a block. */
#define MMU_TABLE ((uint64_t)1 << 1)
#define MMU_ATTR(entry) ((unsigned)((entry) >> 2 & 7))
#define MMU_ATTR_FIELD(index) ((uint64_t)(index) << 2)
#define MMU_READ_ONLY ((uint64_t)1 << 7)
#define MMU_SH_INNER ((uint64_t)3 << 8)
#define MMU_AF ((uint64_t)1 << 10)
#define MMU_PXN ((uint64_t)1 << 53)
#define MMU_UXN ((uint64_t)1 << 54)
#define MMU_ADDRESS ((uint64_t)0x0000fffffffff000)
/* Software's.  In a block: it was made of pages that were taken one by one, and
 * so are to be given back one by one.  In a table descriptor: the table is
 * this provider's. */
#define MMU_JOINED ((uint64_t)1 << 55)
#define MMU_OURS ((uint64_t)1 << 55)
/* Bits of a table descriptor that restrict all that is below it. */
#define MMU_APTABLE ((uint64_t)3 << 61)
#define MMU_APTABLE_READ_ONLY ((uint64_t)2 << 61)
#define MMU_PXNTABLE ((uint64_t)1 << 59)

/*
 * AP[2:1] is 0: EL1 reads and writes, EL0 has no access.  AF is set, for an
 * entry without it faults on first use.  nG is 0: for every ASID.
 */
#define MMU_NORMAL (MMU_SH_INNER | MMU_AF | MMU_PXN | MMU_UXN)

static inline bool mmu_is_table(uint64_t entry)
{
	return (entry & (MMU_VALID | MMU_TABLE)) == (MMU_VALID | MMU_TABLE);
}

static inline bool mmu_is_block(uint64_t entry)
{
	return (entry & (MMU_VALID | MMU_TABLE)) == MMU_VALID;
}

/* Where addr's entry is in its table at `level`. */
static inline size_t mmu_index(uintptr_t addr, unsigned level)
{
	return (addr >> (MMU_PAGE_LOG2 + MMU_LEVEL_LOG2 * (3 - level))) &
	       (MMU_ENTRIES - 1);
}

/* log2 of what one entry at `level` covers. */
static inline unsigned mmu_level_log2(unsigned level)
{
	return MMU_PAGE_LOG2 + MMU_LEVEL_LOG2 * (3 - level);
}

/*
 * Entries are read and written whole, for a walk may come at any time.  The
 * acquire pairs with the release of whoever linked the table: what is in it
 * is seen, too.  The release is one with a single CPU as well: a walk may find a
 * table as soon as it is linked.
 */
static inline uint64_t mmu_get(const uint64_t *entry)
{
	return fl_load_acquire(entry);
}

static inline void mmu_set(uint64_t *entry, uint64_t value)
{
	__atomic_store_n(entry, value, __ATOMIC_RELEASE);
}

/* Afterwards walks of every CPU see the entries written before, if these were
 * invalid; and so does this CPU's next instruction. */
static inline void mmu_published(void)
{
	__asm__ volatile("dsb ishst\n\tisb" ::: "memory");
}

/* Between the entries that were made invalid and the TLBIs for them. */
static inline void mmu_flush_begin(void)
{
	__asm__ volatile("dsb ishst" ::: "memory");
}

/* The operand of a TLBI by address: VA[55:12] in bits 43:0, no TTL hint. */
static inline uint64_t mmu_tlbi_operand(uintptr_t addr)
{
	return (addr >> MMU_PAGE_LOG2) & (((uint64_t)1 << 44) - 1);
}

/*
 * Drops, on every CPU and for every ASID, what was cached of the walk to addr:
 * all of a block, whichever of its addresses is given, and the tables above.
 */
static inline void mmu_flush_address(uintptr_t addr)
{
	__asm__ volatile("tlbi vaae1is, %0" ::"r"(mmu_tlbi_operand(addr))
			 : "memory");
}

/* Drops everything, on every CPU. */
static inline void mmu_flush_all(void)
{
	__asm__ volatile("tlbi vmalle1is" ::: "memory");
}

/* Afterwards all TLBIs before it are complete everywhere: no CPU has an access
 * in flight that used what they dropped. */
static inline void mmu_flush_end(void)
{
	__asm__ volatile("dsb ish\n\tisb" ::: "memory");
}

/*
 * Break-before-make in one breath.  The range under the entry may hold this
 * CPU's stack, so between the two stores all exceptions are masked and nothing
 * but registers and the entry itself, in the direct map, is used; the code is
 * not in the window, which is never executable.
 */
#define MMU_REPLACE(tlbi) \
 "mrs %0, daif\n\t"       \
 "msr daifset, #15\n\t"   \
 "str xzr, [%1]\n\t"      \
 "dsb ish\n\t"            \
 "tlbi " tlbi "\n\t"      \
 "dsb ish\n\t"            \
 "str %2, [%1]\n\t"       \
 "dsb ish\n\t"            \
 "isb\n\t"                \
 "msr daif, %0"

/* Replaces a block by a table. */
static inline void mmu_replace_block(
	uint64_t *entry, uint64_t value, uintptr_t addr)
{
	uint64_t daif;

	__asm__ volatile(MMU_REPLACE("vaae1is, %3")
			 : "=&r"(daif)
			 : "r"(entry), "r"(value), "r"(mmu_tlbi_operand(addr))
			 : "memory");
}

/* Replaces a table by a block: its 512 pages may all be cached, and dropping
 * everything is cheaper than 512 invalidations. */
static inline void mmu_replace_table(uint64_t *entry, uint64_t value)
{
	uint64_t daif;

	__asm__ volatile(MMU_REPLACE("vmalle1is")
			 : "=&r"(daif)
			 : "r"(entry), "r"(value)
			 : "memory");
}

#define MMU_READ(reg)                         \
 (                                            \
	 {                                    \
uint64_t value_;                                  \
__asm__ volatile("mrs %0, " #reg : "=r"(value_)); \
value_;                                           \
	 })
/* The same of a register that a macro names. */
#define MMU_READ_NAMED(reg) MMU_READ(reg)

#endif
