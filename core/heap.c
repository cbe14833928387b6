/* SPDX-License-Identifier: MIT */
/*
 * A heap's begin and end.
 *
 * fallow_init() checks everything that can be checked, in the order of the
 * configuration's fields, before it changes anything or calls anybody; then it
 * makes the tables if it knows the window.  A flat heap without a window takes
 * its first region for it, so its tables begin there.
 *
 * fallow_fini() makes every slice free, blocks in use or not, and then gives
 * back what a collect would, and the tables last: until then they say what
 * there is.
 */
#include "alloc.h"
#include "class.h"
#include "deferred.h"
#include "epoch.h"
#include "pace.h"
#include "page.h"
#include "region.h"
#include "reserve.h"
#include "string.h"

/* 88 classes with a page each take some 30 chunks of addresses per context. */
#define LEAN_CHUNKS 512

/* So that no sum over the emergency pool wraps. */
#define RESERVE_MAX (FALLOW_SIZE_MAX / 4)

/* 2^64 times the golden ratio's fraction: no pattern that programs use. */
#define SECRET_MIX UINT64_C(0x9e3779b97f4a7c15)

struct page fl_page_none = {
	.above = 0 - WAKE_NEVER,
	.wake = WAKE_NEVER,
	.owner = OWNER_NONE,
};

struct page fl_page_nobody = {
	.owner = OWNER_NONE,
	.kind = PAGE_SPAN,
	.base = UINTPTR_MAX,
};

/* Whether the provider has what its class and capabilities say. */
static enum fallow_status provider_check(const struct fallow_provider *provider)
{
	unsigned caps = provider->capabilities;
	bool whole = false;

	if (provider->size != sizeof(*provider))
		return FALLOW_BAD_SIZE_FIELD;
	if (provider->provider_class == FALLOW_CLASS_WINDOW)
		whole = provider->commit && provider->decommit;
	else if (provider->provider_class == FALLOW_CLASS_DIRECT)
		whole = provider->reserve && provider->release;
	else if (provider->provider_class == FALLOW_CLASS_FLAT)
		whole = true;
	if (!whole || ((caps & FALLOW_CAN_PROMOTE) && !provider->promote) ||
		((caps & FALLOW_CAN_MOVE) && !provider->move) ||
		((caps & FALLOW_CAN_DISCARD) && !provider->discard))
		return FALLOW_BAD_PROVIDER;
	if (provider->granule_log2 != FALLOW_GRANULE_LOG2)
		return FALLOW_BAD_GRANULE;
	if (provider->large_log2 != 0 && provider->large_log2 != CHUNK_LOG2)
		return FALLOW_BAD_LARGE;
	return FALLOW_OK;
}

/* Whether the window is one, for the provider's class. */
static enum fallow_status window_check(const struct fallow_config *config)
{
	bool window =
		config->provider->provider_class == FALLOW_CLASS_WINDOW;
	bool flat = config->provider->provider_class == FALLOW_CLASS_FLAT;

	if (config->window_size == 0)
		return flat ? FALLOW_OK : FALLOW_WINDOW_TOO_SMALL;
	if (window &&
		(config->window_base | config->window_size) &
			(GRANULE_BYTES - 1))
		return FALLOW_UNALIGNED;
	/* The end may be the last address, not beyond; the last chunk is kept
	 * out so that rounding up never wraps. */
	if (config->window_base + config->window_size < config->window_base ||
		config->window_base + config->window_size >
			UINTPTR_MAX - CHUNK_BYTES)
		return FALLOW_RANGE_WRAPS;
	if (config->window_size < SLICE_BYTES)
		return FALLOW_WINDOW_TOO_SMALL;
	return FALLOW_OK;
}

/* The first reason for which a configuration is refused, or OK. */
static enum fallow_status config_check(const struct fallow_config *config)
{
	enum fallow_status status;

