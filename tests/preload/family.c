/* SPDX-License-Identifier: MIT */
/*
 * The C family as glibc has it: what each name returns, aligns, clears, refuses
 * and says in errno, and that calls before anything else has run are served.
 */
#define _GNU_SOURCE /* the whole family */

#include "library.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>

#define PAGE 4096

/* More than any machine has, and more than any object may have. */
static volatile size_t huge = (size_t)1 << 45;
static volatile size_t beyond = SIZE_MAX - 100;

/* Before the C library's own start: it has no environment yet. */
static void *first;
static void first_make(void)
{
	first = malloc(1000);
	memset(first, 0x11, 1000);
}
__attribute__((section(".preinit_array"), used)) static void (*const
		first_function)(void) = first_make;

static void *second;
__attribute__((constructor(101))) static void second_make(void)
{
	second = calloc(10, 77);
}

static void test_family_is_the_library(void)
{
	void *const names[] = { (void *)malloc, (void *)calloc,
		(void *)realloc, (void *)free, (void *)reallocarray,
		(void *)aligned_alloc, (void *)posix_memalign,
		(void *)memalign, (void *)valloc, (void *)pvalloc,
		(void *)malloc_usable_size, (void *)mallinfo2,
		dlsym(RTLD_DEFAULT, "mallinfo"), (void *)malloc_trim,
		(void *)malloc_stats, (void *)mallopt };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		CHECK(of_library(names[i]));
}

static void test_family_early(void)
{
	CHECK(first != NULL && ((char *)first)[999] == 0x11);
	CHECK(second != NULL && ((char *)second)[769] == 0);
	first = realloc(first, 5000);
	CHECK(first != NULL && ((char *)first)[999] == 0x11);
	free(first);
	free(second);
}

/* Of every size: apart, aligned, usable, zero where it is promised. */
static void test_family_sizes(void)
{
	for (size_t size = 0; size < 3 * MIB; size += 1 + size / 7) {
		unsigned char *a = opaque(malloc(size));
		unsigned char *b = opaque(calloc(size, 1));

		CHECK_OR_RETURN(a != NULL && b != NULL && a != b);
		CHECK_EQUAL((uintptr_t)a % 16, 0);
		CHECK(malloc_usable_size(a) >= size);
		CHECK(malloc_usable_size(b) >= size);
		for (size_t i = 0; i < size; i += 61)
			CHECK_EQUAL(b[i], 0);
		memset(a, 0xff, malloc_usable_size(a));
		memset(b, 0xff, malloc_usable_size(b));
		a = realloc(a, size * 2 + 1);
		CHECK_OR_RETURN(a != NULL);
		for (size_t i = 0; i < size; i += 61)
			CHECK_EQUAL(a[i], 0xff);
		free(a);
		free(b);
	}
	CHECK_EQUAL(malloc_usable_size(NULL), 0);
	free(NULL);
}

/* Nothing is a block too; a realloc to nothing frees, as glibc's. */
static void test_family_zero(void)
{
	void *a = opaque(malloc(0)), *b = opaque(malloc(0));
	void *p = opaque(malloc(100));

	CHECK(a != NULL && b != NULL && a != b);
	CHECK(realloc(p, 0) == NULL);
	p = realloc(NULL, 0);
	CHECK(p != NULL);
	free(p);
	free(a);
	free(b);
}

