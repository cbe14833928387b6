/* SPDX-License-Identifier: MIT */
/*
 * Several CPUs: how they start, and what they ask of each other.
 *
 * A CPU is started by INIT and STARTUP (Intel SDM volume 3, 8.4) in the
 * trampoline of start.S, which reaches board_cpu_main() on the CPU's own stack;
 * there it waits, halted, for board_run().
 *
 * There is one vector for all that one CPU wants of another, VECTOR_CALL; what
 * is wanted is in memory, in three forms:
 *   calls[from]     a call that all others owe CPU `from`; a bit of
 *                   owed[to] for each that has not begun it.  `from` waits
 *                   until calls[from].left has no bit any more.
 *   STOP in owed[]  the same, but whoever serves it stays there until
 *                   board_resume_others().
 *   posted[to]      a call that nobody waits for.
 * Stores come before the interrupt, loads after it: a write of the APIC's
 * memory is not reordered with earlier stores (Intel SDM volume 3, 8.2.2), and
 * board_apic_send() sees to the MSRs.
 *
 * Two CPUs that wait for each other with interrupts masked would wait forever;
 * so whoever waits looks into owed[] itself and serves it, on the stack of
 * interrupts, which nothing else uses while they are masked: a handler finds
 * the same stack under it either way, and a CPU that is stopped touches no
 * other.  The interrupt then comes later and finds nothing.
 *
 * Deliberately not here: waiting within a handler, which would need a second
 * calls[from]; it stops with a message.
 */
#include "apic.h"
#include "madt.h"
#include "q35.h"

#define RFLAGS_RESERVED ((uint64_t)1 << 1)
#define RFLAGS_INTERRUPTS ((uint64_t)1 << 9)
#define MSR_GS_BASE 0xc0000101

/* In owed[], beside a bit for each CPU. */
#define STOP ((uint32_t)1 << 31)
_Static_assert(BOARD_CPUS_MAX < 31, "owed[] has a bit for each CPU");

/* After an INIT, and between two STARTUPs (Intel SDM volume 3, 8.4.4.1). */
#define INIT_MICROSECONDS 10000
#define STARTUP_MICROSECONDS 200
/* How often one looks for a CPU that was started.  The emulator gives the host
 * back at each look, so it is tens of seconds there: a busy host may take
 * long, and a CPU that is not there must not hang the machine. */
#define START_LOOKS ((uint32_t)1 << 27)

/* What the port finds at GS: the index of the context.  64 bytes apart, lest
 * CPUs share a cache line. */
struct block {
	uint32_t context;
	uint32_t port[2]; /* of the model PREEMPT */
} __attribute__((aligned(64)));

struct call {
	void (*handler)(void *arg);
	void *arg;
	/* A bit for each CPU that has not returned from it. */
	uint32_t left;
} __attribute__((aligned(64)));

/* Empty, being filled, full. */
enum { POST_NONE, POST_CLAIMED, POST_READY };

struct post {
	void (*handler)(void *arg);
	void *arg;
	uint32_t state;
} __attribute__((aligned(64)));

struct timer {
	void (*handler)(struct board_frame *frame, void *arg);
	void *arg;
} __attribute__((aligned(64)));

_Noreturn void board_cpu_main(void);

/* start.S: calls run(arg) on another stack. */
void board_call_on(uintptr_t stack_end, void (*run)(void *arg), void *arg);

/* For start.S: what the CPU that is being started runs on. */
extern uint64_t board_start_stack, board_start_root;
extern const unsigned char board_trampoline[], board_trampoline_end[];

static uint32_t ids[BOARD_CPUS_MAX];
static unsigned cpus = 1;
/* How many run; the next to start has this number. */
static unsigned started = 1;

static struct block blocks[BOARD_CPUS_MAX];
static struct call calls[BOARD_CPUS_MAX];
static uint32_t owed[BOARD_CPUS_MAX];
static struct post posted[BOARD_CPUS_MAX];
static struct timer timers[BOARD_CPUS_MAX];
/* How many of others' calls each CPU has served; read by itself. */
static uint32_t calls_served[BOARD_CPUS_MAX];
/* By receiver and sender. */
static struct post nmis[BOARD_CPUS_MAX][BOARD_CPUS_MAX];
static bool nmi_used;
/* How many CPUs are stopped, and how often they were let go. */
static uint32_t stopped, resumed;

/* What board_run() runs; `rounds` counts its calls, `running` those of the
 * others that have not returned. */
static struct {
	void (*run)(void *arg);
	void *arg;
	uint32_t rounds, running;
} work;

