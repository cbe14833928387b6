/* SPDX-License-Identifier: MIT */
/*
 * Threads that are switched at any instruction and go on on another CPU, also
 * in the middle of an allocation that had to call its provider.
 *
 * More threads than CPUs share a heap under a round-robin scheduler
 * (support/sched.h), each with an oracle of its own; they pass blocks to each
 * other, and so free what others allocated.  Timer handlers allocate and free
 * too, where the model allows it.  A *wanderer* stands between heap and board:
 * its commit and decommit do not go on before their thread is on another CPU.
 * Some calls are made with interrupts masked, or with preemption held off by
 * the thread itself, and whether that is so must be the same at each return and
 * each provider call.
 *
 * Between the rounds all CPUs stand still, and the heap is compared with all
 * oracles.  Nothing depends on time: a test goes on until enough has happened.
 * The image is the same in the models IRQ, PREEMPT and THREAD.
 */
#include <fallow/fallow.h>

#include "arch.h"
#include "board.h"
#include "oracle.h"
#include "sched.h"
#include "test.h"

#define KIB ((size_t)1 << 10)

#define BLOCKS 96
#define NANOSECONDS 100000
/* A round: so many operations of each thread.  So many moves of each kind are
 * wanted, which takes a round or two. */
#define OPERATIONS 300
#define MOVES 20
#define ROUNDS_MAX 100
/* Handlers allocate where they are contexts of their own, or of their CPU. */
#define TICKS_ALLOCATE (FALLOW_MODEL != FALLOW_MODEL_THREAD)

/* One that runs: a thread, or the handlers of a CPU. */
struct runner {
	struct oracle oracle;
	struct oracle_block blocks[BLOCKS];
	uint64_t random;
	/* As it called into the heap. */
	bool irqs_on;
	unsigned held;
	/* Blocks on their way to it. */
	struct oracle_block mail;
	uint32_t mail_state; /* enum mail */
};

enum mail {
	MAIL_NONE = 0,
	MAIL_BUSY,
	MAIL_THERE,
};

static struct fallow heap;
static struct runner threads[SCHED_THREADS_MAX];
static struct runner ticks[BOARD_CPUS_MAX];
static unsigned thread_count;
static bool ticking[BOARD_CPUS_MAX];

/* What the wanderer saw: calls that came back on another CPU, or later. */
static struct {
	uint64_t calls, commits_moved, decommits_moved, still;
} wandered;

