/* SPDX-License-Identifier: MIT */
/*
 * The device tree reader of the board virt, on trees that a small writer
 * makes: first right ones, then each thing that can be wrong with one, then
 * every truncation and thousands of random changes.  A tree is always handed
 * over in an allocation of exactly its size, so that the address sanitizer
 * sees a read beyond it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"
#include "virt/devicetree.h"

#define BLOB_BYTES 4096

/* A tree that is being written. */
static uint8_t structs[BLOB_BYTES], strings[BLOB_BYTES], reserved[256];
static size_t structs_size, strings_size, reserved_size;

static uint8_t blob[3 * BLOB_BYTES];
static size_t blob_size;

static void store(uint8_t *at, uint32_t value)
{
	at[0] = (uint8_t)(value >> 24);
	at[1] = (uint8_t)(value >> 16);
	at[2] = (uint8_t)(value >> 8);
	at[3] = (uint8_t)value;
}

static void word(uint32_t value)
{
	store(structs + structs_size, value);
	structs_size += 4;
}

static void bytes(const void *data, size_t size)
{
	memcpy(structs + structs_size, data, size);
	structs_size += size;
	while (structs_size % 4)
		structs[structs_size++] = 0;
}

static void node(const char *name)
{
	word(1);
	bytes(name, strlen(name) + 1);
}

static void node_end(void)
{
	word(2);
}

static void property(const char *name, const void *value, size_t size)
{
	word(3);
	word((uint32_t)size);
	word((uint32_t)strings_size);
	strcpy((char *)strings + strings_size, name);
	strings_size += strlen(name) + 1;
	bytes(value, size);
}

static void property_text(const char *name, const char *value)
{
	property(name, value, strlen(value) + 1);
}

/* A property of n cells. */
static void property_cells(const char *name, const uint32_t *cells, size_t n)
{
	uint8_t value[256];

	for (size_t i = 0; i < n; i++)
		store(value + 4 * i, cells[i]);
	property(name, value, 4 * n);
}

#define CELLS(name, ...) \
	property_cells(name, (const uint32_t[]){ __VA_ARGS__ }, \
		sizeof((const uint32_t[]){ __VA_ARGS__ }) / 4)

static void reserve(uint64_t base, uint64_t size)
{
	uint8_t *at = reserved + reserved_size;

	store(at, (uint32_t)(base >> 32));
	store(at + 4, (uint32_t)base);
	store(at + 8, (uint32_t)(size >> 32));
	store(at + 12, (uint32_t)size);
	reserved_size += 16;
}

static void tree_begin(void)
{
	structs_size = strings_size = reserved_size = 0;
}

/* Puts the parts together behind a header. */
static void tree_end(void)
{
	uint32_t at_reserved = 40;
	uint32_t at_structs, at_strings;

	word(9);
	reserve(0, 0);
	at_structs = at_reserved + (uint32_t)reserved_size;
	at_strings = at_structs + (uint32_t)structs_size;
	blob_size = at_strings + strings_size;
	{
		const uint32_t header[10] = { 0xd00dfeed, (uint32_t)blob_size,
			at_structs, at_strings, at_reserved, 17, 16, 0,
			(uint32_t)strings_size, (uint32_t)structs_size };

		for (size_t i = 0; i < 10; i++)
			store(blob + 4 * i, header[i]);
	}
	memcpy(blob + at_reserved, reserved, reserved_size);
	memcpy(blob + at_structs, structs, structs_size);
	memcpy(blob + at_strings, strings, strings_size);
}

/* Reads the first `size` bytes of the blob, from an allocation of that size at
 * an odd address. */
static const char *read_part(struct board_devicetree *tree, size_t size)
{
	uint8_t *copy = malloc(size + 1);
	const char *wrong;

	memcpy(copy + 1, blob, size);
	wrong = board_devicetree_read(tree, copy + 1, size);
	free(copy);
	return wrong;
}

static const char *read_tree(void)
{
	struct board_devicetree tree;

	return read_part(&tree, blob_size);
}

