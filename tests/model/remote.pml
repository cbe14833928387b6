/* SPDX-License-Identifier: MIT */
/*
 * Modelled: the remote word, from a context's free of another's block to the
 *     owner's next look, with pages that run full, are notified, abandoned,
 *     adopted, by a free too, and released (remote.h, page.c, local.c, class.c,
 *     free.c)
 * Holds: every block is in one place; every page is in one list, and one that
 *     its state allows; only its holder touches a record; a page is released
 *     only when it is empty, an abandoned one as soon as it is; a full page
 *     with enough free blocks is found again; no deadlock
 * Case: short -DCONTEXTS=2 -DPAGES=2 -DBLOCKS=1 -DOPS=4: two contexts, two pages
 *     of a block each, four calls from each context
 * Case: short -DCONTEXTS=2 -DPAGES=2 -DBLOCKS=1 -DOPS=4 -DBITWORD: the same with
 *     blocks that are bits
 * Case: short -DCONTEXTS=2 -DPAGES=1 -DBLOCKS=2 -DOPS=4: a page of two blocks
 * Case: long -DCONTEXTS=2 -DPAGES=2 -DBLOCKS=1 -DOPS=6: six calls from each
 * Case: long -DCONTEXTS=2 -DPAGES=2 -DBLOCKS=2 -DOPS=4: pages of two blocks
 * Broken: STORE: a free stores the word, whatever it is by now | assertion
 * Broken: FULL: a page runs full without a look at the word's count | n<1
 * Broken: FROZEN -DCONTEXTS=2 -DPAGES=1 -DBLOCKS=2 -DOPS=4: the last
 *     free of an abandoned page is nobody's business
 *     | n<used
 * Broken: UNSEEN: an abandoning does not look at frees since its fold | n<used
 * Broken: OFFLINE: a context that goes offline does not wait for a page that
 *     somebody is about to tell it of | assertion
 * Broken: LINK_ONCE -DCONTEXTS=2 -DPAGES=1 -DBLOCKS=3 -DOPS=4: a free that has to
 *     try again keeps its first link | assertion
 * Broken: FULL_ADOPTED: a free makes a page its own that was used up meanwhile
 *     | formed
 * Broken: RETIRE -DCONTEXTS=2 -DPAGES=2 -DBLOCKS=2: a page that has got free
 *     blocks by the way is put among the full ones | wake
 * Broken: USED_UP -DCONTEXTS=2 -DPAGES=2 -DBLOCKS=1 -DOPS=4: a page that others
 *     have freed blocks of is used up all the same | n<1
 * Broken: QUEUED -DCONTEXTS=2 -DPAGES=2 -DBLOCKS=1 -DOPS=6: the page that serves
 *     among the full ones is queued as well, when others free a block of it
 *     while the owner takes the last news in | current.i.!=
 */
#include "pages.pml"

inline op_enter() {
	me = self;
	busy[me] = self + 1
}

proctype thread(byte id) {
#ifdef OPS
	byte left = OPS;
#endif
	THREAD;
	self = id;
	do
	:: atomic { READY ->  enter(); fl_op_unpark(); fl_class_alloc(); leave() }
	:: atomic { READY && FREEABLE -> enter(); choose(); fallow_free(); leave() }
	:: atomic { READY && self == 0 -> enter(); fl_op_unpark(); fl_class_trim(); leave() }
	:: atomic { READY && self == 0 -> enter(); abandoned_step(); leave() }
	:: atomic { READY && self == 0 -> enter(); fl_class_offline(); leave() }
#ifdef OPS
	:: atomic { turn == self && left == 0 -> alive = alive & ~ONE(self); pass() } break
#endif
	od
}

init {
	atomic {
		byte id = 0;
		do
		:: id < CONTEXTS -> run thread(id); id++
		:: else -> break
		od
	}
}
