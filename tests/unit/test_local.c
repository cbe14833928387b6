/* SPDX-License-Identifier: MIT */
/*
 * A context's lists: which page is current, in what order others are queued,
 * and the news that a full page has room again, by its owner's frees and by
 * others'.
 */
#include "white.h"

#define MIB ((size_t)1 << 20)
/* 64 blocks a page, so an eighth of it is 8. */
#define CLASS size_class(1024)

static struct rig *begin(void)
{
	return rig_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 2);
}

static struct local *local_of(struct rig *rig)
{
	return white_heap(rig)->locals[0];
}

/* A page in the context's lists with so many blocks in use. */
static struct page *joined(struct rig *rig, unsigned used)
{
	struct page *page = white_page_whole(rig, CLASS);

	white_pop(page, used);
	fl_local_join(white_heap(rig), local_of(rig), page);
	return page;
}

/* A page among the full ones; another with 64 free blocks is current. */
static struct page *full(struct rig *rig)
{
	struct page *page = joined(rig, 64);
	struct page *other = joined(rig, 0);

	CHECK(fl_local_refill(white_heap(rig), local_of(rig), CLASS));
	CHECK(local_of(rig)->current[CLASS] == other);
	CHECK_EQUAL(page->place, PLACE_FULL);
	return page;
}

/* Frees a block of a page as its owner does, without what follows. */
static void own_free(struct page *page, uint32_t index)
{
	struct block *block = white_block(page, index);

	block->mark = page->mark;
	block->next = page->free;
	page->free = block;
	page->above--;
}

/* Frees a block of a page as somebody else; returns the word. */
static uint64_t other_free(struct rig *rig, struct page *page, uint32_t index)
{
	white_free(rig, 1, white_block(page, index));
	return page->remote;
}

/* The first is current; others are queued, the newest first, and those without
 * a free block are dry. */
static void test_local_join(void)
{
	struct rig *rig = begin();
	struct local *local = local_of(rig);
	struct page *first = joined(rig, 1);
	struct page *second = joined(rig, 2);
	struct page *third = joined(rig, 3);
	struct page *none = white_page_new(rig, CLASS);

	fl_local_join(white_heap(rig), local, none);
	CHECK(local->current[CLASS] == first);
	CHECK_EQUAL(first->place, PLACE_CURRENT);
	CHECK_EQUAL(first->wake, UINT32_MAX);
	CHECK(local->queue[CLASS] == third);
	CHECK(third->next == second && second->next == third);
	CHECK(local->dry[CLASS] == none && none->next == none);
	CHECK_EQUAL(none->place, PLACE_DRY);
	CHECK_EQUAL(third->place, PLACE_QUEUE);
	CHECK_EQUAL(third->wake, 0);
	CHECK_EQUAL(third->owner, 0);
	CHECK_EQUAL(remote_state(third->remote), REMOTE_OWNED);
	CHECK(local->queue[CLASS + 1] == NULL);
	rig_end_now(rig, true);
}

/* A page that leaves is nobody's, and what was beside it is linked. */
static void test_local_leave(void)
{
	struct rig *rig = begin();
	struct local *local = local_of(rig);
	struct page *current = joined(rig, 1);
	struct page *a = joined(rig, 1), *b = joined(rig, 1);
	struct page *c = joined(rig, 1);

	CHECK(local->queue[CLASS] == c);
	fl_local_leave(local, b);
	CHECK_EQUAL(b->owner, OWNER_NONE);
	CHECK_EQUAL(remote_state(b->remote), REMOTE_TRANSIT);
	CHECK_EQUAL(b->place, PLACE_NONE);
	CHECK(c->next == a && a->next == c && a->prev == c);
	fl_local_leave(local, c);
	CHECK(local->queue[CLASS] == a && a->next == a && a->prev == a);
	fl_local_leave(local, a);
	CHECK(local->queue[CLASS] == NULL);
	fl_local_leave(local, current);
	CHECK(local->current[CLASS] == &fl_page_none);
	rig_end_now(rig, true);
}

/* Of the first four queued pages the fullest one becomes current, or the first
 * of which no more than an eighth is free; what is behind them is not looked
 * at. */
