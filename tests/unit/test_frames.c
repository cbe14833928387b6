/* SPDX-License-Identifier: MIT */
/*
 * The frame allocator against a shadow of one byte a granule.
 *
 * Most tests hand in memory for the tables and physical addresses that do not
 * exist, behind a direct offset that is not mapped: a single access to a frame
 * would end the program.  Those about carving use a real buffer, filled with a
 * pattern of which only the tables may change.
 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */

#include <fallow/frames.h>

#include "test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define G ((uint64_t)4096)
#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

static struct fallow_frames frames;
static struct fallow_frames_misuse last_misuse;
static unsigned misuse_count;
static _Alignas(64) unsigned char tables[1 << 20];

static void on_misuse(void *ctx, const struct fallow_frames_misuse *report)
{
	CHECK(ctx == &misuse_count);
	last_misuse = *report;
	misuse_count++;
}

/* The misuse hook was called once since the last look, with this. */
static void expect_misuse(enum fallow_frames_misuse_kind kind, uint64_t frame,
	unsigned size_log2)
{
	CHECK_EQUAL(misuse_count, 1);
	CHECK_EQUAL(last_misuse.kind, kind);
	CHECK_EQUAL(last_misuse.frame, frame);
	CHECK_EQUAL(last_misuse.size_log2, size_log2);
	CHECK(last_misuse.caller != 0);
	misuse_count = 0;
}

/* A configuration whose tables are handed in: frames are never mapped. */
static struct fallow_frames_config config_in(void)
{
	return (struct fallow_frames_config){
		.size = sizeof(struct fallow_frames_config),
		.direct_offset = (uintptr_t)0xdead000000000000u,
		.direct_end = 1,
		.tables = tables,
		.tables_size = sizeof(tables),
		.misuse = on_misuse,
		.misuse_ctx = &misuse_count,
	};
}

static void start(void)
{
	struct fallow_frames_config config = config_in();

	misuse_count = 0;
	CHECK_EQUAL(fallow_frames_init(&frames, &config), FALLOW_OK);
}

static struct fallow_frames_counts counts_now(void)
{
	struct fallow_frames_counts counts = { .size = sizeof(counts) };

	fallow_frames_counts(&frames, &counts);
	return counts;
}

static void expect_whole(void)
{
	uint64_t where = 0;
	const char *broken = fallow_frames_check(&frames, &where);

	if (broken)
		test_printf("at %llx: %s\n", (unsigned long long)where, broken);
	CHECK(!broken);
	CHECK_EQUAL(misuse_count, 0);
}

#define SHADOW_BASE (3 * GIB - 8 * MIB)
#define SHADOW_GRANULES 8192u

struct owned {
	uint64_t frame;
	unsigned size_log2;
};

static struct shadow {
	/* 0 absent, 1 free, 2 taken. */
	unsigned char granule[SHADOW_GRANULES];
	struct owned owned[SHADOW_GRANULES];
	unsigned count;
	uint64_t free;
} shadow;

static unsigned char *shadow_at(uint64_t frame)
{
	return &shadow.granule[(frame - SHADOW_BASE) / G];
}

/* Hands over [base, base + size) to both. */
static void shadow_add(uint64_t base, uint64_t size)
{
	CHECK_EQUAL(fallow_frames_add(&frames, base, size), FALLOW_OK);
	for (uint64_t at = (base + G - 1) / G * G; at + G <= base + size;
		at += G) {
		*shadow_at(at) = 1;
		shadow.free += G;
	}
}

/* Whether all granules of the run have this state. */
static bool shadow_is(uint64_t frame, unsigned size_log2, unsigned char state)
{
	if (frame < SHADOW_BASE ||
		frame - SHADOW_BASE + ((uint64_t)1 << size_log2) >
			SHADOW_GRANULES * G)
		return false;
	for (uint64_t at = 0; at < (uint64_t)1 << size_log2; at += G)
		if (*shadow_at(frame + at) != state)
			return false;
	return true;
}

static void shadow_set(uint64_t frame, unsigned size_log2, unsigned char state)
{
	uint64_t size = (uint64_t)1 << size_log2;

	for (uint64_t at = 0; at < size; at += G)
		*shadow_at(frame + at) = state;
	shadow.free += state == 1 ? size : -size;
}

/* log2 of the largest aligned free run, or 0. */
static unsigned shadow_largest(void)
{
	for (unsigned log2 = 25; log2 >= 12; log2--)
		for (uint64_t at = SHADOW_BASE;
			at < SHADOW_BASE + SHADOW_GRANULES * G;
			at += (uint64_t)1 << log2)
			if (shadow_is(at >> log2 << log2, log2, 1))
				return log2;
	return 0;
}

