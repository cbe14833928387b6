/* SPDX-License-Identifier: MIT */
/*
 * What a context owns of a heap: per class one current page, a queue of pages
 * with room, a list of full ones, and one of those that have run dry.
 *
 *              pop/push, no test         fullest of 4
 *   current <------------------- queue <--------------- full
 *      |  ran out                  ^ an eighth is free    ^
 *      +---------------------------|----------------------+
 *
 * A page that ran out leaves the queue until an eighth of it is free again:
 * then it is worth coming back to, and the slow path stays rare.  The owner's
 * own free sees that by `wake`; another context's free sees the remote word's
 * count reach an eighth, makes the state NOTIFIED, which pins the page, and puts
 * it into the owner's `notified` list, under the owner's lock.  The owner empties
 * the list without the lock.  One that goes offline waits for a page that is
 * between the two.
 *
 * Pages without a free block but with an unformed tail or holes are *dry*: apart
 * from the queue, in which every page has a free block, so that no block is
 * missed for a commit.  They come back as full ones do, when an eighth of what
 * was formed is free.  Queued pages go to the front, but empty ones to the end.
 *
 * A full page of which an eighth comes free while the current one is used up
 * serves where it is: it is current and stays among the full ones, in state
 * FULL, until it is used up again or something else is done with it.  So where
 * blocks are replaced one by one a page changes no list.
 *
 * A *parked* context does not run for a while.  It says so in one store, and
 * from then on its calls take the slow path: `serving` names a local without
 * pages, and frees look at `parked`.  Whoever takes local->lock and finds it
 * parked may do with the lists and pages what the context itself could; the
 * context comes back by taking the lock, and so waits for one step of theirs at
 * most.  While it is parked its own frees go through the remote words, as
 * anybody's.
 *
 * Nothing here drops the context or takes heap->lock.
 */
#include "local.h"
#include "list.h"
#include "memory.h"
#include "own.h"

/* How many queued pages are compared; see core/DESIGN.md. */
#define CANDIDATES 4
/* How many notified pages are taken in at a time: interrupts are masked. */
#define DRAIN_MAX 16

/* The list that a page of this place is in. */
static struct page **list_of(
	struct local *local, const struct page *page, enum place place)
{
	if (place == PLACE_FULL)
		return &local->full[page->class];
	if (place == PLACE_DRY)
		return &local->dry[page->class];
	return &local->queue[page->class];
}

void fl_local_account_used(
	struct heap *heap, struct page *page, uint32_t used)
{
	fl_memory_live(heap,
		((size_t)used - page->accounted) * page->block_size);
	page->accounted = (uint16_t)used;
}

void fl_local_account(struct heap *heap, struct page *page)
{
	uint32_t used = page_used(page) - page_hole_blocks(heap, page);

	if (used != page->accounted)
		fl_local_account_used(heap, page, used);
}

uint32_t fl_local_wake_at(
	const struct page *page, enum place place, uint32_t holes)
{
	uint32_t worth = capacity_worth(page->formed);

	if (place == PLACE_FULL)
		return (uint32_t)page->capacity - page_worth(page);
	if (place == PLACE_DRY && holes + worth < page->formed)
		return page->formed - worth;
	return holes;
}

/* Makes the owner's free that changes where the page belongs take the slow
 * path; it is queued or dry. */
static void wake_at(const struct heap *heap, struct page *page)
{
	page_wake_set(page, fl_local_wake_at(page, (enum place)page->place,
				    page_hole_blocks(heap, page)));
}

/* Puts a page with a free block at the front of the queue, and one without at
 * the end of the dry ones: a sweep leaves there what it has seen. */
static void queue_link(
	const struct heap *heap, struct local *local, struct page *page)
{
	bool dry = !page_has(page);

	page->place = dry ? PLACE_DRY : PLACE_QUEUE;
	wake_at(heap, page);
	list_insert(list_of(local, page, (enum place)page->place), page, dry);
}

/* The same not by a sweep. */
static void queue_insert(
	const struct heap *heap, struct local *local, struct page *page)
{
	pass_moved(heap, &local->moved);
	queue_link(heap, local, page);
}

void fl_local_remove(struct local *local, struct page *page)
{
	if (local->current[page->class] == page)
		local->current[page->class] = &fl_page_none;
	if (page->place != PLACE_CURRENT)
		list_remove(list_of(local, page, (enum place)page->place),
			page);
	page->place = PLACE_NONE;
	page_wake_set(page, WAKE_NEVER);
}

