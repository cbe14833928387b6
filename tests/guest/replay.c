/* SPDX-License-Identifier: MIT */
/*
 * Boots, makes a heap over the board's page tables, and replays a trace on it.
 *
 * The trace is the file "trace" of fw_cfg.  Of the argument string the words
 * "colour" and "utf8" choose how the graph is drawn; others are for people.
 * The bookkeeping lives in frames of its own, outside of the heap's window.
 * Exits with 0 iff the replay had no fault.
 */
#include "board.h"
#include "replay.h"
#include "test.h"

void test_write(const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++)
		board_putc(text[i]);
}

/* Whether one of the words of the argument string is `word`. */
static bool word_given(const char *word)
{
	const char *at = board_args();

	while (*at) {
		size_t i = 0;

		while (word[i] && at[i] == word[i])
			i++;
		if (!word[i] && (!at[i] || at[i] == ' '))
			return true;
		while (*at && *at != ' ')
			at++;
		while (*at == ' ')
			at++;
	}
	return false;
}

static void misuse_print(void *ctx, const struct fallow_misuse *report)
{
	(void)ctx;
	test_printf("misuse: %s of 0x%llx\n", fallow_misuse_text(report->kind),
		(unsigned long long)report->address);
}

/* Makes the heap over the whole window of the board. */
static enum fallow_status heap_make(
	struct fallow *heap, struct metered *metered)
{
	struct fallow_config config = {.size = sizeof(config),
		.provider = &metered->provider,
		.window_base = board_window_base(),
		.window_size = board_window_size(),
		.contexts = 1,
		.misuse = misuse_print};
	enum fallow_status status;

	test_metered_init(metered, board_provider(), board_ticks);
	status = fallow_init(heap, &config);

	if (status == FALLOW_OK)
		status = fallow_add_region(
			heap, config.window_base, config.window_size);
	return status;
}

/* Takes one run of frames of at least `size` bytes; NULL iff there is none. */
static void *frames_take(size_t size)
{
	const struct fallow_frame_hooks *hooks = board_frame_hooks();
	unsigned size_log2 = board_provider()->granule_log2;
	uint64_t frame;

	while ((uint64_t)1 << size_log2 < size)
		size_log2++;
	frame = hooks->take(hooks->ctx, size_log2);
	if (frame == FALLOW_FRAME_NONE)
		return NULL;
	return (void *)(uintptr_t)(board_direct_offset() + frame);
}

int guest_main(void)
{
	static struct fallow heap;
	static struct metered metered;
	struct replay_config config = {.heap = &heap,
		.metered = &metered,
		.ticks = board_ticks,
		.ticks_unit = "instructions",
		.colour = word_given("colour"),
		.utf8 = word_given("utf8")};
	struct replay_result result;
	struct trace_error error;
	static struct trace_info info;
	enum fallow_status status;
	bool good;

	if (!board_file("trace", &config.trace, &config.trace_size)) {
		test_printf("replay: no file opt/fallow/trace\n");
		return 2;
	}
	if (!test_trace_info(config.trace, config.trace_size, &info, &error)) {
		test_trace_error_print(&error);
		return 2;
	}
	config.memory_size = test_replay_memory(&info);
	config.memory = frames_take(config.memory_size);
	if (!config.memory) {
		test_printf("replay: no %zu bytes of RAM in one run for the "
			    "bookkeeping; give the machine more\n",
			config.memory_size);
		return 2;
	}
	status = heap_make(&heap, &metered);
	if (status != FALLOW_OK) {
		test_printf(
			"replay: no heap: %s\n", fallow_status_text(status));
		return 2;
	}
	good = test_replay(&config, &result);
	fallow_fini(&heap);
	return good ? 0 : 1;
}
