/* SPDX-License-Identifier: MIT */
/* What the files of this board share: instructions, and who calls whom. */
#ifndef Q35_H
#define Q35_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "board.h"
#include "layout.h"

/* Of the image, page-aligned: where it and its parts begin and end (q35.ld),
 * and the page under the stack (start.S). */
extern unsigned char board_image_begin[], board_rodata_begin[];
extern unsigned char board_data_begin[], board_image_end[];
extern unsigned char board_stack_guard[];

/* Loads the task segment and the table of vectors; afterwards every
 * exception reaches board_trap(). */
void board_traps_init(void);

/*
 * Makes the tables for a machine with this RAM and runs on them from then on;
 * low_physical() is no more.  Returns the physical end of the image and of
 * its tables.
 */
uint64_t board_map_init(const struct board_ram *ranges, size_t count);

/* The physical address of the top-level table. */
uint64_t board_root(void);

/* Returns where start.S mapped physical memory, which must be below
 * Q35_KERNEL_MAPPED. */
static inline void *low_physical(uint64_t addr)
{
	return (void *)(uintptr_t)(addr + Q35_KERNEL_BASE);
}

/* Returns the physical address of something in the image. */
static inline uint64_t image_physical(const void *p)
{
	return (uintptr_t)p - Q35_KERNEL_BASE;
}

static inline void port_out8(uint16_t port, uint8_t value)
{
	__asm__ volatile("outb %0, %1" ::"a"(value), "Nd"(port) : "memory");
}

static inline void port_out16(uint16_t port, uint16_t value)
{
	__asm__ volatile("outw %0, %1" ::"a"(value), "Nd"(port) : "memory");
}

static inline void port_out32(uint16_t port, uint32_t value)
{
	__asm__ volatile("outl %0, %1" ::"a"(value), "Nd"(port) : "memory");
}

static inline uint8_t port_in8(uint16_t port)
{
	uint8_t value;

	__asm__ volatile("inb %1, %0" : "=a"(value) : "Nd"(port) : "memory");
	return value;
}

static inline uint32_t port_in32(uint16_t port)
{
	uint32_t value;

	__asm__ volatile("inl %1, %0" : "=a"(value) : "Nd"(port) : "memory");
	return value;
}

static inline uint64_t msr_read(uint32_t msr)
{
	uint32_t low, high;

	__asm__ volatile("rdmsr" : "=a"(low), "=d"(high) : "c"(msr));
	return (uint64_t)high << 32 | low;
}

static inline void msr_write(uint32_t msr, uint64_t value)
{
	__asm__ volatile("wrmsr" ::"c"(msr), "a"((uint32_t)value),
		"d"((uint32_t)(value >> 32))
		: "memory");
}

#endif
