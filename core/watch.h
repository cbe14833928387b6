/* SPDX-License-Identifier: MIT */
/*
 * Debug builds: what may be done with locks, and for how long; see watch.c.
 * In other builds nothing of it is left.
 */
#ifndef CORE_WATCH_H
#define CORE_WATCH_H

#include <stddef.h>
#include <stdint.h>

#include "debug.h"

/* What a lock is.  The first is any that was not told, as in a test. */
enum lock_kind {
	LOCK_OTHER = 0,
	LOCK_RESERVE,
	LOCK_LOCAL,
	LOCK_HEAP,
	LOCK_FRAMES,
	LOCK_TABLES, /* of a page-table provider */
	LOCK_KINDS,
};

#if FALLOW_DEBUG

/* What the debug build keeps in each lock; only its holder writes but `kind`. */
struct lock_watch {
	uint32_t kind;
	uint32_t steps;   /* of work in this hold */
	uint32_t allowed; /* on top of what the kind of lock may take */
};

/* Before a lock is waited for or noted, when it is had, and before it is left. */
void fl_watch_want(const struct lock_watch *lock)
	__attribute__((visibility("hidden")));
void fl_watch_take(struct lock_watch *lock)
	__attribute__((visibility("hidden")));
void fl_watch_leave(struct lock_watch *lock)
	__attribute__((visibility("hidden")));

/* Where a lock must not be held: at a call of the provider or of a hook, and at
 * the return to the embedder. */
void fl_watch_none(void) __attribute__((visibility("hidden")));

/* n steps of work, counted in the lock that the context took last, if it holds
 * one: in each loop that runs under a lock. */
void fl_watch_steps(size_t n) __attribute__((visibility("hidden")));

/* This hold may take n steps more than its kind of lock may. */
void fl_watch_allow(size_t n) __attribute__((visibility("hidden")));

#else

struct lock_watch;

static inline void fl_watch_none(void)
{
}

static inline void fl_watch_steps(size_t n)
{
	(void)n;
}

static inline void fl_watch_allow(size_t n)
{
	(void)n;
}

#endif

#endif
