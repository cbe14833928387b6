/* SPDX-License-Identifier: MIT */
/* What a context owns of a heap: see local.c. */
#ifndef CORE_LOCAL_H
#define CORE_LOCAL_H

#include "hole.h"
#include "list.h"

/* Where up to 16 pages are looked at with the context held, so many blocks of
 * others that one had count as one more: their list may be walked.  So no more are
 * than two of the smallest pages have. */
#define FOLD_BLOCKS (SLICE_BYTES / 16 / 16)

#pragma GCC visibility push(hidden)

/* Takes a page that the context owns out of its list. */
void fl_local_remove(struct local *local, struct page *page);

/* The page, in TRANSIT and in no list, is the context's from here on: its
 * current one if the class has none, else queued. */
void fl_local_join(struct heap *heap, struct local *local, struct page *page);

/* After blocks of the page have come or gone by a sweep, a fold or a refusal, it
 * is in the list that it belongs to: among the full or dry ones only as long as
 * it has less than an eighth free, and queued only if it has a free block; and
 * the owner's free that changes that is the one which takes the slow path.  By
 * its owner, who has folded; by a sweep, or whoever has noted the move. */
void fl_local_settle(
	const struct heap *heap, struct local *local, struct page *page);

/* Takes the page out of its list: it is in TRANSIT and owned by nobody
 * afterwards.  The caller owns it and has drained, and if the page is full, it
 * did so under local->lock: the page is not NOTIFIED. */
void fl_local_leave(struct local *local, struct page *page);

/*
 * Makes the class's current page one with a free block, out of what the
 * context owns and without the heap's lock; returns it, or NULL if there was
 * none.
 */
struct page *fl_local_refill(
	struct heap *heap, struct local *local, unsigned class);

/* A page of the class with an unformed tail or (`tail` false) with a hole, that
 * can be committed into; NULL if there is none among the few looked at. */
struct page *fl_local_more(const struct heap *heap, struct local *local,
	unsigned class, bool tail);

/* Queues the full pages that others have freed enough blocks of, a few of them;
 * returns whether that was all. */
bool fl_local_drain(const struct heap *heap, struct local *local);

/* Queues one more full or dry page of the class if it has a free block at all;
 * each page is looked at once in one pass.  Returns whether there may be more. */
bool fl_local_salvage(const struct heap *heap, struct local *local,
	unsigned class, uint16_t pass);

/* How many blocks of a page in such a list are in use when its owner's free is to
 * take the slow path: if it is full or dry, when an eighth is free; else, or when
 * less than that is in use, when all but the `holes` are. */
uint32_t fl_local_wake_at(
	const struct page *page, enum place place, uint32_t holes);

/* Puts a queued page where the next refill looks first. */
void fl_local_front(
	const struct heap *heap, struct local *local, struct page *page);

/* A remote free has made a full page worth queueing: its owner is told, if it
 * is still that owner's full page. */
void fl_local_notify(struct heap *heap, struct page *page);

/* From now on nobody tells the owner of the page; returns false iff somebody is
 * about to: the page is NOTIFIED.  By the owner, or under local->lock. */
bool fl_local_untold(struct page *page);

/* After the owner's free, when `used` has come down to `wake`: queues a full or
 * dry page; returns whether an empty queued one has been taken out, in TRANSIT, for
 * the caller to release. */
bool fl_local_wake(
	const struct heap *heap, struct local *local, struct page *page);

/* Others may work on the context's pages until it is unparked: its own calls
 * take the slow path, whose frees treat its pages as another's.  Does nothing
 * if it is parked.  By the context. */
void fl_local_park(struct heap *heap, struct local *local);

/* The context is about to sweep: if it is parked, it is unparked, but what others
 * free of its pages is told of as if it were not.  Returns whether it was.  By the
 * context. */
bool fl_local_sweeps(struct heap *heap, struct local *local);

/* The end of that; it is parked again iff `again`: by itself.  The caller may be
 * another by now. */
void fl_local_swept(struct heap *heap, struct local *local, bool again);

/* As fl_local_unpark(), unless somebody is working on the pages; returns
 * whether the context is not parked any more. */
bool fl_local_unpark_try(struct heap *heap, struct local *local);

/* Brings heap->live up to date with what happened to the page. */
void fl_local_account(struct heap *heap, struct page *page);

