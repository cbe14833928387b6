/* SPDX-License-Identifier: MIT */
/*
 * Allocation: the hot path, and the order of everything else.
 *
 * Hot: enter the context, look up its current page for the size, pop.  No
 * lock, no atomic read-modify-write, no call.  The slow path is entered inside
 * the context, with nothing read that could grow stale.
 *
 * When memory runs out: first every page of the class is looked at that has a
 * free block at all; then this context's empty pages go back to their chunks,
 * which costs no provider call; then, where the call may wait, what
 * fallow_collect() does; then a larger block serves, if there is a free one;
 * then the embedder's pressure hook; then, for a call that may, the emergency
 * pool; then NULL.
 */
#include "alloc.h"
#include "class.h"
#include "deferred.h"
#include "epoch.h"
#include "misuse.h"
#include "pace.h"
#include "reclaim.h"
#include "reserve.h"
#include "span.h"
#include "string.h"
#include "usage.h"

/* Asks the embedder for a context, for a thread that has none; returns whether
 * it has one now.  If not, the call has ended. */
static __attribute__((noinline, cold)) bool op_attach(struct op *op)
{
	op_drop(op);
	if (!op->heap->attach(op->heap->attach_ctx))
		return false;
	op_enter(op);
	return true;
}

bool fl_op_legal(struct op *op)
{
	if (fl_load_relaxed(&op->heap->contexts) == 0) {
		/* A flat heap without a region yet: nothing to give. */
		op_drop(op);
		return false;
	}
	if (op->local == NULL && op->heap->attach != NULL && !op_attach(op))
		return false;
	if (op->local == NULL) {
		fl_misuse(op, FALLOW_MISUSE_BAD_CONTEXT, 0, NULL);
		return false;
	}
	if (op->local->calling > 0) {
		fl_misuse(op, FALLOW_MISUSE_REENTRY, 0, NULL);
		return false;
	}
	return true;
}

bool fl_op_begin(struct op *op, struct fallow *heap, unsigned flags,
	uintptr_t caller)
{
	op->heap = heap_of(heap);
	op->flags = flags;
	op->caller = caller;
	op->given_size = 0;
	op_enter(op);
	if (likely(op->local != NULL && op->local->calling == 0))
		return true;
	return fl_op_legal(op);
}

bool fl_op_unpark(struct op *op)
{
	if (!heap_parked(op->heap, op->local->index))
		return true;
	if (op->flags & FALLOW_NOWAIT)
		return fl_local_unpark_try(op->heap, op->local);
	fl_local_unpark(op->heap, op->local);
	return true;
}

/* The alignment asked for, log2; 0 if it was not asked for any. */
static unsigned request_align_log2(const struct request *request)
{
	return request->align <= 16 ? 0
				    : (unsigned)__builtin_ctzll(request->align);
}

/* Clears a block of a class, unless it is or need not be. */
static void block_clear(
	struct op *op, void *block, size_t size, bool clean)
{
	if (clean || !(op->flags & FALLOW_ZERO))
		return;
	/* The block is the caller's already. */
	op_drop(op);
	memset(block, 0, size);
	op_rejoin(op);
}

/* A span for a block of a class: a page of many slices may not fit where the
 * block alone does. */
static void *span_instead(struct op *op, const struct request *request)
{
	void *block = fl_span_alloc(op, class_size(request->class),
		request->align, op->flags & FALLOW_ZERO);
	struct page *span;

	if (block == NULL)
		return NULL;
	/* With large granules a sized free may name less than half of it. */
	span = map_find(op->heap, (uintptr_t)block);
	if (span->loose == 0)
		fl_store_relaxed(&span->loose, 1);
	return block;
}

/* A block of a class, or a span where no page for the class can be had. */
static void *block_alloc(struct op *op, const struct request *request)
{
	bool zero = op->flags & FALLOW_ZERO;
	unsigned class = request->class;
	bool clean;
	void *block;

	if (class == CLASS_NONE)
		return fl_span_alloc(op, request->size, request->align, zero);
	block = fl_class_alloc(
		op, class, request_align_log2(request), &clean);
	if (block == NULL && class >= CLASS_FIRST_MEDIUM)
		return span_instead(op, request);
	if (block != NULL)
		block_clear(op, block,
			map_find(op->heap, (uintptr_t)block)->block_size,
			clean);
	return block;
}

