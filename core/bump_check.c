/* SPDX-License-Identifier: MIT */
/*
 * Arenas looked at: counts, invariants, and the sizes that calls are told.
 *
 * A debug build keeps 16 bytes in front of each block: the size it was last
 * asked for with, and a tag made of its address, the heap's secret and whether
 * it is in use.  What was never written as a tag is no block's begin.  The tag
 * of a freed block lasts until its memory is used again or joined.  A rewind
 * and a reset leave tags of blocks in use: while that memory is nobody's, it is
 * told from where it lies, and a block is filled when it comes, which ends them.
 *
 * Of large blocks the record has the size too, so theirs are compared in every
 * build.
 */
#include "bump.h"

#include "alloc.h"
#include "grow.h"
#include "misuse.h"
#include "string.h"

#define CALLER ((uintptr_t)__builtin_return_address(0))

/* What no program writes by chance, and not what marks the heap's blocks. */
#define TAG_USED ((uintptr_t)0x5ca1ab1e0ddba11u)
#define TAG_FREE ((uintptr_t)0x0ddba115ca1ab1eu)

/* What a block comes with that nobody has written to. */
#define FILL 0xbd

/* The tag in front of a block. */
static uintptr_t lead_tag(const struct bump *bump, const void *p, bool used)
{
	return (uintptr_t)p ^ bump->heap->secret ^ (used ? TAG_USED : TAG_FREE);
}

static struct bump_lead *lead_of(const void *p)
{
	return (struct bump_lead *)((uintptr_t)p - sizeof(struct bump_lead));
}

void fl_bump_fill(void *p, size_t old_size, size_t size)
{
	if (size > old_size)
		memset((char *)p + old_size, FILL, size - old_size);
}

void fl_bump_lead_set(const struct bump *bump, void *p, size_t size)
{
	lead_of(p)->size = size;
	lead_of(p)->tag = lead_tag(bump, p, true);
}

void fl_bump_lead_clear(const struct bump *bump, void *p)
{
	lead_of(p)->tag = lead_tag(bump, p, false);
}

/* Reports what a call by `caller` did; `block` NULL: none is known. */
static void report(struct bump *bump, uintptr_t caller,
	enum fallow_misuse_kind kind, const void *p, const void *block,
	size_t block_size, size_t given)
{
	/* What the report takes its block from. */
	const struct page page = {
		.kind = PAGE_SPAN,
		.base = (uintptr_t)block,
		.span_size = block_size,
	};
	struct op op = {
		.heap = bump->heap,
		.caller = caller,
		.given_size = given,
	};

	op_enter(&op);
	fl_misuse(&op, kind, (uintptr_t)p, block == NULL ? NULL : &page);
}

void fl_bump_misuse(struct bump *bump, enum fallow_misuse_kind kind,
	const void *p, const void *block, size_t block_size, size_t given)
{
	report(bump, bump->caller, kind, p, block, block_size, given);
}

/* Whether an address is in [base, end). */
static bool within(uintptr_t addr, uintptr_t base, uintptr_t end)
{
	return addr - base < end - base;
}

/* Whether an address is in a listed piece. */
static bool listed(const struct bump *bump, uintptr_t addr)
{
	const struct bump_piece *piece;
	size_t list;

	for (list = 0; list < BUMP_LISTS; list++)
		for (piece = bump->lists[list]; piece != NULL;
			piece = piece->next)
			if (addr - (uintptr_t)piece <
				bump_listed_size(piece, list))
				return true;
	return false;
}

/* As judge(), for a pointer into a span of a build where leads are kept. */
static unsigned lead_judge(const struct bump *bump, const struct page *span,
	const void *p, size_t *size)
{
	uintptr_t at = (uintptr_t)p;
	const struct bump_lead *lead = lead_of(p);

	if (at % BUMP_ALIGN != 0 || at - span->base < sizeof(*lead))
		return FALLOW_MISUSE_INTERIOR;
	/* Where nothing is any more there is no block, whatever was left. */
	if (within(at, bump->cur, bump->end) ||
		within(at, bump->rest, bump->stop) ||
		lead->tag == lead_tag(bump, p, false))
		return FALLOW_MISUSE_DOUBLE_FREE;
	/* A join takes the tags of what it joins. */
	if (lead->tag != lead_tag(bump, p, true))
		return listed(bump, at) ? FALLOW_MISUSE_DOUBLE_FREE
					: FALLOW_MISUSE_INTERIOR;
	/* What was left of a chunk in what is a large block now. */
	if (span->asked != BUMP_CHUNK && span->asked != lead->size)
		return FALLOW_MISUSE_INTERIOR;
	*size = lead->size;
	return 0;
}

/* What a pointer is that should be a block of the size it is said to have: the
 * kind of misuse, or 0.  *size becomes that of the block if there is one. */
static unsigned judge(const struct bump *bump, const struct page *span,
	const void *p, size_t *size)
{
	size_t given = *size;
	unsigned kind = 0;

	*size = 0;
	if (span == NULL)
		return FALLOW_MISUSE_FOREIGN;
	if (span->asked == BUMP_SPARE)
		return FALLOW_MISUSE_DOUBLE_FREE;
	if (FALLOW_BUMP_DEBUG) {
		kind = lead_judge(bump, span, p, size);
	} else {
		*size = span->asked;
		if (*size != BUMP_CHUNK && (uintptr_t)p != span->base)
			kind = FALLOW_MISUSE_INTERIOR;
	}
	if (kind == 0 && given != *size)
		kind = FALLOW_MISUSE_WRONG_SIZE;
	return kind;
}

