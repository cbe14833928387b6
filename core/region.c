/* SPDX-License-Identifier: MIT */
/*
 * Where chunks come from.
 *
 * Class window: a region is a range of addresses; its chunks are opened one
 * after the other from its begin, when no opened chunk has room.  Opening one
 * means tables for it, and nothing else: memory comes when slices are used.
 * Class flat: all chunks of a region are opened when it is added.
 * Class direct: a chunk, or as much of one as the provider still has in one
 * run, is reserved when no other has room.
 *
 * Tables are extended by one call at a time, the one that set heap->growing;
 * it calls the provider, so it cannot hold a lock meanwhile.  Another call
 * that needs the same waits for it with its context dropped, if interrupts
 * were on when it began; a handler cannot wait for the code it interrupted,
 * and gets no memory.  Tables are extended ahead of their use so that this is
 * rare.
 */
#include "region.h"

/* The slices of chunk `number` that lie in [base, end), aligned to slices. */
static uint32_t chunk_part(
	const struct heap *heap, size_t number, uintptr_t base, uintptr_t end)
{
	uintptr_t first = heap->base + (number << CHUNK_LOG2);
	uintptr_t last = first + (CHUNK_BYTES - 1);

	if (base > last || end <= first)
		return 0;
	if (base < first)
		base = first;
	/* The chunk may end at the last address there is. */
	if (end - 1 > last)
		end = last + 1;
	return slice_mask(slice_of(base),
		(unsigned)((end - base) >> FALLOW_SLICE_LOG2));
}

/* Of chunk `number`, the slices that lie in regions. */
static uint32_t region_slices(const struct heap *heap, size_t number)
{
	uint32_t slices = 0;
	unsigned i;

	for (i = 0; i < heap->region_count; i++)
		slices |= chunk_part(heap, number, heap->regions[i].base,
			heap->regions[i].end);
	return slices;
}

/* The number of the address's chunk in the window. */
static size_t chunk_number(const struct heap *heap, uintptr_t addr)
{
	return (addr - heap->base) >> CHUNK_LOG2;
}

/* Makes the call the one that extends the tables; returns whether it is. */
static bool growing_begin(struct heap *heap)
{
	struct fl_port_state state = lock_take(&heap->lock);
	bool mine = !heap->growing;

	fl_store_relaxed(&heap->growing, true);
	lock_leave(&heap->lock, state);
	return mine;
}

/* Others may extend the tables again. */
static void growing_end(struct heap *heap)
{
	struct fl_port_state state = lock_take(&heap->lock);

	heap->kept = 0;
	fl_store_relaxed(&heap->growing, false);
	lock_leave(&heap->lock, state);
}

/* Waits for the call that extends the tables; NO for one that must not. */
static enum grow growing_wait(struct op *op)
{
	if (!op_may_wait(op))
		return GROW_NO;
	op_drop(op);
	while (fl_load_relaxed(&op->heap->growing))
		fl_port_pause();
	op_rejoin(op);
	return GROW_YES;
}

/* Class window: what to open of a region. */
struct opening {
	struct region *region;
	size_t end; /* the number of the chunk behind the last one */
};

/* The free slices right before a region's frontier, as far as n of them. */
static size_t free_before(
	const struct heap *heap, const struct region *region, size_t n)
{
	size_t number = region->frontier;
	size_t slices = 0;

	while (slices < n && number > 0 && number <= heap->chunk_count) {
		const struct chunk *chunk = heap->chunks[--number];

		fl_watch_steps(1);
		if (chunk == NULL)
			break;
		if (chunk->free != UINT32_MAX) {
			slices += chunk->free == 0 ? 0
				: (unsigned)__builtin_clz(~chunk->free);
			break;
		}
		slices += CHUNK_SLICES;
	}
	return slices;
}

/*
 * Finds chunks to open for n slices in a row: behind the free slices at a
 * region's frontier, or for an alignment, from a chunk of that alignment on.
 */
static bool opening_find(
	struct heap *heap, size_t n, size_t align, struct opening *opening)
{
	unsigned i;

	for (i = 0; i < heap->region_count; i++) {
		struct region *region = &heap->regions[i];
		size_t last = chunk_number(heap, region->end - 1);
		size_t first, before;

		/* A neighbour may have opened the chunk that both lie in. */
		while (region->frontier <= last &&
			region->frontier < heap->chunk_count &&
			heap->chunks[region->frontier] != NULL) {
			region->frontier++;
			fl_watch_steps(1);
		}
		if (region->frontier > last)
			continue;
		first = region->frontier;
		before = align > SLICE_BYTES ? 0 : free_before(heap, region, n);
		if (align > CHUNK_BYTES)
			first = chunk_number(heap,
				align_up(heap->base + (first << CHUNK_LOG2),
					align));
		*opening = (struct opening){ region,
			first + (n - (before < n ? before : n - 1) +
					CHUNK_SLICES - 1) / CHUNK_SLICES };
		if (first >= region->frontier && first <= last &&
			opening->end <= last + 1)
			return true;
	}
	return false;
}

