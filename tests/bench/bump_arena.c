/* SPDX-License-Identifier: MIT */
/* An arena on the heap, with the settings that it has by itself. */
#include "bump.h"

#include <fallow/bump.h>

#include "bench.h"
#include "bump_heap.h"

static struct fallow_bump arena;

void bump_way_begin(void)
{
	bump_heap_begin();
	if (fallow_bump_init(&arena, &bump_heap, NULL) != FALLOW_OK)
		bench_fail("no arena");
}

void *bump_way_alloc(size_t size)
{
	return fallow_bump_alloc(&arena, size);
}

void *bump_way_zalloc(size_t size)
{
	return fallow_bump_alloc_flags(&arena, size, FALLOW_ZERO);
}

void *bump_way_aligned(size_t align, size_t size)
{
	return fallow_bump_alloc_aligned(&arena, align, size);
}

void *bump_way_realloc(void *p, size_t old_size, size_t new_size)
{
	return fallow_bump_realloc(&arena, p, old_size, new_size);
}

void bump_way_free(void *p, size_t size)
{
	fallow_bump_free(&arena, p, size);
}

int bump_way_reset(void)
{
	fallow_bump_reset(&arena);
	return 1;
}
