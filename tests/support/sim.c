/* SPDX-License-Identifier: MIT */
/*
 * The simulated provider.
 *
 * The arena is address space without access.  Each granule of it has a state:
 * NONE (no access: a touch faults), COMMITTED, or BUSY while a call that names
 * it is in progress, which is how two calls that overlap are seen.  A call
 * goes through three steps: its promises are checked and its granules become
 * BUSY; the test's `during` runs, without the sim's lock; the call is refused,
 * or takes effect.  What takes memory away does that first: real memory may be
 * gone at any time in the call, and if it were there until its end, or went
 * some time later, nobody would see that it is still used.
 *
 * Class window: memory that is taken away becomes inaccessible, and what is
 * committed again reads as zero or is full of SIM_DIRT, so that no byte
 * survives by luck.  Class direct: the same, stricter than a real one,
 * where memory that was released stays mapped; what reserve() returns is
 * always dirty.  Class flat: the arena is accessible; the bytes outside of the
 * regions are fenced with SIM_FENCE, which sim_verdict() verifies; discard()
 * fills with dirt.
 *
 * Invariant: committed == granules in state COMMITTED * granule, of classes
 * window and direct, whenever no call is in progress.
 *
 * `lock` protects everything but what tests set.  Broken promises are noted,
 * and reported by sim_verdict() (sim_verdict.c): nothing here fails a test.
 */
#define _GNU_SOURCE
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "test.h"

/* Above the largest alignment that tests ask for. */
#define ORIGIN ((size_t)256 << 20)

enum granule_state {
	GRANULE_NONE = 0,
	GRANULE_COMMITTED = 1,
	GRANULE_BUSY = 2,
};

_Thread_local bool sim_nowait;
_Thread_local bool sim_irqs_off;

/* Ends the program: the host is broken, not fallow. */
static void die(const char *what)
{
	perror(what);
	exit(97);
}

static void sim_take(struct sim *sim)
{
	if (pthread_mutex_lock(&sim->lock))
		die("sim: lock");
}

static void sim_leave(struct sim *sim)
{
	if (pthread_mutex_unlock(&sim->lock))
		die("sim: unlock");
}

/* Notes that `call` broke a promise; with the lock. */
static void note(struct sim *sim, enum sim_call call, uintptr_t base,
	size_t size, const char *promise)
{
	size_t n = sim->violations++;

	if (n >= sizeof(sim->first) / sizeof(sim->first[0]))
		return;
	sim->first[n].call = call;
	sim->first[n].base = base;
	sim->first[n].size = size;
	sim->first[n].promise = promise;
}

/* Returns the promise about who may call, that this call breaks, or NULL. */
static const char *caller_promise(struct sim *sim, enum sim_call call)
{
	bool waits = call == SIM_DECOMMIT || call == SIM_RELEASE ||
		call == SIM_DISCARD;

	if (sim_nowait)
		return "no call of the provider under NOWAIT";
	if (waits && sim_irqs_off)
		return "no call that waits where interrupts were off at entry";
	if (sim->observe)
		return sim->observe(waits);
	return NULL;
}

/* Returns the promise about ranges that this one breaks, or NULL. */
static const char *range_promise(struct sim *sim, uintptr_t base, size_t size)
{
	if (size == 0)
		return "no size is zero";
	if ((base | size) & (SIM_GRANULE - 1))
		return "base and size are multiples of the granule";
	if (base < sim->base || size > sim->size ||
		base - sim->base > sim->size - size)
		return "the range is inside the window";
	return NULL;
}

static size_t granule_index(const struct sim *sim, uintptr_t addr)
{
	return (addr - sim->base) >> SIM_GRANULE_LOG2;
}

/* Sets the state of each granule of the range; with the lock. */
static void granules_set(struct sim *sim, uintptr_t base, size_t size,
	enum granule_state state)
{
	memset(sim->granules + granule_index(sim, base), state,
		size >> SIM_GRANULE_LOG2);
}

