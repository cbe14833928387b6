/* SPDX-License-Identifier: MIT */
/*
 * Round robin over one queue.
 *
 * A timer interrupt on each CPU puts the interrupted thread's registers away
 * and goes on with those of the thread that has waited longest; so any thread
 * is soon on another CPU.  Handlers have a stack of their own, so that a thread
 * whose registers are saved can go on elsewhere at once.  A CPU without a
 * thread runs its *idle* code, which is what board_run() called there.
 *
 * There is no voluntary switch: who wants to be somewhere else (sched_move())
 * says which CPU is to avoid it, and waits for interrupts.
 *
 * Invariants: a thread is on a CPU, in the queue, or has ended.  The queue and
 * all of it is under one lock, which is only ever taken with interrupts masked.
 */
#include "sched.h"

#include "arch.h"

#define STACK_BYTES (32u << 10)
#define NOWHERE BOARD_CPUS_MAX

/* What the port reads: its three words. */
struct block {
	uint32_t index, held, postponed;
};

struct thread {
	struct board_frame frame;
	unsigned number;
	unsigned avoid; /* a CPU that must not take it, or NOWHERE */
	unsigned last;  /* the CPU that it was on */
	uint64_t turns; /* how often it was put on a CPU */
	bool ended;
	struct block block; /* model THREAD */
};

struct cpu {
	struct board_frame idle;
	struct block block;
	void *board_block;
	struct thread *current; /* NULL: idle */
	bool ticking;           /* in a timer interrupt */
};

static const struct sched_setup *setup;
static struct thread threads[SCHED_THREADS_MAX];
static _Alignas(16) unsigned char stacks[SCHED_THREADS_MAX][STACK_BYTES];
static struct cpu cpus[BOARD_CPUS_MAX];

static uint32_t lock;
static struct thread *queue[SCHED_THREADS_MAX];
static unsigned queued;
static unsigned left; /* threads that have not ended */
static struct sched_counts counts;

/* The lock of everything here; interrupts are masked. */
static void lock_queue(void)
{
	/* Pairs with the release in unlock_queue(). */
	while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE))
		fl_port_pause();
}

static void unlock_queue(void)
{
	__atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
}

/* Interrupt level 1 comes behind all CPUs' level 0. */
unsigned sched_contexts(unsigned n)
{
	if (FALLOW_MODEL == FALLOW_MODEL_THREAD)
		return n + board_cpus();
	return 2 * board_cpus();
}

struct sched_counts sched_counts(void)
{
	return counts;
}

/* The calling thread, or NULL.  Afterwards it may be anywhere, but it is the
 * one. */
static struct thread *self(void)
{
	uintptr_t state = board_interrupts_mask();
	struct cpu *here = &cpus[board_cpu()];
	struct thread *thread = here->ticking ? NULL : here->current;

	board_interrupts_restore(state);
	return setup == NULL ? NULL : thread;
}

unsigned sched_self(void)
{
	struct thread *thread = self();

	return thread == NULL ? SCHED_THREADS_MAX : thread->number;
}

unsigned sched_held(void)
{
	uintptr_t state = board_interrupts_mask();
	unsigned held = setup == NULL ? 0 : cpus[board_cpu()].block.held;

	board_interrupts_restore(state);
	return held;
}

void sched_hold(void)
{
	uintptr_t state = board_interrupts_mask();

	if (FALLOW_MODEL == FALLOW_MODEL_PREEMPT)
		cpus[board_cpu()].block.held++;
	board_interrupts_restore(state);
}

void sched_release(void)
{
	uintptr_t state = board_interrupts_mask();
	struct block *block = &cpus[board_cpu()].block;
	bool wanted = false;

	if (FALLOW_MODEL == FALLOW_MODEL_PREEMPT)
		wanted = --block->held == 0 && block->postponed != 0;
	board_interrupts_restore(state);
	if (wanted)
		fallow_preempt_switch();
}

void sched_postpone(void)
{
	uintptr_t state = board_interrupts_mask();

	cpus[board_cpu()].block.postponed = 1;
	board_interrupts_restore(state);
}

bool sched_may_move(void)
{
	return setup != NULL && board_interrupts_on() && sched_held() == 0 &&
		self() != NULL;
}

/* Takes the thread that has waited longest and may run on `cpu` out of the
 * queue; NULL if there is none. */
static struct thread *queue_take(unsigned cpu)
{
	struct thread *found;
	unsigned i;

	for (i = 0; i < queued && queue[i]->avoid == cpu; i++)
		;
	if (i == queued)
		return NULL;
	found = queue[i];
	for (queued--; i < queued; i++)
		queue[i] = queue[i + 1];
	return found;
}

/* Puts away what ran, whose registers are in *frame, and takes the next.  The
 * thread that ran goes on if nobody waits, unless it avoids this CPU. */
