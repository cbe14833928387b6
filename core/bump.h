/* SPDX-License-Identifier: MIT */
/*
 * What an arena is made of, for the files bump*.c: bump.c has the public calls
 * that allocate and free, bump_list.c the free blocks, bump_join.c what joins
 * them, bump_span.c what comes from the heap, bump_scope.c what begins and
 * ends, bump_check.c what is verified.
 *
 * A *piece* is what a block takes up: its size rounded to 16, and in a debug
 * build BUMP_LEAD bytes more in front.  Pieces are cut and listed to the byte,
 * so nothing is lost between them but what the user's own rounding is.
 */
#ifndef CORE_BUMP_H
#define CORE_BUMP_H

#include <fallow/bump.h>

#include "alloc.h"
#include "usage.h"

#define BUMP_ALIGN ((size_t)16)

/* A debug build keeps the size of a block in front of it. */
struct bump_lead {
	size_t size;
	uintptr_t tag; /* lead_tag() of a block in use */
};

/* `asked` of a span's record, which is a large block's size: of a chunk in use,
 * and of one that is kept without a block. */
#define BUMP_CHUNK ((size_t)0)
#define BUMP_SPARE SIZE_MAX
_Static_assert(BUMP_SPARE > FALLOW_SIZE_MAX, "no large block is a spare");

#define BUMP_LEAD (FALLOW_BUMP_DEBUG ? sizeof(struct bump_lead) : (size_t)0)
_Static_assert(sizeof(struct bump_lead) == BUMP_ALIGN,
	"a block behind its lead is aligned");

/*
 * Lists: one for each 16 bytes to 1 KiB, whose pieces are all alike; one for
 * each 256 bytes from there to 64 KiB, whose pieces say how large they are;
 * one for all above.
 */
#define BUMP_SMALL_MAX ((size_t)1024)
#define BUMP_SMALLS (BUMP_SMALL_MAX / 16)
#define BUMP_STEP ((size_t)256)
#define BUMP_LARGE ((size_t)65536)
/* The rest of a chunk becomes the area by so much: each time there is a choice
 * between it and memory that was freed. */
#define BUMP_STEP_AREA ((size_t)65536)
#define BUMP_LISTS (BUMP_SMALLS + (BUMP_LARGE - BUMP_SMALL_MAX) / BUMP_STEP + 1)
#define BUMP_WORDS ((BUMP_LISTS + 63) / 64)
_Static_assert(BUMP_SMALLS == 64, "the lists of small pieces are one word");

/* A free piece.  All begin alike; one above BUMP_SMALL_MAX has the rest. */
struct bump_piece {
	struct bump_piece *next;
	union {
		/* The first of a list that an open scope has hidden: the first
		 * of the next such list. */
		struct bump_piece *aside;
		size_t bytes; /* in mark->late, and while it is joined */
	};
	size_t size;
};
_Static_assert(offsetof(struct bump_piece, size) == BUMP_ALIGN,
	"what every free piece has fits the smallest");

/* An open scope. */
struct bump_mark {
	struct bump_mark *outer;
	/* The area, the rest of its chunk, and the next join, as they were. */
	uintptr_t cur, end, floor, rest, stop;
	size_t join;
	/* Lists that were there, and the first pieces of them. */
	uint64_t filled[BUMP_WORDS];
	struct bump_piece *aside;
	/* Freed since, but older than this scope; not older than `outer`. */
	struct bump_piece *late;
	uint32_t depth; /* of its spans, and those of scopes inside: or more */
};
_Static_assert(sizeof(struct bump_mark) <= sizeof(struct fallow_bump_mark),
	"a mark is too small");

/*
 * Invariants (checked by fallow_bump_check() under these names):
 *   the area lies in a chunk of the arena
 *   the rest lies in a chunk of the arena
 *   a listed piece is a chunk's, not the area's
 *   a list that is not empty has its bit
 *   spans are listed by scope, innermost first
 *   `held` and `kept` are the bytes of chunks
 */
