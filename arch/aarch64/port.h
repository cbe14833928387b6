/* SPDX-License-Identifier: MIT */
/*
 * aarch64, at EL1.
 *
 * What masks interrupts here masks IRQs; FIQs, as system errors, come at any
 * instruction and are what an NMI is elsewhere: their handlers do not allocate.
 *
 * The index of the context is the 32-bit word at TPIDR_EL1 +
 * FALLOW_TPIDR_OFFSET, in the embedder's block: per CPU in the model IRQ, per
 * CPU and interrupt level in PREEMPT, per thread in THREAD.  Default 0; a
 * multiple of 4 in the range 0 to 16380; no cost.
 *
 * In the model PREEMPT, without a FALLOW_PREEMPT_HEADER, two more words of the
 * CPU's block, with the same alignment and range (the first up to 4092):
 *   FALLOW_TPIDR_HELD_OFFSET       how many holds there are; only 0 allows
 *                                  this CPU to change its thread.  Default:
 *                                  the word behind the index.
 *   FALLOW_TPIDR_POSTPONED_OFFSET  not 0: a switch is wanted, and could not be
 *                                  done for a hold.  Default: the word behind
 *                                  that.
 */
#ifndef AARCH64_PORT_H
#define AARCH64_PORT_H

#include "preempt.h"

#ifndef FALLOW_TPIDR_OFFSET
#define FALLOW_TPIDR_OFFSET 0
#endif
#ifndef FALLOW_TPIDR_HELD_OFFSET
#define FALLOW_TPIDR_HELD_OFFSET (FALLOW_TPIDR_OFFSET + 4)
#endif
#ifndef FALLOW_TPIDR_POSTPONED_OFFSET
#define FALLOW_TPIDR_POSTPONED_OFFSET (FALLOW_TPIDR_HELD_OFFSET + 4)
#endif
/* A load's displacement is 12 bits in words, an addition's 12 bits in bytes. */
#define PORT_LOAD_MAX 16380
#define PORT_ADD_MAX 4092
_Static_assert(FALLOW_TPIDR_OFFSET >= 0 &&
		FALLOW_TPIDR_OFFSET <= PORT_LOAD_MAX &&
		FALLOW_TPIDR_OFFSET % 4 == 0,
	"FALLOW_TPIDR_OFFSET does not fit a scaled displacement");
#if FALLOW_MODEL == FALLOW_MODEL_PREEMPT && !defined(FALLOW_PREEMPT_HEADER)
_Static_assert(FALLOW_TPIDR_HELD_OFFSET >= 0 &&
		FALLOW_TPIDR_HELD_OFFSET <= PORT_ADD_MAX &&
		FALLOW_TPIDR_HELD_OFFSET % 4 == 0,
	"FALLOW_TPIDR_HELD_OFFSET does not fit an addition");
_Static_assert(FALLOW_TPIDR_POSTPONED_OFFSET >= 0 &&
		FALLOW_TPIDR_POSTPONED_OFFSET <= PORT_LOAD_MAX &&
		FALLOW_TPIDR_POSTPONED_OFFSET % 4 == 0,
	"FALLOW_TPIDR_POSTPONED_OFFSET does not fit a scaled displacement");
#endif

/* DAIF.I (Arm ARM, C5.2.2): set while IRQs are masked. */
#define PORT_DAIF_I ((uintptr_t)1 << 7)

/* Saves DAIF and masks IRQs; a barrier for the compiler. */
static inline struct fl_port_state port_irq_save(void)
{
	struct fl_port_state state;

	__asm__ volatile("mrs %0, daif\n\tmsr daifset, #2"
			 : "=r"(state.flags)
			 :
			 : "memory");
	return state;
}

/* Restores DAIF whole: F, A and D are not ours to change. */
static inline void port_irq_restore(struct fl_port_state state)
{
	__asm__ volatile("msr daif, %0" ::"r"(state.flags) : "memory");
}

/* Whether interrupts are on now. */
static inline bool port_irqs_on(void)
{
	uintptr_t daif;

	__asm__ volatile("mrs %0, daif" : "=r"(daif) : : "memory");
	return !(daif & PORT_DAIF_I);
}

#ifndef FALLOW_PREEMPT_HEADER

