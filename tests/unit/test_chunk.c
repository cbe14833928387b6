/* SPDX-License-Identifier: MIT */
/*
 * Slices of chunks against a naive model: a byte a slice.
 *
 * The heap is made by hand of a few chunks at made-up addresses, one of them
 * never opened and two of them not whole; nothing here touches memory.
 */
#include <stdlib.h>
#include <string.h>

#include "bits.h"
#include "chunk.h"
#include "test.h"

#define CHUNKS 7
#define SLICES (CHUNKS * CHUNK_SLICES)
/* As high as addresses go: rounding up can wrap. */
#define BASE ((uintptr_t)0 - CHUNK_BYTES * 1024)
/* The one that is not opened. */
#define CLOSED 4

enum slice { ABSENT = 0, FREE, TAKEN };

struct model {
	struct heap *heap;
	struct chunk chunks[CHUNKS];
	struct chunk *pointers[CHUNKS];
	unsigned char state[SLICES]; /* enum slice */
	bool warm[SLICES];           /* of free ones: may be claimed */
	uint64_t random;
};

static unsigned below(struct model *model, unsigned n)
{
	return (unsigned)(test_random(&model->random) % n);
}

static uintptr_t addr_of(size_t slice)
{
	return BASE + slice * SLICE_BYTES;
}

static uint16_t *populated_of(struct model *model, size_t slice)
{
	return &model->chunks[slice / CHUNK_SLICES]
			.populated[slice % CHUNK_SLICES];
}

/* Adds slices to a chunk, in the heap and in the model. */
static void model_add(struct model *model, unsigned number, uint32_t slices,
	bool populated)
{
	fl_chunk_add(model->heap, &model->chunks[number], slices, populated,
		false);
	for (unsigned i = 0; i < CHUNK_SLICES; i++)
		if (slices >> i & 1) {
			model->state[number * CHUNK_SLICES + i] = FREE;
			model->warm[number * CHUNK_SLICES + i] = populated;
		}
}

static struct model *model_begin(uint64_t seed)
{
	struct model *model = calloc(1, sizeof(*model));

	model->heap = aligned_alloc(64, sizeof(struct heap));
	memset(model->heap, 0, sizeof(struct heap));
	model->random = seed;
	model->heap->base = BASE;
	model->heap->provider.provider_class = FALLOW_CLASS_WINDOW;
	model->heap->chunks = model->pointers;
	model->heap->chunk_count = model->heap->chunk_limit = CHUNKS;
	for (unsigned i = 0; i < CHUNKS; i++) {
		model->chunks[i].base = BASE + i * CHUNK_BYTES;
		if (i != CLOSED)
			model->pointers[i] = &model->chunks[i];
	}
	return model;
}

static void model_end(struct model *model)
{
	free(model->heap);
	free(model);
}

/* A model with chunks of all sorts. */
static struct model *model_mixed(uint64_t seed)
{
	struct model *model = model_begin(seed);

	for (unsigned i = 0; i < CHUNKS; i++)
		if (i != CLOSED)
			model_add(model, i,
				i == 1 ? 0x00ffff00 : UINT32_MAX, i == 3);
	/* A later region's slices of a chunk that is open. */
	model_add(model, 1, 0xf0000000, false);
	return model;
}

/* How many slices from `from` on are free, up to `n`. */
static size_t model_free(const struct model *model, size_t from, size_t n)
{
	size_t count = 0;

	while (count < n && from + count < SLICES &&
		model->state[from + count] == FREE)
		count++;
	return count;
}

/* The longest run of free slices in a chunk. */
static unsigned model_longest(const struct model *model, unsigned number)
{
	unsigned longest = 0;

	for (unsigned i = 0; i < CHUNK_SLICES; i++) {
		size_t n = model_free(model, number * CHUNK_SLICES + i,
			CHUNK_SLICES - i);

		if (n > longest)
			longest = (unsigned)n;
	}
	return longest;
}

/* Whether the chunk is in the list of this bin, both ways. */
static bool listed(const struct heap *heap, unsigned bin,
	const struct chunk *chunk)
{
	const struct chunk *at = heap->bins[bin];

	for (unsigned i = 0; at != NULL && i <= CHUNKS; i++, at = at->next)
		if (at == chunk)
			return at->next->prev == at && at->prev->next == at;
	return false;
}

