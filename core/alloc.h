/* SPDX-License-Identifier: MIT */
/* Allocation for the other public calls: see alloc.c. */
#ifndef CORE_ALLOC_H
#define CORE_ALLOC_H

#include "page.h"
#include "reclaim.h"
#include "span.h"

#pragma GCC visibility push(hidden)

/* A flag of our own: the caller has a block that will do, so only one of the
 * right size is worth having, and not much trouble. */
#define FLAG_OPTIONAL (1u << 31)

/* What an allocation wants. */
struct request {
	size_t size;
	size_t align;   /* a power of two, at least 16 */
	unsigned class; /* CLASS_NONE: a span */
};

/* Begins a call: afterwards it is inside its context.  Returns false, and has
 * reported why and left, iff it must do nothing. */
bool fl_op_begin(struct op *op, struct fallow *heap, unsigned flags,
	uintptr_t caller);

/* Whether the call, inside its context, may go on; if not it has reported why
 * and left. */
bool fl_op_legal(struct op *op);

/* Takes the context into use if it is parked; returns false iff the call says
 * NOWAIT and somebody is working on its pages. */
bool fl_op_unpark(struct op *op);

/* Allocates by the slow path and leaves the context. */
void *fl_alloc_slow(struct op *op, const struct request *request);

/* The same, at an alignment. */
void *fl_alloc_aligned(struct op *op, size_t align, size_t size);

/* fallow_alloc_flags() for the public function that `caller` called. */
void *fl_alloc_flags(
	struct heap *heap, size_t size, unsigned flags, uintptr_t caller);

/* The same without FALLOW_ZERO. */
void *fl_alloc_plain(
	struct heap *heap, size_t size, unsigned flags, uintptr_t caller);

/* An allocation that alloc_hot() could not serve, inside the context, which is
 * left.  `caller` is the public function's return address. */
void *fl_alloc_stepped(struct heap *heap, size_t size, unsigned flags,
	uintptr_t caller, struct fl_port_state state);

/* The same where alloc_stepped_hot() could not, either: by what the context has,
 * the cheapest first. */
void *fl_alloc_steps(struct heap *heap, size_t size, unsigned flags,
	uintptr_t caller, struct fl_port_state state);

#pragma GCC visibility pop

/*
 * The hot path: flat, and nothing is kept in memory but what it must change.
 * Returns a block of `*page` and has left the context; or NULL, inside it.
 *
 * A context that there is not has no local to look into; a parked one looks
 * into that which has nothing.  What has nothing has an empty list, so that the
 * one question after it answers for all.
 */
static inline __attribute__((always_inline)) void *alloc_hot(
	struct heap *heap, size_t size, struct fl_port_state *state,
	struct page **page)
{
	struct local *local;
	void *block;

	*state = fl_port_enter();
	if (unlikely(size > SIZE_DIRECT_MAX || !hot_local(heap, &local)))
		return NULL;
	*page = local->current[local->classes[size]];
	if (unlikely((*page)->free == NULL))
		return NULL;
	block = list_pop(*page);
	fl_port_leave(*state);
	usage_given(heap->usage, size, (*page)->block_size);
	return block;
}

/*
 * The same for a size above SIZE_DIRECT_MAX, inside the context: its page is
 * found by the class, or the span is the one that was freed last.  Flat, too.
 * Returns whether there is a block, with which the context is left; if not, the
 * steps after it find out why.  While another asks for memory there is none:
 * where a few blocks are replaced among many free ones nothing else would ever
 * come to the slow path, which answers.  *dirty: how many bytes of the block may
 * not read as zero.
 */
static inline __attribute__((always_inline)) bool alloc_stepped_hot(
	struct heap *heap, size_t size, struct fl_port_state state,
	void **block, size_t *dirty)
{
	bool clean = false;
	struct local *local;
	struct page *page;

	if (unlikely(!hot_local(heap, &local)))
		return false;
	if (unlikely(size > SIZE_CLASS_MAX)) {
		page = span_youngest(local, align_up(size, GRANULE_BYTES));
		if (unlikely(page == NULL))
			return false;
		fl_port_leave(state);
		usage_given(heap->usage, size, page->span_size);
		*dirty = page->span_size;
		*block = (void *)page->base;
		return true;
	}
	page = local->current[size_doubled_class(size)];
	/* Bits or a list: nothing is nothing. */
	if (unlikely(reclaim_asked(heap, local) || page->bits == 0))
		return false;
	*block = size <= SIZE_SMALL_MAX ? list_pop(page)
					: bits_pop(page, &clean);
	page_use(heap, page);
	fl_port_leave(state);
	usage_given(heap->usage, size, page->block_size);
	*dirty = clean ? 0 : page->block_size;
	return true;
}

#endif
