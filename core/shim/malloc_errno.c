/* SPDX-License-Identifier: MIT */
/*
 * Where errno is not set: the default of fallow_malloc_errno().
 *
 * An object of its own, which a linker takes from the archive only if the
 * image has no such function; weak, for linkers that are told to take whole
 * archives.
 */
#include <fallow/malloc.h>

__attribute__((weak)) void fallow_malloc_errno(int error)
{
	(void)error;
}