/* One chunk is as the model says; returns how many warm slices it has. */
static unsigned chunk_compare(const struct model *model, unsigned number)
{
	const struct chunk *chunk = &model->chunks[number];
	uint32_t present = 0, free = 0, warm = 0;

	for (unsigned i = 0; i < CHUNK_SLICES; i++) {
		size_t slice = number * CHUNK_SLICES + i;
		uint32_t bit = (uint32_t)1 << i;

		if (model->state[slice] != ABSENT)
			present |= bit;
		if (model->state[slice] == FREE)
			free |= bit;
		if (model->state[slice] == FREE && model->warm[slice])
			warm |= bit;
	}
	CHECK_EQUAL(chunk->present, present);
	CHECK_EQUAL(chunk->free, free);
	CHECK_EQUAL(chunk->warm, warm);
	CHECK_EQUAL(chunk->bin, model_longest(model, number));
	for (unsigned bin = 0; bin <= CHUNK_SLICES; bin++)
		CHECK_EQUAL(listed(model->heap, bin, chunk),
			bin != 0 && bin == chunk->bin);
	return bits_count(warm);
}

static void model_compare(const struct model *model)
{
	const struct heap *heap = model->heap;
	uint64_t bits = 0;
	size_t warm = 0, whole = 0;

	for (unsigned i = 0; i < CHUNKS; i++) {
		if (i == CLOSED)
			continue;
		warm += chunk_compare(model, i);
		whole += model->chunks[i].bin == CHUNK_SLICES;
		if (model->chunks[i].bin != 0)
			bits |= (uint64_t)1 << model->chunks[i].bin;
	}
	CHECK_EQUAL(heap->bin_bits, bits);
	CHECK_EQUAL(heap->warm_slices, warm);
	CHECK_EQUAL(heap->free_chunks, whole);
}

/* The slices were free, and are taken in the model from here on. */
static void model_take(struct model *model, size_t slice, size_t n)
{
	CHECK_EQUAL(model_free(model, slice, n), n);
	for (; n > 0; n--, slice++) {
		model->state[slice] = TAKEN;
		model->warm[slice] = false;
		CHECK_EQUAL(model->chunks[slice / CHUNK_SLICES].idle >>
				slice % CHUNK_SLICES & 1, 0);
		/* Its user populates some of it. */
		if (below(model, 2))
			*populated_of(model, slice) |=
				(uint16_t)(1u << below(model, SLICE_GRANULES));
	}
	/* Those that are left from now on are idle. */
	for (unsigned i = 0; i < CHUNKS; i++)
		model->chunks[i].idle = model->chunks[i].free;
}

/* Notes what a take returned; `expected`: whether there had to be a run. */
static void run_note(
	struct model *model, struct run run, size_t n, bool expected)
{
	CHECK_EQUAL(run.chunk != NULL, expected);
	if (run.chunk != NULL)
		model_take(model,
			(size_t)(run.chunk - model->chunks) * CHUNK_SLICES +
				run.first,
			n);
}

/* The shortest run that is long enough, of all chunks: 0 if there is none. */
static unsigned model_best_bin(const struct model *model, unsigned n)
{
	unsigned best = 0;

	for (unsigned i = 0; i < CHUNKS; i++) {
		unsigned longest = model_longest(model, i);

		if (longest >= n && (best == 0 || longest < best))
			best = longest;
	}
	return best;
}

static void step_take(struct model *model)
{
	unsigned n = 1 + below(model, below(model, 4) ? 6 : CHUNK_SLICES);
	unsigned bin = model_best_bin(model, n);
	bool cold = model->heap->warm_slices < n;
	unsigned char bins[CHUNKS];
	struct run run;

	for (unsigned i = 0; i < CHUNKS; i++)
		bins[i] = model->chunks[i].bin;
	run = fl_chunk_take(model->heap, n);
	if (cold && run.chunk != NULL)
		CHECK_EQUAL(bins[run.chunk - model->chunks], bin);
	run_note(model, run, n, bin != 0);
}

/* The lowest address with n free slices from a multiple of `align` on. */
static size_t model_find(const struct model *model, size_t n, size_t align)
{
	for (size_t slice = 0; slice < SLICES; slice++)
		if (addr_of(slice) % align == 0 &&
			model_free(model, slice, n) == n)
			return slice;
	return SLICES;
}

static void step_take_run(struct model *model)
{
	size_t n = 1 + below(model, 3 * CHUNK_SLICES);
	size_t align = SLICE_BYTES << below(model, 8);
	size_t expected = model_find(model, n, align);
	struct run run = fl_chunk_take_run(model->heap, n, align);

	if (run.chunk != NULL)
		CHECK_EQUAL(run.chunk->base + run.first * SLICE_BYTES,
			addr_of(expected));
	run_note(model, run, n, expected < SLICES);
}

