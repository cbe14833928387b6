/* SPDX-License-Identifier: MIT */
/*
 * fallow: a memory allocator for kernels and unikernels.
 *
 * What holds for every call, unless it says otherwise:
 *
 *   Units     Sizes and addresses are bytes; ranges are half-open.
 *   Failure   Exhaustion is NULL, and the heap is as before.  Bad
 *             configuration is an enum fallow_status.  Misuse (a double free,
 *             a pointer that is not a block) is reported through the heap's
 *             misuse hook, and the call then does nothing.
 *   Contexts  boot: one CPU runs and nothing else uses the heap.  task:
 *             ordinary code, interrupts on, may be preempted.  irq: an
 *             interrupt handler, or interrupts masked.  In the models SINGLE
 *             and THREAD nothing may be called from a handler but what says
 *             so; see arch.h for the models, and the README for a table.  A
 *             handler that runs with interrupts on, or code that the code it
 *             displaced has to wait for, says FALLOW_NOWAIT: an allocation may
 *             have to wait for one that is extending the heap's tables.  With
 *             interrupts masked it gets NULL instead.
 *   Locks     None of fallow's locks is held on return, nor while a hook or
 *             the provider runs.
 *   Time      A call that enters no provider is bounded.
 */
#ifndef FALLOW_FALLOW_H
#define FALLOW_FALLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <fallow/provider.h>
#include <fallow/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FALLOW_VERSION_MAJOR 0
#define FALLOW_VERSION_MINOR 1

/* The most regions, and the most contexts, that one heap can have. */
#define FALLOW_REGIONS_MAX 16
#define FALLOW_CONTEXTS_MAX 1024

/*
 * A heap.  The embedder owns its storage, which must stay where it is from
 * fallow_init() to fallow_fini(); what is inside is fallow's.
 */
#define FALLOW_HEAP_BYTES 4224
struct fallow {
	__attribute__((aligned(64))) unsigned char opaque[FALLOW_HEAP_BYTES];
};

/* Per-call flags; 0 is the ordinary call. */
enum fallow_flags {
	/* No provider call and no waiting, neither for a contended lock nor
	 * for another call: NULL rather than either.  Implies
	 * FALLOW_NORECLAIM. */
	FALLOW_NOWAIT = 1u << 0,
	/* Every byte of the block reads as zero; in a realloc, every byte
	 * beyond the old usable size. */
	FALLOW_ZERO = 1u << 1,
	/* Before NULL, neither collect nor call the pressure hook. */
	FALLOW_NORECLAIM = 1u << 2,
	/* Before NULL, when all else has failed, take the block from the
	 * emergency pool: config.reserve_bytes. */
	FALLOW_RESERVE = 1u << 3,
};

enum fallow_misuse_kind {
	/* The block is free already. */
	FALLOW_MISUSE_DOUBLE_FREE = 1,
	/* The address belongs to no page and no span of this heap: it came
	 * from elsewhere.  Of a block that was freed, if the call cannot know:
	 * all around it is free, and is being given back, or the call is
	 * fallow_free_deferred(), or says NOWAIT while another has the lock; or
	 * the provider is of class direct and has it.  Or it is an arena's and
	 * freed into the heap, or the other way round. */
	FALLOW_MISUSE_FOREIGN,
	/* The address is inside a block, not at its begin. */
	FALLOW_MISUSE_INTERIOR,
	/* The address is in a page, where no block has been given out yet, or
	 * none any more since its memory was given back, or where none fits. */
	FALLOW_MISUSE_UNFORMED,
	/* A sized free whose size cannot be that of the block; an arena's free
	 * or reallocation whose size is not. */
	FALLOW_MISUSE_WRONG_SIZE,
	/* An alignment that is zero or no power of two. */
	FALLOW_MISUSE_BAD_ALIGNMENT,
	/* The provider or a hook called back into the heap that called it. */
	FALLOW_MISUSE_REENTRY,
	/* The index of the context is not below the heap's maximum: seen when
	 * a call begins.  No thread may move to such a CPU inside a call. */
	FALLOW_MISUSE_BAD_CONTEXT,
	/* A call into an arena while another is inside it (debug builds). */
	FALLOW_MISUSE_SHARED,
	/* The rewind of an arena to a mark whose scope is not open. */
	FALLOW_MISUSE_BAD_MARK,
	FALLOW_MISUSE_COUNT,
};

