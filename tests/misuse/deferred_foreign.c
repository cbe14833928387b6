/* SPDX-License-Identifier: MIT */
/*
 * Pointers are deferred that are no blocks: they are not written to, and the
 * next call that can reports them.
 */
#include "misuse_program.h"

static CRIME void crime(struct fallow *heap)
{
	char *a = misuse_alloc(heap, "a", 100);
	long other[4] = { 1, 2, 3, 4 };

	misuse_name("other", other, sizeof(other));
	fallow_free_deferred(heap, misuse_opaque(other));
	fallow_free_deferred(heap, misuse_opaque(a + 16));
	fallow_collect(heap);
	if (other[0] == 1 && other[1] == 2)
		misuse_say("not written to");
	fallow_free(heap, a);
}

int main(void)
{
	return misuse_run(crime);
}
