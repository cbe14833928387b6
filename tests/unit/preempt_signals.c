/* SPDX-License-Identifier: MIT */
/*
 * The model PREEMPT on the host: signal handlers are interrupts, and allocate.
 *
 * A timer's signal comes at any instruction of the heap, on the same thread.
 * Its handler is context 1, allocates and frees by an oracle of its own, and
 * frees what the interrupted code passes to it.  Where it comes during a hold
 * it postpones a switch, which the end of the hold must let happen.  The heap is
 * a flat one: a simulated provider has a mutex, which no handler may take.
 */
#define _DEFAULT_SOURCE
#include <signal.h>
#include <string.h>
#include <sys/time.h>

#include <fallow/flat.h>

#include "arch.h"
#include "oracle.h"
#include "test.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

#define MICROSECONDS 100
#define BLOCKS 400
/* What has to happen, however long it takes. */
#define SIGNALS 2000
#define SWITCHES 20

static _Alignas(2 << 20) unsigned char memory[16 << 20];
static struct fallow heap;
static struct oracle oracles[2];
static struct oracle_block blocks[2][BLOCKS];
static volatile uint64_t signals, switches;

static void on_switch(void)
{
	fallow_host_postponed = 0;
	CHECK_EQUAL(fallow_host_held, 0);
	switches++;
}

static void on_signal(int number)
{
	(void)number;
	if (fallow_host_held != 0)
		fallow_host_postponed = 1;
	fallow_host_held++;
	fallow_host_context = 1;
	for (unsigned i = 0; i < 4; i++)
		oracle_step(&oracles[1]);
	signals++;
	fallow_host_context = 0;
	fallow_host_held--;
}

/* Starts the timer, or ends it. */
static void timer_set(long microseconds)
{
	struct itimerval timer = {
		.it_interval = { .tv_usec = microseconds },
		.it_value = { .tv_usec = microseconds },
	};

	CHECK_EQUAL(setitimer(ITIMER_REAL, &timer, NULL), 0);
}

/* Gives the handler a block to free. */
static void pass(void)
{
	sigset_t alarm, before;

	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	sigprocmask(SIG_BLOCK, &alarm, &before);
	if (oracles[0].count > 0)
		oracle_pass(&oracles[0],
			test_random(&oracles[0].random) % oracles[0].count,
			&oracles[1]);
	sigprocmask(SIG_SETMASK, &before, NULL);
}

static void begin(void)
{
	struct fallow_config config = {
		.size = sizeof(config),
		.provider = &fallow_flat,
		.contexts = 2,
	};

	CHECK_EQUAL(fallow_init(&heap, &config), FALLOW_OK);
	CHECK_EQUAL(fallow_add_region(
			    &heap, (uintptr_t)memory, sizeof(memory)),
		FALLOW_OK);
	for (unsigned i = 0; i < 2; i++) {
		oracle_begin(&oracles[i], &heap, blocks[i], BLOCKS,
			test_seed + i);
		oracles[i].may_fail = true;
		oracles[i].volume = 3 * MIB;
		oracles[i].size_max = 64 * KIB;
		oracles[i].sampled = KIB;
	}
}

static void test_signals_allocate(void)
{
	struct sigaction action = { .sa_handler = on_signal };
	struct oracle *const all[] = { &oracles[0], &oracles[1] };

	begin();
	signals = switches = 0;
	fallow_host_switch = on_switch;
	CHECK_EQUAL(sigaction(SIGALRM, &action, NULL), 0);
	timer_set(MICROSECONDS);
	while ((signals < SIGNALS || switches < SWITCHES) && !test_failures()) {
		for (unsigned i = 0; i < 20; i++)
			oracle_step(&oracles[0]);
		pass();
	}
	timer_set(0);
	/* One may have been on its way. */
	action.sa_handler = SIG_IGN;
	CHECK_EQUAL(sigaction(SIGALRM, &action, NULL), 0);
	fallow_host_switch = NULL;
	CHECK_EQUAL(fallow_host_held, 0);
	oracle_verify(all[0]);
	oracle_verify(all[1]);
	oracle_compare(all, 2);
	oracle_shrink(all[0], 0);
	oracle_shrink(all[1], 0);
	oracle_compare(all, 2);
	fallow_fini(&heap);
}

const struct test tests[] = {
	{ "signals_allocate", test_signals_allocate },
	{ NULL, NULL },
};
