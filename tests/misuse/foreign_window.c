/* SPDX-License-Identifier: MIT */
/*
 * Addresses of the window that no block ever had are freed: its first, which
 * tables have, one in its middle, its last, the one behind it.
 */
#include "misuse_program.h"

static CRIME void crime(struct fallow *heap)
{
	uintptr_t base = misuse_sim()->base;
	size_t size = misuse_sim()->size;

	misuse_alloc(heap, "a", 100);
	misuse_name("behind", (void *)(base + size), 16);
	misuse_name("window", (void *)base, size);
	fallow_free(heap, (void *)base);
	fallow_free(heap, (void *)(base + size / 2));
	fallow_free(heap, (void *)(base + size - 16));
	fallow_free(heap, (void *)(base + size));
	fallow_free(heap, (void *)16);
	misuse_say("went on");
}

int main(void)
{
	return misuse_run(crime);
}
