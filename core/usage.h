/* SPDX-License-Identifier: MIT */
/* Counting what is asked for, where the build does: see usage.c. */
#ifndef CORE_USAGE_H
#define CORE_USAGE_H

#include <fallow/usage.h>

#include "heap.h"

#pragma GCC visibility push(hidden)

/* A block of `given` bytes went out for `asked`; one came back. */
void fl_usage_given(struct fallow_usage *usage, size_t asked, size_t given);
void fl_usage_freed(struct fallow_usage *usage, size_t given);

#pragma GCC visibility pop

/* The same where somebody may be counting; nothing in other builds. */
static inline void usage_given(
	struct fallow_usage *usage, size_t asked, size_t given)
{
	if (FALLOW_USAGE && unlikely(usage != NULL))
		fl_usage_given(usage, asked, given);
}

static inline void usage_freed(struct fallow_usage *usage, size_t given)
{
	if (FALLOW_USAGE && unlikely(usage != NULL))
		fl_usage_freed(usage, given);
}

#endif
