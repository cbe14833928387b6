/* SPDX-License-Identifier: MIT */
/* Where chunks come from: see region.c. */
#ifndef CORE_REGION_H
#define CORE_REGION_H

#include "table.h"

#pragma GCC visibility push(hidden)

/* Sets the window that the heap will ever manage. */
void fl_heap_window(struct heap *heap, uintptr_t base, size_t size);

/* What a call that found no slices should do next. */
enum grow {
	GROW_NO = 0, /* nothing more is to be had */
	GROW_YES,    /* slices or table memory have come: try again */
};

/*
 * Makes n more contiguous slices available, at a multiple of `align`, or, with
 * n == 0, room in the tables for the records of a chunk.  Drops the context.
 */
enum grow fl_region_grow(struct op *op, size_t n, size_t align);

/* fallow_add_region() behind its checks of arguments. */
enum fallow_status fl_region_add(struct op *op, uintptr_t base, size_t size);

#pragma GCC visibility pop

#endif