/* Opens the chunks from the region's frontier up to `end`: their slices are
 * free.  The tables keep room for their descriptors. */
static void chunks_open(struct heap *heap, struct region *region, size_t end)
{
	struct fl_port_state state;

	while (region->frontier < end) {
		struct chunk *chunk;

		state = lock_take(&heap->lock);
		/* The chunk that two regions share is opened once. */
		if (heap->chunks[region->frontier] == NULL) {
			chunk = fl_table_chunk_kept(heap, region->frontier);
			fl_chunk_add(heap, chunk,
				region_slices(heap, region->frontier), false,
				true);
		}
		region->frontier++;
		lock_leave(&heap->lock, state);
	}
}

/* Class window: opens chunks for n slices.  The caller extends the tables. */
static bool window_grow(struct op *op, size_t n, size_t align)
{
	struct heap *heap = op->heap;
	struct fl_port_state state;
	struct opening opening;
	bool found;

	if (n == 0)
		return fl_table_reach(op, heap->chunk_count, 0);
	state = lock_take(&heap->lock);
	/* Forwards over what neighbours opened, and backwards over what is
	 * free, in each region. */
	fl_watch_allow(2 * FALLOW_REGIONS_MAX * heap->chunk_count);
	found = opening_find(heap, n, align, &opening);
	lock_leave(&heap->lock, state);
	if (!found ||
		!fl_table_reach(op, opening.end,
			opening.end - opening.region->frontier))
		return false;
	chunks_open(heap, opening.region, opening.end);
	return true;
}

/* Class direct: adds a reserved run to the chunks it lies in. */
static void run_add(struct heap *heap, uintptr_t base, size_t size)
{
	uintptr_t end = base + size;
	size_t number = chunk_number(heap, base);
	struct fl_port_state state = lock_take(&heap->lock);

	fl_watch_allow((size / CHUNK_BYTES + 2) * (2 * CHUNK_SLICES + 2));
	for (; number <= chunk_number(heap, end - 1); number++) {
		struct chunk *chunk = fl_table_chunk_kept(heap, number);

		chunk->fixed &= ~chunk_part(heap, number, base, end);
		fl_chunk_add(heap, chunk, chunk_part(heap, number, base, end),
			true, false);
	}
	fl_add_relaxed(&heap->counters.reserved, size);
	fl_memory_count(heap, size);
	lock_leave(&heap->lock, state);
}

/* The alignment of a run to reserve: one of at most a chunk must not cross a
 * chunk's end. */
static size_t run_align(size_t size, size_t align)
{
	while (size <= CHUNK_BYTES && align < size)
		align *= 2;
	return align;
}

/* Class direct: reserves n slices; for a few, as much of a chunk as there
 * is, so that the next call finds more. */
static bool direct_grow(struct op *op, size_t n, size_t align)
{
	size_t least = n << FALLOW_SLICE_LOG2;
	size_t size = least;
	uintptr_t base;

	if (align < SLICE_BYTES)
		align = SLICE_BYTES;
	if (n <= CHUNK_SLICES && align <= SLICE_BYTES)
		size = CHUNK_BYTES;
	/* An unaligned run touches one chunk more than its size says, and its
	 * size may be one more than whole chunks. */
	if (!fl_table_reach(op, 0, n == 0 ? 0 : size / CHUNK_BYTES + 2))
		return false;
	if (n == 0)
		return true;
	for (;;) {
		base = fl_memory_reserve(op, size, run_align(size, align));
		if (base != 0 || size == least)
			break;
		size = size / 2 > least ? size / 2 : least;
	}
	if (base == 0)
		return false;
	run_add(op->heap, base, size);
	return true;
}

enum grow fl_region_grow(struct op *op, size_t n, size_t align)
{
	struct heap *heap = op->heap;
	bool grown;

	if (op->flags & FALLOW_NOWAIT)
		return GROW_NO;
	if (!growing_begin(heap))
		return growing_wait(op);
	if (heap_is(heap, FALLOW_CLASS_WINDOW))
		grown = window_grow(op, n, align);
	else if (heap_is(heap, FALLOW_CLASS_DIRECT))
		grown = direct_grow(op, n, align);
	else
		grown = false;
	growing_end(heap);
	return grown ? GROW_YES : GROW_NO;
}

/* Class flat, and regions of class direct: chunks that [base, base + size)
 * would be the first to touch. */
static size_t chunks_missing(
	const struct heap *heap, uintptr_t base, uintptr_t end)
{
	size_t number, missing = 0;

	if (heap->chunks == NULL)
		return heap->chunk_limit;
	for (number = chunk_number(heap, base);
		number <= chunk_number(heap, end - 1); number++)
		missing += heap->chunks[number] == NULL;
	return missing;
}

