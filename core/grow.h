/* SPDX-License-Identifier: MIT */
/*
 * Public structs that begin with their own size, so that they can grow: an
 * older caller's is shorter, and what it does not have counts as zero.
 */
#ifndef CORE_GROW_H
#define CORE_GROW_H

#include <stdbool.h>
#include <stddef.h>

/* Copies bytes; loops of this kind become memcpy where it is there. */
static inline void grow_bytes(void *to, const void *from, size_t n)
{
	unsigned char *t = to;
	const unsigned char *f = from;

	while (n-- > 0)
		*t++ = *f++;
}

/*
 * Copies the caller's struct to ours, which is zero and of `known` bytes.
 * Returns false, having copied nothing, iff its size field is not a size that
 * this library knows.
 */
static inline bool grow_read(void *to, size_t known, const void *from)
{
	size_t size;

	grow_bytes(&size, from, sizeof(size));
	if (size < sizeof(size) || size > known)
		return false;
	grow_bytes(to, from, size);
	return true;
}

/* Copies our struct to the caller's, as far as its size field says; beyond
 * what is known it stays as it is. */
static inline void grow_write(void *to, const void *from, size_t known)
{
	size_t size;

	grow_bytes(&size, to, sizeof(size));
	if (size <= sizeof(size))
		return;
	if (size > known)
		size = known;
	grow_bytes((unsigned char *)to + sizeof(size),
		(const unsigned char *)from + sizeof(size),
		size - sizeof(size));
}

#endif
