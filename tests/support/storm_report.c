/* SPDX-License-Identifier: MIT */
/*
 * What a storm says: how far it is, what failed and where, who hangs.
 *
 * A hang is that no worker made a step for a long time: by the clock, and
 * while somebody looked at it all the time, so that a machine that stood still
 * is none.  Whoever waits for the others looks, and the handlers of a worker
 * that stands still do; what is printed then is read from the others as it is,
 * since they will not stop.  A machine whose every CPU waits with interrupts
 * masked is left to the runner.
 *
 * The inside of the heap is read for that report alone: its locks' tickets.
 */
#include "heap.h"
#include "storm_state.h"

#define PATIENCE_MILLISECONDS 180000u
#define PATIENCE_LOOKS 1000u
/* Nobody looked for so long: the machine stood still, or is very busy. */
#define GAP_MILLISECONDS 5000u

/* The clock is asked once in so many looks. */
#define LOOKS_PER_CLOCK 16

static const char *phase_name(enum storm_phase phase)
{
	static const char *const names[] = {
		[STORM_CHURN] = "churn",
		[STORM_FILL] = "fill",
		[STORM_DRAIN] = "drain",
		[STORM_PINGPONG] = "ping-pong",
		[STORM_HOT] = "hot",
		[STORM_QUIET] = "quiet",
		[STORM_EMPTY] = "empty",
		[STORM_END] = "end",
	};

	return phase <= STORM_END ? names[phase] : "none";
}

/* Says what the agent did last. */
static void agent_print(const struct storm_agent *agent)
{
	const struct oracle *oracle = &agent->oracle;

	test_printf("\n    worker %u%s, step %llu, %s %s 0x%lx size %zu "
		    "flags %u; %zu blocks, %zu bytes",
		agent->worker, agent->handler ? "'s handler" : "",
		(unsigned long long)storm_read(&agent->steps),
		agent->inside ? "inside" : "after",
		agent->doing ? agent->doing :
			oracle->doing ? oracle->doing : "nothing",
		(unsigned long)oracle->doing_base, oracle->doing_size,
		agent->flags, oracle->count, oracle->live);
}

/* Says where in the storm that is. */
static void storm_place(const struct storm *storm)
{
	test_printf("\n    round %llu, phase %s, seed %llu",
		(unsigned long long)storm->counts.rounds,
		phase_name(storm->phase),
		(unsigned long long)storm->config.seed);
}

void storm_fail(struct storm *storm, const char *what)
{
	test_fail(__FILE__, __LINE__, what);
	if (!__atomic_exchange_n(&storm->failed, 1, __ATOMIC_RELAXED))
		storm_place(storm);
}

void storm_judge(struct storm_agent *agent)
{
	if (agent->oracle.failures == agent->reported)
		return;
	agent->reported = agent->oracle.failures;
	agent_print(agent);
	storm_fail(agent->storm, "every check of a worker holds");
}

void storm_misuse(void *arg, const struct fallow_misuse *report)
{
	struct storm *storm = arg;

	test_printf("\n    %s: 0x%lx, block 0x%lx of %zu bytes, owner %u, "
		    "context %u, caller 0x%lx",
		fallow_misuse_text(report->kind),
		(unsigned long)report->address, (unsigned long)report->block,
		report->block_size, report->owner, report->context,
		(unsigned long)report->caller);
	agent_print(&storm->agent[report->context % storm->agents]);
	storm_fail(storm, "no pointer is misused");
}

void storm_sum(struct storm *storm)
{
	struct storm_counts *counts = &storm->counts;

	counts->operations = 0;
	counts->nulls = 0;
	counts->handlers = 0;
	counts->within = 0;
	for (unsigned i = 0; i < storm->agents; i++) {
		const struct storm_agent *agent = &storm->agent[i];

		counts->operations += agent->oracle.operations + agent->hot;
		counts->nulls += agent->oracle.nulls;
		counts->handlers += agent->handler ? agent->steps : 0;
		counts->within += agent->within;
	}
	counts->operations +=
		counts->collects + counts->sweeps + counts->reclaims +
		counts->offlines + counts->parks;
}

