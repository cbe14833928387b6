/* SPDX-License-Identifier: MIT */
/*
 * The parts of core/ that move pages and blocks between contexts, for the
 * models to include.  An inline has the name of the C function that it mirrors
 * (remote.h, page.c, local.c, class.c, free.c), and one step of it is one
 * access to memory that others touch; what only the page's holder touches goes
 * with the step before.  A loop that only repeats a compare-and-swap until it
 * succeeds is one step, since the failures change nothing.
 *
 * Lists are sets of pages, since their order is only a matter of speed; the
 * remote word's list and the notified list are linked as in C.
 *
 * A process is a thread of execution, with the variables of THREAD; `me` is
 * the context that it is inside.  Three arrays are the models' own, and say
 * what must be true:
 *
 *   at[]      where each block is, so that none is lost or in two places
 *   holder[]  who may touch a page's record: its context, the one thread that
 *             has it in TRANSIT, heap->lock; touch() asserts it everywhere
 *   running   threads inside a call; when all of them are outside every
 *             context, quiet() checks all there is
 */
#define NONE 15

#ifndef THREADS
#define THREADS CONTEXTS
#endif

#ifndef BLOCKS
#define BLOCKS 2
#endif
#ifndef WORTH
#define WORTH 1
#endif

/* enum remote_state */
#define TRANSIT 0
#define OWNED 1
#define FULL 2
#define NOTIFIED 3
#define ABANDONED 4

/* The remote word: state, then count and head + 1, or a bit for each block. */
#define WORD(state, blocks) ((state) << 6 | (blocks))
#define STATE(word) ((word) >> 6)
#define IN(word) ((word) & 63)
#define WITH(word, state) WORD(state, IN(word))
#define BITS_OF(m) (((m) & 1) + ((m) >> 1 & 1) + ((m) >> 2 & 1) + ((m) >> 3 & 1))
#ifdef BITWORD
#define COUNT(word) BITS_OF(IN(word))
#else
#define COUNT(word) (IN(word) >> 3)
#define HEAD(word) ((word) & 7)
#endif

/* Where a page is linked: enum place */
#define NOWHERE 0
#define CURRENT 1
#define QUEUE 2
#define FULLS 3
#define ABANDONS 4
#define DRYS 5

/* at[]: where a block is */
#define UNFORMED 0
#define FREE 1   /* the owner's list or word */
#define REMOTE 2 /* the remote word */
#define USER 3   /* handed out */
#define FREEING 4 /* handed out, and given to fallow_free() */

/* holder[]: a context's index, or */
#define TRANSIT_OF(thread) (8 + (thread))
#define HEAP_LOCK 14
#define SLICES 13 /* no page at all */

byte owner[PAGES] = NONE;
short remote[PAGES];
byte used[PAGES], formed[PAGES], free[PAGES], wake[PAGES], place[PAGES];
byte notified_next[PAGES];
/* They share their place in a record. */
#define frozen notified_next
byte below[PAGES * BLOCKS];

byte current[CONTEXTS] = NONE;
byte queue[CONTEXTS], fulls[CONTEXTS], dry[CONTEXTS];
byte notified[CONTEXTS], told[CONTEXTS]; /* page + 1 */
byte local_lock[CONTEXTS], heap_lock; /* its holder + 1 */
bit parked[CONTEXTS];
byte abandoned;
byte slices = (1 << PAGES) - 1; /* pages whose slices are free */

byte at[PAGES * BLOCKS];
byte holder[PAGES] = SLICES;
byte running;
byte busy[CONTEXTS]; /* the thread inside + 1 */
byte turn, alive = (1 << THREADS) - 1, waiting;

/* The variables of a thread. */
#define THREAD byte me = NONE, self, p, b, n, i, other, first, q, j; \
	short word, old, new; bit ok, more

/* A counterexample is replayed with these words alone. */
#define SAY(text, x, y) printf("  thread %d: ", self); printf(text, x, y)

#define ONE(page) (1 << (page))
#define BLOCK(page, index) at[(page) * BLOCKS + (index)]

/* Threads inside a call that are outside every context.  A model that has them
 * defines PROVIDER, and fl_page_commit() and fl_region_grow(), which leave the
 * context and come back in any. */
#ifndef PROVIDER
#define AWAY 0
#endif

/* What fl_local_join() finds. */
#ifndef NO_CURRENT
#define NO_CURRENT (current[me] == NONE)
#endif

/* Pages that the context queues, or that are dry. */
#define QUEUED(page) ((queue[me] | dry[me]) & ONE(page))

#define LOCKED_LOCAL (local_lock[me] == self + 1)

/* The caller has the page to itself. */
inline touch(page) {
	assert(holder[page] == TRANSIT_OF(self) ||
		(holder[page] == HEAP_LOCK && heap_lock == self + 1) ||
		(holder[page] == me && (parked[me] ->
			LOCKED_LOCAL : busy[me] == self + 1)))
}

/* Any thread goes on, this one or another. */
inline pass() {
	if
	:: alive & 1 -> turn = 0
	:: alive & 2 -> turn = 1
#if THREADS > 2
	:: alive & 4 -> turn = 2
#endif
	:: !alive
	fi
}

