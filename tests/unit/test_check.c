/* SPDX-License-Identifier: MIT */
/*
 * The checker names what is broken: for each invariant of fallow_check() a
 * small heap in which exactly that one is broken by hand, and is whole again
 * when that is undone.
 */
#include <string.h>

#include "white.h"

#define MIB ((size_t)1 << 20)

/* A heap with one of everything, and what is where in it. */
struct scene {
	struct rig *rig;
	struct heap *heap;
	struct local *local;
	/* Of 1 KiB blocks: 64 in use and 62 free in turns, two current. */
	struct page *full, *queued, *queued_too, *current;
	struct page *medium, *abandoned, *span;
	struct chunk *chunk;
	void *block; /* free, of `queued` */
};

/* Bytes that were changed, to be put back in reverse order. */
struct poke {
	void *at;
	size_t size;
	unsigned char old[8];
};

static struct poke pokes[8];
static unsigned poke_count;

/* Notes what *at is, so that it can be changed. */
static void keep(void *at, size_t size)
{
	struct poke *poke = &pokes[poke_count++];

	poke->at = at;
	poke->size = size;
	memcpy(poke->old, at, size);
}

static void pokes_undo(void)
{
	while (poke_count > 0) {
		struct poke *poke = &pokes[--poke_count];

		memcpy(poke->at, poke->old, poke->size);
	}
}

/* Changes a field, for now. */
#define SET(field, value) \
	do { \
		keep(&(field), sizeof(field)); \
		(field) = (value); \
	} while (0)

/* Allocates n blocks; returns the page of the last. */
static struct page *blocks_take(
	struct rig *rig, void **blocks, unsigned n, size_t size)
{
	for (unsigned i = 0; i < n; i++)
		CHECK((blocks[i] = fallow_alloc(&rig->heap, size)) != NULL);
	return white_page(rig, blocks[n - 1]);
}

static void scene_begin(struct scene *scene)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 2);
	void *blocks[4 * 64], *other[1];

	scene->rig = rig;
	scene->heap = white_heap(rig);
	scene->local = scene->heap->locals[0];
	blocks_take(rig, other, 1, 2048);
	fallow_offline(&rig->heap);
	scene->abandoned = white_page(rig, other[0]);
	scene->current = blocks_take(rig, blocks, 3 * 64 + 1, 1024);
	scene->full = white_page(rig, blocks[0]);
	scene->queued = white_page(rig, blocks[64]);
	scene->queued_too = white_page(rig, blocks[128]);
	for (unsigned i = 64; i < 192; i += 2)
		fallow_free(&rig->heap, blocks[i]);
	scene->block = blocks[64];
	scene->medium = blocks_take(rig, other, 1, 20000);
	scene->span = blocks_take(rig, other, 1, 600000);
	scene->chunk = scene->full->chunk;
	white_check(rig);
}

static void break_free_present(struct scene *s)
{
	SET(s->chunk->present, s->chunk->present & (s->chunk->free - 1));
}

static void break_heads(struct scene *s)
{
	SET(s->chunk->heads, s->chunk->heads | s->chunk->free);
}

static void break_warm(struct scene *s)
{
	SET(s->chunk->warm, s->chunk->heads);
}

static void break_count(struct scene *s)
{
	SET(s->chunk->count, (uint8_t)(s->chunk->count - 1));
}

static void break_bin(struct scene *s)
{
	SET(s->chunk->bin, (uint8_t)(s->chunk->bin - 1));
}

static void break_bin_list(struct scene *s)
{
	SET(s->heap->bins[s->chunk->bin], NULL);
}

static void break_map_free(struct scene *s)
{
	size_t first = (s->chunk->base - s->heap->base) >> FALLOW_SLICE_LOG2;

	SET(s->heap->map[first + (unsigned)__builtin_ctz(s->chunk->free)],
		s->full);
}

/* Slices that the region does not have: at the window's head. */
static void break_populated_present(struct scene *s)
{
	struct chunk *first = s->heap->chunks[0];
	unsigned absent = (unsigned)__builtin_ctz(~first->present);

	SET(first->populated[absent], 1);
}

static void break_pending(struct scene *s)
{
	SET(s->chunk->pending[s->abandoned->first_slice], 0x8000);
}

static void break_class_size(struct scene *s)
{
	SET(s->medium->block_size, s->medium->block_size - 16);
}

static void break_class_slices(struct scene *s)
{
	SET(s->full->slices, 0);
}

static void break_used(struct scene *s)
{
	SET(s->full->above, s->full->above + 1u);
}

