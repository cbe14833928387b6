/* SPDX-License-Identifier: MIT */
/*
 * What each allocation function promises, one promise at a time: sizes at the
 * edges, alignment, zeroing, reallocation, flags, order of what is tried
 * before NULL, several heaps.  The oracle checks what holds for every block.
 */
#include <string.h>

#include "config.h"
#include "sim_rig.h"
#include "test.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static struct rig *begin(void)
{
	return rig_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 1);
}

/* Hides a number from the compiler, which knows what no allocation can give. */
static size_t opaque(size_t n)
{
	volatile size_t hidden = n;

	return hidden;
}

static void test_heap_alloc_zero_is_unique(void)
{
	struct rig *rig = begin();

	for (unsigned i = 0; i < 1000; i++)
		CHECK(oracle_alloc(&rig->oracle, 0, 0));
	CHECK(fallow_good_size(0) >= 1);
	CHECK_EQUAL(rig->oracle.count, 1000);
	rig_end(rig);
}

static void test_heap_free_null(void)
{
	struct rig *rig = begin();

	fallow_free(&rig->heap, NULL);
	fallow_free_sized(&rig->heap, NULL, 0);
	fallow_free_sized(&rig->heap, NULL, 100);
	CHECK_EQUAL(fallow_usable_size(&rig->heap, NULL), 0);
	CHECK(!fallow_owns(&rig->heap, NULL));
	rig_end(rig);
}

/* Every size to 20000, and around every power of two to 16 MiB. */
static void test_heap_alloc_every_size(void)
{
	struct rig *rig = begin();

	for (size_t size = 0; size <= 20000; size++) {
		CHECK(oracle_alloc(&rig->oracle, size, 0));
		if (rig->oracle.count == 500)
			oracle_shrink(&rig->oracle, 0);
	}
	oracle_shrink(&rig->oracle, 0);
	for (size_t size = 16 * KIB; size <= 16 * MIB; size *= 2)
		for (size_t i = 0; i < 5; i++) {
			CHECK(oracle_alloc(&rig->oracle, size + i - 2, 0));
			oracle_free_sized(
				&rig->oracle, oracle_last(&rig->oracle));
		}
	rig_end(rig);
}

static void test_heap_good_size(void)
{
	size_t last = 0;

	for (size_t size = 0; size < 9 * MIB; size += size / 64 + 1) {
		size_t good = fallow_good_size(size);

		CHECK(good >= size && good >= 1);
		CHECK(good >= last);
		/* A good size is its own. */
		CHECK_EQUAL(fallow_good_size(good), good);
		last = good;
	}
	/* The waste promised: 16 bytes, then an eighth, then a granule. */
	for (size_t size = 1; size <= SLICE_BYTES; size++) {
		size_t waste = fallow_good_size(size) - size;

		CHECK(size <= 128 ? waste < 16 : waste * 8 < size);
	}
	for (size_t size = SLICE_BYTES + 1; size < 20 * MIB; size += 12345)
		CHECK(fallow_good_size(size) - size < SIM_GRANULE);
	CHECK(fallow_good_size(FALLOW_SIZE_MAX) == 0 ||
		fallow_good_size(FALLOW_SIZE_MAX) >= FALLOW_SIZE_MAX);
	CHECK_EQUAL(fallow_good_size((size_t)FALLOW_SIZE_MAX + 1), 0);
	CHECK_EQUAL(fallow_good_size(SIZE_MAX), 0);
}

