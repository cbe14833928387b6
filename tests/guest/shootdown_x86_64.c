/* SPDX-License-Identifier: MIT */
/*
 * Shootdowns by interrupt, which x86-64 needs: how many, of what, and that one
 * that is left out is seen.
 *
 * Providers here have a hook of the test's own, which counts and can leave a
 * CPU out; that the board's hook sends no more interrupts is asked of the
 * board.  What must be true of any CPU's shootdown is in shootdown.c.
 */
#include "arch.h"
#include "board.h"
#include "meet.h"
#include "paging.h"
#include "test.h"

#define GRANULE ((uintptr_t)4096)
#define CHUNK ((uintptr_t)2 << 20)
/* The most granules that are flushed one by one (arch/x86_64/pagetable.c). */
#define FEW 32
#define NOBODY BOARD_CPUS_MAX
#define ROUNDS 20

/* boards/q35/cpus.c: how often this CPU has served a call of another. */
extern uint32_t board_calls_served(void);

static uintptr_t window;
static struct fallow_frame_hooks hooks;

/* What the hook did: calls, the last one's flush, what each CPU flushed. */
static struct {
	uint32_t calls, left_out;
	bool all;
	size_t n;
	uint32_t flushes[BOARD_CPUS_MAX];
	/* CPUs that have acknowledged the call in progress, and frames that
	 * came back before all had. */
	uint32_t acknowledged, early, gives;
} seen;

static void flush_here(void *what)
{
	unsigned cpu = board_cpu();

	CHECK(!board_interrupts_on());
	if (cpu != seen.left_out) {
		fallow_pagetable_flush(what);
		seen.flushes[cpu]++;
	}
	test_add(&seen.acknowledged, 1);
}

static void shootdown(void *ctx, const struct fallow_pagetable_flush *what)
{
	uintptr_t state;

	CHECK(ctx == &seen);
	CHECK(board_interrupts_on());
	state = board_interrupts_mask();
	seen.calls++;
	seen.all = what->all;
	seen.n = what->n;
	test_store(&seen.acknowledged, 0);
	flush_here((void *)(uintptr_t)what);
	board_interrupt_others(flush_here, (void *)(uintptr_t)what);
	board_interrupts_restore(state);
}

static void frames_give(void *ctx, uint64_t frame, unsigned size_log2)
{
	seen.gives++;
	seen.early += test_load(&seen.acknowledged) != board_cpus();
	board_frame_hooks()->give(ctx, frame, size_log2);
}

/* Makes test_provider, with the board's hook or this file's. */
static bool begin(bool own)
{
	uint64_t root;
	struct fallow_pagetable_config config;
	enum fallow_status status;

	__asm__ volatile("movq %%cr3, %0" : "=r"(root));
	hooks = *board_frame_hooks();
	hooks.give = frames_give;
	window = board_window_base() + board_window_size() / 2;
	config = (struct fallow_pagetable_config){
		.size = sizeof(config),
		.root = root & ~(uint64_t)(GRANULE - 1),
		.direct_offset = board_direct_offset(),
		.frames = hooks,
		.window_base = window,
		.window_size = board_window_size() / 2,
		.shootdown = shootdown,
		.shootdown_ctx = &seen,
	};
	status = own ? fallow_pagetable_init(&test_pagetable, &config)
		: board_pagetable_init(&test_pagetable, board_frame_hooks(),
			window, board_window_size() / 2, 0);
	CHECK_EQUAL(status, FALLOW_OK);
	fallow_pagetable_provider(&test_pagetable, &test_provider);
	__builtin_memset(&seen, 0, sizeof(seen));
	seen.left_out = NOBODY;
	return status == FALLOW_OK;
}

static void end(void)
{
	CHECK(fallow_pagetable_fini(&test_pagetable, false));
}

/* Commits n granules, every second one. */
static void commit_apart(size_t n)
{
	while (n-- > 0)
		test_commit(window + 2 * n * GRANULE, GRANULE, 0);
}

