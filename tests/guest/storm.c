/* SPDX-License-Identifier: MIT */
/*
 * Storms of CPUs (tests/support/storm.h), on either board: a worker is a CPU,
 * and its handler is its timer's.
 *
 * The heap is over a page-table provider of its own, or over the direct map;
 * both take frames from one ration.  All RAM was poisoned once, and frames are
 * poisoned when they come back: one that is not poisoned any more when it is
 * taken again was written through a mapping that a CPU should have forgotten.
 * What the storm squeezes is that ration, too: every CPU takes frames for
 * itself, of any size, and gives them back.
 *
 * Between provider and heap it is checked that a call that said NOWAIT, or came
 * from a handler, or with interrupts masked, does not get where it must not.
 *
 * While a CPU waits for the others its timer's handler does nothing but wake
 * it, so that CPUs that wait do not take the host's time from those that work.
 */
#include <fallow/direct.h>
#include <fallow/fallow.h>
#include <fallow/frames.h>
#include <fallow/pagetable.h>

#include "arch.h"
#include "board.h"
#include "ration.h"
#include "storm.h"
#include "test.h"

#define MIB ((size_t)1 << 20)

/* Steps of a worker in a round, and the rounds of a short storm, as long as it
 * does not take longer than that. */
#define STEPS(cpus) (400 / (cpus) + 50)
#define ROUNDS 22
#define ROUND_MILLISECONDS 500
#define ENOUGH_MILLISECONDS 4000

/* Memory of the heap, of which machines with little have less. */
#define MEMORY_BYTES(cpus) ((4 + 2 * (size_t)(cpus)) * MIB)

/* Of the emergency pool. */
#define RESERVE_BYTES ((size_t)256 << 10)

/* Runs of frames that a CPU takes for itself, and their largest size. */
#define BALLAST 24
#define BALLAST_LOG2 19

#define WAKE_NANOSECONDS 500000
/* The clock is calibrated over so many periods of so long. */
#define CLOCK_NANOSECONDS 10000000
#define CLOCK_PERIODS 3
#define STATUS_HANG 97

/* What the port finds where the board's block else is, in a handler: in the
 * model PREEMPT that is a context of its own.  The other words are the port's
 * (arch/preempt.h). */
struct block {
	uint32_t context, held, postponed;
} __attribute__((aligned(64)));

/* What a CPU has beside the engine. */
struct cpu {
	struct block block;
	void *own;
	/* The storm's handler comes; it runs. */
	bool storming, in_handler;
	unsigned held;
	uint64_t frames[BALLAST];
	unsigned log2[BALLAST];
} __attribute__((aligned(64)));

static struct storm storm;
static struct fallow heap;
static struct test_ration ration;
static struct fallow_frame_hooks hooks;
static struct fallow_pagetable pagetable;
static struct fallow_direct direct;
/* What is under the checks, and the checks. */
static struct fallow_provider inner, provider;
static struct cpu cpus[BOARD_CPUS_MAX];
static void (*cpu_work)(void *arg, unsigned worker);
static uint64_t ticks_per_millisecond;
static uint32_t clock_runs;
/* Bytes of RAM that are poisoned; 0: not yet. */
static uint64_t poisoned;

static void clock_handler(struct board_frame *frame, void *arg)
{
	(void)frame;
	(void)arg;
	__atomic_fetch_add(&clock_runs, 1, __ATOMIC_RELAXED);
}

/* Waits for n more runs of the clock's handler; returns the time then. */
static uint64_t clock_wait(uint32_t n)
{
	uint32_t end = __atomic_load_n(&clock_runs, __ATOMIC_RELAXED) + n;

	while ((int32_t)(__atomic_load_n(&clock_runs, __ATOMIC_RELAXED) -
			end) < 0)
		board_idle();
	return board_ticks();
}

/* Finds out how fast the counter is.  A busy host makes it seem faster, and
 * then a storm takes longer than was asked for. */
