/* SPDX-License-Identifier: MIT */
/*
 * Size classes: which block sizes exist, and how a size finds its own.
 *
 * Pure arithmetic, no state.  Two kinds of page hold the classes:
 *
 *   small   1 slice    blocks of 16 bytes to a slice / 8
 *   medium  2 to 8     to a slice
 *
 * Up to 128 bytes a class each 16 bytes (waste under 16 bytes), then eight per
 * doubling (waste at most 12.5 %) up to a slice.  A block above it is a span.
 *
 * The hot path wants the class of a size up to SIZE_DIRECT_MAX in one load: a
 * context has a table of them (struct local).
 */
#ifndef CORE_SIZECLASS_H
#define CORE_SIZECLASS_H

#include "config.h"

enum page_kind {
	PAGE_SMALL = 0,
	PAGE_MEDIUM = 1,
	PAGE_SPAN = 2, /* a block of its own, without a class */
};

#define SIZE_SMALL_MAX (SLICE_BYTES / 8)
#define SIZE_CLASS_MAX SLICE_BYTES

/* 8 classes to 128 bytes, 8 for each doubling from there to a slice. */
#define CLASS_COUNT (8 + 8 * (FALLOW_SLICE_LOG2 - 7))
#define CLASS_NONE UINT8_MAX
/* A slice / 8 is 3 doublings below a slice. */
#define CLASS_FIRST_MEDIUM (CLASS_COUNT - 8 * 3)

#define SIZE_DIRECT_MAX (SIZE_SMALL_MAX < 1024 ? SIZE_SMALL_MAX : 1024)
/* The classes of these sizes: 1024 is 3 doublings above 128. */
#define CLASS_DIRECT \
	(CLASS_FIRST_MEDIUM < 8 + 8 * 3 ? CLASS_FIRST_MEDIUM : 8 + 8 * 3)

#define PAGE_MEDIUM_SLICES 8

/* The class of a size above 128, up to a slice. */
static inline unsigned size_doubled_class(size_t size)
{
	/* size - 1 has its top bit at `top` >= 7; with it the three bits below,
	 * which number the eight steps of the doubling, are 8 to 15. */
	unsigned top = 63 ^ (unsigned)__builtin_clzll(size - 1);

	return (top - 7) * 8 + (unsigned)((size - 1) >> (top - 3));
}

/* The class of a size up to SIZE_CLASS_MAX: arithmetic alone. */
static inline unsigned size_class(size_t size)
{
	if (size <= 128)
		return size == 0 ? 0 : (unsigned)((size - 1) / 16);
	return size_doubled_class(size);
}

/* The block size of a class. */
static inline size_t class_size(unsigned class)
{
	if (class < 8)
		return (class + 1) * 16;
	class -= 8;
	return (size_t)(9 + class % 8) << (class / 8 + 4);
}

static inline enum page_kind class_kind(unsigned class)
{
	return class < CLASS_FIRST_MEDIUM ? PAGE_SMALL : PAGE_MEDIUM;
}

/*
 * Whether a block of a small page begins at an offset, by one multiplication
 * (after Lemire, Kaser and Kurz, "Faster remainder by direct computation",
 * 2019): with magic = 2^64 / size rounded down, plus 1, magic * size is 2^64 + e
 * with 1 <= e <= size.  So for an offset q * size + r the product modulo 2^64 is
 * q * e + r * magic.  If r is 0 the block is one of the first n iff that is below
 * n * e.  If not it lies between magic - |q * e| and 2^64 - magic + |q * e| + e,
 * and so is at least n * e, which is a slice at most, if |q * e| < magic / 2;
 * which |offset| < magic / 2 gives.  So the offset may be that of any address, in
 * front of the page too (q is negative then, and with r = 0 the product is near
 * 2^64): two addresses of 48 bits, extended by their sign, lie less than 2^48
 * apart, and magic is at least 2^64 / SIZE_SMALL_MAX.  The upper half of the
 * product is q.
 */
static inline uint64_t size_small_magic(uint32_t size)
{
	/* 2^64 / size is (2^64 - size) / size + 1. */
	return (0 - (uint64_t)size) / size + 2;
}

/*
 * Which block of other pages begins at an offset: a block size is
 * odd * 2^k, and with the inverse of `odd` modulo 2^N, offset * inverse * 2^(P
 * - k) is index * 2^P for the begin of a block, P being PLACE_SHIFT.  Rotated
 * right by P that is the index.  What is no begin has ones among the low P bits,
 * or an index beyond every block: modulo 2^(N - P) multiplying by the inverse
 * gives each multiple of `odd` its quotient, and what is none a value that none
 * of them has.  That takes k <= P, and offsets below 2^(N - P + k): see
 * sizeclass.c.  With N = 32 that is an offset into a page, with N = 64, of the same
 * inverse, that of any address.
 */
#define PLACE_SHIFT 19

static inline uint64_t size_magic(uint32_t size)
{
	unsigned log2 = (unsigned)__builtin_ctz(size);
	uint64_t odd = size >> log2;
	/* Right in 3 bits, and in twice as many after each step. */
	uint64_t inverse = odd;
	unsigned bits;

	for (bits = 3; bits < 64; bits *= 2)
		inverse *= 2 - odd * inverse;
	return inverse << (PLACE_SHIFT - log2);
}

/*
 * The slices of a page of this class: of a medium one the fewest that hold eight
 * blocks and lose at most an eighth.  In a `lean` heap, whose addresses are its
 * memory, four blocks are enough.
 */
unsigned fl_size_page_slices(unsigned class, bool lean)
	__attribute__((visibility("hidden")));

/*
 * The smallest class whose blocks hold `size` bytes at the alignment `align`,
 * a power of two; CLASS_NONE if that takes a span.
 */
unsigned fl_size_aligned_class(size_t size, size_t align)
	__attribute__((visibility("hidden")));

#endif
