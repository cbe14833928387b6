/* SPDX-License-Identifier: MIT */
/*
 * What a compiler without a popcount instruction in its target would call a
 * function of its run-time library for, which a kernel does not link.
 */
#ifndef CORE_BITS_H
#define CORE_BITS_H

#include <stdint.h>

/* Returns how many bits are set: sums of pairs, of nibbles, then of bytes,
 * which the product gathers in the highest byte. */
static inline uint32_t bits_count(uint64_t word)
{
	word -= (word >> 1) & 0x5555555555555555u;
	word = (word & 0x3333333333333333u) +
		((word >> 2) & 0x3333333333333333u);
	word = (word + (word >> 4)) & 0x0f0f0f0f0f0f0f0fu;
	return (uint32_t)((word * 0x0101010101010101u) >> 56);
}

#endif