static uint64_t rflags(void)
{
	uint64_t value;

	__asm__ volatile("pushfq\n\tpopq %0" : "=r"(value)::"memory");
	return value;
}

bool board_interrupts_on(void)
{
	return rflags() & RFLAGS_INTERRUPTS;
}

uintptr_t board_interrupts_mask(void)
{
	uintptr_t state = rflags();

	__asm__ volatile("cli" ::: "memory");
	return state;
}

void board_interrupts_restore(uintptr_t state)
{
	if (state & RFLAGS_INTERRUPTS)
		__asm__ volatile("sti" ::: "memory");
	else
		__asm__ volatile("cli" ::: "memory");
}

/* STI holds interrupts off for one instruction: with interrupts masked by the
 * caller, none is lost between what it looked at and the wait. */
void board_idle(void)
{
	if (board_interrupts_on())
		__asm__ volatile("hlt" ::: "memory");
	else
		__asm__ volatile("sti\n\thlt\n\tcli" ::: "memory");
}

unsigned board_cpus(void)
{
	return cpus;
}

/* From the task register: each CPU has a task segment of its own. */
unsigned board_cpu(void)
{
	uint16_t selector;

	__asm__ volatile("strw %0" : "=r"(selector));
	/* Before the register is loaded there is one CPU. */
	if (selector < Q35_SELECTOR_TASK)
		return 0;
	return (unsigned)(selector - Q35_SELECTOR_TASK) / Q35_TASK_BYTES;
}

void *board_block(void)
{
	return (void *)(uintptr_t)msr_read(MSR_GS_BASE);
}

void board_block_set(void *block)
{
	msr_write(MSR_GS_BASE, (uintptr_t)block);
}

/* Interrupts a CPU, which then looks what is wanted. */
static void call_send(unsigned cpu)
{
	board_apic_send(ids[cpu], APIC_FIXED | VECTOR_CALL);
}

/* Stays until the CPUs are let go. */
static void stop_here(void)
{
	uint32_t round = __atomic_load_n(&resumed, __ATOMIC_RELAXED);

	/* The round was read first: it ends only after this CPU is counted. */
	__atomic_fetch_add(&stopped, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&resumed, __ATOMIC_ACQUIRE) == round)
		cpu_pause();
	__atomic_fetch_sub(&stopped, 1, __ATOMIC_RELEASE);
}

/* Does what this CPU owes others, who wait for it.  Interrupts are masked. */
static void owed_serve(unsigned me)
{
	uint32_t wanted = __atomic_exchange_n(&owed[me], 0, __ATOMIC_ACQUIRE);
	unsigned from;

	for (from = 0; from < cpus; from++)
		if (wanted & (uint32_t)1 << from) {
			calls[from].handler(calls[from].arg);
			calls_served[me]++;
			__atomic_fetch_and(&calls[from].left,
				~((uint32_t)1 << me), __ATOMIC_RELEASE);
		}
	if (wanted & STOP)
		stop_here();
}

uint32_t board_calls_served(void)
{
	return calls_served[board_cpu()];
}

/* Has all others owe `what`, and interrupts them. */
static void owed_add(unsigned me, uint32_t what)
{
	unsigned to;

	for (to = 0; to < cpus; to++) {
		if (to == me)
			continue;
		__atomic_fetch_or(&owed[to], what, __ATOMIC_RELEASE);
		call_send(to);
	}
}

/* A word that is waited for. */
struct wait {
	const uint32_t *word;
	uint32_t wanted;
};

/* Serves what this CPU owes until the word is what is wanted. */
static void wait_serving(void *arg)
{
	const struct wait *wait = arg;
	unsigned me = board_cpu();

	while (__atomic_load_n(wait->word, __ATOMIC_ACQUIRE) != wait->wanted) {
		/* Only a look, as long as there is nothing: an exchange each
		 * time would take the word away from whoever wants to add. */
		if (__atomic_load_n(&owed[me], __ATOMIC_RELAXED) != 0)
			owed_serve(me);
		cpu_pause();
	}
}

/* The same on the stack of interrupts, from its end on unless the caller is on
 * it already.  Interrupts are masked. */
static void wait_for(const uint32_t *word, uint32_t wanted)
{
	struct wait wait = { word, wanted };
	uintptr_t end = board_interrupt_stack_end(board_cpu());

	if (end - (uintptr_t)&wait < Q35_INTERRUPT_STACK_BYTES)
		wait_serving(&wait);
	else
		board_call_on(end, wait_serving, &wait);
}

