/* SPDX-License-Identifier: MIT */
/*
 * fallow_check(): every invariant of the heap, looked at.
 *
 * Each is written once, as the sentence that is returned when it is broken; the
 * comments at the data say the same.  The order is from the outside in, so that
 * the first broken one is the cause rather than a consequence: chunks, then
 * pages, then the blocks in them, then the lists of contexts, then the sums.
 *
 * Nothing is changed, nothing is called, no lock is taken: the caller says that
 * nobody else uses the heap.
 */
#include "bits.h"
#include "chunk.h"
#include "deferred.h"
#include "floor.h"
#include "local.h"
#include "own.h"
#include "span.h"
#include "walk.h"

/* What is being summed up, and what was found broken. */
struct check {
	const struct heap *heap;
	const char *broken;
	uintptr_t where;
	size_t populated; /* granules */
	size_t free_chunks, warm_slices;
	/* Pages that are in a context's list or abandoned, by each way of
	 * counting. */
	size_t linked, owned;
	size_t handed;
	/* The same of the spans that contexts keep. */
	size_t holding, kept;
};

/* Notes the first invariant that does not hold; returns whether it holds. */
static bool holds(struct check *check, bool condition, const char *invariant,
	uintptr_t where)
{
	if (!condition && check->broken == NULL) {
		check->broken = invariant;
		check->where = where;
	}
	return condition;
}

/* Whether the chunk is in the list of its bin. */
static bool chunk_listed(const struct heap *heap, const struct chunk *chunk)
{
	const struct chunk *first = heap->bins[chunk->bin];
	const struct chunk *at = first;

	if (first == NULL)
		return false;
	do {
		if (at == chunk)
			return at->next->prev == at;
		at = at->next;
	} while (at != first);
	return false;
}

/* The slices of a chunk that its pages and spans take up; spans that began in
 * an earlier chunk count by the slice map. */
static uint32_t slices_mapped(
	const struct heap *heap, const struct chunk *chunk)
{
	size_t first = (chunk->base - heap->base) >> FALLOW_SLICE_LOG2;
	uint32_t slices = 0;
	unsigned i;

	for (i = 0; i < CHUNK_SLICES; i++)
		if (heap->map[first + i] != &fl_page_nobody)
			slices |= slice_mask(i, 1);
	return slices;
}

/* Granules about to become holes: with nobody inside, those that an owner has
 * handed over. */
static void handed_check(struct check *check, const struct chunk *chunk)
{
	const struct heap *heap = check->heap;
	uint32_t slices = 0;
	unsigned i;

	for (i = 0; i < CHUNK_SLICES; i++) {
		const struct page *page =
			map_find(heap, chunk->base + i * SLICE_BYTES);

		if (chunk->pending[i] == 0)
			continue;
		holds(check, page != NULL && page->kind != PAGE_SPAN,
			"pending granules lie in pages", chunk->base);
		if (page != NULL && page->chunk == chunk)
			slices |= slice_mask(page->first_slice, 1);
	}
	holds(check, (chunk->handed & ~slices) == 0,
		"a page that was handed over has pending granules",
		chunk->base);
	holds(check, (slices & ~chunk->handed) == 0,
		"a page with pending granules was handed over", chunk->base);
	check->handed += bits_count(chunk->handed);
}

/* Whether a page or span that the slice map names begins at a head. */
static bool head_has(const struct page *page)
{
	const struct chunk *chunk = page->chunk;

	return chunk == NULL || (chunk->heads >> page->first_slice & 1);
}

