/* SPDX-License-Identifier: MIT */
/*
 * The developer's machine, selected by FALLOW_PORT_HEADER: threads are
 * contexts.  `fallow_host_context` is the index of the calling thread; whoever
 * makes threads sets it before the thread's first call.
 */
#ifndef HOST_PORT_H
#define HOST_PORT_H

#include <sched.h>
#include <stdlib.h>

extern _Thread_local unsigned fallow_host_context
	__attribute__((tls_model("initial-exec")));

static inline struct fl_port_state fl_port_enter(void)
{
	return (struct fl_port_state){ 0 };
}

static inline void fl_port_leave(struct fl_port_state state)
{
	(void)state;
}

static inline bool fl_port_may_wait(struct fl_port_state state)
{
	(void)state;
	return true;
}

static inline unsigned fl_port_context(void)
{
	return FALLOW_MODEL == FALLOW_MODEL_SINGLE ? 0 : fallow_host_context;
}

static inline struct fl_port_state fl_port_lock_enter(void)
{
	return (struct fl_port_state){ 0 };
}

static inline void fl_port_lock_leave(struct fl_port_state state)
{
	(void)state;
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
