/* SPDX-License-Identifier: MIT */
/*
 * A graph of objects, as a program in a language with objects has it.
 *
 * A long-lived tree is grown, parts of which are cut off and grown again, while
 * short-lived ones come and go beside it.  A node is a block for itself, the
 * list of its children another, and most have a name.  Frees follow the tree,
 * in an order that has nothing to do with addresses.
 */
#include "bench.h"

#include <stdio.h>

#define DEPTH 11
#define CHILDREN 3
#define ROUNDS 1500
/* Of the depth that is cut off, and of trees that live for a moment. */
#define SHORT 5

struct object {
	struct object **children; /* NULL: it is a leaf */
	char *name;               /* NULL: it has none */
	uint64_t number;
	unsigned count;
	unsigned name_size;
};

static uint64_t made;
static uint64_t bytes;

static void *get(size_t size)
{
	void *p = malloc(size);

	if (p == NULL)
		bench_fail("malloc() returned NULL");
	bytes += size;
	return p;
}

static struct object *object_make(uint64_t *random, unsigned depth)
{
	struct object *object = get(sizeof(*object));
	unsigned i;

	*object = (struct object){ .number = made++ };
	if (bench_below(random, 4) != 0) {
		object->name_size = 12 + (unsigned)bench_below(random, 40);
		object->name = get(object->name_size);
		snprintf(object->name, object->name_size, "%llu",
			(unsigned long long)object->number);
	}
	if (depth == 0)
		return object;
	object->count = 1 + (unsigned)bench_below(random, 2 * CHILDREN - 1);
	object->children = get(object->count * sizeof(object->children[0]));
	for (i = 0; i < object->count; i++)
		object->children[i] = object_make(random, depth - 1);
	return object;
}

/* Frees the object and all below it, which must be what they were. */
static void object_free(struct object *object)
{
	unsigned i;

	for (i = 0; i < object->count; i++)
		object_free(object->children[i]);
	if (object->name != NULL &&
		strtoull(object->name, NULL, 10) != object->number)
		bench_fail("a name is not as it was left");
	bytes -= sizeof(*object) + object->name_size +
		object->count * sizeof(object->children[0]);
	free(object->children);
	free(object->name);
	free(object);
}

/* Where a subtree of depth SHORT hangs. */
static struct object **cut_find(struct object **at, uint64_t *random)
{
	unsigned depth;

	for (depth = DEPTH; depth > SHORT; depth--)
		at = &(*at)->children[bench_below(random, (*at)->count)];
	return at;
}

static uint64_t graph_run(unsigned percent)
{
	uint64_t rounds = bench_part(ROUNDS, percent);
	uint64_t random = BENCH_SEED;
	struct object *root = object_make(&random, DEPTH);
	uint64_t i;

	for (i = 0; i < rounds; i++) {
		struct object **cut = cut_find(&root, &random);

		object_free(*cut);
		*cut = object_make(&random, SHORT);
		object_free(object_make(&random, SHORT));
	}
	/* All but one part of it go. */
	for (i = 1; i < root->count; i++)
		object_free(root->children[i]);
	root->count = 1;
	bench_live(bytes);
	return made;
}

const struct bench bench = { .name = "graph", .run = graph_run };
