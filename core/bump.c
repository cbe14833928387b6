/* SPDX-License-Identifier: MIT */
/*
 * Arenas: allocating by bumping, with free and realloc inside.
 *
 *   chunk:  | pieces, some freed | cur .. area .. end | rest ........ stop |
 *
 * The hot path takes the first piece of the list for just this size, or else
 * cuts one off the area, which is any run of bytes that nobody has: a step of
 * the newest chunk, from `rest` on, or a free piece that is large enough.  No
 * context is entered, nothing is masked, no atomic is used: the arena has one
 * user, and the heap is asked for chunks and large blocks only.
 *
 * A free takes its piece back into the area if it is what was cut off last,
 * and lists it if not.  A realloc gives what is too much, and moves only to
 * grow: first the new block, then the copy, then the free of the old one, so
 * that without memory the old one is as it was.
 *
 * What is never done: a look at what a size says.  In a debug build each block
 * is led by its size, and a call that knows another is reported; large blocks
 * have records, and theirs is compared in every build with checks.
 */
#include "bump.h"

#include "span.h"
#include "string.h"

#define CALLER ((uintptr_t)__builtin_return_address(0))

/* The block in a piece, of this size from now on: that is counted, and noted in
 * a debug build. */
static inline void *block_in(
	const struct bump *bump, uintptr_t piece, size_t size)
{
	void *block = (void *)(piece + BUMP_LEAD);

	if (FALLOW_BUMP_DEBUG)
		fl_bump_lead_set(bump, block, size);
	usage_given(bump->usage, size, bump_usage(bump, size));
	return block;
}

/* The piece of a block. */
static inline uintptr_t piece_of(const void *p)
{
	return (uintptr_t)p - BUMP_LEAD;
}

/* The same for a block that was nobody's; what is in it is no block's lead. */
static inline void *block_new(
	const struct bump *bump, uintptr_t piece, size_t size)
{
	if (FALLOW_BUMP_DEBUG)
		fl_bump_fill((void *)piece, 0, bump_piece_size(size));
	return block_in(bump, piece, size);
}

/* Whether a block is what its free says; debug builds look. */
static inline bool bump_known(
	struct bump *bump, void *p, size_t size, uintptr_t caller)
{
	if (!FALLOW_BUMP_DEBUG)
		return true;
	bump_call(bump, 0, caller);
	return fl_bump_verify(bump, p, size);
}

/* Cuts a piece off the area, which has room for it. */
static inline uintptr_t area_cut(struct bump *bump, size_t size)
{
	uintptr_t piece = bump->cur;

	bump->cur += size;
	return piece;
}

/* A large block, led by its size in a debug build. */
static __attribute__((noinline)) void *large_alloc(
	struct bump *bump, size_t align, size_t size)
{
	size_t lead = BUMP_LEAD == 0 ? 0 : align;
	struct page *span;

	if (size > FALLOW_SIZE_MAX || lead > FALLOW_SIZE_MAX - size)
		return NULL;
	span = fl_bump_large(bump, align, lead + size, size);
	if (span == NULL)
		return NULL;
	return block_in(bump, span->base + lead - BUMP_LEAD, size);
}

/* A listed piece above BUMP_SMALL_MAX, cut to size; 0 iff there is none. */
static __attribute__((noinline)) uintptr_t piece_listed(
	struct bump *bump, size_t size)
{
	size_t found;
	uintptr_t piece = fl_bump_fit(bump, size, &found);

	if (piece != 0 && found > size)
		fl_bump_list(bump, piece + size, found - size);
	return piece;
}

/* An allocation that the hot path could not serve. */
static __attribute__((noinline)) void *alloc_other(struct bump *bump,
	size_t size, unsigned flags, uintptr_t caller)
{
	size_t bytes = bump_piece_size(size);
	uintptr_t piece = 0;
	void *block;

	bump_call(bump, flags, caller);
	if (size > bump->limit)
		return large_alloc(bump, BUMP_ALIGN, size);
	if (bytes > BUMP_SMALL_MAX)
		piece = piece_listed(bump, bytes);
	if (piece == 0) {
		if (bump->end - bump->cur < bytes &&
			!fl_bump_refill(bump, bytes))
			return NULL;
		piece = area_cut(bump, bytes);
	}
	block = block_new(bump, piece, size);
	if (flags & FALLOW_ZERO)
		memset(block, 0, size);
	return block;
}

