/* SPDX-License-Identifier: MIT */
/*
 * What a board promises in board.h, on either board; what q35 alone does is in
 * board_x86_64.c.
 *
 * The heap's and the provider's tests rely on these: a probe that always said
 * yes, or a direct map that missed RAM, would make them pass for nothing.
 */
#include "board.h"
#include "test.h"

#define GRANULE ((uintptr_t)4096)
#define MEBIBYTE ((uint64_t)1 << 20)

/* Probes of what is there succeed and change nothing. */
static void test_probe_keeps_bytes(void)
{
	static volatile unsigned char bytes[3] = { 1, 2, 3 };

	CHECK(board_can_read((uintptr_t)&bytes[1]));
	CHECK(board_can_write((uintptr_t)&bytes[1]));
	CHECK_EQUAL(bytes[0], 1);
	CHECK_EQUAL(bytes[1], 2);
	CHECK_EQUAL(bytes[2], 3);
}

/* Ranges of RAM are apart, and each MiB of each is in the direct map. */
static void test_ram_is_mapped(void)
{
	const struct board_ram *ram;
	size_t n = board_ram(&ram), i, j;
	uint64_t at, total = 0;

	CHECK(n > 0);
	for (i = 0; i < n; i++) {
		total += ram[i].size;
		for (j = 0; j < i; j++)
			CHECK(ram[i].base >= ram[j].base + ram[j].size ||
				ram[j].base >= ram[i].base + ram[i].size);
		for (at = 0; at < ram[i].size; at += MEBIBYTE)
			CHECK(board_can_read((uintptr_t)(ram[i].base + at +
				board_direct_offset())));
		CHECK(board_can_write((uintptr_t)(ram[i].base + ram[i].size -
			1 + board_direct_offset())));
	}
	CHECK(total > 4 * MEBIBYTE);
}

/* The frame allocator has nearly all of RAM, and none of it is the image. */
static void test_frames_are_ram(void)
{
	struct fallow_frames_counts counts = { .size = sizeof(counts) };
	const struct board_ram *ram;
	size_t n = board_ram(&ram), i;
	uint64_t total = 0;

	for (i = 0; i < n; i++)
		total += ram[i].size;
	fallow_frames_counts(board_frames(), &counts);
	CHECK(counts.total <= total);
	CHECK(counts.total >= total - total / 4);
	CHECK(fallow_frames_check(board_frames(), NULL) == NULL);
}

/* Every frame there is can be taken and overwritten without harm: nothing
 * that is in use, by the image or by its tables, is among them. */
static void test_frames_are_free(void)
{
	uint64_t frame, first = FALLOW_FRAME_NONE;
	const struct fallow_frame_hooks *hooks = board_frame_hooks();
	uint64_t *words;
	size_t n = 0, i;

	while ((frame = hooks->take(hooks->ctx, 12)) != FALLOW_FRAME_NONE) {
		words = (uint64_t *)(uintptr_t)(frame + board_direct_offset());
		for (i = 1; i < GRANULE / sizeof(*words); i++)
			words[i] = ~(uint64_t)0;
		words[0] = first;
		first = frame;
		n++;
	}
	CHECK(n > 0);
	CHECK(fallow_frames_check(board_frames(), NULL) == NULL);
	while (first != FALLOW_FRAME_NONE) {
		words = (uint64_t *)(uintptr_t)(first + board_direct_offset());
		frame = words[0];
		hooks->give(hooks->ctx, first, 12);
		first = frame;
	}
}

/* The window is empty, granule-aligned, and the provider's class fits. */
static void test_window_is_empty(void)
{
	uintptr_t base = board_window_base();

	CHECK_EQUAL(base % GRANULE, 0);
	CHECK_EQUAL(board_window_size() % GRANULE, 0);
	CHECK_EQUAL(board_provider()->size, sizeof(struct fallow_provider));
	CHECK_EQUAL(board_provider()->provider_class, FALLOW_CLASS_WINDOW);
	CHECK(!board_can_read(base));
	CHECK(!board_can_read(base + board_window_size() - 1));
}

/* The clock moves, forward. */
static void test_ticks_advance(void)
{
	uint64_t before = board_ticks(), now = before;
	unsigned i;

	for (i = 0; i < 1000; i++) {
		uint64_t next = board_ticks();

		CHECK(next >= now);
		now = next;
	}
	CHECK(now > before);
}

/* The arguments are a file too, and a file that is not there is not found. */
static void test_files(void)
{
	const char *args = board_args();
	const void *data = NULL;
	size_t size = 0, length = 0, i;

	CHECK(!board_file("no-such-file", &data, &size));
	CHECK(!board_file("", &data, &size));
	CHECK(!board_file("arg", &data, &size));
	while (args[length] != '\0')
		length++;
	if (length == 0) {
		test_skip("started without arguments");
		return;
	}
	CHECK_OR_RETURN(board_file("args", &data, &size));
	CHECK(size == length || size == length + 1);
	for (i = 0; i < length; i++)
		CHECK_EQUAL(((const char *)data)[i], args[i]);
}

const struct test tests[] = {
	{ "probe_keeps_bytes", test_probe_keeps_bytes },
	{ "ram_is_mapped", test_ram_is_mapped },
	{ "frames_are_ram", test_frames_are_ram },
	{ "frames_are_free", test_frames_are_free },
	{ "window_is_empty", test_window_is_empty },
	{ "ticks_advance", test_ticks_advance },
	{ "files", test_files },
	{ NULL, NULL },
};
