/* SPDX-License-Identifier: MIT */
/*
 * The board q35: QEMU's `-M q35 -kernel image`, from the first line of C to
 * guest_main().
 *
 * Order matters: the serial port first, so that everything after can complain;
 * then the exceptions; then the memory map, whose bytes are in low memory that
 * nobody has reused yet; then the tables (map.c), which come from right behind
 * the image, before there is a frame allocator, and with them what else needs
 * some: the APIC's registers, and firmware's list of CPUs; then frames,
 * provider, fw_cfg; and the other CPUs last, when all that they use is there.
 * Interrupts are on in guest_main(), as in a kernel's task, but none comes
 * that the image did not ask for: both PICs are masked.
 */
#include <fallow/pagetable.h>

#include "apic.h"
#include "board.h"
#include "image.h"
#include "q35.h"

enum {
	/* 16550 UART (registers by offset) at COM1. */
	COM1 = 0x3f8,
	UART_DATA = 0,
	UART_INTERRUPTS = 1,
	UART_FIFO = 2,
	UART_LINE = 3,
	UART_STATUS = 5,
	UART_LINE_8N1 = 0x03,
	UART_LINE_DIVISOR = 0x80,
	UART_FIFO_CLEAR = 0x07,
	UART_STATUS_EMPTY = 0x20,
	/* Data ports of the two PICs: a set bit masks an interrupt. */
	PIC_MASTER = 0x21,
	PIC_SLAVE = 0xa1,
	/* isa-debug-exit, as board.mk places it. */
	EXIT_PORT = 0x501,
	/* fw_cfg (QEMU, docs/specs/fw_cfg): selector and data, and where the
	 * two halves of a descriptor's address go. */
	FWCFG_SELECT = 0x510,
	FWCFG_DATA = 0x511,
	FWCFG_DMA_HIGH = 0x514,
	FWCFG_DMA_LOW = 0x518,
};

/* Below 1 MiB is what firmware left; it is not worth the care. */
#define LOW_BYTES ((uint64_t)0x100000)

#define START_INFO_MAGIC 0x336ec578
#define START_MEMORY_RAM 1

/* Xen, include/public/arch-x86/hvm/start_info.h, version 1. */
struct start_info {
	uint32_t magic;
	uint32_t version;
	uint32_t flags;
	uint32_t module_count;
	uint64_t modules;
	uint64_t command_line;
	uint64_t rsdp;
	uint64_t memory_map;
	uint32_t memory_map_count;
	uint32_t reserved;
};

struct start_memory {
	uint64_t base;
	uint64_t size;
	uint32_t type;
	uint32_t reserved;
};

_Noreturn void board_main(uint64_t start_info);

static struct fallow_pagetable pagetable;
static struct fallow_provider provider;
static struct board_ram ram[BOARD_RAM_MAX];
static size_t ram_count;

/* Sets COM1 to 115200 bits a second, 8N1, without interrupts. */
static void serial_init(void)
{
	port_out8(COM1 + UART_INTERRUPTS, 0);
	port_out8(COM1 + UART_LINE, UART_LINE_DIVISOR);
	port_out8(COM1 + UART_DATA, 1);
	port_out8(COM1 + UART_INTERRUPTS, 0);
	port_out8(COM1 + UART_LINE, UART_LINE_8N1);
	port_out8(COM1 + UART_FIFO, UART_FIFO_CLEAR);
}

void board_putc(char c)
{
	while (!(port_in8(COM1 + UART_STATUS) & UART_STATUS_EMPTY))
		;
	port_out8(COM1 + UART_DATA, (uint8_t)c);
}

/*
 * A CPU that reports a fault ends the machine itself; any other one that would
 * meanwhile stays here.
 * isa-debug-exit makes QEMU exit with 2 * value + 1.  QEMU's own failures are
 * exit 1, which no status of a guest may look like: so the value is 127 -
 * status, which makes 0 to 127 exits 255 to 1 (Q35_MAP_STATUS in board.mk).
 */
_Noreturn void board_exit(int status)
{
	if (status < 0 || status > 127)
		status = 127;
	if (board_may_end())
		port_out16(EXIT_PORT, (uint16_t)(127 - status));
	for (;;)
		__asm__ volatile("cli\n\thlt");
}

uint64_t board_ticks(void)
{
	uint32_t low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (uint64_t)high << 32 | low;
}

/* Whether item 0 of fw_cfg reads "QEMU".  Asked once: selecting an item ends
 * the reading of another. */
