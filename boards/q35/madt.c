/* SPDX-License-Identifier: MIT */
/*
 * From ACPI's root pointer to the list of CPUs.
 *
 * The way is root pointer, then XSDT or RSDT, then the table named APIC (the
 * MADT), then its entries of types 0 and 9 (ACPI 6.5, 5.2.5 to 5.2.12).  All
 * of it is firmware's, so nothing is believed: each structure is first reached
 * by its fixed part, then by the length that this says, and must sum to zero
 * before anything in it is used.  Every entry must lie inside its table.
 *
 * A tree of tables without a MADT is a machine with one CPU; a table that is
 * wrong is an error with a name, because to start fewer CPUs than there are
 * would make tests pass for nothing.  Fields are read byte by byte: tables
 * need no alignment.  Runs on the host too, where tests/unit/test_madt.c feeds
 * it; how physical memory is reached is the caller's.
 */
#include "q35/madt.h"

enum {
	/* The root pointer: of revision 0, and the whole one. */
	RSDP_BYTES_OLD = 20,
	RSDP_BYTES = 36,
	RSDP_REVISION = 15,
	RSDP_RSDT = 16,
	RSDP_LENGTH = 20,
	RSDP_XSDT = 24,
	/* What all other tables begin with. */
	HEADER_BYTES = 36,
	HEADER_LENGTH = 4,
	MADT_ENTRIES = 44,
	/* Entries: type, length, and what the two types of CPUs have. */
	ENTRY_HEADER = 2,
	ENTRY_LOCAL = 0,
	ENTRY_LOCAL_BYTES = 8,
	ENTRY_LOCAL_ID = 3,
	ENTRY_LOCAL_FLAGS = 4,
	ENTRY_LONG = 9,
	ENTRY_LONG_BYTES = 16,
	ENTRY_LONG_ID = 4,
	ENTRY_LONG_FLAGS = 8,
	ENTRY_ENABLED = 1,
	/* "All", so no CPU's. */
	ID_BROADCAST = 0xff,
};
#define ID_BROADCAST_LONG 0xffffffff

/* No table of a machine that can be meant is longer; a longer one would be
 * summed for seconds. */
#define TABLE_BYTES_MAX ((uint32_t)1 << 20)

/* How physical memory is reached. */
struct memory {
	board_madt_reach *reach;
	void *ctx;
};

/* A table that is whole: all its bytes can be read, and sum to zero. */
struct table {
	const uint8_t *bytes;
	uint32_t size;
};

/* Returns the little-endian number of n bytes. */
static uint64_t number(const uint8_t *at, unsigned n)
{
	uint64_t value = 0;

	while (n-- > 0)
		value = value << 8 | at[n];
	return value;
}

/* Whether the bytes sum to zero. */
static bool sums_to_zero(const uint8_t *at, uint32_t size)
{
	uint8_t sum = 0;

	while (size-- > 0)
		sum = (uint8_t)(sum + *at++);
	return sum == 0;
}

/* Whether the n bytes are those of the name. */
static bool named(const uint8_t *at, const char *name, unsigned n)
{
	while (n-- > 0)
		if (at[n] != (uint8_t)name[n])
			return false;
	return true;
}

/* Reaches a table by what its header says; returns what is wrong with it. */
static const char *table_reach(
	struct table *table, const struct memory *memory, uint64_t physical)
{
	table->bytes = memory->reach(memory->ctx, physical, HEADER_BYTES);
	if (table->bytes == NULL)
		return "an ACPI table is out of reach";
	table->size = (uint32_t)number(table->bytes + HEADER_LENGTH, 4);
	if (table->size < HEADER_BYTES || table->size > TABLE_BYTES_MAX)
		return "an ACPI table has an impossible length";
	table->bytes = memory->reach(memory->ctx, physical, table->size);
	if (table->bytes == NULL)
		return "an ACPI table is out of reach";
	if (!sums_to_zero(table->bytes, table->size))
		return "an ACPI table has a bad checksum";
	return NULL;
}

/* Reaches all of a root pointer that is longer than that of revision 0;
 * returns what is wrong with it. */
static const char *rsdp_whole(
	const uint8_t **at, const struct memory *memory, uint64_t rsdp)
{
	uint32_t size;

	*at = memory->reach(memory->ctx, rsdp, RSDP_BYTES);
	if (*at == NULL)
		return "ACPI's root pointer is out of reach";
	size = (uint32_t)number(*at + RSDP_LENGTH, 4);
	if (size < RSDP_BYTES || size > TABLE_BYTES_MAX)
		return "ACPI's root pointer has an impossible length";
	*at = memory->reach(memory->ctx, rsdp, size);
	if (*at == NULL)
		return "ACPI's root pointer is out of reach";
	if (!sums_to_zero(*at, size))
		return "ACPI's root pointer has a bad checksum";
	return NULL;
}

