/* SPDX-License-Identifier: MIT */
/*
 * The slow path of an allocation from a class, in the order in which memory is
 * looked for:
 *
 *   1. the current page's free blocks, then what others freed of it
 *   2. another page of the class in this context (local.c)
 *   3. an abandoned page with free blocks; a larger class's (lend.c)
 *   4. an unformed tail: committed already, or committed now
 *   5. a hole in a page of this context, committed now
 *   6. a fresh page, in the fullest chunk that has room; if its first commit
 *      fails, in slices that hold memory already
 *
 * Steps 4 to 6 call the provider, and so drop the context.  The page that
 * they work on has left every list by then, in state TRANSIT; afterwards it
 * joins the context that the caller is then in, and the search begins anew,
 * since everything read before may have changed.
 *
 * heap->lock protects heap->abandoned and the slices.  A page in
 * heap->abandoned is in state ABANDONED exactly while it is linked there.
 */
#include "class.h"
#include "list.h"
#include "region.h"
#include "span.h"

/* How many abandoned pages of a class are compared. */
#define CANDIDATES 4
/* How many pages are looked at before the context, or the lock, is let go. */
#define STEP_PAGES 16
/* How many spans, and pages of all classes, are freed to make room: as many
 * pages as two chunks have slices, so that what a burst left is there for the
 * next class before that has taken much. */
#define ROOM_SPANS 8
#define ROOM_PAGES (2 * CHUNK_SLICES)

/* Links a page into heap->abandoned, in front or at the end. */
static void abandoned_insert(struct heap *heap, struct page *page, bool end)
{
	page->place = PLACE_ABANDONED;
	list_insert(&heap->abandoned[page->class], page, end);
}

/* Takes a page out of heap->abandoned. */
static void abandoned_remove(struct heap *heap, struct page *page)
{
	list_remove(&heap->abandoned[page->class], page);
	page->place = PLACE_NONE;
}

/* Takes an abandoned page out of the list, in TRANSIT.  Under heap->lock. */
static void abandoned_take(struct heap *heap, struct page *page)
{
	abandoned_remove(heap, page);
	remote_change(page, REMOTE_TRANSIT);
}

/* Makes a page that was abandoned, and has been taken out, the context's. */
static void abandoned_adopt(struct op *op, struct page *page)
{
	page_fold_cheap(page, op->local);
	counter_add(&op->local->counters.adopted, 1);
	fl_local_join(op->heap, op->local, page);
}

/* Blocks of an abandoned page that an adopter could have without a commit. */
static uint32_t abandoned_free_count(const struct page *page)
{
	/* Pairs with remote_push(), though a count needs no more than itself. */
	return page_free_count(page) +
		remote_count(page, fl_load_acquire(&page->remote));
}

/* The fullest with a free block of the first few abandoned pages. */
static struct page *abandoned_fullest(const struct heap *heap, unsigned class)
{
	struct page *page = heap->abandoned[class];
	struct page *best = NULL;
	unsigned i;

	for (i = 0; page != NULL && i < CANDIDATES; i++) {
		uint32_t count = fl_hole_pending(heap, page)
			? 0
			: abandoned_free_count(page);

		fl_watch_steps(1);
		if (count > 0 &&
			(best == NULL || count < abandoned_free_count(best)))
			best = page;
		page = page->next;
		if (page == heap->abandoned[class])
			break;
	}
	return best;
}

/* Step 3: makes an abandoned page the context's own. */
static bool class_adopt(struct op *op, unsigned class)
{
	struct heap *heap = op->heap;
	struct fl_port_state state;
	struct page *page;

	if (fl_load_relaxed(&heap->abandoned[class]) == NULL)
		return false;
	if (!op_lock_heap(op, &state))
		return false;
	page = abandoned_fullest(heap, class);
	if (page != NULL)
		abandoned_take(heap, page);
	lock_leave(&heap->lock, state);
	if (page == NULL)
		return false;
	abandoned_adopt(op, page);
	return true;
}

