/* SPDX-License-Identifier: MIT */
/*
 * The emergency pool: who gets it, how much of it, and that it comes back.
 */
#include <string.h>

#include "reserve.h"
#include "white.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

#define POOL (512 * KIB)

static const enum fallow_provider_class classes[] = { FALLOW_CLASS_WINDOW,
	FALLOW_CLASS_DIRECT, FALLOW_CLASS_FLAT };

static struct fallow_snapshot now(struct rig *rig)
{
	struct fallow_snapshot sum = { .size = sizeof(sum) };

	fallow_snapshot(&rig->heap, &sum);
	return sum;
}

/* A heap with a pool; of class direct a first allocation fills it. */
static struct rig *begin(
	enum fallow_provider_class class, size_t window, size_t pool)
{
	struct rig *rig = rig_prepare(class, window, 2);

	rig->config.reserve_bytes = pool;
	CHECK_EQUAL(rig_init(rig), FALLOW_OK);
	rig->oracle.may_fail = true;
	if (class == FALLOW_CLASS_DIRECT)
		fallow_collect(&rig->heap);
	return rig;
}

/* Blocks that a test has, linked through themselves. */
struct chain {
	void **first;
	size_t bytes;
	size_t count;
};

/* Takes all there is in blocks of a size; returns the bytes. */
static size_t take(
	struct rig *rig, struct chain *chain, size_t size, unsigned flags)
{
	size_t before = chain->bytes;
	void **block;

	while ((block = fallow_alloc_flags(&rig->heap, size, flags)) != NULL) {
		chain->bytes += fallow_usable_size(&rig->heap, block);
		chain->count++;
		*block = chain->first;
		chain->first = block;
	}
	return chain->bytes - before;
}

static void give(struct rig *rig, struct chain *chain)
{
	while (chain->first != NULL) {
		void **block = chain->first;

		chain->first = *block;
		fallow_free(&rig->heap, block);
	}
	chain->bytes = chain->count = 0;
}

/* Takes all that ordinary calls can have, down to blocks of `size`. */
static void exhaust(struct rig *rig, struct chain *chain, size_t size)
{
	size_t large = 2 * MIB;

	for (; large > size; large /= 2)
		take(rig, chain, large, 0);
	take(rig, chain, size, 0);
	CHECK_EQUAL(now(rig).reserve_live, 0);
	CHECK_EQUAL(now(rig).reserve_served, 0);
}

static void end(struct rig *rig, struct chain *chain)
{
	give(rig, chain);
	white_check(rig);
	CHECK_EQUAL(now(rig).blocks, 0);
	CHECK_EQUAL(now(rig).reserve_live, 0);
	rig_end_now(rig, true);
}

/* So many bytes of blocks of one size when all else is gone, but for what a
 * page of that size wastes; ordinary calls have none of them. */
static void test_reserve_serves(void)
{
	static const size_t sizes[] = { 16, 64, 500, 4 * KIB, 8 * KIB, 20 * KIB,
		64 * KIB, 100 * KIB, 500 * KIB };

	for (size_t i = 0; i < 3 * sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct rig *rig = begin(classes[i % 3], 24 * MIB, POOL);
		size_t size = sizes[i / 3];
		struct chain chain = { 0 };
		size_t least = POOL - POOL / 8;
		size_t bytes;

		/* A page of large blocks is cut from few slices. */
		if (size > 64 * KIB)
			least = size > POOL / 2 ? size : POOL / 2;
		CHECK(now(rig).reserve >= POOL);
		CHECK_EQUAL(now(rig).blocks, 0);
		CHECK_EQUAL(now(rig).live, 0);
		exhaust(rig, &chain, size);
		bytes = take(rig, &chain, size, FALLOW_RESERVE);
		CHECK(bytes >= least && bytes <= now(rig).reserve);
		CHECK_EQUAL(now(rig).reserve_live, bytes);
		CHECK(now(rig).reserve_served > 0);
		CHECK_EQUAL(now(rig).live, chain.bytes);
		CHECK_EQUAL(now(rig).blocks, chain.count);
		CHECK(fallow_alloc(&rig->heap, size) == NULL);
		white_check(rig);
		end(rig, &chain);
	}
}

