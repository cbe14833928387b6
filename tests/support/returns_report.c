/* SPDX-License-Identifier: MIT */
/*
 * Runs the scenarios of returns.h at the sizes that the machine has room for,
 * and prints what they came to beside the figures to reach.
 *
 * A row that misses its figure says so, and the last line counts them.  What is
 * printed in ticks decides nothing.
 */
#include "returns.h"

#include "sizeclass.h"
#include "test.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static unsigned missed, bad;

/* Prints a ratio with two digits behind the point. */
static void ratio_print(size_t a, size_t b)
{
	uint64_t hundredths = b == 0 ? 0 : ((uint64_t)a * 100 + b / 2) / b;

	test_printf(" %3llu.%02llu", (unsigned long long)(hundredths / 100),
		(unsigned long long)(hundredths % 100));
}

/* Prints a number of epochs, "never" if there was no end. */
static void epochs_print(uint64_t epochs)
{
	if (epochs == UINT64_MAX)
		test_printf(" never");
	else
		test_printf(" %5llu", (unsigned long long)epochs);
}

/* A level in the picture of a series, and what is written at it. */
static void level_print(const struct returns_machine *machine,
	const char *series, size_t bytes, const char *text)
{
	if (machine->samples)
		test_printf("#line %s %zu %s\n", series, bytes, text);
}

/* What is above the picture. */
static void title_print(const struct returns_machine *machine,
	const char *series, const char *text)
{
	if (machine->samples)
		test_printf("#title %s %s\n", series, text);
}

/* Ends a row. */
static void row_end(bool reached, bool good)
{
	missed += !reached;
	bad += !good;
	test_printf("%s%s\n", reached ? "" : "  MISSED",
		good ? "" : "  FAILED");
}

/* Whether a is at most n hundredths of b, as the figure is given: rounded to
 * hundredths. */
static bool within(size_t a, size_t b, unsigned n)
{
	return (uint64_t)a * 100 <= (uint64_t)b * n + b / 2;
}

/* ----------------------------------------------------------------- churn -- */

/* What the floor and the current pages may keep. */
#define FLOOR_MOST (5 * MIB)
/* The blocks of the scenario as it was measured with others. */
#define CHURN_BLOCKS 200000

/* Whether the figures are reached: those that were measured with others at
 * their size; else what does not become less with the size comes on top, the
 * floor and the tables of what was there before. */
static bool churn_reached(const struct returns_churn *churn,
	const struct returns_churn_result *c)
{
	size_t fixed = c->tables +
		(churn->floor == FALLOW_FLOOR_NONE ? 0 : FLOOR_MOST);
	bool full = churn->size == 0 && churn->blocks == CHURN_BLOCKS &&
		churn->of == 10;

	if (c->epochs == UINT64_MAX)
		return false;
	if (full)
		return within(c->after[3], c->live, 142) &&
			within(c->after[3], c->bound, 105);
	return c->after[3] <= fixed ||
		within(c->after[3] - fixed, c->bound, 105);
}

/* What the picture says beside the samples: what others keep, by published
 * figures and by our own measurements of the same scenario. */
static void churn_picture(const struct returns_machine *machine,
	const char *series, const struct returns_churn_result *c)
{
	level_print(machine, series, c->live * 11,
		"others, idle: 8.2 to 11 times what is live");
	level_print(machine, series, c->live * 82 / 10, "");
	level_print(machine, series, c->live * 183 / 100,
		"jemalloc, 1 s decay and a background thread: 1.83");
	level_print(machine, series, c->live * 142 / 100,
		"to reach: 1.42");
}

static void churn_row(const struct returns_machine *machine, const char *name,
	const struct returns_churn *churn, const char *series)
{
	struct returns_churn_result c =
		test_returns_churn(machine, churn, series);

	test_printf("%-8s %2u/%-2u %-5s %6zu %6zu %7zu", name, churn->freed,
		churn->of, churn->floor == FALLOW_FLOOR_NONE ? "none" : "4 MiB",
		c.live / KIB, c.bound / KIB, c.before / KIB);
	test_printf(" %6zu %6zu %6zu %6zu", c.after[0] / KIB, c.after[1] / KIB,
		c.after[3] / KIB, c.end / KIB);
	ratio_print(c.before, c.live);
	ratio_print(c.after[3], c.live);
	ratio_print(c.after[3], c.bound);
	epochs_print(c.epochs);
	test_printf(" %5llu", (unsigned long long)c.decommits);
	row_end(churn_reached(churn, &c), c.good && c.refusals == 0);
	if (series != NULL)
		churn_picture(machine, series, &c);
}