/* How many of n slices from `from` on are warm. */
static size_t model_warm(const struct model *model, size_t from, size_t n)
{
	size_t count = 0;

	for (; n > 0; n--, from++)
		count += model->state[from] == FREE && model->warm[from];
	return count;
}

/* How many of the run of free slices that this one is in are warm. */
static size_t model_warm_around(const struct model *model, size_t slice)
{
	while (slice > 0 && model->state[slice - 1] == FREE)
		slice--;
	return model_warm(model, slice, model_free(model, slice, SLICES));
}

/* The lowest of the n free slices in a row of which most are warm, in the run
 * that has the fewest beside them; SLICES if none is. */
static size_t model_warmest(const struct model *model, size_t n)
{
	size_t best = SLICES;
	size_t most = 1;

	for (size_t slice = 0; slice + n <= SLICES; slice++) {
		size_t warm = model_warm(model, slice, n);

		if (model_free(model, slice, n) < n || warm < most ||
			(best < SLICES && warm == most &&
				model_warm_around(model, slice) >=
					model_warm_around(model, best)))
			continue;
		best = slice;
		most = warm;
	}
	return best;
}

/* No more runs than are compared are so long. */
static void step_take_warmest(struct model *model)
{
	size_t n = SLICES / 16 - 1 + below(model, 3 * CHUNK_SLICES);
	size_t expected = model_warmest(model, n);
	struct run run = fl_chunk_take_warmest(model->heap, n);

	if (run.chunk != NULL)
		CHECK_EQUAL(run.chunk->base + run.first * SLICE_BYTES,
			addr_of(expected));
	run_note(model, run, n, expected < SLICES);
}

static void step_take_at(struct model *model)
{
	size_t slice = below(model, SLICES);
	size_t n = 1 + below(model, 40);
	bool free = model_free(model, slice, n) == n;

	CHECK_EQUAL(fl_chunk_take_at(model->heap, addr_of(slice), n), free);
	if (free)
		model_take(model, slice, n);
}

/* Whether a run of n free slices begins here with `granules` populated. */
static bool populated_from(
	struct model *model, size_t slice, unsigned n, unsigned granules)
{
	if (slice % CHUNK_SLICES + n > CHUNK_SLICES ||
		model_free(model, slice, n) != n || !model->warm[slice])
		return false;
	for (unsigned i = 0; i < granules; i++)
		if (!(*populated_of(model, slice + i / SLICE_GRANULES) >>
				    (i % SLICE_GRANULES) &
			    1))
			return false;
	return true;
}

static void step_take_populated(struct model *model)
{
	unsigned n = 1 + below(model, 4);
	unsigned granules = 1 + below(model, 3);
	size_t slice = 0;
	struct run run;

	/* No more than the run has. */
	if (granules > n * SLICE_GRANULES)
		granules = n * SLICE_GRANULES;
	while (slice < SLICES && !populated_from(model, slice, n, granules))
		slice++;
	run = fl_chunk_take_populated(
		model->heap, n, granules * GRANULE_BYTES);
	if (run.chunk != NULL)
		CHECK_EQUAL(run.chunk->base + run.first * SLICE_BYTES,
			addr_of(slice));
	run_note(model, run, n, slice < SLICES);
}

/* Gives some taken slices in a row back. */
static void step_give(struct model *model)
{
	size_t slice = below(model, SLICES);
	size_t n = 0, most = 1 + below(model, 50);

	while (n < most && slice + n < SLICES &&
		model->state[slice + n] == TAKEN) {
		model->state[slice + n] = FREE;
		model->warm[slice + n] = *populated_of(model, slice + n) != 0;
		n++;
	}
	if (n > 0)
		fl_chunk_give(model->heap, addr_of(slice), n, 1);
}

/* Claims what can be, of one chunk, and returns some of it empty. */
static void step_claim(struct model *model)
{
	unsigned number = below(model, CHUNKS);
	struct chunk *chunk = &model->chunks[number];
	bool again = below(model, 2), all = below(model, 2);
	uint32_t claimed = fl_chunk_claimable(model->heap, chunk) &
		(uint32_t)test_random(&model->random);

	fl_chunk_claim(model->heap, chunk, claimed);
	CHECK_EQUAL(chunk->free & claimed, 0);
	for (unsigned i = 0; i < CHUNK_SLICES; i++) {
		size_t slice = number * CHUNK_SLICES + i;

		if (!(claimed >> i & 1))
			continue;
		CHECK(model->state[slice] == FREE && model->warm[slice]);
		/* What is refused stays. */
		if (all || below(model, 4))
			*populated_of(model, slice) = 0;
		model->warm[slice] =
			again && *populated_of(model, slice) != 0;
	}
	fl_chunk_unclaim(model->heap, chunk, claimed, 0, again);
}

