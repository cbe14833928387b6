/* SPDX-License-Identifier: MIT */
/*
 * Where a block comes from: with two places to take it from, the one that is
 * to be looked at first; and how pages change hands and go.
 */
#include "white.h"

#define MIB ((size_t)1 << 20)
/* 64 blocks a page, so an eighth of it is 8. */
#define SIZE 1024
#define CLASS size_class(SIZE)

static struct rig *begin(void)
{
	return rig_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 3);
}

/* Allocates a block as a context, with flags. */
static void *take_flags(struct rig *rig, unsigned context, unsigned flags)
{
	struct op op = white_op(rig, context);
	bool clean;
	void *block;

	op.flags = flags;
	block = fl_class_alloc(&op, CLASS, 0, &clean);
	op_drop(&op);
	return block;
}

static void *take(struct rig *rig, unsigned context)
{
	return take_flags(rig, context, 0);
}

/* Takes n blocks one after the other into blocks[]. */
static void take_many(struct rig *rig, void **blocks, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		CHECK((blocks[i] = take(rig, 0)) != NULL);
}

static void offline(struct rig *rig, unsigned context)
{
	struct op op = white_op(rig, context);

	fl_class_offline(&op);
	op_drop(&op);
	/* What a test does next it does as a context in use. */
	fl_local_unpark(
		white_heap(rig), white_heap(rig)->locals[context]);
}

/* An abandoned page with so many blocks in use, the first of them blocks[0]. */
static struct page *abandoned(struct rig *rig, void **blocks, unsigned used)
{
	struct page *page = white_page_whole(rig, CLASS);
	struct local *local = white_heap(rig)->locals[1];

	for (unsigned i = 0; i < used; i++)
		blocks[i] = white_pop(page, 1);
	fl_local_join(white_heap(rig), local, page);
	offline(rig, 1);
	return page;
}

/* What others freed of the current page, before another page's blocks. */
static void test_class_current_first(void)
{
	struct rig *rig = begin();
	void *blocks[128];
	struct page *first, *second;

	take_many(rig, blocks, 65);
	first = white_page(rig, blocks[0]);
	second = white_page(rig, blocks[64]);
	CHECK(first != second);
	take_many(rig, blocks + 65, 63);
	/* With that there, it is not used up when the first comes back. */
	white_free(rig, 1, blocks[100]);
	for (unsigned i = 0; i < 8; i++)
		white_free(rig, 0, blocks[i]);
	CHECK_EQUAL(first->place, PLACE_QUEUE);
	CHECK_EQUAL(second->place, PLACE_CURRENT);
	CHECK(take(rig, 0) == blocks[100]);
	CHECK(white_page(rig, take(rig, 0)) == first);
	CHECK_EQUAL(second->place, PLACE_FULL);
	white_check(rig);
	rig_end_now(rig, true);
}

/* A queued page before an abandoned one. */
static void test_class_queue_before_abandoned(void)
{
	struct rig *rig = begin();
	void *blocks[128], *others[64];
	struct page *page;

	take_many(rig, blocks, 128);
	page = abandoned(rig, others, 10);
	for (unsigned i = 0; i < 8; i++)
		white_free(rig, 0, blocks[i]);
	for (unsigned i = 0; i < 8; i++)
		CHECK(white_page(rig, take(rig, 0)) ==
			white_page(rig, blocks[0]));
	CHECK_EQUAL(page->place, PLACE_ABANDONED);
	CHECK(white_page(rig, take(rig, 0)) == page);
	CHECK_EQUAL(page->owner, 0);
	CHECK_EQUAL(white_heap(rig)->locals[0]->counters.adopted, 1);
	white_check(rig);
	rig_end_now(rig, true);
}

/* An abandoned page before more memory for the own one. */
static void test_class_abandoned_before_tail(void)
{
	struct rig *rig = begin();
	void *blocks[4], *others[64];
	struct page *page, *own;

	/* A granule: the page's first four. */
	take_many(rig, blocks, 4);
	own = white_page(rig, blocks[0]);
	CHECK_EQUAL(own->formed, 4);
	page = abandoned(rig, others, 60);
	for (unsigned i = 0; i < 4; i++)
		CHECK(white_page(rig, take(rig, 0)) == page);
	/* Now the tail, before a fresh page. */
	CHECK(white_page(rig, take(rig, 0)) == own);
	CHECK_EQUAL(own->committed, 2 * GRANULE_BYTES);
	white_check(rig);
	rig_end_now(rig, true);
}

