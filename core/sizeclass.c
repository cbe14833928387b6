/* SPDX-License-Identifier: MIT */
/*
 * What size classes take: the slices of a page, and the class for an alignment.
 */
#include "sizeclass.h"

/* A page of eight slices holds eight blocks of any class. */
_Static_assert(PAGE_MEDIUM_SLICES * SLICE_BYTES / SIZE_CLASS_MAX >= 8,
	"the largest medium page holds eight of its blocks");
/* A free block in a bit-word page is one of 56 bits (see remote.h). */
_Static_assert(PAGE_MEDIUM_SLICES * SLICE_BYTES / (SIZE_SMALL_MAX / 8 * 9) <=
		56,
	"a medium page's blocks fit the word");

/* What small_begins() takes: an offset is below 2^64 / size / 2, with enough to
 * spare for the slice that the formed blocks come to. */
_Static_assert((uint64_t)1 << 49 <= UINT64_MAX / SIZE_SMALL_MAX / 2,
	"a small block has a place");

/*
 * What bits_place() takes: in a page of so many bytes, blocks are multiples of
 * 2^k with bytes <= 2^(32 - PLACE_SHIFT + k), and k <= PLACE_SHIFT.  Medium
 * blocks are multiples of an eighth of the doubling above SIZE_SMALL_MAX, and
 * none is more than SIZE_CLASS_MAX.  For bits_place_far() two addresses of 48
 * bits lie less than 2^48 apart.
 */
#define PLACE_BYTES(least) ((uint64_t)(least) << (32 - PLACE_SHIFT))
_Static_assert(PAGE_MEDIUM_SLICES * SLICE_BYTES <=
		PLACE_BYTES(SIZE_SMALL_MAX / 8),
	"a medium block has a place");
_Static_assert((uint64_t)1 << 49 <=
		(uint64_t)(SIZE_SMALL_MAX / 8) << (64 - PLACE_SHIFT),
	"no address but a medium block's has its place");
_Static_assert(SIZE_CLASS_MAX <= (uint64_t)1 << PLACE_SHIFT,
	"no block is a multiple of more than the shift");

unsigned fl_size_page_slices(unsigned class, bool lean)
{
	unsigned least = lean ? 4 : 8;
	size_t size = class_size(class);
	unsigned n;

	if (class_kind(class) == PAGE_SMALL)
		return 1;
	for (n = 1; n < PAGE_MEDIUM_SLICES; n++) {
		size_t bytes = n * SLICE_BYTES;

		if (bytes / size >= least && bytes % size <= bytes / 8)
			break;
	}
	return n;
}

unsigned fl_size_aligned_class(size_t size, size_t align)
{
	unsigned class;

	if (size < align)
		size = align;
	if (size > SIZE_CLASS_MAX)
		return CLASS_NONE;
	/* Ends within one doubling: powers of two are classes, up to a slice,
	 * to which pages are aligned, and each is a multiple of every smaller
	 * power of two. */
	for (class = size_class(size); class_size(class) % align != 0; class++)
		;
	return class;
}
