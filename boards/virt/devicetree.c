/* SPDX-License-Identifier: MIT */
/*
 * Reads RAM, CPUs and a few devices from a flattened device tree.
 *
 * (Debian's libfdt is built for a hosted CPU and not for this one.)
 *
 * The format is that of the Devicetree Specification 0.4, chapter 5: a header,
 * a list of reserved ranges, a stream of tokens, and the properties' names; all
 * numbers are big-endian.  A node's properties come before its children, so
 * the stream is read once, with what matters of each open node on a stack, and
 * a node is judged when its properties are over.
 *
 * Nothing in the blob is trusted: every offset and length is checked against
 * what holds it before a byte there is read, and every loop moves on through
 * the blob.  Allocates nothing, prints nothing, runs on the host as well.
 *
 * Not read: `ranges` (nodes that matter are children of the root, whose
 * addresses are the CPU's), interrupts, anything behind a phandle.
 */
#include "devicetree.h"

#define MAGIC 0xd00dfeedu

enum {
	/* Of the header: offsets of its fields, and how long it is. */
	AT_MAGIC = 0,
	AT_TOTAL = 4,
	AT_STRUCTS = 8,
	AT_STRINGS = 12,
	AT_RESERVED = 16,
	AT_VERSION = 20,
	AT_LAST_COMPATIBLE = 24,
	AT_STRINGS_SIZE = 32,
	AT_STRUCTS_SIZE = 36,
	HEADER = 40,
	/* The only version that there is: it and its successors say that its
	 * readers can read them. */
	VERSION = 17,

	TOKEN_NODE = 1,
	TOKEN_NODE_END = 2,
	TOKEN_PROPERTY = 3,
	TOKEN_NOP = 4,
	TOKEN_END = 9,

	/* The root is 1; what matters is at most 3. */
	DEPTH_MAX = 12,
};

/* What a CPU's `reg` may have: MPIDR_EL1's fields of affinity. */
#define AFFINITY ((uint64_t)0xff00ffffff)

/* No tree is as large; below it, sums of offsets in it cannot wrap. */
#define BLOB_MAX ((uint32_t)1 << 30)

/* Some bytes of the blob, in bounds. */
struct bytes {
	const uint8_t *at;
	uint32_t size;
};

/* What is known of an open node. */
struct node {
	struct bytes name; /* without what follows its @ */
	struct bytes reg, compatible, type, status;
	struct bytes method, enable_method;
	/* Cells of an address and of a size in its children's `reg`. */
	uint32_t address_cells, size_cells;
	bool judged;
};

struct reader {
	struct board_devicetree *tree;
	struct bytes structs, strings;
	uint32_t at; /* in structs */
	unsigned depth;
	struct node nodes[DEPTH_MAX + 1];
};

/* Returns the number at p. */
static uint32_t number(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 |
	       (uint32_t)p[2] << 8 | p[3];
}

/* Returns the number of one or two cells at p. */
static uint64_t cells(const uint8_t *p, uint32_t count)
{
	uint64_t high = number(p);

	return count == 1 ? high : high << 32 | number(p + 4);
}

/* Sets *part to [offset, offset + size) of the whole, if that is in it. */
static bool part_of(
	struct bytes whole, uint32_t offset, uint32_t size, struct bytes *part)
{
	if (offset > whole.size || size > whole.size - offset)
		return false;
	part->at = whole.at + offset;
	part->size = size;
	return true;
}

/* Sets *text to the string at the offset, without its zero, if it ends within
 * the whole. */
static bool text_in(struct bytes whole, uint32_t offset, struct bytes *text)
{
	uint32_t end = offset;

	while (end < whole.size && whole.at[end])
		end++;
	return end < whole.size && part_of(whole, offset, end - offset, text);
}

/* Whether the bytes are this text; a zero at their end does not count. */
static bool equal(struct bytes bytes, const char *text)
{
	uint32_t i;

	if (bytes.size && !bytes.at[bytes.size - 1])
		bytes.size--;
	for (i = 0; i < bytes.size; i++)
		if (!text[i] || bytes.at[i] != (uint8_t)text[i])
			return false;
	return !text[i];
}

/* Whether one of a list's strings, each ended by a zero, is this text. */
static bool lists(struct bytes list, const char *text)
{
	struct bytes one;

	for (uint32_t at = 0; text_in(list, at, &one); at += one.size + 1)
		if (equal(one, text))
			return true;
	return false;
}

