/* SPDX-License-Identifier: MIT */
/*
 * Spans: their slices, their entries in the slice map, growing and shrinking
 * where they are, and who frees one.
 */
#include <stdlib.h>
#include <string.h>

#include "chunk.h"
#include "span.h"
#include "white.h"

#define MIB ((size_t)1 << 20)
#define SIZE ((size_t)600 * 1024) /* 9 slices and 6 granules of a tenth */

static struct rig *begin(void)
{
	return rig_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 2);
}

static void *take_flags(
	struct rig *rig, size_t size, size_t align, unsigned flags)
{
	struct op op = white_op(rig, 0);
	void *p;

	op.flags = flags;
	p = fl_span_alloc(&op, size, align, flags & FALLOW_ZERO);
	op_drop(&op);
	return p;
}

static void *take(struct rig *rig, size_t size)
{
	return take_flags(rig, size, 16, 0);
}

static bool resize(struct rig *rig, void *p, size_t size, unsigned flags)
{
	struct op op = white_op(rig, 0);
	bool done;

	op.flags = flags;
	done = fl_span_resize(
		&op, white_page(rig, p), size, flags & FALLOW_ZERO);
	op_drop(&op);
	return done;
}

static bool give(struct rig *rig, struct page *span, uintptr_t addr)
{
	struct op op = white_op(rig, 0);
	bool done = fl_span_free(&op, span, addr);

	op_drop(&op);
	return done;
}

/* How many slices from p on the map says are this span's. */
static size_t mapped(struct rig *rig, const void *p, const struct page *span)
{
	size_t n = 0;

	while (n < 1000 && map_find(white_heap(rig),
				   (uintptr_t)p + n * SLICE_BYTES) == span)
		n++;
	return n;
}

static void test_span_alloc(void)
{
	struct rig *rig = begin();
	struct heap *heap = white_heap(rig);
	char *p = take(rig, SIZE - 100);
	struct page *span = white_page(rig, p);

	CHECK_OR_RETURN(p != NULL);
	CHECK_EQUAL(span->kind, PAGE_SPAN);
	CHECK_EQUAL(span->span_size, SIZE);
	CHECK_EQUAL(span->base, (uintptr_t)p);
	CHECK_EQUAL(span->owner, OWNER_FREER);
	CHECK_EQUAL(page_owner(span), FALLOW_NO_CONTEXT);
	CHECK_EQUAL(page_slices(span), 10);
	CHECK_EQUAL(mapped(rig, p, span), 10);
	CHECK_EQUAL(span->chunk->heads, slice_mask(span->first_slice, 1));
	CHECK(fl_memory_populated(heap, span->base, SIZE));
	CHECK(!fl_memory_populated(heap, span->base + SIZE, GRANULE_BYTES));
	CHECK_EQUAL(heap->counters.live, SIZE);
	/* The smallest there is. */
	p = take(rig, 0);
	CHECK_EQUAL(white_page(rig, p)->span_size, GRANULE_BYTES);
	white_check(rig);
	rig_end_now(rig, true);
}

static void test_span_align(void)
{
	struct rig *rig = begin();

	for (size_t align = 16; align <= 8 * MIB; align *= 2) {
		char *p = take_flags(rig, GRANULE_BYTES, align, 0);

		CHECK_OR_RETURN(p != NULL);
		CHECK_EQUAL((uintptr_t)p % align, 0);
		if (align > 16)
			CHECK_EQUAL((size_t)1 << white_page(rig, p)->loose,
				align);
	}
	CHECK(take_flags(rig, GRANULE_BYTES, 64 * MIB * 2, 0) == NULL);
	CHECK(take_flags(rig, GRANULE_BYTES, (size_t)1 << 63, 0) == NULL);
	CHECK(take(rig, SIZE_MAX) == NULL);
	CHECK(take(rig, SIZE_MAX - GRANULE_BYTES) == NULL);
	CHECK(take(rig, (size_t)1 << 47) == NULL);
	white_check(rig);
	rig_end_now(rig, true);
}

