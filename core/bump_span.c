/* SPDX-License-Identifier: MIT */
/*
 * What an arena has of its heap: spans.
 *
 * Chunks, which pieces are cut from, and large blocks are both spans, so that
 * the slice map leads from any address in them to the record, and the record
 * says whose it is (`arena`), in which scope it came (`used`: the depth) and
 * what a large block was asked for, or that it is a chunk (`asked`).  Records
 * link the arena's spans too, the newest first; as a scope's spans are newer
 * than those around it, its end takes them from the front.  So a chunk needs no
 * header and a large block none either.
 *
 * A span with an arena is nobody else's: fallow_free() of its begin is told
 * from a free of a block and reported.
 *
 * Before the heap is put to any trouble, smaller chunks are tried: half, and so
 * on; then the spares, all too small by then, are given back; then exactly what
 * is needed, with all that the heap does before it says NULL.
 */
#include "bump.h"

#include "alloc.h"
#include "epoch.h"
#include "span.h"

/* What the heap is told of a call's flags.  An arena does not empty the
 * emergency pool, and a chunk need not be clear. */
#define FLAGS_CHUNK ((unsigned)(FALLOW_NOWAIT | FALLOW_NORECLAIM))
#define FLAGS_LARGE (FLAGS_CHUNK | FALLOW_ZERO)

struct page *fl_bump_span_of(const struct bump *bump, uintptr_t addr)
{
	struct page *page = map_find(bump->heap, addr);

	if (page == NULL || page->kind != PAGE_SPAN || page->arena != bump)
		return NULL;
	return page;
}

/* Makes a new span of the heap the arena's. */
static struct page *span_begin(struct bump *bump, uintptr_t base)
{
	struct page *span = map_find(bump->heap, base);

	fl_span_lend(span, bump);
	span->asked = BUMP_CHUNK;
	return span;
}

/* Links a span as the newest, of the innermost scope. */
static void span_link(struct bump *bump, struct page *span)
{
	page_used_set(span, bump->scope == NULL ? 0 : bump->scope->depth);
	span->prev = NULL;
	span->next = bump->spans;
	if (span->next != NULL)
		span->next->prev = span;
	bump->spans = span;
}

/* Takes the span out of the arena's list. */
static void span_unlink(struct bump *bump, struct page *span)
{
	if (span->prev != NULL)
		span->prev->next = span->next;
	else
		bump->spans = span->next;
	if (span->next != NULL)
		span->next->prev = span->prev;
}

/* Counts a chunk as in use. */
static void held_add(struct bump *bump, size_t bytes)
{
	bump->held += bytes;
	if (bump->most < bump->held)
		bump->most = bump->held;
}

/* Begins a call into the heap; false, and it has been reported, iff it is not
 * legal here. */
static bool heap_begin(struct bump *bump, unsigned flags)
{
	return fl_op_begin(&bump->op, (struct fallow *)(void *)bump->heap,
		flags, bump->caller);
}

/* Gives a span, in no list any more, to the heap.  Where that is no legal call
 * it has been reported, and the heap has lost the span. */
static void span_give(struct bump *bump, struct page *span)
{
	if (!heap_begin(bump, 0))
		return;
	(void)fl_span_free(&bump->op, span, span->base);
	op_drop(&bump->op);
	sweep_rouse(bump->heap);
}

void fl_bump_spares_trim(struct bump *bump, size_t keep)
{
	while (bump->kept > keep) {
		struct page *span = bump->spares;

		bump->spares = span->next;
		bump->kept -= span->span_size;
		span_give(bump, span);
	}
}

/*
 * The span that bump->request asks for, or one of fewer bytes but `least` if
 * that is all that is to be had without trouble, not linked yet; NULL iff there
 * is none of `least`.  `flags` are the heap's.
 */
static struct page *span_take(struct bump *bump, size_t least, unsigned flags)
{
	struct request *request = &bump->request;
	void *base;

	/* With nothing to try before it, the heap may do all that it can. */
	if (request->size > least || bump->kept > 0)
		flags |= FLAG_OPTIONAL;
	for (;;) {
		if (!heap_begin(bump, flags))
			return NULL;
		base = fl_alloc_slow(&bump->op, request);
		if (base != NULL)
			return span_begin(bump, (uintptr_t)base);
		if (!(flags & FLAG_OPTIONAL))
			return NULL;
		if (request->size > least) {
			request->size = align_up(
				request->size / 2, SLICE_BYTES);
			if (request->size < least)
				request->size = least;
			continue;
		}
		/* A call that may not wait gives nothing back. */
		if (!(flags & FALLOW_NOWAIT))
			fl_bump_spares_trim(bump, 0);
		flags &= ~FLAG_OPTIONAL;
	}
}

/* Links a span as a chunk of the arena. */
static void chunk_begin(struct bump *bump, struct page *span)
{
	span_link(bump, span);
	held_add(bump, span->span_size);
}