/* Adds a range to a list of ranges; returns what is wrong, or NULL. */
static const char *range_add(
	struct board_ram *list, size_t *count, uint64_t base, uint64_t size)
{
	if (!size)
		return NULL;
	if (base + size < base)
		return "device tree: a range wraps";
	if (*count == BOARD_RAM_MAX)
		return "device tree: too many ranges";
	list[*count].base = base;
	list[(*count)++].size = size;
	return NULL;
}

/* Adds all ranges of the node's `reg`. */
static const char *reg_add(const struct node *node, const struct node *parent,
	struct board_ram *list, size_t *count)
{
	uint32_t a = parent->address_cells, s = parent->size_cells;
	uint32_t step = 4 * (a + s);
	const char *wrong = NULL;

	if (a < 1 || a > 2 || s < 1 || s > 2)
		return "device tree: addresses of neither 32 nor 64 bits";
	if (node->reg.size % step)
		return "device tree: reg is not whole";
	for (uint32_t at = 0; at < node->reg.size && !wrong; at += step)
		wrong = range_add(list, count, cells(node->reg.at + at, a),
			cells(node->reg.at + at + 4 * a, s));
	return wrong;
}

/* Sets *device to the first range of the node's `reg`. */
static const char *reg_first(const struct node *node, const struct node *parent,
	struct board_ram *device)
{
	struct board_ram all[BOARD_RAM_MAX];
	size_t count = 0;
	const char *wrong = reg_add(node, parent, all, &count);

	if (!wrong && count)
		*device = all[0];
	return wrong;
}

/* Takes an interrupt controller of this version. */
static const char *gic_take(const struct node *node, const struct node *parent,
	struct board_devicetree *tree, unsigned version)
{
	struct board_ram all[BOARD_RAM_MAX];
	size_t count = 0;
	const char *wrong = reg_add(node, parent, all, &count);

	if (wrong)
		return wrong;
	if (tree->gic_version)
		return "device tree: more than one interrupt controller";
	if (count < 2)
		return "device tree: an interrupt controller is not whole";
	tree->gic_version = version;
	tree->gic_distributor = all[0];
	tree->gic_cpus = all[1];
	return NULL;
}

/* Takes how PSCI is called. */
static const char *psci_take(
	const struct node *node, struct board_devicetree *tree)
{
	if (equal(node->method, "hvc"))
		tree->psci = BOARD_PSCI_HVC;
	else if (equal(node->method, "smc"))
		tree->psci = BOARD_PSCI_SMC;
	else
		return "device tree: PSCI by a method that is not known";
	return NULL;
}

/* Adds a CPU to the list. */
static const char *cpu_add(const struct node *node, const struct node *parent,
	struct board_devicetree *tree)
{
	uint32_t a = parent->address_cells;
	struct board_devicetree_cpu cpu = {
		.psci = equal(node->enable_method, "psci"),
	};

	if (a < 1 || a > 2 || node->reg.size != 4 * a)
		return "device tree: a CPU's reg is no affinity";
	cpu.affinity = cells(node->reg.at, a);
	if (cpu.affinity & ~AFFINITY)
		return "device tree: a CPU's reg is no affinity";
	for (unsigned i = 0; i < tree->cpus && i < BOARD_CPUS_MAX; i++)
		if (tree->cpu[i].affinity == cpu.affinity)
			return "device tree: a CPU is there twice";
	if (tree->cpus < BOARD_CPUS_MAX)
		tree->cpu[tree->cpus] = cpu;
	tree->cpus++;
	return NULL;
}

/* Takes from a child of the root what is wanted of it. */
static const char *child_judge(const struct node *node,
	const struct node *parent, struct board_devicetree *tree)
{
	if (equal(node->type, "memory"))
		return reg_add(node, parent, tree->ram, &tree->ram_count);
	if (lists(node->compatible, "arm,pl011"))
		return reg_first(node, parent, &tree->uart);
	if (lists(node->compatible, "qemu,fw-cfg-mmio"))
		return reg_first(node, parent, &tree->fwcfg);
	if (lists(node->compatible, "arm,cortex-a15-gic") ||
		lists(node->compatible, "arm,gic-400"))
		return gic_take(node, parent, tree, 2);
	if (lists(node->compatible, "arm,gic-v3"))
		return gic_take(node, parent, tree, 3);
	/* From 0.2 on the numbers of the functions are fixed. */
	if (lists(node->compatible, "arm,psci-0.2") ||
		lists(node->compatible, "arm,psci-1.0"))
		return psci_take(node, tree);
	return NULL;
}