static void count(uint64_t *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

static uint64_t counted(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

/* Who calls: a thread, or the handlers of this CPU; NULL outside of a round. */
static struct runner *runner_now(void)
{
	uintptr_t state = board_interrupts_mask();
	unsigned number = sched_self();
	struct runner *runner = NULL;

	if (number < SCHED_THREADS_MAX)
		runner = &threads[number];
	else if (ticking[board_cpu()])
		runner = &ticks[board_cpu()];
	board_interrupts_restore(state);
	return runner;
}

static void call_before(void *arg, unsigned flags)
{
	struct runner *runner = arg;

	(void)flags;
	runner->irqs_on = board_interrupts_on();
	runner->held = sched_held();
}

/* At each return, provider call and hook. */
static void as_at_entry(const struct runner *runner)
{
	CHECK_EQUAL(board_interrupts_on(), runner->irqs_on);
	CHECK_EQUAL(sched_held(), runner->held);
}

static void call_after(void *arg)
{
	as_at_entry(arg);
}

/* Moves the calling thread to another CPU, if it may be moved, and counts that
 * it did; every other time, so that calls are also short. */
static void wander(uint64_t *moves)
{
	uint64_t n = __atomic_fetch_add(&wandered.calls, 1, __ATOMIC_RELAXED);
	struct runner *runner = runner_now();
	struct sched_moved moved;

	if (runner == NULL)
		return;
	as_at_entry(runner);
	if (!sched_may_move()) {
		count(&wandered.still);
		return;
	}
	if (n % 2 == 1)
		return;
	moved = sched_move();
	CHECK(board_cpus() == 1 || moved.from != moved.to);
	count(moves);
}

static unsigned wander_commit(
	void *ctx, uintptr_t base, size_t size, unsigned flags)
{
	const struct fallow_provider *board = board_provider();
	unsigned result;

	wander(&wandered.commits_moved);
	result = board->commit(ctx, base, size, flags);
	wander(&wandered.commits_moved);
	return result;
}

static void wander_decommit(void *ctx, struct fallow_range *ranges, size_t n)
{
	const struct fallow_provider *board = board_provider();

	CHECK(board_interrupts_on() && sched_held() == 0);
	wander(&wandered.decommits_moved);
	board->decommit(ctx, ranges, n);
	wander(&wandered.decommits_moved);
}

/* Puts a block into another's mail, unless there is one. */
static void mail_send(struct runner *from, struct runner *to)
{
	uint32_t none = MAIL_NONE;

	if (from->oracle.count == 0 ||
		!__atomic_compare_exchange_n(&to->mail_state, &none, MAIL_BUSY,
			false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return;
	to->mail = oracle_forget(&from->oracle,
		test_random(&from->random) % from->oracle.count);
	/* Pairs with the acquire in mail_receive(). */
	__atomic_store_n(&to->mail_state, MAIL_THERE, __ATOMIC_RELEASE);
}

/* Takes a block out of the own mail, if there is one and room for it. */
static void mail_receive(struct runner *runner)
{
	if (__atomic_load_n(&runner->mail_state, __ATOMIC_ACQUIRE) ==
			MAIL_THERE &&
		oracle_learn(&runner->oracle, runner->mail))
		__atomic_store_n(
			&runner->mail_state, MAIL_NONE, __ATOMIC_RELEASE);
}

/* One random operation, as a task, or now and then with interrupts masked or
 * preemption held off. */
static void step(struct runner *runner)
{
	uint64_t random = test_random(&runner->random);
	uintptr_t state;

	if (random % 8 == 0) {
		state = board_interrupts_mask();
		oracle_step(&runner->oracle);
		board_interrupts_restore(state);
	} else if (random % 8 == 1) {
		sched_hold();
		oracle_step(&runner->oracle);
		sched_release();
	} else {
		oracle_step(&runner->oracle);
	}
	if (random >> 8 & 3)
		mail_receive(runner);
	else
		mail_send(runner, &threads[(random >> 16) % thread_count]);
	if ((random >> 32) % 128 == 0)
		fallow_offline(&heap);
	if ((random >> 40) % 64 == 0) {
		call_before(runner, 0);
		fallow_collect(&heap);
		call_after(runner);
	}
}

static void thread_run(unsigned number)
{
	for (unsigned i = 0; i < OPERATIONS && !test_failures(); i++)
		step(&threads[number]);
}

static void tick(unsigned cpu)
{
	struct runner *runner = &ticks[cpu];

	ticking[cpu] = true;
	if (TICKS_ALLOCATE)
		oracle_step(&runner->oracle);
	ticking[cpu] = false;
}

static void runner_begin(struct runner *runner, uint64_t seed)
{
	oracle_begin(&runner->oracle, &heap, runner->blocks, BLOCKS, seed);
	runner->random = seed;
	runner->oracle.may_fail = true;
	runner->oracle.volume = 256 * KIB;
	runner->oracle.size_max = 200 * KIB;
	runner->oracle.sampled = 2 * KIB;
	runner->oracle.before = call_before;
	runner->oracle.after = call_after;
	runner->oracle.arg = runner;
}

static bool begin(void)
{
	static struct fallow_provider provider;
	struct fallow_config config = {
		.size = sizeof(config),
		.provider = &provider,
		.window_base = board_window_base(),
		.window_size = board_window_size(),
	};
	enum fallow_status status;

	provider = *board_provider();
	provider.commit = wander_commit;
	provider.decommit = wander_decommit;
	thread_count = 3 * board_cpus() + 1;
	if (thread_count > SCHED_THREADS_MAX)
		thread_count = SCHED_THREADS_MAX;
	config.contexts = sched_contexts(thread_count);
	status = fallow_init(&heap, &config);
	if (status == FALLOW_OK)
		status = fallow_add_region(
			&heap, config.window_base, config.window_size);
	CHECK_EQUAL(status, FALLOW_OK);
	for (unsigned i = 0; i < thread_count; i++)
		runner_begin(&threads[i], test_seed + i);
	for (unsigned i = 0; i < board_cpus(); i++) {
		runner_begin(&ticks[i], ~test_seed - i);
		ticks[i].oracle.size_max = 20 * KIB;
	}
	return status == FALLOW_OK;
}

/* All CPUs stand still: the heap holds what the oracles know, no more. */
static void compare(void)
{
	struct oracle *oracles[SCHED_THREADS_MAX + BOARD_CPUS_MAX];
	size_t n = 0;

	for (unsigned i = 0; i < thread_count; i++) {
		struct runner *runner = &threads[i];

		oracle_shrink(&runner->oracle, BLOCKS - 8);
		mail_receive(runner);
		CHECK_EQUAL(runner->mail_state, MAIL_NONE);
		oracles[n++] = &runner->oracle;
	}
	for (unsigned i = 0; i < board_cpus(); i++)
		oracles[n++] = &ticks[i].oracle;
	for (size_t i = 0; i < n; i++)
		oracle_verify(oracles[i]);
	oracle_compare(oracles, n);
}

static void end(void)
{
	for (unsigned i = 0; i < thread_count; i++)
		oracle_shrink(&threads[i].oracle, 0);
	for (unsigned i = 0; i < board_cpus(); i++)
		oracle_shrink(&ticks[i].oracle, 0);
	compare();
	fallow_fini(&heap);
}

/* Whether all has happened often enough that this image is about. */
static bool enough(void)
{
	return counted(&wandered.commits_moved) >= MOVES &&
		counted(&wandered.decommits_moved) >= MOVES &&
		counted(&wandered.still) >= MOVES;
}

static void test_preempt_wander(void)
{
	struct sched_setup setup = {
		.thread = thread_run,
		.tick = tick,
		.nanoseconds = NANOSECONDS,
	};
	struct sched_counts counts;
	unsigned round;

	if (!begin())
		return;
	setup.threads = thread_count;
	for (round = 0; round < ROUNDS_MAX && !test_failures(); round++) {
		sched_run(&setup);
		compare();
		counts = sched_counts();
		CHECK(counts.switches > 0 && counts.ticks > 0);
		CHECK(board_cpus() == 1 || counts.migrations > 0);
		if (enough())
			break;
	}
	CHECK(enough());
	test_printf("(%u rounds, %lu of %lu provider calls moved) ", round + 1,
		(unsigned long)(wandered.commits_moved +
			wandered.decommits_moved),
		(unsigned long)wandered.calls);
	end();
}

#if FALLOW_MODEL == FALLOW_MODEL_PREEMPT

/* The leave that ends the hold looks whether a switch was postponed. */
static void postponed_run(unsigned number)
{
	uintptr_t state = board_interrupts_mask();
	uint64_t before = sched_counts().let;
	void *p;

	call_before(&threads[number], 0);
	/* A free block, so that none of what follows calls the provider. */
	fallow_free(&heap, fallow_alloc(&heap, 100));
	CHECK_EQUAL(sched_counts().let, before);
	sched_postpone();
	p = fallow_alloc(&heap, 100);
	CHECK_EQUAL(sched_counts().let, before + 1);
	fallow_free(&heap, p);
	CHECK_EQUAL(sched_counts().let, before + 2);
	/* Not the end of an inner one. */
	sched_hold();
	p = fallow_alloc(&heap, 100);
	fallow_free(&heap, p);
	CHECK_EQUAL(sched_counts().let, before + 2);
	sched_release();
	CHECK_EQUAL(sched_counts().let, before + 3);
	board_interrupts_restore(state);
	/* It happens by the first end of a hold, if not before. */
	call_before(&threads[number], 0);
	fallow_free(&heap, fallow_alloc(&heap, 100));
}

static void test_preempt_postponed(void)
{
	const struct sched_setup setup = {
		.threads = 1,
		.thread = postponed_run,
		.nanoseconds = NANOSECONDS,
	};

	if (!begin())
		return;
	sched_run(&setup);
	end();
}

#endif

const struct test tests[] = {
	{ "preempt_wander", test_preempt_wander },
#if FALLOW_MODEL == FALLOW_MODEL_PREEMPT
	{ "preempt_postponed", test_preempt_postponed },
#endif
	{ NULL, NULL },
};