	if (config->size != sizeof(*config))
		return FALLOW_BAD_SIZE_FIELD;
	if (config->provider == NULL)
		return FALLOW_MISSING_ARGUMENT;
	status = provider_check(config->provider);
	if (status == FALLOW_OK)
		status = window_check(config);
	if (status != FALLOW_OK)
		return status;
	if ((config->tables == NULL) != (config->tables_size == 0) ||
		(uintptr_t)config->tables & (CACHE_LINE_BYTES - 1) ||
		(config->tables != NULL &&
			config->provider->provider_class ==
				FALLOW_CLASS_WINDOW))
		return FALLOW_BAD_TABLES;
	if (config->contexts == 0 || config->contexts > FALLOW_CONTEXTS_MAX)
		return FALLOW_BAD_CONTEXTS;
	if (config->contexts_first > config->contexts)
		return FALLOW_BAD_CONTEXTS;
	if ((unsigned)config->misuse_policy > FALLOW_POLICY_STOP ||
		config->reserve_bytes > RESERVE_MAX ||
		config->floor_epochs > FALLOW_FLOOR_EPOCHS_MAX)
		return FALLOW_BAD_SETTING;
	return FALLOW_OK;
}

void fl_heap_window(struct heap *heap, uintptr_t base, size_t size)
{
	heap->window_base = base;
	heap->window_end = base + size;
	heap->base = align_down(base, CHUNK_BYTES);
	/* A window of many times a few pages of each class is addresses, one
	 * of less is all there is: see core/DESIGN.md. */
	heap->lean = !heap_is(heap, FALLOW_CLASS_WINDOW) ||
		size < LEAN_CHUNKS * CHUNK_BYTES;
	heap->spans_kept = heap->lean ? 0
		: heap->provider.capabilities & FALLOW_DEMAND ? UINT32_MAX
							      : SPANS_KEPT;
	heap->chunk_limit = (align_up(base + size, CHUNK_BYTES) - heap->base) >>
		CHUNK_LOG2;
}

enum fallow_status fallow_init(
	struct fallow *fallow, const struct fallow_config *config)
{
	struct op op = { .heap = heap_of(fallow) };
	struct heap *heap = op.heap;
	enum fallow_status status;

	if (fallow == NULL || config == NULL)
		return FALLOW_MISSING_ARGUMENT;
	status = config_check(config);
	if (status != FALLOW_OK)
		return status;
	memset(fallow, 0, sizeof(*fallow));
	lock_kind_set(&heap->lock, LOCK_HEAP);
	lock_kind_set(&heap->reserve_lock, LOCK_RESERVE);
	heap->provider = *config->provider;
	heap->contexts_wanted = config->contexts;
	heap->contexts_first = config->contexts_first != 0
		? config->contexts_first
		: config->contexts;
	heap->policy = config->misuse_policy;
	heap->misuse = config->misuse;
	heap->misuse_ctx = config->misuse_ctx;
	heap->pressure = config->pressure;
	heap->pressure_ctx = config->pressure_ctx;
	heap->attach = config->attach;
	heap->attach_ctx = config->attach_ctx;
	heap->reserve_bytes = config->reserve_bytes;
	heap->sweeping.epoch_ticks = config->epoch_ticks;
	heap->sweeping.floor_wanted = config->floor_bytes;
	heap->sweeping.first_bytes = config->sweep_from_bytes;
	heap->sweeping.floor_epochs = config->floor_epochs;
	fl_sweep_init(heap);
	fl_pace_init(heap, config->pace_from_bytes, config->pace_ticks);
	/* Odd, so that no mark is a block's address, and mixed with a number of
	 * our own, so that none is one with a tag bit either. */
	heap->secret = (config->secret ^ SECRET_MIX) | 1;
	heap->marks = heap->secret;
	if (config->tables != NULL) {
		heap->given_tables = (uintptr_t)config->tables;
		heap->given_tables_size = config->tables_size;
	}
	if (config->window_size == 0)
		return FALLOW_OK;
	fl_heap_window(heap, config->window_base, config->window_size);
	if (heap_is(heap, FALLOW_CLASS_FLAT) && heap->given_tables == 0)
		return FALLOW_OK;
	op_rejoin(&op);
	status = fl_table_begin(
		&op, heap->given_tables, heap->given_tables_size);
	op_drop(&op);
	return status;
}

