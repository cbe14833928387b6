/* SPDX-License-Identifier: MIT */
/*
 * What the files of libfallow.so have in common: one heap, its threads, and
 * what the C and C++ names do where the heap itself cannot go on.
 */
#ifndef LINUX_PRELOAD_H
#define LINUX_PRELOAD_H

#include <fallow/fallow.h>

#include "linux/settings.h"

struct own;

#pragma GCC visibility push(hidden)

/* Without contexts until it is made, which every call of fallow_...() can
 * take. */
extern struct fallow board_heap;
extern struct board_settings board_settings;

/* Makes the heap, if nobody has; returns whether it is there. */
bool board_heap_make(void);

/* heap.c: what a call comes to that the heap has answered with NULL. */
enum board_call {
	BOARD_ALLOC,
	BOARD_ZALLOC,
	BOARD_ALIGNED,
	BOARD_REALLOC,
};

/*
 * Tries again where that may help: the heap is not made yet, or the thread has
 * no context.  Returns the block, or NULL: there is no memory.  errno is
 * not set.
 */
void *board_again(enum board_call call, void *p, size_t align, size_t size)
	__attribute__((cold, noinline));

/* The same for the size of a block; 0 iff it is none. */
size_t board_again_usable(void *p) __attribute__((cold, noinline));

/* thread.c: the most threads that have contexts of their own at once. */
#define BOARD_CONTEXTS FALLOW_CONTEXTS_MAX
/* The context that those share which have none. */
#define BOARD_GUEST 0

/* The own map of who has none.  Never written. */
extern struct own board_own_none;

/* Once, when the heap is made: what threads need.  Returns whether they can. */
bool board_thread_begin(void);

/* The heap's attach hook. */
bool board_thread_attach(void *ctx);

/* Becomes the guest, for a thread without a context: one at a time. */
void board_guest_enter(void);
void board_guest_leave(void);

/* Parks what other threads have that have not allocated since the last such
 * call, for the sweeper; returns whether a thread may have to be parked yet. */
bool board_threads_park(void);

/*
 * Keeps threads from coming, going and being guests, in the thread that forks.
 * Then: asks all others to stay out of the heap's locks and lists and waits
 * until they do, or until it has become pointless to wait; afterwards they may
 * go on.  In the child: the others' pages are whoever's needs them.
 */
void board_threads_hold(void);
void board_threads_release(void);
void board_threads_stop(void);
void board_threads_resume(void);
void board_threads_inherit(void);

/* Has every other thread do what comes before it first, and what comes after it
 * later; returns whether the kernel can do that.  To be begun once a process. */
void board_barrier_begin(void);
bool board_barrier(void);

/* sweeper.c: the provider's hook; a thread has come; in between a sweep and the
 * next: what others may not do meanwhile; this is a forked child. */
void board_sweep_wanted(void *ctx, uint64_t ticks);
void board_sweeper_rouse(void);
void board_sweeper_hold(void);
void board_sweeper_release(void);

/* Gives back all that holds no block, also what threads own that are outside of
 * the heap at this moment; returns the bytes. */
size_t board_collect(void);

/* The heap's pressure hook. */
bool board_pressure(void *ctx, size_t size);
void board_sweeper_forked(void);

/* large.c.  First, before the heap is made of the provider; then, in the sweeper's
 * thread with sweeps held off: collapses some chunks that have been whole for
 * long, and returns whether another round an epoch later may do more; and after a
 * fork, on both sides. */
struct board_mmap;
void board_large_begin(struct board_mmap *window);
bool board_large_round(void);
void board_large_forked(bool child);

/* family.c: operator new, but for what only C++ can do where there is no memory,
 * which operators.cc does; and operator delete, that is, free(). */
void *board_new(size_t size);
void *board_new_again(size_t size);
void board_delete(void *p) __attribute__((nothrow));

/* fork.c: once, when the heap is made. */
void board_fork_begin(void);

/* report.c: figures at the end, and malloc_stats(). */
void board_report_print(int fd);
void board_misuse(void *ctx, const struct fallow_misuse *report);

#pragma GCC visibility pop

#endif