/* Step 4: forms more blocks, in memory committed now if need be. */
static bool class_extend(struct op *op, unsigned class)
{
	struct heap *heap = op->heap;
	struct page *page = fl_local_more(heap, op->local, class, true);
	bool more;

	if (page == NULL)
		return false;
	fl_local_leave(op->local, page);
	more = fl_page_fold(page, op->local) > 0 || fl_page_form(page);
	if (!more && fl_page_commit(op, page))
		more = fl_page_form(page);
	fl_page_fold(page, op->local);
	fl_local_join(heap, op->local, page);
	return more || page_has(page);
}

/* Step 5: brings a hole back. */
static bool class_fill(struct op *op, unsigned class)
{
	struct page *page = fl_local_more(op->heap, op->local, class, false);
	bool filled;

	if (page == NULL)
		return false;
	fl_local_leave(op->local, page);
	filled = fl_page_fold(page, op->local) > 0 || fl_hole_fill(op, page);
	fl_page_fold(page, op->local);
	fl_local_join(op->heap, op->local, page);
	return filled || page_has(page);
}

/* Slices for a page of the class, and its record; NULL if none are free, or
 * none whose chunk can have records: *tables then says so.  `populated`: only
 * slices that hold memory. */
static struct page *slices_take(
	struct op *op, unsigned class, bool populated, bool *tables)
{
	struct heap *heap = op->heap;
	unsigned n = fl_size_page_slices(class, heap->lean);
	struct page *page = NULL;
	struct fl_port_state state;
	struct run run;

	*tables = false;
	if (!op_lock_heap(op, &state))
		return NULL;
	if (populated && heap_is(heap, FALLOW_CLASS_WINDOW))
		run = fl_chunk_take_populated(heap, n,
			align_up(class_size(class), GRANULE_BYTES));
	else
		run = fl_chunk_take(heap, n);
	if (run.chunk != NULL) {
		uintptr_t base = run.chunk->base + run.first * SLICE_BYTES;

		if (fl_table_records(heap, run.chunk)) {
			page = &run.chunk->records[run.first];
			/* Whoever sees the head sees a page. */
			fl_page_init(page, run.chunk, run.first, class, n);
			page_mark_new(heap, page);
			page_use(heap, page);
			run.chunk->heads |= slice_mask(run.first, 1);
		} else {
			*tables = true;
			fl_chunk_give(heap, base, n, heap_epoch(heap));
		}
	}
	lock_leave(&heap->lock, state);
	return page;
}

/* As fl_class_release(), under heap->lock. */
static void release_locked(struct heap *heap, struct page *page)
{
	fl_assert(page_empty(heap, page));
	fl_local_account(heap, page);
	map_write(heap, page->base, page_slices(page), &fl_page_nobody);
	page->chunk->heads &= ~slice_mask(page->first_slice, 1);
	fl_chunk_give(heap, page->base, page_slices(page), page->epoch);
}

void fl_class_release(struct heap *heap, struct page *page)
{
	struct fl_port_state state = lock_take(&heap->lock);

	release_locked(heap, page);
	lock_leave(&heap->lock, state);
}

bool fl_class_release_op(struct op *op, struct page *page)
{
	struct fl_port_state state;

	if (!op_lock_heap(op, &state))
		return false;
	release_locked(op->heap, page);
	lock_leave(&op->heap->lock, state);
	return true;
}

/* Commits the first blocks of a fresh page and makes it the context's. */
static bool page_open(struct op *op, struct page *page)
{
	if (!fl_page_commit(op, page)) {
		fl_class_release(op->heap, page);
		return false;
	}
	map_write(op->heap, page->base, page_slices(page), page);
	fl_page_form(page);
	fl_local_join(op->heap, op->local, page);
	return true;
}

/* Releases the pages without a block at the end of a class's queue, `*left` of
 * them at most, which is less by then; returns whether there may be more. */
static bool queue_drop(
	struct heap *heap, struct local *local, unsigned class, unsigned *left)
{
	for (; *left > 0; --*left) {
		struct page *page = local->queue[class];

		if (page == NULL || !fl_class_drop(heap, local, page->prev))
			return false;
	}
	return true;
}

