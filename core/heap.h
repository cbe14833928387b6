/* SPDX-License-Identifier: MIT */
/*
 * What the heap is made of, in one place: records, chunks, locals, the heap.
 *
 * Who may write what:
 *
 *   page, first line     the page's owner: the context whose index it carries
 *                        (inside enter/leave), or in state TRANSIT the one
 *                        call that took it out of its lists
 *   page, `remote`       any context, by compare-and-swap (remote.h)
 *   local, lists, and    its context, inside enter/leave; while it is parked
 *   the pages in them    (parked_open()), any context under local->lock
 *   local, `notified`    any context under local->lock; emptied by whoever
 *                        may write the lists
 *   parked[], serving[]  their context, or another that parks it, under
 *                        local->lock
 *   chunk, heap, lists   under heap->lock
 *   populated[s]         whoever holds slice s: the page's owner, the span's
 *                        user, or, for a free slice, the holder of heap->lock
 *
 * Lock order: local->lock, then heap->lock.  Neither is held across a call out
 * of the library, and neither is held longer than a walk over one page's
 * slices or over the few candidates of a list.
 */
#ifndef CORE_HEAP_H
#define CORE_HEAP_H

#include <fallow/fallow.h>

#include "atomic.h"
#include "lock.h"
#include "sizeclass.h"

/* Where a page is linked.  Only the page's owner reads or writes it, or, for
 * PLACE_ABANDONED, the holder of heap->lock. */
enum place {
	PLACE_NONE = 0,  /* nowhere: new, or in TRANSIT */
	PLACE_CURRENT,   /* what its class allocates from */
	PLACE_QUEUE,     /* has a free block */
	PLACE_DRY,       /* had none when it came here, but can have more */
	PLACE_FULL,      /* every block was handed out when it came here */
	PLACE_ABANDONED, /* in heap->abandoned */
};

struct own;

/* Free memory of a small page: the links of its lists are in the blocks. */
struct block {
	struct block *next;
	uint64_t mark; /* page->mark while the block is free */
};

struct fallow_usage;

/*
 * What the heap knows of a page or span; kept in its chunk's table, at the
 * index of its first slice.
 *
 * Invariants (checked by fallow_check under these names):
 *   used <= formed <= capacity
 *   used + free == formed, where `used` counts remote frees not yet folded
 *   formed blocks lie in the committed prefix
 */
struct page {
	/* The owner's line. */
	union {
		struct block *free; /* PAGE_SMALL: blocks that can be had */
		uint64_t bits;      /* others: a bit for each such block */
		void *arena;        /* PAGE_SPAN: whose it is, or NULL */
	};
	/* page_used() is `wake` and so many more: a free that makes it 0 takes
	 * the slow path. */
	uint32_t above;
	uint32_t wake;
	union {
		uint64_t magic; /* page_place() */
		size_t asked; /* PAGE_SPAN of an arena: see bump_span.c */
	};
	uint64_t limit; /* PAGE_SMALL: small_begins(); of others 0 */
	union {
		/* PAGE_SMALL: what the second word of its free blocks holds,
		 * and no other page ever had: odd, so no block's address. */
		uint64_t mark;
		uint64_t clean;   /* bit-word pages: blocks known to be zero */
		size_t span_size; /* PAGE_SPAN: bytes, whole granules */
	};
	uint32_t block_size;
	uint32_t formed; /* blocks that were ever on a list: page_form() */
	uint8_t class;
	uint8_t kind; /* enum page_kind */
	uint8_t place; /* enum place */
	/* The largest alignment, log2, that a block was asked for with.  If not
	 * 0, a sized free may name less than half of a block. */
	uint8_t loose;
	/* Context, with OWNER_BITS unless the page is small, and OWNER_HOLES if
	 * it has or had holes; or OWNER_NONE, which says nothing about them. */
	uint32_t owner;
	uintptr_t base;

