/* SPDX-License-Identifier: MIT */
/* What stays of the memory that could go: see floor.c. */
#ifndef CORE_FLOOR_H
#define CORE_FLOOR_H

#include "sweep.h"

#pragma GCC visibility push(hidden)

/* Decides for the epoch that begins what the floor keeps. */
void fl_floor_decide(struct sweep *sweep);

/* Whether the floor keeps so many bytes of this age; counts them if so.  Under
 * heap->lock. */
bool fl_floor_keeps(struct sweep *sweep, uint32_t age, size_t bytes);

/* Whether the page stays because its class allocates from it. */
bool fl_floor_current(struct sweep *sweep, const struct page *page);

#pragma GCC visibility pop

/* How many epochs ago a page was used. */
static inline uint32_t page_age(uint32_t epoch, const struct page *page)
{
	return (uint16_t)((uint16_t)epoch - page->epoch);
}

static inline uint32_t slice_age(
	uint32_t epoch, const struct chunk *chunk, unsigned slice)
{
	return ((uint16_t)epoch - chunk->stamp[slice]) & STAMP_EPOCHS;
}

#endif
