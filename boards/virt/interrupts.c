/* SPDX-License-Identifier: MIT */
/*
 * What interrupts are for: calls that others make, the timer, and stopping.
 *
 * A *call* is one handler that all other CPUs are asked to call.  Each CPU can
 * have one under way, and there is one more for stopping, so calls[] has a
 * place for each and a CPU's word `asked` a bit for each place.  Who asks sets
 * the bits, sends the interrupt, and waits until calls[].left is 0.  It waits
 * with interrupts masked, for it must stay on its CPU, and serves meanwhile
 * what it is asked itself: two that ask each other serve each other.
 *
 * A *request* is a handler for one CPU, for which nobody waits.  There is one
 * place for ordinary ones a CPU, and for fast ones (FIQ) a place for each
 * sender, so that a fast one need not be turned away.
 *
 * Handlers run on SP_EL1 with IRQs masked.  FIQs are masked only while the
 * frame is saved and restored, so fast requests interrupt handlers, too.
 */
#include "arch.h"
#include "image.h"
#include "virt.h"

enum {
	CALL_STOP = BOARD_CPUS_MAX,
	CALLS,

	/* Of a request: nobody's; being written; to be served. */
	REQUEST_FREE = 0,
	REQUEST_CLAIMED,
	REQUEST_READY,

	/* CNTV_CTL_EL0. */
	TIMER_ENABLE = 1 << 0,
	TIMER_DUE = 1 << 2,

	/* PSTATE of a task: EL1 on SP_EL0, debug exceptions masked as they
	 * have been since reset. */
	SPSR_TASK = 0x204,
	DAIF_I = 1 << 7,
};

#define NANOSECONDS ((uint64_t)1000000000)

struct call {
	void (*handler)(void *arg);
	void *arg;
	uint32_t left; /* CPUs that have not returned from it */
};

struct request {
	uint32_t state;
	void (*handler)(void *arg);
	void *arg;
};

struct cpu {
	uint32_t asked;
	struct request request, fast[BOARD_CPUS_MAX];
	/* The timer's, NULL while it is off. */
	void (*tick)(struct board_frame *frame, void *arg);
	void *tick_arg;
	uint64_t period; /* in ticks of the counter */
} __attribute__((aligned(64)));

static struct cpu cpus[BOARD_CPUS_MAX];
static struct call calls[CALLS];
/* One CPU is stopping, or has stopped, the others; so many stand; they go. */
static uint32_t stop_taken, stop_standing, stop_over;

bool board_interrupts_on(void)
{
	uint64_t daif;

	__asm__ volatile("mrs %0, daif" : "=r"(daif)::"memory");
	return !(daif & DAIF_I);
}

uintptr_t board_interrupts_mask(void)
{
	uintptr_t daif;

	__asm__ volatile("mrs %0, daif\n\tmsr daifset, #2"
			 : "=r"(daif)
			 :
			 : "memory");
	return daif;
}

void board_interrupts_restore(uintptr_t state)
{
	__asm__ volatile("msr daif, %0" ::"r"(state) : "memory");
}

void board_idle(void)
{
	__asm__ volatile("dsb sy\n\twfi" ::: "memory");
}

/* ---------------------------------------------------------------- calls -- */

/* Makes the calls that this CPU is asked for.  Interrupts are masked. */
static void calls_serve(void)
{
	struct cpu *cpu = &cpus[board_cpu()];
	uint32_t asked;

	/* Pairs with the release in call_begin(). */
	while ((asked = __atomic_load_n(&cpu->asked, __ATOMIC_ACQUIRE))) {
		unsigned i = (unsigned)__builtin_ctz(asked);

		__atomic_fetch_and(
			&cpu->asked, ~((uint32_t)1 << i), __ATOMIC_RELAXED);
		calls[i].handler(calls[i].arg);
		/* Pairs with the acquire in call_wait(). */
		__atomic_fetch_sub(&calls[i].left, 1, __ATOMIC_RELEASE);
	}
}