void storm_print(const struct storm *storm, const char *name)
{
	const struct storm_counts *counts = &storm->counts;

	test_printf("\nnote: %s: %llu rounds, %llu checks (%llu with holes), "
		    "%llu operations, "
		    "%llu NULL, %llu passed on, %llu remote frees, "
		    "%llu abandoned, %llu adopted, ",
		name, (unsigned long long)counts->rounds,
		(unsigned long long)counts->checks,
		(unsigned long long)counts->holed,
		(unsigned long long)counts->operations,
		(unsigned long long)counts->nulls,
		(unsigned long long)counts->passed,
		(unsigned long long)counts->remote_frees,
		(unsigned long long)counts->abandoned,
		(unsigned long long)counts->adopted);
	test_printf("%llu handler runs (%llu inside a call), %llu collects, "
		    "%llu sweeps, %llu reclaims, %llu offline, %llu parked, "
		    "%llu under pressure, "
		    "%llu deferred (%llu in an NMI), %llu out of tokens, "
		    "%llu of the reserve\n",
		(unsigned long long)counts->handlers,
		(unsigned long long)counts->within,
		(unsigned long long)counts->collects,
		(unsigned long long)counts->sweeps,
		(unsigned long long)counts->reclaims,
		(unsigned long long)counts->offlines,
		(unsigned long long)counts->parks,
		(unsigned long long)counts->pressures,
		(unsigned long long)counts->deferred,
		(unsigned long long)counts->nmis,
		(unsigned long long)counts->tokens,
		(unsigned long long)counts->reserve_served);
}

void storm_progress(struct storm *storm)
{
	const struct storm_counts *counts = &storm->counts;

	storm_sum(storm);
	test_printf("\n  %llu s: %llu operations, %llu NULL, "
		    "%llu handler runs, %llu checks",
		(unsigned long long)(storm->told - storm->began) / 1000,
		(unsigned long long)counts->operations,
		(unsigned long long)counts->nulls,
		(unsigned long long)counts->handlers,
		(unsigned long long)counts->checks);
}

/* Prints the lock's tickets, if somebody holds or wants it. */
static void lock_print(
	const char *name, unsigned index, const struct lock *lock)
{
	if (lock_held(lock))
		test_printf("\n    %s %u: serving %u, next %u", name, index,
			lock->serving, lock->next);
}

/* Nobody goes on: prints what there is to know, and ends the program. */
static void hang(struct storm *storm)
{
	const struct heap *heap = heap_of(storm->config.heap);

	test_printf("\n    no worker goes on:");
	for (unsigned i = 0; i < storm->agents; i++)
		agent_print(&storm->agent[i]);
	lock_print("heap->lock", 0, &heap->lock);
	for (unsigned i = 0; i < heap->contexts; i++)
		lock_print("lock of context", i, &heap->locals[i]->lock);
	test_printf("\n    growing %u, %u of %u have met", heap->growing,
		storm->arrived, storm->workers);
	for (unsigned i = 0; i < storm->workers; i++)
		if (storm->config.host->explain)
			storm->config.host->explain(i);
	storm_fail(storm, "somebody goes on");
	test_printf("\n");
	storm->config.host->die();
}

/* The sum of the workers' steps. */
static uint64_t steps_sum(const struct storm *storm)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < storm->workers; i++)
		sum += storm_read(&storm->agent[i].steps);
	return sum;
}

void storm_watch(struct storm *storm)
{
	uint64_t patience = storm->config.patience_milliseconds;
	uint64_t looks = __atomic_add_fetch(
		&storm->watch_looks, 1, __ATOMIC_RELAXED);
	uint64_t sum, now, last;

	if (looks % LOOKS_PER_CLOCK)
		return;
	sum = steps_sum(storm);
	now = storm->config.host->milliseconds();
	last = __atomic_exchange_n(&storm->watch_last, now, __ATOMIC_RELAXED);
	if (sum != storm_read(&storm->watch_sum) ||
		(now > last && now - last > GAP_MILLISECONDS)) {
		storm_write(&storm->watch_sum, sum);
		storm_write(&storm->watch_since, now);
		storm_write(&storm->watch_looks, 0);
	} else if (looks > PATIENCE_LOOKS &&
		now > storm_read(&storm->watch_since) +
				(patience ? patience : PATIENCE_MILLISECONDS)) {
		hang(storm);
	}
}
