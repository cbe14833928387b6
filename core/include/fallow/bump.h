/* SPDX-License-Identifier: MIT */
/*
 * Arenas: memory for much that comes piece by piece and goes all at once, a
 * compiler's, a request's.
 *
 * An arena takes chunks from a heap and hands out their bytes one behind the
 * other.  A block has no header and no rounding but to 16 bytes: whoever frees
 * one or changes its size says how large it is, and its memory is used again.
 * What holds of every call, beside what fallow.h says:
 *
 *   Owner     One execution at a time is in an arena: a thread, a request,
 *             whatever context it runs in.  Nothing is locked or masked for it.
 *             A build with FALLOW_BUMP_DEBUG reports the call that comes
 *             while another is inside as FALLOW_MISUSE_SHARED.
 *   Sizes     The size that a free or a reallocation is told is the one that
 *             the block was last asked for with, to the byte.  A build with
 *             FALLOW_BUMP_DEBUG keeps it in 16 bytes before the block and
 *             reports FALLOW_MISUSE_WRONG_SIZE; others notice it where the size
 *             that they are told is a large one's, and else a wrong size
 *             corrupts the arena.  A debug build (FALLOW_DEBUG) has it, unless
 *             it is told not to.
 *   Contents  A block comes with any, but for FALLOW_ZERO; one that is not large
 *             is filled with 0xbd with FALLOW_BUMP_DEBUG.
 *   Contexts  Those of fallow_alloc(), for all calls but those that say
 *             otherwise.  Most neither enter a context nor call anybody.
 *   Time      As in fallow.h, and an allocation or a reallocation without
 *             FALLOW_NOWAIT joins free blocks that lie side by side, once in a
 *             while and before it fails: proportional to the number of those
 *             that are free.  All joins but those before a failure take no
 *             more than in proportion to all calls.
 */
#ifndef FALLOW_BUMP_H
#define FALLOW_BUMP_H

#include <fallow/fallow.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * An arena.  The owner's storage, which must stay where it is from
 * fallow_bump_init() to fallow_bump_fini(); what is inside is fallow's.
 */
#define FALLOW_BUMP_BYTES 2816
struct fallow_bump {
	__attribute__((aligned(64))) unsigned char opaque[FALLOW_BUMP_BYTES];
};

#define FALLOW_BUMP_CHUNK_MAX ((size_t)1 << 30)
#define FALLOW_BUMP_KEEP_NONE SIZE_MAX

struct fallow_bump_settings {
	/* sizeof(struct fallow_bump_settings): lets the struct grow. */
	size_t size;
	/*
	 * What the arena takes from the heap at a time, rounded up to slices;
	 * at most FALLOW_BUMP_CHUNK_MAX.  0: 2 MiB, or a 64th of what the heap
	 * was handed if that is less, but a slice (64 KiB) at least.  Where a
	 * whole one is not to be had, half of it is tried, and so on.
	 */
	size_t chunk_bytes;
	/*
	 * The most that a reset or a rewind keeps of the chunks that it
	 * empties; see fallow_bump_reset().  0: four chunks;
	 * FALLOW_BUMP_KEEP_NONE: nothing.
	 */
	size_t keep_bytes;
};

/*
 * Makes *bump an arena without memory, on a heap that must outlive it.
 * `settings` may be NULL: all 0.
 * Fails iff: MISSING_ARGUMENT (bump, heap), BAD_SIZE_FIELD, BAD_SETTING
 * (chunk_bytes).  Context: any.  Calls: none.
 */
enum fallow_status fallow_bump_init(struct fallow_bump *bump,
	struct fallow *heap, const struct fallow_bump_settings *settings)
	__attribute__((warn_unused_result));

/*
 * Gives everything back to the heap, blocks in use too, and ends all scopes.
 * The arena is as fallow_bump_init() left it: it can be used on, ended again, or
 * be plain storage.
 * Time: proportional to its chunks and large blocks.  Calls: sweep_wanted.
 */
void fallow_bump_fini(struct fallow_bump *bump);

/*
 * Allocates `size` bytes, aligned to 16.  A size of 0 is a block of its own.
 * A block above 64 KiB, or a quarter of a chunk if that is less, is *large*: a
 * span of the heap, in whole granules.
 * Flags: as in fallow_alloc_flags(), but for FALLOW_RESERVE, which is ignored:
 * a chunk would empty the emergency pool.
 * Returns: the block, or NULL iff `size` is above FALLOW_SIZE_MAX or the heap
 * has neither a chunk nor the span; the arena is as before.
 * Calls: as fallow_alloc(), where a chunk or a span is needed.
 */
void *fallow_bump_alloc(struct fallow_bump *bump, size_t size)
	__attribute__((malloc, alloc_size(2), warn_unused_result));
void *fallow_bump_alloc_flags(
	struct fallow_bump *bump, size_t size, unsigned flags)
	__attribute__((malloc, alloc_size(2), warn_unused_result));

/*
 * As fallow_bump_alloc(), aligned to `align`, a power of two of any size.  It
 * is freed as any other block.
 * Misuse: BAD_ALIGNMENT, and NULL.
 */
void *fallow_bump_alloc_aligned(
	struct fallow_bump *bump, size_t align, size_t size)
	__attribute__((malloc, alloc_align(2), alloc_size(3),
		warn_unused_result));