/* Returns a few words, such as "double free"; never NULL. */
const char *fallow_misuse_text(enum fallow_misuse_kind kind);

/* No context: the owner of a span, or of a page that nobody owns. */
#define FALLOW_NO_CONTEXT UINT32_MAX

/* What the misuse hook is told. */
struct fallow_misuse {
	enum fallow_misuse_kind kind;
	/* The pointer that was passed (for BAD_ALIGNMENT, the alignment). */
	uintptr_t address;
	/* The begin of the block that the address is in; 0 if none. */
	uintptr_t block;
	/* The size of that block; 0 if none. */
	size_t block_size;
	/* The size that was passed to a sized free; else 0. */
	size_t given_size;
	/* The context that owns the page, or FALLOW_NO_CONTEXT. */
	uint32_t owner;
	/* The context that made the call. */
	uint32_t context;
	/* The return address of the public function that was misused. */
	uintptr_t caller;
};

enum fallow_misuse_policy {
	/* Call the hook, then go on as if the call had not been made. */
	FALLOW_POLICY_REPORT = 0,
	/* As REPORT, without calling the hook: only the counter moves. */
	FALLOW_POLICY_LEAK,
	/* Call the hook; if it returns, stop the CPU for good. */
	FALLOW_POLICY_STOP,
};