void board_interrupt_others(void (*handler)(void *arg), void *arg)
{
	uintptr_t state = board_interrupts_mask();
	unsigned me = board_cpu();
	struct call *call = &calls[me];

	if (__atomic_load_n(&call->left, __ATOMIC_RELAXED) != 0)
		board_panic("waiting for other CPUs within such a wait");
	call->handler = handler;
	call->arg = arg;
	__atomic_store_n(&call->left,
		(((uint32_t)1 << cpus) - 1) & ~((uint32_t)1 << me),
		__ATOMIC_RELEASE);
	owed_add(me, (uint32_t)1 << me);
	wait_for(&call->left, 0);
	board_interrupts_restore(state);
}

void board_stop_others(void)
{
	uintptr_t state = board_interrupts_mask();

	owed_add(board_cpu(), STOP);
	wait_for(&stopped, cpus - 1);
	board_interrupts_restore(state);
}

/* Waits until all have gone, so that the next stop counts anew. */
void board_resume_others(void)
{
	__atomic_fetch_add(&resumed, 1, __ATOMIC_RELEASE);
	while (__atomic_load_n(&stopped, __ATOMIC_ACQUIRE) != 0)
		cpu_pause();
}

/* Fills a post that is empty; returns whether it was. */
static bool post_fill(
	struct post *post, void (*handler)(void *arg), void *arg)
{
	uint32_t none = POST_NONE;

