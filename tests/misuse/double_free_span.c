/* SPDX-License-Identifier: MIT */
/*
 * A block too big for any class is freed twice: nothing leads there any more, but
 * the record says what it was.
 */
#include "misuse_program.h"

static CRIME void crime(struct fallow *heap)
{
	void *a = misuse_alloc(heap, "a", 3000000);

	fallow_free(heap, a);
	fallow_free(heap, a);
	misuse_say("went on");
}

int main(void)
{
	return misuse_run(crime);
}
