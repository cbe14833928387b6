/* SPDX-License-Identifier: MIT */
/*
 * The tables of the size classes, made at compile time, and the class for an
 * alignment.
 *
 * The whole-page classes cut a chunk into n blocks.  n = 16, 8 and 4 are the
 * powers of two that programs ask for; 25, 20, 13, 10 and 6 lie between them so
 * that no size above a slice gets a block larger by more than about a half
 * (just above 340 KiB), and none below that by more than a third.  A block
 * rounded *down* to granules always fits n times.
 */
#include "sizeclass.h"

#define WHOLE(n) (uint32_t)(CHUNK_BYTES / (n) / GRANULE_BYTES * GRANULE_BYTES)

const uint32_t fl_size_whole[CLASS_WHOLES] = {
	WHOLE(25), WHOLE(20), WHOLE(16), WHOLE(13),
	WHOLE(10), WHOLE(8), WHOLE(6), WHOLE(4),
};

/* A free block in a bit-word page is one of 56 bits (see remote.h). */
_Static_assert(PAGE_MEDIUM_SLICES * SLICE_BYTES / (SIZE_SMALL_MAX / 8 * 9) <=
		56,
	"a medium page's blocks fit the word");

/* What small_begins() takes: an offset into a slice is below 2^32 / size. */
_Static_assert((uint64_t)SLICE_BYTES * SIZE_SMALL_MAX < (uint64_t)1 << 32,
	"a small block has a place");

/*
 * What bits_place() takes: in a page of so many bytes, blocks are multiples of
 * 2^k with bytes <= 2^(32 - PLACE_SHIFT + k), and k <= PLACE_SHIFT.  Medium
 * blocks are multiples of an eighth of the doubling above SIZE_SMALL_MAX, whole
 * ones of a granule, and none is more than SIZE_CLASS_MAX.
 */
#define PLACE_BYTES(least) ((uint64_t)(least) << (32 - PLACE_SHIFT))
_Static_assert(PAGE_MEDIUM_SLICES * SLICE_BYTES <=
		PLACE_BYTES(SIZE_SMALL_MAX / 8),
	"a medium block has a place");
_Static_assert(CHUNK_BYTES <= PLACE_BYTES(GRANULE_BYTES),
	"a block of a whole page has a place");
_Static_assert(SIZE_CLASS_MAX <= (uint64_t)1 << PLACE_SHIFT,
	"no block is a multiple of more than the shift");

unsigned fl_size_page_slices(unsigned class, bool lean)
{
	static const uint8_t slices[] = { 1, PAGE_MEDIUM_SLICES,
		PAGE_WHOLE_SLICES };
	enum page_kind kind = class_kind(class);
	size_t size = class_size(class);
	size_t least = kind == PAGE_WHOLE ? 2 : 4;
	unsigned n = slices[kind];

	if (!lean || kind == PAGE_SMALL)
		return n;
	for (n = 1; n < slices[kind]; n++) {
		size_t bytes = n * SLICE_BYTES;

		if (bytes / size >= least && bytes % size <= bytes / 8)
			break;
	}
	return n;
}

unsigned fl_size_aligned_class(size_t size, size_t align, bool lean)
{
	unsigned class;

	if (size < align)
		size = align;
	if (size > SIZE_CLASS_MAX)
		return CLASS_NONE;
	/* Ends within one doubling: powers of two are classes, up to a chunk
	 * / 4, and each is a multiple of every smaller power of two. */
	for (class = size_class(size); class < CLASS_COUNT; class++) {
		/* What a page itself is aligned to. */
		size_t page_align = class < CLASS_FIRST_WHOLE || lean
			? SLICE_BYTES
			: CHUNK_BYTES;

		if (align <= page_align && class_size(class) % align == 0 &&
			class_size(class) >= size)
			return class;
	}
	return CLASS_NONE;
}