/* Takes from an open node, all of whose properties are known, what is wanted
 * of it; returns what is wrong, or NULL. */
static const char *node_judge(struct reader *reader)
{
	struct node *node = &reader->nodes[reader->depth];
	const struct node *parent = &reader->nodes[reader->depth - 1];
	struct board_devicetree *tree = reader->tree;

	if (node->judged)
		return NULL;
	node->judged = true;
	if (node->status.size && !equal(node->status, "okay") &&
		!equal(node->status, "ok"))
		return NULL;
	if (reader->depth == 2)
		return child_judge(node, parent, tree);
	if (reader->depth != 3)
		return NULL;
	if (equal(parent->name, "cpus") && equal(node->type, "cpu"))
		return cpu_add(node, parent, tree);
	if (equal(parent->name, "reserved-memory"))
		return reg_add(node, parent, tree->taken, &tree->taken_count);
	return NULL;
}

/* Moves over the name of a node and opens it. */
static const char *node_open(struct reader *reader)
{
	struct node *node;
	struct bytes name;
	const char *wrong = reader->depth ? node_judge(reader) : NULL;

	if (wrong)
		return wrong;
	if (reader->depth == DEPTH_MAX)
		return "device tree: too deep";
	if (!text_in(reader->structs, reader->at, &name))
		return "device tree: truncated in a node's name";
	/* Tokens are aligned to 4 bytes. */
	reader->at = (reader->at + name.size + 4) & ~3u;
	node = &reader->nodes[++reader->depth];
	/* The defaults of the specification, 2.3.5. */
	*node = (struct node){ .address_cells = 2, .size_cells = 1 };
	for (uint32_t i = 0; i < name.size; i++)
		if (name.at[i] == '@')
			name.size = i;
	node->name = name;
	return NULL;
}

static const char *node_close(struct reader *reader)
{
	const char *wrong;

	if (!reader->depth)
		return "device tree: a node ends that did not begin";
	wrong = node_judge(reader);
	reader->depth--;
	return wrong;
}

/* Keeps the property if it is one of those that matter. */
static void property_keep(
	struct node *node, struct bytes name, struct bytes value)
{
	if (equal(name, "reg"))
		node->reg = value;
	else if (equal(name, "compatible"))
		node->compatible = value;
	else if (equal(name, "device_type"))
		node->type = value;
	else if (equal(name, "status"))
		node->status = value;
	else if (equal(name, "method"))
		node->method = value;
	else if (equal(name, "enable-method"))
		node->enable_method = value;
	else if (equal(name, "#address-cells") && value.size == 4)
		node->address_cells = number(value.at);
	else if (equal(name, "#size-cells") && value.size == 4)
		node->size_cells = number(value.at);
}

/* Moves over a property of the innermost open node. */
static const char *property_read(struct reader *reader)
{
	struct bytes head, name, value;

	if (!reader->depth || reader->nodes[reader->depth].judged)
		return "device tree: a property outside of a node's head";
	if (!part_of(reader->structs, reader->at, 8, &head) ||
		!part_of(reader->structs, reader->at + 8, number(head.at),
			&value))
		return "device tree: truncated in a property";
	if (!text_in(reader->strings, number(head.at + 4), &name))
		return "device tree: a property's name is outside";
	reader->at = (reader->at + 8 + value.size + 3) & ~3u;
	property_keep(&reader->nodes[reader->depth], name, value);
	return NULL;
}

/* Reads the whole stream of tokens. */
static const char *structs_read(struct reader *reader)
{
	struct bytes token;
	const char *wrong = NULL;

	while (!wrong) {
		if (!part_of(reader->structs, reader->at, 4, &token))
			return "device tree: truncated";
		reader->at += 4;
		switch (number(token.at)) {
		case TOKEN_NODE:
			wrong = node_open(reader);
			break;
		case TOKEN_NODE_END:
			wrong = node_close(reader);
			break;
		case TOKEN_PROPERTY:
			wrong = property_read(reader);
			break;
		case TOKEN_NOP:
			break;
		case TOKEN_END:
			return reader->depth ? "device tree: a node has no end"
					     : NULL;
		default:
			wrong = "device tree: an unknown token";
		}
	}
	return wrong;
}

