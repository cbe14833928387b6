/* SPDX-License-Identifier: MIT */
/*
 * Giving back what holds no block.
 *
 * First the empty pages of this context and of parked ones go: their slices
 * are free, with their memory.  Then the free slices that hold memory are
 * claimed, a batch at a time, so that nobody takes them meanwhile; their memory
 * is given back with the context dropped; and they are free again, empty now.
 * What the provider refused to decommit stays as it was, and the next collect
 * asks again; what it would not discard is asked for again when it was used.
 *
 * Interrupts are never masked for longer than one batch, and a collect passes
 * each slice once, so it ends whatever others do.
 */
#include "collect.h"
#include "alloc.h"
#include "class.h"
#include "deferred.h"
#include "reserve.h"

/* Ranges a batch carries: 24 bytes each, and 16 for each claim, on a stack
 * that may be 2 KiB in all. */
#define BATCH_RANGES 32
/* Chunks that are looked at before the lock is let go: a GiB of addresses. */
#define BATCH_CHUNKS 512
/* A slice has at most this many runs of granules: every other one. */
#define SLICE_RANGES ((SLICE_GRANULES + 1) / 2)
_Static_assert(BATCH_RANGES <= FALLOW_RANGES_MAX, "one call carries a batch");
_Static_assert(BATCH_RANGES >= SLICE_RANGES, "a batch has room for a slice");

struct claim {
	struct chunk *chunk;
	uint32_t slices;
};

struct batch {
	struct fallow_range ranges[BATCH_RANGES];
	struct claim claims[BATCH_RANGES];
	size_t range_count, claim_count;
};

/* Adds a range to the batch, or lengthens the last one. */
static void batch_range(struct batch *batch, uintptr_t base, size_t size)
{
	struct fallow_range *last;

	if (batch->range_count > 0) {
		last = &batch->ranges[batch->range_count - 1];
		if (last->base + last->size == base &&
			(base & (CHUNK_BYTES - 1)) != 0) {
			last->size += size;
			return;
		}
	}
	batch->ranges[batch->range_count++] =
		(struct fallow_range){ base, size, FALLOW_RANGE_DONE };
}

/* Adds the populated granules of a slice. */
static void batch_slice(
	struct batch *batch, const struct chunk *chunk, unsigned slice)
{
	uint32_t word = chunk->populated[slice];
	uintptr_t base = chunk->base + slice * SLICE_BYTES;

	while (word != 0) {
		unsigned first = (unsigned)__builtin_ctz(word);
		unsigned n = (unsigned)__builtin_ctz(~(word >> first));

		fl_watch_steps(1);
		batch_range(batch, base + first * GRANULE_BYTES,
			n * GRANULE_BYTES);
		word &= ~slice_mask(first, n);
	}
}

/*
 * Claims slices of a chunk, from `slice` on, while the batch has room; returns
 * the first slice that it had no room for, or CHUNK_SLICES.
 */
static unsigned batch_chunk(struct heap *heap, struct batch *batch,
	struct chunk *chunk, unsigned slice)
{
	uint32_t slices = fl_chunk_claimable(heap, chunk) &
		(UINT32_MAX << slice);
	uint32_t claimed = 0;

	slice = CHUNK_SLICES;
	for (; slices != 0; slices &= slices - 1) {
		unsigned next = (unsigned)__builtin_ctz(slices);

		fl_watch_steps(1);
		if (batch->range_count + SLICE_RANGES > BATCH_RANGES) {
			slice = next;
			break;
		}
		batch_slice(batch, chunk, next);
		claimed |= slice_mask(next, 1);
	}
	if (claimed != 0) {
		fl_chunk_claim(heap, chunk, claimed);
		batch->claims[batch->claim_count++] =
			(struct claim){ chunk, claimed };
	}
	return slice;
}

/* Fills a batch from slice *at of the window on, and moves it behind what was
 * looked at; returns whether there was anything left to look at. */
