/* SPDX-License-Identifier: MIT */
/*
 * Holes: granules of a page's formed area that hold no memory.
 *
 *   blocks    | free  | used | free | free | free  | free | used |
 *   granules  |         |         |  hole   |  hole   |         |
 *   listed      yes             yes    no      no       no
 *
 * A granule can go iff it lies among formed blocks and every block that touches
 * it is free.  Those blocks leave the list first, for the links are in them;
 * then the granules are marked pending, the provider is called with the context
 * left, and then they are holes: their populated bits are clear.  Nothing else
 * is stored.  Which blocks are unusable follows from the bits, and page_used(page)
 * counts them, so that used + free == formed holds whatever holes there are.
 *
 * While granules are pending the page serves on with its other blocks.  Whoever
 * called the provider alone writes the populated bits of its pending granules;
 * the owner alone those of all others.  A free never changes either.
 *
 * What is free behind the last block in use becomes unformed again instead, as it
 * was when the page was new: then it is no hole, and the page's frees are as fast
 * as before.
 *
 * Only an allocation brings a hole back (fl_hole_fill()).  A page that is
 * released with holes needs nothing: its next user populates what is missing.
 */
#include "hole.h"
#include "own.h"
#include "bits.h"
#include "memory.h"

/* The most of a hole that is committed at once. */
#define FILL_BYTES ((size_t)64 << 10)

/* Whether the heap's pages can have holes. */
static bool holes_may(const struct heap *heap)
{
	return FALLOW_HOLES && heap_is(heap, FALLOW_CLASS_WINDOW);
}

/* Whole granules in so many bytes. */
static unsigned granules_of(size_t bytes)
{
	return (unsigned)(bytes >> FALLOW_GRANULE_LOG2);
}

/* Granules that a page's first `formed` blocks touch. */
static unsigned touched_granules(const struct page *page, uint32_t formed)
{
	return granules_of(align_up(
		(size_t)formed * page->block_size, GRANULE_BYTES));
}

/* Granules, from the page's begin, that may become holes: all that formed
 * blocks touch, but for one that the next block to be formed touches too. */
static unsigned formed_granules(const struct page *page)
{
	size_t end = page_formed_end(page);

	if (fl_load_relaxed(&page->formed) == page->capacity)
		return granules_of(align_up(end, GRANULE_BYTES));
	return granules_of(end);
}

/* Of the granules of the page's slice, those that hold memory and will. */
static uint16_t resident_word(const struct page *page, unsigned slice)
{
	const struct chunk *chunk = page->chunk;
	unsigned at = page->first_slice + slice;

	/* Pairs with words_clear(): pending first, for whoever ends it clears
	 * populated before. */
	uint16_t pending = fl_load_acquire(&chunk->pending[at]);

	return fl_load_relaxed(&chunk->populated[at]) & (uint16_t)~pending;
}

/* Whether a granule of the page, counted from its begin, is missing. */
static bool missing(const struct page *page, unsigned granule)
{
	return !(resident_word(page, granule / SLICE_GRANULES) >>
			granule % SLICE_GRANULES &
		1);
}

/* The first granule from `from` on, below `end`, that is missing (or, with
 * `is` false, that is not); `end` if there is none. */
static unsigned next_granule(
	const struct page *page, unsigned from, unsigned end, bool is)
{
	while (from < end) {
		uint16_t word = resident_word(page, from / SLICE_GRANULES);

		/* A slice at a time where it is all the same. */
		if (from % SLICE_GRANULES == 0 &&
			word == (is ? SLICE_GRANULES_ALL : 0)) {
			from += SLICE_GRANULES;
			continue;
		}
		if (missing(page, from) == is)
			return from;
		from++;
	}
	return end;
}

bool fl_hole_any(const struct heap *heap, const struct page *page)
{
	unsigned end = formed_granules(page);

	return holes_may(heap) &&
		next_granule(page, 0, end, true) < end;
}

