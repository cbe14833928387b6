/* SPDX-License-Identifier: MIT */
/*
 * A picture of memory over time (graph.h).
 *
 * A row is a bar of BAR_CELLS cells.  Its inks follow each other: what was
 * requested, then what rounding adds (so that their end is the live line),
 * then what is committed beyond (its end is the committed line).  Waste is
 * thus the part with the light ink, and the three ends draw three lines down
 * the page.  The final chart is the same turned upright.
 *
 * A cell has the ink of the value that reaches its middle; a value above zero
 * has at least one cell, so that nothing that is there is invisible.
 */
#include "graph.h"
#include "test.h"

#define BAR_CELLS 60
#define CHART_ROWS 12
/* A number on the axis every so many cells. */
#define AXIS_STEP 10
_Static_assert(BAR_CELLS % AXIS_STEP == 0, "the axis ends on a number");

enum ink { INK_REQUESTED, INK_LIVE, INK_COMMITTED, INK_NONE, INK_BEYOND, INKS };

static const char *const plain[INKS] = {"#", "+", ".", " ", ">"};
static const char *const blocks[INKS] = {
	"\u2588", "\u2593", "\u2591", " ", "\u25b6"};
/* Green, yellow, blue (ECMA-48, 8.3.117). */
static const char *const colours[INKS] = {
	"\033[32m", "\033[33m", "\033[34m", "\033[0m", "\033[31m"};

void test_print_bytes(uint64_t bytes, unsigned width)
{
	bool mega = bytes >= (uint64_t)1 << 20;
	unsigned shift = mega ? 20 : 10;
	uint64_t tenths = ((bytes >> (shift - 10)) * 10 + 512) >> 10;
	unsigned digits = 6; /* of a number below 10, its unit included */
	uint64_t left = tenths / 100;

	for (; left; left /= 10)
		digits++;
	for (; digits + 1 < width; digits++)
		test_printf(" ");
	test_printf("%llu.%llu %s", (unsigned long long)(tenths / 10),
		(unsigned long long)(tenths % 10), mega ? "MiB" : "KiB");
}

/* Prints one cell; `last` is the ink before it, to change colour rarely. */
static void cell_print(const struct graph *graph, enum ink ink, enum ink *last)
{
	if (graph->colour && ink != *last)
		test_printf("%s", colours[ink]);
	*last = ink;
	test_printf("%s", (graph->utf8 ? blocks : plain)[ink]);
}

/* The line's rest is in no colour. */
static void cells_end(const struct graph *graph)
{
	if (graph->colour)
		test_printf("%s", colours[INK_NONE]);
}

/* Whether a value reaches cell i of `cells`, which end at `scale`. */
static bool reaches(uint64_t value, unsigned i, unsigned cells, uint64_t scale)
{
	return value && (i == 0 || value * cells * 2 >= scale * (2 * i + 1));
}

static enum ink ink_of(const struct graph_sample *s, unsigned i, unsigned cells,
	uint64_t scale)
{
	if (reaches(s->requested, i, cells, scale))
		return INK_REQUESTED;
	if (reaches(s->live, i, cells, scale))
		return INK_LIVE;
	if (reaches(s->committed, i, cells, scale))
		return INK_COMMITTED;
	return INK_NONE;
}

static void legend_print(const struct graph *graph)
{
	static const char *const texts[] = {" requested  ",
		" + rounding = live  ", " + unused = committed"};
	enum ink last = INK_NONE;

	for (unsigned i = 0; i < 3; i++) {
		cell_print(graph, (enum ink)i, &last);
		cell_print(graph, (enum ink)i, &last);
		cells_end(graph);
		last = INK_NONE;
		test_printf("%s", texts[i]);
	}
	test_printf("\n");
}

/* The next of 1, 1.5, 2, 3, 4, 6, ... times a power of two, in KiB, whose
 * steps of the axis are then short numbers. */
static uint64_t scale_above(uint64_t bytes)
{
	uint64_t scale = 6 << 10; /* one KiB a step of the axis */

	while (scale < bytes) {
		if (scale + scale / 2 >= bytes)
			return scale + scale / 2;
		scale *= 2;
	}
	return scale;
}

void test_graph_begin(
	struct graph *graph, uint64_t expected, bool colour, bool utf8)
{
	uint64_t unit;

	graph->scale = scale_above(expected);
	graph->colour = colour;
	graph->utf8 = utf8;
	graph->used = 0;
	unit = graph->scale >= 12 << 20 ? 1 << 20 : 1 << 10;
	test_printf("\n");
	legend_print(graph);
	test_printf("\n operation ");
	for (unsigned i = 0; i < BAR_CELLS; i += AXIS_STEP)
		test_printf("%-10llu", (unsigned long long)(graph->scale * i /
							    BAR_CELLS / unit));
	test_printf("%llu %s\n           ",
		(unsigned long long)(graph->scale / unit),
		unit == 1 << 20 ? "MiB" : "KiB");
	for (unsigned i = 0; i < BAR_CELLS; i++)
		test_printf("%s", i % AXIS_STEP ? "-" : "+");
	test_printf("+  committed\n");
}

void test_graph_row(struct graph *graph, const struct graph_sample *sample,
	const char *note)
{
	enum ink last = INK_NONE;

	if (graph->used < GRAPH_SAMPLES_MAX)
		graph->samples[graph->used++] = *sample;
	test_printf("%10llu ", (unsigned long long)sample->op);
	for (unsigned i = 0; i < BAR_CELLS; i++)
		cell_print(graph, ink_of(sample, i, BAR_CELLS, graph->scale),
			&last);
	cell_print(graph,
		sample->committed > graph->scale ? INK_BEYOND : INK_NONE,
		&last);
	cells_end(graph);
	test_print_bytes(sample->committed, 11);
	test_printf("%s\n", note);
}

void test_graph_end(const struct graph *graph)
{
	uint64_t top = 0;

	for (size_t i = 0; i < graph->used; i++)
		if (graph->samples[i].committed > top)
			top = graph->samples[i].committed;
	top = top ? top : 1;
	test_printf("\n");
	for (unsigned row = CHART_ROWS; row--;) {
		enum ink last = INK_NONE;

		test_print_bytes(top * (row + 1) / CHART_ROWS, 10);
		test_printf(" |");
		for (size_t i = 0; i < graph->used; i++)
			cell_print(graph,
				ink_of(&graph->samples[i], row, CHART_ROWS,
					top),
				&last);
		cells_end(graph);
		test_printf("\n");
	}
	test_printf("           +");
	for (size_t i = 0; i < graph->used; i++)
		test_printf("-");
	test_printf("> operations\n\n");
}