/* A larger block, where none of the right size is to be had. */
static void *block_borrow(struct op *op, const struct request *request)
{
	bool clean;
	void *block;

	if (request->class == CLASS_NONE)
		return NULL;
	block = fl_class_borrow(
		op, request->class, request_align_log2(request), &clean);
	if (block != NULL)
		block_clear(op, block,
			map_find(op->heap, (uintptr_t)block)->block_size,
			clean);
	return block;
}

/* Asks the embedder for memory; returns whether it is worth trying again. */
static bool pressure_call(struct op *op, const struct request *request)
{
	struct heap *heap = op->heap;
	bool again;

	if (heap->pressure == NULL)
		return false;
	op_drop(op);
	again = heap->pressure(heap->pressure_ctx, request->size);
	op_rejoin(op);
	return again;
}

/* The ways to a block that ask nobody, the cheapest for everybody first. */
static void *block_search(struct op *op, const struct request *request)
{
	void *block = block_alloc(op, request);

	if (block != NULL || (op->flags & FLAG_OPTIONAL))
		return block;
	if (request->class != CLASS_NONE) {
		fl_class_salvage(op, request->class);
		block = block_alloc(op, request);
	}
	if (block == NULL) {
		fl_class_trim_all(op);
		block = block_alloc(op, request);
	}
	return block;
}

/* Every way to a block. */
static void *block_find(struct op *op, const struct request *request)
{
	bool reclaim = !(op->flags & (FALLOW_NORECLAIM | FALLOW_NOWAIT)) &&
		op_may_wait(op);
	void *block = block_search(op, request);
	uint32_t given;

	if (block != NULL || (op->flags & FLAG_OPTIONAL))
		return block;
	if (reclaim) {
		(void)fl_reclaim(op, FALLOW_RECLAIM_FLOOR);
		given = reclaim_given(op->heap);
		/* What another is just giving back, no reclaim finds. */
		do
			block = block_alloc(op, request);
		while (block == NULL && fl_reclaim_others(op, &given));
	}
	if (block == NULL)
		block = block_borrow(op, request);
	while (block == NULL && reclaim && pressure_call(op, request))
		block = block_alloc(op, request);
	return block;
}

/* A block of the emergency pool, by the ways that there are in there. */
static __attribute__((noinline)) void *reserve_find(
	struct op *op, const struct request *request)
{
	struct request inside = *request;
	struct reserve_call call;
	struct page *page;
	void *block;

	if (!fl_reserve_begin(op, &call))
		return NULL;
	inside.class = fl_size_aligned_class(request->size, request->align);
	block = block_search(&call.op, &inside);
	if (block == NULL)
		block = block_borrow(&call.op, &inside);
	op_drop(&call.op);
	fl_reserve_end(op, &call);
	if (block == NULL)
		return NULL;
	fl_add_relaxed(&op->heap->reserve_served, 1);
	page = page_find(op->heap, (uintptr_t)block);
	block_clear(op, block, page->kind == PAGE_SPAN ? page->span_size
						       : page->block_size,
		false);
	return block;
}

/* Counts a block that was found. */
static void block_count(
	const struct op *op, const struct request *request, const void *block)
{
	const struct page *page = page_find(op->heap, (uintptr_t)block);

	usage_given(op->heap->usage, request->size,
		page->kind == PAGE_SPAN ? page->span_size : page->block_size);
}

