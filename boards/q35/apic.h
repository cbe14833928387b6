/* SPDX-License-Identifier: MIT */
/* The local APIC of the CPU that asks, and how long things take: apic.c. */
#ifndef Q35_APIC_H
#define Q35_APIC_H

#include "q35.h"

/* Kinds of interrupts that one CPU sends another, for board_apic_send(): the
 * low bits are the vector (Intel SDM volume 3, figure 10-12). */
#define APIC_FIXED 0x4000
#define APIC_NMI 0x4400
#define APIC_INIT 0x4500
#define APIC_STARTUP 0x4600

/* On the first CPU: finds the registers and measures the timer's rate and the
 * clock's.  Requires: board_map_init(). */
void board_apic_init(void);

/* On each CPU: from now on it receives interrupts. */
void board_apic_enable(void);

/* The id by which the others reach this CPU. */
uint32_t board_apic_id(void);

/* Sends CPU `id` an interrupt; returns once it is on its way. */
void board_apic_send(uint32_t id, uint32_t kind);

/* At the end of the handler of a fixed interrupt. */
void board_apic_end(void);

/* This CPU gets VECTOR_TIMER every so many nanoseconds from now on; 0: not any
 * more.  More than the counter holds is cut to what it does. */
void board_apic_timer(uint64_t nanoseconds);

/* Returns after so many microseconds, or later. */
void board_delay(unsigned microseconds);

#endif
