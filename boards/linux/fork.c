/* SPDX-License-Identifier: MIT */
/*
 * fork() in a program with threads: the child has a copy of the heap in which
 * the other threads stand still for ever, wherever they were.
 *
 * So before it they are brought to where standing still does no harm.  Whoever
 * looks at the whole heap, attaches, or is a guest, is waited for by its mutex.
 * Then the gate is shut: a thread that wants a lock of the heap, and has none,
 * stops there.  Then all contexts are announced as parked, so that what their
 * threads do to their own lists ends; when each has been seen outside, or at
 * the gate, no lock is held and no list is half linked.  What a call has taken
 * out meanwhile, a page or a block between two lists, is lost to the child,
 * never wrong.
 *
 * A thread may stand in the middle of a call for good, in a signal handler that
 * waits for something.  It is not waited for for ever; in that child no
 * context of another thread is touched, nor its index used again.
 *
 * Our handlers are the first that a program has, so by POSIX's order they run
 * last before the fork and first after it: others may allocate in theirs.
 *
 * In the child: the other contexts' pages are whoever's needs them, the floor
 * keeps nothing, and the sweeper is started again when there is use for one.
 */
#define _GNU_SOURCE

#include "linux/preload.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "arch.h"
#include "epoch.h"

uint32_t board_gate_shut;

void board_gate_wait(void)
{
	struct board_thread *thread = &board_thread;

	do {
		/* Pairs with the acquire in stands_still(): what the call did
		 * before comes first. */
		__atomic_store_n(&thread->gated, 1, __ATOMIC_RELEASE);
		while (__atomic_load_n(&board_gate_shut, __ATOMIC_RELAXED) != 0)
			syscall(SYS_futex, &board_gate_shut,
				FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
		__atomic_store_n(&thread->gated, 0, __ATOMIC_RELAXED);
		/* It may have been shut again, and this thread been seen. */
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
	} while (__atomic_load_n(&board_gate_shut, __ATOMIC_RELAXED) != 0);
}

/* Before the fork. */
static void fork_prepare(void)
{
	board_sweeper_hold();
	board_threads_hold();
	board_threads_stop();
}

/* After it, in the parent. */
static void fork_parent(void)
{
	board_threads_resume();
	board_threads_release();
	board_large_forked(false);
	board_sweeper_release();
}

/* After it, in the child. */
static void fork_child(void)
{
	board_threads_inherit();
	fl_sweep_forked(heap_of(&board_heap));
	board_large_forked(true);
	/* Last, so that nothing starts a thread meanwhile. */
	board_sweeper_forked();
}

void board_fork_begin(void)
{
	/* It fails only where there is no memory for one entry of a list. */
	(void)pthread_atfork(fork_prepare, fork_parent, fork_child);
}