/* One class alone. */
static void churn_class(const struct returns_machine *machine, size_t size)
{
	struct returns_churn churn = { .freed = 9,
		.of = 10,
		.size = size,
		.floor = FALLOW_FLOOR_NONE,
		.blocks = machine->memory / (machine->brief ? 2 : 8) / size };
	char name[16] = "";
	size_t digit = 1;
	unsigned at = 0;

	while (digit <= size / 10)
		digit *= 10;
	for (; digit > 0; digit /= 10)
		name[at++] = (char)('0' + size / digit % 10);
	if (churn.blocks > CHURN_BLOCKS)
		churn.blocks = CHURN_BLOCKS;
	churn_row(machine, name, &churn, NULL);
}

static void churn_report(const struct returns_machine *machine)
{
	struct returns_churn churn = { .blocks = machine->memory / 5400 };
	unsigned class;

	if (churn.blocks > CHURN_BLOCKS)
		churn.blocks = CHURN_BLOCKS;
	title_print(machine, "churn",
		"Blocks of 64 B to 64 KiB, nine of ten freed at random, then idle");
	title_print(machine, "churn-19-of-20",
		"Blocks of 64 B to 64 KiB, 19 of 20 freed at random, then idle");
	test_printf("\n1. churn, then idle: KiB; to reach in the 4th epoch: "
		    "resident/live 1.42 (200000 blocks, 9/10), resident/bound "
		    "1.05 (and, but there, tables and floor)\n   others, 200000 "
		    "blocks, 9/10: resident/live 8.2 to 11.0; jemalloc with a "
		    "background thread and a decay of 1 s: 1.83\n%-8s %5s %-5s %6s %6s "
		    "%7s %6s %6s %6s %6s %s %5s %5s\n",
		"blocks", "freed", "floor", "live", "bound", "before", "1st",
		"2nd", "4th", "end", "  bef/l   4th/l   4th/b", "done",
		"calls");
	for (churn.of = 10; churn.of <= 20; churn.of += 10) {
		churn.freed = churn.of - 1;
		churn.floor = 0;
		churn_row(machine, "64..64Ki", &churn,
			churn.of == 10 ? "churn" : "churn-19-of-20");
		churn.floor = FALLOW_FLOOR_NONE;
		churn_row(machine, "64..64Ki", &churn, NULL);
	}
	for (class = 0; class < CLASS_COUNT; class++)
		churn_class(machine, class_size(class));
}

/* ---------------------------------------------------------------- server -- */

static const char *const floor_names[] = { "none", "4 MiB", "8 flat" };

/* The figures without a drawing of their own. */
static void server_picture(const struct returns_machine *machine,
	const struct returns_server *server, const char *series,
	uint64_t commits)
{
	static const char *const names[] = { "no floor", "floor of 4 MiB",
		"8 MiB, flat" };
	static const char *const others[] = { "124", "2.5 with one that ages",
		"94 to 105" };

	if (!machine->samples)
		return;
	test_printf("#curve %s %s:", series, names[server->floor]);
	ratio_print(commits, server->requests);
	test_printf(" commits a request (published for another: %s)\n",
		others[server->floor]);
}

static void server_row(const struct returns_machine *machine,
	const struct returns_server *server, const char *series)
{
	struct returns_server_result s =
		test_returns_server(machine, server, series);
	bool floor = server->floor == RETURNS_FLOOR;

	test_printf("%-6s %4zu KiB %4u/s", floor_names[server->floor],
		server->buffer / KIB, server->rate);
	ratio_print(s.commits, server->requests);
	test_printf(" %8zu %8zu %6zu",
		(size_t)s.recommitted / server->requests / KIB, s.kept / KIB,
		s.end / KIB);
	epochs_print(s.epochs);
	test_printf(" %5llu %5llu", (unsigned long long)s.wakeups,
		(unsigned long long)s.late);
	row_end(!floor || (s.commits <= server->requests &&
				  s.kept <= 8 * MIB && s.late == 0 &&
				  s.epochs <= FALLOW_FLOOR_EPOCHS + 1),
		s.good);
	if (series != NULL)
		server_picture(machine, server, series, s.commits);
}

/* One size and one rate, with each of the floors. */
static void server_rows(
	const struct returns_machine *machine, size_t buffer, unsigned rate)
{
	static const char *const series[] = {
		"server-no-floor", "server-floor", "server-flat"
	};
	struct returns_server server = { .burst = machine->memory / 4,
		.buffer = buffer,
		.rate = rate,
		.requests = machine->brief ? 30 + rate / 3 : 100 + rate * 2 };
	bool shown = buffer == 256 * KIB && rate == 5;
	unsigned floor;

	for (floor = 0; floor < 3; floor++) {
		server.floor = (enum returns_floor)floor;
		server_row(machine, &server, shown ? series[floor] : NULL);
	}
}