inline point() {
	pass();
	turn == self
}

/* Another thread goes on; not all of them may wait. */
inline wait() {
	waiting = waiting | ONE(self);
	assert(waiting != alive);
	if
	:: self != 0 && (alive & ~waiting & 1) -> turn = 0
	:: self != 1 && (alive & ~waiting & 2) -> turn = 1
#if THREADS > 2
	:: self != 2 && (alive & ~waiting & 4) -> turn = 2
#endif
	fi;
	turn == self
}

inline lock_take(lock) {
	point();
	do
	:: !lock -> lock = self + 1; break
	:: else -> wait()
	od;
	skip
}

inline lock_leave(lock) {
	assert(lock == self + 1);
	lock = 0;
	waiting = 0
}

/* ------------------------------------------------------------- lists -- */

inline unlinked(page) {
	assert(place[page] == NOWHERE && !(abandoned & ONE(page)));
	for (i : 0 .. CONTEXTS - 1) {
		assert(!((queue[i] | fulls[i] | dry[i]) & ONE(page)))
	}
	i = 0
}

inline not_current(page) {
	for (i : 0 .. CONTEXTS - 1) {
		assert(current[i] != page)
	}
	i = 0
}

inline list_insert(list, page, where) {
	touch(page);
	place[page] = NOWHERE;
	unlinked(page);
	list = list | ONE(page);
	place[page] = where
}

inline list_remove(list, page) {
	touch(page);
	assert(list & ONE(page));
	list = list & ~ONE(page);
	place[page] = NOWHERE
}

/* Blocks in use at which the owner's free of a dry page takes the slow path. */
#define DRY_WAKE(page) (formed[page] > WORTH -> formed[page] - WORTH : 0)

/* What is current as well is in no list but the full ones. */
inline queue_link(page) {
	not_current(page);
	if
	:: free[page] == 0 ->
		list_insert(dry[me], page, DRYS);
		wake[page] = DRY_WAKE(page)
	:: else ->
		list_insert(queue[me], page, QUEUE);
		wake[page] = 0
	fi
}

/* What was current is among the full ones, or dry. */
inline local_serve(page) {
	touch(page);
	place[page] = NOWHERE;
	unlinked(page);
	assert(current[me] == NONE || current[me] == page ||
		place[current[me]] != CURRENT);
	current[me] = page;
	place[page] = CURRENT;
	wake[page] = NONE
}

/* The page's wake is as it was, unless the page has become a full one. */
inline full_set(page) {
	list_insert(fulls[me], page, FULLS);
	wake[page] = BLOCKS - WORTH
}

inline fl_local_remove(page) {
	touch(page);
	if
	:: current[me] == page -> current[me] = NONE
	:: else -> assert(place[page] != CURRENT)
	fi;
	if
	:: place[page] == QUEUE -> list_remove(queue[me], page)
	:: place[page] == FULLS -> list_remove(fulls[me], page)
	:: place[page] == DRYS -> list_remove(dry[me], page)
	:: else
	fi;
	place[page] = NOWHERE;
	wake[page] = NONE
}

/* ---------------------------------------------------- the remote word -- */

/* Moves the blocks of `word` to the owner's list; n: how many. */
inline blocks_fold(page) {
	n = 0;
#ifdef BITWORD
	i = 0;
	do
	:: i < BLOCKS ->
		if
		:: word >> i & 1 ->
			assert(BLOCK(page, i) == REMOTE);
			BLOCK(page, i) = FREE;
			n++
		:: else
		fi;
		i++
	:: else -> break
	od;
	assert(!(free[page] & IN(word)));
	free[page] = free[page] | IN(word);
#else
	i = HEAD(word);
	do
	:: i != 0 ->
		assert(n < BLOCKS && BLOCK(page, i - 1) == REMOTE);
		BLOCK(page, i - 1) = FREE;
		free[page] = free[page] | 1 << (i - 1);
		n++;
		j = below[page * BLOCKS + i - 1];
		below[page * BLOCKS + i - 1] = 0; /* fewer states */
		i = j;
		j = 0
	:: else -> break
	od;
#endif
	assert(n == COUNT(word));
	assert(used[page] >= n);
	used[page] = used[page] - n;
	i = 0;
	word = 0
}

inline fl_page_fold(page) {
	point();
	if
	:: IN(remote[page]) == 0 -> n = 0
	:: else -> point(); d_step { /* remote_take() */
		touch(page);
		word = remote[page];
		remote[page] = WORD(STATE(word), 0);
		SAY("page %d is folded, with word %x\n", page, word);
		blocks_fold(page)
	}
	fi
}

/* Whoever has free blocks of the page leaves others' where they are. */
inline page_fold_cheap(page) {
	if
	:: free[page] == 0 -> fl_page_fold(page)
	:: else
	fi
}

/* remote_change() */
#define CHANGE(page, state) remote[page] = WITH(remote[page], state)