/* Sizes that cannot be: NULL from every function, and nothing happens. */
static void test_heap_alloc_huge(void)
{
	static const size_t sizes[] = { SIZE_MAX, SIZE_MAX - 1, SIZE_MAX - 15,
		SIZE_MAX - 16, SIZE_MAX - 4095, SIZE_MAX - 4096,
		SIZE_MAX - 65535, SIZE_MAX - 65536, SIZE_MAX - 2 * MIB,
		SIZE_MAX / 2, SIZE_MAX / 2 + 1, SIZE_MAX / 2 - 4095,
		SIZE_MAX / 2 - 2 * MIB, SIZE_MAX / 4, (size_t)1 << 62,
		(size_t)1 << 47, (size_t)1 << 32, 65 * MIB };
	struct rig *rig = begin();
	struct oracle *oracle = &rig->oracle;

	oracle->may_fail = true;
	CHECK(oracle_alloc(oracle, 100, 0));
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t size = opaque(sizes[i]);

		CHECK(!oracle_alloc(oracle, size, 0));
		CHECK(!oracle_alloc(oracle, size, FALLOW_NOWAIT));
		CHECK(!oracle_zalloc(oracle, size));
		CHECK(!oracle_calloc(oracle, 1, size));
		CHECK(!oracle_calloc(oracle, size, 1));
		CHECK(!oracle_aligned(oracle, 4096, size, 0));
		CHECK(!oracle_aligned(oracle, 16, size, 0));
		CHECK(!oracle_aligned(oracle, 8 * MIB, size, 0));
		CHECK(!oracle_realloc(oracle, 0, size, 0));
		CHECK(!oracle_realloc(oracle, 0, size, FALLOW_ZERO));
	}
	rig_end(rig);
}

static void test_heap_calloc_overflow(void)
{
	static const size_t pairs[][2] = { { SIZE_MAX, 2 }, { 2, SIZE_MAX },
		{ SIZE_MAX, SIZE_MAX }, { (size_t)1 << 32, (size_t)1 << 32 },
		{ ((size_t)1 << 32) + 1, (size_t)1 << 32 },
		{ SIZE_MAX / 16 + 2, 16 }, { SIZE_MAX / 3 + 1, 3 },
		{ (size_t)1 << 63, 2 } };
	struct rig *rig = begin();

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		CHECK(!oracle_calloc(&rig->oracle, opaque(pairs[i][0]),
			opaque(pairs[i][1])));
	}
	CHECK(oracle_calloc(&rig->oracle, 0, opaque(SIZE_MAX)));
	CHECK(oracle_calloc(&rig->oracle, opaque(SIZE_MAX), 0));
	CHECK(oracle_calloc(&rig->oracle, 1000, 1000));
	rig_end(rig);
}

/* Zero also where the memory was used before, or came dirty. */
static void test_heap_zero_of_dirty(void)
{
	struct rig *rig = begin();

	rig->sim.dirty_rate = 128;
	for (unsigned round = 0; round < 20; round++) {
		for (size_t size = 1; size < 3 * MIB; size += size / 3 + 1) {
			oracle_zalloc(&rig->oracle, size);
			oracle_calloc(&rig->oracle, 1, size);
			oracle_alloc(&rig->oracle, size, FALLOW_ZERO);
			oracle_aligned(&rig->oracle, (size_t)64 << (round % 10),
				size, FALLOW_ZERO);
			if (rig->oracle.live > 24 * MIB)
				oracle_shrink(&rig->oracle, 0);
		}
		oracle_shrink(&rig->oracle, 0);
	}
	rig_end(rig);
}

/* Every power of two up to 64 MiB, with sizes below, at and above it. */
static void test_heap_aligned_every_power(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, 512 * MIB, 1);
	struct oracle *oracle = &rig->oracle;

	for (size_t align = 1; align <= 64 * MIB; align *= 2) {
		size_t sizes[] = { 0, 1, 17, align / 2, align - 1, align,
			align + 1, 3 * align / 2, 5000, 100 * KIB, 3 * MIB };
		size_t n = sizeof(sizes) / sizeof(sizes[0]);

		for (size_t i = 0; i < n; i++) {
			CHECK(oracle_aligned(oracle, align, sizes[i], 0));
			CHECK(oracle_aligned(
				oracle, align, sizes[i], FALLOW_ZERO));
			/* Each takes a place so aligned, and few are there. */
			if (align > MIB || oracle->live > 64 * MIB)
				oracle_shrink(oracle, 0);
		}
		rig_check(rig);
		oracle_shrink(oracle, 0);
	}
	rig_end(rig);
}

/* An alignment that cannot be, of the window or of the address space. */
static void test_heap_aligned_beyond(void)
{
	struct rig *rig = begin();

	rig->oracle.may_fail = true;
	for (size_t align = 128 * MIB; align; align *= 2) {
		/* The window may happen to be aligned so. */
		oracle_aligned(&rig->oracle, align, 1, 0);
		oracle_aligned(&rig->oracle, align, MIB, 0);
		CHECK(!oracle_aligned(
			&rig->oracle, align, opaque(SIZE_MAX - 4096), 0));
	}
	rig_end(rig);
}

