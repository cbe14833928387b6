/* SPDX-License-Identifier: MIT */
/*
 * Going over all pages and spans, and over the blocks in a page.
 *
 * The chunks' `heads` say where pages and spans begin.  Which blocks of a page
 * are in use is told by which are not: those in the owner's list or word, those
 * in the remote word, and those never formed.  A set of bits on the stack, half
 * a KiB, collects them.
 *
 * Everything is only read; it is right while nobody else uses the heap.
 */
#include "walk.h"
#include "span.h"
#include "memory.h"

struct page *fl_walk_next(const struct heap *heap, size_t *slice)
{
	size_t number = *slice / CHUNK_SLICES;
	unsigned from = *slice % CHUNK_SLICES;

	for (; number < heap->chunk_count; number++, from = 0) {
		struct chunk *chunk = heap->chunks[number];
		uint32_t heads = chunk == NULL ? 0
					       : chunk->heads >> from << from;

		if (heads == 0)
			continue;
		from = (unsigned)__builtin_ctz(heads);
		*slice = number * CHUNK_SLICES + from + 1;
		return &chunk->records[from];
	}
	*slice = number * CHUNK_SLICES;
	return NULL;
}

/* Populated granules in [base, end). */
static size_t populated_count(
	const struct heap *heap, uintptr_t base, uintptr_t end)
{
	size_t count = 0;

	fl_watch_steps((end - base) >> FALLOW_GRANULE_LOG2);
	for (; base < end; base += GRANULE_BYTES) {
		uint16_t word = fl_load_relaxed(
			&chunk_of(heap, base)->populated[slice_of(base)]);

		count += word >> (base >> FALLOW_GRANULE_LOG2 &
				 (SLICE_GRANULES - 1)) &
			1;
	}
	return count;
}

size_t fl_walk_committed(const struct heap *heap, const struct page *page)
{
	return populated_count(heap, page->base,
		       page->base + page_slices(page) * SLICE_BYTES)
		<< FALLOW_GRANULE_LOG2;
}

size_t fl_walk_holes(const struct heap *heap, const struct page *page)
{
	uintptr_t end;

	if (page->kind == PAGE_SPAN)
		return 0;
	end = align_up(page->base + page_formed_end(page),
		GRANULE_BYTES);
	return (end - page->base) -
		(populated_count(heap, page->base, end)
			<< FALLOW_GRANULE_LOG2);
}

uint32_t fl_walk_used(const struct heap *heap, const struct page *page)
{
	uint32_t used = page_used(page);
	uint32_t formed = fl_load_relaxed(&page->formed);
	/* Pairs with remote_push(), though a count needs no more than itself. */
	uint32_t remote =
		remote_count(page, fl_load_acquire(&page->remote)) +
		page_hole_blocks(heap, page);

	/* Between the two the owner may have folded, or freed the rest; and
	 * page_used() is two words, of which it may have changed one. */
	if (used > formed)
		used = formed;
	return used > remote ? used - remote : 0;
}

/* Adds a small page's list to the set. */
static const char *list_free(const struct page *page,
	const struct block *block, struct block_set *set)
{
	for (; block != NULL; block = block->next) {
		uintptr_t addr = (uintptr_t)block;
		uint32_t index =
			page_place(page, (uint32_t)(addr - page->base));

		if (index >= page->formed || addr != page->base +
				(uintptr_t)index * page->block_size)
			return "a free list holds formed blocks of its page";
		if (FALLOW_CHECKS && block->mark != page->mark)
			return "a free block carries its mark";
		if (block_set_has(set, index))
			return "a block is on one list once";
		set->words[index / 64] |= (uint64_t)1 << (index % 64);
	}
	return NULL;
}

const char *fl_walk_free(const struct page *page, struct block_set *set)
{
	/* Pairs with remote_push(): the links of the list. */
	uint64_t word = fl_load_acquire(&page->remote);
	const char *broken;
	size_t i;

	for (i = 0; i < BLOCKS_MAX / 64; i++)
		set->words[i] = 0;
	if (page->kind == PAGE_SMALL) {
		broken = list_free(page, page->free, set);
		if (broken == NULL)
			broken = list_free(
				page, remote_head(page, word), set);
		return broken;
	}
	word &= REMOTE_BLOCKS;
	set->words[0] = page->bits | word;
	if (page->bits & word)
		return "a block is on one list once";
	if (set->words[0] >> page->formed)
		return "a free list holds formed blocks of its page";
	return NULL;
}

/* Visits the blocks in use of a page. */
static bool blocks_visit(const struct heap *heap, const struct page *page,
	bool (*visit)(void *arg, const struct fallow_item *item), void *arg)
{
	struct block_set set;
	uint32_t i;

	/* What a broken list shows is still worth seeing. */
	(void)fl_walk_free(page, &set);
	for (i = 0; i < page->formed; i++) {
		struct fallow_item item = {
			.kind = FALLOW_ITEM_BLOCK,
			.base = page->base + (uintptr_t)i * page->block_size,
			.size = page->block_size,
			.block_size = page->block_size,
			.owner = heap->shared ? FALLOW_NO_CONTEXT : page_owner(page),
		};

		if (!block_set_has(&set, i) && !fl_hole_gone(heap, page, i) &&
			!visit(arg, &item))
			return false;
	}
	return true;
}

/* Visits all of one heap but its emergency pool. */
static bool heap_visit(const struct heap *heap, bool blocks,
	bool (*visit)(void *arg, const struct fallow_item *item), void *arg)
{
	const struct page *page;
	size_t slice = 0;

	while ((page = fl_walk_next(heap, &slice)) != NULL) {
		bool span = page->kind == PAGE_SPAN;
		struct fallow_item item = {
			.kind = span ? FALLOW_ITEM_SPAN : FALLOW_ITEM_PAGE,
			.base = page->base,
			.size = page_slices(page) * SLICE_BYTES,
			.block_size = span ? page->span_size : page->block_size,
			.used = span ? 1 : fl_walk_used(heap, page),
			.formed = span ? 1 : page->formed,
			.capacity = span ? 1 : page->capacity,
			.committed = fl_walk_committed(heap, page),
			.owner = heap->shared ? FALLOW_NO_CONTEXT : page_owner(page),
		};

		if (page_reserve(heap, page) || span_kept(page))
			continue;
		if (!visit(arg, &item))
			return false;
		if (blocks && !span && !blocks_visit(heap, page, visit, arg))
			return false;
	}
	return true;
}

bool fallow_walk(struct fallow *fallow, bool blocks,
	bool (*visit)(void *arg, const struct fallow_item *item), void *arg)
{
	const struct heap *heap = heap_of(fallow);

	for (; heap != NULL; heap = heap_reserve(heap))
		if (!heap_visit(heap, blocks, visit, arg))
			return false;
	return true;
}
