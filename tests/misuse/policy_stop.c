/* SPDX-License-Identifier: MIT */
/*
 * Under the policy STOP the report is the last that happens.
 */
#include "misuse_program.h"

static CRIME void crime(struct fallow *heap)
{
	struct fallow *strict = misuse_heap(FALLOW_POLICY_STOP);
	void *a = misuse_alloc(strict, "a", 100);

	misuse_alloc(heap, "b", 100);
	fallow_free(strict, a);
	misuse_say("the last line but the report");
	fallow_free(strict, a);
	misuse_say("went on");
}

int main(void)
{
	return misuse_run(crime);
}
