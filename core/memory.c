/* SPDX-License-Identifier: MIT */
/*
 * The boundary to the provider.
 *
 * Every provider function is called from this file, and always the same way:
 * no lock is held, the context is dropped (interrupts are as the embedder left
 * them), the provider runs, the context is entered again and may be another
 * one.  So a caller must put into TRANSIT, or have claimed under the lock,
 * whatever it wants to find unchanged.
 *
 * Which granules hold memory is kept per slice in the chunk's populated[],
 * which only the holder of that slice writes.  Counters are bumped with
 * relaxed additions: they order nothing.
 */
#include "memory.h"
#include "string.h"

/* A decommit is regretted if the memory is wanted again so soon. */
#define REGRET_EPOCHS 16

struct local *fl_memory_calling(struct op *op)
{
	struct local *local = op->local;

	/* A handler (IRQ) or another thread of this CPU (PREEMPT) may legally
	 * come between, if nothing keeps it away; then a call back cannot be
	 * told from it. */
	if ((FALLOW_MODEL == FALLOW_MODEL_IRQ ||
		    FALLOW_MODEL == FALLOW_MODEL_PREEMPT) &&
		fl_port_may_wait(op->state))
		local = NULL;
	if (local != NULL)
		local->calling++;
	op_drop(op);
	return local;
}

void fl_memory_called(struct local *local)
{
	if (local != NULL)
		local->calling--;
}

/* Adds to a sum, and makes the peak at least what it then is. */
static void sum_add(size_t *sum, size_t *peak, size_t bytes)
{
	size_t most = fl_load_relaxed(peak);
	size_t now;

	fl_add_relaxed(sum, bytes);
	now = fl_load_relaxed(sum);
	/* A sum of others' late news can be below zero for a moment. */
	/* Orders nothing: a number on its own. */
	while ((ptrdiff_t)now > (ptrdiff_t)most &&
		!fl_cas_release(peak, &most, now))
		;
}

void fl_memory_count(struct heap *heap, size_t bytes)
{
	struct heap_counters *counters = &heap->counters;

	fl_add_relaxed(&counters->committed_total, bytes);
	sum_add(&counters->committed, &counters->committed_peak, bytes);
	if (fl_load_relaxed(&heap->sweeping.wanted) == WANTED_FIRST)
		fl_store_relaxed(&heap->roused, 1);
}

void fl_memory_live(struct heap *heap, size_t bytes)
{
	sum_add(&heap->counters.live, &heap->counters.live_peak, bytes);
}

unsigned fl_memory_commit(struct op *op, uintptr_t base, size_t size)
{
	const struct fallow_provider *provider = &op->heap->provider;
	struct heap_counters *counters = &op->heap->counters;
	struct local *calling;
	unsigned result;

	if (op->flags & FALLOW_NOWAIT)
		return FALLOW_COMMIT_NO_MEMORY;
	calling = fl_memory_calling(op);
	result = provider->commit(provider->ctx, base, size, 0);
	fl_memory_called(calling);
	op_rejoin(op);
	fl_add_relaxed(&counters->commits, 1);
	if (!(result & FALLOW_COMMIT_DONE))
		fl_add_relaxed(&counters->no_memory, 1);
	return result;
}

/* Counts the ranges that the provider refused. */
static void refusals_count(
	struct heap *heap, const struct fallow_range *ranges, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (ranges[i].result != FALLOW_RANGE_DONE)
			fl_add_relaxed(&heap->counters.refusals, 1);
}

void fl_memory_decommit(struct op *op, struct fallow_range *ranges, size_t n)
{
	const struct fallow_provider *provider = &op->heap->provider;
	struct local *calling = fl_memory_calling(op);

	provider->decommit(provider->ctx, ranges, n);
	fl_memory_called(calling);
	op_rejoin(op);
	fl_add_relaxed(&op->heap->counters.decommits, 1);
	refusals_count(op->heap, ranges, n);
}

void fl_memory_discard(struct op *op, struct fallow_range *ranges, size_t n)
{
	const struct fallow_provider *provider = &op->heap->provider;
	struct local *calling = fl_memory_calling(op);

	provider->discard(provider->ctx, ranges, n);
	fl_memory_called(calling);
	op_rejoin(op);
	refusals_count(op->heap, ranges, n);
}

uintptr_t fl_memory_reserve(struct op *op, size_t size, size_t align)
{
	const struct fallow_provider *provider = &op->heap->provider;
	struct local *calling;
	uintptr_t base;

	if (op->flags & FALLOW_NOWAIT)
		return 0;
	calling = fl_memory_calling(op);
	base = provider->reserve(provider->ctx, size, align);
	fl_memory_called(calling);
	op_rejoin(op);
	fl_add_relaxed(&op->heap->counters.reserves, 1);
	if (base == 0)
		fl_add_relaxed(&op->heap->counters.no_memory, 1);
	return base;
}

void fl_memory_release(struct op *op, uintptr_t base, size_t size)
{
	const struct fallow_provider *provider = &op->heap->provider;
	struct local *calling = fl_memory_calling(op);

	provider->release(provider->ctx, base, size);
	fl_memory_called(calling);
	op_rejoin(op);
	fl_add_relaxed(&op->heap->counters.releases, 1);
}

/* The bits of a slice's granules from `first`, `n` of them. */
static uint16_t granule_mask(unsigned first, unsigned n)
{
	return (uint16_t)(((1u << n) - 1) << first);
}

