/* SPDX-License-Identifier: MIT */
/*
 * Modelled: the list of deferred frees (deferred.c): an NMI pushes at any step
 *     of a drain, or of another push, and blocks that were drained come back
 * Holds: every block that was deferred is drained once, and none is lost
 * Case: short: two that push, two that drain, three blocks that come back any
 *     number of times
 * Broken: STORE: the push stores the head, whatever it is by now | assertion
 * Broken: LINK_ONCE: a push that tries again keeps its first link | assertion
 * Broken: POP: the drain takes one block at a time | assertion
 */
#define BLOCKS 3

byte head;           /* block + 1 */
byte draining;
byte below[BLOCKS];
byte at[BLOCKS];     /* 0 with a user, 1 being pushed, 2 in the list */

#define SAY(text, x) printf("  thread %d: ", _pid); printf(text, x)

/* fl_deferred_push() of any block that is in use */
proctype push() {
	byte b, first;

end:
	do
	:: atomic {
			if
			:: at[0] == 0 -> b = 0
			:: at[1] == 0 -> b = 1
			:: at[2] == 0 -> b = 2
			fi;
			at[b] = 1
		}
		first = head;
		below[b] = first;
		do
		:: atomic {
#ifdef BROKEN_STORE
				true ->
#else
				head == first ->
#endif
				head = b + 1;
				at[b] = 2;
				SAY("pushes block %d\n", b);
				break
			}
		:: atomic { head != first -> first = head }
#ifndef BROKEN_LINK_ONCE
			below[b] = first
#endif
		od;
		atomic { b = 0; first = 0 }
	od
}

/* Where nobody drains, the list holds what was pushed. */
inline quiet() {
	atomic {
		block = head;
		after = 0;
		do
		:: block != 0 && !draining ->
			after++;
			block = below[block - 1];
			assert(after <= BLOCKS)
		:: else -> break
		od;
		assert(draining || after == (at[0] == 2) + (at[1] == 2) +
			(at[2] == 2));
		after = 0;
		block = 0
	}
}

/* fl_deferred_drain() */
proctype drain() {
	byte block, after;

end:
	do
	:: atomic { head != 0 -> block = head; draining++ }
#ifdef BROKEN_POP
		after = below[block - 1];
		if
		:: atomic { head == block -> head = after;
				SAY("pops block %d\n", block - 1);
				assert(at[block - 1] == 2);
				at[block - 1] = 0
			}
		:: else
		fi;
#else
		atomic {
			block = head;
			head = 0;
			SAY("takes from block %d\n", block - 1)
		}
		do
		:: block != 0 ->
			after = below[block - 1];
			atomic {
				SAY("frees block %d\n", block - 1);
				assert(at[block - 1] == 2);
				at[block - 1] = 0
			}
			block = after
		:: else -> break
		od;
#endif
		draining--;
		quiet()
	od
}

init {
	atomic {
		run push();
		run push();
		run drain();
		run drain()
	}
}
