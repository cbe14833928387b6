/* SPDX-License-Identifier: MIT */
/*
 * The direct provider over the frame allocator, against a shadow of runs that
 * must never overlap; and over hooks that count and refuse.
 */
#include <fallow/direct.h>

#include "config.h"
#include "test.h"

#include <string.h>

#define G ((uint64_t)1 << FALLOW_GRANULE_LOG2)
#define MIB ((uint64_t)1 << 20)
#define OFFSET ((uintptr_t)0xffff800000000000u)

static struct fallow_frames frames;
static struct fallow_frame_hooks hooks;
static struct fallow_direct direct;
static _Alignas(64) unsigned char tables[1 << 18];
static unsigned misuses;

static void on_misuse(void *ctx, const struct fallow_frames_misuse *report)
{
	(void)ctx;
	test_printf("misuse: %s, frame %llx\n",
		fallow_frames_misuse_text(report->kind),
		(unsigned long long)report->frame);
	misuses++;
}

static struct fallow_direct_config config_make(uintptr_t offset)
{
	return (struct fallow_direct_config){
		.size = sizeof(struct fallow_direct_config),
		.hooks = &hooks,
		.offset = offset,
		.window_base = offset,
		.window_size = 0x7fffffff0000u,
	};
}

/* Frames without memory behind them, and the provider over them. */
static void start(uintptr_t offset)
{
	struct fallow_frames_config config = {
		.size = sizeof(config),
		.granule_log2 = FALLOW_GRANULE_LOG2,
		.direct_end = 1,
		.tables = tables,
		.tables_size = sizeof(tables),
		.misuse = on_misuse,
	};
	struct fallow_direct_config direct_config = config_make(offset);

	misuses = 0;
	CHECK_EQUAL(fallow_frames_init(&frames, &config), FALLOW_OK);
	hooks = fallow_frames_hooks(&frames);
	CHECK_EQUAL(fallow_direct_init(&direct, &direct_config), FALLOW_OK);
}

static uintptr_t reserve(size_t size, size_t align)
{
	return direct.provider.reserve(direct.provider.ctx, size, align);
}

static void release(uintptr_t base, size_t size)
{
	direct.provider.release(direct.provider.ctx, base, size);
}

static uint64_t free_now(void)
{
	struct fallow_frames_counts counts = { .size = sizeof(counts) };
	uint64_t where;

	fallow_frames_counts(&frames, &counts);
	CHECK(!fallow_frames_check(&frames, &where));
	CHECK_EQUAL(misuses, 0);
	return counts.free;
}

static void test_direct_provider(void)
{
	start(OFFSET);
	CHECK_EQUAL(direct.provider.size, sizeof(struct fallow_provider));
	CHECK_EQUAL(direct.provider.provider_class, FALLOW_CLASS_DIRECT);
	CHECK_EQUAL(direct.provider.granule_log2, FALLOW_GRANULE_LOG2);
	CHECK(!direct.provider.commit && !direct.provider.now);
	CHECK_EQUAL(reserve(G, G), 0);
}

/* Not one granule more than the size is taken, at the alignment asked for. */
static void test_direct_exact(void)
{
	start(OFFSET);
	CHECK_EQUAL(fallow_frames_add(&frames, MIB, 63 * MIB), FALLOW_OK);
	for (size_t size = G; size < 300 * G; size += G)
		for (size_t align = G; align <= 64 * G; align *= 2) {
			uintptr_t a = reserve(size, align);

			CHECK(a >= OFFSET + MIB && a % align == 0);
			CHECK_EQUAL(free_now(), 63 * MIB - size);
			release(a, size);
			CHECK_EQUAL(free_now(), 63 * MIB);
		}
}

/* More than half of the memory is had by assembling, and a failure leaves
 * everything as it was. */
