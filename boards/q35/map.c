/* SPDX-License-Identifier: MIT */
/*
 * The tables that a guest runs on, in place of those of start.S.
 *
 * All RAM at Q35_DIRECT_BASE by 2 MiB leaves, and the image, and nothing but
 * the image, at Q35_KERNEL_BASE by 4 KiB ones: text is read and executed,
 * constants are read, the rest is written, and the page under each stack is
 * nothing, so that a stray pointer or a stack that is too small is a fault
 * with a report.  The tables are new ones, taken from the RAM right behind the
 * image, and CR3 changes once: no mapping changes its size while the CPU
 * fetches through it.  Until the frame allocator is told where the last table
 * ends, more of the direct map can be added: firmware's tables, and registers.
 *
 * Every table is built through start.S's mapping of the first GiB, so all of
 * them must be in it; those that come later, through the direct map.  One CPU.
 */
#include "board.h"
#include "image.h"
#include "q35.h"

/* Entries of page tables (Intel SDM volume 3, 4.5). */
#define ENTRY_PRESENT ((uint64_t)1 << 0)
#define ENTRY_WRITABLE ((uint64_t)1 << 1)
#define ENTRY_UNCACHED ((uint64_t)3 << 3) /* PAT index 3 */
#define ENTRY_LARGE ((uint64_t)1 << 7)
#define ENTRY_NO_EXECUTE ((uint64_t)1 << 63)
#define ENTRY_TABLE (ENTRY_PRESENT | ENTRY_WRITABLE)
#define ENTRY_FRAME ((uint64_t)0x000ffffffffff000)

#define GRANULE_BYTES ((uint64_t)4096)
#define LEAF_BYTES ((uint64_t)0x200000)
#define GRANULE_LOG2 12
#define LEVEL_LOG2 9
#define ENTRIES ((size_t)512)
#define LEVEL_LARGE 1
#define LEVEL_GRANULE 0

/* The direct map ends where the window begins at the latest. */
#define DIRECT_BYTES (Q35_WINDOW_BASE - Q35_DIRECT_BASE)

#define CR4_LA57 ((uint64_t)1 << 12)
#define MSR_EFER 0xc0000080
#define EFER_NXE ((uint64_t)0x800)

static const struct board_ram *ram;
static size_t ram_count;
/* The physical address of the top-level table, and of what the next takes. */
static uint64_t root;
static uint64_t next;
/* What is added to a table's physical address to get to it. */
static uintptr_t offset = Q35_KERNEL_BASE;
/* The frame allocator has what is behind the tables. */
static bool ended;

/* Returns the table at this physical address. */
static uint64_t *table_at(uint64_t physical)
{
	return (uint64_t *)(uintptr_t)(physical + offset);
}

/* Takes a zeroed table; returns its physical address. */
static uint64_t table_take(void)
{
	uint64_t *table = table_at(next);
	bool inside = false;
	size_t i;

	if (ended)
		board_panic("a page table after the last");
	for (i = 0; i < ram_count; i++)
		if (next >= ram[i].base &&
			next + GRANULE_BYTES <= ram[i].base + ram[i].size)
			inside = true;
	if (!inside || next + GRANULE_BYTES > Q35_KERNEL_MAPPED)
		board_panic("no RAM behind the image for the page tables");
	for (i = 0; i < ENTRIES; i++)
		table[i] = 0;
	next += GRANULE_BYTES;
	return next - GRANULE_BYTES;
}

/* Returns the level of the top: start.S turned on four levels, or five. */
static unsigned level_top(void)
{
	uint64_t cr4;

	__asm__ volatile("movq %%cr4, %0" : "=r"(cr4));
	return cr4 & CR4_LA57 ? 4 : 3;
}

/* Writes the leaf of `addr` at `level`, unless there is one, making the tables
 * above it.  What was nothing needs no flush. */
static void leaf_set(uintptr_t addr, unsigned level, uint64_t leaf)
{
	uint64_t *table = table_at(root);
	unsigned at;

	for (at = level_top();; at--) {
		size_t index = addr >> (GRANULE_LOG2 + at * LEVEL_LOG2) &
			(ENTRIES - 1);

		if (at == level) {
			if (table[index] == 0)
				table[index] = leaf;
			return;
		}
		if (table[index] == 0)
			table[index] = table_take() | ENTRY_TABLE;
		table = table_at(table[index] & ENTRY_FRAME);
	}
}

/* Returns the no-execute bit, or 0 on a CPU where it would be a reserved one:
 * start.S turned it on if it could. */
static uint64_t no_execute(void)
{
	return msr_read(MSR_EFER) & EFER_NXE ? ENTRY_NO_EXECUTE : 0;
}

/* Maps the large pages that [base, base + size) touches and that are not yet
 * mapped; false iff that is beyond the reach of the direct map. */
static bool direct_map(uint64_t base, uint64_t size, uint64_t flags)
{
	uint64_t frame = base & ~(LEAF_BYTES - 1);

	if (base > DIRECT_BYTES || size > DIRECT_BYTES - base)
		return false;
	flags |= ENTRY_PRESENT | ENTRY_WRITABLE | ENTRY_LARGE | no_execute();
	for (; frame < base + size; frame += LEAF_BYTES)
		leaf_set(Q35_DIRECT_BASE + frame, LEVEL_LARGE, frame | flags);
	return true;
}

/* Maps more for board_map_memory() and board_map_device(). */
static void *direct_add(uint64_t physical, uint64_t size, uint64_t flags)
{
	if (!direct_map(physical, size, flags))
		return NULL;
	return (void *)(uintptr_t)(Q35_DIRECT_BASE + physical);
}

void *board_map_memory(uint64_t physical, uint64_t size)
{
	return direct_add(physical, size, 0);
}

void *board_map_device(uint64_t physical, uint64_t size)
{
	return direct_add(physical, size, ENTRY_UNCACHED);
}

/* Maps a part of the image where it is linked. */
static void image_map(
	const unsigned char *begin, const unsigned char *end, uint64_t flags)
{
	for (; begin < end; begin += GRANULE_BYTES)
		if (board_guard_name((uintptr_t)begin) == NULL)
			leaf_set((uintptr_t)begin, LEVEL_GRANULE,
				image_physical(begin) | ENTRY_PRESENT | flags);
}

void board_map_init(const struct board_ram *ranges, size_t count)
{
	size_t i;

	ram = ranges;
	ram_count = count;
	next = image_physical(board_image_end);
	root = table_take();
	for (i = 0; i < count; i++)
		if (!direct_map(ranges[i].base, ranges[i].size, 0))
			board_panic("RAM beyond the reach of the direct map");
	image_map(board_image_begin, board_rodata_begin, 0);
	image_map(board_rodata_begin, board_data_begin, no_execute());
	image_map(board_data_begin, board_image_end,
		ENTRY_WRITABLE | no_execute());
	/* No entry was global, so this forgets all of the old tables. */
	__asm__ volatile("movq %0, %%cr3" ::"r"(root) : "memory");
	offset = Q35_DIRECT_BASE;
}

uint64_t board_map_end(void)
{
	ended = true;
	return next;
}

uint64_t board_root(void)
{
	return root;
}
