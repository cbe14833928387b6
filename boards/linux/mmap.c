/* SPDX-License-Identifier: MIT */
/*
 * The window provider on Linux.
 *
 * The window is one mapping without access, which costs addresses and nothing
 * else.  Commit makes a part of it accessible; the kernel puts zeroed pages
 * there as they are touched, so memory always comes ZEROED.  Decommit takes
 * access and pages away, in this order: if the kernel cannot split its mapping
 * once more, no page is gone yet.  A range may be several mappings (huge pages
 * were asked for in a part of it), and mprotect() stops at the first that it
 * cannot change, so access is put back to all of it before it is refused, or,
 * in a commit, taken away from all of it again.
 *
 * Large mappings are transparent huge pages.  The kernel makes one when it
 * likes to; LARGE is reported only if, after the first touch of every chunk,
 * MADV_COLLAPSE says that each is one huge page (it says so without work when
 * the touch made one).  A kernel before 6.1, or one set to never, lacks that:
 * a probe at init finds out and large_log2 is then 0.  The kernel splits huge
 * pages by itself, so holes can be cut anywhere.
 *
 * With `demand` the window is accessible from the begin and only huge pages
 * and decommits are calls into the kernel.
 *
 * There is no state after init and no lock: the kernel's is enough.
 */
#define _DEFAULT_SOURCE /* madvise(), MAP_ANONYMOUS */

#include "linux/mmap.h"

#include <errno.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "config.h"
#include "grow.h"

#define LARGE_LOG2 21
#define LARGE_BYTES ((size_t)1 << LARGE_LOG2)

/* Since Linux 6.1; Debian 12's headers have it, older ones do not. */
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

/* Returns whether every chunk of the range is one huge page now.  Touches
 * each: a chunk without any page cannot be collapsed. */
static bool range_make_large(uintptr_t base, size_t size)
{
	if (madvise((void *)base, size, MADV_HUGEPAGE) != 0)
		return false;
	for (uintptr_t at = base; at < base + size; at += LARGE_BYTES)
		*(volatile unsigned char *)at = 0;
	return madvise((void *)base, size, MADV_COLLAPSE) == 0;
}

/* Whether the range is made of whole chunks. */
static bool range_is_chunks(uintptr_t base, size_t size)
{
	return ((base | size) & (LARGE_BYTES - 1)) == 0;
}

/* The provider's commit(). */
static unsigned mmap_commit(
	void *ctx, uintptr_t base, size_t size, unsigned flags)
{
	const struct board_mmap *mmap = ctx;
	unsigned result = FALLOW_COMMIT_DONE | FALLOW_COMMIT_ZEROED;

	if (mmap->commit_most != 0 && size > mmap->commit_most)
		return FALLOW_COMMIT_NO_MEMORY;
	if (!mmap->demand &&
		mprotect((void *)base, size, PROT_READ | PROT_WRITE) != 0) {
		(void)mprotect((void *)base, size, PROT_NONE);
		return FALLOW_COMMIT_NO_MEMORY;
	}
	if ((flags & FALLOW_PREFER_LARGE) && mmap->provider.large_log2 &&
		range_is_chunks(base, size) && range_make_large(base, size))
		result |= FALLOW_COMMIT_LARGE;
	return result;
}

/* Takes the pages of one range, and access to it; see the opening comment. */
static enum fallow_range_result range_decommit(
	const struct board_mmap *mmap, const struct fallow_range *range)
{
	void *base = (void *)range->base;
	bool hidden = mmap->demand ||
		mprotect(base, range->size, PROT_NONE) == 0;

	if (hidden && madvise(base, range->size, MADV_DONTNEED) == 0)
		return FALLOW_RANGE_DONE;
	/* Not hidden, or locked memory.  Access comes back by undoing the
	 * splits just made, which needs no mapping more than there were. */
	if (mmap->demand ||
		mprotect(base, range->size, PROT_READ | PROT_WRITE) == 0)
		return FALLOW_RANGE_REFUSED;
	/* Unless another thread has taken the mapping that this saved.  The
	 * range cannot be what it was, but it can be empty: accessible in a
	 * part is no harm, a commit makes it all so. */
	return madvise(base, range->size, MADV_DONTNEED) == 0 ?
		FALLOW_RANGE_DONE :
		FALLOW_RANGE_REFUSED;
}