/* NULL and ENOMEM, and all goes on. */
static void test_family_too_much(void)
{
	const size_t sizes[] = { huge, beyond, SIZE_MAX / 2 };
	void *p = opaque(malloc(100));

	memset(p, 0x5a, 100);
	for (int i = 0; i < 3; i++) {
		errno = 0;
		CHECK(opaque(malloc(sizes[i])) == NULL && errno == ENOMEM);
		errno = 0;
		CHECK(opaque(calloc(sizes[i], 1)) == NULL && errno == ENOMEM);
		errno = 0;
		CHECK(opaque(realloc(opaque(p), sizes[i])) == NULL &&
			errno == ENOMEM);
		errno = 0;
		CHECK(opaque(memalign(64, sizes[i])) == NULL &&
			errno == ENOMEM);
		errno = 0;
		CHECK(opaque(valloc(sizes[i])) == NULL && errno == ENOMEM);
		errno = 0;
		CHECK(opaque(pvalloc(sizes[i])) == NULL && errno == ENOMEM);
	}
	errno = 0;
	CHECK(opaque(calloc(beyond / 2, 3)) == NULL && errno == ENOMEM);
	errno = 0;
	CHECK(opaque(reallocarray(opaque(p), beyond / 2, 3)) == NULL &&
		errno == ENOMEM);
	CHECK_EQUAL(((char *)p)[99], 0x5a);
	p = reallocarray(p, 100, 100);
	CHECK(p != NULL && ((char *)p)[99] == 0x5a);
	free(p);
}

static void test_family_aligned(void)
{
	void *p = first;

	for (size_t align = 1; align <= 4 * MIB; align *= 2) {
		p = opaque(aligned_alloc(align, 300));
		CHECK(p != NULL && (uintptr_t)p % align == 0);
		CHECK(malloc_usable_size(p) >= 300);
		p = realloc(p, 700);
		CHECK(p != NULL);
		free(p);
		p = opaque(memalign(align, align + 3));
		CHECK(p != NULL && (uintptr_t)p % align == 0);
		free(p);
		errno = 7;
		CHECK_EQUAL(posix_memalign(&p, align, 50),
			align < sizeof(void *) ? EINVAL : 0);
		CHECK_EQUAL(errno, 7);
		if (align < sizeof(void *))
			continue;
		CHECK_EQUAL((uintptr_t)p % align, 0);
		free(p);
	}
	errno = 0;
	CHECK(opaque(aligned_alloc(48, 96)) == NULL && errno == EINVAL);
	CHECK(opaque(aligned_alloc(0, 96)) == NULL);
	p = &errno;
	CHECK_EQUAL(posix_memalign(&p, 48, 96), EINVAL);
	CHECK_EQUAL(posix_memalign(&p, 64, huge), ENOMEM);
	CHECK(p == &errno);
	/* glibc rounds up. */
	p = opaque(memalign(48, 96));
	CHECK(p != NULL && (uintptr_t)p % 64 == 0);
	free(p);
	p = opaque(valloc(10));
	CHECK(p != NULL && (uintptr_t)p % PAGE == 0);
	free(p);
	p = opaque(pvalloc(PAGE + 1));
	CHECK(p != NULL && (uintptr_t)p % PAGE == 0);
	CHECK(malloc_usable_size(p) >= 2 * PAGE);
	free(p);
}

/* free() leaves errno alone, whatever it comes to. */
static void test_family_errno(void)
{
	for (size_t size = 10; size < 8 * MIB; size *= 3) {
		void *p = opaque(malloc(size));

		errno = 1234;
		free(p);
		CHECK_EQUAL(errno, 1234);
	}
}

/* What is known of the heap follows what is done, and a trim gives back. */
static void test_family_info(void)
{
	struct mallinfo2 before = mallinfo2(), with, after;
	char *blocks[100];
	size_t full;

	for (int i = 0; i < 100; i++) {
		blocks[i] = malloc(300 * KIB);
		memset(blocks[i], i, 300 * KIB);
	}
	with = mallinfo2();
	full = resident();
	CHECK(with.uordblks >= before.uordblks + 30000 * KIB);
	CHECK(with.arena >= with.uordblks);
	CHECK_EQUAL(with.fordblks, with.arena - with.uordblks);
	CHECK_EQUAL(with.keepcost, with.fordblks);
	CHECK_EQUAL(with.hblks + with.hblkhd + with.smblks + with.fsmblks, 0);
	for (int i = 0; i < 100; i++)
		free(blocks[i]);
	after = mallinfo2();
	CHECK(after.uordblks < before.uordblks + MIB);
	/* The sweeper may have been faster. */
	(void)malloc_trim(0);
	CHECK(resident() < full - 25000 * KIB);
	CHECK(mallinfo2().arena < with.arena - 25000 * KIB);
	CHECK_EQUAL(mallopt(M_MMAP_THRESHOLD, 1000), 1);
}