/* Block b of the page goes into its word; new: the word with it. */
inline remote_push(page) {
	point();
	old = remote[page];
#ifdef BROKEN_LINK_ONCE
	below[page * BLOCKS + b] = HEAD(old);
#endif
	do
	:: skip;
#ifdef BITWORD
		assert(!(old >> b & 1));
		new = old | 1 << b;
#else
#ifndef BROKEN_LINK_ONCE
		below[page * BLOCKS + b] = HEAD(old);
#endif
		new = (old & ~7) + 8 + b + 1;
#endif
		point();
		if
#ifdef BROKEN_STORE
		:: true -> break
#else
		:: remote[page] == old -> break
#endif
		:: else -> old = remote[page]
		fi
	od;
	skip;
	d_step {
		remote[page] = new;
		SAY("block %d of page %d goes into the word\n", b, page);
		assert(BLOCK(page, b) == FREEING);
		BLOCK(page, b) = REMOTE;
		old = 0
	}
}

/* ------------------------------------------------------------ local.c -- */

inline fl_local_join(page) {
	point();
	d_step {
		SAY("page %d joins context %d\n", page, me);
		touch(page);
		holder[page] = me;
		owner[page] = me
	}
	point();
	d_step {
		CHANGE(page, OWNED);
		if
		:: NO_CURRENT -> local_serve(page)
		:: else -> queue_link(page)
		fi
	}
}

inline fl_local_leave(page) {
	point();
	d_step {
		SAY("page %d leaves context %d\n", page, me);
		assert(STATE(remote[page]) != NOTIFIED);
		fl_local_remove(page);
		holder[page] = TRANSIT_OF(self);
		owner[page] = NONE
	}
	point();
	CHANGE(page, TRANSIT)
}

/* ok: among the full ones; else its blocks were taken in. */
inline full_insert(page) {
	point();
	word = remote[page];
	do
#ifdef BROKEN_FULL
	:: false -> skip
#else
	:: COUNT(word) >= WORTH -> fl_page_fold(page); ok = 0; break
#endif
	:: else ->
		if
		:: STATE(word) == NOTIFIED -> ok = 1
		:: else -> point();
			if
			:: remote[page] == word -> d_step {
				SAY("page %d is full, context %d\n", page, me);
				remote[page] = WITH(word, FULL);
				ok = 1
			}
			:: else -> word = remote[page]; ok = 0
			fi
		fi;
		if
		:: ok -> d_step { full_set(page) } break
		:: else
		fi
	od;
	word = 0
}

inline full_end(page) {
	point();
	d_step {
		touch(page);
		if
		:: STATE(remote[page]) == FULL -> CHANGE(page, OWNED);
			SAY("page %d is full no more, context %d\n", page, me)
		:: else
		fi
	}
}

/* In a d_step. */
inline full_left(page) {
	if
	:: current[me] == page -> local_serve(page)
	:: else -> queue_link(page)
	fi
}

inline full_leave(page) {
	d_step { list_remove(fulls[me], page) }
	full_end(page);
	d_step { full_left(page) }
}

inline fl_local_settle(page) {
	if
	:: place[page] == FULLS && formed[page] - used[page] >= WORTH ->
		full_leave(page)
	:: place[page] == QUEUE || place[page] == DRYS -> d_step {
		wake[page] = (place[page] == QUEUE -> 0 : DRY_WAKE(page));
		if
		:: place[page] == QUEUE && free[page] == 0 ->
			list_remove(queue[me], page);
			queue_link(page)
		:: place[page] == DRYS && free[page] != 0 &&
			used[page] <= wake[page] ->
			list_remove(dry[me], page);
			queue_link(page)
		:: else
		fi
	}
	:: else
	fi
}

inline notified_take(page) {
	point();
	d_step {
		SAY("page %d is taken from notified, context %d\n", page, me);
		touch(page);
		CHANGE(page, OWNED)
	}
	fl_page_fold(page);
	if
	:: place[page] != FULLS -> fl_local_settle(page)
	:: place[page] == FULLS && used[page] < formed[page] -> full_leave(page)
	:: else ->
		d_step { list_remove(fulls[me], page) }
		full_insert(page);
		if
		:: !ok -> d_step {
#ifdef BROKEN_QUEUED
			queue_link(page)
#else
			full_left(page)
#endif
		}
		:: else
		fi
	fi
}

/* Takes the notified pages in; at the end q is 0. */
inline fl_local_drain() {
	do
	:: told[me] != 0 ->
		q = told[me] - 1;
		told[me] = notified_next[q];
		notified_next[q] = 0; /* fewer states */
		notified_take(q)
	:: else -> point(); /* told_take() */
		if
		:: notified[me] == 0 -> break
		:: else
		fi;
		point();
		told[me] = notified[me];
		notified[me] = 0
	od;
	q = 0
}

inline notified_push(context, page) {
	point();
	first = notified[context];
	do
	:: skip;
		notified_next[page] = first;
		point();
		if
		:: notified[context] == first -> break
		:: else -> first = notified[context]
		fi
	od;
	notified[context] = page + 1;
	first = 0
}

/* The owner's free has brought `used` down to `wake`.  ok: an empty page is in
 * TRANSIT, to be released: of a lean heap; another keeps it.  Here, either. */