static bool batch_fill(struct heap *heap, struct batch *batch, size_t *at)
{
	struct fl_port_state state = lock_take(&heap->lock);
	bool more = *at / CHUNK_SLICES < heap->chunk_count;
	unsigned i;

	batch->range_count = batch->claim_count = 0;
	for (i = 0; i < BATCH_CHUNKS && *at / CHUNK_SLICES < heap->chunk_count;
		i++) {
		struct chunk *chunk = heap->chunks[*at / CHUNK_SLICES];
		unsigned from = *at % CHUNK_SLICES;
		unsigned next = CHUNK_SLICES;

		fl_watch_steps(1);
		if (chunk != NULL)
			next = batch_chunk(heap, batch, chunk, from);
		*at += next - from;
		if (next < CHUNK_SLICES)
			break;
	}
	lock_leave(&heap->lock, state);
	return more;
}

/* The claimed slices are free again; of class direct, gone. */
static void batch_return(struct heap *heap, struct batch *batch)
{
	struct fl_port_state state = lock_take(&heap->lock);
	bool gone = heap_is(heap, FALLOW_CLASS_DIRECT);
	bool warm = !heap_is(heap, FALLOW_CLASS_FLAT);
	size_t i;

	for (i = 0; i < batch->claim_count; i++)
		fl_chunk_unclaim(heap, batch->claims[i].chunk,
			batch->claims[i].slices,
			gone ? batch->claims[i].slices : 0, warm);
	lock_leave(&heap->lock, state);
}

/* Takes what the provider did into the books; returns the bytes. */
static size_t batch_count(struct heap *heap, struct batch *batch)
{
	struct heap_counters *counters = &heap->counters;
	size_t bytes = 0;
	size_t i;

	for (i = 0; i < batch->range_count; i++) {
		const struct fallow_range *range = &batch->ranges[i];

		if (range->result != FALLOW_RANGE_DONE)
			continue;
		bytes += range->size;
		if (!heap_is(heap, FALLOW_CLASS_FLAT))
			fl_memory_mark(heap, range->base, range->size, false);
	}
	if (heap_is(heap, FALLOW_CLASS_FLAT))
		return bytes;
	fl_add_relaxed(&counters->committed, (size_t)0 - bytes);
	fl_add_relaxed(&counters->decommitted_total, bytes);
	if (heap_is(heap, FALLOW_CLASS_DIRECT))
		fl_add_relaxed(&counters->reserved, (size_t)0 - bytes);
	return bytes;
}

/* Calls the provider for a batch. */
static void batch_give(struct op *op, struct batch *batch)
{
	size_t i;

	if (heap_is(op->heap, FALLOW_CLASS_WINDOW)) {
		fl_memory_decommit(op, batch->ranges, batch->range_count);
		return;
	}
	if (heap_is(op->heap, FALLOW_CLASS_FLAT)) {
		fl_memory_discard(op, batch->ranges, batch->range_count);
		return;
	}
	for (i = 0; i < batch->range_count; i++)
		fl_memory_release(op, batch->ranges[i].base,
			batch->ranges[i].size);
}

size_t fl_collect_slices(struct op *op)
{
	struct heap *heap = op->heap;
	struct batch batch;
	size_t at = 0;
	size_t bytes = 0;

	if (heap_is(heap, FALLOW_CLASS_FLAT) &&
		!(heap->provider.capabilities & FALLOW_CAN_DISCARD))
		return 0;
	while (batch_fill(heap, &batch, &at)) {
		if (batch.range_count == 0)
			continue;
		/* Class direct: what is released can be another call's at
		 * once, which must not find the slices in the books; and no
		 * release is refused, so they can be closed first. */
		if (!heap_is(heap, FALLOW_CLASS_DIRECT))
			batch_give(op, &batch);
		bytes += batch_count(heap, &batch);
		batch_return(heap, &batch);
		if (heap_is(heap, FALLOW_CLASS_DIRECT))
			batch_give(op, &batch);
	}
	return bytes;
}

size_t fl_collect(struct op *op)
{
	fl_class_trim_all(op);
	fl_class_trim_parked(op);
	return fl_collect_slices(op);
}

#define CALLER ((uintptr_t)__builtin_return_address(0))

size_t fallow_collect(struct fallow *heap)
{
	struct op op;
	size_t bytes = 0;

	if (!fl_op_begin(&op, heap, 0, CALLER))
		return 0;
	fl_deferred_drain(&op);
	if (op_may_wait(&op) && fl_op_unpark(&op)) {
		fl_reserve_fill(&op);
		bytes = fl_collect(&op);
	}
	op_drop(&op);
	return bytes;
}
