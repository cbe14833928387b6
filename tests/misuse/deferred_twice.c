/* SPDX-License-Identifier: MIT */
/*
 * A block is deferred twice: noticed there, reported by the next call that
 * frees what was deferred, with the caller who did it.
 */
#include "misuse_program.h"

static CRIME void crime(struct fallow *heap)
{
	void *a = misuse_alloc(heap, "a", 100);
	void *b = misuse_alloc(heap, "b", 100);

	fallow_free_deferred(heap, a);
	fallow_free_deferred(heap, b);
	fallow_free_deferred(heap, misuse_opaque(a));
	misuse_say("deferred");
	fallow_collect(heap);
	misuse_say("went on");
}

int main(void)
{
	return misuse_run(crime);
}