bool fl_hole_pending(const struct heap *heap, const struct page *page)
{
	unsigned i;

	if (!holes_may(heap))
		return false;
	for (i = 0; i < page->slices; i++) {
		const uint16_t *words =
			&page->chunk->pending[page->first_slice];

		/* Pairs with words_clear(): what became of it is seen too. */
		if (fl_load_acquire(&words[i]) != 0)
			return true;
	}
	return false;
}

/* The formed blocks that touch granules [first, end): [*from, *to). */
static void blocks_touched(const struct page *page, unsigned first,
	unsigned end, uint32_t *from, uint32_t *to)
{
	uint32_t formed = fl_load_relaxed(&page->formed);

	*from = page_index(page, page->base + first * GRANULE_BYTES);
	*to = page_index(page, page->base + end * GRANULE_BYTES - 1) + 1;
	if (*to > formed)
		*to = formed;
}

uint32_t fl_hole_blocks(const struct heap *heap, const struct page *page)
{
	unsigned end = formed_granules(page);
	unsigned at = 0;
	uint32_t counted = 0; /* blocks below it were counted or are whole */
	uint32_t n = 0;

	if (!holes_may(heap))
		return 0;
	while ((at = next_granule(page, at, end, true)) < end) {
		unsigned stop = next_granule(page, at, end, false);
		uint32_t from, to;

		blocks_touched(page, at, stop, &from, &to);
		if (from < counted)
			from = counted;
		if (to > from)
			n += to - from;
		if (to > counted)
			counted = to;
		at = stop;
	}
	return n;
}

/* Of a small page, which is a slice: its granules in one word. */
static bool small_gone(const struct page *page, size_t base)
{
	unsigned first = granules_of(base);
	unsigned n = granules_of(base + page->block_size - 1) - first + 1;
	uint32_t all = ((1u << n) - 1) << first;

	return (resident_word(page, 0) & all) != all;
}

bool fl_hole_gone(
	const struct heap *heap, const struct page *page, uint32_t index)
{
	size_t base = (size_t)index * page->block_size;
	unsigned first = granules_of(base);
	unsigned end = granules_of(
		align_up(base + page->block_size, GRANULE_BYTES));
	unsigned most = formed_granules(page);

	if (page->kind == PAGE_SMALL)
		return holes_may(heap) && small_gone(page, base);
	if (end > most)
		end = most;
	return holes_may(heap) &&
		next_granule(page, first, end, true) < end;
}

/* What a page's granules are asked to become, and how far it got. */
struct making {
	struct heap *heap;
	struct page *page;
	bool (*range)(void *arg, uintptr_t base, size_t size);
	void *arg;
	size_t bytes;
	bool full; /* there is no room for another range */
};

/* Marks granules [first, end) of the page, all of them resident, as pending. */
static void run_make(struct making *making, unsigned first, unsigned end)
{
	struct page *page = making->page;
	size_t bytes = (end - first) * GRANULE_BYTES;
	unsigned i;

	for (i = first; i < end; i++) {
		uint16_t *word = &page->chunk->pending[page->first_slice +
			i / SLICE_GRANULES];

		fl_store_relaxed(word,
			(uint16_t)(*word | 1u << i % SLICE_GRANULES));
	}
	making->bytes += bytes;
	making->full = !making->range(making->arg,
		page->base + first * GRANULE_BYTES, bytes);
}

/* The same for those of [first, end) that are resident, run by run; returns
 * the first that there was no room for, or `end`. */
static unsigned runs_make(struct making *making, unsigned first, unsigned end)
{
	while (!making->full && first < end) {
		unsigned from = next_granule(making->page, first, end, false);
		unsigned stop = next_granule(making->page, from, end, true);

		if (from < stop)
			run_make(making, from, stop);
		first = stop;
	}
	return first;
}

/* Granules with memory behind the last formed block. */
static void tail_make(struct making *making)
{
	struct page *page = making->page;
	unsigned first = touched_granules(page, page->formed);
	unsigned end = page->slices * SLICE_GRANULES;

	/* Also what the slices held when the page began, where no block fits
	 * too; what there is no room for now goes the next time. */
	(void)runs_make(making, first, end);
	page->committed = (uint32_t)(first << FALLOW_GRANULE_LOG2);
	if (page->clean_from > page->committed)
		page->clean_from = page->committed;
}