static void clock_set(void)
{
	uint64_t begin, end;

	if (ticks_per_millisecond)
		return;
	board_timer(CLOCK_NANOSECONDS, clock_handler, NULL);
	begin = clock_wait(1);
	end = clock_wait(CLOCK_PERIODS);
	board_timer(0, NULL, NULL);
	ticks_per_millisecond = (end - begin) /
		(CLOCK_PERIODS * CLOCK_NANOSECONDS / 1000000) + 1;
}

static void cpu_run(void *arg)
{
	cpu_work(arg, board_cpu());
}

static void host_run(void (*work)(void *arg, unsigned worker), void *arg)
{
	cpu_work = work;
	board_run(cpu_run, arg);
}

static uint64_t host_milliseconds(void)
{
	return board_ticks() / ticks_per_millisecond;
}

static void wake_handler(struct board_frame *frame, void *arg)
{
	(void)frame;
	(void)arg;
}

static void host_pause(void)
{
	if (cpus[board_cpu()].storming) {
		fl_port_pause();
		return;
	}
	board_timer(WAKE_NANOSECONDS, wake_handler, NULL);
	board_idle();
	board_timer(0, NULL, NULL);
}

/* The CPU is its handler's context, where that is one of its own; returns the
 * block that was. */
static void *handler_begin(struct cpu *cpu)
{
	void *block = board_block();

	cpu->in_handler = true;
	if (FALLOW_MODEL == FALLOW_MODEL_PREEMPT)
		board_block_set(&cpu->block);
	return block;
}

static void handler_end(struct cpu *cpu, void *block)
{
	board_block_set(block);
	cpu->in_handler = false;
}

static void storm_timer(struct board_frame *frame, void *arg)
{
	struct cpu *cpu = arg;
	void *block = handler_begin(cpu);

	(void)frame;
	storm_handler(&storm, board_cpu());
	handler_end(cpu, block);
}

static void host_timer(unsigned worker, uint64_t nanoseconds)
{
	struct cpu *cpu = &cpus[worker];

	cpu->storming = nanoseconds != 0;
	board_timer(nanoseconds, nanoseconds ? storm_timer : NULL, cpu);
}

/* The block is the CPU's own before and afterwards. */
static uintptr_t host_handler_enter(unsigned worker)
{
	uintptr_t state = board_interrupts_mask();

	cpus[worker].own = handler_begin(&cpus[worker]);
	return state;
}

static void host_handler_leave(unsigned worker, uintptr_t state)
{
	handler_end(&cpus[worker], cpus[worker].own);
	board_interrupts_restore(state);
}

/* Takes a run of frames, or gives back the one held longest. */
static void host_squeeze(unsigned worker, uint64_t random)
{
	struct cpu *cpu = &cpus[worker];
	unsigned log2 = 12 + (unsigned)(random >> 8) % (BALLAST_LOG2 - 11);
	uint64_t frame;

	if (cpu->held == BALLAST || (cpu->held && random % 3 == 0)) {
		hooks.give(hooks.ctx, cpu->frames[0], cpu->log2[0]);
		cpu->held--;
		for (unsigned i = 0; i < cpu->held; i++) {
			cpu->frames[i] = cpu->frames[i + 1];
			cpu->log2[i] = cpu->log2[i + 1];
		}
		return;
	}
	frame = hooks.take(hooks.ctx, log2);
	if (frame == FALLOW_FRAME_NONE)
		return;
	cpu->frames[cpu->held] = frame;
	cpu->log2[cpu->held++] = log2;
}

static void host_relax(unsigned worker)
{
	struct cpu *cpu = &cpus[worker];

	while (cpu->held) {
		cpu->held--;
		hooks.give(hooks.ctx, cpu->frames[cpu->held],
			cpu->log2[cpu->held]);
	}
}

