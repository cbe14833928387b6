/* SPDX-License-Identifier: MIT */
/*
 * Replays traces on this machine, without QEMU:
 *
 *   replay_host TRACE ...
 *
 * The heap is over the provider of boards/linux that lets nobody touch what is
 * not committed, so a replay that is quiet here has also kept that promise.
 * On a terminal the graph has colours (unless NO_COLOR is set) and, in a UTF-8
 * locale, block characters.
 * Exits with 0 iff no replay had a fault, with 2 if one could not begin.
 */
#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <fallow/fallow.h>

#include "linux/mmap.h"
#include "replay.h"
#include "test.h"

#define WINDOW_BYTES ((size_t)1 << 30)

void test_write(const char *text, size_t size)
{
	fwrite(text, 1, size, stdout);
}

/* test.c runs the tests of a program; this one has none. */
const struct test tests[] = {{NULL, NULL}};

static uint64_t nanoseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Maps a file; returns NULL and says why if it cannot. */
static const void *file_map(const char *path, size_t *size)
{
	struct stat st;
	void *data = MAP_FAILED;
	int file = open(path, O_RDONLY);

	if (file >= 0 && !fstat(file, &st)) {
		*size = (size_t)st.st_size;
		/* mmap refuses nothing; an empty trace is refused later. */
		data = mmap(NULL, *size ? *size : 1, PROT_READ, MAP_PRIVATE,
			file, 0);
	}
	if (data == MAP_FAILED) {
		printf("replay: %s: %s\n", path, strerror(errno));
		data = NULL;
	}
	if (file >= 0)
		close(file);
	return data;
}

static void misuse_print(void *ctx, const struct fallow_misuse *report)
{
	(void)ctx;
	printf("misuse: %s of 0x%llx\n", fallow_misuse_text(report->kind),
		(unsigned long long)report->address);
}

/* Makes the heap over the whole window. */
static enum fallow_status heap_make(struct fallow *heap,
	struct board_mmap *mapping, struct metered *metered)
{
	struct board_mmap_config window = {
		.size = sizeof(window), .window_size = WINDOW_BYTES};
	struct fallow_config config = {.size = sizeof(config),
		.provider = &metered->provider,
		.contexts = 1,
		.misuse = misuse_print};
	enum fallow_status status = board_mmap_init(mapping, &window);

	if (status != FALLOW_OK)
		return status;
	test_metered_init(metered, &mapping->provider, nanoseconds);
	config.window_base = mapping->window_base;
	config.window_size = mapping->window_size;
	status = fallow_init(heap, &config);
	if (status != FALLOW_OK)
		return status;
	return fallow_add_region(
		heap, mapping->window_base, mapping->window_size);
}

/* Replays one file; returns the exit status. */
static int file_replay(const char *path)
{
	static struct fallow heap;
	static struct board_mmap mapping;
	static struct metered metered;
	struct replay_config config = {.heap = &heap,
		.metered = &metered,
		.ticks = nanoseconds,
		.ticks_unit = "ns",
		.colour = isatty(1) && !getenv("NO_COLOR"),
		.utf8 = isatty(1) && !strcmp(nl_langinfo(CODESET), "UTF-8")};
	struct replay_result result;
	struct trace_error error;
	struct trace_info info;
	enum fallow_status status;
	bool good;

	config.trace = file_map(path, &config.trace_size);
	if (!config.trace)
		return 2;
	if (!test_trace_info(config.trace, config.trace_size, &info, &error)) {
		printf("replay: %s: ", path);
		test_trace_error_print(&error);
		return 2;
	}
	config.memory_size = test_replay_memory(&info);
	config.memory = malloc(config.memory_size);
	status = config.memory ? heap_make(&heap, &mapping, &metered)
			       : FALLOW_NO_TABLE_MEMORY;
	if (status != FALLOW_OK) {
		printf("replay: no heap: %s\n", fallow_status_text(status));
		return 2;
	}
	good = test_replay(&config, &result);
	fallow_fini(&heap);
	board_mmap_fini(&mapping);
	free(config.memory);
	munmap((void *)(uintptr_t)config.trace, config.trace_size);
	return good ? 0 : 1;
}

int main(int argc, char **argv)
{
	int status = argc < 2 ? 2 : 0;

	setlocale(LC_ALL, "");
	if (argc < 2)
		printf("usage: replay_host TRACE ...\n");
	for (int i = 1; i < argc; i++) {
		int s = file_replay(argv[i]);

		status = s > status ? s : status;
	}
	return status;
}