/* What comes back is the pool's, whole, however often. */
static void test_reserve_comes_back(void)
{
	static const size_t sizes[] = { 4 * KIB, 100, 64 * KIB, 8 * KIB, 16,
		20 * KIB };
	struct rig *rig = begin(FALLOW_CLASS_WINDOW, 24 * MIB, POOL);
	struct chain ordinary = { 0 }, reserve = { 0 };
	size_t first[6];

	exhaust(rig, &ordinary, 16);
	for (unsigned round = 0; round < 60; round++) {
		size_t bytes = take(rig, &reserve, sizes[round % 6],
			FALLOW_RESERVE);

		if (round < 6)
			first[round] = bytes;
		CHECK_EQUAL(bytes, first[round % 6]);
		CHECK_EQUAL(now(rig).reserve_live, bytes);
		give(rig, &reserve);
		CHECK_EQUAL(now(rig).reserve_live, 0);
		CHECK(fallow_alloc(&rig->heap, 100 * KIB) == NULL);
		white_check(rig);
	}
	end(rig, &ordinary);
}

/* As long as there is other memory it is not touched; nor by flags that are
 * not FALLOW_RESERVE, nor by a realloc without it. */
static void test_reserve_is_last(void)
{
	struct rig *rig = begin(FALLOW_CLASS_WINDOW, 24 * MIB, POOL);
	struct chain chain = { 0 };
	void *p, *q;

	for (unsigned i = 0; i < 100; i++) {
		p = fallow_alloc_flags(&rig->heap, i * 1000, FALLOW_RESERVE);
		CHECK(p != NULL);
		fallow_free(&rig->heap, p);
	}
	CHECK_EQUAL(now(rig).reserve_served, 0);
	exhaust(rig, &chain, 16);
	for (unsigned flags = 0; flags < FALLOW_RESERVE; flags++)
		CHECK(fallow_alloc_flags(&rig->heap, 5000, flags) == NULL);
	p = fallow_alloc_flags(&rig->heap, 5000, FALLOW_RESERVE);
	CHECK_OR_RETURN(p != NULL);
	memset(p, 0x77, 5000);
	/* It cannot grow but with the flag, nor a span in there in place. */
	CHECK(fallow_realloc(&rig->heap, p, 20000) == NULL);
	p = fallow_realloc_flags(&rig->heap, p, 20000, FALLOW_RESERVE);
	CHECK_OR_RETURN(p != NULL);
	for (unsigned i = 0; i < 5000; i++)
		CHECK_EQUAL(((unsigned char *)p)[i], 0x77);
	q = fallow_alloc_aligned_flags(
		&rig->heap, 128 * KIB, 66 * KIB, FALLOW_RESERVE);
	CHECK(q != NULL && (uintptr_t)q % (128 * KIB) == 0);
	CHECK(fallow_realloc(&rig->heap, q, 130 * KIB) == NULL);
	/* Smaller it stays, or goes where there is memory. */
	p = fallow_realloc(&rig->heap, p, 10);
	CHECK(p != NULL);
	fallow_free_sized(&rig->heap, p, 10);
	fallow_free_sized(&rig->heap, q, 66 * KIB);
	CHECK_EQUAL(rig->misuses, 0);
	end(rig, &chain);
}

/* A span in the pool neither grows nor shrinks where it is: the slices around
 * it are not an ordinary call's. */
static void test_reserve_span_stays(void)
{
	struct rig *rig = begin(FALLOW_CLASS_WINDOW, 24 * MIB, 4 * MIB);
	struct chain chain = { 0 };
	void *p;

	exhaust(rig, &chain, 16);
	p = fallow_alloc_flags(&rig->heap, 600 * KIB, FALLOW_RESERVE);
	CHECK_OR_RETURN(p != NULL);
	CHECK(fallow_realloc(&rig->heap, p, 700 * KIB) == NULL);
	CHECK(fallow_realloc(&rig->heap, p, 550 * KIB) == p);
	CHECK_EQUAL(fallow_usable_size(&rig->heap, p), 600 * KIB);
	p = fallow_realloc_flags(&rig->heap, p, 700 * KIB, FALLOW_RESERVE);
	CHECK_OR_RETURN(p != NULL);
	CHECK_EQUAL(now(rig).reserve_live, 700 * KIB);
	fallow_free(&rig->heap, p);
	end(rig, &chain);
}

/* From outside the mark of a block in the pool is the verdict, as for another
 * context's: its lists are under a lock. */
