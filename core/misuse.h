/* SPDX-License-Identifier: MIT */
/* What is said when the heap is misused: see misuse.c. */
#ifndef CORE_MISUSE_H
#define CORE_MISUSE_H

#include "page.h"

#pragma GCC visibility push(hidden)

/*
 * Reports a misuse by the call and leaves the context: the caller must return
 * without touching the heap.  `page`, if not NULL, is the page or span that
 * `addr` is in.
 */
__attribute__((cold)) void fl_misuse(struct op *op,
	enum fallow_misuse_kind kind, uintptr_t addr, const struct page *page);

/*
 * Whether `addr` is a block in use of the page or span it was looked up to;
 * if not, *kind says what it is.  The one place that turns a doubt into a
 * verdict: the fast paths only decide that there is a doubt.  The caller is
 * inside its context; for another's page, what its owner has in its free list
 * is told by the mark alone.
 */
__attribute__((cold)) bool fl_misuse_judge(struct op *op, uintptr_t addr,
	struct page *page, enum fallow_misuse_kind *kind);

#pragma GCC visibility pop

#endif