void fl_local_join(struct heap *heap, struct local *local, struct page *page)
{
	/* Another thread may have announced it in the middle of this call. */
	fl_assert(!parked_open(fl_load_relaxed(&heap->parked[local->index])));
	page_unsee(heap, page);
	fl_store_relaxed(&page->owner, local->index |
			(page->kind == PAGE_SMALL ? 0 : OWNER_BITS) |
			(fl_hole_any(heap, page) ? OWNER_HOLES : 0));
	own_put(local, page);
	remote_change(page, REMOTE_OWNED);
	fl_local_account(heap, page);
	if (local->current[page->class] == &fl_page_none)
		local_serve(local, page);
	else
		queue_insert(heap, local, page);
}

void fl_local_leave(struct local *local, struct page *page)
{
	fl_assert(remote_state(fl_load_relaxed(&page->remote)) !=
		REMOTE_NOTIFIED);
	fl_local_remove(local, page);
	own_drop(local, page);
	/* First the owner, then the word: whoever frees after the change sees
	 * that nobody is notified. */
	fl_store_relaxed(&page->owner, OWNER_NONE);
	remote_change(page, REMOTE_TRANSIT);
}

/*
 * Puts a page that ran out among the full ones.  Returns false, and takes the
 * blocks in, if others have freed enough of it already.
 */
static bool full_insert(
	const struct heap *heap, struct local *local, struct page *page)
{
	uint64_t word = fl_load_relaxed(&page->remote);

	do {
		if ((word & REMOTE_BLOCKS) != 0 &&
			remote_count(page, word) >= page_worth(page)) {
			fl_page_fold(page, local);
			return false;
		}
		/* Told of it when it was full before, and the link is still on
		 * its way: the drain that finds it looks at it again. */
		if (remote_state(word) == REMOTE_NOTIFIED)
			break;
		/* Pairs with remote_push(): a later free sees the state and
		 * the count, and so notifies. */
	} while (!fl_cas_acq_rel(
		&page->remote, &word, remote_with(word, REMOTE_FULL)));
	local_full_set(heap, local, page);
	return true;
}

/* Takes the current page, which has no free block, out of the way of another;
 * returns false if it has free blocks after all. */
static bool current_retire(
	const struct heap *heap, struct local *local, unsigned class)
{
	struct page *page = local->current[class];

	if (page == &fl_page_none)
		return true;
	/* Others may have told of it while it was full before, and the drain
	 * has just taken its blocks in: among the full ones its owner's frees
	 * would have passed `wake` already. */
	if (page_has(page))
		return false;
	/* It is where it belongs, or is so easily. */
	if (page->place == PLACE_FULL || local_used_up(heap, local, page))
		return true;
	if (page->formed < page->capacity || page_holed(page))
		queue_insert(heap, local, page);
	else if (!full_insert(heap, local, page))
		return false;
	return true;
}

/* The fullest of the first few pages of a queue, or the first of them that is as
 * full as one that has just come back; all have free blocks. */
static inline struct page *queue_fullest(struct page *first)
{
	struct page *page = first;
	struct page *best = first;
	uint32_t least = page_free_count(first);
	uint32_t worth = page_worth(first);
	unsigned i;

	for (i = 1; i < CANDIDATES && least > worth; i++) {
		page = page->next;
		if (page == first)
			break;
		if (page_free_count(page) < least) {
			best = page;
			least = page_free_count(page);
		}
	}
	return best;
}

/* The fullest with a free block of the last few dry pages; NULL if there is
 * none. */
static __attribute__((noinline)) struct page *dry_fullest(struct page *first)
{
	struct page *page = first;
	struct page *best = NULL;
	unsigned i;

	for (i = 0; first != NULL && i < CANDIDATES; i++) {
		page = page->prev;
		if (page_has(page) &&
			(best == NULL ||
				page_free_count(page) < page_free_count(best)))
			best = page;
		if (page == first)
			break;
	}
	return best;
}

/* A page that was full and is in no list is queued, or if it is the one that its
 * class allocates from, it is that alone: what is current and queued would be put
 * among the full ones twice.  By a sweep, or whoever has noted the move. */
static void full_left(
	const struct heap *heap, struct local *local, struct page *page)
{
	if (local->current[page->class] == page)
		local_serve(local, page);
	else
		queue_link(heap, local, page);
}

/* A full page is full no more.  By a sweep, or whoever has noted the move. */
static void full_leave(
	const struct heap *heap, struct local *local, struct page *page)
{
	list_remove(&local->full[page->class], page);
	remote_full_end(page);
	full_left(heap, local, page);
}

/* A page out of `notified`: the owner looks at it by itself again, and it is
 * queued if it is full no more.  Returns how many blocks of others it had. */
