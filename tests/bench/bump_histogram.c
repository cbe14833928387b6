/* SPDX-License-Identifier: MIT */
/*
 * What a compiler asked of its allocator, as a sequence of calls.
 *
 * Measured were counts: so many allocations and frees of each size.  Up to 96
 * bytes they are as they were; what is known of the rest ("up to 26 thousand a
 * bin to 256 bytes, up to six thousand to 768, hundreds to thousands to 64
 * KiB") is spread so: from 26 thousand allocations a bin of 16 bytes at 112
 * bytes to six thousand at 256, to 1500 at 768, to 1000 at 1 KiB; then, by
 * bins of 256 bytes, from 2000 to 200 at 64 KiB; then 89 up to 1 MiB.  Of
 * those above 64 KiB 57 were freed; the share of frees between 96 bytes, where
 * it is 5 %, and there is drawn as a line over the logarithm of the size.
 *
 * A sequence has to be made up.  Allocations come in random order, sizes are
 * drawn evenly within a bin.  A free takes one of the 64 youngest blocks of its
 * bin, and comes when the bin has allocated as often as one free of it did:
 * what a compiler frees, it has not had for long.
 */
#include "bump.h"

#include "test.h"

#define SEED 20
#define SMALL_BINS 64
#define KIB 1024u

/* Allocations and frees, up to 96 bytes. */
static const uint32_t measured[][2] = {
	{ 8587199, 3549229 }, { 11973412, 188068 }, { 535439, 84989 },
	{ 2076679, 17630 }, { 7573155, 36854 }, { 108464, 5100 },
};
#define MEASURED (sizeof(measured) / sizeof(measured[0]))

/* What is above 64 KiB. */
static const uint32_t above[2] = { 89, 57 };

/* A value on the line from (x0, y0) to (x1, y1). */
static uint32_t line(uint32_t x, uint32_t x0, uint32_t x1, uint32_t y0,
	uint32_t y1)
{
	return (uint32_t)((int64_t)y0 +
		((int64_t)y1 - y0) * (int64_t)(x - x0) / (int64_t)(x1 - x0));
}

/* The largest size of a bin. */
static uint32_t bin_end(unsigned bin)
{
	if (bin < SMALL_BINS)
		return (bin + 1) * 16;
	return bin == BUMP_BINS - 1 ? KIB * KIB
				    : KIB + (bin - SMALL_BINS + 1) * 256;
}

/* From 2000 a bin at 1 KiB to 200 at 64 KiB, by quarters of doublings: a line
 * of logarithms over logarithms. */
static const uint16_t tail[] = { 2000, 1817, 1651, 1500, 1363, 1238, 1125, 1022,
	928, 843, 766, 696, 632, 575, 522, 474, 431, 391, 356, 323, 294, 267,
	242, 220, 200 };

/* The quarters of doublings from 1 KiB to this size. */
static unsigned above_log2(uint32_t size)
{
	unsigned quarters = 0;

	for (; size >= 2 * KIB; size /= 2)
		quarters += 4;
	return quarters + (size - KIB) / 256;
}

/* How often a compiler allocated of a bin. */
static uint32_t bin_allocs(unsigned bin)
{
	uint32_t size = bin_end(bin);

	if (bin < MEASURED)
		return measured[bin][0];
	if (bin == BUMP_BINS - 1)
		return above[0];
	if (size <= 256)
		return line(size, 112, 256, 26000, 6000);
	if (size <= 768)
		return line(size, 256, 768, 6000, 1500);
	if (size <= KIB)
		return line(size, 768, KIB, 1500, 1000);
	return tail[above_log2(size)];
}

/* Frees, in 65536ths of allocations. */
static uint32_t bin_frees(unsigned bin)
{
	uint32_t size = bin_end(bin), doublings = 0;

	if (bin < MEASURED)
		return (uint32_t)(((uint64_t)measured[bin][1] << 16) /
			measured[bin][0]);
	if (bin == BUMP_BINS - 1)
		return (above[1] << 16) / above[0];
	/* Sixteenths of doublings above 96 bytes, of which there are 150. */
	for (; size >= 192; size /= 2)
		doublings += 16;
	doublings += (size - 96) / 6;
	return line(doublings, 0, 150, 3277, 42000);
}

/* What is made of a bin. */
static uint32_t bin_part(unsigned bin, unsigned percent)
{
	return (uint32_t)(((uint64_t)bin_allocs(bin) * percent + 99) / 100);
}

size_t bump_histogram_steps(unsigned percent)
{
	size_t steps = 0;

	for (unsigned bin = 0; bin < BUMP_BINS; bin++)
		steps += 2 * (size_t)bin_part(bin, percent);
	return steps;
}

/* Writes the allocations alone, in random order, to the end of `steps`; returns
 * where they begin. */
static struct bump_step *allocs_write(struct bump_step *steps, size_t room,
	unsigned percent, uint64_t *random)
{
	struct bump_step *first = steps + room, *end = first;

	for (unsigned bin = 0; bin < BUMP_BINS; bin++) {
		uint32_t from = bin == 0 ? 0 : bin_end(bin - 1);

		for (uint32_t n = bin_part(bin, percent); n > 0; n--)
			*--first = (struct bump_step){ .bin = (uint16_t)bin,
				.size = from + 1 +
					(uint32_t)(test_random(random) %
						(bin_end(bin) - from)) };
	}
	for (size_t n = (size_t)(end - first); n > 1; n--) {
		struct bump_step *other = first + test_random(random) % n;
		struct bump_step last = first[n - 1];

		first[n - 1] = *other;
		*other = last;
	}
	return first;
}

/* A random bit that is set; `bits` is not 0. */
static uint8_t bit_choose(uint64_t bits, uint64_t random)
{
	unsigned n = (unsigned)(random % (unsigned)__builtin_popcountll(bits));

	while (n-- > 0)
		bits &= bits - 1;
	return (uint8_t)__builtin_ctzll(bits);
}

size_t bump_histogram(struct bump_step *steps, unsigned percent)
{
	static uint64_t young[BUMP_BINS];
	static uint32_t due[BUMP_BINS];
	size_t room = bump_histogram_steps(percent), n = 0;
	uint64_t random = SEED;
	struct bump_step *next = allocs_write(steps, room, percent, &random);

	/* What is written never overtakes what is read: a free comes only
	 * behind an allocation. */
	for (; next < steps + room; next++) {
		struct bump_step step = *next;
		uint64_t *bits = &young[step.bin];

		step.place = ~*bits != 0
			? (uint8_t)__builtin_ctzll(~*bits)
			: (uint8_t)(test_random(&random) % BUMP_YOUNG);
		*bits |= (uint64_t)1 << step.place;
		steps[n++] = step;
		due[step.bin] += bin_frees(step.bin);
		if (due[step.bin] < 65536)
			continue;
		due[step.bin] -= 65536;
		step.place = bit_choose(*bits, test_random(&random));
		*bits &= ~((uint64_t)1 << step.place);
		step.size = 0;
		steps[n++] = step;
	}
	return n;
}
