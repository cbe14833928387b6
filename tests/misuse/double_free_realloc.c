/* SPDX-License-Identifier: MIT */
/*
 * A block that is free is reallocated, and its size asked for.
 */
#include "misuse_program.h"

static CRIME void crime(struct fallow *heap)
{
	void *a = misuse_alloc(heap, "a", 100);

	fallow_free(heap, a);
	if (!fallow_realloc(heap, a, 5000))
		misuse_say("realloc gave nothing");
	if (!fallow_usable_size(heap, a))
		misuse_say("usable_size gave nothing");
	fallow_free_sized(heap, a, 100);
	misuse_say("went on");
}

int main(void)
{
	return misuse_run(crime);
}
