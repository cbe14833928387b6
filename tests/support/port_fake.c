/* SPDX-License-Identifier: MIT */
/*
 * The state behind the fake port, and what a test asks of it.
 *
 * Everything runs on one thread.  Lock words are real: an execution that is
 * opened while the interrupted one holds a lock, and wants the same lock, spins
 * and is ended by test_port_hang() with a sentence, as the kernel would hang
 * without one.
 */
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>

#include "test.h"

struct test_port test_port = { .irqs_on = true };

void test_port_reset(void)
{
	test_port = (struct test_port){ .irqs_on = true };
}

void test_port_crime(const char *what)
{
	if (test_port.crimes++ == 0)
		test_port.crime = what;
}

bool test_port_waits(void)
{
	return test_port.irqs_on && !test_port.held;
}

struct test_port test_port_begin(unsigned context, bool irqs_on)
{
	struct test_port interrupted = test_port;

	test_port.context = context;
	test_port.irqs_on = irqs_on;
	test_port.held = false;
	test_port.depth = 0;
	test_port.locks = 0;
	test_port.waits = 0;
	test_port.masked_waits = 0;
	return interrupted;
}

void test_port_end(struct test_port interrupted)
{
	if (test_port.depth || test_port.locks)
		test_port_crime("an execution ended inside enter or a lock");
	interrupted.crimes = test_port.crimes;
	interrupted.crime = test_port.crime;
	test_port = interrupted;
}

void test_port_verdict(void)
{
	if (test_port.depth || test_port.locks)
		test_port_crime("the test ended inside enter or a lock");
	if (test_port.crimes)
		test_printf("\n    the port saw: %s", test_port.crime);
	CHECK_EQUAL(test_port.crimes, 0);
	test_port.crimes = 0;
}

void test_port_hang(void)
{
	fflush(stdout);
	fputs("port: a wait that no other execution can end\n", stderr);
	abort();
}

void test_port_halted(void)
{
	fflush(stdout);
	fputs("port: halted\n", stderr);
	abort();
}