static void break_formed(struct scene *s)
{
	SET(s->full->formed, (uint16_t)(s->full->formed + 1));
}

static void break_limit(struct scene *s)
{
	SET(s->full->limit, s->full->limit - 1);
}

static void break_committed(struct scene *s)
{
	SET(s->full->committed, s->full->committed - 1);
}

static void break_committed_populated(struct scene *s)
{
	SET(s->abandoned->committed,
		s->abandoned->committed + (uint32_t)GRANULE_BYTES);
}

/* One more remote free than blocks in use. */
static void break_remote(struct scene *s)
{
	SET(s->abandoned->remote,
		s->abandoned->remote + ((uint64_t)2 << 16));
}

static void break_state(struct scene *s)
{
	SET(s->full->remote, remote_with(s->full->remote, REMOTE_OWNED));
}

static void break_state_queue(struct scene *s)
{
	SET(s->queued->remote, remote_with(s->queued->remote, REMOTE_FULL));
}

static void break_state_none(struct scene *s)
{
	SET(s->current->place, PLACE_NONE);
}

static void break_state_abandoned(struct scene *s)
{
	SET(s->abandoned->owner, 1);
}

/* Changes `wake`, and `used` as little as that does. */
static void wake_set(struct page *page, uint32_t wake)
{
	uint32_t used = page_used(page);

	SET(page->wake, wake);
	SET(page->above, used - wake);
}

static void break_wake_current(struct scene *s)
{
	wake_set(s->current, 0);
}

static void break_wake_full(struct scene *s)
{
	wake_set(s->full, 64 - 8 - 1);
}

static void break_wake_abandoned(struct scene *s)
{
	wake_set(s->abandoned, 0);
}

static void break_wake_queued(struct scene *s)
{
	wake_set(s->queued, 1);
}

/* A page of 64 blocks, all formed, that is dry is so from 57 in use on. */
static void break_wake_dry(struct scene *s)
{
	SET(s->queued->place, PLACE_DRY);
	wake_set(s->queued, 64 - 8 - 1);
}

static void break_place_queued(struct scene *s)
{
	SET(s->queued->free, NULL);
	SET(s->queued->above, s->queued->formed - s->queued->wake);
}

static void break_place_dry(struct scene *s)
{
	SET(s->queued->place, PLACE_DRY);
	SET(s->queued->wake, 64 - 8);
	SET(s->queued->above, 0);
}

static void break_place_full(struct scene *s)
{
	SET(s->full->above, 0);
}

static void break_list_interior(struct scene *s)
{
	SET(s->queued->free, (void *)((char *)s->queued->free + 16));
}

/* Makes the page's blocks end after n of them. */
static void formed_set(struct page *page, unsigned n)
{
	SET(page->formed, n);
	SET(page->limit, n * page->magic * page->block_size);
}

static void break_list_unformed(struct scene *s)
{
	formed_set(s->current, s->current->formed - 1u);
	SET(s->current->above, 0 - s->current->wake);
}

static void break_list_bits(struct scene *s)
{
	SET(s->medium->bits, s->medium->bits | (uint64_t)1 << 20);
}

static void break_mark(struct scene *s)
{
	struct block *block = s->block;

	SET(block->mark, 0);
}

/* A circle of free blocks ends the walk too. */
static void break_once(struct scene *s)
{
	struct block *block = s->block;

	SET(block->next, s->queued->free);
}

/* Free at its owner and by another. */
static void break_once_bits(struct scene *s)
{
	uint64_t bit = (uint64_t)1 << 1;

	formed_set(s->medium, 2);
	SET(s->medium->committed, s->medium->block_size * 2);
	SET(s->medium->bits, s->medium->bits | bit);
	SET(s->medium->above, 1 - s->medium->wake);
	SET(s->medium->remote, s->medium->remote | bit);
}

static void break_sum(struct scene *s)
{
	SET(s->queued->above, s->queued->above - 1);
}

static void break_base(struct scene *s)
{
	SET(s->span->base, s->span->base + SLICE_BYTES);
}

static void break_chunk(struct scene *s)
{
	SET(s->full->chunk, NULL);
}

static void break_map(struct scene *s)
{
	size_t slice = (s->span->base - s->heap->base) >> FALLOW_SLICE_LOG2;

	SET(s->heap->map[slice + 1], s->full);
}

static void break_span_populated(struct scene *s)
{
	SET(s->span->chunk->populated[s->span->first_slice + 2], 0xfff7);
}

static void break_list_place(struct scene *s)
{
	SET(s->queued->place, PLACE_CURRENT);
	wake_set(s->queued, WAKE_NEVER);
}

