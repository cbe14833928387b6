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
	{ "image_alone_is_mapped", test_image_alone_is_mapped },
	{ "port_state", test_port_state },
	{ NULL, NULL },
};
