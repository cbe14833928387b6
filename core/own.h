/* SPDX-License-Identifier: MIT */
/*
 * The own map of a context: which pages it frees into without asking whose they
 * are.
 *
 * Where the port keeps what calls look into first (FL_PORT_SERVES), a free looks
 * here, by bits of the address that need no window and no bound, and what it
 * finds is a page of this context's, or nobody's.  Whether the address is a block
 * of that page is then one question (small_begins(), bits_place_far()), and no
 * address that merely has the same bits is.  So an entry that is missing costs
 * time and nothing else: the free goes on as where there is no such map.
 *
 * Invariant: an entry is 0, or leads to a page without holes that the context
 * owns.  Written by whoever may write the context's lists.  A context that is
 * parked looks into a map of which all is 0.
 *
 * The memory is the port's, zeroed and there from the start, or there is none.
 */
#ifndef CORE_OWN_H
#define CORE_OWN_H

#include "heap.h"

/* The slices of 4 GiB: pages so far apart share an entry, the latest has it. */
#define OWN_COUNT ((size_t)1 << (32 - FALLOW_SLICE_LOG2))

struct own {
	/* Where an entry that is 0 leads: it has no block. */
	struct page nobody;
	/* How far from there each record is, modulo 2^64. */
	uintptr_t away[OWN_COUNT];
};

/* The entry for an address. */
static inline uintptr_t *own_entry(struct own *own, uintptr_t addr)
{
	return &own->away[(uint32_t)addr >> FALLOW_SLICE_LOG2];
}

/* The page of the context's own that the address may be in, or nobody's. */
static inline __attribute__((always_inline)) struct page *own_look(
	struct own *own, uintptr_t addr)
{
	return (struct page *)((uintptr_t)own + *own_entry(own, addr));
}

/* The page, which the context owns, is found from now on, unless it has holes. */
static inline void own_put(const struct local *local, struct page *page)
{
	struct own *own = local->own;
	uintptr_t *entry;
	unsigned i;

	if (!FL_PORT_SERVES || own == NULL || page_holed(page))
		return;
	/* A page lies in one chunk, and so do its entries. */
	entry = own_entry(own, page->base);
	for (i = 0; i < page->slices; i++)
		entry[i] = (uintptr_t)page - (uintptr_t)own;
}

/* It is found no more. */
static inline void own_drop(const struct local *local, const struct page *page)
{
	struct own *own = local->own;
	uintptr_t *entry;
	unsigned i;

	if (!FL_PORT_SERVES || own == NULL)
		return;
	entry = own_entry(own, page->base);
	for (i = 0; i < page->slices; i++)
		if (entry[i] == (uintptr_t)page - (uintptr_t)own)
			entry[i] = 0;
}

#endif