static void break_list_class(struct scene *s)
{
	SET(s->local->full[0], s->full);
}

static void break_list_owner(struct scene *s)
{
	SET(s->full->owner, 1);
}

static void break_abandoned_class(struct scene *s)
{
	SET(s->heap->abandoned[1], s->abandoned);
}

static void break_links(struct scene *s)
{
	SET(s->queued->prev, s->queued);
}

static void break_lock(struct scene *s)
{
	SET(s->heap->lock.next, s->heap->lock.next + 1);
}

static void break_growing(struct scene *s)
{
	SET(s->heap->growing, true);
}

static void break_lock_local(struct scene *s)
{
	SET(s->heap->locals[1]->lock.next, 1u);
}

static void break_calling(struct scene *s)
{
	SET(s->local->calling, 1);
}

static void break_serving(struct scene *s)
{
	SET(s->heap->serving[1], &fl_local_none);
}

static void break_parked(struct scene *s)
{
	SET(s->heap->serving[1], s->local);
}

static void break_parked_count(struct scene *s)
{
	SET(s->heap->parked_count, 1);
}

static void break_local_none(struct scene *s)
{
	SET(fl_local_none.full[2], s->full);
}

static void break_current(struct scene *s)
{
	SET(s->local->current[CLASS_FIRST_MEDIUM], s->current);
}

static void break_span_state(struct scene *s)
{
	SET(s->span->remote, remote_word(REMOTE_TRANSIT, 0));
}

static void break_span_owner(struct scene *s)
{
	SET(s->span->owner, OWNER_NONE);
}

static void break_span_kept(struct scene *s)
{
	SET(s->span->remote, remote_word(REMOTE_KEPT, 0));
}

static void break_kept(struct scene *s)
{
	SET(s->local->kept, s->span);
	SET(s->local->kept_count, 1);
}

static void break_kept_count(struct scene *s)
{
	SET(s->local->kept_count, 1);
}

static void break_direct(struct scene *s)
{
	SET(s->local->classes[17], 0);
}

static void break_clean(struct scene *s)
{
	SET(s->medium->clean, ~s->medium->bits);
}

static void break_current_owner(struct scene *s)
{
	SET(s->current->owner, 1);
}

static void break_notified(struct scene *s)
{
	SET(s->local->notified, s->full);
}

static void break_notified_owner(struct scene *s)
{
	SET(s->full->remote, remote_with(s->full->remote, REMOTE_NOTIFIED));
	SET(s->heap->locals[1]->notified, s->full);
}

/* Owned by a context and in none of its lists. */
static void break_one_list(struct scene *s)
{
	SET(s->local->full[s->full->class], NULL);
}

static void break_committed_sum(struct scene *s)
{
	SET(s->heap->counters.committed,
		s->heap->counters.committed + GRANULE_BYTES);
}

static void break_free_chunks(struct scene *s)
{
	SET(s->heap->free_chunks, s->heap->free_chunks + 1);
}

static void break_warm_slices(struct scene *s)
{
	SET(s->heap->warm_slices, s->heap->warm_slices + 1);
}

static void break_page_none(struct scene *s)
{
	(void)s;
	SET(fl_page_none.above, 2);
}

/* The bit of the page's first slice. */
static uint32_t head_bit(const struct page *page)
{
	return slice_mask(page->first_slice, 1);
}

static uint16_t *populated(const struct page *page)
{
	return &page->chunk->populated[page->first_slice];
}

static void break_pending_span(struct scene *s)
{
	SET(s->span->chunk->pending[s->span->first_slice], 1);
}

static void break_pending_kept(struct scene *s)
{
	SET(s->chunk->pending[s->queued->first_slice], 1);
}

static void break_handed(struct scene *s)
{
	SET(s->chunk->handed, head_bit(s->queued));
}

static void break_handed_count(struct scene *s)
{
	SET(s->heap->handed, 1);
}

static void break_head_missing(struct scene *s)
{
	SET(s->chunk->heads, s->chunk->heads & ~head_bit(s->full));
}

static void break_hole_listed(struct scene *s)
{
	SET(*populated(s->queued), 0xfffe);
}

static void break_hole_flag(struct scene *s)
{
	SET(*populated(s->full), 0xfffe);
}

static void break_hole_used(struct scene *s)
{
	SET(*populated(s->full), 0);
	SET(s->full->owner, s->full->owner | OWNER_HOLES);
	SET(s->full->above, s->full->above - 1);
}

static void break_seen(struct scene *s)
{
	SET(s->full->seen, s->heap->sweeps + 1);
}