/* The granule of an address in its slice. */
static unsigned granule_of(uintptr_t addr)
{
	return (unsigned)(addr >> FALLOW_GRANULE_LOG2) & (SLICE_GRANULES - 1);
}

void fl_memory_mark(
	struct heap *heap, uintptr_t base, size_t size, bool populated)
{
	uintptr_t end = base + size;

	while (base < end) {
		unsigned first = granule_of(base);
		size_t left = (end - base) >> FALLOW_GRANULE_LOG2;
		unsigned n = SLICE_GRANULES - first;
		uint16_t *word =
			&chunk_of(heap, base)->populated[slice_of(base)];

		if (n > left)
			n = (unsigned)left;
		if (populated)
			fl_store_relaxed(word,
				(uint16_t)(*word | granule_mask(first, n)));
		else
			fl_store_relaxed(word,
				(uint16_t)(*word & ~granule_mask(first, n)));
		base += (uintptr_t)n << FALLOW_GRANULE_LOG2;
	}
}

/* A number of 16 bits in each of four words. */
#define WORDS_EACH UINT64_C(0x0001000100010001)

/* Four slices' words, in one of whichever order. */
static uint64_t words_four(const uint16_t *words)
{
	uint64_t four;

	__builtin_memcpy(&four, words, sizeof(four));
	return four;
}

/* The end of the run of granules from `base`, below `end`, that are all
 * populated or all not; *populated says which. */
static uintptr_t run_end(const struct heap *heap, uintptr_t base,
	uintptr_t end, bool *populated)
{
	/* Lengths are compared: the last slice may end where addresses do. */
	size_t left = (end - base) >> FALLOW_GRANULE_LOG2;
	const uint16_t *words = chunk_of(heap, base)->populated;
	unsigned slice = slice_of(base);
	unsigned first = granule_of(base);
	uint32_t same, others;
	unsigned n;

	*populated = words[slice] >> first & 1;
	same = *populated ? SLICE_GRANULES_ALL : 0;
	for (;;) {
		/* A one for each granule from here on that is not the same. */
		others = (words[slice] ^ same) >> first;
		n = others == 0 ? SLICE_GRANULES - first
				: (unsigned)__builtin_ctz(others);
		if (n >= left)
			return end;
		left -= n;
		if (others != 0)
			return end - ((uintptr_t)left << FALLOW_GRANULE_LOG2);
		first = 0;
		/* As a rule whole slices follow, four words at a time. */
		for (slice++; slice + 4 <= CHUNK_SLICES &&
			left > 4 * SLICE_GRANULES &&
			words_four(&words[slice]) == same * WORDS_EACH;
			slice += 4)
			left -= 4 * SLICE_GRANULES;
		if (slice == CHUNK_SLICES) {
			words = chunk_of(heap, end -
				((uintptr_t)left << FALLOW_GRANULE_LOG2))
					->populated;
			slice = 0;
		}
	}
}

bool fl_memory_populated(const struct heap *heap, uintptr_t base, size_t size)
{
	bool populated;
	uintptr_t end = run_end(heap, base, base + size, &populated);

	return populated && end == base + size;
}

/* Clears memory that the caller holds, with interrupts as at the entry: it
 * may be gigabytes. */
void fl_memory_clear(struct op *op, uintptr_t base, size_t size)
{
	op_drop(op);
	memset((void *)base, 0, size);
	op_rejoin(op);
}

/* Counts bytes of [base, end) that were given back a short while ago, and are
 * about to be committed again. */
static void regret_count(struct heap *heap, uintptr_t base, uintptr_t end)
{
	size_t bytes = 0;

	while (base < end) {
		uint16_t stamp = chunk_of(heap, base)->stamp[slice_of(base)];
		uintptr_t next = align_down(base, SLICE_BYTES) + SLICE_BYTES;
		uint16_t age = (heap_epoch(heap) - stamp) & STAMP_EPOCHS;

		if (next > end)
			next = end;
		if ((stamp & STAMP_PURGED) && age <= REGRET_EPOCHS)
			bytes += next - base;
		base = next;
	}
	if (bytes > 0)
		fl_add_relaxed(&heap->counters.regretted, bytes);
}

unsigned fl_memory_populate(
	struct op *op, uintptr_t base, size_t size, bool fill)
{
	uintptr_t end = base + size;
	unsigned all = FALLOW_COMMIT_DONE | FALLOW_COMMIT_ZEROED;

	while (base < end) {
		bool populated;
		uintptr_t next = run_end(op->heap, base, end, &populated);
		unsigned result = FALLOW_COMMIT_DONE;

		if (!populated)
			result = fl_memory_commit(op, base, next - base);
		if (!(result & FALLOW_COMMIT_DONE))
			return FALLOW_COMMIT_NO_MEMORY;
		if (!populated) {
			regret_count(op->heap, base, next);
			fl_memory_mark(op->heap, base, next - base, true);
			fl_memory_count(op->heap, next - base);
		}
		if (!(result & FALLOW_COMMIT_ZEROED) && fill)
			fl_memory_clear(op, base, next - base);
		else if (!(result & FALLOW_COMMIT_ZEROED))
			all &= ~(unsigned)FALLOW_COMMIT_ZEROED;
		base = next;
	}
	return all;
}
