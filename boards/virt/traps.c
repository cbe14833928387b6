/* SPDX-License-Identifier: MIT */
/*
 * Exceptions: a report that names the address, and the two probes.
 *
 * A fault inside a probe (board_can_read, board_can_write) is swallowed: the
 * trap returns to the probe's failing end.  Any other exception ends the
 * machine with status 99.  Exceptions have a stack of their own (start.S); one
 * within the report ends the machine at once.  One CPU.
 */
#include "board.h"
#include "image.h"
#include "virt.h"

/* As trap_enter in start.S leaves it on the stack. */
struct trap {
	uint64_t x[31];
	uint64_t elr, spsr;
	uint64_t padding;
};
_Static_assert(sizeof(struct trap) == VIRT_TRAP_BYTES,
	"start.S makes room for these words");

enum {
	/* The vector of synchronous exceptions on SP_EL0. */
	KIND_SYNCHRONOUS = 0,
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
	/* The page under the stack, which start.S does not map. */
	GUARD_BYTES = 4096,
};

void board_trap(struct trap *trap, uint64_t kind);

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

/* Prints what kind of access faulted, and where. */
static void report_abort(uint64_t esr)
{
	if (syndrome_class(esr) == CLASS_FETCH)
		board_print("instruction abort: fetching from ");
	else if (esr & ISS_WRITE)
		board_print("data abort: writing ");
	else
		board_print("data abort: reading ");
	board_print_hex(fault_address());
	if (fault_address() - (uintptr_t)board_stack_guard < GUARD_BYTES)
		board_print(" (the stack has overflown)");
	else
		board_print(status_text(esr));
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
static void report(const struct trap *trap, uint64_t kind)
{
	uint64_t esr = syndrome(), sp;

	__asm__ volatile("mrs %0, sp_el0" : "=r"(sp));
	board_print("\nfault: ");
	report_cause(kind, esr);
	board_print(", esr ");
	board_print_hex(esr);
	board_print(", vector ");
	board_print_hex(kind);
	board_print("\n  elr ");
	board_print_hex(trap->elr);
	board_print("  sp ");
	board_print_hex(sp);
	board_print("  spsr ");
	board_print_hex(trap->spsr);
	for (unsigned i = 0; i < 31; i++) {
		board_print(i % 3 ? "  x" : "\n  x");
		if (i > 9)
			board_putc((char)('0' + i / 10));
		board_putc((char)('0' + i % 10));
		board_putc(' ');
		board_print_hex(trap->x[i]);
	}
	board_print("\n");
}

/* Resumes a probe at its failing end; reports anything else and ends. */
void board_trap(struct trap *trap, uint64_t kind)
{
	static bool reporting;
	bool fault = kind == KIND_SYNCHRONOUS &&
		     syndrome_class(syndrome()) == CLASS_DATA;

	if (fault && trap->elr >= (uintptr_t)board_probe_begin &&
		trap->elr < (uintptr_t)board_probe_end) {
		trap->elr = (uintptr_t)board_probe_failed;
		return;
	}
	if (!reporting) {
		reporting = true;
		report(trap, kind);
	}
	board_exit(STATUS_FAULT);
}
