/* SPDX-License-Identifier: MIT */
/*
 * malloc() is fallow's: the C family's archive over a heap of class window, in
 * the board's page tables, with the board's frames under it.  What a provider
 * call costs is counted where a cell makes one; the cells begin warm, so few do.
 * The heap is verified at the end.
 */
#include <fallow/fallow.h>
#include <fallow/malloc.h>

#include "board.h"
#include "guest_cells.h"

static struct fallow heap;

bool guest_cells_begin(size_t memory)
{
	struct fallow_config config = {
		.size = sizeof(config),
		.provider = board_provider(),
		.window_base = board_window_base(),
		.window_size = board_window_size(),
		.contexts = 1,
	};

	/* The board's frames are the limit. */
	(void)memory;
	if (fallow_init(&heap, &config) != FALLOW_OK ||
		fallow_add_region(&heap, config.window_base,
			config.window_size) != FALLOW_OK)
		return false;
	fallow_malloc_use(&heap);
	return true;
}

bool guest_cells_end(void)
{
	return fallow_check(&heap, NULL) == NULL;
}