bool fl_bump_verify(struct bump *bump, const void *p, size_t size)
{
	const struct page *span = fl_bump_span_of(bump, (uintptr_t)p);
	size_t given = size;
	unsigned kind = judge(bump, span, p, &size);
	const void *block = p;

	if (kind == 0)
		return true;
	if (kind != FALLOW_MISUSE_WRONG_SIZE || size == 0)
		block = NULL;
	fl_bump_misuse(bump, kind, p, block, size, given);
	return false;
}

bool fl_bump_enter(struct bump *bump, uintptr_t caller)
{
	uint32_t nobody = 0;

	/* Pairs with bump_leave(). */
	if (fl_cas_acquire(&bump->busy, &nobody, 1))
		return true;
	/* What the other one noted of itself stays. */
	report(bump, caller, FALLOW_MISUSE_SHARED, bump, NULL, 0, 0);
	return false;
}

void fallow_bump_counts(
	struct fallow_bump *arena, struct fallow_bump_counts *counts)
{
	const struct bump *bump = bump_of(arena);
	struct fallow_bump_counts now = {
		.chunk_bytes = bump->chunk_bytes,
		.chunks = bump->held,
		.kept = bump->kept,
		.listed = fl_bump_listed(bump),
		.unused = bump->end - bump->cur + bump->stop - bump->rest,
		.scopes = bump->scope == NULL ? 0 : bump->scope->depth,
	};
	const struct page *span;

	for (span = bump->spans; span != NULL; span = span->next)
		if (span->asked != BUMP_CHUNK)
			now.large += span->span_size;
	grow_write(counts, &now, sizeof(now));
}

/* What is being verified, and what was found. */
struct look {
	const struct bump *bump;
	const char *broken;
	uintptr_t where;
};

/* Notes the first invariant that does not hold; returns whether it holds. */
static bool holds(struct look *look, bool condition, const char *invariant,
	uintptr_t where)
{
	if (!condition && look->broken == NULL) {
		look->broken = invariant;
		look->where = where;
	}
	return condition;
}

/* Whether [base, base + size) lies in one chunk of the arena. */
static bool in_chunk(const struct bump *bump, uintptr_t base, size_t size)
{
	const struct page *span = fl_bump_span_of(bump, base);

	return span != NULL && span->asked == BUMP_CHUNK &&
		size <= span->span_size - (base - span->base);
}

static void list_look(struct look *look, size_t list)
{
	const struct bump *bump = look->bump;
	const struct bump_piece *piece = bump->lists[list];

	holds(look, piece == NULL || bump->filled[list / 64] >> list % 64 & 1,
		"a list that is not empty has its bit", (uintptr_t)piece);
	for (; piece != NULL; piece = piece->next) {
		uintptr_t at = (uintptr_t)piece;
		size_t size = 0;

		if (in_chunk(bump, at, BUMP_ALIGN))
			size = bump_listed_size(piece, list);
		if (!holds(look,
			    size > 0 && size % BUMP_ALIGN == 0 &&
				    bump_list_of(size) == list &&
				    in_chunk(bump, at, size) &&
				    (at + size <= bump->cur ||
					    at >= bump->end) &&
				    (at + size <= bump->rest ||
					    at >= bump->stop),
			    "a listed piece is a chunk's, not the area's",
			    at))
			return;
	}
}

static void spans_look(struct look *look)
{
	const struct bump *bump = look->bump;
	uint32_t depth = bump->scope == NULL ? 0 : bump->scope->depth;
	const struct page *span;
	size_t held = 0, kept = 0;

	for (span = bump->spans; span != NULL; span = span->next) {
		if (!holds(look,
			    page_used(span) <= depth &&
				    map_find(bump->heap, span->base) == span &&
				    span->arena == bump,
			    "spans are listed by scope, innermost first",
			    span->base))
			return;
		depth = page_used(span);
		held += span->asked == BUMP_CHUNK ? span->span_size : 0;
	}
	for (span = bump->spares; span != NULL; span = span->next)
		kept += span->span_size;
	holds(look, held == bump->held && kept == bump->kept,
		"`held` and `kept` are the bytes of chunks", 0);
}

const char *fallow_bump_check(struct fallow_bump *arena, uintptr_t *where)
{
	struct look look = { .bump = bump_of(arena) };
	const struct bump *bump = look.bump;
	size_t list;

	holds(&look,
		bump->cur == bump->end ||
			(bump->floor <= bump->cur && bump->cur < bump->end &&
				in_chunk(bump, bump->cur,
					bump->end - bump->cur)),
		"the area lies in a chunk of the arena", bump->cur);
	holds(&look,
		bump->rest == bump->stop ||
			(bump->rest < bump->stop &&
				in_chunk(bump, bump->rest,
					bump->stop - bump->rest)),
		"the rest lies in a chunk of the arena", bump->rest);
	spans_look(&look);
	for (list = 0; list < BUMP_LISTS && look.broken == NULL; list++)
		list_look(&look, list);
	if (look.broken != NULL && where != NULL)
		*where = look.where;
	return look.broken;
}