static void test_reserve_judged_by_mark(void)
{
	struct rig *rig = begin(FALLOW_CLASS_WINDOW, 24 * MIB, POOL);
	struct chain chain = { 0 };
	struct block *p;

	exhaust(rig, &chain, 16);
	p = fallow_alloc_flags(&rig->heap, 100, FALLOW_RESERVE);
	CHECK_OR_RETURN(p != NULL);
	p->mark = page_find(white_heap(rig), (uintptr_t)p)->mark;
	CHECK_EQUAL(fallow_usable_size(&rig->heap, p), 0);
	CHECK_EQUAL(rig->misuse.kind, FALLOW_MISUSE_DOUBLE_FREE);
	p->mark = 0;
	fallow_free(&rig->heap, p);
	rig->misuses_expected = 1;
	end(rig, &chain);
}

/* Every byte of a block that held others' bytes. */
static void test_reserve_zero(void)
{
	static const size_t sizes[] = { 16, 3000, 20 * KIB, 100 * KIB,
		400 * KIB };
	struct rig *rig = begin(FALLOW_CLASS_FLAT, 24 * MIB, POOL);
	struct chain chain = { 0 };

	exhaust(rig, &chain, 16);
	for (unsigned i = 0; i < 5; i++) {
		unsigned char *p = fallow_alloc_flags(
			&rig->heap, sizes[i], FALLOW_RESERVE);

		CHECK_OR_RETURN(p != NULL);
		memset(p, 0xee, sizes[i]);
		fallow_free(&rig->heap, p);
		p = fallow_alloc_flags(&rig->heap, sizes[i],
			FALLOW_RESERVE | FALLOW_ZERO | FALLOW_NOWAIT);
		CHECK_OR_RETURN(p != NULL);
		for (size_t at = 0; at < sizes[i]; at++)
			CHECK_OR_RETURN(p[at] == 0);
		fallow_free(&rig->heap, p);
	}
	end(rig, &chain);
}

/* Without memory there is none, until there is: the next collect fills it, or
 * one of the next allocations. */
static void test_reserve_filled_late(void)
{
	for (unsigned way = 0; way < 2; way++) {
		struct rig *rig = rig_prepare(
			FALLOW_CLASS_WINDOW, 64 * MIB, 1);
		struct chain chain = { 0 };

		rig->config.reserve_bytes = 4 * MIB;
		rig->sim.budget = 2 * MIB;
		CHECK_EQUAL(rig_init(rig), FALLOW_OK);
		CHECK_EQUAL(now(rig).reserve, 0);
		white_check(rig);
		/* What was committed for it in vain is there for others. */
		CHECK(take(rig, &chain, 64 * KIB, 0) > MIB);
		CHECK(fallow_alloc_flags(
			      &rig->heap, 64 * KIB, FALLOW_RESERVE) == NULL);
		give(rig, &chain);
		rig->sim.budget = 0;
		for (unsigned i = 0; way == 1 && i < 200; i++)
			fallow_free(&rig->heap,
				fallow_alloc(&rig->heap, MIB));
		if (way == 0)
			fallow_collect(&rig->heap);
		CHECK(now(rig).reserve >= 4 * MIB);
		fallow_collect(&rig->heap);
		CHECK(now(rig).reserve >= 4 * MIB);
		CHECK(now(rig).committed >= now(rig).reserve);
		end(rig, &chain);
	}
}

/* A refusal at each provider call of the filling: no pool, nothing lost. */
static void test_reserve_refused(void)
{
	for (int c = 0; c < 2; c++)
		for (uint64_t call = 1; call < 12; call++) {
			struct rig *rig = rig_prepare(classes[c], 64 * MIB, 1);

			rig->config.reserve_bytes = 3 * MIB;
			rig->sim.refuse_call = call;
			if (rig_init(rig) != FALLOW_OK) {
				rig_end_now(rig, false);
				continue;
			}
			fallow_collect(&rig->heap);
			white_check(rig);
			rig->sim.refuse_call = 0;
			fallow_collect(&rig->heap);
			CHECK(now(rig).reserve >= 3 * MIB);
			white_check(rig);
			rig_end_now(rig, true);
		}
}

