/* SPDX-License-Identifier: MIT */
/*
 * malloc() is picolibc's, on a board of ours: all that it needs of a machine is
 * sbrk().
 *
 * It zeroes every block that it hands out, because its calloc() is the same
 * function.  That is most of what large ones cost, so there are two images: in
 * the copy of the libc that the second is linked with, memset is guest_zero(),
 * which does nothing.
 *
 * Its locks are the libc's own, which do nothing.
 */
#include "board.h"
#include "guest_cells.h"

static uintptr_t top, end;

void *sbrk(ptrdiff_t increment);
void *guest_zero(void *p, int byte, size_t size);

void *sbrk(ptrdiff_t increment)
{
	uintptr_t before = top;

	if (increment > (ptrdiff_t)(end - top))
		return (void *)-1;
	top += (uintptr_t)increment;
	return (void *)before;
}

void *guest_zero(void *p, int byte, size_t size)
{
	(void)byte;
	(void)size;
	return p;
}

bool guest_cells_begin(size_t memory)
{
	const struct fallow_provider *provider = board_provider();

	/* CPACR_EL1.FPEN (Arm ARM, D17.2.33): the libc's memset stores vector
	 * registers, and nothing else here uses them. */
	__asm__ volatile("msr cpacr_el1, %0\n\tisb" ::"r"((uint64_t)3 << 20));
	if (!(provider->commit(provider->ctx, board_window_base(), 2 * memory,
		      0) &
		    FALLOW_COMMIT_DONE))
		return false;
	top = board_window_base();
	end = top + 2 * memory;
	return true;
}

bool guest_cells_end(void)
{
	return true;
}
