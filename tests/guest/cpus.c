/* SPDX-License-Identifier: MIT */
/*
 * What board.h promises of several CPUs, on either board.
 *
 * The tests of everything else that several CPUs do rely on these: a
 * board_run() that left a CPU out, or an interrupt that never came, would make
 * them pass for nothing.  Nothing here depends on time: whatever is waited for
 * is waited for without end, and the runner ends an image that hangs.  The
 * number of CPUs is taken from the command that runs the image again, which is
 * among its arguments.
 *
 * Handlers and the functions of board_run() note what they saw; checks of
 * things that go wrong thousands of times print only the first ones.
 */
#include "arch.h"
#include "board.h"
#include "meet.h"
#include "test.h"

/* For one CPU.  More of them take turns on the host's, each for milliseconds,
 * so that a round costs as much more as there are. */
#define ROUNDS (200 / board_cpus())
#define MICROSECONDS 1000
#define STACK_BYTES 16384
/* How long to look that nothing happens: steps of a loop. */
#define QUIET_STEPS 200000

struct counter {
	uint32_t n;
} __attribute__((aligned(64)));

/* Returns the number behind "CPUS=" in the arguments, 0 without one. */
static unsigned cpus_asked(void)
{
	static const char key[] = "CPUS=";
	const char *at = board_args();
	unsigned n = 0;

	for (; *at != '\0'; at++) {
		size_t i = 0;

		while (key[i] != '\0' && at[i] == key[i])
			i++;
		if (key[i] != '\0')
			continue;
		for (at += i; *at >= '0' && *at <= '9'; at++)
			n = n * 10 + (unsigned)(*at - '0');
		return n;
	}
	return 0;
}

/* As many CPUs run as the machine has, and the first one asks. */
static void test_all_cpus_run(void)
{
	unsigned asked = cpus_asked();

	CHECK(board_cpus() >= 1);
	CHECK(board_cpus() <= BOARD_CPUS_MAX);
	CHECK_EQUAL(board_cpu(), 0);
	if (asked == 0) {
		test_skip("started without being told how many");
		return;
	}
	if (asked > BOARD_CPUS_MAX)
		asked = BOARD_CPUS_MAX;
	CHECK_EQUAL(board_cpus(), asked);
}

/* Interrupts are masked and restored, in layers, to what was. */
static void test_mask_nests(void)
{
	uintptr_t outer, inner;

	CHECK(board_interrupts_on());
	outer = board_interrupts_mask();
	CHECK(!board_interrupts_on());
	inner = board_interrupts_mask();
	CHECK(!board_interrupts_on());
	board_interrupts_restore(inner);
	CHECK(!board_interrupts_on());
	board_interrupts_restore(outer);
	CHECK(board_interrupts_on());
}

static struct counter ran[BOARD_CPUS_MAX];

static void run_note(void *arg)
{
	unsigned cpu = board_cpu();
	unsigned char here;

	CHECK(arg == ran);
	CHECK(cpu < board_cpus());
	CHECK(board_interrupts_on());
	CHECK_EQUAL(fl_port_context(), cpu);
	CHECK_EQUAL(*(uint32_t *)board_block(), cpu);
	/* The stack is one's own, and there: all are written at once. */
	*(volatile unsigned char *)&here = (unsigned char)cpu;
	test_meet();
	CHECK_EQUAL(*(volatile unsigned char *)&here, cpu);
	CHECK_EQUAL(board_cpu(), cpu);
	test_add(&ran[cpu].n, 1);
}

/* Each CPU runs what is given, once a call, all of them at once, and the call
 * does not return before the last. */
static void test_run_is_everywhere(void)
{
	unsigned round, cpu;

	for (cpu = 0; cpu < BOARD_CPUS_MAX; cpu++)
		ran[cpu].n = 0;
	for (round = 1; round <= ROUNDS; round++) {
		board_run(run_note, ran);
		CHECK(board_interrupts_on());
		CHECK_EQUAL(board_cpu(), 0);
		for (cpu = 0; cpu < board_cpus(); cpu++)
			CHECK_EQUAL(test_load(&ran[cpu].n), round);
	}
	for (; cpu < BOARD_CPUS_MAX; cpu++)
		CHECK_EQUAL(ran[cpu].n, 0);
}

/* Three CPUs' worth of work each takes the others' time. */
static void run_staggered(void *arg)
{
	unsigned i;

	for (i = 0; i < board_cpu() * 1000; i++)
		fl_port_pause();
	test_add(arg, 1);
}