/* A run was taken: it was free, it is aligned, and it is owned now. */
static void shadow_took(uint64_t frame, unsigned size_log2)
{
	CHECK_EQUAL(frame & (((uint64_t)1 << size_log2) - 1), 0);
	CHECK_OR_RETURN(shadow_is(frame, size_log2, 1));
	shadow_set(frame, size_log2, 2);
	shadow.owned[shadow.count++] = (struct owned){ frame, size_log2 };
}

/* Gives a random owned run back, whole or by halves: one half stays. */
static void shadow_give(uint64_t *seed)
{
	unsigned i = (unsigned)(test_random(seed) % shadow.count);
	struct owned *o = &shadow.owned[i];

	if (o->size_log2 > 12 && test_random(seed) % 3 == 0) {
		uint64_t half = (uint64_t)1 << --o->size_log2;
		bool high = test_random(seed) & 1;
		uint64_t given = o->frame + (high ? half : 0);

		o->frame += high ? 0 : half;
		fallow_frames_give(&frames, given, o->size_log2);
		shadow_set(given, o->size_log2, 1);
		return;
	}
	fallow_frames_give(&frames, o->frame, o->size_log2);
	shadow_set(o->frame, o->size_log2, 1);
	*o = shadow.owned[--shadow.count];
}

/* One random call, and what it must have done. */
static void shadow_step(uint64_t *seed)
{
	unsigned size_log2 = 12 + (unsigned)(test_random(seed) % 10);
	unsigned what = (unsigned)(test_random(seed) % 16);
	uint64_t frame;

	if (test_random(seed) % 8)
		size_log2 = 12 + size_log2 % 4;
	if (what < 6) {
		frame = fallow_frames_take(&frames, size_log2);
		if (frame == FALLOW_FRAME_NONE)
			CHECK(shadow_largest() < size_log2);
		else
			shadow_took(frame, size_log2);
	} else if (what < 9) {
		frame = SHADOW_BASE +
			test_random(seed) % (SHADOW_GRANULES * G);
		frame = frame >> size_log2 << size_log2;
		if (fallow_frames_claim(&frames, frame, size_log2))
			shadow_took(frame, size_log2);
		else
			CHECK(!shadow_is(frame, size_log2, 1));
	} else if (what == 9) {
		uint64_t limit = SHADOW_BASE +
			test_random(seed) % (SHADOW_GRANULES * G);

		frame = fallow_frames_take_below(&frames, size_log2, limit);
		if (frame != FALLOW_FRAME_NONE) {
			CHECK(frame + ((uint64_t)1 << size_log2) <= limit);
			shadow_took(frame, size_log2);
		}
	} else if (shadow.count > 0) {
		shadow_give(seed);
	}
}

static void test_frames_random(void)
{
	uint64_t seed = test_seed;

	start();
	memset(&shadow, 0, sizeof(shadow));
	/* Out of order, unaligned, one granule, one word, across 3 GiB. */
	shadow_add(SHADOW_BASE + 10 * MIB + 1, 9 * MIB + 12345);
	shadow_add(SHADOW_BASE + 5 * MIB, 256 * 1024);
	shadow_add(SHADOW_BASE + 7 * MIB - 3 * G, 2 * MIB + 3 * G);
	shadow_add(SHADOW_BASE + 4 * MIB - 1, G + 1);
	shadow_add(SHADOW_BASE, 3 * MIB);
	shadow_add(SHADOW_BASE + 24 * MIB, 8 * MIB);
	CHECK_EQUAL(counts_now().regions, 6);
	CHECK_EQUAL(counts_now().total, shadow.free);
	for (unsigned n = 0; n < 60000 && !test_failures(); n++) {
		shadow_step(&seed);
		if (n % 2000)
			continue;
		expect_whole();
		CHECK_EQUAL(counts_now().free, shadow.free);
		CHECK_EQUAL(counts_now().largest_log2, shadow_largest());
	}
	while (shadow.count > 0 && !test_failures())
		shadow_give(&seed);
	CHECK_EQUAL(counts_now().free, counts_now().total);
	CHECK_EQUAL(counts_now().largest_log2, shadow_largest());
	CHECK(counts_now().takes > 1000 && counts_now().gives > 1000);
	expect_whole();
}

