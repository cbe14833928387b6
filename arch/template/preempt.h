/* SPDX-License-Identifier: MIT */
/*
 * How preemption is held off, to copy: see arch/preempt.h for the contract.
 *
 * It is right, and compiles, for a kernel that never switches threads by an
 * interrupt.  Select the copy with -DFALLOW_MODEL=FALLOW_MODEL_PREEMPT and
 * -DFALLOW_PREEMPT_HEADER='"my_preempt.h"'.
 */
#ifndef TEMPLATE_PREEMPT_H
#define TEMPLATE_PREEMPT_H

/*
 * Add one to your kernel's count, and keep the compiler from moving memory
 * accesses before that (a "memory" clobber).  If the count is the CPU's, the
 * thread must not move between finding it and storing it; if it is the
 * thread's, it moves along.
 */
static inline uintptr_t fallow_preempt_hold(void)
{
	__asm__ volatile("" ::: "memory");
	/* Whether it was 0. */
	return 1;
}

/*
 * The same barrier; subtract one; if that makes it 0 and your scheduler wanted
 * to switch meanwhile, call it, unless interrupts are masked.
 */
static inline void fallow_preempt_release(void)
{
	__asm__ volatile("" ::: "memory");
}

#endif
