/* SPDX-License-Identifier: MIT */
/* Freeing, for the other public calls: see free.c. */
#ifndef CORE_FREE_H
#define CORE_FREE_H

#include "heap.h"

#pragma GCC visibility push(hidden)

/* fallow_free() inside the context, which is left. */
void fl_free(struct op *op, void *p);

/* The same, of a block whose record, or NULL, was looked up in op's heap and is
 * not that of the emergency pool. */
void fl_free_block(struct op *op, void *p, struct page *page);

/*
 * The same, of a block in use, for a call that is NOWAIT: what would take a
 * contended lock is left for later.  Calls nobody.
 */
void fl_free_nowait(struct op *op, void *p);

#pragma GCC visibility pop

#endif
