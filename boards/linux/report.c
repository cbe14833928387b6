/* SPDX-License-Identifier: MIT */
/*
 * What libfallow.so says: of misuse when it happens, of the heap at the end.
 *
 * A program that mixes allocators frees foreign pointers by the thousand: the
 * first is said, the others are counted.  Of other misuse the first few are
 * said.  What is said goes out in one write, without memory, in the context of
 * the call that is at fault.
 *
 * The figures at the end are printed when the program exits by itself; after
 * _exit() or a signal nobody is left to do it.
 */
#define _GNU_SOURCE /* program_invocation_short_name */

#include "linux/preload.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "debug.h"
#include "linux/text.h"

/* Reports of one kind that are printed. */
#define REPORTS_MAX 8

static unsigned reports[FALLOW_MISUSE_COUNT];

/* A copy: programs overwrite their environment. */
static char report_path[PATH_MAX];
static bool report_wanted;

void board_misuse(void *ctx, const struct fallow_misuse *report)
{
	unsigned most = report->kind == FALLOW_MISUSE_FOREIGN ? 1 : REPORTS_MAX;
	unsigned n = __atomic_fetch_add(
		&reports[report->kind], 1, __ATOMIC_RELAXED);
	struct board_text text;

	(void)ctx;
	if (n >= most)
		return;
	board_text_begin(&text);
	board_text_put(&text, fallow_misuse_text(report->kind));
	board_text_put(&text, ": ");
	board_text_hex(&text, report->address);
	if (report->block != 0) {
		board_text_put(&text, " in a block of ");
		board_text_number(&text, report->block_size);
		board_text_put(&text, " bytes at ");
		board_text_hex(&text, report->block);
	}
	board_text_put(&text, ", by the call before ");
	board_text_hex(&text, report->caller);
	board_text_put(&text, n + 1 == most
			? "; nothing was done, more of these are only counted\n"
			: "; nothing was done\n");
	board_text_end(&text);
}

/* Debug builds: a bug of the heap's own, said before the program ends. */
_Noreturn void fallow_broken(const char *rule, const char *what)
{
	struct board_text text;

	board_text_begin(&text);
	board_text_put(&text, "broken: ");
	board_text_put(&text, rule);
	board_text_put(&text, what == NULL ? "" : ": ");
	board_text_put(&text, what == NULL ? "" : what);
	board_text_put(&text, "\n");
	board_text_end(&text);
	abort();
}

/* Appends a figure. */
static void figure_put(struct board_text *text, const char *name, uint64_t value)
{
	board_text_put(text, name);
	board_text_number(text, value);
}

/* Appends one line for scripts. */
static void summary_put(struct board_text *text)
{
	struct fallow_snapshot now = { .size = sizeof(now) };

	fallow_snapshot(&board_heap, &now);
	board_text_put(text, "report: program=");
	board_text_put(text, program_invocation_short_name);
	figure_put(text, " pid=", (uint64_t)getpid());
	figure_put(text, " slow_paths=", now.slow_paths);
	figure_put(text, " live=", now.live);
	figure_put(text, " live_peak=", now.live_peak);
	figure_put(text, " committed=", now.committed);
	figure_put(text, " committed_peak=", now.committed_peak);
	figure_put(text, " tables=", now.tables);
	figure_put(text, " decommitted=", now.decommitted_total);
	figure_put(text, " regretted=", now.regretted);
	figure_put(text, " failures=", now.failures);
	figure_put(text, " misuses=", now.misuses);
	board_text_put(text, "\n");
}

void board_report_print(int fd)
{
	struct board_text text;

	if (!board_heap_make())
		return;
	board_text_begin(&text);
	text.fd = fd;
	board_sweeper_hold();
	summary_put(&text);
	fallow_print(&board_heap, board_text_char, &text);
	board_sweeper_release();
	board_text_end(&text);
}

void board_report_begin(void)
{
	if (board_settings.report_file != NULL &&
		strlen(board_settings.report_file) < sizeof(report_path))
		strcpy(report_path, board_settings.report_file);
	report_wanted = board_settings.report != 0 || report_path[0] != '\0';
}

/* The program ends. */
static __attribute__((destructor)) void report_end(void)
{
	int fd = STDERR_FILENO;

	if (!report_wanted)
		return;
	if (report_path[0] != '\0')
		fd = open(report_path,
			O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	if (fd < 0)
		return;
	board_report_print(fd);
	if (fd != STDERR_FILENO)
		close(fd);
}