	/* Others write here, or few do. */
	uint64_t remote; /* remote.h */
	struct page *next; /* circular in its list, see `place` */
	struct page *prev;
	union {
		struct page *notified_next;
		uint16_t frozen; /* abandoned: blocks that were in use then */
	};
	struct chunk *chunk;
	uint32_t clean_from;    /* bytes from here to committed are zero */
	uint32_t committed;     /* bytes of the committed prefix */
	uint16_t capacity;      /* blocks that fit */
	uint16_t accounted;     /* blocks counted in heap->live */
	uint32_t seen;          /* the sweep that last looked here: page_seen() */
	uint16_t looked;        /* the search that last looked here */
	uint16_t epoch;         /* of its last use: low bits of heap->epoch */
	/* `used` when a sweep last looked, with PAGE_DUE if no sweep has walked
	 * the page as it is now, and PAGE_SKIPPED if one has passed it by. */
	uint16_t swept_used;
	uint8_t first_slice;    /* in its chunk */
	uint8_t slices;         /* of a page */
};

#define PAGE_DUE ((uint16_t)1 << 15)
#define PAGE_SKIPPED ((uint16_t)1 << 14)
#define PAGE_USED ((uint16_t)(PAGE_SKIPPED - 1))
/* Of `wake`: no page has so many blocks that one less is this. */
#define WAKE_NEVER UINT32_MAX
#define OWNER_HOLES ((uint32_t)1 << 31)
#define OWNER_BITS ((uint32_t)1 << 30)
#define OWNER_FLAGS (OWNER_HOLES | OWNER_BITS)
_Static_assert(FALLOW_CONTEXTS_MAX < OWNER_BITS, "an index leaves the bits");
/* Nobody: not what a register that was never set holds as an index, which the
 * hot free compares with it before anything else has looked. */
#define OWNER_NOBODY ((uint32_t)0x0badc0de)
#define OWNER_NONE (OWNER_HOLES | OWNER_NOBODY)
/* Nobody's either: a span that whoever frees it may keep, because it is of no
 * arena, not the emergency pool, and small enough. */
#define OWNER_FREER (OWNER_BITS | OWNER_NOBODY)
_Static_assert((OWNER_NOBODY & OWNER_FLAGS) == 0 &&
		FALLOW_CONTEXTS_MAX < OWNER_NOBODY, "nobody is no index");
/* The owner whose pages a parked context frees into itself: no page's, not with
 * OWNER_BITS either. */
#define OWNER_PARKED (OWNER_FLAGS | OWNER_NOBODY)
_Static_assert(SLICE_BYTES / 16 < PAGE_USED, "blocks are counted in 14 bits");

_Static_assert(offsetof(struct page, remote) == CACHE_LINE_BYTES,
	"the owner's line is one cache line");
_Static_assert(sizeof(struct page) == 2 * CACHE_LINE_BYTES,
	"a record is two cache lines");

enum mapping {
	MAPPING_NONE = 0,
	MAPPING_GRANULES,
	MAPPING_LARGE,
};

/*
 * What the heap knows of a chunk.
 *
 * Invariants: free & ~present == 0, heads & free == 0, warm & ~free == 0,
 * idle & ~free == 0, count == bits_count(free), bin == the longest run of free
 * slices, and the chunk is in that bin's list iff bin is not 0.
 */
struct chunk {
	uintptr_t base;
	struct page *records; /* CHUNK_SLICES of them, or NULL so far */
	struct chunk *next, *prev;
	uint32_t present; /* slices that were handed over or reserved */
	uint32_t fixed;   /* of these, not to be released (class direct) */
	uint32_t free;    /* of these, in no page or span */
	uint32_t warm;    /* of the free, with memory that can be given back */
	uint32_t heads;   /* slices where a page or span begins */
	uint32_t idle;    /* of the warm, free since the last round: pace.c */
	uint8_t bin;
	uint8_t mapping; /* enum mapping */
	uint8_t broken;
	uint8_t count; /* free slices */
	/* Pages by their heads whose owners have made granules pending for
	 * somebody else to give back. */
	uint32_t handed;
	/* A bit for each granule that is committed: the one truth about it.
	 * A granule of a page's formed area without its bit is a hole. */
	uint16_t populated[CHUNK_SLICES];
	/* Granules that are about to become holes. */
	uint16_t pending[CHUNK_SLICES];
	/* When a slice became free, or with STAMP_PURGED, when memory of it was
	 * last given back: low bits of heap->epoch.  Its holder's to write. */
	uint16_t stamp[CHUNK_SLICES];
};

#define STAMP_PURGED ((uint16_t)1 << 15)
#define STAMP_EPOCHS ((uint16_t)(STAMP_PURGED - 1))