/* What must hold of a chunk's slices, its bin and its memory. */
static void chunk_check(struct check *check, const struct chunk *chunk)
{
	const struct heap *heap = check->heap;
	uintptr_t at = chunk->base;
	unsigned i;

	holds(check, (chunk->free & ~chunk->present) == 0,
		"free slices are present", at);
	holds(check, (chunk->heads & chunk->free) == 0,
		"a page or span begins in slices that are not free", at);
	holds(check, (chunk->warm & ~chunk->free) == 0,
		"warm slices are free", at);
	holds(check, (chunk->idle & ~chunk->free) == 0,
		"idle slices are free", at);
	holds(check, chunk->count == bits_count(chunk->free),
		"count counts a chunk's free slices", at);
	holds(check, chunk->bin == fl_chunk_longest(chunk->free),
		"bin == the longest run of free slices", at);
	holds(check, chunk->bin == 0 || chunk_listed(heap, chunk),
		"a chunk with free slices is in its bin's list", at);
	holds(check, slices_mapped(heap, chunk) ==
			(chunk->present & ~chunk->free),
		"the slice map names what is not free", at);
	for (i = 0; i < CHUNK_SLICES; i++) {
		uint32_t bit = slice_mask(i, 1);
		const struct page *page =
			map_find(heap, chunk->base + i * SLICE_BYTES);

		holds(check, page == NULL || head_has(page),
			"what the slice map names begins at a head", at);
		check->populated +=
			bits_count(chunk->populated[i]);
		holds(check, (chunk->present & bit) ||
				chunk->populated[i] == 0 ||
				heap_is(heap, FALLOW_CLASS_DIRECT),
			"populated granules are present", at);
		holds(check, (chunk->pending[i] & ~chunk->populated[i]) == 0,
			"pending granules are populated", at);
	}
	handed_check(check, chunk);
	check->free_chunks += chunk->bin == CHUNK_SLICES;
	check->warm_slices += bits_count(chunk->warm);
}

/* The state a page's word must show for the list it is in. */
static bool place_agrees(const struct page *page)
{
	enum remote_state state = remote_state(page->remote);

	switch ((enum place)page->place) {
	case PLACE_CURRENT:
	case PLACE_QUEUE:
	case PLACE_DRY:
		return state == REMOTE_OWNED || state == REMOTE_NOTIFIED;
	case PLACE_FULL:
		return state == REMOTE_FULL || state == REMOTE_NOTIFIED;
	case PLACE_ABANDONED:
		return state == REMOTE_ABANDONED &&
			page_owner(page) == FALLOW_NO_CONTEXT;
	case PLACE_NONE:
	default:
		return false;
	}
}

/* Whether the owner's free that is to take the slow path will.  The blocks of a
 * hole that was refused are others' frees until they are folded, and `wake` is
 * no less till then. */
static bool wake_agrees(const struct heap *heap, const struct page *page)
{
	enum place place = (enum place)page->place;
	uint32_t holes = page_hole_blocks(heap, page);
	uint32_t most = holes + remote_count(page, page->remote);

	if (place == PLACE_CURRENT || place == PLACE_ABANDONED)
		return page->wake == WAKE_NEVER;
	return page->wake >= fl_local_wake_at(page, place, holes) &&
		page->wake <= fl_local_wake_at(page, place, most);
}

/* Whether as many blocks are free as say where a page belongs. */
static bool place_fits(const struct heap *heap, const struct page *page)
{
	uint32_t used = page_used(page);

	if (page->place == PLACE_QUEUE)
		return used < page->formed;
	/* If `wake` is at all that was formed, nothing is in use. */
	if (page->place == PLACE_DRY)
		return used > page->wake || used == page->formed;
	/* A full one may serve where it is. */
	return page->place != PLACE_FULL || used > page->wake ||
		heap->locals[page_owner(page)]->current[page->class] == page;
}

