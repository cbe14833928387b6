/* SPDX-License-Identifier: MIT */
/* What a sweep gives back with one provider call: see batch.c. */
#ifndef CORE_BATCH_H
#define CORE_BATCH_H

#include "hole.h"

#pragma GCC visibility push(hidden)

/* Ranges a batch carries, 25 bytes each, and what they belong to, 16 bytes: on a
 * stack that may be 2 KiB in all, where an allocation that reclaims has a third
 * of it already.  Ranges are what a call is worth: a batch without room for a
 * slice's goes.  Few have more entries than these before that. */
#define BATCH_RANGES 23
#define BATCH_ENTRIES 8
_Static_assert(BATCH_RANGES <= FALLOW_RANGES_MAX, "one call carries a batch");
/* A slice has at most this many runs of granules: every other one. */
#define SLICE_RANGES ((SLICE_GRANULES + 1) / 2)
_Static_assert(BATCH_RANGES >= SLICE_RANGES, "a batch has room for a slice");

/* The most runs of granules that a page is handed over with. */
#define HANDED_RANGES 16
_Static_assert(HANDED_RANGES >= SLICE_RANGES, "a small page is handed over whole");
_Static_assert(HANDED_RANGES <= BATCH_RANGES, "a batch has room for what is");

/* A page with pending granules, or claimed free slices of a chunk. */
struct entry {
	union {
		struct page *page;
		struct chunk *chunk;
	};
	uint32_t slices; /* 0: a page */
};

struct batch {
	struct fallow_range ranges[BATCH_RANGES];
	struct entry entries[BATCH_ENTRIES];
	uint8_t of[BATCH_RANGES]; /* which entry a range belongs to */
	uint8_t range_count, entry_count;
};

static inline void batch_begin(struct batch *batch)
{
	batch->range_count = batch->entry_count = 0;
}

/* Whether so many more ranges of the last entry have room. */
static inline bool batch_goes_on(const struct batch *batch, unsigned ranges)
{
	return batch->range_count + ranges <= BATCH_RANGES;
}

/* Whether another entry of so many ranges has. */
static inline bool batch_has_room(const struct batch *batch, unsigned ranges)
{
	return batch_goes_on(batch, ranges) &&
		batch->entry_count < BATCH_ENTRIES;
}

/* Begins an entry; its ranges follow.  There is room. */
void fl_batch_entry(
	struct heap *heap, struct batch *batch, struct entry entry);

/* Drops the last entry, which has no ranges. */
void fl_batch_drop(struct heap *heap, struct batch *batch);

/* Adds a range to the last entry; returns whether there is room for another. */
bool fl_batch_range(void *batch, uintptr_t base, size_t size);

/* Claims free slices of a chunk, from the lowest on, as far as there is room;
 * returns those it had no room for.  Under heap->lock. */
uint32_t fl_batch_claim(struct heap *heap, struct batch *batch,
	struct chunk *chunk, uint32_t slices);

/* Takes over the pending granules of a page that was handed over, at most
 * HANDED_RANGES runs of them; returns whether there was room.  Under
 * heap->lock. */
bool fl_batch_handed(
	struct heap *heap, struct batch *batch, struct page *page);

/*
 * Gives it all back: drops the context, and begins the batch anew.  *refused:
 * whether the provider refused anything.  Returns: the bytes given back.
 */
size_t fl_batch_give(struct op *op, struct batch *batch, bool *refused);

#pragma GCC visibility pop

#endif