/* What another length of the epochs costs. */
static void epochs_report(const struct returns_machine *machine)
{
	static const unsigned lengths[] = { 1, 10, 100, 1000 };
	struct returns_server server = { .burst = machine->memory / 4,
		.buffer = 256 * KIB,
		.rate = 50,
		.requests = machine->brief ? 40 : 200 };
	struct returns_machine other = *machine;
	unsigned floor, i;

	test_printf("the same with epochs of another length, 256 KiB, 50/s\n"
		    "%-6s %7s %7s %8s %8s\n",
		"floor", "epoch", "commits", "KiB", "kept");
	for (floor = 0; floor < 2; floor++)
		for (i = 0; i < 4; i++) {
			struct returns_server_result s;

			server.floor = (enum returns_floor)floor;
			other.epoch_ticks = lengths[i];
			s = test_returns_server(&other, &server, NULL);
			test_printf("%-6s %4u ms", floor_names[floor],
				lengths[i]);
			ratio_print(s.commits, server.requests);
			test_printf(" %8zu %8zu",
				(size_t)s.recommitted / server.requests / KIB,
				s.kept / KIB);
			row_end(true, s.good);
		}
}

static void server_report(const struct returns_machine *machine)
{
	static const unsigned rates[] = { 5, 50, 500 };
	unsigned i;

	title_print(machine, "server-no-floor",
		"A server after a burst: 5 requests a second of 4 x 256 KiB "
		"and 200 small blocks, then none");
	level_print(machine, "server-no-floor", 8 * MIB,
		"to reach: 8 MiB kept, 1 commit a request");
	test_printf("\n2. request server: to reach, with the floor: 1 commit a "
		    "request, 8192 KiB kept, done after 257 epochs, 0 late\n"
		    "   published for another, commits a request: 124 without a "
		    "floor, 94 to 105 with a flat one, 2.5 with one that ages;\n"
		    "   allocators of hosts: 95 to 263 MiB kept and about 0 "
		    "faults a request, or 5 to 11 MiB and 60 to 260 (rpmalloc: "
		    "12 to 16 MiB and 1.6 to 3.5)\n"
		    "%-6s %8s %6s %7s %8s %8s %6s %5s %5s %5s\n",
		"floor", "buffers", "rate", "commits", "KiB", "kept", "end",
		"done", "wake", "late");
	for (i = 0; i < 3; i++) {
		if (!machine->brief)
			server_rows(machine, 128 * KIB, rates[i]);
		server_rows(machine, 256 * KIB, rates[i]);
		if (!machine->brief)
			server_rows(machine, 512 * KIB, rates[i]);
	}
	epochs_report(machine);
}

/* ------------------------------------------------------------------ pool -- */

static void pool_row(const struct returns_machine *machine, const char *name,
	const struct returns_pool *pool, const char *series)
{
	struct returns_pool_result p =
		test_returns_pool(machine, pool, series);

	test_printf("%-20s %7zu %8zu", name, p.live / KIB, p.resident / KIB);
	ratio_print(p.resident, p.live);
	test_printf(" %8zu %8zu", p.live_peak / KIB, p.resident_peak / KIB);
	ratio_print(p.resident_peak, p.live_peak);
	ratio_print(p.commits, p.jobs);
	test_printf(" %7zu %6zu", p.kept / KIB, p.end / KIB);
	epochs_print(p.epochs);
	row_end(within(p.resident_peak, p.live_peak, 430) &&
			p.kept <= 5 * MIB + p.end && p.epochs != UINT64_MAX,
		p.good);
	if (series == NULL || !machine->samples)
		return;
	test_printf("#curve %s resident, sweeps by %s\n", series, name);
	level_print(machine, series, p.live_peak * 43 / 10,
		"to reach, at the peak: 4.3 times what is live at its own");
}

static void pool_report(const struct returns_machine *machine)
{
	struct returns_pool pool = { .workers = machine->contexts,
		.epochs = machine->brief ? 50 : 300 };

	title_print(machine, "pool",
		"A pool of workers with buffers of 96 to 512 KiB, then idle");
	test_printf("\n3. pool of %u workers: KiB; to reach: resident/live, "
		    "at their peaks, 4.30; kept no more than one floor (4 MiB, "
		    "and 1 MiB of current pages)\n%-20s %7s %8s %7s %8s "
		    "%8s %7s %7s %7s %6s %5s\n",
		pool.workers, "sweeps by", "live", "mean of", "ratio", "live",
		"peak of", "ratio", "commits", "kept", "end", "done");
	pool_row(machine, "each worker", &pool, "pool");
	pool.park = true;
	pool_row(machine, "one, others park", &pool, "pool-parked");
	pool.floor = FALLOW_FLOOR_NONE;
	pool_row(machine, "one, no floor", &pool, NULL);
}