/* Of the first four abandoned pages the fullest with a free block. */
static void test_class_adopt_fullest(void)
{
	static const unsigned used[] = { 62, 64, 30, 61, 50 };
	struct rig *rig = begin();
	struct page *pages[5];
	void *blocks[64];

	/* In front of the others, so the first one is the fifth; but the one
	 * without a free block is behind it. */
	for (unsigned i = 0; i < 5; i++)
		pages[i] = abandoned(rig, blocks, used[i]);
	CHECK(white_heap(rig)->abandoned[CLASS] == pages[4]);
	CHECK(white_heap(rig)->abandoned[CLASS]->prev == pages[1]);
	CHECK_EQUAL(pages[0]->frozen, 62);
	CHECK(white_page(rig, take(rig, 2)) == pages[0]);
	CHECK_EQUAL(pages[0]->owner, 2);
	CHECK_EQUAL(pages[0]->place, PLACE_CURRENT);
	CHECK_EQUAL(remote_state(pages[0]->remote), REMOTE_OWNED);
	CHECK(white_page(rig, take(rig, 2)) == pages[0]);
	CHECK(white_page(rig, take(rig, 2)) == pages[3]);
	white_check(rig);
	rig_end_now(rig, true);
}

/* What was freed while nobody owned it goes with the page. */
static void test_class_adopt_folds(void)
{
	struct rig *rig = begin();
	void *blocks[64];
	struct page *page = abandoned(rig, blocks, 64);

	for (unsigned i = 0; i < 5; i++)
		white_free(rig, 2, blocks[i]);
	CHECK_EQUAL(remote_state(page->remote), REMOTE_ABANDONED);
	CHECK_EQUAL(remote_count(page, page->remote), 5);
	CHECK(take(rig, 2) == blocks[4]);
	CHECK_EQUAL(page_used(page), 60);
	CHECK_EQUAL(page->remote, remote_word(REMOTE_OWNED, 0));
	white_check(rig);
	rig_end_now(rig, true);
}

/* Of a page that has blocks of its own others' stay where they are, with the
 * context that goes as with the one that comes, until they are wanted. */
static void test_class_adopt_walks_nothing(void)
{
	struct rig *rig = begin();
	void *blocks[64];
	struct page *page;

	take_many(rig, blocks, 64);
	page = white_page(rig, blocks[0]);
	white_free(rig, 0, blocks[0]);
	for (unsigned i = 1; i < 5; i++)
		white_free(rig, 2, blocks[i]);
	offline(rig, 0);
	CHECK_EQUAL(remote_state(page->remote), REMOTE_ABANDONED);
	CHECK_EQUAL(remote_count(page, page->remote), 4);
	CHECK_EQUAL(page->frozen, 63);
	CHECK(take(rig, 2) == blocks[0]);
	CHECK_EQUAL(page->owner, 2);
	CHECK_EQUAL(page_used(page), 64);
	CHECK_EQUAL(remote_count(page, page->remote), 4);
	CHECK(take(rig, 2) == blocks[4]);
	CHECK_EQUAL(page_used(page), 61);
	CHECK_EQUAL(page->remote, remote_word(REMOTE_OWNED, 0));
	white_check(rig);
	rig_end_now(rig, true);
}

/* What a burst left is free slices as soon as others are wanted: as many pages as
 * two chunks have slices at a time, of whichever classes. */
static void test_class_makes_room(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, 1100 * MIB, 1);
	struct heap *heap = white_heap(rig);
	static void *blocks[100 * 64];
	struct op op;

	for (unsigned i = 0; i < 100 * 64; i++)
		blocks[i] = fallow_alloc(&rig->heap, i < 30 * 64 ? 960 : 1024);
	for (unsigned i = 0; i < 100 * 64; i++)
		fallow_free(&rig->heap, blocks[i]);
	CHECK_EQUAL(heap->warm_slices, 0);
	op = white_op(rig, 0);
	fl_class_make_room(&op);
	CHECK_EQUAL(heap->warm_slices, 2 * CHUNK_SLICES);
	fl_class_make_room(&op);
	op_drop(&op);
	/* All but the current pages of both. */
	CHECK(heap->warm_slices > 95);
	white_check(rig);
	rig_end_now(rig, true);
}