/* Misuse of its blocks is told as of any, and what is no block of it too. */
static void test_reserve_misuse(void)
{
	struct rig *rig = begin(FALLOW_CLASS_WINDOW, 24 * MIB, POOL);
	struct chain chain = { 0 };
	const struct page *span = white_heap(rig)->reserve_span;
	char *p;

	exhaust(rig, &chain, 16);
	p = white_opaque(fallow_alloc_flags(
		&rig->heap, 1000, FALLOW_RESERVE));
	CHECK_OR_RETURN(p != NULL);
	for (unsigned context = 0; context < 2; context++) {
		white_free(rig, context, p + 16);
		CHECK_EQUAL(rig->misuse.kind, FALLOW_MISUSE_INTERIOR);
		CHECK_EQUAL(rig->misuse.block, (uintptr_t)p);
		CHECK_EQUAL(rig->misuse.owner, FALLOW_NO_CONTEXT);
		white_free(rig, context, (void *)span->base);
		CHECK_EQUAL(rig->misuse.kind, FALLOW_MISUSE_FOREIGN);
		white_free(rig, context, (void *)(span->base +
						  span->span_size - 64));
		CHECK_EQUAL(rig->misuse.kind, FALLOW_MISUSE_FOREIGN);
	}
	fallow_free_sized(&rig->heap, p, 100);
	CHECK_EQUAL(rig->misuse.kind, FALLOW_MISUSE_WRONG_SIZE);
	CHECK_EQUAL(fallow_usable_size(&rig->heap, p), 1024);
	CHECK_EQUAL(rig->misuses, 7);
	fallow_free(&rig->heap, p);
	CHECK_EQUAL(rig->misuses, 7);
	fallow_free(&rig->heap, p);
	CHECK_EQUAL(rig->misuse.kind, FALLOW_MISUSE_DOUBLE_FREE);
	CHECK(fallow_realloc(&rig->heap, p, 5000) == NULL);
	CHECK_EQUAL(fallow_usable_size(&rig->heap, p), 0);
	fallow_free_deferred(&rig->heap, p);
	fallow_collect(&rig->heap);
	CHECK_EQUAL(rig->misuse.kind, FALLOW_MISUSE_DOUBLE_FREE);
	CHECK_EQUAL(rig->misuses, 11);
	CHECK_EQUAL(now(rig).misuses, 11);
	rig->misuses_expected = 11;
	end(rig, &chain);
}

/* Blocks of it are deferred as any, also where a free of one would be found. */
static void test_reserve_deferred(void)
{
	static const size_t sizes[] = { 16, 3000, 20 * KIB, 64 * KIB,
		200 * KIB };
	struct rig *rig = begin(FALLOW_CLASS_WINDOW, 24 * MIB, POOL);
	struct chain chain = { 0 };

	exhaust(rig, &chain, 16);
	for (unsigned i = 0; i < 5; i++) {
		void *p = white_opaque(fallow_alloc_flags(
			&rig->heap, sizes[i], FALLOW_RESERVE));

		fallow_free_deferred(&rig->heap, p);
		CHECK(now(rig).reserve_live >= sizes[i]);
		fallow_free(&rig->heap, p);
		CHECK_EQUAL(rig->misuses, i + 1);
		CHECK_EQUAL(rig->misuse.kind, FALLOW_MISUSE_DOUBLE_FREE);
		white_check(rig);
		fallow_collect(&rig->heap);
		CHECK_EQUAL(now(rig).reserve_live, 0);
	}
	CHECK_EQUAL(rig->misuses, 5);
	rig->misuses_expected = 5;
	end(rig, &chain);
}

static bool item_sum(void *arg, const struct fallow_item *item)
{
	size_t *live = arg;

	if (item->kind != FALLOW_ITEM_PAGE)
		*live += item->block_size;
	return true;
}

/* A walk visits what is in use in it, and never the pool as a block. */
static void test_reserve_is_seen(void)
{
	struct rig *rig = begin(FALLOW_CLASS_FLAT, 24 * MIB, POOL);
	static struct fallow_class_row rows[CLASS_COUNT];
	struct chain chain = { 0 };
	size_t live = 0, blocks = 0;

	CHECK(fallow_walk(&rig->heap, true, item_sum, &live));
	CHECK_EQUAL(live, 0);
	exhaust(rig, &chain, 100);
	take(rig, &chain, 20 * KIB, FALLOW_RESERVE);
	take(rig, &chain, 100, FALLOW_RESERVE);
	CHECK(fallow_walk(&rig->heap, true, item_sum, &live));
	CHECK_EQUAL(live, chain.bytes);
	CHECK_EQUAL(now(rig).live, chain.bytes);
	CHECK_EQUAL(fallow_class_table(&rig->heap, rows, CLASS_COUNT),
		CLASS_COUNT);
	for (unsigned i = 0; i < CLASS_COUNT; i++)
		blocks += rows[i].blocks_used;
	CHECK_EQUAL(blocks + now(rig).spans, chain.count);
	end(rig, &chain);
}

