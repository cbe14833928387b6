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
 * and the stacks of all CPUs, which begin with a guard (start.S). */
extern unsigned char board_image_begin[], board_rodata_begin[];
extern unsigned char board_data_begin[], board_image_end[];
extern unsigned char board_stack_guard[];

/* Vectors that are no exceptions.  A spurious interrupt's has its low four
 * bits set, which old CPUs do not let be chosen. */
enum {
	VECTOR_CALL = 32,
	VECTOR_TIMER = 33,
	VECTOR_SPURIOUS = 47,
	VECTORS = Q35_VECTORS,
};
_Static_assert(Q35_CPUS_MAX == BOARD_CPUS_MAX, "start.S makes as many stacks");

/* As trap_enter in start.S leaves it on the stack: a board_frame, whose other
 * words mean nothing. */
struct trap {
	uint64_t rax, rbx, rcx, rdx, rsi, rdi, rbp;
	uint64_t r8, r9, r10, r11, r12, r13, r14, r15;
	uint64_t vector, error;
	uint64_t rip, cs, rflags, rsp, ss;
};
_Static_assert(sizeof(struct trap) == 22 * 8, "start.S pushes these words");
_Static_assert(sizeof(struct trap) <= sizeof(struct board_frame),
	"a frame holds a trap");

/* Makes the table of vectors. */
void board_traps_init(void);

/* On each CPU: loads its task segment and the table of vectors; afterwards
 * every exception and interrupt reaches board_trap(). */
void board_traps_load(unsigned cpu);

/* Returns which stack's guard is at the address, NULL if none's. */
const char *board_guard_name(uintptr_t addr);

/* Returns where the stacks of a CPU end: of tasks, and of interrupts. */
uintptr_t board_stack_end(unsigned cpu);
uintptr_t board_interrupt_stack_end(unsigned cpu);

/* Whether this CPU may end the machine: not while another one reports why. */
bool board_may_end(void);

/*
 * Makes the tables for a machine with this RAM and runs on them from then on;
 * low_physical() is no more.
 */
void board_map_init(const struct board_ram *ranges, size_t count);

/*
 * Maps more of physical memory where the direct map has it, as ordinary memory
 * or as a device's registers.
 * Requires: board_map_end() was not called, unless it is mapped already.
 * Returns: where it is; NULL iff the direct map does not reach it.
 */
void *board_map_memory(uint64_t physical, uint64_t size);
void *board_map_device(uint64_t physical, uint64_t size);

/* Returns the physical end of the image and of its tables, which are as many
 * as they will be. */
uint64_t board_map_end(void);

/* Reads how many CPUs there are.  Requires: board_apic_init(). */
void board_cpus_find(uint64_t rsdp);

/* Starts all but the first; afterwards they wait for board_run(). */
void board_cpus_start(void);

/* Sets this CPU's block of data to its own. */
void board_cpu_set(unsigned cpu);

/* Serves an interrupt; false iff the vector is nobody's. */
bool board_interrupt_serve(uint64_t vector, struct board_frame *frame);

/* Returns how often this CPU has served a board_interrupt_others() of another
 * one, for tests that count shootdowns. */
uint32_t board_calls_served(void);

/* Serves an NMI; false iff nobody has ever sent one. */
bool board_nmi_serve(void);

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

/* In a loop that waits for another CPU. */
static inline void cpu_pause(void)
{
	__asm__ volatile("pause" ::: "memory");
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