/* What must hold of a page's record, blocks and place. */
static void page_check(struct check *check, const struct page *page)
{
	uintptr_t at = page->base;
	uint32_t remote = remote_count(page, page->remote);
	struct block_set set;
	const char *broken;
	uint32_t free = 0;
	size_t i;

	if (!holds(check, page->block_size == class_size(page->class) &&
			    page->slices == fl_size_page_slices(page->class,
						    check->heap->lean),
		    "a page's blocks are those of its class", at))
		return;
	holds(check, page_used(page) <= page->formed &&
			page->formed <= page->capacity,
		"used <= formed <= capacity", at);
	holds(check, page->kind != PAGE_SMALL ||
			page->limit == page->formed *
				(page->magic * page->block_size),
		"limit says how many blocks are formed", at);
	holds(check, page_formed_end(page) <= page->committed,
		"formed blocks lie in the committed prefix", at);
	holds(check, page->committed == 0 ||
			fl_memory_populated(
				check->heap, page->base, page->committed) ||
			fl_walk_holes(check->heap, page) > 0,
		"the committed prefix is populated", at);
	holds(check, remote <= page_used(page), "remote frees were in use", at);
	holds(check, page->kind == PAGE_SMALL ||
			(page->clean & ~page->bits) == 0,
		"what is known to be zero is free", at);
	holds(check, place_agrees(page), "state and place agree", at);
	holds(check, wake_agrees(check->heap, page),
		"wake is where a free changes what a page is good for", at);
	holds(check, place_fits(check->heap, page),
		"a queued page has a free block, others less than an eighth",
		at);
	broken = fl_walk_free(page, &set);
	if (!holds(check, broken == NULL, broken, at))
		return;
	for (i = 0; i < page->formed; i++)
		holds(check, !block_set_has(&set, (uint32_t)i) ||
				!fl_hole_gone(check->heap, page, (uint32_t)i),
			"a free list holds blocks whose memory is there", at);
	holds(check, page_holed(page) || !fl_hole_any(check->heap, page),
		"the owner's word says that a page has holes", at);
	for (i = 0; i < BLOCKS_MAX / 64; i++)
		free += bits_count(set.words[i]);
	holds(check, fl_hole_blocks(check->heap, page) <= page_used(page) - remote,
		"blocks that a hole makes unusable count as used", at);
	holds(check, page_used(page) - remote + free == page->formed,
		"used + free + holed + pending == formed", at);
	holds(check, (int32_t)(check->heap->sweeps - page->seen) >= 0,
		"no sweep to come has seen a page", at);
	check->owned++;
}

/* Whether whoever frees the span may keep it. */
static bool span_keepable(const struct heap *heap, const struct page *span)
{
	return span->span_size <= SPAN_KEPT_MAX && span->arena == NULL &&
		!page_reserve(heap, span);
}

/* The same of a span. */
static void span_check(struct check *check, const struct page *span)
{
	holds(check, fl_memory_populated(
			check->heap, span->base, span->span_size),
		"a span is populated", span->base);
	holds(check, remote_state(span->remote) == REMOTE_SPAN ||
			span_kept(span),
		"a span is in use, or kept", span->base);
	holds(check, span->owner == (span_keepable(check->heap, span)
				? OWNER_FREER
				: OWNER_NONE),
		"a span's owner says whether who frees it may keep it",
		span->base);
	check->kept += span_kept(span);
}

/* A page or span, and its entries in the slice map. */
static void item_check(struct check *check, const struct page *page,
	size_t slice)
{
	const struct heap *heap = check->heap;
	uintptr_t base = heap->base + (slice << FALLOW_SLICE_LOG2);
	size_t n = page_slices(page);

	if (!holds(check, page->base == base && page->chunk != NULL,
		    "a record says where it is", base))
		return;
	for (; n > 0; n--, slice++)
		if (!holds(check, heap->map[slice] == page,
			    "the slice map names the page of each slice",
			    heap->base + (slice << FALLOW_SLICE_LOG2)))
			return;
	if (page->kind != PAGE_SPAN)
		page_check(check, page);
	else
		span_check(check, page);
}

/* One list of pages, circular. */
static void list_check(struct check *check, const struct page *first,
	unsigned class, enum place place, uint32_t owner)
{
	const struct page *page = first;

	if (first == NULL)
		return;
	do {
		if (!holds(check, page->place == place &&
				    page->class == class &&
				    page_owner(page) == owner,
			    "a list holds its context's pages of its class",
			    page->base) ||
			!holds(check, page->next->prev == page,
				"a list is linked both ways", page->base))
			return;
		check->linked++;
		page = page->next;
	} while (page != first);
}

/* The spans that a context keeps. */
static void kept_check(struct check *check, const struct local *local)
{
	const struct page *span = local->kept;
	uint32_t n = 0;

	for (; span != NULL && n <= local->kept_count; span = span->next, n++)
		holds(check, map_find(check->heap, span->base) == span &&
				span_kept(span),
			"what a context keeps is free", span->base);
	holds(check, n == local->kept_count,
		"kept_count counts what a context keeps", 0);
	check->holding += n;
}

