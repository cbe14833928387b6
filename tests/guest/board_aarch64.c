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

/* The page under the stack is not there; the one above it is. */
static void test_stack_has_guard(void)
{
	CHECK(!board_can_read((uintptr_t)board_stacks));
	CHECK(!board_can_write((uintptr_t)board_stacks + GRANULE - 1));
	CHECK(board_can_write((uintptr_t)board_stacks + GRANULE));
	CHECK(board_can_read((uintptr_t)board_stacks - 1));
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
	{ "stack_has_guard", test_stack_has_guard },
	{ "image_alone_is_mapped", test_image_alone_is_mapped },
	{ "trap_keeps_registers", test_trap_keeps_registers },
	{ "port_state", test_port_state },
	{ "ticks", test_ticks },
	{ NULL, NULL },
};
