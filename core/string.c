/* SPDX-License-Identifier: MIT */
/*
 * memcpy, memmove, memset, memcmp for kernels that have none.
 *
 * They are weak: an embedder's own, or a libc's, take their place.  Words of
 * eight bytes where both ends allow it, else bytes; no vector registers, which
 * a kernel would have to save.  The file is compiled without the optimisation
 * that turns a copying loop into a call of memcpy, which would be this one.
 */
#include <stdbool.h>
#include <stdint.h>

#include "string.h"

#define WEAK __attribute__((weak))

/* An eight-byte word at any address, of any type. */
typedef uint64_t __attribute__((may_alias, aligned(1))) any_word;

WEAK void *memcpy(void *restrict to, const void *restrict from, size_t size)
{
	unsigned char *out = to;
	const unsigned char *in = from;

	for (; size >= 8; size -= 8, out += 8, in += 8)
		*(any_word *)out = *(const any_word *)in;
	for (; size > 0; size--)
		*out++ = *in++;
	return to;
}

WEAK void *memmove(void *to, const void *from, size_t size)
{
	unsigned char *out = to;
	const unsigned char *in = from;

	/* Forwards is safe unless the target begins inside the source. */
	if ((uintptr_t)out - (uintptr_t)in >= size) {
		for (; size >= 8; size -= 8, out += 8, in += 8)
			*(any_word *)out = *(const any_word *)in;
		for (; size > 0; size--)
			*out++ = *in++;
		return to;
	}
	for (; size >= 8; size -= 8)
		*(any_word *)(out + size - 8) =
			*(const any_word *)(in + size - 8);
	for (; size > 0; size--)
		out[size - 1] = in[size - 1];
	return to;
}

WEAK void *memset(void *to, int byte, size_t size)
{
	unsigned char *out = to;
	uint64_t word = (unsigned char)byte * UINT64_C(0x0101010101010101);

	for (; size >= 8; size -= 8, out += 8)
		*(any_word *)out = word;
	for (; size > 0; size--)
		*out++ = (unsigned char)byte;
	return to;
}

WEAK int memcmp(const void *a, const void *b, size_t size)
{
	const unsigned char *left = a;
	const unsigned char *right = b;

	for (; size > 0; size--, left++, right++)
		if (*left != *right)
			return *left - *right;
	return 0;
}
