/* SPDX-License-Identifier: MIT */
/*
 * The life of an arena: begin, scopes, reset, end.
 *
 * A mark is where the area was cut off so far, what was left of its chunk, and
 * the depth of the scope that begins there.  What is allocated later lies in
 * either or in a span that came later, so a rewind puts both back and gives the
 * newer spans away; no block is looked at.
 *
 * That leaves the lists.  A piece that was free at the mark must be free after
 * the rewind, whatever happened in between; one that was freed since must not
 * be, for its memory is the area's again or gone.  So a scope begins with empty
 * lists: the mark sets the filled ones aside, linked through the second word of
 * their first pieces, which nobody uses meanwhile, and the rewind drops what is
 * in the lists and puts those back.  Both cost a few instructions for a list
 * that has something in it, however many pieces that is.
 *
 * What is older than the scope and freed inside it waits in the mark's `late`
 * and is freed by the rewind.
 *
 * What is not here: ending a scope without its rewind.
 */
#include "bump.h"

#include "grow.h"
#include "memory.h"

#define CALLER ((uintptr_t)__builtin_return_address(0))

/* Of what the heap was handed, the share that is one chunk. */
#define CHUNK_SHARE 64
/* Chunks that a reset keeps, unless it is told. */
#define KEEP_CHUNKS 4

/* A quarter of the smallest chunk holds what the hot path cuts off. */
_Static_assert(SLICE_BYTES / 4 >= BUMP_SMALL_MAX, "small pieces fit chunks");

/* The chunk of an arena that is told nothing. */
static size_t chunk_default(const struct heap *heap)
{
	size_t handed = fl_load_relaxed(&heap->counters.reserved);
	size_t bytes = CHUNK_BYTES;

	/* In class direct that is what was asked of the frames so far. */
	if (heap_is(heap, FALLOW_CLASS_DIRECT))
		return bytes;
	while (bytes > SLICE_BYTES && bytes > handed / CHUNK_SHARE)
		bytes /= 2;
	return bytes;
}

enum fallow_status fallow_bump_init(struct fallow_bump *arena,
	struct fallow *heap, const struct fallow_bump_settings *settings)
{
	struct fallow_bump_settings given = { 0 };
	struct bump *bump = bump_of(arena);
	size_t chunk;

	if (arena == NULL || heap == NULL)
		return FALLOW_MISSING_ARGUMENT;
	if (settings != NULL && !grow_read(&given, sizeof(given), settings))
		return FALLOW_BAD_SIZE_FIELD;
	if (given.chunk_bytes > FALLOW_BUMP_CHUNK_MAX)
		return FALLOW_BAD_SETTING;
	chunk = given.chunk_bytes == 0
		? chunk_default(heap_of(heap))
		: align_up(given.chunk_bytes, SLICE_BYTES);
	*bump = (struct bump){
		.heap = heap_of(heap),
		.chunk_bytes = chunk,
		.limit = chunk / 4 < BUMP_LARGE ? chunk / 4 : BUMP_LARGE,
		.keep_bytes = given.keep_bytes == 0 ? chunk * KEEP_CHUNKS
						    : given.keep_bytes,
	};
	if (given.keep_bytes == FALLOW_BUMP_KEEP_NONE)
		bump->keep_bytes = 0;
	return FALLOW_OK;
}

/* Forgets every piece that is listed. */
static void lists_drop(struct bump *bump)
{
	size_t word, list;

	for (word = 0; word < BUMP_WORDS; word++)
		for (; bump->filled[word] != 0;
			bump->filled[word] &= bump->filled[word] - 1) {
			list = word * 64 +
				(size_t)__builtin_ctzll(bump->filled[word]);
			bump->lists[list] = NULL;
		}
}

/* Sets the lists aside for a scope that begins with none. */
static void lists_hide(struct bump *bump, struct bump_mark *mark)
{
	struct bump_piece **link = &mark->aside;
	size_t word, list;

	for (word = 0; word < BUMP_WORDS; word++) {
		mark->filled[word] = 0;
		for (; bump->filled[word] != 0;
			bump->filled[word] &= bump->filled[word] - 1) {
			list = word * 64 +
				(size_t)__builtin_ctzll(bump->filled[word]);
			if (bump->lists[list] == NULL)
				continue;
			mark->filled[word] |= (uint64_t)1 << list % 64;
			*link = bump->lists[list];
			link = &bump->lists[list]->aside;
			bump->lists[list] = NULL;
		}
	}
	*link = NULL;
}

