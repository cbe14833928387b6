/* SPDX-License-Identifier: MIT */
/*
 * The oracle against what the heap says about itself: fallow_check(),
 * fallow_walk() and the snapshot.
 *
 * The walk visits pages in no stated order, but each followed by its blocks in
 * address order; every block is looked up in the oracles, which are sorted.
 * The same number of blocks in both, and every one found with the same size,
 * is the same set: a block visited twice is seen by the order inside a page
 * and by pages that overlap; pages and spans are compared by their number and
 * bytes with the snapshot.
 */
#include "oracle.h"

#include "test.h"

#define EXPECT(walk, condition, seen, expected) \
	do { \
		if (!(condition)) { \
			(walk)->failures++; \
			test_fail_values(__FILE__, __LINE__, #condition, \
				(uint64_t)(seen), (uint64_t)(expected)); \
		} \
	} while (0)

struct walk {
	struct oracle *const *oracles;
	size_t n;
	unsigned failures;
	/* What was visited. */
	size_t blocks, pages, spans;
	size_t live, committed;
	/* The page last visited, and how many blocks of it were. */
	struct fallow_item page;
	uint32_t page_blocks;
	uintptr_t page_next;
};

/* Returns the known block with this base, or NULL. */
static const struct oracle_block *block_known(
	const struct walk *walk, uintptr_t base)
{
	for (size_t i = 0; i < walk->n; i++) {
		const struct oracle *oracle = walk->oracles[i];
		size_t at = oracle_find(oracle, base);

		if (at < oracle->count && oracle->blocks[at].base == base)
			return &oracle->blocks[at];
	}
	return NULL;
}

/* Compares one block in use with the oracles. */
static void block_visit(struct walk *walk, const struct fallow_item *item)
{
	const struct oracle_block *block = block_known(walk, item->base);

	walk->blocks++;
	walk->live += item->block_size;
	EXPECT(walk, block != NULL, item->base, 0);
	if (block)
		EXPECT(walk, item->block_size == block->usable,
			item->block_size, block->usable);
}

/* Ends the page last visited: all its blocks in use were. */
static void page_end(struct walk *walk)
{
	if (walk->page.kind == FALLOW_ITEM_PAGE)
		EXPECT(walk, walk->page_blocks == walk->page.used,
			walk->page_blocks, walk->page.used);
	walk->page.kind = 0;
}

static void page_visit(struct walk *walk, const struct fallow_item *item)
{
	walk->pages++;
	walk->committed += item->committed;
	walk->page = *item;
	walk->page_blocks = 0;
	walk->page_next = item->base;
	EXPECT(walk, item->used <= item->formed, item->used, item->formed);
	EXPECT(walk, item->formed <= item->capacity, item->formed,
		item->capacity);
	EXPECT(walk, item->committed <= item->size, item->committed,
		item->size);
	EXPECT(walk, item->capacity * item->block_size <= item->size,
		item->capacity * item->block_size, item->size);
}

/* Checks that a block is in its page, behind the one before. */
static void page_block_visit(
	struct walk *walk, const struct fallow_item *item)
{
	walk->page_blocks++;
	EXPECT(walk, walk->page.kind == FALLOW_ITEM_PAGE, item->base, 0);
	EXPECT(walk, item->base >= walk->page_next, item->base,
		walk->page_next);
	EXPECT(walk, item->block_size == walk->page.block_size,
		item->block_size, walk->page.block_size);
	walk->page_next = item->base + item->block_size;
	EXPECT(walk,
		walk->page_next - walk->page.base <= walk->page.size,
		walk->page_next, walk->page.base + walk->page.size);
}

static bool item_visit(void *arg, const struct fallow_item *item)
{
	struct walk *walk = arg;

	if (item->kind != FALLOW_ITEM_BLOCK)
		page_end(walk);
	switch (item->kind) {
	case FALLOW_ITEM_PAGE:
		page_visit(walk, item);
		break;
	case FALLOW_ITEM_SPAN:
		walk->spans++;
		walk->committed += item->committed;
		EXPECT(walk, item->block_size <= item->committed,
			item->block_size, item->committed);
		block_visit(walk, item);
		break;
	case FALLOW_ITEM_BLOCK:
		page_block_visit(walk, item);
		block_visit(walk, item);
		break;
	}
	return walk->failures < 10;
}

/* Compares the sums of the walk with the snapshot. */
static void snapshot_compare(struct walk *walk, struct fallow *heap)
{
	struct fallow_snapshot now = { .size = sizeof(now) };

	fallow_snapshot(heap, &now);
	EXPECT(walk, now.live == walk->live, now.live, walk->live);
	EXPECT(walk, now.blocks == walk->blocks, now.blocks, walk->blocks);
	EXPECT(walk, now.pages == walk->pages, now.pages, walk->pages);
	EXPECT(walk, now.spans == walk->spans, now.spans, walk->spans);
	EXPECT(walk, now.committed >= walk->committed, now.committed,
		walk->committed);
	EXPECT(walk, now.committed <= now.committed_peak, now.committed,
		now.committed_peak);
	EXPECT(walk, now.live <= now.live_peak, now.live, now.live_peak);
	EXPECT(walk, now.committed_total >= now.decommitted_total,
		now.committed_total, now.decommitted_total);
	EXPECT(walk, now.holes <= now.decommitted_total, now.holes,
		now.decommitted_total);
}

/* Frees what was deferred, as a NOWAIT realloc defers what it moved from: any
 * slow path of an allocation does, whether it finds memory or not. */
static void drain(struct fallow *heap)
{
	struct fallow_snapshot now = { .size = sizeof(now) };

	fallow_snapshot(heap, &now);
	if (now.deferred > 0)
		fallow_free(heap, fallow_alloc_aligned_flags(
					  heap, 64, 64, FALLOW_NORECLAIM));
}

void oracle_compare(struct oracle *const *oracles, size_t n)
{
	struct walk walk = { .oracles = oracles, .n = n };
	struct fallow *heap = oracles[0]->heap;
	size_t blocks = 0, live = 0;
	uintptr_t where = 0;
	const char *broken;

	drain(heap);
	broken = fallow_check(heap, &where);
	if (broken) {
		test_fail_values(__FILE__, __LINE__, broken, where, 0);
		walk.failures++;
	}
	for (size_t i = 0; i < n; i++) {
		blocks += oracles[i]->count;
		live += oracles[i]->live;
	}
	EXPECT(&walk, fallow_walk(heap, true, item_visit, &walk),
		walk.failures, 0);
	page_end(&walk);
	EXPECT(&walk, walk.blocks == blocks, walk.blocks, blocks);
	EXPECT(&walk, walk.live == live, walk.live, live);
	snapshot_compare(&walk, heap);
	oracles[0]->failures += walk.failures;
}

void oracle_check(struct oracle *oracle)
{
	oracle_verify(oracle);
	oracle_compare(&oracle, 1);
}