/* The hot path; `flags` and `caller` are for what follows it. */
static inline __attribute__((always_inline)) void *alloc(struct bump *bump,
	size_t size, unsigned flags, uintptr_t caller)
{
	size_t bytes = align_up(size, BUMP_ALIGN) + BUMP_LEAD;
	struct bump_piece **list;
	uintptr_t piece;
	void *block;

	/* A size of 0 wraps. */
	if (unlikely(size - 1 >= BUMP_SMALL_MAX - BUMP_LEAD))
		return alloc_other(bump, size, flags, caller);
	list = &bump->lists[bytes / BUMP_ALIGN - 1];
	piece = (uintptr_t)*list;
	if (piece != 0)
		*list = (*list)->next;
	else if (likely(bump->end - bump->cur >= bytes))
		piece = area_cut(bump, bytes);
	else
		return alloc_other(bump, size, flags, caller);
	block = block_new(bump, piece, size);
	if (flags & FALLOW_ZERO)
		memset(block, 0, size);
	return block;
}

/* An aligned piece in a chunk of its own, where the alignment is too large for
 * any other. */
static void *aligned_alone(
	struct bump *bump, size_t align, size_t size)
{
	size_t bytes = bump_piece_size(size);
	struct page *span = fl_bump_chunk(
		bump, align, BUMP_LEAD == 0 ? bytes : bytes + align);
	uintptr_t piece, end;

	if (span == NULL)
		return NULL;
	piece = align_up(span->base + BUMP_LEAD, align) - BUMP_LEAD;
	end = span->base + span->span_size;
	if (piece > span->base)
		fl_bump_list(bump, span->base, piece - span->base);
	if (end > piece + bytes)
		fl_bump_list(bump, piece + bytes, end - (piece + bytes));
	return block_new(bump, piece, size);
}

/* An aligned piece out of the area; what lies before it is listed. */
static void *aligned_cut(
	struct bump *bump, size_t align, size_t size)
{
	size_t bytes = bump_piece_size(size);
	size_t most = bytes + align - BUMP_ALIGN;
	uintptr_t before, piece;

	if (most > bump->chunk_bytes)
		return aligned_alone(bump, align, size);
	if (bump->end - bump->cur < most && !fl_bump_refill(bump, most))
		return NULL;
	before = bump->cur;
	piece = align_up(before + BUMP_LEAD, align) - BUMP_LEAD;
	bump->cur = piece + bytes;
	if (piece > before)
		fl_bump_list(bump, before, piece - before);
	return block_new(bump, piece, size);
}

static void *alloc_aligned(struct bump *bump, size_t align, size_t size,
	unsigned flags, uintptr_t caller)
{
	void *block;

	bump_call(bump, flags, caller);
	if (align == 0 || (align & (align - 1)) != 0) {
		fl_bump_misuse(bump, FALLOW_MISUSE_BAD_ALIGNMENT,
			(const void *)align, NULL, 0, 0);
		return NULL;
	}
	if (align <= BUMP_ALIGN)
		return alloc(bump, size, flags, caller);
	if (size > bump->limit)
		return large_alloc(bump, align, size);
	block = aligned_cut(bump, align, size);
	if (block != NULL && (flags & FALLOW_ZERO))
		memset(block, 0, size);
	return block;
}

/* Frees a block that the hot path does not. */
static __attribute__((noinline)) void free_other(
	struct bump *bump, void *p, size_t size, uintptr_t caller)
{
	struct page *span;

	if (size <= bump->limit) {
		usage_freed(bump->usage, bump_usage(bump, size));
		fl_bump_drop(bump, piece_of(p), bump_piece_size(size));
		return;
	}
	bump_call(bump, 0, caller);
	if (!FALLOW_BUMP_DEBUG && !fl_bump_verify(bump, p, size))
		return;
	span = fl_bump_span_of(bump, (uintptr_t)p);
	if (span != NULL) {
		usage_freed(bump->usage, bump_usage(bump, size));
		fl_bump_large_free(bump, span);
	}
}