inline fl_local_wake(page) {
	ok = 0;
	if
	:: place[page] == FULLS -> full_leave(page)
	:: else
	fi;
	if
	:: place[page] != QUEUE && place[page] != DRYS -> skip
	:: else ->
		point();
		if
		:: used[page] == COUNT(remote[page]) -> fl_page_fold(page)
		:: else
		fi;
		point();
		if
		:: used[page] > 0 || STATE(remote[page]) != OWNED ->
			fl_local_settle(page)
		:: else ->
			if
			:: d_step {
				if
				:: place[page] == DRYS ->
					list_remove(dry[me], page);
					queue_link(page)
				:: else
				fi
			}
			:: fl_local_leave(page); ok = 1
			fi
		fi
	fi
}

/* In the state FULL and without others' blocks, as the word must be. */
inline local_used_up(page) {
	ok = 0;
	if
	:: place[page] != CURRENT || formed[page] < BLOCKS -> skip
	:: else ->
		point();
#ifdef BROKEN_USED_UP
		if
		:: true -> d_step {
			CHANGE(page, FULL);
#else
		if
		:: remote[page] == WORD(OWNED, 0) -> d_step {
			remote[page] = WORD(FULL, 0);
#endif
			SAY("page %d is used up, context %d\n", page, me);
			full_set(page);
			ok = 1
		}
		:: else
		fi
	fi
}

/* ok: the full page serves where it is. */
inline local_full_serve(page) {
	q = current[me];
	ok = 1;
	if
	:: q == page -> skip
	:: q == NONE -> ok = 0
	:: else ->
		if
		:: free[q] != 0 -> ok = 0
		:: free[q] == 0 && place[q] == FULLS -> skip
		:: else -> local_used_up(q)
		fi;
		if
		:: ok -> d_step {
			touch(page);
			current[me] = page;
			SAY("page %d serves where it is, context %d\n", page, me)
		}
		:: else
		fi
	fi;
	q = 0
}

/* ok: the full page is queued, by one exchange of its word. */
inline local_full_queue(page) {
	ok = 0;
	if
	:: current[me] == page || used[page] == 0 -> skip
	:: else ->
		point();
		if
		:: remote[page] == WORD(FULL, 0) -> d_step {
			remote[page] = WORD(OWNED, 0);
			list_remove(fulls[me], page);
			queue_link(page);
			assert(place[page] == QUEUE);
			SAY("page %d is queued at once, context %d\n", page, me);
			ok = 1
		}
		:: else
		fi
	fi
}

/* ------------------------------------------------------------ class.c -- */

/* Under heap->lock. */
inline release_locked(page) {
	d_step {
		touch(page);
		assert(used[page] == 0);
		unlinked(page);
		for (i : 0 .. BLOCKS - 1) {
			assert(BLOCK(page, i) != USER &&
				BLOCK(page, i) != FREEING);
			BLOCK(page, i) = UNFORMED
		}
		i = 0;
		free[page] = 0;
		formed[page] = 0;
		holder[page] = SLICES;
		SAY("page %d is released, context %d\n", page, me);
		slices = slices | ONE(page)
	}
}

inline fl_class_release(page) {
	lock_take(heap_lock);
	release_locked(page);
	lock_leave(heap_lock)
}

/* Makes page p, which was abandoned and is in TRANSIT, the context's. */
inline abandoned_adopt() {
	page_fold_cheap(p);
	fl_local_join(p)
}

/* Whether a free makes the page the context's: it may where none is queued. */
#ifdef BROKEN_WANTED
#define WANTED (queue[me] == 0)
#else
#define WANTED (queue[me] == 0 && !parked[me])
#endif

/* A free made it n remote frees; `worthy`: as many as are worth a look;
 * `wanted`: by the context, which page p then joins. */
inline fl_class_abandoned_free(page, worthy, wanted) {
	point();
	if
	:: wanted -> j = 1
	:: j = 0
	fi;
	if
#ifdef BROKEN_FROZEN
	:: !j && !(worthy) -> skip
#else
	:: !j && n != frozen[page] && !(worthy) -> skip
#endif
	:: else ->
		more = 0;
		lock_take(heap_lock);
		point();
		word = remote[page];
		if
		:: STATE(word) == ABANDONED ->
			d_step {
				list_remove(abandoned, page);
				more = COUNT(word) == used[page];
#ifdef BROKEN_FULL_ADOPTED
				j = j && !more
#else
				j = j && !more && (COUNT(word) > 0 ||
					used[page] < formed[page])
#endif
			}
			if
			:: more || j -> point(); d_step {
				CHANGE(page, TRANSIT);
				holder[page] = TRANSIT_OF(self)
			}
			:: else -> d_step {
				list_insert(abandoned, page, ABANDONS)
			}
			fi
		:: else -> j = 0
		fi;
		lock_leave(heap_lock);
		word = 0;
		if
		:: more ->
			d_step {
				used[page] = 0;
				for (i : 0 .. BLOCKS - 1) {
					if
					:: BLOCK(page, i) == REMOTE ->
						BLOCK(page, i) = FREE
					:: else
					fi
				}
				i = 0;
				more = 0
			}
			fl_class_release(page)
		:: j -> j = 0; abandoned_adopt()
		:: else
		fi
	fi
}

/* Under local->lock. */
inline page_abandon(page) {
	fl_local_leave(page);
	page_fold_cheap(page);
	abandoned_enter(page)
}

/* A page in TRANSIT is released if it is empty, or nobody's. */
inline abandoned_enter(page) {
	if
	:: used[page] == 0 -> fl_class_release(page)
	:: else ->
		lock_take(heap_lock);
		d_step {
			frozen[page] = used[page];
			list_insert(abandoned, page, ABANDONS);
			holder[page] = HEAP_LOCK;
			SAY("page %d is nobody's, by context %d\n", page, me)
		}
		point();
		d_step {
			n = COUNT(remote[page]);
			CHANGE(page, ABANDONED)
		}
		lock_leave(heap_lock);
#ifndef BROKEN_UNSEEN
		if
		:: n > 0 -> fl_class_abandoned_free(page, true, false)
		:: else
		fi
#endif
	fi
}

/* Makes an abandoned page with a free block the context's; ok: there was. */
inline class_adopt() {
	ok = 0;
	point();
	if
	:: abandoned == 0 -> skip
	:: else ->
		lock_take(heap_lock);
		point();
		d_step {
			p = 0;
			do
			:: p < PAGES && (!(abandoned & ONE(p)) ||
				(used[p] == formed[p] && COUNT(remote[p]) == 0)) ->
				p++
			:: else -> break
			od;
			if
			:: p < PAGES -> list_remove(abandoned, p); ok = 1
			:: else -> p = 0
			fi
		}
		if
		:: ok -> point(); d_step {
			CHANGE(p, TRANSIT);
			holder[p] = TRANSIT_OF(self)
		}
		:: else
		fi;
		lock_leave(heap_lock);
		if
		:: ok -> abandoned_adopt()
		:: else
		fi
	fi
}

/* ok: slices were free; page p has them, in TRANSIT. */
inline slices_take() {
	lock_take(heap_lock);
	d_step {
		ok = 0;
		p = 0;
		do
		:: p < PAGES && !(slices & ONE(p)) -> p++
		:: else -> break
		od;
		if
		:: p < PAGES ->
			ok = 1;
			slices = slices & ~ONE(p);
			SAY("page %d is opened, context %d\n", p, me);
			holder[p] = TRANSIT_OF(self);
			owner[p] = NONE;
			remote[p] = WORD(TRANSIT, 0);
			used[p] = 0;
			formed[p] = 0;
			free[p] = 0;
			wake[p] = NONE
		:: else -> p = 0
		fi
	}
	lock_leave(heap_lock)
}

/* Forms n blocks. */
inline fl_page_form(page) {
	d_step {
		touch(page);
		do
		:: n > 0 ->
			BLOCK(page, formed[page]) = FREE;
			free[page] = free[page] | 1 << formed[page];
			formed[page]++;
			n--
		:: else -> break
		od
	}
}

/* p: a page with a free block, which all queued ones have, and then some dry
 * ones; or NONE. */
inline queue_fullest() {
	d_step {
		p = 0;
		do
		:: p < PAGES && !(queue[me] & ONE(p)) -> p++
		:: else -> break
		od;
		if
		:: p < PAGES -> assert(free[p] != 0); touch(p)
		:: else ->
			p = 0;
			do
			:: p < PAGES && !((dry[me] & ONE(p)) && free[p] != 0) ->
				p++
			:: else -> break
			od;
			if
			:: p < PAGES -> touch(p)
			:: else -> p = NONE
			fi
		fi
	}
}

/* ok: another can be the current page; this one is where it belongs. */
inline current_retire() {
	ok = 1;
	q = current[me];
	if
	:: q == NONE -> skip
	:: q != NONE && free[q] != 0 ->
#ifdef BROKEN_RETIRE
		full_insert(q)
#else
		ok = 0
#endif
	:: q != NONE && free[q] == 0 && place[q] == FULLS -> skip
	:: else ->
		local_used_up(q);
		if
		:: ok -> skip
		:: !ok && formed[q] < BLOCKS -> d_step {
			touch(q);
			current[me] = NONE;
			place[q] = NOWHERE;
			queue_link(q);
			ok = 1
		}
		:: else -> full_insert(q)
		fi
	fi;
	q = 0
}

/* ok: the class has a page with a free block, or may have. */
inline fl_local_refill() {
	ok = 0;
	n = 0;
	if
	:: current[me] != NONE -> fl_page_fold(current[me]); ok = n > 0
	:: else
	fi;
	if
	:: !ok ->
		fl_local_drain();
		queue_fullest();
		if
		:: p == NONE -> ok = 0; p = 0
		:: else ->
			d_step {
				if
				:: place[p] == QUEUE -> list_remove(queue[me], p)
				:: else -> list_remove(dry[me], p)
				fi
			}
			current_retire();
			d_step {
				if
				:: ok -> local_serve(p)
				:: else -> queue_link(p)
				fi;
				ok = 1
			}
		fi
	:: else
	fi
}

#define LISTED(page) ((fulls[me] | dry[me]) & ONE(page))
#define SALVAGED(page) (LISTED(page) && \
	(used[page] < formed[page] || COUNT(remote[page]) > 0))

