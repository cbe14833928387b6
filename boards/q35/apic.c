/* SPDX-License-Identifier: MIT */
/*
 * The local APIC: interrupts to other CPUs, the timer, the end of a handler
 * (Intel SDM volume 3, chapter 10).
 *
 * Its registers are a page of memory, or MSRs if firmware left the CPU in
 * x2APIC mode; all CPUs then follow the first one.  QEMU's emulation has the
 * memory only, so the MSRs rest on the manual.
 *
 * The timer counts at a rate that no register tells.  It is measured once,
 * with the clock (TSC), against a millisecond of the PIT.  What is measured
 * begins before the PIT is started and ends after it is seen to be done: on a
 * busy host it can only come out too long, so the shortest of a few is taken.
 *
 * Each CPU uses its own registers, so nothing here takes a lock; whoever sends
 * masks interrupts, for the command of memory-mapped registers is two stores.
 */
#include "apic.h"

enum {
	/* Registers by offset (table 10-1). */
	APIC_ID = 0x20,
	APIC_END = 0xb0,
	APIC_SPURIOUS = 0xf0,
	APIC_COMMAND = 0x300,
	APIC_COMMAND_HIGH = 0x310,
	APIC_TIMER = 0x320,
	APIC_TIMER_INITIAL = 0x380,
	APIC_TIMER_CURRENT = 0x390,
	APIC_TIMER_DIVIDE = 0x3e0,
	APIC_BYTES = 4096,
	/* Their bits. */
	APIC_ID_SHIFT = 24,
	APIC_SPURIOUS_ENABLE = 1 << 8,
	APIC_COMMAND_PENDING = 1 << 12,
	APIC_TIMER_MASKED = 1 << 16,
	APIC_TIMER_PERIODIC = 1 << 17,
	APIC_TIMER_DIVIDE_BY_1 = 0xb,
	/* In x2APIC mode register r is MSR 0x800 + r / 16. */
	X2APIC_MSRS = 0x800,
	/* PIT (8254): channel 2, whose gate and output are at port 0x61. */
	PIT_COUNTER = 0x42,
	PIT_MODE = 0x43,
	PIT_GATE_PORT = 0x61,
	PIT_MODE_ONE_SHOT = 0xb0, /* channel 2, both bytes, mode 0, binary */
	PIT_GATE = 1 << 0,
	PIT_SPEAKER = 1 << 1,
	PIT_DONE = 1 << 5,
	/* 1193182 Hz for one millisecond. */
	PIT_MILLISECOND = 1193,
	MEASUREMENTS = 3,
	/* Between two looks at the clock, which under QEMU's -icount is what
	 * a wait would spend nearly all its time with. */
	DELAY_STEPS = 100,
};

#define MSR_APIC_BASE 0x1b
#define APIC_BASE_X2APIC ((uint64_t)1 << 10)
#define APIC_BASE_ENABLE ((uint64_t)1 << 11)
#define APIC_BASE_ADDRESS ((uint64_t)0x000ffffffffff000)

static volatile uint32_t *registers;
static bool x2apic;
/* Per millisecond. */
static uint64_t timer_rate, clock_rate;

static uint32_t apic_read(unsigned offset)
{
	if (x2apic)
		return (uint32_t)msr_read(X2APIC_MSRS + offset / 16);
	return registers[offset / 4];
}

static void apic_write(unsigned offset, uint32_t value)
{
	if (x2apic)
		msr_write(X2APIC_MSRS + offset / 16, value);
	else
		registers[offset / 4] = value;
}

uint32_t board_apic_id(void)
{
	uint32_t id = apic_read(APIC_ID);

	return x2apic ? id : id >> APIC_ID_SHIFT;
}

void board_apic_end(void)
{
	apic_write(APIC_END, 0);
}

void board_apic_send(uint32_t id, uint32_t kind)
{
	uintptr_t state = board_interrupts_mask();

	if (x2apic) {
		/* A WRMSR to these registers waits for nothing: what was
		 * stored for the other CPU must be seen before it
		 * (Intel SDM volume 3, 10.12.3). */
		__asm__ volatile("mfence\n\tlfence" ::: "memory");
		msr_write(X2APIC_MSRS + APIC_COMMAND / 16,
			(uint64_t)id << 32 | kind);
	} else {
		apic_write(APIC_COMMAND_HIGH, id << APIC_ID_SHIFT);
		apic_write(APIC_COMMAND, kind);
		while (apic_read(APIC_COMMAND) & APIC_COMMAND_PENDING)
			cpu_pause();
	}
	board_interrupts_restore(state);
}

