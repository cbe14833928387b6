/* SPDX-License-Identifier: MIT */
/*
 * Sized frees whose size cannot be the block's; then with one that can.
 */
#include "misuse_program.h"

static CRIME void crime(struct fallow *heap)
{
	void *a = misuse_alloc(heap, "a", 100);
	void *b = misuse_alloc(heap, "b", 20000);
	void *d = misuse_alloc(heap, "d", 3000000);

	fallow_free_sized(heap, a, 1000);
	fallow_free_sized(heap, a, 113);
	fallow_free_sized(heap, b, 40000);
	fallow_free_sized(heap, d, 5000000);
	fallow_free_sized(heap, d, SIZE_MAX);
	fallow_free_sized(heap, a, 100);
	fallow_free_sized(heap, b, 20000);
	fallow_free_sized(heap, d, 3000000);
	misuse_say("went on");
}

int main(void)
{
	return misuse_run(crime);
}