/* Full and dry pages that have any free block, once each. */
inline fl_local_salvage() {
	q = 0;
	do
	:: q < PAGES && SALVAGED(q) ->
		fl_page_fold(q);
		if
		:: place[q] == FULLS -> full_leave(q)
		:: else -> d_step {
			list_remove(dry[me], q);
			queue_link(q)
		}
		fi;
		ok = 1;
		q++
	:: q < PAGES && !SALVAGED(q) -> q++
	:: q == PAGES -> break
	od;
	q = 0
}

/* ok: any block of the current page was handed out. */
inline page_pop() {
	skip;
	d_step {
		ok = 0;
		if
		:: current[me] != NONE && free[current[me]] != 0 ->
			p = current[me];
			touch(p);
			b = 0;
			do
			:: !(free[p] >> b & 1) -> b++
			:: else -> break
			od;
			assert(BLOCK(p, b) == FREE);
			BLOCK(p, b) = USER;
			free[p] = free[p] & ~(1 << b);
			used[p]++;
			ok = 1;
			SAY("block %d of page %d is handed out\n", b, p);
			p = 0;
			b = 0
		:: else
		fi
	}
}

/* Releases the page if it is empty; ok: it was. */
inline fl_class_drop(page) {
	ok = 0;
	if
	:: used[page] > 0 -> skip
	:: else ->
		point();
		if
		:: STATE(remote[page]) != OWNED -> skip
		:: else ->
			fl_local_leave(page);
			fl_class_release(page);
			ok = 1
		fi
	fi
}

