/* SPDX-License-Identifier: MIT */
/*
 * A small block is freed twice, with other frees between: it is not the head
 * of any list any more.
 */
#include "misuse_program.h"

static CRIME void crime(struct fallow *heap)
{
	void *a = misuse_alloc(heap, "a", 100);
	void *b = misuse_alloc(heap, "b", 100);
	void *c = misuse_alloc(heap, "c", 100);

	fallow_free(heap, a);
	fallow_free(heap, b);
	fallow_free(heap, a);
	fallow_free(heap, c);
	fallow_free(heap, a);
	fallow_free(heap, b);
	misuse_say("went on");
}

int main(void)
{
	return misuse_run(crime);
}