/* A context that goes releases a page that others have emptied behind its back,
 * though it has blocks of its own. */
static void test_class_offline_emptied(void)
{
	struct rig *rig = begin();
	void *blocks[64];
	struct page *page;

	take_many(rig, blocks, 64);
	page = white_page(rig, blocks[0]);
	white_free(rig, 0, blocks[0]);
	for (unsigned i = 1; i < 64; i++)
		white_free(rig, 2, blocks[i]);
	CHECK(white_page(rig, blocks[0]) == page);
	offline(rig, 0);
	CHECK(white_page(rig, blocks[0]) == NULL);
	white_check(rig);
	rig_end_now(rig, true);
}

/* A context that goes hands over what is in use and releases what is not. */
static void test_class_offline(void)
{
	struct rig *rig = begin();
	struct heap *heap = white_heap(rig);
	struct local *local = heap->locals[0];
	void *blocks[128 + 3];
	struct page *page;

	take_many(rig, blocks, 128 + 3);
	for (unsigned i = 64; i < 128; i++)
		white_free(rig, 0, blocks[i]);
	page = white_page(rig, blocks[0]);
	CHECK_EQUAL(page->place, PLACE_FULL);
	offline(rig, 0);
	CHECK(local->current[CLASS] == &fl_page_none);
	CHECK(local->queue[CLASS] == NULL && local->full[CLASS] == NULL);
	CHECK_EQUAL(page->place, PLACE_ABANDONED);
	CHECK_EQUAL(page->owner, OWNER_NONE);
	CHECK_EQUAL(page->frozen, 64);
	CHECK_EQUAL(remote_state(page->remote), REMOTE_ABANDONED);
	CHECK(white_page(rig, blocks[64]) == NULL);
	CHECK(white_page(rig, blocks[128])->place == PLACE_ABANDONED);
	CHECK(heap->abandoned[CLASS] == white_page(rig, blocks[128]));
	CHECK_EQUAL(local->counters.abandoned, 2);
	white_check(rig);
	rig_end_now(rig, true);
}

/* A full page that was notified, with the owner gone before it looked. */
static void test_class_offline_notified(void)
{
	struct rig *rig = begin();
	struct local *local = white_heap(rig)->locals[0];
	void *blocks[128];
	struct page *page;

	take_many(rig, blocks, 128);
	page = white_page(rig, blocks[0]);
	for (unsigned i = 0; i < 8; i++)
		white_free(rig, 1, blocks[i]);
	CHECK(local->notified == page);
	offline(rig, 0);
	CHECK(local->notified == NULL);
	CHECK_EQUAL(page_used(page), 56);
	CHECK_EQUAL(page->remote, remote_word(REMOTE_ABANDONED, 0));
	white_check(rig);
	rig_end_now(rig, true);
}

/* The free of an abandoned page's last block releases it, and the one that
 * makes an eighth of it free moves it to the front. */
static void test_class_abandoned_free(void)
{
	struct rig *rig = begin();
	struct heap *heap = white_heap(rig);
	void *a[64], *b[64];
	struct page *full = abandoned(rig, a, 64);
	struct page *other = abandoned(rig, b, 3);
	size_t base = full->base;

	CHECK(heap->abandoned[CLASS] == other);
	for (unsigned i = 0; i < 8; i++) {
		CHECK(heap->abandoned[CLASS] == other);
		white_free(rig, i % 3, a[i]);
		white_check(rig);
	}
	CHECK(heap->abandoned[CLASS] == full);
	for (unsigned i = 8; i < 64; i++) {
		CHECK(white_page(rig, a[i]) == full);
		white_free(rig, i % 3, a[i]);
	}
	CHECK(map_find(heap, base) == NULL);
	CHECK(heap->abandoned[CLASS] == other && other->next == other);
	CHECK_EQUAL(heap->counters.live, 3 * SIZE);
	white_check(rig);
	for (unsigned i = 0; i < 3; i++)
		white_free(rig, 2, b[i]);
	CHECK(heap->abandoned[CLASS] == NULL);
	white_check(rig);
	rig_end_now(rig, true);
}

