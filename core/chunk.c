/* SPDX-License-Identifier: MIT */
/*
 * Chunks: 32 slices each, handed out in runs.
 *
 * A chunk's free slices are one word.  Chunks with a free slice are in one of
 * 32 bins, by the length of their longest free run; a request for n slices
 * takes the chunk with the shortest run that is long enough, and of the first
 * few there the fullest.  So a wholly free chunk (bin 32) is opened only when
 * no other has room, and long runs are kept for those who need them.  Inside a
 * chunk, slices that still hold memory come first, then the lowest address.
 *
 * Spans of more than a chunk, or aligned to more than a slice, look for a run
 * across chunks in address order, first fit; and where slices are warm, large
 * ones take the place across chunks where most of them are.
 *
 * Everything here runs under heap->lock, calls nobody, and is bounded by a
 * few words of work per call, but for the search across chunks.
 */
#include "bits.h"
#include "chunk.h"

/* How many chunks of a bin are compared; see core/DESIGN.md. */
#define CANDIDATES 4
/* How many runs are, and how many slices more than are wanted are looked at of
 * each: a longer run counts as several. */
#define WARMEST_RUNS 16
#define WARMEST_SLICES (8 * CHUNK_SLICES)

unsigned fl_chunk_longest(uint32_t word)
{
	unsigned length = 0;

	/* Each step shortens every run of ones by one. */
	for (; word != 0; word &= word << 1)
		length++;
	return length;
}

/* The bits where n ones begin. */
static uint32_t run_starts(uint32_t word, unsigned n)
{
	/* After the loop bit i is set iff bits i to i + n - 1 were. */
	unsigned have = 1;

	while (have < n) {
		unsigned step = have < n - have ? have : n - have;

		word &= word >> step;
		have += step;
	}
	return word;
}

/* Takes the chunk out of its bin's list. */
static void bin_remove(struct heap *heap, struct chunk *chunk)
{
	struct chunk **head = &heap->bins[chunk->bin];

	if (chunk->bin == 0)
		return;
	if (chunk->bin == CHUNK_SLICES)
		heap->free_chunks--;
	if (chunk->next == chunk) {
		*head = NULL;
		heap->bin_bits &= ~((uint64_t)1 << chunk->bin);
		return;
	}
	chunk->next->prev = chunk->prev;
	chunk->prev->next = chunk->next;
	if (*head == chunk)
		*head = chunk->next;
}

/* Puts the chunk into the list of the bin it belongs to: in front if it holds
 * memory that can be used again, else at the end. */
static void bin_insert(struct heap *heap, struct chunk *chunk)
{
	struct chunk **head;

	chunk->bin = (uint8_t)fl_chunk_longest(chunk->free);
	head = &heap->bins[chunk->bin];
	if (chunk->bin == 0)
		return;
	if (chunk->bin == CHUNK_SLICES)
		heap->free_chunks++;
	heap->bin_bits |= (uint64_t)1 << chunk->bin;
	if (*head == NULL) {
		chunk->next = chunk->prev = chunk;
		*head = chunk;
		return;
	}
	chunk->next = *head;
	chunk->prev = (*head)->prev;
	chunk->prev->next = chunk;
	chunk->next->prev = chunk;
	if (chunk->warm != 0)
		*head = chunk;
}

/* Makes `free` the chunk's free slices and `warm` those of them that hold
 * memory, and all that follows from it true. */
static void free_change(
	struct heap *heap, struct chunk *chunk, uint32_t free, uint32_t warm)
{
	/* As a rule one of them is nothing. */
	if (warm & ~chunk->warm)
		heap->warm_slices += bits_count(warm & ~chunk->warm);
	if (chunk->warm & ~warm)
		heap->warm_slices -= bits_count(chunk->warm & ~warm);
	bin_remove(heap, chunk);
	chunk->warm = warm;
	chunk->idle &= free;
	chunk->free = free;
	chunk->count = (uint8_t)bits_count(free);
	bin_insert(heap, chunk);
}

/* Of some slices, those that hold memory. */
static uint32_t populated_slices(const struct chunk *chunk, uint32_t slices)
{
	uint32_t populated = slices;
	uint32_t rest;

	for (rest = slices; rest != 0; rest &= rest - 1) {
		fl_watch_steps(1);
		/* As a rule all are; rest & -rest is the slice's bit. */
		if (unlikely(chunk->populated[__builtin_ctz(rest)] == 0))
			populated &= ~(rest & (0 - rest));
	}
	return populated;
}

