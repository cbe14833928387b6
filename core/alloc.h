/* SPDX-License-Identifier: MIT */
/* Allocation for the other public calls: see alloc.c. */
#ifndef CORE_ALLOC_H
#define CORE_ALLOC_H

#include "heap.h"

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
void *fl_alloc_plain(
	struct heap *heap, size_t size, unsigned flags, uintptr_t caller);


#pragma GCC visibility pop

/* The class of a size up to SIZE_DIRECT_MAX, by one load. */
static inline unsigned size_direct_class(size_t size)
{
	return fl_size_direct[(size + 15) / 16];
}

#endif