/* Counters of one context.  Each has one writer at a time, this context or who
 * sweeps it while it is parked, but the last: both may add to that. */
struct local_counters {
	uint64_t slow_paths, failures, remote_frees;
	uint64_t abandoned, adopted;
	uint64_t misuses;
};

/* How many free spans a context keeps where memory is held that nobody touches,
 * and how large each may be: together no more than one page of each of a few
 * classes. */
#define SPANS_KEPT 4
#define SPAN_KEPT_MAX (CHUNK_BYTES / 2)

/* A bit for each class. */
#define EMPTIED_WORDS ((CLASS_COUNT + 63) / 64)

/* What a context owns of a heap. */
struct local {
	/* Never NULL: &fl_page_none where there is none. */
	struct page *current[CLASS_COUNT];
	/* The class of each size up to SIZE_DIRECT_MAX: size_class(), as a load
	 * where the local is at hand anyway.  Written once. */
	uint8_t classes[SIZE_DIRECT_MAX + 1];
	struct page *queue[CLASS_COUNT];
	struct page *full[CLASS_COUNT];
	struct page *dry[CLASS_COUNT];
	struct local_counters counters;
	uint32_t index;
	/* Provider calls and hooks of this context under way from which no
	 * other code can legally come back to the heap. */
	uint32_t calling;
	uint32_t reporting; /* of these, calls of the misuse hook */
	/* The epoch in which the context last swept to the end, and that in
	 * which its budget was spent on pages that it passed by, or 0. */
	uint32_t swept, passed;
	/* The epoch in which the provider last refused a range to the context's
	 * sweep, and how many epochs it then lets pass. */
	uint32_t refused_in, refused;
	/* Sweeps of the context's own under way that have unparked it and will
	 * park it again: changed under `lock`, read by frees beside it. */
	uint32_t parks_again;
	/* heap->request as it was last answered, and as it is being answered:
	 * the same between two. */
	uint32_t answered, answering;
	/* counters.slow_paths when it last made a round: pace.c. */
	uint64_t paced;
	uint32_t pass_class; /* where such a walk over its pages goes on */
	/* The latest sweep that took pages of its lists in turn, and the latest
	 * that may miss some: see pass_missed(). */
	uint32_t pass, moved;
	/* Spans that the context freed and has kept for its next ones, linked
	 * by `next`, the youngest first: span.c. */
	struct page *kept;
	uint32_t kept_count;
	/* A bit for each class in whose queue, at the end, there may be a page
	 * without a block. */
	uint64_t emptied[EMPTIED_WORDS];
	/* Taken to tell the context of a page, to go offline, to park and to
	 * unpark, and by whoever sweeps what is parked. */
	_Alignas(CACHE_LINE_BYTES) struct lock lock;
	/* Pages that others found worth looking at again: pushed under `lock`,
	 * taken all at once by the context. */
	struct page *notified;
	struct page *told; /* the context's own: taken, not looked at yet */
	struct own *own;   /* own.h; or NULL.  Of the port's, for good. */
};

/* A run of addresses whose head is committed and used. */
struct area {
	uintptr_t base;
	size_t used, committed, limit;
};

/* A region as it was added, trimmed to slices. */
struct region {
	uintptr_t base, end;
	/* Class window: chunks of it below this one have been opened. */
	size_t frontier;
	uintptr_t given_base, given_end; /* as the embedder said */
};

/* Table memory that class direct reserved; kept at its own begin. */
struct extent {
	struct extent *next;
	size_t size;
};

/* A misuse that is to be reported when that can be done; address 0: none. */
struct note {
	uintptr_t address;
	uintptr_t caller; /* of fallow_free_deferred() */
	uint32_t kind; /* enum fallow_misuse_kind, once the note is whole */
};

/* Notes that are kept from one drain to the next: the first few say what is
 * wrong, the counter says how often. */
#define NOTES 4

struct heap_counters {
	size_t committed, committed_peak, tables, live, live_peak, reserved;
	uint64_t commits, decommits, reserves, releases;
	uint64_t committed_total, decommitted_total;
	uint64_t no_memory, refusals;
	uint64_t misuses; /* of contexts that there are not */
	uint64_t regretted; /* bytes */
};