static void host_inspect(bool empty)
{
	(void)empty;
	CHECK_EQUAL(__atomic_load_n(&ration.stale, __ATOMIC_RELAXED), 0);
	CHECK(!fallow_frames_check(board_frames(), NULL));
}

_Noreturn static void host_die(void)
{
	board_exit(STATUS_HANG);
}

static struct storm_host host = {
	.run = host_run,
	.self = board_cpu,
	.milliseconds = host_milliseconds,
	.pause = host_pause,
	.idle = board_idle,
	.timer = host_timer,
	.handler_enter = host_handler_enter,
	.handler_leave = host_handler_leave,
	.nmi = board_nmi,
	.interrupts_on = board_interrupts_on,
	.interrupts_mask = board_interrupts_mask,
	.interrupts_restore = board_interrupts_restore,
	.stop_others = board_stop_others,
	.resume_others = board_resume_others,
	.squeeze = host_squeeze,
	.relax = host_relax,
	.inspect = host_inspect,
	.die = host_die,
};

/* The port's, in the model PREEMPT: no CPU has another thread. */
void fallow_preempt_switch(void)
{
}

/* Notes a failure iff the provider may not be called here; `wait`: by a call
 * that waits for other CPUs. */
static void caller_check(bool wait)
{
	unsigned cpu = board_cpu();
	bool in_handler = cpus[cpu].in_handler;

	if (!storm_may_call(&storm, cpu, in_handler))
		storm_fail(&storm, "NOWAIT calls no provider");
	if (wait && (in_handler || !board_interrupts_on()))
		storm_fail(&storm, "only a task calls what waits");
}

static unsigned checked_commit(
	void *ctx, uintptr_t base, size_t size, unsigned flags)
{
	caller_check(false);
	return inner.commit(ctx, base, size, flags);
}

static void checked_decommit(void *ctx, struct fallow_range *ranges, size_t n)
{
	caller_check(true);
	inner.decommit(ctx, ranges, n);
}

static uintptr_t checked_reserve(void *ctx, size_t size, size_t align)
{
	caller_check(false);
	return inner.reserve(ctx, size, align);
}

static void checked_release(void *ctx, uintptr_t base, size_t size)
{
	caller_check(true);
	inner.release(ctx, base, size);
}

/* Puts the checks between `inner` and whoever uses `provider`. */
static void provider_check(void)
{
	provider = inner;
	provider.commit = inner.commit ? checked_commit : NULL;
	provider.decommit = inner.decommit ? checked_decommit : NULL;
	provider.reserve = inner.reserve ? checked_reserve : NULL;
	provider.release = inner.release ? checked_release : NULL;
}

/* Returns the number behind `key` among the image's arguments, 0 without. */
static uint64_t argument(const char *key)
{
	for (const char *at = board_args(); *at; at++) {
		size_t i = 0;
		uint64_t value = 0;

		while (key[i] && at[i] == key[i])
			i++;
		if (key[i])
			continue;
		for (at += i; *at >= '0' && *at <= '9'; at++)
			value = value * 10 + (uint64_t)(*at - '0');
		return value;
	}
	return 0;
}

/* Makes the frame hooks: of MEMORY_BYTES, and of what there is. */
static size_t ration_begin(void)
{
	ration = (struct test_ration){
		.under = board_frame_hooks(),
		.direct_offset = board_direct_offset(),
		.left = TEST_RATION_NONE,
		.limit = MEMORY_BYTES(board_cpus()),
		.poisoned = true,
	};
	if (!poisoned)
		poisoned = test_ration_poison(&ration);
	hooks = test_ration_hooks(&ration);
	return poisoned < ration.limit ? (size_t)poisoned
				       : (size_t)ration.limit;
}