/* A heap that is not lean. */
static struct rig *begin_wide(void)
{
	return rig_begin(FALLOW_CLASS_WINDOW, 1100 * MIB, 3);
}

/* Frees a block of the page as context 0; whether the page is its own then. */
static bool owned_by_free(struct rig *rig, struct page *page, void *block)
{
	white_free(rig, 0, block);
	white_check(rig);
	CHECK_EQUAL(page->place == PLACE_ABANDONED, page->owner != 0);
	return page->owner == 0;
}

/* A free into an abandoned page makes it the context's, with the block, until
 * one of the class is queued. */
static void test_class_adopted_by_free(void)
{
	struct rig *rig = begin_wide();
	struct local *local = white_heap(rig)->locals[0];
	void *blocks[3][64];
	struct page *pages[3];

	for (unsigned i = 0; i < 3; i++)
		pages[i] = abandoned(rig, blocks[i], 64);
	CHECK(owned_by_free(rig, pages[0], blocks[0][5]));
	CHECK(local->current[CLASS] == pages[0]);
	CHECK(owned_by_free(rig, pages[1], blocks[1][6]));
	CHECK(local->queue[CLASS] == pages[1]);
	CHECK(!owned_by_free(rig, pages[2], blocks[2][7]));
	CHECK_EQUAL(local->counters.adopted, 2);
	white_free(rig, 1, blocks[2][8]);
	CHECK_EQUAL(pages[2]->owner, 1);
	CHECK_EQUAL(pages[2]->remote, remote_word(REMOTE_OWNED, 0));
	/* What was freed is what is had next, without a commit. */
	CHECK(take(rig, 0) == blocks[0][5]);
	CHECK(take(rig, 0) == blocks[1][6]);
	CHECK(take(rig, 1) == blocks[2][8]);
	CHECK(take(rig, 1) == blocks[2][7]);
	white_check(rig);
	rig_end_now(rig, true);
}

/* Not a page that granules are pending of, one that is used up by then, or
 * whose last block it was, nor for a parked context. */
static void test_class_not_by_free(void)
{
	struct rig *rig = begin_wide();
	struct heap *heap = white_heap(rig);
	void *blocks[64], *others[64];
	struct page *page = abandoned(rig, blocks, 64);
	uint16_t *pending = &page->chunk->pending[page->first_slice];
	struct op op = white_op(rig, 0);

	fl_class_abandoned_free(&op, page, CLASS, 1, false);
	op_drop(&op);
	CHECK_EQUAL(page->place, PLACE_ABANDONED);
	*pending = 1;
	white_free(rig, 0, blocks[0]);
	CHECK_EQUAL(page->place, PLACE_ABANDONED);
	*pending = 0;
	if (FALLOW_MODEL != FALLOW_MODEL_SINGLE) {
		fl_local_park(heap, heap->locals[0]);
		fallow_free(&rig->heap, blocks[1]);
		CHECK_EQUAL(page->place, PLACE_ABANDONED);
		fl_local_unpark(heap, heap->locals[0]);
	}
	page = abandoned(rig, others, 1);
	CHECK(heap->abandoned[CLASS] == page);
	white_free(rig, 0, others[0]);
	CHECK(map_find(heap, (uintptr_t)others[0]) == NULL);
	CHECK_EQUAL(heap->locals[0]->counters.adopted, 0);
	white_check(rig);
	rig_end_now(rig, true);
}

/* Released: slices free and warm, map and heads without it. */
static void test_class_release(void)
{
	struct rig *rig = begin();
	struct heap *heap = white_heap(rig);
	struct page *page = white_page_whole(rig, CLASS);
	uint32_t bit = slice_mask(page->first_slice, 1);

	CHECK(page->chunk->heads & bit);
	CHECK(!(page->chunk->free & bit));
	fl_class_release(heap, page);
	CHECK(!(page->chunk->heads & bit));
	CHECK(page->chunk->free & page->chunk->warm & bit);
	CHECK(map_find(heap, page->base) == NULL);
	white_check(rig);
	rig_end_now(rig, true);
}

