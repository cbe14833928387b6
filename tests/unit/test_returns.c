/* SPDX-License-Identifier: MIT */
/*
 * The scenarios of returns.h, small, over the simulated provider, which poisons
 * what it takes back: what they are measured by on real memory holds here to
 * the byte, in every context model, and whenever the tests run.
 */
#include "arch.h"
#include "host/host.h"
#include "returns.h"
#include "sim.h"
#include "table.h"
#include "test.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
/* What a floor of MIB, and the current pages, may keep. */
#define FLOOR MIB
#define CURRENT MIB

static struct sim sim;
static unsigned char scratch[2 * MIB];

static void context_set(unsigned index)
{
	fallow_host_context = index;
}

/* Nothing here is about time. */
static uint64_t no_ticks(void)
{
	return 0;
}

/* A machine with so much memory; the simulated provider has begun. */
static struct returns_machine machine_begin(size_t memory)
{
	sim_begin(&sim, FALLOW_CLASS_WINDOW, 4 * memory);
	return (struct returns_machine){ .provider = &sim.provider,
		.window_base = sim.base,
		.window_size = sim.size,
		.memory = memory,
		.scratch = scratch,
		.scratch_size = sizeof(scratch),
		.context = context_set,
		.ticks = no_ticks,
		.contexts = FALLOW_MODEL == FALLOW_MODEL_SINGLE ? 1 : 8 };
}

/* With few blocks, what those that were rounded up to a class reach into can be
 * a larger part than usual. */
#define ROUNDING (64 * KIB)

/* At most 5 % more than the granules that cannot go, but for the tables and
 * what is to stay. */

static void churn_check(
	const struct returns_churn_result *churn, size_t at, size_t kept)
{
	size_t most = churn->bound + churn->bound / 20 + churn->tables +
		ROUNDING + kept;

	CHECK(churn->good);
	CHECK(at >= churn->bound);
	if (at > most)
		CHECK_EQUAL(at, most);
}

/* Most of what is freed at random is back in the fourth epoch, and all that can
 * be when the floor is over; then nothing is left to be done. */
static void churn_run(struct returns_churn churn)
{
	struct returns_machine machine = machine_begin(32 * MIB);
	struct returns_churn_result result =
		test_returns_churn(&machine, &churn, NULL);
	bool floor = churn.floor != FALLOW_FLOOR_NONE;

	churn_check(&result, result.after[3], floor ? FLOOR + CURRENT : 0);
	churn_check(&result, result.end, 0);
	CHECK(result.before >= 8 * result.live);
	CHECK(result.epochs <= (floor ? FALLOW_FLOOR_EPOCHS + 1u : 3));
	/* Batches: a call for each range would be ten times as many. */
	CHECK(floor || result.ranges >= 4 * result.decommits);
	sim_end(&sim);
}

static void test_returns_churn_mixed(void)
{
	churn_run((struct returns_churn){
		.blocks = 5000, .freed = 9, .of = 10, .floor = FLOOR });
	churn_run((struct returns_churn){ .blocks = 5000,
		.freed = 9,
		.of = 10,
		.floor = FALLOW_FLOOR_NONE });
	churn_run((struct returns_churn){ .blocks = 5000,
		.freed = 19,
		.of = 20,
		.floor = FALLOW_FLOOR_NONE });
}

/* One class alone: of each kind of page, granules that are shared by blocks and
 * blocks that share none, and the first and the last of each. */
static void test_returns_churn_class(void)
{
	static const size_t sizes[] = { 16, 256, 1024, 1536, 4096, 6656, 8192,
		9216, 65536, 81920, 524288 };
	unsigned i;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		churn_run((struct returns_churn){ .freed = 9,
			.of = 10,
			.size = sizes[i],
			.blocks = sizes[i] < KIB ? 5000 : 16 * MIB / sizes[i],
			.floor = FALLOW_FLOOR_NONE });
}