/* The context's own map, where there is one. */
static void own_check(struct check *check, const struct local *local)
{
	struct own *own = local->own;
	size_t i;

	if (!FL_PORT_SERVES || own == NULL)
		return;
	holds(check, own->nobody.limit == 0 && own->nobody.owner == 0,
		"what an empty entry leads to has no block", 0);
	for (i = 0; i < OWN_COUNT; i++) {
		uintptr_t at = (uintptr_t)i << FALLOW_SLICE_LOG2;
		const struct page *page = own_look(own, at);

		holds(check, page == &own->nobody ||
				(!page_holed(page) &&
					page_owner(page) == local->index &&
					(uint32_t)(at - page->base) <
						page->slices * SLICE_BYTES),
			"an own map leads to pages of its context", at);
	}
}

/* What must hold of a context and of the pages in its lists. */
static void local_check(struct check *check, const struct local *local)
{
	const struct page *page;
	unsigned class;
	size_t size;

	holds(check, !lock_held(&local->lock), "no lock is held", 0);
	holds(check, local->calling == 0, "no call is in progress", 0);
	holds(check, check->heap->serving[local->index] ==
			(heap_parked(check->heap, local->index)
					? &fl_local_none
					: local),
		"a context serves its own pages, and none while it is parked",
		0);
	for (size = 0; size <= SIZE_DIRECT_MAX; size++)
		holds(check, local->classes[size] == size_class(size),
			"a size finds its class", 0);
	for (class = 0; class < CLASS_COUNT; class++) {
		page = local->current[class];
		if (page != &fl_page_none) {
			holds(check, (page->place == PLACE_CURRENT ||
					     page->place == PLACE_FULL) &&
					page->class == class &&
					page_owner(page) == local->index,
				"a current page is its context's", page->base);
			/* A full one is in their list. */
			if (page->place == PLACE_CURRENT)
				check->linked++;
		}
		list_check(check, local->queue[class], class, PLACE_QUEUE,
			local->index);
		list_check(check, local->dry[class], class, PLACE_DRY,
			local->index);
		list_check(check, local->full[class], class, PLACE_FULL,
			local->index);
	}
	kept_check(check, local);
	own_check(check, local);
	for (page = local->told; page != NULL; page = page->notified_next)
		holds(check, remote_state(page->remote) == REMOTE_NOTIFIED &&
				page_owner(page) == local->index,
			"notified pages are NOTIFIED", page->base);
	for (page = local->notified; page != NULL; page = page->notified_next)
		holds(check, remote_state(page->remote) == REMOTE_NOTIFIED &&
				page_owner(page) == local->index,
			"notified pages are NOTIFIED", page->base);
}

/* What sweeps agree on, and what comes out of their counts. */
static void sweeping_check(struct check *check)
{
	const struct heap *heap = check->heap;
	const struct sweeping *sweeping = &heap->sweeping;
	const char *broken = fl_floor_broken(heap);
	unsigned i;

	holds(check, broken == NULL, broken, 0);
	holds(check, check->handed == heap->handed,
		"handed counts the pages that were handed over", 0);
	holds(check, sweeping->giving == 0,
		"with nobody inside no memory is on its way back", 0);
	holds(check, heap->pacing.busy == 0,
		"with nobody inside no round is under way", 0);
	holds(check, sweeping->wanted <= WANTED_YES,
		"a sweep is at rest, under way or wanted", 0);
	holds(check, sweeping->later <= heap->epoch &&
			sweeping->changed <= heap->epoch,
		"no epoch is to come", 0);
	for (i = 0; i < heap->contexts; i++) {
		const struct local *local = heap->locals[i];

		holds(check, local->swept <= heap->epoch &&
				local->passed <= heap->epoch &&
				local->refused_in <= heap->epoch,
			"no epoch is to come", 0);
		holds(check, (int32_t)(heap->request - local->answering) >= 0 &&
				(int32_t)(local->answering -
					local->answered) >= 0,
			"requests are answered as they come", 0);
	}
}

