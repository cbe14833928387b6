/* SPDX-License-Identifier: MIT */
/*
 * What tests of sweeps have in common: a heap with a clock, sweeps in one epoch
 * after the other, and a crowd of blocks of which the granules are known that
 * they lie in.
 */
#ifndef SWEPT_H
#define SWEPT_H

#include <stdlib.h>
#include <string.h>

#include "white.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define TICKS 100
/* Addresses for pages as they are where addresses cost nothing. */
#define WIDE (1100 * MIB)

/* A heap with a clock, epochs of TICKS, and what the floor is set to. */
static inline struct rig *clock_begin(
	enum fallow_provider_class class, size_t size, size_t floor)
{
	struct rig *rig = rig_prepare(class, size, 2);

	sim_clock(&rig->sim);
	rig->config.epoch_ticks = TICKS;
	rig->config.floor_bytes = floor;
	CHECK_EQUAL(rig_init(rig), FALLOW_OK);
	return rig;
}

static inline uint64_t sweep(struct rig *rig)
{
	return fallow_sweep(&rig->heap, SIZE_MAX);
}

/* A sweep in each of the next n epochs. */
static inline void epochs(struct rig *rig, unsigned n)
{
	for (; n > 0; n--) {
		rig->sim.ticks += TICKS;
		sweep(rig);
	}
}

/* Sweeps whenever it is due, until nothing is left; returns how often it was
 * called.  Fails after `most`. */
static inline unsigned drain(struct rig *rig, unsigned most)
{
	unsigned n = 0;
	uint64_t due;

	while ((due = sweep(rig)) != 0 && n < most) {
		CHECK(due <= TICKS);
		rig->sim.ticks += due;
		n++;
	}
	CHECK(n < most);
	return n;
}

static inline size_t committed(const struct rig *rig)
{
	return white_heap((struct rig *)(uintptr_t)rig)->counters.committed;
}

/* Blocks that a test has, and the granules that they lie in. */
struct crowd {
	struct rig *rig;
	struct {
		char *base;
		size_t size;
	} * blocks;
	size_t count, max;
};

static inline struct crowd crowd_begin(struct rig *rig, size_t max)
{
	struct crowd crowd = { .rig = rig, .max = max };

	crowd.blocks = calloc(max, sizeof(*crowd.blocks));
	CHECK(crowd.blocks != NULL);
	return crowd;
}

static inline void crowd_add(struct crowd *crowd, size_t size)
{
	char *base = fallow_alloc(&crowd->rig->heap, size);

	CHECK_OR_RETURN(base != NULL && crowd->count < crowd->max);
	/* All that it may use counts as used. */
	size = fallow_usable_size(&crowd->rig->heap, base);
	memset(base, 0x5a, size);
	crowd->blocks[crowd->count].base = base;
	crowd->blocks[crowd->count++].size = size;
}

/* Forgets a block; the last one takes its place. */
static inline void crowd_drop(struct crowd *crowd, size_t i)
{
	crowd->blocks[i] = crowd->blocks[--crowd->count];
}

/* Frees it too. */
static inline void crowd_free(struct crowd *crowd, size_t i)
{
	fallow_free(&crowd->rig->heap, crowd->blocks[i].base);
	crowd_drop(crowd, i);
}

/* Bytes of the granules that a block lies in. */
static inline size_t crowd_bound(const struct crowd *crowd)
{
	const struct sim *sim = &crowd->rig->sim;
	unsigned char *seen = calloc(sim->size / SIM_GRANULE + 1, 1);
	size_t bytes = 0;

	for (size_t i = 0; i < crowd->count; i++) {
		uintptr_t at = (uintptr_t)crowd->blocks[i].base;
		uintptr_t last = at + crowd->blocks[i].size - 1;

		for (at &= ~(SIM_GRANULE - 1); at <= last; at += SIM_GRANULE) {
			unsigned char *mark =
				&seen[(at - sim->base) / SIM_GRANULE];

			bytes += *mark ? 0 : SIM_GRANULE;
			*mark = 1;
		}
	}
	free(seen);
	return bytes;
}

/* Frees all that are left, and ends the heap. */
static inline void crowd_end(struct crowd *crowd)
{
	while (crowd->count > 0)
		crowd_free(crowd, crowd->count - 1);
	free(crowd->blocks);
	white_check(crowd->rig);
	white_end(crowd->rig);
}

/* 64 * 2^(10 u^1.92): many small ones, up to 64 KiB. */
static inline size_t size_random(uint64_t *random)
{
	/* By its inverse, tabled: how many in 1024 are below 64 << i. */
	static const unsigned below[] = { 309, 443, 547, 635, 714, 785, 851,
		911, 969, 1024 };
	unsigned u = test_random(random) % 1024, i = 0;

	while (u >= below[i])
		i++;
	return (64u << i) + test_random(random) % (64u << i);
}

#endif