static uint32_t notified_take(
	const struct heap *heap, struct local *local, struct page *page)
{
	uint32_t blocks;

	remote_change(page, REMOTE_OWNED);
	blocks = fl_page_fold(page, local);
	pass_moved(heap, &local->moved);
	/* The owner's own frees may have queued it before the news came, and
	 * its allocations may have filled it again. */
	if (page->place != PLACE_FULL) {
		fl_local_settle(heap, local, page);
	} else if (page_used(page) < page->formed) {
		full_leave(heap, local, page);
	} else {
		list_remove(&local->full[page->class], page);
		if (!full_insert(heap, local, page))
			full_left(heap, local, page);
	}
	return blocks;
}

/* Takes the list of notified pages over, if there is one. */
static void told_take(struct local *local)
{
	struct page *page = fl_load_relaxed(&local->notified);

	/* Pairs with notified_push(): the links come first. */
	while (page != NULL &&
		!fl_cas_acquire(&local->notified, &page, (struct page *)NULL))
		;
	local->told = page;
}

bool fl_local_drain(const struct heap *heap, struct local *local)
{
	unsigned i;

	for (i = 0; i < DRAIN_MAX; i++) {
		struct page *page;

		fl_watch_steps(1);
		if (local->told == NULL)
			told_take(local);
		page = local->told;
		if (page == NULL)
			return true;
		/* Off the list it stays NOTIFIED until it is its turn, so
		 * nobody links it again meanwhile. */
		local->told = page->notified_next;
		i += notified_take(heap, local, page) / FOLD_BLOCKS;
	}
	return false;
}

struct page *fl_local_refill(
	struct heap *heap, struct local *local, unsigned class)
{
	struct page *old = local->current[class];
	struct page *page;

	if (old != &fl_page_none) {
		if (unlikely(page_holed(old)))
			fl_local_account(heap, old);
		else if (page_used(old) != old->accounted)
			fl_local_account_used(heap, old, page_used(old));
		if (fl_page_fold(old, local) > 0)
			return old;
	}
	/* Another's news that comes right now comes the next time. */
	if (local->told != NULL || fl_load_relaxed(&local->notified) != NULL)
		fl_local_drain(heap, local);
	if (likely(local->queue[class] != NULL)) {
		page = queue_fullest(local->queue[class]);
		list_remove(&local->queue[class], page);
	} else {
		page = dry_fullest(local->dry[class]);
		if (page == NULL)
			return NULL;
		list_remove(&local->dry[class], page);
	}
	if (!current_retire(heap, local, class)) {
		queue_insert(heap, local, page);
		return old;
	}
	local_serve(local, page);
	return page;
}

/* Whether the page has, beyond its free blocks, some to be had by a commit. */
static bool has_more(const struct heap *heap, const struct page *page, bool tail)
{
	/* One that is NOTIFIED does not leave its context. */
	if (remote_state(fl_load_relaxed(&page->remote)) == REMOTE_NOTIFIED ||
		(page_holed(page) && fl_hole_pending(heap, page)))
		return false;
	return tail ? page->formed < page->capacity : page_holed(page);
}

struct page *fl_local_more(const struct heap *heap, struct local *local,
	unsigned class, bool tail)
{
	struct page *page = local->current[class];
	unsigned i;

	if (page != &fl_page_none && has_more(heap, page, tail))
		return page;
	page = local->dry[class];
	/* The youngest are at the end. */
	for (i = 0; page != NULL && i < CANDIDATES; i++) {
		page = page->prev;
		if (has_more(heap, page, tail))
			return page;
		if (page == local->dry[class])
			break;
	}
	return NULL;
}

/* Links a page into its owner's `notified` list. */
static void notified_push(struct local *local, struct page *page)
{
	struct page *first = fl_load_relaxed(&local->notified);

	do
		page->notified_next = first;
	/* Pairs with told_take(): the link comes first. */
	while (!fl_cas_release(&local->notified, &first, page));
}

/*
 * The word alone decides, before anything is known of the owner: the page may
 * have been given back and be another context's full page by now, with the very
 * same word.  As soon as it is NOTIFIED it stays whose it is, and that context
 * is told; it had so many blocks freed, so it may as well be.  Interrupts are
 * masked from one to the other: a handler that goes offline waits for it.
 */