/*
 * Makes sure of tables for a region of memory that is there, out of its own
 * head if they must; *base moves behind what was taken.  *records is what the
 * records are to be taken from: as before, or the memory taken.
 */
static enum fallow_status region_tables(
	struct op *op, uintptr_t *base, uintptr_t end, struct area *records)
{
	struct heap *heap = op->heap;
	size_t need = chunks_missing(heap, *base, end) *
		(CHUNK_TABLE_BYTES + RECORDS_BYTES);
	uintptr_t at = align_up(*base, CACHE_LINE_BYTES);

	*records = heap->area_records;
	if (heap->chunks == NULL)
		need = fl_table_bytes(heap->chunk_limit,
			heap->contexts_wanted);
	else if (records->committed - records->used >= need)
		return FALLOW_OK;
	if (at < *base || at >= end || end - at < need ||
		align_up(at + need, SLICE_BYTES) + SLICE_BYTES >
			align_down(end, SLICE_BYTES))
		return FALLOW_REGION_TOO_SMALL;
	*base = at + need;
	if (heap->chunks == NULL) {
		enum fallow_status status = fl_table_begin(op, at, need);

		*records = heap->area_records;
		return status;
	}
	*records = (struct area){ at, 0, need, need };
	fl_add_relaxed(&heap->counters.tables, need);
	return FALLOW_OK;
}

/*
 * Memory that is there: opens all chunks of the region, with their records.
 * Memory of the region's own for them takes the place of what others may take
 * records from meanwhile, so it is put there under the same lock.
 */
static void memory_add(struct heap *heap, const struct area *records,
	uintptr_t base, uintptr_t end)
{
	size_t number = chunk_number(heap, base);

	/* All of the region in one hold: at boot, as a rule. */
	fl_watch_allow(((end - base) / CHUNK_BYTES + 2) *
		(2 * CHUNK_SLICES + 1));
	if (records->base != heap->area_records.base)
		heap->area_records = *records;
	for (; number <= chunk_number(heap, end - 1); number++) {
		struct chunk *chunk = fl_table_chunk(heap, number);
		bool made = fl_table_records(heap, chunk);

		fl_assert(made);
		(void)made;
		fl_chunk_add(heap, chunk, chunk_part(heap, number, base, end),
			true, true);
	}
	fl_memory_count(heap, end - base);
}

/* Class window: the chunks at the region's ends may be open already, by a
 * neighbour; their new slices are added now, others when they are opened. */
static void window_add(struct heap *heap, uintptr_t base, uintptr_t end)
{
	size_t first = chunk_number(heap, base);
	size_t last = chunk_number(heap, end - 1);

	if (first < heap->chunk_count && heap->chunks[first] != NULL)
		fl_chunk_add(heap, heap->chunks[first],
			chunk_part(heap, first, base, end), false, true);
	if (last != first && last < heap->chunk_count &&
		heap->chunks[last] != NULL)
		fl_chunk_add(heap, heap->chunks[last],
			chunk_part(heap, last, base, end), false, true);
}

/* As fl_region_add(), by the call that extends the tables. */
static enum fallow_status region_add(
	struct op *op, uintptr_t base, uintptr_t end)
{
	struct heap *heap = op->heap;
	struct region *region = &heap->regions[heap->region_count];
	enum fallow_status status = FALLOW_OK;
	struct fl_port_state state;
	struct area records = heap->area_records;
	uintptr_t given = base;

	if (!heap_is(heap, FALLOW_CLASS_WINDOW))
		status = region_tables(op, &base, end, &records);
	else if (base < heap->tables_end)
		base = heap->tables_end;
	if (status != FALLOW_OK)
		return status;
	base = align_up(base, SLICE_BYTES);
	if (base == 0 || base >= align_down(end, SLICE_BYTES))
		return FALLOW_REGION_TOO_SMALL;
	*region = (struct region){ base, align_down(end, SLICE_BYTES),
		chunk_number(heap, base), given, end };
	state = lock_take(&heap->lock);
	if (heap_is(heap, FALLOW_CLASS_WINDOW))
		window_add(heap, base, region->end);
	else
		memory_add(heap, &records, base, region->end);
	heap->region_count++;
	fl_add_relaxed(&heap->counters.reserved, region->end - base);
	lock_leave(&heap->lock, state);
	return FALLOW_OK;
}

enum fallow_status fl_region_add(struct op *op, uintptr_t base, size_t size)
{
	enum fallow_status status;

	/* Not inside the context: the other call may be of the same one. */
	while (!growing_begin(op->heap)) {
		op_drop(op);
		fl_port_pause();
		op_rejoin(op);
	}
	status = region_add(op, base, base + size);
	growing_end(op->heap);
	return status;
}
