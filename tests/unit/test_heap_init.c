/* SPDX-License-Identifier: MIT */
/*
 * What fallow_init() and fallow_add_region() refuse: every status, with each
 * cause that its comment names; what they accept at the edge of each; and that
 * a refusal leaves nothing behind.
 */
#include <string.h>

#include "config.h"
#include "sim_rig.h"
#include "test.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define WINDOW (64 * MIB)

/* The status must be as expected; names the cause if it is not. */
static void status_expect(
	enum fallow_status seen, enum fallow_status expected, const char *cause)
{
	if (seen == expected)
		return;
	test_printf("\n    %s: seen \"%s\"", cause, fallow_status_text(seen));
	CHECK_EQUAL(seen, expected);
}

/* fallow_init() must refuse the rig's configuration; ends the rig. */
static void init_refuses(
	struct rig *rig, enum fallow_status expected, const char *cause)
{
	enum fallow_status status = fallow_init(&rig->heap, &rig->config);

	status_expect(status, expected, cause);
	rig_end_now(rig, status == FALLOW_OK);
}

static struct rig *prepare(enum fallow_provider_class class)
{
	return rig_prepare(class, WINDOW, 1);
}

static void test_init_bad_size_field(void)
{
	struct rig *rig = prepare(FALLOW_CLASS_WINDOW);

	rig->config.size = 0;
	init_refuses(rig, FALLOW_BAD_SIZE_FIELD, "config.size 0");
	rig = prepare(FALLOW_CLASS_WINDOW);
	rig->config.size = sizeof(rig->config) + 8;
	init_refuses(rig, FALLOW_BAD_SIZE_FIELD, "config.size too large");
	rig = prepare(FALLOW_CLASS_WINDOW);
	rig->sim.provider.size = 0;
	init_refuses(rig, FALLOW_BAD_SIZE_FIELD, "provider.size 0");
	rig = prepare(FALLOW_CLASS_WINDOW);
	rig->sim.provider.size = sizeof(rig->sim.provider) + 8;
	init_refuses(rig, FALLOW_BAD_SIZE_FIELD, "provider.size too large");
}

static void test_init_missing_argument(void)
{
	struct rig *rig = prepare(FALLOW_CLASS_WINDOW);

	rig->config.provider = NULL;
	init_refuses(rig, FALLOW_MISSING_ARGUMENT, "no provider");
	rig = prepare(FALLOW_CLASS_WINDOW);
	status_expect(fallow_init(NULL, &rig->config), FALLOW_MISSING_ARGUMENT,
		"no heap");
	status_expect(fallow_init(&rig->heap, NULL), FALLOW_MISSING_ARGUMENT,
		"no config");
	rig_end_now(rig, false);
}

static void test_init_bad_provider(void)
{
	struct rig *rig = prepare(FALLOW_CLASS_WINDOW);

	rig->sim.provider.provider_class = 0;
	init_refuses(rig, FALLOW_BAD_PROVIDER, "class 0");
	rig = prepare(FALLOW_CLASS_WINDOW);
	rig->sim.provider.provider_class = 4;
	init_refuses(rig, FALLOW_BAD_PROVIDER, "class 4");
	rig = prepare(FALLOW_CLASS_WINDOW);
	rig->sim.provider.commit = NULL;
	init_refuses(rig, FALLOW_BAD_PROVIDER, "window without commit");
	rig = prepare(FALLOW_CLASS_WINDOW);
	rig->sim.provider.decommit = NULL;
	init_refuses(rig, FALLOW_BAD_PROVIDER, "window without decommit");
	rig = prepare(FALLOW_CLASS_DIRECT);
	rig->sim.provider.reserve = NULL;
	init_refuses(rig, FALLOW_BAD_PROVIDER, "direct without reserve");
	rig = prepare(FALLOW_CLASS_DIRECT);
	rig->sim.provider.release = NULL;
	init_refuses(rig, FALLOW_BAD_PROVIDER, "direct without release");
}

