/* SPDX-License-Identifier: MIT */
/*
 * The C family's names over a heap.  They are renamed here, before the shim's
 * source is included: the test itself runs on the host's malloc.
 */
#include <fallow/flat.h>
#include <fallow/malloc.h>

#include "test.h"

#include <stdlib.h>
#include <string.h>

#define malloc shim_malloc
#define calloc shim_calloc
#define realloc shim_realloc
#define free shim_free
#define aligned_alloc shim_aligned_alloc
#define posix_memalign shim_posix_memalign
#define memalign shim_memalign
#define reallocarray shim_reallocarray
#define malloc_usable_size shim_malloc_usable_size

#include "shim/malloc.c"

#define ENOMEM_EXPECTED 12
#define EINVAL_EXPECTED 22

static _Alignas(65536) unsigned char memory[8 << 20];
static struct fallow heap;
static int last_error;
static unsigned misuses;

void fallow_malloc_errno(int error)
{
	last_error = error;
}

/* Returns what errno was set to since the last look, 0 if it was not. */
static int error_seen(void)
{
	int error = last_error;

	last_error = 0;
	return error;
}

static void on_misuse(void *ctx, const struct fallow_misuse *report)
{
	(void)ctx;
	(void)report;
	misuses++;
}

/* A heap of 8 MiB that the family uses. */
static void start(void)
{
	struct fallow_config config = {
		.size = sizeof(config),
		.provider = &fallow_flat,
		.window_base = (uintptr_t)memory,
		.window_size = sizeof(memory),
		.contexts = 1,
		.misuse = on_misuse,
	};

	misuses = 0;
	last_error = 0;
	CHECK_EQUAL(fallow_init(&heap, &config), FALLOW_OK);
	CHECK_EQUAL(fallow_add_region(
			    &heap, (uintptr_t)memory, sizeof(memory)),
		FALLOW_OK);
	fallow_malloc_use(&heap);
}

/* Nothing is left, nothing is broken, nobody was blamed. */
static void finish(void)
{
	struct fallow_snapshot snapshot = { .size = sizeof(snapshot) };

	fallow_snapshot(&heap, &snapshot);
	CHECK_EQUAL(snapshot.blocks, 0);
	CHECK(!fallow_check(&heap, NULL));
	CHECK_EQUAL(misuses, 0);
	fallow_malloc_use(NULL);
	fallow_fini(&heap);
}

/* Whether all bytes of the block are the value. */
static bool all_are(const void *p, size_t size, unsigned char value)
{
	const unsigned char *bytes = p;

	for (size_t i = 0; i < size; i++)
		if (bytes[i] != value)
			return false;
	return true;
}

static void test_malloc_before_use(void)
{
	void *p = memory;

	fallow_malloc_use(NULL);
	last_error = 0;
	CHECK(!malloc(1) && error_seen() == ENOMEM_EXPECTED);
	CHECK(!calloc(1, 1) && error_seen() == ENOMEM_EXPECTED);
	CHECK(!realloc(NULL, 1) && error_seen() == ENOMEM_EXPECTED);
	CHECK(!realloc(memory, 1) && error_seen() == ENOMEM_EXPECTED);
	CHECK(!aligned_alloc(64, 1) && error_seen() == ENOMEM_EXPECTED);
	CHECK(!memalign(64, 1) && error_seen() == ENOMEM_EXPECTED);
	CHECK(!reallocarray(NULL, 2, 2) && error_seen() == ENOMEM_EXPECTED);
	CHECK_EQUAL(posix_memalign(&p, 64, 1), ENOMEM_EXPECTED);
	CHECK(p == memory);
	free(NULL);
	free(memory);
	CHECK_EQUAL(malloc_usable_size(memory), 0);
	CHECK_EQUAL(malloc_usable_size(NULL), 0);
	CHECK_EQUAL(error_seen(), 0);
}

static void test_malloc_family(void)
{
	unsigned char *a, *b, *c;
	void *d;

	start();
	a = malloc(100);
	b = calloc(10, 10);
	c = malloc(0);
	CHECK_OR_RETURN(a && b && c && a != b && b != c);
	CHECK((uintptr_t)a % 16 == 0 && (uintptr_t)b % 16 == 0);
	CHECK(all_are(b, 100, 0));
	CHECK(malloc_usable_size(a) >= 100);
	memset(a, 0x61, 100);
	a = realloc(a, 100000);
	CHECK_OR_RETURN(a && all_are(a, 100, 0x61));
	a = reallocarray(a, 7, 7);
	CHECK_OR_RETURN(a && all_are(a, 49, 0x61));
	a = realloc(a, 0);
	CHECK(a);
	d = realloc(NULL, 5);
	CHECK(d);
	free(a);
	free(b);
	free(c);
	free(d);
	free(NULL);
	CHECK_EQUAL(error_seen(), 0);
	CHECK_EQUAL(malloc_usable_size(NULL), 0);
	finish();
}

