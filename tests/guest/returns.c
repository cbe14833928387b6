/* SPDX-License-Identifier: MIT */
/*
 * The scenarios of returns.h on a machine's page tables and RAM.
 *
 * Resident bytes are those that the provider has taken frames for, without page
 * tables; tests/guest/heap.c counts the frames.  Contexts take turns on the one
 * CPU: the number of the context is the first word of its block of data.  The
 * heap gets twice as many addresses as there is RAM, so that it also opens new
 * chunks where there are old ones.
 * Exits with 0 iff every figure was reached; prints them as "returns: ...".
 */
#include "board.h"
#include "returns.h"
#include "test.h"

#define SCRATCH_LOG2 22

void test_write(const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++)
		board_putc(text[i]);
}

/* test.c runs the tests of a program; this one has none. */
const struct test tests[] = { { NULL, NULL } };

static size_t ram_free(void)
{
	struct fallow_frames_counts counts = { .size = sizeof(counts) };

	fallow_frames_counts(board_frames(), &counts);
	return (size_t)counts.free;
}

static void context_set(unsigned index)
{
	*(volatile uint32_t *)board_block() = index;
}

/* Whether the argument string has this word in it. */
static bool word_given(const char *word)
{
	const char *at = board_args();
	size_t i = 0;

	for (; *at != 0 && word[i] != 0; at++)
		i = *at == word[i] ? i + 1 : *at == word[0];
	return word[i] == 0;
}

int guest_main(void)
{
	const struct fallow_frame_hooks *hooks = board_frame_hooks();
	uint64_t frame = hooks->take(hooks->ctx, SCRATCH_LOG2);
	struct returns_machine machine = { .provider = board_provider(),
		.window_base = board_window_base(),
		.window_size = 2 * ram_free() & ~(((size_t)2 << 20) - 1),
		.memory = ram_free() / 2,
		.scratch = (void *)(uintptr_t)(board_direct_offset() + frame),
		.scratch_size = (size_t)1 << SCRATCH_LOG2,
		.context = context_set,
		.ticks = board_ticks,
		.ticks_unit = "instructions",
		.contexts = RETURNS_CONTEXTS,
		.samples = word_given("samples"),
		.brief = true };

	if (frame == FALLOW_FRAME_NONE) {
		test_printf("returns: no RAM for the tables\n");
		return 2;
	}
	return test_returns_report(&machine) ? 0 : 1;
}
