/* SPDX-License-Identifier: MIT */
/*
 * Vectors and strings that grow by realloc(), many at once.
 *
 * Strings are appended to by a few bytes and a terminator, as careless programs
 * do; vectors double.  Which one grows next is drawn at random, so that what
 * lies behind a block is rarely free when it has to grow.  A full one is freed
 * and begins again.
 */
#include "bench.h"

#include <string.h>

#define VECTORS 4000
#define STEPS 700000
/* A vector is full with so many bytes, one of RARE with many more. */
#define FULL 8192
#define RARE 100
#define RARE_FULL (2u << 20)
#define LEFT 10

struct vector {
	unsigned char *bytes;
	size_t used, room, full;
	bool doubles;
};

static struct vector vectors[VECTORS];
static uint64_t operations;

static void vector_begin(struct vector *vector, uint64_t *random)
{
	*vector = (struct vector){
		.full = bench_below(random, RARE) == 0
			? RARE_FULL
			: 64 + bench_below(random, FULL),
		.doubles = bench_below(random, 4) != 0,
	};
}

/* Every byte must be the low one of its index. */
static void vector_end(struct vector *vector)
{
	size_t i;

	for (i = 0; i < vector->used; i += vector->used / 8 + 1)
		if (vector->bytes[i] != (unsigned char)i)
			bench_fail("a vector is not as it was left");
	free(vector->bytes);
	operations++;
}

static void vector_append(struct vector *vector, size_t n)
{
	size_t i;

	if (vector->used + n > vector->room) {
		vector->room = vector->doubles ? 2 * (vector->used + n)
					       : vector->used + n;
		vector->bytes = realloc(vector->bytes, vector->room);
		if (vector->bytes == NULL)
			bench_fail("realloc() returned NULL");
		operations++;
	}
	for (i = vector->used; i < vector->used + n; i++)
		vector->bytes[i] = (unsigned char)i;
	vector->used += n;
}

static uint64_t growth_run(unsigned percent)
{
	uint64_t steps = bench_part(STEPS, percent);
	uint64_t random = BENCH_SEED;
	uint64_t live = 0;
	uint64_t i;

	bench_own(vectors, sizeof(vectors));
	for (i = 0; i < VECTORS; i++)
		vector_begin(&vectors[i], &random);
	for (i = 0; i < steps; i++) {
		struct vector *vector =
			&vectors[bench_below(&random, VECTORS)];
		/* A long one is appended to by more. */
		size_t n = 1 + bench_below(&random, 16 + vector->used / 8);

		vector_append(vector, n);
		if (vector->used < vector->full)
			continue;
		vector_end(vector);
		vector_begin(vector, &random);
	}
	for (i = 0; i < VECTORS; i++) {
		if (i % LEFT == 0)
			live += vectors[i].room;
		else
			vector_end(&vectors[i]);
	}
	bench_live(live);
	return operations;
}

const struct bench bench = { .name = "growth", .run = growth_run };
