/* SPDX-License-Identifier: MIT */
/*
 * Modelled: a parked context, whose pages another context's collect works on:
 *     fallow_park(), unpark by the next call, parked_trim(), frees that go
 *     through the remote word meanwhile, and offline of a parked context
 *     (local.c, class.c, heap.c), over all that the model `remote` has
 * Holds: what holds in `remote`; the lists and records of a context are touched
 *     by itself, or while it is parked by the holder of its lock alone
 * Case: short -DCONTEXTS=2 -DPAGES=2 -DBLOCKS=1 -DOPS=3: two contexts, two pages
 *     of a block each, three calls from each
 * Case: short -DCONTEXTS=2 -DPAGES=1 -DBLOCKS=2 -DOPS=4: a page of two blocks,
 *     four calls from each
 * Case: long -DCONTEXTS=2 -DPAGES=2 -DBLOCKS=1 -DOPS=5: five calls from each
 * Broken: PARKED_FREE: the context's own free does not look whether it is
 *     parked | holder
 * Broken: PARK_UNSEEN: a collect does not look again under the lock | holder
 * Broken: UNPARK: the context comes back without its lock | holder
 * Broken: WANTED -DCONTEXTS=2 -DPAGES=1 -DBLOCKS=2 -DOPS=4: a free of a parked
 *     context's makes a page its own | holder
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
	:: atomic { READY -> enter(); fl_op_unpark(); fl_class_alloc(); leave() }
	:: atomic { READY && FREEABLE -> enter(); choose(); fallow_free();
		leave() }
	:: atomic { READY && self == 0 -> enter(); fl_local_park(); leave() }
	:: atomic { READY && self == 0 -> enter(); fl_class_offline(); leave() }
	:: atomic { READY && self == 1 && parked[0] -> enter();
		parked_trim(0); leave() }
#ifdef OPS
	:: atomic { turn == self && left == 0 ->
		alive = alive & ~ONE(self);
		pass()
	}
	break
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