/* The smallest run that fits is cut, its highest part first. */
static void test_frames_best_fit(void)
{
	uint64_t first, second;

	start();
	CHECK_EQUAL(fallow_frames_add(&frames, 64 * MIB, 64 * MIB), FALLOW_OK);
	CHECK_EQUAL(fallow_frames_add(&frames, 4 * MIB, 32 * 1024), FALLOW_OK);
	first = fallow_frames_take(&frames, 12);
	CHECK_EQUAL(first, 4 * MIB + 7 * G);
	CHECK_EQUAL(fallow_frames_take(&frames, 13), 4 * MIB + 4 * G);
	CHECK_EQUAL(fallow_frames_take(&frames, 12), 4 * MIB + 6 * G);
	CHECK_EQUAL(counts_now().largest_log2, 26);
	second = fallow_frames_take(&frames, 21);
	CHECK_EQUAL(second, 126 * MIB);
	CHECK_EQUAL(counts_now().largest_log2, 25);
	fallow_frames_give(&frames, second, 21);
	CHECK_EQUAL(counts_now().largest_log2, 26);
	expect_whole();
}

/* The lowest part that fits, and nothing that ends above the limit. */
static void test_frames_below(void)
{
	start();
	CHECK_EQUAL(fallow_frames_add(&frames, 2 * GIB, GIB), FALLOW_OK);
	CHECK_EQUAL(fallow_frames_add(&frames, MIB, 15 * MIB), FALLOW_OK);
	CHECK_EQUAL(fallow_frames_take_below(&frames, 12, 16 * MIB), MIB);
	CHECK_EQUAL(
		fallow_frames_take_below(&frames, 20, 16 * MIB), 2 * MIB);
	CHECK_EQUAL(fallow_frames_take_below(&frames, 23, 16 * MIB - 1),
		FALLOW_FRAME_NONE);
	CHECK_EQUAL(
		fallow_frames_take_below(&frames, 23, 16 * MIB), 8 * MIB);
	CHECK_EQUAL(fallow_frames_take_below(&frames, 12, 100),
		FALLOW_FRAME_NONE);
	CHECK_EQUAL(
		fallow_frames_take_below(&frames, 30, UINT64_MAX), 2 * GIB);
	CHECK_EQUAL(counts_now().failures, 2);
	expect_whole();
}

/* From frame 0 and to the end of what a machine can have. */
static void test_frames_extremes(void)
{
	uint64_t high = (uint64_t)1 << 52;

	start();
	CHECK_EQUAL(fallow_frames_add(&frames, 0, 640 * 1024), FALLOW_OK);
	CHECK_EQUAL(fallow_frames_add(&frames, high - MIB, MIB), FALLOW_OK);
	CHECK_EQUAL(fallow_frames_take(&frames, 20), high - MIB);
	CHECK_EQUAL(fallow_frames_take(&frames, 19), 0);
	CHECK_EQUAL(fallow_frames_take(&frames, 20), FALLOW_FRAME_NONE);
	for (unsigned log2 = 21; log2 < 64; log2++)
		CHECK_EQUAL(
			fallow_frames_take(&frames, log2), FALLOW_FRAME_NONE);
	fallow_frames_give(&frames, 0, 19);
	CHECK(fallow_frames_claim(&frames, 0, 12));
	CHECK(!fallow_frames_claim(&frames, 0, 12));
	CHECK(!fallow_frames_claim(&frames, 0, 43));
	expect_whole();
	CHECK(!fallow_frames_claim(&frames, 0, 63));
	expect_misuse(FALLOW_FRAMES_BAD_SIZE, 0, 63);
}

/* A terabyte needs a little of the tables and no time to hand over. */
static void test_frames_large(void)
{
	struct fallow_frames_config config = config_in();
	size_t bytes = fallow_frames_table_bytes(GIB, GIB << 10, 12);
	void *memory = aligned_alloc(64, bytes);

	CHECK(bytes < ((GIB << 10) >> 13));
	config.tables = memory;
	config.tables_size = bytes;
	CHECK_EQUAL(fallow_frames_init(&frames, &config), FALLOW_OK);
	CHECK_EQUAL(fallow_frames_add(&frames, GIB, GIB << 10), FALLOW_OK);
	CHECK_EQUAL(counts_now().largest_log2, 39);
	CHECK_EQUAL(fallow_frames_take(&frames, 39), (GIB << 10) / 2);
	CHECK_EQUAL(fallow_frames_take(&frames, 12), (GIB << 10) + GIB - G);
	expect_whole();
	free(memory);
}