/* The provider's decommit(). */
static void mmap_decommit(void *ctx, struct fallow_range *ranges, size_t n)
{
	for (size_t i = 0; i < n; i++)
		ranges[i].result = range_decommit(ctx, &ranges[i]);
}

/* The provider's promote(). */
static bool mmap_promote(void *ctx, uintptr_t chunk)
{
	(void)ctx;
	return madvise((void *)chunk, LARGE_BYTES, MADV_HUGEPAGE) == 0 &&
		madvise((void *)chunk, LARGE_BYTES, MADV_COLLAPSE) == 0;
}

/* The provider's now(): nanoseconds. */
static uint64_t mmap_now(void *ctx)
{
	struct timespec now;

	(void)ctx;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The provider's spent(): nanoseconds of all threads.  In a sandbox that refuses
 * the call no time is spent. */
static uint64_t mmap_spent(void *ctx)
{
	struct timespec spent = { 0 };

	(void)ctx;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
	return (uint64_t)spent.tv_sec * 1000000000u + (uint64_t)spent.tv_nsec;
}

/* Reserves `size` bytes of addresses, a multiple of 2 MiB and aligned to it;
 * returns 0 if the kernel refuses. */
static uintptr_t window_reserve(size_t size, int protection)
{
	size_t slack = size + LARGE_BYTES;
	uintptr_t start, base;
	void *all;

	/* The one size that makes the sum wrap makes it 0, which the kernel
	 * refuses. */
	all = mmap(NULL, slack, protection,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (all == MAP_FAILED)
		return 0;
	start = (uintptr_t)all;
	base = (start + LARGE_BYTES - 1) & ~(uintptr_t)(LARGE_BYTES - 1);
	if (base > start)
		munmap(all, base - start);
	munmap((void *)(base + size), start + slack - (base + size));
	return base;
}

/* Returns whether the kernel makes huge pages when asked to. */
static bool large_probe(void)
{
	uintptr_t chunk = window_reserve(LARGE_BYTES, PROT_READ | PROT_WRITE);
	bool large;

	if (!chunk)
		return false;
	large = range_make_large(chunk, LARGE_BYTES);
	munmap((void *)chunk, LARGE_BYTES);
	return large;
}

enum fallow_status board_mmap_init(
	struct board_mmap *mmap, const struct board_mmap_config *config)
{
	struct board_mmap_config given = { 0 };
	bool large;

	if (!mmap || !config)
		return FALLOW_MISSING_ARGUMENT;
	if (!grow_read(&given, sizeof(given), config))
		return FALLOW_BAD_SIZE_FIELD;
	if (given.window_size & (LARGE_BYTES - 1))
		return FALLOW_UNALIGNED;
	if (given.window_size == 0)
		return FALLOW_WINDOW_TOO_SMALL;
	if (sysconf(_SC_PAGESIZE) != (long)GRANULE_BYTES)
		return FALLOW_BAD_GRANULE;
	large = CHUNK_LOG2 == LARGE_LOG2 && !given.no_large && large_probe();
	*mmap = (struct board_mmap){
		.provider = {
			.size = sizeof(struct fallow_provider),
			.provider_class = FALLOW_CLASS_WINDOW,
			.capabilities =
				(large ? FALLOW_CAN_DEMOTE |
							FALLOW_CAN_PROMOTE :
					 0u) |
				(given.demand ? FALLOW_DEMAND : 0u),
			.granule_log2 = FALLOW_GRANULE_LOG2,
			.large_log2 = large ? LARGE_LOG2 : 0,
			.ctx = mmap,
			.commit = mmap_commit,
			.decommit = mmap_decommit,
			.promote = large ? mmap_promote : NULL,
			.now = mmap_now,
			.spent = mmap_spent,
		},
		.window_size = given.window_size,
		.commit_most = given.commit_most,
		.demand = given.demand,
		.window_base = window_reserve(given.window_size,
			given.demand ? PROT_READ | PROT_WRITE : PROT_NONE),
	};
	return mmap->window_base ? FALLOW_OK : FALLOW_NO_TABLE_MEMORY;
}

void board_mmap_fini(struct board_mmap *mmap)
{
	munmap((void *)mmap->window_base, mmap->window_size);
	mmap->window_base = 0;
	mmap->window_size = 0;
}
