/* SPDX-License-Identifier: MIT */
/*
 * What backs addresses with memory.
 *
 * A heap never maps, unmaps or finds memory by itself: it asks a provider, a
 * table of functions that the embedder fills in or takes ready-made (the
 * page-table providers in arch/, fallow/flat.h, fallow/direct.h).  Three
 * classes of provider exist, and a heap treats each as what it is:
 *
 *   window  The heap has a range of addresses of its own.  commit() backs any
 *           part of it with memory, decommit() takes the memory away again.
 *   direct  RAM that is always mapped, at a fixed offset.  reserve() takes a
 *           run of it from the frame allocator, release() gives one back.
 *   flat    The regions given to the heap are all there ever is.
 *
 * Units: addresses and sizes are bytes, ranges are half-open.
 *
 * What fallow promises about every call:
 *   - no size is zero, every base and size is a multiple of the granule;
 *   - no lock of fallow is held, and interrupts are as they were when the
 *     embedder called fallow;
 *   - two calls that run at once never name the same granule;
 *   - no byte is read or written that is not committed, so no page-fault
 *     handler is needed, and none is relied on (unless FALLOW_DEMAND; on
 *     several aarch64 CPUs without FEAT_ETS2 a first touch may fault once for
 *     nothing: fallow/pagetable.h);
 *   - decommit, discard, promote, move and release are only called where
 *     interrupts were on at the entry to fallow (and preemption, in the model
 *     PREEMPT) and the caller did not say FALLOW_NOWAIT.  commit and reserve
 *     may be called in any context, from interrupt handlers too, unless the
 *     caller said FALLOW_NOWAIT.
 *
 * What fallow needs of every function but sweep_wanted: it must not call into
 * the heap that called it.  Such a call is reported as FALLOW_MISUSE_REENTRY
 * where it can be seen, and never waits for itself.
 */
#ifndef FALLOW_PROVIDER_H
#define FALLOW_PROVIDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum fallow_provider_class {
	FALLOW_CLASS_WINDOW = 1,
	FALLOW_CLASS_DIRECT = 2,
	FALLOW_CLASS_FLAT = 3,
};

/* Capability bits, read once by fallow_init(). */
enum fallow_capability {
	/* decommit() may cut a hole into a large mapping: it splits it. */
	FALLOW_CAN_DEMOTE = 1u << 0,
	/* promote() is there. */
	FALLOW_CAN_PROMOTE = 1u << 1,
	/* move() is there. */
	FALLOW_CAN_MOVE = 1u << 2,
	/* discard() is there. */
	FALLOW_CAN_DISCARD = 1u << 3,
	/* Uncommitted memory may be touched: it reads as zeroes (a host). */
	FALLOW_DEMAND = 1u << 4,
};

/* Flags of commit(). */
enum fallow_commit_flags {
	/* The range covers whole large mappings: use them if you can. */
	FALLOW_PREFER_LARGE = 1u << 0,
	/* Place the frames so that the chunk can be promoted in place. */
	FALLOW_RESERVED = 1u << 1,
	/* Bits 8 to 15: the memory node wanted, plus one; 0 is any.
	 * Bits 16 to 23: the memory type, provider-defined; 0 is normal. */
};

/* What commit() did: NO_MEMORY alone, or DONE with the bits that are true. */
enum fallow_commit_result {
	FALLOW_COMMIT_NO_MEMORY = 0,
	FALLOW_COMMIT_DONE = 1u << 0,
	/* Every byte of the range reads as zero. */
	FALLOW_COMMIT_ZEROED = 1u << 1,
	/* Every chunk of the range is one large mapping. */
	FALLOW_COMMIT_LARGE = 1u << 2,
};

enum fallow_range_result {
	/* The memory is gone and no CPU can reach its frames any more. */
	FALLOW_RANGE_DONE = 0,
	/* Nothing changed: the range is committed and its bytes are intact. */
	FALLOW_RANGE_REFUSED = 1,
};

/* One range of a decommit() or discard(), and how it went. */
struct fallow_range {
	uintptr_t base;
	size_t size;
	enum fallow_range_result result; /* written by the provider */
};

