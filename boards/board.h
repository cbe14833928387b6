/* SPDX-License-Identifier: MIT */
/*
 * What a bare board gives to the image that runs on it.
 *
 * An image is guest_main() and what it calls.  The board's start-up code
 * reaches 64-bit C with the MMU on, interrupts masked and a stack, finds RAM,
 * makes a frame allocator of it and a page-table provider over that, and calls
 * guest_main() with interrupts on, as a task (no device sends one yet);
 * board_exit() with its result ends the machine.  A fault that
 * nobody expects prints the faulting address, the instruction and the
 * registers, and exits with status 99.  This is also the example of how a
 * kernel is glued to fallow; none of it is in libfallow.a.
 */
#ifndef BOARD_H
#define BOARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <fallow/frames.h>
#include <fallow/provider.h>
#include <fallow/status.h>

struct fallow_pagetable;

/* The image's own: what it returns is the machine's exit status, 0 to 127. */
int guest_main(void);

/* To the serial port; '\n' is sent as it is. */
void board_putc(char c);

/* Ends the machine; the runner maps what QEMU returns to `status`. */
_Noreturn void board_exit(int status);

/* Prints the message and exits with status 98: the board cannot start. */
_Noreturn void board_panic(const char *message);

/* A monotonic counter that counts instructions under -icount shift=0. */
uint64_t board_ticks(void);

/* The image's argument string (fw_cfg opt/fallow/args), "" without one. */
const char *board_args(void);

/*
 * Finds the file opt/fallow/`name` of fw_cfg.  The bytes are in frames taken
 * from board_frames() and mapped; they stay until the machine ends.
 * Returns: false iff there is no such file or no memory for it.
 */
bool board_file(const char *name, const void **data, size_t *size);

/* The provider of class window over this board's page tables, its window, and
 * the frame allocator under it. */
const struct fallow_provider *board_provider(void);
uintptr_t board_window_base(void);
size_t board_window_size(void);
struct fallow_frames *board_frames(void);
/* The hooks of board_frames(). */
const struct fallow_frame_hooks *board_frame_hooks(void);

/*
 * Makes *pagetable another provider under the board's root, as the board made
 * its own but for what is given; the windows must not overlap.
 * Returns: what fallow_pagetable_init() does.
 */
enum fallow_status board_pagetable_init(struct fallow_pagetable *pagetable,
	const struct fallow_frame_hooks *hooks, uintptr_t window_base,
	size_t window_size, unsigned flags);

/* Where physical address 0 is in the direct map of all RAM. */
uintptr_t board_direct_offset(void);

/* One range of RAM, as the firmware's map names it. */
struct board_ram {
	uint64_t base;
	uint64_t size;
};
/* All RAM; returns how many ranges, sets *ranges to them. */
size_t board_ram(const struct board_ram **ranges);

/*
 * Tries to read (or write back) the byte at `addr`.
 * Returns: false iff that faulted; the fault is then swallowed.
 */
bool board_can_read(uintptr_t addr);
bool board_can_write(uintptr_t addr);

#endif
