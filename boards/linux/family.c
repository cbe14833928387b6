/* SPDX-License-Identifier: MIT */
/*
 * malloc and its family, as glibc has them: the names that libfallow.so puts in
 * the place of the C library's.
 *
 * Each is the heap's call of the same meaning, and a second, cold call where
 * that had nothing: only there is looked whether the heap is made and whether
 * the thread has a context.  Where the standards leave something open, or glibc
 * does it in its own way, programs for Linux rely on glibc's: realloc(p, 0)
 * frees, memalign() rounds an alignment up to a power of two, pvalloc() rounds
 * the size up to pages.  aligned_alloc() refuses what is no power of two.
 *
 * free() leaves errno alone.
 */
#define _GNU_SOURCE /* the whole family is declared */

#include "alloc.h"
#include "free.h"
#include "linux/preload.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* The heap's hot path ends up inside: see board.mk. */
#define FLAT __attribute__((flatten))

/* Of every block; alignments below it need nothing. */
#define ALIGN_LEAST 16

/* What valloc() and pvalloc() align to; the heap's granule. */
#define PAGE_BYTES ((size_t)4096)


/* Tries again, and sets errno if that fails too. */
static __attribute__((cold, noinline)) void *again(
	enum board_call call, void *p, size_t align, size_t size)
{
	void *block = board_again(call, p, align, size);

	if (block == NULL)
		errno = ENOMEM;
	return block;
}

/* The rest of malloc(), so that it has no frame of its own. */
static __attribute__((noinline)) void *malloc_steps(
	size_t size, uintptr_t caller, struct fl_port_state state)
{
	void *block = fl_alloc_steps(
		heap_of(&board_heap), size, 0, caller, state);

	return likely(block != NULL) ? block : again(BOARD_ALLOC, NULL, 0, size);
}

/* Returns whether one of the two hot paths has a block; if not, it is inside the
 * context. */
static inline __attribute__((always_inline)) bool block_hot(
	size_t size, void **block, struct fl_port_state *state)
{
	struct page *page;
	size_t dirty;

	*block = alloc_hot(heap_of(&board_heap), size, state, &page);
	return likely(*block != NULL) ||
		(size > SIZE_DIRECT_MAX &&
			likely(alloc_stepped_hot(heap_of(&board_heap), size,
				*state, block, &dirty)));
}

EXPORT void *malloc(size_t size)
{
	struct fl_port_state state;
	void *block;

	if (likely(block_hot(size, &block, &state)))
		return block;
	return malloc_steps(
		size, (uintptr_t)__builtin_return_address(0), state);
}

/* The rest of board_new(), likewise. */
static __attribute__((noinline)) void *new_steps(
	size_t size, uintptr_t caller, struct fl_port_state state)
{
	void *block = fl_alloc_steps(
		heap_of(&board_heap), size, 0, caller, state);

	return likely(block != NULL) ? block : board_new_again(size);
}

void *board_new(size_t size)
{
	struct fl_port_state state;
	void *block;

	if (likely(block_hot(size, &block, &state)))
		return block;
	return new_steps(
		size, (uintptr_t)__builtin_return_address(0), state);
}

/* The end of a free() that its page must hear of.  Without the heap's address,
 * which would be found before it is known whether it is wanted, and with what
 * free() has in registers where it lies (`used`, so that it stays there). */
static __attribute__((noinline, used)) FLAT void free_wake(
	void *p, struct page *page, struct fl_port_state state)
{
	(void)p;
	fl_free_wake(heap_of(&board_heap), page, state);
}

EXPORT FLAT void free(void *p)
{
	struct fl_port_state state = fl_port_enter();
	struct page *page;

	switch (free_hot(heap_of(&board_heap), p, &page)) {
	case FREE_DONE:
		fl_port_leave(state);
		break;
	case FREE_WAKE:
		free_wake(p, page, state);
		break;
	default:
		fl_free_rest(heap_of(&board_heap), p, page,
			(uintptr_t)__builtin_return_address(0), state);
	}
}

/* free() by a name that no other library's can take the place of. */
void board_delete(void *p) __attribute__((alias("free"), leaf));

