/* SPDX-License-Identifier: MIT */
/*
 * The heap's own memory: locals, the slice map, chunk descriptors, records.
 *
 * All of it is outside the memory it describes and never moves.  Records are
 * type-stable: once a record, always a record, so a stale look at one is
 * harmless.
 *
 * Class window.  The tables take the window's head, laid out for the whole
 * window and committed as the heap grows into it:
 *
 *   window_base                                                   tables_end
 *    | locals | chunk pointers | slice map | descriptors, records |  chunks
 *     2.8 KiB   8 B a chunk      8 B a slice   4.3 KiB a chunk used
 *     a context
 *
 * The first three are arrays with a committed prefix (before the locals, the
 * pointers to all of them); the last is taken from in order.  Contexts are
 * added by the embedder, one call at a time.  Only the call that set
 * heap->growing commits here; others wait for it or do without (region.c).
 *
 * Classes flat and direct.  Locals, chunk pointers and the whole map are taken
 * at once from memory that was handed in, that the first region carries, or
 * that was reserved; descriptors and records follow in the same memory (flat:
 * always enough of it), or in more that is reserved (direct).
 */
#include "table.h"
#include "string.h"

/* What class direct reserves for records at a time: 15 chunks' worth. */
#define EXTENT_BYTES ((size_t)64 << 10)
_Static_assert(RECORDS_BYTES == 4096, "a chunk's records are 4 KiB");

/* Of the two arrays of pointers to locals. */
static size_t pointers_bytes(unsigned contexts)
{
	return align_up(
		2 * contexts * sizeof(struct local *), CACHE_LINE_BYTES);
}

/* What the locals of so many contexts take, with the pointers to them. */
static size_t locals_bytes(unsigned contexts)
{
	return pointers_bytes(contexts) +
		contexts * align_up(sizeof(struct local), CACHE_LINE_BYTES);
}

size_t fl_table_bytes(size_t chunks, unsigned contexts)
{
	size_t pointers =
		align_up(chunks * sizeof(struct chunk *), CACHE_LINE_BYTES);
	size_t map = chunks * CHUNK_SLICES * sizeof(struct page *);

	return locals_bytes(contexts) + pointers + map +
		chunks * (CHUNK_TABLE_BYTES + RECORDS_BYTES) +
		2 * CACHE_LINE_BYTES;
}

/* Where the heap's locals begin: the pointers to all that there may be. */
static void locals_place(struct heap *heap, uintptr_t at)
{
	heap->locals = (struct local **)at;
	heap->serving = heap->locals + heap->contexts_wanted;
}

/* Fills in the class of each size. */
static void classes_make(struct local *local)
{
	size_t size = 0;
	unsigned class;

	for (class = 0; class < CLASS_DIRECT; class++)
		for (; size <= class_size(class); size++)
			local->classes[size] = (uint8_t)class;
}

/* Makes locals until there are `contexts`: every class without a page. */
static void locals_make(struct heap *heap, unsigned contexts)
{
	size_t pitch = align_up(sizeof(struct local), CACHE_LINE_BYTES);
	uintptr_t at = (uintptr_t)heap->locals +
		pointers_bytes(heap->contexts_wanted);
	unsigned i, class;

	for (i = heap->contexts; i < contexts; i++) {
		struct local *local = (struct local *)(at + i * pitch);

		memset(local, 0, sizeof(*local));
		local->index = i;
		/* In the emergency pool nobody is his own context. */
		local->own = heap->shared ? NULL : fl_port_own_make(i);
		lock_kind_set(&local->lock, LOCK_LOCAL);
		for (class = 0; class < CLASS_COUNT; class++)
			local->current[class] = &fl_page_none;
		classes_make(local);
		heap->locals[i] = heap->serving[i] = local;
	}
	/* From here on calls are served.  Pairs with whatever the embedder does
	 * to tell other CPUs of the heap, and a thread of its index: the calls
	 * read this without an order. */
	fl_store_release(&heap->contexts, contexts);
}

/* Makes the map name nobody's page from one slice to another. */
static void map_begin(struct heap *heap, size_t from, size_t to)
{
	for (; from < to; from++)
		heap->map[from] = &fl_page_nobody;
}