/* Granules other than 4 KiB. */
static void test_frames_granules(void)
{
	static const unsigned granules[] = { 8, 14, 16, 21, 30 };

	for (size_t i = 0; i < sizeof(granules) / sizeof(granules[0]); i++) {
		struct fallow_frames_config config = config_in();
		uint64_t size = (uint64_t)37 << granules[i];
		uint64_t last = 0;
		unsigned n = 0;

		config.granule_log2 = granules[i];
		CHECK_EQUAL(fallow_frames_init(&frames, &config), FALLOW_OK);
		CHECK_EQUAL(fallow_frames_add(&frames, 1, size), FALLOW_OK);
		while (last != FALLOW_FRAME_NONE) {
			last = fallow_frames_take(&frames, granules[i]);
			n++;
		}
		CHECK_EQUAL(n, 37);
		expect_whole();
		CHECK_EQUAL(fallow_frames_take(&frames, granules[i] - 1),
			FALLOW_FRAME_NONE);
		expect_misuse(FALLOW_FRAMES_BAD_SIZE, FALLOW_FRAME_NONE,
			granules[i] - 1);
	}
}

/* A region may have more granules than the largest run: to name all of it as
 * one is a misuse, not a run of which the books know nothing. */
static void test_frames_order_max(void)
{
	struct fallow_frames_config config = config_in();
	uint64_t half = (uint64_t)1 << 43;

	config.tables_size = fallow_frames_table_bytes(0, 2 * half, 12);
	config.tables = mmap(NULL, config.tables_size, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (config.tables == MAP_FAILED) {
		test_skip("no addresses for the tables");
		return;
	}
	misuse_count = 0;
	CHECK_EQUAL(fallow_frames_init(&frames, &config), FALLOW_OK);
	CHECK_EQUAL(fallow_frames_add(&frames, 0, 2 * half), FALLOW_OK);
	CHECK(!fallow_frames_claim(&frames, 0, 44));
	expect_misuse(FALLOW_FRAMES_BAD_SIZE, 0, 44);
	CHECK(fallow_frames_claim(&frames, 0, 43));
	CHECK(fallow_frames_claim(&frames, half, 43));
	fallow_frames_give(&frames, 0, 44);
	expect_misuse(FALLOW_FRAMES_BAD_SIZE, 0, 44);
	CHECK_EQUAL(counts_now().free, 0);
	/* None can be had of a size that is one: no misuse. */
	CHECK_EQUAL(fallow_frames_take(&frames, 44), FALLOW_FRAME_NONE);
	CHECK_EQUAL(misuse_count, 0);
	fallow_frames_give(&frames, half, 43);
	CHECK_EQUAL(counts_now().free, half);
	CHECK_EQUAL(counts_now().largest_log2, 43);
	expect_whole();
	munmap(config.tables, config.tables_size);
}

static void test_frames_misuse(void)
{
	uint64_t a, free_before;

	start();
	CHECK_EQUAL(fallow_frames_add(&frames, 16 * MIB, 3 * MIB), FALLOW_OK);
	a = fallow_frames_take(&frames, 16);
	free_before = counts_now().free;

	fallow_frames_give(&frames, 16 * MIB, 12);
	expect_misuse(FALLOW_FRAMES_DOUBLE_GIVE, 16 * MIB, 12);
	/* A part is free, around what is taken. */
	fallow_frames_give(&frames, a & ~(MIB - 1), 20);
	expect_misuse(FALLOW_FRAMES_DOUBLE_GIVE, a & ~(MIB - 1), 20);
	fallow_frames_give(&frames, 15 * MIB, 12);
	expect_misuse(FALLOW_FRAMES_FOREIGN, 15 * MIB, 12);
	fallow_frames_give(&frames, 19 * MIB, 12);
	expect_misuse(FALLOW_FRAMES_FOREIGN, 19 * MIB, 12);
	/* Begins inside and ends outside. */
	fallow_frames_give(&frames, 18 * MIB, 21);
	expect_misuse(FALLOW_FRAMES_FOREIGN, 18 * MIB, 21);
	fallow_frames_give(&frames, FALLOW_FRAME_NONE, 12);
	expect_misuse(FALLOW_FRAMES_MISALIGNED, FALLOW_FRAME_NONE, 12);
	fallow_frames_give(&frames, a + G, 13);
	expect_misuse(FALLOW_FRAMES_MISALIGNED, a + G, 13);
	fallow_frames_give(&frames, a, 11);
	expect_misuse(FALLOW_FRAMES_BAD_SIZE, a, 11);
	fallow_frames_give(&frames, a, 64);
	expect_misuse(FALLOW_FRAMES_BAD_SIZE, a, 64);
	CHECK(!fallow_frames_claim(&frames, a + 1, 12));
	expect_misuse(FALLOW_FRAMES_MISALIGNED, a + 1, 12);
	CHECK(!fallow_frames_claim(&frames, 0, 77));
	expect_misuse(FALLOW_FRAMES_BAD_SIZE, 0, 77);
	CHECK_EQUAL(fallow_frames_take(&frames, 0), FALLOW_FRAME_NONE);
	expect_misuse(FALLOW_FRAMES_BAD_SIZE, FALLOW_FRAME_NONE, 0);
	CHECK_EQUAL(
		fallow_frames_take_below(&frames, 64, 1), FALLOW_FRAME_NONE);
	expect_misuse(FALLOW_FRAMES_BAD_SIZE, FALLOW_FRAME_NONE, 64);

	CHECK_EQUAL(counts_now().free, free_before);
	CHECK_EQUAL(counts_now().misuses, 13);
	expect_whole();
	fallow_frames_give(&frames, a, 16);
	CHECK_EQUAL(counts_now().free, 3 * MIB);
	expect_whole();
}

/* Without a hook misuse is counted and does nothing. */
static void test_frames_misuse_quiet(void)
{
	struct fallow_frames_config config = config_in();

	config.misuse = NULL;
	CHECK_EQUAL(fallow_frames_init(&frames, &config), FALLOW_OK);
	CHECK_EQUAL(fallow_frames_add(&frames, MIB, MIB), FALLOW_OK);
	fallow_frames_give(&frames, MIB, 20);
	CHECK_EQUAL(counts_now().misuses, 1);
	CHECK_EQUAL(counts_now().free, MIB);
}

static void test_frames_texts(void)
{
	for (int kind = -1; kind <= FALLOW_FRAMES_MISUSE_COUNT; kind++) {
		const char *text = fallow_frames_misuse_text(
			(enum fallow_frames_misuse_kind)kind);

		CHECK(text && *text);
	}
}

static void test_frames_bad_config(void)
{
	struct fallow_frames_config config = config_in();

	CHECK_EQUAL(
		fallow_frames_init(NULL, &config), FALLOW_MISSING_ARGUMENT);
	CHECK_EQUAL(
		fallow_frames_init(&frames, NULL), FALLOW_MISSING_ARGUMENT);
	config.size = 0;
	CHECK_EQUAL(
		fallow_frames_init(&frames, &config), FALLOW_BAD_SIZE_FIELD);
	config.size = sizeof(config) + 1;
	CHECK_EQUAL(
		fallow_frames_init(&frames, &config), FALLOW_BAD_SIZE_FIELD);
	config = config_in();
	config.granule_log2 = 7;
	CHECK_EQUAL(fallow_frames_init(&frames, &config), FALLOW_BAD_GRANULE);
	config.granule_log2 = 31;
	CHECK_EQUAL(fallow_frames_init(&frames, &config), FALLOW_BAD_GRANULE);
	config = config_in();
	config.tables = tables + 8;
	CHECK_EQUAL(fallow_frames_init(&frames, &config), FALLOW_BAD_TABLES);
}

static void test_frames_bad_regions(void)
{
	start();
	CHECK_EQUAL(fallow_frames_add(NULL, 0, MIB), FALLOW_MISSING_ARGUMENT);
	CHECK_EQUAL(
		fallow_frames_add(&frames, MIB, -MIB), FALLOW_RANGE_WRAPS);
	CHECK_EQUAL(
		fallow_frames_add(&frames, 2 * MIB, -MIB), FALLOW_RANGE_WRAPS);
	CHECK_EQUAL(fallow_frames_add(&frames, UINT64_MAX, UINT64_MAX),
		FALLOW_RANGE_WRAPS);
	CHECK_EQUAL(
		fallow_frames_add(&frames, MIB, 0), FALLOW_REGION_TOO_SMALL);
	CHECK_EQUAL(fallow_frames_add(&frames, MIB, G - 1),
		FALLOW_REGION_TOO_SMALL);
	CHECK_EQUAL(fallow_frames_add(&frames, MIB + 1, 2 * G - 2),
		FALLOW_REGION_TOO_SMALL);
	CHECK_EQUAL(fallow_frames_add(&frames, UINT64_MAX - 5, 3),
		FALLOW_REGION_TOO_SMALL);
	CHECK_EQUAL(fallow_frames_add(&frames, 0, (uint64_t)1 << 63),
		FALLOW_BAD_SETTING);
	/* Large enough to be refused for want of tables, not before. */
	CHECK_EQUAL(fallow_frames_add(&frames, 0, (uint64_t)1 << 43),
		FALLOW_NO_TABLE_MEMORY);
	CHECK_EQUAL(counts_now().regions, 0);
	CHECK_EQUAL(counts_now().total, 0);
	CHECK_EQUAL(fallow_frames_take(&frames, 12), FALLOW_FRAME_NONE);
	CHECK_EQUAL(fallow_frames_add(&frames, MIB, MIB), FALLOW_OK);
	CHECK_EQUAL(
		fallow_frames_add(&frames, MIB, MIB), FALLOW_REGION_OVERLAPS);
	CHECK_EQUAL(fallow_frames_add(&frames, 0, MIB + G),
		FALLOW_REGION_OVERLAPS);
	CHECK_EQUAL(fallow_frames_add(&frames, 2 * MIB - G, MIB),
		FALLOW_REGION_OVERLAPS);
	CHECK_EQUAL(fallow_frames_add(&frames, 0, 4 * MIB),
		FALLOW_REGION_OVERLAPS);
	/* What overlaps only by a part of a granule does not. */
	CHECK_EQUAL(
		fallow_frames_add(&frames, 2 * MIB - 1, MIB), FALLOW_OK);
	CHECK_EQUAL(counts_now().regions, 2);
	for (unsigned i = 2; i < FALLOW_FRAMES_REGIONS_MAX; i++)
		CHECK_EQUAL(fallow_frames_add(&frames, i * GIB, G), FALLOW_OK);
	CHECK_EQUAL(fallow_frames_add(&frames, 99 * GIB, G),
		FALLOW_TOO_MANY_REGIONS);
	expect_whole();
}

/* What is excluded is not in what is handed over, whatever the order. */
static void test_frames_exclude(void)
{
	start();
	CHECK_EQUAL(
		fallow_frames_exclude(NULL, 0, 1), FALLOW_MISSING_ARGUMENT);
	CHECK_EQUAL(fallow_frames_exclude(&frames, 5, 0), FALLOW_OK);
	CHECK_EQUAL(fallow_frames_exclude(&frames, 2, UINT64_MAX),
		FALLOW_RANGE_WRAPS);
	CHECK_EQUAL(fallow_frames_exclude(&frames, UINT64_MAX - 9, 9),
		FALLOW_RANGE_WRAPS);
	CHECK_EQUAL(
		fallow_frames_exclude(&frames, 3 * MIB + 5, 10), FALLOW_OK);
	CHECK_EQUAL(
		fallow_frames_exclude(&frames, 2 * MIB, 2 * G), FALLOW_OK);
	CHECK_EQUAL(fallow_frames_exclude(&frames, 2 * MIB - 1, G + 2),
		FALLOW_OK);
	CHECK_EQUAL(fallow_frames_exclude(&frames, 0, MIB + 1), FALLOW_OK);
	CHECK_EQUAL(fallow_frames_exclude(&frames, 4 * MIB - G, 9 * MIB),
		FALLOW_OK);
	CHECK_EQUAL(fallow_frames_add(&frames, 0, 4 * MIB), FALLOW_OK);
	CHECK_EQUAL(counts_now().regions, 3);
	/* 256 + 1 below, 3 around 2 MiB, 1 at 3 MiB, 1 at the end. */
	CHECK_EQUAL(counts_now().free, 4 * MIB - (256 + 1 + 3 + 1 + 1) * G);
	CHECK(!fallow_frames_claim(&frames, MIB, 12));
	CHECK(fallow_frames_claim(&frames, MIB + G, 12));
	CHECK(!fallow_frames_claim(&frames, 2 * MIB - G, 12));
	CHECK(!fallow_frames_claim(&frames, 3 * MIB, 12));
	CHECK(fallow_frames_claim(&frames, 3 * MIB + G, 12));
	CHECK(!fallow_frames_claim(&frames, 4 * MIB - G, 12));
	fallow_frames_give(&frames, 3 * MIB, 12);
	expect_misuse(FALLOW_FRAMES_FOREIGN, 3 * MIB, 12);
	CHECK_EQUAL(fallow_frames_exclude(&frames, 4 * MIB - 2 * G, 1),
		FALLOW_REGION_OVERLAPS);
	CHECK_EQUAL(fallow_frames_add(&frames, 6 * MIB, MIB),
		FALLOW_REGION_TOO_SMALL);
	for (unsigned i = 5; i < FALLOW_FRAMES_EXCLUDED_MAX; i++)
		CHECK_EQUAL(fallow_frames_exclude(&frames, GIB, 1), FALLOW_OK);
	CHECK_EQUAL(fallow_frames_exclude(&frames, GIB, 1),
		FALLOW_TOO_MANY_REGIONS);
	expect_whole();
}

#define BUFFER (8 * MIB)
static unsigned char *buffer;

/* As start(), without tables, over `buffer` as physical `base`. */
static void start_carving(uint64_t base, uint64_t direct_end)
{
	struct fallow_frames_config config = config_in();

	if (!buffer)
		buffer = aligned_alloc(MIB, BUFFER);
	memset(buffer, 0x5a, BUFFER);
	misuse_count = 0;
	config.tables = NULL;
	config.tables_size = 77; /* ignored without tables */
	config.direct_offset = (uintptr_t)buffer - (uintptr_t)base;
	config.direct_end = direct_end;
	CHECK_EQUAL(fallow_frames_init(&frames, &config), FALLOW_OK);
}

/* Takes all that is free, granule by granule: none of it was touched. */
static void drain_untouched(uint64_t base, uint64_t size)
{
	uint64_t frame, n = 0, free_before = counts_now().free;

	while ((frame = fallow_frames_take(&frames, 12)) !=
		FALLOW_FRAME_NONE) {
		CHECK_OR_RETURN(frame >= base && frame < base + size);
		n++;
		if (frame >= base + BUFFER)
			continue;
		for (unsigned i = 0; i < G; i++)
			CHECK_OR_RETURN(
				buffer[frame - base + i] == 0x5a);
		memset(buffer + (frame - base), 0x11, G);
	}
	CHECK_EQUAL(n * G, free_before);
	expect_whole();
}

/* The less aligned end carries the table. */
static void test_frames_carve(void)
{
	start_carving(MIB, 0);
	CHECK_EQUAL(fallow_frames_add(&frames, MIB, 7 * MIB), FALLOW_OK);
	CHECK_EQUAL(counts_now().total, 7 * MIB - G);
	CHECK(fallow_frames_claim(&frames, 8 * MIB - G, 12));
	CHECK(!fallow_frames_claim(&frames, MIB, 12));
	fallow_frames_give(&frames, MIB, 12);
	expect_misuse(FALLOW_FRAMES_FOREIGN, MIB, 12);
	fallow_frames_give(&frames, 8 * MIB - G, 12);
	drain_untouched(MIB, 7 * MIB);

	start_carving(2 * MIB, 0);
	CHECK_EQUAL(fallow_frames_add(&frames, 2 * MIB, 3 * MIB), FALLOW_OK);
	CHECK(fallow_frames_claim(&frames, 2 * MIB, 12));
	CHECK(!fallow_frames_claim(&frames, 5 * MIB - G, 12));
	fallow_frames_give(&frames, 2 * MIB, 12);
	drain_untouched(2 * MIB, 3 * MIB);
}

/* The rest of a carved granule serves regions that could not carry their own
 * table, and a first region of one granule cannot. */
static void test_frames_carve_rest(void)
{
	start_carving(MIB, 0);
	CHECK_EQUAL(
		fallow_frames_add(&frames, MIB, G), FALLOW_REGION_TOO_SMALL);
	CHECK_EQUAL(fallow_frames_add(&frames, 2 * MIB, MIB), FALLOW_OK);
	CHECK_EQUAL(counts_now().total, MIB - G);
	CHECK_EQUAL(fallow_frames_add(&frames, MIB, G), FALLOW_OK);
	CHECK_EQUAL(counts_now().total, MIB);
	CHECK_EQUAL(counts_now().regions, 2);
	drain_untouched(MIB, BUFFER);
}

/* A region that the direct map does not reach, in whole or in part, takes its
 * table from where it does. */
static void test_frames_carve_reach(void)
{
	uint64_t far = 64 * GIB, tables_before;

	start_carving(0, 4 * MIB);
	CHECK_EQUAL(
		fallow_frames_add(&frames, far, GIB), FALLOW_NO_TABLE_MEMORY);
	/* 3 MiB is less aligned than 8 MiB; the end is out of reach. */
	CHECK_EQUAL(fallow_frames_add(&frames, 0, 6 * MIB), FALLOW_OK);
	CHECK(!fallow_frames_claim(&frames, 0, 12));
	CHECK_EQUAL(counts_now().total, 6 * MIB - G);
	tables_before = counts_now().tables;
	CHECK_EQUAL(fallow_frames_add(&frames, far, 4 * GIB), FALLOW_OK);
	CHECK_EQUAL(counts_now().tables - tables_before,
		fallow_frames_table_bytes(far, 4 * GIB, 0));
	CHECK_EQUAL(counts_now().total,
		6 * MIB - G + 4 * GIB -
			(counts_now().tables - tables_before + G - 1) / G * G);
	CHECK_EQUAL(counts_now().free, counts_now().total);
	CHECK_EQUAL(fallow_frames_take(&frames, 32), far);
	expect_whole();
	drain_untouched(0, 6 * MIB);

	/* Nothing is left to make a table of. */
	CHECK_EQUAL(fallow_frames_add(&frames, 2 * far, GIB),
		FALLOW_NO_TABLE_MEMORY);
	expect_whole();
}

/* fallow_frames_table_bytes() is enough, and one byte less is not. */
static void test_frames_table_bytes(void)
{
	uint64_t seed = test_seed;

	CHECK_EQUAL(fallow_frames_table_bytes(0, 0, 12), 0);
	CHECK_EQUAL(fallow_frames_table_bytes(1, G, 12), 0);
	CHECK_EQUAL(fallow_frames_table_bytes(MIB, UINT64_MAX, 12), 0);
	CHECK_EQUAL(fallow_frames_table_bytes(0, MIB, 7), 0);
	CHECK_EQUAL(fallow_frames_table_bytes(0, MIB, 31), 0);
	CHECK_EQUAL(fallow_frames_table_bytes(0, MIB, 0),
		fallow_frames_table_bytes(0, MIB, 12));
	/* 0.006 %: 4 bytes a 64 KiB, plus one region. */
	CHECK(fallow_frames_table_bytes(0, GIB, 12) < GIB / 16384 + 512);
	for (unsigned n = 0; n < 500; n++) {
		struct fallow_frames_config config = config_in();
		uint64_t base = test_random(&seed) % (8 * GIB);
		uint64_t size = 3 * G + test_random(&seed) % (4 * GIB);
		size_t need = fallow_frames_table_bytes(base, size, 12);

		config.tables_size = need;
		CHECK_OR_RETURN(need <= sizeof(tables));
		CHECK_EQUAL(fallow_frames_init(&frames, &config), FALLOW_OK);
		CHECK_EQUAL(fallow_frames_add(&frames, base, size), FALLOW_OK);
		CHECK_EQUAL(counts_now().tables, need);
		config.tables_size--;
		CHECK_EQUAL(fallow_frames_init(&frames, &config), FALLOW_OK);
		CHECK_EQUAL(fallow_frames_add(&frames, base, size),
			FALLOW_NO_TABLE_MEMORY);
	}
}

static void test_frames_hooks(void)
{
	struct fallow_frame_hooks hooks;
	uint64_t frame;

	start();
	CHECK_EQUAL(fallow_frames_add(&frames, MIB, MIB), FALLOW_OK);
	hooks = fallow_frames_hooks(&frames);
	frame = hooks.take(hooks.ctx, 16);
	CHECK_EQUAL(frame, 2 * MIB - 65536);
	CHECK(!hooks.claim(hooks.ctx, frame, 12));
	hooks.give(hooks.ctx, frame, 16);
	CHECK(hooks.claim(hooks.ctx, frame, 12));
	hooks.give(hooks.ctx, frame, 12);
	CHECK_EQUAL(counts_now().takes, 2);
	CHECK_EQUAL(counts_now().gives, 2);
	CHECK_EQUAL(counts_now().failures, 1);
	CHECK_EQUAL(counts_now().free_low, MIB - 65536);
	CHECK_EQUAL(counts_now().largest_log2, 20);
	expect_whole();
}

/* A caller that knows a shorter struct gets no more than that. */
static void test_frames_counts_short(void)
{
	struct fallow_frames_counts counts;

	start();
	CHECK_EQUAL(fallow_frames_add(&frames, MIB, MIB), FALLOW_OK);
	memset(&counts, 0x77, sizeof(counts));
	counts.size = offsetof(struct fallow_frames_counts, free);
	fallow_frames_counts(&frames, &counts);
	CHECK_EQUAL(counts.total, MIB);
	CHECK_EQUAL(counts.free, 0x7777777777777777u);
}

const struct test tests[] = {
	{ "frames_random", test_frames_random },
	{ "frames_best_fit", test_frames_best_fit },
	{ "frames_below", test_frames_below },
	{ "frames_extremes", test_frames_extremes },
	{ "frames_large", test_frames_large },
	{ "frames_granules", test_frames_granules },
	{ "frames_order_max", test_frames_order_max },
	{ "frames_misuse", test_frames_misuse },
	{ "frames_misuse_quiet", test_frames_misuse_quiet },
	{ "frames_texts", test_frames_texts },
	{ "frames_bad_config", test_frames_bad_config },
	{ "frames_bad_regions", test_frames_bad_regions },
	{ "frames_exclude", test_frames_exclude },
	{ "frames_carve", test_frames_carve },
	{ "frames_carve_rest", test_frames_carve_rest },
	{ "frames_carve_reach", test_frames_carve_reach },
	{ "frames_table_bytes", test_frames_table_bytes },
	{ "frames_hooks", test_frames_hooks },
	{ "frames_counts_short", test_frames_counts_short },
	{ NULL, NULL },
};
