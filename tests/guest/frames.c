/* SPDX-License-Identifier: MIT */
/*
 * The frame allocator over a machine's RAM: the firmware's pieces of it, behind
 * a real direct map.
 *
 * All free memory is filled with a pattern through the direct map; whatever the
 * allocator is asked for then, the pattern stays, because it keeps nothing in
 * free memory.  That also finds a region that is no RAM, or is used already.
 */
#include <fallow/frames.h>

#include "board.h"
#include "test.h"

#define GRANULE ((uint64_t)4096)
#define RUNS_MAX 4096
#define STEPS 20000

static struct run {
	uint64_t frame;
	unsigned size_log2;
} runs[RUNS_MAX];
static size_t run_count;

static uint64_t *words_of(uint64_t frame)
{
	return (uint64_t *)((uintptr_t)frame + board_direct_offset());
}

static struct fallow_frames_counts counts_now(void)
{
	struct fallow_frames_counts counts = { .size = sizeof(counts) };

	fallow_frames_counts(board_frames(), &counts);
	return counts;
}

static void expect_whole(void)
{
	uint64_t where = 0;
	const char *broken = fallow_frames_check(board_frames(), &where);

	if (broken)
		test_printf("\n    0x%llx: %s", (unsigned long long)where,
			broken);
	CHECK(!broken);
	CHECK_EQUAL(counts_now().misuses, 0);
}

/* Takes all that is free into `runs`, the largest runs first. */
static void take_all(void)
{
	for (unsigned log2 = counts_now().largest_log2; log2 >= 12; log2--) {
		uint64_t frame;

		while (run_count < RUNS_MAX &&
			(frame = fallow_frames_take(board_frames(), log2)) !=
				FALLOW_FRAME_NONE)
			runs[run_count++] = (struct run){ frame, log2 };
	}
	CHECK_EQUAL(counts_now().free, 0);
}

static void give_all(void)
{
	while (run_count > 0) {
		run_count--;
		fallow_frames_give(board_frames(), runs[run_count].frame,
			runs[run_count].size_log2);
	}
}

/* Writes each word's own address into it, turned around. */
static void fill(const struct run *run)
{
	uint64_t *words = words_of(run->frame);
	uint64_t n = ((uint64_t)1 << run->size_log2) / sizeof(*words);

	for (uint64_t i = 0; i < n; i++)
		words[i] = ~(run->frame + i * sizeof(*words));
}

/* Whether they are all there still. */
static bool filled(const struct run *run)
{
	const uint64_t *words = words_of(run->frame);
	uint64_t n = ((uint64_t)1 << run->size_log2) / sizeof(*words);
	uint64_t wrong = 0;

	for (uint64_t i = 0; i < n; i++)
		wrong |= words[i] ^ ~(run->frame + i * sizeof(*words));
	return wrong == 0;
}

/* One random call on at most 64 runs; what is taken is the pattern's. */
static void step(uint64_t *seed)
{
	unsigned log2 = 12 + (unsigned)(test_random(seed) % 10);
	uint64_t frame;

	if (run_count > 0 && test_random(seed) % 2) {
		size_t i = test_random(seed) % run_count;

		fallow_frames_give(
			board_frames(), runs[i].frame, runs[i].size_log2);
		runs[i] = runs[--run_count];
		return;
	}
	if (run_count >= 64)
		return;
	frame = test_random(seed) % 2 ?
		fallow_frames_take(board_frames(), log2) :
		fallow_frames_take_below(board_frames(), log2, UINT64_MAX);
	if (frame == FALLOW_FRAME_NONE)
		return;
	runs[run_count] = (struct run){ frame, log2 };
	CHECK(filled(&runs[run_count]));
	run_count++;
	CHECK(!fallow_frames_claim(board_frames(), frame, 12));
}

static void test_frames_untouched(void)
{
	uint64_t free_before = counts_now().free;
	unsigned largest = counts_now().largest_log2;
	uint64_t seed = test_seed;

	run_count = 0;
	take_all();
	for (size_t i = 0; i < run_count; i++)
		fill(&runs[i]);
	give_all();
	CHECK_EQUAL(counts_now().free, free_before);
	for (unsigned n = 0; n < STEPS && !test_failures(); n++)
		step(&seed);
	expect_whole();
	give_all();
	take_all();
	for (size_t i = 0; i < run_count; i++)
		CHECK(filled(&runs[i]));
	give_all();
	CHECK_EQUAL(counts_now().free, free_before);
	CHECK_EQUAL(counts_now().largest_log2, largest);
	expect_whole();
}

/* Every granule that is handed over is RAM of the firmware's map, once. */
static void test_frames_inside_ram(void)
{
	const struct board_ram *ram;
	size_t n = board_ram(&ram);
	uint64_t total = 0;

	for (size_t i = 0; i < n; i++)
		total += ram[i].size;
	CHECK(counts_now().total + counts_now().tables <= total);
	CHECK(counts_now().total > total / 2);
	/* 0.1 % is far more than the tables are. */
	CHECK(counts_now().tables < total / 1000 + GRANULE);
	run_count = 0;
	take_all();
	for (size_t r = 0; r < run_count; r++) {
		uint64_t size = (uint64_t)1 << runs[r].size_log2;
		bool inside = false;

		for (size_t i = 0; i < n; i++)
			inside |= runs[r].frame >= ram[i].base &&
				runs[r].frame + size <=
					ram[i].base + ram[i].size;
		CHECK(inside);
	}
	give_all();
	expect_whole();
}

const struct test tests[] = {
	{ "frames_untouched", test_frames_untouched },
	{ "frames_inside_ram", test_frames_inside_ram },
	{ NULL, NULL },
};
