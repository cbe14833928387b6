/* SPDX-License-Identifier: MIT */
/*
 * What the board q35 does beyond board.h: a null pointer, a stray one into the
 * image and a stack that is too small are faults, and the CPU is as the port of
 * x86-64 wants it.
 */
#include "arch.h"
#include "board.h"
#include "test.h"

#define GRANULE ((uintptr_t)4096)

/* boards/q35/start.S: the page under the stack. */
extern unsigned char board_stack_guard[];

/* Nothing is at address 0, in either direction. */
static void test_null_faults(void)
{
	CHECK(!board_can_read(0));
	CHECK(!board_can_write(0));
	CHECK(!board_can_read(GRANULE - 1));
}

/* Text and constants can be read, not written. */
static void test_image_is_protected(void)
{
	const char *constant = "constant";

	CHECK(board_can_read((uintptr_t)test_image_is_protected));
	CHECK(!board_can_write((uintptr_t)test_image_is_protected));
	CHECK(board_can_read((uintptr_t)constant));
	CHECK(!board_can_write((uintptr_t)constant));
}

/* A probe of an address that is none (#GP, not #PF) fails too. */
static void test_noncanonical_faults(void)
{
	CHECK(!board_can_read((uintptr_t)1 << 63));
	CHECK(!board_can_write((uintptr_t)1 << 63));
}

/* The page under the stack is not there; the one above it is. */
static void test_stack_has_guard(void)
{
	CHECK(!board_can_read((uintptr_t)board_stack_guard));
	CHECK(!board_can_write((uintptr_t)board_stack_guard + GRANULE - 1));
	CHECK(board_can_write((uintptr_t)board_stack_guard + GRANULE));
}

/* Returns how many bytes below `addr`, to a granule, the stack goes on. */
static uintptr_t stack_below(uintptr_t addr)
{
	uintptr_t begin = addr & ~(GRANULE - 1);

	while (board_can_read(begin - GRANULE))
		begin -= GRANULE;
	return addr - begin;
}

/* The most that a stack of tasks has, and that one of interrupts has: of
 * boards/q35/layout.h. */
#define STACK_BYTES ((uintptr_t)0x10000)
#define INTERRUPT_STACK_BYTES ((uintptr_t)0x4000)

static void timer_stack(struct board_frame *frame, void *done)
{
	(void)frame;
	CHECK(stack_below((uintptr_t)__builtin_frame_address(0)) <
		INTERRUPT_STACK_BYTES);
	*(volatile bool *)done = true;
}

static void run_stacks(void *arg)
{
	volatile bool done = false;

	(void)arg;
	CHECK(stack_below((uintptr_t)&done) < STACK_BYTES);
	board_timer(1000000, timer_stack, (void *)(uintptr_t)&done);
	while (!done)
		board_idle();
	board_timer(0, NULL, NULL);
}

/* Below every stack of every CPU is a page that is not there. */
static void test_stacks_have_guards(void)
{
	board_run(run_stacks, NULL);
}

/* What a CPU is set to, but for what is its own. */
struct setup {
	uint64_t cr0, cr3, cr4, efer, pat, idt;
};
static struct setup setups[BOARD_CPUS_MAX];
static uint16_t tasks[BOARD_CPUS_MAX];

static uint64_t msr_read(uint32_t msr)
{
	uint32_t low, high;

	__asm__ volatile("rdmsr" : "=a"(low), "=d"(high) : "c"(msr));
	return (uint64_t)high << 32 | low;
}

static void run_setup(void *arg)
{
	struct setup *setup = &setups[board_cpu()];
	struct {
		uint16_t limit;
		uint64_t base;
	} __attribute__((packed)) idt;

	(void)arg;
	__asm__ volatile("movq %%cr0, %0" : "=r"(setup->cr0));
	__asm__ volatile("movq %%cr3, %0" : "=r"(setup->cr3));
	__asm__ volatile("movq %%cr4, %0" : "=r"(setup->cr4));
	__asm__ volatile("sidt %0" : "=m"(idt));
	__asm__ volatile("strw %0" : "=r"(tasks[board_cpu()]));
	setup->efer = msr_read(0xc0000080);
	setup->pat = msr_read(0x277);
	setup->idt = idt.base;
}

/* All CPUs have the same paging, caching and vectors, but each its own stacks
 * for these. */
static void test_cpus_are_alike(void)
{
	unsigned cpu, other;

	board_run(run_setup, NULL);
	for (cpu = 1; cpu < board_cpus(); cpu++) {
		CHECK_EQUAL(setups[cpu].cr0, setups[0].cr0);
		CHECK_EQUAL(setups[cpu].cr3, setups[0].cr3);
		CHECK_EQUAL(setups[cpu].cr4, setups[0].cr4);
		CHECK_EQUAL(setups[cpu].efer, setups[0].efer);
		CHECK_EQUAL(setups[cpu].pat, setups[0].pat);
		CHECK_EQUAL(setups[cpu].idt, setups[0].idt);
		for (other = 0; other < cpu; other++)
			CHECK(tasks[cpu] != tasks[other]);
	}
}

/* Beyond the image nothing is mapped where it is linked. */
static void test_image_alone_is_mapped(void)
{
	CHECK(!board_can_read(0xffffffff80000000));
	CHECK(!board_can_read(0xffffffff80000000 + ((uintptr_t)512 << 20)));
}

/* The port: index 0 at GS, interrupts on, restored as they were. */
static void test_port_state(void)
{
	struct fl_port_state outer, inner;

	CHECK_EQUAL(fl_port_context(), 0);
	outer = fl_port_enter();
	CHECK(fl_port_may_wait(outer));
	inner = fl_port_enter();
	CHECK(!fl_port_may_wait(inner));
	fl_port_leave(inner);
	inner = fl_port_enter();
	CHECK(!fl_port_may_wait(inner));
	fl_port_leave(inner);
	fl_port_leave(outer);
	inner = fl_port_enter();
	CHECK(fl_port_may_wait(inner));
	fl_port_leave(inner);
}

const struct test tests[] = {
	{ "null_faults", test_null_faults },
	{ "image_is_protected", test_image_is_protected },
	{ "noncanonical_faults", test_noncanonical_faults },
	{ "stack_has_guard", test_stack_has_guard },
	{ "stacks_have_guards", test_stacks_have_guards },
	{ "cpus_are_alike", test_cpus_are_alike },
	{ "image_alone_is_mapped", test_image_alone_is_mapped },
	{ "port_state", test_port_state },
	{ NULL, NULL },
};