/* Reads the list of reserved ranges: pairs of 64-bit numbers up to 0, 0. */
static const char *reserved_read(
	struct board_devicetree *tree, struct bytes blob)
{
	uint32_t at = number(blob.at + AT_RESERVED);
	struct bytes pair;
	const char *wrong = NULL;

	for (; !wrong; at += 16) {
		if (!part_of(blob, at, 16, &pair))
			return "device tree: truncated in the reserved ranges";
		if (!cells(pair.at, 2) && !cells(pair.at + 8, 2))
			return NULL;
		wrong = range_add(tree->taken, &tree->taken_count,
			cells(pair.at, 2), cells(pair.at + 8, 2));
	}
	return wrong;
}

/* Checks the header and sets the reader's bounds. */
static const char *header_read(struct reader *reader, struct bytes *blob)
{
	const uint8_t *h = blob->at;

	if (blob->size < HEADER || number(h + AT_MAGIC) != MAGIC)
		return "no device tree";
	if (number(h + AT_TOTAL) < HEADER || number(h + AT_TOTAL) > blob->size)
		return "device tree: truncated";
	blob->size = number(h + AT_TOTAL);
	if (number(h + AT_VERSION) < VERSION ||
		number(h + AT_LAST_COMPATIBLE) > VERSION)
		return "device tree: a version that is not known";
	if (!part_of(*blob, number(h + AT_STRUCTS), number(h + AT_STRUCTS_SIZE),
		    &reader->structs) ||
		!part_of(*blob, number(h + AT_STRINGS),
			number(h + AT_STRINGS_SIZE), &reader->strings))
		return "device tree: its parts are outside of it";
	return NULL;
}

/* Whether two ranges of RAM have a byte in common; none of them wraps. */
static bool ram_overlaps(const struct board_devicetree *tree)
{
	for (size_t i = 0; i < tree->ram_count; i++)
		for (size_t j = i + 1; j < tree->ram_count; j++) {
			const struct board_ram *a = &tree->ram[i];
			const struct board_ram *b = &tree->ram[j];

			if (a->base < b->base + b->size &&
				b->base < a->base + a->size)
				return true;
		}
	return false;
}

const char *board_devicetree_read(
	struct board_devicetree *tree, const void *blob, size_t size)
{
	struct bytes bytes = {
		blob, size < BLOB_MAX ? (uint32_t)size : BLOB_MAX };
	struct reader reader = { .tree = tree };
	const char *wrong = header_read(&reader, &bytes);

	*tree = (struct board_devicetree){ 0 };
	if (!wrong)
		wrong = reserved_read(tree, bytes);
	if (!wrong)
		wrong = structs_read(&reader);
	if (!wrong && !tree->ram_count)
		wrong = "device tree: no RAM";
	if (!wrong && ram_overlaps(tree))
		wrong = "device tree: ranges of RAM overlap";
	return wrong;
}

/* Where the CPU is in the list; beyond its end if it is not there. */
static unsigned cpu_find(
	const struct board_devicetree *tree, uint64_t affinity)
{
	unsigned i = 0;

	while (i < tree->cpus && tree->cpu[i].affinity != affinity)
		i++;
	return i;
}

const char *board_devicetree_boot_cpu(
	struct board_devicetree *tree, uint64_t affinity)
{
	const struct board_devicetree_cpu boot = { .affinity = affinity };
	bool listed_all = tree->cpus <= BOARD_CPUS_MAX;
	unsigned at;

	if (!listed_all)
		tree->cpus = BOARD_CPUS_MAX;
	at = cpu_find(tree, affinity);
	if (at == tree->cpus && tree->cpus && listed_all)
		return "device tree: the CPU that runs is not there";
	/* It may be one of those that found no room, or the tree says nothing
	 * of CPUs. */
	if (at == tree->cpus && tree->cpus)
		at--;
	tree->cpus += !tree->cpus;
	tree->cpu[at] = tree->cpu[0];
	tree->cpu[0] = boot;
	if (tree->cpus > 1 && tree->psci == BOARD_PSCI_NONE)
		return "device tree: no PSCI to start the other CPUs with";
	for (unsigned i = 1; i < tree->cpus; i++)
		if (!tree->cpu[i].psci)
			return "device tree: a CPU that PSCI does not start";
	return NULL;
}