/* Makes sure that the area is committed and zeroed up to `bytes`. */
static bool area_reach(struct op *op, struct area *area, size_t bytes)
{
	size_t from = area->committed;
	size_t goal = align_up(bytes, GRANULE_BYTES);
	unsigned result;

	if (goal <= from)
		return true;
	fl_assert(goal <= area->limit);
	result = fl_memory_commit(op, area->base + from, goal - from);
	if (!(result & FALLOW_COMMIT_DONE))
		return false;
	if (!(result & FALLOW_COMMIT_ZEROED))
		fl_memory_clear(op, area->base + from, goal - from);
	fl_add_relaxed(&op->heap->counters.tables, goal - from);
	area->committed = goal;
	return true;
}

/* Places an area for `bytes` bytes at *at and moves *at behind it; returns
 * whether it ends below `end`. */
static bool area_place(
	struct area *area, uintptr_t *at, uintptr_t end, size_t bytes)
{
	bytes = align_up(bytes, GRANULE_BYTES);
	*area = (struct area){ .base = *at, .limit = bytes };
	if (bytes > end - *at)
		return false;
	*at += bytes;
	return true;
}

/* Class window: lays the tables out at the window's head. */
static enum fallow_status window_begin(struct op *op)
{
	struct heap *heap = op->heap;
	unsigned contexts = heap->contexts_wanted;
	uintptr_t at = heap->window_base;
	uintptr_t end = heap->window_end;
	size_t chunks = heap->chunk_limit;
	bool fits = area_place(&heap->area_locals, &at, end,
			     locals_bytes(contexts)) &&
		area_place(&heap->area_chunks, &at, end,
			chunks * sizeof(struct chunk *)) &&
		area_place(&heap->area_map, &at, end,
			chunks * CHUNK_SLICES * sizeof(struct page *)) &&
		area_place(&heap->area_records, &at, end,
			chunks * (CHUNK_TABLE_BYTES + RECORDS_BYTES));

	if (!fits || align_up(at, SLICE_BYTES) + SLICE_BYTES > end)
		return FALLOW_WINDOW_TOO_SMALL;
	heap->tables_end = at;
	/* No block will ever lie in the tables, so neither map nor chunks have
	 * entries for them: of a TiB those are of 2.3 GiB. */
	heap->base = align_down(at, CHUNK_BYTES);
	heap->chunk_limit =
		(align_up(end, CHUNK_BYTES) - heap->base) >> CHUNK_LOG2;
	heap->chunks = (struct chunk **)heap->area_chunks.base;
	heap->map = (struct page **)heap->area_map.base;
	locals_place(heap, heap->area_locals.base);
	return fl_table_contexts(op, heap->contexts_first)
		? FALLOW_OK
		: FALLOW_NO_TABLE_MEMORY;
}

bool fl_table_contexts(struct op *op, unsigned contexts)
{
	struct heap *heap = op->heap;

	if (contexts > heap->contexts_wanted)
		return false;
	if (contexts <= heap->contexts)
		return true;
	if (!area_reach(op, &heap->area_locals,
		    pointers_bytes(heap->contexts_wanted) +
			    locals_bytes(contexts) - pointers_bytes(contexts)))
		return false;
	locals_make(heap, contexts);
	return true;
}

/* The other classes: takes the arrays out of [at, at + size). */
static enum fallow_status arrays_begin(
	struct heap *heap, uintptr_t at, size_t size)
{
	uintptr_t end = at + size;
	size_t chunks = heap->chunk_limit;
	size_t pointers =
		align_up(chunks * sizeof(struct chunk *), CACHE_LINE_BYTES);
	size_t map = chunks * CHUNK_SLICES * sizeof(struct page *);
	size_t locals = locals_bytes(heap->contexts_wanted);

