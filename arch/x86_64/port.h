/* SPDX-License-Identifier: MIT */
/*
 * x86-64, at ring 0.
 *
 * The index of the context is the 32-bit word at %gs:FALLOW_GS_OFFSET, which
 * the embedder sets: per CPU in the model IRQ, per CPU and interrupt level in
 * PREEMPT, per thread in THREAD.  Default 0; range 0 to 2^31 - 1; no cost.
 *
 * In the model PREEMPT, without a FALLOW_PREEMPT_HEADER, two more words of the
 * CPU's block:
 *   FALLOW_GS_HELD_OFFSET       how many holds there are; only 0 allows this
 *                               CPU to change its thread.  Default: the word
 *                               behind the index.
 *   FALLOW_GS_POSTPONED_OFFSET  not 0: a switch is wanted, and could not be
 *                               done for a hold.  Default: the word behind
 *                               that.
 */
#ifndef X86_64_PORT_H
#define X86_64_PORT_H

#include "preempt.h"

#ifndef FALLOW_GS_OFFSET
#define FALLOW_GS_OFFSET 0
#endif
#ifndef FALLOW_GS_HELD_OFFSET
#define FALLOW_GS_HELD_OFFSET (FALLOW_GS_OFFSET + 4)
#endif
#ifndef FALLOW_GS_POSTPONED_OFFSET
#define FALLOW_GS_POSTPONED_OFFSET (FALLOW_GS_HELD_OFFSET + 4)
#endif
#define PORT_GS_MAX 0x7fffffff
_Static_assert(FALLOW_GS_OFFSET >= 0 && FALLOW_GS_OFFSET <= PORT_GS_MAX - 8,
	"FALLOW_GS_OFFSET does not fit a displacement");
_Static_assert(FALLOW_GS_HELD_OFFSET >= 0 &&
		FALLOW_GS_HELD_OFFSET <= PORT_GS_MAX - 4,
	"FALLOW_GS_HELD_OFFSET does not fit a displacement");
_Static_assert(FALLOW_GS_POSTPONED_OFFSET >= 0 &&
		FALLOW_GS_POSTPONED_OFFSET <= PORT_GS_MAX,
	"FALLOW_GS_POSTPONED_OFFSET does not fit a displacement");

/* RFLAGS.IF (Intel SDM volume 1, 3.4.3.3). */
#define PORT_RFLAGS_IF ((uintptr_t)1 << 9)

/* Saves RFLAGS and masks interrupts; a barrier for the compiler. */
static inline struct fl_port_state port_irq_save(void)
{
	struct fl_port_state state;

	__asm__ volatile("pushfq\n\tpopq %0\n\tcli"
			 : "=r"(state.flags)
			 :
			 : "memory");
	return state;
}

/*
 * Enables interrupts only if they were on: STI is cheaper than POPFQ, and the
 * other flags are the compiler's.
 */
static inline void port_irq_restore(struct fl_port_state state)
{
	if (state.flags & PORT_RFLAGS_IF)
		__asm__ volatile("sti" ::: "memory");
	else
		__asm__ volatile("" ::: "memory");
}

/* Whether interrupts are on now. */
static inline bool port_irqs_on(void)
{
	uintptr_t flags;

	__asm__ volatile("pushfq\n\tpopq %0" : "=r"(flags) : : "memory");
	return flags & PORT_RFLAGS_IF;
}

#ifndef FALLOW_PREEMPT_HEADER

/*
 * One instruction finds the block and adds to it, so there is nothing that an
 * interrupt, or a move to another CPU, could come between.  Behind it the
 * thread stays, and handlers leave the count as they found it.
 */
static inline uintptr_t fallow_preempt_hold(void)
{
	uint32_t held;

	__asm__ volatile("incl %%gs:%c1\n\tmovl %%gs:%c1, %0"
			 : "=r"(held)
			 : "i"(FALLOW_GS_HELD_OFFSET)
			 : "memory", "cc");
	return held == 1;
}

/*
 * Behind the subtraction the thread may move, and then another CPU's word is
 * looked at.  That does not lose a switch: one that was wanted earlier was
 * done by moving, and one that is wanted later finds no hold.
 */
static inline void fallow_preempt_release(void)
{
	__asm__ goto("decl %%gs:%c0\n\t"
		     "jnz %l[held]\n\t"
		     "cmpl $0, %%gs:%c1\n\t"
		     "je %l[held]"
		     :
		     : "i"(FALLOW_GS_HELD_OFFSET),
		     "i"(FALLOW_GS_POSTPONED_OFFSET)
		     : "memory", "cc"
		     : held);
	fallow_preempt_switch();
held:
	return;
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
		return state.flags & PORT_RFLAGS_IF;
	return state.flags && port_irqs_on();
}

static inline unsigned fl_port_context(void)
{
	uint64_t index = 0;

	/* The upper half is zero then (Intel SDM volume 1, 3.4.1.1), which saves
	 * whoever takes the index for one of an array to make it so. */
	if (FALLOW_MODEL != FALLOW_MODEL_SINGLE) {
		__asm__ volatile("movl %%gs:%c1, %k0"
				 : "=r"(index)
				 : "i"(FALLOW_GS_OFFSET));
		if (index > UINT32_MAX)
			__builtin_unreachable();
	}
	return (unsigned)index;
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
	__asm__ volatile("pause" ::: "memory");
}

_Noreturn static inline void fl_port_halt(void)
{
	for (;;)
		__asm__ volatile("cli\n\thlt" ::: "memory");
}

#endif