/* CPUs that return at different times are all waited for. */
static void test_run_waits_for_the_last(void)
{
	unsigned round;
	uint32_t n = 0;

	for (round = 1; round <= 20; round++) {
		board_run(run_staggered, &n);
		CHECK_EQUAL(test_load(&n), round * board_cpus());
	}
}

static struct counter others[BOARD_CPUS_MAX];

static void run_block(void *arg)
{
	void *own = board_block();
	unsigned cpu = board_cpu();

	(void)arg;
	others[cpu].n = 100 + cpu;
	board_block_set(&others[cpu]);
	test_meet();
	CHECK(board_block() == &others[cpu]);
	CHECK_EQUAL(fl_port_context(), 100 + cpu);
	CHECK_EQUAL(board_cpu(), cpu);
	test_meet();
	board_block_set(own);
	CHECK(board_block() == own);
	CHECK_EQUAL(fl_port_context(), cpu);
}

/* The block of data is the CPU's, and whatever is set; who one is does not
 * depend on it. */
static void test_block_is_per_cpu(void)
{
	board_run(run_block, NULL);
}

/* How often each CPU was interrupted by each. */
static struct counter interrupted[BOARD_CPUS_MAX][BOARD_CPUS_MAX];

static void interrupted_reset(void)
{
	unsigned from, to;

	for (to = 0; to < BOARD_CPUS_MAX; to++)
		for (from = 0; from < BOARD_CPUS_MAX; from++)
			interrupted[to][from].n = 0;
}

/* Where each CPU's run has its stack, about. */
static uintptr_t stack_of[BOARD_CPUS_MAX];

/* `arg` points to the number of the CPU that asked. */
static void handler_note(void *arg)
{
	unsigned char here;
	uintptr_t addr = (uintptr_t)&here, task = stack_of[board_cpu()];

	CHECK(!board_interrupts_on());
	/* The stack is the one of interrupts, also if this CPU waits itself. */
	CHECK(task == 0 || task - addr > STACK_BYTES);
	interrupted[board_cpu()][*(uint32_t *)arg].n++;
}

/* Interrupts all others, and sees that they have been when that returns. */
static void interrupt_all(unsigned rounds)
{
	uint32_t me = board_cpu();
	unsigned round, to;
	bool on = board_interrupts_on();

	stack_of[me] = (uintptr_t)&me;

	for (round = 1; round <= rounds; round++) {
		board_interrupt_others(handler_note, &me);
		CHECK_EQUAL(board_interrupts_on(), on);
		for (to = 0; to < board_cpus(); to++)
			CHECK_EQUAL(interrupted[to][me].n,
				to == me ? 0 : round);
	}
}

static void run_interrupts(void *arg)
{
	uintptr_t state = 0;

	if (arg != NULL)
		state = board_interrupts_mask();
	test_meet();
	interrupt_all(ROUNDS);
	/* None may leave while others wait for it with interrupts masked. */
	if (arg != NULL)
		board_interrupts_restore(state);
	test_meet();
}

/* One CPU interrupts the others, which wait for work. */
static void test_interrupt_idle_others(void)
{
	interrupted_reset();
	interrupt_all(ROUNDS);
}

/* All interrupt all at once. */
static void test_interrupt_both_ways(void)
{
	interrupted_reset();
	board_run(run_interrupts, NULL);
}

/* The same with interrupts masked: who waits serves the others. */
static void test_interrupt_both_ways_masked(void)
{
	interrupted_reset();
	board_run(run_interrupts, interrupted);
}

static struct counter posted[BOARD_CPUS_MAX];

static void handler_posted(void *arg)
{
	CHECK(!board_interrupts_on());
	CHECK(arg == &posted[board_cpu()]);
	test_add(&posted[board_cpu()].n, 1);
}

/* Sends to each CPU, and waits that it comes. */
static void test_interrupt_one(void)
{
	unsigned round, cpu;

	for (cpu = 0; cpu < board_cpus(); cpu++)
		posted[cpu].n = 0;
	for (round = 1; round <= ROUNDS; round++)
		for (cpu = 0; cpu < board_cpus(); cpu++) {
			while (!board_interrupt(
				cpu, handler_posted, &posted[cpu]))
				fl_port_pause();
			while (test_load(&posted[cpu].n) != round)
				fl_port_pause();
			CHECK(board_interrupts_on());
		}
}

/* A CPU that has interrupts masked gets the first one later, and there is no
 * room for a second. */