/* Gives them up, as n ranges, by one call. */
static void decommit(size_t n)
{
	struct fallow_range ranges[FALLOW_RANGES_MAX];
	size_t i;

	for (i = 0; i < n; i++)
		ranges[i] = (struct fallow_range){
			.base = window + 2 * i * GRANULE, .size = GRANULE,
		};
	test_provider.decommit(test_provider.ctx, ranges, n);
}

static const size_t range_counts[] = { 1, 2, FALLOW_RANGES_MAX };
#define RANGE_COUNTS (sizeof(range_counts) / sizeof(range_counts[0]))

/* One call of the hook, and one flush on each CPU, however many ranges. */
static void test_one_call_a_decommit(void)
{
	size_t i, n, cpu;

	if (!begin(true))
		return;
	for (i = 0; i < RANGE_COUNTS; i++) {
		n = range_counts[i];
		commit_apart(n);
		CHECK_EQUAL(seen.calls, i);
		decommit(n);
		CHECK_EQUAL(seen.calls, i + 1);
		CHECK_EQUAL(seen.n, n);
		CHECK_EQUAL(test_counters().flushes, i + 1);
		for (cpu = 0; cpu < board_cpus(); cpu++)
			CHECK_EQUAL(seen.flushes[cpu], i + 1);
	}
	CHECK_EQUAL(seen.early, 0);
	end();
}

static uint32_t calls_before[BOARD_CPUS_MAX], calls_now[BOARD_CPUS_MAX];

static void run_calls(void *into)
{
	((uint32_t *)into)[board_cpu()] = board_calls_served();
}

/* The board's hook interrupts each other CPU once a decommit. */
static void test_one_interrupt_a_decommit(void)
{
	size_t i, n, cpu;

	if (!begin(false))
		return;
	for (i = 0; i < RANGE_COUNTS; i++) {
		n = range_counts[i];
		commit_apart(n);
		board_run(run_calls, calls_before);
		decommit(n);
		board_run(run_calls, calls_now);
		for (cpu = 0; cpu < board_cpus(); cpu++)
			CHECK_EQUAL(calls_now[cpu],
				calls_before[cpu] + (cpu != 0));
	}
	end();
}

/* Few granules go one by one, more by a flush of everything; so does whatever
 * changes an upper level. */
static void test_few_or_everything(void)
{
	if (!begin(true))
		return;
	test_commit(window, CHUNK, FALLOW_RESERVED);
	test_decommit(window, FEW * GRANULE);
	CHECK(!seen.all);
	CHECK_EQUAL(test_counters().flushes_all, 0);
	test_decommit(window + FEW * GRANULE, (FEW + 1) * GRANULE);
	CHECK(seen.all);
	CHECK_EQUAL(test_counters().flushes_all, 1);
	test_commit(window, (2 * FEW + 1) * GRANULE, FALLOW_RESERVED);
	CHECK(test_provider.promote(test_provider.ctx, window));
	CHECK(seen.all);
	CHECK_EQUAL(test_counters().flushes_all, 2);
	test_decommit(window, GRANULE);
	CHECK(seen.all);
	CHECK_EQUAL(test_counters().flushes_all, 3);
	test_decommit(window + GRANULE, GRANULE);
	CHECK(!seen.all);
	CHECK_EQUAL(test_counters().flushes_all, 3);
	CHECK_EQUAL(test_counters().flushes, 5);
	test_decommit(window + 2 * GRANULE, CHUNK - 2 * GRANULE);
	CHECK_EQUAL(seen.early, 0);
	end();
}

/* Frames are given back only when all CPUs have acknowledged. */
static void test_frames_come_back_last(void)
{
	if (!begin(true))
		return;
	commit_apart(FALLOW_RANGES_MAX);
	decommit(FALLOW_RANGES_MAX);
	CHECK_EQUAL(seen.gives, FALLOW_RANGES_MAX);
	test_commit(window + CHUNK, CHUNK, FALLOW_PREFER_LARGE);
	test_decommit(window + CHUNK, GRANULE);
	test_decommit(window + CHUNK + GRANULE, CHUNK - GRANULE);
	CHECK(seen.gives > FALLOW_RANGES_MAX + 1);
	CHECK_EQUAL(seen.early, 0);
	while (seen.calls < 10) {
		test_commit(window, GRANULE, 0);
		decommit(1);
	}
	end();
	CHECK_EQUAL(seen.early, 0);
}

