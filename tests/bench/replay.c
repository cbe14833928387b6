/* SPDX-License-Identifier: MIT */
/*
 * Replays what a real program asked of malloc(), recorded in a file of
 * tests/traces, over and over.
 *
 * The trace is decoded before anything is measured, into memory that malloc()
 * knows nothing of.  One thread makes all calls, in the order in which they were
 * made.  A block is written whole when it comes, as the program did that asked
 * for it, and looked at when it goes.  Of the last round everything stays that
 * the program had when it ended.
 */
#define _GNU_SOURCE
#include "bench.h"

#include "trace.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Rounds are as many as make so many operations, or a few less. */
#define OPERATIONS 6000000

/* An operation as it is replayed. */
struct step {
	uint64_t size : 40, kind : 8, align_log2 : 8;
	uint32_t slot;
};
_Static_assert(TRACE_SIZE_MAX <= (uint64_t)1 << 40,
	"only a size at the very limit does not fit");

struct slot {
	unsigned char *p;
	size_t size;
};

static struct step *steps;
static uint64_t step_count;
static struct slot *slots;
static uint32_t slot_count;

/* Maps the file. */
static const void *file_map(size_t *size)
{
	struct stat st;
	void *data = MAP_FAILED;
	int file = open(bench_file, O_RDONLY | O_CLOEXEC);

	if (file >= 0 && fstat(file, &st) == 0 && st.st_size > 0) {
		*size = (size_t)st.st_size;
		data = mmap(NULL, *size, PROT_READ, MAP_PRIVATE, file, 0);
	}
	if (data == MAP_FAILED)
		bench_fail("the trace cannot be read");
	close(file);
	return data;
}

/* Decodes the whole trace. */
static void steps_read(void)
{
	struct trace_error error;
	struct trace_info info;
	struct trace_op op;
	struct trace *trace;
	size_t size, memory;
	const void *data = file_map(&size);
	void *scratch;

	if (!test_trace_info(data, size, &info, &error))
		bench_fail(error.what);
	memory = test_trace_memory(info.slots);
	scratch = bench_pages(memory);
	trace = test_trace_open(data, size, scratch, &error);
	if (trace == NULL)
		bench_fail(error.what);
	steps = bench_pages(info.ops * sizeof(*steps));
	slots = bench_pages(info.slots * sizeof(*slots));
	slot_count = info.slots;
	while (test_trace_next(trace, &op, &error))
		steps[step_count++] = (struct step){ .size = op.size,
			.kind = (unsigned char)op.kind,
			.align_log2 = (unsigned char)op.align_log2,
			.slot = op.slot };
	if (error.what != NULL)
		bench_fail(error.what);
	munmap(scratch, memory);
	munmap((void *)(uintptr_t)data, size);
}

/* The byte that a slot's block is full of. */
static unsigned char tag(const struct slot *slot)
{
	return (unsigned char)(slot - slots + 1);
}

static void slot_look(const struct slot *slot)
{
	if (slot->size > 0 && (slot->p[0] != tag(slot) ||
			slot->p[slot->size - 1] != tag(slot)))
		bench_fail("a block is not as it was left");
}

static void slot_free(struct slot *slot)
{
	slot_look(slot);
	free(slot->p);
	*slot = (struct slot){ 0 };
}

static void *step_alloc(const struct step *step)
{
	void *p = NULL;

	if (step->kind == TRACE_ALLOC)
		return malloc(step->size);
	if (step->kind == TRACE_ZALLOC)
		return calloc(1, step->size);
	/* No less than posix_memalign() takes. */
	if (posix_memalign(&p, step->align_log2 < 3
				? sizeof(void *)
				: (size_t)1 << step->align_log2,
		    step->size) != 0)
		return NULL;
	return p;
}

static void step_run(const struct step *step)
{
	struct slot *slot = &slots[step->slot];
	size_t old = 0;

	if (step->kind == TRACE_FREE) {
		slot_free(slot);
		return;
	}
	if (step->kind == TRACE_REALLOC) {
		slot_look(slot);
		old = slot->size < step->size ? slot->size : step->size;
		/* To nothing is to nearly nothing: it would be a free. */
		slot->p = realloc(slot->p, step->size > 0 ? step->size : 1);
	} else {
		slot->p = step_alloc(step);
	}
	slot->size = step->size;
	if (slot->p == NULL && step->size > 0)
		bench_fail("no memory");
	memset(slot->p + old, tag(slot), slot->size - old);
}

static uint64_t replay_run(unsigned percent)
{
	uint64_t rounds = bench_part(OPERATIONS / (step_count + 1), percent);
	uint64_t live = 0;
	uint64_t round, i;

	bench_own(slots, slot_count * sizeof(*slots));
	bench_own(steps, step_count * sizeof(*steps));
	for (round = 0; round < rounds; round++) {
		for (i = 0; i < slot_count; i++)
			if (slots[i].p != NULL)
				slot_free(&slots[i]);
		for (i = 0; i < step_count; i++)
			step_run(&steps[i]);
	}
	for (i = 0; i < slot_count; i++)
		live += slots[i].size;
	bench_live(live);
	return rounds * step_count;
}

const struct bench bench = { .name = "replay",
	.run = replay_run,
	.prepare = steps_read };
