/* SPDX-License-Identifier: MIT */
/* The least that can be done: a pointer moves on, and no free ever frees.  What
 * the work itself costs, to be taken off the others' instructions. */
#define _DEFAULT_SOURCE
#include "bump.h"

#include <string.h>
#include <sys/mman.h>

#include "bench.h"

#define ROOM ((size_t)6 << 30)

static unsigned char *begin, *next;

void bump_way_begin(void)
{
	void *p = mmap(NULL, ROOM, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		bench_fail("no addresses");
	begin = next = p;
}

void *bump_way_alloc(size_t size)
{
	void *p = next;

	next += (size + 15) / 16 * 16;
	return p;
}

void *bump_way_zalloc(size_t size)
{
	return memset(bump_way_alloc(size), 0, size);
}

void *bump_way_aligned(size_t align, size_t size)
{
	next = (void *)(((uintptr_t)next + align - 1) & ~(align - 1));
	return bump_way_alloc(size);
}

void *bump_way_realloc(void *p, size_t old_size, size_t new_size)
{
	return memcpy(bump_way_alloc(new_size), p,
		old_size < new_size ? old_size : new_size);
}

void bump_way_free(void *p, size_t size)
{
	(void)p;
	(void)size;
}

int bump_way_reset(void)
{
	next = begin;
	return 1;
}