/* Whether the range is one that a region may be. */
static enum fallow_status region_check(
	const struct heap *heap, uintptr_t base, size_t size)
{
	unsigned i;

	if (heap_is(heap, FALLOW_CLASS_WINDOW) &&
		((base | size) & (GRANULE_BYTES - 1)))
		return FALLOW_UNALIGNED;
	if (base + size < base || base + size > UINTPTR_MAX - CHUNK_BYTES)
		return FALLOW_RANGE_WRAPS;
	if (size < SLICE_BYTES)
		return FALLOW_REGION_TOO_SMALL;
	if (heap->window_end != 0 &&
		(base < heap->window_base || base + size > heap->window_end))
		return FALLOW_OUTSIDE_WINDOW;
	for (i = 0; i < heap->region_count; i++)
		if (base < heap->regions[i].given_end &&
			heap->regions[i].given_base < base + size)
			return FALLOW_REGION_OVERLAPS;
	if (heap->region_count == FALLOW_REGIONS_MAX)
		return FALLOW_TOO_MANY_REGIONS;
	return FALLOW_OK;
}

enum fallow_status fallow_add_region(
	struct fallow *fallow, uintptr_t base, size_t size)
{
	struct op op = { .heap = heap_of(fallow) };
	struct heap *heap = op.heap;
	enum fallow_status status = region_check(heap, base, size);
	bool first = heap->window_end == 0;

	if (status != FALLOW_OK)
		return status;
	/* What cannot be a region is not to be the window either. */
	if (first && align_up(base, SLICE_BYTES) + SLICE_BYTES >
			align_down(base + size, SLICE_BYTES))
		return FALLOW_REGION_TOO_SMALL;
	op_rejoin(&op);
	if (first)
		fl_heap_window(heap, base, size);
	if (first && heap->given_tables != 0)
		status = fl_table_begin(
			&op, heap->given_tables, heap->given_tables_size);
	if (status == FALLOW_OK)
		status = fl_region_add(&op, base, size);
	/* The next region may do for a window what this one did not. */
	if (status != FALLOW_OK && first && heap->region_count == 0 &&
		heap->chunks == NULL)
		heap->window_end = 0;
	if (status == FALLOW_OK) {
		op_local(&op);
		/* At boot interrupts may be masked: it waits for nobody. */
		if (op.local != NULL)
			fl_reserve_fill(&op);
	}
	op_drop(&op);
	return status;
}

bool fallow_more_contexts(struct fallow *fallow, unsigned contexts)
{
	struct op op = { .heap = heap_of(fallow) };
	bool made;

	/* The calling context need not be one yet. */
	op_rejoin(&op);
	made = fl_table_contexts(&op, contexts);
	op_drop(&op);
	return made;
}

void fallow_fini(struct fallow *fallow)
{
	struct op op = { .heap = heap_of(fallow) };
	struct heap *heap = op.heap;
	size_t number;

	op_rejoin(&op);
	/* For what it has to report. */
	fl_deferred_drain(&op);
	for (number = 0; number < heap->chunk_count; number++)
		if (heap->chunks[number] != NULL)
			fl_chunk_reset(heap, heap->chunks[number]);
	if (heap->contexts != 0) {
		if (!heap_is(heap, FALLOW_CLASS_FLAT))
			(void)fl_sweep_slices(&op);
		fl_table_end(&op);
	} else {
		op_drop(&op);
	}
	memset(fallow, 0, sizeof(*fallow));
}

size_t fallow_table_bytes(
	uintptr_t window_base, size_t window_size, unsigned contexts)
{
	uintptr_t base = align_down(window_base, CHUNK_BYTES);
	uintptr_t end = align_up(window_base + window_size, CHUNK_BYTES);

	return fl_table_bytes((end - base) >> CHUNK_LOG2, contexts);
}

#define CALLER ((uintptr_t)__builtin_return_address(0))

void fallow_offline(struct fallow *fallow)
{
	struct op op;

	if (!fl_op_begin(&op, fallow, 0, CALLER))
		return;
	fl_sweep_leave(op.heap, op.local->index);
	fl_deferred_drain(&op);
	fl_class_offline(&op);
	op_drop(&op);
	fl_sweep_wanted(op.heap);
}

void fallow_park(struct fallow *fallow)
{
	struct op op;

	if (!fl_op_begin(&op, fallow, 0, CALLER))
		return;
	fl_local_park(op.heap, op.local);
	op_drop(&op);
	fl_sweep_wanted(op.heap);
}

void fallow_unpark(struct fallow *fallow)
{
	struct op op;

	if (!fl_op_begin(&op, fallow, 0, CALLER))
		return;
	(void)fl_op_unpark(&op);
	op_drop(&op);
}