/* How a context is parked.  Announced: its next call takes the slow path, but
 * it may still be inside one, so nobody else may act for it. */
enum parked {
	PARKED_NOT = 0,
	PARKED_ITSELF = 1,
	PARKED_ANNOUNCED = 2,
	PARKED_SETTLED = 3, /* announced once, and seen outside since */
};

/* Whether others may act for the context; under its lock. */
static inline bool parked_open(uint8_t parked)
{
	return parked == PARKED_ITSELF || parked == PARKED_SETTLED;
}

enum wanted {
	WANTED_REST = 0, /* the last sweep left nothing */
	WANTED_SWEEPING, /* a sweep has begun, and nobody asked since */
	WANTED_YES,      /* somebody did, or a sweep is still to come */
	WANTED_FIRST,    /* too little is committed for anybody to ask */
};

/* Pieces that do not fit into the floor are passed by so often, less one. */
#define FLOOR_RUNS 4

/* From this slice of the window on the floor keeps pieces of at most so many
 * granules. */
struct floor_run {
	size_t from, most;
};

/* What sweeps agree on, under heap->lock but for what is read beside it. */
struct sweeping {
	uint64_t epoch_ticks, began; /* of this epoch, by the clock */
	size_t floor_wanted;         /* as configured; 0: the default */
	size_t first_bytes;          /* committed, for WANTED_FIRST to end */
	uint32_t floor_epochs;
	uint32_t owner;    /* without a clock: who began this epoch */
	uint32_t number;   /* of this epoch's pass over pages */
	uint32_t later;    /* the epoch in which something shared was left */
	uint32_t wanted;   /* enum wanted */
	uint32_t changed;  /* the epoch in which something shared last changed:
			    * slices were freed, a context was parked */
	/* Batches of memory on its way back, and those that have come there:
	 * changed atomically by anybody. */
	uint32_t giving, given;
	size_t at;         /* the slice that this epoch's pass has come to */
	/* What the floor keeps, by steps of age: those that stay whole, and
	 * the one of which pieces do (floor.c).  In granules, what it may and
	 * what it does, as counted when that was decided. */
	uint64_t floor_ages;
	uint32_t floor_age;
	struct floor_run floor_runs[FLOOR_RUNS];
	size_t floor_limit, floor_kept;
	uint32_t current_left; /* bytes that current pages may keep */
};

/* When the next round is due: pace.c. */
struct pacing {
	size_t at;      /* committed bytes; SIZE_MAX: never */
	uint64_t ticks; /* that pass for a granule; 0: not bounded by time */
	uint64_t paid;  /* when those for what has gone so far have passed */
	bool begun;     /* there is a `paid` */
	uint32_t busy;  /* a round is under way: nobody inside, none */
};

struct heap {
	/* What an allocation or a free reads; written once, but `map_slices`
	 * which only grows. */
	/* Where chunks are counted from: in class window where the tables end,
	 * else where the window begins, rounded down to a chunk. */
	uintptr_t base;
	size_t map_slices;
	/* For each slice the record of what is there, or &fl_page_nobody. */
	struct page **map;
	/* What an allocation looks into, by context: its local, or the one that
	 * has nothing while it is parked. */
	struct local **serving;
	struct local **locals;
	uint64_t secret;
	uint32_t contexts; /* 0 until the tables have begun */
	uint32_t contexts_first, contexts_wanted; /* at once; at most */
	bool lean; /* fl_size_page_slices(); what is freed is at once for all */
	uint32_t spans_kept; /* at most, by each context */
	uint32_t searches; /* over pages, ever: each has a number */
	uint32_t sweeps;   /* the same for sweeps */
	struct fallow_provider provider;
	enum fallow_misuse_policy policy;
	void (*misuse)(void *ctx, const struct fallow_misuse *report);
	void *misuse_ctx;
	bool (*pressure)(void *ctx, size_t size);
	void *pressure_ctx;
	bool (*attach)(void *ctx);
	void *attach_ctx;
	bool deferring; /* a block was deferred once: see deferred.c */
	bool shared;    /* an emergency pool: one local for all contexts */
	size_t reserve_bytes; /* of the emergency pool that is wanted, or 0 */
	/* The pool: set once, the span last, by the call that is filling. */
	struct heap *reserve;
	struct page *reserve_span;
	uint32_t reserve_filling, reserve_tries;