void fl_local_notify(struct heap *heap, struct page *page)
{
	struct fl_port_state outer = fl_port_lock_enter();
	uint64_t word = fl_load_relaxed(&page->remote);

	while (remote_state(word) == REMOTE_FULL) {
		struct fl_port_state state;
		struct local *local;

		/* Pairs with full_insert(), which comes after the owner was
		 * written, and with the owner's next change of the word; the
		 * blocks of others that it carries pass on (a release
		 * sequence). */
		if (!fl_cas_acq_rel(&page->remote, &word,
			    remote_with(word, REMOTE_NOTIFIED)))
			continue;
		local = heap->locals[page_owner(page)];
		state = lock_take(&local->lock);
		notified_push(local, page);
		lock_leave(&local->lock, state);
		break;
	}
	fl_port_lock_leave(outer);
}

bool fl_local_untold(struct page *page)
{
	remote_full_end(page);
	return remote_state(fl_load_relaxed(&page->remote)) != REMOTE_NOTIFIED;
}

/* Takes the next page of a list that this pass has not looked at, which is at
 * the list's end then; NULL if there is none. */
static struct page *salvage_next(struct page **head, uint16_t pass)
{
	struct page *page = *head;

	if (page == NULL || page->looked == pass)
		return NULL;
	page->looked = pass;
	fl_store_relaxed(head, page->next);
	return page;
}

bool fl_local_salvage(const struct heap *heap, struct local *local,
	unsigned class, uint16_t pass)
{
	struct page *page = salvage_next(&local->dry[class], pass);
	uint64_t word;

	if (page == NULL)
		page = salvage_next(&local->full[class], pass);
	if (page == NULL)
		return false;
	word = fl_load_relaxed(&page->remote);
	if (page_used(page) == page->formed && remote_count(page, word) == 0)
		return true;
	fl_page_fold(page, local);
	pass_moved(heap, &local->moved);
	if (page->place == PLACE_FULL) {
		full_leave(heap, local, page);
	} else {
		list_remove(&local->dry[class], page);
		queue_link(heap, local, page);
	}
	return true;
}

void fl_local_settle(
	const struct heap *heap, struct local *local, struct page *page)
{
	bool none = !page_has(page);

	if (page->place == PLACE_FULL) {
		if (page_holed(page) || page_free_count(page) >= page_worth(page))
			full_leave(heap, local, page);
		return;
	}
	if (page->place != PLACE_QUEUE && page->place != PLACE_DRY)
		return;
	wake_at(heap, page);
	if (page->place == PLACE_QUEUE ? !none
				       : none || page_used(page) > page->wake)
		return;
	list_remove(list_of(local, page, (enum place)page->place), page);
	queue_link(heap, local, page);
}

void fl_local_front(
	const struct heap *heap, struct local *local, struct page *page)
{
	list_remove(&local->queue[page->class], page);
	queue_insert(heap, local, page);
}

bool fl_local_wake(
	const struct heap *heap, struct local *local, struct page *page)
{
	/* A page of one block is empty as soon as it is not full. */
	if (page->place == PLACE_FULL) {
		pass_moved(heap, &local->moved);
		full_leave(heap, local, page);
	}
	if (page->place != PLACE_QUEUE && page->place != PLACE_DRY)
		return false;
	/* Of a hole that the provider refused the blocks are in the word, and
	 * `wake` is as before: that was the last that its owner had. */
	if (page_used(page) == page_hole_blocks(heap, page) +
			remote_count(page, fl_load_relaxed(&page->remote)))
		fl_page_fold(page, local);
	if (!page_empty(heap, page) ||
		remote_state(fl_load_relaxed(&page->remote)) != REMOTE_OWNED) {
		pass_moved(heap, &local->moved);
		fl_local_settle(heap, local, page);
		return false;
	}
	if (!heap->lean) {
		if (page->place == PLACE_DRY) {
			list_remove(&local->dry[page->class], page);
			queue_link(heap, local, page);
		}
		local_empty_last(heap, local, page);
		return false;
	}
	fl_local_leave(local, page);
	return true;
}

/* What allocations of a parked context look into. */
struct local fl_local_none = {
	.current = { [0 ... CLASS_COUNT - 1] = &fl_page_none },
	.index = FALLOW_NO_CONTEXT,
	/* It keeps no more spans. */
	.kept_count = UINT32_MAX,
};

/* Under local->lock.  What the context wrote before is seen by whoever takes
 * the lock and finds it parked, and the other way round. */
static void parked_set(
	struct heap *heap, struct local *local, enum parked parked)
{
	uint8_t before = fl_load_relaxed(&heap->parked[local->index]);