/* The slices are no longer free. */
static void slices_remove(
	struct heap *heap, struct chunk *chunk, uint32_t slices)
{
	fl_assert((slices & ~chunk->free) == 0);
	free_change(heap, chunk, chunk->free & ~slices, chunk->warm & ~slices);
}

/* The slices are free, and warm if they hold memory. */
static void slices_insert(
	struct heap *heap, struct chunk *chunk, uint32_t slices)
{
	fl_assert((slices & chunk->free) == 0);
	free_change(heap, chunk, chunk->free | slices,
		chunk->warm | populated_slices(chunk, slices));
}

/*
 * The chunk of a bin to take n slices from: of the first few the fullest; with
 * `warm`, the fullest of those with n warm slices in a row, or NULL.
 */
static struct chunk *bin_best(
	const struct heap *heap, unsigned bin, unsigned n, bool warm)
{
	struct chunk *chunk = heap->bins[bin];
	struct chunk *best = NULL;
	uint32_t least = CHUNK_SLICES + 1;
	unsigned i;

	for (i = 0; i < CANDIDATES; i++) {
		fl_watch_steps(1);
		/* In this bin they have as many in a row. */
		if (!warm || chunk->warm == chunk->free ||
			run_starts(chunk->warm, n) != 0) {
			if (chunk->count < least) {
				best = chunk;
				least = chunk->count;
			}
		}
		chunk = chunk->next;
		if (chunk == heap->bins[bin])
			break;
	}
	return best;
}

/* The chunk to take n slices from, out of the bins in `bins`; NULL if none. */
static struct chunk *chunk_best(
	const struct heap *heap, uint64_t bins, unsigned n, bool warm)
{
	struct chunk *best = NULL;

	for (; bins != 0 && best == NULL; bins &= bins - 1)
		best = bin_best(
			heap, (unsigned)__builtin_ctzll(bins), n, warm);
	return best;
}

/* Takes n slices from `first` out of the free ones. */
static struct run run_take(
	struct heap *heap, struct chunk *chunk, unsigned first, unsigned n)
{
	slices_remove(heap, chunk, slice_mask(first, n));
	return (struct run){ chunk, first };
}

/* The bins of chunks that may have n free slices in a row. */
static uint64_t bins_of(const struct heap *heap, unsigned n)
{
	return heap->bin_bits & ~(((uint64_t)1 << n) - 1);
}

/* Takes the n slices in a row of a chunk, warm ones if it has as many. */
static struct run chunk_take(struct heap *heap, struct chunk *chunk, unsigned n)
{
	uint32_t starts = run_starts(chunk->warm, n);

	if (starts == 0)
		starts = run_starts(chunk->free, n);
	return run_take(heap, chunk, (unsigned)__builtin_ctz(starts), n);
}

struct run fl_chunk_take_warm(struct heap *heap, unsigned n)
{
	struct chunk *chunk = NULL;

	if (heap->warm_slices >= n)
		chunk = chunk_best(heap, bins_of(heap, n), n, true);
	return chunk == NULL ? (struct run){ NULL, 0 }
			     : chunk_take(heap, chunk, n);
}

struct run fl_chunk_take(struct heap *heap, unsigned n)
{
	/* Memory that is there before memory that is not. */
	struct run run = fl_chunk_take_warm(heap, n);
	struct chunk *chunk;

	if (run.chunk != NULL)
		return run;
	chunk = chunk_best(heap, bins_of(heap, n), n, false);
	return chunk == NULL ? run : chunk_take(heap, chunk, n);
}

struct run fl_chunk_take_populated(
	struct heap *heap, unsigned n, size_t bytes)
{
	size_t number;

	fl_watch_allow(heap->chunk_count * (1 + CHUNK_SLICES));
	for (number = 0; heap->warm_slices > 0 && number < heap->chunk_count;
		number++) {
		struct chunk *chunk = heap->chunks[number];
		uint32_t starts;

		fl_watch_steps(1);
		if (chunk == NULL || chunk->warm == 0)
			continue;
		/* Every slice of the run is free, its first ones are warm. */
		starts = run_starts(chunk->free, n) & chunk->warm;
		for (; starts != 0; starts &= starts - 1) {
			unsigned first = (unsigned)__builtin_ctz(starts);

			fl_watch_steps(1);
			if (fl_memory_populated(heap,
				    chunk->base + first * SLICE_BYTES, bytes))
				return run_take(heap, chunk, first, n);
		}
	}
	return (struct run){ NULL, 0 };
}