/* Pages without a block go, a few at a time, none twice for one number. */
static void test_class_trim(void)
{
	struct rig *rig = begin();
	struct heap *heap = white_heap(rig);
	struct local *local = heap->locals[0];
	struct op op = white_op(rig, 0);
	struct page *pages[10];
	unsigned rounds = 0;

	for (unsigned i = 0; i < 10; i++) {
		pages[i] = white_page_whole(rig, CLASS);
		if (i % 3 == 0)
			white_pop(pages[i], 1);
		fl_local_join(heap, local, pages[i]);
	}
	CHECK(fl_class_trim(&op, 1, 4));
	rounds++;
	while (fl_class_trim(&op, 1, 4))
		rounds++;
	/* Nine are queued. */
	CHECK_EQUAL(rounds, 2);
	for (unsigned i = 0; i < 10; i++)
		CHECK_EQUAL(map_find(heap, pages[i]->base) == pages[i],
			i % 3 == 0);
	CHECK(!fl_class_trim(&op, 1, 1));
	CHECK(fl_class_trim(&op, 2, 1));
	op_drop(&op);
	white_check(rig);
	rig_end_now(rig, true);
}

/* The last block freed by somebody else: a trim sees it, current or not. */
static void test_class_trim_folds(void)
{
	struct rig *rig = begin();
	void *blocks[65];
	struct op op;

	take_many(rig, blocks, 65);
	for (unsigned i = 0; i < 65; i++)
		white_free(rig, 1, blocks[i]);
	CHECK(white_page(rig, blocks[0]) && white_page(rig, blocks[64]));
	op = white_op(rig, 0);
	CHECK(!fl_class_trim(&op, 1, 16));
	op_drop(&op);
	CHECK(!white_page(rig, blocks[0]) && !white_page(rig, blocks[64]));
	white_check(rig);
	rig_end_now(rig, true);
}

/* Under NOWAIT: no lock is waited for, no provider called; slices that hold
 * memory are used. */
static void test_class_nowait(void)
{
	struct rig *rig = begin();
	struct heap *heap = white_heap(rig);
	void *block, *others[64];
	struct page *page;

	CHECK(take_flags(rig, 0, FALLOW_NOWAIT) == NULL);
	CHECK_EQUAL(rig->sim.calls, 1);
	block = take(rig, 0);
	page = white_page(rig, block);
	white_pop(page, 3);
	page_used_set(page, 0);
	fl_local_leave(heap->locals[0], page);
	fl_class_release(heap, page);
	sim_nowait = true;
	white_lock_hold(heap);
	CHECK(take_flags(rig, 0, FALLOW_NOWAIT) == NULL);
	white_lock_release(heap);
	block = take_flags(rig, 0, FALLOW_NOWAIT);
	CHECK(block != NULL && white_page(rig, block) == page);
	/* Its next granule takes the provider. */
	white_pop(page, 3);
	CHECK(take_flags(rig, 0, FALLOW_NOWAIT) == NULL);
	sim_nowait = false;
	/* Nor is an abandoned page adopted without the lock. */
	CHECK(abandoned(rig, others, 1)->place == PLACE_ABANDONED);
	white_lock_hold(heap);
	CHECK(take_flags(rig, 0, FALLOW_NOWAIT) == NULL);
	white_lock_release(heap);
	CHECK(take_flags(rig, 0, FALLOW_NOWAIT) != NULL);
	white_check(rig);
	rig_end_now(rig, true);
}

/* Without memory for a fresh page its slices go back, and slices are taken
 * that hold a block's memory, though they are no better fit. */
