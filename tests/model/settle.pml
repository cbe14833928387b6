/* SPDX-License-Identifier: MIT */
/*
 * The owner's stores wait in a buffer, in order, and come to memory at any
 * later time, as on x86-64; its loads do not wait for them.  A lock's swap, and
 * the kernel's barrier in the owner's thread, empty the buffer.  That the owner
 * works on its pages is over when the stores of that work are in memory.
 *
 * Modelled: parking a context whose thread runs: fallow_park_context(), the
 *     barrier, the look at the port's flag, fallow_park_settle() (local.c,
 *     boards/linux/thread.c), sweeps of what is settled, and the owner's calls,
 *     some of which are frees that leave it parked.  `parked` is whichever word
 *     the call reads of it: of the heap, or of the thread's own
 *     (FL_PORT_SERVES), all of which are written before the barrier.  A free
 *     that has to move its page reads a second one, by which it does less
 * Holds: nobody sweeps the pages while the owner works on them; whoever takes
 *     the context back is not swept before it is announced again
 * Case: short -DOPS=2 -DROUNDS=3: two calls, three rounds of the sweeper
 * Case: long -DOPS=4 -DROUNDS=5: four calls, five rounds
 * Broken: NO_BARRIER: the flag is looked at without a barrier before | sweeping
 * Broken: NO_LOOK: nobody looks at the flag | sweeping
 * Broken: NO_FLAG: the owner's calls do not set it | sweeping
 * Broken: ONE_STEP: what is announced is swept | sweeping
 */
#define NOT 0
#define ANNOUNCED 2
#define SETTLED 3

/* What a store in the buffer does. */
#define BUSY_OFF 0
#define BUSY_ON 1
#define WORK_OFF 2

chan buffer = [6] of { byte };
byte parked = NOT;
bool busy, working, sweeping, locked, over;

#define alone (!(working && sweeping))

inline lock() { atomic { !locked -> locked = true } }
inline unlock() { locked = false }

/* One store comes to memory. */
inline commit(store) {
	if
	:: store == BUSY_ON -> busy = true
	:: store == BUSY_OFF -> busy = false
	:: else -> working = false
	fi
}

/* Every store does. */
inline barrier(store) {
	atomic {
		do
		:: buffer ? store -> commit(store)
		:: empty(buffer) -> break
		od
	}
}

proctype memory() {
	byte store;

	do
	:: atomic { buffer ? store -> commit(store) }
	:: over && empty(buffer) -> break
	od
}

inline work() {
	atomic {
		working = true;
		assert(alone);
		printf("  thread 0: the owner works on its pages\n")
	}
	buffer ! WORK_OFF
}

proctype owner() {
	byte left = OPS;
	byte store;

	do
	:: left > 0 ->
		left--;
#ifndef BROKEN_NO_FLAG
		buffer ! BUSY_ON;
#endif
		if
		:: atomic { parked == NOT -> working = true; assert(alone);
			printf("  thread 0: the owner works on its pages\n") }
			buffer ! WORK_OFF
		:: parked != NOT
			/* A free: by the remote word. */
		:: parked != NOT ->
			lock();
			barrier(store);
			parked = NOT;
			printf("  thread 0: the owner takes its context back\n");
			unlock();
			work()
		fi;
		buffer ! BUSY_OFF
	:: left == 0 -> break
	od;
	over = true
}

proctype sweeper() {
	byte left = ROUNDS;
	byte store;

	do
	:: left > 0 ->
		left--;
		if
#ifdef BROKEN_NO_LOOK
		:: true ->
#else
		:: !busy ->
#endif
			lock();
			if
			:: parked == ANNOUNCED -> parked = SETTLED;
				printf("  thread 1: it is settled\n")
			:: else
			fi;
			unlock()
		:: else
		fi;
		lock();
		if
		:: parked == NOT -> parked = ANNOUNCED;
			printf("  thread 1: it is announced\n")
		:: else
		fi;
		unlock();
#ifndef BROKEN_NO_BARRIER
		barrier(store);
#endif
		lock();
		if
#ifdef BROKEN_ONE_STEP
		:: parked != NOT ->
#else
		:: parked == SETTLED ->
#endif
			sweeping = true;
			assert(alone);
			printf("  thread 1: its pages are swept\n");
			sweeping = false
		:: else
		fi;
		unlock()
	:: left == 0 -> break
	od
}

init {
	atomic {
		run memory();
		run owner();
		run sweeper()
	}
}