static void test_local_refill_fullest(void)
{
	static const unsigned used[] = { 63, 50, 64, 10, 20 };
	struct rig *rig = begin();
	struct local *local = local_of(rig);
	struct page *current = joined(rig, 64);
	struct page *pages[5];

	for (unsigned i = 0; i < 5; i++)
		pages[i] = joined(rig, used[i]);
	/* 20 10 50 63, and the one without a free block is not among them. */
	CHECK(local->queue[CLASS] == pages[4]);
	CHECK(local->queue[CLASS]->prev == pages[0]);
	CHECK(local->dry[CLASS] == pages[2]);
	CHECK(fl_local_refill(white_heap(rig), local, CLASS));
	CHECK(local->current[CLASS] == pages[0]);
	CHECK_EQUAL(current->place, PLACE_FULL);
	white_pop(pages[0], 1);
	joined(rig, 5);
	joined(rig, 6);
	/* 6 5 20 10 50: the fifth is not compared. */
	CHECK(fl_local_refill(white_heap(rig), local, CLASS));
	CHECK(local->current[CLASS] == pages[4]);
	/* What it has handed out is counted. */
	CHECK_EQUAL(pages[0]->accounted, 64);
	white_check(rig);
	white_pop(pages[4], 44);
	joined(rig, 63);
	pages[1] = joined(rig, 56);
	joined(rig, 55);
	/* 55 56 63 6: the second will do. */
	CHECK(fl_local_refill(white_heap(rig), local, CLASS));
	CHECK(local->current[CLASS] == pages[1]);
	white_check(rig);
	rig_end_now(rig, true);
}

/* Without any other page the full one stays, unless somebody freed of it. */
static void test_local_refill_own(void)
{
	struct rig *rig = begin();
	struct local *local = local_of(rig);
	struct page *page = joined(rig, 64);

	CHECK(!fl_local_refill(white_heap(rig), local, CLASS));
	CHECK(local->current[CLASS] == page);
	other_free(rig, page, 7);
	CHECK(fl_local_refill(white_heap(rig), local, CLASS));
	CHECK(local->current[CLASS] == page);
	CHECK(page->free == white_block(page, 7));
	CHECK_EQUAL(local->counters.remote_frees, 1);
	rig_end_now(rig, true);
}

/* A page that ran out with a tail is dry, and is found. */
static void test_local_tail(void)
{
	struct rig *rig = begin();
	struct heap *heap = white_heap(rig);
	struct local *local = local_of(rig);
	struct page *tail = white_page_new(rig, CLASS);
	struct page *other;

	CHECK(fl_local_more(white_heap(rig), local, CLASS, true) == NULL);
	fl_local_join(heap, local, tail);
	CHECK(fl_local_more(white_heap(rig), local, CLASS, true) == tail);
	other = joined(rig, 10);
	CHECK(fl_local_refill(heap, local, CLASS));
	CHECK(local->current[CLASS] == other);
	CHECK_EQUAL(tail->place, PLACE_DRY);
	CHECK(fl_local_more(white_heap(rig), local, CLASS, true) == tail);
	joined(rig, 63);
	CHECK(fl_local_more(white_heap(rig), local, CLASS, true) == tail);
	fl_local_leave(local, tail);
	CHECK(fl_local_more(white_heap(rig), local, CLASS, true) == NULL);
	rig_end_now(rig, true);
}

/* Frees an eighth of a page's blocks, from `first` on. */
static void eighth_free(struct page *page, uint32_t first)
{
	for (uint32_t i = first; i < first + 8; i++)
		own_free(page, i);
}

/* A full page of which an eighth came free, while the current one is used up,
 * serves where it is; that one is among the full ones by then. */
