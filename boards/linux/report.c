/* SPDX-License-Identifier: MIT */
/*
 * What libfallow.so says: of misuse when it happens, of the heap at the end.
 *
 * A program that mixes allocators frees foreign pointers by the thousand: the
 * first is said, the others are counted.  Of other misuse the first few are
 * said.  What is said goes out in one write, without memory, in the context of
 * the call that is at fault; which that is, is said as addr2line takes it, since
 * where a file is in memory nobody knows any more when the program is gone.
 *
 * The figures at the end are printed when the program exits by itself; after
 * _exit() or a signal nobody is left to do it.  Programs may have closed stderr
 * by then (those of coreutils do): it is not kept open behind their back, for
 * somebody may wait until it is closed.
 *
 * A file for them is tried when the program begins, when what is wrong with it
 * can still be said, and is that of the directory in which it begins.
 */
#define _GNU_SOURCE /* program_invocation_short_name */

#include "linux/preload.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
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

/* Appends where a call is: its file and the place in it, or the address. */
static void place_put(struct board_text *text, uintptr_t address)
{
#ifdef DLFO_STRUCT_HAS_EH_DBASE
	struct dl_find_object found;

	/* Takes no lock and no memory, unlike dladdr(). */
	if (_dl_find_object((void *)(address - 1), &found) == 0) {
		const char *file = found.dlfo_link_map->l_name;

		/* The program has no name there, and before the C library has
		 * begun it has none at all. */
		if (file[0] == '\0')
			file = program_invocation_name;
		board_text_put(text, file[0] == '\0' ? "program" : file);
		board_text_put(text, "+");
		address -= found.dlfo_link_map->l_addr;
	}
#endif
	board_text_hex(text, address);
}

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
	place_put(&text, report->caller);
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

/* Keeps the whole name of the file that the setting names; returns whether it
 * could, or else errno says why not. */
static bool path_keep(const char *path)
{
	size_t used = 0;

	if (path[0] != '/') {
		if (getcwd(report_path, sizeof(report_path)) == NULL)
			return false;
		used = strlen(report_path);
		report_path[used++] = '/';
	}
	if (strlen(path) >= sizeof(report_path) - used) {
		errno = ENAMETOOLONG;
		return false;
	}
	strcpy(report_path + used, path);
	return true;
}

/* Opens the file; returns -1 if it cannot. */
static int path_open(void)
{
	return open(report_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
		0666);
}

/* Keeps the file and tries it; says what is wrong with it. */
static void path_begin(const char *path)
{
	struct board_text text;
	int fd = path_keep(path) ? path_open() : -1;

	if (fd >= 0) {
		close(fd);
		return;
	}
	board_text_begin(&text);
	board_text_put(&text, "FALLOW_REPORT_FILE=");
	board_text_quote(&text, path, PATH_MAX);
	board_text_put(&text, " is refused: ");
	board_text_put(&text, strerror(errno));
	board_text_put(&text, "\n");
	board_text_end(&text);
	report_path[0] = '\0';
}

/* The program begins.  With settings the heap is made here at the latest, for of
 * a program that does not allocate they would be neither taken nor refused. */
static __attribute__((constructor)) void report_begin(void)
{
	const char *path;

	if (!board_settings_given() || !board_heap_make())
		return;
	path = board_settings.report_file;
	if (path != NULL && path[0] != '\0')
		path_begin(path);
	report_wanted = board_settings.report != 0 || report_path[0] != '\0';
}

/* The program ends. */
static __attribute__((destructor)) void report_end(void)
{
	int fd = STDERR_FILENO;

	if (!report_wanted)
		return;
	if (report_path[0] != '\0')
		fd = path_open();
	if (fd < 0)
		return;
	board_report_print(fd);
	if (fd != STDERR_FILENO)
		close(fd);
}