static void model_step(struct model *model)
{
	static void (*const steps[])(struct model *) = { step_take, step_take,
		step_take_run, step_take_warmest, step_take_at,
		step_take_populated, step_give, step_give, step_give,
		step_give, step_claim };

	steps[below(model, sizeof(steps) / sizeof(steps[0]))](model);
}

static void test_chunk_random(void)
{
	for (unsigned round = 0; round < 20 && !test_failures(); round++) {
		struct model *model = model_mixed(test_seed + round);

		model_compare(model);
		for (unsigned i = 0; i < 2000 && !test_failures(); i++) {
			model_step(model);
			model_compare(model);
		}
		model_end(model);
	}
}

static void test_chunk_longest(void)
{
	uint64_t random = test_seed;

	CHECK_EQUAL(fl_chunk_longest(0), 0);
	CHECK_EQUAL(fl_chunk_longest(UINT32_MAX), 32);
	for (unsigned i = 0; i < 5000; i++) {
		uint32_t word = (uint32_t)(test_random(&random) |
			test_random(&random));
		unsigned run = 0, longest = 0;

		for (unsigned bit = 0; bit < 32; bit++) {
			run = word >> bit & 1 ? run + 1 : 0;
			longest = run > longest ? run : longest;
		}
		CHECK_EQUAL(fl_chunk_longest(word), longest);
	}
}

/* The fullest of equals is taken from, and no free chunk while another has
 * room; the lowest address inside. */
static void test_chunk_fullest(void)
{
	struct model *model = model_begin(test_seed);
	struct run run;

	model_add(model, 0, UINT32_MAX, false);
	/* Longest runs of 4: with 12, 8 and 10 free slices. */
	model_add(model, 1, 0x00f0f0f0, false);
	model_add(model, 2, 0x0f00f000, false);
	model_add(model, 3, 0x0cf000f0, false);
	run = fl_chunk_take(model->heap, 3);
	CHECK(run.chunk == &model->chunks[2] && run.first == 12);
	run = fl_chunk_take(model->heap, 4);
	CHECK(run.chunk == &model->chunks[2] && run.first == 24);
	run = fl_chunk_take(model->heap, 2);
	CHECK(run.chunk == &model->chunks[3] && run.first == 4);
	run = fl_chunk_take(model->heap, 5);
	CHECK(run.chunk == &model->chunks[0] && run.first == 0);
	run = fl_chunk_take(model->heap, 28);
	CHECK(run.chunk == NULL);
	model_end(model);
}

/* Memory that is there comes before a better fit and before a lower address;
 * but never a run that is only partly there. */
static void test_chunk_warm_first(void)
{
	struct model *model = model_begin(test_seed);
	struct run run;

	model_add(model, 0, 0x0000000f, false);
	model_add(model, 1, 0xffffffff, false);
	run = fl_chunk_take(model->heap, 32);
	CHECK(run.chunk == &model->chunks[1]);
	model->chunks[1].populated[20] = 1;
	model->chunks[1].populated[21] = 0x8000;
	fl_chunk_give(model->heap, model->chunks[1].base, 32, 1);
	CHECK_EQUAL(model->chunks[1].warm, (uint32_t)3 << 20);
	run = fl_chunk_take(model->heap, 2);
	CHECK(run.chunk == &model->chunks[1] && run.first == 20);
	fl_chunk_give(model->heap, model->chunks[1].base + 20 * SLICE_BYTES, 2, 1);
	/* Three are not warm: the best fit. */
	run = fl_chunk_take(model->heap, 3);
	CHECK(run.chunk == &model->chunks[0] && run.first == 0);
	model_end(model);
}

/* A run over four chunks, at alignments up to more than there is. */
static void test_chunk_across(void)
{
	struct model *model = model_begin(test_seed);
	struct run run;

	model_add(model, 0, 0xfff00000, false);
	model_add(model, 1, UINT32_MAX, false);
	model_add(model, 2, UINT32_MAX, false);
	model_add(model, 3, 0x000000ff, false);
	run = fl_chunk_take_run(model->heap, 12 + 64 + 9, SLICE_BYTES);
	CHECK(run.chunk == NULL);
	run = fl_chunk_take_run(model->heap, 12 + 64 + 8, SLICE_BYTES);
	CHECK(run.chunk == &model->chunks[0] && run.first == 20);
	CHECK_EQUAL(model->heap->bin_bits, 0);
	fl_chunk_give(model->heap, run.chunk->base + run.first * SLICE_BYTES,
		12 + 64 + 8, 1);
	run = fl_chunk_take_run(model->heap, 40, CHUNK_BYTES);
	CHECK(run.chunk == &model->chunks[1] && run.first == 0);
	for (size_t align = CHUNK_BYTES * 2048; align != 0; align *= 2) {
		run = fl_chunk_take_run(model->heap, 1, align);
		CHECK(run.chunk == NULL);
	}
	model_end(model);
}

