/* SPDX-License-Identifier: MIT */
/*
 * Changing the size of a block.
 *
 * It stays where it is if the new size still fills more than half of it; a
 * span also grows into free slices behind it, and gives slices back when it
 * shrinks.  Otherwise a new block is allocated, at the alignment the old one
 * was asked for with, then the contents are copied, then the old one is freed:
 * if there is no memory the old block is as it was.
 *
 * The alignment asked for is known per page, not per block: a page remembers
 * the largest one.  A block's own address bounds it, so no block is aligned
 * further than it was.
 */
#include "alloc.h"
#include "epoch.h"
#include "free.h"
#include "misuse.h"
#include "span.h"
#include "string.h"

/* Bytes that a block of the page, or the span, may use. */
static size_t usable_size(const struct page *page)
{
	return page->kind == PAGE_SPAN ? page->span_size : page->block_size;
}

/* The alignment that the block keeps when it moves. */
static size_t kept_align(const struct page *page, const void *p)
{
	unsigned asked = fl_load_relaxed(&page->loose);
	unsigned found = (unsigned)__builtin_ctzll((uintptr_t)p);

	if (asked > found)
		asked = found;
	return asked < 4 ? 16 : (size_t)1 << asked;
}

/* Whether the block can stay for the new size, maybe after a resize in place.
 * May drop the context. */
static bool resize_in_place(struct op *op, struct page *page, size_t size)
{
	size_t usable = usable_size(page);

	/* In the emergency pool none grows, nor gives parts back. */
	if (page->kind == PAGE_SPAN && size > SIZE_CLASS_MAX &&
		map_find(op->heap, page->base) == page)
		return fl_span_resize(
			op, page, size, op->flags & FALLOW_ZERO);
	/* 16 bytes is the smallest block there is. */
	return size <= usable && (size > usable / 2 || usable == 16);
}

/* The block to move to, whose begin will be copied over, so that it need not be
 * cleared here.  `optional`: the old block would do. */
static void *block_new(
	struct op *op, size_t align, size_t size, bool optional)
{
	op->flags &= ~(unsigned)FALLOW_ZERO;
	if (optional)
		op->flags |= FLAG_OPTIONAL;
	else if (align == 16) {
		/* The hot path, if it can be. */
		op_drop(op);
		return fl_alloc_plain(
			op->heap, size, op->flags, op->caller);
	}
	return fl_alloc_aligned(op, align, size);
}

/* Moves the block; inside the context at the begin, outside at the end. */
static void *block_move(struct op *op, void *p, struct page *page, size_t size)
{
	struct heap *heap = op->heap;
	size_t usable = usable_size(page);
	size_t align = kept_align(page, p);
	unsigned flags = op->flags;
	uint8_t tight = 0;
	void *new;

	new = block_new(op, align, size, size <= usable);
	if (new == NULL && size <= usable) {
		/* Too small for this block from now on, but it is one; a sized
		 * free must not wonder.  Orders nothing: it keeps what another
		 * wrote meanwhile. */
		(void)fl_cas_release(&page->loose, &tight, 1);
		return p;
	}
	if (new == NULL)
		return NULL;
	memcpy(new, p, size < usable ? size : usable);
	op_rejoin(op);
	if (flags & FALLOW_ZERO) {
		size_t end = usable_size(page_find(heap, (uintptr_t)new));

		/* Where a span must do it is larger, also for less. */
		op_drop(op);
		if (end > usable)
			memset((char *)new + usable, 0, end - usable);
		op_rejoin(op);
	}
	if (flags & FALLOW_NOWAIT)
		fl_free_nowait(op, p);
	else
		fl_free(op, p);
	return new;
}

#define CALLER ((uintptr_t)__builtin_return_address(0))

/* What both functions do with a block, for the one that `caller` called. */
static void *resize(struct fallow *heap, void *p, size_t size, unsigned flags,
	uintptr_t caller)
{
	enum fallow_misuse_kind kind;
	struct page *page;
	struct op op;

	if (!fl_op_begin(&op, heap, flags, caller))
		return NULL;
	page = page_find(op.heap, (uintptr_t)p);
	if ((page == NULL || page->kind == PAGE_SPAN ||
		    misuse_doubtful_holed(op.heap, page, (uintptr_t)p)) &&
		!fl_misuse_judge(&op, (uintptr_t)p, page, &kind)) {
		fl_misuse(&op, kind, (uintptr_t)p, page);
		return NULL;
	}
	if (size > FALLOW_SIZE_MAX) {
		op_drop(&op);
		return NULL;
	}
	if (resize_in_place(&op, page, size))
		op_drop(&op);
	else
		p = block_move(&op, p, page, size);
	sweep_rouse(op.heap);
	return p;
}

void *fallow_realloc_flags(
	struct fallow *heap, void *p, size_t size, unsigned flags)
{
	if (p == NULL)
		return fl_alloc_flags(heap_of(heap), size, flags, CALLER);
	return resize(heap, p, size, flags, CALLER);
}

void *fallow_realloc(struct fallow *heap, void *p, size_t size)
{
	if (p == NULL)
		return fl_alloc_plain(heap_of(heap), size, 0, CALLER);
	return resize(heap, p, size, 0, CALLER);
}