/* ----------------------------------------------------------------- owner -- */

/* Ticks, and what they count, for so many operations. */
static void ticks_print(const struct returns_machine *machine, uint64_t ticks,
	uint64_t operations)
{
	test_printf(" %6llu %s", (unsigned long long)(ticks / operations),
		machine->ticks_unit);
}

static void owner_row(const struct returns_machine *machine, const char *name,
	const struct returns_owner *owner, const char *series)
{
	struct returns_owner_result o =
		test_returns_owner(machine, owner, series);
	size_t could = o.before - o.bound;
	size_t did = o.before > o.after ? o.before - o.after : 0;

	test_printf("%-16s %7zu %7zu %8zu %8zu %8llu %5llu %%", name,
		o.live / KIB, o.bound / KIB, o.before / KIB, o.after / KIB,
		(unsigned long long)o.reported / KIB,
		(unsigned long long)did * 100 / could);
	ratio_print(o.commits, o.operations);
	ticks_print(machine, o.ticks, o.operations);
	row_end(!owner->reclaim || did * 100 >= could * 72, o.good);
	if (series == NULL)
		return;
	title_print(machine, series,
		"A context that never idles, asked for memory by another");
	level_print(machine, series, o.before - could * 13 / 100,
		"published, without being asked: 12 to 14 % back");
	level_print(machine, series, o.before - could * 72 / 100,
		"the best published, and to reach: 72 %");
	level_print(machine, series, o.bound,
		"granules that hold a live byte: 100 %");
}

static void owner_report(const struct returns_machine *machine)
{
	struct returns_owner owner = { .rounds = 20, .operations = 2000,
		.blocks = machine->memory /
			(machine->brief ? 2 : 8) / 5400 };

	test_printf("\n4. a busy owner: KiB; to reach: 72 %% of what holds no "
		    "block returned, the best "
		    "published scheme; 12 to 14 %% without one\n"
		    "%-16s %7s %7s %8s %8s %8s %7s %7s   an "
		    "operation\n",
		"", "live", "bound", "before", "after", "said", "back",
		"commits");
	owner_row(machine, "no reclaims", &owner, NULL);
	owner.reclaim = true;
	owner_row(machine, "20 reclaims", &owner, "owner");
	owner.operations = 200;
	owner.rounds = 200;
	owner_row(machine, "200 reclaims", &owner, NULL);
}

/* ----------------------------------------------------------------- spike -- */

static void spike_report(const struct returns_machine *machine)
{
	static const unsigned epochs[] = { 1, 8, 64, 300 };
	static const size_t floors[] = { 0, FALLOW_FLOOR_NONE };
	struct returns_spike spike = { .bytes = machine->memory / 4 };
	unsigned f, e;

	title_print(machine, "spike",
		"Spike, 64 epochs without use, spike");
	test_printf("\n5. spike, idle, spike: KiB; the first spike, and the "
		    "second after so many epochs; to reach: no more than the "
		    "first, less what was kept\n"
		    "%-6s %5s %8s %8s %8s %10s %10s   an operation: 1st, 2nd\n",
		"floor", "idle", "kept", "commits:1", "2", "KiB:1", "2");
	for (f = 0; f < 2; f++)
		for (e = 0; e < 4; e++) {
			struct returns_spike_result s;

			spike.epochs = epochs[e];
			spike.floor = floors[f];
			s = test_returns_spike(machine, &spike,
				f == 0 && e == 2 ? "spike" : NULL);
			test_printf("%-6s %5u %8zu %8llu %8llu %10llu %10llu",
				f == 0 ? "4 MiB" : "none", epochs[e],
				s.kept / KIB, (unsigned long long)s.commits[0],
				(unsigned long long)s.commits[1],
				(unsigned long long)s.committed[0] / KIB,
				(unsigned long long)s.committed[1] / KIB);
			ticks_print(machine, s.ticks[0], s.operations);
			ticks_print(machine, s.ticks[1], s.operations);
			row_end(s.commits[1] <= s.commits[0] &&
					s.committed[1] <= s.committed[0],
				s.good);
		}
}

bool test_returns_report(const struct returns_machine *machine)
{
	missed = bad = 0;
	churn_report(machine);
	server_report(machine);
	if (machine->contexts > 1) {
		pool_report(machine);
		owner_report(machine);
	}
	spike_report(machine);
	test_printf("\nreturns: missed=%u failed=%u\n", missed, bad);
	return missed == 0 && bad == 0;
}
