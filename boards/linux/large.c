/* SPDX-License-Identifier: MIT */
/*
 * FALLOW_LARGE=adaptive: huge pages where a chunk is full and stays so.
 *
 * A huge page that the kernel makes at the first touch costs 2 MiB for a byte,
 * so the window is advised against them.  Once an epoch the sweeper counts for
 * each chunk how long every granule of it has been committed and no slice free;
 * after some epochs it asks the kernel to copy the chunk into a huge page
 * (MADV_COLLAPSE, since Linux 6.1).  A hole cut later splits it, and then the
 * chunk has to stay whole for twice as long before it is tried again.
 *
 * Invariant: a collapse makes nothing resident that was not.  The kernel fills
 * what is missing with zeroes, and committed is not resident where commits are
 * no calls; so the kernel's own table is read first, and each page must be
 * there and be this process's alone (not the zero page, not a child's too).
 * What could go between that look and the call goes through decommit(), which
 * `giving` keeps apart: decommits hold it shared, the look and the call alone.
 * Commits need not be kept out, as they only add.  The sweeper never waits for
 * it, and a decommit waits for one chunk at most.
 *
 * The chunks' words are read under heap->lock, a few chunks at a time; no lock
 * of the heap is held at a call of the kernel.  Records belong to the holder of
 * `sweeping` (sweeper.c).
 *
 * It does not ask khugepaged (MADV_HUGEPAGE) where MADV_COLLAPSE is missing:
 * that would fill holes whenever it likes.  Then adaptive is never.
 */
#define _GNU_SOURCE /* MADV_... */

#include "linux/preload.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "heap.h"
#include "linux/mmap.h"

/* Debian 12's headers have it, older ones do not. */
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

/* linux/close_range.h has it, where there is one. */
#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE 2u
#endif

/* A second of the default epochs: longer than what is about to go stays, as
 * sweeps leave what was used in this epoch or the last.  At most 16 s, of which
 * those before the last doubling are worth waking up for. */
#define EPOCHS_LEAST 4
#define EPOCHS_MOST 64
/* A copy of 2 MiB takes some tenths of a millisecond, in which others' page
 * faults wait: a few in a hundred of the time, by default. */
#define TRIES_PER_ROUND 16
/* Looked at in one hold of heap->lock. */
#define LOOK_CHUNKS 16

/* /proc/PID/pagemap: a page is there, and mapped in this process alone
 * (Documentation/admin-guide/mm/pagemap.rst). */
#define PAGE_THERE ((uint64_t)1 << 63 | (uint64_t)1 << 56)
#define CHUNK_GRANULES (CHUNK_BYTES / GRANULE_BYTES)

/* What is remembered of a chunk; all zeroes: nothing. */
struct record {
	uint8_t whole;   /* rounds in a row that it was seen whole */
	uint8_t doubled; /* how often that had to become longer */
	uint8_t large;   /* it was collapsed and has been whole since */
};

enum outcome { OUTCOME_LARGE, OUTCOME_LATER, OUTCOME_BUSY, OUTCOME_UNABLE };

static struct record *records; /* by the chunk's number; NULL: not adaptive */
static size_t record_bytes;
static bool collapsed_ever;
static int pagemap = -1; /* in the sweeper's own table of files */
static pthread_rwlock_t giving = PTHREAD_RWLOCK_INITIALIZER;
static void (*decommit_plain)(void *, struct fallow_range *, size_t);

/* The provider's decommit(), apart from collapses. */
static void large_decommit(void *ctx, struct fallow_range *ranges, size_t n)
{
	pthread_rwlock_rdlock(&giving);
	decommit_plain(ctx, ranges, n);
	pthread_rwlock_unlock(&giving);
}

/* Whether the system allows huge pages to those who ask.  MADV_COLLAPSE itself
 * does not care. */
static bool system_allows(void)
{
	int fd = open("/sys/kernel/mm/transparent_hugepage/enabled",
		O_RDONLY | O_CLOEXEC);
	char text[64] = "";
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	return n > 0 && strstr(text, "[never]") == NULL;
}

