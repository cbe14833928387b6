/* SPDX-License-Identifier: MIT */
/*
 * A spin lock that carries the interrupt state of its holder.
 *
 * Invariants: it is never held across a call out of the library (provider,
 * hook), and taking it always succeeds or says that it did not.  Tickets keep
 * it fair: the longest wait is the number of contexts times the longest hold.
 * Where a holder can lose its CPU (FL_PORT_LOCK_FAIR is 0), no ticket is drawn
 * but that which is served at once, and who waits is passed by who comes.
 */
#ifndef CORE_LOCK_H
#define CORE_LOCK_H

#include "atomic.h"
#include "watch.h"

struct lock {
	uint32_t next;    /* the ticket that the next taker draws */
	uint32_t serving; /* the ticket whose holder is inside */
#if FALLOW_DEBUG
	struct lock_watch watch;
#endif
};

#if FALLOW_DEBUG
#define lock_watch_want(lock) fl_watch_want(&(lock)->watch)
#define lock_watch_take(lock) fl_watch_take(&(lock)->watch)
#define lock_watch_leave(lock) fl_watch_leave(&(lock)->watch)
#define lock_kind_set(lock, what) ((void)((lock)->watch.kind = (what)))
#else
#define lock_watch_want(lock) ((void)(lock))
#define lock_watch_take(lock) ((void)(lock))
#define lock_watch_leave(lock) ((void)(lock))
#define lock_kind_set(lock, what) ((void)(lock))
#endif

/* Takes the lock iff nobody holds or awaits it; returns whether it did. */
static inline bool lock_try(struct lock *lock, struct fl_port_state *state)
{
	uint32_t mine;

	*state = fl_port_lock_enter();
	/* Pairs with the release store in lock_leave(); whoever drew a ticket
	 * before and left did so before this value of `serving`. */
	mine = fl_load_acquire(&lock->serving);
	if (fl_load_relaxed(&lock->next) == mine &&
		fl_cas_acquire(&lock->next, &mine, mine + 1)) {
		lock_watch_want(lock);
		lock_watch_take(lock);
		return true;
	}
	fl_port_lock_leave(*state);
	return false;
}

/* Afterwards the caller holds the lock; returns what lock_leave() needs. */
static inline struct fl_port_state lock_take(struct lock *lock)
{
	struct fl_port_state state;
	uint32_t mine;

	if (!FL_PORT_LOCK_FAIR) {
		while (!lock_try(lock, &state))
			fl_port_pause();
		return state;
	}
	state = fl_port_lock_enter();
	mine = fl_load_relaxed(&lock->next);
	lock_watch_want(lock);
	/* Orders nothing: the load of `serving` does. */
	while (!fl_cas_acquire(&lock->next, &mine, mine + 1))
		fl_port_pause();
	/* Pairs with the release store in lock_leave(). */
	while (fl_load_acquire(&lock->serving) != mine)
		fl_port_pause();
	lock_watch_take(lock);
	return state;
}

/* Afterwards the next taker is inside, and interrupts are as before. */
static inline void lock_leave(struct lock *lock, struct fl_port_state state)
{
	lock_watch_leave(lock);
	/* Pairs with the acquire loads in lock_take() and lock_try(). */
	fl_store_release(&lock->serving, lock->serving + 1);
	fl_port_lock_leave(state);
}

/* For assertions: whether somebody holds the lock. */
static inline bool lock_held(const struct lock *lock)
{
	return fl_load_relaxed(&lock->next) != fl_load_relaxed(&lock->serving);
}

#endif
