/* SPDX-License-Identifier: MIT */
/*
 * All that the library needs of a CPU: eight small functions.
 *
 * This header declares them and then includes the selected port, which
 * defines each as `static inline`.  One that is missing is an error of the
 * compiler that names it.  FALLOW_PORT_HEADER="my_port.h" selects an
 * embedder's own port; otherwise the CPU that is compiled for selects one.
 * arch/PORTING.md walks through writing a port, arch/template/ is one to copy.
 *
 * A *context* is one thread of execution that cannot interleave with itself.
 * What it is depends on the model, chosen per build with
 * -DFALLOW_MODEL=FALLOW_MODEL_...:
 *
 *   SINGLE  one CPU, no allocation in interrupt handlers; enter and leave are
 *           nothing, and atomic operations are plain ones.
 *   IRQ     a context is a CPU with interrupts masked; legal in any handler
 *           but an NMI.  The default on a bare CPU.
 *   PREEMPT a context is a CPU that changes no thread, or an interrupt level
 *           of a CPU; enter and leave hold preemption off by the embedder's
 *           means (preempt.h), and the hot paths never mask interrupts.
 *   THREAD  a context is a thread (a unikernel, a host); enter and leave are
 *           nothing, and handlers do not allocate.
 */
#ifndef ARCH_H
#define ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FALLOW_MODEL_SINGLE 1
#define FALLOW_MODEL_IRQ 2
#define FALLOW_MODEL_THREAD 3
#define FALLOW_MODEL_PREEMPT 4

#ifndef FALLOW_MODEL
#define FALLOW_MODEL FALLOW_MODEL_IRQ
#endif

_Static_assert(FALLOW_MODEL == FALLOW_MODEL_SINGLE ||
		FALLOW_MODEL == FALLOW_MODEL_IRQ ||
		FALLOW_MODEL == FALLOW_MODEL_PREEMPT ||
		FALLOW_MODEL == FALLOW_MODEL_THREAD,
	"FALLOW_MODEL is none of SINGLE, IRQ, PREEMPT, THREAD");

/* What an enter found: a struct, so that it is not taken for an int. */
struct fl_port_state {
	uintptr_t flags;
};

/*
 * Begins to be one context: until the leave, nothing else runs as the context
 * whose index fl_port_context() now returns.  Nests.
 */
static inline struct fl_port_state fl_port_enter(void);

/* Restores what the matching enter found; never just "enables". */
static inline void fl_port_leave(struct fl_port_state state);

/*
 * Whether the code that called enter may wait for another CPU: interrupts were
 * on, and preemption if it can be off.  `state` is what the enter returned;
 * asked between the two, and without a lock.
 */
static inline bool fl_port_may_wait(struct fl_port_state state);

/* The index of this context, stable between enter and leave. */
static inline unsigned fl_port_context(void);

/*
 * Around a spin lock: nothing that could want the same lock may run on this
 * CPU between the two.  In every model but SINGLE that takes masking
 * interrupts: a handler may want the lock (IRQ, PREEMPT), and a thread that
 * is switched away from must not hold it (PREEMPT, THREAD).
 */
static inline struct fl_port_state fl_port_lock_enter(void);
static inline void fl_port_lock_leave(struct fl_port_state state);

/* In a loop that waits for another CPU. */
static inline void fl_port_pause(void);

/* Stops for good: after a report under the policy STOP, or our own bug. */
_Noreturn static inline void fl_port_halt(void);

#ifdef FALLOW_PORT_HEADER
#include FALLOW_PORT_HEADER
#elif defined(__x86_64__)
#include "x86_64/port.h"
#elif defined(__aarch64__)
#include "aarch64/port.h"
#else
#error "no port for this CPU: set FALLOW_PORT_HEADER (see arch/PORTING.md)"
#endif

/*
 * Whether spin locks serve in the order in which they were asked.  A port whose
 * lock_enter cannot keep the CPU from a lock's holder defines it as 0: there the
 * next in order may be one that does not run, and everybody waits for it.
 */
#ifndef FL_PORT_LOCK_FAIR
#define FL_PORT_LOCK_FAIR 1
#endif

/*
 * Whether the port keeps for each context what a call looks into first: of a
 * program with one heap and no other.  It then has, beside the eight:
 *
 *   static inline void *fl_port_local(void);
 *   static inline void *fl_port_own(void);
 *   static inline uint32_t fl_port_owner(void);
 *           of the calling context, between enter and leave, what was last
 *           said of it, by a load each
 *   void fl_port_serve(
 *           unsigned context, void *local, void *own, uint32_t owner);
 *           says so, by the context itself or by whoever parks it; does
 *           nothing for a context that nobody is.  If `own` is NULL,
 *           fl_port_own() is a struct own (core/own.h) that is all zeroes
 *   void *fl_port_own_make(unsigned context);
 *           a struct own of the context's, all zeroes, for good; it is touched
 *           here and there.  NULL: it has none, and its frees take longer.
 *           Called once, by whoever adds the context
 *
 * Whoever becomes a context takes what served_local(), served_own() and
 * served_owner() of core/heap.h say of it, and &fl_local_none, NULL and
 * OWNER_PARKED when he is none.
 */
#ifndef FL_PORT_SERVES
#define FL_PORT_SERVES 0
static inline void *fl_port_local(void)
{
	return NULL;
}
static inline void *fl_port_own(void)
{
	return NULL;
}
static inline uint32_t fl_port_owner(void)
{
	return 0;
}
static inline void fl_port_serve(
	unsigned context, void *local, void *own, uint32_t owner)
{
	(void)context;
	(void)local;
	(void)own;
	(void)owner;
}
static inline void *fl_port_own_make(unsigned context)
{
	(void)context;
	return NULL;
}
#endif

/*
 * Whether the CPU makes its loads in the order in which the program has them, or
 * so that nobody can tell: x86-64 does (Intel SDM volume 3, 8.2.2).
 */
#if defined(__x86_64__)
#define FL_PORT_LOADS_ORDERED 1
#else
#define FL_PORT_LOADS_ORDERED 0
#endif

#endif
