/* SPDX-License-Identifier: MIT */
/*
 * What the boards' start-up code shares: RAM to a frame allocator, and files
 * by fw_cfg.  Start-up code of a board calls, in this order,
 * board_memory_init(), its own page-table set-up, board_fwcfg_init(), and then
 * board_exit(guest_main()).
 */
#ifndef BOARDS_IMAGE_H
#define BOARDS_IMAGE_H

#include "board.h"

/* The most ranges of RAM, and of things in it that are taken. */
#define BOARD_RAM_MAX 32

/* The least RAM beside the image with which a guest is started. */
#define BOARD_RAM_LEAST ((uint64_t)4 << 20)

/*
 * Makes the frame allocator of all RAM but what is taken.  Ranges may be
 * unaligned and in any order; `taken` may overlap and lie outside of RAM.
 * Requires: all RAM is mapped, writable, at its address + direct_offset.
 * Panics, with the reason, if RAM is missing, too little or too scattered.
 */
void board_memory_init(const struct board_ram *ram, size_t ram_count,
	const struct board_ram *taken, size_t taken_count,
	uintptr_t direct_offset);

/*
 * Reads the directory of fw_cfg and the arguments.
 * Requires: board_memory_init().  Without fw_cfg there are no files and the
 * arguments are "".
 */
void board_fwcfg_init(void);

/* The board's: hands the physical address of a DMA descriptor to fw_cfg, and
 * leaves the selected item alone; returns false iff there is no fw_cfg. */
bool board_fwcfg_start(uint64_t descriptor);

/* Prints text and a number, without a line's end: for what is reported before
 * or beside a test's own output. */
void board_print(const char *text);
void board_print_hex(uint64_t value);

#endif
