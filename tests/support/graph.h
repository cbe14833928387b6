/* SPDX-License-Identifier: MIT */
/*
 * A picture of memory over time, drawn in text as time goes.
 *
 * Every sample is one row at once; at the end all of them become one small
 * chart with time from left to right.  Rows scroll, so a serial line will do.
 */
#ifndef GRAPH_H
#define GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GRAPH_SAMPLES_MAX 64

/* Bytes at one moment: requested <= live <= committed in a sane heap, but
 * any values are drawn. */
struct graph_sample {
	uint64_t op;
	uint64_t requested;
	uint64_t live;
	uint64_t committed;
};

struct graph {
	uint64_t scale; /* bytes at the right edge of the rows */
	bool colour;    /* with ANSI colours */
	bool utf8;      /* with block characters instead of ASCII */
	size_t used;
	struct graph_sample samples[GRAPH_SAMPLES_MAX];
};

/* Prints the legend and the axis; `expected` bytes should fit. */
void test_graph_begin(
	struct graph *graph, uint64_t expected, bool colour, bool utf8);

/* Prints one row, `note` behind it; samples beyond GRAPH_SAMPLES_MAX are not
 * in the chart. */
void test_graph_row(struct graph *graph, const struct graph_sample *sample,
	const char *note);

/* Prints the chart of all rows. */
void test_graph_end(const struct graph *graph);

/* Prints bytes as KiB or MiB with one digit behind the point, in at least
 * `width` characters. */
void test_print_bytes(uint64_t bytes, unsigned width);

#endif