void *fl_alloc_slow(struct op *op, const struct request *request)
{
	unsigned last = FALLOW_RESERVE | FLAG_OPTIONAL;
	size_t more = pace_more(request->class, request->size);
	bool handed = false;
	void *block = NULL;

	if (!fl_op_legal(op))
		return NULL;
	counter_add(&op->local->counters.slow_paths, 1);
	/* There may be any number of them, and frees take locks: not in a
	 * handler. */
	if (deferred_waiting(op->heap) && op_may_wait(op))
		fl_deferred_drain(op);
	if (fl_op_unpark(op)) {
		if (reserve_missing(op->heap) && op_may_wait(op))
			fl_reserve_fill_due(op);
		if (reclaim_asked(op->heap, op->local) && !(op->flags & FALLOW_NOWAIT))
			handed = fl_reclaim_answer(op);
		if (pace_due(op->heap, more) && op_may_wait(op) &&
			!(op->flags & (FALLOW_NORECLAIM | FLAG_OPTIONAL)))
			fl_pace(op, more);
		block = block_find(op, request);
	}
	if (block == NULL && (op->flags & last) == FALLOW_RESERVE)
		block = reserve_find(op, request);
	if (block == NULL && !(op->flags & FLAG_OPTIONAL))
		counter_add(&op->local->counters.failures, 1);
	if (FALLOW_USAGE && block != NULL)
		block_count(op, request, block);
	op_drop(op);
	if (handed || unlikely(fl_load_relaxed(&op->heap->roused) != 0))
		fl_sweep_rouse(op->heap);
	return block;
}

/* An allocation that the hot path could not serve, inside the context. */
static __attribute__((noinline)) void *alloc_other(struct heap *heap,
	size_t size, unsigned flags, uintptr_t caller,
	struct fl_port_state state)
{
	struct request request = { .size = size, .align = 16 };
	struct op op = {
		.heap = heap,
		.state = state,
		.flags = flags,
		.caller = caller,
	};

	op_local(&op);
	if (size > FALLOW_SIZE_MAX) {
		if (fl_op_legal(&op)) {
			counter_add(&op.local->counters.failures, 1);
			op_drop(&op);
		}
		return NULL;
	}
	request.class = size > SIZE_CLASS_MAX ? CLASS_NONE : size_class(size);
	return fl_alloc_slow(&op, &request);
}

/* Whether a call has nothing to do but what it came for.  Of a parked context
 * `local` is that which has nothing, so that nothing is found in it. */
static inline bool calm(const struct heap *heap, const struct local *local)
{
	return ((fl_load_hot(&heap->request) ^ local->answered) |
		       local->calling | fl_load_hot(&heap->noted) |
		       fl_load_hot(&heap->roused)) == 0 &&
		fl_load_hot(&heap->deferred) == NULL && !reserve_missing(heap);
}

/*
 * A block of a class whose current page is used up, out of what the context
 * owns.  The slow path is taken if there is none, and where it is wanted for
 * more: the call may not go on, or something waits to be done there.
 */
static __attribute__((noinline)) void *alloc_refilled(struct heap *heap,
	size_t size, unsigned flags, uintptr_t caller,
	struct fl_port_state state)
{
	struct page *page = NULL;
	struct local *local;
	void *block;
	bool clean;

	if (likely(hot_local(heap, &local) && calm(heap, local)))
		page = fl_local_refill(heap, local, size_class(size));
	if (unlikely(page == NULL))
		return alloc_other(heap, size, flags, caller, state);
	counter_add(&local->counters.slow_paths, 1);
	block = page_pop(page, &clean);
	page_use(heap, page);
	fl_port_leave(state);
	usage_given(heap->usage, size, page->block_size);
	if (unlikely((flags & FALLOW_ZERO) && !clean))
		return memset(block, 0, page->block_size);
	return block;
}

/* A span that the context has kept, if it is one that must be looked for. */
static __attribute__((noinline)) void *alloc_kept(struct heap *heap,
	size_t size, unsigned flags, uintptr_t caller,
	struct fl_port_state state)
{
	struct page *span = NULL;
	struct local *local;

	if (size <= SPAN_KEPT_MAX && hot_local(heap, &local))
		span = fl_span_reuse(
			heap, local, align_up(size, GRANULE_BYTES));
	if (span == NULL)
		return alloc_other(heap, size, flags, caller, state);
	fl_port_leave(state);
	usage_given(heap->usage, size, span->span_size);
	if (flags & FALLOW_ZERO)
		memset((void *)span->base, 0, span->span_size);
	return (void *)span->base;
}

__attribute__((noinline)) void *fl_alloc_steps(struct heap *heap,
	size_t size, unsigned flags, uintptr_t caller,
	struct fl_port_state state)
{
	if (unlikely(size > SIZE_CLASS_MAX))
		return alloc_kept(heap, size, flags, caller, state);
	return alloc_refilled(heap, size, flags, caller, state);
}

