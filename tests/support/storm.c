/* SPDX-License-Identifier: MIT */
/*
 * The storm: its rounds, and what is compared between them.
 *
 * A round is so many steps of every worker in one phase.  At its end each
 * worker silences its timer, so that its handler is at rest too, and all meet.
 * Then one of them, alone in the heap, compares: every block that is in an
 * oracle or in a ring, and no other, is in use.  It also decides what comes
 * next, from the seed alone.
 *
 * A meeting is a counter and a generation; the last to arrive moves the
 * generation on, and what each did before is seen by all afterwards.  Who
 * waits there looks whether anybody goes on (storm_report.c).  After a failure
 * nobody waits for anybody: all leave, and the heap is left as it is.
 *
 * A timer's period follows its worker: while that makes two operations between
 * two runs of its handler, the period is halved; while it makes none in every
 * other, doubled.  So handlers come as
 * often as they can without starving what they interrupt, however fast the
 * machine and however busy its host.  Where a worker stands still, its handler
 * slows itself down.
 *
 * There are no locks in here: a handler may come at any point, and must not
 * wait for what it interrupted.
 */
#include "storm.h"

#include "storm_state.h"

/* Of a timer: where it begins, its shortest and longest. */
#define PERIOD_BEGIN 1000000u
#define PERIOD_MIN 4000u
#define PERIOD_MAX 1024000000u

/* A worker looks at its period after so many runs of its handler.  One that
 * makes no step for so many may be starving: a handler that waits for locks
 * takes long, and its next run is then due when it returns. */
#define PACE_RUNS 16
#define STILL_RUNS 12

/* What the emergency pool takes beside what it holds: a slice. */
#define RESERVE_TABLES_MAX ((size_t)64 << 10)

/* Waits until all workers are here; returns whether the storm goes on. */
static bool meet(struct storm *storm)
{
	uint32_t meeting = __atomic_load_n(&storm->meeting, __ATOMIC_ACQUIRE);

	/* Acquires what all did who came before: it is theirs too that the
	 * last one passes on. */
	if (__atomic_add_fetch(&storm->arrived, 1, __ATOMIC_ACQ_REL) ==
		storm->workers) {
		__atomic_store_n(&storm->arrived, 0, __ATOMIC_RELAXED);
		__atomic_store_n(
			&storm->meeting, meeting + 1, __ATOMIC_RELEASE);
	}
	/* Pairs with the release above. */
	while (__atomic_load_n(&storm->meeting, __ATOMIC_ACQUIRE) == meeting) {
		if (storm_failed(storm))
			return false;
		storm_watch(storm);
		storm->config.host->pause();
	}
	return !storm_failed(storm);
}

/* Sets the worker's timer, if it has one, to its period or to silence. */
static void timer_set(struct storm_agent *worker, bool on)
{
	const struct storm_host *host = worker->storm->config.host;

	if (host->timer)
		host->timer(worker->worker,
			on ? storm_read(&worker->period) : 0);
}

/* Multiplies the worker's period, within its bounds, by a half or by 2. */
static void period_change(struct storm_agent *worker, bool shorter)
{
	uint64_t period = storm_read(&worker->period);

	if (shorter ? period / 2 < PERIOD_MIN : period * 2 > PERIOD_MAX)
		return;
	storm_write(&worker->period, shorter ? period / 2 : period * 2);
	timer_set(worker, true);
}

/* By the worker itself: two operations or more between two runs of its handler
 * make its period shorter, less than one in two makes it longer. */
static void pace(struct storm_agent *worker)
{
	struct storm *storm = worker->storm;
	uint64_t runs = storm_read(
		&storm_handler_of(storm, worker->worker)->steps);
	uint64_t run = runs - storm_read(&worker->paced_runs);
	uint64_t operations = storm_read(&worker->steps) +
		worker->oracle.operations + worker->hot;
	uint64_t made = operations - worker->paced_operations;

	if (!storm->config.host->timer || run < PACE_RUNS)
		return;
	if (made >= 2 * run || 2 * made < run)
		period_change(worker, made >= 2 * run);
	storm_write(&worker->paced_runs, runs);
	worker->paced_operations = operations;
}

/* By the handler: makes the period longer while its worker stands still. */
static void still_check(struct storm_agent *worker, struct storm_agent *handler)
{
	uint64_t steps = storm_read(&worker->steps);

	if (steps != handler->still_steps) {
		handler->still_steps = steps;
		handler->still_runs = 0;
	} else if (++handler->still_runs == STILL_RUNS) {
		handler->still_runs = 0;
		period_change(worker, false);
	}
}

