/* SPDX-License-Identifier: MIT */
/*
 * The port of libfallow.so, selected by FALLOW_PORT_HEADER: model THREAD.
 *
 * The index of the context is in the thread's own storage, as an initial-exec
 * variable: a load at a fixed offset from the thread's pointer.  Beside it is
 * what calls look into first, for there is one heap, and what nobody but this
 * board needs: whether the thread is inside the heap.  The
 * sweeper and fork() ask for that (sweeper.c, fork.c); it costs a plain store
 * at either end of a call, and no barrier, because those who ask have the
 * kernel put one into every thread.
 *
 * A thread that is inside may be asked to stay out of what locks protect: it
 * stops at the gate, where it takes its first lock, until a fork is over.
 */
#ifndef LINUX_PORT_H
#define LINUX_PORT_H

#include <sched.h>
#include <stdlib.h>

/* No context yet, or none any more: no index, and no owner of any page. */
#define BOARD_NO_CONTEXT UINT32_MAX

struct board_thread {
	/* What its calls look into: see FL_PORT_SERVES. */
	void *local;
	void *own;
	uint32_t owner;
	uint32_t context;
	/* Whether it is in a call, outside of the provider and of hooks. */
	uint8_t busy;
	/* How many locks of the heap it is at, and whether it waits at the
	 * gate. */
	uint8_t locks;
	uint8_t gated;
	/* Its context is given back: it is about to end. */
	bool gone;
};

#define BOARD_THREAD_HIDDEN \
	__attribute__((tls_model("initial-exec"), visibility("hidden")))
extern _Thread_local struct board_thread board_thread BOARD_THREAD_HIDDEN;

/* Debug builds: which locks the thread holds (core/watch.c). */
#define FL_PORT_HELD_WORDS 4
extern _Thread_local uintptr_t board_locks[FL_PORT_HELD_WORDS]
	BOARD_THREAD_HIDDEN;

/* Waits until it is open.  fork.c. */
void board_gate_wait(void) __attribute__((visibility("hidden"), cold));
/* Whether a fork is under way, for others than the thread that forks. */
extern uint32_t board_gate_shut __attribute__((visibility("hidden")));

/* A call does not begin inside another one: POSIX forbids it to handlers, and to
 * find those that do it the flag would have to be read. */
static inline struct fl_port_state fl_port_enter(void)
{
	__atomic_store_n(&board_thread.busy, 1, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return (struct fl_port_state){ 1 };
}

static inline void fl_port_leave(struct fl_port_state state)
{
	(void)state;
	/* Pairs with the acquire in stands_still(): what the call did
	 * comes first. */
	__atomic_store_n(&board_thread.busy, 0, __ATOMIC_RELEASE);
}

static inline bool fl_port_may_wait(struct fl_port_state state)
{
	(void)state;
	return true;
}

static inline unsigned fl_port_context(void)
{
	return board_thread.context;
}

/* There is one heap.  thread.c. */
#define FL_PORT_SERVES 1
void fl_port_serve(unsigned context, void *local, void *own, uint32_t owner)
	__attribute__((visibility("hidden")));
void *fl_port_own_make(unsigned context) __attribute__((visibility("hidden")));

static inline void *fl_port_local(void)
{
	return __atomic_load_n(&board_thread.local, __ATOMIC_RELAXED);
}

static inline void *fl_port_own(void)
{
	return __atomic_load_n(&board_thread.own, __ATOMIC_RELAXED);
}

static inline uint32_t fl_port_owner(void)
{
	return __atomic_load_n(&board_thread.owner, __ATOMIC_RELAXED);
}

/* Nothing can want the lock that this thread holds but another thread. */
static inline struct fl_port_state fl_port_lock_enter(void)
{
	if (board_thread.locks++ == 0) {
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		if (__builtin_expect(__atomic_load_n(&board_gate_shut,
					     __ATOMIC_RELAXED) != 0,
			    0))
			board_gate_wait();
	}
	return (struct fl_port_state){ 0 };
}

static inline void fl_port_lock_leave(struct fl_port_state state)
{
	(void)state;
	/* Pairs with the acquire in stands_still(). */
	__atomic_store_n(&board_thread.locks,
		(uint8_t)(board_thread.locks - 1), __ATOMIC_RELEASE);
}

static inline void *fl_port_held(void)
{
	return board_locks;
}

/* A thread that holds a lock may not be running, nor the next in turn: with a
 * thousand threads on two CPUs a fair lock took a thousand switches a turn. */
#define FL_PORT_LOCK_FAIR 0

/* The CPU goes to whoever wants it: the holder of a lock may not be running. */
static inline void fl_port_pause(void)
{
	sched_yield();
}

_Noreturn static inline void fl_port_halt(void)
{
	abort();
}

#endif