/* One of several chunks; its last chunk's rest is for others. */
static void test_span_across_chunks(void)
{
	struct rig *rig = begin();
	char *p = take(rig, 5 * MIB + 1);
	struct page *span = white_page(rig, p);

	CHECK_OR_RETURN(p != NULL);
	CHECK_EQUAL(mapped(rig, p, span), 81);
	white_check(rig);
	CHECK(give(rig, span, (uintptr_t)p));
	CHECK(mapped(rig, p, NULL) >= 81);
	CHECK_EQUAL(white_heap(rig)->counters.live, 0);
	white_check(rig);
	rig_end_now(rig, true);
}

/* Freed once, from its begin alone. */
/* Takes half of each of two chunks, or gives it back: with `taken` the second half
 * of the first chunk and the first one of the second are free. */
static void halves_take(struct heap *heap, uintptr_t base, bool taken)
{
	struct fl_port_state state = lock_take(&heap->lock);
	uintptr_t last = base + 3 * CHUNK_BYTES / 2;
	size_t n = CHUNK_SLICES / 2;

	if (taken) {
		CHECK(fl_chunk_take_at(heap, base, n));
		CHECK(fl_chunk_take_at(heap, last, n));
	} else {
		fl_chunk_give(heap, base, n, 1);
		fl_chunk_give(heap, last, n, 1);
	}
	lock_leave(&heap->lock, state);
}

/* Memory that is there serves a large span before memory that is not, also where
 * no chunk has enough of it. */
static void test_span_warmest(void)
{
	struct rig *rig = begin();
	struct heap *heap = white_heap(rig);
	size_t size = CHUNK_BYTES - SLICE_BYTES;
	char *p = take_flags(rig, 2 * CHUNK_BYTES, CHUNK_BYTES, 0);
	uintptr_t base = (uintptr_t)p;
	size_t committed = heap->counters.committed;

	CHECK_OR_RETURN(p != NULL);
	CHECK(give(rig, white_page(rig, p), base));
	halves_take(heap, base, true);
	p = take(rig, size);
	CHECK_EQUAL((uintptr_t)p, base + CHUNK_BYTES / 2);
	CHECK_EQUAL(heap->counters.committed, committed);
	CHECK(give(rig, white_page(rig, p), (uintptr_t)p));
	/* One that is aligned further stays so. */
	p = take_flags(rig, size, CHUNK_BYTES, 0);
	CHECK_EQUAL((uintptr_t)p % CHUNK_BYTES, 0);
	CHECK(give(rig, white_page(rig, p), (uintptr_t)p));
	halves_take(heap, base, false);
	white_check(rig);
	rig_end(rig);
}

static void test_span_free(void)
{
	struct rig *rig = begin();
	char *p = take(rig, SIZE);
	struct page *span = white_page(rig, p);
	struct page *other;

	CHECK(!give(rig, span, (uintptr_t)p + SLICE_BYTES));
	CHECK(!give(rig, span, (uintptr_t)p + 16));
	CHECK_EQUAL(mapped(rig, p, span), 10);
	CHECK(give(rig, span, (uintptr_t)p));
	CHECK(!give(rig, span, (uintptr_t)p));
	CHECK_EQUAL(span->chunk->heads, 0);
	white_check(rig);
	/* A span in its stead is not what the pointer meant, if it begins
	 * elsewhere. */
	take(rig, SLICE_BYTES);
	other = white_page(rig, take(rig, SIZE));
	CHECK(other != NULL && other->base != (uintptr_t)p);
	CHECK(!give(rig, other, (uintptr_t)p));
	white_check(rig);
	rig_end_now(rig, true);
}

/* A heap that keeps spans, which a small one does not. */
static struct rig *keeping(void)
{
	struct rig *rig = begin();

	CHECK(white_heap(rig)->lean);
	white_heap(rig)->lean = false;
	white_heap(rig)->spans_kept = SPANS_KEPT;
	return rig;
}

/* How many blocks a snapshot and a walk see; they agree. */
static bool visit(void *arg, const struct fallow_item *item)
{
	++*(size_t *)arg;
	CHECK_EQUAL(item->kind, FALLOW_ITEM_SPAN);
	return true;
}