/* Whether the reader says this of the tree. */
static bool says(const char *text)
{
	const char *wrong = read_tree();

	if (wrong && strcmp(wrong, text) == 0)
		return true;
	printf("\n    it says: %s\n", wrong ? wrong : "(nothing)");
	return false;
}

static void memory(uint32_t base, uint32_t size)
{
	node("memory@0");
	property_text("device_type", "memory");
	CELLS("reg", 0, base, 0, size);
	node_end();
}

/* A node that holds RAM needs two cells of each kind. */
static void root(void)
{
	node("");
	CELLS("#address-cells", 2);
	CELLS("#size-cells", 2);
}

/* A CPU with one cell of affinity, which PSCI starts. */
static void cpu(uint32_t affinity, const char *status)
{
	node("cpu@0");
	property_text("device_type", "cpu");
	CELLS("reg", affinity);
	property_text("enable-method", "psci");
	if (status)
		property_text("status", status);
	node_end();
}

/* Begins the node of CPUs, with so many cells of affinity. */
static void cpus(uint32_t cells)
{
	node("cpus");
	CELLS("#address-cells", cells);
	CELLS("#size-cells", 0);
}

static void psci(const char *compatible, const char *method)
{
	node("psci");
	property_text("compatible", compatible);
	property_text("method", method);
	node_end();
}

static void gic(const char *compatible)
{
	node("intc@8000000");
	property_text("compatible", compatible);
	CELLS("reg", 0, 0x8000000, 0, 0x10000, 0, 0x8010000, 0, 0x20000, 0,
		0x8030000, 0, 0x10000);
	node_end();
}

/* Much of what there can be in a tree. */
static void whole_tree(void)
{
	tree_begin();
	reserve(0x50000000, 0x1000);
	root();
	property_text("compatible", "linux,dummy-virt");
	memory(0x40000000, 0x4000000);
	node("memory@100000000");
	CELLS("reg", 1, 0, 0, 0x1000000, 2, 0x3000, 1, 0);
	property_text("device_type", "memory");
	node_end();
	node("memory@900000000");
	property_text("device_type", "memory");
	property_text("status", "disabled");
	CELLS("reg", 9, 0, 0, 0x1000000);
	node_end();
	node("reserved-memory");
	CELLS("#address-cells", 1);
	CELLS("#size-cells", 1);
	node("framebuffer@60000000");
	CELLS("reg", 0x60000000, 0x2000);
	node_end();
	node_end();
	cpus(1);
	cpu(0, NULL);
	cpu(0x101, "okay");
	cpu(2, "disabled");
	node("cpu-map");
	node("cluster0");
	node_end();
	node_end();
	node_end();
	word(4);
	node("pl011@9000000");
	property("compatible", "arm,pl011\0arm,primecell", 24);
	CELLS("reg", 0, 0x9000000, 0, 0x1000);
	node_end();
	node("fw-cfg@9020000");
	CELLS("reg", 0, 0x9020000, 0, 0x18);
	property_text("compatible", "qemu,fw-cfg-mmio");
	node_end();
	psci("arm,psci-0.2", "smc");
	gic("arm,gic-v3");
	node_end();
	tree_end();
}

