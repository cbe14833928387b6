/* SPDX-License-Identifier: MIT */
/*
 * A block of another heap is freed.
 */
#include "misuse_program.h"

static CRIME void crime(struct fallow *heap)
{
	struct fallow *other = misuse_heap(FALLOW_POLICY_REPORT);
	void *a = misuse_alloc(other, "a", 100);

	misuse_alloc(heap, "b", 100);
	fallow_free(heap, a);
	if (!fallow_realloc(heap, a, 5000))
		misuse_say("realloc gave nothing");
	fallow_free(other, a);
	misuse_say("went on");
}

int main(void)
{
	return misuse_run(crime);
}
