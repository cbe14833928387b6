/* SPDX-License-Identifier: MIT */
/*
 * Ranges that go back to the provider together, and what they belong to.
 *
 * An entry is either some free slices of a chunk, which were claimed so that
 * nobody takes them meanwhile, or a page, whose granules are pending.  Each is
 * put right after the call by what the provider did with its ranges.  A page is
 * not looked at any more once its last granule is not pending: it may be gone
 * then, or another's, and what is still to be done is done under the lock that
 * it then belongs to.
 *
 * Class direct: what is released can be another call's at once, which must not
 * find the slices in the books; and no release is refused, so there the books
 * are closed first.
 */
#include "batch.h"
#include "chunk.h"
#include "class.h"

void fl_batch_entry(
	struct heap *heap, struct batch *batch, struct entry entry)
{
	fl_assert(batch->entry_count < BATCH_ENTRIES);
	/* Before anything is taken away: who then finds no memory, having
	 * looked under heap->lock, sees that some is on its way. */
	if (batch->entry_count == 0)
		fl_add_relaxed(&heap->sweeping.giving, 1);
	batch->entries[batch->entry_count++] = entry;
}

void fl_batch_drop(struct heap *heap, struct batch *batch)
{
	if (--batch->entry_count == 0)
		fl_add_relaxed(&heap->sweeping.giving, (uint32_t)-1);
}

bool fl_batch_range(void *arg, uintptr_t base, size_t size)
{
	struct batch *batch = arg;
	unsigned entry = batch->entry_count - 1u;
	unsigned n = batch->range_count;
	struct fallow_range *last = &batch->ranges[n == 0 ? 0 : n - 1];

	/* A range that goes on where the last one ended makes it longer, but
	 * none reaches over a chunk's end. */
	if (n > 0 && batch->of[n - 1] == entry &&
		last->base + last->size == base &&
		(base & (CHUNK_BYTES - 1)) != 0) {
		last->size += size;
	} else {
		fl_assert(n < BATCH_RANGES);
		batch->ranges[n] = (struct fallow_range){ base, size,
			FALLOW_RANGE_DONE };
		batch->of[n] = (uint8_t)entry;
		batch->range_count++;
	}
	return batch->range_count < BATCH_RANGES;
}

/* Adds the granules of a slice that are set in `word`. */
static void slice_add(struct batch *batch, uintptr_t base, uint32_t word)
{
	while (word != 0) {
		unsigned first = (unsigned)__builtin_ctz(word);
		unsigned n = (unsigned)__builtin_ctz(~(word >> first));

		(void)fl_batch_range(batch, base + first * GRANULE_BYTES,
			n * GRANULE_BYTES);
		word &= ~slice_mask(first, n);
	}
}

uint32_t fl_batch_claim(struct heap *heap, struct batch *batch,
	struct chunk *chunk, uint32_t slices)
{
	uint32_t claimed = 0;

	if (slices == 0 || !batch_has_room(batch, SLICE_RANGES))
		return slices;
	fl_batch_entry(heap, batch, (struct entry){ .chunk = chunk });
	while (slices != 0 && batch_goes_on(batch, SLICE_RANGES)) {
		unsigned slice = (unsigned)__builtin_ctz(slices);

		fl_watch_steps(1);
		slice_add(batch, chunk->base + slice * SLICE_BYTES,
			chunk->populated[slice]);
		claimed |= slice_mask(slice, 1);
		slices &= slices - 1;
	}
	batch->entries[batch->entry_count - 1].slices = claimed;
	fl_chunk_claim(heap, chunk, claimed);
	return slices;
}

bool fl_batch_handed(
	struct heap *heap, struct batch *batch, struct page *page)
{
	unsigned most = HANDED_RANGES;
	unsigned i;

