/* SPDX-License-Identifier: MIT */
/*
 * Where things are in the addresses of a virt image; for C and assembly.
 *
 *   0000000008000000  devices, at their physical addresses
 *   0000000040200000  the image, at its physical address
 *   ffff000000000000  direct map: physical memory p is at this plus p
 *   ffff800000000000  the window of the heap
 *
 * The first two are TTBR0's, the others TTBR1's.
 */
#ifndef VIRT_LAYOUT_H
#define VIRT_LAYOUT_H

/* QEMU puts RAM here, and the device tree at its begin (hw/arm/boot.c) if the
 * image leaves room there: it is linked one block above. */
#define VIRT_RAM_BASE 0x40000000
#define VIRT_IMAGE_BASE 0x40200000

/* Where QEMU has the devices of old (hw/arm/virt.c), which are all that this
 * board uses. */
#define VIRT_DEVICE_BASE 0x08000000
#define VIRT_DEVICE_END 0x10000000

#define VIRT_DIRECT_BASE 0xffff000000000000
#define VIRT_WINDOW_BASE 0xffff800000000000
/* 64 GiB: its tables are 0.012 % of it, committed only where used, and it is
 * far more than the RAM of any guest here. */
#define VIRT_WINDOW_SIZE 0x1000000000

/* Fields of MAIR_EL1: Device-nGnRE, and Normal write-back. */
#define VIRT_ATTR_DEVICE 0
#define VIRT_ATTR_NORMAL 1
#define VIRT_MAIR 0xff04

/* ID_AA64DFR0_EL1.PMUVer: none, or one that is no PMUv3. */
#define PMUVER_SHIFT 8
#define PMUVER_NONE 0
#define PMUVER_OTHER 15

/*
 * Each CPU's stacks, from below, one CPU's above the other's:
 *
 *   guard | stack of tasks | guard | stack of interrupts and faults
 *
 * The second stack holds an allocation within a handler, and what an NMI does
 * on top of that.
 */
#define VIRT_CPUS_MAX 8
#define VIRT_GUARD_BYTES 0x1000
#define VIRT_STACK_BYTES 0x10000
#define VIRT_TRAP_STACK_BYTES 0x8000
#define VIRT_TRAP_GUARD_AT (VIRT_GUARD_BYTES + VIRT_STACK_BYTES)
#define VIRT_STACKS_BYTES \
 (VIRT_TRAP_GUARD_AT + VIRT_GUARD_BYTES + VIRT_TRAP_STACK_BYTES)

/* x0 to x30, ELR, SPSR and SP_EL0, as trap_enter leaves them on the stack, in
 * the bytes of a struct board_frame. */
#define VIRT_TRAP_BYTES 320

#endif
