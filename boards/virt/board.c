/* SPDX-License-Identifier: MIT */
/*
 * The board virt: QEMU's `-M virt -kernel image`, from the first line of C to
 * guest_main().
 *
 * Order matters: the device tree first, in the block that start.S mapped for
 * it, for it says where RAM and fw_cfg are; then the direct map of all RAM,
 * with tables in the image; then that block is RAM like any other and loses
 * its mapping; then frames; then the interrupt controller and the other CPUs
 * (cpus.c), which find all of that; then provider and fw_cfg.  Until the tree
 * has been read, messages go to where QEMU has always had the serial port.
 *
 * RAM that is no whole 2 MiB block is left out: a block that reached beyond
 * its end would let the CPU speculate into nothing.
 */
#include "image.h"
#include "virt.h"

enum {
	/* PL011 (Arm DDI 0183): registers by offset. */
	UART_DATA = 0x00,
	UART_FLAGS = 0x18,
	UART_FLAGS_FULL = 1 << 5,
	/* fw_cfg (QEMU, docs/specs/fw_cfg), and how many bytes it takes. */
	FWCFG_DMA = 0x10,
	FWCFG_BYTES = 0x18,
	/* Semihosting for AArch64: the operation, and the reason that makes
	 * its second word the exit status. */
	SEMIHOSTING_EXIT = 0x18,
	SEMIHOSTING_APPLICATION_EXIT = 0x20026,
};

#define UART_BASE_USUAL 0x09000000
/* Descriptors (Arm ARM, "Translation table descriptor formats"). */
#define ENTRY_TABLE ((uint64_t)3)
#define ENTRY_BLOCK \
 ((uint64_t)1 | VIRT_ATTR_NORMAL << 2 | 3 << 8 | 1 << 10 | (uint64_t)3 << 53)
#define TABLE_ENTRIES 512
#define SMALL_BLOCK ((uint64_t)1 << 21)
#define LARGE_BLOCK ((uint64_t)1 << 30)
/* One table of level 1 maps 512 GiB; what is no whole GiB of RAM takes one of
 * level 2 each. */
#define DIRECT_BYTES (TABLE_ENTRIES * LARGE_BLOCK)
#define DIRECT_TABLES 8

/* PMCR_EL0: enable, count to 64 bits; and the cycle counter's bit in
 * PMCNTENSET_EL0. */
#define PMCR (1 << 0 | 1 << 6)
#define PMCNTEN_CYCLES ((uint64_t)1 << 31)
#define PMUVER(dfr0) ((unsigned)((dfr0) >> PMUVER_SHIFT & 15))

_Noreturn void board_main(void);
_Noreturn void board_refuse_level(void);

static struct fallow_pagetable pagetable;
static struct fallow_provider provider;
static struct board_devicetree tree;
static uint64_t uart = UART_BASE_USUAL;
static bool cycles;
static uint64_t direct_level1[TABLE_ENTRIES] __attribute__((aligned(4096)));
static uint64_t direct_tables[DIRECT_TABLES][TABLE_ENTRIES]
	__attribute__((aligned(4096)));
static unsigned direct_tables_used;

/* The image is at its physical address. */
static uint64_t image_physical(const void *p)
{
	return (uintptr_t)p;
}

void board_putc(char c)
{
	while (*device_word(uart, UART_FLAGS) & UART_FLAGS_FULL)
		continue;
	*device_word(uart, UART_DATA) = (uint8_t)c;
}

/* Asks the debugger that QEMU plays to end the machine. */
static void semihosting_exit(uint64_t status)
{
	struct {
		uint64_t reason;
		uint64_t status;
	} exit = { SEMIHOSTING_APPLICATION_EXIT, status };
	register uint64_t operation __asm__("x0") = SEMIHOSTING_EXIT;
	register void *argument __asm__("x1") = &exit;

	__asm__ volatile("hlt #0xf000"
			 : "+r"(operation)
			 : "r"(argument)
			 : "memory");
}

_Noreturn void board_exit(int status)
{
	board_fault_yield();
	semihosting_exit(status < 0 || status > 127 ? 127 : (uint64_t)status);
	for (;;)
		__asm__ volatile("msr daifset, #15\n\twfi");
}