/* Takes n slices from `addr`, all of them free, maybe of several chunks. */
static void slices_take(struct heap *heap, uintptr_t addr, size_t n)
{
	while (n > 0) {
		unsigned first = slice_of(addr);
		unsigned here = CHUNK_SLICES - first;

		if (here > n)
			here = (unsigned)n;
		fl_watch_steps(1);
		run_take(heap, chunk_of(heap, addr), first, here);
		addr += here * SLICE_BYTES;
		n -= here;
	}
}

/* The first slice from `from` on that is free, or not; the number of slices
 * in the opened part of the window if there is none. */
static size_t next_slice(const struct heap *heap, size_t from, bool free)
{
	size_t number = from / CHUNK_SLICES;

	for (; number < heap->chunk_count; number++) {
		const struct chunk *chunk = heap->chunks[number];
		uint32_t word = chunk == NULL ? 0 : chunk->free;

		fl_watch_steps(1);
		if (!free)
			word = ~word;
		if (number == from / CHUNK_SLICES)
			word &= UINT32_MAX << from % CHUNK_SLICES;
		if (word != 0)
			return number * CHUNK_SLICES +
				(unsigned)__builtin_ctz(word);
	}
	return heap->chunk_count * CHUNK_SLICES;
}

struct run fl_chunk_take_run(struct heap *heap, size_t n, size_t align)
{
	size_t end = heap->chunk_count * CHUNK_SLICES;
	size_t from = 0;

	/* Each chunk has at most a run for every second slice, looked for from
	 * its begin to its end. */
	fl_watch_allow(heap->chunk_count * (2 + CHUNK_SLICES));
	/* Two chunks' rests and whole free chunks between them hold it. */
	if (n > 2 * CHUNK_SLICES &&
		heap->free_chunks < (n - 2 * CHUNK_SLICES) / CHUNK_SLICES)
		return (struct run){ NULL, 0 };
	while ((from = next_slice(heap, from, true)) < end) {
		size_t stop = next_slice(heap, from, false);
		uintptr_t first = heap->base + from * SLICE_BYTES;
		uintptr_t start = align_up(first, align);
		size_t skipped = (start - first) >> FALLOW_SLICE_LOG2;

		/* Lengths are compared, since addresses near the end of all
		 * there are would wrap; so may the alignment. */
		if (start >= first && skipped <= stop - from &&
			n <= stop - from - skipped) {
			slices_take(heap, start, n);
			return (struct run){ chunk_of(heap, start),
				slice_of(start) };
		}
		from = stop;
	}
	return (struct run){ NULL, 0 };
}

/* Slices in a row, by their numbers, and how many of them are warm. */
struct row {
	size_t first, warm;
};

/* Whether a slice is warm; its chunk is open. */
static bool slice_warm(const struct heap *heap, size_t slice)
{
	return heap->chunks[slice / CHUNK_SLICES]->warm >>
			slice % CHUNK_SLICES & 1;
}

/* Of the free slices [from, stop) the n in a row of which most are warm, the
 * first of those; *warm: how many of all are. */
static struct row row_warmest(const struct heap *heap, size_t from,
	size_t stop, size_t n, size_t *warm)
{
	struct row row = { from, 0 };
	size_t in = 0;
	size_t slice;

	*warm = 0;
	fl_watch_steps(stop - from);
	for (slice = from; slice < stop; slice++) {
		bool is = slice_warm(heap, slice);

		*warm += is;
		in += is;
		if (slice >= from + n)
			in -= slice_warm(heap, slice - n);
		if (slice + 1 >= from + n && in > row.warm)
			row = (struct row){ slice + 1 - n, in };
	}
	return row;
}

struct run fl_chunk_take_warmest(struct heap *heap, size_t n)
{
	size_t end = heap->chunk_count * CHUNK_SLICES;
	struct row best = { 0, 0 };
	size_t least = 0;
	size_t last = end;
	size_t from = 0;
	unsigned i = 0;

	fl_watch_allow(heap->chunk_count * (2 + 2 * CHUNK_SLICES));
	while (i < WARMEST_RUNS && (from = next_slice(heap, from, true)) < end) {
		size_t stop = next_slice(heap, from, false);
		/* What is left of a run goes on with it. */
		bool rest = from == last;
		struct row row;
		size_t warm;

		if (stop - from > n + WARMEST_SLICES)
			stop = from + n + WARMEST_SLICES;
		if (stop - from >= n) {
			row = row_warmest(heap, from, stop, n, &warm);
			/* Warm ones beside it are for others. */
			if (row.warm > best.warm ||
				(row.warm == best.warm && warm < least &&
					!rest)) {
				best = row;
				least = warm;
			}
			i++;
		}
		from = last = stop;
	}
	if (best.warm == 0)
		return (struct run){ NULL, 0 };
	from = heap->base + best.first * SLICE_BYTES;
	slices_take(heap, from, n);
	return (struct run){ chunk_of(heap, from), slice_of(from) };
}