void *fallow_bump_alloc_aligned_flags(struct fallow_bump *bump, size_t align,
	size_t size, unsigned flags)
	__attribute__((malloc, alloc_align(2), alloc_size(3),
		warn_unused_result));

/* Returns a block with a copy of `size` bytes from `source`, or NULL as
 * fallow_bump_alloc(). */
void *fallow_bump_copy(
	struct fallow_bump *bump, const void *source, size_t size)
	__attribute__((malloc, alloc_size(3), warn_unused_result));

/* The same of a string with its final 0: a block of strlen(text) + 1 bytes. */
char *fallow_bump_strdup(struct fallow_bump *bump, const char *text)
	__attribute__((malloc, warn_unused_result));

/*
 * Frees a block of `size` bytes; NULL does nothing.  What was allocated last
 * is taken back as if it had never been; other blocks are used again by
 * allocations of the arena, but for large ones, which go to the heap.
 * Misuse, where `size` is a large block's, and with FALLOW_BUMP_DEBUG always:
 * WRONG_SIZE; FOREIGN for what is not in the arena, as a large block that was
 * freed; INTERIOR for what is no block's begin; DOUBLE_FREE for what was freed,
 * or taken by a rewind or a reset, and is not in another block by now.
 * Calls: sweep_wanted, for a large block.
 */
void fallow_bump_free(struct fallow_bump *bump, void *p, size_t size);

/*
 * Changes the size of a block from `old_size` to `new_size`; the bytes up to
 * the smaller one stay.  p NULL is fallow_bump_alloc(new_size).  A new size of
 * 0 gives a block of size 0: it never frees.
 * A block that shrinks stays where it is, always; what it had is free.  One
 * that grows stays if it was allocated last and there is room behind it, or if
 * it is large and there is room; else it moves, to an address aligned to 16.
 * FALLOW_ZERO: every byte beyond the old size reads as zero.
 * Returns: the block, or NULL iff it could not grow; the old one is intact.
 * Misuse: as fallow_bump_free(), and NULL.  Calls: as fallow_bump_alloc().
 */
void *fallow_bump_realloc(struct fallow_bump *bump, void *p, size_t old_size,
	size_t new_size) __attribute__((alloc_size(4), warn_unused_result));
void *fallow_bump_realloc_flags(struct fallow_bump *bump, void *p,
	size_t old_size, size_t new_size, unsigned flags)
	__attribute__((alloc_size(4), warn_unused_result));

/* A scope: all that is allocated from a mark on goes with its rewind.  The
 * owner's storage, which must stay where it is until the scope has ended; what
 * is inside is fallow's. */
struct fallow_bump_mark {
	uint64_t opaque[16];
};

/*
 * Begins a scope inside those that are open; it ends with its rewind, with
 * that of one around it, or with a reset.  From now on no memory is used that
 * was freed before.  A block that was allocated before may still be freed, and
 * its memory is free when the scope has ended; it does not grow in place.
 * The mark must not be that of a scope that is open.
 * Misuse: BAD_MARK iff it is, with FALLOW_BUMP_DEBUG.
 * Time: proportional to the number of sizes of which there are free blocks, at
 * most 317.  Calls: none.
 */
void fallow_bump_mark(struct fallow_bump *bump, struct fallow_bump_mark *mark);

/*
 * Frees at once all that was allocated since the mark, in scopes inside too
 * and by reallocations that moved an older block; ends those scopes.
 * Misuse: BAD_MARK iff the scope is not open.
 * Time: as fallow_bump_mark(), and proportional to the chunks and large blocks
 * that go and to the older blocks that were freed meanwhile.
 * Calls: sweep_wanted.
 */
void fallow_bump_rewind(
	struct fallow_bump *bump, struct fallow_bump_mark *mark);

/*
 * Frees everything at once, and ends all scopes.  Chunks stay with the arena up
 * to keep_bytes, and no more than the most that it had in the round that ends
 * here or in the one before it: what one large round took is given back by the
 * second small one behind it.
 * Time: proportional to its chunks and large blocks.  Calls: sweep_wanted.
 */
void fallow_bump_reset(struct fallow_bump *bump);

/* What can be seen; bytes, now. */
struct fallow_bump_counts {
	/* sizeof(struct fallow_bump_counts), set by the caller. */
	size_t size;
	/* What it takes from the heap at a time. */
	size_t chunk_bytes;
	/* Of the heap: chunks with blocks in them, chunks that are kept, large
	 * blocks. */
	size_t chunks, kept, large;
	/* In free blocks that can be used; behind the last block. */
	size_t listed, unused;
	/* Scopes that are open: a number. */
	size_t scopes;
};

/* Fills *counts up to the size it says.  Time: proportional to the number of
 * free blocks.  Calls: none. */
void fallow_bump_counts(
	struct fallow_bump *bump, struct fallow_bump_counts *counts);

/*
 * Verifies every invariant of the arena.
 * Returns: NULL if all hold, else the invariant that is broken, as it is
 * written in the source; *where, if not NULL, is an address it is about.
 * Time: proportional to its chunks, large blocks and free blocks.  Calls: none.
 */
const char *fallow_bump_check(struct fallow_bump *bump, uintptr_t *where)
	__attribute__((warn_unused_result));

#ifdef __cplusplus
}
#endif

#endif