/* Returns the promise that the states of a range's granules break. */
static const char *state_promise(struct sim *sim, uintptr_t base, size_t size,
	enum granule_state expected)
{
	size_t first = granule_index(sim, base);
	size_t last = first + (size >> SIM_GRANULE_LOG2);

	for (size_t i = first; i < last; i++) {
		if (sim->granules[i] == expected)
			continue;
		if (sim->granules[i] == GRANULE_BUSY)
			return "calls that run at once name other granules";
		return expected == GRANULE_NONE ?
			"a commit is of uncommitted memory" :
			"what is taken away is committed";
	}
	return NULL;
}

/* Checks every promise about a range and makes its granules busy.  Returns
 * false, and the range is as before, iff one was broken. */
static bool range_begin(struct sim *sim, enum sim_call call, uintptr_t base,
	size_t size, enum granule_state expected)
{
	const char *promise;

	sim_take(sim);
	promise = range_promise(sim, base, size);
	if (!promise)
		promise = state_promise(sim, base, size, expected);
	if (promise)
		note(sim, call, base, size, promise);
	else
		granules_set(sim, base, size, GRANULE_BUSY);
	sim_leave(sim);
	return !promise;
}

/* Counts the call and checks who makes it. */
static void call_begin(
	struct sim *sim, enum sim_call call, uintptr_t base, size_t size)
{
	const char *promise = caller_promise(sim, call);

	sim_take(sim);
	sim->made[call]++;
	if (promise)
		note(sim, call, base, size, promise);
	sim_leave(sim);
}

/* Lets the test run in the middle of the call, as if it were elsewhere: what
 * it expects of the interrupted call is put by. */
static void call_during(
	struct sim *sim, enum sim_call call, uintptr_t base)
{
	bool nowait = sim_nowait, irqs_off = sim_irqs_off;

	if (sim->during) {
		sim->during_base = base;
		sim->during(sim, call);
	}
	sim_nowait = nowait;
	sim_irqs_off = irqs_off;
}

static bool chance(struct sim *sim, unsigned rate)
{
	return rate && test_random(&sim->random) % 256 < rate;
}

/* Decides whether a commit or reserve of `size` bytes has memory and if so
 * takes it; with the lock. */
static bool budget_take(struct sim *sim, size_t size)
{
	uint64_t call = ++sim->calls;

	if (call == sim->refuse_call ||
		(sim->refuse_from && call >= sim->refuse_from) ||
		chance(sim, sim->refuse_rate) ||
		(sim->budget && (size > sim->budget ||
			sim->committed > sim->budget - size))) {
		sim->refused++;
		return false;
	}
	sim->committed += size;
	if (sim->committed > sim->committed_peak)
		sim->committed_peak = sim->committed;
	return true;
}

/* Makes the range accessible and zero, or dirty. */
static void memory_appear(uintptr_t base, size_t size, bool dirty)
{
	if (mprotect((void *)base, size, PROT_READ | PROT_WRITE))
		die("sim: mprotect");
	if (dirty)
		memset((void *)base, SIM_DIRT, size);
}

/* Makes the range inaccessible and forgets what is in it. */
static void memory_vanish(uintptr_t base, size_t size)
{
	if (mprotect((void *)base, size, PROT_NONE) ||
		madvise((void *)base, size, MADV_DONTNEED))
		die("sim: mprotect");
}

/* Returns the chunk that the address is in, counted from the arena's. */
static size_t chunk_index(const struct sim *sim, uintptr_t addr)
{
	return (addr >> SIM_CHUNK_LOG2) -
		((uintptr_t)sim->mapping >> SIM_CHUNK_LOG2);
}

/* Notes which chunks of a committed range are large; with the lock. */
static bool chunks_note_large(
	struct sim *sim, uintptr_t base, size_t size, unsigned flags)
{
	if (!sim->provider.large_log2 || !(flags & FALLOW_PREFER_LARGE) ||
		(base | size) & (SIM_CHUNK - 1))
		return false;
	memset(sim->large + chunk_index(sim, base), 1,
		size >> SIM_CHUNK_LOG2);
	return true;
}

