/* SPDX-License-Identifier: MIT */
/* What this board reads of a flattened device tree: see devicetree.c. */
#ifndef VIRT_DEVICETREE_H
#define VIRT_DEVICETREE_H

#include "board.h"
#include "image.h"

/* How PSCI is called. */
enum board_psci { BOARD_PSCI_NONE, BOARD_PSCI_HVC, BOARD_PSCI_SMC };

/* What is known of one CPU. */
struct board_devicetree_cpu {
	uint64_t affinity; /* the fields Aff0 to Aff3 of MPIDR_EL1 in place */
	bool psci;         /* PSCI starts it */
};

struct board_devicetree {
	/* RAM, no two ranges of which overlap, and what of it is somebody
	 * else's. */
	struct board_ram ram[BOARD_RAM_MAX];
	struct board_ram taken[BOARD_RAM_MAX];
	size_t ram_count, taken_count;
	/* Device nodes; base 0 for one that is not there. */
	struct board_ram uart, fwcfg;
	/* The interrupt controller: 2, 3, or 0 if there is none; the
	 * distributor, and the CPU interfaces (2) or redistributors (3). */
	unsigned gic_version;
	struct board_ram gic_distributor, gic_cpus;
	enum board_psci psci;
	/* CPUs that may be used, each there once, in the tree's order.  There
	 * are `cpus`; what is beyond the array is not listed. */
	struct board_devicetree_cpu cpu[BOARD_CPUS_MAX];
	unsigned cpus;
};

/*
 * Reads the tree in the `size` bytes at `blob`, which need no alignment.
 * Returns: NULL, or what is wrong with it, and then *tree says nothing.
 */
const char *board_devicetree_read(
	struct board_devicetree *tree, const void *blob, size_t size);

/*
 * Makes the CPU with this affinity, which is the one that runs, the first of
 * the list, and `cpus` the number of those listed; a tree without any gets this
 * one.  Returns: NULL, or why the others cannot be started.
 */
const char *board_devicetree_boot_cpu(
	struct board_devicetree *tree, uint64_t affinity);

#endif