static void test_reads_what_is_there(void)
{
	struct board_devicetree tree;

	whole_tree();
	CHECK_OR_RETURN(read_part(&tree, blob_size) == NULL);
	CHECK_EQUAL(tree.ram_count, 3);
	CHECK_EQUAL(tree.ram[0].base, 0x40000000);
	CHECK_EQUAL(tree.ram[0].size, 0x4000000);
	CHECK_EQUAL(tree.ram[1].base, 0x100000000);
	CHECK_EQUAL(tree.ram[1].size, 0x1000000);
	CHECK_EQUAL(tree.ram[2].base, 0x200003000);
	CHECK_EQUAL(tree.ram[2].size, 0x100000000);
	CHECK_EQUAL(tree.taken_count, 2);
	CHECK_EQUAL(tree.taken[0].base, 0x50000000);
	CHECK_EQUAL(tree.taken[0].size, 0x1000);
	CHECK_EQUAL(tree.taken[1].base, 0x60000000);
	CHECK_EQUAL(tree.taken[1].size, 0x2000);
	CHECK_EQUAL(tree.cpus, 2);
	CHECK_EQUAL(tree.cpu[0].affinity, 0);
	CHECK_EQUAL(tree.cpu[1].affinity, 0x101);
	CHECK(tree.cpu[0].psci && tree.cpu[1].psci);
	CHECK_EQUAL(tree.psci, BOARD_PSCI_SMC);
	CHECK_EQUAL(tree.gic_version, 3);
	CHECK_EQUAL(tree.gic_distributor.base, 0x8000000);
	CHECK_EQUAL(tree.gic_distributor.size, 0x10000);
	CHECK_EQUAL(tree.gic_cpus.base, 0x8010000);
	CHECK_EQUAL(tree.gic_cpus.size, 0x20000);
	CHECK_EQUAL(tree.uart.base, 0x9000000);
	CHECK_EQUAL(tree.fwcfg.base, 0x9020000);
	CHECK_EQUAL(tree.fwcfg.size, 0x18);
}

/* What follows the tree in memory does not matter. */
static void test_ignores_what_follows(void)
{
	struct board_devicetree tree;

	whole_tree();
	memset(blob + blob_size, 0xff, 64);
	CHECK(read_part(&tree, blob_size + 64) == NULL);
	CHECK_EQUAL(tree.cpus, 2);
}

static void test_cells_have_defaults(void)
{
	struct board_devicetree tree;

	tree_begin();
	node("");
	node("memory@80000000");
	property_text("device_type", "memory");
	CELLS("reg", 0, 0x80000000, 0x2000000);
	node_end();
	node_end();
	tree_end();
	CHECK(read_part(&tree, blob_size) == NULL);
	CHECK_EQUAL(tree.ram[0].base, 0x80000000);
	CHECK_EQUAL(tree.ram[0].size, 0x2000000);
}

static void test_no_ram(void)
{
	tree_begin();
	root();
	node_end();
	tree_end();
	CHECK(says("device tree: no RAM"));
	tree_begin();
	root();
	memory(0x40000000, 0);
	node_end();
	tree_end();
	CHECK(says("device tree: no RAM"));
	/* Only children of the root are RAM. */
	tree_begin();
	root();
	node("bus");
	CELLS("#address-cells", 2);
	CELLS("#size-cells", 2);
	memory(0x40000000, 0x1000);
	node_end();
	node_end();
	tree_end();
	CHECK(says("device tree: no RAM"));
	tree_begin();
	tree_end();
	CHECK(says("device tree: no RAM"));
}

static void test_no_tree(void)
{
	struct board_devicetree tree;
	const char *wrong;

	whole_tree();
	wrong = read_part(&tree, 0);
	CHECK(wrong && strcmp(wrong, "no device tree") == 0);
	wrong = read_part(&tree, 39);
	CHECK(wrong && strcmp(wrong, "no device tree") == 0);
	blob[0]++;
	CHECK(says("no device tree"));
	memset(blob, 0, sizeof(blob));
	CHECK(says("no device tree"));
}

/* Adds to one field of a good tree's header. */
static const char *forge(size_t field, uint32_t plus)
{
	whole_tree();
	store(blob + 4 * field,
		plus + ((uint32_t)blob[4 * field] << 24 |
			       (uint32_t)blob[4 * field + 1] << 16 |
			       (uint32_t)blob[4 * field + 2] << 8 |
			       blob[4 * field + 3]));
	return read_tree();
}