/* A block's way through three threads. */
static void *pass_on(void *arg)
{
	return realloc(arg, 70000);
}

static void test_family_across_threads(void)
{
	for (int i = 0; i < 50; i++) {
		char *p = malloc(100 + (size_t)i * 400);
		pthread_t thread;
		void *q = NULL;

		CHECK_OR_RETURN(p != NULL);
		p[99] = 'x';
		CHECK_EQUAL(pthread_create(&thread, NULL, pass_on, p), 0);
		pthread_join(thread, &q);
		CHECK(q != NULL && ((char *)q)[99] == 'x');
		free(q);
	}
}

#define FAR 16384
/* Two lots of blocks, of 16 MiB each. */
static uintptr_t *far_blocks[2][FAR];

/* Makes the blocks of one lot, each with its address in it. */
static bool far_make(unsigned lot)
{
	for (unsigned i = 0; i < FAR; i++) {
		far_blocks[lot][i] = malloc(1024);
		if (far_blocks[lot][i] == NULL)
			return false;
		*far_blocks[lot][i] = (uintptr_t)far_blocks[lot][i];
	}
	return true;
}

/* Frees them. */
static void far_free(unsigned lot)
{
	for (unsigned i = 0; i < FAR; i++)
		free(far_blocks[lot][i]);
}

/* How many of them hold what they should. */
static unsigned far_whole(unsigned lot)
{
	unsigned whole = 0;

	for (unsigned i = 0; i < FAR; i++)
		whole += *far_blocks[lot][i] == (uintptr_t)far_blocks[lot][i];
	return whole;
}

/* Whether blocks of both lots lie in the same slice of their 4 GiB. */
static bool far_meet(void)
{
	for (unsigned i = 0; i < FAR; i += 32)
		for (unsigned j = 0; j < FAR; j += 32)
			if ((uint32_t)(uintptr_t)far_blocks[0][i] >> 16 ==
				(uint32_t)(uintptr_t)far_blocks[1][j] >> 16)
				return true;
	return false;
}

/* Of blocks whose addresses differ by 4 GiB, of the same thread, those go that are
 * freed. */
static void test_family_far(void)
{
	void *between;

	CHECK_OR_RETURN(far_make(0));
	between = malloc(((size_t)4 << 30) - ((size_t)8 << 20));
	CHECK_OR_RETURN(between != NULL);
	CHECK_OR_RETURN(far_make(1));
	CHECK(far_meet());
	for (unsigned round = 0; round < 4; round++) {
		far_free(round % 2);
		malloc_trim(0);
		CHECK_EQUAL(far_whole(1 - round % 2), FAR);
		CHECK_OR_RETURN(far_make(round % 2));
		CHECK_EQUAL(far_whole(1 - round % 2), FAR);
	}
	CHECK_EQUAL(far_whole(1), FAR);
	far_free(0);
	far_free(1);
	free(between);
}

const struct test tests[] = {
	{ "family_is_the_library", test_family_is_the_library },
	{ "family_early", test_family_early },
	{ "family_sizes", test_family_sizes },
	{ "family_zero", test_family_zero },
	{ "family_too_much", test_family_too_much },
	{ "family_aligned", test_family_aligned },
	{ "family_errno", test_family_errno },
	{ "family_info", test_family_info },
	{ "family_across_threads", test_family_across_threads },
	{ "family_far", test_family_far },
	{ NULL, NULL },
};
