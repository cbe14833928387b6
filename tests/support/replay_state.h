/* SPDX-License-Identifier: MIT */
/* What a replay knows, between replay.c and replay_report.c. */
#ifndef REPLAY_STATE_H
#define REPLAY_STATE_H

#include "graph.h"
#include "replay.h"

struct block {
	unsigned char *p; /* NULL: not live, or its allocation failed */
	size_t usable;
	uint64_t key;
};

/* What the heap's calls of one kind took, without the provider, and what the
 * provider took in them. */
struct cost {
	uint64_t calls, ticks, worst, provider;
};

struct replay {
	const struct replay_config *config;
	struct trace_info info;
	struct trace *trace;
	struct trace_op op; /* at hand */
	struct block *blocks;
	uint64_t ops, faults, fills, checks, misuses;
	const char *first_fault;
	bool quiet;
	uint64_t requested, live, count;
	uint64_t requested_peak, live_peak;
	uint64_t live_at_peak, committed_at_peak;
	uint64_t ticks_cost; /* of reading the counter once */
	struct cost costs[TRACE_KINDS];
	struct graph graph;
};

/*
 * Prints the report.  *end is from when the trace had ended and nothing of what
 * the program left was freed: `left` bytes were live.  When all was freed and
 * collected, `empty` bytes were still committed.
 */
void test_replay_report(const struct replay *replay,
	const struct fallow_snapshot *end, uint64_t left, uint64_t empty);

#endif