static void test_init_bad_capability(void)
{
	struct rig *rig = prepare(FALLOW_CLASS_WINDOW);

	rig->sim.provider.capabilities = FALLOW_CAN_PROMOTE;
	init_refuses(rig, FALLOW_BAD_PROVIDER, "CAN_PROMOTE, no promote");
	rig = prepare(FALLOW_CLASS_WINDOW);
	rig->sim.provider.capabilities = FALLOW_CAN_MOVE;
	init_refuses(rig, FALLOW_BAD_PROVIDER, "CAN_MOVE, no move");
	rig = prepare(FALLOW_CLASS_FLAT);
	rig->sim.provider.discard = NULL;
	rig->sim.provider.capabilities = FALLOW_CAN_DISCARD;
	init_refuses(rig, FALLOW_BAD_PROVIDER, "CAN_DISCARD, no discard");
}

static void test_init_bad_granule(void)
{
	static const unsigned granules[] = { 0, 13, 14, 16, 21, 63, 64 };

	for (size_t i = 0; i < sizeof(granules) / sizeof(granules[0]); i++) {
		struct rig *rig = prepare(FALLOW_CLASS_WINDOW);

		rig->sim.provider.granule_log2 = granules[i];
		init_refuses(rig, FALLOW_BAD_GRANULE, "granule_log2");
	}
}

static void test_init_bad_large(void)
{
	static const unsigned larges[] = { 1, 12, 20, 22, 30, 64 };

	for (size_t i = 0; i < sizeof(larges) / sizeof(larges[0]); i++) {
		struct rig *rig = prepare(FALLOW_CLASS_WINDOW);

		rig->sim.provider.large_log2 = larges[i];
		init_refuses(rig, FALLOW_BAD_LARGE, "large_log2");
	}
}

static void test_init_bad_contexts(void)
{
	struct rig *rig = prepare(FALLOW_CLASS_WINDOW);

	rig->config.contexts = 0;
	init_refuses(rig, FALLOW_BAD_CONTEXTS, "0 contexts");
	rig = prepare(FALLOW_CLASS_WINDOW);
	rig->config.contexts = FALLOW_CONTEXTS_MAX + 1;
	init_refuses(rig, FALLOW_BAD_CONTEXTS, "too many contexts");
	rig = rig_begin(FALLOW_CLASS_WINDOW, WINDOW, FALLOW_CONTEXTS_MAX);
	oracle_alloc(&rig->oracle, 100, 0);
	rig_end(rig);
}

static void test_init_bad_setting(void)
{
	struct rig *rig = prepare(FALLOW_CLASS_WINDOW);

	rig->config.misuse_policy = 3;
	init_refuses(rig, FALLOW_BAD_SETTING, "misuse_policy 3");
	rig = prepare(FALLOW_CLASS_WINDOW);
	rig->config.floor_epochs = FALLOW_FLOOR_EPOCHS_MAX + 1;
	init_refuses(rig, FALLOW_BAD_SETTING, "floor_epochs too large");
	rig = prepare(FALLOW_CLASS_WINDOW);
	rig->config.floor_epochs = UINT32_MAX;
	init_refuses(rig, FALLOW_BAD_SETTING, "floor_epochs -1");
}

static void test_init_window_unaligned(void)
{
	struct rig *rig = prepare(FALLOW_CLASS_WINDOW);

	rig->config.window_base += 8;
	rig->config.window_size -= SIM_GRANULE;
	init_refuses(rig, FALLOW_UNALIGNED, "window_base");
	rig = prepare(FALLOW_CLASS_WINDOW);
	rig->config.window_size -= 8;
	init_refuses(rig, FALLOW_UNALIGNED, "window_size");
}

static void test_init_window_wraps(void)
{
	struct rig *rig = prepare(FALLOW_CLASS_WINDOW);

	rig->config.window_base = -(uintptr_t)(4 * MIB);
	rig->config.window_size = 8 * MIB;
	init_refuses(rig, FALLOW_RANGE_WRAPS, "window past the last address");
}