/* Called with the MMU off: says why, and ends the machine. */
_Noreturn void board_refuse_level(void)
{
	board_panic("started at EL3: leave secure=on away");
}

/*
 * The cycle counter counts instructions under -icount shift=0; the generic
 * timer's counter, which every CPU has, moves only every 16th.  Each CPU has a
 * cycle counter of its own: the others begin where the first one is when they
 * come up, so that all agree but for what passed until they read that.
 */
void board_ticks_init(uint64_t start)
{
	uint64_t dfr0;

	__asm__("mrs %0, id_aa64dfr0_el1" : "=r"(dfr0));
	cycles = PMUVER(dfr0) != PMUVER_NONE && PMUVER(dfr0) != PMUVER_OTHER;
	if (!cycles)
		return;
	__asm__ volatile("msr pmccfiltr_el0, xzr\n\t"
			 "msr pmcntenset_el0, %1\n\t"
			 "msr pmcr_el0, %0\n\t"
			 "msr pmccntr_el0, %2\n\t"
			 "isb" ::"r"((uint64_t)PMCR),
		"r"(PMCNTEN_CYCLES), "r"(start));
}

uint64_t board_ticks(void)
{
	uint64_t now;

	if (cycles)
		__asm__ volatile("mrs %0, pmccntr_el0" : "=r"(now));
	else
		__asm__ volatile("isb\n\tmrs %0, cntvct_el0" : "=r"(now));
	return now;
}

/* The descriptor's bytes are in memory before the device is told of them. */
bool board_fwcfg_start(uint64_t descriptor)
{
	if (!tree.fwcfg.base)
		return false;
	__asm__ volatile("dsb sy" ::: "memory");
	*(volatile uint64_t *)(uintptr_t)(tree.fwcfg.base + FWCFG_DMA) =
		__builtin_bswap64(descriptor);
	__asm__ volatile("dsb sy" ::: "memory");
	return true;
}

bool board_device_mapped(const struct board_ram *device)
{
	return device->base >= VIRT_DEVICE_BASE &&
		device->base < VIRT_DEVICE_END &&
		device->size <= VIRT_DEVICE_END - device->base;
}

/* Reads the device tree; panics with what is wrong with it. */
static void tree_read(void)
{
	const char *wrong = board_devicetree_read(&tree,
		(const void *)(uintptr_t)VIRT_RAM_BASE,
		VIRT_IMAGE_BASE - VIRT_RAM_BASE);

	if (wrong)
		board_panic(wrong);
	if (board_device_mapped(&tree.uart))
		uart = tree.uart.base;
	if (!board_device_mapped(&tree.fwcfg) || tree.fwcfg.size < FWCFG_BYTES)
		tree.fwcfg.base = 0;
}

/* Makes every range of RAM whole blocks. */
static void ram_trim(void)
{
	for (size_t i = 0; i < tree.ram_count; i++) {
		struct board_ram *ram = &tree.ram[i];
		uint64_t end = (ram->base + ram->size) & -SMALL_BLOCK;
		uint64_t base = (ram->base + SMALL_BLOCK - 1) & -SMALL_BLOCK;

		ram->base = base;
		ram->size = base < end ? end - base : 0;
	}
}

/* Returns the level-2 table below this entry of level 1, made if missing.  It
 * is no block: that is one range's alone, and ranges do not overlap. */
static uint64_t *direct_table(uint64_t *entry)
{
	if (!*entry) {
		if (direct_tables_used == DIRECT_TABLES)
			board_panic("RAM too scattered for the direct map");
		*entry = image_physical(direct_tables[direct_tables_used++]) |
			 ENTRY_TABLE;
	}
	return (uint64_t *)(uintptr_t)(*entry & ~ENTRY_TABLE);
}

/* Maps [addr, end), whole small blocks, with the largest that fit. */
static void direct_map_range(uint64_t addr, uint64_t end)
{
	if (end > DIRECT_BYTES)
		board_panic("RAM beyond the reach of the direct map");
	while (addr < end) {
		uint64_t *entry = &direct_level1[addr / LARGE_BLOCK];

		if (addr % LARGE_BLOCK == 0 && end - addr >= LARGE_BLOCK) {
			*entry = addr | ENTRY_BLOCK;
			addr += LARGE_BLOCK;
			continue;
		}
		direct_table(entry)[addr / SMALL_BLOCK % TABLE_ENTRIES] =
			addr | ENTRY_BLOCK;
		addr += SMALL_BLOCK;
	}
}