struct fallow_config {
	/* sizeof(struct fallow_config): lets the struct grow. */
	size_t size;
	/* Copied by fallow_init(); its ctx must outlive the heap. */
	const struct fallow_provider *provider;
	/*
	 * The addresses that the heap may ever manage.  Class window: a
	 * multiple of the granule; the tables take its head.  Class direct:
	 * all that reserve() can return.  Class flat: all regions; size 0
	 * takes the first region as the window.
	 */
	uintptr_t window_base;
	size_t window_size;
	/*
	 * Classes direct and flat, optional: memory for the tables, so that
	 * regions need not carry them; fallow_table_bytes() is always enough.
	 * 64-byte aligned.  Stays the embedder's; fallow uses it until
	 * fallow_fini().
	 */
	void *tables;
	size_t tables_size;
	/* The indices of contexts are below this; 1 to FALLOW_CONTEXTS_MAX.  A
	 * CPU has one in the model IRQ, one for itself and one for each of its
	 * interrupt levels in PREEMPT. */
	unsigned contexts;
	enum fallow_misuse_policy misuse_policy;
	/* Optional.  Must not call into the heap.  Called in the context of
	 * the misusing call, without locks. */
	void (*misuse)(void *ctx, const struct fallow_misuse *report);
	void *misuse_ctx;
	/*
	 * Optional.  Called before an allocation of `size` bytes fails, task
	 * context only, without locks; may free into the heap.  Returns
	 * whether it is worth trying again, and is then called again if that
	 * failed: it says no when it has nothing more to give.
	 */
	bool (*pressure)(void *ctx, size_t size);
	void *pressure_ctx;
	/*
	 * Bytes of the emergency pool, or 0 for none; rounded up to slices, and
	 * its tables come to it.  Only calls with FALLOW_RESERVE get blocks of
	 * it, and only when nothing else is left.  It is filled, as a whole,
	 * when a region is added, and if there was no memory then, by a later
	 * collect or ordinary allocation in a task; from then on its memory is
	 * there in every context until fallow_fini().  Freed blocks are the
	 * pool's again.
	 */
	size_t reserve_bytes;
	/* Any number that an attacker cannot guess, or 0: mixed into what
	 * marks free blocks. */
	uint64_t secret;
	/* The least time between two epochs of sweeps, in ticks of the
	 * provider's clock; 0: FALLOW_EPOCH_TICKS, which is 100 ms of a clock
	 * of nanoseconds, and hours or days of a slower one.  Far shorter, and
	 * memory goes that is about to be used: a server without a floor calls
	 * commit 33 times a request with 10 ms, and one time in 50 requests
	 * (in a small machine, in 3) with 100.  Far longer, and
	 * what was used once stays for two epochs.  The README has figures. */
	uint64_t epoch_ticks;
	/* Free bytes that a sweep leaves if they were used of late; 0:
	 * FALLOW_FLOOR_BYTES, but at most 1/64 of what was handed over;
	 * FALLOW_FLOOR_NONE: nothing. */
	size_t floor_bytes;
	/* How many epochs without use they stay; 0: FALLOW_FLOOR_EPOCHS; at
	 * most FALLOW_FLOOR_EPOCHS_MAX. */
	uint32_t floor_epochs;
	/* Until so many bytes are committed nobody is expected to sweep; then
	 * the provider's sweep_wanted() says so, in the slow path of an
	 * allocation.  0: the first sweep comes unasked. */
	size_t sweep_from_bytes;
	/* Of `contexts`, how many there are at first, so that those which never
	 * come take no memory; 0: all.  See fallow_more_contexts().  Classes
	 * direct and flat make all of them in any case. */
	unsigned contexts_first;
	/*
	 * Optional.  Called where the index of the context is not below the
	 * number of them, in place of a report of BAD_CONTEXT, so that threads
	 * need not be told of: it may give the calling one an index, and
	 * returns whether it has.  If not, an allocation is NULL, and a free is
	 * fallow_free_deferred().  Called without locks, by calls in any
	 * context; may call into the heap once there is an index.
	 */
	bool (*attach)(void *ctx);
	void *attach_ctx;
	/*
	 * Class window: from so many committed bytes on the heap does not pass
	 * what it has held before without a look at what it could do without.
	 * An allocation that may wait then gives back what its context has left
	 * idle: free slices, and what is free in its pages, that were not used
	 * since the last such look.  Peaks are lower, where one size has left
	 * what another cannot use; that memory is committed anew when it is
	 * wanted again.  And at any size a block above 1 KiB may be one of a
	 * larger class, less than twice as large as what was asked for, where
	 * one of its own would take memory.  0: neither.  Without `pace_ticks`
	 * 4 to 64 MiB suit; below, the memory is soon wanted again as a rule.
	 */
	size_t pace_from_bytes;
	/*
	 * With a clock in the provider, spent() or now(): what goes is no more
	 * than what keeps the heap where it is, but also what was used since
	 * the last look, and so many ticks pass for each granule of it before
	 * more does.  Ten times what it takes to give one back, commit and
	 * touch it suits: then a tenth of the time is lost at most.  0: not
	 * bounded by time; then what is wanted again soon does not go for long.
	 */
	uint64_t pace_ticks;
};

#define FALLOW_EPOCH_TICKS ((uint64_t)100000000)
#define FALLOW_FLOOR_BYTES ((size_t)4 << 20)
#define FALLOW_FLOOR_NONE SIZE_MAX
#define FALLOW_FLOOR_EPOCHS 256
#define FALLOW_FLOOR_EPOCHS_MAX 16384

/*
 * Makes *heap a heap with no memory but its tables.
 * Fails (and says why) iff the configuration is wrong or, with
 * FALLOW_NO_TABLE_MEMORY, its first tables cannot be had.
 * Context: boot.  Calls: commit (window), reserve (direct).
 */
enum fallow_status fallow_init(
	struct fallow *heap, const struct fallow_config *config)
	__attribute__((warn_unused_result));

/*
 * Hands [base, base + size) to the heap.  Class window: addresses to commit
 * from; what overlaps the tables at the window's head is left out.  Class
 * flat: memory that is there; its head carries the tables it needs, unless
 * config.tables has room.  Class direct: as flat, never released.  Bytes before
 * the first and behind the last whole slice are not used.
 * Fails iff: UNALIGNED (window only), RANGE_WRAPS, OUTSIDE_WINDOW,
 * REGION_OVERLAPS, REGION_TOO_SMALL, TOO_MANY_REGIONS, NO_TABLE_MEMORY; for the
 * first region of a flat heap without a window also BAD_TABLES.
 * Also fills the emergency pool, if it can: see config.reserve_bytes.
 * Context: boot, or task in one context at a time.  Calls: commit (window),
 * reserve (direct).
 */