static void test_local_full_serve(void)
{
	struct rig *rig = begin();
	struct heap *heap = white_heap(rig);
	struct local *local = local_of(rig);
	struct page *page = full(rig);
	struct page *other = local->current[CLASS];

	white_pop(other, 64);
	eighth_free(page, 0);
	/* All of the other's blocks are still to be counted. */
	CHECK(!local_full_serve(heap, local, page));
	fl_local_account(heap, other);
	CHECK(local_full_serve(heap, local, page));
	CHECK(local->current[CLASS] == page);
	CHECK_EQUAL(page->place, PLACE_FULL);
	CHECK_EQUAL(remote_state(page->remote), REMOTE_FULL);
	CHECK_EQUAL(other->place, PLACE_FULL);
	CHECK_EQUAL(remote_state(other->remote), REMOTE_FULL);
	CHECK_EQUAL(other->wake, 64 - 8);
	CHECK(page->next == other && other->next == page);
	CHECK(local->queue[CLASS] == NULL);
	/* Used up again it needs nothing more, and neither does the other. */
	white_pop(page, 8);
	CHECK_EQUAL(page_used(page), page->wake + 8);
	eighth_free(other, 0);
	page->accounted -= 9;
	CHECK(!local_full_serve(heap, local, other));
	page->accounted += 9;
	CHECK(local_full_serve(heap, local, other));
	CHECK(local->current[CLASS] == other);
	CHECK(local_full_serve(heap, local, other));
	white_check(rig);
	/* With more free it is current alone. */
	eighth_free(other, 8);
	fl_local_settle(heap, local, other);
	CHECK_EQUAL(other->place, PLACE_CURRENT);
	CHECK_EQUAL(other->wake, UINT32_MAX);
	CHECK_EQUAL(remote_state(other->remote), REMOTE_OWNED);
	CHECK(local->full[CLASS] == page && page->next == page);
	white_check(rig);
	rig_end_now(rig, true);
}

/* Not while the current page has something: a block, one of others', a tail. */
static void test_local_full_serve_not(void)
{
	for (unsigned what = 0; what < 3; what++) {
		struct rig *rig = begin();
		struct local *local = local_of(rig);
		struct page *page = full(rig);
		struct page *other = local->current[CLASS];

		if (what == 2) {
			fl_local_leave(local, other);
			other = white_page_new(rig, CLASS);
			fl_local_join(white_heap(rig), local, other);
		}
		white_pop(other, what == 0 ? 63 : what == 1 ? 64 : 0);
		fl_local_account(white_heap(rig), other);
		if (what == 1)
			other_free(rig, other, 5);
		eighth_free(page, 0);
		CHECK(!local_full_serve(white_heap(rig), local, page));
		CHECK(local->current[CLASS] == other);
		/* Nor for a context that is being parked. */
		CHECK(!local_full_serve(
			white_heap(rig), &fl_local_none, page));
		CHECK(fl_local_none.current[CLASS] == &fl_page_none);
		CHECK(!fl_local_wake(white_heap(rig), local, page));
		CHECK_EQUAL(page->place, PLACE_QUEUE);
		rig_end_now(rig, true);
	}
}

/* A full page that serves, and of which others free enough to tell of it, or
 * that leaves, or that runs out while the queue has another. */
static void test_local_full_serve_ends(void)
{
	for (unsigned what = 0; what < 3; what++) {
		struct rig *rig = begin();
		struct heap *heap = white_heap(rig);
		struct local *local = local_of(rig);
		struct page *page = full(rig);
		struct page *other = local->current[CLASS];

		white_pop(other, 64);
		fl_local_account(heap, other);
		eighth_free(page, 0);
		CHECK(local_full_serve(heap, local, page));
		if (what == 0) {
			for (uint32_t i = 8; i < 16; i++)
				other_free(rig, page, i);
			CHECK_EQUAL(remote_state(page->remote),
				REMOTE_NOTIFIED);
			CHECK(fl_local_drain(heap, local));
			CHECK_EQUAL(page->place, PLACE_CURRENT);
			CHECK_EQUAL(page_used(page), 64 - 16);
			white_check(rig);
		} else if (what == 1) {
			fl_local_untold(page);
			fl_local_leave(local, page);
			CHECK(local->current[CLASS] == &fl_page_none);
			CHECK(local->full[CLASS] == other);
			CHECK(other->next == other);
		} else {
			struct page *third = joined(rig, 0);

			white_pop(page, 8);
			CHECK(fl_local_refill(heap, local, CLASS));
			CHECK(local->current[CLASS] == third);
			CHECK_EQUAL(page->place, PLACE_FULL);
			white_check(rig);
		}
		rig_end_now(rig, true);
	}
}

/* The same by a move alone: a full page is queued, an empty queued one goes to
 * its queue's end, where whoever wants its slices finds it.  What takes more is
 * left as it is. */
