/* SPDX-License-Identifier: MIT */
/*
 * How the model PREEMPT holds preemption off: two functions of the embedder.
 *
 * FALLOW_PREEMPT_HEADER="my_preempt.h" names a header that defines both as
 * `static inline`, for a kernel that has a preemption counter already.  By
 * default the port keeps a count of its own in the CPU's block of data, and
 * the kernel's scheduler looks at that (arch/PORTING.md).
 *
 * A thread that holds preemption off stays on its CPU, and no other thread runs
 * there; interrupt handlers do.  A handler that allocates or frees has, before
 * it does, held preemption off once more and made the index of the context that
 * of its own level, and it puts both back before it returns.
 */
#ifndef PREEMPT_H
#define PREEMPT_H

#include <stdint.h>

/*
 * From here on this CPU changes no thread.  Nests.  It must be safe against
 * being interrupted, and against its thread moving to another CPU, at any
 * instruction of it; and be a barrier for the compiler.
 * Returns: 1 iff preemption was on; 0 in a handler too.
 */
static inline uintptr_t fallow_preempt_hold(void);

/*
 * Ends one hold.  If it was the last one and a switch was postponed meanwhile,
 * the switch happens now; unless interrupts are masked, then whenever the
 * embedder sees fit.
 */
static inline void fallow_preempt_release(void);

#ifdef FALLOW_PREEMPT_HEADER
#include FALLOW_PREEMPT_HEADER
#endif

/*
 * What the default calls where a hold ended and a switch was postponed: defined
 * by the embedder, in the model PREEMPT alone.  Preemption is on, so that the
 * thread may have been switched away from, and back, just before.  Interrupts
 * are as the caller of fallow had them; if masked, it only returns.
 */
__attribute__((cold)) void fallow_preempt_switch(void);

#endif