/* Whether taking the range away would split a large mapping that may not be;
 * if not, the chunks it touches are large no more; with the lock. */
static bool chunks_split(struct sim *sim, uintptr_t base, size_t size)
{
	bool whole = !((base | size) & (SIM_CHUNK - 1));
	size_t last = chunk_index(sim, base + size - 1);

	for (size_t i = chunk_index(sim, base); i <= last; i++) {
		if (sim->large[i] && !whole &&
			!(sim->provider.capabilities & FALLOW_CAN_DEMOTE))
			return false;
		sim->large[i] = 0;
	}
	return true;
}

static unsigned sim_commit(
	void *ctx, uintptr_t base, size_t size, unsigned flags)
{
	struct sim *sim = ctx;
	unsigned result = FALLOW_COMMIT_NO_MEMORY;
	bool granted, dirty;

	call_begin(sim, SIM_COMMIT, base, size);
	if (!range_begin(sim, SIM_COMMIT, base, size, GRANULE_NONE))
		return FALLOW_COMMIT_NO_MEMORY;
	call_during(sim, SIM_COMMIT, base);
	sim_take(sim);
	granted = budget_take(sim, size);
	dirty = chance(sim, sim->dirty_rate);
	sim_leave(sim);
	if (granted)
		memory_appear(base, size, dirty);
	sim_take(sim);
	granules_set(sim, base, size,
		granted ? GRANULE_COMMITTED : GRANULE_NONE);
	if (granted) {
		result = FALLOW_COMMIT_DONE;
		if (!dirty)
			result |= FALLOW_COMMIT_ZEROED;
		if (chunks_note_large(sim, base, size, flags))
			result |= FALLOW_COMMIT_LARGE;
	}
	sim_leave(sim);
	return result;
}

/* Whether this range, busy, is to be refused; with the lock. */
static bool range_refused(struct sim *sim, uintptr_t base, size_t size)
{
	uint64_t n = ++sim->ranges;

	if (n == sim->refuse_range || chance(sim, sim->refuse_range_rate) ||
		!chunks_split(sim, base, size)) {
		sim->refused_ranges++;
		return true;
	}
	return false;
}

/* Takes the memory of a busy range away, or refuses to; it stays busy. */
static void range_take(struct sim *sim, struct fallow_range *range)
{
	bool refused;

	sim_take(sim);
	refused = range_refused(sim, range->base, range->size);
	sim_leave(sim);
	range->result = refused ? FALLOW_RANGE_REFUSED : FALLOW_RANGE_DONE;
	if (!refused)
		memory_vanish(range->base, range->size);
}

/* Puts down what has become of it. */
static void range_finish(struct sim *sim, const struct fallow_range *range)
{
	bool refused = range->result != FALLOW_RANGE_DONE;

	sim_take(sim);
	granules_set(sim, range->base, range->size,
		refused ? GRANULE_COMMITTED : GRANULE_NONE);
	if (!refused)
		sim->committed -= range->size;
	sim_leave(sim);
}

static void sim_decommit(void *ctx, struct fallow_range *ranges, size_t n)
{
	struct sim *sim = ctx;
	bool begun[FALLOW_RANGES_MAX];

	call_begin(sim, SIM_DECOMMIT, (uintptr_t)ranges, n);
	if (n == 0 || n > FALLOW_RANGES_MAX) {
		sim_take(sim);
		note(sim, SIM_DECOMMIT, (uintptr_t)ranges, n,
			"1 to FALLOW_RANGES_MAX ranges");
		sim_leave(sim);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		begun[i] = range_begin(sim, SIM_DECOMMIT, ranges[i].base,
			ranges[i].size, GRANULE_COMMITTED);
		if (begun[i])
			range_take(sim, &ranges[i]);
		else
			ranges[i].result = FALLOW_RANGE_REFUSED;
	}
	call_during(sim, SIM_DECOMMIT, 0);
	for (size_t i = 0; i < n; i++)
		if (begun[i])
			range_finish(sim, &ranges[i]);
}

