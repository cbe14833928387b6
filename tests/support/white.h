/* SPDX-License-Identifier: MIT */
/*
 * For white-box tests: the inside of a rig's heap, and calls into the core as
 * any of its contexts.
 *
 * A call is an op whose local the test chose; the frees and everything else
 * that does not call the provider then run as that context, in every model.
 * Behind a provider call an op is in the context that runs, which is 0.
 */
#ifndef WHITE_H
#define WHITE_H

#include "alloc.h"
#include "class.h"
#include "deferred.h"
#include "free.h"
#include "misuse.h"
#include "region.h"
#include "sim_rig.h"
#include "test.h"

/* Hides from the compiler where a pointer comes from. */
static inline void *white_opaque(const void *p)
{
	__asm__ volatile("" : "+r"(p));
	return (void *)(uintptr_t)p;
}

static inline struct heap *white_heap(struct rig *rig)
{
	return heap_of(&rig->heap);
}

/* A call that has begun, as the context `context`. */
static inline struct op white_op(struct rig *rig, unsigned context)
{
	struct op op = { .heap = white_heap(rig), .caller = 1 };

	op_rejoin(&op);
	op.local = op.heap->locals[context];
	return op;
}

/* Where the model PREEMPT cannot tell a call from inside of a provider or hook
 * from another thread's: between the two it can, since none may run. */
static inline void white_hold(void)
{
	if (FALLOW_MODEL == FALLOW_MODEL_PREEMPT)
		fallow_host_held++;
}

static inline void white_release(void)
{
	if (FALLOW_MODEL == FALLOW_MODEL_PREEMPT)
		fallow_host_held--;
}

/* The page or span that a block is in. */
static inline struct page *white_page(struct rig *rig, const void *p)
{
	return map_find(white_heap(rig), (uintptr_t)p);
}

/* Frees a block as the context `context`. */
static inline void white_free(struct rig *rig, unsigned context, void *p)
{
	struct op op = white_op(rig, context);

	fl_free(&op, p);
}

/* Fails the test if any invariant of the heap is broken. */
static inline void white_check(struct rig *rig)
{
	const char *broken = fallow_check(&rig->heap, NULL);

	if (broken != NULL)
		test_printf("\n    broken: %s", broken);
	CHECK(broken == NULL);
}

/* Ends a heap in which the test left no block. */
static inline void white_end(struct rig *rig)
{
	struct fallow_snapshot now = { .size = sizeof(now) };

	white_check(rig);
	fallow_snapshot(&rig->heap, &now);
	CHECK_EQUAL(now.blocks, 0);
	CHECK_EQUAL(now.live, 0);
	rig_end_now(rig, true);
}

/* Makes sure of n free slices in a row, and takes them. */
static inline struct run white_slices(struct rig *rig, unsigned n)
{
	struct op op = white_op(rig, 0);
	struct run run = fl_chunk_take(op.heap, n);

	while (run.chunk == NULL) {
		if (fl_region_grow(&op, n, SLICE_BYTES) != GROW_YES)
			break;
		run = fl_chunk_take(op.heap, n);
	}
	op_drop(&op);
	CHECK(run.chunk != NULL);
	return run;
}

/* A new page of a class, in TRANSIT, without memory; not in the slice map. */
static inline struct page *white_page_new(struct rig *rig, unsigned class)
{
	struct heap *heap = white_heap(rig);
	unsigned n = fl_size_page_slices(class, heap->lean);
	struct run run = white_slices(rig, n);
	struct page *page;

	while (!fl_table_records(heap, run.chunk)) {
		struct op op = white_op(rig, 0);

		CHECK(fl_region_grow(&op, 0, SLICE_BYTES) == GROW_YES);
		op_drop(&op);
	}
	page = &run.chunk->records[run.first];
	run.chunk->heads |= slice_mask(run.first, 1);
	fl_page_init(page, run.chunk, run.first, class, n);
	page_mark_new(heap, page);
	return page;
}

/* The same, in the slice map, with all its blocks formed and free. */
static inline struct page *white_page_whole(struct rig *rig, unsigned class)
{
	struct heap *heap = white_heap(rig);
	struct page *page = white_page_new(rig, class);
	struct op op = white_op(rig, 0);
	size_t slice = (page->base - heap->base) >> FALLOW_SLICE_LOG2;
	unsigned i;

	while (page->formed < page->capacity) {
		if (fl_page_form(page))
			continue;
		CHECK(fl_page_commit(&op, page));
		if (test_failures() > 0)
			break;
	}
	for (i = 0; i < page->slices; i++)
		heap->map[slice + i] = page;
	op_drop(&op);
	return page;
}

/* Takes n blocks of a page that the caller owns; returns the last one. */
static inline void *white_pop(struct page *page, unsigned n)
{
	void *block = NULL;
	bool clean;

	while (n-- > 0) {
		block = page_pop(page, &clean);
		CHECK(block != NULL);
	}
	return block;
}

/* The block of a page with an index. */
static inline void *white_block(const struct page *page, uint32_t index)
{
	return (void *)(page->base + (uintptr_t)index * page->block_size);
}

/* Makes the heap's lock held by somebody, or by nobody again. */
static inline void white_lock_hold(struct heap *heap)
{
	heap->lock.next++;
}

static inline void white_lock_release(struct heap *heap)
{
	heap->lock.serving++;
}

#endif
