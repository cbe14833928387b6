/* SPDX-License-Identifier: MIT */
/* Giving back what holds no block: see collect.c. */
#ifndef CORE_COLLECT_H
#define CORE_COLLECT_H

#include "chunk.h"

#pragma GCC visibility push(hidden)

/* Gives the memory of free slices back to the provider; returns the bytes. */
size_t fl_collect_slices(struct op *op);

#pragma GCC visibility pop

#endif