inline page_trim(page) {
	fl_page_fold(page);
	fl_local_settle(page);
	fl_class_drop(page)
}

/* Empty pages that the context queues make room for a fresh one. */
inline fl_class_make_room() {
	q = 0;
	do
	:: q < PAGES && (queue[me] & ONE(q)) -> fl_class_drop(q); q++
	:: q < PAGES && !(queue[me] & ONE(q)) -> q++
	:: q == PAGES -> break
	od;
	q = 0
}

/* ------------------------------------------------------------- free.c -- */

/* A free has made a full page worth queueing: the word decides, then whoever
 * owns it is told. */
inline fl_local_notify(page) {
	point();
	word = remote[page];
	do
	:: STATE(word) != FULL -> break
	:: else ->
		point();
		if
		:: remote[page] == word ->
			remote[page] = WITH(word, NOTIFIED);
			point();
			other = owner[page];
			assert(other != NONE);
			SAY("page %d is notified for context %d\n", page, other);
			lock_take(local_lock[other]);
			notified_push(other, page);
			lock_leave(local_lock[other]);
			break
		:: else -> word = remote[page]
		fi
	od;
	word = 0;
	other = 0
}

inline own_free() {
	d_step {
		touch(p);
		assert(BLOCK(p, b) == FREEING);
		BLOCK(p, b) = FREE;
		SAY("block %d of page %d is freed by its owner\n", b, p);
		free[p] = free[p] | 1 << b;
		used[p]--
	}
	if
	:: used[p] == wake[p] ->
		ok = 0;
		if
		:: place[p] == FULLS ->
			local_full_serve(p);
			if
			:: !ok -> local_full_queue(p)
			:: else
			fi
		:: else
		fi;
		if
		:: !ok ->
			fl_local_wake(p);
			if
			:: ok -> fl_class_release(p)
			:: else
			fi
		:: else
		fi;
		ok = 0
	:: else
	fi
}

inline remote_free() {
	remote_push(p);
	n = COUNT(new);
	if
	:: STATE(new) == FULL && n == WORTH -> fl_local_notify(p)
	:: STATE(new) == ABANDONED ->
		fl_class_abandoned_free(p, n == WORTH, WANTED)
	:: else
	fi;
	new = 0
}

inline fallow_free() {
	point();
	if
#ifdef BROKEN_PARKED_FREE
	:: owner[p] == me -> own_free()
#else
	:: owner[p] == me && !parked[me] -> own_free()
#endif
	:: else -> remote_free()
	fi
}

inline fl_local_park() {
	lock_take(local_lock[me]);
	parked[me] = 1;
	lock_leave(local_lock[me])
}

inline fl_local_unpark() {
#ifdef BROKEN_UNPARK
	point();
	parked[me] = 0
#else
	lock_take(local_lock[me]);
	parked[me] = 0;
	lock_leave(local_lock[me])
#endif
}

/* A call that needs the context's lists takes it into use. */
inline fl_op_unpark() {
	if
	:: parked[me] -> fl_local_unpark()
	:: else
	fi
}

/* p: a page of the context's with an unformed tail, or NONE. */
inline fl_local_more() {
	point();
	d_step {
		p = 0;
		do
		:: p == PAGES -> p = NONE; break
		:: p < PAGES && formed[p] < BLOCKS &&
			(current[me] == p || (dry[me] & ONE(p))) &&
			STATE(remote[p]) != NOTIFIED ->
			touch(p);
			break
		:: else -> p++
		od
	}
}