static void run_posted_masked(void *arg)
{
	unsigned cpu = board_cpu(), to = (cpu + 1) % board_cpus();
	uintptr_t state = board_interrupts_mask();

	(void)arg;
	test_meet();
	CHECK(board_interrupt(to, handler_posted, &posted[to]));
	CHECK(!board_interrupt(to, handler_posted, &posted[to]));
	test_meet();
	CHECK_EQUAL(test_load(&posted[cpu].n), 0);
	board_interrupts_restore(state);
	while (test_load(&posted[cpu].n) == 0)
		fl_port_pause();
	CHECK_EQUAL(test_load(&posted[cpu].n), 1);
}

static void test_interrupt_one_masked(void)
{
	unsigned cpu;

	for (cpu = 0; cpu < board_cpus(); cpu++)
		posted[cpu].n = 0;
	board_run(run_posted_masked, NULL);
}

static struct counter ticked[BOARD_CPUS_MAX];

static void timer_note(struct board_frame *frame, void *arg)
{
	CHECK(!board_interrupts_on());
	CHECK(frame != NULL);
	CHECK(arg == &ticked[board_cpu()]);
	test_add(&ticked[board_cpu()].n, 1);
}

/* Returns the sum of a series, by a loop that the compiler must keep: what it
 * has in registers survives the interrupts, or the sum is another. */
static uint64_t sum_to(uint64_t n)
{
	uint64_t sum = 0, product = 1, i;

	for (i = 1; i <= n; i++) {
		__asm__ volatile("" : "+r"(sum), "+r"(product), "+r"(i));
		sum += i;
		product = product * 3 + sum;
	}
	return sum ^ product;
}

static void run_timer(void *arg)
{
	unsigned cpu = board_cpu();
	uint64_t expected = sum_to(1000);
	uint32_t before;

	test_meet();
	board_timer(50 * MICROSECONDS, timer_note, &ticked[cpu]);
	CHECK(board_interrupts_on());
	while (test_load(&ticked[cpu].n) < *(uint32_t *)arg) {
		CHECK_EQUAL(sum_to(1000), expected);
		CHECK(board_interrupts_on());
	}
	board_timer(0, NULL, NULL);
	CHECK(board_interrupts_on());
	before = test_load(&ticked[cpu].n);
	sum_to(QUIET_STEPS);
	CHECK_EQUAL(test_load(&ticked[cpu].n), before);
	CHECK_EQUAL(board_cpu(), cpu);
}

/* Each CPU has a timer of its own, again and again, until it ends it. */
static void test_timer_on_every_cpu(void)
{
	uint32_t wanted = 100;
	unsigned cpu;

	for (cpu = 0; cpu < board_cpus(); cpu++)
		ticked[cpu].n = 0;
	board_run(run_timer, &wanted);
	board_run(run_timer, &wanted);
}

/* One CPU's timer is not the others'. */
static void test_timer_on_one_cpu(void)
{
	unsigned cpu;

	for (cpu = 0; cpu < board_cpus(); cpu++)
		ticked[cpu].n = 0;
	board_timer(50 * MICROSECONDS, timer_note, &ticked[0]);
	while (test_load(&ticked[0].n) < 20)
		fl_port_pause();
	board_timer(0, NULL, NULL);
	for (cpu = 1; cpu < board_cpus(); cpu++)
		CHECK_EQUAL(ticked[cpu].n, 0);
}

/* A timer that comes while interrupts are masked comes afterwards. */
static void test_timer_waits_for_mask(void)
{
	uintptr_t state;

	ticked[0].n = 0;
	state = board_interrupts_mask();
	board_timer(20 * MICROSECONDS, timer_note, &ticked[0]);
	sum_to(QUIET_STEPS);
	CHECK_EQUAL(test_load(&ticked[0].n), 0);
	board_interrupts_restore(state);
	while (test_load(&ticked[0].n) < 3)
		fl_port_pause();
	board_timer(0, NULL, NULL);
}

/* Ended while one is due, a timer finds no handler any more.  Whether one is
 * due is the host's to say: hence so often. */
static void test_timer_ends_while_due(void)
{
	unsigned round;
	uintptr_t state;
	uint32_t before;

	for (round = 0; round < 50; round++) {
		state = board_interrupts_mask();
		board_timer(20 * MICROSECONDS, timer_note, &ticked[0]);
		sum_to(QUIET_STEPS);
		board_timer(0, NULL, NULL);
		before = test_load(&ticked[0].n);
		board_interrupts_restore(state);
		sum_to(QUIET_STEPS / 100);
		CHECK_EQUAL(test_load(&ticked[0].n), before);
	}
}

