/* SPDX-License-Identifier: MIT */
/* What the files of this board share: symbols of assembly and linker, and what
 * one of its C files does for the others. */
#ifndef VIRT_H
#define VIRT_H

#include <fallow/pagetable.h>

#include "board.h"
#include "devicetree.h"
#include "layout.h"

_Static_assert(VIRT_CPUS_MAX == BOARD_CPUS_MAX,
	"layout.h has stacks for as many CPUs as board.h promises");

extern unsigned char board_image_begin[], board_image_end[];
extern unsigned char board_stacks[], board_stacks_end[];
extern uint64_t board_root_low[], board_root_high[], board_level2[];
extern const unsigned char board_probe_begin[], board_probe_end[];
extern const unsigned char board_probe_failed[];

/* Where each word of a struct board_frame is; x0 to x30 come first. */
enum {
	FRAME_ELR = 31,
	FRAME_SPSR = 32,
	FRAME_SP = 33,
};

/* start.S */
void board_cpu_start(void);
void board_on_trap_stack(void (*call)(void));

/* Returns the register of a device at its physical address. */
static inline volatile uint32_t *device_word(uint64_t base, uint64_t offset)
{
	return (volatile uint32_t *)(uintptr_t)(base + offset);
}

/* board.c: the configuration with which board_pagetable_init() makes a
 * provider, for a test that wants another way to resize. */
struct fallow_pagetable_config board_pagetable_config(
	const struct fallow_frame_hooks *hooks, uintptr_t window_base,
	size_t window_size, unsigned flags);
/* Whether the device is in the memory that start.S mapped. */
bool board_device_mapped(const struct board_ram *device);
/* Lets this CPU's clock run, from `start` on. */
void board_ticks_init(uint64_t start);

/* traps.c: returns unless another CPU reports a fault, and so ends the
 * machine. */
void board_fault_yield(void);

/* cpus.c: makes the calling CPU the first; then the others come. */
void board_cpus_init(struct board_devicetree *tree);
void board_cpus_start(const struct board_devicetree *tree);

/* interrupts.c: what came in by this vector is served. */
void board_interrupt_taken(struct board_frame *frame, bool fast);
/* Interrupts `cpu` for nothing, so that it wakes up. */
void board_wake(unsigned cpu);

/*
 * gic.c.  Software's interrupts: a call, and the one that interrupts where
 * interrupts are masked.  The virtual timer's is a private one of each CPU
 * (Arm BSA, "PPI assignments").
 */
enum {
	GIC_CALL = 0,
	GIC_FAST = 1,
	GIC_TIMER = 27,
};
void board_gic_init(const struct board_devicetree *tree);
void board_gic_cpu_init(void);
/* Whether GIC_FAST comes as a fast interrupt (FIQ). */
bool board_gic_has_fast(void);
/* Sends one of software's; what was stored before is seen by its handler. */
void board_gic_send(unsigned cpu, unsigned interrupt);
/* Accepts what came by this vector; the answer goes to the other two. */
uint32_t board_gic_accept(bool fast);
/* Which interrupt that is; one of GIC_NONE and above is none. */
#define GIC_NONE 1020
unsigned board_gic_interrupt(uint32_t accepted);
void board_gic_done(bool fast, uint32_t accepted);

#endif