	at = align_up(at, CACHE_LINE_BYTES);
	if (at > end || end - at < locals + pointers + map)
		return FALLOW_BAD_TABLES;
	heap->chunks = (struct chunk **)(at + locals);
	heap->map = (struct page **)(at + locals + pointers);
	memset(heap->chunks, 0, pointers);
	map_begin(heap, 0, chunks * CHUNK_SLICES);
	heap->chunk_count = chunks;
	heap->area_records.base = at + locals + pointers + map;
	heap->area_records.used = 0;
	heap->area_records.committed = end - heap->area_records.base;
	heap->area_records.limit = heap->area_records.committed;
	/* Pairs with the acquire in fallow_owns(). */
	fl_store_release(&heap->map_slices, chunks * CHUNK_SLICES);
	locals_place(heap, at);
	locals_make(heap, heap->contexts_wanted);
	return FALLOW_OK;
}

/* Class direct: reserves memory for tables, and remembers it. */
static bool extent_reserve(struct op *op, size_t size, uintptr_t *at)
{
	struct heap *heap = op->heap;
	struct extent *extent;

	size = align_up(size + CACHE_LINE_BYTES, GRANULE_BYTES);
	extent = (struct extent *)fl_memory_reserve(op, size, GRANULE_BYTES);
	if (extent == NULL)
		return false;
	extent->next = heap->extents;
	extent->size = size;
	heap->extents = extent;
	fl_add_relaxed(&heap->counters.tables, size);
	*at = (uintptr_t)extent + CACHE_LINE_BYTES;
	return true;
}

enum fallow_status fl_table_begin(struct op *op, uintptr_t at, size_t size)
{
	struct heap *heap = op->heap;
	enum fallow_status status;

	if (heap_is(heap, FALLOW_CLASS_WINDOW))
		return window_begin(op);
	if (heap_is(heap, FALLOW_CLASS_DIRECT) && at == 0) {
		size = fl_table_bytes(
			heap->chunk_limit, heap->contexts_wanted) -
			heap->chunk_limit * (CHUNK_TABLE_BYTES + RECORDS_BYTES);
		if (!extent_reserve(op, size, &at))
			return FALLOW_NO_TABLE_MEMORY;
		size = heap->extents->size - CACHE_LINE_BYTES;
		return arrays_begin(heap, at, size);
	}
	status = arrays_begin(heap, at, size);
	if (status == FALLOW_OK)
		fl_add_relaxed(&heap->counters.tables, size);
	return status;
}

void *fl_table_take(struct heap *heap, size_t size)
{
	struct area *area = &heap->area_records;
	uintptr_t at = area->base + area->used;

	size = align_up(size, CACHE_LINE_BYTES);
	if (area->committed - area->used < size + heap->kept)
		return NULL;
	area->used += size;
	return memset((void *)at, 0, size);
}

/* Keeps room for n descriptors if there is that and a chunk's records more;
 * returns whether there was. */
static bool kept_begin(struct heap *heap, size_t n)
{
	struct area *area = &heap->area_records;
	struct fl_port_state state = lock_take(&heap->lock);
	size_t room = area->committed - area->used;
	bool enough = room >= n * CHUNK_TABLE_BYTES + RECORDS_BYTES;

	if (enough)
		heap->kept = n * CHUNK_TABLE_BYTES;
	lock_leave(&heap->lock, state);
	return enough;
}

/* Class direct: makes more memory the one that records are taken from. */
static bool extent_grow(struct op *op, size_t bytes)
{
	struct heap *heap = op->heap;
	struct fl_port_state state;
	/* A line of the extent says what it is. */
	size_t ahead = EXTENT_BYTES - CACHE_LINE_BYTES;
	uintptr_t at;
	size_t size;

	if (!extent_reserve(op, bytes > ahead ? bytes : ahead, &at) &&
		!extent_reserve(op, bytes, &at))
		return false;
	size = heap->extents->size - CACHE_LINE_BYTES;
	state = lock_take(&heap->lock);
	heap->area_records = (struct area){ at, 0, size, size };
	lock_leave(&heap->lock, state);
	return true;
}