/* Returns the first run of `size` bytes, aligned, in state NONE; or 0. */
static uintptr_t run_find(struct sim *sim, size_t size, size_t align)
{
	uintptr_t base = (sim->base + align - 1) & ~(uintptr_t)(align - 1);

	for (; base >= sim->base && base - sim->base <= sim->size &&
		size <= sim->size - (base - sim->base);
		base += align)
		if (!state_promise(sim, base, size, GRANULE_NONE))
			return base;
	return 0;
}

static uintptr_t sim_reserve(void *ctx, size_t size, size_t align)
{
	struct sim *sim = ctx;
	uintptr_t base = 0;
	const char *promise = NULL;

	call_begin(sim, SIM_RESERVE, align, size);
	call_during(sim, SIM_RESERVE, 0);
	if (size == 0 || size & (SIM_GRANULE - 1))
		promise = "size is a multiple of the granule, not zero";
	else if (align < SIM_GRANULE || align & (align - 1))
		promise = "align is a power of two, at least the granule";
	sim_take(sim);
	if (promise) {
		note(sim, SIM_RESERVE, align, size, promise);
	} else if (budget_take(sim, size)) {
		base = run_find(sim, size, align);
		if (base) {
			granules_set(sim, base, size, GRANULE_BUSY);
		} else {
			sim->committed -= size;
			sim->refused++;
		}
	}
	sim_leave(sim);
	if (!base)
		return 0;
	memory_appear(base, size, true);
	sim_take(sim);
	granules_set(sim, base, size, GRANULE_COMMITTED);
	sim_leave(sim);
	return base;
}

static void sim_release(void *ctx, uintptr_t base, size_t size)
{
	struct sim *sim = ctx;

	call_begin(sim, SIM_RELEASE, base, size);
	if (!range_begin(sim, SIM_RELEASE, base, size, GRANULE_COMMITTED))
		return;
	memory_vanish(base, size);
	call_during(sim, SIM_RELEASE, 0);
	sim_take(sim);
	granules_set(sim, base, size, GRANULE_NONE);
	sim->committed -= size;
	sim_leave(sim);
}

size_t sim_region_rest(struct sim *sim, uintptr_t addr)
{
	for (unsigned i = 0; i < sim->region_count; i++) {
		uintptr_t region = sim->regions[i].base;

		if (addr >= region && addr - region < sim->regions[i].size)
			return sim->regions[i].size - (addr - region);
	}
	return 0;
}

static void sim_discard(void *ctx, struct fallow_range *ranges, size_t n)
{
	struct sim *sim = ctx;

	call_begin(sim, SIM_DISCARD, (uintptr_t)ranges, n);
	for (size_t i = 0; i < n; i++) {
		struct fallow_range *range = &ranges[i];
		bool inside;

		sim_take(sim);
		inside = !range_promise(sim, range->base, range->size) &&
			range->size <= sim_region_rest(sim, range->base);
		if (!inside)
			note(sim, SIM_DISCARD, range->base, range->size,
				"a discard is of whole granules of a region");
		sim_leave(sim);
		range->result = FALLOW_RANGE_REFUSED;
		if (inside && !chance(sim, sim->refuse_range_rate)) {
			memset((void *)range->base, SIM_DIRT, range->size);
			range->result = FALLOW_RANGE_DONE;
		}
	}
	call_during(sim, SIM_DISCARD, 0);
}

static uint64_t sim_now(void *ctx)
{
	struct sim *sim = ctx;

	call_begin(sim, SIM_NOW, 0, 0);
	call_during(sim, SIM_NOW, 0);
	/* Threads may move it. */
	return __atomic_load_n(&sim->ticks, __ATOMIC_RELAXED);
}