static void break_floor_kept(struct scene *s)
{
	SET(s->heap->sweeping.floor_kept, s->heap->sweeping.floor_limit + 1);
}

static void break_current_left(struct scene *s)
{
	SET(s->heap->sweeping.current_left, MIB + 1);
}

static void break_floor_ages(struct scene *s)
{
	SET(s->heap->sweeping.floor_age, 3);
	SET(s->heap->sweeping.floor_ages, 1 << 5);
}

static void break_floor_runs(struct scene *s)
{
	SET(s->heap->sweeping.floor_runs[0].from, 7);
	SET(s->heap->sweeping.floor_runs[1].from, 6);
}

static void break_floor_most(struct scene *s)
{
	SET(s->heap->sweeping.floor_runs[0].most, 5);
	SET(s->heap->sweeping.floor_runs[1].most, 5);
}

static void break_giving(struct scene *s)
{
	SET(s->heap->sweeping.giving, 1);
}

static void break_busy(struct scene *s)
{
	SET(s->heap->pacing.busy, 1);
}

static void break_wanted(struct scene *s)
{
	SET(s->heap->sweeping.wanted, WANTED_YES + 1);
}

static void break_later(struct scene *s)
{
	SET(s->heap->sweeping.later, s->heap->epoch + 1);
}

static void break_changed(struct scene *s)
{
	SET(s->heap->sweeping.changed, s->heap->epoch + 1);
}

static void break_swept(struct scene *s)
{
	SET(s->heap->locals[1]->swept, s->heap->epoch + 1);
}

static void break_passed(struct scene *s)
{
	SET(s->heap->locals[1]->passed, s->heap->epoch + 1);
}

static void break_answering(struct scene *s)
{
	SET(s->local->answering, s->heap->request + 1);
}

static void break_answered(struct scene *s)
{
	SET(s->local->answered, s->local->answering + 1);
}

static const struct {
	const char *invariant;
	void (*breaks)(struct scene *scene);
} cases[] = {
	{ "free slices are present", break_free_present },
	{ "a page or span begins in slices that are not free", break_heads },
	{ "warm slices are free", break_warm },
	{ "count counts a chunk's free slices", break_count },
	{ "bin == the longest run of free slices", break_bin },
	{ "a chunk with free slices is in its bin's list", break_bin_list },
	{ "the slice map names what is not free", break_map_free },
	{ "populated granules are present", break_populated_present },
	{ "pending granules are populated", break_pending },
	{ "a page's blocks are those of its class", break_class_size },
	{ "a page's blocks are those of its class", break_class_slices },
	{ "used <= formed <= capacity", break_used },
	{ "used <= formed <= capacity", break_formed },
	{ "limit says how many blocks are formed", break_limit },
	{ "formed blocks lie in the committed prefix", break_committed },
	{ "the committed prefix is populated", break_committed_populated },
	{ "remote frees were in use", break_remote },
	{ "state and place agree", break_state },
	{ "state and place agree", break_state_queue },
	{ "state and place agree", break_state_none },
	{ "state and place agree", break_state_abandoned },
	{ "a free list holds formed blocks of its page", break_list_interior },
	{ "a free list holds formed blocks of its page", break_list_unformed },
	{ "a free list holds formed blocks of its page", break_list_bits },
	{ "a free block carries its mark", break_mark },
	{ "a block is on one list once", break_once },
	{ "a block is on one list once", break_once_bits },
	{ "used + free + holed + pending == formed", break_sum },
	{ "a record says where it is", break_base },
	{ "a record says where it is", break_chunk },
	{ "the slice map names the page of each slice", break_map },
	{ "a span is populated", break_span_populated },
	{ "a list holds its context's pages of its class", break_list_place },
	{ "a list holds its context's pages of its class", break_list_class },
	{ "a list holds its context's pages of its class", break_list_owner },
	{ "a list holds its context's pages of its class",
		break_abandoned_class },
	{ "a list is linked both ways", break_links },
	{ "no lock is held", break_lock },
	{ "wake is where a free changes what a page is good for",
		break_wake_current },
	{ "wake is where a free changes what a page is good for",
		break_wake_full },
	{ "wake is where a free changes what a page is good for",
		break_wake_abandoned },
	{ "wake is where a free changes what a page is good for",
		break_wake_queued },
	{ "wake is where a free changes what a page is good for",
		break_wake_dry },
	{ "a queued page has a free block, others less than an eighth",
		break_place_queued },
	{ "a queued page has a free block, others less than an eighth",
		break_place_dry },
	{ "a queued page has a free block, others less than an eighth",
		break_place_full },
	{ "no lock is held", break_growing },
	{ "no lock is held", break_lock_local },
	{ "no call is in progress", break_calling },
	{ "a context serves its own pages, and none while it is parked",
		break_serving },
	{ "a context serves its own pages, and none while it is parked",
		break_parked },
	{ "parked_count counts the parked contexts", break_parked_count },
	{ "the local of parked contexts has nothing", break_local_none },
	{ "a size finds its class", break_direct },
	{ "what is known to be zero is free", break_clean },
	{ "a span is in use, or kept", break_span_state },
	{ "a span's owner says whether who frees it may keep it",
		break_span_owner },
	{ "every free span is kept by one context", break_span_kept },
	{ "what a context keeps is free", break_kept },
	{ "kept_count counts what a context keeps", break_kept_count },
	{ "a current page is its context's", break_current },
	{ "a current page is its context's", break_current_owner },
	{ "notified pages are NOTIFIED", break_notified },
	{ "notified pages are NOTIFIED", break_notified_owner },
	{ "every page is in one list", break_one_list },
	{ "committed == the sum of populated granules", break_committed_sum },
	{ "free_chunks counts the free chunks", break_free_chunks },
	{ "warm_slices counts the warm slices", break_warm_slices },
	{ "the page that has nothing has nothing", break_page_none },
	{ "a free list holds blocks whose memory is there", break_hole_listed },
	{ "the owner's word says that a page has holes", break_hole_flag },
	{ "blocks that a hole makes unusable count as used", break_hole_used },
	{ "pending granules lie in pages", break_pending_span },
	{ "a page with pending granules was handed over", break_pending_kept },
	{ "a page that was handed over has pending granules", break_handed },
	{ "handed counts the pages that were handed over",
		break_handed_count },
	{ "what the slice map names begins at a head", break_head_missing },
	{ "the floor keeps no more than it may", break_floor_kept },
	{ "the floor keeps younger memory before older", break_floor_ages },
	{ "behind what does not fit the floor keeps less", break_floor_runs },
	{ "behind what does not fit the floor keeps less", break_floor_most },
	{ "current pages keep no more than they may", break_current_left },
	{ "no sweep to come has seen a page", break_seen },
	{ "with nobody inside no memory is on its way back", break_giving },
	{ "with nobody inside no round is under way", break_busy },
	{ "a sweep is at rest, under way or wanted", break_wanted },
	{ "no epoch is to come", break_later },
	{ "no epoch is to come", break_changed },
	{ "no epoch is to come", break_swept },
	{ "no epoch is to come", break_passed },
	{ "requests are answered as they come", break_answering },
	{ "requests are answered as they come", break_answered },
};