/* Class window: commits more of the records' area. */
static bool records_grow(struct op *op, size_t bytes)
{
	struct area *records = &op->heap->area_records;
	struct fl_port_state state = lock_take(&op->heap->lock);
	struct area grown = *records;
	/* Half as much again as is used, so that growth is rare. */
	size_t ahead = grown.used / 2 < EXTENT_BYTES ? grown.used / 2
						     : EXTENT_BYTES;
	size_t goal = grown.used + bytes + ahead;

	lock_leave(&op->heap->lock, state);
	/* The area has room for what the window can hold, but only just. */
	if (goal > grown.limit)
		goal = grown.limit;
	if (goal < grown.used + bytes || !area_reach(op, &grown, goal))
		return false;
	state = lock_take(&op->heap->lock);
	records->committed = grown.committed;
	lock_leave(&op->heap->lock, state);
	return true;
}

/* Class window: makes the arrays reach `chunks` chunks. */
static bool arrays_reach(struct op *op, size_t chunks)
{
	struct heap *heap = op->heap;
	struct fl_port_state state;

	if (!area_reach(op, &heap->area_chunks,
		    chunks * sizeof(struct chunk *)) ||
		!area_reach(op, &heap->area_map,
			chunks * CHUNK_SLICES * sizeof(struct page *)))
		return false;
	/* No other call extends the tables, and none looks there yet.  With
	 * interrupts as at the entry: it may be much. */
	op_drop(op);
	map_begin(heap, heap->map_slices, chunks * CHUNK_SLICES);
	op_rejoin(op);
	state = lock_take(&heap->lock);
	if (chunks > heap->chunk_count) {
		heap->chunk_count = chunks;
		/* Pairs with the acquire in fallow_owns(). */
		fl_store_release(&heap->map_slices, chunks * CHUNK_SLICES);
	}
	lock_leave(&heap->lock, state);
	return true;
}

bool fl_table_reach(struct op *op, size_t chunks, size_t n)
{
	struct heap *heap = op->heap;
	size_t bytes = n * CHUNK_TABLE_BYTES + RECORDS_BYTES;

	fl_assert(fl_load_relaxed(&heap->growing));
	if (heap_is(heap, FALLOW_CLASS_WINDOW) && !arrays_reach(op, chunks))
		return false;
	/* Others may take records between the two: then once more. */
	while (!kept_begin(heap, n)) {
		if (heap_is(heap, FALLOW_CLASS_WINDOW)
				? !records_grow(op, bytes)
				: !extent_grow(op, bytes))
			return false;
	}
	return true;
}

struct chunk *fl_table_chunk_kept(struct heap *heap, size_t number)
{
	if (heap->chunks[number] == NULL)
		heap->kept -= CHUNK_TABLE_BYTES;
	return fl_table_chunk(heap, number);
}

struct chunk *fl_table_chunk(struct heap *heap, size_t number)
{
	struct chunk *chunk = heap->chunks[number];

	if (chunk != NULL)
		return chunk;
	chunk = fl_table_take(heap, CHUNK_TABLE_BYTES);
	if (chunk == NULL)
		return NULL;
	chunk->base = heap->base + (number << CHUNK_LOG2);
	chunk->mapping = MAPPING_NONE;
	heap->chunks[number] = chunk;
	return chunk;
}

bool fl_table_records(struct heap *heap, struct chunk *chunk)
{
	if (chunk->records == NULL)
		chunk->records = fl_table_take(heap, RECORDS_BYTES);
	return chunk->records != NULL;
}

void fl_table_end(struct op *op)
{
	struct heap *heap = op->heap;
	struct fallow_range ranges[4];
	struct extent *extent = heap->extents;
	const struct area areas[4] = {
		heap->area_locals, heap->area_chunks, heap->area_map,
		heap->area_records,
	};
	size_t i, n = 0;

	/* The locals are among what goes: from here on only the provider
	 * and the stack are used. */
	for (i = 0; i < 4; i++)
		if (areas[i].committed > 0)
			ranges[n++] = (struct fallow_range){ areas[i].base,
				areas[i].committed, FALLOW_RANGE_DONE };
	op_drop(op);
	if (heap_is(heap, FALLOW_CLASS_WINDOW))
		heap->provider.decommit(heap->provider.ctx, ranges, n);
	while (heap_is(heap, FALLOW_CLASS_DIRECT) && extent != NULL) {
		struct extent *next = extent->next;

		heap->provider.release(heap->provider.ctx, (uintptr_t)extent,
			extent->size);
		extent = next;
	}
}