	/* Whoever parked it by its own means has to do so again. */
	if (parked == PARKED_NOT && before >= PARKED_ANNOUNCED)
		fl_store_relaxed(&heap->roused, 1);
	if ((before == PARKED_NOT) != (parked == PARKED_NOT))
		fl_add_relaxed(&heap->parked_count,
			before == PARKED_NOT ? 1 : (uint32_t)-1);
	fl_store_relaxed(&heap->parked[local->index], (uint8_t)parked);
	/* The context may be reading it, if another parks it. */
	fl_store_relaxed(&heap->serving[local->index],
		parked == PARKED_NOT ? local : &fl_local_none);
	if (FL_PORT_SERVES)
		fl_port_serve(local->index, served_local(heap, local->index),
			served_own(heap, local->index),
			served_owner(heap, local->index));
}

void fl_local_park(struct heap *heap, struct local *local)
{
	struct fl_port_state state;

	if (FALLOW_MODEL == FALLOW_MODEL_SINGLE)
		return;
	state = lock_take(&local->lock);
	heap_changed(heap);
	parked_set(heap, local, PARKED_ITSELF);
	lock_leave(&local->lock, state);
}

bool fl_local_sweeps(struct heap *heap, struct local *local)
{
	struct fl_port_state state;
	bool parked;

	if (!heap_parked(heap, local->index))
		return false;
	state = lock_take(&local->lock);
	parked = heap_parked(heap, local->index);
	if (parked) {
		/* First: at no moment others take it for one that runs. */
		fl_store_relaxed(&local->parks_again, local->parks_again + 1);
		fl_add_relaxed(&heap->parked_count, 1);
		parked_set(heap, local, PARKED_NOT);
	}
	lock_leave(&local->lock, state);
	return parked;
}

void fl_local_swept(struct heap *heap, struct local *local, bool again)
{
	struct fl_port_state state = lock_take(&local->lock);

	/* No change: this sweep has seen what was there, and whoever added to
	 * it meanwhile has said so. */
	if (again)
		parked_set(heap, local, PARKED_ITSELF);
	else
		heap_changed(heap);
	fl_store_relaxed(&local->parks_again, local->parks_again - 1);
	fl_add_relaxed(&heap->parked_count, (uint32_t)-1);
	lock_leave(&local->lock, state);
}

void fl_local_unpark(struct heap *heap, struct local *local)
{
	struct fl_port_state state = lock_take(&local->lock);

	parked_set(heap, local, PARKED_NOT);
	lock_leave(&local->lock, state);
}

bool fl_local_unpark_try(struct heap *heap, struct local *local)
{
	struct fl_port_state state;

	if (!lock_try(&local->lock, &state))
		return false;
	parked_set(heap, local, PARKED_NOT);
	lock_leave(&local->lock, state);
	return true;
}

/* Changes how the context is parked, if it is so now; returns how it is then. */
static uint8_t parked_change(struct heap *heap, struct local *local,
	enum parked from, enum parked to)
{
	struct fl_port_state state = lock_take(&local->lock);
	uint8_t parked = fl_load_relaxed(&heap->parked[local->index]);

	if (parked == from) {
		if (parked_open((uint8_t)to))
			heap_changed(heap);
		parked_set(heap, local, to);
		parked = (uint8_t)to;
	}
	lock_leave(&local->lock, state);
	return parked;
}

/*
 * The two steps of parking a context that runs.  After the first its calls take
 * the slow path; one that has begun before may still be under way, on the pages
 * themselves.  The caller of the second knows that it is over: by a barrier in
 * every thread, and a look at what the port notes at the begin and end of a
 * call.  In between the caller holds nothing, and the context may come back.
 */
void fallow_park_context(struct fallow *fallow, unsigned context)
{
	struct heap *heap = heap_of(fallow);

	if (FALLOW_MODEL == FALLOW_MODEL_THREAD &&
		context < fl_load_relaxed(&heap->contexts))
		(void)parked_change(heap, heap->locals[context], PARKED_NOT,
			PARKED_ANNOUNCED);
}

bool fallow_park_settle(struct fallow *fallow, unsigned context)
{
	struct heap *heap = heap_of(fallow);

	return FALLOW_MODEL == FALLOW_MODEL_THREAD &&
		context < fl_load_relaxed(&heap->contexts) &&
		parked_open(parked_change(heap, heap->locals[context],
			PARKED_ANNOUNCED, PARKED_SETTLED));
}

void fallow_park_cancel(struct fallow *fallow, unsigned context)
{
	struct heap *heap = heap_of(fallow);

	if (FALLOW_MODEL == FALLOW_MODEL_THREAD &&
		context < fl_load_relaxed(&heap->contexts))
		(void)parked_change(heap, heap->locals[context],
			PARKED_ANNOUNCED, PARKED_NOT);
}
