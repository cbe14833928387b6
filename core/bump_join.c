/* SPDX-License-Identifier: MIT */
/*
 * Joining the free pieces of an arena that lie side by side.
 *
 * A free looks at no neighbour, since nothing in an arena says what is free.
 * What a program that frees in any order leaves is pieces that are each too
 * small for what it asks for next, and the arena grows past them.  So once in a
 * while all that is listed is sorted by address, and then neighbours are plain
 * to see.  That needs no memory: a free piece has room for a link and its size.
 *
 * What is not joined: what a scope has hidden or put by, and memory of two
 * spans, which go back to the heap one by one.
 */
#include "bump.h"

/*
 * When: before the arena takes a step into memory that nobody had, if it has
 * grown by so much since the last time: a step, a 16th, and for each piece that
 * the last join left what a few blocks take.  The first two pay for the look at
 * what is listed, the last for dealing with those pieces again, and who freed a
 * piece since has paid for it: so all joins together take time in proportion to
 * what is allocated and freed.  If less than a 16th of the arena is listed,
 * there is little to be had.
 */
#define WAIT_SHARE 16
#define WAIT_PIECE 128
#define LISTED_SHARE 16

/* The sort deals pieces to so many piles by a digit of their address. */
#define PILES_LOG2 6
#define PILES ((size_t)1 << PILES_LOG2)
#define ALIGN_LOG2 4
_Static_assert(BUMP_ALIGN == (size_t)1 << ALIGN_LOG2,
	"lower bits of addresses are all 0");

/* Takes all pieces off the lists, into a chain in which each says its size;
 * *differ has the bits in which their addresses differ. */
static struct bump_piece *chain_take(struct bump *bump, uintptr_t *differ)
{
	struct bump_piece *chain = NULL;
	uintptr_t any = 0, all = ~(uintptr_t)0;
	size_t list;

	for (list = 0; list < BUMP_LISTS; list++)
		while (bump->lists[list] != NULL) {
			struct bump_piece *piece = bump->lists[list];

			bump->lists[list] = piece->next;
			piece->bytes = bump_listed_size(piece, list);
			piece->next = chain;
			chain = piece;
			any |= (uintptr_t)piece;
			all &= (uintptr_t)piece;
		}
	*differ = any ^ all;
	return chain;
}

/* The chain by a digit of its addresses, the highest first; pieces that have
 * the same one stay in order. */
static struct bump_piece *chain_deal(struct bump_piece *chain, unsigned shift)
{
	struct bump_piece *pile[PILES], **last[PILES], **link;
	size_t i;

	for (i = 0; i < PILES; i++)
		last[i] = &pile[i];
	for (; chain != NULL; chain = chain->next) {
		i = (uintptr_t)chain >> shift & (PILES - 1);
		*last[i] = chain;
		last[i] = &chain->next;
	}
	link = &chain;
	for (i = PILES; i-- > 0;)
		if (last[i] != &pile[i]) {
			*link = pile[i];
			link = last[i];
		}
	*link = NULL;
	return chain;
}

/* The chain with the highest address first.  `differ` has the bits in which
 * addresses differ. */
static struct bump_piece *chain_sort(
	struct bump_piece *chain, uintptr_t differ)
{
	unsigned shift;

	for (shift = ALIGN_LOG2; shift < 64 && differ >> shift != 0;
		shift += PILES_LOG2)
		chain = chain_deal(chain, shift);
	return chain;
}

/* Whether a span begins at an address inside one. */
static bool span_begins(const struct bump *bump, uintptr_t addr)
{
	return addr % SLICE_BYTES == 0 &&
		fl_bump_span_of(bump, addr)->base == addr;
}

/* Joins all that is listed; what ends where the area begins is taken back into
 * it.  Returns how many pieces are left. */
static size_t pieces_join(struct bump *bump)
{
	uintptr_t differ;
	struct bump_piece *piece = chain_take(bump, &differ);
	size_t left = 0;

	piece = chain_sort(piece, differ);
	while (piece != NULL) {
		uintptr_t at = (uintptr_t)piece;
		size_t size = piece->bytes;

		piece = piece->next;
		while (piece != NULL &&
			(uintptr_t)piece + piece->bytes == at &&
			!span_begins(bump, at)) {
			at = (uintptr_t)piece;
			size += piece->bytes;
			piece = piece->next;
		}
		if (bump_last(bump, at, size)) {
			bump->cur = at;
		} else {
			fl_bump_list(bump, at, size);
			left++;
		}
	}
	return left;
}

bool fl_bump_join(struct bump *bump)
{
	size_t used = bump->held - (bump->stop - bump->rest);
	size_t left = 0;
	bool joined;

	if (used < bump->join || (bump->flags & FALLOW_NOWAIT))
		return false;
	joined = fl_bump_listed(bump) >= used / LISTED_SHARE;
	if (joined)
		left = pieces_join(bump);
	bump->join = used + BUMP_STEP_AREA + used / WAIT_SHARE +
		left * WAIT_PIECE;
	return joined;
}