static void test_heap_aligned_bad(void)
{
	static const size_t bad[] = { 0, 3, 24, 4095, 4097, 3 * MIB,
		SIZE_MAX };
	struct rig *rig = begin();

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		size_t align = opaque(bad[i]);

		CHECK(fallow_alloc_aligned(&rig->heap, align, 100) == NULL);
		CHECK_EQUAL(rig->misuse.kind, FALLOW_MISUSE_BAD_ALIGNMENT);
		CHECK_EQUAL(rig->misuse.address, align);
		rig->misuses_expected++;
		CHECK_EQUAL(rig->misuses, rig->misuses_expected);
	}
	rig_end(rig);
}

/* From every kind of block to every other, up and down; the oracle sees the
 * bytes kept. */
static void test_heap_realloc_every_kind(void)
{
	static const size_t sizes[] = { 0, 1, 16, 100, 1000, 4096, 8192, 8193,
		30000, 65536, 65537, 200 * KIB, 512 * KIB, 512 * KIB + 1,
		MIB, 2 * MIB, 2 * MIB + 1, 5 * MIB };
	size_t n = sizeof(sizes) / sizeof(sizes[0]);
	struct rig *rig = begin();
	struct oracle *oracle = &rig->oracle;

	for (size_t from = 0; from < n; from++)
		for (size_t to = 0; to < n; to++) {
			CHECK(oracle_alloc(oracle, sizes[from], 0));
			CHECK(oracle_realloc(oracle, 0, sizes[to], 0));
			oracle_free_sized(oracle, 0);
			CHECK(oracle_zalloc(oracle, sizes[from]));
			CHECK(oracle_realloc(
				oracle, 0, sizes[to], FALLOW_ZERO));
			oracle_free(oracle, 0);
		}
	rig_end(rig);
}

static void test_heap_realloc_null_and_zero(void)
{
	struct rig *rig = begin();
	void *p = fallow_realloc(&rig->heap, NULL, 100);

	CHECK_OR_RETURN(p);
	CHECK_EQUAL(fallow_usable_size(&rig->heap, p), fallow_good_size(100));
	p = fallow_realloc(&rig->heap, p, 0);
	CHECK_OR_RETURN(p);
	CHECK_EQUAL(fallow_usable_size(&rig->heap, p), fallow_good_size(0));
	fallow_free_sized(&rig->heap, p, 0);
	p = fallow_realloc_flags(&rig->heap, NULL, 5000, FALLOW_ZERO);
	CHECK_OR_RETURN(p);
	for (unsigned i = 0; i < 5000; i++)
		CHECK(((unsigned char *)p)[i] == 0);
	fallow_free(&rig->heap, p);
	rig_end(rig);
}

/* An alignment asked for stays through growth and shrinking. */
static void test_heap_realloc_keeps_alignment(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, 256 * MIB, 1);
	struct oracle *oracle = &rig->oracle;

	for (size_t align = 16; align <= 4 * MIB; align *= 2)
		for (size_t size = 1; size < 8 * MIB; size = size * 5 + 1) {
			CHECK(oracle_aligned(oracle, align, size, 0));
			/* Others between, so that luck does not align. */
			oracle_alloc(oracle, size, 0);
			oracle_alloc(oracle, size * 2, 0);
			for (size_t i = 0; i < oracle->count; i++)
				if (oracle->blocks[i].align == align) {
					oracle_realloc(
						oracle, i, size * 2 + 100, 0);
					break;
				}
			for (size_t i = 0; i < oracle->count; i++)
				if (oracle->blocks[i].align == align) {
					oracle_realloc(
						oracle, i, size / 3, 0);
					break;
				}
			if (oracle->live > 64 * MIB)
				oracle_shrink(oracle, 0);
		}
	rig_end(rig);
}

/* A realloc that cannot grow leaves the block; the oracle sees its bytes. */
static void test_heap_realloc_refused(void)
{
	struct rig *rig = begin();
	struct oracle *oracle = &rig->oracle;

	for (size_t size = 1; size < 2 * MIB; size = size * 3 + 1)
		CHECK(oracle_alloc(oracle, size, 0));
	oracle->may_fail = true;
	rig->sim.refuse_from = 1;
	for (size_t i = 0; i < oracle->count; i++)
		CHECK(!oracle_realloc(oracle, i, 40 * MIB, 0));
	rig_check(rig);
	rig->sim.refuse_from = 0;
	oracle->may_fail = false;
	CHECK(oracle_realloc(oracle, 0, 5 * MIB, 0));
	rig_end(rig);
}

