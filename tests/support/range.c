/* SPDX-License-Identifier: MIT */
/*
 * An adaptive binary range coder, both ways (range.h).
 *
 * What was decided so far is an interval of the numbers from 0 to 1: its begin
 * and its width, of which 32 bits are at hand.  A decision cuts the interval at
 * the chance of a 0 and keeps one part.  When the width falls below 2^24, its
 * top byte is settled and moves to the data.
 *
 * Invariant: 2^24 <= width, between calls.  In the reader code < width, unless
 * the data is forged; then what is read has no meaning, but no harm is done.
 */
#include "range.h"

/* The next byte of the data; zeroes behind its end. */
static uint8_t byte_read(struct range *r)
{
	if (r->at < r->size)
		return r->data[r->at++];
	r->past_end = true;
	return 0;
}

static void byte_write(struct range *r, uint8_t byte)
{
	if (r->at < r->size)
		r->data[r->at++] = byte;
	else
		r->past_end = true;
}

/*
 * Moves the top byte of `low` to the data.  It can still change by a carry
 * while all that follows is 0xff, so such bytes are only counted.
 */
static void low_shift(struct range *r)
{
	if (r->low < 0xff000000u || r->low >> 32) {
		uint8_t carry = (uint8_t)(r->low >> 32);

		byte_write(r, (uint8_t)(r->cache + carry));
		for (; r->pending; r->pending--)
			byte_write(r, (uint8_t)(0xff + carry));
		r->cache = (uint8_t)(r->low >> 24);
	} else {
		r->pending++;
	}
	r->low = (r->low & 0x00ffffffu) << 8;
}

/*
 * Writes `bit`, or ignores it and returns the bit that is read.  The range is
 * at least 2^24 and *p, rounded to 12 bits, in 1..4094 (it moves by 1/32 of
 * the rest, which becomes 0 at 31), so that neither part is ever empty.
 */
unsigned test_range_bit(struct range *r, range_chance *p, unsigned bit)
{
	uint32_t bound = (r->width >> 12) * (uint32_t)(*p >> 4);

	if (!r->writing)
		bit = r->code >= bound;
	if (bit) {
		r->low += bound;
		r->code -= bound;
		r->width -= bound;
		*p = (range_chance)(*p - (*p >> 5));
	} else {
		r->width = bound;
		*p = (range_chance)(*p + ((0xffff - *p) >> 5));
	}
	while (r->width < 1u << 24) {
		r->width <<= 8;
		if (r->writing)
			low_shift(r);
		else
			r->code = r->code << 8 | byte_read(r);
	}
	return bit;
}

/* A value of `bits` bits, each decided in the light of those above it. */
unsigned test_range_tree(
	struct range *r, range_chance *p, unsigned bits, unsigned value)
{
	unsigned node = 1;

	while (bits--)
		node = node << 1 |
		       test_range_bit(r, p + node, value >> bits & 1);
	return node;
}

/* Any value below 2^62: its length, then what is below its leading bit. */
uint64_t test_range_number(
	struct range *r, struct range_number *model, uint64_t value)
{
	unsigned length = 0, below, head;
	uint64_t result;

	while (length < RANGE_LENGTHS - 1 && value >> length)
		length++;
	length = test_range_tree(r, model->length, 6, length) - RANGE_LENGTHS;
	if (length < 2)
		return length;
	below = length - 1;
	head = below < RANGE_HEAD_BITS ? below : RANGE_HEAD_BITS;
	result = test_range_tree(r, model->head[length], head,
		(unsigned)(value >> (below - head)) & ((1u << head) - 1));
	for (below -= head; below--;) {
		range_chance even = RANGE_EVEN;

		result = result << 1 | test_range_bit(r, &even,
					       (unsigned)(value >> below & 1));
	}
	return result;
}

void test_range_write(struct range *r)
{
	r->writing = true;
	r->width = UINT32_MAX;
}

/* The writer's first byte is its empty cache; no carry reaches it, as the
 * whole interval is below 1. */
bool test_range_read(struct range *r)
{
	bool good = byte_read(r) == 0;

	r->writing = false;
	r->width = UINT32_MAX;
	for (unsigned i = 0; i < 4; i++)
		r->code = r->code << 8 | byte_read(r);
	return good;
}

void test_range_finish(struct range *r)
{
	for (unsigned i = 0; i < 5; i++)
		low_shift(r);
}