bool fl_chunk_take_at(struct heap *heap, uintptr_t addr, size_t n)
{
	size_t slice = (addr - heap->base) >> FALLOW_SLICE_LOG2;
	uintptr_t at = addr;
	uintptr_t end = addr + n * SLICE_BYTES;

	/* Each chunk is looked at and taken from. */
	fl_watch_allow(2 * (n / CHUNK_SLICES + 2));
	/* Nor is `end` beyond the last address. */
	if (slice + n > heap->chunk_count * CHUNK_SLICES)
		return false;
	while (at < end) {
		size_t number = (at - heap->base) >> CHUNK_LOG2;
		struct chunk *chunk = number < heap->chunk_count
			? heap->chunks[number]
			: NULL;
		unsigned first = slice_of(at);
		unsigned here = CHUNK_SLICES - first;

		fl_watch_steps(1);
		if (here > (end - at) >> FALLOW_SLICE_LOG2)
			here = (unsigned)((end - at) >> FALLOW_SLICE_LOG2);
		if (chunk == NULL ||
			(~chunk->free & slice_mask(first, here)) != 0)
			return false;
		at += here * SLICE_BYTES;
	}
	slices_take(heap, addr, n);
	return true;
}

/* n slices from `first` on were last used in that epoch; returns those of them
 * that hold memory. */
static uint32_t slices_end(
	struct chunk *chunk, unsigned first, unsigned n, uint32_t epoch)
{
	uint32_t populated = slice_mask(first, n);
	uint16_t stamp = (uint16_t)epoch & STAMP_EPOCHS;
	unsigned i;

	fl_watch_steps(n);
	for (i = first; i < first + n; i++) {
		chunk->stamp[i] = stamp;
		/* As a rule all do. */
		if (unlikely(chunk->populated[i] == 0))
			populated &= ~((uint32_t)1 << i);
	}
	return populated;
}

void fl_chunk_give(
	struct heap *heap, uintptr_t addr, size_t n, uint32_t epoch)
{
	fl_watch_allow(n + n / CHUNK_SLICES + 2);
	heap_changed(heap);
	while (n > 0) {
		struct chunk *chunk = chunk_of(heap, addr);
		unsigned first = slice_of(addr);
		unsigned here = CHUNK_SLICES - first;
		uint32_t slices;

		if (here > n)
			here = (unsigned)n;
		fl_watch_steps(1);
		slices = slice_mask(first, here);
		fl_assert((slices & chunk->free) == 0);
		free_change(heap, chunk, chunk->free | slices,
			chunk->warm | slices_end(chunk, first, here, epoch));
		addr += here * SLICE_BYTES;
		n -= here;
	}
}

void fl_chunk_add(struct heap *heap, struct chunk *chunk, uint32_t slices,
	bool populated, bool fixed)
{
	unsigned slice;

	fl_assert((chunk->present & slices) == 0);
	fl_watch_steps(CHUNK_SLICES);
	for (slice = 0; slice < CHUNK_SLICES; slice++)
		if (slices >> slice & 1)
			chunk->populated[slice] =
				populated ? SLICE_GRANULES_ALL : 0;
	chunk->present |= slices;
	if (fixed)
		chunk->fixed |= slices;
	slices_insert(heap, chunk, slices);
}

uint32_t fl_chunk_claimable(const struct heap *heap, const struct chunk *chunk)
{
	/* Fixed memory of class direct can never be given back. */
	if (heap_is(heap, FALLOW_CLASS_DIRECT))
		return chunk->warm & ~chunk->fixed;
	return chunk->warm;
}

void fl_chunk_claim(struct heap *heap, struct chunk *chunk, uint32_t slices)
{
	slices_remove(heap, chunk, slices);
}

void fl_chunk_reset(struct heap *heap, struct chunk *chunk)
{
	slices_remove(heap, chunk, chunk->free);
	slices_insert(heap, chunk, chunk->present);
	chunk->heads = chunk->handed = 0;
}

void fl_chunk_unclaim(struct heap *heap, struct chunk *chunk,
	uint32_t slices, uint32_t gone, bool warm)
{
	chunk->present &= ~gone;
	slices &= ~gone;
	free_change(heap, chunk, chunk->free | slices,
		chunk->warm | (warm ? populated_slices(chunk, slices) : 0));
}