/* Of the blocks [from, to) that touch a granule which is there, how many are
 * unusable already: only the first and the last reach over its edges. */
static uint32_t edges_gone(const struct heap *heap, const struct page *page,
	uint32_t from, uint32_t to)
{
	uint32_t n = fl_hole_gone(heap, page, from);

	return to - from < 2 ? n : n + fl_hole_gone(heap, page, to - 1);
}

/*
 * A small page is one slice: for each of its granules, how many of the blocks
 * that touch it are in the list, or were taken out for the granule beside it;
 * the granules of which all are is what is returned, also the last if formed
 * blocks fill only its begin.
 */
static uint16_t small_loose(const struct heap *heap, const struct page *page)
{
	uint16_t listed[16] = { 0 };
	const struct block *block;
	unsigned end = touched_granules(page, page->formed);
	uint16_t doomed = 0;
	unsigned i;

	for (block = page->free; block != NULL; block = block->next) {
		size_t base = (uintptr_t)block - page->base;
		unsigned last = granules_of(base + page->block_size - 1);

		for (i = granules_of(base); i <= last; i++)
			listed[i]++;
	}
	for (i = 0; i < end; i++) {
		uint32_t from, to;

		blocks_touched(page, i, i + 1, &from, &to);
		if (to == from || missing(page, i))
			continue;
		if (page_holed(page))
			listed[i] += (uint16_t)edges_gone(heap, page, from, to);
		if (listed[i] == to - from)
			doomed |= (uint16_t)(1u << i);
	}
	return doomed;
}

/* Takes the blocks that touch a granule of `gone` out of the list; returns how
 * many. */
static uint32_t small_unlist(struct page *page, uint32_t gone)
{
	struct block **link = &page->free;
	struct block *block;
	uint32_t n = 0;

	while ((block = *link) != NULL) {
		size_t base = (uintptr_t)block - page->base;
		unsigned first = granules_of(base);
		unsigned last = granules_of(base + page->block_size - 1);

		if ((gone >> first & ((2u << (last - first)) - 1)) != 0) {
			*link = block->next;
			n++;
		} else {
			link = &block->next;
		}
	}
	return n;
}

/* Makes the blocks from `formed` on, all of them free or in holes, unformed
 * again; `listed` of them could be had, and cannot any more. */
static void page_unform(struct page *page, uint32_t formed, uint32_t listed)
{
	uint32_t gone = page->formed - formed - listed;

	page_used_set(page, page_used(page) - gone);
	page_form(page, formed);
	/* Not even behind the last of the rest, in its granule. */
	page->clean_from = page->committed;
}

/* Unforms what blocks of a small page are free behind the last one in use, as
 * far as whole granules are; returns the granules of `free` before that. */
static uint16_t small_unform(struct page *page, uint16_t free)
{
	unsigned end = touched_granules(page, page->formed);
	unsigned first = end;

	while (first > 0 &&
		((free >> (first - 1) & 1) || missing(page, first - 1)))
		first--;
	if (first < end) {
		uint32_t formed = page_index(
			page, page->base + first * GRANULE_BYTES);

		page_unform(page, formed,
			small_unlist(page, UINT32_MAX << first));
	}
	return free & (uint16_t)((1u << formed_granules(page)) - 1);
}

/* The granules of a small page of which every block is in the list. */
static void small_make(struct making *making, uint16_t doomed)
{
	struct page *page = making->page;
	size_t before = making->bytes;

	while (doomed != 0 && !making->full) {
		unsigned first = (unsigned)__builtin_ctz(doomed);
		unsigned n = (unsigned)__builtin_ctz(
			~((unsigned)doomed >> first));

		run_make(making, first, first + n);
		doomed &= (uint16_t)~(((1u << n) - 1) << first);
	}
	if (making->bytes > before)
		page_used_set(page, page_used(page) +
			small_unlist(page, (uint16_t)~resident_word(page, 0) &
					((1u << formed_granules(page)) - 1)));
}