static void test_local_wake_quick(void)
{
	struct rig *rig = begin();
	struct heap *heap = white_heap(rig);
	struct local *local = local_of(rig);
	struct page *page = full(rig);
	struct page *front = joined(rig, 1), *last;
	void *block;

	eighth_free(page, 0);
	/* Others have freed of it. */
	white_free(rig, 1, white_block(page, 20));
	CHECK(!local_wake_quick(heap, local, page));
	CHECK_EQUAL(page->place, PLACE_FULL);
	CHECK_EQUAL(fl_page_fold(page, local), 1);
	white_pop(page, 1);
	/* heap->live is too far from it. */
	page->accounted--;
	CHECK(!local_wake_quick(heap, local, page));
	page->accounted++;
	heap->sweeps++;
	CHECK(local_wake_quick(heap, local, page));
	CHECK_EQUAL(local->moved, heap->sweeps);
	CHECK_EQUAL(page->place, PLACE_QUEUE);
	CHECK_EQUAL(page->wake, 0);
	CHECK_EQUAL(page_used(page), 64 - 8);
	CHECK_EQUAL(page->remote, remote_word(REMOTE_OWNED, 0));
	CHECK(local->full[CLASS] == NULL);
	CHECK(local->queue[CLASS] == page && page->next == front);
	white_check(rig);
	last = joined(rig, 0);
	block = white_pop(last, 1);
	fl_local_account(heap, last);
	for (uint32_t i = 8; i < 64; i++)
		own_free(page, i);
	/* Told of, though it is not full any more. */
	page->remote = remote_word(REMOTE_NOTIFIED, 0);
	CHECK(!local_wake_quick(heap, local, page));
	page->remote = remote_word(REMOTE_OWNED, 0);
	CHECK_EQUAL(heap->counters.live, (64 + 1 + 1) * 1024);
	heap->lean = true;
	CHECK(!local_wake_quick(heap, local, page));
	heap->lean = false;
	CHECK(local->queue[CLASS] == last && last->next == page);
	heap->sweeps++;
	CHECK(local_wake_quick(heap, local, page));
	CHECK_EQUAL(local->moved, heap->sweeps);
	CHECK_EQUAL(heap->counters.live, (1 + 1) * 1024);
	CHECK(local->queue[CLASS] == last && last->next == front);
	CHECK(front->next == page && page->next == last);
	CHECK(local->emptied[CLASS / 64] >> CLASS % 64 & 1);
	white_check(rig);
	/* From the front. */
	own_free(last, page_index(last, (uintptr_t)block));
	CHECK(local_wake_quick(heap, local, last));
	CHECK(local->queue[CLASS] == front && front->prev == last);
	CHECK(local_wake_quick(heap, local, last));
	CHECK(local->queue[CLASS] == front && front->prev == last);
	white_check(rig);
	rig_end_now(rig, true);
}

/* The owner's frees: an eighth of a full page, and not one less. */
static void test_local_wake_eighth(void)
{
	struct rig *rig = begin();
	struct local *local = local_of(rig);
	struct page *page = full(rig);

	CHECK_EQUAL(remote_state(page->remote), REMOTE_FULL);
	CHECK_EQUAL(page->wake, 64 - 8);
	for (uint32_t i = 0; i < 8; i++)
		own_free(page, i);
	CHECK_EQUAL(page_used(page), page->wake);
	CHECK(!fl_local_wake(white_heap(rig), local, page));
	CHECK_EQUAL(page->place, PLACE_QUEUE);
	CHECK_EQUAL(remote_state(page->remote), REMOTE_OWNED);
	CHECK(local->full[CLASS] == NULL && local->queue[CLASS] == page);
	CHECK_EQUAL(page->wake, 0);
	for (uint32_t i = 8; i < 64; i++)
		own_free(page, i);
	CHECK(fl_local_wake(white_heap(rig), local, page));
	CHECK_EQUAL(page->place, PLACE_NONE);
	CHECK_EQUAL(remote_state(page->remote), REMOTE_TRANSIT);
	CHECK(local->queue[CLASS] == NULL);
	rig_end_now(rig, true);
}

/* Through the public calls the same: the block that makes it an eighth. */
static void test_local_wake_by_free(void)
{
	struct rig *rig = begin();
	void *blocks[127];
	struct page *page;

	/* The current page has a block left. */
	for (unsigned i = 0; i < 127; i++)
		CHECK((blocks[i] = fallow_alloc(&rig->heap, 1024)) != NULL);
	page = white_page(rig, blocks[0]);
	CHECK(page == white_page(rig, blocks[63]));
	for (unsigned i = 0; i < 8; i++) {
		CHECK_EQUAL(page->place, PLACE_FULL);
		fallow_free(&rig->heap, blocks[i]);
	}
	CHECK_EQUAL(page->place, PLACE_QUEUE);
	white_check(rig);
	rig_end_now(rig, true);
}