static size_t seen(struct rig *rig)
{
	struct fallow_snapshot snapshot = { .size = sizeof(snapshot) };
	size_t walked = 0;

	fallow_snapshot(&rig->heap, &snapshot);
	CHECK(fallow_walk(&rig->heap, false, visit, &walked));
	CHECK_EQUAL(snapshot.spans, walked);
	CHECK_EQUAL(snapshot.blocks, walked);
	return walked;
}

/* What a context frees, its next span is: the slices, memory and record; to
 * everybody it is free, and freeing it again is a misuse. */
static void test_span_kept(void)
{
	struct rig *rig = keeping();
	struct local *local = white_heap(rig)->locals[0];
	char *p = fallow_alloc(&rig->heap, SIZE);
	struct page *span = white_page(rig, p);

	memset(p, 1, SIZE);
	fallow_free(&rig->heap, p);
	CHECK_EQUAL(local->kept_count, 1);
	CHECK(local->kept == span && span_kept(span));
	CHECK_EQUAL(mapped(rig, p, span), 10);
	CHECK_EQUAL(seen(rig), 0);
	white_check(rig);
	for (unsigned i = 1; i <= 3; i++) {
		rig->misuses_expected++;
		if (i == 1)
			fallow_free(&rig->heap, p);
		else if (i == 2)
			CHECK_EQUAL(fallow_usable_size(&rig->heap, p), 0);
		else
			white_free(rig, 1, p);
		CHECK_EQUAL(rig->misuses, i);
		CHECK_EQUAL(rig->misuse.kind, FALLOW_MISUSE_DOUBLE_FREE);
	}
	CHECK(fallow_alloc(&rig->heap, SIZE) == p);
	CHECK_EQUAL(local->kept_count, 0);
	CHECK_EQUAL(seen(rig), 1);
	CHECK_EQUAL(p[SIZE - 1], 1);
	fallow_free(&rig->heap, p);
	CHECK(fallow_zalloc(&rig->heap, SIZE) == p);
	for (size_t i = 0; i < SIZE; i++)
		if (p[i] != 0)
			CHECK_EQUAL(p[i], 0);
	white_check(rig);
	fallow_free(&rig->heap, p);
	white_end(rig);
}

/* Of another size in as many slices, if its memory is there. */
static void test_span_kept_sizes(void)
{
	static const size_t sizes[] = { SIZE - 20 * 1024, SIZE,
		SIZE + GRANULE_BYTES };
	struct rig *rig = keeping();
	struct heap *heap = white_heap(rig);
	char *p = fallow_alloc(&rig->heap, SIZE);

	for (unsigned i = 0; i < 3; i++) {
		fallow_free(&rig->heap, p);
		CHECK_EQUAL(heap->locals[0]->kept_count, 1);
		/* What is not there makes room for the other. */
		if (i == 2) {
			CHECK(fallow_alloc(&rig->heap, sizes[i]) != NULL);
			CHECK_EQUAL(heap->locals[0]->kept_count, 0);
			break;
		}
		CHECK(fallow_alloc(&rig->heap, sizes[i] - 5) == p);
		CHECK_EQUAL(fallow_usable_size(&rig->heap, p), sizes[i]);
		CHECK_EQUAL(heap->counters.live, sizes[i]);
		white_check(rig);
	}
	/* One that is too large to keep, or has become it, or is not any more:
	 * its slices go, or do not. */
	for (unsigned i = 0; i < 3; i++) {
		p = fallow_alloc(
			&rig->heap, i == 1 ? SIZE : SPAN_KEPT_MAX + 1);
		if (i > 0)
			p = fallow_realloc(&rig->heap, p,
				i == 1 ? SPAN_KEPT_MAX + 1 : SPAN_KEPT_MAX);
		CHECK_EQUAL(white_page(rig, p)->owner,
			i == 2 ? OWNER_FREER : OWNER_NONE);
		fallow_free(&rig->heap, p);
		CHECK_EQUAL(heap->locals[0]->kept_count, i == 2);
		CHECK(i == 2 || mapped(rig, p, NULL) >= 17);
		white_check(rig);
	}
	rig_end_now(rig, true);
}