/* Makes the heap, over `inner` in this window. */
static bool heap_begin(uintptr_t window_base, size_t window_size)
{
	struct fallow_config config = {
		.size = sizeof(config),
		.provider = &provider,
		.window_base = window_base,
		.window_size = window_size,
		.contexts = 2 * board_cpus(),
		.misuse = storm_misuse,
		.misuse_ctx = &storm,
		.pressure = storm_pressure,
		.pressure_ctx = &storm,
		.reserve_bytes = RESERVE_BYTES,
	};
	enum fallow_status status;

	provider_check();
	status = fallow_init(&heap, &config);
	if (status == FALLOW_OK &&
		provider.provider_class == FALLOW_CLASS_WINDOW)
		status = fallow_add_region(&heap, window_base, window_size);
	CHECK_EQUAL(status, FALLOW_OK);
	return status == FALLOW_OK;
}

/* Runs the storm, and takes the heap down; returns whether all went well. */
static bool heap_storm(const char *name, size_t memory)
{
	uint64_t seconds = argument("seconds=");
	struct storm_config config = {
		.host = &host,
		.heap = &heap,
		.seed = test_seed,
		.steps = STEPS(board_cpus()),
		.rounds = ROUNDS,
		.round_milliseconds = ROUND_MILLISECONDS,
		.milliseconds = seconds * 1000,
		.enough_milliseconds = seconds ? 0 : ENOUGH_MILLISECONDS,
		.holes = provider.provider_class == FALLOW_CLASS_WINDOW,
		.memory = memory,
		.progress_milliseconds = 10000,
	};

	for (unsigned i = 0; i < board_cpus(); i++)
		cpus[i].block = (struct block){
			.context = board_cpus() + i, .held = 1 };
	clock_set();
	host.workers = board_cpus();
	storm_run(&storm, &config);
	storm_print(&storm, name);
	if (test_failures())
		return false;
	CHECK(storm.counts.nulls > 0);
	CHECK(storm.counts.handlers > 0);
	CHECK(storm.counts.sweeps > 0);
	CHECK(storm.counts.reclaims > 0);
	CHECK(storm.counts.parks > 0);
	if (provider.provider_class == FALLOW_CLASS_WINDOW)
		CHECK(storm.counts.holed > 0);
	fallow_fini(&heap);
	return true;
}

static void test_storm_window(void)
{
	size_t memory = ration_begin();
	uintptr_t base = board_window_base() + board_window_size() / 2;
	size_t size = board_window_size() / 2;

	CHECK_EQUAL(board_pagetable_init(&pagetable, &hooks, base, size, 0),
		FALLOW_OK);
	fallow_pagetable_provider(&pagetable, &inner);
	if (!heap_begin(base, size) || !heap_storm("window", memory))
		return;
	CHECK(fallow_pagetable_fini(&pagetable, false));
	CHECK_EQUAL(ration.out, 0);
	CHECK_EQUAL(ration.stale, 0);
}

static void test_storm_direct(void)
{
	size_t memory = ration_begin();
	const struct board_ram *ram;
	size_t n = board_ram(&ram);
	uint64_t low = UINT64_MAX, high = 0;
	struct fallow_direct_config config = {
		.size = sizeof(config),
		.hooks = &hooks,
		.offset = board_direct_offset(),
	};

	for (size_t i = 0; i < n; i++) {
		if (ram[i].base < low)
			low = ram[i].base;
		if (ram[i].base + ram[i].size > high)
			high = ram[i].base + ram[i].size;
	}
	low &= ~(uint64_t)4095;
	high &= ~(uint64_t)4095;
	config.window_base = board_direct_offset() + low;
	config.window_size = high - low;
	CHECK_EQUAL(fallow_direct_init(&direct, &config), FALLOW_OK);
	inner = direct.provider;
	if (!heap_begin(config.window_base, config.window_size) ||
		!heap_storm("direct", memory))
		return;
	CHECK_EQUAL(ration.out, 0);
	CHECK_EQUAL(ration.stale, 0);
}

const struct test tests[] = {
	{ "storm_direct", test_storm_direct },
	{ "storm_window", test_storm_window },
	{ NULL, NULL },
};
