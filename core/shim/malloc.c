/* SPDX-License-Identifier: MIT */
/*
 * malloc and its family: the C library's names over one heap.
 *
 * Each function is the heap's call of the same meaning, plus what only the C
 * names have: errno, alignments refused instead of reported as misuse, and a
 * heap that may not be there yet, for a libc that allocates while it starts.
 *
 * All of it is one object on purpose: a linker that takes malloc from here
 * finds every other name here too and never opens the libc's allocator.  For
 * the same reason no other name without our prefix is defined.  What sets errno
 * is apart, in malloc_errno.c, because images replace that alone.
 *
 * There is one word of state, the heap.  It is written before the calls that
 * use it begin (see fallow_malloc_use()), so reading it needs no order.
 */
#include <fallow/malloc.h>

#include "atomic.h"

/* <errno.h> is the libc's, and this file is compiled without one; the numbers
 * are Unix's. */
#define ERROR_NO_MEMORY 12 /* ENOMEM */
#define ERROR_INVALID 22   /* EINVAL */

/* The libc's headers declare these; they are not there. */
void *malloc(size_t size);
void *calloc(size_t count, size_t size);
void *realloc(void *p, size_t size);
void free(void *p);
void *aligned_alloc(size_t align, size_t size);
int posix_memalign(void **memptr, size_t align, size_t size);
void *memalign(size_t align, size_t size);
void *reallocarray(void *p, size_t count, size_t size);
size_t malloc_usable_size(void *p);

static struct fallow *malloc_heap;

void fallow_malloc_use(struct fallow *heap)
{
	/* Pairs with the loads of malloc_heap below, which need no acquire: what
	 * they lead to is reached through the pointer alone. */
	fl_store_release(&malloc_heap, heap);
}

/* Returns p; errno says that there is no memory if it is NULL. */
static void *block_or_errno(void *p)
{
	if (!p)
		fallow_malloc_errno(ERROR_NO_MEMORY);
	return p;
}

/* Whether the number is a power of two. */
static bool power_of_two(size_t align)
{
	return align && !(align & (align - 1));
}

/* Allocates aligned; without a heap, NULL. */
static void *block_aligned(size_t align, size_t size)
{
	struct fallow *heap = fl_load_relaxed(&malloc_heap);

	return heap ? fallow_alloc_aligned(heap, align, size) : NULL;
}

void *malloc(size_t size)
{
	struct fallow *heap = fl_load_relaxed(&malloc_heap);

	return block_or_errno(heap ? fallow_alloc(heap, size) : NULL);
}

void *calloc(size_t count, size_t size)
{
	struct fallow *heap = fl_load_relaxed(&malloc_heap);

	return block_or_errno(heap ? fallow_calloc(heap, count, size) : NULL);
}

void *realloc(void *p, size_t size)
{
	struct fallow *heap = fl_load_relaxed(&malloc_heap);

	return block_or_errno(heap ? fallow_realloc(heap, p, size) : NULL);
}

void free(void *p)
{
	struct fallow *heap = fl_load_relaxed(&malloc_heap);

	if (heap)
		fallow_free(heap, p);
}

void *aligned_alloc(size_t align, size_t size)
{
	if (!power_of_two(align)) {
		fallow_malloc_errno(ERROR_INVALID);
		return NULL;
	}
	return block_or_errno(block_aligned(align, size));
}

void *memalign(size_t align, size_t size)
{
	return aligned_alloc(align, size);
}

int posix_memalign(void **memptr, size_t align, size_t size)
{
	void *p;

	if (!power_of_two(align) || align % sizeof(void *))
		return ERROR_INVALID;
	p = block_aligned(align, size);
	if (!p)
		return ERROR_NO_MEMORY;
	*memptr = p;
	return 0;
}

void *reallocarray(void *p, size_t count, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(count, size, &bytes))
		return block_or_errno(NULL);
	return realloc(p, bytes);
}

size_t malloc_usable_size(void *p)
{
	struct fallow *heap = fl_load_relaxed(&malloc_heap);

	return heap ? fallow_usable_size(heap, p) : 0;
}