static void test_class_open_refused(void)
{
	struct rig *rig = begin();
	struct heap *heap = white_heap(rig);
	uintptr_t there;
	void *block;
	struct run run;

	CHECK(fallow_alloc(&rig->heap, 100) != NULL);
	/* Four slices take a page of 64 KiB blocks; the first one holds memory,
	 * in a chunk that is otherwise free. */
	CHECK_EQUAL(fl_size_page_slices(size_class(SLICE_BYTES), true), 4);
	run = white_slices(rig, CHUNK_SLICES);
	there = run.chunk->base + 5 * SLICE_BYTES;
	struct op op = white_op(rig, 0);
	CHECK(fl_memory_populate(&op, there, SLICE_BYTES, false));
	op_drop(&op);
	fl_chunk_give(heap, run.chunk->base, CHUNK_SLICES, 1);
	white_check(rig);
	rig->sim.refuse_from = rig->sim.calls + 1;
	block = fallow_alloc(&rig->heap, SLICE_BYTES);
	CHECK_EQUAL((uintptr_t)block, there);
	CHECK_EQUAL(white_page(rig, block)->kind, PAGE_MEDIUM);
	CHECK_EQUAL(rig->sim.refused, 1);
	white_check(rig);
	CHECK(fallow_alloc(&rig->heap, SLICE_BYTES) == NULL);
	white_check(rig);
	rig_end_now(rig, true);
}

/* No room for a chunk's records: the slices wait until there is. */
static void test_class_open_tables(void)
{
	struct rig *rig = begin();
	struct heap *heap = white_heap(rig);
	struct run run = white_slices(rig, CHUNK_SLICES);

	fl_chunk_give(heap, run.chunk->base, CHUNK_SLICES, 1);
	/* As if another call kept all of it. */
	heap->kept = (size_t)1 << 40;
	CHECK(take_flags(rig, 0, FALLOW_NOWAIT) == NULL);
	white_check(rig);
	CHECK(take(rig, 0) != NULL);
	CHECK_EQUAL(heap->kept, 0);
	white_check(rig);
	rig_end_now(rig, true);
}

/* The page remembers the largest alignment asked for. */
static void test_class_loose(void)
{
	static const unsigned asked[] = { 0, 6, 5, 10, 0 };
	static const unsigned kept[] = { 0, 6, 6, 10, 10 };
	struct rig *rig = begin();

	for (unsigned i = 0; i < 5; i++) {
		struct op op = white_op(rig, 0);
		bool clean;
		void *block = fl_class_alloc(&op, CLASS, asked[i], &clean);

		op_drop(&op);
		CHECK_OR_RETURN(block != NULL);
		CHECK_EQUAL(white_page(rig, block)->loose, kept[i]);
	}
	rig_end_now(rig, true);
}

/* When there is no more memory the pages behind the first four count too: one
 * free block of the fifth abandoned page is found. */
static void test_class_salvage_abandoned(void)
{
	struct rig *rig = begin();
	struct page *pages[20];
	void *blocks[20][64];

	for (unsigned i = 0; i < 20; i++)
		pages[i] = abandoned(rig, blocks[i], 64);
	CHECK(white_heap(rig)->abandoned[CLASS] == pages[0]);
	rig->sim.refuse_from = rig->sim.calls + 1;
	CHECK(fallow_alloc(&rig->heap, SIZE) == NULL);
	/* Less than an eighth, so they stay where they are. */
	white_free(rig, 2, blocks[4][7]);
	white_free(rig, 2, blocks[18][63]);
	CHECK(fallow_alloc(&rig->heap, SIZE) == blocks[4][7]);
	CHECK_EQUAL(pages[4]->owner, 0);
	CHECK(fallow_alloc(&rig->heap, SIZE) == blocks[18][63]);
	CHECK(fallow_alloc(&rig->heap, SIZE) == NULL);
	white_check(rig);
	rig_end_now(rig, true);
}

/* A page of the context's, its first granule formed and in use. */
static struct page *tailed(struct rig *rig)
{
	struct page *page = white_page_new(rig, CLASS);
	struct op op = white_op(rig, 0);
	size_t slice = (page->base - op.heap->base) >> FALLOW_SLICE_LOG2;

	CHECK(fl_page_commit(&op, page));
	CHECK(fl_page_form(page));
	white_pop(page, page->formed);
	op.heap->map[slice] = page;
	fl_local_join(op.heap, op.local, page);
	op_drop(&op);
	return page;
}

