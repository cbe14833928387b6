/* SPDX-License-Identifier: MIT */
/*
 * Addresses that no block can have, by their low bits, are freed.
 */
#include "misuse_program.h"

static CRIME void crime(struct fallow *heap)
{
	char *a = misuse_alloc(heap, "a", 100);
	char *b = misuse_alloc(heap, "b", 20000);
	char *d = misuse_alloc(heap, "d", 3000000);

	fallow_free(heap, a + 1);
	fallow_free(heap, a + 8);
	fallow_free(heap, a + 15);
	fallow_free(heap, b + 1);
	fallow_free(heap, d + 8);
	fallow_free(heap, a);
	misuse_say("went on");
}

int main(void)
{
	return misuse_run(crime);
}
