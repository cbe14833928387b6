/* SPDX-License-Identifier: MIT */
/*
 * One size-class page: how its blocks come into being and come back.
 *
 * A page grows from its begin: first granules are committed (a prefix of the
 * page), then blocks are formed in them, then blocks are handed out.  What was
 * never formed was never touched.
 *
 *   base            formed * size     committed        extent
 *    | used | free | used | free ...  |  unformed      |  uncommitted  |
 *
 * Small pages link their free blocks through the blocks; medium pages
 * have at most 56 blocks, so their free blocks are bits in the record and
 * the blocks themselves are never touched.  A formed block is in exactly one
 * place: in use, in the owner's list or word, or in the remote word.
 *
 * Invariant: used + free == formed, where `used` counts the blocks in the
 * remote word until they are folded.
 *
 * The functions here know one page and no lists; the caller owns the page or
 * has it in TRANSIT.
 */
#include "page.h"
#include "memory.h"

/* Blocks are formed at most this many bytes at a time: enough to make the next
 * call here rare, few enough not to touch memory long before its use. */
#define FORM_BYTES 4096u

/* A page commits as much again as it has, but not more than this. */
#define COMMIT_STEP_MAX ((size_t)64 << 10)

void fl_page_init(struct page *page, struct chunk *chunk, unsigned first,
	unsigned class, unsigned slices)
{
	page->free = NULL;
	page->bits = 0;
	page_used_set(page, 0);
	page_wake_set(page, WAKE_NEVER);
	page->block_size = (uint32_t)class_size(class);
	page->kind = class_kind(class);
	page->magic = page->kind == PAGE_SMALL
		? size_small_magic(page->block_size)
		: size_magic(page->block_size);
	page->limit = 0;
	page_form(page, 0);
	page->capacity = (uint16_t)(slices * SLICE_BYTES / page->block_size);
	page->class = (uint8_t)class;
	page->place = PLACE_NONE;
	page->loose = 0;
	fl_store_relaxed(&page->owner, OWNER_NONE);
	page->base = chunk->base + ((uintptr_t)first << FALLOW_SLICE_LOG2);
	page->next = page->prev = NULL;
	page->chunk = chunk;
	page->clean = 0;
	page->clean_from = 0;
	page->committed = 0;
	page->accounted = 0;
	page->swept_used = PAGE_DUE;
	page->first_slice = (uint8_t)first;
	page->slices = (uint8_t)slices;
	/* Nobody has a block of it yet, so nobody else looks here. */
	fl_store_relaxed(&page->remote, remote_word(REMOTE_TRANSIT, 0));
}

/* Puts the remote word's list in front of the owner's. */
static void list_fold(struct page *page, uint64_t word)
{
	struct block *head = remote_head(page, word);
	struct block *last = head;

	/* As a rule the owner comes when it has none. */
	if (page->free == NULL) {
		page->free = head;
		return;
	}
	fl_watch_steps(remote_count(page, word));
	while (last->next != NULL)
		last = last->next;
	last->next = page->free;
	page->free = head;
}

uint32_t fl_page_fold(struct page *page, struct local *local)
{
	uint64_t word = fl_load_relaxed(&page->remote);
	uint32_t count;

	if ((word & REMOTE_BLOCKS) == 0)
		return 0;
	word = remote_take(page);
	if (page->kind == PAGE_SMALL) {
		list_fold(page, word);
	} else {
		/* The owner and another freed the same block at once: that
		 * other saw no bit.  Here it is seen, and counted. */
		if ((page->bits & word) != 0)
			fl_add_relaxed(&local->counters.misuses, 1);
		word &= ~page->bits;
		fl_store_relaxed(
			&page->bits, page->bits | (word & REMOTE_BLOCKS));
	}
	count = remote_count(page, word);
	page_used_set(page, page_used(page) - count);
	counter_add(&local->counters.remote_frees, count);
	return count;
}

size_t fl_page_extent(const struct page *page)
{
	return align_up((size_t)page->capacity * page->block_size,
		GRANULE_BYTES);
}

/* Forms blocks [first, first + n) of a small page: linked in address order
 * before what the list had, which is nothing as a rule. */
static void list_form(struct page *page, uint32_t first, uint32_t n)
{
	struct block **link = &page->free;
	uintptr_t at = page->base + (uintptr_t)first * page->block_size;
	struct block *rest = page->free;

	for (; n > 0; n--, at += page->block_size) {
		struct block *block = (struct block *)at;

		block_mark_set(page, block);
		*link = block;
		link = &block->next;
	}
	*link = rest;
}

/* Forms blocks [first, first + n) of a bit-word page. */
static void bits_form(struct page *page, uint32_t first, uint32_t n)
{
	for (; n > 0; n--, first++) {
		uint64_t bit = (uint64_t)1 << first;

		fl_store_relaxed(&page->bits, page->bits | bit);
		if ((size_t)first * page->block_size >= page->clean_from)
			page->clean |= bit;
	}
}

bool fl_page_form(struct page *page)
{
	uint32_t first = page->formed;
	uint32_t n = page->committed / page->block_size;
	uint32_t most = FORM_BYTES / page->block_size;

	n = (n < page->capacity ? n : page->capacity) - first;
	if (n == 0)
		return false;
	if (most == 0)
		most = 1;
	if (n > most)
		n = most;
	page_form(page, first + n);
	if (page->kind == PAGE_SMALL)
		list_form(page, first, n);
	else
		bits_form(page, first, n);
	return true;
}

/* The committed prefix that would be right for one more block. */
static uint32_t commit_goal(const struct page *page)
{
	size_t need = align_up(((size_t)page->formed + 1) * page->block_size,
		GRANULE_BYTES);
	size_t step = page->committed;
	size_t goal;

	if (step > COMMIT_STEP_MAX)
		step = COMMIT_STEP_MAX;
	goal = align_up(page->committed + step, GRANULE_BYTES);
	if (goal < need)
		goal = need;
	if (goal > fl_page_extent(page))
		goal = fl_page_extent(page);
	return (uint32_t)goal;
}

bool fl_page_ready(const struct heap *heap, const struct page *page)
{
	size_t need = ((size_t)page->formed + 1) * page->block_size;

	return need <= page->committed ||
		fl_memory_populated(heap, page->base + page->committed,
			align_up(need - page->committed, GRANULE_BYTES));
}

bool fl_page_commit(struct op *op, struct page *page)
{
	uint32_t from = page->committed;
	uint32_t goal = commit_goal(page);
	unsigned result;

	fl_assert(remote_state(fl_load_relaxed(&page->remote)) ==
		REMOTE_TRANSIT);
	result = fl_memory_populate(op, page->base + from, goal - from, false);
	if (!(result & FALLOW_COMMIT_DONE))
		return false;
	page->committed = goal;
	if (!(result & FALLOW_COMMIT_ZEROED))
		page->clean_from = goal;
	return true;
}

/* Whether the block at `index` is in a list. */
static bool list_has(
	const struct page *page, const struct block *block, uint32_t index)
{
	for (; block != NULL; block = block->next)
		if (page_index(page, (uintptr_t)block) == index)
			return true;
	return false;
}

bool fl_page_lists(const struct page *page, uint32_t index)
{
	/* Pairs with remote_push(): the links of the list. */
	uint64_t word = fl_load_acquire(&page->remote);

	if (page->kind != PAGE_SMALL)
		return (page->bits | word) >> index & 1;
	/* Others may push meanwhile, in front of what is walked here. */
	return list_has(page, page->free, index) ||
		list_has(page, remote_head(page, word), index);
}
