/* SPDX-License-Identifier: MIT */
/*
 * Addresses in a page that no block had yet, or where none fits, are freed.
 */
#include "misuse_program.h"

static CRIME void crime(struct fallow *heap)
{
	uintptr_t a = (uintptr_t)misuse_alloc(heap, "a", 112);
	uintptr_t page = a & ~(uintptr_t)65535;

	misuse_name("page", (void *)page, 65536);
	misuse_name("a", (void *)a, 112);
	/* 585 blocks of 112 bytes fit a slice: the last, and what is left. */
	fallow_free(heap, (void *)(page + (uintptr_t)584 * 112));
	fallow_free(heap, (void *)(page + (uintptr_t)585 * 112));
	misuse_say("went on");
}

int main(void)
{
	return misuse_run(crime);
}
