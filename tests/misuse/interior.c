/* SPDX-License-Identifier: MIT */
/*
 * Addresses inside of blocks of each kind are freed, aligned as blocks are.
 */
#include "misuse_program.h"

static CRIME void crime(struct fallow *heap)
{
	char *a = misuse_alloc(heap, "a", 100);
	char *b = misuse_alloc(heap, "b", 20000);
	char *c = misuse_alloc(heap, "c", 300000);
	char *d = misuse_alloc(heap, "d", 3000000);

	fallow_free(heap, a + 16);
	fallow_free(heap, a + 96);
	fallow_free(heap, b + 4096);
	fallow_free(heap, c + 65536);
	fallow_free(heap, d + 16);
	fallow_free(heap, d + 65536);
	fallow_free(heap, d + 2097152);
	fallow_free(heap, a);
	fallow_free(heap, b);
	fallow_free(heap, c);
	fallow_free(heap, d);
	misuse_say("went on");
}

int main(void)
{
	return misuse_run(crime);
}