/* Nor while the context is parked. */
static void test_span_kept_parked(void)
{
	struct rig *rig;
	char *p;

	if (FALLOW_MODEL == FALLOW_MODEL_SINGLE) {
		test_skip("nobody to park for");
		return;
	}
	rig = keeping();
	p = fallow_alloc(&rig->heap, SIZE);
	fallow_park(&rig->heap);
	fallow_free(&rig->heap, p);
	CHECK(fl_local_none.kept == NULL);
	CHECK_EQUAL(white_heap(rig)->locals[0]->kept_count, 0);
	CHECK(mapped(rig, p, NULL) >= 10);
	white_check(rig);
	rig_end_now(rig, true);
}

/* Nor one that has been deferred: that was its free. */
static void test_span_kept_deferred(void)
{
	struct rig *rig = keeping();
	struct local *local = white_heap(rig)->locals[0];
	char *p = fallow_alloc(&rig->heap, SIZE);

	fallow_free_deferred(&rig->heap, p);
	rig->misuses_expected++;
	fallow_free(&rig->heap, p);
	CHECK_EQUAL(rig->misuses, 1);
	CHECK_EQUAL(rig->misuse.kind, FALLOW_MISUSE_DOUBLE_FREE);
	CHECK_EQUAL(local->kept_count, 0);
	rig_end_now(rig, true);
}

/* Nor one that is an arena's, whoever frees it by mistake. */
static void test_span_kept_not(void)
{
	struct rig *rig = keeping();
	struct local *local = white_heap(rig)->locals[0];
	char *p = fallow_alloc(&rig->heap, SIZE);

	fl_span_lend(white_page(rig, p), rig);
	white_check(rig);
	rig->misuses_expected++;
	fallow_free(&rig->heap, p);
	CHECK_EQUAL(rig->misuses, 1);
	CHECK_EQUAL(local->kept_count, 0);
	fl_span_lend(white_page(rig, p), NULL);
	fallow_free(&rig->heap, p);
	CHECK_EQUAL(local->kept_count, 1);
	white_check(rig);
	rig_end_now(rig, true);
}

/* No more than a few; the others are free slices. */
static void test_span_kept_few(void)
{
	struct rig *rig = keeping();
	struct heap *heap = white_heap(rig);
	char *p[SPANS_KEPT + 2];

	for (unsigned i = 0; i < SPANS_KEPT + 2; i++)
		p[i] = fallow_alloc(&rig->heap, SIZE);
	for (unsigned i = 0; i < SPANS_KEPT + 2; i++)
		fallow_free(&rig->heap, p[i]);
	CHECK_EQUAL(heap->locals[0]->kept_count, SPANS_KEPT);
	CHECK(mapped(rig, p[SPANS_KEPT], NULL) >= 10);
	white_check(rig);
	/* The youngest first; any that fits. */
	CHECK(fallow_alloc(&rig->heap, SIZE) == p[SPANS_KEPT - 1]);
	heap->locals[0]->kept->span_size -= GRANULE_BYTES;
	fl_memory_live(heap, 0 - GRANULE_BYTES);
	CHECK(fallow_alloc(&rig->heap, SIZE - GRANULE_BYTES) == p[2]);
	CHECK(fallow_alloc(&rig->heap, SIZE) == p[1]);
	CHECK_EQUAL(heap->locals[0]->kept_count, 1);
	white_check(rig);
	rig_end_now(rig, true);
}

/* While another's request for memory is unanswered no span is kept; those that
 * were are used up, and the slow path that comes then answers. */