static void test_malloc_aligned(void)
{
	volatile size_t huge = SIZE_MAX;
	void *p, *q;

	start();
	for (size_t align = 1; align <= 65536; align *= 2) {
		/* The first block of a page is aligned by itself. */
		p = aligned_alloc(align, 3 * align + 1);
		q = aligned_alloc(align, 3 * align + 1);
		CHECK(p && (uintptr_t)p % align == 0);
		CHECK(q && (uintptr_t)q % align == 0);
		free(p);
		free(q);
		p = memalign(align, 10);
		q = memalign(align, 10);
		CHECK(p && (uintptr_t)p % align == 0);
		CHECK(q && (uintptr_t)q % align == 0);
		free(p);
		free(q);
		p = NULL;
		if (align < sizeof(void *)) {
			CHECK_EQUAL(posix_memalign(&p, align, 8),
				EINVAL_EXPECTED);
			CHECK(!p);
			continue;
		}
		CHECK_EQUAL(posix_memalign(&p, align, 10), 0);
		CHECK(p && (uintptr_t)p % align == 0);
		free(p);
	}
	CHECK_EQUAL(error_seen(), 0);
	CHECK(!aligned_alloc(0, 8) && error_seen() == EINVAL_EXPECTED);
	CHECK(!aligned_alloc(24, 8) && error_seen() == EINVAL_EXPECTED);
	CHECK(!memalign(48, 8) && error_seen() == EINVAL_EXPECTED);
	p = memory;
	CHECK_EQUAL(posix_memalign(&p, 0, 8), EINVAL_EXPECTED);
	CHECK_EQUAL(posix_memalign(&p, 24, 8), EINVAL_EXPECTED);
	CHECK_EQUAL(posix_memalign(&p, 4096, huge), ENOMEM_EXPECTED);
	CHECK(p == memory);
	CHECK_EQUAL(error_seen(), 0);
	finish();
}

/* Sizes that nobody has, and products that overflow to small ones; the block
 * that could not grow is as before. */
static void test_malloc_exhausted(void)
{
	/* Volatile: the compiler knows these calls and would refuse them. */
	volatile size_t half = (size_t)1 << 63, huge = SIZE_MAX;
	char *p;

	start();
	CHECK(!malloc(huge) && error_seen() == ENOMEM_EXPECTED);
	CHECK(!malloc(half) && error_seen() == ENOMEM_EXPECTED);
	CHECK(!malloc(sizeof(memory)) && error_seen() == ENOMEM_EXPECTED);
	CHECK(!calloc(half, 2) && error_seen() == ENOMEM_EXPECTED);
	CHECK(!calloc(huge, huge) && error_seen() == ENOMEM_EXPECTED);
	CHECK(!aligned_alloc(16, huge) && error_seen() == ENOMEM_EXPECTED);
	p = malloc(10);
	CHECK_OR_RETURN(p);
	memcpy(p, "unchanged", 10);
	CHECK(!realloc(p, huge) && error_seen() == ENOMEM_EXPECTED);
	CHECK(!reallocarray(p, half, 2) && error_seen() == ENOMEM_EXPECTED);
	CHECK(!reallocarray(p, half + 1, 2) &&
		error_seen() == ENOMEM_EXPECTED);
	CHECK(!memcmp(p, "unchanged", 10));
	free(p);
	finish();
}

/* Misuse through the C names is the heap's to report. */
static void test_malloc_misuse(void)
{
	char *p;

	start();
	p = malloc(40);
	free(p);
	free(p);
	CHECK_EQUAL(misuses, 1);
	misuses = 0;
	finish();
}

const struct test tests[] = {
	{ "malloc_before_use", test_malloc_before_use },
	{ "malloc_family", test_malloc_family },
	{ "malloc_aligned", test_malloc_aligned },
	{ "malloc_exhausted", test_malloc_exhausted },
	{ "malloc_misuse", test_malloc_misuse },
	{ NULL, NULL },
};
