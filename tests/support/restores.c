/* SPDX-License-Identifier: MIT */
/*
 * Each public function in turn, with whatever state of interrupts and
 * preemption the caller has made.
 *
 * CALL() makes one call and compares; the provider and the hooks compare, too.
 * The provider's commits can be refused from the n-th on, so that each call
 * also ends by running out of memory.  A parked context's own frees take the
 * way of other contexts' frees, so one context is enough for that.
 */
#include "restores.h"

#include <fallow/fallow.h>

#include "test.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define GRANULE ((size_t)4096)

static const struct restores_port *port;
static bool waits;
static const struct fallow_provider *inner;
static struct fallow_provider provider;
static struct fallow heap;
static unsigned compared;
static unsigned misuses;
static unsigned pressures;
static uint64_t commits_left;

static void compare(const char *where)
{
	compared++;
	if (!port->same())
		test_fail(__FILE__, __LINE__, where);
}

#define CALL(call) \
	do { \
		call; \
		compare(#call); \
	} while (0)

static unsigned commit(void *ctx, uintptr_t base, size_t size, unsigned flags)
{
	compare("in commit");
	if (commits_left == 0)
		return FALLOW_COMMIT_NO_MEMORY;
	commits_left--;
	return inner->commit(ctx, base, size, flags);
}

static void decommit(void *ctx, struct fallow_range *ranges, size_t n)
{
	compare("in decommit");
	CHECK(waits);
	inner->decommit(ctx, ranges, n);
}

static void misuse(void *ctx, const struct fallow_misuse *report)
{
	(void)ctx;
	(void)report;
	misuses++;
	compare("in the misuse hook");
}

static bool pressure(void *ctx, size_t size)
{
	(void)ctx;
	(void)size;
	pressures++;
	compare("in the pressure hook");
	CHECK(waits);
	return false;
}

static bool visit(void *arg, const struct fallow_item *item)
{
	(void)item;
	++*(unsigned *)arg;
	compare("in a visit");
	return true;
}

static void put(void *arg, char c)
{
	(void)c;
	++*(unsigned *)arg;
	compare("in a print");
}

/* Hides from the compiler where a pointer comes from. */
static void *opaque(void *p)
{
	__asm__ volatile("" : "+r"(p));
	return p;
}

static const size_t sizes[] = { 1, 100, 3000, 20 * KIB, 100 * KIB, 400 * KIB,
	700 * KIB, 3 * MIB };
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

/* Every way of allocating `size` bytes, each freed in another way. */
static void calls_alloc(size_t size)
{
	static const unsigned flags[] = { 0, FALLOW_NOWAIT, FALLOW_ZERO,
		FALLOW_NORECLAIM, FALLOW_RESERVE };
	void *p, *q;

	CALL(p = fallow_alloc(&heap, size));
	CALL(q = fallow_zalloc(&heap, size));
	CALL(fallow_free(&heap, p));
	CALL(p = fallow_calloc(&heap, size, 1));
	CALL(fallow_free_sized(&heap, p, size));
	CALL(p = fallow_alloc_aligned(&heap, 4096, size));
	CALL(fallow_free_deferred(&heap, p));
	CALL(fallow_park(&heap));
	CALL(fallow_free(&heap, q));
	CALL(fallow_unpark(&heap));
	for (unsigned i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		CALL(p = fallow_alloc_flags(&heap, size, flags[i]));
		CALL(q = fallow_alloc_aligned_flags(
			     &heap, 64 * KIB, size, flags[i]));
		CALL(p = fallow_realloc_flags(
			     &heap, p, size + size / 3, flags[i]));
		CALL(fallow_offline(&heap));
		CALL(fallow_free(&heap, q));
		CALL(fallow_free(&heap, p));
	}
}

static void calls_realloc(size_t size)
{
	void *p, *q;

	CALL(p = fallow_realloc(&heap, NULL, size));
	CALL(q = fallow_realloc(&heap, p, size * 2));
	p = q != NULL ? q : p;
	CALL(q = fallow_realloc(&heap, p, size / 8 + 1));
	p = q != NULL ? q : p;
	CALL((void)fallow_usable_size(&heap, p));
	CALL((void)fallow_owns(&heap, p));
	CALL(q = fallow_realloc(&heap, p, SIZE_MAX / 2));
	CHECK(q == NULL);
	CALL(fallow_free(&heap, p));
}

static void calls_token(size_t size)
{
	struct fallow_token token = { 0 };
	bool filled;
	void *p;

	CALL(filled = fallow_prefill(&heap, &token, size, 3, 0));
	if (!filled)
		return;
	CALL(p = fallow_alloc_from(&token));
	CALL(fallow_unfill(&heap, &token));
	CALL(fallow_free(&heap, p));
}

/* Each kind of misuse that a call can be. */
static void calls_misuse(size_t size)
{
	unsigned before = misuses;
	unsigned char *p;

	CALL(p = fallow_alloc(&heap, size));
	if (p == NULL)
		return;
	CALL(fallow_free(&heap, opaque(p + 1)));
	CALL(fallow_free_deferred(&heap, opaque(p + 1)));
	CALL(fallow_free_sized(&heap, p, size * 4));
	CHECK(fallow_realloc(&heap, opaque(p + 1), 10) == NULL);
	compare("a realloc of an interior pointer");
	CALL(fallow_free(&heap, p));
	CALL(fallow_free(&heap, opaque(p)));
	CALL(fallow_free(&heap, opaque(&before)));
	CALL((void)fallow_owns(&heap, &before));
	CALL(p = fallow_alloc_aligned(
		     &heap, (uintptr_t)opaque((void *)24), size));
	CALL(p = fallow_alloc(&heap, SIZE_MAX / 2));
	CALL(fallow_free(&heap, NULL));
	CALL(fallow_free_sized(&heap, NULL, 1));
	CALL(fallow_free_deferred(&heap, NULL));
	CHECK(misuses >= before + 5);
}

static void calls_looking(void)
{
	struct fallow_snapshot snapshot = { .size = sizeof(snapshot) };
	struct fallow_class_row rows[4];
	unsigned visits = 0;

	CALL(fallow_snapshot(&heap, &snapshot));
	CALL((void)fallow_class_table(&heap, rows, 4));
	CALL((void)fallow_walk(&heap, true, visit, &visits));
	CALL(fallow_print(&heap, put, &visits));
	CALL((void)fallow_good_size(100));
	CALL((void)fallow_misuse_text(FALLOW_MISUSE_FOREIGN));
	CHECK(visits > 0);
	CHECK(fallow_check(&heap, NULL) == NULL);
	compare("fallow_check()");
}

static void calls_all(void)
{
	for (unsigned i = 0; i < SIZES && !test_failures(); i++) {
		calls_alloc(sizes[i]);
		calls_realloc(sizes[i]);
		if (sizes[i] <= 100 * KIB)
			calls_token(sizes[i]);
		calls_misuse(sizes[i]);
	}
	calls_looking();
	CALL((void)fallow_collect(&heap));
	CALL(fallow_park(&heap));
	CALL((void)fallow_collect(&heap));
}

static void begin(uintptr_t window_base, size_t window_size, unsigned contexts)
{
	struct fallow_config config = {
		.size = sizeof(config),
		.provider = &provider,
		.window_base = window_base,
		.window_size = window_size,
		.contexts = contexts,
		.misuse = misuse,
		.pressure = pressure,
		.reserve_bytes = 256 * KIB,
	};
	enum fallow_status status;

	CALL(status = fallow_init(&heap, &config));
	CHECK_EQUAL(status, FALLOW_OK);
	CALL(status = fallow_add_region(&heap, window_base, window_size));
	CHECK_EQUAL(status, FALLOW_OK);
	CALL(status = fallow_add_region(&heap, window_base, window_size));
	CHECK_EQUAL(status, FALLOW_REGION_OVERLAPS);
	config.contexts = 0;
	CALL(status = fallow_init(&heap, &config));
	CHECK_EQUAL(status, FALLOW_BAD_CONTEXTS);
}

unsigned restores_run(const struct restores_port *which,
	const struct fallow_provider *from, uintptr_t window_base,
	size_t window_size, unsigned contexts)
{
	port = which;
	waits = which->waits;
	inner = from;
	compared = pressures = 0;
	provider = *from;
	provider.commit = commit;
	provider.decommit = decommit;
	commits_left = UINT64_MAX;
	begin(window_base, window_size, contexts);
	calls_all();
	/* Refused from different calls on, then always. */
	for (unsigned n = 0; n < 6 && !test_failures(); n++) {
		CALL((void)fallow_collect(&heap));
		commits_left = n;
		calls_all();
		commits_left = 0;
		calls_all();
	}
	CHECK(!waits || pressures > 0);
	port->task();
	waits = true;
	CALL(fallow_fini(&heap));
	return compared;
}
