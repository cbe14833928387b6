/* SPDX-License-Identifier: MIT */
/*
 * Replays the trace of a real program on a heap, and trusts neither.
 *
 * Every block is filled with a pattern of its own and verified before it goes,
 * after it was moved, and at the end.  Freestanding: the same on the host and
 * in a guest.
 */
#ifndef REPLAY_H
#define REPLAY_H

#include <fallow/fallow.h>

#include "metered.h"
#include "trace.h"

struct replay_config {
	/* An empty heap that nothing else uses. */
	struct fallow *heap;
	/* The heap's provider, if it is a metered one; else NULL. */
	const struct metered *metered;
	const void *trace;
	size_t trace_size;
	/* Not from the heap; 16-byte aligned, test_replay_memory() bytes. */
	void *memory;
	size_t memory_size;
	/* A monotonic counter, and what it counts. */
	uint64_t (*ticks)(void);
	const char *ticks_unit;
	/* How the graph is drawn; see graph.h. */
	bool colour;
	bool utf8;
	/* Nothing is printed. */
	bool quiet;
};

struct replay_result {
	uint64_t ops; /* done */
	uint64_t faults;
	const char *first_fault; /* NULL without one */
	uint64_t requested_peak, live_peak;
	uint64_t committed_peak;
};

/* Bytes of bookkeeping for a trace. */
size_t test_replay_memory(const struct trace_info *info);

/* Prints why a trace was refused. */
void test_trace_error_print(const struct trace_error *error);

/*
 * Replays, drawing the graph, then prints a report that ends with the line
 * "replay: NAME ops=N faults=N ...".  A trace that is not valid is a fault
 * too.  What is left at the end is freed; the heap is empty again.
 * Returns: whether all was well.
 */
bool test_replay(
	const struct replay_config *config, struct replay_result *result);

#endif