/* Asks all other CPUs for this call. */
static void call_begin(unsigned i, void (*handler)(void *arg), void *arg)
{
	unsigned me = board_cpu();

	if (calls[i].left)
		board_panic("an interrupt to the others within such a one");
	calls[i].handler = handler;
	calls[i].arg = arg;
	__atomic_store_n(&calls[i].left, board_cpus() - 1, __ATOMIC_RELAXED);
	for (unsigned cpu = 0; cpu < board_cpus(); cpu++) {
		if (cpu == me)
			continue;
		__atomic_fetch_or(&cpus[cpu].asked, (uint32_t)1 << i,
			__ATOMIC_RELEASE);
		board_gic_send(cpu, GIC_CALL);
	}
}

/* Waits until *count is `wanted`, and serves meanwhile, on the stack on which
 * an interrupt would have. */
static void serve_until(const uint32_t *count, uint32_t wanted)
{
	while (__atomic_load_n(count, __ATOMIC_ACQUIRE) != wanted) {
		board_on_trap_stack(calls_serve);
		fl_port_pause();
	}
}

void board_interrupt_others(void (*handler)(void *arg), void *arg)
{
	uintptr_t state = board_interrupts_mask();
	unsigned me = board_cpu();

	call_begin(me, handler, arg);
	serve_until(&calls[me].left, 0);
	board_interrupts_restore(state);
}

/*
 * Stands until the others may go on.  What this CPU translated ahead of that
 * is forgotten: it may have found nothing where there is something again.  An
 * exception's return does the same, but there is none if a waiter serves.
 */
static void stand(void *arg)
{
	(void)arg;
	__atomic_fetch_add(&stop_standing, 1, __ATOMIC_RELEASE);
	serve_until(&stop_over, 1);
	__asm__ volatile("isb" ::: "memory");
}

