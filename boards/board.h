/* SPDX-License-Identifier: MIT */
/*
 * What a bare board gives to the image that runs on it.
 *
 * An image is guest_main() and what it calls.  The board's start-up code
 * reaches 64-bit C with the MMU on, interrupts masked and a stack, finds RAM,
 * makes a frame allocator of it and a page-table provider over that, starts the
 * other CPUs, which then wait for work, and calls guest_main() on the first one
 * with interrupts on, as a task; board_exit() with its result ends the machine.
 * A fault that nobody expects prints the faulting address, the instruction and
 * the registers, and exits with status 99.  This is also the example of how a
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

/* ------------------------------------------------------------ several CPUs --
 *
 * Every CPU has a stack, a stack for interrupts and faults, and a block of data
 * of its own, whose first 32-bit word is the index of the context; the second
 * and third are 0 at the start and the port's (its model PREEMPT).
 * Handlers run with interrupts masked, on the interrupt stack.
 */
#define BOARD_CPUS_MAX 8

/* How many CPUs run: 1 to BOARD_CPUS_MAX.  A machine's further ones stay off. */
unsigned board_cpus(void);

/* The CPU that asks, below board_cpus(); the first one is 0.  It does not
 * depend on the block of data.  Context: any in which it stays on this CPU. */
unsigned board_cpu(void);

/*
 * The block of data that the port finds: afterwards it is `block`, until the
 * next set on this CPU.  At the start it is the CPU's own, whose first word is
 * board_cpu().
 */
void *board_block(void);
void board_block_set(void *block);

/*
 * Runs run(arg) on every CPU at once, each with interrupts on and on its own
 * stack, the calling one included; returns when all have returned.
 * Context: task, on CPU 0, not within itself.
 */
void board_run(void (*run)(void *arg), void *arg);

/*
 * Has every other CPU call handler(arg) in an interrupt handler; returns when
 * all have returned from it.  Two CPUs may do so at once: whoever waits serves
 * what comes in, on its interrupt stack.  So it is also legal with interrupts
 * masked, but not in a handler that such a call runs.
 */
void board_interrupt_others(void (*handler)(void *arg), void *arg);

/* Sends CPU `cpu` an interrupt that calls handler(arg) there, and does not
 * wait.  Returns: false iff the last one to that CPU has not been served. */
bool board_interrupt(unsigned cpu, void (*handler)(void *arg), void *arg);

/* Between the two every other CPU is in a handler and touches only its
 * interrupt stack.  One CPU at a time, which asks the others for nothing
 * meanwhile: q35's would not answer.  Context: task. */
void board_stop_others(void);
void board_resume_others(void);

/* The registers of interrupted code: all that it needs to go on, on any CPU. */
struct board_frame {
	uint64_t words[40];
};

/*
 * From now on this CPU is interrupted every `nanoseconds`, and the handler
 * called; NULL ends it, and no handler runs afterwards.  The handler may change
 * *frame: on return the CPU goes on with what is there.
 */
void board_timer(uint64_t nanoseconds,
	void (*handler)(struct board_frame *frame, void *arg), void *arg);

/* Makes *frame the begin of entry(arg), which must not return, on a stack that
 * ends (and is 16-byte aligned) at `stack_end`, with interrupts on. */
void board_frame_make(struct board_frame *frame, void (*entry)(void *arg),
	void *arg, void *stack_end);

/* Whether interrupts are on. */
bool board_interrupts_on(void);
/* Masks them; returns what the restore needs. */
uintptr_t board_interrupts_mask(void);
void board_interrupts_restore(uintptr_t state);

/*
 * Has CPU `cpu` (also the calling one) call handler(arg) in what its mask of
 * interrupts does not keep away; does not wait for it.  The handler must not
 * fault, nor call any of these.
 * Returns: false iff the board has no such interrupt.
 */
bool board_nmi(unsigned cpu, void (*handler)(void *arg), void *arg);

/* Waits for the next interrupt, whichever it is.  With interrupts masked by the
 * caller none is lost in between, and they are masked again afterwards; whether
 * it has been served by then is the board's to say. */
void board_idle(void);

#endif
