/* SPDX-License-Identifier: MIT */
/* Which CPUs there are, from ACPI's tables: see madt.c. */
#ifndef Q35_MADT_H
#define Q35_MADT_H

#include "board.h"

/* Local APIC ids, the first of them the one that asks. */
struct board_madt {
	uint32_t ids[BOARD_CPUS_MAX];
	unsigned count;
};

/* Returns where `size` bytes of physical memory can be read, NULL if nowhere;
 * they stay readable. */
typedef const void *board_madt_reach(
	void *ctx, uint64_t physical, uint64_t size);

/*
 * Lists the CPUs that may be started, up to BOARD_CPUS_MAX, beginning at the
 * root pointer at physical `rsdp`; `self` is the id of the CPU that asks.
 * Without a root pointer (0), or without a MADT, there is one CPU.
 * Returns: NULL, or what is wrong with the tables, and then there is one CPU.
 */
const char *board_madt_read(struct board_madt *madt, uint64_t rsdp,
	uint32_t self, board_madt_reach *reach, void *ctx);

#endif