enum fallow_status fallow_add_region(
	struct fallow *heap, uintptr_t base, size_t size)
	__attribute__((warn_unused_result));

/*
 * Makes contexts until their indices are those below `contexts`.
 * Returns: whether they are; not iff `contexts` is above config.contexts, or
 * (window) there is no memory for their tables.
 * Requires: no other call of this function meanwhile; who is given an index is
 * told of it by a lock or the like.
 * Context: task, and config.attach.  Calls: commit (window).
 */
bool fallow_more_contexts(struct fallow *heap, unsigned contexts)
	__attribute__((warn_unused_result));

/*
 * Gives everything back, blocks in use too; *heap is plain storage again.
 * Requires: no other context uses the heap.  Context: task.
 * Calls: decommit, release.
 */
void fallow_fini(struct fallow *heap);

/*
 * Allocates at least `size` bytes, aligned to 16 and to the largest power of
 * two, up to the slice, that divides fallow_good_size(size).  A size of 0 is
 * a block of its own.
 * Returns: the block, or NULL iff `size` is above FALLOW_SIZE_MAX or the
 * memory is exhausted.
 * Context: any.  Calls: commit or reserve; in task context also decommit or
 * release, and the pressure hook, before NULL.
 */
#define FALLOW_SIZE_MAX (PTRDIFF_MAX)
void *fallow_alloc(struct fallow *heap, size_t size)
	__attribute__((malloc, alloc_size(2), warn_unused_result));
void *fallow_alloc_flags(struct fallow *heap, size_t size, unsigned flags)
	__attribute__((malloc, alloc_size(2), warn_unused_result));

/* As fallow_alloc(), every byte zero. */
void *fallow_zalloc(struct fallow *heap, size_t size)
	__attribute__((malloc, alloc_size(2), warn_unused_result));

/* As fallow_zalloc(count * size); NULL also iff the product overflows. */
void *fallow_calloc(struct fallow *heap, size_t count, size_t size)
	__attribute__((malloc, alloc_size(2, 3), warn_unused_result));

/*
 * As fallow_alloc(), aligned to `align`, a power of two of any size.
 * Misuse: BAD_ALIGNMENT, and NULL.
 */
void *fallow_alloc_aligned(struct fallow *heap, size_t align, size_t size)
	__attribute__((malloc, alloc_align(2), alloc_size(3),
		warn_unused_result));
void *fallow_alloc_aligned_flags(
	struct fallow *heap, size_t align, size_t size, unsigned flags)
	__attribute__((malloc, alloc_align(2), alloc_size(3),
		warn_unused_result));

/*
 * Changes the size of a block, moving it if it must; the bytes up to the
 * smaller size stay, and so does an alignment asked for when the block was
 * allocated.  p NULL is fallow_alloc(size).  A size of 0 gives a block of the
 * smallest size: it never frees.
 * Returns: the block, or NULL iff it could not grow; the old one is intact.
 * With FALLOW_NOWAIT the block that it moved from may be put by, as by
 * fallow_free_deferred(), where its free would have to wait.
 * Misuse: as fallow_free(), and NULL.  Context, Calls: as fallow_alloc().
 */
void *fallow_realloc(struct fallow *heap, void *p, size_t size)
	__attribute__((alloc_size(3), warn_unused_result));
void *fallow_realloc_flags(
	struct fallow *heap, void *p, size_t size, unsigned flags)
	__attribute__((alloc_size(3), warn_unused_result));

/*
 * Frees a block; NULL does nothing.  It never needs memory.
 * Misuse: DOUBLE_FREE, FOREIGN, INTERIOR, UNFORMED.
 * Context: any but an NMI.  Calls: sweep_wanted.
 */
void fallow_free(struct fallow *heap, void *p);