static void test_span_kept_asked(void)
{
	struct rig *rig;
	struct heap *heap;
	struct local *local;
	char *p, *q;

	if (FALLOW_MODEL == FALLOW_MODEL_SINGLE) {
		test_skip("one context");
		return;
	}
	rig = keeping();
	heap = white_heap(rig);
	local = heap->locals[0];
	p = fallow_alloc(&rig->heap, SIZE);
	q = fallow_alloc(&rig->heap, SIZE);

	fallow_free(&rig->heap, p);
	CHECK_EQUAL(local->kept_count, 1);
	fallow_host_context = 1;
	fallow_collect(&rig->heap);
	fallow_host_context = 0;
	CHECK(local->answered != heap->request);
	fallow_free(&rig->heap, q);
	CHECK_EQUAL(local->kept_count, 1);
	CHECK(fallow_alloc(&rig->heap, SIZE) == p);
	fallow_free(&rig->heap, p);
	CHECK_EQUAL(local->kept_count, 0);
	p = fallow_alloc(&rig->heap, SIZE);
	CHECK_EQUAL(local->answered, heap->request);
	fallow_free(&rig->heap, p);
	CHECK_EQUAL(local->kept_count, 1);
	white_check(rig);
	rig_end_now(rig, true);
}

/* Everybody who gives memory back has them: collect, a sweep of the context or,
 * while it is parked, of another, and going offline; and a last resort. */
static void test_span_kept_ends(void)
{
	for (unsigned what = 0; what < 5; what++) {
		struct rig *rig = keeping();
		struct heap *heap = white_heap(rig);
		struct local *local = heap->locals[0];
		char *p = fallow_alloc(&rig->heap, SIZE);

		fallow_free(&rig->heap, p);
		CHECK_EQUAL(local->kept_count, 1);
		if (what == 0) {
			fallow_collect(&rig->heap);
		} else if (what == 1) {
			fallow_sweep(&rig->heap, SIZE_MAX);
		} else if (what == 2) {
			fallow_park(&rig->heap);
			fallow_host_context = 1;
			fallow_sweep(&rig->heap, SIZE_MAX);
			fallow_host_context = 0;
		} else if (what == 3) {
			fallow_offline(&rig->heap);
		} else {
			while (fallow_alloc_flags(&rig->heap, 200000,
				       FALLOW_NORECLAIM) != NULL)
				;
		}
		CHECK_EQUAL(local->kept_count, 0);
		white_check(rig);
		rig_end_now(rig, true);
	}
}

/* Granules come and go inside a slice, slices behind it. */
static void test_span_resize(void)
{
	static const size_t sizes[] = { SIZE + 1, SLICE_BYTES * 10,
		SLICE_BYTES * 10 + 1, 3 * MIB, 3 * MIB - 1, SIZE, 524289,
		20 * MIB, 1 };
	struct rig *rig = begin();
	struct heap *heap = white_heap(rig);
	char *p = take(rig, 24 * MIB);
	struct page *span;

	/* All of that is opened now, and free behind p. */
	CHECK(give(rig, white_page(rig, p), (uintptr_t)p));
	CHECK(take(rig, SIZE) != NULL);
	p = take(rig, SIZE);
	span = white_page(rig, p);
	CHECK(give(rig, white_page(rig, p - 10 * SLICE_BYTES),
		(uintptr_t)p - 10 * SLICE_BYTES));
	memset(p, 0x33, SIZE);
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t size = align_up(sizes[i], GRANULE_BYTES);

		CHECK(resize(rig, p, sizes[i], 0));
		CHECK_EQUAL(span->span_size, size);
		CHECK_EQUAL(mapped(rig, p, span),
			(size + SLICE_BYTES - 1) / SLICE_BYTES);
		CHECK(fl_memory_populated(heap, span->base, size));
		CHECK_EQUAL(heap->counters.live, size);
		CHECK_EQUAL(p[0], 0x33);
		white_check(rig);
	}
	CHECK_EQUAL(span->span_size, GRANULE_BYTES);
	CHECK(!resize(rig, p, SIZE_MAX, 0));
	CHECK(!resize(rig, p, (size_t)1 << 47, 0));
	rig_end_now(rig, true);
}

