/* SPDX-License-Identifier: MIT */
/* Blocks too big for any class: see span.c. */
#ifndef CORE_SPAN_H
#define CORE_SPAN_H

#include "region.h"
#include "remote.h"

#pragma GCC visibility push(hidden)

/* A populated span that is not counted as a block; else as fl_span_alloc().
 * Returns its record. */
struct page *fl_span_take(
	struct op *op, size_t size, size_t align, bool zero);

/* A span of `size` bytes at `align`; every byte zero if `zero`.  NULL iff there
 * is no memory for it.  Drops the context. */
void *fl_span_alloc(struct op *op, size_t size, size_t align, bool zero);

/* Frees the span; returns false iff `addr` is no span's begin any more. */
bool fl_span_free(struct op *op, struct page *span, uintptr_t addr);

/* Makes the span `size` bytes where it is; returns whether it could.  Shrinking
 * always can.  Bytes beyond the old size read as zero if `zero`.  Drops the
 * context. */
bool fl_span_resize(struct op *op, struct page *span, size_t size, bool zero);

#pragma GCC visibility pop

#endif
