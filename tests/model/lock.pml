/* SPDX-License-Identifier: MIT */
/*
 * Modelled: the ticket lock with saved interrupt state (lock.h), and the flag
 *     `growing` (region.c), on CPUs whose interrupt handlers take both
 * Holds: one holder at a time; interrupts are off inside, and afterwards as
 *     they were; no deadlock
 * Case: short: two CPUs with a handler each, any number of calls
 * Broken: MASK: the lock leaves interrupts on | invalidendstate
 * Broken: LEAVE: leaving it turns interrupts on, whatever they were | on
 * Broken: GROWING: a handler waits for the call that extends the tables |
 *     invalidendstate
 */
#define CPUS 2
#define TICKETS 8

byte next, serving; /* modulo TICKETS */
byte inside;
bool on[CPUS] = true, handling[CPUS], growing;

/* What a CPU does while its handler does not run, or the handler itself. */
#define STEP(level) (handling[cpu] == level)
#define SAY(text, level) printf("  cpu %d, level %d: ", cpu, level); printf(text)

inline lock_take(level) {
	atomic {
		STEP(level) -> saved = on[cpu];
#ifndef BROKEN_MASK
		on[cpu] = false
#endif
	}
	atomic {
		STEP(level) -> mine = next;
		next = (next + 1) % TICKETS
	}
	atomic {
		STEP(level) && serving == mine -> inside++;
		assert(inside == 1);
		SAY("holds the lock\n", level)
	}
}

inline lock_leave(level) {
	atomic {
		STEP(level) -> inside--;
		serving = (serving + 1) % TICKETS;
		SAY("leaves the lock\n", level)
	}
	atomic {
		STEP(level) ->
#ifdef BROKEN_LEAVE
		on[cpu] = true;
#else
		on[cpu] = saved;
#endif
		mine = 0;
		saved = false
	}
}

/* fl_region_grow(): growing_begin(), the provider's call, growing_end(); a call
 * that may not wait and is not the one goes without. */
inline grow(level) {
	lock_take(level);
	atomic { STEP(level) -> first = !growing; growing = true }
	lock_leave(level);
	if
	:: first ->
		lock_take(level);
		atomic { STEP(level) -> growing = false }
		lock_leave(level)
	:: else ->
#ifdef BROKEN_GROWING
		atomic { STEP(level) && !growing }
#else
		if
		:: level
		:: else -> atomic { STEP(level) && !growing }
		fi
#endif
	fi;
	first = false
}

proctype thread(byte cpu) {
	byte mine;
	bool saved, first;

	do
	:: STEP(false) -> grow(false); assert(handling[cpu] || on[cpu])
	:: atomic { STEP(false) -> on[cpu] = false }
		lock_take(false);
		lock_leave(false);
		atomic { assert(!on[cpu]); on[cpu] = true }
	od
}

proctype handler(byte cpu) {
	byte mine;
	bool saved, first;

end:
	do
	:: atomic {
			on[cpu] && !handling[cpu] ->
			handling[cpu] = true;
			on[cpu] = false
		}
		grow(true);
		atomic {
			assert(!on[cpu]);
			handling[cpu] = false;
			on[cpu] = true
		}
	od
}

init {
	atomic {
		run thread(0);
		run handler(0);
		run thread(1);
		run handler(1)
	}
}
