/* SPDX-License-Identifier: MIT */
/*
 * A storm: every CPU, and the timer handler of every CPU, in one heap at once.
 *
 * One engine for two kinds of host: threads on the developer's machine, CPUs in
 * a guest.  What is different between them is struct storm_host; an engine's
 * worker is a thread or a CPU, its handler what interrupts it (where threads
 * are contexts, a thread beside it with a context of its own).
 *
 * Each worker and each handler has an oracle.  Blocks go from any of them to
 * any other through rings, so that most are freed where they were not
 * allocated.  After a number of steps, a *round*, all workers meet with their
 * handlers silent, and all oracles together are compared with the heap.  What
 * the workers do differs from round to round (enum storm_phase); some rounds
 * end with nothing left, and then nothing may be committed either.
 *
 * Any failure ends the storm, and its message names worker, call and seed; a
 * seed repeats what each worker decides, not how they interleave.  Where no
 * worker goes on for long, the storm says what each was doing and ends the
 * program.
 */
#ifndef STORM_H
#define STORM_H

#include "oracle.h"

#define STORM_WORKERS_MAX 8
/* Workers, then their handlers. */
#define STORM_AGENTS_MAX (2 * STORM_WORKERS_MAX)

/* Blocks that a worker, a handler and a ring have room for. */
#define STORM_WORKER_BLOCKS 512
#define STORM_HANDLER_BLOCKS 64
#define STORM_RING_BLOCKS 16

struct storm;

/* What a storm needs of what it runs on; functions marked optional may be
 * NULL.  `worker` is always the calling one's, but in timer(). */
struct storm_host {
	/* 1 to STORM_WORKERS_MAX. */
	unsigned workers;
	/* Calls work(arg, worker) in all workers at once; returns when all
	 * have returned. */
	void (*run)(void (*work)(void *arg, unsigned worker), void *arg);
	/* Who calls, in task context: a worker, or where handlers are threads
	 * the number of workers plus the worker. */
	unsigned (*self)(void);
	/* A clock that only decides how long a storm takes. */
	uint64_t (*milliseconds)(void);
	/* Called in loops that wait for other workers. */
	void (*pause)(void);
	/* Waits for the next run of the handler, or a little. */
	void (*idle)(void);
	/*
	 * Optional.  From now on storm_handler(worker) is called every so
	 * many nanoseconds, as the handler that interrupts this worker; 0
	 * ends it, and no handler runs afterwards.  Called by the worker, and
	 * by its handler (not with 0).
	 */
	void (*timer)(unsigned worker, uint64_t nanoseconds);
	/* With timer(): between the two the worker is where its handler is,
	 * which does not come meanwhile. */
	uintptr_t (*handler_enter)(unsigned worker);
	void (*handler_leave)(unsigned worker, uintptr_t state);
	/* Optional.  Has worker `to` call handler(arg) where neither a lock nor
	 * masked interrupts keep it away; does not wait.  Returns: whether it
	 * will. */
	bool (*nmi)(unsigned to, void (*handler)(void *arg), void *arg);
	/* Optional, all three or none: whether interrupts are on; masks them;
	 * restores what the mask returned. */
	bool (*interrupts_on)(void);
	uintptr_t (*interrupts_mask)(void);
	void (*interrupts_restore)(uintptr_t state);
	/* Optional: around the comparison, by worker 0. */
	void (*stop_others)(void);
	void (*resume_others)(void);
	/* Optional: around each call into the heap, by whom it is made. */
	void (*before)(unsigned worker, bool handler, unsigned flags);
	void (*after)(unsigned worker, bool handler);
	/* The machine's other users of memory: this one takes some or gives
	 * some back, as `random` says; relax() gives all of it back. */
	void (*squeeze)(unsigned worker, uint64_t random);
	void (*relax)(unsigned worker);
	/* Optional: what else must be true when all have met.  `empty`: the
	 * heap holds no block and no memory but its tables. */
	void (*inspect)(bool empty);
	/* Optional: more about one worker, for the report of a hang. */
	void (*explain)(unsigned worker);
	/* Ends the program, which has failed. */
	void (*die)(void) __attribute__((noreturn));
};

struct storm_config {
	const struct storm_host *host;
	/* Has a context for each worker; storm_misuse() and storm_pressure()
	 * are its hooks, with the storm. */
	struct fallow *heap;
	uint64_t seed;
	/* Of each worker in a round, which ends earlier when it took so long:
	 * a busy machine does less, and fails no more than another. */
	unsigned steps;
	uint64_t round_milliseconds;
	/* A storm ends when it had so many rounds and so much time, or when it
	 * has had `enough` time, if that is not 0; never before it had a round
	 * of each phase. */
	unsigned rounds;
	uint64_t milliseconds;
	uint64_t enough_milliseconds;
	/* No time is enough, up to eight times as much, until a check between
	 * rounds has seen holes. */
	bool holes;
	/* Bytes of memory that the heap can have at most; all workers together
	 * want somewhat more. */
	size_t memory;
	/* Print how far it is every so often; 0: never. */
	uint64_t progress_milliseconds;
	/* No step of any worker for so long is a hang.  (0: 180 s.) */
	uint64_t patience_milliseconds;
};

