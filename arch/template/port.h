/* SPDX-License-Identifier: MIT */
/*
 * A port to copy: every function that fallow needs of a CPU, in portable C.
 *
 * It is right, and compiles, for a machine with one CPU, no interrupts and no
 * threads.  Each comment says what to put there on a machine that has them;
 * arch/PORTING.md goes through them in order, arch/x86_64/port.h and
 * arch/aarch64/port.h are two that are filled in.  Select the copy with
 * -DFALLOW_PORT_HEADER='"my_port.h"'.
 */
#ifndef TEMPLATE_PORT_H
#define TEMPLATE_PORT_H

/*
 * Model IRQ: save the interrupt flag, mask interrupts, keep the compiler from
 * moving memory accesses before this (a "memory" clobber).  The saved state
 * must tell fl_port_may_wait() whether interrupts were on.
 * Model PREEMPT: hold preemption off, leave interrupts alone; the same barrier.
 * The state tells whether preemption was on.  arch/preempt.h has the two
 * functions by which ports let the embedder say how.
 * Models SINGLE and THREAD: nothing but a state that says "on".
 */
static inline struct fl_port_state fl_port_enter(void)
{
	return (struct fl_port_state){ 1 };
}

/*
 * Model IRQ: restore what `state` saved, and only that: if interrupts were
 * off at the enter, they stay off.  The compiler must not move memory accesses
 * behind this.
 * Model PREEMPT: end the hold; if it was the last one, a switch of threads that
 * was postponed for it happens now.
 */
static inline void fl_port_leave(struct fl_port_state state)
{
	(void)state;
}

/*
 * Model IRQ: whether interrupts were on in the saved state.
 * Model PREEMPT: whether preemption was, and interrupts are on now: the enter
 * left them as they were.
 * Models SINGLE and THREAD: whether interrupts are on now.
 */
static inline bool fl_port_may_wait(struct fl_port_state state)
{
	return state.flags;
}

/*
 * Model IRQ: the index of this CPU, from 0, dense, below config.contexts.
 * Model PREEMPT: that of this CPU and interrupt level.
 * Model THREAD: that of this thread.  One load from a per-CPU or per-thread
 * register is what the speed of every call depends on.  It is only called
 * between enter and leave, and must not be cached across them: another CPU
 * may run the thread afterwards.
 */
static inline unsigned fl_port_context(void)
{
	return 0;
}

/*
 * Around a spin lock, in every model with more than one context: as enter and
 * leave of the model IRQ, so that no handler on this CPU wants the lock that
 * the interrupted code holds.
 */
static inline struct fl_port_state fl_port_lock_enter(void)
{
	return (struct fl_port_state){ 1 };
}

static inline void fl_port_lock_leave(struct fl_port_state state)
{
	(void)state;
}

/* The CPU's hint for a loop that waits, or nothing. */
static inline void fl_port_pause(void)
{
}

/* Mask interrupts and sleep, forever: an interrupt that slips through must not
 * get out. */
_Noreturn static inline void fl_port_halt(void)
{
	volatile bool forever = true;

	while (forever)
		fl_port_pause();
	__builtin_unreachable();
}

#endif
