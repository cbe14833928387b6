/* SPDX-License-Identifier: MIT */
/* What the host's port keeps, in context.c; port.h says what each is for. */
#ifndef HOST_H
#define HOST_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

extern _Thread_local unsigned fallow_host_context
	__attribute__((tls_model("initial-exec")));
extern _Thread_local volatile unsigned fallow_host_held
	__attribute__((tls_model("initial-exec")));
extern _Thread_local volatile sig_atomic_t fallow_host_postponed
	__attribute__((tls_model("initial-exec")));
extern void (*fallow_host_switch)(void);

/* Debug builds: which locks the thread holds (core/watch.c).  By thread, since
 * one without a context may use the frame allocator. */
#define FL_PORT_HELD_WORDS 4
extern _Thread_local uintptr_t fallow_host_locks[FL_PORT_HELD_WORDS]
	__attribute__((tls_model("initial-exec")));

/* Blocks every signal; returns whether none was blocked by a lock before. */
bool fallow_host_signals_block(void);
void fallow_host_signals_restore(bool unblock);

#endif