void fl_class_make_room(struct op *op)
{
	struct local *local = op->local;
	unsigned left = ROOM_PAGES;
	unsigned i, word;

	if (local == NULL || (op->flags & FALLOW_NOWAIT))
		return;
	for (i = 0; i < ROOM_SPANS && fl_span_flush(op->heap, local); i++)
		;
	for (word = 0; word < EMPTIED_WORDS && left > 0; word++) {
		uint64_t emptied = local->emptied[word];

		for (; emptied != 0 && left > 0; emptied &= emptied - 1) {
			unsigned bit = (unsigned)__builtin_ctzll(emptied);

			if (!queue_drop(op->heap, local, word * 64 + bit,
				    &left))
				local->emptied[word] &= ~((uint64_t)1 << bit);
		}
	}
}

/* Step 6: a fresh page. */
static bool class_open(struct op *op, unsigned class)
{
	unsigned n = fl_size_page_slices(class, op->heap->lean);
	size_t align = n == CHUNK_SLICES ? CHUNK_BYTES : SLICE_BYTES;
	bool nowait = op->flags & FALLOW_NOWAIT;
	struct page *page;
	bool tables;

	fl_class_make_room(op);
	do {
		page = slices_take(op, class, nowait, &tables);
		if (page != NULL && page_open(op, page))
			return true;
		/* No memory for these slices: others may have some. */
		if (page != NULL)
			break;
	} while (fl_region_grow(op, tables ? 0 : n, align) ==
		GROW_YES);
	if (nowait)
		return false;
	page = slices_take(op, class, true, &tables);
	return page != NULL && page_open(op, page);
}

void *fl_class_alloc(
	struct op *op, unsigned class, unsigned align_log2, bool *clean)
{
	for (;;) {
		struct page *page = op->local->current[class];
		void *block = page_pop(page, clean);

		if (block != NULL) {
			page_use(op->heap, page);
			if (fl_load_relaxed(&page->loose) < align_log2)
				fl_store_relaxed(&page->loose,
					(uint8_t)align_log2);
			return block;
		}
		if (fl_local_refill(op->heap, op->local, class) ||
			class_adopt(op, class))
			continue;
		block = fl_class_lend(op, class, align_log2, clean);
		if (block != NULL)
			return block;
		if (!class_extend(op, class) && !class_fill(op, class) &&
			!class_open(op, class))
			return NULL;
	}
}

/* Notes how many blocks others must free before the page is empty. */
static void abandoned_freeze(const struct heap *heap, struct page *page)
{
	fl_store_relaxed(&page->frozen,
		(uint16_t)(page_used(page) - page_hole_blocks(heap, page)));
}

/* Makes a page in TRANSIT nobody's, in heap->abandoned; `moved`: not by a sweep,
 * for which it only comes to the end. */
static void abandoned_enter(
	struct heap *heap, struct page *page, bool end, bool moved)
{
	struct fl_port_state state = lock_take(&heap->lock);
	uint32_t count;

	fl_store_relaxed(&page->owner, OWNER_NONE);
	abandoned_freeze(heap, page);
	abandoned_insert(heap, page, end);
	if (moved)
		pass_moved(heap, &heap->abandoned_moved);
	/* Pairs with remote_push(): a free that comes later sees the state, and
	 * by it the record as it is now. */
	count = remote_count(page, remote_change(page, REMOTE_ABANDONED));
	lock_leave(&heap->lock, state);
	/* Frees since the fold did not know that nobody would look. */
	if (count > 0)
		fl_class_abandoned_look(heap, page, false);
}

/* Hands a page that the context owns to whoever needs it; an empty one is
 * released.  Under local->lock; the page is not NOTIFIED. */