/* Others' frees: the one that makes it an eighth notifies the owner, once; the
 * page is the owner's to queue when it drains. */
static void test_local_notify(void)
{
	struct rig *rig = begin();
	struct local *local = local_of(rig);
	struct page *page = full(rig);

	for (uint32_t i = 0; i < 7; i++)
		CHECK_EQUAL(remote_state(other_free(rig, page, i)),
			REMOTE_FULL);
	CHECK(local->notified == NULL);
	for (uint32_t i = 7; i < 12; i++) {
		CHECK_EQUAL(remote_state(other_free(rig, page, i)),
			REMOTE_NOTIFIED);
		CHECK(local->notified == page && page->notified_next == NULL);
	}
	CHECK_EQUAL(page->place, PLACE_FULL);
	CHECK(!lock_held(&local->lock));
	white_check(rig);
	fl_local_drain(white_heap(rig), local);
	CHECK(local->notified == NULL);
	CHECK_EQUAL(page->place, PLACE_QUEUE);
	CHECK_EQUAL(page_used(page), 64 - 12);
	CHECK_EQUAL(page->remote, remote_word(REMOTE_OWNED, 0));
	white_check(rig);
	rig_end_now(rig, true);
}

/* What was freed before it went among the full ones is not waited for. */
static void test_local_full_freed_before(void)
{
	struct rig *rig = begin();
	struct local *local = local_of(rig);
	struct page *page = joined(rig, 64);
	struct page *other;

	other = joined(rig, 60);
	/* Below an eighth it goes, and its word stays as it is. */
	for (uint32_t i = 0; i < 8; i++)
		CHECK_EQUAL(remote_state(other_free(rig, page, i)),
			REMOTE_OWNED);
	CHECK(local->notified == NULL);
	/* The refill folds: it has a block, and stays. */
	CHECK(fl_local_refill(white_heap(rig), local, CLASS));
	CHECK(local->current[CLASS] == page);
	CHECK_EQUAL(page_used(page), 56);
	white_pop(page, 8);
	CHECK(fl_local_refill(white_heap(rig), local, CLASS));
	CHECK(local->current[CLASS] == other);
	CHECK_EQUAL(page->place, PLACE_FULL);
	rig_end_now(rig, true);
}

/* Notified, then queued by the owner's own frees, then filled again: the news
 * find a page that is no longer among the full ones, or full once more. */
static void test_local_notified_late(void)
{
	struct rig *rig = begin();
	struct local *local = local_of(rig);
	struct page *page = full(rig);

	for (uint32_t i = 0; i < 8; i++)
		other_free(rig, page, i);
	CHECK_EQUAL(remote_state(page->remote), REMOTE_NOTIFIED);
	for (uint32_t i = 8; i < 16; i++)
		own_free(page, i);
	CHECK(!fl_local_wake(white_heap(rig), local, page));
	CHECK_EQUAL(page->place, PLACE_QUEUE);
	CHECK_EQUAL(remote_state(page->remote), REMOTE_NOTIFIED);
	white_check(rig);
	for (uint32_t i = 16; i < 64; i++)
		own_free(page, i);
	/* Nothing left but what the word holds. */
	CHECK_EQUAL(page_used(page), 8);
	fl_local_drain(white_heap(rig), local);
	CHECK_EQUAL(page->place, PLACE_QUEUE);
	CHECK_EQUAL(page_used(page), 0);
	CHECK_EQUAL(page->remote, remote_word(REMOTE_OWNED, 0));
	white_check(rig);
	rig_end_now(rig, true);
}

/* An empty page that others still have in `notified` does not go. */
static void test_local_wake_notified_stays(void)
{
	struct rig *rig = begin();
	struct local *local = local_of(rig);
	struct page *page;

	joined(rig, 0);
	page = joined(rig, 0);
	CHECK_EQUAL(page->place, PLACE_QUEUE);
	page->remote = remote_word(REMOTE_NOTIFIED, 0);
	local->notified = page;
	CHECK(!fl_local_wake(white_heap(rig), local, page));
	CHECK_EQUAL(page->place, PLACE_QUEUE);
	fl_local_drain(white_heap(rig), local);
	CHECK(fl_local_wake(white_heap(rig), local, page));
	rig_end_now(rig, true);
}

