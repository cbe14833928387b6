/* SPDX-License-Identifier: MIT */
/*
 * Contexts that come later: their tables are committed when they are made, and
 * a thread without one gets it from the embedder's hook, or goes without.
 */
#include <string.h>

#include "white.h"

#define MIB ((size_t)1 << 20)
#define MOST 700u

/* A context that the heap does not have. */
#define NOBODY UINT32_MAX

static struct rig *begin(unsigned first)
{
	struct rig *rig = rig_prepare(FALLOW_CLASS_WINDOW, 64 * MIB, MOST);

	rig->config.contexts_first = first;
	CHECK_EQUAL(rig_init(rig), FALLOW_OK);
	return rig;
}

/* Few contexts take little, and every one that comes later is as the first. */
static void test_contexts_later(void)
{
	struct rig *rig = begin(2);
	struct heap *heap = white_heap(rig);
	size_t little = rig->sim.committed;

	CHECK_EQUAL(heap->contexts, 2);
	CHECK(fallow_more_contexts(&rig->heap, 1));
	CHECK_EQUAL(heap->contexts, 2);
	for (unsigned n = 3; n <= MOST; n += n < 10 ? 1 : 345) {
		CHECK(fallow_more_contexts(&rig->heap, n));
		CHECK_EQUAL(heap->contexts, n);
		CHECK_EQUAL(heap->locals[n - 1]->index, n - 1);
		CHECK(heap->serving[n - 1] == heap->locals[n - 1]);
		CHECK((uintptr_t)(heap->locals[n - 1] + 1) <=
			heap->area_locals.base + heap->area_locals.committed);
		rig_check(rig);
	}
	CHECK_EQUAL(heap->contexts, MOST);
	CHECK(rig->sim.committed >=
		little + (MOST - 10) * sizeof(struct local));
	CHECK(!fallow_more_contexts(&rig->heap, MOST + 1));
	CHECK((uintptr_t)(heap->locals[MOST - 1] + 1) <=
		heap->area_chunks.base);
	rig_end_now(rig, true);
}

/* Without memory there are as many as before, and later there are more. */
static void test_contexts_refused(void)
{
	struct rig *rig = begin(1);
	struct heap *heap = white_heap(rig);

	rig->sim.refuse_call = rig->sim.calls + 1;
	CHECK(!fallow_more_contexts(&rig->heap, 600));
	CHECK_EQUAL(heap->contexts, 1);
	rig_check(rig);
	CHECK(fallow_more_contexts(&rig->heap, 600));
	CHECK_EQUAL(heap->contexts, 600);
	rig_end_now(rig, true);
}

/* More at first than at most is no configuration. */
static void test_contexts_bad(void)
{
	struct rig *rig = rig_prepare(FALLOW_CLASS_WINDOW, 64 * MIB, 3);

	rig->config.contexts_first = 4;
	CHECK_EQUAL(rig_init(rig), FALLOW_BAD_CONTEXTS);
	rig_end_now(rig, false);
}

static unsigned asked;
static bool grants;

/* Gives the calling thread the context 1, or none. */
static bool attach(void *ctx)
{
	struct rig *rig = ctx;

	asked++;
	/* It may use the heap once it has an index, and not before. */
	if (grants && fallow_more_contexts(&rig->heap, 2)) {
		fallow_host_context = 1;
		fallow_free(&rig->heap, fallow_alloc(&rig->heap, 3000));
	}
	return grants;
}

static struct rig *begin_attaching(bool grant)
{
	struct rig *rig = rig_prepare(FALLOW_CLASS_WINDOW, 64 * MIB, MOST);

	rig->config.contexts_first = 1;
	rig->config.attach = attach;
	rig->config.attach_ctx = rig;
	CHECK_EQUAL(rig_init(rig), FALLOW_OK);
	asked = 0;
	grants = grant;
	return rig;
}