static void page_abandon(
	struct heap *heap, struct local *local, struct page *page)
{
	fl_local_leave(local, page);
	/* If it is empty but for what others freed, abandoning finds that. */
	page_fold_cheap(page, local);
	fl_local_account(heap, page);
	counter_add(&local->counters.abandoned, 1);
	if (page_empty(heap, page))
		fl_class_release(heap, page);
	else
		abandoned_enter(heap, page, page_free_count(page) == 0, true);
}

/*
 * Whether a context that frees into an abandoned page of the class has use for
 * the page: it queues no other of the class, so it soon goes on with these
 * blocks, which are in its cache.  That bounds what one that frees and does not
 * allocate keeps from others: a current page and a queued one a class.  In a lean
 * heap, where slices are the memory, it is nobody's until somebody needs it.
 */
static bool abandoned_wanted(const struct op *op, unsigned class)
{
	/* While it is parked the queue is whose turn it is. */
	return !op->heap->lean &&
		!heap_parked(op->heap, op->local->index) &&
		op->local->queue[class] == NULL;
}

/* What becomes of a page that may be abandoned.  `op`: it is the context's if it
 * has a block in use and one to be had; NULL: it stays nobody's. */
static void abandoned_look(
	struct heap *heap, struct op *op, struct page *page, bool worth)
{
	struct fl_port_state state = lock_take(&heap->lock);
	/* Pairs with remote_push(): with the last block come all others, whose
	 * memory is given back. */
	uint64_t word = fl_load_acquire(&page->remote);
	bool mine = false;

	if (remote_state(word) == REMOTE_ABANDONED) {
		bool fixed = fl_hole_pending(heap, page);

		abandoned_freeze(heap, page);
		mine = remote_count(page, word) == page->frozen && !fixed;
		/* Another may have used it up, and left it, since the free. */
		if (fixed || abandoned_free_count(page) == 0)
			op = NULL;
		/* Else it stays where it is: a sweep has what it has seen at
		 * the end. */
		if (mine || op != NULL) {
			abandoned_take(heap, page);
		} else if (worth) {
			abandoned_remove(heap, page);
			abandoned_insert(heap, page, false);
		}
		if (worth)
			pass_moved(heap, &heap->abandoned_moved);
	} else {
		op = NULL;
	}
	lock_leave(&heap->lock, state);
	if (mine) {
		page_used_set(page, page_used(page) - page->frozen);
		fl_class_release(heap, page);
	} else if (op != NULL) {
		abandoned_adopt(op, page);
	}
}

void fl_class_abandoned_free(struct op *op, struct page *page, unsigned class,
	uint32_t count, bool worth)
{
	if (abandoned_wanted(op, class))
		abandoned_look(op->heap, op, page, worth);
	else if (count == fl_load_relaxed(&page->frozen) || worth)
		abandoned_look(op->heap, NULL, page, worth);
}

void fl_class_abandoned_look(
	struct heap *heap, struct page *page, bool worth)
{
	abandoned_look(heap, NULL, page, worth);
}

/* The first of the class that no sweep of this number has seen: those that have
 * been are at the end, but for a few that became worth adopting since.  *missed:
 * there may be one behind those. */
static struct page *abandoned_unseen(const struct heap *heap, unsigned class,
	uint32_t number, bool *missed)
{
	struct page *page = heap->abandoned[class];
	unsigned i;

	for (i = 0; page != NULL && page_seen(page, number); i++) {
		page = page->next;
		if (page == heap->abandoned[class])
			return NULL;
		if (i == STEP_PAGES) {
			*missed |= pass_missed(heap->abandoned_moved, number);
			return NULL;
		}
		fl_watch_steps(1);
	}
	return page;
}

struct page *fl_class_abandoned_next(struct heap *heap, unsigned class,
	uint32_t number, bool *missed)
{
	struct page *page;
	struct fl_port_state state;

	if (fl_load_relaxed(&heap->abandoned[class]) == NULL)
		return NULL;
	state = lock_take(&heap->lock);
	page = abandoned_unseen(heap, class, number, missed);
	if (page != NULL) {
		pass_take(&heap->abandoned_pass, &heap->abandoned_moved,
			number);
		page->seen = number;
		abandoned_take(heap, page);
	}
	lock_leave(&heap->lock, state);
	return page;
}

