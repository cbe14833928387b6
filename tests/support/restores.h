/* SPDX-License-Identifier: MIT */
/*
 * That every public function leaves interrupts, and preemption, as it found
 * them: at each return, and at each entry of a provider function or hook.
 */
#ifndef RESTORES_H
#define RESTORES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <fallow/provider.h>

/* What knows the state of interrupts and preemption. */
struct restores_port {
	/* Whether all is as it was when restores_run() was called, and nothing
	 * is locked or entered.  Says what is not. */
	bool (*same)(void);
	/* Whether the caller of restores_run() may wait for other CPUs. */
	bool waits;
	/* Makes the caller a task, and same() compare with that: the heap may
	 * only be ended by one. */
	void (*task)(void);
};

/*
 * Makes a heap of class window of this provider, which must have 16 MiB to
 * give, calls every function of fallow.h on each way out of it that one context
 * can reach, and ends the heap.  A failure names the call.
 * Returns: how many calls and entries were compared.
 */
unsigned restores_run(const struct restores_port *port,
	const struct fallow_provider *provider, uintptr_t window_base,
	size_t window_size, unsigned contexts);

#endif