/* Maps all RAM at VIRT_DIRECT_BASE, and the tree's block nowhere else. */
static void direct_map_init(void)
{
	board_root_high[VIRT_DIRECT_BASE >> 39 & (TABLE_ENTRIES - 1)] =
		image_physical(direct_level1) | ENTRY_TABLE;
	for (size_t i = 0; i < tree.ram_count; i++)
		direct_map_range(
			tree.ram[i].base, tree.ram[i].base + tree.ram[i].size);
	*(volatile uint64_t *)board_level2 = 0;
	__asm__ volatile("dsb ishst\n\t"
			 "tlbi vmalle1is\n\t"
			 "dsb ish\n\t"
			 "isb" ::
				 : "memory");
}

/* Makes the frame allocator of RAM without the image. */
static void memory_init(void)
{
	if (tree.taken_count == BOARD_RAM_MAX)
		board_panic("device tree: too many ranges");
	tree.taken[tree.taken_count].base = image_physical(board_image_begin);
	tree.taken[tree.taken_count++].size =
		(uint64_t)(board_image_end - board_image_begin);
	board_memory_init(tree.ram, tree.ram_count, tree.taken,
		tree.taken_count, VIRT_DIRECT_BASE);
}

static void others_stop(void *ctx)
{
	(void)ctx;
	board_stop_others();
}

static void others_resume(void *ctx)
{
	(void)ctx;
	board_resume_others();
}

/*
 * The window's half of the addresses names the TTBR.  Blocks can be resized on
 * any model: with BBM level 2 without a gap, for QEMU's TLB raises no conflict
 * aborts; else with nobody else there, or with the others stopped.
 */
struct fallow_pagetable_config board_pagetable_config(
	const struct fallow_frame_hooks *hooks, uintptr_t window_base,
	size_t window_size, unsigned flags)
{
	unsigned ttbr = window_base >> 63;
	bool alone = board_cpus() == 1;

	return (struct fallow_pagetable_config){
		.size = sizeof(struct fallow_pagetable_config),
		.root = image_physical(ttbr ? board_root_high : board_root_low),
		.direct_offset = VIRT_DIRECT_BASE,
		.frames = *hooks,
		.window_base = window_base,
		.window_size = window_size,
		.ttbr = ttbr,
		.attr_index = VIRT_ATTR_NORMAL,
		.stop_others = alone ? NULL : others_stop,
		.resume_others = alone ? NULL : others_resume,
		.flags = flags | FALLOW_PAGETABLE_NO_CONFLICT |
			(alone ? FALLOW_PAGETABLE_ONE_CPU : 0),
	};
}

enum fallow_status board_pagetable_init(struct fallow_pagetable *made,
	const struct fallow_frame_hooks *hooks, uintptr_t window_base,
	size_t window_size, unsigned flags)
{
	struct fallow_pagetable_config config = board_pagetable_config(
		hooks, window_base, window_size, flags);

	return fallow_pagetable_init(made, &config);
}

/* Makes the provider of the window; panics with what it refused. */
static void provider_init(void)
{
	enum fallow_status status = board_pagetable_init(&pagetable,
		board_frame_hooks(), VIRT_WINDOW_BASE, VIRT_WINDOW_SIZE, 0);

	if (status != FALLOW_OK) {
		board_print("page tables: ");
		board_panic(fallow_pagetable_why(&pagetable));
	}
	fallow_pagetable_provider(&pagetable, &provider);
}

_Noreturn void board_main(void)
{
	board_ticks_init(0);
	tree_read();
	ram_trim();
	direct_map_init();
	board_cpus_init(&tree);
	memory_init();
	board_cpus_start(&tree);
	provider_init();
	board_fwcfg_init();
	board_exit(guest_main());
}

const struct fallow_provider *board_provider(void)
{
	return &provider;
}

uintptr_t board_window_base(void)
{
	return VIRT_WINDOW_BASE;
}

size_t board_window_size(void)
{
	return VIRT_WINDOW_SIZE;
}