/* A block grown into its usable size stays where it is. */
static void test_heap_realloc_in_place(void)
{
	struct rig *rig = begin();

	for (size_t size = 1; size < 8 * MIB; size += size / 2 + 1) {
		size_t good = fallow_good_size(size);
		void *p = fallow_alloc(&rig->heap, size);
		uintptr_t was = (uintptr_t)p;

		CHECK_OR_RETURN(p);
		p = fallow_realloc(&rig->heap, p, good);
		CHECK_EQUAL((uintptr_t)p, was);
		fallow_free_sized(&rig->heap, p, good);
	}
	rig_end(rig);
}

/* A sized free may name the size asked for; the oracle does. */
static void test_heap_free_sized_all(void)
{
	struct rig *rig = begin();
	struct oracle *oracle = &rig->oracle;

	for (size_t size = 0; size < 6 * MIB; size += size / 5 + 1) {
		CHECK(oracle_alloc(oracle, size, 0));
		oracle_free_sized(oracle, oracle_last(oracle));
		CHECK(oracle_aligned(oracle, 4096, size, 0));
		oracle_free_sized(oracle, oracle_last(oracle));
		CHECK(oracle_alloc(oracle, size, 0));
		CHECK(oracle_realloc(
			oracle, oracle_last(oracle), size / 2, 0));
		oracle_free_sized(oracle, oracle_last(oracle));
	}
	rig_end(rig);
}

/* Around the oracle's calls: NOWAIT reaches no provider. */
static void flags_before(void *arg, unsigned flags)
{
	(void)arg;
	sim_nowait = flags & FALLOW_NOWAIT;
}

static void flags_after(void *arg)
{
	(void)arg;
	sim_nowait = false;
}

static void test_heap_nowait_calls_no_provider(void)
{
	struct rig *rig = begin();
	struct oracle *oracle = &rig->oracle;
	uint64_t calls;
	uint64_t nulls = 0;

	oracle->before = flags_before;
	oracle->after = flags_after;
	/* From an empty heap nothing can come. */
	CHECK(!oracle_alloc(oracle, 100, FALLOW_NOWAIT));
	CHECK(!oracle_aligned(oracle, 4096, 4096, FALLOW_NOWAIT));
	/* From a page with room something must. */
	CHECK(oracle_alloc(oracle, 100, 0));
	oracle_free(oracle, 0);
	CHECK(oracle_alloc(oracle, 100, FALLOW_NOWAIT));
	CHECK(!oracle_realloc(oracle, 0, 3 * MIB, FALLOW_NOWAIT));
	calls = rig->sim.calls;
	for (unsigned i = 0; i < 3000; i++)
		nulls += !oracle_alloc(oracle, i % 300, FALLOW_NOWAIT);
	CHECK_EQUAL(rig->sim.calls, calls);
	CHECK(nulls > 0);
	rig_end(rig);
}

/* How the pressure hook of the tests below behaves. */
struct pressure {
	struct rig *rig;
	unsigned calls;
	size_t size;
	bool frees;
	/* Asks for so many tries more, and does nothing for them. */
	unsigned again;
};

static bool pressure_hook(void *arg, size_t size)
{
	struct pressure *pressure = arg;
	struct oracle *oracle = &pressure->rig->oracle;

	pressure->calls++;
	pressure->size = size;
	if (pressure->frees && oracle->count) {
		oracle_free(oracle, oracle->count - 1);
		return true;
	}
	return pressure->again && pressure->again--;
}

static struct rig *begin_pressed(struct pressure *pressure)
{
	struct rig *rig = rig_prepare(FALLOW_CLASS_WINDOW, 64 * MIB, 1);

	*pressure = (struct pressure){ .rig = rig };
	rig->config.pressure = pressure_hook;
	rig->config.pressure_ctx = pressure;
	CHECK_EQUAL(rig_init(rig), FALLOW_OK);
	rig->sim.budget = 8 * MIB;
	rig->oracle.may_fail = true;
	return rig;
}