static void test_header_forged(void)
{
	static const size_t offsets[] = { 1, 2, 3, 8, 9 };
	static const uint32_t plus[] = { 1u << 12, 1u << 30, 1u << 31,
		0u - (1u << 16) };

	for (size_t i = 0; i < 5; i++)
		for (size_t j = 0; j < 4; j++)
			CHECK(forge(offsets[i], plus[j]) != NULL);
	/* The reserved ranges would begin beyond the end, or at its edge. */
	CHECK(forge(4, 1u << 20) != NULL);
	CHECK(forge(4, (uint32_t)blob_size - 40 - 8) != NULL);
	CHECK(forge(4, 0u - 41) != NULL);
	/* A version that only newer readers know. */
	CHECK(forge(6, 0) == NULL);
	CHECK(forge(6, 2) != NULL);
	CHECK(forge(5, 1) == NULL);
	CHECK(forge(5, 0u - 1) != NULL);
	/* The last name has no end. */
	CHECK(forge(8, 0u - 1) != NULL);
	/* A length that ends inside the header. */
	CHECK(forge(1, 0u - (uint32_t)blob_size + 39) != NULL);
}

/* A tree with this in its root; returns what the reader says. */
static const char *with_root(void (*inside)(void))
{
	tree_begin();
	root();
	inside();
	node_end();
	tree_end();
	return read_tree();
}

static void ram_wraps(void)
{
	node("memory@0");
	property_text("device_type", "memory");
	CELLS("reg", 0xffffffff, 0xfffff000, 0, 0x1001);
	node_end();
}

static void ram_odd(void)
{
	node("memory@0");
	property_text("device_type", "memory");
	CELLS("reg", 0, 0x40000000, 0);
	node_end();
}

static void ram_wide(void)
{
	CELLS("#address-cells", 3);
	memory(0x40000000, 0x1000);
}

static void ram_no_size(void)
{
	CELLS("#size-cells", 0);
	memory(0x40000000, 0x1000);
}

static void ram_scattered(void)
{
	for (uint32_t i = 0; i <= BOARD_RAM_MAX; i++)
		memory(i << 20, 0x1000);
}

/* In one reg, with a page in common. */
static void ram_twice(void)
{
	node("memory@0");
	property_text("device_type", "memory");
	CELLS("reg", 1, 0, 1, 0, 0, 0xc0000000, 0, 0x40001000);
	node_end();
}

/* In two nodes, the second inside of the first. */
static void ram_nested(void)
{
	memory(0x40000000, 0x80000000);
	memory(0x80000000, 0x200000);
}

static void ram_adjacent(void)
{
	memory(0x80000000, 0x40000000);
	memory(0x40000000, 0x40000000);
	memory(0xc0000000, 0x1000);
}

/* Ranges of RAM may touch, in any order. */
static void test_ram_adjacent(void)
{
	CHECK(with_root(ram_adjacent) == NULL);
}

/* The number of cells is a number, or it is not there. */
static void test_cells_of_odd_size(void)
{
	tree_begin();
	root();
	property("#address-cells", "\0\1", 2);
	property("#size-cells", "", 0);
	memory(0x40000000, 0x1000);
	node_end();
	tree_end();
	CHECK(read_tree() == NULL);
}

static void property_late(void)
{
	memory(0x40000000, 0x1000);
	property_text("compatible", "too late");
}

static void token_unknown(void)
{
	memory(0x40000000, 0x1000);
	word(5);
}

static void deep(void)
{
	for (int i = 0; i < 40; i++)
		node("deeper");
	for (int i = 0; i < 40; i++)
		node_end();
}

static void node_open_at_end(void)
{
	memory(0x40000000, 0x1000);
	node("open");
}

static void node_end_too_many(void)
{
	memory(0x40000000, 0x1000);
	node_end();
	node_end();
}

static void property_name_outside(void)
{
	word(3);
	word(0);
	word(100000);
}

static void property_long(void)
{
	word(3);
	word(0xfffffff0);
	word(0);
}

static void cpu_twice(void)
{
	cpus(1);
	cpu(1, NULL);
	cpu(0, NULL);
	cpu(1, NULL);
	node_end();
}

static void cpu_of_no_address(void)
{
	cpus(1);
	node("cpu@0");
	property_text("device_type", "cpu");
	node_end();
	node_end();
}

