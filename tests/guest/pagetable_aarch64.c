/* SPDX-License-Identifier: MIT */
/*
 * What only aarch64's page-table provider has: the two TTBRs, the attributes,
 * the three ways to change the size of a live mapping and the refusal where
 * there is none, and every state of the CPU that init refuses.
 *
 * Tests of refusals set the system registers as a strange kernel would, for
 * the length of one call: with IRQs masked, and while nothing is touched but
 * the image, which is TTBR0's, when TTBR1's half is unusable.  The tables of
 * some are a root of the test's own, which no TTBR ever names.
 */
#include "aarch64/tables.h"
#include "board.h"
#include "paging.h"
#include "ration.h"
#include "test.h"
#include "virt/virt.h"

#define GRANULE ((uintptr_t)4096)
#define CHUNK ((uintptr_t)2 << 20)
#define CHUNK_GRANULES (CHUNK / GRANULE)
#define GIB ((uintptr_t)1 << 30)

/* Entries 288 of TTBR1's root and 128 of TTBR0's, which the board leaves. */
#define HIGH_WINDOW 0xffff900000000000
#define LOW_WINDOW 0x0000400000000000

#define ENTRY_TABLE ((uint64_t)3)
#define ENTRY_BLOCK ((uint64_t)1)

#define READ(reg) \
	({ \
		uint64_t value_; \
		__asm__ volatile("mrs %0, " #reg : "=r"(value_)::"memory"); \
		value_; \
	})
#define WRITE(reg, value) \
	__asm__ volatile( \
		"msr " #reg ", %0\n\tisb" ::"r"((uint64_t)(value)) : "memory")

static struct test_ration ration;
static uintptr_t window;

/* Returns the configuration of a provider on the live tables. */
static struct fallow_pagetable_config configuration(
	uintptr_t base, unsigned flags)
{
	ration = (struct test_ration){
		.under = board_frame_hooks(),
		.direct_offset = board_direct_offset(),
		.left = TEST_RATION_NONE,
	};
	window = base;
	return (struct fallow_pagetable_config){
		.size = sizeof(struct fallow_pagetable_config),
		.root = base >> 63 ? READ(ttbr1_el1) : READ(ttbr0_el1),
		.direct_offset = board_direct_offset(),
		.frames = test_ration_hooks(&ration),
		.window_base = base,
		.window_size = GIB,
		.ttbr = base >> 63,
		.attr_index = VIRT_ATTR_NORMAL,
		.flags = flags,
	};
}

/* Makes test_provider; false, and a failure, if that fails. */
static bool begin_with(const struct fallow_pagetable_config *config)
{
	enum fallow_status status = fallow_pagetable_init(&test_pagetable,
		config);

	return test_provider_begin(status);
}

static bool begin(uintptr_t base, unsigned flags)
{
	struct fallow_pagetable_config config = configuration(base, flags);

	return begin_with(&config);
}

/* Takes the provider down to the root's entry: every frame is back. */
static void end(void)
{
	CHECK(fallow_pagetable_fini(&test_pagetable, true));
	CHECK_EQUAL(ration.out, 0);
}

/* Writes each granule's address into it. */
static void fill(uintptr_t base, size_t size)
{
	for (uintptr_t at = base; at < base + size; at += GRANULE)
		*(volatile uintptr_t *)at = at;
}

/* Returns how many granules do not hold their address. */
static size_t spoilt(uintptr_t base, size_t size)
{
	size_t n = 0;

	for (uintptr_t at = base; at < base + size; at += GRANULE)
		n += *(volatile uintptr_t *)at != at;
	return n;
}

/* Every bit of both kinds of entry (Arm ARM, "Stage 1 attribute fields"). */
static void test_attributes(void)
{
	/* UXN, PXN, AF, SH inner, AP 0, the field of MAIR_EL1. */
	uint64_t attributes = (uint64_t)3 << 53 | 1 << 10 | 3 << 8 |
		VIRT_ATTR_NORMAL << 2;
	struct fallow_mapping mapping;

	if (!begin(HIGH_WINDOW, FALLOW_PAGETABLE_ONE_CPU))
		return;
	CHECK(test_try_commit(window, GRANULE, 0));
	CHECK(fallow_pagetable_lookup(&test_pagetable, window, &mapping));
	CHECK_EQUAL(mapping.entry, mapping.physical | attributes | 3);
	CHECK_EQUAL(mapping.memory_type, VIRT_ATTR_NORMAL);
	CHECK(test_try_commit(window + CHUNK, CHUNK, FALLOW_PREFER_LARGE));
	CHECK(fallow_pagetable_lookup(&test_pagetable, window + CHUNK,
		&mapping));
	CHECK_EQUAL(mapping.entry, mapping.physical | attributes | 1);
	/* A page of what was a block is a page like any other. */
	test_try_decommit(window + CHUNK + GRANULE, GRANULE);
	CHECK(fallow_pagetable_lookup(&test_pagetable, window + CHUNK,
		&mapping));
	CHECK_EQUAL(mapping.entry, mapping.physical | attributes | 3);
	test_try_decommit(window, GRANULE);
	test_try_decommit(window + CHUNK, GRANULE);
	test_try_decommit(window + CHUNK + 2 * GRANULE, CHUNK - 2 * GRANULE);
	end();
}

/* Other mappings under the same roots are seen as they are. */
static void test_lookup_outside(void)
{
	const struct board_ram *ram;
	struct fallow_mapping mapping;
	uintptr_t addr;

	CHECK(board_ram(&ram) > 0);
	addr = ram[0].base + board_direct_offset() + 123;
	if (!begin(HIGH_WINDOW, 0))
		return;
	CHECK(fallow_pagetable_lookup(&test_pagetable, addr, &mapping));
	CHECK_EQUAL(mapping.physical, ram[0].base + 123);
	CHECK(mapping.size_log2 == 21 || mapping.size_log2 == 30);
	CHECK(!mapping.executable);
	CHECK(!fallow_pagetable_lookup(
		&test_pagetable, VIRT_IMAGE_BASE, &mapping));
	end();
	if (!begin(LOW_WINDOW, 0))
		return;
	CHECK(fallow_pagetable_lookup(&test_pagetable, VIRT_IMAGE_BASE,
		&mapping));
	CHECK_EQUAL(mapping.physical, VIRT_IMAGE_BASE);
	CHECK(mapping.executable);
	CHECK(fallow_pagetable_lookup(&test_pagetable, 0x09000000, &mapping));
	CHECK_EQUAL(mapping.memory_type, VIRT_ATTR_DEVICE);
	CHECK(!fallow_pagetable_lookup(&test_pagetable, addr, &mapping));
	end();
}

/* Blocks come and go, and are cut, in this window. */
static void exercise(void)
{
	CHECK_EQUAL(test_try_commit(window, CHUNK, FALLOW_PREFER_LARGE),
		FALLOW_COMMIT_DONE | FALLOW_COMMIT_LARGE);
	CHECK(test_try_commit(window + CHUNK, CHUNK, FALLOW_RESERVED));
	fill(window, 2 * CHUNK);
	test_decommit(window + 5 * GRANULE, GRANULE);
	CHECK(!board_can_read(window + 5 * GRANULE));
	CHECK(test_provider.promote(test_provider.ctx, window + CHUNK));
	CHECK_EQUAL(test_mapped_log2(window + CHUNK), 21);
	CHECK_EQUAL(test_counters().splits, 1);
	CHECK_EQUAL(test_counters().promotions, 1);
	CHECK_EQUAL(spoilt(window, 5 * GRANULE), 0);
	CHECK_EQUAL(spoilt(window + 6 * GRANULE, 2 * CHUNK - 6 * GRANULE), 0);
	test_decommit(window, 5 * GRANULE);
	test_decommit(window + 6 * GRANULE, 2 * CHUNK - 6 * GRANULE);
	CHECK(!board_can_read(window + 6 * GRANULE));
	CHECK(!board_can_read(window + CHUNK));
}

static void test_low_half(void)
{
	if (!begin(LOW_WINDOW, FALLOW_PAGETABLE_ONE_CPU))
		return;
	exercise();
	end();
	CHECK_EQUAL(board_root_low[LOW_WINDOW >> 39 & 511], 0);
}

static void test_high_half(void)
{
	if (!begin(HIGH_WINDOW, FALLOW_PAGETABLE_ONE_CPU))
		return;
	exercise();
	end();
	CHECK_EQUAL(board_root_high[HIGH_WINDOW >> 39 & 511], 0);
}

/* The window may end one granule below the end of all addresses. */
static void test_end_of_addresses(void)
{
	struct fallow_pagetable_config config =
		configuration(0 - 2 * CHUNK, FALLOW_PAGETABLE_ONE_CPU);
	size_t size = 2 * CHUNK - GRANULE;

	config.window_size = size;
	if (!begin_with(&config))
		return;
	CHECK_EQUAL(test_try_commit(window, size, FALLOW_PREFER_LARGE),
		FALLOW_COMMIT_DONE);
	CHECK_EQUAL(test_mapped_log2(window), 21);
	CHECK_EQUAL(test_mapped_log2(window + CHUNK), 12);
	for (uintptr_t at = 0; at < size; at += GRANULE)
		CHECK(board_can_write(window + at));
	CHECK(!board_can_read(window + size));
	test_decommit(window + GRANULE, size - GRANULE);
	CHECK(board_can_read(window));
	CHECK(!board_can_read(window + size - GRANULE));
	test_decommit(window, GRANULE);
	end();
}

/* Without a way to resize, no bit says so; a hole in a block is refused with
 * everything intact, and the call's other ranges are done. */
static void test_refuses_to_split(void)
{
	struct fallow_range ranges[4];

	if (!begin(HIGH_WINDOW, 0))
		return;
	CHECK_EQUAL(test_provider.capabilities, FALLOW_CAN_MOVE);
	CHECK(test_provider.promote == NULL);
	CHECK(test_try_commit(window, 3 * CHUNK, FALLOW_PREFER_LARGE) &
		FALLOW_COMMIT_LARGE);
	CHECK(test_try_commit(window + 3 * CHUNK, 4 * GRANULE, 0));
	fill(window, 3 * CHUNK + 4 * GRANULE);
	ranges[0] = (struct fallow_range){ window + GRANULE, GRANULE,
		FALLOW_RANGE_DONE };
	ranges[1] = (struct fallow_range){ window + CHUNK - GRANULE,
		CHUNK + GRANULE, FALLOW_RANGE_DONE };
	ranges[2] = (struct fallow_range){ window + 2 * CHUNK, CHUNK,
		FALLOW_RANGE_REFUSED };
	ranges[3] = (struct fallow_range){ window + 3 * CHUNK, GRANULE,
		FALLOW_RANGE_REFUSED };
	test_provider.decommit(test_provider.ctx, ranges, 4);
	CHECK_EQUAL(ranges[0].result, FALLOW_RANGE_REFUSED);
	CHECK_EQUAL(ranges[1].result, FALLOW_RANGE_REFUSED);
	CHECK_EQUAL(ranges[2].result, FALLOW_RANGE_DONE);
	CHECK_EQUAL(ranges[3].result, FALLOW_RANGE_DONE);
	CHECK_EQUAL(spoilt(window, 2 * CHUNK), 0);
	CHECK_EQUAL(test_mapped_log2(window), 21);
	CHECK(!board_can_read(window + 2 * CHUNK));
	CHECK(!board_can_read(window + 3 * CHUNK));
	CHECK_EQUAL(test_counters().flushes, 1);
	/* All refused: nothing to flush. */
	test_provider.decommit(test_provider.ctx, ranges, 2);
	CHECK_EQUAL(test_counters().flushes, 1);
	/* A block moves as a block, or not at all. */
	CHECK(!test_provider.move(test_provider.ctx, window, window + 5 * CHUNK,
		CHUNK + GRANULE));
	CHECK(!test_provider.move(test_provider.ctx, window,
		window + 5 * CHUNK + GRANULE, CHUNK));
	CHECK_EQUAL(spoilt(window, 2 * CHUNK), 0);
	CHECK(test_provider.move(
		test_provider.ctx, window, window + 5 * CHUNK, CHUNK));
	CHECK_EQUAL(test_mapped_log2(window + 5 * CHUNK), 21);
	CHECK_EQUAL(test_mapped_log2(window), 0);
	test_try_decommit(window + 5 * CHUNK, CHUNK);
	test_try_decommit(window + CHUNK, CHUNK);
	test_try_decommit(window + 3 * CHUNK + GRANULE, 3 * GRANULE);
	end();
}

/* The embedder's word counts only with BBM level 2, and then suffices. */
static void test_no_conflict(void)
{
	bool level2 = (READ(id_aa64mmfr2_el1) >> 52 & 15) >= 2;

	if (!begin(HIGH_WINDOW, FALLOW_PAGETABLE_NO_CONFLICT))
		return;
	CHECK_EQUAL(!!(test_provider.capabilities & FALLOW_CAN_DEMOTE), level2);
	CHECK_EQUAL(!!(test_provider.capabilities & FALLOW_CAN_PROMOTE),
		level2);
	if (level2)
		exercise();
	else
		CHECK(test_provider.promote == NULL);
	end();
}

/* Blocks are never made, nor promised. */
static void test_granules_only(void)
{
	if (!begin(HIGH_WINDOW,
		    FALLOW_PAGETABLE_GRANULES | FALLOW_PAGETABLE_ONE_CPU))
		return;
	CHECK_EQUAL(test_provider.large_log2, 0);
	CHECK_EQUAL(test_provider.capabilities, FALLOW_CAN_MOVE);
	CHECK_EQUAL(test_try_commit(window, CHUNK, FALLOW_PREFER_LARGE),
		FALLOW_COMMIT_DONE);
	CHECK_EQUAL(test_mapped_log2(window), 12);
	test_try_decommit(window, CHUNK);
	end();
}

/* What the stop hooks see. */
static unsigned stops, resumes;
static bool stopped, stop_was_masked;

/* Whether a second CPU that wanted the others stopped would wait now. */
static bool stop_taken(void)
{
	return fl_load_relaxed(
		&((const struct pagetable *)&test_pagetable)->stopping);
}

static void stop_others(void *ctx)
{
	CHECK(ctx == &stops);
	CHECK(!stopped);
	CHECK(stop_taken());
	stop_was_masked |= READ(daif) >> 7 & 1;
	stopped = true;
	stops++;
	/* No lock is held: this would wait for it for ever. */
	test_counters();
}

static void resume_others(void *ctx)
{
	CHECK(ctx == &stops);
	CHECK(stopped);
	CHECK(stop_taken());
	stopped = false;
	resumes++;
	test_counters();
}

/* Other CPUs are stopped once for all splits of a call, only for these, and
 * with interrupts on. */
static void test_stop_others(void)
{
	struct fallow_pagetable_config config = configuration(HIGH_WINDOW, 0);
	struct fallow_range ranges[2];

	config.stop_others = stop_others;
	CHECK_EQUAL(fallow_pagetable_init(&test_pagetable, &config),
		FALLOW_BAD_SETTING);
	config.resume_others = resume_others;
	config.stop_ctx = &stops;
	stops = resumes = 0;
	stop_was_masked = false;
	if (!begin_with(&config))
		return;
	CHECK(test_provider.capabilities & FALLOW_CAN_DEMOTE);
	CHECK(test_provider.capabilities & FALLOW_CAN_PROMOTE);
	exercise();
	CHECK_EQUAL(stops, 2);
	CHECK(test_try_commit(window, 3 * CHUNK, FALLOW_PREFER_LARGE));
	ranges[0] = (struct fallow_range){ window, GRANULE,
		FALLOW_RANGE_REFUSED };
	ranges[1] = (struct fallow_range){ window + 2 * CHUNK - GRANULE,
		2 * GRANULE, FALLOW_RANGE_REFUSED };
	test_provider.decommit(test_provider.ctx, ranges, 2);
	CHECK_EQUAL(test_counters().splits, 4);
	CHECK_EQUAL(stops, 3);
	test_try_decommit(window + GRANULE, 2 * CHUNK - 2 * GRANULE);
	test_try_decommit(window + 2 * CHUNK + GRANULE, CHUNK - GRANULE);
	CHECK_EQUAL(stops, 3);
	CHECK_EQUAL(resumes, 3);
	CHECK(!stop_was_masked);
	end();
}

/* A provider whose stop hooks are the test's; false, and a failure, if that
 * fails. */
static bool begin_stopping(void)
{
	struct fallow_pagetable_config config = configuration(HIGH_WINDOW, 0);

	config.stop_others = stop_others;
	config.resume_others = resume_others;
	config.stop_ctx = &stops;
	stops = resumes = 0;
	return begin_with(&config);
}

/* Whether so many stops have been made, and the next CPU may make one. */
static bool stopped_times(unsigned n)
{
	return stops == n && resumes == n && !stop_taken();
}

/* Two CPUs never stop the others at once: the word for that is taken around
 * both hooks (they look), and free after every way out of a call. */
static void test_stop_is_exclusive(void)
{
	if (!begin_stopping())
		return;
	CHECK(test_try_commit(window, 2 * CHUNK, FALLOW_PREFER_LARGE));
	CHECK(stopped_times(0));
	/* A split; none; a page that keeps the chunk from being promoted. */
	test_try_decommit(window, GRANULE);
	CHECK(stopped_times(1));
	test_try_decommit(window + GRANULE, GRANULE);
	CHECK(stopped_times(1));
	CHECK(!test_provider.promote(test_provider.ctx, window));
	CHECK(stopped_times(1));
	CHECK(test_try_commit(window, 2 * GRANULE, FALLOW_RESERVED));
	CHECK(test_provider.promote(test_provider.ctx, window));
	CHECK(stopped_times(2));
	/* A move that needs a table and gets none; one that gets it. */
	ration.left = 0;
	CHECK(!test_provider.move(test_provider.ctx, window + CHUNK,
		window + 4 * CHUNK + GRANULE, CHUNK));
	CHECK(stopped_times(2));
	ration.left = TEST_RATION_NONE;
	CHECK(test_provider.move(test_provider.ctx, window + CHUNK,
		window + 4 * CHUNK + GRANULE, CHUNK));
	CHECK(stopped_times(3));
	test_try_decommit(window, CHUNK);
	test_try_decommit(window + 4 * CHUNK + GRANULE, CHUNK);
	CHECK(stopped_times(3));
	end();
}

/* Calls function(arg) with the stack pointer at `top`. */
static void call_on_stack(void (*function)(void *), void *arg, uintptr_t top)
{
	register void *x0 __asm__("x0") = arg;
	register uintptr_t x19 __asm__("x19") = top;
	register void (*x20)(void *) __asm__("x20") = function;

	__asm__ volatile("mov x21, sp\n\t"
			 "mov sp, %1\n\t"
			 "blr %2\n\t"
			 "mov sp, x21"
			 : "+r"(x0), "+r"(x19), "+r"(x20)
			 :
			 : "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8",
			 "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16",
			 "x17", "x18", "x21", "x30", "cc", "memory");
}

/* Cuts a hole and closes it again, in the block that its stack is in. */
static void cut_and_promote(void *arg)
{
	(void)arg;
	test_decommit(window + 7 * GRANULE, GRANULE);
	CHECK(test_try_commit(window + 7 * GRANULE, GRANULE, FALLOW_RESERVED));
	CHECK(test_provider.promote(test_provider.ctx, window));
}

/* In the gap of break-before-make not even the stack is touched. */
static void test_stack_in_block(void)
{
	if (!begin(HIGH_WINDOW, FALLOW_PAGETABLE_ONE_CPU))
		return;
	CHECK(test_try_commit(window, CHUNK, FALLOW_PREFER_LARGE));
	call_on_stack(cut_and_promote, NULL, window + CHUNK);
	CHECK_EQUAL(test_counters().splits, 1);
	CHECK_EQUAL(test_counters().promotions, 1);
	CHECK_EQUAL(test_mapped_log2(window), 21);
	test_try_decommit(window, CHUNK);
	end();
}

/* Every way leaves the exception mask as it was, masked or not. */
static void test_mask_restored(void)
{
	for (unsigned masked = 0; masked < 2; masked++) {
		uint64_t daif;

		if (!begin(HIGH_WINDOW, FALLOW_PAGETABLE_ONE_CPU))
			return;
		if (masked)
			__asm__ volatile("msr daifset, #2" ::: "memory");
		daif = READ(daif);
		exercise();
		CHECK_EQUAL(READ(daif), daif);
		__asm__ volatile("msr daifclr, #2" ::: "memory");
		end();
	}
}

/* From the threshold on everything is dropped, below it nothing else is. */
static void test_flush_threshold(void)
{
	if (!begin(HIGH_WINDOW, FALLOW_PAGETABLE_ONE_CPU))
		return;
	CHECK(test_try_commit(window, CHUNK, 0));
	for (uintptr_t at = 0; at < CHUNK; at += GRANULE)
		CHECK(board_can_read(window + at));
	test_try_decommit(window, 255 * GRANULE);
	CHECK_EQUAL(test_counters().flushes_all, 0);
	test_try_decommit(window + 255 * GRANULE, 256 * GRANULE);
	CHECK_EQUAL(test_counters().flushes_all, 1);
	for (uintptr_t at = 0; at < 511 * GRANULE; at += GRANULE)
		CHECK(!board_can_read(window + at));
	CHECK(board_can_read(window + 511 * GRANULE));
	test_try_decommit(window + 511 * GRANULE, GRANULE);
	CHECK_EQUAL(test_counters().flushes, 3);
	end();
}

/* A block in place of pages: what CPUs cached of the pages is gone, for later
 * one invalidation, of one address, drops all of the block. */
static void promote_forgets_pages(unsigned flags)
{
	if (!begin(HIGH_WINDOW, flags))
		return;
	if (!test_provider.promote) {
		end();
		return;
	}
	CHECK(test_try_commit(window, CHUNK, FALLOW_RESERVED));
	/* QEMU keeps one range around all large pages it has cached, and an
	 * address in it drops everything: it forgets the range here. */
	__asm__ volatile("tlbi vmalle1\n\tdsb ish\n\tisb" ::: "memory");
	for (uintptr_t at = 100; at < 140; at++)
		CHECK(board_can_read(window + at * GRANULE));
	CHECK(test_provider.promote(test_provider.ctx, window));
	test_try_decommit(window, CHUNK);
	CHECK_EQUAL(test_counters().flushes_all, 0);
	for (uintptr_t at = 100; at < 140; at++)
		CHECK(!board_can_read(window + at * GRANULE));
	end();
}

static void test_promote_forgets_pages(void)
{
	promote_forgets_pages(FALLOW_PAGETABLE_ONE_CPU);
	promote_forgets_pages(FALLOW_PAGETABLE_NO_CONFLICT);
}

/* Frames that were taken as granules are given back as granules, and those of
 * a run as one. */
static void test_given_as_taken(void)
{
	uint64_t gives;

	if (!begin(HIGH_WINDOW, FALLOW_PAGETABLE_ONE_CPU))
		return;
	CHECK(test_try_commit(window, CHUNK, FALLOW_PREFER_LARGE));
	gives = ration.gives;
	test_try_decommit(window, CHUNK);
	/* The block and the table page put by for it. */
	CHECK_EQUAL(ration.gives - gives, 2);
	CHECK(test_try_commit(window, CHUNK, FALLOW_RESERVED));
	CHECK(test_provider.promote(test_provider.ctx, window));
	gives = ration.gives;
	test_try_decommit(window, CHUNK);
	CHECK_EQUAL(ration.gives - gives, CHUNK_GRANULES + 1);
	end();
}

/* Without a claim hook a chunk is placed if it comes whole. */
static void test_reserved_without_claim(void)
{
	struct fallow_pagetable_config config =
		configuration(HIGH_WINDOW, FALLOW_PAGETABLE_ONE_CPU);

	config.frames.claim = NULL;
	if (!begin_with(&config))
		return;
	CHECK(test_try_commit(window, CHUNK, FALLOW_RESERVED));
	CHECK(test_provider.promote(test_provider.ctx, window));
	CHECK(test_try_commit(window + CHUNK, GRANULE, FALLOW_RESERVED));
	CHECK(test_try_commit(window + CHUNK + GRANULE, CHUNK - GRANULE,
		FALLOW_RESERVED));
	test_try_decommit(window, 2 * CHUNK);
	end();
}

/* A page that could not get its place does not hide where the others are: the
 * chunk is whole again when it has come home. */
static void test_home_is_found_again(void)
{
	struct fallow_mapping mapping;

	if (!begin(HIGH_WINDOW, FALLOW_PAGETABLE_ONE_CPU))
		return;
	CHECK(test_try_commit(window, CHUNK, FALLOW_RESERVED));
	CHECK(fallow_pagetable_lookup(&test_pagetable, window, &mapping));
	test_try_decommit(window, GRANULE);
	CHECK(ration.under->claim(ration.under->ctx, mapping.physical, 12));
	CHECK(test_try_commit(window, GRANULE, FALLOW_RESERVED));
	/* In the order in which no allocator returns them by itself. */
	test_try_decommit(window + 9 * GRANULE, 3 * GRANULE);
	CHECK(test_try_commit(window + 10 * GRANULE, GRANULE, FALLOW_RESERVED));
	CHECK(test_try_commit(window + 9 * GRANULE, GRANULE, FALLOW_RESERVED));
	CHECK(test_try_commit(window + 11 * GRANULE, GRANULE, FALLOW_RESERVED));
	CHECK(!test_provider.promote(test_provider.ctx, window));
	test_try_decommit(window, GRANULE);
	ration.under->give(ration.under->ctx, mapping.physical, 12);
	CHECK(test_try_commit(window, GRANULE, FALLOW_RESERVED));
	CHECK(test_provider.promote(test_provider.ctx, window));
	test_try_decommit(window, CHUNK);
	end();
}

static void test_memory_type_refused(void)
{
	if (!begin(HIGH_WINDOW, 0))
		return;
	CHECK_EQUAL(test_try_commit(window, GRANULE, 1u << 16),
		FALLOW_COMMIT_NO_MEMORY);
	CHECK_EQUAL(test_mapped_log2(window), 0);
	end();
}

/* Whether init refuses the CPU, and says why in words that begin like this. */
static bool refused(
	const struct fallow_pagetable_config *config, const char *begins)
{
	enum fallow_status status = fallow_pagetable_init(&test_pagetable,
		config);
	const char *why = fallow_pagetable_why(&test_pagetable);

	if (status != FALLOW_UNSUPPORTED_CPU || !why)
		return false;
	for (; *begins; begins++, why++)
		if (*begins != *why)
			return false;
	return true;
}

/* As refused(), with TCR_EL1 changed by these bits for the call. */
static bool refused_tcr_with(
	unsigned flags, uint64_t clear, uint64_t set, const char *begins)
{
	struct fallow_pagetable_config config =
		configuration(HIGH_WINDOW, flags);
	uint64_t tcr = READ(tcr_el1), daif = READ(daif);
	bool yes;

	__asm__ volatile("msr daifset, #2" ::: "memory");
	WRITE(tcr_el1, (tcr & ~clear) | set);
	yes = refused(&config, begins);
	WRITE(tcr_el1, tcr);
	__asm__ volatile("msr daif, %0" ::"r"(daif) : "memory");
	return yes;
}

static bool refused_tcr(uint64_t clear, uint64_t set, const char *begins)
{
	return refused_tcr_with(0, clear, set, begins);
}

/* Walks that are not shareable may miss what another CPU wrote: of no harm
 * iff there is no other.  Outer shareable (2) will do. */
static void test_refuses_private_walks(void)
{
	CHECK(refused_tcr(3u << 28, 0, "TCR_EL1.SH"));
	CHECK(refused_tcr(3u << 28, 1u << 28, "TCR_EL1.SH"));
	CHECK(!refused_tcr(3u << 28, 2u << 28, ""));
	end();
	CHECK(!refused_tcr_with(FALLOW_PAGETABLE_ONE_CPU, 3u << 28, 0, ""));
	end();
	/* TTBR0's half says nothing of TTBR1's. */
	CHECK(!refused_tcr(3u << 12, 0, ""));
	end();
}

static void test_refuses_tcr(void)
{
	/* EPD1, TG1 (16 KiB, 64 KiB), T1SZ, IRGN1, ORGN1. */
	CHECK(refused_tcr(0, 1u << 23, "TCR_EL1.EPD"));
	CHECK(refused_tcr(3u << 30, 1u << 30, "TCR_EL1.TG"));
	CHECK(refused_tcr(3u << 30, 3u << 30, "TCR_EL1.TG"));
	CHECK(refused_tcr(63u << 16, 34u << 16, "TCR_EL1.TxSZ"));
	CHECK(refused_tcr(63u << 16, 12u << 16, "TCR_EL1.TxSZ"));
	CHECK(refused_tcr(3u << 24, 0, "TCR_EL1.IRGN"));
	CHECK(refused_tcr(3u << 26, 0, "TCR_EL1.IRGN"));
	/* And with all as it was, it is not refused. */
	CHECK(!refused_tcr(0, 0, ""));
	end();
}

/* With DS the shareability bits of an entry are address bits: the image's
 * blocks are made to have none for the while. */
static void test_refuses_lpa2(void)
{
	uint64_t shareable = (uint64_t)3 << 8;
	bool yes;

	if ((READ(id_aa64mmfr0_el1) >> 28 & 15) != 1) {
		test_skip("the CPU has no LPA2");
		return;
	}
	for (size_t i = 0; i < 512; i++)
		board_level2[i] &= ~shareable;
	__asm__ volatile("dsb ish\n\ttlbi vmalle1\n\tdsb ish\n\tisb" :::
			"memory");
	yes = refused_tcr(0, (uint64_t)1 << 59, "TCR_EL1.DS");
	for (size_t i = 0; i < 512; i++)
		if (board_level2[i])
			board_level2[i] |= shareable;
	__asm__ volatile("dsb ish\n\ttlbi vmalle1\n\tdsb ish\n\tisb" :::
			"memory");
	CHECK(yes);
}

/* MAIR_EL1's fields beyond the two that the board uses are free to try. */
static void test_refuses_mair(void)
{
	struct fallow_pagetable_config config = configuration(HIGH_WINDOW, 0);
	uint64_t mair = READ(mair_el1);
	/* Not cacheable; write-through; MTE tagged; only one half is. */
	static const unsigned char bad[] = { 0x00, 0x44, 0xbb, 0xf0, 0x4f,
		0xf4 };

	config.attr_index = VIRT_ATTR_DEVICE;
	CHECK(refused(&config, "MAIR_EL1"));
	config.attr_index = 7;
	for (size_t i = 0; i < sizeof(bad); i++) {
		WRITE(mair_el1, mair | (uint64_t)bad[i] << 56);
		CHECK(refused(&config, "MAIR_EL1"));
	}
	WRITE(mair_el1, mair | (uint64_t)0x77 << 56);
	CHECK(!refused(&config, ""));
	WRITE(mair_el1, mair);
	end();
}

static void test_refuses_cache_off(void)
{
	struct fallow_pagetable_config config = configuration(HIGH_WINDOW, 0);
	uint64_t sctlr = READ(sctlr_el1);
	bool yes;

	WRITE(sctlr_el1, sctlr & ~((uint64_t)1 << 2));
	yes = refused(&config, "SCTLR_EL1");
	WRITE(sctlr_el1, sctlr);
	CHECK(yes);
}

/* The window must be in the half that the TTBR translates. */
static void test_refuses_other_half(void)
{
	struct fallow_pagetable_config config = configuration(HIGH_WINDOW, 0);

	config.window_base = LOW_WINDOW;
	CHECK(refused(&config, "the window"));
	/* One page below TTBR1's half, and across its begin. */
	config.window_base = 0xffff000000000000 - GRANULE;
	config.window_size = GRANULE;
	CHECK(refused(&config, "the window"));
	config.window_size = 2 * GRANULE;
	CHECK(refused(&config, "the window"));
	config = configuration(LOW_WINDOW, 0);
	config.window_base = HIGH_WINDOW;
	CHECK(refused(&config, "the window"));
}

/* Returns an empty table of the test's own. */
static uint64_t *table_make(uint64_t *frame)
{
	uint64_t *table;

	*frame = ration.under->take(ration.under->ctx, 12);
	table = (uint64_t *)(uintptr_t)(*frame + board_direct_offset());
	for (size_t i = 0; i < 512; i++)
		table[i] = 0;
	return table;
}

/* What is above or in the window already is refused, and nothing changes. */
static void test_refuses_mappings(void)
{
	struct fallow_pagetable_config config = configuration(HIGH_WINDOW, 0);
	uint64_t root_frame, level1_frame;
	uint64_t *root = table_make(&root_frame);
	uint64_t *level1 = table_make(&level1_frame);
	size_t top = HIGH_WINDOW >> 39 & 511;

	config.root = root_frame;
	root[top] = level1_frame | ENTRY_TABLE | (uint64_t)1 << 62;
	CHECK(refused(&config, "the window: APTable"));
	root[top] = level1_frame | ENTRY_TABLE;
	level1[0] = ENTRY_BLOCK;
	CHECK(refused(&config, "the window: a block"));
	level1[0] = 0;
	level1[1] = ENTRY_BLOCK;
	CHECK_EQUAL(fallow_pagetable_init(&test_pagetable, &config), FALLOW_OK);
	CHECK_EQUAL(root[top], level1_frame | ENTRY_TABLE);
	CHECK(fallow_pagetable_fini(&test_pagetable, true));
	config.window_size += GRANULE;
	CHECK(refused(&config, "the window: a block"));
	ration.under->give(ration.under->ctx, root_frame, 12);
	ration.under->give(ration.under->ctx, level1_frame, 12);
	CHECK_EQUAL(ration.out, 0);
}

/* All entries of the root that cover the window are filled, or none. */
static void test_fills_the_root(void)
{
	struct fallow_pagetable_config config = configuration(HIGH_WINDOW, 0);
	uint64_t root_frame;
	uint64_t *root = table_make(&root_frame);
	size_t top = HIGH_WINDOW >> 39 & 511, filled;

	config.root = root_frame;
	config.window_base = HIGH_WINDOW + (GIB << 9) - GRANULE;
	config.window_size = (GIB << 9) + 2 * GRANULE;
	for (uint64_t left = 0; left < 3; left++) {
		ration.left = left;
		CHECK_EQUAL(fallow_pagetable_init(&test_pagetable, &config),
			FALLOW_NO_TABLE_MEMORY);
		CHECK(fallow_pagetable_why(&test_pagetable) != NULL);
		CHECK_EQUAL(ration.out, 0);
		for (size_t i = 0; i < 512; i++)
			CHECK_EQUAL(root[i], 0);
	}
	ration.left = 3;
	CHECK_EQUAL(fallow_pagetable_init(&test_pagetable, &config), FALLOW_OK);
	CHECK_EQUAL(test_counters().tables, 3);
	filled = 0;
	for (size_t i = 0; i < 512; i++)
		filled += root[i] != 0;
	CHECK_EQUAL(filled, 3);
	CHECK(root[top] && root[top + 1] && root[top + 2]);
	CHECK(fallow_pagetable_fini(&test_pagetable, false));
	CHECK_EQUAL(ration.out, 3 * GRANULE);
	end();
	ration.under->give(ration.under->ctx, root_frame, 12);
}

/* Settings that no CPU makes right. */
static void test_bad_settings(void)
{
	struct fallow_pagetable_config good = configuration(HIGH_WINDOW, 0);
	struct fallow_pagetable_config bad = good;

	bad.size--;
	CHECK_EQUAL(fallow_pagetable_init(&test_pagetable, &bad),
		FALLOW_BAD_SIZE_FIELD);
	bad = good;
	bad.ttbr = 2;
	CHECK_EQUAL(fallow_pagetable_init(&test_pagetable, &bad),
		FALLOW_BAD_SETTING);
	bad = good;
	bad.attr_index = 8;
	CHECK_EQUAL(fallow_pagetable_init(&test_pagetable, &bad),
		FALLOW_BAD_SETTING);
	bad = good;
	bad.root |= (uint64_t)1 << 48;
	CHECK_EQUAL(fallow_pagetable_init(&test_pagetable, &bad),
		FALLOW_BAD_SETTING);
	bad = good;
	bad.root |= 1;
	CHECK_EQUAL(
		fallow_pagetable_init(&test_pagetable, &bad), FALLOW_UNALIGNED);
	CHECK_EQUAL(fallow_pagetable_init(NULL, &good),
		FALLOW_MISSING_ARGUMENT);
	CHECK_EQUAL(fallow_pagetable_init(&test_pagetable, NULL),
		FALLOW_MISSING_ARGUMENT);
}

/* A frame that a descriptor cannot name is no frame. */
static uint64_t take_beyond(void *ctx, unsigned size_log2)
{
	(void)ctx;
	(void)size_log2;
	return (uint64_t)1 << 48;
}

static uint64_t beyond_given;

static void give_beyond(void *ctx, uint64_t frame, unsigned size_log2)
{
	(void)ctx;
	(void)size_log2;
	beyond_given += frame == (uint64_t)1 << 48;
}

static void test_frames_beyond_reach(void)
{
	struct fallow_pagetable_config config = configuration(HIGH_WINDOW, 0);

	config.frames = (struct fallow_frame_hooks){
		.take = take_beyond,
		.give = give_beyond,
	};
	beyond_given = 0;
	CHECK_EQUAL(fallow_pagetable_init(&test_pagetable, &config),
		FALLOW_NO_TABLE_MEMORY);
	CHECK_EQUAL(beyond_given, 1);
}

/*
 * A kernel with fewer address bits: tables and frames are in the image, which
 * TTBR0 maps, so TTBR1 can name them for a while.
 */
#define POOL_FRAMES 16
static uint64_t pool[POOL_FRAMES][512] __attribute__((aligned(4096)));
static bool pool_used[POOL_FRAMES];

static uint64_t pool_take(void *ctx, unsigned size_log2)
{
	(void)ctx;
	for (size_t i = 0; i < POOL_FRAMES && size_log2 == 12; i++)
		if (!pool_used[i]) {
			pool_used[i] = true;
			return (uintptr_t)pool[i];
		}
	return FALLOW_FRAME_NONE;
}

static void pool_give(void *ctx, uint64_t frame, unsigned size_log2)
{
	(void)ctx;
	CHECK_EQUAL(size_log2, 12);
	pool_used[(frame - (uintptr_t)pool) / GRANULE] = false;
}

/* What the CPU's own walk says, with TTBR1 naming `root`, of an address of a
 * half of so many bits: PAR_EL1 (bit 0: a fault). */
static uint64_t cpu_walk(uint64_t root, unsigned bits, uintptr_t addr)
{
	uint64_t daif = READ(daif), ttbr = READ(ttbr1_el1);
	uint64_t tcr = READ(tcr_el1), par;

	__asm__ volatile("msr daifset, #2" ::: "memory");
	WRITE(ttbr1_el1, root);
	WRITE(tcr_el1, (tcr & ~(63ull << 16)) | (64ull - bits) << 16);
	__asm__ volatile("tlbi vmalle1\n\tdsb ish\n\tisb\n\t"
			 "at s1e1r, %0\n\tisb" ::"r"(addr)
			 : "memory");
	par = READ(par_el1);
	WRITE(tcr_el1, tcr);
	WRITE(ttbr1_el1, ttbr);
	__asm__ volatile("tlbi vmalle1\n\tdsb ish\n\tisb" ::: "memory");
	__asm__ volatile("msr daif, %0" ::"r"(daif) : "memory");
	return par;
}

/* Makes a provider as on a kernel of so many address bits. */
static enum fallow_status init_with_bits(
	const struct fallow_pagetable_config *config, unsigned bits)
{
	uint64_t daif = READ(daif), tcr = READ(tcr_el1);
	enum fallow_status status;

	__asm__ volatile("msr daifset, #2" ::: "memory");
	WRITE(tcr_el1, (tcr & ~(63ull << 16)) | (64ull - bits) << 16);
	status = fallow_pagetable_init(&test_pagetable, config);
	WRITE(tcr_el1, tcr);
	__asm__ volatile("msr daif, %0" ::"r"(daif) : "memory");
	return status;
}

/* Pages land where the CPU's walk finds them, from whichever level on. */
static void address_bits(unsigned bits)
{
	struct fallow_pagetable_config config = configuration(
		((uintptr_t)0 - 1) << (bits - 1), FALLOW_PAGETABLE_ONE_CPU);
	struct fallow_mapping mapping;

	for (size_t i = 0; i < POOL_FRAMES; i++)
		pool_used[i] = false;
	config.window_size = 4 * CHUNK;
	config.direct_offset = 0;
	config.frames = (struct fallow_frame_hooks){
		.take = pool_take,
		.give = pool_give,
	};
	config.root = pool_take(NULL, 12);
	for (size_t i = 0; i < 512; i++)
		pool[0][i] = 0;
	CHECK_OR_RETURN(init_with_bits(&config, bits) == FALLOW_OK);
	fallow_pagetable_provider(&test_pagetable, &test_provider);
	CHECK(test_try_commit(window + CHUNK - GRANULE, 2 * GRANULE, 0));
	for (uintptr_t at = CHUNK - GRANULE; at <= CHUNK; at += GRANULE) {
		CHECK(fallow_pagetable_lookup(
			&test_pagetable, window + at, &mapping));
		CHECK_EQUAL(cpu_walk(config.root, bits, window + at) &
				0xfffffffff001,
			mapping.physical);
	}
	CHECK_EQUAL(cpu_walk(config.root, bits, window) & 1, 1);
	test_try_decommit(window + CHUNK - GRANULE, 2 * GRANULE);
	CHECK_EQUAL(cpu_walk(config.root, bits, window + CHUNK) & 1, 1);
	CHECK(fallow_pagetable_fini(&test_pagetable, true));
	for (size_t i = 1; i < POOL_FRAMES; i++)
		CHECK(!pool_used[i]);
}

static void test_address_bits(void)
{
	/* 39 and 40 are on both sides of the change of level. */
	static const unsigned bits[] = { 31, 36, 39, 40, 42, 47, 48 };

	for (size_t i = 0; i < sizeof(bits) / sizeof(bits[0]); i++)
		address_bits(bits[i]);
}

static void test_board_frames_whole(void)
{
	CHECK(fallow_frames_check(board_frames(), NULL) == NULL);
}

const struct test tests[] = {
	{ "attributes", test_attributes },
	{ "lookup_outside", test_lookup_outside },
	{ "low_half", test_low_half },
	{ "high_half", test_high_half },
	{ "end_of_addresses", test_end_of_addresses },
	{ "refuses_to_split", test_refuses_to_split },
	{ "no_conflict", test_no_conflict },
	{ "granules_only", test_granules_only },
	{ "stop_others", test_stop_others },
	{ "stop_is_exclusive", test_stop_is_exclusive },
	{ "stack_in_block", test_stack_in_block },
	{ "mask_restored", test_mask_restored },
	{ "flush_threshold", test_flush_threshold },
	{ "promote_forgets_pages", test_promote_forgets_pages },
	{ "given_as_taken", test_given_as_taken },
	{ "reserved_without_claim", test_reserved_without_claim },
	{ "home_is_found_again", test_home_is_found_again },
	{ "memory_type_refused", test_memory_type_refused },
	{ "refuses_tcr", test_refuses_tcr },
	{ "refuses_private_walks", test_refuses_private_walks },
	{ "refuses_lpa2", test_refuses_lpa2 },
	{ "refuses_mair", test_refuses_mair },
	{ "refuses_cache_off", test_refuses_cache_off },
	{ "refuses_other_half", test_refuses_other_half },
	{ "refuses_mappings", test_refuses_mappings },
	{ "fills_the_root", test_fills_the_root },
	{ "bad_settings", test_bad_settings },
	{ "frames_beyond_reach", test_frames_beyond_reach },
	{ "address_bits", test_address_bits },
	{ "board_frames_whole", test_board_frames_whole },
	{ NULL, NULL },
};