/* A neighbour stops it; inside the last slice it can still grow. */
static void test_span_grow_blocked(void)
{
	struct rig *rig = begin();
	char *p = take(rig, SIZE);
	char *q = take(rig, SIZE);
	struct page *span = white_page(rig, p);

	CHECK_EQUAL((uintptr_t)q, (uintptr_t)p + 10 * SLICE_BYTES);
	CHECK(!resize(rig, p, SLICE_BYTES * 10 + 1, 0));
	CHECK_EQUAL(span->span_size, SIZE);
	white_check(rig);
	CHECK(resize(rig, p, SLICE_BYTES * 10, 0));
	CHECK(!resize(rig, p, SLICE_BYTES * 11, 0));
	CHECK(give(rig, white_page(rig, q), (uintptr_t)q));
	CHECK(resize(rig, p, SLICE_BYTES * 11, 0));
	CHECK_EQUAL(mapped(rig, p, span), 11);
	white_check(rig);
	rig_end_now(rig, true);
}

/* No memory for the rest: the span is as it was, and the slices free. */
static void test_span_grow_refused(void)
{
	struct rig *rig = begin();
	char *p = take(rig, SIZE);
	struct page *span = white_page(rig, p);
	size_t free_before = span->chunk->free;

	memset(p, 0x44, SIZE);
	rig->sim.refuse_from = rig->sim.calls + 1;
	CHECK(!resize(rig, p, SLICE_BYTES * 12, 0));
	CHECK_EQUAL(span->span_size, SIZE);
	CHECK_EQUAL(span->chunk->free, free_before);
	CHECK_EQUAL(mapped(rig, p, span), 10);
	CHECK_EQUAL(white_heap(rig)->counters.live, SIZE);
	white_check(rig);
	CHECK(take(rig, SIZE) == NULL);
	white_check(rig);
	rig->sim.refuse_from = 0;
	CHECK(!resize(rig, p, SLICE_BYTES * 12, FALLOW_NOWAIT));
	white_lock_hold(white_heap(rig));
	CHECK(!resize(rig, p, SIZE + GRANULE_BYTES, FALLOW_NOWAIT));
	CHECK(take_flags(rig, SIZE, 16, FALLOW_NOWAIT) == NULL);
	white_lock_release(white_heap(rig));
	white_check(rig);
	rig_end_now(rig, true);
}

/* Zero where asked for, of memory that was used before. */
static void test_span_zero(void)
{
	struct rig *rig = begin();
	char *p = take(rig, SIZE);
	size_t i, sum = 0;

	memset(p, 0x55, SIZE);
	CHECK(give(rig, white_page(rig, p), (uintptr_t)p));
	CHECK(take_flags(rig, SIZE - 5 * SLICE_BYTES, 16, FALLOW_ZERO) == p);
	for (i = 0; i < SIZE - 5 * SLICE_BYTES; i++)
		sum += p[i] != 0;
	CHECK_EQUAL(sum, 0);
	/* And of the slices behind it, dirty still. */
	memset(p, 0x66, SIZE - 5 * SLICE_BYTES);
	CHECK(resize(rig, p, SIZE, FALLOW_ZERO));
	for (i = 0; i < SIZE; i++)
		sum += p[i] != (i < SIZE - 5 * SLICE_BYTES ? 0x66 : 0);
	CHECK_EQUAL(sum, 0);
	rig_end_now(rig, true);
}

/* No room for a chunk's records: the slices go back, and are had later. */
static void test_span_tables(void)
{
	struct rig *rig = begin();
	struct heap *heap = white_heap(rig);
	struct run run = white_slices(rig, CHUNK_SLICES);

	fl_chunk_give(heap, run.chunk->base, CHUNK_SLICES, 1);
	heap->kept = (size_t)1 << 40;
	CHECK(take_flags(rig, SIZE, 16, FALLOW_NOWAIT) == NULL);
	white_check(rig);
	CHECK(take(rig, SIZE) != NULL);
	white_check(rig);
	rig_end_now(rig, true);
}

/* The last addresses but for 16 MiB, as a kernel has them; nothing there is
 * ever touched. */
#define TOP ((uintptr_t)0xffffffff80000000)
#define TOP_SIZE ((size_t)0x7f000000)

static struct {
	uintptr_t next;
	void *tables;
	struct fallow_provider provider;
	struct fallow heap;
} top;