/* Cells that are not as many as the parent says. */
static void cpu_of_long_address(void)
{
	cpus(1);
	node("cpu@0");
	property_text("device_type", "cpu");
	CELLS("reg", 0, 0);
	node_end();
	node_end();
}

static void cpu_of_three_cells(void)
{
	cpus(3);
	node("cpu@0");
	property_text("device_type", "cpu");
	CELLS("reg", 0, 0, 0);
	node_end();
	node_end();
}

/* A bit of MPIDR_EL1 that is none of affinity. */
static void cpu_of_no_affinity(void)
{
	cpus(1);
	cpu(0x80000000, NULL);
	node_end();
}

static void psci_by_mail(void)
{
	psci("arm,psci-1.0", "mail");
}

static void gic_twice(void)
{
	gic("arm,gic-v3");
	gic("arm,gic-400");
}

static void gic_in_part(void)
{
	node("intc@8000000");
	property_text("compatible", "arm,cortex-a15-gic");
	CELLS("reg", 0, 0x8000000, 0, 0x10000);
	node_end();
}

static void test_contents_forged(void)
{
	void (*const all[])(void) = { ram_wraps, ram_odd, ram_wide,
		ram_no_size, ram_scattered, property_late, token_unknown, deep,
		node_open_at_end, node_end_too_many, property_name_outside,
		property_long, ram_twice, ram_nested, cpu_twice,
		cpu_of_no_address, cpu_of_long_address, cpu_of_three_cells,
		cpu_of_no_affinity, psci_by_mail, gic_twice, gic_in_part };
	const char *const expected[] = { "device tree: a range wraps",
		"device tree: reg is not whole",
		"device tree: addresses of neither 32 nor 64 bits",
		"device tree: addresses of neither 32 nor 64 bits",
		"device tree: too many ranges",
		"device tree: a property outside of a node's head",
		"device tree: an unknown token", "device tree: too deep",
		"device tree: a node has no end",
		"device tree: a node ends that did not begin",
		"device tree: a property's name is outside",
		"device tree: truncated in a property",
		"device tree: ranges of RAM overlap",
		"device tree: ranges of RAM overlap",
		"device tree: a CPU is there twice",
		"device tree: a CPU's reg is no affinity",
		"device tree: a CPU's reg is no affinity",
		"device tree: a CPU's reg is no affinity",
		"device tree: a CPU's reg is no affinity",
		"device tree: PSCI by a method that is not known",
		"device tree: more than one interrupt controller",
		"device tree: an interrupt controller is not whole" };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		with_root(all[i]);
		CHECK(says(expected[i]));
	}
}

/* Reads a tree of RAM and of `count` CPUs from affinity 0 on, with PSCI or
 * without. */
static void cpus_read(
	struct board_devicetree *tree, uint32_t count, const char *method)
{
	tree_begin();
	root();
	memory(0x40000000, 0x1000);
	if (count)
		cpus(1);
	for (uint32_t i = 0; i < count; i++)
		cpu(i, NULL);
	if (count)
		node_end();
	if (method)
		psci("arm,psci-1.0", method);
	node_end();
	tree_end();
	CHECK(read_part(tree, blob_size) == NULL);
}

/* Whether this is said when the CPU with this affinity is the one that runs. */
static bool boot_says(
	struct board_devicetree *tree, uint64_t affinity, const char *text)
{
	const char *wrong = board_devicetree_boot_cpu(tree, affinity);

	return text ? wrong && strcmp(wrong, text) == 0 : !wrong;
}

/* The CPU that runs is the first, wherever it is in the tree; the others are
 * each there once. */
static void test_boot_cpu_first(void)
{
	for (uint32_t boot = 0; boot < 4; boot++) {
		struct board_devicetree tree;
		unsigned seen = 0;

		cpus_read(&tree, 4, "hvc");
		CHECK_EQUAL(tree.psci, BOARD_PSCI_HVC);
		CHECK(boot_says(&tree, boot, NULL));
		CHECK_EQUAL(tree.cpus, 4);
		CHECK_EQUAL(tree.cpu[0].affinity, boot);
		for (unsigned i = 0; i < 4; i++)
			seen |= 1u << tree.cpu[i].affinity;
		CHECK_EQUAL(seen, 15);
	}
}