#ifdef PROVIDER
/* ok: a block more of page p can be had. */
inline class_extend() {
	ok = 0;
	fl_local_more();
	if
	:: p == NONE -> p = 0
	:: else ->
#ifndef BROKEN_STAYS
		fl_local_leave(p);
#endif
#ifdef BROKEN_OWNED
		owner[p] = me;
#endif
		fl_page_fold(p);
		ok = n > 0;
		if
		:: !ok -> fl_page_commit();
			if
			:: ok -> n = 1; fl_page_form(p)
			:: else
			fi
		:: else
		fi;
		fl_page_fold(p);
		ok = ok || free[p] != 0;
#ifndef BROKEN_STAYS
		fl_local_join(p);
#endif
		p = 0
	fi
}

/* ok: the context has a fresh page, of one block. */
inline class_open() {
	fl_class_make_room();
	slices_take();
	if
	:: !ok -> fl_region_grow()
	:: else ->
		fl_page_commit();
		if
		:: ok -> n = 1; fl_page_form(p); fl_local_join(p); ok = 1
		:: else ->
#ifndef BROKEN_FORGOTTEN
			fl_class_release(p)
#endif
		fi
	fi;
	p = 0
}
#else
/* Whole pages are formed at once, in memory that was there. */
inline class_extend() {
	skip
}

inline class_open() {
	fl_class_make_room();
	slices_take();
	if
	:: ok -> n = BLOCKS; fl_page_form(p); fl_local_join(p); p = 0; ok = 1
	:: else
	fi
}
#endif

inline fl_class_alloc() {
	do
	:: page_pop();
		if
		:: ok -> break
		:: else -> fl_local_refill()
		fi;
		if
		:: !ok -> class_adopt()
		:: else
		fi;
		if
		:: !ok -> class_extend()
		:: else
		fi;
		if
		:: !ok -> class_open()
		:: else
		fi;
		if
		:: !ok -> fl_local_salvage()
		:: else
		fi;
		if
		:: !ok -> break
		:: else
		fi
	od;
	ok = 0
}

inline fl_class_trim() {
	fl_local_drain();
	p = 0;
	do
	:: p == PAGES -> break
	:: p < PAGES && (current[me] == p || QUEUED(p)) ->
		page_trim(p);
		p++
	:: p < PAGES && !(current[me] == p || QUEUED(p)) -> p++
	od;
	p = 0
}

/* A sweep looks at an abandoned page, in TRANSIT meanwhile, and makes it nobody's
 * again. */
inline abandoned_step() {
	lock_take(heap_lock);
	point();
	d_step {
		ok = 0;
		p = 0;
		do
		:: p < PAGES && !(abandoned & ONE(p)) -> p++
		:: else -> break
		od;
		if
		:: p < PAGES ->
			ok = 1;
			list_remove(abandoned, p);
			CHANGE(p, TRANSIT);
			holder[p] = TRANSIT_OF(self)
		:: else -> p = 0
		fi
	}
	lock_leave(heap_lock);
	if
	:: ok -> fl_page_fold(p); abandoned_enter(p)
	:: else
	fi
}

/* ok: a page of the parked context was handed on. */
inline offline_step() {
	lock_take(local_lock[me]);
	p = PAGES;
	if
	:: parked[me] ->
		fl_local_drain();
		p = 0;
		do
		:: p < PAGES && current[me] != p &&
			!((queue[me] | fulls[me] | dry[me]) & ONE(p)) -> p++
		:: else -> break
		od
	:: else
	fi;
	if
	:: p < PAGES ->
		ok = 1;
#ifndef BROKEN_OFFLINE
		full_end(p);
		/* Somebody may be about to tell of it. */
		if
		:: STATE(remote[p]) == NOTIFIED -> more = 1
		:: else -> page_abandon(p); ok = 1
		fi
#else
		page_abandon(p);
		ok = 1
#endif
	:: else -> ok = 0
	fi;
	p = 0;
	lock_leave(local_lock[me]);
	/* Whoever tells of it goes on; another may take it in before this
	 * thread looks again. */
	if
	:: more && notified[me] == 0 -> wait(); waiting = 0
	:: else
	fi;
	more = 0
}

inline fl_class_offline() {
	do
	:: fl_local_park();
		offline_step();
		if
		:: !ok -> break
		:: else
		fi
	od
}

/* Works on the pages of another context if it is parked. */
inline parked_trim(context) {
	me = context;
	lock_take(local_lock[me]);
	point();
	if
#ifdef BROKEN_PARK_UNSEEN
	:: true -> fl_class_trim()
#else
	:: parked[me] -> fl_class_trim()
	:: else
#endif
	fi;
	lock_leave(local_lock[me]);
	me = self
}

/* ------------------------------------------------- what must be true -- */

