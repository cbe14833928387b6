/* SPDX-License-Identifier: MIT */
/*
 * A block is freed a second time after its page was given back.
 */
#include "misuse_program.h"

static CRIME void crime(struct fallow *heap)
{
	void *a = misuse_alloc(heap, "a", 100);

	fallow_free(heap, a);
	if (fallow_collect(heap) == 0)
		misuse_say("nothing was collected");
	fallow_free(heap, a);
	misuse_say("went on");
}

int main(void)
{
	return misuse_run(crime);
}
