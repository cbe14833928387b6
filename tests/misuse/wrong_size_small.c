/* SPDX-License-Identifier: MIT */
/*
 * Sized frees whose size is far below the block's: an allocation of so
 * little would not have returned this block.
 */
#include "misuse_program.h"

static CRIME void crime(struct fallow *heap)
{
	void *a = misuse_alloc(heap, "a", 1000);
	void *d = misuse_alloc(heap, "d", 3000000);

	fallow_free_sized(heap, a, 10);
	fallow_free_sized(heap, d, 10);
	fallow_free(heap, a);
	fallow_free(heap, d);
	misuse_say("went on");
}

int main(void)
{
	return misuse_run(crime);
}