	/* Changed atomically by anybody, in any context. */
	_Alignas(CACHE_LINE_BYTES) struct block *deferred;
	size_t deferred_count;
	uint32_t noted;
	struct note notes[NOTES];

	/* Taken by whoever is inside the pool. */
	struct lock reserve_lock;
	/* In the pool's heap: the misuse that the call inside it has found, or
	 * 0, and the page that it is about. */
	enum fallow_misuse_kind found;
	const struct page *found_page;
	uint64_t reserve_served;

	/* Under the lock from here on. */
	_Alignas(CACHE_LINE_BYTES) struct lock lock;
	bool growing; /* a call extends the tables; others may not */
	uint8_t region_count;
	uint64_t marks; /* the latest page's: page_mark_new() */
	uint32_t epoch; /* advanced by sweeps alone; begins with 1 */
	uint32_t request; /* of reclaims */
	struct sweeping sweeping;
	struct pacing pacing;
	uintptr_t window_base, window_end; /* end 0: not known yet */
	uintptr_t given_tables;            /* handed in, or 0 */
	size_t given_tables_size;
	uintptr_t tables_end;              /* class window: the tables' end */
	struct chunk **chunks;             /* by number; NULL if never opened */
	size_t chunk_count, chunk_limit;   /* readable entries, all of them */
	size_t free_chunks, warm_slices;
	size_t handed; /* bits of chunk->handed */
	size_t kept; /* bytes of area_records for the call that is growing */
	uint64_t bin_bits; /* bins that are not empty */
	struct chunk *bins[CHUNK_SLICES + 1];
	struct page *abandoned[CLASS_COUNT];
	uint32_t abandoned_pass, abandoned_moved; /* as in struct local */
	struct area area_locals, area_chunks, area_map, area_records;
	struct extent *extents;
	struct heap_counters counters;
	struct region regions[FALLOW_REGIONS_MAX];
	uint32_t parked_count; /* contexts that are parked; sweeps: parks_again */
	/* Something has come to pass that fl_sweep_wanted() is for; whoever takes
	 * the slow path next calls it. */
	uint32_t roused;
	/* enum parked.  If a context is parked, others may work on its pages, so its own
	 * frees do not.  In the heap itself, for the frees' sake. */
	uint8_t parked[FALLOW_CONTEXTS_MAX];
	struct fallow_usage *usage; /* counted in, or NULL: usage.c */
};

_Static_assert(sizeof(struct heap) <= FALLOW_HEAP_BYTES,
	"FALLOW_HEAP_BYTES is too small");

/* The page that has nothing, so that `current` needs no test for NULL, and the
 * local that has nothing but it, so that `serving` needs none for a parked
 * context. */
extern struct page fl_page_none __attribute__((visibility("hidden")));

/* What the map has where there is nothing, so that a free needs no test for
 * that: a span, to the ways that a free takes, which begins nowhere. */
extern struct page fl_page_nobody __attribute__((visibility("hidden")));
extern struct local fl_local_none __attribute__((visibility("hidden")));

/* One call into the heap: what it needs to leave its context and come back. */
struct op {
	struct heap *heap;
	struct local *local;
	struct fl_port_state state;
	unsigned flags;
	uintptr_t caller;  /* the public function's return address */
	size_t given_size; /* of a sized free; else 0 */
};

/* The heap behind the embedder's storage. */
static inline struct heap *heap_of(struct fallow *heap)
{
	return (struct heap *)(void *)heap;
}

/* Finds the local of the context that the call is inside; NULL iff the heap has
 * no such context. */
static inline void op_local(struct op *op)
{
	unsigned index = op->heap->shared ? 0 : fl_port_context();

	op->local = index < fl_load_relaxed(&op->heap->contexts)
		? op->heap->locals[index]
		: NULL;
}

/* Whether the heap looks at what it holds before it holds more: pace.c. */
static inline bool heap_paced(const struct heap *heap)
{
	return fl_load_relaxed(&heap->pacing.at) != SIZE_MAX;
}

/* The epoch, as a page or a slice notes it when it is used. */
static inline uint16_t heap_epoch(const struct heap *heap)
{
	return (uint16_t)fl_load_hot(&heap->epoch);
}

/* Notes that there is something to be swept, of which a sweep that has already
 * come by in this epoch does not know. */