void board_stop_others(void)
{
	uint32_t nobody = 0;
	uintptr_t state;

	while (!__atomic_compare_exchange_n(&stop_taken, &nobody, 1, false,
		__ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
		nobody = 0;
		fl_port_pause();
	}
	state = board_interrupts_mask();
	__atomic_store_n(&stop_standing, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&stop_over, 0, __ATOMIC_RELAXED);
	call_begin(CALL_STOP, stand, NULL);
	serve_until(&stop_standing, board_cpus() - 1);
	board_interrupts_restore(state);
}

void board_resume_others(void)
{
	uintptr_t state = board_interrupts_mask();

	__atomic_store_n(&stop_over, 1, __ATOMIC_RELEASE);
	serve_until(&calls[CALL_STOP].left, 0);
	board_interrupts_restore(state);
	__atomic_store_n(&stop_taken, 0, __ATOMIC_RELEASE);
}

/* ------------------------------------------------------------- requests -- */

/* Puts a request into its place; false iff that is not free. */
static bool request_put(
	struct request *request, void (*handler)(void *arg), void *arg)
{
	uint32_t expected = REQUEST_FREE;

	if (!__atomic_compare_exchange_n(&request->state, &expected,
		    REQUEST_CLAIMED, false, __ATOMIC_ACQUIRE,
		    __ATOMIC_RELAXED))
		return false;
	request->handler = handler;
	request->arg = arg;
	__atomic_store_n(&request->state, REQUEST_READY, __ATOMIC_RELEASE);
	return true;
}

/* Whether there is something to serve; pairs with request_put(). */
static bool request_ready(const struct request *request)
{
	return __atomic_load_n(&request->state, __ATOMIC_ACQUIRE) ==
		REQUEST_READY;
}

static void request_free(struct request *request)
{
	__atomic_store_n(&request->state, REQUEST_FREE, __ATOMIC_RELEASE);
}

/* The place is free again when the handler has returned. */
static void request_serve(struct request *request)
{
	if (!request_ready(request))
		return;
	request->handler(request->arg);
	request_free(request);
}

bool board_interrupt(unsigned cpu, void (*handler)(void *arg), void *arg)
{
	if (!request_put(&cpus[cpu].request, handler, arg))
		return false;
	board_gic_send(cpu, GIC_CALL);
	return true;
}

void board_wake(unsigned cpu)
{
	board_gic_send(cpu, GIC_CALL);
}

/* Serves this CPU's fast requests.  A place is free before its handler runs,
 * which may want it. */
static void fast_serve(void)
{
	for (unsigned from = 0; from < board_cpus(); from++) {
		struct request *request = &cpus[board_cpu()].fast[from];
		struct request taken;

		if (!request_ready(request))
			continue;
		taken = *request;
		request_free(request);
		taken.handler(taken.arg);
	}
}

bool board_nmi(unsigned cpu, void (*handler)(void *arg), void *arg)
{
	uint64_t daif;

	if (!board_gic_has_fast())
		return false;
	/* This CPU's place at the other is this code's alone meanwhile. */
	__asm__ volatile("mrs %0, daif\n\tmsr daifset, #3"
			 : "=r"(daif)
			 :
			 : "memory");
	while (!request_put(&cpus[cpu].fast[board_cpu()], handler, arg)) {
		board_on_trap_stack(fast_serve);
		fl_port_pause();
	}
	board_gic_send(cpu, GIC_FAST);
	__asm__ volatile("msr daif, %0" ::"r"(daif) : "memory");
	return true;
}

/* ---------------------------------------------------------------- timer -- */

static uint64_t counter(void)
{
	uint64_t now;

	__asm__ volatile("isb\n\tmrs %0, cntvct_el0" : "=r"(now)::"memory");
	return now;
}

static void timer_set(uint64_t due)
{
	__asm__ volatile("msr cntv_cval_el0, %0\n\tisb" ::"r"(due) : "memory");
}

static uint64_t timer_due(void)
{
	uint64_t due;

	__asm__ volatile("mrs %0, cntv_cval_el0" : "=r"(due)::"memory");
	return due;
}

static void timer_control(uint64_t control)
{
	__asm__ volatile(
		"msr cntv_ctl_el0, %0\n\tisb" ::"r"(control) : "memory");
}

/* Returns how many ticks of the counter these are, at least one. */
static uint64_t ticks_of(uint64_t nanoseconds)
{
	uint64_t frequency, ticks;

	__asm__("mrs %0, cntfrq_el0" : "=r"(frequency));
	ticks = nanoseconds / NANOSECONDS * frequency +
		nanoseconds % NANOSECONDS * frequency / NANOSECONDS;
	return ticks ? ticks : 1;
}

void board_timer(uint64_t nanoseconds,
	void (*handler)(struct board_frame *frame, void *arg), void *arg)
{
	uintptr_t state = board_interrupts_mask();
	struct cpu *cpu = &cpus[board_cpu()];

	cpu->tick = handler;
	cpu->tick_arg = arg;
	cpu->period = ticks_of(nanoseconds);
	if (handler)
		timer_set(counter() + cpu->period);
	timer_control(handler ? TIMER_ENABLE : 0);
	board_interrupts_restore(state);
}

/*
 * The next tick is a period after this one was due.  If that is over when the
 * handler returns, it is a period from then on instead: the interrupted code
 * makes progress at any rate.
 */
static void timer_serve(struct board_frame *frame)
{
	struct cpu *cpu = &cpus[board_cpu()];
	uint64_t control;

	__asm__ volatile("mrs %0, cntv_ctl_el0" : "=r"(control)::"memory");
	if (!cpu->tick || !(control & TIMER_DUE))
		return;
	timer_set(timer_due() + cpu->period);
	cpu->tick(frame, cpu->tick_arg);
	if (cpu->tick && timer_due() <= counter())
		timer_set(counter() + cpu->period);
}

void board_frame_make(struct board_frame *frame, void (*entry)(void *arg),
	void *arg, void *stack_end)
{
	*frame = (struct board_frame){ 0 };
	frame->words[0] = (uintptr_t)arg;
	frame->words[FRAME_ELR] = (uintptr_t)entry;
	frame->words[FRAME_SPSR] = SPSR_TASK;
	frame->words[FRAME_SP] = (uintptr_t)stack_end;
}

/* ------------------------------------------------------------ the vector -- */

void board_interrupt_taken(struct board_frame *frame, bool fast)
{
	uint32_t accepted = board_gic_accept(fast);
	unsigned interrupt = board_gic_interrupt(accepted);

	if (interrupt >= GIC_NONE)
		return;
	if (!fast)
		__asm__ volatile("msr daifclr, #1" ::: "memory");
	switch (interrupt) {
	case GIC_CALL:
		calls_serve();
		request_serve(&cpus[board_cpu()].request);
		break;
	case GIC_FAST:
		fast_serve();
		break;
	case GIC_TIMER:
		timer_serve(frame);
		break;
	default:
		board_panic("GIC: an interrupt that nobody enabled");
	}
	__asm__ volatile("msr daifset, #1" ::: "memory");
	board_gic_done(fast, accepted);
}
