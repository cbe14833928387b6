/* SPDX-License-Identifier: MIT */
/*
 * The work of `make bench-bump`, the same for every way to have memory: the
 * histogram of a compiler (FILE is the word histogram, PERCENT of it), or a
 * recorded trace over and over.
 *
 * All steps are made or read before anything is measured.  A block is touched
 * when it comes: its first and last byte, and one every 512 between, so that
 * all of its memory is resident and little of the time is the work's own.  It
 * is looked at when it goes.  `ops_us` is the CPU time of the steps alone;
 * freeing what is left of a trace before its next round is not in it, but is
 * in the program's own time.
 */
#define _GNU_SOURCE
#include "bump.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "trace.h"

/* Rounds of a trace are as many as make so many operations, or a few less. */
#define OPERATIONS 6000000

struct slot {
	unsigned char *p;
	size_t size;
};

static struct bump_step *steps;
static struct trace_op *ops;
static uint64_t op_count;
static struct slot *slots;
static uint32_t slot_count;

static uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Bytes between two that are touched. */
#define STRIDE 512

/* The byte that is written to a block of this size. */
static unsigned char tag(size_t size)
{
	return (unsigned char)(size * 31 + 7);
}

static void slot_set(struct slot *slot, void *p, size_t size, size_t old)
{
	if (p == NULL)
		bench_fail("no memory");
	*slot = (struct slot){ p, size };
	if (size == 0)
		return;
	for (; old < size; old += STRIDE)
		slot->p[old] = tag(size);
	slot->p[size - 1] = tag(size);
}

static void slot_free(struct slot *slot)
{
	if (slot->size > 0 && slot->p[slot->size - 1] != tag(slot->size))
		bench_fail("a block is not as it was left");
	bump_way_free(slot->p, slot->size);
	*slot = (struct slot){ 0 };
}

/* Decodes the whole trace. */
static void trace_read(void)
{
	struct trace_error error;
	struct trace_info info;
	struct trace *trace;
	struct stat st;
	const void *data = MAP_FAILED;
	int file = open(bench_file, O_RDONLY | O_CLOEXEC);

	if (file >= 0 && fstat(file, &st) == 0 && st.st_size > 0)
		data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE,
			file, 0);
	if (data == MAP_FAILED)
		bench_fail("the trace cannot be read");
	close(file);
	if (!test_trace_info(data, (size_t)st.st_size, &info, &error))
		bench_fail(error.what);
	trace = test_trace_open(data, (size_t)st.st_size,
		bench_pages(test_trace_memory(info.slots)), &error);
	if (trace == NULL)
		bench_fail(error.what);
	ops = bench_pages(info.ops * sizeof(*ops));
	slot_count = info.slots;
	slots = bench_pages(slot_count * sizeof(*slots));
	while (test_trace_next(trace, &ops[op_count], &error))
		op_count++;
	if (error.what != NULL)
		bench_fail(error.what);
}

static void prepare(void)
{
	bump_way_begin();
	if (strcmp(bench_file, "histogram") != 0) {
		trace_read();
		return;
	}
	slot_count = BUMP_BINS * BUMP_YOUNG;
	slots = bench_pages(slot_count * sizeof(*slots));
}

/* The histogram's steps; what is not young any more stays to the end. */
static uint64_t histogram_run(size_t count)
{
	uint64_t live = 0;

	for (size_t i = 0; i < count; i++) {
		const struct bump_step *step = &steps[i];
		struct slot *slot = &slots[step->bin * BUMP_YOUNG +
			step->place];

		if (step->size == 0) {
			live -= slot->size;
			slot_free(slot);
		} else {
			slot_set(slot, bump_way_alloc(step->size), step->size,
				0);
			live += step->size;
		}
	}
	bench_live(live);
	return count;
}

static void op_run(const struct trace_op *op)
{
	struct slot *slot = &slots[op->slot];
	size_t size = (size_t)op->size, old = slot->size;

	switch (op->kind) {
	case TRACE_FREE:
		slot_free(slot);
		break;
	case TRACE_REALLOC:
		/* To nothing is to nearly nothing: it would be a free. */
		size = size > 0 ? size : 1;
		slot_set(slot, bump_way_realloc(slot->p, old, size), size,
			old);
		break;
	case TRACE_ZALLOC:
		slot_set(slot, bump_way_zalloc(size), size, 0);
		break;
	case TRACE_ALIGNED:
		slot_set(slot,
			bump_way_aligned((size_t)1 << op->align_log2, size),
			size, 0);
		break;
	default:
		slot_set(slot, bump_way_alloc(size), size, 0);
		break;
	}
}

/* Rounds of the trace; returns the CPU time of the operations. */
static uint64_t trace_run(uint64_t rounds)
{
	uint64_t spent = 0, begin;

	for (uint64_t round = 0; round < rounds; round++) {
		if (!bump_way_reset())
			for (uint32_t i = 0; i < slot_count; i++)
				if (slots[i].p != NULL)
					slot_free(&slots[i]);
		begin = cpu_ns();
		for (uint64_t i = 0; i < op_count; i++)
			op_run(&ops[i]);
		spent += cpu_ns() - begin;
	}
	return spent;
}

static uint64_t run(unsigned percent)
{
	uint64_t spent, count;

	bench_own(slots, slot_count * sizeof(*slots));
	if (ops != NULL) {
		count = bench_part(OPERATIONS / (op_count + 1), percent);
		bench_own(ops, op_count * sizeof(*ops));
		spent = trace_run(count);
		count *= op_count;
	} else {
		size_t room = bump_histogram_steps(percent) * sizeof(*steps);

		steps = bench_pages(room);
		count = bump_histogram(steps, percent);
		bench_own(steps, room);
		spent = cpu_ns();
		histogram_run(count);
		spent = cpu_ns() - spent;
	}
	bench_note("ops_us", spent / 1000);
	return count;
}

const struct bench bench = { .name = "bump", .run = run, .prepare = prepare };