static void test_direct_assemble(void)
{
	uintptr_t a, b;

	start(OFFSET);
	CHECK_EQUAL(fallow_frames_add(&frames, 0, 63 * MIB), FALLOW_OK);
	CHECK(fallow_frames_claim(&frames, 0, FALLOW_GRANULE_LOG2));
	CHECK(fallow_frames_claim(&frames, 62 * MIB, 20));
	/* A granule to 62 MiB is free. */
	CHECK_EQUAL(reserve(63 * MIB, G), 0);
	CHECK_EQUAL(free_now(), 62 * MIB - G);
	/* The run begins at the seed, the 16 MiB from 32 on. */
	a = reserve(30 * MIB, G);
	CHECK_EQUAL(a, OFFSET + 32 * MIB);
	CHECK_EQUAL(free_now(), 32 * MIB - G);
	b = reserve(16 * MIB, 16 * MIB);
	CHECK_EQUAL(b, OFFSET + 16 * MIB);
	release(a, 30 * MIB);
	release(b, 16 * MIB);
	CHECK_EQUAL(free_now(), 62 * MIB - G);
	/* Assembled, but the alignment is larger than any piece. */
	CHECK_EQUAL(reserve(20 * MIB, 64 * MIB), 0);
	CHECK_EQUAL(free_now(), 62 * MIB - G);

	/* Without claim there is no assembling. */
	direct.hooks.claim = NULL;
	CHECK_EQUAL(reserve(30 * MIB, G), 0);
	CHECK_EQUAL(free_now(), 62 * MIB - G);
}

/* The run that is free lies before the seed, or on both sides of it; what was
 * claimed and is not needed goes back. */
static void test_direct_assemble_before(void)
{
	uintptr_t a;

	/* 2 GiB, of which the first 2 MiB are the kernel's. */
	start(OFFSET);
	CHECK_EQUAL(fallow_frames_add(&frames, 2 * MIB, 2046 * MIB),
		FALLOW_OK);
	a = reserve(1536 * MIB, 2 * MIB);
	CHECK_EQUAL(a, OFFSET + 512 * MIB);
	CHECK_EQUAL(free_now(), 510 * MIB);
	release(a, 1536 * MIB);
	a = reserve(2046 * MIB, 2 * MIB);
	CHECK_EQUAL(a, OFFSET + 2 * MIB);
	CHECK_EQUAL(free_now(), 0);
	release(a, 2046 * MIB);
	CHECK_EQUAL(reserve(2046 * MIB + G, G), 0);
	CHECK_EQUAL(reserve(2046 * MIB, 4 * MIB), 0);
	CHECK_EQUAL(free_now(), 2046 * MIB);

	/* All of it, from 1 to 4 MiB. */
	start(OFFSET);
	CHECK_EQUAL(fallow_frames_add(&frames, MIB, 3 * MIB), FALLOW_OK);
	CHECK_EQUAL(reserve(3 * MIB, G), OFFSET + MIB);
	CHECK_EQUAL(free_now(), 0);

	/* A seed of a quarter: 1 to 7 MiB has no aligned 4 MiB in it. */
	start(OFFSET);
	CHECK_EQUAL(fallow_frames_add(&frames, MIB, 6 * MIB), FALLOW_OK);
	CHECK_EQUAL(reserve(6 * MIB, G), OFFSET + MIB);
	CHECK_EQUAL(free_now(), 0);

	/* The end of what is free is no multiple of the alignment: what was
	 * claimed behind the run goes back. */
	start(OFFSET);
	CHECK_EQUAL(fallow_frames_add(&frames, MIB, 3 * MIB - G), FALLOW_OK);
	a = reserve(2 * MIB + MIB / 2, 64 * 1024);
	CHECK_EQUAL(a % (64 * 1024), 0);
	CHECK(a >= OFFSET + MIB && a + 2 * MIB + MIB / 2 <= OFFSET + 4 * MIB);
	CHECK_EQUAL(free_now(), MIB / 2 - G);
	release(a, 2 * MIB + MIB / 2);
	CHECK_EQUAL(free_now(), 3 * MIB - G);
}

/* A part of a run goes back, from any end or the middle. */
static void test_direct_parts(void)
{
	uintptr_t a;

	start(OFFSET);
	CHECK_EQUAL(fallow_frames_add(&frames, 0, 32 * MIB), FALLOW_OK);
	a = reserve(1000 * G, G);
	release(a + 13 * G, 700 * G);
	CHECK_EQUAL(free_now(), 32 * MIB - 300 * G);
	release(a, 13 * G);
	release(a + 713 * G, 287 * G);
	CHECK_EQUAL(free_now(), 32 * MIB);
	CHECK(fallow_frames_claim(&frames, 0, 25));
}

