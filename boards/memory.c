/* SPDX-License-Identifier: MIT */
/*
 * From the firmware's map of RAM to a frame allocator, for all boards.
 *
 * What is taken (the image, its tables, a device tree) is excluded first, then
 * each range of RAM is handed over; ranges of less than a granule are left
 * out.  The allocator's own tables come out of RAM.  A machine with too little
 * RAM stops here, with a sentence, rather than in the middle of a test.
 */
#include "image.h"

static struct fallow_frames frames;
static struct fallow_frame_hooks hooks;
static struct board_ram all_ram[BOARD_RAM_MAX];
static size_t all_ram_count;
static uintptr_t direct;

/* Panics with what was being done and why it was refused. */
static void must(enum fallow_status status, const char *what)
{
	if (status == FALLOW_OK)
		return;
	board_print(what);
	board_print(": ");
	board_panic(fallow_status_text(status));
}

/* Says in the machine's output that the frame allocator was misused. */
static void frames_misused(
	void *ctx, const struct fallow_frames_misuse *report)
{
	(void)ctx;
	board_print("frames: ");
	board_print(fallow_frames_misuse_text(report->kind));
	board_print(" of ");
	board_print_hex(report->frame);
	board_print(", called from ");
	board_print_hex(report->caller);
	board_panic("the frame allocator was misused");
}

/* Copies the map for board_ram(); panics if it has no RAM or does not fit. */
static void ram_keep(const struct board_ram *ram, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++) {
		if (ram[i].size == 0)
			continue;
		if (all_ram_count == BOARD_RAM_MAX)
			board_panic("the memory map has too many ranges");
		all_ram[all_ram_count++] = ram[i];
	}
	if (all_ram_count == 0)
		board_panic("the memory map has no RAM");
}

/* Hands one range over; one that is too small for use is left out. */
static void ram_add(const struct board_ram *ram)
{
	enum fallow_status status =
		fallow_frames_add(&frames, ram->base, ram->size);

	if (status != FALLOW_REGION_TOO_SMALL)
		must(status, "handing over a range of the memory map");
}

void board_memory_init(const struct board_ram *ram, size_t ram_count,
	const struct board_ram *taken, size_t taken_count,
	uintptr_t direct_offset)
{
	struct fallow_frames_config config = {
		.size = sizeof(config),
		.direct_offset = direct_offset,
		.misuse = frames_misused,
	};
	struct fallow_frames_counts counts = { .size = sizeof(counts) };
	size_t i;

	direct = direct_offset;
	ram_keep(ram, ram_count);
	must(fallow_frames_init(&frames, &config), "the frame allocator");
	for (i = 0; i < taken_count; i++)
		must(fallow_frames_exclude(
			     &frames, taken[i].base, taken[i].size),
			"excluding what is taken of RAM");
	for (i = 0; i < all_ram_count; i++)
		ram_add(&all_ram[i]);
	hooks = fallow_frames_hooks(&frames);
	fallow_frames_counts(&frames, &counts);
	if (counts.free < BOARD_RAM_LEAST)
		board_panic("the machine has too little RAM");
}

struct fallow_frames *board_frames(void)
{
	return &frames;
}

const struct fallow_frame_hooks *board_frame_hooks(void)
{
	return &hooks;
}

uintptr_t board_direct_offset(void)
{
	return direct;
}

size_t board_ram(const struct board_ram **ranges)
{
	*ranges = all_ram;
	return all_ram_count;
}