static bool fwcfg_present(void)
{
	static bool asked, present;

	if (!asked) {
		port_out16(FWCFG_SELECT, 0);
		present = port_in8(FWCFG_DATA) == 'Q';
		asked = true;
	}
	return present;
}

bool board_fwcfg_start(uint64_t descriptor)
{
	if (!fwcfg_present())
		return false;
	port_out32(FWCFG_DMA_HIGH,
		__builtin_bswap32((uint32_t)(descriptor >> 32)));
	port_out32(FWCFG_DMA_LOW, __builtin_bswap32((uint32_t)descriptor));
	return true;
}

/* Copies the RAM of the start info's memory map, and panics if there is none;
 * returns where ACPI's root pointer is, 0 if nowhere. */
static uint64_t memory_map_read(uint64_t addr)
{
	const struct start_info *info = low_physical(addr);
	const struct start_memory *map;
	uint32_t i;

	if (addr >= Q35_KERNEL_MAPPED || info->magic != START_INFO_MAGIC)
		board_panic("not started by the PVH protocol");
	if (info->version < 1 || info->memory_map_count == 0 ||
		info->memory_map >= Q35_KERNEL_MAPPED)
		board_panic("the start info has no memory map");
	map = low_physical(info->memory_map);
	for (i = 0; i < info->memory_map_count; i++) {
		if (map[i].type != START_MEMORY_RAM || map[i].size == 0)
			continue;
		if (ram_count == BOARD_RAM_MAX)
			board_panic("the memory map has too many ranges");
		if (map[i].base + map[i].size < map[i].base)
			board_panic("the memory map has a range that wraps");
		ram[ram_count].base = map[i].base;
		ram[ram_count++].size = map[i].size;
	}
	return info->rsdp;
}

/* On each of the others, by shootdown(). */
static void shootdown_serve(void *what)
{
	fallow_pagetable_flush(what);
}

/* The hook of every provider: one interrupt a call, however much is to be
 * forgotten.  With interrupts masked this CPU is itself and nobody else. */
static void shootdown(void *ctx, const struct fallow_pagetable_flush *what)
{
	uintptr_t state = board_interrupts_mask();

	(void)ctx;
	fallow_pagetable_flush(what);
	board_interrupt_others(shootdown_serve, (void *)(uintptr_t)what);
	board_interrupts_restore(state);
}

enum fallow_status board_pagetable_init(struct fallow_pagetable *made,
	const struct fallow_frame_hooks *hooks, uintptr_t window_base,
	size_t window_size, unsigned flags)
{
	struct fallow_pagetable_config config = {
		.size = sizeof(config),
		.root = board_root(),
		.direct_offset = Q35_DIRECT_BASE,
		.frames = *hooks,
		.window_base = window_base,
		.window_size = window_size,
		.shootdown = board_cpus() > 1 ? shootdown : NULL,
		.flags = flags,
	};

	return fallow_pagetable_init(made, &config);
}

/* Makes the provider of the window; panics with what it refused. */
static void provider_init(void)
{
	enum fallow_status status = board_pagetable_init(&pagetable,
		board_frame_hooks(), Q35_WINDOW_BASE, Q35_WINDOW_SIZE, 0);

	if (status != FALLOW_OK) {
		const char *why = fallow_pagetable_why(&pagetable);

		board_print("page tables: ");
		board_panic(why != NULL ? why : fallow_status_text(status));
	}
	fallow_pagetable_provider(&pagetable, &provider);
}

_Noreturn void board_main(uint64_t start_info)
{
	struct board_ram taken[2] = { { 0, LOW_BYTES } };
	uint64_t rsdp;

	board_cpu_set(0);
	serial_init();
	board_traps_init();
	board_traps_load(0);
	port_out8(PIC_MASTER, 0xff);
	port_out8(PIC_SLAVE, 0xff);
	rsdp = memory_map_read(start_info);
	board_map_init(ram, ram_count);
	board_apic_init();
	board_cpus_find(rsdp);
	taken[1].base = image_physical(board_image_begin);
	taken[1].size = board_map_end() - taken[1].base;
	board_memory_init(ram, ram_count, taken, 2, Q35_DIRECT_BASE);
	provider_init();
	board_fwcfg_init();
	board_cpus_start();
	__asm__ volatile("sti" ::: "memory");
	board_exit(guest_main());
}

const struct fallow_provider *board_provider(void)
{
	return &provider;
}

uintptr_t board_window_base(void)
{
	return Q35_WINDOW_BASE;
}

size_t board_window_size(void)
{
	return Q35_WINDOW_SIZE;
}