__attribute__((noinline)) void *fl_alloc_stepped(struct heap *heap,
	size_t size, unsigned flags, uintptr_t caller,
	struct fl_port_state state)
{
	void *block;
	size_t dirty;

	if (unlikely(size <= SIZE_DIRECT_MAX ||
		    !alloc_stepped_hot(heap, size, state, &block, &dirty)))
		return fl_alloc_steps(heap, size, flags, caller, state);
	if (unlikely((flags & FALLOW_ZERO) && dirty > 0))
		return memset(block, 0, dirty);
	return block;
}

#define CALLER ((uintptr_t)__builtin_return_address(0))

void *fallow_alloc(struct fallow *fallow, size_t size)
{
	struct heap *heap = heap_of(fallow);
	struct fl_port_state state;
	struct page *page;
	void *block = alloc_hot(heap, size, &state, &page);

	if (likely(block != NULL))
		return block;
	return fl_alloc_stepped(heap, size, 0, CALLER, state);
}

/* fallow_alloc_flags() for the public function that `caller` called. */
static inline __attribute__((always_inline)) void *alloc(
	struct heap *heap, size_t size, unsigned flags, uintptr_t caller)
{
	struct fl_port_state state;
	struct page *page;
	void *block = alloc_hot(heap, size, &state, &page);

	if (unlikely(block == NULL))
		return fl_alloc_stepped(heap, size, flags, caller, state);
	if (flags & FALLOW_ZERO)
		memset(block, 0, page->block_size);
	return block;
}

void *fl_alloc_plain(
	struct heap *heap, size_t size, unsigned flags, uintptr_t caller)
{
	struct fl_port_state state;
	struct page *page;
	void *block = alloc_hot(heap, size, &state, &page);

	/* Without a frame: a realloc's is a part of the deepest chain. */
	if (likely(block != NULL))
		return block;
	return fl_alloc_stepped(heap, size, flags, caller, state);
}

void *fl_alloc_flags(
	struct heap *heap, size_t size, unsigned flags, uintptr_t caller)
{
	return alloc(heap, size, flags, caller);
}

void *fallow_alloc_flags(struct fallow *heap, size_t size, unsigned flags)
{
	return alloc(heap_of(heap), size, flags, CALLER);
}

void *fallow_zalloc(struct fallow *heap, size_t size)
{
	return alloc(heap_of(heap), size, FALLOW_ZERO, CALLER);
}

void *fallow_calloc(struct fallow *heap, size_t count, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(count, size, &bytes))
		return NULL;
	return alloc(heap_of(heap), bytes, FALLOW_ZERO, CALLER);
}

void *fl_alloc_aligned(struct op *op, size_t align, size_t size)
{
	struct request request = { size, align,
		fl_size_aligned_class(size, align) };

	if (size > FALLOW_SIZE_MAX) {
		op_drop(op);
		return NULL;
	}
	return fl_alloc_slow(op, &request);
}

/* What both aligned functions do, for the one that `caller` called. */
static void *alloc_aligned(struct heap *heap, size_t align, size_t size,
	unsigned flags, uintptr_t caller)
{
	struct op op = { .heap = heap, .flags = flags, .caller = caller };

	op_enter(&op);
	if (align == 0 || (align & (align - 1)) != 0) {
		if (fl_op_legal(&op))
			fl_misuse(&op, FALLOW_MISUSE_BAD_ALIGNMENT, align,
				NULL);
		return NULL;
	}
	return fl_alloc_aligned(&op, align < 16 ? 16 : align, size);
}

void *fallow_alloc_aligned_flags(
	struct fallow *heap, size_t align, size_t size, unsigned flags)
{
	return alloc_aligned(heap_of(heap), align, size, flags, CALLER);
}

void *fallow_alloc_aligned(struct fallow *heap, size_t align, size_t size)
{
	return alloc_aligned(heap_of(heap), align, size, 0, CALLER);
}

size_t fallow_good_size(size_t size)
{
	if (size > FALLOW_SIZE_MAX)
		return 0;
	if (size > SIZE_CLASS_MAX)
		return align_up(size, GRANULE_BYTES);
	return class_size(size_class(size));
}