enum storm_phase {
	/* Random operations of all kinds. */
	STORM_CHURN,
	/* Allocate until there is no memory, then go on at the brink. */
	STORM_FILL,
	/* Free nearly everything, at random, much of it what others had. */
	STORM_DRAIN,
	/* Even workers allocate and pass on, odd ones receive and free. */
	STORM_PINGPONG,
	/* Blocks of one size, allocated and freed as fast as that goes. */
	STORM_HOT,
	/* Little is done; contexts go, memory is given back. */
	STORM_QUIET,
	/* Everything is freed. */
	STORM_EMPTY,
	STORM_PHASES,
	STORM_END = STORM_PHASES,
};

/* Blocks on their way from one agent to one other: one gives, one takes. */
struct storm_ring {
	uint32_t given, taken;
	struct oracle_block blocks[STORM_RING_BLOCKS];
};

/* A worker's own code, or its handler. */
struct storm_agent {
	struct storm *storm;
	unsigned worker;
	bool handler;
	struct oracle oracle;
	uint64_t random;
	/* Read by others while it runs. */
	uint64_t steps; /* of a handler: its runs */
	uint32_t inside; /* calls into the heap under way */
	/* What interrupts were, and the flags, at the begin of the innermost
	 * call. */
	bool were_on;
	unsigned flags;
	const char *doing; /* what is no call of the oracle's; else NULL */
	/* Blocks put by; a handler's is filled by its worker. */
	struct fallow_token token;
	/* A block that an NMI on another CPU is to free; NULL when it has. */
	void *nmi_block;
	uint64_t hot; /* operations without the oracle */
	unsigned pressed; /* calls of the pressure hook in this call */
	unsigned reported; /* failures of the oracle that were told of */
	struct oracle_block *blocks;
	/* Worker: the period of its timer, and both counts when that was last
	 * looked at. */
	uint64_t period;
	uint64_t paced_operations, paced_runs;
	/* Handler: the steps of its worker when it last saw it go on, and its
	 * runs since then or since the period was made longer. */
	uint64_t still_steps, still_runs;
	/* NULLs that it had when the round began. */
	uint64_t round_nulls;
	/* Handler: runs that interrupted a call. */
	uint64_t within;
};

struct storm_counts {
	/* Checks, and those that found holes. */
	uint64_t rounds, checks, holed;
	uint64_t operations, nulls, passed;
	/* Runs of handlers; those that interrupted a call into the heap. */
	uint64_t handlers, within;
	uint64_t collects, sweeps, reclaims, offlines, parks, pressures;
	/* Blocks freed later, of these in NMIs; blocks out of tokens. */
	uint64_t deferred, nmis, tokens;
	/* Of the heap. */
	uint64_t remote_frees, abandoned, adopted, reserve_served;
};

struct storm {
	struct storm_config config;
	unsigned workers, agents; /* agents: twice the workers */
	struct storm_agent agent[STORM_AGENTS_MAX];
	struct storm_counts counts;
	uint64_t random; /* of worker 0: what comes next */
	uint64_t began, round_began, told;
	/* Everything from here on is touched by all. */
	enum storm_phase phase;
	uint32_t failed;
	uint32_t arrived, meeting;
	/* The sum of all steps when it last changed, the time then, how often
	 * it was looked at since, and when last. */
	uint64_t watch_sum, watch_since, watch_looks, watch_last;
	struct storm_ring rings[STORM_AGENTS_MAX][STORM_AGENTS_MAX];
	struct oracle_block worker_blocks[STORM_WORKERS_MAX]
		[STORM_WORKER_BLOCKS];
	struct oracle_block handler_blocks[STORM_WORKERS_MAX]
		[STORM_HANDLER_BLOCKS];
	/* What is in the rings, when all have met. */
	struct oracle mail;
	struct oracle_block mail_blocks[STORM_AGENTS_MAX * STORM_AGENTS_MAX *
		STORM_RING_BLOCKS];
};

/* Runs one, from its first round to its last; at the end the heap is empty,
 * unless a check failed.  Context: task, as host->run() wants it. */
void storm_run(struct storm *storm, const struct storm_config *config);

/* Prints what it did, as one line. */
void storm_print(const struct storm *storm, const char *name);

/* What host->timer() has called. */
void storm_handler(struct storm *storm, unsigned worker);

/* Whether a call of the provider is now legal for this worker or handler:
 * false iff its call into the heap said NOWAIT. */
bool storm_may_call(const struct storm *storm, unsigned worker, bool handler);

/* To be called again and again by whoever waits: where no worker has gone on
 * for long, prints what each is doing and ends the program. */
void storm_watch(struct storm *storm);

/* Notes a failure that the host has seen. */
void storm_fail(struct storm *storm, const char *what);

/* The heap's hooks: a misuse is a failure; under pressure a worker frees one of
 * its blocks. */
void storm_misuse(void *storm, const struct fallow_misuse *report);
bool storm_pressure(void *storm, size_t size);

#endif