/* live is a page's blocks as of when it was looked at; the peak stays. */
static void test_local_account(void)
{
	struct rig *rig = begin();
	struct heap *heap = white_heap(rig);
	struct page *page = joined(rig, 20);

	CHECK_EQUAL(heap->counters.live, 20 * 1024);
	white_pop(page, 10);
	CHECK_EQUAL(heap->counters.live, 20 * 1024);
	fl_local_account(heap, page);
	CHECK_EQUAL(heap->counters.live, 30 * 1024);
	for (uint32_t i = 0; i < 15; i++)
		own_free(page, i);
	fl_local_account(heap, page);
	fl_local_account(heap, page);
	CHECK_EQUAL(heap->counters.live, 15 * 1024);
	CHECK_EQUAL(heap->counters.live_peak, 30 * 1024);
	rig_end_now(rig, true);
}

/* Frees of others that make a full page worth queueing, with the notifier
 * stopped after its change of the word and before its link. */
static void notify_begin(struct rig *rig, struct page *page)
{
	struct block *block = white_block(page, 7);
	bool taken;

	for (uint32_t i = 0; i < 7; i++)
		other_free(rig, page, i);
	block->mark = page->mark;
	remote_push(page, block, 7, &taken);
	remote_change(page, REMOTE_NOTIFIED);
	page->notified_next = local_of(rig)->notified;
}

/* It goes on. */
static void notify_end(struct rig *rig, struct page *page)
{
	local_of(rig)->notified = page;
	white_check(rig);
}

/* Filled anew meanwhile: it stays NOTIFIED, so nobody links it again. */
static void test_local_notify_window_full(void)
{
	struct rig *rig = begin();
	struct heap *heap = white_heap(rig);
	struct local *local = local_of(rig);
	struct page *page = full(rig);

	notify_begin(rig, page);
	for (uint32_t i = 8; i < 16; i++)
		own_free(page, i);
	CHECK(!fl_local_wake(white_heap(rig), local, page));
	CHECK_EQUAL(page->place, PLACE_QUEUE);
	white_pop(local->current[CLASS], 64);
	CHECK(fl_local_refill(heap, local, CLASS));
	CHECK(local->current[CLASS] == page);
	white_pop(page, 8);
	CHECK(fl_local_refill(heap, local, CLASS));
	white_pop(page, 8);
	joined(rig, 0);
	CHECK(fl_local_refill(heap, local, CLASS));
	CHECK_EQUAL(page->place, PLACE_FULL);
	CHECK_EQUAL(remote_state(page->remote), REMOTE_NOTIFIED);
	notify_end(rig, page);
	for (uint32_t i = 0; i < 9; i++)
		other_free(rig, page, i);
	CHECK_OR_RETURN(page->notified_next != page);
	fl_local_drain(white_heap(rig), local);
	CHECK_EQUAL(page->place, PLACE_QUEUE);
	CHECK_EQUAL(page_used(page), 64 - 9);
	white_check(rig);
	rig_end_now(rig, true);
}

/* Emptied and looked at meanwhile: it stays until its link was seen. */
static void test_local_notify_window_trim(void)
{
	struct rig *rig = begin();
	struct page *page = full(rig);

	notify_begin(rig, page);
	for (uint32_t i = 8; i < 64; i++) {
		own_free(page, i);
		if (page_used(page) == page->wake)
			CHECK(!fl_local_wake(
				white_heap(rig), local_of(rig), page));
	}
	fallow_collect(&rig->heap);
	CHECK_OR_RETURN(map_find(white_heap(rig), page->base) == page);
	CHECK_EQUAL(remote_state(page->remote), REMOTE_NOTIFIED);
	notify_end(rig, page);
	fallow_collect(&rig->heap);
	CHECK(map_find(white_heap(rig), page->base) == NULL);
	CHECK(local_of(rig)->notified == NULL);
	white_check(rig);
	rig_end_now(rig, true);
}

/* Of many notified pages sixteen are taken in at a time; the rest stay told of
 * what is freed. */