static void broken_is(struct rig *rig, const char *sentence)
{
	const char *broken = fallow_check(&rig->heap, NULL);

	CHECK(broken != NULL && strcmp(broken, sentence) == 0);
}

/* The checker looks into the pool and at it. */
static void test_reserve_checked(void)
{
	struct rig *rig = begin(FALLOW_CLASS_WINDOW, 24 * MIB, POOL);
	struct heap *heap = white_heap(rig);
	struct heap *pool = heap->reserve;
	struct chain chain = { 0 };
	struct block *p;
	uintptr_t mark;

	exhaust(rig, &chain, 16);
	p = white_opaque(fallow_alloc_flags(
		&rig->heap, 100, FALLOW_RESERVE));
	CHECK_OR_RETURN(p != NULL);
	fallow_free(&rig->heap, p);
	mark = p->mark;
	p->mark = 0;
	broken_is(rig, "a free block carries its mark");
	p->mark = mark;
	heap->reserve_lock.next++;
	broken_is(rig, "no lock is held");
	heap->reserve_lock.serving++;
	heap->reserve_bytes += pool->counters.reserved;
	broken_is(rig, "the emergency pool has what was asked for");
	heap->reserve_bytes -= pool->counters.reserved;
	pool->shared = false;
	broken_is(rig, "the emergency pool is a span of its heap");
	pool->shared = true;
	end(rig, &chain);
}

/* From the smallest to what leaves little else, each whole. */
static void test_reserve_sizes(void)
{
	static const size_t pools[] = { 1, 4 * KIB, 64 * KIB, 64 * KIB + 1,
		MIB, 2 * MIB, 7 * MIB, 20 * MIB, 200 * MIB };

	for (unsigned i = 0; i < sizeof(pools) / sizeof(pools[0]); i++) {
		struct rig *rig = begin(
			FALLOW_CLASS_WINDOW, 256 * MIB, pools[i]);
		struct chain chain = { 0 };

		CHECK(now(rig).reserve >= pools[i]);
		CHECK(now(rig).reserve <=
			pools[i] + pools[i] / 50 + 2 * SLICE_BYTES +
				fl_table_bytes(pools[i] / CHUNK_BYTES + 2, 1));
		rig->sim.budget = 1;
		take(rig, &chain, 16 * KIB, FALLOW_RESERVE);
		CHECK(chain.bytes >= pools[i] / (64 * KIB) * 48 * KIB);
		end(rig, &chain);
	}
}

/* More than the window has is no pool, and more than there are addresses is
 * no configuration. */
static void test_reserve_impossible(void)
{
	struct rig *rig = begin(FALLOW_CLASS_WINDOW, 24 * MIB, 100 * MIB);

	CHECK_EQUAL(now(rig).reserve, 0);
	CHECK(fallow_alloc_flags(&rig->heap, 100, FALLOW_RESERVE) != NULL);
	fallow_collect(&rig->heap);
	white_check(rig);
	rig_end_now(rig, true);
	rig = rig_prepare(FALLOW_CLASS_WINDOW, 24 * MIB, 1);
	rig->config.reserve_bytes = SIZE_MAX;
	CHECK_EQUAL(rig_init(rig), FALLOW_BAD_SETTING);
	rig->config.reserve_bytes = SIZE_MAX / 2;
	CHECK_EQUAL(rig_init(rig), FALLOW_BAD_SETTING);
	rig_end_now(rig, false);
}

const struct test tests[] = {
	{ "reserve_serves", test_reserve_serves },
	{ "reserve_comes_back", test_reserve_comes_back },
	{ "reserve_is_last", test_reserve_is_last },
	{ "reserve_span_stays", test_reserve_span_stays },
	{ "reserve_judged_by_mark", test_reserve_judged_by_mark },
	{ "reserve_zero", test_reserve_zero },
	{ "reserve_filled_late", test_reserve_filled_late },
	{ "reserve_refused", test_reserve_refused },
	{ "reserve_misuse", test_reserve_misuse },
	{ "reserve_deferred", test_reserve_deferred },
	{ "reserve_is_seen", test_reserve_is_seen },
	{ "reserve_checked", test_reserve_checked },
	{ "reserve_sizes", test_reserve_sizes },
	{ "reserve_impossible", test_reserve_impossible },
	{ NULL, NULL },
};