void storm_handler(struct storm *storm, unsigned worker)
{
	struct storm_agent *handler = storm_handler_of(storm, worker);
	struct storm_agent *main = storm_worker(storm, worker);
	const struct storm_host *host = storm->config.host;
	uint64_t runs = storm_read(&handler->steps) + 1;

	storm_write(&handler->steps, runs);
	if (storm_failed(storm))
		return;
	if (host->interrupts_on && host->interrupts_on())
		storm_fail(storm, "a handler begins with interrupts off");
	if (__atomic_load_n(&main->inside, __ATOMIC_RELAXED))
		handler->within++;
	storm_step_handler(handler);
	storm_judge(handler);
	still_check(main, handler);
	storm_watch(storm);
}

/* Takes the blocks in all rings for known; the rings stay as they are. */
static void mail_read(struct storm *storm)
{
	oracle_begin(&storm->mail, storm->config.heap, storm->mail_blocks,
		sizeof(storm->mail_blocks) / sizeof(storm->mail_blocks[0]), 0);
	storm->mail.sampled = storm->agent[0].oracle.sampled;
	for (unsigned from = 0; from < storm->agents; from++) {
		for (unsigned to = 0; to < storm->agents; to++) {
			struct storm_ring *ring = &storm->rings[from][to];

			for (uint32_t i = ring->taken; i != ring->given; i++)
				oracle_learn(&storm->mail,
					ring->blocks[i % STORM_RING_BLOCKS]);
		}
	}
}

/* When all was freed: nothing is left but the emergency pool and its tables. */
static void empty_check(const struct fallow_snapshot *now)
{
	size_t tables = now->committed - now->reserve;

	CHECK_EQUAL(now->blocks, 0);
	CHECK_EQUAL(now->reserve_live, 0);
	if (now->reserve)
		CHECK(tables <= RESERVE_TABLES_MAX);
	else
		CHECK_EQUAL(now->committed, 0);
}

/* By worker 0, when all have met: compares the heap with all oracles. */
static void compare(struct storm *storm)
{
	struct oracle *oracles[STORM_AGENTS_MAX + 1];
	const struct storm_host *host = storm->config.host;
	bool empty = storm->phase == STORM_EMPTY;
	struct fallow_snapshot now = { .size = sizeof(now) };

	if (host->stop_others)
		host->stop_others();
	mail_read(storm);
	oracle_verify(&storm->mail);
	for (unsigned i = 0; i < storm->agents; i++)
		oracles[i] = &storm->agent[i].oracle;
	oracles[storm->agents] = &storm->mail;
	oracle_compare(oracles, storm->agents + 1);
	fallow_snapshot(storm->config.heap, &now);
	if (empty)
		empty_check(&now);
	if (host->inspect)
		host->inspect(empty);
	if (host->resume_others)
		host->resume_others();
	storm->counts.checks++;
	storm->counts.holed += now.holes > 0;
	storm->counts.remote_frees = now.remote_frees;
	storm->counts.abandoned = now.abandoned;
	storm->counts.adopted = now.adopted;
	storm->counts.reserve_served = now.reserve_served;
	if (storm->mail.failures)
		storm_fail(storm, "blocks that were passed on are intact");
	storm_judge(&storm->agent[0]);
	if (test_failures())
		storm_fail(storm, "heap and oracles agree");
}

/* Whether the storm may end: it had a round of each phase, and saw what it is to
 * see, or has waited for that for long. */
static bool storm_enough(const struct storm *storm, uint64_t now)
{
	const struct storm_config *config = &storm->config;
	uint64_t enough = config->enough_milliseconds;
	uint64_t time = now - storm->began;

	if (storm->counts.rounds < STORM_PHASES)
		return false;
	if (config->holes && storm->counts.holed == 0)
		enough *= 8;
	return (enough && time >= enough) ||
		(storm->counts.rounds >= config->rounds &&
			time >= config->milliseconds);
}

/* By worker 0: decides what the next round is.  Each phase has its turn, then
 * chance has, and a storm ends with nothing left. */
static void round_choose(struct storm *storm)
{
	uint64_t now = storm->config.host->milliseconds();
	uint64_t rounds = ++storm->counts.rounds;

	if (storm_enough(storm, now))
		storm->phase = storm->phase == STORM_EMPTY ? STORM_END
							   : STORM_EMPTY;
	else if (rounds < STORM_PHASES)
		storm->phase = (enum storm_phase)rounds;
	else if (rounds % STORM_PHASES == STORM_EMPTY)
		storm->phase = STORM_EMPTY;
	else
		storm->phase = test_random(&storm->random) % STORM_EMPTY;
	storm->round_began = now;
	if (storm->config.progress_milliseconds &&
		now - storm->told >= storm->config.progress_milliseconds) {
		storm->told = now;
		storm_progress(storm);
	}
}

/* With all timers silent and everybody met: frees everything; afterwards no
 * block is in use and no memory committed.  Returns whether it goes on. */
