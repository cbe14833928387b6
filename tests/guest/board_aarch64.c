/* SPDX-License-Identifier: MIT */
/*
 * What the board virt does beyond board.h: a null pointer, a stray one into the
 * image and a stack that is too small are faults, and the CPU is as the port of
 * aarch64 wants it.
 */
#include "arch.h"
#include "board.h"
#include "test.h"
#include "virt/virt.h"

#define GRANULE ((uintptr_t)4096)
#define BLOCK ((uintptr_t)2 << 20)

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
	static char variable = 1;
	const char *constant = "constant";

	CHECK(board_can_read((uintptr_t)test_image_is_protected));
	CHECK(!board_can_write((uintptr_t)test_image_is_protected));
	CHECK(board_can_read((uintptr_t)constant));
	CHECK(!board_can_write((uintptr_t)constant));
	CHECK(board_can_write((uintptr_t)&variable));
}

/* An address that neither TTBR translates is no address. */
static void test_hole_of_addresses_faults(void)
{
	CHECK(!board_can_read((uintptr_t)1 << 63));
	CHECK(!board_can_write((uintptr_t)1 << 48));
}

/* Whether [at, at + bytes) is there, but for the guard below it. */
static bool stack_guarded(uintptr_t at, uintptr_t bytes)
{
	return !board_can_read(at - 1) && !board_can_write(at - GRANULE) &&
		board_can_write(at) && board_can_write(at + bytes - 1);
}

static uintptr_t stack_pointer(void)
{
	uintptr_t sp;

	__asm__ volatile("mov %0, sp" : "=r"(sp));
	return sp;
}

/* The calling CPU's stack of interrupts. */
static uintptr_t trap_stack(void)
{
	return (uintptr_t)board_stacks + board_cpu() * VIRT_STACKS_BYTES +
		VIRT_TRAP_GUARD_AT + VIRT_GUARD_BYTES;
}

static void timer_stack(struct board_frame *frame, void *done)
{
	(void)frame;
	CHECK(stack_guarded(trap_stack(), VIRT_TRAP_STACK_BYTES));
	CHECK(stack_pointer() - trap_stack() < VIRT_TRAP_STACK_BYTES);
	*(volatile bool *)done = true;
}

static void run_stacks(void *arg)
{
	uintptr_t stack = (uintptr_t)board_stacks +
		board_cpu() * VIRT_STACKS_BYTES + VIRT_GUARD_BYTES;
	volatile bool done = false;

	(void)arg;
	CHECK(stack_guarded(stack, VIRT_STACK_BYTES));
	CHECK(stack_pointer() - stack < VIRT_STACK_BYTES);
	board_timer(1000000, timer_stack, (void *)(uintptr_t)&done);
	while (!done)
		board_idle();
	board_timer(0, NULL, NULL);
}

/* The pages under both stacks of each CPU are not there. */
static void test_stacks_have_guards(void)
{
	board_run(run_stacks, NULL);
	CHECK(board_can_read((uintptr_t)board_stacks - 1));
}

/* What a CPU is set to, but for what is its own. */
struct setup {
	uint64_t sctlr, tcr, mair, ttbr0, ttbr1, vbar, cpacr, daif;
};
static struct setup setups[BOARD_CPUS_MAX];
static uint64_t affinities[BOARD_CPUS_MAX], indices[BOARD_CPUS_MAX];

#define READ(reg, to) __asm__ volatile("mrs %0, " #reg : "=r"(to))

static void run_setup(void *arg)
{
	struct setup *setup = &setups[board_cpu()];

	(void)arg;
	READ(sctlr_el1, setup->sctlr);
	READ(tcr_el1, setup->tcr);
	READ(mair_el1, setup->mair);
	READ(ttbr0_el1, setup->ttbr0);
	READ(ttbr1_el1, setup->ttbr1);
	READ(vbar_el1, setup->vbar);
	READ(cpacr_el1, setup->cpacr);
	READ(daif, setup->daif);
	READ(mpidr_el1, affinities[board_cpu()]);
	indices[board_cpu()] = fl_port_context();
}

/* All CPUs translate, trap and are masked alike, and are CPUs of their own. */
static void test_cpus_are_alike(void)
{
	board_run(run_setup, NULL);
	for (unsigned cpu = 0; cpu < board_cpus(); cpu++) {
		CHECK_EQUAL(setups[cpu].sctlr, setups[0].sctlr);
		CHECK_EQUAL(setups[cpu].tcr, setups[0].tcr);
		CHECK_EQUAL(setups[cpu].mair, setups[0].mair);
		CHECK_EQUAL(setups[cpu].ttbr0, setups[0].ttbr0);
		CHECK_EQUAL(setups[cpu].ttbr1, setups[0].ttbr1);
		CHECK_EQUAL(setups[cpu].vbar, setups[0].vbar);
		CHECK_EQUAL(setups[cpu].cpacr, setups[0].cpacr);
		CHECK_EQUAL(setups[cpu].daif, setups[0].daif);
		CHECK_EQUAL(indices[cpu], cpu);
		for (unsigned other = 0; other < cpu; other++)
			CHECK(affinities[cpu] != affinities[other]);
	}
}

