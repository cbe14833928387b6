/* SPDX-License-Identifier: MIT */
/*
 * Exceptions: interrupts, a report that names the address, and the two probes.
 *
 * A fault inside a probe (board_can_read, board_can_write) is swallowed: the
 * trap returns to the probe's failing end.  Any other exception that is no
 * interrupt ends the machine with status 99.  Exceptions have a stack of their
 * own (start.S); one within the report ends the machine at once.
 *
 * Of several CPUs that fault, the first one reports; whoever comes later, with
 * a fault or with the end of the machine, waits for that for ever.
 */
#include "image.h"
#include "virt.h"

enum {
	/* The vector of synchronous exceptions on SP_EL0; those on SP_EL1
	 * follow, and then those of other levels. */
	KIND_SYNCHRONOUS = 0,
	KINDS_OF_EL1 = 8,
	/* A vector within its four. */
	KIND_IRQ = 1,
	KIND_FIQ = 2,
	/* ESR_EL1.EC (Arm ARM, "ESR_EL1"). */
	CLASS_FP = 0x07,
	CLASS_FETCH = 0x21,
	CLASS_PC_ALIGNMENT = 0x22,
	CLASS_DATA = 0x25,
	CLASS_SP_ALIGNMENT = 0x26,
	/* ESR_EL1.ISS of aborts. */
	ISS_WRITE = 1 << 6,
	ISS_STATUS = 0x3f,
	STATUS_FAULT = 99,
};
_Static_assert(sizeof(struct board_frame) == VIRT_TRAP_BYTES,
	"start.S makes room for these words");

void board_trap(struct board_frame *frame, uint64_t kind);

/* Which CPU reports, plus 1. */
static uint32_t reporter;

static uint64_t syndrome(void)
{
	uint64_t esr;

	__asm__ volatile("mrs %0, esr_el1" : "=r"(esr));
	return esr;
}

static unsigned syndrome_class(uint64_t esr)
{
	return esr >> 26 & 0x3f;
}

/* Returns the address whose access faulted last. */
static uint64_t fault_address(void)
{
	uint64_t far;

	__asm__ volatile("mrs %0, far_el1" : "=r"(far));
	return far;
}

/* Returns what a fault status says, in words, for those that are met. */
static const char *status_text(uint64_t esr)
{
	switch ((esr & ISS_STATUS) >> 2) {
	case 0:
		return " (address size)";
	case 1:
		return " (not mapped)";
	case 2:
		return " (access flag)";
	case 3:
		return " (mapped, not permitted)";
	default:
		break;
	}
	switch (esr & ISS_STATUS) {
	case 0x21:
		return " (alignment)";
	case 0x30:
		return " (TLB conflict)";
	default:
		return "";
	}
}

/* Returns which stack has overflown, if the address says that one has. */
static const char *overflow_text(uintptr_t addr)
{
	uintptr_t at = (addr - (uintptr_t)board_stacks) % VIRT_STACKS_BYTES;

	if (addr - (uintptr_t)board_stacks >=
		(uintptr_t)board_stacks_end - (uintptr_t)board_stacks)
		return NULL;
	if (at < VIRT_GUARD_BYTES)
		return " (the stack has overflown)";
	if (at - VIRT_TRAP_GUARD_AT < VIRT_GUARD_BYTES)
		return " (the stack of interrupts has overflown)";
	return NULL;
}

/* Prints what kind of access faulted, and where. */
static void report_abort(uint64_t esr)
{
	const char *overflow = overflow_text(fault_address());

	if (syndrome_class(esr) == CLASS_FETCH)
		board_print("instruction abort: fetching from ");
	else if (esr & ISS_WRITE)
		board_print("data abort: writing ");
	else
		board_print("data abort: reading ");
	board_print_hex(fault_address());
	board_print(overflow ? overflow : status_text(esr));
}

/* Prints what the exception was. */
static void report_cause(uint64_t kind, uint64_t esr)
{
	static const char *const kinds[4] = {
		"exception", "interrupt", "fast interrupt", "system error"};

	switch (kind % 4 ? 0 : syndrome_class(esr)) {
	case CLASS_DATA:
	case CLASS_FETCH:
		report_abort(esr);
		break;
	case CLASS_PC_ALIGNMENT:
		board_print("misaligned instruction address");
		break;
	case CLASS_SP_ALIGNMENT:
		board_print("misaligned stack pointer");
		break;
	case CLASS_FP:
		board_print("floating point or vector instruction");
		break;
	default:
		board_print(kinds[kind % 4]);
	}
}

/* Prints the whole report of an exception that nobody expected. */
static void report(const struct board_frame *frame, uint64_t kind)
{
	uint64_t esr = syndrome();

	board_print("\nfault: ");
	report_cause(kind, esr);
	board_print(", esr ");
	board_print_hex(esr);
	board_print(", vector ");
	board_print_hex(kind);
	board_print("\n  cpu ");
	board_putc((char)('0' + board_cpu()));
	board_print("  elr ");
	board_print_hex(frame->words[FRAME_ELR]);
	board_print("  sp ");
	board_print_hex(frame->words[FRAME_SP]);
	board_print("  spsr ");
	board_print_hex(frame->words[FRAME_SPSR]);
	for (unsigned i = 0; i < 31; i++) {
		board_print(i % 3 ? "  x" : "\n  x");
		if (i > 9)
			board_putc((char)('0' + i / 10));
		board_putc((char)('0' + i % 10));
		board_putc(' ');
		board_print_hex(frame->words[i]);
	}
	board_print("\n");
}

void board_fault_yield(void)
{
	uint32_t by = __atomic_load_n(&reporter, __ATOMIC_RELAXED);

	while (by && by != board_cpu() + 1)
		__asm__ volatile("msr daifset, #15\n\twfi" ::: "memory");
}

/* Reports the exception, once on the machine, and ends it. */
_Noreturn static void unexpected(
	const struct board_frame *frame, uint64_t kind)
{
	uint32_t nobody = 0;

	if (__atomic_compare_exchange_n(&reporter, &nobody, board_cpu() + 1,
		    false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		report(frame, kind);
	board_exit(STATUS_FAULT);
}

/* Serves an interrupt, resumes a probe at its failing end; reports anything
 * else and ends. */
void board_trap(struct board_frame *frame, uint64_t kind)
{
	uintptr_t elr = frame->words[FRAME_ELR];

	if (kind < KINDS_OF_EL1 &&
		(kind % 4 == KIND_IRQ || kind % 4 == KIND_FIQ))
		board_interrupt_taken(frame, kind % 4 == KIND_FIQ);
	else if (kind < KINDS_OF_EL1 && kind % 4 == KIND_SYNCHRONOUS &&
		syndrome_class(syndrome()) == CLASS_DATA &&
		elr >= (uintptr_t)board_probe_begin &&
		elr < (uintptr_t)board_probe_end)
		frame->words[FRAME_ELR] = (uintptr_t)board_probe_failed;
	else
		unexpected(frame, kind);
}