void fl_class_abandoned_back(struct heap *heap, struct page *page)
{
	if (page_empty(heap, page))
		fl_class_release(heap, page);
	else
		abandoned_enter(heap, page, true, false);
}

/* Any page of the context's in this class; NULL if there is none. */
static struct page *class_any(struct local *local, unsigned class)
{
	if (local->current[class] != &fl_page_none)
		return local->current[class];
	if (local->queue[class] != NULL)
		return local->queue[class];
	if (local->dry[class] != NULL)
		return local->dry[class];
	return local->full[class];
}

/*
 * Hands on the next page of a parked context; returns whether there was one.
 * The lock keeps full pages from being notified between the look at `notified`
 * and their leaving.
 */
static bool offline_step(struct heap *heap, struct local *local)
{
	struct fl_port_state state = lock_take(&local->lock);
	struct page *page = NULL;
	bool more = false, goes = false;
	unsigned class;

	/* Others may have unparked it: then it is theirs. */
	if (FALLOW_MODEL == FALLOW_MODEL_SINGLE ||
		fl_load_relaxed(&heap->parked[local->index]) != 0) {
		/* A few of them, or else a page: others wait no longer. */
		more = !fl_local_drain(heap, local) ||
			fl_span_flush(heap, local);
		for (class = 0; !more && page == NULL && class < CLASS_COUNT;
			class++)
			page = class_any(local, class);
		/* Another CPU may be about to tell of it. */
		goes = page != NULL && fl_local_untold(page);
		if (goes)
			page_abandon(heap, local, page);
	}
	lock_leave(&local->lock, state);
	if (page != NULL && !goes)
		fl_port_pause();
	return more || page != NULL;
}

void fl_class_offline(struct op *op)
{
	struct local *local = op->local;

	for (;;) {
		/* A handler may have taken the context into use again. */
		if (op->local == local)
			fl_local_park(op->heap, local);
		if (!offline_step(op->heap, local))
			break;
		op_drop(op);
		op_enter(op);
	}
}

bool fl_class_drop(struct heap *heap, struct local *local, struct page *page)
{
	/* One that is NOTIFIED is in a list of others' making. */
	if (!page_empty(heap, page) ||
		remote_state(fl_load_relaxed(&page->remote)) != REMOTE_OWNED)
		return false;
	fl_local_leave(local, page);
	fl_class_release(heap, page);
	return true;
}

void fl_class_look(struct op *op, struct page *page)
{
	/* What the provider refused was not used: it is due again, no younger. */
	if (fl_page_fold(page, op->local) > 0)
		page->swept_used = (uint16_t)page_used(page) | PAGE_DUE;
	fl_local_account(op->heap, page);
	fl_local_settle(op->heap, op->local, page);
	if (page->place == PLACE_QUEUE || page->place == PLACE_DRY)
		(void)fl_class_drop(op->heap, op->local, page);
}

/* Looks at one page of the context's; releases it if it is empty.  Returns how
 * many pages that counts for. */
static unsigned page_trim(struct op *op, struct page *page)
{
	struct heap *heap = op->heap;
	struct local *local = op->local;
	struct fl_port_state state;
	uint32_t more = fl_page_fold(page, local);
	unsigned n = 1 + more / FOLD_BLOCKS;

	fl_local_account(heap, page);
	pass_moved(heap, &local->moved);
	fl_local_settle(heap, local, page);
	/* One of them is enough, and two would hide from trim_next() what has
	 * not been looked at. */
	if (more > 0 && page->place == PLACE_QUEUE &&
		local->queue[page->class]->looked != page->looked)
		fl_local_front(heap, local, page);
	/* One that is NOTIFIED is in a list of others' making. */
	if (!page_empty(heap, page) ||
		remote_state(fl_load_relaxed(&page->remote)) != REMOTE_OWNED ||
		!op_lock_heap(op, &state))
		return n;
	fl_local_leave(local, page);
	release_locked(heap, page);
	lock_leave(&heap->lock, state);
	return n;
}

