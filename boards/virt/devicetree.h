/* SPDX-License-Identifier: MIT */
/* What this board reads of a flattened device tree: see devicetree.c. */
#ifndef VIRT_DEVICETREE_H
#define VIRT_DEVICETREE_H

#include "board.h"
#include "image.h"

struct board_devicetree {
	/* RAM, no two ranges of which overlap, and what of it is somebody
	 * else's. */
	struct board_ram ram[BOARD_RAM_MAX];
	struct board_ram taken[BOARD_RAM_MAX];
	size_t ram_count, taken_count;
	/* Device nodes; base 0 for one that is not there. */
	struct board_ram uart, fwcfg;
	unsigned cpus;
};

/*
 * Reads the tree in the `size` bytes at `blob`, which need no alignment.
 * Returns: NULL, or what is wrong with it, and then *tree says nothing.
 */
const char *board_devicetree_read(
	struct board_devicetree *tree, const void *blob, size_t size);

#endif