/*
 * Frees a block where fallow_free() is not legal: puts it by with one
 * compare-and-swap, and the next call that can frees it: an allocation in a
 * task that takes the slow path (but for NOWAIT ones), a sweep or reclaim, an
 * offline, the heap's end.  Until then it is a block in use to fallow_walk(),
 * fallow_check() and the snapshot, which also says how many there are.
 * Misuse: as fallow_free(), noticed here, reported where the block would have
 * been freed; of more than four between two such calls only the counter tells.
 * A block that is written to afterwards costs those deferred before it.
 * Context: any, also an NMI, in handlers of the model THREAD too, and in code
 * that has no context yet; in the model SINGLE as fallow_free().
 * Locks, Calls: none.
 */
void fallow_free_deferred(struct fallow *heap, void *p);

/*
 * Blocks that were allocated in advance.  Storage of the caller's, zero at the
 * begin; the blocks are linked through themselves.
 */
struct fallow_token {
	/* fallow's. */
	void *first;
	/* May be read: how many blocks are left, and what was asked for. */
	size_t left;
	size_t size;
	bool zero;
};

/*
 * Fills the token up to n blocks of `size` bytes, aligned as those of
 * fallow_alloc(); with FALLOW_ZERO every byte is zero.  Flags as in
 * fallow_alloc_flags().
 * Returns: whether n blocks, or more, are in it.  If not, all that was taken
 * has been given back and the token is as before: iff the memory is exhausted,
 * or the token holds blocks of another size, or of the same with and without
 * FALLOW_ZERO.
 * Context: as fallow_alloc_flags(); the token is nobody else's meanwhile.
 * Time: proportional to n.  Calls: as fallow_alloc_flags().
 */
bool fallow_prefill(struct fallow *heap, struct fallow_token *token,
	size_t size, size_t n, unsigned flags)
	__attribute__((warn_unused_result));

/*
 * Takes a block out of the token; fallow_free() frees it.
 * Returns: the block; NULL iff none is left.
 * Context: any in every model, also an NMI, with or without a context.  A
 * token is used by one execution at a time: one that a handler takes from is
 * changed by others with that handler kept away.  Time: a few instructions.
 * Calls: none.
 */
void *fallow_alloc_from(struct fallow_token *token)
	__attribute__((warn_unused_result));

/*
 * Frees the blocks that are left in the token, which is then empty.
 * Context: as fallow_free().  Time: proportional to their number.
 * Calls: sweep_wanted.
 */
void fallow_unfill(struct fallow *heap, struct fallow_token *token);

/*
 * Frees a block whose size the caller knows: any size that an allocation or
 * reallocation of this block was last asked for.
 * Misuse: as fallow_free(), and WRONG_SIZE.
 */
void fallow_free_sized(struct fallow *heap, void *p, size_t size);

/* Returns the bytes that the block can be used for; 0 for NULL.
 * Misuse: as fallow_free(), and 0. */
size_t fallow_usable_size(struct fallow *heap, const void *p);

/* Returns the usable size of a block that fallow_alloc(size) returns; 0 iff
 * `size` is above FALLOW_SIZE_MAX.  Only where memory has run out, with
 * FALLOW_NOWAIT, or with config.pace_from_bytes, is a block larger: rounded up to
 * granules, or one of a larger class. */
size_t fallow_good_size(size_t size) __attribute__((const));

/* Whether the address is in a page or span of this heap.  Context: any. */
bool fallow_owns(struct fallow *heap, const void *p);

/*
 * Gives back memory that has not been used for a while: to be called from an
 * idle loop or a thread, and again when it says.  It goes over the pages of
 * this context, of parked ones and of none, and the free slices: pages without
 * a block in use, granules between blocks in use, committed tails.  What was
 * used of late stays (struct fallow_config: the floor); everything that is not
 * used any more has gone floor_epochs later.
 * `budget`: pages to look at, at most.
 * Returns: ticks of the provider's clock until a sweep can be of use again (1
 * if the budget was spent, if there is no clock, or where interrupts are off);
 * 0: nothing is left to be given back before the context is used again.
 * What the provider refuses is asked for again an epoch later; where nothing
 * else is left, each time twice as many later, up to 64 (that many ticks if
 * there is no clock).  Until then sweep_wanted() tells of anything new, as after
 * a 0.
 * Context: task.  Calls: decommit, release, discard, now.
 */
uint64_t fallow_sweep(struct fallow *heap, size_t budget);