static void test_init_window_too_small(void)
{
	static const size_t sizes[] = { 0, SIM_GRANULE,
		SLICE_BYTES - SIM_GRANULE, SLICE_BYTES };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct rig *rig = prepare(FALLOW_CLASS_WINDOW);

		rig->config.window_size = sizes[i];
		init_refuses(rig, FALLOW_WINDOW_TOO_SMALL, "window_size");
	}
}

/* A window is whatever multiple of the granule: the first that is large
 * enough works, and so does each larger one around it. */
static void test_init_window_smallest(void)
{
	unsigned accepted = 0;

	for (size_t size = 64 * KIB; size <= 8 * MIB; size += 60 * KIB) {
		struct rig *rig = rig_prepare(FALLOW_CLASS_WINDOW, size, 1);
		enum fallow_status status = rig_init(rig);

		if (status == FALLOW_OK) {
			accepted++;
			CHECK(oracle_alloc(&rig->oracle, 1000, 0));
			rig_end(rig);
			continue;
		}
		CHECK_EQUAL(accepted, 0);
		if (status != FALLOW_REGION_TOO_SMALL)
			status_expect(status, FALLOW_WINDOW_TOO_SMALL,
				"a small window");
		rig_end_now(rig, false);
	}
	CHECK(accepted > 0);
}

/* The window's base may be any granule. */
static void test_init_window_skewed(void)
{
	for (size_t skew = 0; skew < 2 * MIB; skew += 31 * SIM_GRANULE) {
		struct rig *rig = prepare(FALLOW_CLASS_WINDOW);

		rig->config.window_base += skew;
		rig->config.window_size -= skew;
		rig->sim.base += skew;
		rig->sim.size -= skew;
		CHECK_EQUAL(rig_init(rig), FALLOW_OK);
		for (unsigned i = 0; i < 30; i++)
			oracle_alloc(&rig->oracle, (size_t)1 << (i % 22), 0);
		rig_end(rig);
	}
}

static void test_init_bad_tables(void)
{
	struct rig *rig = prepare(FALLOW_CLASS_FLAT);
	static _Alignas(64) unsigned char few[256];

	rig->config.tables = few;
	rig->config.tables_size = 64;
	init_refuses(rig, FALLOW_BAD_TABLES, "64 bytes of tables");
	rig = prepare(FALLOW_CLASS_FLAT);
	rig->config.tables = few + 8;
	rig->config.tables_size = 128;
	init_refuses(rig, FALLOW_BAD_TABLES, "tables unaligned");
}

static void test_init_no_table_memory(void)
{
	struct rig *rig = prepare(FALLOW_CLASS_WINDOW);

	rig->sim.refuse_from = 1;
	init_refuses(rig, FALLOW_NO_TABLE_MEMORY, "no first commit");
	rig = prepare(FALLOW_CLASS_DIRECT);
	rig->sim.refuse_from = 1;
	init_refuses(rig, FALLOW_NO_TABLE_MEMORY, "no first reserve");
}

/* A rig whose heap has no region yet. */
static struct rig *begin_bare(enum fallow_provider_class class)
{
	struct rig *rig = prepare(class);

	CHECK_EQUAL(fallow_init(&rig->heap, &rig->config), FALLOW_OK);
	oracle_begin(&rig->oracle, &rig->heap, rig->blocks, RIG_BLOCKS,
		test_seed);
	return rig;
}

