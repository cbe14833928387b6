/* SPDX-License-Identifier: MIT */
/*
 * Where things are in the addresses of a q35 image; for C and assembly.
 *
 *   ffff800000000000  direct map: physical memory p is at this plus p
 *   ffffc00000000000  the window of the heap
 *   ffffffff80000000  the image: physical memory from 0 to 1 GiB
 */
#ifndef Q35_LAYOUT_H
#define Q35_LAYOUT_H

#define Q35_DIRECT_BASE 0xffff800000000000
#define Q35_WINDOW_BASE 0xffffc00000000000
#define Q35_KERNEL_BASE 0xffffffff80000000

/* 64 GiB: its tables are 0.012 % of it, committed only where used, and it is
 * far more than the RAM of any guest here. */
#define Q35_WINDOW_SIZE 0x1000000000

/* What start.S maps of physical memory at Q35_KERNEL_BASE. */
#define Q35_KERNEL_MAPPED 0x40000000

/* Segment selectors, as in the table in start.S. */
#define Q35_SELECTOR_CODE 0x08
#define Q35_SELECTOR_DATA 0x10
#define Q35_SELECTOR_TASK 0x18

#define Q35_STACK_BYTES 0x10000
#define Q35_TRAP_STACK_BYTES 0x2000

#endif
