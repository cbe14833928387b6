/* SPDX-License-Identifier: MIT */
/*
 * A provider for tests on the host, of any of the three classes, that can be
 * told to refuse, and that checks every promise of fallow/provider.h at every
 * call.
 *
 *	struct sim sim;
 *
 *	sim_begin(&sim, FALLOW_CLASS_WINDOW, (size_t)64 << 20);
 *	sim.refuse_call = 3;
 *	... a heap over &sim.provider, sim.base, sim.size ...
 *	sim_end(&sim);
 *
 * Safe to use from several threads, but for the fields a test sets.
 */
#ifndef SIM_H
#define SIM_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <fallow/provider.h>

/* The build's granule. */
#ifdef FALLOW_GRANULE_LOG2
#define SIM_GRANULE_LOG2 FALLOW_GRANULE_LOG2
#else
#define SIM_GRANULE_LOG2 12
#endif
#define SIM_GRANULE ((size_t)1 << SIM_GRANULE_LOG2)
/* The build's chunk: 32 slices. */
#ifdef FALLOW_SLICE_LOG2
#define SIM_CHUNK_LOG2 (FALLOW_SLICE_LOG2 + 5)
#else
#define SIM_CHUNK_LOG2 21
#endif
#define SIM_CHUNK ((size_t)1 << SIM_CHUNK_LOG2)

/* What memory without FALLOW_COMMIT_ZEROED is full of. */
#define SIM_DIRT 0xa5
/* What the bytes of a flat arena outside of every region are full of. */
#define SIM_FENCE 0x5c

enum sim_call {
	SIM_COMMIT,
	SIM_DECOMMIT,
	SIM_RESERVE,
	SIM_RELEASE,
	SIM_DISCARD,
	SIM_NOW,
	SIM_WANTED,
	SIM_CALLS,
};

/* The most flat regions that one sim fences. */
#define SIM_REGIONS 32

struct sim {
	struct fallow_provider provider;
	/* The window. */
	uintptr_t base;
	size_t size;

	/* What follows may be set by a test at any time; all start at 0. */

	/* Commits and reserves: the one with this number, all from this
	 * number on, this many in 256, are refused; `calls` counts them. */
	uint64_t refuse_call;
	uint64_t refuse_from;
	unsigned refuse_rate;
	/* The same for the ranges of decommits and discards. */
	uint64_t refuse_range;
	unsigned refuse_range_rate;
	/* Bytes of RAM that can be committed at once; 0 for no limit. */
	size_t budget;
	/* So many commits in 256 return dirty memory. */
	unsigned dirty_rate;
	/* What the clock shows: see sim_clock(). */
	uint64_t ticks;
	/* Runs inside each call, after the checks and before anything appears;
	 * what is to go is gone already, discarded memory is poisoned: whoever
	 * still uses it in the middle of the call is seen. */
	void (*during)(struct sim *sim, enum sim_call call);
	void *during_arg;
	/* While it runs: the base of a commit's range, else 0. */
	uintptr_t during_base;
	/* Returns the promise that the port sees broken, or NULL.
	 * `may_wait_needed`: the call is one that waits for other CPUs. */
	const char *(*observe)(bool may_wait_needed);

	/* What a test may read. */

	uint64_t calls;
	uint64_t ranges;
	uint64_t made[SIM_CALLS];
	uint64_t refused;
	uint64_t refused_ranges;
	uint64_t wanted_ticks; /* as the last sweep_wanted() said */
	size_t committed;
	size_t committed_peak;
	unsigned violations;
	/* The state of the generator behind the rates; may be set. */
	uint64_t random;

	/* The rest is the sim's own. */

	pthread_mutex_t lock;
	unsigned char *granules;
	unsigned char *large;
	void *mapping;
	size_t mapping_size;
	struct {
		uintptr_t base;
		size_t size;
	} regions[SIM_REGIONS];
	unsigned region_count;
	struct {
		enum sim_call call;
		uintptr_t base;
		size_t size;
		const char *promise;
	} first[8];
};

/* This thread's current call into fallow said FALLOW_NOWAIT: no provider call
 * of any kind may come of it. */
extern _Thread_local bool sim_nowait;
/* This thread's current call came from a place with interrupts off. */
extern _Thread_local bool sim_irqs_off;

/* Afterwards *sim is a generous provider without memory in use. */
void sim_begin(struct sim *sim, enum fallow_provider_class provider_class,
	size_t window_size);

/* As sim_begin(), with a base that is `skew` bytes past a chunk's; a multiple
 * of the granule but for class flat. */
void sim_begin_at(struct sim *sim, enum fallow_provider_class provider_class,
	size_t window_size, size_t skew);

/* Gives the provider a clock, which the test moves, and wants to be told when a
 * sweep becomes useful; before the heap begins. */
void sim_clock(struct sim *sim);

/* Class flat: what [offset, offset + size) of the arena is, is a region; the
 * bytes around it are fenced.  Returns its address. */
uintptr_t sim_region(struct sim *sim, size_t offset, size_t size);

/* Fails the running test for every promise broken so far, and for every byte
 * outside of the regions that changed. */
void sim_verdict(struct sim *sim);

/* Returns how many bytes from `addr` to the end of its region; 0 if none. */
size_t sim_region_rest(struct sim *sim, uintptr_t addr);

/* Gives the address space back, whatever is in it. */
void sim_destroy(struct sim *sim);

/* As sim_verdict(), and fails it for every granule not given back; gives the
 * address space back. */
void sim_end(struct sim *sim);

#endif