EXPORT FLAT void *calloc(size_t count, size_t size)
{
	size_t bytes;
	void *block;

	if (__builtin_mul_overflow(count, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	block = fallow_zalloc(&board_heap, bytes);
	return likely(block != NULL) ? block
				     : again(BOARD_ZALLOC, NULL, 0, bytes);
}

EXPORT void *realloc(void *p, size_t size)
{
	void *block;

	if (size == 0 && p != NULL) {
		fallow_free(&board_heap, p);
		return NULL;
	}
	block = fallow_realloc(&board_heap, p, size);
	return likely(block != NULL) ? block : again(BOARD_REALLOC, p, 0, size);
}

EXPORT void *reallocarray(void *p, size_t count, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(count, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return realloc(p, bytes);
}

/* Whether the number is a power of two. */
static bool power_of_two(size_t number)
{
	return number != 0 && (number & (number - 1)) == 0;
}

/* Allocates with an alignment that is a power of two. */
static void *aligned(size_t align, size_t size)
{
	void *block = fallow_alloc_aligned(&board_heap, align, size);

	return block != NULL ? block
			     : board_again(BOARD_ALIGNED, NULL, align, size);
}

/* The same; errno says if there is no memory. */
static void *aligned_or_errno(size_t align, size_t size)
{
	void *block = aligned(align, size);

	if (block == NULL)
		errno = ENOMEM;
	return block;
}

EXPORT void *aligned_alloc(size_t align, size_t size)
{
	if (!power_of_two(align)) {
		errno = EINVAL;
		return NULL;
	}
	return aligned_or_errno(align, size);
}

EXPORT void *memalign(size_t align, size_t size)
{
	size_t power = ALIGN_LEAST;

	while (power < align && power <= SIZE_MAX / 2)
		power *= 2;
	if (power < align) {
		errno = EINVAL;
		return NULL;
	}
	return aligned_or_errno(power, size);
}

EXPORT int posix_memalign(void **memptr, size_t align, size_t size)
{
	int before = errno;
	void *block;

	if (!power_of_two(align) || align % sizeof(void *) != 0)
		return EINVAL;
	block = aligned(align, size);
	errno = before;
	if (block == NULL)
		return ENOMEM;
	*memptr = block;
	return 0;
}

EXPORT void *valloc(size_t size)
{
	return aligned_or_errno(PAGE_BYTES, size);
}

EXPORT void *pvalloc(size_t size)
{
	size_t pages = (size + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);

	if (pages < size) {
		errno = ENOMEM;
		return NULL;
	}
	return aligned_or_errno(PAGE_BYTES, pages == 0 ? PAGE_BYTES : pages);
}

EXPORT size_t malloc_usable_size(void *p)
{
	size_t size = fallow_usable_size(&board_heap, p);

	return likely(size != 0) ? size : board_again_usable(p);
}

/*
 * What the heap knows, in glibc's words: its arena is what is committed, of which
 * so much is in use and the rest free; all of that may be had by malloc_trim() at
 * most.  Nothing is beside the arena, so no block counts as one of mmap()'s.  The
 * number of pages stands where glibc's free chunks are counted, and the most that
 * was committed where it once had such a mark.
 */
EXPORT struct mallinfo2 mallinfo2(void)
{
	struct fallow_snapshot now = { .size = sizeof(now) };
	size_t unused;

	if (board_heap_make()) {
		board_sweeper_hold();
		fallow_snapshot(&board_heap, &now);
		board_sweeper_release();
	}
	unused = now.committed > now.live ? now.committed - now.live : 0;
	return (struct mallinfo2){
		.arena = now.committed,
		.ordblks = now.pages,
		.usmblks = now.committed_peak,
		.uordblks = now.live,
		.fordblks = unused,
		.keepcost = unused,
	};
}

/* A number that an int holds, or the largest. */
static int to_int(size_t number)
{
	return number > INT32_MAX ? INT32_MAX : (int)number;
}

EXPORT struct mallinfo mallinfo(void)
{
	struct mallinfo2 now = mallinfo2();

	return (struct mallinfo){
		.arena = to_int(now.arena),
		.ordblks = to_int(now.ordblks),
		.usmblks = to_int(now.usmblks),
		.uordblks = to_int(now.uordblks),
		.fordblks = to_int(now.fordblks),
		.keepcost = to_int(now.keepcost),
	};
}

/* Gives back all that can be had; what is to stay is the floor's to say, so
 * `pad` is not looked at.  Returns whether memory went. */
EXPORT int malloc_trim(size_t pad)
{
	size_t bytes = 0;

	(void)pad;
	if (board_heap_make())
		bytes = board_collect();
	return bytes > 0;
}

EXPORT void malloc_stats(void)
{
	board_report_print(STDERR_FILENO);
}

/* glibc's parameters mean nothing here; the program is told that all is well,
 * for it can do nothing about it. */
EXPORT int mallopt(int parameter, int value)
{
	(void)parameter;
	(void)value;
	return 1;
}
