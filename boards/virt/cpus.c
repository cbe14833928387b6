/* SPDX-License-Identifier: MIT */
/*
 * The other CPUs: started, waiting for work, and running it.
 *
 * Each comes up by PSCI in start.S and ends up in board_cpu_main(), where it
 * sleeps until the generation of the work changes.  Sleeping is checking with
 * interrupts masked and WFI, which a pending interrupt ends although it is
 * masked: no wake-up is lost between the two.
 *
 * The words that CPUs share here are written by CPU 0 but for `work_left` and
 * `online`.
 */
#include "image.h"
#include "virt.h"

/* PSCI (Arm DEN 0022): CPU_ON of the calling convention with 64 bits. */
#define PSCI_CPU_ON 0xc4000003

/* MPIDR_EL1: the fields of affinity. */
#define AFFINITY ((uint64_t)0xff00ffffff)

/* What TPIDR_EL1 points to: the port of aarch64 reads the index of the context
 * from its first word. */
struct block {
	uint32_t context;
	uint32_t port[2]; /* of the model PREEMPT */
} __attribute__((aligned(64)));

_Noreturn void board_cpu_main(void);

static struct block blocks[BOARD_CPUS_MAX];
static unsigned cpus = 1;
static uint32_t online;    /* CPUs that have come up */
static uint64_t first_now; /* CPU 0's clock, while others come up */

static void (*work)(void *arg);
static void *work_arg;
static uint32_t work_generation, work_left;

unsigned board_cpus(void)
{
	return cpus;
}

unsigned board_cpu(void)
{
	uint64_t index;

	__asm__ volatile("mrs %0, tpidrro_el0" : "=r"(index));
	return (unsigned)index;
}

void *board_block(void)
{
	void *block;

	__asm__ volatile("mrs %0, tpidr_el1" : "=r"(block)::"memory");
	return block;
}

void board_block_set(void *block)
{
	__asm__ volatile("msr tpidr_el1, %0" ::"r"(block) : "memory");
}

/* Sets this CPU's block, whose index is its own. */
static void block_init(void)
{
	struct block *block = &blocks[board_cpu()];

	block->context = board_cpu();
	board_block_set(block);
}

/* Lets interrupts come: system errors, IRQs and FIQs. */
static void interrupts_begin(void)
{
	__asm__ volatile("msr daifclr, #7" ::: "memory");
}

/* Sleeps until *word is no longer `value`. */
static void sleep_while(const uint32_t *word, uint32_t value)
{
	uintptr_t state = board_interrupts_mask();

	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == value) {
		board_idle();
		board_interrupts_restore(state);
		board_interrupts_mask();
	}
	board_interrupts_restore(state);
}

/* Does this CPU's part of the work; the last one wakes CPU 0. */
static void work_do(void)
{
	work(work_arg);
	if (__atomic_sub_fetch(&work_left, 1, __ATOMIC_ACQ_REL) == 0)
		board_wake(0);
}

/* A CPU other than the first, from start.S on. */
_Noreturn void board_cpu_main(void)
{
	block_init();
	board_gic_cpu_init();
	board_ticks_init(__atomic_load_n(&first_now, __ATOMIC_RELAXED));
	__atomic_fetch_add(&online, 1, __ATOMIC_RELEASE);
	interrupts_begin();
	for (uint32_t done = 0;; done++) {
		sleep_while(&work_generation, done);
		work_do();
	}
}

void board_run(void (*run)(void *arg), void *arg)
{
	work = run;
	work_arg = arg;
	__atomic_store_n(&work_left, cpus, __ATOMIC_RELAXED);
	__atomic_fetch_add(&work_generation, 1, __ATOMIC_RELEASE);
	for (unsigned cpu = 1; cpu < cpus; cpu++)
		board_wake(cpu);
	work_do();
	for (;;) {
		uint32_t left = __atomic_load_n(&work_left, __ATOMIC_ACQUIRE);

		if (!left)
			return;
		sleep_while(&work_left, left);
	}
}

/* Calls PSCI; it may change x0 to x17 (Arm DEN 0028, "Register use"). */
static int64_t psci(enum board_psci how, uint64_t function, uint64_t a,
	uint64_t b, uint64_t c)
{
	register uint64_t x0 __asm__("x0") = function;
	register uint64_t x1 __asm__("x1") = a;
	register uint64_t x2 __asm__("x2") = b;
	register uint64_t x3 __asm__("x3") = c;

#define PSCI_CALL(instruction)                                            \
 __asm__ volatile(instruction " #0"                                       \
		  : "+r"(x0), "+r"(x1), "+r"(x2), "+r"(x3)                \
		  :                                                       \
		  : "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11",     \
		  "x12", "x13", "x14", "x15", "x16", "x17", "memory")
	if (how == BOARD_PSCI_HVC)
		PSCI_CALL("hvc");
	else
		PSCI_CALL("smc");
#undef PSCI_CALL
	return (int64_t)x0;
}

void board_cpus_init(struct board_devicetree *tree)
{
	const char *wrong;
	uint64_t mpidr;

	__asm__("mrs %0, mpidr_el1" : "=r"(mpidr));
	wrong = board_devicetree_boot_cpu(tree, mpidr & AFFINITY);
	if (wrong)
		board_panic(wrong);
	block_init();
	board_gic_init(tree);
	board_gic_cpu_init();
	interrupts_begin();
}

void board_cpus_start(const struct board_devicetree *tree)
{
	cpus = tree->cpus;
	for (unsigned cpu = 1; cpu < cpus; cpu++) {
		/* What the CPU finds with its MMU on, the tables first, is
		 * there before it runs; before that it reads text alone. */
		__asm__ volatile("dsb sy" ::: "memory");
		if (psci(tree->psci, PSCI_CPU_ON, tree->cpu[cpu].affinity,
			    (uintptr_t)board_cpu_start, cpu) != 0)
			board_panic("PSCI does not start a CPU");
		while (__atomic_load_n(&online, __ATOMIC_ACQUIRE) < cpu) {
			__atomic_store_n(
				&first_now, board_ticks(), __ATOMIC_RELAXED);
			__asm__ volatile("yield" ::: "memory");
		}
	}
}
