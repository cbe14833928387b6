/* SPDX-License-Identifier: MIT */
/*
 * Spans: blocks too big for any class, in slices of their own.
 *
 *   slice   | slice   | slice   | slice   |
 *   |<-------- span_size ---------->|     |
 *   committed, whole granules        address only
 *
 * A span has no owner: its record says its base and size, its slices are taken
 * and given under heap->lock, and all its slices point to its record in the
 * slice map, so that a pointer into its middle is recognised.  Only whole
 * granules up to its size are committed; what the slices held before is used
 * again.
 *
 * The remote word decides who frees a span: whoever changes it from the state
 * SPAN, once.
 *
 * What a context frees it may keep: spans of up to half a chunk whose slices,
 * memory and entries in the map stay as they are, in state KEPT, until the same
 * context wants one of so many slices.  That takes no lock.  They are a few, or
 * where the provider promises memory without holding it (DEMAND) any number; in
 * a lean heap none.  Another span or page for which slices are wanted, the
 * context's sweeps, whoever sweeps it while it is parked, its going offline, a
 * request for memory and its own last resort free them; then they are free
 * slices of the age at which they were kept, for which hold and floor are.
 */
#include "span.h"
#include "class.h"
#include "usage.h"

/* From so many bytes on a span looks across chunks for memory that is there: a
 * chunk's rest is too short for it too often.  A look takes some microseconds,
 * and the first touch of so much memory fifty. */
#define ACROSS_BYTES ((size_t)768 << 10)

/* Slices that so many bytes take. */
static size_t slices_of(size_t size)
{
	return (size + SLICE_BYTES - 1) >> FALLOW_SLICE_LOG2;
}

/* Makes the record that of a span without an owner. */
static void span_init(struct page *span, struct run run, size_t size,
	size_t align)
{
	/* A free that came too late to the page that was here may still look
	 * at owner and remote, so there is no moment without them. */
	fl_store_relaxed(&span->owner, OWNER_NONE);
	fl_store_relaxed(&span->remote, remote_word(REMOTE_TRANSIT, 0));
	page_used_set(span, 0);
	page_wake_set(span, WAKE_NEVER);
	span->kind = PAGE_SPAN;
	span->class = CLASS_NONE;
	span->place = PLACE_NONE;
	span->loose = align > 16 ? (uint8_t)__builtin_ctzll(align) : 0;
	span->base = run.chunk->base + run.first * SLICE_BYTES;
	span->next = span->prev = NULL;
	span->arena = NULL;
	span->chunk = run.chunk;
	span->span_size = size;
	span->first_slice = (uint8_t)run.first;
}

/*
 * Slices for `size` bytes.  A NOWAIT call wants memory with them: it cannot
 * commit any, and would have to wait for the lock to give the slices back.
 */
static struct run run_take(
	struct heap *heap, size_t size, size_t align, bool nowait)
{
	size_t n = slices_of(size);
	bool few = n <= CHUNK_SLICES && align <= SLICE_BYTES;
	/* Where addresses are not the memory, any will do. */
	bool large = size >= ACROSS_BYTES && align <= SLICE_BYTES &&
		heap->warm_slices > 0 && heap_is(heap, FALLOW_CLASS_WINDOW);
	struct run run = { NULL, 0 };
	uintptr_t base;

	nowait = nowait && heap_is(heap, FALLOW_CLASS_WINDOW);
	if (few && nowait)
		return fl_chunk_take_populated(heap, (unsigned)n, size);
	if (large && few)
		run = fl_chunk_take_warm(heap, (unsigned)n);
	if (run.chunk == NULL && large)
		run = fl_chunk_take_warmest(heap, n);
	if (run.chunk == NULL && few)
		run = fl_chunk_take(heap, (unsigned)n);
	if (run.chunk == NULL)
		run = fl_chunk_take_run(heap, n, align);
	if (run.chunk == NULL || !nowait)
		return run;
	base = run.chunk->base + run.first * SLICE_BYTES;
	if (fl_memory_populated(heap, base, size))
		return run;
	fl_chunk_give(heap, base, n, heap_epoch(heap));
	return (struct run){ NULL, 0 };
}

/* Takes slices and the record of the first; NULL if there are none, or no
 * table memory: *tables says which. */