/* Finds the table of tables; *wide is whether its entries have 8 bytes. */
static const char *root_read(struct table *root, bool *wide,
	const struct memory *memory, uint64_t rsdp)
{
	const uint8_t *at = memory->reach(memory->ctx, rsdp, RSDP_BYTES_OLD);
	uint64_t physical;
	const char *wrong;

	if (at == NULL)
		return "ACPI's root pointer is out of reach";
	if (!named(at, "RSD PTR ", 8))
		return "ACPI's root pointer has no signature";
	if (!sums_to_zero(at, RSDP_BYTES_OLD))
		return "ACPI's root pointer has a bad checksum";
	physical = number(at + RSDP_RSDT, 4);
	*wide = false;
	if (at[RSDP_REVISION] >= 2) {
		wrong = rsdp_whole(&at, memory, rsdp);
		if (wrong != NULL)
			return wrong;
		*wide = number(at + RSDP_XSDT, 8) != 0;
		if (*wide)
			physical = number(at + RSDP_XSDT, 8);
	}
	wrong = table_reach(root, memory, physical);
	if (wrong == NULL && !named(root->bytes, *wide ? "XSDT" : "RSDT", 4))
		wrong = "ACPI's table of tables has no signature";
	return wrong;
}

/* Finds the MADT among the root's tables; its size is 0 if there is none. */
static const char *madt_find(struct table *madt, const struct table *root,
	bool wide, const struct memory *memory)
{
	uint32_t bytes = wide ? 8 : 4, at;

	madt->size = 0;
	if ((root->size - HEADER_BYTES) % bytes != 0)
		return "ACPI's table of tables ends within an entry";
	for (at = HEADER_BYTES; at < root->size; at += bytes) {
		uint64_t physical = number(root->bytes + at, bytes);
		const uint8_t *name = memory->reach(memory->ctx, physical, 4);

		if (name == NULL)
			return "an ACPI table is out of reach";
		if (named(name, "APIC", 4))
			return table_reach(madt, memory, physical);
	}
	return NULL;
}

/* Adds an id that is new, while there is room. */
static void id_add(struct board_madt *madt, uint32_t id)
{
	unsigned i;

	for (i = 0; i < madt->count; i++)
		if (madt->ids[i] == id)
			return;
	if (madt->count < BOARD_CPUS_MAX)
		madt->ids[madt->count++] = id;
}

/* Adds what one entry names, if that is a CPU; returns what is wrong. */
static const char *entry_read(
	struct board_madt *madt, const uint8_t *entry, bool *self_seen)
{
	uint32_t self = madt->ids[0], id;
	uint64_t flags;

	if (entry[0] == ENTRY_LOCAL) {
		if (entry[1] < ENTRY_LOCAL_BYTES)
			return "the MADT has a CPU whose entry is too short";
		id = entry[ENTRY_LOCAL_ID];
		flags = number(entry + ENTRY_LOCAL_FLAGS, 4);
		if (id == ID_BROADCAST)
			return NULL;
	} else if (entry[0] == ENTRY_LONG) {
		if (entry[1] < ENTRY_LONG_BYTES)
			return "the MADT has a CPU whose entry is too short";
		id = (uint32_t)number(entry + ENTRY_LONG_ID, 4);
		flags = number(entry + ENTRY_LONG_FLAGS, 4);
		if (id == ID_BROADCAST_LONG)
			return NULL;
	} else {
		return NULL;
	}
	if (!(flags & ENTRY_ENABLED))
		return NULL;
	*self_seen |= id == self;
	id_add(madt, id);
	return NULL;
}

/* Adds all CPUs of the MADT; returns what is wrong with it. */
static const char *entries_read(
	struct board_madt *madt, const struct table *table)
{
	uint32_t at = MADT_ENTRIES;
	bool self_seen = false;
	const char *wrong;

	if (table->size < MADT_ENTRIES)
		return "the MADT is too short";
	while (at < table->size) {
		const uint8_t *entry = table->bytes + at;

		if (table->size - at < ENTRY_HEADER ||
			entry[1] < ENTRY_HEADER || entry[1] > table->size - at)
			return "the MADT ends within an entry";
		wrong = entry_read(madt, entry, &self_seen);
		if (wrong != NULL)
			return wrong;
		at += entry[1];
	}
	return self_seen ? NULL : "the MADT does not list the running CPU";
}

const char *board_madt_read(struct board_madt *madt, uint64_t rsdp,
	uint32_t self, board_madt_reach *reach, void *ctx)
{
	struct memory memory = { reach, ctx };
	struct table root, table;
	const char *wrong;
	bool wide;

	*madt = (struct board_madt){ .ids = { self }, .count = 1 };
	if (rsdp == 0)
		return NULL;
	wrong = root_read(&root, &wide, &memory, rsdp);
	if (wrong == NULL)
		wrong = madt_find(&table, &root, wide, &memory);
	if (wrong == NULL && table.size > 0)
		wrong = entries_read(madt, &table);
	if (wrong != NULL)
		madt->count = 1;
	return wrong;
}
