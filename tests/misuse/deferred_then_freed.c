/* SPDX-License-Identifier: MIT */
/*
 * A block of each kind is deferred and then freed: the free is reported, and
 * the block is freed once.
 */
#include "misuse_program.h"

static CRIME void crime(struct fallow *heap)
{
	void *a = misuse_alloc(heap, "small", 100);
	void *b = misuse_alloc(heap, "medium", 20000);
	void *c = misuse_alloc(heap, "span", 700000);

	fallow_free_deferred(heap, a);
	fallow_free_deferred(heap, b);
	fallow_free_deferred(heap, c);
	fallow_free(heap, misuse_opaque(a));
	fallow_free(heap, misuse_opaque(b));
	fallow_free(heap, misuse_opaque(c));
	misuse_say("freed");
	fallow_collect(heap);
	misuse_say("went on");
}

int main(void)
{
	return misuse_run(crime);
}
