/* SPDX-License-Identifier: MIT */
/*
 * A block of a page of a whole chunk is freed twice.
 */
#include "misuse_program.h"

static CRIME void crime(struct fallow *heap)
{
	void *a = misuse_alloc(heap, "a", 300000);

	fallow_free(heap, a);
	fallow_free(heap, a);
	misuse_say("went on");
}

int main(void)
{
	return misuse_run(crime);
}