/* Address 0 means "none" and is never returned, though frame 0 exists. */
static void test_direct_zero(void)
{
	uintptr_t a, seen = 0;

	start(0);
	CHECK_EQUAL(fallow_frames_add(&frames, 0, 8 * G), FALLOW_OK);
	for (unsigned i = 0; i < 7; i++) {
		a = reserve(G, G);
		CHECK(a != 0);
		seen |= (uintptr_t)1 << a / G;
	}
	CHECK_EQUAL(seen, 0xfe);
	CHECK_EQUAL(reserve(G, G), 0);
	CHECK_EQUAL(free_now(), G);
	for (unsigned i = 1; i < 8; i++)
		release(i * G, G);
	CHECK_EQUAL(reserve(8 * G, G), 0);
	CHECK_EQUAL(reserve(4 * G, G), 4 * G);
}

/* Nothing outside of the window is returned, and it all goes back. */
static void test_direct_window(void)
{
	struct fallow_direct_config config = config_make(OFFSET);

	start(OFFSET);
	CHECK_EQUAL(fallow_frames_add(&frames, MIB, 3 * MIB), FALLOW_OK);
	config.window_base = OFFSET + 2 * MIB;
	config.window_size = 16 * G;
	CHECK_EQUAL(fallow_direct_init(&direct, &config), FALLOW_OK);
	CHECK_EQUAL(reserve(G, G), 0);
	CHECK_EQUAL(free_now(), 3 * MIB);
	CHECK(fallow_frames_claim(&frames, 2 * MIB, 21));
	CHECK_EQUAL(reserve(G, G), 0);
	fallow_frames_give(&frames, 2 * MIB, FALLOW_GRANULE_LOG2 + 2);
	CHECK_EQUAL(reserve(2 * G, G), OFFSET + 2 * MIB + 2 * G);
	CHECK_EQUAL(reserve(2 * G, 2 * G), OFFSET + 2 * MIB);
	release(OFFSET + 2 * MIB, 4 * G);
	/* Begins inside and ends outside. */
	config.window_size = 3 * G;
	CHECK_EQUAL(fallow_direct_init(&direct, &config), FALLOW_OK);
	CHECK_EQUAL(reserve(4 * G, G), 0);
	CHECK_EQUAL(free_now(), MIB + 4 * G);
}

static void test_direct_sizes_extreme(void)
{
	start(OFFSET);
	CHECK_EQUAL(fallow_frames_add(&frames, MIB, 3 * MIB), FALLOW_OK);
	CHECK_EQUAL(reserve(SIZE_MAX - G + 1, G), 0);
	CHECK_EQUAL(reserve((size_t)1 << 63, G), 0);
	CHECK_EQUAL(reserve(((size_t)1 << 62) + G, G), 0);
	CHECK_EQUAL(reserve(G, (size_t)1 << 63), 0);
	CHECK_EQUAL(free_now(), 3 * MIB);
}

#define GRANULES 4096u
#define RUNS 64u

static unsigned char shadow[GRANULES];
static struct {
	uintptr_t base;
	size_t size;
} runs[RUNS];

/* Marks a run; every granule of it must have been the other way. */
static void shadow_set(uintptr_t base, size_t size, unsigned char value)
{
	for (size_t at = 0; at < size; at += G) {
		size_t i = (base - OFFSET + at) / G;

		CHECK_OR_RETURN(i < GRANULES && shadow[i] != value);
		shadow[i] = value;
	}
}

/* Releases a random run, or a random part of it from one end. */
static void random_release(unsigned i, uint64_t *seed)
{
	size_t part = (1 + test_random(seed) % (runs[i].size / G)) * G;

	if (test_random(seed) % 2) {
		shadow_set(runs[i].base, part, 0);
		release(runs[i].base, part);
		runs[i].base += part;
	} else {
		shadow_set(runs[i].base + runs[i].size - part, part, 0);
		release(runs[i].base + runs[i].size - part, part);
	}
	runs[i].size -= part;
}

