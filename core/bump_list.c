/* SPDX-License-Identifier: MIT */
/*
 * The free pieces of an arena.
 *
 * Who frees a block says how large it is, so a piece on a list needs no header
 * and can be cut at any multiple of 16: what is left over is a piece as good as
 * any.  Small pieces are alike in their list and the first one serves.  The
 * lists above hold pieces that differ by up to 256 bytes; each says its size,
 * and the first few are looked at before the next list, where every one fits.
 *
 * `filled` has a bit for every list that may have a piece.  It is set where a
 * list stops being empty and cleared by whoever is led to an empty one, so that
 * the hot path, which takes pieces, need not look at it.
 *
 * A list only ever holds pieces of the innermost scope (bump_scope.c), so all
 * of it can vanish with that.  A piece that is older waits in its scope's
 * `late` until it can be listed again.
 *
 * What is not here: joining neighbours (bump_join.c).  Nothing says that a
 * neighbour is free; what was cut off the area last goes back to it at once.
 */
#include "bump.h"

/* Pieces of a list that are looked at for one that is large enough. */
#define FIT_LOOKS 4

void fl_bump_list(struct bump *bump, uintptr_t at, size_t size)
{
	struct bump_piece *piece = (struct bump_piece *)at;
	size_t list = bump_list_of(size);

	if (size <= BUMP_SMALL_MAX) {
		bump_list_small(bump, at, size);
		return;
	}
	piece->size = size;
	piece->next = bump->lists[list];
	bump->lists[list] = piece;
	bump->filled[list / 64] |= (uint64_t)1 << list % 64;
}

/* Whether an address is in what nobody had when a scope began. */
static bool fresh(const struct bump_mark *mark, uintptr_t addr)
{
	return addr - mark->cur < mark->end - mark->cur ||
		addr - mark->rest < mark->stop - mark->rest;
}

/* Whether an address is older than a scope: neither in what was there for it
 * nor in a span that came since, which `depth` says. */
static bool older(const struct bump_mark *mark, uintptr_t addr, uint32_t depth)
{
	return !fresh(mark, addr) && depth < mark->depth;
}

/* Puts a piece by in the outermost scope that is younger than it. */
static void piece_late(struct bump_mark *mark, uintptr_t at, size_t size,
	uint32_t depth)
{
	struct bump_piece *piece = (struct bump_piece *)at;

	while (mark->outer != NULL && older(mark->outer, at, depth))
		mark = mark->outer;
	piece->bytes = size;
	piece->next = mark->late;
	mark->late = piece;
}

void fl_bump_drop(struct bump *bump, uintptr_t piece, size_t size)
{
	struct bump_mark *scope = bump->scope;
	const struct page *span;

	if (bump_last(bump, piece, size)) {
		bump->cur = piece;
		return;
	}
	if (scope != NULL && !fresh(scope, piece)) {
		span = fl_bump_span_of(bump, piece);
		if (span != NULL && page_used(span) < scope->depth) {
			piece_late(scope, piece, size, page_used(span));
			return;
		}
	}
	fl_bump_list(bump, piece, size);
}

/* The first list from `list` on that has a piece; BUMP_LISTS if none. */
static size_t list_next(struct bump *bump, size_t list)
{
	while (list < BUMP_LISTS) {
		uint64_t word = bump->filled[list / 64] >> list % 64;

		if (word == 0) {
			list = (list / 64 + 1) * 64;
			continue;
		}
		list += (size_t)__builtin_ctzll(word);
		if (bump->lists[list] != NULL)
			return list;
		bump->filled[list / 64] &= ~((uint64_t)1 << list % 64);
	}
	return BUMP_LISTS;
}

/* The last list of small pieces from `list` on that has one; BUMP_SMALLS if
 * none. */
static size_t small_last(struct bump *bump, size_t list)
{
	uint64_t word = bump->filled[0] >> list << list;

	while (word != 0) {
		size_t last = 63 - (size_t)__builtin_clzll(word);

		if (bump->lists[last] != NULL)
			return last;
		bump->filled[0] &= ~((uint64_t)1 << last);
		word &= ~((uint64_t)1 << last);
	}
	return BUMP_SMALLS;
}

/* Takes a piece of `size` bytes or more out of a list of large ones. */
static struct bump_piece *list_take(
	struct bump *bump, size_t list, size_t size)
{
	struct bump_piece **link = &bump->lists[list];
	unsigned looks;

	for (looks = 0; *link != NULL && looks < FIT_LOOKS; looks++) {
		struct bump_piece *piece = *link;

		if (piece->size >= size) {
			*link = piece->next;
			return piece;
		}
		link = &piece->next;
	}
	return NULL;
}

uintptr_t fl_bump_fit(struct bump *bump, size_t size, size_t *found)
{
	struct bump_piece *piece = NULL;
	size_t list = BUMP_SMALLS;

	if (size > BUMP_SMALL_MAX) {
		list = bump_list_of(size);
		piece = list_take(bump, list, size);
		list++;
	}
	if (piece == NULL) {
		list = list_next(bump, list);
		if (list < BUMP_LISTS)
			piece = list_take(bump, list, size);
	}
	if (piece == NULL)
		return 0;
	*found = piece->size;
	return (uintptr_t)piece;
}

uintptr_t fl_bump_fit_small(struct bump *bump, size_t size, size_t *found)
{
	struct bump_piece *piece;
	size_t list;

	if (size > BUMP_SMALL_MAX)
		return 0;
	list = small_last(bump, bump_list_of(size));
	if (list == BUMP_SMALLS)
		return 0;
	piece = bump->lists[list];
	bump->lists[list] = piece->next;
	*found = (list + 1) * BUMP_ALIGN;
	return (uintptr_t)piece;
}

size_t fl_bump_listed(const struct bump *bump)
{
	const struct bump_piece *piece;
	size_t bytes = 0, list;

	for (list = 0; list < BUMP_LISTS; list++)
		for (piece = bump->lists[list]; piece != NULL;
			piece = piece->next)
			bytes += bump_listed_size(piece, list);
	return bytes;
}

void fl_bump_area(struct bump *bump, uintptr_t base, uintptr_t end)
{
	if (bump->cur < bump->end)
		fl_bump_list(bump, bump->cur, bump->end - bump->cur);
	bump->cur = bump->floor = base;
	bump->end = end;
}

bool fl_bump_step(struct bump *bump, size_t size)
{
	size_t have = bump->end == bump->rest ? bump->end - bump->cur : 0;
	size_t more = size - have;

	if (bump->stop - bump->rest < more)
		return false;
	if (more < BUMP_STEP_AREA)
		more = BUMP_STEP_AREA;
	if (more > bump->stop - bump->rest)
		more = bump->stop - bump->rest;
	/* Where the area ends at the rest it grows, and its last block may. */
	if (bump->end != bump->rest)
		fl_bump_area(bump, bump->rest, bump->rest);
	bump->rest += more;
	bump->end = bump->rest;
	return true;
}