/* Without a clock: the next sweep begins an epoch, whichever context makes it.
 * (The context that began the last one does so with every sweep.)
 * Context: any. */
void fallow_tick(struct fallow *heap);

enum fallow_reclaim_level {
	/* Whatever is not in the floor, though it was used just now. */
	FALLOW_RECLAIM_HOLD = 1,
	/* The floor too. */
	FALLOW_RECLAIM_FLOOR,
	/* Also what splits large mappings. */
	FALLOW_RECLAIM_SPLIT,
};

/*
 * Gives back now what holds no block, as far as the level says, of the same
 * pages as fallow_sweep().  Other contexts that run are asked to part with
 * theirs: they do so in their next allocations that take the slow path, and
 * the next sweep or reclaim gives it back.  A number below the levels is the
 * first, one above them the last.
 * Returns: the bytes given back.
 * Context: task.  Calls: decommit, release, discard.
 */
size_t fallow_reclaim(struct fallow *heap, enum fallow_reclaim_level level);

/* fallow_reclaim() at level FALLOW_RECLAIM_FLOOR. */
size_t fallow_collect(struct fallow *heap);

/*
 * The calling context will not use the heap for long or ever: all its pages
 * are handed to whoever needs them.  Its next use of the heap is legal; what a
 * handler on its CPU takes meanwhile is handed on too, or stays where it is if
 * the thread that makes this call moves to another CPU in the middle of it.
 * Context: any.  Time: proportional to its pages, with interrupts masked for no
 * more than one of them.  Calls: sweep_wanted.
 */
void fallow_offline(struct fallow *heap);

/*
 * The calling context will not use the heap for a while: until it does, others
 * that look for memory may give back what its pages hold without a block.  To
 * be called before a CPU idles or a thread blocks; what it frees meanwhile, in
 * a handler, is freed as by another context.  In the model SINGLE it does
 * nothing.
 * Context: any.  Time: constant.  Calls: sweep_wanted.
 */
void fallow_park(struct fallow *heap);

/*
 * Model THREAD: parks another context, that of a thread which may be running,
 * because it seems to have blocked without fallow_park().  From its next call on
 * it is parked, and that call, if it is an allocation, unparks it.  But one that
 * has begun already may still be under way.
 * Then, when the context has been outside of every call at a moment after the
 * first step, fallow_park_settle() says so, and from then on others may act for
 * it; returns whether they may: not iff the context is not parked any more.
 * Such a moment is one after a barrier in every thread (on Linux, membarrier())
 * at which the port says that the context is in no call.
 * fallow_park_cancel() takes the first step back.
 * An allocation that unparks such a context calls sweep_wanted(), if the last
 * sweep said that nothing was left: it has to be parked again.
 * Context: any, also without a context.  Time: constant.  Calls: none.
 * In other models they do nothing.
 */
void fallow_park_context(struct fallow *heap, unsigned context);
bool fallow_park_settle(struct fallow *heap, unsigned context);
void fallow_park_cancel(struct fallow *heap, unsigned context);

/*
 * Ends the parking, as the context's next allocation does by itself: takes the
 * wait for a call that is looking at one of its pages, if there is one, out of
 * that allocation.  A FALLOW_NOWAIT allocation does not wait and returns NULL.
 * Context: any.  Time: constant, or until that look is over.  Calls: none.
 */
void fallow_unpark(struct fallow *heap);

/*
 * Verifies every invariant of the heap.
 * Requires: no other context uses the heap, no call is in progress.
 * Returns: NULL if all hold, else the invariant that is broken, as it is
 * written in the source; *where, if not NULL, is an address it is about.
 * Context: any.  Time: proportional to the memory handed over.  Calls: none.
 */
const char *fallow_check(struct fallow *heap, uintptr_t *where)
	__attribute__((warn_unused_result));

enum fallow_item_kind {
	/* A size-class page. */
	FALLOW_ITEM_PAGE = 1,
	FALLOW_ITEM_SPAN,
	/* A block in use, inside the page last visited. */
	FALLOW_ITEM_BLOCK,
};