/* The hot path. */
static inline __attribute__((always_inline)) void release(
	struct bump *bump, void *p, size_t size, uintptr_t caller)
{
	size_t bytes = align_up(size, BUMP_ALIGN) + BUMP_LEAD;
	uintptr_t piece = piece_of(p);

	if (FALLOW_BUMP_DEBUG)
		fl_bump_lead_clear(bump, p);
	/* A size of 0 wraps. */
	if (unlikely(size - 1 >= BUMP_SMALL_MAX - BUMP_LEAD ||
		    bump->scope != NULL)) {
		free_other(bump, p, size, caller);
		return;
	}
	usage_freed(bump->usage, bytes - BUMP_LEAD);
	if (bump_last(bump, piece, bytes))
		bump->cur = piece;
	else
		bump_list_small(bump, piece, bytes);
}

/* Moves a block: the new one first, so that the old one is intact without. */
static void *block_move(struct bump *bump, void *p,
	size_t old_size, size_t new_size)
{
	/* What has to be zero is not the whole block. */
	void *new = alloc(bump, new_size, bump->flags & ~(unsigned)FALLOW_ZERO,
		bump->caller);

	if (new == NULL)
		return NULL;
	memcpy(new, p, old_size < new_size ? old_size : new_size);
	if (old_size > bump->limit) {
		usage_freed(bump->usage, bump_usage(bump, old_size));
		fl_bump_large_free(bump,
			fl_bump_span_of(bump, (uintptr_t)p));
	} else {
		release(bump, p, old_size, bump->caller);
	}
	return new;
}

/* A large block becomes a small one where it is, and its span a chunk, so that
 * shrinking needs no memory. */
static void large_settle(struct bump *bump, struct page *span,
	uintptr_t block, size_t size)
{
	uintptr_t end = block + bump_piece_size(size) - BUMP_LEAD;
	size_t before = block - BUMP_LEAD - span->base;

	(void)fl_bump_span_resize(bump, span, end - span->base);
	fl_bump_span_settle(bump, span);
	/* What the alignment of a debug build left. */
	if (before > 0)
		fl_bump_drop(bump, span->base, before);
	if (span->base + span->span_size > end)
		fl_bump_drop(bump, end,
			span->base + span->span_size - end);
}

/* Resizes a large block where it is; returns whether it could. */
static __attribute__((noinline)) bool large_resize(struct bump *bump, void *p,
	size_t old_size, size_t new_size)
{
	uintptr_t block = (uintptr_t)p;
	struct page *span = fl_bump_span_of(bump, block);
	size_t before, lead;

	if (span == NULL)
		return false;
	if (new_size <= bump->limit) {
		large_settle(bump, span, block, new_size);
		return true;
	}
	before = span->span_size;
	lead = block - span->base;
	if (!fl_bump_span_resize(bump, span, lead + new_size))
		return false;
	span->asked = new_size;
	/* The heap has cleared what is beyond the old span. */
	if ((bump->flags & FALLOW_ZERO) && before - lead > old_size)
		memset((char *)p + old_size, 0,
			(before - lead < new_size ? before - lead : new_size) -
				old_size);
	return true;
}

/* Resizes a block that is not large where it is; returns whether it could. */
static __attribute__((noinline)) bool piece_resize(
	struct bump *bump, void *p, size_t old_size, size_t new_size)
{
	size_t old_bytes = bump_piece_size(old_size);
	size_t new_bytes = bump_piece_size(new_size);
	uintptr_t piece = piece_of(p);

	if (new_bytes == old_bytes)
		return true;
	if (new_bytes < old_bytes) {
		fl_bump_drop(bump, piece + new_bytes, old_bytes - new_bytes);
		return true;
	}
	if (!bump_last(bump, piece, old_bytes))
		return false;
	if (bump->end - bump->cur < new_bytes - old_bytes &&
		(bump->end != bump->rest ||
			!fl_bump_step(bump, new_bytes - old_bytes)))
		return false;
	bump->cur += new_bytes - old_bytes;
	if (FALLOW_BUMP_DEBUG)
		fl_bump_fill((void *)piece, old_bytes, new_bytes);
	return true;
}