	/* All of it or nothing: it is handed over once. */
	if (page->slices == 1 && most > SLICE_RANGES)
		most = SLICE_RANGES;
	if (!batch_has_room(batch, most))
		return false;
	fl_batch_entry(heap, batch, (struct entry){ .page = page });
	for (i = 0; i < page->slices; i++)
		slice_add(batch, page->base + i * SLICE_BYTES,
			fl_load_relaxed(&page->chunk->pending
						 [page->first_slice + i]));
	return true;
}

/* Calls the provider. */
static void batch_call(struct op *op, struct batch *batch)
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

/* Stamps the slices that a range lies in as purged now. */
static void range_stamp(struct heap *heap, const struct fallow_range *range)
{
	uintptr_t at = align_down(range->base, SLICE_BYTES);

	for (; at < range->base + range->size; at += SLICE_BYTES)
		chunk_of(heap, at)->stamp[slice_of(at)] = STAMP_PURGED |
			(heap_epoch(heap) & STAMP_EPOCHS);
}

/* Takes what the provider did into the books, but for what pages must know;
 * returns the bytes. */
static size_t batch_count(
	struct heap *heap, const struct batch *batch, bool *refused)
{
	struct heap_counters *counters = &heap->counters;
	size_t bytes = 0;
	size_t i;

	for (i = 0; i < batch->range_count; i++) {
		const struct fallow_range *range = &batch->ranges[i];

		if (range->result != FALLOW_RANGE_DONE) {
			*refused = true;
			continue;
		}
		bytes += range->size;
		if (heap_is(heap, FALLOW_CLASS_FLAT))
			continue;
		range_stamp(heap, range);
		if (batch->entries[batch->of[i]].slices != 0)
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

/* The claimed slices are free again; of class direct, gone. */
static void slices_return(struct heap *heap, const struct batch *batch)
{
	struct fl_port_state state = lock_take(&heap->lock);
	bool gone = heap_is(heap, FALLOW_CLASS_DIRECT);
	bool warm = !heap_is(heap, FALLOW_CLASS_FLAT);
	size_t i;

	for (i = 0; i < batch->entry_count; i++) {
		uint32_t slices = batch->entries[i].slices;

		fl_watch_steps(1);
		if (slices != 0)
			fl_chunk_unclaim(heap, batch->entries[i].chunk, slices,
				gone ? slices : 0, warm);
	}
	lock_leave(&heap->lock, state);
}

/* Ends what is pending of one page; `entry` is its number. */
static void page_return(
	struct op *op, const struct batch *batch, unsigned entry)
{
	struct page *page = batch->entries[entry].page;
	size_t i;

	for (i = 0; i < batch->range_count; i++)
		if (batch->of[i] == entry)
			fl_hole_end(page, batch->ranges[i].base,
				batch->ranges[i].size,
				batch->ranges[i].result != FALLOW_RANGE_DONE);
	/* From here on the page may be gone. */
	fl_class_abandoned_look(op->heap, page, false);
	if (!op_owns(op, page) || page->kind == PAGE_SPAN)
		return;
	fl_hole_forget(op->heap, page);
	/* Its last block may have been freed while it could not go. */
	fl_class_look(op, page);
}

size_t fl_batch_give(struct op *op, struct batch *batch, bool *refused)
{
	struct heap *heap = op->heap;
	bool first = heap_is(heap, FALLOW_CLASS_DIRECT);
	size_t bytes = 0;
	unsigned i;

	if (batch->entry_count == 0)
		return 0;
	if (!first)
		batch_call(op, batch);
	bytes = batch_count(heap, batch, refused);
	slices_return(heap, batch);
	for (i = 0; i < batch->entry_count; i++)
		if (batch->entries[i].slices == 0)
			page_return(op, batch, i);
	if (first)
		batch_call(op, batch);
	/* Pairs with fl_reclaim_others(): it is all there, and is told of
	 * before nothing is on its way any more. */
	fl_add_release(&heap->sweeping.given, 1);
	fl_add_release(&heap->sweeping.giving, (uint32_t)-1);
	batch_begin(batch);
	return bytes;
}