/* What is beyond the list stays off, unless it is the CPU that runs. */
static void test_more_cpus_than_room(void)
{
	struct board_devicetree tree;
	unsigned seen;

	for (uint32_t boot = 0; boot < BOARD_CPUS_MAX + 3; boot++) {
		cpus_read(&tree, BOARD_CPUS_MAX + 3, "hvc");
		CHECK_EQUAL(tree.cpus, BOARD_CPUS_MAX + 3);
		CHECK(boot_says(&tree, boot, NULL));
		CHECK_EQUAL(tree.cpus, BOARD_CPUS_MAX);
		CHECK_EQUAL(tree.cpu[0].affinity, boot);
		seen = 0;
		for (unsigned i = 0; i < BOARD_CPUS_MAX; i++)
			seen |= 1u << tree.cpu[i].affinity;
		CHECK_EQUAL(__builtin_popcount(seen), BOARD_CPUS_MAX);
	}
	cpus_read(&tree, BOARD_CPUS_MAX, "hvc");
	CHECK(boot_says(&tree, BOARD_CPUS_MAX - 1, NULL));
	CHECK_EQUAL(tree.cpus, BOARD_CPUS_MAX);
}

/* One CPU needs nobody to start it, also where the tree knows of none. */
static void test_one_cpu(void)
{
	struct board_devicetree tree;

	cpus_read(&tree, 0, NULL);
	CHECK(boot_says(&tree, 0x80, NULL));
	CHECK_EQUAL(tree.cpus, 1);
	CHECK_EQUAL(tree.cpu[0].affinity, 0x80);
	cpus_read(&tree, 1, NULL);
	CHECK(boot_says(&tree, 0, NULL));
	CHECK_EQUAL(tree.cpus, 1);
}

/* Trees whose other CPUs cannot be started. */
static void test_cpus_that_cannot_start(void)
{
	struct board_devicetree tree;

	cpus_read(&tree, 1, "hvc");
	CHECK(boot_says(&tree, 1,
		"device tree: the CPU that runs is not there"));
	cpus_read(&tree, BOARD_CPUS_MAX, "hvc");
	CHECK(boot_says(&tree, BOARD_CPUS_MAX,
		"device tree: the CPU that runs is not there"));
	cpus_read(&tree, 2, NULL);
	CHECK_EQUAL(tree.psci, BOARD_PSCI_NONE);
	CHECK(boot_says(&tree, 0,
		"device tree: no PSCI to start the other CPUs with"));
	/* PSCI starts all but one, which may be the one that runs. */
	tree_begin();
	root();
	memory(0x40000000, 0x1000);
	cpus(1);
	cpu(0, NULL);
	node("cpu@1");
	property_text("device_type", "cpu");
	CELLS("reg", 1);
	property_text("enable-method", "spin-table");
	node_end();
	node_end();
	psci("arm,psci-1.0", "hvc");
	node_end();
	tree_end();
	CHECK(read_part(&tree, blob_size) == NULL);
	CHECK(boot_says(&tree, 0,
		"device tree: a CPU that PSCI does not start"));
	CHECK(read_part(&tree, blob_size) == NULL);
	CHECK(boot_says(&tree, 1, NULL));
}

/* The old PSCI, whose functions have numbers of the firmware's own, is none;
 * a GIC of version 2 has two names, and other controllers none. */
static void test_names_of_devices(void)
{
	struct board_devicetree tree;
	static const char *const gics[] = { "arm,cortex-a15-gic",
		"arm,gic-400", "arm,gic-v3", "arm,gic-v5" };
	static const unsigned versions[] = { 2, 2, 3, 0 };

	for (size_t i = 0; i < 4; i++) {
		tree_begin();
		root();
		memory(0x40000000, 0x1000);
		psci("arm,psci", "hvc");
		gic(gics[i]);
		node_end();
		tree_end();
		CHECK(read_part(&tree, blob_size) == NULL);
		CHECK_EQUAL(tree.psci, BOARD_PSCI_NONE);
		CHECK_EQUAL(tree.gic_version, versions[i]);
	}
}