static void *resize(struct bump *bump, void *p, size_t old_size,
	size_t new_size)
{
	bool zero = bump->flags & FALLOW_ZERO;
	bool done;

	if (new_size > FALLOW_SIZE_MAX)
		return NULL;
	if (old_size > bump->limit)
		done = large_resize(bump, p, old_size, new_size);
	else
		done = new_size <= bump->limit &&
			piece_resize(bump, p, old_size, new_size);
	if (!done) {
		p = block_move(bump, p, old_size, new_size);
	} else {
		usage_freed(bump->usage, bump_usage(bump, old_size));
		(void)block_in(bump, piece_of(p), new_size);
	}
	if (p != NULL && zero && new_size > old_size &&
		(!done || old_size <= bump->limit))
		memset((char *)p + old_size, 0, new_size - old_size);
	return p;
}

void *fallow_bump_alloc(struct fallow_bump *arena, size_t size)
{
	struct bump *bump = bump_of(arena);
	void *p;

	if (!bump_enter(bump, CALLER))
		return NULL;
	p = alloc(bump, size, 0, CALLER);
	bump_leave(bump);
	return p;
}

void *fallow_bump_alloc_flags(
	struct fallow_bump *arena, size_t size, unsigned flags)
{
	struct bump *bump = bump_of(arena);
	void *p;

	if (!bump_enter(bump, CALLER))
		return NULL;
	p = alloc(bump, size, flags, CALLER);
	bump_leave(bump);
	return p;
}

void *fallow_bump_alloc_aligned_flags(struct fallow_bump *arena, size_t align,
	size_t size, unsigned flags)
{
	struct bump *bump = bump_of(arena);
	void *p;

	if (!bump_enter(bump, CALLER))
		return NULL;
	p = alloc_aligned(bump, align, size, flags, CALLER);
	bump_leave(bump);
	return p;
}

void *fallow_bump_alloc_aligned(
	struct fallow_bump *arena, size_t align, size_t size)
{
	struct bump *bump = bump_of(arena);
	void *p;

	if (!bump_enter(bump, CALLER))
		return NULL;
	p = alloc_aligned(bump, align, size, 0, CALLER);
	bump_leave(bump);
	return p;
}

void *fallow_bump_copy(
	struct fallow_bump *arena, const void *source, size_t size)
{
	struct bump *bump = bump_of(arena);
	void *p;

	if (!bump_enter(bump, CALLER))
		return NULL;
	p = alloc(bump, size, 0, CALLER);
	if (p != NULL)
		memcpy(p, source, size);
	bump_leave(bump);
	return p;
}

char *fallow_bump_strdup(struct fallow_bump *arena, const char *text)
{
	struct bump *bump = bump_of(arena);
	size_t size = 1;
	char *p;

	while (text[size - 1] != 0)
		size++;
	if (!bump_enter(bump, CALLER))
		return NULL;
	p = alloc(bump, size, 0, CALLER);
	if (p != NULL)
		memcpy(p, text, size);
	bump_leave(bump);
	return p;
}

void fallow_bump_free(struct fallow_bump *arena, void *p, size_t size)
{
	struct bump *bump = bump_of(arena);

	if (unlikely(p == NULL) || !bump_enter(bump, CALLER))
		return;
	if (bump_known(bump, p, size, CALLER))
		release(bump, p, size, CALLER);
	bump_leave(bump);
}

/* What both functions do, for the one that `caller` called. */
static void *realloc_flags(struct bump *bump, void *p, size_t old_size,
	size_t new_size, unsigned flags, uintptr_t caller)
{
	if (!bump_enter(bump, caller))
		return NULL;
	bump_call(bump, flags, caller);
	if (p == NULL)
		p = alloc(bump, new_size, flags, caller);
	else if ((FALLOW_BUMP_DEBUG || old_size > bump->limit) &&
		!fl_bump_verify(bump, p, old_size))
		p = NULL;
	else
		p = resize(bump, p, old_size, new_size);
	bump_leave(bump);
	return p;
}

void *fallow_bump_realloc_flags(struct fallow_bump *arena, void *p,
	size_t old_size, size_t new_size, unsigned flags)
{
	return realloc_flags(
		bump_of(arena), p, old_size, new_size, flags, CALLER);
}

void *fallow_bump_realloc(struct fallow_bump *arena, void *p, size_t old_size,
	size_t new_size)
{
	return realloc_flags(
		bump_of(arena), p, old_size, new_size, 0, CALLER);
}
