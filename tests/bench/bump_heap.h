/* SPDX-License-Identifier: MIT */
/* The heap of the programs of `make bench-bump` that use one. */
#ifndef BUMP_HEAP_H
#define BUMP_HEAP_H

#include <fallow/fallow.h>

extern struct fallow bump_heap;

/* Makes it, over memory of this machine that is resident when it is touched. */
void bump_heap_begin(void);

#endif