/* A CPU that waits for an interrupt goes on after one. */
static void test_idle_ends(void)
{
	ticked[0].n = 0;
	board_timer(100 * MICROSECONDS, timer_note, &ticked[0]);
	while (test_load(&ticked[0].n) < 20) {
		board_idle();
		CHECK(board_interrupts_on());
	}
	board_timer(0, NULL, NULL);
}

/* One that is due already ends the wait, and does not go on with interrupts
 * off: nothing is lost between a look and the wait. */
static void test_idle_misses_nothing(void)
{
	unsigned round;
	uintptr_t state;

	posted[0].n = 0;
	for (round = 1; round <= 1000; round++) {
		state = board_interrupts_mask();
		CHECK(board_interrupt(0, handler_posted, &posted[0]));
		board_idle();
		CHECK(!board_interrupts_on());
		board_interrupts_restore(state);
		while (test_load(&posted[0].n) != round)
			fl_port_pause();
	}
}

/*
 * A thread that no CPU owns: its frame lies in `traveller` whenever it runs
 * nowhere, and timers take it up and put it down.  `seen` has a bit for each
 * CPU that it ran on; it wants them all.
 */
static struct {
	struct board_frame frame;
	/* What the CPU that carries it did before. */
	struct board_frame under[BOARD_CPUS_MAX];
	/* 0: lies there; else the CPU that carries it, plus one. */
	uint32_t carrier;
	uint32_t seen, wanted, wrong, ended;
} traveller;
static _Alignas(16) unsigned char traveller_stack[STACK_BYTES];

static void travel(void *arg)
{
	uint64_t expected = sum_to(300);

	traveller.wrong += arg != &traveller || !board_interrupts_on();
	while (test_load(&traveller.seen) != test_load(&traveller.wanted)) {
		uintptr_t state = board_interrupts_mask();

		traveller.wrong +=
			test_load(&traveller.carrier) != board_cpu() + 1;
		__atomic_fetch_or(&traveller.seen,
			(uint32_t)1 << board_cpu(), __ATOMIC_RELEASE);
		board_interrupts_restore(state);
		traveller.wrong += !board_interrupts_on();
		traveller.wrong += sum_to(300) != expected;
	}
	test_store(&traveller.ended, 1);
	for (;;)
		fl_port_pause();
}

