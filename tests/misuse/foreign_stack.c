/* SPDX-License-Identifier: MIT */
/*
 * An address of the stack is freed.
 */
#include "misuse_program.h"

static CRIME void crime(struct fallow *heap)
{
	int local = 0;

	misuse_name("local", &local, sizeof(local));
	fallow_free(heap, misuse_opaque(&local));
	misuse_say("went on");
}

int main(void)
{
	return misuse_run(crime);
}
