/* SPDX-License-Identifier: MIT */
/*
 * A small preemptive scheduler for tests on a board: threads in turns on all
 * CPUs, switched by the timer, so that each wanders from CPU to CPU.
 *
 * It is also what an embedder has to do for each context model: sched.c keeps
 * the index of the context, per CPU (IRQ), per CPU and interrupt level
 * (PREEMPT) or per thread (THREAD), and in PREEMPT switches only where the
 * count of holds is 0.
 */
#ifndef SCHED_H
#define SCHED_H

#include <stdbool.h>
#include <stdint.h>

#include "board.h"

#define SCHED_THREADS_MAX 16

/* What sched_run() is told. */
struct sched_setup {
	unsigned threads; /* 1 to SCHED_THREADS_MAX */
	/* The body of thread `number`; it ends by returning. */
	void (*thread)(unsigned number);
	/* Optional.  Called in each timer interrupt, with interrupts masked, as
	 * the context of the CPU's interrupt level. */
	void (*tick)(unsigned cpu);
	uint64_t nanoseconds; /* between two interrupts of a CPU */
};

/* What went on since the begin of the last sched_run(). */
struct sched_counts {
	uint64_t ticks;
	uint64_t switches;   /* another thread than before */
	uint64_t migrations; /* a thread went on on another CPU */
	uint64_t postponed;  /* for a hold (PREEMPT) */
	uint64_t let;        /* ends of holds that said so */
};

/*
 * Runs the threads on all CPUs until each has returned.
 * Context: task, on CPU 0, as board_run().
 */
void sched_run(const struct sched_setup *setup);

struct sched_counts sched_counts(void);

/* How many contexts a heap needs that threads and ticks use. */
unsigned sched_contexts(unsigned threads);

/* Whether the caller is a thread that may be switched away from: interrupts
 * are on, preemption too, and sched_run() runs. */
bool sched_may_move(void);

/*
 * Returns when the calling thread has gone on on another CPU, or, where there
 * is but one, when it has had to wait for its turn: from which CPU to which.
 * Context: sched_may_move().
 */
struct sched_moved {
	unsigned from, to;
};
struct sched_moved sched_move(void);

/* The number of the calling thread; SCHED_THREADS_MAX in none, also in a
 * timer interrupt. */
unsigned sched_self(void);

/* Model PREEMPT: how many holds there are on this CPU; else 0. */
unsigned sched_held(void);

/* Model PREEMPT: holds preemption off, as a kernel does for itself. */
void sched_hold(void);
void sched_release(void);

/* Model PREEMPT: as if a switch had just been postponed on this CPU. */
void sched_postpone(void);

#endif