/* Two cells hold Aff3 as well. */
static void test_wide_affinity(void)
{
	struct board_devicetree tree;

	tree_begin();
	root();
	memory(0x40000000, 0x1000);
	cpus(2);
	node("cpu@0");
	property_text("device_type", "cpu");
	CELLS("reg", 0x12, 0x345678);
	node_end();
	node_end();
	node_end();
	tree_end();
	CHECK(read_part(&tree, blob_size) == NULL);
	CHECK_EQUAL(tree.cpu[0].affinity, 0x1200345678);
	CHECK(!tree.cpu[0].psci);
}

/* No part of a tree is a tree; with the header's word for it neither. */
static void test_truncated(void)
{
	struct board_devicetree tree;
	size_t size;

	whole_tree();
	size = blob_size;
	for (size_t n = 0; n < size; n++) {
		CHECK(read_part(&tree, n) != NULL);
		if (n < 40)
			continue;
		store(blob + 4, (uint32_t)n);
		CHECK(read_part(&tree, n) != NULL);
		store(blob + 4, (uint32_t)size);
	}
	CHECK(read_part(&tree, size) == NULL);
}

/* Whatever is changed, the reader ends, stays inside, and keeps its word. */
static void test_random_changes(void)
{
	static const uint32_t values[] = { 0, 1, 2, 3, 4, 9, 0xff, 0x7fffffff,
		0x80000000, 0xffffffff, 0xfffffffc };
	uint64_t random = test_seed;
	size_t accepted = 0;

	for (int i = 0; i < 20000; i++) {
		struct board_devicetree tree;
		const char *wrong;

		whole_tree();
		for (uint64_t n = 1 + test_random(&random) % 4; n > 0; n--) {
			uint64_t r = test_random(&random);
			size_t at = r % (blob_size / 4) * 4;

			if (r >> 40 & 1)
				blob[at + (r >> 32 & 3)] ^=
					(uint8_t)(1u << (r >> 36 & 7));
			else
				store(blob + at, values[(r >> 48) % 11]);
		}
		wrong = read_part(&tree, blob_size);
		accepted += !wrong;
		if (!wrong && !board_devicetree_boot_cpu(&tree, 0))
			CHECK(tree.cpus > 0 && tree.cpus <= BOARD_CPUS_MAX &&
				tree.cpu[0].affinity == 0);
		CHECK(wrong || (tree.ram_count > 0 &&
				       tree.ram_count <= BOARD_RAM_MAX &&
				       tree.taken_count <= BOARD_RAM_MAX));
	}
	/* Both kinds of end were met. */
	CHECK(accepted > 100 && accepted < 19900);
}

const struct test tests[] = {
	{ "devicetree_reads_what_is_there", test_reads_what_is_there },
	{ "devicetree_ignores_what_follows", test_ignores_what_follows },
	{ "devicetree_cells_have_defaults", test_cells_have_defaults },
	{ "devicetree_no_ram", test_no_ram },
	{ "devicetree_no_tree", test_no_tree },
	{ "devicetree_header_forged", test_header_forged },
	{ "devicetree_contents_forged", test_contents_forged },
	{ "devicetree_ram_adjacent", test_ram_adjacent },
	{ "devicetree_cells_of_odd_size", test_cells_of_odd_size },
	{ "devicetree_boot_cpu_first", test_boot_cpu_first },
	{ "devicetree_more_cpus_than_room", test_more_cpus_than_room },
	{ "devicetree_one_cpu", test_one_cpu },
	{ "devicetree_cpus_that_cannot_start", test_cpus_that_cannot_start },
	{ "devicetree_names_of_devices", test_names_of_devices },
	{ "devicetree_wide_affinity", test_wide_affinity },
	{ "devicetree_truncated", test_truncated },
	{ "devicetree_random_changes", test_random_changes },
	{ NULL, NULL },
};