/* A server with and without a floor, by the number of calls and by bytes. */
static void test_returns_server_floor(void)
{
	struct returns_machine machine = machine_begin(32 * MIB);
	struct returns_server server = { .burst = 16 * MIB,
		.buffer = 256 * KIB,
		.rate = 5,
		.requests = 40,
		.floor = RETURNS_FLOOR };
	struct returns_server_result with =
		test_returns_server(&machine, &server, NULL);
	struct returns_server_result without;

	server.floor = RETURNS_FLOOR_NONE;
	without = test_returns_server(&machine, &server, NULL);
	CHECK(with.good);
	CHECK(without.good);
	/* One commit a request at most; without, one each buffer at least. */
	CHECK(with.commits <= server.requests);
	CHECK(without.commits >= 4 * server.requests);
	CHECK(with.kept <= 8 * MIB);
	CHECK(without.kept <= MIB);
	/* Nothing but tables stays, and nobody is woken any more. */
	CHECK_EQUAL(with.end, with.tables);
	CHECK_EQUAL(without.end, without.tables);
	CHECK(with.epochs <= FALLOW_FLOOR_EPOCHS + 1);
	CHECK(without.epochs <= 2);
	CHECK(with.wakeups <= with.epochs + 1);
	CHECK_EQUAL(with.late, 0);
	CHECK_EQUAL(without.late, 0);
	sim_end(&sim);
}

/* Eight workers keep one floor, not one each, whoever sweeps. */
static void test_returns_pool_floor(void)
{
	struct returns_machine machine = machine_begin(64 * MIB);
	struct returns_pool pool = {
		.workers = machine.contexts, .epochs = 40, .floor = FLOOR
	};
	struct returns_pool_result result;
	unsigned i;

	for (i = 0; i < 2; i++) {
		pool.park = i > 0;
		result = test_returns_pool(&machine, &pool, NULL);
		CHECK(result.good);
		CHECK(result.kept <= FLOOR + CURRENT + result.end);
		CHECK(result.resident_peak <= 430 * result.live_peak / 100);
		CHECK_EQUAL(result.end, result.tables);
		CHECK(result.epochs <= FALLOW_FLOOR_EPOCHS + 1);
	}
	sim_end(&sim);
}

/* Most of what could go has gone, and the reclaims said so. */
static void owner_check(const struct returns_owner_result *result)
{
	size_t could = result->before - result->bound;

	CHECK(result->good);
	CHECK(result->after < result->before);
	CHECK((result->before - result->after) * 100 >= could * 72);
	CHECK(result->reported >= result->before - result->after);
}

/* A context that never idles parts with most of what it could, by being asked,
 * also if that is more often than it can answer; and not without. */
static void test_returns_owner_asked(void)
{
	struct returns_machine machine = machine_begin(64 * MIB);
	struct returns_owner owner = { .blocks = 10000,
		.rounds = 20,
		.operations = 1000,
		.reclaim = true };
	struct returns_owner_result result;

	if (machine.contexts == 1) {
		sim_destroy(&sim);
		test_skip("one context");
		return;
	}
	result = test_returns_owner(&machine, &owner, NULL);
	owner_check(&result);
	owner.rounds = 500;
	owner.operations = 40;
	result = test_returns_owner(&machine, &owner, NULL);
	owner_check(&result);
	owner.reclaim = false;
	result = test_returns_owner(&machine, &owner, NULL);
	CHECK(result.good);
	CHECK(result.after >= result.before);
	sim_end(&sim);
}

/* What the floor keeps is not committed again, and nothing is given back that
 * an epoch later is wanted. */
static void test_returns_spike_kept(void)
{
	struct returns_machine machine = machine_begin(32 * MIB);
	struct returns_spike spike = {
		.bytes = 16 * MIB, .epochs = 8, .floor = FLOOR
	};
	struct returns_spike_result result =
		test_returns_spike(&machine, &spike, NULL);

	CHECK(result.good);
	CHECK(result.kept >= FLOOR / 2);
	CHECK(result.kept <= FLOOR + CURRENT + MIB);
	CHECK(result.committed[1] + FLOOR / 2 <= result.committed[0]);
	spike.epochs = FALLOW_FLOOR_EPOCHS + 2;
	result = test_returns_spike(&machine, &spike, NULL);
	CHECK(result.good);
	/* Of what is left the most are tables. */
	CHECK(result.kept <= MIB / 2 + spike.bytes / CHUNK_BYTES *
				(CHUNK_TABLE_BYTES + RECORDS_BYTES));
	sim_end(&sim);
}

const struct test tests[] = {
	{ "returns_churn_mixed", test_returns_churn_mixed },
	{ "returns_churn_class", test_returns_churn_class },
	{ "returns_server_floor", test_returns_server_floor },
	{ "returns_pool_floor", test_returns_pool_floor },
	{ "returns_owner_asked", test_returns_owner_asked },
	{ "returns_spike_kept", test_returns_spike_kept },
	{ NULL, NULL },
};
