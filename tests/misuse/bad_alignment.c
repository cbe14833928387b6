/* SPDX-License-Identifier: MIT */
/*
 * Alignments that are zero or no power of two.
 */
#include "misuse_program.h"

static CRIME void crime(struct fallow *heap)
{
	volatile size_t align = 24;

	if (!fallow_alloc_aligned(heap, align, 100))
		misuse_say("alloc gave nothing");
	align = 0;
	if (!fallow_alloc_aligned(heap, align, 100))
		misuse_say("alloc gave nothing");
	align = 4097;
	if (!fallow_alloc_aligned_flags(heap, align, 100, FALLOW_ZERO))
		misuse_say("alloc gave nothing");
}

int main(void)
{
	return misuse_run(crime);
}