static void test_direct_random(void)
{
	uint64_t seed = test_seed, used = 0, none = 0;

	start(OFFSET);
	memset(shadow, 0, sizeof(shadow));
	memset(runs, 0, sizeof(runs));
	CHECK_EQUAL(fallow_frames_add(&frames, 0, GRANULES * G), FALLOW_OK);
	for (unsigned n = 0; n < 40000 && !test_failures(); n++) {
		unsigned i = (unsigned)(test_random(&seed) % RUNS);
		size_t align = G << test_random(&seed) % 6;

		if (runs[i].size) {
			used -= runs[i].size;
			random_release(i, &seed);
			used += runs[i].size;
		} else {
			size_t size = (1 + test_random(&seed) % 150) * G;

			runs[i].base = reserve(size, align);
			none += runs[i].base == 0;
			if (!runs[i].base)
				continue;
			CHECK_EQUAL(runs[i].base % align, 0);
			shadow_set(runs[i].base, size, 1);
			runs[i].size = size;
			used += size;
		}
		if (n % 500 == 0)
			CHECK_EQUAL(free_now(), GRANULES * G - used);
	}
	CHECK(none > 0);
	for (unsigned i = 0; i < RUNS; i++)
		if (runs[i].size)
			release(runs[i].base, runs[i].size);
	CHECK_EQUAL(free_now(), GRANULES * G);
}

static uint64_t clock_now(void *ctx)
{
	return ++*(uint64_t *)ctx;
}

static void test_direct_clock(void)
{
	struct fallow_direct_config config = config_make(OFFSET);
	uint64_t ticks = 41;

	start(OFFSET);
	config.now = clock_now;
	config.now_ctx = &ticks;
	CHECK_EQUAL(fallow_direct_init(&direct, &config), FALLOW_OK);
	CHECK_EQUAL(direct.provider.now(direct.provider.ctx), 42);
}

static void test_direct_bad_config(void)
{
	struct fallow_direct_config config = config_make(OFFSET);
	struct fallow_frame_hooks broken = hooks;

	CHECK_EQUAL(
		fallow_direct_init(NULL, &config), FALLOW_MISSING_ARGUMENT);
	CHECK_EQUAL(
		fallow_direct_init(&direct, NULL), FALLOW_MISSING_ARGUMENT);
	config.size = 0;
	CHECK_EQUAL(
		fallow_direct_init(&direct, &config), FALLOW_BAD_SIZE_FIELD);
	config.size = sizeof(config) + 8;
	CHECK_EQUAL(
		fallow_direct_init(&direct, &config), FALLOW_BAD_SIZE_FIELD);
	config = config_make(OFFSET);
	config.hooks = NULL;
	CHECK_EQUAL(
		fallow_direct_init(&direct, &config), FALLOW_MISSING_ARGUMENT);
	config.hooks = &broken;
	broken.take = NULL;
	CHECK_EQUAL(
		fallow_direct_init(&direct, &config), FALLOW_MISSING_ARGUMENT);
	broken = hooks;
	broken.give = NULL;
	CHECK_EQUAL(
		fallow_direct_init(&direct, &config), FALLOW_MISSING_ARGUMENT);
	config = config_make(OFFSET);
	config.window_size = (size_t)1 << 63;
	CHECK_EQUAL(fallow_direct_init(&direct, &config), FALLOW_RANGE_WRAPS);
	/* An older caller's struct ends before the clock. */
	config = config_make(OFFSET);
	config.now = clock_now;
	config.size = offsetof(struct fallow_direct_config, now);
	CHECK_EQUAL(fallow_direct_init(&direct, &config), FALLOW_OK);
	CHECK(!direct.provider.now);
}

const struct test tests[] = {
	{ "direct_provider", test_direct_provider },
	{ "direct_exact", test_direct_exact },
	{ "direct_assemble", test_direct_assemble },
	{ "direct_assemble_before", test_direct_assemble_before },
	{ "direct_parts", test_direct_parts },
	{ "direct_zero", test_direct_zero },
	{ "direct_window", test_direct_window },
	{ "direct_sizes_extreme", test_direct_sizes_extreme },
	{ "direct_random", test_direct_random },
	{ "direct_clock", test_direct_clock },
	{ "direct_bad_config", test_direct_bad_config },
	{ NULL, NULL },
};
