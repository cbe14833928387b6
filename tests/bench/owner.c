/* SPDX-License-Identifier: MIT */
/*
 * Asks the dynamic linker which file malloc() came from.  A preload that cannot
 * be loaded, or that defines no malloc(), has no effect and says nothing that a
 * program would notice; whoever measures has to look.
 */
#define _GNU_SOURCE /* dladdr(), RTLD_DEFAULT */
#include "owner.h"

#include <dlfcn.h>
#include <stddef.h>

const char *bench_malloc_owner(void)
{
	Dl_info info;
	void *function = dlsym(RTLD_DEFAULT, "malloc");

	if (function == NULL || dladdr(function, &info) == 0)
		return "?";
	return info.dli_fname;
}