/* Takes the blocks of `set` that now touch a missing granule out of the word. */
static void bits_unlist(struct heap *heap, struct page *page, uint64_t set)
{
	for (; set != 0; set &= set - 1) {
		unsigned index = (unsigned)__builtin_ctzll(set);
		uint64_t bit = (uint64_t)1 << index;

		if (!fl_hole_gone(heap, page, index))
			continue;
		fl_store_relaxed(&page->bits, page->bits & ~bit);
		page->clean &= ~bit;
		page_used_set(page, page_used(page) + 1);
	}
}

/* Of a page with bits, the blocks that a missing granule makes unusable. */
static uint64_t bits_gone(const struct heap *heap, const struct page *page)
{
	uint64_t gone = 0;
	uint32_t i;

	for (i = 0; page_holed(page) && i < page->formed; i++)
		if (fl_hole_gone(heap, page, i))
			gone |= (uint64_t)1 << i;
	return gone;
}

/* Unforms what blocks of a page with bits are free behind the last one in use. */
static void bits_unform(const struct heap *heap, struct page *page)
{
	uint64_t free = page->bits | bits_gone(heap, page);
	uint32_t formed = page->formed;
	uint64_t kept;
	uint32_t listed;

	while (formed > 0 && (free >> (formed - 1) & 1))
		formed--;
	if (touched_granules(page, formed) ==
		touched_granules(page, page->formed))
		return;
	kept = ((uint64_t)1 << formed) - 1;
	listed = bits_count(page->bits & ~kept);
	fl_store_relaxed(&page->bits, page->bits & kept);
	page->clean &= kept;
	page_unform(page, formed, listed);
}

/* The granules between the blocks of each run of free ones, of a page whose
 * free blocks are bits.  Those in holes are free too: what they share with a
 * neighbour goes with that, and what a failed commit left of them goes now. */
static void bits_make(struct making *making)
{
	struct page *page = making->page;
	unsigned end = formed_granules(page);
	uint64_t free = page->bits | bits_gone(making->heap, page);

	while (free != 0 && !making->full) {
		unsigned from = (unsigned)__builtin_ctzll(free);
		/* At most 56 blocks, so there is a zero above. */
		unsigned n = (unsigned)__builtin_ctzll(~(free >> from));
		size_t base = (size_t)from * page->block_size;
		size_t stop = base + (size_t)n * page->block_size;
		uint64_t run = (((uint64_t)1 << n) - 1) << from;
		unsigned last = granules_of(stop);

		/* Behind the last block nobody else's begins. */
		if (from + n == page->capacity || last > end)
			last = end;
		(void)runs_make(making,
			granules_of(align_up(base, GRANULE_BYTES)), last);
		bits_unlist(making->heap, page, run & page->bits);
		free &= ~run;
	}
}

/* Makes every free of the page look before it touches. */
static void holes_begin(const struct heap *heap, struct page *page)
{
	uint32_t owner = page_owner(page);

	if (owner != FALLOW_NO_CONTEXT)
		own_drop(heap->locals[owner], page);
	fl_store_relaxed(&page->owner, page->owner | OWNER_HOLES);
}

size_t fl_hole_make(struct heap *heap, struct page *page,
	bool (*range)(void *arg, uintptr_t base, size_t size), void *arg)
{
	struct making making = { heap, page, range, arg, 0, false };
	uint16_t doomed = 0;

	fl_assert(!fl_hole_pending(heap, page));
	if (!holes_may(heap))
		return 0;
	if (page->kind == PAGE_SMALL)
		doomed = small_unform(page, small_loose(heap, page));
	else
		bits_unform(heap, page);
	tail_make(&making);
	if (page->kind == PAGE_SMALL)
		small_make(&making, doomed);
	else
		bits_make(&making);
	if (making.bytes > 0)
		holes_begin(heap, page);
	return making.bytes;
}

void fl_hole_forget(const struct heap *heap, struct page *page)
{
	uint32_t owner = page_owner(page);

	if (!page_holed(page) || fl_hole_pending(heap, page) ||
		fl_hole_any(heap, page))
		return;
	fl_store_relaxed(&page->owner, page->owner & ~OWNER_HOLES);
	if (owner != FALLOW_NO_CONTEXT)
		own_put(heap->locals[owner], page);
}

