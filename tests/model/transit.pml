/* SPDX-License-Identifier: MIT */
/*
 * Modelled: TRANSIT across a provider call: a call that commits the first block
 *     of a fresh page, or one more of a page that has left its list, is outside
 *     every context meanwhile, and comes back in any (class.c, page.c,
 *     memory.c, heap.h), over all that the model `remote` has; a handler, or
 *     another thread of the CPU, is a thread that is inside the same context
 *     meanwhile
 * Holds: what holds in `remote`, also while a call is outside; then its page is
 *     in no list, and has no owner; the lists and records of a context are
 *     touched by who is inside it alone
 * Case: short -DCONTEXTS=2 -DPAGES=1 -DBLOCKS=2 -DOPS=4: two threads in two
 *     contexts, a page of two blocks, four calls from each thread
 * Case: short -DCONTEXTS=2 -DPAGES=2 -DBLOCKS=1 -DOPS=3: two pages of a block
 *     each, three calls from each thread
 * Case: short -DCONTEXTS=2 -DPAGES=2 -DBLOCKS=2 -DOPS=3: two pages of two
 *     blocks
 * Case: long -DCONTEXTS=2 -DPAGES=2 -DBLOCKS=1 -DOPS=4: two pages of a block
 *     each, four calls from each thread
 * Broken: OLD_CONTEXT: the page joins the context that the call was in before
 *     | holder
 * Broken: STAYS: the page stays in its list, and belongs to it afterwards
 *     | holder
 * Broken: OWNED: the page that has left its list still has its owner
 *     | holder|owner.p.==15
 * Broken: STALE -DCONTEXTS=2 -DPAGES=2 -DBLOCKS=1 -DOPS=3: the call goes on
 *     with what it had read of its context | current.me.==15|current.owner.p..==p
 * Broken: PARKED: the call comes back to a parked context as it is | holder
 * Broken: FORGOTTEN: a fresh page that got no memory is not given back | q==
 */
#define PROVIDER
/* Threads that are inside a call, but outside every context. */
byte away;
#define AWAY away

#ifdef BROKEN_STALE
#define NO_CURRENT (gone -> was == NONE : current[me] == NONE)
#endif

#include "pages.pml"

/* The thread is inside any context that no other is in: there are as many
 * contexts as threads, or more. */
inline op_enter() {
	if
	:: !busy[0] -> me = 0
	:: !busy[1] -> me = 1
	fi;
	busy[me] = self + 1
}

inline op_drop() {
	d_step {
		SAY("leaves context %d, page %d\n", me, p);
		busy[me] = 0;
		me = NONE;
		away++
	}
	point()
}

inline op_enter_again() {
	atomic {
		op_enter();
		away--;
		SAY("comes back in context %d, page %d\n", me, p)
	}
}

inline op_rejoin() {
	op_enter_again();
#ifndef BROKEN_PARKED
	fl_op_unpark()
#endif
}

/* ok: the provider has committed memory. */
inline fl_page_commit() {
#ifdef BROKEN_STALE
	was = current[me];
	gone = 1;
#endif
#ifdef BROKEN_OLD_CONTEXT
	was = me;
#endif
	op_drop();
	if
	:: ok = 1
	:: ok = 0
	fi;
	op_rejoin();
#ifdef BROKEN_OLD_CONTEXT
	me = was
#endif
}

/* The provider has no more addresses. */
inline fl_region_grow() {
	op_drop();
	op_rejoin()
}

/* The context that it began in goes offline, wherever it is by then. */
inline class_offline() {
	was = me;
	do
	:: if
		:: me == was -> fl_local_park()
		:: else
		fi;
		inside = me;
		me = was;
		offline_step();
		me = inside;
		if
		:: !ok -> break
		:: else
		fi;
		op_drop();
		op_enter_again()
	od
}

/* The end of a call. */
inline depart() {
	was = NONE;
	inside = NONE;
#ifdef BROKEN_STALE
	gone = 0;
#endif
	leave()
}

proctype thread(byte id) {
	byte left = OPS, was = NONE, inside = NONE;
#ifdef BROKEN_STALE
	bit gone;
#endif
	THREAD;
	self = id;
	do
	:: atomic { READY -> enter(); fl_op_unpark(); fl_class_alloc(); depart() }
	:: atomic { READY && FREEABLE -> enter(); choose(); fallow_free();
		depart() }
	:: atomic { READY && self == 0 -> enter(); class_offline(); depart() }
	:: atomic { turn == self && left == 0 ->
		alive = alive & ~ONE(self);
		pass()
	}
	break
	od
}

init {
	atomic {
		byte id = 0;
		do
		:: id < THREADS -> run thread(id); id++
		:: else -> break
		od
	}
}