static inline void heap_changed(struct heap *heap)
{
	fl_store_relaxed(
		&heap->sweeping.changed, fl_load_relaxed(&heap->epoch));
}

/* Notes that the page is in use now.  By its owner. */
static inline void page_use(const struct heap *heap, struct page *page)
{
	fl_store_relaxed(&page->epoch, heap_epoch(heap));
}

/* Whether the context of this index is parked: asked by itself.  In the model
 * SINGLE there is nobody to park for. */
static inline bool heap_parked(const struct heap *heap, size_t index)
{
	return FALLOW_MODEL != FALLOW_MODEL_SINGLE &&
		unlikely(fl_load_hot(&heap->parked[index]) != 0);
}

/* What a port that serves (FL_PORT_SERVES) has for a context: its local, its own
 * map, and its number as its pages' owner; or what has nothing, NULL, and what
 * owns nothing. */
static inline void *served_local(const struct heap *heap, unsigned index)
{
	return fl_load_relaxed(&heap->serving[index]);
}

static inline void *served_own(const struct heap *heap, unsigned index)
{
	return heap_parked(heap, index) ? NULL : heap->locals[index]->own;
}

static inline uint32_t served_owner(const struct heap *heap, unsigned index)
{
	return heap_parked(heap, index) ? OWNER_PARKED : index;
}

/* Finds what the calling context's allocations look into; returns false iff the
 * heap has no such context. */
static inline __attribute__((always_inline)) bool hot_local(
	const struct heap *heap, struct local **local)
{
	unsigned index;

	if (FL_PORT_SERVES) {
		*local = fl_port_local();
		return true;
	}
	index = fl_port_context();
	if (unlikely(index >= fl_load_hot(&heap->contexts)))
		return false;
	*local = fl_load_hot(&heap->serving[index]);
	return true;
}

/* The owner of the pages into which the calling context frees itself, but for
 * one that hot_parked() is true of. */
static inline uint32_t hot_owner(void)
{
	return FL_PORT_SERVES ? fl_port_owner() : fl_port_context();
}

static inline bool hot_parked(const struct heap *heap, size_t owner)
{
	return !FL_PORT_SERVES && heap_parked(heap, owner);
}

/* The context that owns the page, or FALLOW_NO_CONTEXT. */
static inline uint32_t page_owner(const struct page *page)
{
	uint32_t owner = fl_load_relaxed(&page->owner) & ~OWNER_FLAGS;

	return owner == OWNER_NOBODY ? FALLOW_NO_CONTEXT : owner;
}

/* Whether the page may have holes. */
static inline bool page_holed(const struct page *page)
{
	return FALLOW_HOLES && (fl_load_relaxed(&page->owner) & OWNER_HOLES);
}

/* Whether the page is the caller's to change: its context owns it, and is not
 * parked. */
static inline bool op_owns(const struct op *op, const struct page *page)
{
	/* Without the flags nobody is no index either. */
	return (fl_load_relaxed(&page->owner) & ~OWNER_FLAGS) ==
			op->local->index &&
		!heap_parked(op->heap, op->local->index);
}

/* Takes a parked context's pages into use again: see local.c. */
void fl_local_unpark(struct heap *heap, struct local *local)
	__attribute__((visibility("hidden")));

/* Afterwards the caller is one context of the heap, whose local is op's; it may
 * be parked. */
static inline void op_enter(struct op *op)
{
	op->state = fl_port_enter();
	op_local(op);
}

/*
 * The same after a drop: the lists of the local are the caller's to use.  The
 * context that it comes back to may have been parked by others meanwhile.  Not
 * so a NOWAIT call's, which does not wait: it drops the context only when it
 * has its block, and uses no list afterwards.
 */
static inline void op_rejoin(struct op *op)
{
	op_enter(op);
	if (op->local != NULL && !(op->flags & FALLOW_NOWAIT) &&
		heap_parked(op->heap, op->local->index))
		fl_local_unpark(op->heap, op->local);
}

/*
 * Leaves the context: interrupts are as at the entry.  What was read from the
 * local, and every page that is not in TRANSIT, may be another's afterwards.
 */
static inline void op_drop(struct op *op)
{
	/* A call inside the emergency pool stays in the library. */
	if (!op->heap->shared)
		fl_watch_none();
	fl_port_leave(op->state);
}