static void test_local_drain_some(void)
{
	struct rig *rig = begin();
	struct page *pages[20];
	unsigned queued = 0;

	for (unsigned i = 0; i < 20; i++) {
		pages[i] = i == 0 ? joined(rig, 64)
				  : local_of(rig)->current[CLASS];
		joined(rig, 0);
		CHECK(fl_local_refill(white_heap(rig), local_of(rig), CLASS));
		white_pop(local_of(rig)->current[CLASS], 64);
	}
	for (unsigned i = 0; i < 20; i++)
		for (uint32_t j = 0; j < 8; j++)
			other_free(rig, pages[i], j);
	fl_local_drain(white_heap(rig), local_of(rig));
	for (unsigned i = 0; i < 20; i++) {
		queued += pages[i]->place == PLACE_QUEUE;
		other_free(rig, pages[i], 8);
	}
	CHECK_EQUAL(queued, 16);
	CHECK(local_of(rig)->notified == NULL);
	white_check(rig);
	fl_local_drain(white_heap(rig), local_of(rig));
	for (unsigned i = 0; i < 20; i++)
		CHECK_EQUAL(pages[i]->place, PLACE_QUEUE);
	white_check(rig);
	rig_end_now(rig, true);
}

/* What is looked at before the context is let go; returns if there is more. */
static bool trim_some(struct rig *rig)
{
	struct op op = white_op(rig, 0);
	bool more = fl_class_trim(&op, 77, 16);

	op_drop(&op);
	return more;
}

/* Of pages with thousands of blocks to be taken in, fewer are: interrupts are
 * masked for no longer. */
static void test_local_drain_bounded(void)
{
	struct rig *rig = begin();
	struct local *local = local_of(rig);
	struct heap *heap = white_heap(rig);
	unsigned class = size_class(16);
	struct page *pages[6];
	unsigned taken = 0;

	for (unsigned i = 0; i < 6; i++) {
		pages[i] = white_page_whole(rig, class);
		fl_local_join(heap, local, pages[i]);
		if (i > 0)
			CHECK(fl_local_refill(heap, local, class) == pages[i]);
		white_pop(pages[i], pages[i]->capacity);
	}
	/* The last one stays what its class allocates from. */
	for (unsigned i = 0; i < 5; i++) {
		CHECK_EQUAL(pages[i]->place, PLACE_FULL);
		for (uint32_t n = 0; n < pages[i]->capacity * 3u / 4; n++)
			(void)other_free(rig, pages[i], n);
	}
	CHECK(!fl_local_drain(heap, local));
	for (unsigned i = 0; i < 5; i++)
		taken += page_used(pages[i]) < pages[i]->formed;
	CHECK_EQUAL(taken, 2);
	while (!fl_local_drain(heap, local))
		;
	for (unsigned i = 0; i < 5; i++)
		CHECK_EQUAL(page_free_count(pages[i]),
			pages[i]->capacity * 3u / 4);
	/* So are they by a context that looks at all of its pages. */
	for (unsigned i = 0; i < 5; i++)
		for (uint32_t n = 1; n < pages[i]->capacity / 4u; n++)
			(void)other_free(rig, pages[i], pages[i]->capacity - n);
	CHECK(trim_some(rig));
	for (unsigned i = 0; i < 5; i++)
		taken += pages[i]->remote << 8 == 0;
	/* Not the ones of before, and of these sixteen by their blocks. */
	CHECK_EQUAL(taken, 2 + 4);
	white_check(rig);
	rig_end_now(rig, true);
}

const struct test tests[] = {
	{ "local_join", test_local_join },
	{ "local_leave", test_local_leave },
	{ "local_refill_fullest", test_local_refill_fullest },
	{ "local_refill_own", test_local_refill_own },
	{ "local_tail", test_local_tail },
	{ "local_full_serve", test_local_full_serve },
	{ "local_full_serve_not", test_local_full_serve_not },
	{ "local_full_serve_ends", test_local_full_serve_ends },
	{ "local_wake_quick", test_local_wake_quick },
	{ "local_wake_eighth", test_local_wake_eighth },
	{ "local_wake_by_free", test_local_wake_by_free },
	{ "local_notify", test_local_notify },
	{ "local_full_freed_before", test_local_full_freed_before },
	{ "local_notified_late", test_local_notified_late },
	{ "local_wake_notified_stays", test_local_wake_notified_stays },
	{ "local_account", test_local_account },
	{ "local_notify_window_full", test_local_notify_window_full },
	{ "local_notify_window_trim", test_local_notify_window_trim },
	{ "local_drain_some", test_local_drain_some },
	{ "local_drain_bounded", test_local_drain_bounded },
	{ NULL, NULL },
};
