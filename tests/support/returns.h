/* SPDX-License-Identifier: MIT */
/*
 * Scenarios in which memory goes back, and what they are measured by.
 *
 * Each makes a heap, uses it, leaves it idle, and says what the machine has
 * back.  Time is a clock of the scenario's own: it goes on only from one event
 * to the next, so a scenario repeats exactly, however busy the machine is, and
 * an hour of it takes a moment.  Freestanding: the same on the host and in a
 * guest.
 *
 * What a program does without a pause is let take a second or half of one, so
 * that a picture shows it; no idle loop is due in it.
 *
 * Live bytes are those that were asked for.  Every block is touched whole when
 * it is allocated and verified when it is freed.
 */
#ifndef RETURNS_H
#define RETURNS_H

#include <fallow/fallow.h>

/* The scenario's clock counts milliseconds. */
#define RETURNS_SECOND ((uint64_t)1000)
#define RETURNS_EPOCH (RETURNS_SECOND / 10)
#define RETURNS_CONTEXTS 8

/* What scenarios run on. */
struct returns_machine {
	/* Of class window; its clock is not used. */
	const struct fallow_provider *provider;
	uintptr_t window_base;
	size_t window_size;
	/* What blocks may take at most, all together. */
	size_t memory;
	/* For the scenario's own tables; not counted. */
	void *scratch;
	size_t scratch_size;
	/* The bytes that the machine has given, of which none are in the window
	 * outside of this range; only differences count.  NULL: what the
	 * provider's calls add up to. */
	size_t (*resident)(uintptr_t base, size_t size);
	/* From now on this code is the context `index`. */
	void (*context)(unsigned index);
	/* A counter, for what is printed alone, and what it counts. */
	uint64_t (*ticks)(void);
	const char *ticks_unit;
	/* fallow_config's epoch_ticks; 0: RETURNS_EPOCH. */
	uint64_t epoch_ticks;
	/* Contexts that there can be, at most RETURNS_CONTEXTS. */
	unsigned contexts;
	/* Whether samples are printed, one a line: "# SERIES MS LIVE RESIDENT",
	 * and what belongs into a picture of them: "#title SERIES TEXT", "#curve
	 * SERIES TEXT" for the key, "#line SERIES BYTES TEXT" for a level.
	 * tests/returns/pictures draws it. */
	bool samples;
	/* Fewer requests and smaller pages of one class: an emulated CPU. */
	bool brief;
};

/* Calls of the provider, and what they moved. */
struct returns_calls {
	uint64_t commits, decommits, ranges;
	uint64_t committed, decommitted; /* bytes, ever */
};

/* A scenario that runs. */
struct returns {
	const struct returns_machine *machine;
	struct fallow_provider provider;
	struct fallow heap;
	uint64_t now;
	uint64_t random;
	/* When each context's idle loop sweeps next; UINT64_MAX: never, until
	 * it has used the heap again. */
	uint64_t due[RETURNS_CONTEXTS];
	unsigned contexts;
	bool park; /* who idles parks, and the first context alone sweeps */
	bool flat; /* see returns_flatten() */
	const char *series; /* of samples; NULL: none now */
	size_t resident_begin;
	uintptr_t end; /* of all that was ever committed */
	size_t scratch_used;
	/* What it has come to. */
	struct returns_calls calls;
	size_t live, live_peak, blocks;
	size_t resident_peak;
	uint64_t swept;    /* when the last fallow_sweep() was */
	uint64_t sweeps;   /* how many there were */
	uint64_t wakeups;  /* of these, when nobody had used the heap since */
	uint64_t ticks;    /* in allocations and frees */
	uint64_t failed;   /* allocations that returned NULL */
	uint64_t damaged;  /* blocks that were not as they were left */
	uint64_t misuses;
	const char *broken; /* the first that fallow_check() named */
};

/*
 * Begins a scenario with an empty heap.  floor_bytes, floor_epochs: as in
 * struct fallow_config.  Returns: false iff there is no heap; it is said why.
 */
bool test_returns_begin(struct returns *returns,
	const struct returns_machine *machine, unsigned contexts,
	size_t floor_bytes, uint32_t floor_epochs);

/* Frees nothing: the heap is ended with what is in it.  Returns whether nothing
 * failed, was damaged, misused or broken; prints it if so. */
bool test_returns_end(struct returns *returns);

/* Zeroed memory out of the machine's scratch; ends the program if there is
 * none left, which only a wrong setting can cause. */
void *test_returns_scratch(struct returns *returns, size_t size);

/* Allocates and touches a block; NULL is counted. */
void *test_returns_alloc(struct returns *returns, size_t size);
/* Verifies and frees it; NULL does nothing. */
void test_returns_free(struct returns *returns, void *p, size_t size);

/* From now on calls are made by this context. */
void test_returns_context(struct returns *returns, unsigned context);

/* The context has used the heap and idles again: it sweeps at once. */
void test_returns_rest(struct returns *returns, unsigned context);

/* Time goes by until `until`, and idle loops sweep when they are due. */
void test_returns_idle(struct returns *returns, uint64_t until);

/* When the next idle loop is due; UINT64_MAX if none ever is. */
uint64_t test_returns_due(const struct returns *returns);

/* The bytes that the heap has of the machine, tables included. */
size_t test_returns_resident(struct returns *returns);

/* Makes everything that was not used in this epoch or the last two equally
 * old: the flat floor.  It never drains. */
void test_returns_flatten(struct returns *returns);

/* Of what began at `begin` and takes half a second, so much is done. */
void test_returns_busy(struct returns *returns, uint64_t begin, uint64_t done,
	uint64_t all);

