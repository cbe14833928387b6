/* SPDX-License-Identifier: MIT */
/*
 * Exceptions and interrupts: to whom they go, and a report that names the
 * address and the CPU.
 *
 * Each CPU has a stack for exceptions, so that a stack that has overflown or is
 * not mapped still gives a report; one for interrupts, whose handlers may
 * fault (in a probe) and so must not be on the same; and one for NMIs, which
 * come while either of these is in use.  A handler of NMIs must not fault: the
 * return from the fault would let the next NMI in, onto the same stack (Intel
 * SDM volume 3, 6.7.1).
 *
 * A fault inside a probe (board_can_read, board_can_write) is swallowed: the
 * trap returns to the probe's failing end.  Any other exception ends the
 * machine with status 99.  The first CPU to report owns the report: others
 * that fault meanwhile stay silent, and a fault within the report ends the
 * machine at once.
 */
#include "board.h"
#include "image.h"
#include "q35.h"

enum {
	VECTOR_NMI = 2,
	VECTOR_GENERAL_PROTECTION = 13,
	VECTOR_PAGE_FAULT = 14,
	EXCEPTIONS = 32,
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
	/* Which of the TSS's interrupt stacks is which. */
	STACK_FAULT = 1,
	STACK_INTERRUPT = 2,
	STACK_NMI = 3,
	STATUS_FAULT = 99,
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
static struct task tasks[BOARD_CPUS_MAX];
/* Who reports: 0 nobody, else the CPU plus one. */
static unsigned reporter;

/*
 * A whole struct board_frame fits from a trap on: a handler may copy one over
 * it.  So a stack of the TSS begins that much below its end.
 */
#define FRAME_ROOM (sizeof(struct board_frame) - sizeof(struct trap))
_Static_assert(FRAME_ROOM % 16 == 0, "stacks are 16-byte aligned");

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
	const char *guard = board_guard_name(fault_address());

	if (error & FAULT_FETCH)
		board_print("page fault: fetching from ");
	else if (error & FAULT_WRITE)
		board_print("page fault: writing ");
	else
		board_print("page fault: reading ");
	board_print_hex(fault_address());
	if (guard != NULL) {
		board_print(" (the ");
		board_print(guard);
		board_print(" has overflown)");
	} else if (error & FAULT_RESERVED)
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
	board_print("\n  cpu ");
	board_putc((char)('0' + board_cpu()));
	report_register("  rip ", trap->rip);
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

bool board_may_end(void)
{
	unsigned owner = __atomic_load_n(&reporter, __ATOMIC_ACQUIRE);

	return owner == 0 || owner == board_cpu() + 1;
}

/* Reports a fault, unless another CPU does, or this one did, and ends. */
_Noreturn static void fault_end(const struct trap *trap)
{
	unsigned none = 0;

	if (__atomic_compare_exchange_n(&reporter, &none, board_cpu() + 1,
		    false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		report(trap);
	board_exit(STATUS_FAULT);
}

/* Resumes a probe at its failing end, serves an interrupt; reports anything
 * else and ends. */
void board_trap(struct trap *trap)
{
	bool fault = trap->vector == VECTOR_PAGE_FAULT ||
		trap->vector == VECTOR_GENERAL_PROTECTION;

	if (fault && trap->rip >= (uintptr_t)board_probe_begin &&
		trap->rip < (uintptr_t)board_probe_end) {
		trap->rip = (uintptr_t)board_probe_failed;
		return;
	}
	if (trap->vector == VECTOR_NMI && board_nmi_serve())
		return;
	if (trap->vector >= EXCEPTIONS &&
		board_interrupt_serve(
			trap->vector, (struct board_frame *)trap))
		return;
	fault_end(trap);
}

/* Returns where the stacks of a CPU are. */
static uintptr_t stacks(unsigned cpu)
{
	return (uintptr_t)board_stack_guard + cpu * (uintptr_t)Q35_CPU_BYTES;
}

uintptr_t board_stack_end(unsigned cpu)
{
	return stacks(cpu) + Q35_STACK_END;
}

uintptr_t board_interrupt_stack_end(unsigned cpu)
{
	return stacks(cpu) + Q35_INTERRUPT_STACK_END - FRAME_ROOM;
}

const char *board_guard_name(uintptr_t addr)
{
	static const struct {
		uintptr_t guard;
		const char *name;
	} guards[] = {
		{ 0, "stack" },
		{ Q35_STACK_END, "stack of interrupts" },
		{ Q35_INTERRUPT_STACK_END, "stack of faults" },
		{ Q35_FAULT_STACK_END, "stack of NMIs" },
	};
	uintptr_t offset = addr - stacks(0);
	size_t i;

	if (offset >= BOARD_CPUS_MAX * (uintptr_t)Q35_CPU_BYTES)
		return NULL;
	offset %= Q35_CPU_BYTES;
	for (i = 0; i < sizeof(guards) / sizeof(guards[0]); i++)
		if (offset - guards[i].guard < Q35_GUARD_BYTES)
			return guards[i].name;
	return NULL;
}

/* Fills a CPU's descriptor of its task segment (Intel SDM volume 3, 8.2.3),
 * and loads it. */
static void task_load(unsigned cpu)
{
	struct task *task = &tasks[cpu];
	uint64_t base = (uintptr_t)task;
	unsigned selector = Q35_SELECTOR_TASK + cpu * Q35_TASK_BYTES;
	uint64_t *descriptor = &board_segments[selector / 8];

	task->stacks[STACK_FAULT - 1] =
		stacks(cpu) + Q35_FAULT_STACK_END - FRAME_ROOM;
	task->stacks[STACK_INTERRUPT - 1] = board_interrupt_stack_end(cpu);
	task->stacks[STACK_NMI - 1] =
		stacks(cpu) + Q35_NMI_STACK_END - FRAME_ROOM;
	task->io_map = sizeof(*task);
	descriptor[0] = (sizeof(*task) - 1) | (base & 0xffffff) << 16 |
		(uint64_t)SEGMENT_TASK << 40 | (base >> 24 & 0xff) << 56;
	descriptor[1] = base >> 32;
	__asm__ volatile("ltr %w0" ::"r"(selector) : "memory");
}

/* Returns which interrupt stack a vector's handler runs on. */
static uint8_t vector_stack(size_t vector)
{
	if (vector >= EXCEPTIONS)
		return STACK_INTERRUPT;
	return vector == VECTOR_NMI ? STACK_NMI : STACK_FAULT;
}

void board_traps_init(void)
{
	size_t i;

	for (i = 0; i < VECTORS; i++) {
		uintptr_t stub =
			(uintptr_t)board_vectors + i * VECTOR_STUB_BYTES;

		gates[i] = (struct gate){
			.offset_low = (uint16_t)stub,
			.selector = Q35_SELECTOR_CODE,
			.stack = vector_stack(i),
			.type = GATE_INTERRUPT,
			.offset_middle = (uint16_t)(stub >> 16),
			.offset_high = (uint32_t)(stub >> 32),
		};
	}
}

void board_traps_load(unsigned cpu)
{
	struct table_pointer pointer = { sizeof(gates) - 1, (uintptr_t)gates };

	task_load(cpu);
	__asm__ volatile("lidt %0" ::"m"(pointer) : "memory");
}
