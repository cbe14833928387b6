/* SPDX-License-Identifier: MIT */
/*
 * A cache of a bounded size, whose contents change their nature.
 *
 * Entries have a key and a value and are evicted at random until the bytes fit.
 * In each phase values have other sizes than before: pages full of blocks that
 * nobody asks for any more are what the next phase has to be served from.
 * Values grow now and then.
 */
#include "bench.h"

#define ENTRIES 200000
#define BYTES (48u << 20)
#define PHASES 6
#define STEPS 90000

struct entry {
	struct bench_block key, value;
};

static struct entry entries[ENTRIES];
static size_t count;
static uint64_t bytes;

/* Values of a phase: sizes in a band of four doublings. */
static size_t value_size(uint64_t *random, unsigned phase)
{
	static const unsigned short lows[PHASES] = { 32, 256, 64, 1024, 128,
		512 };

	return bench_size(random, lows[phase], 4);
}

static void entry_evict(uint64_t *random)
{
	struct entry *entry = &entries[bench_below(random, count)];

	bytes -= entry->key.size + entry->value.size;
	bench_free(entry->key.p, entry->key.size);
	bench_free(entry->value.p, entry->value.size);
	*entry = entries[--count];
}

static void entry_add(uint64_t *random, unsigned phase)
{
	struct entry *entry = &entries[count++];

	entry->key.size = 16 + bench_below(random, 32);
	entry->value.size = value_size(random, phase);
	entry->key.p = bench_alloc(entry->key.size);
	entry->value.p = bench_alloc(entry->value.size);
	bytes += entry->key.size + entry->value.size;
}

/* A value becomes longer. */
static void entry_grow(uint64_t *random)
{
	struct bench_block *value =
		&entries[bench_below(random, count)].value;
	size_t size = value->size + value->size / 2;

	bench_look(value->p, value->size);
	value->p = realloc(value->p, size);
	if (value->p == NULL)
		bench_fail("realloc() returned NULL");
	bench_mark(value->p, size);
	bytes += size - value->size;
	value->size = size;
}

static uint64_t cache_run(unsigned percent)
{
	uint64_t steps = bench_part(STEPS, percent);
	uint64_t random = BENCH_SEED;
	unsigned phase;
	uint64_t i;

	bench_own(entries, sizeof(entries));
	for (phase = 0; phase < PHASES; phase++)
		for (i = 0; i < steps; i++) {
			entry_add(&random, phase);
			if (i % 8 == 0)
				entry_grow(&random);
			while (bytes > BYTES || count == ENTRIES)
				entry_evict(&random);
		}
	/* The cache is made smaller: a quarter stays. */
	while (bytes > BYTES / 4 && count > 1)
		entry_evict(&random);
	bench_live(bytes);
	return PHASES * steps;
}

const struct bench bench = { .name = "cache", .run = cache_run };