static struct page *slices_take(
	struct op *op, size_t size, size_t align, bool *tables)
{
	struct heap *heap = op->heap;
	size_t n = slices_of(size);
	struct page *span = NULL;
	struct fl_port_state state;
	struct run run;

	*tables = false;
	if (!op_lock_heap(op, &state))
		return NULL;
	run = run_take(heap, size, align, op->flags & FALLOW_NOWAIT);
	if (run.chunk != NULL && fl_table_records(heap, run.chunk)) {
		span = &run.chunk->records[run.first];
		span_init(span, run, size, align);
		run.chunk->heads |= slice_mask(run.first, 1);
	} else if (run.chunk != NULL) {
		*tables = true;
		fl_chunk_give(
			heap, run.chunk->base + run.first * SLICE_BYTES, n,
			heap_epoch(heap));
	}
	lock_leave(&heap->lock, state);
	return span;
}

/* The slices of a span that is in use no more are free afterwards, last used in
 * `epoch`, and the record nobody's. */
static void slices_give(struct heap *heap, struct page *span, uint32_t epoch)
{
	struct fl_port_state state = lock_take(&heap->lock);

	span->chunk->heads &= ~slice_mask(span->first_slice, 1);
	fl_chunk_give(heap, span->base, slices_of(span->span_size), epoch);
	lock_leave(&heap->lock, state);
}

struct page *fl_span_take(struct op *op, size_t size, size_t align, bool zero)
{
	struct heap *heap = op->heap;
	struct page *span;
	bool tables;

	/* More than the window can hold, and sums that would wrap. */
	if (size > heap->chunk_limit << CHUNK_LOG2 ||
		align > heap->chunk_limit << CHUNK_LOG2)
		return NULL;
	size = align_up(size == 0 ? 1 : size, GRANULE_BYTES);
	fl_class_make_room(op);
	do {
		span = slices_take(op, size, align, &tables);
	} while (span == NULL &&
		fl_region_grow(op, tables ? 0 : slices_of(size), align) ==
			GROW_YES);
	if (span == NULL)
		return NULL;
	if (!(fl_memory_populate(op, span->base, size, zero) &
		    FALLOW_COMMIT_DONE)) {
		slices_give(heap, span, heap_epoch(heap));
		return NULL;
	}
	map_write(heap, span->base, slices_of(size), span);
	fl_store_relaxed(&span->remote, remote_word(REMOTE_SPAN, 0));
	return span;
}

/* Says whether the context that frees the span may keep it. */
static void span_owner_set(struct page *span)
{
	fl_store_relaxed(&span->owner, span->span_size <= SPAN_KEPT_MAX &&
				span->arena == NULL ? OWNER_FREER
						    : OWNER_NONE);
}

void fl_span_lend(struct page *span, void *arena)
{
	span->arena = arena;
	span_owner_set(span);
}

void *fl_span_alloc(struct op *op, size_t size, size_t align, bool zero)
{
	struct page *span = fl_span_take(op, size, align, zero);

	if (span == NULL)
		return NULL;
	span_owner_set(span);
	fl_memory_live(op->heap, span->span_size);
	return (void *)span->base;
}

/* Slices have come free by a call that does not take a parked context into use:
 * who has swept everything does not know of them, and is told behind the call. */
static void parked_rouse(const struct op *op)
{
	if (heap_parked(op->heap, op->local->index))
		fl_store_relaxed(&op->heap->roused, 1);
}

/* Ends a span that the caller has claimed. */
static void span_end(struct heap *heap, struct page *span, uint32_t epoch)
{
	map_write(heap, span->base, slices_of(span->span_size), &fl_page_nobody);
	fl_memory_live(heap, (size_t)0 - span->span_size);
	slices_give(heap, span, epoch);
}

bool fl_span_free(struct op *op, struct page *span, uintptr_t addr)
{
	if (span->base != addr || !span_claim(span, REMOTE_TRANSIT))
		return false;
	usage_freed(op->heap->usage, span->span_size);
	span_end(op->heap, span, heap_epoch(op->heap));
	parked_rouse(op);
	return true;
}

/* Whether a kept span can have `size` bytes; it has, then. */
static bool kept_fits(struct heap *heap, struct page *span, size_t size)
{
	size_t have = span->span_size;

	if (have == size)
		return true;
	if (slices_of(have) != slices_of(size) ||
		(have < size && !fl_memory_populated(heap,
					span->base + have, size - have)))
		return false;
	fl_memory_live(heap, size - have);
	fl_store_relaxed(&span->span_size, size);
	return true;
}

