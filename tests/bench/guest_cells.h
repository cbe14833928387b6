/* SPDX-License-Identifier: MIT */
/* An image of cells: the allocator that it is linked with. */
#ifndef GUEST_CELLS_H
#define GUEST_CELLS_H

#include <stdbool.h>
#include <stddef.h>

/* Makes malloc() ready for so many bytes of blocks, and as much again;
 * returns whether it is. */
bool guest_cells_begin(size_t memory);

/* Whether nothing was wrong with it. */
bool guest_cells_end(void);

/* The libc's or ours; an image has no <stdlib.h>. */
void *malloc(size_t size);
void free(void *p);

#endif
