/* SPDX-License-Identifier: MIT */
/* The heap of the programs that use one: model SINGLE, as the programs have no
 * threads, over a window that costs no call to touch. */
#include "bump_heap.h"

#include "bench.h"

#include "linux/mmap.h"

struct fallow bump_heap;

void bump_heap_begin(void)
{
	static struct board_mmap mapping;
	struct board_mmap_config window = { .size = sizeof(window),
		.window_size = (size_t)16 << 30, .demand = true };
	struct fallow_config config = { .size = sizeof(config),
		.provider = &mapping.provider, .contexts = 1 };

	if (board_mmap_init(&mapping, &window) != FALLOW_OK)
		bench_fail("no window");
	config.window_base = mapping.window_base;
	config.window_size = mapping.window_size;
	if (fallow_init(&bump_heap, &config) != FALLOW_OK ||
		fallow_add_region(&bump_heap, mapping.window_base,
			mapping.window_size) != FALLOW_OK)
		bench_fail("no heap");
}
