/* SPDX-License-Identifier: MIT */
/*
 * Debug builds watch every lock.
 *
 * Order: a context that holds nothing takes any lock; one that holds a
 * reserve_lock or a local->lock takes what comes after it of reserve_lock,
 * local->lock, heap->lock; nothing else.  So no lock is taken twice by one
 * context, and the locks of frames and page tables, which belong to providers,
 * are never taken under one of the heap's.  No lock is held where the library
 * calls out, or returns.
 *
 * Length: work under a lock is counted in steps, one for each round of each
 * loop, and compared with what the kind of lock may take (core/DESIGN.md,
 * section 9).  Where a hold may be longer, since it depends on the size of the
 * heap or of a span, the code says so with fl_watch_allow().  Steps are counted,
 * not time: a busy machine changes nothing.
 *
 * Each context notes what it holds.  Interrupts are masked meanwhile, so the
 * context is the same from the take to the leave, and in the models whose index
 * does not tell threads apart (a host's SINGLE) there is but one.  A violation
 * ends in fallow_broken() with the rule and the name of the lock.
 */
#include "watch.h"

#if FALLOW_DEBUG

#include <fallow/fallow.h>

#include "arch.h"
#include "config.h"

/* The most locks that one context may hold. */
#define HELD_MAX 3

struct held {
	struct lock_watch *locks[HELD_MAX];
	unsigned count;
};

#ifdef FL_PORT_HELD_WORDS
_Static_assert(sizeof(struct held) <= FL_PORT_HELD_WORDS * sizeof(uintptr_t),
	"FL_PORT_HELD_WORDS is too small");
#else
static struct held contexts[FALLOW_CONTEXTS_MAX];
#endif

static const char *const names[LOCK_KINDS] = {
	[LOCK_OTHER] = "a lock",
	[LOCK_RESERVE] = "reserve_lock",
	[LOCK_LOCAL] = "local->lock",
	[LOCK_HEAP] = "heap->lock",
	[LOCK_FRAMES] = "the frames' lock",
	[LOCK_TABLES] = "the page tables' lock",
};

/*
 * Steps that a hold may take.
 *
 * local->lock: 16 pages that others told of (DRAIN_MAX in local.c) and one
 * that is looked at or handed on, of each the blocks that others freed.
 * reserve_lock: as many as for local->lock, and one for each slice of the pool.
 * heap->lock: at most 512 chunks looked at by a collect and 32 ranges of 32
 * slices each claimed there; a look into every bin is 33 times 4.
 * frames: 64 regions, of each a walk down and up 32 levels.
 * page tables: the three tables of 512 entries on the way to a granule.
 */
#define PAGE_BLOCKS (SLICE_BYTES / 16)
static const uint32_t limits[LOCK_KINDS] = {
	[LOCK_OTHER] = UINT32_MAX,
	[LOCK_RESERVE] = 17 * PAGE_BLOCKS + 256,
	[LOCK_LOCAL] = 17 * PAGE_BLOCKS + 256,
	[LOCK_HEAP] = 512 + 32 * 32 + 33 * 4,
	[LOCK_FRAMES] = 64 * 2 * 32,
	[LOCK_TABLES] = 3 * 512 + 8,
};

/* What an embedder who has something to say it with replaces. */
__attribute__((weak)) void fallow_broken(const char *rule, const char *what)
{
	(void)rule;
	(void)what;
	__builtin_trap();
}

/* Whether a lock of a kind may be taken by who took one of another last. */
static bool in_order(uint32_t last, uint32_t kind)
{
	return (last == LOCK_RESERVE || last == LOCK_LOCAL) && last < kind &&
		kind <= LOCK_HEAP;
}

/* Around a look at what is held, where none need be: the context must stay the
 * same.  A thread that notes its locks itself does anyway. */
static struct fl_port_state look_begin(void)
{
#ifdef FL_PORT_HELD_WORDS
	return (struct fl_port_state){ 0 };
#else
	return fl_port_lock_enter();
#endif
}

static void look_end(struct fl_port_state state)
{
#ifdef FL_PORT_HELD_WORDS
	(void)state;
#else
	fl_port_lock_leave(state);
#endif
}

/* What the calling context holds; NULL for a context that no heap has. */
static struct held *held_now(void)
{
#ifdef FL_PORT_HELD_WORDS
	return fl_port_held();
#else
	unsigned index = fl_port_context();

	return index < FALLOW_CONTEXTS_MAX ? &contexts[index] : NULL;
#endif
}

void fl_watch_want(const struct lock_watch *lock)
{
	const struct held *held = held_now();
	unsigned i;

	if (held == NULL)
		return;
	for (i = 0; i < held->count; i++)
		if (held->locks[i] == lock)
			fallow_broken("a lock is taken twice by one context",
				names[lock->kind]);
	/* Locks without a kind are below all others, in any order. */
	if (held->count > 0 && lock->kind != LOCK_OTHER &&
		!in_order(held->locks[held->count - 1]->kind, lock->kind))
		fallow_broken("a lock is taken under another, out of order",
			names[lock->kind]);
	if (held->count == HELD_MAX)
		fallow_broken("too many locks are held at once",
			names[lock->kind]);
}

void fl_watch_take(struct lock_watch *lock)
{
	struct held *held = held_now();

	lock->steps = 0;
	lock->allowed = 0;
	if (held != NULL)
		held->locks[held->count++] = lock;
}

void fl_watch_leave(struct lock_watch *lock)
{
	struct held *held = held_now();
	unsigned i;

	if (lock->kind != LOCK_OTHER &&
		lock->steps > limits[lock->kind] + lock->allowed)
		fallow_broken("a lock is held for too many steps",
			names[lock->kind]);
	if (held == NULL)
		return;
	for (i = 0; i < held->count && held->locks[i] != lock; i++)
		;
	if (i == held->count)
		fallow_broken("a lock is left that is not held",
			names[lock->kind]);
	held->locks[i] = held->locks[--held->count];
}

/* Adds to what the lock that the context took last has done and may do.  Also
 * called where no lock is held, nor a context entered. */
static void last_add(size_t steps, size_t allowed)
{
	struct fl_port_state state = look_begin();
	struct held *held = held_now();

	if (held != NULL && held->count > 0) {
		struct lock_watch *lock = held->locks[held->count - 1];

		lock->steps += (uint32_t)steps;
		lock->allowed += (uint32_t)allowed;
	}
	look_end(state);
}

void fl_watch_steps(size_t n)
{
	last_add(n, 0);
}

void fl_watch_allow(size_t n)
{
	last_add(0, n);
}

void fl_watch_none(void)
{
	struct fl_port_state state = look_begin();
	const struct held *held = held_now();

	if (held != NULL && held->count > 0)
		fallow_broken("a lock is held at a call out of the library",
			names[held->locks[0]->kind]);
	look_end(state);
}

#endif
