/* SPDX-License-Identifier: MIT */
/*
 * Under the policy LEAK nothing is reported; only the counter moves.
 */
#include "misuse_program.h"

static CRIME void crime(struct fallow *heap)
{
	struct fallow *quiet = misuse_heap(FALLOW_POLICY_LEAK);
	char *a = misuse_alloc(quiet, "a", 100);

	misuse_alloc(heap, "b", 100);
	fallow_free(quiet, a + 16);
	fallow_free(quiet, a);
	fallow_free(quiet, a);
	fallow_free(quiet, misuse_opaque(&a));
	misuse_say("went on");
}

int main(void)
{
	return misuse_run(crime);
}