	if (!__atomic_compare_exchange_n(&post->state, &none, POST_CLAIMED,
		    false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return false;
	post->handler = handler;
	post->arg = arg;
	__atomic_store_n(&post->state, POST_READY, __ATOMIC_RELEASE);
	return true;
}

/* Makes the call that was posted, if one was; returns whether. */
static bool post_serve(struct post *post)
{
	if (__atomic_load_n(&post->state, __ATOMIC_ACQUIRE) != POST_READY)
		return false;
	post->handler(post->arg);
	__atomic_store_n(&post->state, POST_NONE, __ATOMIC_RELEASE);
	return true;
}

bool board_interrupt(unsigned cpu, void (*handler)(void *arg), void *arg)
{
	if (!post_fill(&posted[cpu], handler, arg))
		return false;
	call_send(cpu);
	return true;
}

/* Each sender has a post of its own, so NMIs that the hardware merges lose
 * none; one that this CPU sent before is waited for. */
bool board_nmi(unsigned cpu, void (*handler)(void *arg), void *arg)
{
	uintptr_t state = board_interrupts_mask();

	__atomic_store_n(&nmi_used, true, __ATOMIC_RELAXED);
	while (!post_fill(&nmis[cpu][board_cpu()], handler, arg))
		cpu_pause();
	board_apic_send(ids[cpu], APIC_NMI);
	board_interrupts_restore(state);
	return true;
}

bool board_nmi_serve(void)
{
	unsigned me = board_cpu(), from;

	for (from = 0; from < cpus; from++)
		post_serve(&nmis[me][from]);
	return __atomic_load_n(&nmi_used, __ATOMIC_RELAXED);
}

void board_timer(uint64_t nanoseconds,
	void (*handler)(struct board_frame *frame, void *arg), void *arg)
{
	uintptr_t state = board_interrupts_mask();

	timers[board_cpu()] = (struct timer){ handler, arg };
	board_apic_timer(handler == NULL ? 0
			: nanoseconds == 0 ? 1 : nanoseconds);
	board_interrupts_restore(state);
}

/* The interrupt is at its end before the handler runs: a handler may leave
 * for good, by what it writes to *frame, and come back on another CPU. */
bool board_interrupt_serve(uint64_t vector, struct board_frame *frame)
{
	unsigned me = board_cpu();
	struct timer timer = timers[me];

	if (vector == VECTOR_SPURIOUS)
		return true;
	if (vector != VECTOR_CALL && vector != VECTOR_TIMER)
		return false;
	board_apic_end();
	if (vector == VECTOR_CALL) {
		owed_serve(me);
		post_serve(&posted[me]);
	} else if (timer.handler != NULL) {
		/* One that was on its way when its timer was ended has no
		 * handler any more. */
		timer.handler(frame, timer.arg);
	}
	return true;
}

void board_frame_make(struct board_frame *frame, void (*entry)(void *arg),
	void *arg, void *stack_end)
{
	uintptr_t stack = (uintptr_t)stack_end - sizeof(uint64_t);
	struct trap trap = {
		.rdi = (uintptr_t)arg,
		.rip = (uintptr_t)entry,
		.cs = Q35_SELECTOR_CODE,
		.rflags = RFLAGS_RESERVED | RFLAGS_INTERRUPTS,
		/* As a call leaves it. */
		.rsp = stack,
		.ss = Q35_SELECTOR_DATA,
	};

	*(uint64_t *)stack = 0;
	*frame = (struct board_frame){ .words = { 0 } };
	__builtin_memcpy(frame, &trap, sizeof(trap));
}

void board_run(void (*run)(void *arg), void *arg)
{
	uintptr_t state;
	unsigned cpu;

	work.run = run;
	work.arg = arg;
	__atomic_store_n(&work.running, cpus - 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&work.rounds, 1, __ATOMIC_RELEASE);
	for (cpu = 1; cpu < cpus; cpu++)
		call_send(cpu);
	run(arg);
	state = board_interrupts_mask();
	while (__atomic_load_n(&work.running, __ATOMIC_ACQUIRE) != 0)
		board_idle();
	board_interrupts_restore(state);
}

/* Runs what there is to run, forever; interrupts are masked while it looks. */
_Noreturn static void work_loop(void)
{
	uint32_t round = 0;

	for (;;) {
		while (__atomic_load_n(&work.rounds, __ATOMIC_ACQUIRE) == round)
			board_idle();
		round++;
		__asm__ volatile("sti" ::: "memory");
		work.run(work.arg);
		__asm__ volatile("cli" ::: "memory");
		if (__atomic_sub_fetch(&work.running, 1, __ATOMIC_ACQ_REL) == 0)
			call_send(0);
	}
}

void board_cpu_set(unsigned cpu)
{
	blocks[cpu].context = cpu;
	board_block_set(&blocks[cpu]);
}

/* Where a CPU that was started comes to, on its stack, interrupts masked. */
_Noreturn void board_cpu_main(void)
{
	unsigned cpu = started;

	board_cpu_set(cpu);
	board_traps_load(cpu);
	board_apic_enable();
	if (board_apic_id() != ids[cpu])
		board_panic("a CPU has not the id that the MADT says");
	/* From here on the first CPU reuses what start.S read. */
	__atomic_store_n(&started, cpu + 1, __ATOMIC_RELEASE);
	work_loop();
}

/* Waits for CPU `cpu`; false iff it has not come after so many looks. */
static bool cpu_comes(unsigned cpu, uint32_t looks)
{
	for (; looks > 0; looks--) {
		if (__atomic_load_n(&started, __ATOMIC_ACQUIRE) > cpu)
			return true;
		cpu_pause();
	}
	return false;
}

/* Starts CPU `cpu`, which has had its INIT. */
static void cpu_start(unsigned cpu)
{
	uint32_t command = APIC_STARTUP | Q35_TRAMPOLINE >> 12;

	board_start_stack = board_stack_end(cpu);
	board_apic_send(ids[cpu], command);
	board_delay(STARTUP_MICROSECONDS);
	/* One that runs already ignores the second. */
	if (!cpu_comes(cpu, 1))
		board_apic_send(ids[cpu], command);
	if (!cpu_comes(cpu, START_LOOKS))
		board_panic("a CPU of the MADT does not start");
}

/* As madt.c wants it, on the direct map. */
static const void *acpi_reach(void *ctx, uint64_t physical, uint64_t size)
{
	(void)ctx;
	return board_map_memory(physical, size);
}

void board_cpus_find(uint64_t rsdp)
{
	struct board_madt madt;
	const char *wrong = board_madt_read(
		&madt, rsdp, board_apic_id(), acpi_reach, NULL);
	unsigned cpu;

	if (wrong != NULL)
		board_panic(wrong);
	for (cpu = 0; cpu < madt.count; cpu++)
		ids[cpu] = madt.ids[cpu];
	cpus = madt.count;
}

void board_cpus_start(void)
{
	unsigned char *to = board_map_memory(Q35_TRAMPOLINE, Q35_GUARD_BYTES);
	size_t i, n = (size_t)(board_trampoline_end - board_trampoline);
	unsigned cpu;

	if (cpus == 1)
		return;
	for (i = 0; i < n; i++)
		to[i] = board_trampoline[i];
	board_start_root = board_root();
	for (cpu = 1; cpu < cpus; cpu++)
		board_apic_send(ids[cpu], APIC_INIT);
	board_delay(INIT_MICROSECONDS);
	for (cpu = 1; cpu < cpus; cpu++)
		cpu_start(cpu);
}
