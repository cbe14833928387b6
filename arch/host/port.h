/* SPDX-License-Identifier: MIT */
/*
 * The developer's machine, selected by FALLOW_PORT_HEADER.
 *
 * Threads are contexts: `fallow_host_context` is the index of the calling one;
 * whoever makes threads sets it before the thread's first call.
 *
 * In the model PREEMPT signals are the interrupts.  A handler that allocates is
 * a context of its own: it adds one to `fallow_host_held` and makes
 * `fallow_host_context` its own index, and puts both back before it returns.  A
 * handler that finds `fallow_host_held` not 0 must not switch to another user
 * thread; it sets `fallow_host_postponed`, and `fallow_host_switch` is called,
 * unless it is NULL, where the hold ends.  User threads stay on the thread of
 * the system that they began on.
 */
#ifndef HOST_PORT_H
#define HOST_PORT_H

#include <sched.h>
#include <stdlib.h>

#include "host/host.h"

/*
 * A handler may come between the load and the store of the count, and leaves it
 * as it found it; no other thread of the system has this one.
 */
static inline struct fl_port_state fl_port_enter(void)
{
	struct fl_port_state state = { 1 };

	if (FALLOW_MODEL == FALLOW_MODEL_PREEMPT) {
		state.flags = fallow_host_held == 0;
		fallow_host_held++;
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
	}
	return state;
}

static inline void fl_port_leave(struct fl_port_state state)
{
	(void)state;
	if (FALLOW_MODEL == FALLOW_MODEL_PREEMPT) {
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		if (--fallow_host_held == 0 && fallow_host_postponed &&
			fallow_host_switch != NULL)
			fallow_host_switch();
	}
}

static inline bool fl_port_may_wait(struct fl_port_state state)
{
	return state.flags;
}

static inline unsigned fl_port_context(void)
{
	return FALLOW_MODEL == FALLOW_MODEL_SINGLE ? 0 : fallow_host_context;
}

/* A handler may want the lock that the code it interrupted holds. */
static inline struct fl_port_state fl_port_lock_enter(void)
{
	if (FALLOW_MODEL == FALLOW_MODEL_PREEMPT)
		return (struct fl_port_state){ fallow_host_signals_block() };
	return (struct fl_port_state){ 0 };
}

static inline void fl_port_lock_leave(struct fl_port_state state)
{
	if (FALLOW_MODEL == FALLOW_MODEL_PREEMPT)
		fallow_host_signals_restore(state.flags);
}

static inline void *fl_port_held(void)
{
	return fallow_host_locks;
}

/*
 * The CPU goes to whoever wants it: the thread that is waited for may be one
 * that is not running.  With more threads than CPUs a fair lock would else
 * cost a time slice a turn.
 */
static inline void fl_port_pause(void)
{
	sched_yield();
}

_Noreturn static inline void fl_port_halt(void)
{
	abort();
}

#endif