/* Puts them back. */
static void lists_show(struct bump *bump, const struct bump_mark *mark)
{
	struct bump_piece *piece = mark->aside;
	size_t word;
	uint64_t bits;

	for (word = 0; word < BUMP_WORDS; word++) {
		bump->filled[word] = mark->filled[word];
		for (bits = mark->filled[word]; bits != 0; bits &= bits - 1) {
			size_t list = word * 64 +
				(size_t)__builtin_ctzll(bits);

			bump->lists[list] = piece;
			piece = piece->aside;
		}
	}
}

static struct bump_mark *mark_of(struct fallow_bump_mark *mark)
{
	return (struct bump_mark *)(void *)mark;
}

/* Whether the mark is that of an open scope. */
static bool mark_open(const struct bump *bump, const struct bump_mark *mark)
{
	const struct bump_mark *at = bump->scope;

	while (at != NULL && at != mark)
		at = at->outer;
	return at != NULL;
}

void fallow_bump_mark(struct fallow_bump *arena, struct fallow_bump_mark *at)
{
	struct bump *bump = bump_of(arena);
	struct bump_mark *mark = mark_of(at);

	if (!bump_enter(bump, CALLER))
		return;
	bump_call(bump, 0, CALLER);
	if (FALLOW_BUMP_DEBUG && mark_open(bump, mark)) {
		fl_bump_misuse(bump, FALLOW_MISUSE_BAD_MARK, at, NULL, 0, 0);
		bump_leave(bump);
		return;
	}
	mark->outer = bump->scope;
	mark->cur = bump->cur;
	mark->end = bump->end;
	mark->floor = bump->floor;
	mark->rest = bump->rest;
	mark->stop = bump->stop;
	mark->join = bump->join;
	mark->late = NULL;
	mark->depth = mark->outer == NULL ? 1 : mark->outer->depth + 1;
	lists_hide(bump, mark);
	bump->scope = mark;
	bump->floor = bump->cur;
	bump_leave(bump);
}

/* Ends the scopes from this one inwards. */
static void scope_end(struct bump *bump, struct bump_mark *mark)
{
	struct bump_piece *late = mark->late;

	fl_bump_spans_end(bump, mark->depth, bump->keep_bytes);
	lists_drop(bump);
	lists_show(bump, mark);
	bump->cur = mark->cur;
	bump->end = mark->end;
	bump->floor = mark->floor;
	bump->rest = mark->rest;
	bump->join = mark->join;
	bump->stop = mark->stop;
	bump->scope = mark->outer;
	while (late != NULL) {
		struct bump_piece *piece = late;

		late = piece->next;
		fl_bump_drop(bump, (uintptr_t)piece, piece->bytes);
	}
}

void fallow_bump_rewind(struct fallow_bump *arena, struct fallow_bump_mark *at)
{
	struct bump *bump = bump_of(arena);
	struct bump_mark *mark = mark_of(at);

	if (!bump_enter(bump, CALLER))
		return;
	bump_call(bump, 0, CALLER);
	if (mark_open(bump, mark))
		scope_end(bump, mark);
	else
		fl_bump_misuse(bump, FALLOW_MISUSE_BAD_MARK, at, NULL, 0, 0);
	bump_leave(bump);
}

/* Frees everything; chunks stay up to `keep` bytes. */
static void empty(struct bump *bump, size_t keep)
{
	bump->scope = NULL;
	bump->cur = bump->end = bump->floor = 0;
	bump->rest = bump->stop = 0;
	bump->join = 0;
	lists_drop(bump);
	fl_bump_spares_trim(bump, keep);
	fl_bump_spans_end(bump, 0, keep);
}

void fallow_bump_reset(struct fallow_bump *arena)
{
	struct bump *bump = bump_of(arena);
	size_t keep;

	if (!bump_enter(bump, CALLER))
		return;
	keep = bump->most > bump->most_before ? bump->most : bump->most_before;
	if (keep > bump->keep_bytes)
		keep = bump->keep_bytes;
	bump_call(bump, 0, CALLER);
	empty(bump, keep);
	bump->most_before = bump->most;
	bump->most = 0;
	bump_leave(bump);
}

void fallow_bump_fini(struct fallow_bump *arena)
{
	struct bump *bump = bump_of(arena);

	if (!bump_enter(bump, CALLER))
		return;
	bump_call(bump, 0, CALLER);
	empty(bump, 0);
	bump_leave(bump);
}