static void test_heap_pressure_hook(void)
{
	struct pressure pressure;
	struct rig *rig = begin_pressed(&pressure);
	struct oracle *oracle = &rig->oracle;

	for (unsigned i = 0; i < 5; i++)
		CHECK(oracle_alloc(oracle, MIB, 0));
	CHECK_EQUAL(pressure.calls, 0);
	CHECK(!oracle_alloc(oracle, 6 * MIB, 0));
	CHECK(pressure.calls >= 1);
	CHECK_EQUAL(pressure.size, 6 * MIB);
	/* A hook that frees is tried again until it is enough. */
	pressure.calls = 0;
	pressure.frees = true;
	CHECK(oracle_alloc(oracle, 5 * MIB, 0));
	CHECK(pressure.calls >= 1);
	rig_check(rig);
	/* Not with NORECLAIM, not with NOWAIT. */
	pressure.calls = 0;
	CHECK(!oracle_alloc(oracle, 7 * MIB, FALLOW_NORECLAIM));
	CHECK(!oracle_alloc(oracle, 7 * MIB, FALLOW_NOWAIT));
	CHECK_EQUAL(pressure.calls, 0);
	rig_end(rig);
}

/* The hook is asked again as long as it says so, and no longer. */
static void test_heap_pressure_again(void)
{
	struct pressure pressure;
	struct rig *rig = begin_pressed(&pressure);

	pressure.again = 3;
	CHECK(!oracle_alloc(&rig->oracle, 20 * MIB, 0));
	CHECK_EQUAL(pressure.calls, 4);
	rig_end(rig);
}

/* What is freed but still committed is collected before NULL. */
static void test_heap_collects_before_null(void)
{
	struct rig *rig = begin();
	struct oracle *oracle = &rig->oracle;

	rig->sim.budget = 8 * MIB;
	oracle->may_fail = true;
	while (oracle->count < 1000 && oracle_alloc(oracle, 1000, 0))
		;
	while (oracle_alloc(oracle, 60 * KIB, 0))
		;
	oracle_shrink(oracle, 0);
	CHECK(rig->sim.committed > 4 * MIB);
	CHECK(!oracle_alloc(oracle, 7 * MIB, FALLOW_NORECLAIM));
	CHECK(oracle_alloc(oracle, 7 * MIB, 0));
	rig_end(rig);
}

/* Exhaustion by every size: after one NULL a free of the same size helps. */
static void test_heap_recovers_after_null(void)
{
	static const size_t sizes[] = { 8000, 30000, 60000, 100000, 500000,
		1000000, 3000000 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct rig *rig = begin();
		struct oracle *oracle = &rig->oracle;

		rig->sim.budget = 16 * MIB;
		oracle->may_fail = true;
		while (oracle_alloc(oracle, sizes[i], 0))
			;
		/* Most of the budget was of use. */
		CHECK(oracle->live > 11 * MIB);
		rig_check(rig);
		for (unsigned j = 0; j < 10; j++) {
			oracle_free(oracle, j % oracle->count);
			CHECK(oracle_alloc(oracle, sizes[i], 0));
		}
		CHECK(!oracle_alloc(oracle, sizes[i], 0));
		rig_end(rig);
	}
}

/* The window's addresses can be the end, with memory to spare. */
static void test_heap_exhausts_window(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, 16 * MIB, 1);
	struct oracle *oracle = &rig->oracle;

	oracle->may_fail = true;
	for (size_t size = 4 * MIB; size >= 4096; size /= 2)
		while (oracle_alloc(oracle, size, 0))
			;
	CHECK(oracle->live > 12 * MIB);
	rig_check(rig);
	oracle_shrink(oracle, 0);
	CHECK(fallow_collect(&rig->heap) > 12 * MIB);
	CHECK(oracle_alloc(oracle, 8 * MIB, 0));
	rig_end(rig);
}

