/* SPDX-License-Identifier: MIT */
/*
 * A block of one class for another.
 *
 * Each class has pages of its own, so of sizes that are used by turns each holds
 * the most that it ever needed, and together they hold the sum of that, of which
 * little is in use at a time.  So before a class commits memory it looks for a
 * free block in a few larger ones.  The block stays theirs: it is freed into its
 * page like any other, whoever had it.
 *
 *   lent      the class would have to commit, in a heap that looks at what it
 *             holds before it holds more (pace.c): a block less than twice as
 *             large as the least that the class is for
 *   borrowed  no memory is to be had at all: any larger block that the same kind
 *             of page has
 *
 * A block is aligned as one of the right class would be, and page->loose says of
 * the lender's blocks what a sized free of one may say.
 *
 * Everything here is the context's own, and calls nobody.  Other contexts' pages
 * and nobody's are not looked at.
 */
#include "class.h"
#include "memory.h"

/* So many larger classes lend to one in eight steps a doubling: the next is twice
 * as large as the class below the borrower, and a sized free names more than half
 * of a block. */
#define LEND_CLASSES 7
_Static_assert(CLASS_DIRECT >= 8 + 8, "borrowers come in eight steps");

/* A free block of a page of `class`, another than the one that was asked for, by
 * which its blocks' alignment and the least that a sized free may name are what
 * `loose` says; NULL if the context has none. */
static void *block_lend(
	struct op *op, unsigned class, unsigned loose, bool *clean)
{
	struct local *local = op->local;
	void *block;

	if (page_free_count(local->current[class]) == 0 &&
		!fl_local_refill(op->heap, local, class))
		return NULL;
	block = page_pop(local->current[class], clean);
	if (block == NULL)
		return NULL;
	page_use(op->heap, local->current[class]);
	if (fl_load_relaxed(&local->current[class]->loose) < loose)
		fl_store_relaxed(
			&local->current[class]->loose, (uint8_t)loose);
	return block;
}

/* What a block of the class is aligned to, or more if that was asked for. */
static size_t class_align(unsigned class, unsigned align_log2)
{
	size_t align = class_size(class) & (0 - class_size(class));

	return align < (size_t)1 << align_log2 ? (size_t)1 << align_log2
					       : align;
}

/* Whether the class can have a block for which nothing need be committed. */
static bool class_ready(struct op *op, unsigned class)
{
	struct page *page = fl_local_more(op->heap, op->local, class, true);

	return page != NULL && fl_page_ready(op->heap, page);
}

/* Whether others lend to the class: of those that the hot path does not find
 * directly, whose blocks cost more than to look for one here, one of which the
 * context has no page, or one that is used up. */
static bool class_borrows(
	const struct heap *heap, const struct local *local, unsigned class)
{
	return class >= CLASS_DIRECT && heap_paced(heap) &&
		local->queue[class] == NULL && local->dry[class] == NULL &&
		local->full[class] == NULL;
}

void *fl_class_lend(
	struct op *op, unsigned class, unsigned align_log2, bool *clean)
{
	size_t align = class_align(class, align_log2);
	unsigned end = class + LEND_CLASSES;

	if (!class_borrows(op->heap, op->local, class) ||
		class_ready(op, class))
		return NULL;
	for (class++; class < CLASS_COUNT && class <= end; class++) {
		void *block = class_size(class) % align == 0
			? block_lend(op, class, align_log2, clean)
			: NULL;

		if (block != NULL)
			return block;
	}
	return NULL;
}

void *fl_class_borrow(
	struct op *op, unsigned class, unsigned align_log2, bool *clean)
{
	size_t align = class_align(class, align_log2);
	enum page_kind kind = class_kind(class);

	for (class++; class < CLASS_COUNT && class_kind(class) == kind;
		class++) {
		/* A sized free will name less than half of the block. */
		void *block = class_size(class) % align == 0
			? block_lend(op, class,
				  align_log2 > 0 ? align_log2 : 1, clean)
			: NULL;

		if (block != NULL)
			return block;
	}
	return NULL;
}