struct bump {
	/* The area: [cur, end) was never handed out since it is the area, and
	 * what lies in [floor, cur) was. */
	uintptr_t cur, end, floor;
	/* [rest, stop) of the newest chunk was never handed out: it becomes the
	 * area step by step. */
	uintptr_t rest, stop;
	struct bump_mark *scope; /* the innermost, or NULL */
	struct heap *heap;
	size_t limit; /* larger blocks are spans of their own */
	struct page *spans;  /* chunks and large blocks, the newest first */
	struct page *spares; /* chunks without a block */
	size_t chunk_bytes, keep_bytes;
	size_t held, kept; /* bytes of chunks in `spans`, in `spares` */
	size_t most, most_before; /* the most `held`: this round, the last */
	size_t join; /* what is used of `held` at the next join */
	/* Of the call that is inside, set where the hot path ends.  As there is
	 * one at a time they need not be on its stack, of which the heap's own
	 * calls take what there is. */
	unsigned flags;
	struct fallow_usage *usage; /* as in the heap */
	uint32_t busy; /* a debug build: somebody is inside */
	uintptr_t caller;
	struct op op;
	struct request request;
	/* A bit for each list that may have a piece. */
	uint64_t filled[BUMP_WORDS];
	struct bump_piece *lists[BUMP_LISTS];
};
_Static_assert(sizeof(struct bump) <= FALLOW_BUMP_BYTES,
	"FALLOW_BUMP_BYTES is too small");

#pragma GCC visibility push(hidden)

/* bump_list.c */

/* Puts a piece of the innermost scope into its list. */
void fl_bump_list(struct bump *bump, uintptr_t piece, size_t size);

/* Frees a piece of any scope. */
void fl_bump_drop(struct bump *bump, uintptr_t piece, size_t size);

/* Takes a piece of `size` bytes or more out of the lists above BUMP_SMALL_MAX,
 * the smallest of those that it finds at once; 0 iff there is none.  *found is
 * what it has. */
uintptr_t fl_bump_fit(struct bump *bump, size_t size, size_t *found);

/* The same, the largest of the other lists. */
uintptr_t fl_bump_fit_small(struct bump *bump, size_t size, size_t *found);

/* Makes [base, end) the area; what is left of the old one is listed. */
void fl_bump_area(struct bump *bump, uintptr_t base, uintptr_t end);

/* Bytes that are listed. */
size_t fl_bump_listed(const struct bump *bump);

/* Makes the area one of `size` bytes or more by the next step of the rest;
 * returns false iff that is less. */
bool fl_bump_step(struct bump *bump, size_t size);

/* bump_span.c */

/* The span of the arena that an address is in, or NULL. */
struct page *fl_bump_span_of(const struct bump *bump, uintptr_t addr);

/* Makes the area one of `size` bytes or more, at most a chunk; returns false
 * iff there is no memory. */
bool fl_bump_refill(struct bump *bump, size_t size);

/* A span of `size` bytes for a large block that was asked for with `asked`, or
 * NULL. */
struct page *fl_bump_large(struct bump *bump, size_t align,
	size_t size, size_t asked);

/* A chunk of its own for one piece, or NULL. */
struct page *fl_bump_chunk(
	struct bump *bump, size_t align, size_t size);

/* Makes the span of a large block `size` bytes where it is; returns whether it
 * could.  Shrinking always can. */
bool fl_bump_span_resize(
	struct bump *bump, struct page *span, size_t size);

/* Gives a large block to the heap. */
void fl_bump_large_free(struct bump *bump, struct page *span);

/* Makes the span of a large block a chunk. */
void fl_bump_span_settle(struct bump *bump, struct page *span);

/* Gives the spans of scopes of this depth and more to the heap, chunks up to
 * `keep` bytes to the spares. */
void fl_bump_spans_end(
	struct bump *bump, uint32_t depth, size_t keep);

