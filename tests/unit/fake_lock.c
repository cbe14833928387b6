/* SPDX-License-Identifier: MIT */
/*
 * The lock carries the interrupt state of its holder: off while it is held,
 * and as it was afterwards, whether it was had or not.
 */
#include "lock.h"
#include "test.h"

static void test_lock_restores(void)
{
	for (int on = 0; on < 2; on++) {
		struct lock outer = { .next = 0 }, inner = { .next = 0 };
		struct fl_port_state first, second;

		test_port_reset();
		test_port.irqs_on = on;
		first = lock_take(&outer);
		CHECK(!test_port.irqs_on);
		CHECK_EQUAL(test_port.locks, 1);
		CHECK(lock_try(&inner, &second));
		CHECK_EQUAL(test_port.locks, 2);
		lock_leave(&inner, second);
		CHECK(!test_port.irqs_on);
		lock_leave(&outer, first);
		CHECK_EQUAL(test_port.irqs_on, on);
		test_port_verdict();
	}
}

static void test_lock_try_restores(void)
{
	for (int on = 0; on < 2; on++) {
		struct lock lock = { .next = 1 };
		struct fl_port_state state;

		test_port_reset();
		test_port.irqs_on = on;
		CHECK(!lock_try(&lock, &state));
		CHECK_EQUAL(test_port.irqs_on, on);
		CHECK_EQUAL(test_port.locks, 0);
		test_port_verdict();
	}
}

const struct test tests[] = {
	{ "lock_restores", test_lock_restores },
	{ "lock_try_restores", test_lock_try_restores },
	{ NULL, NULL },
};