/* Prints a sample, if there is a series. */
void test_returns_sample(struct returns *returns);

/* Verifies the heap; keeps the first that is broken. */
void test_returns_check(struct returns *returns);

/* A number below n. */
uint64_t test_returns_below(struct returns *returns, uint64_t n);

/*
 * A size of 64 * 2^(10 u^1.92) bytes, u uniform from 0 to 1: 64 B to 64 KiB,
 * many small, 5.3 KiB in the mean.
 */
size_t test_returns_size(struct returns *returns);

/* A block that a scenario remembers. */
struct returns_block {
	void *p; /* NULL: none */
	size_t size;
};

/* The bytes of the granules that hold a byte of one of n blocks: what no
 * allocator can give back, since blocks do not move. */
size_t test_returns_bound(
	struct returns *returns, const struct returns_block *blocks, size_t n);

/* Afterwards the blocks are in a random order. */
void test_returns_shuffle(
	struct returns *returns, struct returns_block *blocks, size_t n);

/* --------------------------------------------------- 1: churn, then idle -- */

struct returns_churn {
	size_t blocks;
	/* Of `of` blocks, `freed` are. */
	unsigned freed, of;
	/* Of each block; 0: test_returns_size(). */
	size_t size;
	size_t floor; /* as fallow_config's */
};

struct returns_churn_result {
	size_t live;
	size_t bound;    /* granules that hold a live byte */
	size_t before;   /* resident before the first sweep */
	size_t after[4]; /* and in the first, second ... epoch */
	size_t end;      /* when nothing was left to be done */
	size_t tables;   /* of these: a fifth of a percent of the peak */
	uint64_t epochs; /* until then; UINT64_MAX: there was no end */
	uint64_t decommits, ranges;
	uint64_t refusals; /* of ranges */
	bool good;
};

struct returns_churn_result test_returns_churn(
	const struct returns_machine *machine,
	const struct returns_churn *churn, const char *series);

/* ------------------------------------------------- 2: the request server -- */

enum returns_floor {
	RETURNS_FLOOR_NONE,
	RETURNS_FLOOR,
	/* 8 MiB that do not age: what was used last is worth no more than what
	 * was used first.  No setting of the heap's: see returns_server.c. */
	RETURNS_FLOOR_FLAT,
};

struct returns_server {
	size_t burst;      /* bytes that are allocated and freed first */
	size_t buffer;     /* each of four */
	unsigned rate;     /* requests a second */
	unsigned requests;
	enum returns_floor floor;
};

struct returns_server_result {
	uint64_t commits;   /* calls in all requests */
	uint64_t recommitted; /* bytes */
	size_t kept;        /* at most, between requests; nothing is live */
	size_t end;         /* kept when nothing was left to be done */
	size_t tables;      /* of that */
	uint64_t epochs;    /* until then, from the last request */
	uint64_t wakeups;   /* in them */
	uint64_t late;      /* wake-ups after that, in ten times as long */
	bool good;
};

struct returns_server_result test_returns_server(
	const struct returns_machine *machine,
	const struct returns_server *server, const char *series);

/* -------------------------------------------------- 3: a pool of workers -- */

struct returns_pool {
	unsigned workers;
	unsigned epochs; /* how long they work */
	/* Who idles parks, and the first worker alone sweeps, for all; else
	 * each sweeps for itself. */
	bool park;
	size_t floor; /* as fallow_config's */
};

struct returns_pool_result {
	size_t live, resident; /* in the mean, while they work */
	size_t live_peak, resident_peak;
	size_t kept; /* three epochs after the last job */
	size_t end;  /* when nothing was left to be done */
	size_t tables; /* of these */
	uint64_t jobs, commits;
	uint64_t epochs; /* until then, from the last job */
	bool good;
};

/* Each worker takes a buffer of 96 to 512 KiB for up to an epoch, then pauses
 * for as long; one in eight is freed by the next worker. */
struct returns_pool_result test_returns_pool(
	const struct returns_machine *machine,
	const struct returns_pool *pool, const char *series);

/* ------------------------------------------------------- 4: a busy owner -- */

struct returns_owner {
	size_t blocks;
	unsigned rounds;     /* reclaims by the other context, or none */
	unsigned operations; /* of the owner, before each */
	bool reclaim;
};

struct returns_owner_result {
	size_t live, bound;   /* at the end */
	size_t before, after; /* resident */
	uint64_t ticks;       /* of the owner's operations */
	uint64_t operations;
	uint64_t commits; /* in them */
	uint64_t reported; /* what the reclaims said they had given back */
	bool good;
};

/* The first context frees nine of ten blocks, then goes on to free and allocate
 * a few; the second one asks for what could be had. */
struct returns_owner_result test_returns_owner(
	const struct returns_machine *machine,
	const struct returns_owner *owner, const char *series);

/* ------------------------------------------------- 5: spike, idle, spike -- */

struct returns_spike {
	size_t bytes;
	unsigned epochs; /* without use, between the two */
	size_t floor;    /* as fallow_config's */
};

struct returns_spike_result {
	/* Of the first spike and of the second. */
	uint64_t commits[2], committed[2], ticks[2];
	uint64_t operations;
	size_t kept; /* before the second */
	bool good;
};

struct returns_spike_result test_returns_spike(
	const struct returns_machine *machine,
	const struct returns_spike *spike, const char *series);

/* ---------------------------------------------------------------- tables -- */

/* Runs all of them as large as the machine has room for, and prints their
 * tables; returns whether every figure was reached. */
bool test_returns_report(const struct returns_machine *machine);

#endif