/* The first call of a thread, whichever it is, asks once and is served. */
static void test_contexts_attach(void)
{
	/* In the model SINGLE every thread is the one context. */
	for (unsigned call = 0; FALLOW_MODEL != FALLOW_MODEL_SINGLE && call < 6;
		call++) {
		struct rig *rig = begin_attaching(true);
		void *p = fallow_alloc(&rig->heap, 100);
		void *q = NULL;

		fallow_host_context = NOBODY;
		if (call == 0)
			q = fallow_alloc(&rig->heap, 100);
		else if (call == 1)
			q = fallow_alloc_aligned(&rig->heap, 64, 100);
		else if (call == 2)
			p = fallow_realloc(&rig->heap, p, 5000);
		else if (call == 3)
			CHECK(fallow_usable_size(&rig->heap, p) >= 100);
		else if (call == 4)
			q = p;
		else
			fallow_free_sized(&rig->heap, p, 100);
		CHECK((q != NULL) == (call < 2 || call == 4));
		fallow_free(&rig->heap, q);
		CHECK_EQUAL(asked, 1);
		CHECK_EQUAL(fallow_host_context, 1);
		fallow_host_context = 0;
		if (call < 4)
			fallow_free(&rig->heap, p);
		rig_end_now(rig, true);
	}
}

/* A thread that gets none allocates nothing, and its frees are put by. */
static void test_contexts_without(void)
{
	struct rig *rig = begin_attaching(false);
	void *blocks[3];

	for (unsigned i = 0; i < 3; i++)
		blocks[i] = fallow_alloc(&rig->heap, 100 + i * 30000);
	fallow_host_context = NOBODY;
	if (FALLOW_MODEL == FALLOW_MODEL_SINGLE) {
		for (unsigned i = 0; i < 3; i++)
			fallow_free(&rig->heap, blocks[i]);
		CHECK_EQUAL(asked, 0);
		rig_end(rig);
		return;
	}
	CHECK(fallow_alloc(&rig->heap, 100) == NULL);
	CHECK(fallow_realloc(&rig->heap, blocks[0], 3000) == NULL);
	CHECK_EQUAL(fallow_usable_size(&rig->heap, blocks[0]), 0);
	fallow_free(&rig->heap, blocks[0]);
	fallow_free(&rig->heap, blocks[1]);
	fallow_free_sized(&rig->heap, blocks[2], 60100);
	fallow_free(&rig->heap, NULL);
	CHECK_EQUAL(asked, 6);
	CHECK_EQUAL(rig->misuses, 0);
	CHECK_EQUAL(white_heap(rig)->deferred_count, 3);
	fallow_host_context = 0;
	fallow_collect(&rig->heap);
	CHECK_EQUAL(white_heap(rig)->deferred_count, 0);
	CHECK_EQUAL(rig->sim.made[SIM_COMMIT] > 0, 1);
	rig_end(rig);
}

static unsigned told;

static void tell(void *ctx, const struct fallow_misuse *report)
{
	(void)ctx;
	CHECK_EQUAL(report->kind, FALLOW_MISUSE_FOREIGN);
	CHECK_EQUAL(report->address, (uintptr_t)&told);
	told++;
}

/* A heap that is not made has no block: what is freed there is foreign, which
 * whoever it knows of is told. */
static void test_contexts_none(void)
{
	static struct fallow none;

	heap_of(&none)->misuse = tell;
	fallow_free(&none, NULL);
	CHECK(fallow_alloc(&none, 100) == NULL);
	CHECK_EQUAL(told, 0);
	fallow_free(&none, &told);
	fallow_free_sized(&none, &told, sizeof(told));
	CHECK_EQUAL(told, 2);
}

const struct test tests[] = {
	{ "contexts_later", test_contexts_later },
	{ "contexts_refused", test_contexts_refused },
	{ "contexts_bad", test_contexts_bad },
	{ "contexts_attach", test_contexts_attach },
	{ "contexts_without", test_contexts_without },
	{ "contexts_none", test_contexts_none },
	{ NULL, NULL },
};