static void test_region_refused(void)
{
	struct rig *rig = begin_bare(FALLOW_CLASS_WINDOW);
	uintptr_t base = rig->sim.base;
	struct fallow *heap = &rig->heap;

	status_expect(fallow_add_region(heap, base + 16 * MIB + 8, 4 * MIB),
		FALLOW_UNALIGNED, "base");
	status_expect(fallow_add_region(heap, base + 16 * MIB, 4 * MIB + 8),
		FALLOW_UNALIGNED, "size");
	status_expect(fallow_add_region(heap, base + 16 * MIB,
			      SIZE_MAX & ~(SIM_GRANULE - 1)),
		FALLOW_RANGE_WRAPS, "size wraps");
	status_expect(fallow_add_region(heap, base - 4 * MIB, 8 * MIB),
		FALLOW_OUTSIDE_WINDOW, "before the window");
	status_expect(fallow_add_region(heap, base + WINDOW - 4 * MIB, 8 * MIB),
		FALLOW_OUTSIDE_WINDOW, "past the window");
	status_expect(fallow_add_region(heap, base + 2 * WINDOW, 8 * MIB),
		FALLOW_OUTSIDE_WINDOW, "outside of the window");
	status_expect(fallow_add_region(heap, base + 16 * MIB, 0),
		FALLOW_REGION_TOO_SMALL, "nothing");
	if (SLICE_BYTES > SIM_GRANULE) {
		status_expect(fallow_add_region(
				      heap, base + 16 * MIB, SIM_GRANULE),
			FALLOW_REGION_TOO_SMALL, "a granule");
		status_expect(fallow_add_region(heap,
				      base + 16 * MIB + SIM_GRANULE,
				      SLICE_BYTES),
			FALLOW_REGION_TOO_SMALL, "no whole slice");
	}
	CHECK(fallow_alloc(heap, 1) == NULL);
	CHECK(fallow_check(heap, NULL) == NULL);
	rig_end_now(rig, true);
}

static void test_region_overlaps(void)
{
	struct rig *rig = begin_bare(FALLOW_CLASS_WINDOW);
	uintptr_t base = rig->sim.base + 16 * MIB;
	struct fallow *heap = &rig->heap;

	status_expect(fallow_add_region(heap, base, 4 * MIB), FALLOW_OK,
		"the first");
	status_expect(fallow_add_region(heap, base, 4 * MIB),
		FALLOW_REGION_OVERLAPS, "the same");
	status_expect(fallow_add_region(heap, base - 2 * MIB, 8 * MIB),
		FALLOW_REGION_OVERLAPS, "around it");
	status_expect(fallow_add_region(heap, base + MIB, MIB),
		FALLOW_REGION_OVERLAPS, "inside it");
	status_expect(fallow_add_region(heap, base - 2 * MIB,
			      2 * MIB + SIM_GRANULE),
		FALLOW_REGION_OVERLAPS, "its first granule");
	status_expect(fallow_add_region(heap, base + 4 * MIB - SIM_GRANULE,
			      2 * MIB),
		FALLOW_REGION_OVERLAPS, "its last granule");
	status_expect(fallow_add_region(heap, base + 4 * MIB, MIB), FALLOW_OK,
		"directly behind it");
	status_expect(fallow_add_region(heap, base - MIB, MIB), FALLOW_OK,
		"directly before it");
	for (unsigned i = 0; i < 50; i++)
		CHECK(oracle_alloc(&rig->oracle, 60 * KIB, 0));
	rig_end(rig);
}

static void test_region_too_many(void)
{
	struct rig *rig = begin_bare(FALLOW_CLASS_WINDOW);
	uintptr_t base = rig->sim.base + 16 * MIB;

	for (unsigned i = 0; i < FALLOW_REGIONS_MAX; i++)
		status_expect(fallow_add_region(&rig->heap,
				      base + i * 2 * MIB, MIB),
			FALLOW_OK, "one that fits");
	status_expect(fallow_add_region(&rig->heap, base + 40 * MIB, MIB),
		FALLOW_TOO_MANY_REGIONS, "one more");
	rig->oracle.may_fail = true;
	while (oracle_alloc(&rig->oracle, 60 * KIB, 0))
		;
	/* 16 slices a region; not all of them need be usable by one class. */
	CHECK(rig->oracle.count >= 8 * FALLOW_REGIONS_MAX);
	rig_end(rig);
}

