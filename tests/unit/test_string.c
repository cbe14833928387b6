/* SPDX-License-Identifier: MIT */
/*
 * The library's own memcpy, memmove, memset and memcmp, compiled here under
 * other names, since a host's libc takes their place when linked: each small
 * size, at each alignment of both ends, at each overlap, against loops over
 * bytes; and not a byte around what was named.
 */
#include <string.h>

#define memcpy test_memcpy
#define memmove test_memmove
#define memset test_memset
#define memcmp test_memcmp
#define CORE_STRING_H
void *test_memcpy(void *restrict to, const void *restrict from, size_t size);
void *test_memmove(void *to, const void *from, size_t size);
void *test_memset(void *to, int byte, size_t size);
int test_memcmp(const void *a, const void *b, size_t size);
#include "../../core/string.c"

#include "test.h"

/* Three words and their neighbours: every mix of words and single bytes. */
#define SIZE_MAX_TESTED 40
#define ROOM 128

static unsigned char seen[ROOM], expected[ROOM], source[ROOM];

/* Both buffers with the same bytes, all different from their neighbours. */
static void prepare(unsigned salt)
{
	for (unsigned i = 0; i < ROOM; i++) {
		seen[i] = expected[i] = (unsigned char)(i * 7 + salt);
		source[i] = (unsigned char)(i * 11 + salt + 128);
	}
}

static void compare(void)
{
	for (unsigned i = 0; i < ROOM; i++)
		if (seen[i] != expected[i]) {
			CHECK_EQUAL(seen[i], expected[i]);
			return;
		}
}

static void test_string_copy(void)
{
	for (unsigned size = 0; size <= SIZE_MAX_TESTED; size++)
		for (unsigned to = 0; to < 16; to++)
			for (unsigned from = 0; from < 16; from++) {
				prepare(size);
				for (unsigned i = 0; i < size; i++)
					expected[16 + to + i] =
						source[16 + from + i];
				CHECK(test_memcpy(seen + 16 + to,
					      source + 16 + from,
					      size) == seen + 16 + to);
				compare();
			}
}

/* Moves inside of one buffer, to before, onto and behind. */
static void test_string_move(void)
{
	for (unsigned size = 0; size <= SIZE_MAX_TESTED; size++)
		for (unsigned to = 8; to < 56; to++)
			for (unsigned from = 8; from < 56; from++) {
				unsigned char copy[SIZE_MAX_TESTED];

				prepare(size);
				for (unsigned i = 0; i < size; i++)
					copy[i] = expected[from + i];
				for (unsigned i = 0; i < size; i++)
					expected[to + i] = copy[i];
				CHECK(test_memmove(seen + to, seen + from,
					      size) == seen + to);
				compare();
			}
}

static void test_string_set(void)
{
	static const int bytes[] = { 0, 1, 0x7f, 0x80, 0xff, 0x1a5, -1 };

	for (unsigned b = 0; b < sizeof(bytes) / sizeof(bytes[0]); b++)
		for (unsigned size = 0; size <= SIZE_MAX_TESTED; size++)
			for (unsigned to = 8; to < 24; to++) {
				prepare(b);
				for (unsigned i = 0; i < size; i++)
					expected[to + i] =
						(unsigned char)bytes[b];
				CHECK(test_memset(seen + to, bytes[b],
					      size) == seen + to);
				compare();
			}
}

/* The first byte that differs decides, as unsigned; what follows does not. */
static void test_string_compare(void)
{
	for (unsigned size = 0; size <= SIZE_MAX_TESTED; size++) {
		prepare(size);
		CHECK_EQUAL(test_memcmp(seen + 3, expected + 3, size), 0);
		expected[3 + size]++;
		CHECK_EQUAL(test_memcmp(seen + 3, expected + 3, size), 0);
		for (unsigned at = 0; at < size; at++) {
			prepare(size);
			seen[3 + at] = 0x01;
			expected[3 + at] = 0xfe;
			for (unsigned i = at + 1; i < size; i++)
				seen[3 + i] = 0xff;
			CHECK(test_memcmp(seen + 3, expected + 3, size) < 0);
			CHECK(test_memcmp(expected + 3, seen + 3, size) > 0);
		}
	}
}

const struct test tests[] = {
	{ "string_copy", test_string_copy },
	{ "string_move", test_string_move },
	{ "string_set", test_string_set },
	{ "string_compare", test_string_compare },
	{ NULL, NULL },
};
