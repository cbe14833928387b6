/* SPDX-License-Identifier: MIT */
/*
 * What a compiler does to its heap.
 *
 * One function after the other: a tree of small nodes, strings, vectors that
 * grow, a table that doubles; passes that throw nodes away and make others;
 * then nearly all of the function goes, in the order in which it came.  What
 * stays is strewn between what went: symbols, and the types and constants that
 * later functions use.
 */
#include "bench.h"

#include <string.h>

#define FUNCTIONS 300
#define NODES 6000
#define PASSES 3
#define STRING 40
/* One node of so many is a symbol, and stays. */
#define SYMBOL 12

struct node {
	struct node *next;
	size_t size;
	unsigned char payload[];
};

/* A vector of numbers that grows as it is pushed to. */
struct vector {
	uint64_t *items;
	size_t count, room;
};

static struct node *symbols;
static uint64_t symbol_bytes;
static uint64_t operations;

/* As of a parser's tree: most are small, of a few sizes. */
static size_t node_size(uint64_t *random)
{
	static const unsigned short sizes[16] = { 24, 32, 32, 40, 40, 48, 48,
		56, 64, 64, 80, 96, 112, 160, 240, 520 };

	return sizes[bench_below(random, 16)];
}

static struct node *node_make(uint64_t *random, struct node *next)
{
	size_t size = node_size(random);
	struct node *node = malloc(size);

	if (node == NULL)
		bench_fail("malloc() returned NULL");
	node->next = next;
	node->size = size;
	memset(node->payload, (int)size & 0xff, size - sizeof(*node));
	operations++;
	return node;
}

static void node_free(struct node *node)
{
	size_t n = node->size - sizeof(*node);

	if (n > 0 && (node->payload[0] != (node->size & 0xff) ||
			node->payload[n - 1] != (node->size & 0xff)))
		bench_fail("a node is not as it was left");
	free(node);
}

static void vector_push(struct vector *vector, uint64_t item)
{
	if (vector->count == vector->room) {
		vector->room = vector->room == 0 ? 4 : 2 * vector->room;
		vector->items = realloc(vector->items,
			vector->room * sizeof(vector->items[0]));
		if (vector->items == NULL)
			bench_fail("realloc() returned NULL");
		operations++;
	}
	vector->items[vector->count++] = item;
}

/* A pass drops a third of the nodes and makes as many others. */
static struct node *pass(struct node *nodes, uint64_t *random)
{
	struct node **at = &nodes;
	size_t dropped = 0;

	while (*at != NULL) {
		struct node *node = *at;

		if (bench_below(random, 3) == 0) {
			*at = node->next;
			node_free(node);
			dropped++;
			continue;
		}
		at = &node->next;
	}
	while (dropped-- > 0)
		nodes = node_make(random, nodes);
	return nodes;
}

/* Frees the function's nodes, but for its symbols. */
static void nodes_end(struct node *nodes, uint64_t *random)
{
	while (nodes != NULL) {
		struct node *next = nodes->next;

		if (bench_below(random, SYMBOL) == 0) {
			nodes->next = symbols;
			symbols = nodes;
			symbol_bytes += nodes->size;
		} else {
			node_free(nodes);
		}
		nodes = next;
	}
}

static void function_compile(uint64_t *random)
{
	size_t count = NODES / 4 + bench_below(random, NODES * 3 / 2);
	struct vector uses = { 0 }, order = { 0 };
	struct node *nodes = NULL;
	char *strings[64];
	uint64_t *table = calloc(count, sizeof(*table));
	size_t i;

	for (i = 0; i < count; i++) {
		nodes = node_make(random, nodes);
		vector_push(&order, i);
		if (i % 5 == 0)
			vector_push(&uses, nodes->size);
		table[bench_below(random, count)] = nodes->size;
	}
	for (i = 0; i < 64; i++) {
		strings[i] = malloc(8 + bench_below(random, STRING));
		strcpy(strings[i], "symbol");
	}
	for (i = 0; i < PASSES; i++)
		nodes = pass(nodes, random);
	for (i = 0; i < order.count; i++)
		if (order.items[i] != i)
			bench_fail("a vector is not as it was left");
	for (i = 0; i < 64; i++)
		free(strings[i]);
	free(uses.items);
	free(order.items);
	free(table);
	nodes_end(nodes, random);
}

static uint64_t compiler_run(unsigned percent)
{
	uint64_t functions = bench_part(FUNCTIONS, percent);
	uint64_t random = BENCH_SEED;
	uint64_t i;

	for (i = 0; i < functions; i++)
		function_compile(&random);
	bench_live(symbol_bytes);
	return operations;
}

const struct bench bench = { .name = "compiler", .run = compiler_run };