static void switch_threads(struct board_frame *frame, unsigned cpu)
{
	struct cpu *here = &cpus[cpu];
	struct thread *before = here->current;
	struct thread *next;

	if (before == NULL) {
		here->idle = *frame;
	} else {
		before->frame = *frame;
		if (!before->ended)
			queue[queued++] = before;
	}
	next = queue_take(cpu);
	here->current = next;
	*frame = next == NULL ? here->idle : next->frame;
	if (next == NULL)
		return;
	counts.switches += next != before;
	counts.migrations += next->last != cpu && next->last != NOWHERE;
	__atomic_store_n(&next->last, cpu, __ATOMIC_RELAXED);
	__atomic_store_n(&next->turns, next->turns + 1, __ATOMIC_RELAXED);
}

/* Every timer interrupt: the image's handler, in a context of its own, and
 * then the next thread, unless that has to wait for a hold. */
static void tick(struct board_frame *frame, void *arg)
{
	unsigned cpu = board_cpu();
	struct block *block = &cpus[cpu].block;

	(void)arg;
	if (FALLOW_MODEL == FALLOW_MODEL_PREEMPT) {
		block->held++;
		block->index += board_cpus();
	}
	cpus[cpu].ticking = true;
	if (setup->tick != NULL)
		setup->tick(cpu);
	cpus[cpu].ticking = false;
	if (FALLOW_MODEL == FALLOW_MODEL_PREEMPT) {
		block->index -= board_cpus();
		block->held--;
	}
	lock_queue();
	counts.ticks++;
	if (block->held != 0) {
		block->postponed = 1;
		counts.postponed++;
	} else {
		block->postponed = 0;
		switch_threads(frame, cpu);
		if (FALLOW_MODEL == FALLOW_MODEL_THREAD)
			board_block_set(cpus[cpu].current == NULL
					? block
					: &cpus[cpu].current->block);
	}
	unlock_queue();
}

/* A hold has ended that a switch waited for: the CPU is given up until the
 * next one.  With interrupts masked the next interrupt does it. */
void fallow_preempt_switch(void)
{
	struct thread *thread = self();
	uint64_t turns;

	__atomic_fetch_add(&counts.let, 1, __ATOMIC_RELAXED);
	if (thread == NULL || !board_interrupts_on())
		return;
	turns = __atomic_load_n(&thread->turns, __ATOMIC_RELAXED);
	while (__atomic_load_n(&thread->turns, __ATOMIC_RELAXED) == turns)
		board_idle();
}

struct sched_moved sched_move(void)
{
	struct thread *thread = self();
	bool alone = board_cpus() == 1;
	uint64_t turns = __atomic_load_n(&thread->turns, __ATOMIC_RELAXED);
	uintptr_t state = board_interrupts_mask();
	struct sched_moved moved = { board_cpu(), 0 };

	if (!alone)
		__atomic_store_n(&thread->avoid, moved.from, __ATOMIC_RELAXED);
	board_interrupts_restore(state);
	for (;;) {
		moved.to = __atomic_load_n(&thread->last, __ATOMIC_RELAXED);
		if (alone ? __atomic_load_n(&thread->turns, __ATOMIC_RELAXED) !=
					turns
			  : moved.to != moved.from)
			break;
		board_idle();
	}
	__atomic_store_n(&thread->avoid, NOWHERE, __ATOMIC_RELAXED);
	return moved;
}

/* The first and last code of every thread. */
static void thread_main(void *arg)
{
	struct thread *thread = arg;
	uintptr_t state;

	setup->thread(thread->number);
	state = board_interrupts_mask();
	lock_queue();
	thread->ended = true;
	left--;
	unlock_queue();
	board_interrupts_restore(state);
	for (;;)
		board_idle();
}

/* What board_run() calls on each CPU: its idle code. */
static void cpu_main(void *arg)
{
	uintptr_t state = board_interrupts_mask();
	unsigned cpu = board_cpu();
	struct cpu *here = &cpus[cpu];

	(void)arg;
	*here = (struct cpu){ .board_block = board_block() };
	here->block.index = FALLOW_MODEL == FALLOW_MODEL_THREAD
		? setup->threads + cpu
		: cpu;
	board_block_set(&here->block);
	board_interrupts_restore(state);
	board_timer(setup->nanoseconds, tick, NULL);
	while (__atomic_load_n(&left, __ATOMIC_ACQUIRE) > 0)
		board_idle();
	board_timer(0, NULL, NULL);
	board_block_set(here->board_block);
}

void sched_run(const struct sched_setup *what)
{
	unsigned i;

	counts = (struct sched_counts){ 0 };
	left = queued = what->threads;
	for (i = 0; i < what->threads; i++) {
		struct thread *thread = &threads[i];

		*thread = (struct thread){ .number = i,
			.avoid = NOWHERE,
			.last = NOWHERE,
			.block.index = i };
		board_frame_make(&thread->frame, thread_main, thread,
			stacks[i] + STACK_BYTES);
		queue[i] = thread;
	}
	setup = what;
	board_run(cpu_main, NULL);
	setup = NULL;
}