struct page *fl_span_reuse(struct heap *heap, struct local *local, size_t size)
{
	struct page **link = &local->kept;
	unsigned i;

	for (i = 0; i < SPANS_KEPT && *link != NULL; i++) {
		struct page *span = *link;

		if (kept_fits(heap, span, size)) {
			*link = span->next;
			local->kept_count--;
			span->loose = 0;
			fl_store_relaxed(&span->remote,
				remote_word(REMOTE_SPAN, 0));
			return span;
		}
		link = &span->next;
	}
	return NULL;
}

bool fl_span_flush(struct heap *heap, struct local *local)
{
	struct page *span = local->kept;

	if (span == NULL)
		return false;
	local->kept = span->next;
	local->kept_count--;
	fl_store_relaxed(&span->remote, remote_word(REMOTE_TRANSIT, 0));
	span_end(heap, span, span->epoch);
	return true;
}

/* Gives the slices behind the new size back. */
static void span_shrink(struct op *op, struct page *span, size_t size)
{
	struct heap *heap = op->heap;
	size_t have = slices_of(span->span_size);
	size_t keep = slices_of(size);
	uintptr_t rest = span->base + (keep << FALLOW_SLICE_LOG2);
	struct fl_port_state state;

	/* It stays as large as it is; a sized free must not wonder. */
	if (!op_lock_heap(op, &state)) {
		if (span->loose == 0)
			span->loose = 1;
		return;
	}
	map_write(heap, rest, have - keep, &fl_page_nobody);
	if (have > keep)
		fl_chunk_give(heap, rest, have - keep, heap_epoch(heap));
	lock_leave(&heap->lock, state);
	parked_rouse(op);
	usage_freed(heap->usage, span->span_size);
	usage_given(heap->usage, size, size);
	fl_memory_live(heap, size - span->span_size);
	fl_store_relaxed(&span->span_size, size);
	span_owner_set(span);
}

/* Takes `more` slices from `next` if they are free; for a NOWAIT call also only
 * if the memory up to `size` bytes from `from` is there, as in run_take(). */
static bool slices_take_at(struct op *op, uintptr_t next, size_t more,
	uintptr_t from, size_t size)
{
	struct heap *heap = op->heap;
	struct fl_port_state state;
	bool taken;

	if (!op_lock_heap(op, &state))
		return false;
	taken = more == 0 || fl_chunk_take_at(heap, next, more);
	if (taken && (op->flags & FALLOW_NOWAIT) &&
		!fl_memory_populated(heap, from, size)) {
		if (more > 0)
			fl_chunk_give(heap, next, more, heap_epoch(heap));
		taken = false;
	}
	lock_leave(&heap->lock, state);
	return taken;
}

/* Takes the slices behind the span, if they are free, and commits them. */
static bool span_grow(
	struct op *op, struct page *span, size_t size, bool zero)
{
	struct heap *heap = op->heap;
	size_t old = span->span_size;
	size_t more = slices_of(size) - slices_of(old);
	uintptr_t next = span->base + (slices_of(old) << FALLOW_SLICE_LOG2);
	struct fl_port_state state;

	if (!slices_take_at(op, next, more, span->base + old, size - old))
		return false;
	if (!(fl_memory_populate(op, span->base + old, size - old, zero) &
		    FALLOW_COMMIT_DONE)) {
		state = lock_take(&heap->lock);
		if (more > 0)
			fl_chunk_give(heap, next, more, heap_epoch(heap));
		lock_leave(&heap->lock, state);
		return false;
	}
	map_write(heap, next, more, span);
	usage_freed(heap->usage, old);
	usage_given(heap->usage, size, size);
	fl_memory_live(heap, size - old);
	fl_store_relaxed(&span->span_size, size);
	span_owner_set(span);
	return true;
}

bool fl_span_resize(struct op *op, struct page *span, size_t size, bool zero)
{
	if (size > op->heap->chunk_limit << CHUNK_LOG2)
		return false;
	size = align_up(size, GRANULE_BYTES);
	if (size <= span->span_size) {
		if (size < span->span_size)
			span_shrink(op, span, size);
		return true;
	}
	return span_grow(op, span, size, zero);
}