/* The next page of a list that this pass has not looked at: the first, or behind
 * one that was put in front of it; NULL if there is none. */
static struct page *trim_next(struct page *page, uint16_t pass)
{
	if (page != NULL && page->looked == pass)
		page = page->next;
	return page == NULL || page->looked == pass ? NULL : page;
}

/* Looks at pages of a list of a class, about `most` of them, each once for one
 * pass; returns how many. */
static unsigned list_trim(
	struct op *op, struct page **head, uint16_t pass, unsigned most)
{
	struct page *page;
	unsigned n = 0;

	while (n < most && (page = trim_next(*head, pass)) != NULL) {
		page->looked = pass;
		list_remove(head, page);
		list_insert(head, page, true);
		n += page_trim(op, page);
	}
	return n;
}

bool fl_class_trim(struct op *op, uint16_t pass, unsigned most)
{
	struct local *local = op->local;
	unsigned class;
	unsigned n = 0;

	if (!fl_local_drain(op->heap, local))
		return true;
	for (class = 0; class < CLASS_COUNT; class++) {
		struct page *page = local->current[class];

		n += list_trim(op, &local->queue[class], pass, most - n);
		if (n < most)
			n += list_trim(
				op, &local->dry[class], pass, most - n);
		if (n >= most)
			return true;
		if (page != &fl_page_none && page->looked != pass) {
			page->looked = pass;
			n += page_trim(op, page);
			if (n >= most)
				return true;
		}
	}
	return false;
}

/* A number for a search, that pages looked at by another do not have. */
static uint16_t pass_begin(struct heap *heap)
{
	fl_add_relaxed(&heap->searches, 1);
	return (uint16_t)fl_load_relaxed(&heap->searches);
}

void fl_class_trim_all(struct op *op)
{
	uint16_t pass = pass_begin(op->heap);
	unsigned n = 0;

	while (!(op->flags & FALLOW_NOWAIT) &&
		fl_span_flush(op->heap, op->local))
		if (++n % ROOM_SPANS == 0) {
			op_drop(op);
			op_rejoin(op);
		}
	/* A few pages at a time: interrupts are masked for no longer.  A NOWAIT
	 * call makes do with those. */
	while (fl_class_trim(op, pass, STEP_PAGES)) {
		if (op->flags & FALLOW_NOWAIT)
			return;
		op_drop(op);
		op_rejoin(op);
	}
}

/* Whether the next refill finds a free block of the class. */
static bool queue_ready(const struct local *local, unsigned class)
{
	return local->queue[class] != NULL;
}

/* Brings an abandoned page with a free block to the front, if it is among the
 * next few; returns whether there may be another. */
static bool abandoned_salvage(struct heap *heap, unsigned class, uint16_t pass)
{
	struct fl_port_state state = lock_take(&heap->lock);
	bool more = true;
	unsigned i;

	for (i = 0; more && i < STEP_PAGES; i++) {
		struct page *page = heap->abandoned[class];

		fl_watch_steps(1);
		more = page != NULL && page->looked != pass;
		if (!more)
			break;
		page->looked = pass;
		if (abandoned_free_count(page) > 0)
			more = false;
		else
			fl_store_relaxed(&heap->abandoned[class], page->next);
	}
	lock_leave(&heap->lock, state);
	return more;
}

void fl_class_salvage(struct op *op, unsigned class)
{
	uint16_t pass = pass_begin(op->heap);
	unsigned n = 0;

	while (!queue_ready(op->local, class) &&
		fl_local_salvage(
			op->heap, op->local, class, pass)) {
		if (++n % STEP_PAGES != 0)
			continue;
		if (op->flags & FALLOW_NOWAIT)
			return;
		op_drop(op);
		op_rejoin(op);
	}
	if (queue_ready(op->local, class) || (op->flags & FALLOW_NOWAIT))
		return;
	while (abandoned_salvage(op->heap, class, pass)) {
		op_drop(op);
		op_rejoin(op);
	}
}