/* Each is named, whatever `where` is; and undone, all is well. */
static void test_check_names_each(void)
{
	struct scene scene;

	scene_begin(&scene);
	CHECK_OR_RETURN(!test_failures());
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *seen;

		cases[i].breaks(&scene);
		seen = fallow_check(&scene.rig->heap, NULL);
		if (seen == NULL || strcmp(seen, cases[i].invariant) != 0)
			test_printf("\n    expected: %s\n    seen: %s",
				cases[i].invariant, seen ? seen : "nothing");
		CHECK(seen != NULL && !strcmp(seen, cases[i].invariant));
		pokes_undo();
		white_check(scene.rig);
	}
	rig_end_now(scene.rig, true);
}

/* What is broken is also where: the page, chunk or slice that it is about. */
static void test_check_where(void)
{
	struct scene s;
	uintptr_t where = 1;

	scene_begin(&s);
	CHECK(fallow_check(&s.rig->heap, &where) == NULL);
	CHECK_EQUAL(where, 0);
	break_warm(&s);
	CHECK(fallow_check(&s.rig->heap, &where) != NULL);
	CHECK_EQUAL(where, s.chunk->base);
	pokes_undo();
	break_used(&s);
	CHECK(fallow_check(&s.rig->heap, &where) != NULL);
	CHECK_EQUAL(where, s.full->base);
	pokes_undo();
	break_map(&s);
	CHECK(fallow_check(&s.rig->heap, &where) != NULL);
	CHECK_EQUAL(where, s.span->base + SLICE_BYTES);
	/* The first that is found is kept. */
	break_free_chunks(&s);
	CHECK(fallow_check(&s.rig->heap, &where) != NULL);
	CHECK_EQUAL(where, s.span->base + SLICE_BYTES);
	pokes_undo();
	rig_end_now(s.rig, true);
}

const struct test tests[] = {
	{ "check_names_each", test_check_names_each },
	{ "check_where", test_check_where },
	{ NULL, NULL },
};