static void nmi_count(void *count)
{
	CHECK(!board_interrupts_on());
	++*(volatile unsigned *)count;
}

/* Within a handler sends this CPU an NMI, which does not wait for its end. */
static void timer_nmi(struct board_frame *frame, void *count)
{
	volatile unsigned *n = count;

	(void)frame;
	if (*n)
		return;
	CHECK(board_nmi(board_cpu(), nmi_count, count));
	while (!*n)
		continue;
	CHECK_EQUAL(*n, 1);
}

static void run_nmi(void *arg)
{
	volatile unsigned count = 0;
	uintptr_t state;

	(void)arg;
	board_timer(1000000, timer_nmi, (void *)(uintptr_t)&count);
	while (!count)
		board_idle();
	board_timer(0, NULL, NULL);
	state = board_interrupts_mask();
	CHECK(board_nmi(board_cpu(), nmi_count, (void *)(uintptr_t)&count));
	while (count != 2)
		continue;
	board_interrupts_restore(state);
}

/* The fast interrupt is there with either GIC, where IRQs are masked and in
 * their handlers. */
static void test_nmi_is_fast(void)
{
	board_run(run_nmi, NULL);
}

/* The device tree's block is RAM like any other now, and beyond the image
 * nothing is mapped where it is linked. */
static void test_image_alone_is_mapped(void)
{
	uintptr_t end = ((uintptr_t)board_image_end + BLOCK - 1) & -BLOCK;

	CHECK(!board_can_read(VIRT_RAM_BASE));
	CHECK(!board_can_read(VIRT_IMAGE_BASE - 1));
	CHECK(board_can_read((uintptr_t)board_image_end - 1));
	CHECK(!board_can_read(end));
	CHECK(!board_can_read(VIRT_DEVICE_BASE - 1));
	CHECK(!board_can_read(VIRT_DEVICE_END));
	CHECK(board_can_write(VIRT_DIRECT_BASE + VIRT_RAM_BASE));
}

/* Every register but what a function may change survives a trap. */
static void test_trap_keeps_registers(void)
{
	uint64_t wrong;

	__asm__ volatile("mov x9, #0x1234\n\t"
			 "mov x2, #0x2345\n\t"
			 "mov x18, #0x3456\n\t"
			 "mov x19, #0x4567\n\t"
			 "mov x28, #0x5678\n\t"
			 "mov x0, xzr\n\t"
			 "bl board_can_read\n\t"
			 "mov x1, #0x1234\n\t"
			 "sub x9, x9, x1\n\t"
			 "orr x0, x0, x9\n\t"
			 "mov x1, #0x2345\n\t"
			 "sub x2, x2, x1\n\t"
			 "mov x1, #0x3456\n\t"
			 "sub x18, x18, x1\n\t"
			 "mov x1, #0x4567\n\t"
			 "sub x19, x19, x1\n\t"
			 "mov x1, #0x5678\n\t"
			 "sub x28, x28, x1\n\t"
			 "orr x0, x0, x2\n\t"
			 "orr x0, x0, x18\n\t"
			 "orr x0, x0, x19\n\t"
			 "orr %0, x0, x28"
			 : "=r"(wrong)
			 :
			 : "x0", "x1", "x9", "x2", "x18", "x19", "x28", "x30",
			 "memory");
	CHECK_EQUAL(wrong, 0);
}

/* The port: index 0 at TPIDR_EL1, interrupts on, restored as they were. */
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

/* The clock moves by one an instruction under -icount, and never back. */
static void test_ticks(void)
{
	uint64_t before = board_ticks(), after;

	for (int i = 0; i < 1000; i++) {
		after = board_ticks();
		CHECK(after >= before);
		before = after;
	}
	CHECK(before > 0);
}

const struct test tests[] = {
	{ "null_faults", test_null_faults },
	{ "image_is_protected", test_image_is_protected },
	{ "hole_of_addresses_faults", test_hole_of_addresses_faults },
	{ "stacks_have_guards", test_stacks_have_guards },
	{ "cpus_are_alike", test_cpus_are_alike },
	{ "nmi_is_fast", test_nmi_is_fast },
	{ "image_alone_is_mapped", test_image_alone_is_mapped },
	{ "trap_keeps_registers", test_trap_keeps_registers },
	{ "port_state", test_port_state },
	{ "ticks", test_ticks },
	{ NULL, NULL },
};
