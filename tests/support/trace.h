/* SPDX-License-Identifier: MIT */
/*
 * Traces of real programs: what a program asked of malloc, in order.
 *
 * The format is described in tests/traces/FORMAT.md.  One code path both
 * writes and reads it (trace.c), on the host and in a guest; it allocates
 * nothing and trusts nothing that it reads.
 */
#ifndef TRACE_H
#define TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The limits of the format; whatever is beyond them is forged. */
#define TRACE_NAME_MAX 63
#define TRACE_COMMAND_MAX 1023
#define TRACE_SLOTS_MAX (1u << 24)
#define TRACE_THREADS_MAX (1u << 16)
#define TRACE_SIZE_MAX ((uint64_t)1 << 40)
#define TRACE_ALIGN_LOG2_MAX 30
#define TRACE_LIVE_MAX ((uint64_t)1 << 46)

enum trace_kind {
	TRACE_ALLOC,   /* malloc(size), and realloc(NULL, size) */
	TRACE_ZALLOC,  /* calloc, its product in size */
	TRACE_ALIGNED, /* aligned_alloc and its relatives */
	TRACE_REALLOC, /* of a block that is live */
	TRACE_FREE,
	TRACE_KINDS,
};

/* One operation. */
struct trace_op {
	enum trace_kind kind;
	/* Names the block while it is live; see FORMAT.md for the numbering. */
	uint32_t slot;
	/* Bytes requested; for FREE, of the block that goes. */
	uint64_t size;
	/* Bytes requested before; REALLOC only, else 0. */
	uint64_t old_size;
	/* ALIGNED only, else 0. */
	unsigned align_log2;
	/* Index of the thread that made the call. */
	uint32_t thread;
};

/* What the header says. */
struct trace_info {
	uint64_t ops;
	/* The most bytes requested and not freed at any time, and the index
	 * of the operation that first reached it. */
	uint64_t peak_live;
	uint64_t peak_op;
	/* The most blocks live at any time. */
	uint32_t slots;
	uint32_t threads;
	/* The trace's name and the command that was recorded. */
	char name[TRACE_NAME_MAX + 1];
	char command[TRACE_COMMAND_MAX + 1];
};

/* Why a trace was refused. */
struct trace_error {
	/* One sentence; NULL while nothing is wrong. */
	const char *what;
	/* The index of the operation it is about; UINT64_MAX: the header. */
	uint64_t op;
	/* What was seen and what would have been right, where that helps;
	 * equal otherwise. */
	uint64_t seen, expected;
};

struct trace;

/*
 * Reads the header of `data` and verifies length and checksum.
 * Returns: whether *info is filled; if not, *error says why.
 */
bool test_trace_info(const void *data, size_t size, struct trace_info *info,
	struct trace_error *error);

/* Bytes that a reader or writer of a trace with so many slots needs. */
size_t test_trace_memory(uint32_t slots);

/*
 * Makes a reader of `data` in `memory` (8-byte aligned, as many bytes as
 * test_trace_memory() says for the header's slots).
 * Returns: NULL iff test_trace_info() refuses the header, or the operations'
 * first byte is not 0.
 */
struct trace *test_trace_open(
	const void *data, size_t size, void *memory, struct trace_error *error);

/*
 * Reads the next operation.
 * Returns: false at the end, and if the trace is not valid: *error says why,
 * error->what is NULL at the end.  The end is only reported if all that the
 * header says was true.
 */
bool test_trace_next(
	struct trace *trace, struct trace_op *op, struct trace_error *error);

/*
 * Makes a writer in `memory` of a trace into `data`.  Of *info name, command,
 * slots and threads must be right; ops and peak are found.
 */
struct trace *test_trace_create(
	const struct trace_info *info, void *data, size_t size, void *memory);

/*
 * Writes one operation.  For what allocates, the slot is chosen and stored in
 * op->slot.
 * Returns: false iff the operation is not valid; *error says why.
 */
bool test_trace_put(
	struct trace *trace, struct trace_op *op, struct trace_error *error);

/* Completes the trace; returns its bytes, or 0 iff `size` was too small. */
size_t test_trace_finish(struct trace *trace);

/* Recomputes the checksum of a trace of at least a header (for tests that
 * forge one). */
void test_trace_seal(void *data, size_t size);

/* The length of the header without name and command. */
#define TRACE_HEADER_BYTES 60

#endif
