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

/* Where a CPU that is started begins, in real mode: a page below 1 MiB that is
 * RAM and nobody's, above what firmware's BIOS keeps at the bottom. */
#define Q35_TRAMPOLINE 0x8000

/* BOARD_CPUS_MAX, and how many vectors have a gate: exceptions, and 16 more. */
#define Q35_CPUS_MAX 8
#define Q35_VECTORS 48

/* Segment selectors, as in the table in start.S: the task segments, one a CPU
 * and two entries each, are the last. */
#define Q35_SELECTOR_CODE 0x08
#define Q35_SELECTOR_DATA 0x10
#define Q35_SELECTOR_TASK 0x18
#define Q35_TASK_BYTES 0x10

/* The stacks of one CPU, each with a page below it that is not mapped: of
 * tasks, of interrupts, of faults, of NMIs.  Handlers of interrupts run the
 * same code as tasks, but for a shorter time. */
#define Q35_GUARD_BYTES 0x1000
#define Q35_STACK_BYTES 0x10000
#define Q35_INTERRUPT_STACK_BYTES 0x4000
#define Q35_FAULT_STACK_BYTES 0x2000
#define Q35_NMI_STACK_BYTES 0x2000
#define Q35_STACK_END (Q35_GUARD_BYTES + Q35_STACK_BYTES)
#define Q35_INTERRUPT_STACK_END \
	(Q35_STACK_END + Q35_GUARD_BYTES + Q35_INTERRUPT_STACK_BYTES)
#define Q35_FAULT_STACK_END \
	(Q35_INTERRUPT_STACK_END + Q35_GUARD_BYTES + Q35_FAULT_STACK_BYTES)
#define Q35_NMI_STACK_END \
	(Q35_FAULT_STACK_END + Q35_GUARD_BYTES + Q35_NMI_STACK_BYTES)
/* All of them. */
#define Q35_CPU_BYTES Q35_NMI_STACK_END

#endif