void board_apic_timer(uint64_t nanoseconds)
{
	uint64_t count;

	apic_write(APIC_TIMER, APIC_TIMER_MASKED);
	apic_write(APIC_TIMER_INITIAL, 0);
	if (nanoseconds == 0)
		return;
	/* No product of these overflows: an hour is 2^42 nanoseconds, a rate
	 * of 2^22 per millisecond is 4 GHz. */
	if (nanoseconds > (uint64_t)1 << 42)
		nanoseconds = (uint64_t)1 << 42;
	count = nanoseconds * timer_rate / 1000000;
	if (count == 0)
		count = 1;
	if (count > UINT32_MAX)
		count = UINT32_MAX;
	apic_write(APIC_TIMER_DIVIDE, APIC_TIMER_DIVIDE_BY_1);
	apic_write(APIC_TIMER, APIC_TIMER_PERIODIC | VECTOR_TIMER);
	apic_write(APIC_TIMER_INITIAL, (uint32_t)count);
}

void board_delay(unsigned microseconds)
{
	uint64_t begin = board_ticks();
	uint64_t ticks = microseconds * clock_rate / 1000;
	unsigned i;

	while (board_ticks() - begin <= ticks)
		for (i = 0; i < DELAY_STEPS; i++)
			__asm__ volatile("");
}

/* Makes the PIT count a millisecond and waits for its end; panics if there is
 * none, which its gate tells: a port that nobody drives reads as ones. */
static void millisecond_wait(void)
{
	uint8_t off = (uint8_t)(port_in8(PIT_GATE_PORT) &
		~(PIT_SPEAKER | PIT_GATE));

	port_out8(PIT_GATE_PORT, off);
	if (port_in8(PIT_GATE_PORT) & PIT_GATE)
		board_panic("no PIT to measure the APIC's timer with");
	port_out8(PIT_GATE_PORT, off | PIT_GATE);
	port_out8(PIT_MODE, PIT_MODE_ONE_SHOT);
	port_out8(PIT_COUNTER, PIT_MILLISECOND & 0xff);
	port_out8(PIT_COUNTER, PIT_MILLISECOND >> 8);
	while (!(port_in8(PIT_GATE_PORT) & PIT_DONE))
		cpu_pause();
}

/* Measures timer_rate and clock_rate. */
static void rates_measure(void)
{
	unsigned i;

	timer_rate = clock_rate = UINT64_MAX;
	apic_write(APIC_TIMER, APIC_TIMER_MASKED);
	apic_write(APIC_TIMER_DIVIDE, APIC_TIMER_DIVIDE_BY_1);
	for (i = 0; i < MEASUREMENTS; i++) {
		uint64_t timer, clock = board_ticks();

		apic_write(APIC_TIMER_INITIAL, UINT32_MAX);
		millisecond_wait();
		timer = UINT32_MAX - apic_read(APIC_TIMER_CURRENT);
		clock = board_ticks() - clock;
		if (timer < timer_rate)
			timer_rate = timer;
		if (clock < clock_rate)
			clock_rate = clock;
	}
	apic_write(APIC_TIMER_INITIAL, 0);
	if (timer_rate == 0 || clock_rate == 0)
		board_panic("the APIC's timer does not count");
}

void board_apic_init(void)
{
	uint64_t base = msr_read(MSR_APIC_BASE);

	if (!(base & APIC_BASE_ENABLE))
		board_panic("firmware left the local APIC disabled");
	x2apic = base & APIC_BASE_X2APIC;
	if (!x2apic)
		registers = board_map_device(
			base & APIC_BASE_ADDRESS, APIC_BYTES);
	board_apic_enable();
	rates_measure();
}

void board_apic_enable(void)
{
	uint64_t base = msr_read(MSR_APIC_BASE);

	/* A CPU that firmware never woke may not be in the first one's mode. */
	if (x2apic && !(base & APIC_BASE_X2APIC))
		msr_write(MSR_APIC_BASE,
			base | APIC_BASE_ENABLE | APIC_BASE_X2APIC);
	apic_write(APIC_TIMER, APIC_TIMER_MASKED);
	apic_write(APIC_SPURIOUS, APIC_SPURIOUS_ENABLE | VECTOR_SPURIOUS);
}