void board_large_begin(struct board_mmap *window)
{
	void *table;

	if (board_settings.large != BOARD_LARGE_ADAPTIVE || !system_allows())
		return;
	record_bytes = (window->window_size >> CHUNK_LOG2) *
		sizeof(struct record);
	table = mmap(NULL, record_bytes, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (table == MAP_FAILED)
		return;
	records = table;
	decommit_plain = window->provider.decommit;
	window->provider.decommit = large_decommit;
}

/* Whether every granule is committed and stays.  Under heap->lock, which keeps
 * slices as they are; granules of used slices may change. */
static bool chunk_whole(const struct chunk *chunk)
{
	unsigned slice;

	fl_watch_steps(CHUNK_SLICES);
	if (chunk->present != UINT32_MAX || chunk->free != 0)
		return false;
	for (slice = 0; slice < CHUNK_SLICES; slice++)
		if (fl_load_relaxed(&chunk->populated[slice]) !=
				SLICE_GRANULES_ALL ||
			fl_load_relaxed(&chunk->pending[slice]) != 0)
			return false;
	return true;
}

/* Looks at the chunks from `from` on; returns a bit for each that is whole, and
 * how many chunks there are at all. */
static uint32_t chunks_look(struct heap *heap, size_t from, size_t *count)
{
	struct fl_port_state state = lock_take(&heap->lock);
	uint32_t whole = 0;
	unsigned i;

	fl_watch_allow((size_t)LOOK_CHUNKS * CHUNK_SLICES);
	*count = heap->chunk_count;
	for (i = 0; i < LOOK_CHUNKS && from + i < *count; i++)
		if (heap->chunks[from + i] != NULL &&
			chunk_whole(heap->chunks[from + i]))
			whole |= (uint32_t)1 << i;
	lock_leave(&heap->lock, state);
	return whole;
}

/*
 * Opens the kernel's table; returns whether it is open.  The thread takes leave
 * of the program's files first, for good: who closes a file and opens another
 * counts on its number, and a pipe has to end when the program closes it.
 */
static bool pagemap_open(void)
{
	if (pagemap >= 0)
		return true;
	if (syscall(SYS_close_range, 0, ~0u, CLOSE_RANGE_UNSHARE) != 0)
		return false;
	pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	return pagemap >= 0;
}

/* Whether all pages of the chunk are there, and nobody else's too. */
static bool chunk_resident(uintptr_t base)
{
	static uint64_t entries[CHUNK_GRANULES];
	off_t at = (off_t)((base >> FALLOW_GRANULE_LOG2) * sizeof(entries[0]));
	size_t i;

	if (pread(pagemap, entries, sizeof(entries), at) !=
		(ssize_t)sizeof(entries))
		return false;
	for (i = 0; i < CHUNK_GRANULES; i++)
		if ((entries[i] & PAGE_THERE) != PAGE_THERE)
			return false;
	return true;
}

/* Asks for one huge page in the chunk's place.  The advice against them, which
 * would forbid it, is out of force only meanwhile: no page is missing, so none
 * is touched for the first time. */
static enum outcome chunk_ask(uintptr_t base)
{
	void *chunk = (void *)base;
	int failed = 0;

	if (madvise(chunk, CHUNK_BYTES, MADV_HUGEPAGE) != 0 ||
		madvise(chunk, CHUNK_BYTES, MADV_COLLAPSE) != 0)
		failed = errno;
	(void)madvise(chunk, CHUNK_BYTES, MADV_NOHUGEPAGE);
	collapsed_ever |= failed == 0;
	if (failed == 0)
		return OUTCOME_LARGE;
	/* No such advice; but once it was there, something about the chunk. */
	return failed == EINVAL && !collapsed_ever ? OUTCOME_UNABLE
						   : OUTCOME_LATER;
}

/* Makes the chunk one huge page if all of it is there. */
static enum outcome chunk_collapse(uintptr_t base)
{
	enum outcome outcome = OUTCOME_LATER;

	if (pthread_rwlock_trywrlock(&giving) != 0)
		return OUTCOME_BUSY;
	if (chunk_resident(base))
		outcome = chunk_ask(base);
	pthread_rwlock_unlock(&giving);
	return outcome;
}

/* How many rounds a chunk has to be whole. */
static unsigned epochs_wanted(const struct record *record)
{
	return (unsigned)EPOCHS_LEAST << record->doubled;
}

/* It has to be whole from now on, and for longer. */
static void record_again(struct record *record)
{
	record->whole = 0;
	record->large = 0;
	if (epochs_wanted(record) < EPOCHS_MOST)
		record->doubled++;
}

/* Counts that a chunk is whole or not; returns whether to try it. */
static bool record_count(struct record *record, bool whole)
{
	if (!whole && record->large)
		record_again(record);
	else if (!whole && record->whole != 0)
		record->whole = 0;
	if (!whole || record->large)
		return false;
	if (record->whole < epochs_wanted(record))
		record->whole++;
	return record->whole == epochs_wanted(record);
}

/* One round: what is under way in it. */
struct round {
	unsigned tries;
	bool waits; /* a chunk may become large if there is another round */
};

/* Tries a chunk, and notes what came of it. */
static void record_try(
	struct round *round, struct record *record, uintptr_t base)
{
	round->tries++;
	if (!pagemap_open()) {
		records = NULL;
		return;
	}
	switch (chunk_collapse(base)) {
	case OUTCOME_LARGE:
		record->large = 1;
		break;
	case OUTCOME_LATER:
		record_again(record);
		break;
	case OUTCOME_UNABLE:
		records = NULL;
		break;
	case OUTCOME_BUSY:
		break;
	}
}

/* In the sweeper's thread, see pagemap_open(). */
bool board_large_round(void)
{
	struct heap *heap = heap_of(&board_heap);
	struct round round = { 0 };
	size_t at, count = 1;

	for (at = 0; records != NULL && at < count; at += LOOK_CHUNKS) {
		uint32_t whole = chunks_look(heap, at, &count);
		size_t i;

		for (i = at; records != NULL && i < at + LOOK_CHUNKS &&
			i < count; i++) {
			struct record *record = &records[i];
			bool is = whole >> (i - at) & 1;

			if (record_count(record, is) &&
				round.tries < TRIES_PER_ROUND)
				record_try(&round, record,
					heap->base + (i << CHUNK_LOG2));
			if (records != NULL && is && !record->large &&
				epochs_wanted(record) < EPOCHS_MOST)
				round.waits = true;
		}
	}
	return round.waits;
}

void board_large_forked(bool child)
{
	if (child) {
		giving = (pthread_rwlock_t)PTHREAD_RWLOCK_INITIALIZER;
		pagemap = -1;
	}
	/* The kernel splits what both have as soon as one writes to it. */
	if (records != NULL && collapsed_ever)
		(void)madvise(records, record_bytes, MADV_DONTNEED);
}
