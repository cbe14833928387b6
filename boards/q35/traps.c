/* SPDX-License-Identifier: MIT */
/*
 * Exceptions: a report that names the address, and the two probes.
 *
 * All 32 vectors run on a stack of their own, so that a stack that has
 * overflown or is not mapped still gives a report.  A fault inside a probe
 * (board_can_read, board_can_write) is swallowed: the trap returns to the
 * probe's failing end.  Any other exception ends the machine with status 99.
 * One CPU; a fault within the report ends the machine at once.
 */
#include "board.h"
#include "image.h"
#include "q35.h"

/* As trap_enter in start.S leaves it on the stack. */
struct trap {
	uint64_t rax, rbx, rcx, rdx, rsi, rdi, rbp;
	uint64_t r8, r9, r10, r11, r12, r13, r14, r15;
	uint64_t vector, error;
	uint64_t rip, cs, rflags, rsp, ss;
};
_Static_assert(sizeof(struct trap) == 22 * 8, "start.S pushes these words");

enum {
	VECTOR_GENERAL_PROTECTION = 13,
	VECTOR_PAGE_FAULT = 14,
	VECTORS = 32,
	VECTOR_STUB_BYTES = 16, /* .balign in start.S */
	/* Error code of a page fault (Intel SDM volume 3, 4.7). */
	FAULT_PRESENT = 1 << 0,
	FAULT_WRITE = 1 << 1,
	FAULT_RESERVED = 1 << 3,
	FAULT_FETCH = 1 << 4,
	/* Type and attributes of a 64-bit interrupt gate, and of an available
	 * 64-bit TSS; present, ring 0 (Intel SDM volume 3, 3.5). */
	GATE_INTERRUPT = 0x8e,
	SEGMENT_TASK = 0x89,
	/* The first interrupt stack of the TSS. */
	TRAP_STACK = 1,
	STATUS_FAULT = 99,
	/* The page under the stack. */
	GUARD_BYTES = 4096,
};

/* Intel SDM volume 3, figure 6-8. */
struct gate {
	uint16_t offset_low;
	uint16_t selector;
	uint8_t stack;
	uint8_t type;
	uint16_t offset_middle;
	uint32_t offset_high;
	uint32_t reserved;
};

/* Intel SDM volume 3, figure 8-11. */
struct task {
	uint32_t reserved0;
	uint64_t rsp[3];
	uint64_t reserved1;
	uint64_t stacks[7];
	uint64_t reserved2;
	uint16_t reserved3;
	uint16_t io_map;
} __attribute__((packed));
_Static_assert(sizeof(struct task) == 104, "the size of a 64-bit TSS");

struct table_pointer {
	uint16_t limit;
	uint64_t base;
} __attribute__((packed));

extern const unsigned char board_vectors[];
extern const unsigned char board_probe_begin[], board_probe_end[];
extern const unsigned char board_probe_failed[];
extern uint64_t board_segments[];

void board_trap(struct trap *trap);

static struct gate gates[VECTORS];
static struct task task;
static _Alignas(16) unsigned char trap_stack[Q35_TRAP_STACK_BYTES];

/* Returns the address whose access faulted last. */
static uint64_t fault_address(void)
{
	uint64_t addr;

	__asm__ volatile("movq %%cr2, %0" : "=r"(addr));
	return addr;
}

/* Prints one register of the report. */
static void report_register(const char *name, uint64_t value)
{
	board_print(name);
	board_print_hex(value);
}

/* Prints what kind of access faulted, and where. */
static void report_page_fault(uint64_t error)
{
	if (error & FAULT_FETCH)
		board_print("page fault: fetching from ");
	else if (error & FAULT_WRITE)
		board_print("page fault: writing ");
	else
		board_print("page fault: reading ");
	board_print_hex(fault_address());
	if (fault_address() - (uintptr_t)board_stack_guard < GUARD_BYTES)
		board_print(" (the stack has overflown)");
	else if (error & FAULT_RESERVED)
		board_print(" (reserved bit in an entry)");
	else if (error & FAULT_PRESENT)
		board_print(" (mapped, not permitted)");
	else
		board_print(" (not mapped)");
}

/* Prints the whole report of a fault that nobody expected. */
static void report(const struct trap *trap)
{
	board_print("\nfault: ");
	if (trap->vector == VECTOR_PAGE_FAULT)
		report_page_fault(trap->error);
	else
		report_register("exception ", trap->vector);
	report_register(", error ", trap->error);
	report_register("\n  rip ", trap->rip);
	report_register("  rsp ", trap->rsp);
	report_register("  rflags ", trap->rflags);
	report_register("\n  rax ", trap->rax);
	report_register("  rbx ", trap->rbx);
	report_register("  rcx ", trap->rcx);
	report_register("\n  rdx ", trap->rdx);
	report_register("  rsi ", trap->rsi);
	report_register("  rdi ", trap->rdi);
	report_register("\n  rbp ", trap->rbp);
	report_register("  r8 ", trap->r8);
	report_register("  r9 ", trap->r9);
	report_register("\n  r10 ", trap->r10);
	report_register("  r11 ", trap->r11);
	report_register("  r12 ", trap->r12);
	report_register("\n  r13 ", trap->r13);
	report_register("  r14 ", trap->r14);
	report_register("  r15 ", trap->r15);
	board_print("\n");
}

/* Resumes a probe at its failing end; reports anything else and ends. */
void board_trap(struct trap *trap)
{
	static bool reporting;
	bool fault = trap->vector == VECTOR_PAGE_FAULT ||
		trap->vector == VECTOR_GENERAL_PROTECTION;

	if (fault && trap->rip >= (uintptr_t)board_probe_begin &&
		trap->rip < (uintptr_t)board_probe_end) {
		trap->rip = (uintptr_t)board_probe_failed;
		return;
	}
	if (!reporting) {
		reporting = true;
		report(trap);
	}
	board_exit(STATUS_FAULT);
}

/* Fills the descriptor of the task segment (Intel SDM volume 3, 8.2.3). */
static void task_load(void)
{
	uint64_t base = (uintptr_t)&task;
	uint64_t *descriptor = &board_segments[Q35_SELECTOR_TASK / 8];

	task.stacks[TRAP_STACK - 1] =
		(uintptr_t)trap_stack + sizeof(trap_stack);
	task.io_map = sizeof(task);
	descriptor[0] = (sizeof(task) - 1) | (base & 0xffffff) << 16 |
		(uint64_t)SEGMENT_TASK << 40 | (base >> 24 & 0xff) << 56;
	descriptor[1] = base >> 32;
	__asm__ volatile("ltr %w0" ::"r"(Q35_SELECTOR_TASK) : "memory");
}

void board_traps_init(void)
{
	struct table_pointer pointer = { sizeof(gates) - 1, (uintptr_t)gates };
	size_t i;

	task_load();
	for (i = 0; i < VECTORS; i++) {
		uintptr_t stub =
			(uintptr_t)board_vectors + i * VECTOR_STUB_BYTES;

		gates[i] = (struct gate){
			.offset_low = (uint16_t)stub,
			.selector = Q35_SELECTOR_CODE,
			.stack = TRAP_STACK,
			.type = GATE_INTERRUPT,
			.offset_middle = (uint16_t)(stub >> 16),
			.offset_high = (uint32_t)(stub >> 32),
		};
	}
	__asm__ volatile("lidt %0" ::"m"(pointer) : "memory");
}
