/* SPDX-License-Identifier: MIT */
/*
 * An adaptive binary range coder, both ways (tests/traces/FORMAT.md).
 *
 * Every decision has a chance, which moves towards what was last seen there; it
 * costs as many bits as it surprises.  A writer is given values and returns
 * them; a reader ignores what it is given and returns what it reads.  So what
 * is above is written once for both, and they cannot disagree.
 */
#ifndef RANGE_H
#define RANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* That the next bit is 0, in 1/65536. */
typedef uint16_t range_chance;
#define RANGE_EVEN 0x8000

/* A number's length is 0 to 63 bits; so many bits below the leading one are
 * modelled, the rest is as good as random. */
#define RANGE_LENGTHS 64
#define RANGE_HEAD_BITS 7

struct range_number {
	range_chance length[RANGE_LENGTHS];
	range_chance head[RANGE_LENGTHS][1 << RANGE_HEAD_BITS];
};

struct range {
	bool writing;
	/* Bytes were wanted, or did not fit, beyond the end of the data. */
	bool past_end;
	uint8_t cache; /* the writer's last byte, which a carry can change */
	uint32_t width;
	uint32_t code;    /* the reader's: the value, less what was taken off */
	uint64_t low;     /* the writer's: the value */
	uint64_t pending; /* bytes 0xff behind the cache */
	uint8_t *data;
	size_t at, size;
};

/* Begins to write at `at`. */
void test_range_write(struct range *range);

/* Begins to read at `at`; returns false iff the first byte is not 0. */
bool test_range_read(struct range *range);

/* After the last decision that is written: all of it is in the data. */
void test_range_finish(struct range *range);

unsigned test_range_bit(struct range *range, range_chance *p, unsigned bit);

/* A value of `bits` bits, each decided in the light of those above it; *p is
 * 1 << bits chances. */
unsigned test_range_tree(
	struct range *range, range_chance *p, unsigned bits, unsigned value);

/* Any value below 2^62. */
uint64_t test_range_number(
	struct range *range, struct range_number *model, uint64_t value);

#endif
