/* SPDX-License-Identifier: MIT */
/*
 * malloc and its family over a heap: the archive libfallow-malloc.a, for images
 * that are linked with a libc and shall use fallow through it.
 *
 * The archive defines exactly malloc, calloc, realloc, free, aligned_alloc,
 * posix_memalign, memalign, reallocarray and malloc_usable_size, in one object,
 * so that a libc's own allocator is displaced whole or (with an error of the
 * linker) not at all.  Name it before the libc; if nothing but the libc calls
 * malloc, add -u malloc.
 *
 * What the standards leave open:
 *   malloc(0)         a block of its own.
 *   realloc(p, 0)     a block of the smallest size: it never frees.
 *   aligned_alloc,    any power of two, and any size; EINVAL and NULL for any
 *   memalign          other alignment.
 *   posix_memalign    needs a power of two that is a multiple of a pointer's
 *                     size; never sets errno; on failure *memptr stays.
 *   free              does not change errno.
 *   a full heap       NULL and ENOMEM, also above PTRDIFF_MAX and for products
 *                     that overflow.
 * Contexts, misuse reports and time are those of fallow_alloc(), and so on.
 */
#ifndef FALLOW_MALLOC_H
#define FALLOW_MALLOC_H

#include <fallow/fallow.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * From now on the family uses this heap, which must be initialised.  Before
 * the first call, and after one with NULL, every allocation fails with
 * ENOMEM, and free() does nothing.  Blocks of one heap must not be freed
 * while another is set.
 * Context: boot, or task while no other context is in the family.
 */
void fallow_malloc_use(struct fallow *heap);

/*
 * Called when errno has to be set, with the number of <errno.h>: ENOMEM is 12
 * and EINVAL 22 for every libc that numbers like Unix (newlib, picolibc, musl,
 * glibc).  The archive's own is weak and does nothing, because where errno is
 * (a variable, a thread's, behind a function) only the libc knows.  An image
 * that wants errno defines
 *
 *	void fallow_malloc_errno(int error)
 *	{
 *		errno = error;
 *	}
 */
void fallow_malloc_errno(int error);

#ifdef __cplusplus
}
#endif

#endif
