/* SPDX-License-Identifier: MIT */
/* What storm.c, storm_step.c and storm_report.c share. */
#ifndef STORM_STATE_H
#define STORM_STATE_H

#include "storm.h"
#include "test.h"

static inline struct storm_agent *storm_worker(
	struct storm *storm, unsigned worker)
{
	return &storm->agent[worker];
}

static inline struct storm_agent *storm_handler_of(
	struct storm *storm, unsigned worker)
{
	return &storm->agent[storm->workers + worker];
}

/* Counters that one agent writes and others read while it runs. */
static inline uint64_t storm_read(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

static inline void storm_write(uint64_t *counter, uint64_t value)
{
	__atomic_store_n(counter, value, __ATOMIC_RELAXED);
}

static inline bool storm_failed(const struct storm *storm)
{
	return __atomic_load_n(&storm->failed, __ATOMIC_RELAXED);
}

static inline void storm_count(uint64_t *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

/* One step of a worker in the storm's phase. */
void storm_step(struct storm_agent *agent);

/* A few operations of a handler. */
void storm_step_handler(struct storm_agent *agent);

/* Sets what the oracle of a new agent wants of its blocks, and its hooks. */
void storm_oracle_set(struct storm_agent *agent);

/* Frees all blocks that are the agent's or on their way to it. */
void storm_free_all(struct storm_agent *agent);

/* Gives back what the tokens of the worker and its handler hold, and waits for
 * the NMI that it sent. */
void storm_settle(struct storm_agent *worker);

/* Goes offline or collects, as an operation of this agent. */
void storm_offline(struct storm_agent *agent);
void storm_collect(struct storm_agent *agent);

/* Sweeps, parks and reclaims: at the end of some rounds, so that each has been
 * done, and the heap is looked at with holes in it, however short they were. */
void storm_give_back(struct storm_agent *worker);

/* If a check of the agent failed, says where and ends the storm. */
void storm_judge(struct storm_agent *agent);

/* Prints how far the storm is. */
void storm_progress(struct storm *storm);

/* Sums up what the agents did. */
void storm_sum(struct storm *storm);

#endif