static void test_heap_collect_conserves(void)
{
	struct rig *rig = begin();
	struct oracle *oracle = &rig->oracle;
	size_t before, given;

	oracle->volume = 8 * MIB;
	for (unsigned i = 0; i < 4000; i++)
		oracle_step(oracle);
	before = rig->sim.committed;
	given = fallow_collect(&rig->heap);
	CHECK_EQUAL(rig->sim.committed, before - given);
	rig_check(rig);
	oracle_shrink(oracle, 0);
	before = rig->sim.committed;
	given = fallow_collect(&rig->heap);
	CHECK_EQUAL(rig->sim.committed, before - given);
	rig_check(rig);
	/* Only tables are left, and a second collect finds nothing. */
	{
		struct fallow_snapshot now = { .size = sizeof(now) };

		fallow_snapshot(&rig->heap, &now);
		CHECK_EQUAL(now.committed, 0);
		CHECK_EQUAL(now.pages, 0);
		CHECK_EQUAL(now.spans, 0);
		CHECK_EQUAL(now.chunks, 0);
	}
	CHECK_EQUAL(fallow_collect(&rig->heap), 0);
	rig_end(rig);
}

static void test_heap_fini_with_blocks(void)
{
	struct rig *rig = begin();

	rig->oracle.volume = 8 * MIB;
	for (unsigned i = 0; i < 3000; i++)
		oracle_step(&rig->oracle);
	CHECK(rig->oracle.count > 0);
	rig_end_now(rig, true);
}

static void test_heap_owns(void)
{
	struct rig *rig = begin();
	struct rig *other = begin();
	int local;

	CHECK(oracle_alloc(&rig->oracle, 100, 0));
	CHECK(oracle_alloc(&rig->oracle, 5 * MIB, 0));
	for (size_t i = 0; i < rig->oracle.count; i++) {
		void *p = (void *)rig->oracle.blocks[i].base;

		CHECK(fallow_owns(&rig->heap, p));
		CHECK(!fallow_owns(&other->heap, p));
	}
	CHECK(!fallow_owns(&rig->heap, &local));
	CHECK(!fallow_owns(&rig->heap, (void *)UINTPTR_MAX));
	CHECK(!fallow_owns(
		&rig->heap, (void *)(rig->sim.base + rig->sim.size)));
	CHECK(!fallow_owns(&rig->heap, (void *)(rig->sim.base - 1)));
	rig_end(other);
	rig_end(rig);
}

static bool stop_visit(void *arg, const struct fallow_item *item)
{
	unsigned *left = arg;

	(void)item;
	return --*left > 0;
}

static void test_heap_walk_stops(void)
{
	struct rig *rig = begin();
	unsigned left = 5;

	for (unsigned i = 0; i < 100; i++)
		oracle_alloc(&rig->oracle, i * 50, 0);
	CHECK(!fallow_walk(&rig->heap, true, stop_visit, &left));
	CHECK_EQUAL(left, 0);
	left = 1000;
	CHECK(fallow_walk(&rig->heap, true, stop_visit, &left));
	CHECK(left < 900);
	rig_end(rig);
}

/* A snapshot or table of an older, smaller caller is not written past. */
static void test_heap_snapshot_sizes(void)
{
	struct rig *rig = begin();
	struct fallow_snapshot now;
	struct fallow_class_row rows[4];
	size_t classes;

	oracle_alloc(&rig->oracle, 1000, 0);
	memset(&now, 0x77, sizeof(now));
	now.size = offsetof(struct fallow_snapshot, live);
	fallow_snapshot(&rig->heap, &now);
	CHECK(now.committed > 0);
	CHECK_EQUAL(now.live, (size_t)0x7777777777777777);
	CHECK_EQUAL(now.slow_paths, 0x7777777777777777);
	memset(rows, 0x77, sizeof(rows));
	classes = fallow_class_table(&rig->heap, rows, 3);
	CHECK(classes > 40);
	CHECK(rows[0].block_size < rows[1].block_size &&
		rows[1].block_size < rows[2].block_size);
	CHECK_EQUAL(rows[3].block_size, (size_t)0x7777777777777777);
	CHECK_EQUAL(fallow_class_table(&rig->heap, NULL, 0), classes);
	rig_end(rig);
}