/*
 * Finding the CPU's block and adding to a word of it are several instructions,
 * and until the store the thread may move to another CPU.  So the store is an
 * exclusive one, and the block is found once more behind the load: a move
 * before that is seen by the comparison; one after it takes an exception, whose
 * return clears the monitor (Arm ARM, pseudocode of AArch64.ExceptionReturn()),
 * and the store fails.
 */
static inline uintptr_t fallow_preempt_hold(void)
{
	uintptr_t block, again;
	uint32_t held, failed;

	__asm__ volatile("1:\tmrs %0, tpidr_el1\n\t"
			 "add %1, %0, %4\n\t"
			 "ldxr %w2, [%1]\n\t"
			 "mrs %x3, tpidr_el1\n\t"
			 "cmp %0, %x3\n\t"
			 "b.ne 1b\n\t"
			 "add %w2, %w2, #1\n\t"
			 "stxr %w3, %w2, [%1]\n\t"
			 "cbnz %w3, 1b"
			 : "=&r"(block), "=&r"(again), "=&r"(held),
			 "=&r"(failed)
			 : "i"(FALLOW_TPIDR_HELD_OFFSET)
			 : "memory", "cc");
	return held == 1;
}

/*
 * The thread stays until the store, and handlers leave the count as they found
 * it.  Behind the store it may move, and then another CPU's word is looked at.
 * That does not lose a switch: one that was wanted earlier was done by moving,
 * and one that is wanted later finds no hold.
 */
static inline void fallow_preempt_release(void)
{
	uintptr_t block;
	uint32_t held, postponed = 0;

	__asm__ volatile("mrs %0, tpidr_el1\n\t"
			 "ldr %w1, [%0, %3]\n\t"
			 "subs %w1, %w1, #1\n\t"
			 "str %w1, [%0, %3]\n\t"
			 "b.ne 1f\n\t"
			 "ldr %w2, [%0, %4]\n"
			 "1:"
			 : "=&r"(block), "=&r"(held), "+&r"(postponed)
			 : "i"(FALLOW_TPIDR_HELD_OFFSET),
			 "i"(FALLOW_TPIDR_POSTPONED_OFFSET)
			 : "memory", "cc");
	if (postponed != 0)
		fallow_preempt_switch();
}

#endif

static inline struct fl_port_state fl_port_enter(void)
{
	if (FALLOW_MODEL == FALLOW_MODEL_IRQ)
		return port_irq_save();
	if (FALLOW_MODEL == FALLOW_MODEL_PREEMPT)
		return (struct fl_port_state){ fallow_preempt_hold() };
	return (struct fl_port_state){ 1 };
}

static inline void fl_port_leave(struct fl_port_state state)
{
	if (FALLOW_MODEL == FALLOW_MODEL_IRQ)
		port_irq_restore(state);
	if (FALLOW_MODEL == FALLOW_MODEL_PREEMPT)
		fallow_preempt_release();
}

/* Where the enter leaves interrupts alone, they are as they were. */
static inline bool fl_port_may_wait(struct fl_port_state state)
{
	if (FALLOW_MODEL == FALLOW_MODEL_IRQ)
		return !(state.flags & PORT_DAIF_I);
	return state.flags && port_irqs_on();
}

static inline unsigned fl_port_context(void)
{
	unsigned index = 0;

	if (FALLOW_MODEL != FALLOW_MODEL_SINGLE) {
		uintptr_t block;

		__asm__ volatile("mrs %0, tpidr_el1\n\tldr %w1, [%0, %2]"
				 : "=&r"(block), "=r"(index)
				 : "i"(FALLOW_TPIDR_OFFSET));
	}
	return index;
}

static inline struct fl_port_state fl_port_lock_enter(void)
{
	if (FALLOW_MODEL == FALLOW_MODEL_SINGLE)
		return (struct fl_port_state){ 0 };
	return port_irq_save();
}

static inline void fl_port_lock_leave(struct fl_port_state state)
{
	if (FALLOW_MODEL != FALLOW_MODEL_SINGLE)
		port_irq_restore(state);
}

static inline void fl_port_pause(void)
{
	__asm__ volatile("yield" ::: "memory");
}

_Noreturn static inline void fl_port_halt(void)
{
	for (;;)
		__asm__ volatile("msr daifset, #15\n\twfi" ::: "memory");
}

#endif