/* How often each CPU reached what it may not, or could not what it may. */
static uint32_t stale[BOARD_CPUS_MAX], missing;
/* Granules of the hole, all at the begin of the window. */
static size_t hole;
static uint32_t gone;

/* CPU 0 gives the hole up while the others touch it; then all look. */
static void run_stale(void *arg)
{
	unsigned cpu = board_cpu();
	size_t i;

	(void)arg;
	for (i = 0; i < hole; i++)
		if (!board_can_read(window + i * GRANULE))
			test_add(&missing, 1);
	test_meet();
	if (cpu == 0) {
		test_decommit(window, hole * GRANULE);
		test_store(&gone, 1);
	}
	while (!test_load(&gone)) {
		board_can_read(window);
		fl_port_pause();
	}
	for (i = 0; i < hole; i++)
		stale[cpu] += board_can_read(window + i * GRANULE);
}

/* Makes a hole of so many granules, again and again, with a hook that leaves
 * out `left_out`; returns what all CPUs but that one reached of it. */
static uint32_t stale_elsewhere(size_t granules, unsigned left_out)
{
	static const struct fallow_pagetable_flush all = { .all = true };
	uint32_t n = 0;
	unsigned round, cpu;

	hole = granules;
	for (cpu = 0; cpu < BOARD_CPUS_MAX; cpu++)
		stale[cpu] = 0;
	for (round = 0; round < ROUNDS; round++) {
		test_commit(window, hole * GRANULE, 0);
		test_store(&gone, 0);
		seen.left_out = left_out;
		board_run(run_stale, NULL);
		seen.left_out = NOBODY;
		shootdown(&seen, &all);
	}
	for (cpu = 0; cpu < board_cpus(); cpu++)
		n += cpu == left_out ? 0 : stale[cpu];
	return n;
}

/*
 * A CPU that is not told still reaches the hole, and is seen to, which is what
 * all tests of this kind rest on; the others do not.  It need not happen
 * each time: the emulator may have forgotten a translation by itself.
 */
static void test_cpu_left_out_is_seen(void)
{
	unsigned cpu;

	if (!begin(true))
		return;
	missing = 0;
	for (cpu = 0; cpu < board_cpus(); cpu++) {
		CHECK_EQUAL(stale_elsewhere(2, cpu), 0);
		CHECK(stale[cpu] > 0);
		CHECK_EQUAL(stale_elsewhere(FEW + 1, cpu), 0);
		CHECK(stale[cpu] > 0);
	}
	CHECK_EQUAL(stale_elsewhere(2, NOBODY), 0);
	CHECK_EQUAL(stale_elsewhere(FEW + 1, NOBODY), 0);
	CHECK_EQUAL(missing, 0);
	end();
}

/*
 * A flush of everything reaches what only it can: translations, global as all
 * of the window's are, that an earlier flush should have taken and did not.
 */
static void run_warm(void *arg)
{
	CHECK_EQUAL(board_can_read(window), *(bool *)arg);
}

static void test_everything_is_everything(void)
{
	bool yes = true, no = false;
	unsigned cpu;

	if (!begin(true))
		return;
	for (cpu = 0; cpu < board_cpus(); cpu++) {
		test_commit(window, GRANULE, 0);
		test_commit(window + CHUNK, (FEW + 1) * GRANULE, 0);
		board_run(run_warm, &yes);
		seen.left_out = cpu;
		decommit(1);
		seen.left_out = NOBODY;
		test_decommit(window + CHUNK, (FEW + 1) * GRANULE);
		CHECK(seen.all);
		board_run(run_warm, &no);
	}
	end();
}

const struct test tests[] = {
	{ "one_call_a_decommit", test_one_call_a_decommit },
	{ "one_interrupt_a_decommit", test_one_interrupt_a_decommit },
	{ "few_or_everything", test_few_or_everything },
	{ "frames_come_back_last", test_frames_come_back_last },
	{ "cpu_left_out_is_seen", test_cpu_left_out_is_seen },
	{ "everything_is_everything", test_everything_is_everything },
	{ NULL, NULL },
};