struct fallow_item {
	enum fallow_item_kind kind;
	uintptr_t base;
	/* Of the addresses it takes up. */
	size_t size;
	/* PAGE: of its blocks.  SPAN, BLOCK: usable bytes. */
	size_t block_size;
	/* PAGE: blocks in use, blocks ever formed, blocks that fit. */
	uint32_t used, formed, capacity;
	/* Bytes of it that are committed (not for BLOCK). */
	size_t committed;
	uint32_t owner;
};

/*
 * Visits every page (in no stated order), each followed by its blocks in use
 * in address order if `blocks`, and every span.  `visit` returns whether to
 * go on and must not call into the heap.
 * Requires: as fallow_check().  Returns: whether all was visited.
 */
bool fallow_walk(struct fallow *heap, bool blocks,
	bool (*visit)(void *arg, const struct fallow_item *item), void *arg);

/*
 * What can be seen.  Bytes unless the name says otherwise.  "Now" values are
 * exact when no other context is inside the heap; counters never fall.
 */
struct fallow_snapshot {
	/* sizeof(struct fallow_snapshot), set by the caller. */
	size_t size;
	/* Now: addresses handed over by regions or reserved. */
	size_t reserved;
	/* Now: memory behind blocks, pages and free slices, without tables. */
	size_t committed;
	size_t committed_peak;
	/* Now: memory of the heap's tables. */
	size_t tables;
	/* Now: usable bytes of blocks in use. */
	size_t live;
	/* The largest `live` seen at slow paths, which learn late of what
	 * others and the hot paths did: near the true peak, below or above,
	 * and at least `live` at the last snapshot. */
	size_t live_peak;
	/* Now: blocks in use, pages, spans, chunks that hold any of them. */
	size_t blocks, pages, spans, chunks;
	/* Now: bytes of free blocks whose memory was given back. */
	size_t holes;
	/* Counters: provider calls of each kind, and what they moved. */
	uint64_t commits, decommits, reserves, releases;
	uint64_t committed_total, decommitted_total;
	/* Counters: commits and reserves that had no memory; ranges refused. */
	uint64_t no_memory, refusals;
	/* Counter: bytes committed again within 16 epochs of their decommit. */
	uint64_t regretted;
	/* Counters: allocations that returned NULL, but for products that
	 * overflow; misuses seen. */
	uint64_t failures, misuses;
	/* Counters: blocks freed by a context that did not own the page,
	 * as taken in by the owner; pages abandoned; pages adopted. */
	uint64_t remote_frees, abandoned, adopted;
	/* Counter: entries into the allocation slow path. */
	uint64_t slow_paths;
	/* Now: of `blocks`, those that fallow_free_deferred() has put by. */
	size_t deferred;
	/* Now: bytes of the emergency pool, 0 until it is filled; of these, in
	 * blocks in use.  `committed` has the first, `live` the second. */
	size_t reserve, reserve_live;
	/* Counter: allocations that the emergency pool has served. */
	uint64_t reserve_served;
};

/* Fills *snapshot up to the size it says.  Context: any; time proportional
 * to the number of pages.  Calls: none. */
void fallow_snapshot(struct fallow *heap, struct fallow_snapshot *snapshot);

/* One row of the per-class table. */
struct fallow_class_row {
	size_t block_size;
	/* Usable by blocks of one page, its addresses. */
	size_t page_size;
	/* Now, as above. */
	size_t pages, blocks_used, blocks_formed, committed;
};

/* Fills at most n rows, one a class in ascending size; returns how many
 * classes there are. */
size_t fallow_class_table(
	struct fallow *heap, struct fallow_class_row *rows, size_t n);

/* Prints the snapshot and the table of classes in use, as text with \n, one
 * byte at a time.  Needs no memory.  `putc` must not call into the heap. */
void fallow_print(
	struct fallow *heap, void (*putc)(void *arg, char c), void *arg);

/*
 * Bytes of tables that a heap of class flat or direct with this window and
 * number of contexts can need at most; see config.tables.
 */
size_t fallow_table_bytes(
	uintptr_t window_base, size_t window_size, unsigned contexts)
	__attribute__((const));

#ifdef __cplusplus
}
#endif

#endif