static bool empty_all(struct storm_agent *worker)
{
	struct storm *storm = worker->storm;
	const struct storm_host *host = storm->config.host;
	uintptr_t state;

	storm_free_all(worker);
	if (host->timer) {
		struct storm_agent *handler =
			storm_handler_of(storm, worker->worker);

		state = host->handler_enter(worker->worker);
		storm_free_all(handler);
		storm_offline(handler);
		host->handler_leave(worker->worker, state);
		storm_judge(handler);
	}
	host->relax(worker->worker);
	if (!meet(storm))
		return false;
	/* All pages are empty, most of them another's: all at once again. */
	storm_offline(worker);
	storm_collect(worker);
	storm_judge(worker);
	if (!meet(storm))
		return false;
	if (worker->worker == 0)
		storm_collect(worker);
	return true;
}

/* Ends a round: all meet, one compares and chooses the next.  Returns whether
 * there is one. */
static bool round_end(struct storm_agent *worker)
{
	struct storm *storm = worker->storm;
	struct storm_agent *handler = storm_handler_of(storm, worker->worker);
	/* Worker 0 changes it as soon as all have met. */
	bool empty = storm->phase == STORM_EMPTY;

	if (storm->counts.rounds % 2 == 0)
		storm_give_back(worker);
	timer_set(worker, false);
	storm_settle(worker);
	oracle_verify(&worker->oracle);
	oracle_verify(&handler->oracle);
	storm_judge(worker);
	storm_judge(handler);
	if (!meet(storm))
		return false;
	if (empty && !empty_all(worker))
		return false;
	if (worker->worker == 0) {
		compare(storm);
		round_choose(storm);
	}
	return meet(storm) && storm->phase != STORM_END;
}

/* Whether the worker has done enough in this round: its steps, or as many as
 * there is time for.  Memory that is to run out does. */
static bool round_over(const struct storm_agent *worker, unsigned step)
{
	const struct storm *storm = worker->storm;
	const struct storm_config *config = &storm->config;

	if (step == config->steps || storm_failed(storm))
		return true;
	if (storm->phase == STORM_FILL &&
		worker->oracle.nulls == worker->round_nulls)
		return false;
	return config->host->milliseconds() - storm->round_began >=
		config->round_milliseconds;
}

/* A worker, from the first round to the last. */
static void work(void *arg, unsigned index)
{
	struct storm *storm = arg;
	struct storm_agent *worker = storm_worker(storm, index);

	do {
		worker->round_nulls = worker->oracle.nulls;
		timer_set(worker, true);
		for (unsigned i = 0; !round_over(worker, i); i++) {
			storm_step(worker);
			storm_write(&worker->steps,
				storm_read(&worker->steps) + 1);
			storm_judge(worker);
			pace(worker);
		}
	} while (round_end(worker));
	timer_set(worker, false);
	/* A thread that ends, or is silent for good, leaves its pages. */
	if (!storm_failed(storm))
		storm_offline(worker);
}

static void agent_begin(struct storm *storm, unsigned i)
{
	const struct storm_config *config = &storm->config;
	struct storm_agent *agent = &storm->agent[i];
	bool handler = i >= storm->workers;
	unsigned worker = handler ? i - storm->workers : i;
	uint64_t seed = config->seed * 0x9e3779b97f4a7c15u + i;

	*agent = (struct storm_agent){
		.storm = storm,
		.worker = worker,
		.handler = handler,
		.random = seed,
		.period = PERIOD_BEGIN,
		.blocks = handler ? storm->handler_blocks[worker]
				  : storm->worker_blocks[worker],
	};
	oracle_begin(&agent->oracle, config->heap, agent->blocks,
		handler ? STORM_HANDLER_BLOCKS : STORM_WORKER_BLOCKS, ~seed);
	storm_oracle_set(agent);
}

void storm_run(struct storm *storm, const struct storm_config *config)
{
	storm->config = *config;
	storm->workers = config->host->workers;
	storm->agents = 2 * storm->workers;
	storm->counts = (struct storm_counts){ 0 };
	storm->random = config->seed;
	storm->phase = STORM_CHURN;
	storm->failed = 0;
	storm->arrived = 0;
	storm->watch_sum = 0;
	storm->watch_looks = 0;
	storm->began = config->host->milliseconds();
	storm->watch_since = storm->began;
	storm->watch_last = storm->began;
	storm->told = storm->began;
	storm->round_began = storm->began;
	for (unsigned i = 0; i < storm->agents; i++)
		agent_begin(storm, i);
	for (unsigned from = 0; from < storm->agents; from++) {
		for (unsigned to = 0; to < storm->agents; to++) {
			storm->rings[from][to].given = 0;
			storm->rings[from][to].taken = 0;
		}
	}
	config->host->run(work, storm);
	storm_sum(storm);
}
