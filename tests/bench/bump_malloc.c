/* SPDX-License-Identifier: MIT */
/* The way of every program: malloc() and free(), whoever has them. */
#define _DEFAULT_SOURCE
#include "bump.h"

#include <stdlib.h>

void bump_way_begin(void)
{
}

void *bump_way_alloc(size_t size)
{
	return malloc(size > 0 ? size : 1);
}

void *bump_way_zalloc(size_t size)
{
	return calloc(1, size > 0 ? size : 1);
}

void *bump_way_aligned(size_t align, size_t size)
{
	void *p = NULL;

	return posix_memalign(&p, align < sizeof(p) ? sizeof(p) : align,
		       size > 0 ? size : 1) == 0
		? p
		: NULL;
}

void *bump_way_realloc(void *p, size_t old_size, size_t new_size)
{
	(void)old_size;
	return realloc(p, new_size);
}

void bump_way_free(void *p, size_t size)
{
	(void)size;
	free(p);
}

int bump_way_reset(void)
{
	return 0;
}
