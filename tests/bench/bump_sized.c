/* SPDX-License-Identifier: MIT */
/* The heap itself, whose frees are told the size: the way that is to be
 * beaten. */
#include "bump.h"

#include "bump_heap.h"

void bump_way_begin(void)
{
	bump_heap_begin();
}

void *bump_way_alloc(size_t size)
{
	return fallow_alloc(&bump_heap, size);
}

void *bump_way_zalloc(size_t size)
{
	return fallow_zalloc(&bump_heap, size);
}

void *bump_way_aligned(size_t align, size_t size)
{
	return fallow_alloc_aligned(&bump_heap, align, size);
}

void *bump_way_realloc(void *p, size_t old_size, size_t new_size)
{
	(void)old_size;
	return fallow_realloc(&bump_heap, p, new_size);
}

void bump_way_free(void *p, size_t size)
{
	fallow_free_sized(&bump_heap, p, size);
}

int bump_way_reset(void)
{
	return 0;
}