/* Puts the traveller down if this CPU carries it, else takes it up. */
static void timer_carry(struct board_frame *frame, void *arg)
{
	unsigned cpu = board_cpu();
	uint32_t nobody = 0;

	(void)arg;
	if (test_load(&traveller.carrier) == cpu + 1) {
		traveller.frame = *frame;
		*frame = traveller.under[cpu];
		test_store(&traveller.carrier, 0);
	} else if (!test_load(&traveller.ended) &&
		__atomic_compare_exchange_n(&traveller.carrier, &nobody,
			cpu + 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
		traveller.under[cpu] = *frame;
		*frame = traveller.frame;
	}
}

static void run_carry(void *arg)
{
	unsigned cpu = board_cpu();
	uint64_t expected = sum_to(100);

	(void)arg;
	board_timer((20 + 7 * cpu) * MICROSECONDS, timer_carry, NULL);
	while (!test_load(&traveller.ended) ||
		test_load(&traveller.carrier) == cpu + 1) {
		CHECK_EQUAL(sum_to(100), expected);
		CHECK(board_interrupts_on());
		CHECK_EQUAL(board_cpu(), cpu);
		CHECK_EQUAL(fl_port_context(), cpu);
	}
	board_timer(0, NULL, NULL);
}

/* A thread made from nothing runs on one CPU after another, and what it
 * interrupts goes on where it was. */
static void test_thread_travels(void)
{
	unsigned round;

	for (round = 0; round < 5; round++) {
		traveller.carrier = traveller.seen = traveller.ended = 0;
		traveller.wanted = ((uint32_t)1 << board_cpus()) - 1;
		board_frame_make(&traveller.frame, travel, &traveller,
			traveller_stack + sizeof(traveller_stack));
		board_run(run_carry, NULL);
		CHECK_EQUAL(traveller.wrong, 0);
		CHECK_EQUAL(traveller.seen, traveller.wanted);
	}
}

static struct counter steps[BOARD_CPUS_MAX];
static uint32_t stopper, turns;

/* In one's turn stops the others, and looks that they stand; else steps. */
static void run_stop(void *arg)
{
	unsigned cpu = board_cpu(), other;
	uint32_t before[BOARD_CPUS_MAX];

	(void)arg;
	while (test_load(&turns) < ROUNDS) {
		test_add(&steps[cpu].n, 1);
		if (test_load(&stopper) != cpu) {
			fl_port_pause();
			continue;
		}
		board_stop_others();
		CHECK(board_interrupts_on());
		for (other = 0; other < board_cpus(); other++)
			before[other] = test_load(&steps[other].n);
		sum_to(1000);
		for (other = 0; other < board_cpus(); other++)
			CHECK_EQUAL(test_load(&steps[other].n), before[other]);
		board_resume_others();
		CHECK(board_interrupts_on());
		/* And they go on. */
		for (other = 0; other < board_cpus(); other++)
			while (other != cpu &&
				test_load(&steps[other].n) == before[other] &&
				test_load(&turns) < ROUNDS)
				fl_port_pause();
		test_add(&turns, 1);
		test_store(&stopper, (cpu + 1) % board_cpus());
	}
}

/* One CPU after the other has all others stand still. */
static void test_stop_others(void)
{
	stopper = turns = 0;
	board_run(run_stop, NULL);
	CHECK(turns >= ROUNDS);
}

static struct counter nmis[BOARD_CPUS_MAX][BOARD_CPUS_MAX];
static uint32_t nmi_missing;

static void handler_nmi(void *arg)
{
	test_add(&nmis[board_cpu()][*(uint32_t *)arg].n, 1);
}

/* Sends to each CPU, itself too, while all have interrupts masked. */
static void run_nmi(void *arg)
{
	uintptr_t state = board_interrupts_mask();
	uint32_t me = board_cpu();
	unsigned round, to;

	(void)arg;
	test_meet();
	for (round = 1; round <= ROUNDS; round++)
		for (to = 0; to < board_cpus(); to++) {
			if (!board_nmi(to, handler_nmi, &me)) {
				test_store(&nmi_missing, 1);
				goto out;
			}
			while (test_load(&nmis[to][me].n) != round)
				fl_port_pause();
			CHECK(!board_interrupts_on());
		}
out:
	test_meet();
	board_interrupts_restore(state);
	CHECK(board_interrupts_on());
}

/* What interrupts' mask does not keep away comes, each time, once. */
static void test_nmi(void)
{
	unsigned from, to;

	for (to = 0; to < BOARD_CPUS_MAX; to++)
		for (from = 0; from < BOARD_CPUS_MAX; from++)
			nmis[to][from].n = 0;
	board_run(run_nmi, NULL);
	if (nmi_missing)
		test_skip("this board has no such interrupt");
}

/* Everything at once: timers tick, threads travel, all interrupt all. */
static void run_all(void *arg)
{
	unsigned cpu = board_cpu();

	(void)arg;
	board_timer(50 * MICROSECONDS, timer_note, &ticked[cpu]);
	test_meet();
	interrupt_all(ROUNDS);
	while (test_load(&ticked[cpu].n) < 20)
		fl_port_pause();
	test_meet();
	board_timer(0, NULL, NULL);
}

static void test_timers_beside_interrupts(void)
{
	unsigned cpu;

	for (cpu = 0; cpu < board_cpus(); cpu++)
		ticked[cpu].n = 0;
	interrupted_reset();
	board_run(run_all, NULL);
}

const struct test tests[] = {
	{ "all_cpus_run", test_all_cpus_run },
	{ "mask_nests", test_mask_nests },
	{ "run_is_everywhere", test_run_is_everywhere },
	{ "run_waits_for_the_last", test_run_waits_for_the_last },
	{ "block_is_per_cpu", test_block_is_per_cpu },
	{ "interrupt_idle_others", test_interrupt_idle_others },
	{ "interrupt_both_ways", test_interrupt_both_ways },
	{ "interrupt_both_ways_masked", test_interrupt_both_ways_masked },
	{ "interrupt_one", test_interrupt_one },
	{ "interrupt_one_masked", test_interrupt_one_masked },
	{ "timer_on_every_cpu", test_timer_on_every_cpu },
	{ "timer_on_one_cpu", test_timer_on_one_cpu },
	{ "timer_waits_for_mask", test_timer_waits_for_mask },
	{ "timer_ends_while_due", test_timer_ends_while_due },
	{ "idle_ends", test_idle_ends },
	{ "idle_misses_nothing", test_idle_misses_nothing },
	{ "thread_travels", test_thread_travels },
	{ "stop_others", test_stop_others },
	{ "nmi", test_nmi },
	{ "timers_beside_interrupts", test_timers_beside_interrupts },
	{ NULL, NULL },
};