/* Whether this call may wait for other CPUs. */
static inline bool op_may_wait(const struct op *op)
{
	return !(op->flags & FALLOW_NOWAIT) && fl_port_may_wait(op->state);
}

/* Takes heap->lock; a NOWAIT call does not wait for it.  Returns whether. */
static inline bool op_lock_heap(struct op *op, struct fl_port_state *state)
{
	if (op->flags & FALLOW_NOWAIT)
		return lock_try(&op->heap->lock, state);
	*state = lock_take(&op->heap->lock);
	return true;
}

/* Finds the head of the page or span at an address, or nobody's page; returns
 * false iff there is not even that. */
static inline __attribute__((always_inline)) bool map_look(
	const struct heap *heap, uintptr_t addr, struct page **page)
{
	size_t slice = (addr - heap->base) >> FALLOW_SLICE_LOG2;

	/* An address below the base wraps to a slice that is far too large.
	 * A block's own entry was written before the block was handed out, so
	 * nothing needs ordering for it. */
	if (unlikely(slice >= fl_load_hot(&heap->map_slices)))
		return false;
	*page = fl_load_hot(&heap->map[slice]);
	/* Where loads change places, a wild pointer may lead to an entry as it
	 * was before the map reached it: zeroed, as nothing depends on it. */
	return FL_PORT_LOADS_ORDERED || likely(*page != NULL);
}

/* The head of the page or span at an address; NULL if there is none. */
static inline struct page *map_find(const struct heap *heap, uintptr_t addr)
{
	struct page *page;

	return map_look(heap, addr, &page) && page != &fl_page_nobody ? page
								      : NULL;
}

/* Whether a record, or NULL, is that of the span that is the emergency pool. */
static inline bool page_reserve(
	const struct heap *heap, const struct page *page)
{
	/* Pairs with fl_reserve_fill(): the pool is made first. */
	return page != NULL && page == fl_load_acquire(&heap->reserve_span);
}

/* As map_find(), but for an address in the emergency pool what the pool has
 * there.  Of a block in use it is stable without a lock. */
static inline struct page *page_find(const struct heap *heap, uintptr_t addr)
{
	struct page *page = map_find(heap, addr);

	return page_reserve(heap, page) ? map_find(heap->reserve, addr) : page;
}

/* The emergency pool's heap; NULL if there is none. */
static inline struct heap *heap_reserve(const struct heap *heap)
{
	/* Pairs with fl_reserve_fill(): the pool is made first. */
	return fl_load_acquire(&heap->reserve_span) == NULL ? NULL
							    : heap->reserve;
}

/* Makes the map name `page`, or &fl_page_nobody, for n slices from `addr`.  The
 * caller holds the slices. */
static inline void map_write(
	struct heap *heap, uintptr_t addr, size_t n, struct page *page)
{
	size_t slice = (addr - heap->base) >> FALLOW_SLICE_LOG2;

	fl_watch_allow(n);
	fl_watch_steps(n);
	/* Up to a chunk's at once as a rule. */
#pragma GCC unroll 4
	for (; n > 0; n--, slice++)
		fl_store_relaxed(&heap->map[slice], page);
}

/* Marks a small block, where frees are checked, as free; as in use. */
static inline void block_mark_set(const struct page *page, void *block)
{
	if (FALLOW_CHECKS)
		((struct block *)block)->mark = page->mark;
}

static inline void block_mark_clear(void *block)
{
	if (FALLOW_CHECKS)
		((struct block *)block)->mark = 0;
}

/* How many blocks are in use, or freed by others and not yet folded. */
static inline uint32_t page_used(const struct page *page)
{
	return fl_load_hot(&page->wake) + fl_load_hot(&page->above);
}

/* The owner's stores to what a snapshot may read meanwhile are atomic, but
 * never read-modify-write: nobody else stores. */
static inline void page_used_set(struct page *page, uint32_t used)
{
	fl_store_relaxed(&page->above, used - page->wake);
}

/* Makes the free that leaves `wake` blocks in use take the slow path; with
 * WAKE_NEVER no free does. */
static inline void page_wake_set(struct page *page, uint32_t wake)
{
	uint32_t used = page_used(page);

	fl_store_relaxed(&page->wake, wake);
	page_used_set(page, used);
}

