/* SPDX-License-Identifier: MIT */
/*
 * The usage histogram: counts by size, and the table that is printed of them.
 *
 * Three counts and a sum for each range of sizes.  What was asked for and what
 * was given are counted apart, because a free of the heap does not know what
 * its block was asked for with: the first says where requests are, the other
 * two and the bytes, which rows the memory is in, and each row's given less
 * freed is what is in use.
 *
 * Every context adds to the same rows, atomically.  That is slow, and nothing
 * in a build that does not count: the calls are behind a constant, and
 * tests/check hot compares the instructions.
 */
#include "usage.h"

#include "bump.h"

/* Ranges of 16 bytes below, and of 256 above. */
#define FINE 16
#define COARSE 256
#define FINE_MAX 1024
#define COARSE_MAX 65536
#define FINE_ROWS (FINE_MAX / FINE)
#define LAST (FALLOW_USAGE_ROWS - 1)
_Static_assert(LAST == FINE_ROWS + (COARSE_MAX - FINE_MAX) / COARSE,
	"the rows are as the header says");

unsigned fallow_usage_row_of(size_t size)
{
	if (size == 0)
		return 0;
	if (size <= FINE_MAX)
		return (unsigned)((size - 1) / FINE);
	if (size <= COARSE_MAX)
		return (unsigned)(FINE_ROWS + (size - FINE_MAX - 1) / COARSE);
	return LAST;
}

size_t fallow_usage_row_most(unsigned row)
{
	if (row < FINE_ROWS)
		return (size_t)(row + 1) * FINE;
	if (row < LAST)
		return FINE_MAX + (size_t)(row - FINE_ROWS + 1) * COARSE;
	return SIZE_MAX;
}

void fl_usage_given(struct fallow_usage *usage, size_t asked, size_t given)
{
	struct fallow_usage_row *row = &usage->rows[fallow_usage_row_of(given)];

	fl_add_relaxed(&usage->rows[fallow_usage_row_of(asked)].asked, 1);
	fl_add_relaxed(&row->given, 1);
	fl_add_relaxed(&row->live, given);
}

void fl_usage_freed(struct fallow_usage *usage, size_t given)
{
	struct fallow_usage_row *row = &usage->rows[fallow_usage_row_of(given)];

	fl_add_relaxed(&row->freed, 1);
	fl_add_relaxed(&row->live, (uint64_t)0 - given);
}

bool fallow_usage_watch(struct fallow *heap, struct fallow_usage *usage)
{
	struct heap *pool = heap_reserve(heap_of(heap));

	heap_of(heap)->usage = usage;
	/* A free in there is the pool's own. */
	if (pool != NULL)
		pool->usage = usage;
	return FALLOW_USAGE;
}

bool fallow_bump_usage(struct fallow_bump *bump, struct fallow_usage *usage)
{
	bump_of(bump)->usage = usage;
	return FALLOW_USAGE;
}

/* Where text goes. */
struct out {
	void (*putc)(void *arg, char c);
	void *arg;
};

static void put_text(const struct out *out, const char *text)
{
	for (; *text != 0; text++)
		out->putc(out->arg, *text);
}

/* Prints a number, right-aligned in `width` bytes. */
static void put_number(const struct out *out, uint64_t number, unsigned width)
{
	char digits[20];
	unsigned n = 0;

	do {
		digits[n++] = (char)('0' + number % 10);
		number /= 10;
	} while (number != 0);
	for (; width > n; width--)
		out->putc(out->arg, ' ');
	while (n > 0)
		out->putc(out->arg, digits[--n]);
}

/* Prints the counts of a row, and ends the line. */
static void put_row(const struct out *out, const struct fallow_usage_row *row)
{
	put_number(out, row->asked, 12);
	put_number(out, row->given, 12);
	put_number(out, row->freed, 12);
	put_number(out, row->given - row->freed, 12);
	put_number(out, row->live, 15);
	put_text(out, "\n");
}

void fallow_usage_print(const struct fallow_usage *usage,
	void (*putc)(void *arg, char c), void *arg)
{
	const struct out out = { putc, arg };
	struct fallow_usage_row sum = { 0 };
	unsigned i;

	put_text(&out, "bytes                 asked       given       freed"
		"      in use     live bytes\n");
	for (i = 0; i < FALLOW_USAGE_ROWS; i++) {
		struct fallow_usage_row row = {
			fl_load_relaxed(&usage->rows[i].asked),
			fl_load_relaxed(&usage->rows[i].given),
			fl_load_relaxed(&usage->rows[i].freed),
			fl_load_relaxed(&usage->rows[i].live),
		};

		if ((row.asked | row.given | row.freed) == 0)
			continue;
		put_number(&out,
			i == 0 ? 0 : fallow_usage_row_most(i - 1) + 1, 5);
		put_text(&out, " to ");
		if (i == LAST)
			put_text(&out, "   up");
		else
			put_number(&out, fallow_usage_row_most(i), 5);
		put_row(&out, &row);
		sum.asked += row.asked;
		sum.given += row.given;
		sum.freed += row.freed;
		sum.live += row.live;
	}
	put_text(&out, "all           ");
	put_row(&out, &sum);
}