static void sim_wanted(void *ctx, uint64_t ticks)
{
	struct sim *sim = ctx;

	call_begin(sim, SIM_WANTED, 0, 0);
	call_during(sim, SIM_WANTED, 0);
	__atomic_store_n(&sim->wanted_ticks, ticks, __ATOMIC_RELAXED);
}

void sim_clock(struct sim *sim)
{
	sim->provider.now = sim_now;
	sim->provider.sweep_wanted = sim_wanted;
}

/* Fills in the functions that the class has. */
static void provider_fill(
	struct sim *sim, enum fallow_provider_class provider_class)
{
	struct fallow_provider *provider = &sim->provider;

	provider->size = sizeof(*provider);
	provider->provider_class = provider_class;
	provider->granule_log2 = SIM_GRANULE_LOG2;
	provider->ctx = sim;
	switch (provider_class) {
	case FALLOW_CLASS_WINDOW:
		provider->commit = sim_commit;
		provider->decommit = sim_decommit;
		break;
	case FALLOW_CLASS_DIRECT:
		provider->reserve = sim_reserve;
		provider->release = sim_release;
		break;
	case FALLOW_CLASS_FLAT:
		provider->discard = sim_discard;
		break;
	}
}

/*
 * Maps the arena: [base - chunk, base + window_size + chunk), where base is
 * `skew` bytes past an address that is the same at every run modulo ORIGIN, so
 * that what depends on alignment can be run again.
 */
static void arena_map(
	struct sim *sim, size_t window_size, size_t skew, int prot)
{
	size_t rest = (window_size + skew + 2 * SIM_CHUNK) & (SIM_GRANULE - 1);
	size_t size = window_size + skew + 2 * SIM_CHUNK + SIM_GRANULE - rest;
	char *whole = mmap(NULL, size + ORIGIN, prot,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	size_t before = ORIGIN - (uintptr_t)whole % ORIGIN;
	size_t after = ORIGIN - before;

	/* Where the kernel chose a multiple of ORIGIN, nothing is left behind;
	 * and to unmap nothing is an error. */
	if (whole == MAP_FAILED || munmap(whole, before) ||
		(after && munmap(whole + before + size, after)))
		die("sim: mmap");
	sim->mapping = whole + before;
	sim->mapping_size = size;
	sim->base = (uintptr_t)sim->mapping + SIM_CHUNK + skew;
	sim->size = window_size;
}

void sim_begin_at(struct sim *sim, enum fallow_provider_class provider_class,
	size_t window_size, size_t skew)
{
	bool flat = provider_class == FALLOW_CLASS_FLAT;

	memset(sim, 0, sizeof(*sim));
	if (pthread_mutex_init(&sim->lock, NULL))
		die("sim: lock");
	sim->random = 1;
	arena_map(sim, window_size, skew,
		flat ? PROT_READ | PROT_WRITE : PROT_NONE);
	if (flat)
		memset(sim->mapping, SIM_FENCE, sim->mapping_size);
	sim->granules = calloc(window_size / SIM_GRANULE + 1, 1);
	sim->large = calloc(sim->mapping_size / SIM_CHUNK + 1, 1);
	if (!sim->granules || !sim->large)
		die("sim: calloc");
	provider_fill(sim, provider_class);
}

void sim_begin(struct sim *sim, enum fallow_provider_class provider_class,
	size_t window_size)
{
	sim_begin_at(sim, provider_class, window_size, 0);
}

uintptr_t sim_region(struct sim *sim, size_t offset, size_t size)
{
	uintptr_t base = sim->base + offset;

	if (sim->region_count == SIM_REGIONS || offset > sim->size ||
		size > sim->size - offset)
		die("sim: no such region");
	memset((void *)base, SIM_DIRT, size);
	sim->regions[sim->region_count].base = base;
	sim->regions[sim->region_count++].size = size;
	return base;
}

void sim_destroy(struct sim *sim)
{
	if (munmap(sim->mapping, sim->mapping_size))
		die("sim: munmap");
	free(sim->granules);
	free(sim->large);
	pthread_mutex_destroy(&sim->lock);
}