/* The same, where it is not, of a page with so many blocks in use. */
void fl_local_account_used(
	struct heap *heap, struct page *page, uint32_t used);

#pragma GCC visibility pop

/* Makes a page in no list the one that its class allocates from. */
static inline void local_serve(struct local *local, struct page *page)
{
	page->place = PLACE_CURRENT;
	page_wake_set(page, WAKE_NEVER);
	local->current[page->class] = page;
}

/* Makes a page, whose remote word says so already, a full one. */
static inline void local_full_set(
	const struct heap *heap, struct local *local, struct page *page)
{
	page->place = PLACE_FULL;
	pass_moved(heap, &local->moved);
	page_wake_set(page, (uint32_t)page->capacity - page_worth(page));
	list_insert(&local->full[page->class], page, true);
}

/* Makes the current page, which is used up, a full one, if it has nothing of
 * others' and can have no more by a commit; returns whether. */
static inline bool local_used_up(
	const struct heap *heap, struct local *local, struct page *page)
{
	uint64_t word = remote_word(REMOTE_OWNED, 0);

	/* Pairs with remote_push(), as in full_insert(). */
	if (page->place != PLACE_CURRENT || page->formed < page->capacity ||
		page_holed(page) ||
		!fl_cas_acq_rel(&page->remote, &word,
			remote_word(REMOTE_FULL, 0)))
		return false;
	local_full_set(heap, local, page);
	return true;
}

/* Makes a queued page that is empty the last of its queue, behind those that
 * have blocks, for the next burst of its class; what wants its slices, and
 * sweeps, find it there. */
static inline void local_empty_last(
	const struct heap *heap, struct local *local, struct page *page)
{
	unsigned class = page->class;

	pass_moved(heap, &local->moved);
	list_last(&local->queue[class], page);
	local->emptied[class / 64] |= (uint64_t)1 << class % 64;
}

/*
 * After the owner's free of a page without holes, when `used` has come down to
 * `wake`: makes a full page the one that its class allocates from, if that is
 * used up; returns whether it is.
 */
static inline bool local_full_serve(
	const struct heap *heap, struct local *local, struct page *page)
{
	struct page *old = local->current[page->class];

	if (old == page)
		return true;
	/* What heap->live is wrong about by more than an eighth is a search's
	 * to count; of a full page `wake` is the rest.  The page that has
	 * nothing is in no place. */
	if (page_has(old))
		return false;
	if (likely(old->place == PLACE_FULL)) {
		if (old->accounted < old->wake)
			return false;
	} else if ((uint32_t)old->capacity - old->accounted > page_worth(old) ||
		!local_used_up(heap, local, old)) {
		return false;
	}
	local->current[page->class] = page;
	return true;
}

/* The same: queues a full page that is not the current one, unless that is more
 * than a move of lists; returns whether it has.  heap->live is as wrong about it
 * as above, until it is empty or used up. */
static inline bool local_full_queue(
	const struct heap *heap, struct local *local, struct page *page)
{
	uint64_t word = remote_word(REMOTE_FULL, 0);
	uint32_t used = page->wake;

	/* Pairs with remote_push(), as in remote_full_end(). */
	if (used == 0 || page->accounted != page->capacity ||
		!fl_cas_acq_rel(&page->remote, &word,
			remote_word(REMOTE_OWNED, 0)))
		return false;
	pass_moved(heap, &local->moved);
	list_remove(&local->full[page->class], page);
	page->place = PLACE_QUEUE;
	fl_store_relaxed(&page->wake, 0);
	fl_store_relaxed(&page->above, used);
	list_insert(&local->queue[page->class], page, false);
	return true;
}

/* The same: moves a page where it belongs, if that is but a move of lists;
 * returns whether it has.  Else fl_local_wake() is to be asked. */
static inline bool local_wake_quick(
	struct heap *heap, struct local *local, struct page *page)
{
	fl_assert(!page_holed(page));
	if (page->place == PLACE_FULL)
		return local->current[page->class] != page &&
			local_full_queue(heap, local, page);
	if (page->place != PLACE_QUEUE || heap->lean || page->wake != 0 ||
		remote_state(fl_load_relaxed(&page->remote)) != REMOTE_OWNED)
		return false;
	if (page->accounted > 0)
		fl_local_account_used(heap, page, 0);
	local_empty_last(heap, local, page);
	return true;
}

#endif