/* Page p is in a list that its state allows; n: blocks in its word. */
inline page_listed() {
	if
	:: place[p] == ABANDONS ->
		/* An empty one was released. */
		assert(STATE(remote[p]) == ABANDONED && n < used[p])
	:: place[p] == FULLS ->
		/* One with enough free blocks is found again; its owner's are
		 * those of the one that serves. */
		assert(STATE(remote[p]) == NOTIFIED ||
			(STATE(remote[p]) == FULL && n < WORTH));
		assert(STATE(remote[p]) == NOTIFIED || used[p] > wake[p] ||
			current[owner[p]] == p)
	:: place[p] == QUEUE ->
		assert(STATE(remote[p]) == OWNED ||
			STATE(remote[p]) == NOTIFIED);
		assert(free[p] != 0)
	:: place[p] == DRYS ->
		assert(STATE(remote[p]) == OWNED ||
			STATE(remote[p]) == NOTIFIED);
		assert(free[p] == 0 || used[p] > wake[p]);
		/* Else it is full, and others tell of it. */
		assert(formed[p] < BLOCKS)
	:: else ->
		assert(place[p] == CURRENT);
		assert(STATE(remote[p]) == OWNED ||
			STATE(remote[p]) == NOTIFIED)
	fi
}

inline page_quiet() {
	/* Every block is where its page's words say. */
	n = 0;
	q = 0;
	for (b : 0 .. BLOCKS - 1) {
		if
		:: BLOCK(p, b) == REMOTE -> n++
		:: BLOCK(p, b) == USER -> q++
		:: BLOCK(p, b) == FREE -> assert(free[p] >> b & 1)
		:: else -> assert(b >= formed[p])
		fi
	}
	assert(n == COUNT(remote[p]));
	assert(used[p] == n + q);
	assert(used[p] + BITS_OF(free[p]) == formed[p]);
	/* It is in one list, and one that its state allows. */
	q = 0;
	more = 0;
	for (i : 0 .. CONTEXTS - 1) {
		if
		:: current[i] == p ->
			assert(owner[p] == i);
			q = q + (place[p] == CURRENT -> 1 : 0)
		:: else
		fi;
		if
		:: dry[i] & ONE(p) -> q++; assert(owner[p] == i)
		:: else
		fi;
		if
		:: queue[i] & ONE(p) -> q++; assert(owner[p] == i)
		:: else
		fi;
		if
		:: fulls[i] & ONE(p) -> q++; assert(owner[p] == i)
		:: else
		fi;
		first = notified[i];
		do
		:: first == 0 -> break
		:: else -> assert(!more || first - 1 != p);
			more = more || first - 1 == p;
			assert(first - 1 != p || owner[p] == i);
			first = notified_next[first - 1]
		od;
		assert(told[i] == 0)
	}
	if
	:: abandoned & ONE(p) -> q++; assert(owner[p] == NONE)
	:: else
	fi;
	assert(more == (STATE(remote[p]) == NOTIFIED));
	/* But one that a call has while it is outside. */
	j = AWAY > 0 && holder[p] >= TRANSIT_OF(0) && holder[p] < SLICES;
	assert(q == 1 - j);
	if
	:: j -> assert(STATE(remote[p]) == TRANSIT && owner[p] == NONE)
	:: else -> page_listed()
	fi;
	j = 0
}

/* Nobody is inside a context. */
inline quiet() {
	assert(!heap_lock);
	for (p : 0 .. PAGES - 1) {
		if
		:: slices & ONE(p) ->
			assert(holder[p] == SLICES);
			for (b : 0 .. BLOCKS - 1) {
				assert(BLOCK(p, b) == UNFORMED)
			}
		:: else -> page_quiet()
		fi
	}
	p = 0;
	b = 0;
	n = 0;
	i = 0;
	q = 0;
	first = 0;
	more = 0
}

/* ---------------------------------------------------------- a thread -- */

#ifdef OPS
#define READY (turn == self && left > 0)
#define SPEND left--
#else
#define READY (turn == self)
#define SPEND skip
#endif

/* The begin of a call: inside any context that nobody is in. */
inline enter() {
	SPEND;
	running++;
	op_enter()
}

inline leave() {
	d_step {
		busy[me] = 0;
		p = 0; b = 0; n = 0; i = 0; q = 0; other = 0; first = 0;
		word = 0; old = 0; new = 0; ok = 0; more = 0; me = NONE;
		running--;
		if
		:: running == AWAY -> quiet()
		:: else
		fi
	}
	pass()
}

/* Gives a block that is handed out to fallow_free(): page p, block b. */
inline choose() {
	if
	:: at[0] == USER -> p = 0
#if PAGES * BLOCKS > 1
	:: at[1] == USER -> p = 1
#endif
#if PAGES * BLOCKS > 2
	:: at[2] == USER -> p = 2
#endif
#if PAGES * BLOCKS > 3
	:: at[3] == USER -> p = 3
#endif
	fi;
	at[p] = FREEING;
	b = p % BLOCKS;
	p = p / BLOCKS
}

#if PAGES * BLOCKS > 3
#define FREEABLE (at[0] == USER || at[1] == USER || at[2] == USER || at[3] == USER)
#elif PAGES * BLOCKS > 2
#define FREEABLE (at[0] == USER || at[1] == USER || at[2] == USER)
#else
#define FREEABLE (at[0] == USER || at[1] == USER)
#endif