/* Clears granules [first, end) in one of the chunk's arrays of words. */
static void words_clear(const struct page *page, uint16_t *words,
	unsigned first, unsigned end)
{
	for (; first < end; first++) {
		uint16_t *word = &words[page->first_slice +
			first / SLICE_GRANULES];

		/* Pairs with resident_word() and fl_hole_pending(): whoever
		 * sees that nothing is pending sees what became of it. */
		fl_store_release(word,
			(uint16_t)(*word & ~(1u << first % SLICE_GRANULES)));
	}
}

/* Frees a block that is resident again.  Nobody has to be told of it: a page
 * with holes, pending ones too, is not among the full ones. */
static void block_return(struct page *page, uint32_t index)
{
	void *block = (void *)(page->base +
		(uintptr_t)index * page->block_size);
	uint64_t word;
	bool taken;

	if (page->kind == PAGE_SMALL)
		block_mark_set(page, block);
	word = remote_push(page, block, index, &taken);
	fl_assert(!taken && remote_state(word) != REMOTE_FULL);
	(void)word;
}

/* Whether a block misses a granule other than [first, end): only the first and
 * the last that touch those can.  Asked while the page is pinned. */
static bool gone_beside(
	const struct page *page, uint32_t index, unsigned first, unsigned end)
{
	size_t base = (size_t)index * page->block_size;
	unsigned from = granules_of(base);
	unsigned to = granules_of(
		align_up(base + page->block_size, GRANULE_BYTES));

	if (to > formed_granules(page))
		to = formed_granules(page);
	return (from < first && next_granule(page, from, first, true) < first) ||
		(to > end && next_granule(page, end, to, true) < to);
}

void fl_hole_end(
	struct page *page, uintptr_t base, size_t size, bool refused)
{
	unsigned first = granules_of(base - page->base);
	unsigned end = first + granules_of(size);
	uint32_t from, to;

	if (!refused)
		words_clear(page, page->chunk->populated, first, end);
	blocks_touched(page, first, end, &from, &to);
	if (from < to && gone_beside(page, from, first, end))
		from++;
	if (from < to && gone_beside(page, to - 1, first, end))
		to--;
	words_clear(page, page->chunk->pending, first, end);
	/* The page counts these blocks as used, so it does not go before the
	 * last of them is free. */
	for (; refused && from < to; from++)
		block_return(page, from);
}

/* Puts the resident ones of blocks [from, to), which were not, into the list,
 * in address order; returns how many. */
static uint32_t blocks_list(
	struct heap *heap, struct page *page, uint32_t from, uint32_t to)
{
	uint32_t n = 0;

	while (to-- > from) {
		uintptr_t at = page->base + (uintptr_t)to * page->block_size;
		struct block *block = (struct block *)at;

		if (fl_hole_gone(heap, page, to))
			continue;
		n++;
		if (page->kind != PAGE_SMALL) {
			fl_store_relaxed(&page->bits,
				page->bits | (uint64_t)1 << to);
			continue;
		}
		block_mark_set(page, block);
		block->next = page->free;
		page->free = block;
	}
	page_used_set(page, page_used(page) - n);
	return n;
}

bool fl_hole_fill(struct op *op, struct page *page)
{
	unsigned most = granules_of(
		align_up(page->block_size, GRANULE_BYTES)) + 1;
	unsigned end = formed_granules(page);
	unsigned at = 0;

	if (most < granules_of(FILL_BYTES))
		most = granules_of(FILL_BYTES);
	while ((at = next_granule(page, at, end, true)) < end) {
		unsigned stop = next_granule(page, at, end, false);
		uint32_t from, to;

		if (stop - at > most)
			stop = at + most;
		if (!(fl_memory_populate(op, page->base + at * GRANULE_BYTES,
			      (stop - at) * GRANULE_BYTES, false) &
			    FALLOW_COMMIT_DONE))
			return false;
		blocks_touched(page, at, stop, &from, &to);
		if (blocks_list(op->heap, page, from, to) > 0)
			return true;
		at = stop;
	}
	return false;
}
