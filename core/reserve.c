/* SPDX-License-Identifier: MIT */
/*
 * The emergency pool: memory that only FALLOW_RESERVE calls get, and only when
 * there is no other.
 *
 * It is one span of the heap, populated as every span is, and in it a heap of
 * its own, of class flat, that never asks anybody.  So a block of any size is
 * found in it as in any heap, what is freed is whole again, and an ordinary
 * call cannot reach it, since the slices are a span's that is in use.
 *
 *   | struct heap | tables |   slices, config.reserve_bytes at least   |
 *     reserve_span->base
 *
 * The pool has one local for all contexts, under reserve_lock: pages per
 * context would take the few slices apart, and a page that one context emptied
 * would not be another's.  Nobody else enters it, so its own locks are never
 * contended but by a snapshot.  A call inside it enters the context a second
 * time, so that leaving and coming back in there keeps interrupts masked.
 *
 * The slice map of the heap names the span, so that every free of a block in
 * the pool takes the path of spans, and is led here.  A misuse that is found in
 * the pool is noted in the call, and reported when the lock has been left.
 *
 * The pool is made once, whole or not at all, by a region's coming, a collect,
 * or an ordinary allocation in a task, and is never given back before the
 * heap's end.
 *
 * Lock order: reserve_lock, then those of the pool's heap; none of the heap's
 * own is taken under it.
 */
#include "reserve.h"
#include "free.h"
#include "misuse.h"
#include "pace.h"
#include "region.h"
#include "span.h"
#include "string.h"
#include "table.h"

/* While the pool is missing, one allocation by the slow path in so many tries
 * to fill it: what fails asks the provider. */
#define FILL_INTERVAL 64

bool fl_reserve_begin(const struct op *op, struct reserve_call *call)
{
	struct heap *heap = op->heap;

	/* Pairs with fl_reserve_fill(). */
	if (fl_load_acquire(&heap->reserve_span) == NULL)
		return false;
	if (!(op->flags & FALLOW_NOWAIT))
		call->lock = lock_take(&heap->reserve_lock);
	else if (!lock_try(&heap->reserve_lock, &call->lock))
		return false;
	/* All pages without a block may go. */
	fl_watch_allow(heap->reserve->chunk_count * CHUNK_SLICES);
	call->op = (struct op){
		.heap = heap->reserve,
		/* There is nothing to collect, and nobody to ask. */
		.flags = (op->flags & FALLOW_NOWAIT) | FALLOW_NORECLAIM,
		.caller = op->caller,
		.given_size = op->given_size,
	};
	op_enter(&call->op);
	return true;
}

void fl_reserve_end(const struct op *op, struct reserve_call *call)
{
	lock_leave(&op->heap->reserve_lock, call->lock);
}

void fl_reserve_free(struct op *op, void *p)
{
	struct heap *pool = op->heap->reserve;
	enum fallow_misuse_kind found;
	struct reserve_call call;
	const struct page *page;
	bool begun;

	/* A NOWAIT call defers the block instead of coming here. */
	fl_assert(!(op->flags & FALLOW_NOWAIT));
	begun = fl_reserve_begin(op, &call);
	fl_assert(begun);
	(void)begun;
	pool->found = 0;
	fl_free_block(&call.op, p, map_find(pool, (uintptr_t)p));
	found = pool->found;
	page = pool->found_page;
	fl_reserve_end(op, &call);
	if (found != 0)
		fl_misuse(op, found, (uintptr_t)p, page);
	else
		op_drop(op);
}

/* The span's bytes: what was asked for in whole slices, behind the pool's heap
 * and tables.  Their chunks are those of the span, which may begin and end in
 * the middle of one; the tables are a 26th of it at most. */
static size_t span_bytes(const struct heap *heap)
{
	size_t data = align_up(heap->reserve_bytes, SLICE_BYTES);
	size_t chunks = data / CHUNK_BYTES;

	chunks += chunks / 16 + 3;
	return data + align_up(sizeof(struct heap) + CACHE_LINE_BYTES +
			fl_table_bytes(chunks, 1), SLICE_BYTES);
}
_Static_assert(17 * (sizeof(struct chunk) + CACHE_LINE_BYTES + RECORDS_BYTES +
			   (CHUNK_SLICES + 1) * sizeof(void *)) <= CHUNK_BYTES,
	"a sixteenth more chunks hold the tables");
_Static_assert(2 * (sizeof(struct heap) + sizeof(struct local)) <= CHUNK_BYTES,
	"one more chunk holds the rest");

/* Makes the span's memory a heap with one context. */
static struct heap *pool_make(const struct heap *heap, const struct page *span)
{
	struct heap *pool = (struct heap *)span->base;
	struct op op = { .heap = pool };
	enum fallow_status status;

	memset(pool, 0, sizeof(*pool));
	pool->provider.provider_class = FALLOW_CLASS_FLAT;
	pool->contexts_wanted = 1;
	pool->shared = true;
	lock_kind_set(&pool->lock, LOCK_HEAP);
	pool->secret = heap->secret;
	/* Others than the heap's. */
	pool->marks = heap->secret + ((uint64_t)1 << 63);
	pool->deferring = heap->deferring;
	pool->usage = heap->usage;
	fl_pace_init(pool, 0, 0);
	fl_heap_window(pool, span->base, span->span_size);
	status = fl_region_add(&op, span->base + sizeof(*pool),
		span->span_size - sizeof(*pool));
	fl_assert(status == FALLOW_OK);
	(void)status;
	return pool;
}

void fl_reserve_fill(struct op *op)
{
	struct heap *heap = op->heap;
	uint32_t idle = 0;
	struct page *span;

	/* One call at a time; another need not wait for what it does.
	 * Pairs with the release of reserve_filling below. */
	if (!reserve_missing(heap) ||
		!fl_cas_acquire(&heap->reserve_filling, &idle, 1))
		return;
	span = reserve_missing(heap)
		? fl_span_take(op, span_bytes(heap), SLICE_BYTES, false)
		: NULL;
	if (span != NULL) {
		heap->reserve = pool_make(heap, span);
		/* Pairs with fl_reserve_begin(), page_find(), heap_reserve(). */
		fl_store_release(&heap->reserve_span, span);
	}
	fl_store_release(&heap->reserve_filling, 0);
}

void fl_reserve_fill_due(struct op *op)
{
	uint32_t tries = fl_load_relaxed(&op->heap->reserve_tries);

	/* Two that read the same are one try too many or too few. */
	fl_store_relaxed(&op->heap->reserve_tries, tries + 1);
	if (tries % FILL_INTERVAL == 0)
		fl_reserve_fill(op);
}