/* What is freed is live no more, to the peak as well. */
static void test_heap_live_peak(void)
{
	struct rig *rig = begin();
	struct fallow_snapshot now = { .size = sizeof(now) };

	for (unsigned i = 0; i < 50; i++) {
		CHECK(oracle_alloc(&rig->oracle, MIB, 0));
		CHECK(oracle_alloc(&rig->oracle, 300 * KIB, 0));
		oracle_shrink(&rig->oracle, 0);
	}
	fallow_snapshot(&rig->heap, &now);
	CHECK_EQUAL(now.live, 0);
	CHECK(now.live_peak >= MIB);
	CHECK(now.live_peak < 2 * MIB);
	rig_end(rig);
}

/* The table's sums are the snapshot's, without the spans. */
static void test_heap_class_table(void)
{
	struct rig *rig = begin();
	static struct fallow_class_row rows[256];
	struct fallow_snapshot now = { .size = sizeof(now) };
	size_t n, pages = 0, used = 0, last = 0;

	rig->oracle.volume = 8 * MIB;
	for (unsigned i = 0; i < 3000; i++)
		oracle_step(&rig->oracle);
	n = fallow_class_table(&rig->heap, rows, 256);
	CHECK_OR_RETURN(n <= 256);
	for (size_t i = 0; i < n; i++) {
		CHECK(rows[i].block_size > last);
		CHECK(rows[i].blocks_used <= rows[i].blocks_formed);
		CHECK_EQUAL(fallow_good_size(rows[i].block_size),
			rows[i].block_size);
		last = rows[i].block_size;
		pages += rows[i].pages;
		used += rows[i].blocks_used;
	}
	fallow_snapshot(&rig->heap, &now);
	CHECK_EQUAL(pages, now.pages);
	CHECK_EQUAL(used + now.spans, now.blocks);
	rig_end(rig);
}

static void putc_count(void *arg, char c)
{
	size_t *counts = arg;

	counts[0]++;
	counts[1] += c == '\n';
	CHECK(c == '\n' || (c >= ' ' && c <= '~'));
}

static void test_heap_print(void)
{
	struct rig *rig = begin();
	size_t counts[2] = { 0, 0 };

	for (unsigned i = 0; i < 1000; i++)
		oracle_step(&rig->oracle);
	fallow_print(&rig->heap, putc_count, counts);
	CHECK(counts[0] > 100 && counts[1] > 5);
	rig_end(rig);
}

const struct test tests[] = {
	{ "heap_alloc_zero_is_unique", test_heap_alloc_zero_is_unique },
	{ "heap_free_null", test_heap_free_null },
	{ "heap_alloc_every_size", test_heap_alloc_every_size },
	{ "heap_good_size", test_heap_good_size },
	{ "heap_alloc_huge", test_heap_alloc_huge },
	{ "heap_calloc_overflow", test_heap_calloc_overflow },
	{ "heap_zero_of_dirty", test_heap_zero_of_dirty },
	{ "heap_aligned_every_power", test_heap_aligned_every_power },
	{ "heap_aligned_beyond", test_heap_aligned_beyond },
	{ "heap_aligned_bad", test_heap_aligned_bad },
	{ "heap_realloc_every_kind", test_heap_realloc_every_kind },
	{ "heap_realloc_null_and_zero", test_heap_realloc_null_and_zero },
	{ "heap_realloc_keeps_alignment", test_heap_realloc_keeps_alignment },
	{ "heap_realloc_refused", test_heap_realloc_refused },
	{ "heap_realloc_in_place", test_heap_realloc_in_place },
	{ "heap_free_sized_all", test_heap_free_sized_all },
	{ "heap_nowait_calls_no_provider",
		test_heap_nowait_calls_no_provider },
	{ "heap_pressure_hook", test_heap_pressure_hook },
	{ "heap_pressure_again", test_heap_pressure_again },
	{ "heap_collects_before_null", test_heap_collects_before_null },
	{ "heap_recovers_after_null", test_heap_recovers_after_null },
	{ "heap_exhausts_window", test_heap_exhausts_window },
	{ "heap_collect_conserves", test_heap_collect_conserves },
	{ "heap_fini_with_blocks", test_heap_fini_with_blocks },
	{ "heap_owns", test_heap_owns },
	{ "heap_walk_stops", test_heap_walk_stops },
	{ "heap_snapshot_sizes", test_heap_snapshot_sizes },
	{ "heap_live_peak", test_heap_live_peak },
	{ "heap_class_table", test_heap_class_table },
	{ "heap_print", test_heap_print },
	{ NULL, NULL },
};