/* No memory is committed while a page of the context's has free blocks, however
 * many lie before it that have none: one that is empty, or of which its owner
 * has freed an eighth. */
static void test_class_free_before_tail(void)
{
	/* In a lean heap an empty page goes at once. */
	struct rig *rig = begin_wide();
	struct page *empty = white_page_whole(rig, CLASS);
	struct page *pages[8];
	uint64_t commits;
	void *block = white_pop(empty, 1);

	pages[0] = tailed(rig);
	fl_local_join(white_heap(rig), white_heap(rig)->locals[0], empty);
	for (unsigned i = 1; i < 8; i++)
		pages[i] = tailed(rig);
	white_free(rig, 0, block);
	CHECK_EQUAL(page_used(empty), 0);
	white_free(rig, 0, white_block(pages[1], 2));
	CHECK_EQUAL(pages[1]->place, PLACE_QUEUE);
	white_check(rig);
	commits = rig->sim.made[SIM_COMMIT];
	CHECK(take(rig, 0) == white_block(pages[1], 2));
	CHECK(white_page(rig, take(rig, 0)) == empty);
	CHECK_EQUAL(rig->sim.made[SIM_COMMIT], commits);
	CHECK_EQUAL(pages[1]->place, PLACE_DRY);
	white_check(rig);
	rig_end_now(rig, true);
}

/* Nor while the page that would be extended has some of others'. */
static void test_class_others_before_tail(void)
{
	struct rig *rig = begin();
	struct page *pages[6];
	uint64_t commits;

	for (unsigned i = 0; i < 6; i++)
		pages[i] = tailed(rig);
	white_free(rig, 1, white_block(pages[5], 3));
	/* So that the current page has no tail. */
	fl_local_leave(white_heap(rig)->locals[0], pages[0]);
	commits = rig->sim.made[SIM_COMMIT];
	CHECK(take(rig, 0) == white_block(pages[5], 3));
	CHECK_EQUAL(rig->sim.made[SIM_COMMIT], commits);
	rig_end_now(rig, true);
}

/* Nor while the page whose hole would be filled has. */
static void test_class_others_before_hole(void)
{
	struct rig *rig = begin();
	void *blocks[128];
	struct page *page;
	uint64_t commits;

	take_many(rig, blocks, 128);
	page = white_page(rig, blocks[0]);
	/* A granule is four blocks, another page current. */
	for (unsigned i = 0; i < 16; i++)
		white_free(rig, 0, blocks[i]);
	fallow_reclaim(&rig->heap, FALLOW_RECLAIM_SPLIT);
	CHECK(page_holed(page));
	CHECK_EQUAL(page->place, PLACE_DRY);
	white_check(rig);
	white_free(rig, 1, blocks[40]);
	commits = rig->sim.made[SIM_COMMIT];
	CHECK(take(rig, 0) == blocks[40]);
	CHECK_EQUAL(rig->sim.made[SIM_COMMIT], commits);
	CHECK(white_page(rig, take(rig, 0)) == page);
	CHECK_EQUAL(rig->sim.made[SIM_COMMIT], commits + 1);
	white_check(rig);
	rig_end_now(rig, true);
}

/* A dry page comes back with an eighth of what was formed of it, not with less:
 * where it is one of few it serves nevertheless. */
static void test_class_dry_eighth(void)
{
	struct rig *rig = begin();
	struct local *local = white_heap(rig)->locals[0];
	struct page *page = tailed(rig);
	void *blocks[16];

	for (unsigned i = 4; i < 16; i++)
		CHECK((blocks[i] = take(rig, 0)) != NULL);
	CHECK_EQUAL(page->formed, 16);
	fl_local_leave(local, page);
	(void)tailed(rig);
	fl_local_join(white_heap(rig), local, page);
	CHECK_EQUAL(page->wake, 16 - 2);
	white_free(rig, 0, blocks[7]);
	CHECK_EQUAL(page->place, PLACE_DRY);
	white_check(rig);
	CHECK(take(rig, 0) == blocks[7]);
	CHECK_EQUAL(page->place, PLACE_CURRENT);
	(void)tailed(rig);
	fl_local_leave(local, page);
	(void)tailed(rig);
	fl_local_join(white_heap(rig), local, page);
	white_free(rig, 0, blocks[7]);
	white_free(rig, 0, blocks[8]);
	CHECK_EQUAL(page->place, PLACE_QUEUE);
	CHECK_EQUAL(page->wake, 0);
	white_check(rig);
	rig_end_now(rig, true);
}