/* A spare of `size` bytes or more, which is one no longer; or NULL. */
static struct page *spare_take(struct bump *bump, size_t size)
{
	struct page **link = &bump->spares;

	while (*link != NULL && (*link)->span_size < size)
		link = &(*link)->next;
	if (*link != NULL) {
		struct page *span = *link;

		*link = span->next;
		bump->kept -= span->span_size;
		span->asked = BUMP_CHUNK;
		return span;
	}
	return NULL;
}

/* Makes the area a listed piece of `size` bytes or more, by one of the ways to
 * find it; returns false iff there is none. */
static bool area_listed(struct bump *bump, size_t size,
	uintptr_t (*fit)(struct bump *bump, size_t size, size_t *found))
{
	size_t found;
	uintptr_t base = fit(bump, size, &found);

	if (base == 0)
		return false;
	fl_bump_area(bump, base, base + found);
	return true;
}

/* The same out of the pieces above BUMP_SMALL_MAX once they are joined, if it
 * is time for that. */
static bool area_joined(struct bump *bump, size_t size)
{
	return fl_bump_join(bump) &&
		(bump->end - bump->cur >= size ||
			area_listed(bump, size, fl_bump_fit));
}

/* Makes a chunk of `size` bytes or more the newest; returns false iff there is
 * none. */
static bool chunk_new(struct bump *bump, size_t size)
{
	struct page *span = spare_take(bump, size);

	if (span == NULL) {
		bump->request = (struct request){ bump->chunk_bytes,
			BUMP_ALIGN, CLASS_NONE };
		span = span_take(bump, align_up(size, SLICE_BYTES),
			bump->flags & FLAGS_CHUNK);
	}
	if (span == NULL)
		return false;
	chunk_begin(bump, span);
	if (bump->rest < bump->stop)
		fl_bump_list(bump, bump->rest, bump->stop - bump->rest);
	fl_bump_area(bump, span->base, span->base);
	bump->rest = span->base;
	bump->stop = span->base + span->span_size;
	return true;
}

bool fl_bump_refill(struct bump *bump, size_t size)
{
	if (area_listed(bump, size, fl_bump_fit) || area_joined(bump, size) ||
		fl_bump_step(bump, size) ||
		area_listed(bump, size, fl_bump_fit_small))
		return true;
	if (chunk_new(bump, size))
		return fl_bump_step(bump, size);
	/* Sooner than it is time. */
	bump->join = 0;
	return area_joined(bump, size);
}

struct page *fl_bump_chunk(struct bump *bump, size_t align, size_t size)
{
	struct page *span;

	bump->request = (struct request){ size, align, CLASS_NONE };
	span = span_take(bump, size, bump->flags & FLAGS_CHUNK);
	if (span != NULL)
		chunk_begin(bump, span);
	return span;
}

struct page *fl_bump_large(struct bump *bump, size_t align,
	size_t size, size_t asked)
{
	struct page *span;

	bump->request = (struct request){ size, align, CLASS_NONE };
	span = span_take(bump, size, bump->flags & FLAGS_LARGE);
	if (span != NULL) {
		span->asked = asked;
		span_link(bump, span);
	}
	return span;
}

bool fl_bump_span_resize(
	struct bump *bump, struct page *span, size_t size)
{
	bool done;

	if (!heap_begin(bump, bump->flags & FLAGS_LARGE))
		return false;
	done = fl_span_resize(
		&bump->op, span, size, bump->flags & FALLOW_ZERO);
	op_drop(&bump->op);
	sweep_rouse(bump->heap);
	return done;
}

/* Puts a span, in no list any more, by as a chunk without a block. */
static void span_spare(struct bump *bump, struct page *span)
{
	span->asked = BUMP_SPARE;
	span->next = bump->spares;
	bump->spares = span;
	bump->kept += span->span_size;
}

void fl_bump_large_free(struct bump *bump, struct page *span)
{
	span_unlink(bump, span);
	/* The heap may have to be waited for. */
	if (bump->flags & FALLOW_NOWAIT)
		span_spare(bump, span);
	else
		span_give(bump, span);
}

void fl_bump_span_settle(struct bump *bump, struct page *span)
{
	span->asked = BUMP_CHUNK;
	held_add(bump, span->span_size);
}

void fl_bump_spans_end(
	struct bump *bump, uint32_t depth, size_t keep)
{
	while (bump->spans != NULL && page_used(bump->spans) >= depth) {
		struct page *span = bump->spans;

		span_unlink(bump, span);
		if (span->asked == BUMP_CHUNK)
			bump->held -= span->span_size;
		if (span->asked == BUMP_CHUNK && span->span_size <= keep &&
			bump->kept <= keep - span->span_size)
			span_spare(bump, span);
		else
			span_give(bump, span);
	}
}
