/* SPDX-License-Identifier: MIT */
/*
 * A block of a medium page, whose free blocks are bits in its record, is
 * freed twice.
 */
#include "misuse_program.h"

static CRIME void crime(struct fallow *heap)
{
	void *a = misuse_alloc(heap, "a", 20000);
	void *b = misuse_alloc(heap, "b", 20000);

	fallow_free(heap, a);
	fallow_free(heap, a);
	fallow_free(heap, b);
	fallow_free(heap, a);
	misuse_say("went on");
}

int main(void)
{
	return misuse_run(crime);
}
