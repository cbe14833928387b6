/* SPDX-License-Identifier: MIT */
/*
 * Spin's own memory has one order for all.  Here each variable keeps every
 * value that it had, and each thread how far it has seen each variable: a load
 * may return any value that is not older than what was seen.  A release gives
 * the thread's view to the value that it writes, an acquire takes the view of
 * the value that it reads, a read-modify-write reads the last value and passes
 * its view on (C11's release sequence).  Loads that take values from stores of
 * the future are left out.  Data is read as if relaxed; that it is the newest
 * is what is asserted.
 *
 * Modelled: the pairs of release and acquire on a machine that reorders, such
 *     as aarch64: a freed block's link through the remote word or the notified
 *     or deferred list (remote_push, notified_push, fl_deferred_push; their
 *     takes), `frozen` through the word's state (page_abandon, remote_free),
 *     map_slices (fl_table_reach, fallow_owns), the ticket lock (lock.h)
 * Holds: who takes what was published sees all that was written before it
 * Case: short -DPUSH_CASE: two threads push a block each, a third takes both
 * Case: short -DPUBLISH_CASE: a store that publishes, a load that looks
 * Case: short -DLOCK_CASE: two threads take a ticket lock, each twice
 * Broken: PUSH_RELAXED -DPUSH_CASE: the push is no release | newest
 * Broken: TAKE_RELAXED -DPUSH_CASE: the take is no acquire | newest
 * Broken: STORE_RELAXED -DPUBLISH_CASE: the store is no release | newest
 * Broken: LOAD_RELAXED -DPUBLISH_CASE: the load is no acquire | newest
 * Broken: LEAVE_RELAXED -DLOCK_CASE: lock_leave() is no release | newest
 * Broken: ENTER_RELAXED -DLOCK_CASE: lock_take() does not acquire | newest
 */
#define VARS 3
#define VALUES 5
#define VALUE(x, m) value[(x) * VALUES + (m)]
#define GIVEN(x, m, y) given[((x) * VALUES + (m)) * VARS + (y)]
#define SEEN(y) seen[self * VARS + (y)]
#define NEWEST(y) (count[y] - 1)

byte value[VARS * VALUES];
byte given[VARS * VALUES * VARS]; /* the view that comes with a value */
byte count[VARS] = 1;             /* values that a variable ever had */
byte seen[3 * VARS];              /* by thread */
bool newest;

#define SAY(text, v, x) printf("  thread %d: ", self); printf(text, v, x)

/* Takes the view of value m of x. */
inline view_take(x, m) {
	for (y : 0 .. VARS - 1) {
		if
		:: GIVEN(x, m, y) > SEEN(y) -> SEEN(y) = GIVEN(x, m, y)
		:: else
		fi
	}
	y = 0
}

/* r: any value of x that the thread may see. */
inline load(x, acquire) {
	atomic {
		m = SEEN(x);
		do
		:: m < NEWEST(x) -> m++
		:: true -> break
		od;
		SEEN(x) = m;
		r = VALUE(x, m);
		SAY("reads %d of variable %d\n", r, x);
		if
		:: acquire -> view_take(x, m)
		:: else
		fi;
		m = 0
	}
}

/* Writes the next value of x. */
inline store(x, v, release) {
	atomic {
		assert(count[x] < VALUES);
		m = count[x];
		count[x]++;
		VALUE(x, m) = v;
		SAY("writes %d to variable %d\n", v, x);
		SEEN(x) = m;
		GIVEN(x, m, x) = m;
		if
		:: release ->
			for (y : 0 .. VARS - 1) {
				GIVEN(x, m, y) = SEEN(y)
			}
			y = 0
		:: else
		fi;
		m = 0
	}
}

/* Adds n to x at its newest value, which is r. */
inline change(x, n, acquire, release) {
	atomic {
		last = NEWEST(x);
		r = VALUE(x, last);
		if
		:: acquire -> view_take(x, last)
		:: else
		fi;
		store(x, r + (n), release);
		for (y : 0 .. VARS - 1) {
			if
			:: GIVEN(x, last, y) > GIVEN(x, last + 1, y) ->
				GIVEN(x, last + 1, y) = GIVEN(x, last, y)
			:: else
			fi
		}
		y = 0;
		last = 0
	}
}

/* Reads data that nobody may be writing. */
inline look(x) {
	load(x, false);
	newest = SEEN(x) == NEWEST(x);
	assert(newest)
}

#ifdef BROKEN_PUSH_RELAXED
#define PUSH false
#else
#define PUSH true
#endif
#ifdef BROKEN_TAKE_RELAXED
#define TAKE false
#else
#define TAKE true
#endif
#ifdef BROKEN_STORE_RELAXED
#define STORE false
#else
#define STORE true
#endif
#ifdef BROKEN_LOAD_RELAXED
#define LOAD false
#else
#define LOAD true
#endif
#ifdef BROKEN_LEAVE_RELAXED
#define LEAVE false
#else
#define LEAVE true
#endif
#ifdef BROKEN_ENTER_RELAXED
#define ENTER false
#else
#define ENTER true
#endif

#define WORD 0
#define DATA(thread) (1 + (thread))

proctype thread(byte self) {
	byte m, y, r, last, i;
#if defined(LOCK_CASE)
	byte mine;
	for (i : 1 .. 2) {
		change(2, 1, false, false); /* draws a ticket */
		mine = r;
		do
		:: load(WORD, ENTER);
			if
			:: r == mine -> break
			:: else
			fi
		od;
		look(DATA(0));
		store(DATA(0), r + 1, false);
		store(WORD, mine + 1, LEAVE)
	}
#elif defined(PUSH_CASE)
	if
	:: self < 2 ->
		store(DATA(self), 1, false);
		change(WORD, 1 << self, false, PUSH)
	:: else ->
		change(WORD, 4, TAKE, true);
		if
		:: r & 1 -> look(DATA(0))
		:: else
		fi;
		if
		:: r & 2 -> look(DATA(1))
		:: else
		fi
	fi
#else
	if
	:: self == 0 ->
		store(DATA(0), 1, false);
		store(WORD, 1, STORE)
	:: self == 1 ->
		load(WORD, LOAD);
		if
		:: r == 1 -> look(DATA(0))
		:: else
		fi
	:: else
	fi
#endif
}

init {
	atomic {
		run thread(0);
		run thread(1);
#ifdef PUSH_CASE
		run thread(2)
#endif
	}
}
