/* SPDX-License-Identifier: MIT */
/*
 * The scripted workload.
 *
 * A table of steps.  Blocks are named by their rank in address order modulo
 * how many there are, so that the script goes on whatever was refused before.
 * Its volume stays below 32 MiB.  It covers: the first block of small and
 * medium pages, a second page of each, spans within a chunk and over
 * several, alignments to above a chunk, calloc, growth and shrinking in place
 * and by moving, between kinds of page and of spans, frees in and out of
 * order, collecting while blocks live, going offline, and starting again.
 */
#include "workload.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

enum operation {
	ALLOC,   /* size: times `times`, each 16 bytes more */
	ZALLOC,  /* the same, zeroed */
	ALIGNED, /* size, alignment `at` */
	REALLOC, /* block `at` to `size` */
	FREE,    /* block `at`, `times` times */
	SIZED,   /* the same, with the size */
	COLLECT,
	OFFLINE,
};

struct step {
	enum operation operation;
	size_t size;
	size_t at;
	unsigned times;
};

static const struct step script[] = {
	{ ALLOC, 1, 0, 20 },
	{ ALLOC, 100, 0, 10 },
	{ ALLOC, 1000, 0, 10 },
	{ ALLOC, 8 * KIB, 0, 10 },
	{ FREE, 0, 3, 5 },
	{ ALLOC, 9 * KIB, 0, 3 },
	{ ALLOC, 64 * KIB, 0, 10 },
	{ ALLOC, 65 * KIB, 0, 2 },
	{ ZALLOC, 300 * KIB, 0, 1 },
	{ ALLOC, 512 * KIB, 0, 5 },
	{ ALLOC, 600 * KIB, 0, 2 },
	{ ALLOC, 3 * MIB, 0, 1 },
	{ ALIGNED, 100, 4 * KIB, 1 },
	{ ALIGNED, 5000, 64 * KIB, 1 },
	{ ALIGNED, 10, 2 * MIB, 1 },
	{ ALIGNED, 100 * KIB, 4 * MIB, 1 },
	{ COLLECT, 0, 0, 1 },
	{ REALLOC, 40, 0, 1 },
	{ REALLOC, 4000, 1, 1 },
	{ REALLOC, 40 * KIB, 1, 1 },
	{ REALLOC, 400 * KIB, 1, 1 },
	{ REALLOC, 4 * MIB, 1, 1 },
	{ REALLOC, 100, 1, 1 },
	{ FREE, 0, 11, 10 },
	{ SIZED, 0, 17, 10 },
	{ COLLECT, 0, 0, 1 },
	{ ZALLOC, 48, 0, 40 },
	{ ZALLOC, 20 * KIB, 0, 12 },
	{ ZALLOC, 2 * MIB, 0, 1 },
	{ OFFLINE, 0, 0, 1 },
	{ FREE, 0, 5, 10 },
	{ ALLOC, 100, 0, 10 },
	{ ALLOC, 64 * KIB, 0, 3 },
	{ REALLOC, 1 * MIB, 7, 1 },
	{ REALLOC, 1 * MIB + 1, 7, 1 },
	{ FREE, 0, 0, 60 },
	{ COLLECT, 0, 0, 1 },
	{ ALLOC, 2000, 0, 40 },
	{ ALLOC, 700 * KIB, 0, 3 },
	{ OFFLINE, 0, 0, 1 },
	{ SIZED, 0, 0, 1000 },
	{ COLLECT, 0, 0, 1 },
	{ ZALLOC, 5 * MIB, 0, 1 },
	{ ALLOC, 17, 0, 3 },
	{ FREE, 0, 1, 1000 },
};

/* Frees up to `times` blocks, from rank `at` in strides that reach all. */
static void free_some(struct oracle *oracle, const struct step *step)
{
	for (unsigned i = 0; i < step->times && oracle->count; i++) {
		size_t index = (step->at * (i + 1)) % oracle->count;

		if (step->operation == SIZED)
			oracle_free_sized(oracle, index);
		else
			oracle_free(oracle, index);
	}
}

/* Calls into the heap as the oracle does, of what has no block. */
static void call_plain(struct oracle *oracle, enum operation operation)
{
	if (oracle->before)
		oracle->before(oracle->arg, 0);
	if (operation == COLLECT)
		fallow_collect(oracle->heap);
	else
		fallow_offline(oracle->heap);
	if (oracle->after)
		oracle->after(oracle->arg);
}

static void step_run(struct oracle *oracle, const struct step *step)
{
	switch (step->operation) {
	case ALLOC:
		for (unsigned i = 0; i < step->times; i++)
			oracle_alloc(oracle, step->size + i * 16, 0);
		break;
	case ZALLOC:
		for (unsigned i = 0; i < step->times; i++)
			oracle_zalloc(oracle, step->size + i * 16);
		break;
	case ALIGNED:
		oracle_aligned(oracle, step->at, step->size, 0);
		break;
	case REALLOC:
		if (oracle->count)
			oracle_realloc(oracle, step->at % oracle->count,
				step->size, 0);
		break;
	case FREE:
	case SIZED:
		free_some(oracle, step);
		break;
	case COLLECT:
	case OFFLINE:
		call_plain(oracle, step->operation);
		break;
	}
}

void workload_run(struct oracle *oracle, void (*between)(void *arg), void *arg)
{
	size_t n = sizeof(script) / sizeof(script[0]);

	for (size_t i = 0; i < n && !oracle->failures; i++) {
		step_run(oracle, &script[i]);
		if (between)
			between(arg);
	}
}
