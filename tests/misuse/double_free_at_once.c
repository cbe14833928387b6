/* SPDX-License-Identifier: MIT */
/*
 * A small block is freed twice, with nothing between.
 */
#include "misuse_program.h"

static CRIME void crime(struct fallow *heap)
{
	void *a = misuse_alloc(heap, "a", 100);

	fallow_free(heap, a);
	fallow_free(heap, a);
	misuse_say("went on");
}

int main(void)
{
	return misuse_run(crime);
}