/* The most that one whole chunk and its neighbours can hold. */
static void test_chunk_across_one_free(void)
{
	struct model *model = model_begin(test_seed);
	struct run run;

	model_add(model, 0, 0xfffffffe, false);
	model_add(model, 1, UINT32_MAX, false);
	model_add(model, 2, 0x7fffffff, false);
	run = fl_chunk_take_run(model->heap, 31 + 32 + 31, SLICE_BYTES);
	CHECK(run.chunk == &model->chunks[0] && run.first == 1);
	model_end(model);
}

/* Of equals the first in its list: those that hold memory are put in front,
 * others behind. */
static void test_chunk_bin_order(void)
{
	struct model *model = model_begin(test_seed);
	struct run run;

	for (unsigned i = 0; i < 4; i++)
		model_add(model, i, 0xff, false);
	for (unsigned i = 0; i < 4; i++) {
		run = fl_chunk_take(model->heap, 8);
		CHECK(run.chunk == &model->chunks[i]);
	}
	fl_chunk_give(model->heap, model->chunks[2].base, 8, 1);
	fl_chunk_give(model->heap, model->chunks[0].base, 8, 1);
	model->chunks[3].populated[0] = 1;
	fl_chunk_give(model->heap, model->chunks[3].base, 8, 1);
	CHECK(model->heap->bins[8] == &model->chunks[3]);
	CHECK(model->chunks[3].next == &model->chunks[2]);
	CHECK(model->chunks[2].next == &model->chunks[0]);
	model_end(model);
}

/* Class direct: what regions gave cannot be claimed; what is released is not
 * there any more, and can come again. */
static void test_chunk_direct_gone(void)
{
	struct model *model = model_begin(test_seed);
	struct chunk *chunk = &model->chunks[0];

	model->heap->provider.provider_class = FALLOW_CLASS_DIRECT;
	fl_chunk_add(model->heap, chunk, 0x000000ff, true, true);
	fl_chunk_add(model->heap, chunk, 0x0000ff00, true, false);
	CHECK_EQUAL(fl_chunk_claimable(model->heap, chunk), 0x0000ff00);
	CHECK_EQUAL(chunk->fixed, 0x000000ff);
	fl_chunk_claim(model->heap, chunk, 0x00003c00);
	fl_chunk_unclaim(model->heap, chunk, 0x00003c00, 0x00003000, true);
	CHECK_EQUAL(chunk->present, 0x0000cfff);
	CHECK_EQUAL(chunk->free, 0x0000cfff);
	CHECK_EQUAL(chunk->bin, 12);
	fl_chunk_add(model->heap, chunk, 0x00003000, true, false);
	CHECK_EQUAL(chunk->bin, 16);
	model_end(model);
}

/* At the heap's end everything is free, whatever held it. */
static void test_chunk_reset(void)
{
	struct model *model = model_mixed(test_seed);

	for (unsigned i = 0; i < 500; i++)
		model_step(model);
	for (unsigned i = 0; i < CHUNKS; i++) {
		if (i == CLOSED)
			continue;
		model->chunks[i].heads = 1;
		fl_chunk_reset(model->heap, &model->chunks[i]);
		CHECK_EQUAL(model->chunks[i].free, model->chunks[i].present);
		CHECK_EQUAL(model->chunks[i].heads, 0);
	}
	for (size_t slice = 0; slice < SLICES; slice++)
		if (model->state[slice] != ABSENT) {
			model->state[slice] = FREE;
			model->warm[slice] = *populated_of(model, slice) != 0;
		}
	model_compare(model);
	model_end(model);
}

const struct test tests[] = {
	{ "chunk_random", test_chunk_random },
	{ "chunk_longest", test_chunk_longest },
	{ "chunk_fullest", test_chunk_fullest },
	{ "chunk_warm_first", test_chunk_warm_first },
	{ "chunk_across", test_chunk_across },
	{ "chunk_across_one_free", test_chunk_across_one_free },
	{ "chunk_bin_order", test_chunk_bin_order },
	{ "chunk_direct_gone", test_chunk_direct_gone },
	{ "chunk_reset", test_chunk_reset },
	{ NULL, NULL },
};
