/* SPDX-License-Identifier: MIT */
/*
 * mlockall() in a process whose heap has a TiB of addresses.
 *
 * The kernel makes all of a process's memory resident that it locks, also what
 * is accessible and was never touched: the whole window, until no memory is
 * left.  So where the window is accessible as a whole, what is locked is what is
 * resident, and the rest when it is touched (MCL_ONFAULT, Linux 4.4; see
 * mlockall(2)).  The heap is made first: one that a lock of the future finds not
 * made yet would be locked so as well.
 *
 * Memory that is locked is not given back by madvise(); the sweeper asks for it
 * ever more seldom (core/sweep.c).
 */
#define _GNU_SOURCE /* MCL_ONFAULT, syscall() */

#include "linux/preload.h"

#include <stdbool.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "heap.h"

/* Whether every address of the window has memory when it is touched. */
static bool window_open(void)
{
	return board_heap_make() && (heap_of(&board_heap)->provider.capabilities &
					    FALLOW_DEMAND) != 0;
}

/* Of flags that are none the kernel says so, with this one too. */
__attribute__((visibility("default"))) int mlockall(int flags)
{
	if (window_open())
		flags |= MCL_ONFAULT;
	return (int)syscall(SYS_mlockall, flags);
}
