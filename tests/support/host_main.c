/* SPDX-License-Identifier: MIT */
/*
 * A test program on the developer's machine.
 *
 * TEST and SEED come from the environment.  TEST_AGAIN is the command that
 * runs this program again, given by the runner; run by hand, the program
 * names itself.
 */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>

void test_write(const char *text, size_t size)
{
	fwrite(text, 1, size, stdout);
	/* What a crash leaves unwritten would hide which test it was. */
	fflush(stdout);
}

/* Sets the two parts of the line that runs a test again. */
static void again_set(const char *program)
{
	static char tail[1024];
	const char *again = getenv("TEST_AGAIN");

	if (again && *again) {
		test_again_head = again;
		return;
	}
	test_again_head = "env";
	snprintf(tail, sizeof(tail), " %s", program);
	test_again_tail = tail;
}

int main(int argc, char **argv)
{
	const char *seed = getenv("SEED");

	if (argc > 1) {
		fprintf(stderr, "%s: no arguments; set TEST and SEED\n",
			argv[0]);
		return 2;
	}
	again_set(argv[0]);
	return test_main(
		getenv("TEST"), seed && *seed ? strtoull(seed, NULL, 0) : 1);
}
