/* SPDX-License-Identifier: MIT */
/*
 * What a replay prints when it is over (replay.h): the chart, a report for
 * people, and one line for machines, which is the last.
 *
 * "Live" is usable bytes, what the heap's own counters say; "requested" is what
 * the program asked for.  Costs are those of the heap's calls alone, with what
 * the provider did in them.
 */
#include "replay_state.h"

#include "test.h"

void test_trace_error_print(const struct trace_error *error)
{
	test_printf("trace: ");
	if (error->op != UINT64_MAX)
		test_printf("operation %llu: ", (unsigned long long)error->op);
	test_printf("%s", error->what);
	if (error->seen != error->expected)
		test_printf(" (seen %llu, expected %llu)",
			(unsigned long long)error->seen,
			(unsigned long long)error->expected);
	test_printf("\n");
}

static void bytes_line(const char *name, uint64_t bytes)
{
	test_printf("%-12s", name);
	test_print_bytes(bytes, 0);
}

/* Prints a ratio with two digits. */
static void ratio_print(uint64_t over, uint64_t under)
{
	uint64_t hundredths = under ? (over * 100 + under / 2) / under : 0;

	test_printf("%llu.%02llu", (unsigned long long)(hundredths / 100),
		(unsigned long long)(hundredths % 100));
}

static void costs_print(const struct replay *r)
{
	static const char *const names[TRACE_KINDS] = {
		"alloc", "zalloc", "aligned", "realloc", "free"};
	const char *unit = r->config->ticks_unit;
	struct cost all = {0};

	for (unsigned k = 0; k < TRACE_KINDS; k++) {
		all.calls += r->costs[k].calls;
		all.ticks += r->costs[k].ticks;
		all.provider += r->costs[k].provider;
	}
	if (!all.calls)
		return;
	test_printf("%-12s%llu %s an operation", "cost",
		(unsigned long long)(all.ticks / all.calls), unit);
	if (r->config->metered)
		test_printf(" in the heap, %llu in the provider",
			(unsigned long long)(all.provider / all.calls));
	test_printf("\n");
	for (unsigned k = 0; k < TRACE_KINDS; k++) {
		const struct cost *c = &r->costs[k];

		if (c->calls)
			test_printf("%12s%-8s%9llu times, %5llu on average, "
				    "%llu at worst\n",
				"", names[k], (unsigned long long)c->calls,
				(unsigned long long)(c->ticks / c->calls),
				(unsigned long long)c->worst);
	}
}

/* What was committed over what was live when most was; of a replay that did
 * not get so far, the one peak over the other. */
static void peak_ratio_print(
	const struct replay *r, const struct fallow_snapshot *s)
{
	if (r->live_at_peak)
		ratio_print(r->committed_at_peak, r->live_at_peak);
	else
		ratio_print(s->committed_peak, r->live_peak);
}

static void final_line(const struct replay *r, const struct fallow_snapshot *s)
{
	test_printf("replay: %s ops=%llu faults=%llu peak_requested=%llu "
		    "peak_live=%llu peak_committed=%llu committed_over_live=",
		r->info.name, (unsigned long long)r->ops,
		(unsigned long long)r->faults,
		(unsigned long long)r->requested_peak,
		(unsigned long long)r->live_peak,
		(unsigned long long)s->committed_peak);
	peak_ratio_print(r, s);
	test_printf(" tables=%llu\n", (unsigned long long)s->tables);
}

void test_replay_report(const struct replay *r, const struct fallow_snapshot *s,
	uint64_t left, uint64_t empty)
{
	test_graph_end(&r->graph);
	test_printf("%-12s%s, recorded by: %s\n", "trace", r->info.name,
		r->info.command);
	test_printf("%-12s%llu, of %u threads, replayed by one context\n",
		"operations", (unsigned long long)r->ops, r->info.threads);
	if (r->ops < r->info.ops)
		test_printf("%-12sstopped early: the trace has %llu\n", "",
			(unsigned long long)r->info.ops);
	bytes_line("requested", r->requested_peak);
	test_printf(" at the peak, in up to %u blocks\n", r->info.slots);
	bytes_line("live", r->live_peak);
	test_printf(" at the peak (usable bytes)\n");
	bytes_line("committed", s->committed_peak);
	test_printf(" at the peak, ");
	peak_ratio_print(r, s);
	test_printf(" times what was live\n");
	bytes_line("left", left);
	test_printf(" live at the end, in ");
	test_print_bytes(s->committed, 0);
	test_printf(" committed; ");
	test_print_bytes(empty, 0);
	test_printf(" after all was freed\n");
	bytes_line("tables", s->tables);
	test_printf("\n%-12s%llu commits, %llu decommits, %llu reserves, "
		    "%llu releases, %llu without memory\n",
		"provider", (unsigned long long)s->commits,
		(unsigned long long)s->decommits,
		(unsigned long long)s->reserves,
		(unsigned long long)s->releases,
		(unsigned long long)s->no_memory);
	costs_print(r);
	test_printf("%-12severy byte of %llu fillings, and %llu times the "
		    "whole heap\n",
		"checked", (unsigned long long)r->fills,
		(unsigned long long)r->checks);
	final_line(r, s);
}