static uintptr_t top_reserve(void *ctx, size_t size, size_t align)
{
	uintptr_t base = align_up(top.next, align);

	(void)ctx;
	if (base < top.next || size > TOP + TOP_SIZE - base)
		return 0;
	top.next = base + size;
	return base;
}

static void top_release(void *ctx, uintptr_t base, size_t size)
{
	(void)ctx;
	(void)base;
	(void)size;
}

/* A heap of what is left behind the first `skip` bytes. */
static void top_begin(size_t skip)
{
	uintptr_t base = TOP + skip;
	size_t size = TOP_SIZE - skip;
	size_t bytes = align_up(fallow_table_bytes(base, size, 1), 64);
	struct fallow_config config = {
		.size = sizeof(config),
		.provider = &top.provider,
		.window_base = base,
		.window_size = size,
		.contexts = 1,
		.tables = aligned_alloc(64, bytes),
		.tables_size = bytes,
	};

	top.next = base;
	top.tables = config.tables;
	top.provider = (struct fallow_provider){
		.size = sizeof(top.provider),
		.provider_class = FALLOW_CLASS_DIRECT,
		.granule_log2 = FALLOW_GRANULE_LOG2,
		.large_log2 = 21,
		.reserve = top_reserve,
		.release = top_release,
	};
	CHECK(config.tables != NULL);
	CHECK_EQUAL(fallow_init(&top.heap, &config), FALLOW_OK);
}

static void top_end(void)
{
	CHECK(fallow_check(&top.heap, NULL) == NULL);
	fallow_fini(&top.heap);
	free(top.tables);
}

/* Growing to where the addresses wrap is refused, not done. */
static void test_span_top_grow(void)
{
	char *p, *q;

	top_begin(0);
	p = fallow_alloc(&top.heap, 1024 * MIB);
	q = fallow_alloc(&top.heap, MIB);
	CHECK_EQUAL((uintptr_t)p, TOP);
	CHECK_OR_RETURN(q >= p + 1024 * MIB);
	CHECK(fallow_realloc(&top.heap, q, 1536 * MIB) == NULL);
	CHECK(fallow_realloc(&top.heap, q, 2047 * MIB) == NULL);
	CHECK_EQUAL(fallow_usable_size(&top.heap, q), MIB);
	top_end();
}

/* Free slices that an alignment leaves nothing of are not enough. */
static void test_span_top_align(void)
{
	char *p;

	top_begin(2 * MIB);
	p = fallow_alloc(&top.heap, 1640 * MIB);
	CHECK(p != NULL);
	fallow_free(&top.heap, p);
	p = fallow_alloc_aligned(&top.heap, 1024 * MIB, 512 * MIB);
	CHECK_EQUAL((uintptr_t)p, TOP + 1024 * MIB);
	fallow_free(&top.heap, p);
	CHECK(fallow_alloc_aligned(&top.heap, 1024 * MIB, 1536 * MIB) == NULL);
	top_end();
}

const struct test tests[] = {
	{ "span_alloc", test_span_alloc },
	{ "span_align", test_span_align },
	{ "span_across_chunks", test_span_across_chunks },
	{ "span_warmest", test_span_warmest },
	{ "span_free", test_span_free },
	{ "span_kept", test_span_kept },
	{ "span_kept_sizes", test_span_kept_sizes },
	{ "span_kept_deferred", test_span_kept_deferred },
	{ "span_kept_not", test_span_kept_not },
	{ "span_kept_parked", test_span_kept_parked },
	{ "span_kept_few", test_span_kept_few },
	{ "span_kept_ends", test_span_kept_ends },
	{ "span_kept_asked", test_span_kept_asked },
	{ "span_resize", test_span_resize },
	{ "span_grow_blocked", test_span_grow_blocked },
	{ "span_grow_refused", test_span_grow_refused },
	{ "span_zero", test_span_zero },
	{ "span_tables", test_span_tables },
	{ "span_top_grow", test_span_top_grow },
	{ "span_top_align", test_span_top_align },
	{ NULL, NULL },
};
