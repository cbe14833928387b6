/* SPDX-License-Identifier: MIT */
/*
 * What the host's port keeps: the index of the calling thread's context, and
 * for the model PREEMPT the count of holds and the mask of signals.
 *
 * The index begins as 0, which is right for a program with one thread; others
 * set it before their first call.  The port reads it as an initial-exec
 * variable: one load at a fixed offset from the thread's pointer.
 *
 * Locks mask every signal, by a call of the system each time.  That is dear,
 * and only the model PREEMPT does it, which on a host is for tests.  Masks do
 * not nest in the system, so a lock inside a lock leaves the mask alone.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <signal.h>

#include "host/host.h"

_Thread_local unsigned fallow_host_context;
_Thread_local volatile unsigned fallow_host_held;
_Thread_local volatile sig_atomic_t fallow_host_postponed;
void (*fallow_host_switch)(void);
_Thread_local uintptr_t fallow_host_locks[FL_PORT_HELD_WORDS];

/* Whether a lock has masked the signals of this thread, and what was before. */
static _Thread_local bool masked;
static _Thread_local sigset_t before;

bool fallow_host_signals_block(void)
{
	sigset_t all, old;

	if (masked)
		return false;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	before = old;
	masked = true;
	return true;
}

void fallow_host_signals_restore(bool unblock)
{
	sigset_t old = before;

	if (!unblock)
		return;
	masked = false;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}