/* What must come out when everything was looked at. */
static void sums_check(struct check *check)
{
	const struct heap *heap = check->heap;
	unsigned class, i, parked = 0;

	for (class = 0; class < CLASS_COUNT; class++)
		list_check(check, heap->abandoned[class], class,
			PLACE_ABANDONED, FALLOW_NO_CONTEXT);
	holds(check, check->linked == check->owned,
		"every page is in one list", 0);
	sweeping_check(check);
	holds(check, check->holding == check->kept,
		"every free span is kept by one context", 0);
	holds(check, check->populated << FALLOW_GRANULE_LOG2 ==
			heap->counters.committed,
		"committed == the sum of populated granules", 0);
	holds(check, check->free_chunks == heap->free_chunks,
		"free_chunks counts the free chunks", 0);
	holds(check, check->warm_slices == heap->warm_slices,
		"warm_slices counts the warm slices", 0);
	holds(check, fl_page_none.free == NULL && page_used(&fl_page_none) == 0,
		"the page that has nothing has nothing", 0);
	for (i = 0; i < heap->contexts; i++)
		parked += heap->parked[i] != PARKED_NOT;
	holds(check, parked == heap->parked_count,
		"parked_count counts the parked contexts", 0);
	for (class = 0; class < CLASS_COUNT; class++)
		holds(check, fl_local_none.current[class] == &fl_page_none &&
				fl_local_none.queue[class] == NULL &&
				fl_local_none.dry[class] == NULL &&
				fl_local_none.full[class] == NULL,
			"the local of parked contexts has nothing", 0);
}

/* What fallow_free_deferred() put by: blocks in use, each there once.  After a
 * misuse the rest of a list may be lost, and is counted all the same. */
static void deferred_check(struct check *check)
{
	const struct heap *heap = check->heap;
	const struct block *block = heap->deferred;
	size_t n = 0;

	for (; block != NULL; block = block->next) {
		const struct page *page =
			page_find(heap, (uintptr_t)block);

		if (!holds(check, fl_deferred_is(heap, page, block),
			    "a deferred block carries its mark",
			    (uintptr_t)block) ||
			!holds(check, ++n <= heap->deferred_count,
				"deferred blocks are counted",
				(uintptr_t)block))
			return;
	}
}

/* The emergency pool: where the heap says, whole, and used by nobody now. */
static void reserve_check(struct check *check)
{
	const struct heap *heap = check->heap;
	const struct heap *pool = heap_reserve(heap);

	holds(check, !lock_held(&heap->reserve_lock) &&
			!heap->reserve_filling,
		"no lock is held", 0);
	if (pool == NULL)
		return;
	holds(check, pool->shared && pool == (struct heap *)
				map_find(heap, (uintptr_t)pool)->base,
		"the emergency pool is a span of its heap", (uintptr_t)pool);
	holds(check, pool->counters.reserved >= heap->reserve_bytes &&
			pool->counters.committed == pool->counters.reserved,
		"the emergency pool has what was asked for",
		(uintptr_t)pool);
}

/* All of one heap. */
static void heap_check(struct check *check)
{
	const struct heap *heap = check->heap;
	const struct page *page;
	size_t number, slice = 0;
	unsigned i;

	holds(check, !lock_held(&heap->lock) && !heap->growing,
		"no lock is held", 0);
	for (number = 0; number < heap->chunk_count; number++)
		if (heap->chunks[number] != NULL)
			chunk_check(check, heap->chunks[number]);
	while (check->broken == NULL &&
		(page = fl_walk_next(heap, &slice)) != NULL)
		item_check(check, page, slice - 1);
	for (i = 0; check->broken == NULL && i < heap->contexts; i++)
		local_check(check, heap->locals[i]);
	if (check->broken == NULL)
		sums_check(check);
	if (check->broken == NULL)
		deferred_check(check);
	if (check->broken == NULL)
		reserve_check(check);
}

const char *fallow_check(struct fallow *fallow, uintptr_t *where)
{
	const struct heap *heap = heap_of(fallow);
	struct check check = { .broken = NULL };

	for (; heap != NULL && check.broken == NULL;
		heap = heap_reserve(heap)) {
		check = (struct check){ .heap = heap };
		heap_check(&check);
	}
	if (where != NULL)
		*where = check.where;
	return check.broken;
}