/* So is what others freed of a dry page that was not the last one. */
static void test_class_salvage_dry(void)
{
	struct rig *rig = begin();
	struct page *pages[10];
	struct op op;
	void *block;

	for (unsigned i = 0; i < 10; i++)
		pages[i] = tailed(rig);
	CHECK_EQUAL(pages[0]->place, PLACE_CURRENT);
	CHECK(white_heap(rig)->locals[0]->dry[CLASS] == pages[1]);
	rig->sim.refuse_from = rig->sim.calls + 1;
	CHECK(fallow_alloc(&rig->heap, SIZE) == NULL);
	/* A search that fails turns the list all the way round. */
	CHECK(white_heap(rig)->locals[0]->dry[CLASS] == pages[1]);
	block = white_block(pages[6], 2);
	white_free(rig, 1, block);
	op = white_op(rig, 0);
	fl_class_salvage(&op, CLASS);
	op_drop(&op);
	CHECK(op.local->queue[CLASS] == pages[6]);
	white_check(rig);
	CHECK(fallow_alloc_flags(&rig->heap, SIZE, FALLOW_NORECLAIM) == block);
	CHECK(fallow_alloc(&rig->heap, SIZE) == NULL);
	white_check(rig);
	rig_end_now(rig, true);
}

/* Dry pages of which others have freed all go where the context's empty pages
 * do, and the rest with the context. */
static void test_class_dry_goes(void)
{
	struct rig *rig = begin();
	struct page *pages[6];
	struct op op;

	for (unsigned i = 0; i < 6; i++)
		pages[i] = tailed(rig);
	for (uint32_t i = 0; i < 4; i++)
		white_free(rig, 1, white_block(pages[3], i));
	CHECK_EQUAL(pages[3]->place, PLACE_DRY);
	op = white_op(rig, 0);
	fl_class_trim_all(&op);
	op_drop(&op);
	CHECK(map_find(op.heap, pages[3]->base) == NULL);
	white_check(rig);
	offline(rig, 0);
	CHECK(op.local->dry[CLASS] == NULL);
	CHECK_EQUAL(pages[1]->place, PLACE_ABANDONED);
	white_check(rig);
	rig_end_now(rig, true);
}

const struct test tests[] = {
	{ "class_current_first", test_class_current_first },
	{ "class_queue_before_abandoned", test_class_queue_before_abandoned },
	{ "class_abandoned_before_tail", test_class_abandoned_before_tail },
	{ "class_adopt_fullest", test_class_adopt_fullest },
	{ "class_adopt_folds", test_class_adopt_folds },
	{ "class_adopt_walks_nothing", test_class_adopt_walks_nothing },
	{ "class_makes_room", test_class_makes_room },
	{ "class_offline_emptied", test_class_offline_emptied },
	{ "class_offline", test_class_offline },
	{ "class_offline_notified", test_class_offline_notified },
	{ "class_abandoned_free", test_class_abandoned_free },
	{ "class_adopted_by_free", test_class_adopted_by_free },
	{ "class_not_by_free", test_class_not_by_free },
	{ "class_release", test_class_release },
	{ "class_trim", test_class_trim },
	{ "class_trim_folds", test_class_trim_folds },
	{ "class_nowait", test_class_nowait },
	{ "class_open_refused", test_class_open_refused },
	{ "class_open_tables", test_class_open_tables },
	{ "class_loose", test_class_loose },
	{ "class_salvage_abandoned", test_class_salvage_abandoned },
	{ "class_free_before_tail", test_class_free_before_tail },
	{ "class_others_before_tail", test_class_others_before_tail },
	{ "class_others_before_hole", test_class_others_before_hole },
	{ "class_dry_eighth", test_class_dry_eighth },
	{ "class_dry_goes", test_class_dry_goes },
	{ "class_salvage_dry", test_class_salvage_dry },
	{ NULL, NULL },
};