/* Gives spares to the heap until at most `keep` bytes are left. */
void fl_bump_spares_trim(struct bump *bump, size_t keep);

/* bump_join.c */

/* Joins listed pieces that lie side by side, if it is time; returns whether it
 * did. */
bool fl_bump_join(struct bump *bump);

/* bump_check.c */

/* Whether `p` is a block of the arena and of this size, as far as that can be
 * told; if not, it has been reported. */
bool fl_bump_verify(struct bump *bump, const void *p, size_t size);

/* Reports a misuse of the arena; `block` NULL: none is known. */
__attribute__((cold)) void fl_bump_misuse(struct bump *bump,
	enum fallow_misuse_kind kind, const void *p, const void *block,
	size_t block_size, size_t given);

/* Debug builds: begins a call; false, and it has been reported, iff another is
 * inside. */
bool fl_bump_enter(struct bump *bump, uintptr_t caller);

/* Debug builds: fills what a block did not have before, so that nothing is in
 * it that looks like another's lead. */
void fl_bump_fill(void *p, size_t old_size, size_t size);

/* Debug builds: notes the size in front of a block, or that it is free. */
void fl_bump_lead_set(const struct bump *bump, void *p, size_t size);
void fl_bump_lead_clear(const struct bump *bump, void *p);

#pragma GCC visibility pop

static inline struct bump *bump_of(struct fallow_bump *bump)
{
	return (struct bump *)(void *)bump;
}

/* Notes who calls, and how, for whatever is behind the hot path. */
static inline void bump_call(
	struct bump *bump, unsigned flags, uintptr_t caller)
{
	bump->flags = flags;
	bump->caller = caller;
}

/* Begins and ends a public call: nothing but in debug builds. */
static inline bool bump_enter(struct bump *bump, uintptr_t caller)
{
	return !FALLOW_BUMP_DEBUG || fl_bump_enter(bump, caller);
}

static inline void bump_leave(struct bump *bump)
{
	/* Pairs with fl_bump_enter(). */
	if (FALLOW_BUMP_DEBUG)
		fl_store_release(&bump->busy, 0);
}

/* The bytes of the piece of a block; `size` is at most FALLOW_SIZE_MAX. */
static inline size_t bump_piece_size(size_t size)
{
	if (size == 0)
		size = 1;
	return align_up(size, BUMP_ALIGN) + BUMP_LEAD;
}

/* What a block of this size is counted as. */
static inline size_t bump_usage(const struct bump *bump, size_t size)
{
	if (size == 0)
		size = 1;
	return align_up(
		size, size > bump->limit ? GRANULE_BYTES : BUMP_ALIGN);
}

/* The list of pieces of this size. */
static inline size_t bump_list_of(size_t size)
{
	if (size <= BUMP_SMALL_MAX)
		return size / BUMP_ALIGN - 1;
	if (size >= BUMP_LARGE)
		return BUMP_LISTS - 1;
	return BUMP_SMALLS + (size - BUMP_SMALL_MAX) / BUMP_STEP;
}

/* Bytes of a piece that is in this list. */
static inline size_t bump_listed_size(
	const struct bump_piece *piece, size_t list)
{
	return list < BUMP_SMALLS ? (list + 1) * BUMP_ALIGN : piece->size;
}

/* Puts a small piece of the innermost scope into its list. */
static inline void bump_list_small(
	struct bump *bump, uintptr_t at, size_t size)
{
	size_t list = size / BUMP_ALIGN - 1;
	struct bump_piece *piece = (struct bump_piece *)at;

	piece->next = bump->lists[list];
	if (piece->next == NULL)
		bump->filled[0] |= (uint64_t)1 << list;
	bump->lists[list] = piece;
}

/* Whether a piece is what was cut off the area last. */
static inline bool bump_last(
	const struct bump *bump, uintptr_t piece, size_t size)
{
	return piece + size == bump->cur && piece >= bump->floor;
}

#endif