static void test_region_no_table_memory(void)
{
	bool reached = true;

	for (uint64_t n = 1; reached && n < 100; n++) {
		struct rig *rig = begin_bare(FALLOW_CLASS_WINDOW);
		enum fallow_status status;
		uint64_t before = rig->sim.refused;

		rig->sim.refuse_call = rig->sim.calls + n;
		status = fallow_add_region(
			&rig->heap, rig->sim.base, rig->sim.size);
		reached = rig->sim.refused != before;
		status_expect(status,
			reached ? FALLOW_NO_TABLE_MEMORY : FALLOW_OK,
			"a commit of tables refused");
		rig->sim.refuse_call = 0;
		if (reached)
			status_expect(fallow_add_region(&rig->heap,
					      rig->sim.base, rig->sim.size),
				FALLOW_OK, "again");
		CHECK(oracle_alloc(&rig->oracle, 1000, 0));
		rig_end(rig);
	}
}

/* A heap can be ended and begun again, in dirty storage, a thousand times. */
static void test_init_fini_cycles(void)
{
	static const enum fallow_provider_class classes[] = {
		FALLOW_CLASS_WINDOW, FALLOW_CLASS_DIRECT
	};

	for (unsigned c = 0; c < 2; c++) {
		struct rig *rig = rig_prepare(classes[c], 16 * MIB, 2);

		for (unsigned i = 0; i < 1000 && !test_failures(); i++) {
			CHECK_EQUAL(rig_init(rig), FALLOW_OK);
			oracle_alloc(&rig->oracle, (size_t)i * 100, 0);
			fallow_fini(&rig->heap);
			CHECK_EQUAL(rig->sim.committed, 0);
			memset(&rig->heap, (int)i, sizeof(rig->heap));
		}
		rig_end_now(rig, false);
	}
}

static void test_status_texts(void)
{
	for (unsigned i = 0; i < FALLOW_STATUS_COUNT + 2; i++) {
		const char *text = fallow_status_text(i);

		CHECK_OR_RETURN(text && text[0]);
		CHECK(text[strlen(text) - 1] != '.');
		for (unsigned j = 0; j < i && i < FALLOW_STATUS_COUNT; j++)
			CHECK(strcmp(text, fallow_status_text(j)) != 0);
	}
	for (unsigned i = 0; i < FALLOW_MISUSE_COUNT + 2; i++) {
		const char *text = fallow_misuse_text(i);

		CHECK_OR_RETURN(text && text[0]);
		for (unsigned j = 1; j < i && i < FALLOW_MISUSE_COUNT; j++)
			CHECK(strcmp(text, fallow_misuse_text(j)) != 0);
	}
}

const struct test tests[] = {
	{ "init_bad_size_field", test_init_bad_size_field },
	{ "init_missing_argument", test_init_missing_argument },
	{ "init_bad_provider", test_init_bad_provider },
	{ "init_bad_capability", test_init_bad_capability },
	{ "init_bad_granule", test_init_bad_granule },
	{ "init_bad_large", test_init_bad_large },
	{ "init_bad_contexts", test_init_bad_contexts },
	{ "init_bad_setting", test_init_bad_setting },
	{ "init_window_unaligned", test_init_window_unaligned },
	{ "init_window_wraps", test_init_window_wraps },
	{ "init_window_too_small", test_init_window_too_small },
	{ "init_window_smallest", test_init_window_smallest },
	{ "init_window_skewed", test_init_window_skewed },
	{ "init_bad_tables", test_init_bad_tables },
	{ "init_no_table_memory", test_init_no_table_memory },
	{ "init_fini_cycles", test_init_fini_cycles },
	{ "region_refused", test_region_refused },
	{ "region_overlaps", test_region_overlaps },
	{ "region_too_many", test_region_too_many },
	{ "region_no_table_memory", test_region_no_table_memory },
	{ "status_texts", test_status_texts },
	{ NULL, NULL },
};