/* The same for a counter that one context has to itself. */
static inline void counter_add(uint64_t *counter, uint64_t n)
{
	fl_store_relaxed(counter, *counter + n);
}

/*
 * Whether a sweep has looked at this page, or a later one has: two sweeps over
 * the same pages would else undo each other's notes for ever.  Numbers wrap: a
 * page that no sweep of 2^31 has looked at waits for as many.
 */
static inline bool page_seen(const struct page *page, uint32_t number)
{
	return (int32_t)(page->seen - number) >= 0;
}

/* Makes the page one that no sweep has seen: it is another context's now, or
 * another page. */
static inline void page_unsee(const struct heap *heap, struct page *page)
{
	page->seen = fl_load_relaxed(&heap->sweeps) - ((uint32_t)1 << 30);
}

/*
 * A sweep takes pages from a list's front and leaves them at its end, so those
 * that it has not seen lie in front, together.  That is so unless somebody puts
 * a page there, or another sweep does the same: both note the number of the
 * latest sweep that this is in the way of.  A sweep that gives up looking behind
 * pages that it has seen may miss some iff that is its own number, or later.
 */
static inline bool pass_missed(uint32_t moved, uint32_t number)
{
	return (int32_t)(moved - number) >= 0;
}

/* A page was put into a list, not by a sweep. */
static inline void pass_moved(const struct heap *heap, uint32_t *moved)
{
	*moved = fl_load_relaxed(&heap->sweeps);
}

/* The sweep of this number takes a page in its turn.  What a later one takes an
 * earlier one has no more to see; what an earlier one takes, a later one has. */
static inline void pass_take(uint32_t *pass, uint32_t *moved, uint32_t number)
{
	if (pass_missed(number, *pass))
		*pass = number;
	else if (!pass_missed(*moved, *pass))
		*moved = *pass;
}

static inline size_t page_slices(const struct page *page)
{
	if (page->kind == PAGE_SPAN)
		return (page->span_size + SLICE_BYTES - 1) >> FALLOW_SLICE_LOG2;
	return page->slices;
}

/* Whether a formed block begins at an offset from a small page's begin, which may
 * be that of any address: see size_small_magic().  What the hot free asks. */
static inline bool small_begins(const struct page *page, uint64_t offset)
{
	return offset * page->magic < fl_load_hot(&page->limit);
}

/* The index of the block of a medium page that begins at an offset; at
 * least page->capacity iff none does. */
static inline uint32_t bits_place(const struct page *page, uint32_t offset)
{
	uint32_t product = offset * (uint32_t)page->magic;

	return product >> PLACE_SHIFT | product << (32 - PLACE_SHIFT);
}

/* The same, and below capacity for no other address, of one in whichever page. */
static inline uint64_t bits_place_far(const struct page *page, uint64_t offset)
{
	uint64_t product = offset * page->magic;

	return product >> PLACE_SHIFT | product << (64 - PLACE_SHIFT);
}

/* The index of the block that an offset into a small page is in. */
static inline uint32_t small_index(const struct page *page, uint32_t offset)
{
	__extension__ typedef unsigned __int128 product;

	return (uint32_t)((product)offset * page->magic >> 64);
}

/* The same as bits_place() of either. */
static inline uint32_t page_place(const struct page *page, uint32_t offset)
{
	if (page->kind != PAGE_SMALL)
		return bits_place(page, offset);
	return offset * page->magic < page->magic
		? small_index(page, offset)
		: UINT32_MAX;
}

/* From now on so many blocks are formed: others compare with it when they
 * free. */
static inline void page_form(struct page *page, uint32_t formed)
{
	/* What one block's begin has more than the one's before it. */
	uint64_t step = page->magic * page->block_size;

	fl_store_relaxed(&page->formed, formed);
	if (page->kind == PAGE_SMALL)
		fl_store_relaxed(&page->limit, formed * step);
}

/* The bytes of the page that formed blocks take. */
static inline uint32_t page_formed_end(const struct page *page)
{
	return fl_load_relaxed(&page->formed) * page->block_size;
}

/* The index of the block that an address in the page is in. */
static inline uint32_t page_index(const struct page *page, uintptr_t addr)
{
	return (uint32_t)(addr - page->base) / page->block_size;
}

#endif