/* The most ranges that one decommit() or discard() call carries. */
#define FALLOW_RANGES_MAX 64

struct fallow_provider {
	/* sizeof(struct fallow_provider): lets the struct grow. */
	size_t size;
	enum fallow_provider_class provider_class;
	unsigned capabilities; /* of enum fallow_capability */
	/* log2 of the smallest mapping: the build's granule. */
	unsigned granule_log2;
	/* log2 of the large mapping: 0 for none, else the build's chunk. */
	unsigned large_log2;
	/* Passed to every function. */
	void *ctx;

	/*
	 * Class window.  Backs [base, base + size) with memory, all or
	 * nothing.  No part of it is committed.  `flags` is of
	 * enum fallow_commit_flags.
	 * Returns: enum fallow_commit_result bits.
	 * Fails (NO_MEMORY) iff frames or table pages are not to be had.
	 * Context: any.
	 */
	unsigned (*commit)(
		void *ctx, uintptr_t base, size_t size, unsigned flags);

	/*
	 * Class window.  Takes the memory of n ranges away, 1 <= n <=
	 * FALLOW_RANGES_MAX, with one shootdown for all of them, and writes
	 * each range's result.  Every range is committed; ranges do not
	 * overlap.  When it returns, no CPU can reach the frames of a range
	 * that is DONE.  It needs no memory.  A range that would split a
	 * large mapping is REFUSED without FALLOW_CAN_DEMOTE.
	 * Context: interrupts on, may wait for other CPUs.
	 */
	void (*decommit)(void *ctx, struct fallow_range *ranges, size_t n);

	/*
	 * Class flat, optional (FALLOW_CAN_DISCARD).  The ranges stay usable,
	 * their contents are lost: a hint to a hypervisor.
	 * Context: as decommit.
	 */
	void (*discard)(void *ctx, struct fallow_range *ranges, size_t n);

	/*
	 * Class window, optional (FALLOW_CAN_PROMOTE).  `chunk` is the
	 * aligned base of a chunk that is committed whole by granules; makes
	 * it one large mapping without copying, all bytes intact.
	 * Returns: whether it is one large mapping now.
	 * Context: as decommit.
	 */
	bool (*promote)(void *ctx, uintptr_t chunk);

	/*
	 * Class window, optional (FALLOW_CAN_MOVE).  The frames of
	 * [from, from + size), committed, reappear at `to`, uncommitted, in
	 * the same order; `from` is uncommitted afterwards.
	 * Returns: whether it was done; if not, nothing changed.
	 * Context: as decommit.
	 */
	bool (*move)(void *ctx, uintptr_t from, uintptr_t to, size_t size);

	/*
	 * Class direct.  Takes a run of `size` bytes aligned to `align`, a
	 * power of two and at least the granule.
	 * Returns: its address, inside the heap's window, or 0 iff there is
	 * no such run.
	 * Context: any.
	 */
	uintptr_t (*reserve)(void *ctx, size_t size, size_t align);

	/*
	 * Class direct.  Gives back a run, any part of one, or runs side by
	 * side and parts of them: a range whose base and size are multiples of
	 * the granule, all of it reserved.
	 * Context: as decommit.
	 */
	void (*release)(void *ctx, uintptr_t base, size_t size);

	/* Optional.  A clock in ticks of the provider's choice that never
	 * runs backwards, but may begin anew after 2^64.  Context: any. */
	uint64_t (*now)(void *ctx);

	/* Optional.  A sweep has become useful again, `ticks` from now, though
	 * the last one said that nothing was left: a context was parked or went
	 * offline, a block of such a one's page was freed, a parked one has
	 * freed a span, or one that was asked for memory has handed some over,
	 * or put to use again after fallow_park_context().  Called once, until a
	 * sweep says so again.  Of all functions this one may call into the
	 * heap.  Context: any; interrupts as at the entry. */
	void (*sweep_wanted)(void *ctx, uint64_t ticks);

	/* Optional.  A clock as now(), of ticks as long, that runs while the
	 * heap's users do and not while they wait or others run: of what
	 * config.pace_ticks are a part; else that is now().  Context: any. */
	uint64_t (*spent)(void *ctx);
};

#ifdef __cplusplus
}
#endif

#endif
