/* SPDX-License-Identifier: MIT */
/*
 * The reader of ACPI's list of CPUs, on tables that a small writer makes: first
 * right ones, then each thing that can be wrong with one, then every
 * truncation and thousands of random changes.  What can be reached of physical
 * memory is one piece, copied to an allocation of exactly its size for each
 * read, so that the address sanitizer sees a read beyond what was asked for.
 */
#include <stdlib.h>
#include <string.h>

#include "q35/madt.h"
#include "test.h"

#define MEMORY_BYTES 4096
/* Where physical memory begins that can be reached, and what is in it. */
#define BASE 0x7ffe0000u
#define AT_RSDP 16
#define AT_ROOT 129
#define AT_OTHER 500
#define AT_MADT 1003

static uint8_t memory[MEMORY_BYTES];
static size_t memory_size = MEMORY_BYTES;
static size_t madt_size;
/* The copies that were handed out. */
static void *copies[1024];
static size_t copies_count;

static const void *reach(void *ctx, uint64_t physical, uint64_t size)
{
	void *copy;

	CHECK(ctx == memory);
	if (physical < BASE || physical - BASE > memory_size ||
		size > memory_size - (physical - BASE))
		return NULL;
	CHECK(copies_count < sizeof(copies) / sizeof(copies[0]));
	copy = malloc(size);
	memcpy(copy, memory + (physical - BASE), size);
	copies[copies_count++] = copy;
	return copy;
}

static void copies_free(void)
{
	while (copies_count > 0)
		free(copies[--copies_count]);
}

static void put(size_t at, uint64_t value, unsigned n)
{
	for (; n > 0; n--, at++, value >>= 8)
		memory[at] = (uint8_t)value;
}

/* Sets the byte at `sum` so that [at, at + size) sums to zero. */
static void sum_up(size_t at, size_t size, size_t sum)
{
	uint8_t total = 0;
	size_t i;

	memory[sum] = 0;
	for (i = 0; i < size; i++)
		total = (uint8_t)(total + memory[at + i]);
	memory[sum] = (uint8_t)-total;
}

/* Ends a table: its length and its checksum. */
static void table_end(size_t at, size_t size)
{
	put(at + 4, size, 4);
	sum_up(at, size, at + 9);
}

static void rsdp_end(bool wide)
{
	memcpy(memory + AT_RSDP, "RSD PTR ", 8);
	memory[AT_RSDP + 15] = wide ? 2 : 0;
	put(AT_RSDP + 16, wide ? 0 : BASE + AT_ROOT, 4);
	put(AT_RSDP + 20, wide ? 36 : 0, 4);
	put(AT_RSDP + 24, wide ? BASE + AT_ROOT : 0, 8);
	memory[AT_RSDP + 32] = 0;
	sum_up(AT_RSDP, 20, AT_RSDP + 8);
	if (wide)
		sum_up(AT_RSDP, 36, AT_RSDP + 32);
}

/* A CPU of type 0. */
static void local(uint8_t id, uint32_t flags)
{
	size_t at = AT_MADT + madt_size;

	put(at, 0 | 8 << 8, 2);
	memory[at + 2] = 7;
	memory[at + 3] = id;
	put(at + 4, flags, 4);
	madt_size += 8;
}

/* A CPU of type 9. */
static void local_long(uint32_t id, uint32_t flags)
{
	size_t at = AT_MADT + madt_size;

	put(at, 9 | 16 << 8, 2);
	put(at + 4, id, 4);
	put(at + 8, flags, 4);
	put(at + 12, 7, 4);
	madt_size += 16;
}

/* An entry of another type. */
static void other(uint8_t type, uint8_t size)
{
	size_t at = AT_MADT + madt_size;

	memset(memory + at, 0xff, size);
	put(at, type | (unsigned)size << 8, 2);
	madt_size += size;
}

static void begin(void)
{
	memset(memory, 0, sizeof(memory));
	memory_size = MEMORY_BYTES;
	memcpy(memory + AT_MADT, "APIC", 4);
	madt_size = 44;
}

/* The table of tables, two of them, the second the MADT. */
static void root_end(bool wide)
{
	unsigned bytes = wide ? 8 : 4;

	memcpy(memory + AT_OTHER, "FACP", 4);
	table_end(AT_OTHER, 36);
	memcpy(memory + AT_ROOT, wide ? "XSDT" : "RSDT", 4);
	put(AT_ROOT + 36, BASE + AT_OTHER, bytes);
	put(AT_ROOT + 36 + bytes, BASE + AT_MADT, bytes);
	table_end(AT_ROOT, 36 + 2 * bytes);
	rsdp_end(wide);
}

static void end(bool wide)
{
	table_end(AT_MADT, madt_size);
	root_end(wide);
}

/* Reads as the CPU with this id. */
static const char *read_as(struct board_madt *madt, uint32_t self)
{
	const char *wrong;

	memset(madt, 0xa5, sizeof(*madt));
	wrong = board_madt_read(madt, BASE + AT_RSDP, self, reach, memory);
	copies_free();
	/* Whatever is wrong, there is the CPU that asks. */
	CHECK(madt->count >= 1 && madt->count <= BOARD_CPUS_MAX);
	CHECK_EQUAL(madt->ids[0], self);
	if (wrong != NULL)
		CHECK_EQUAL(madt->count, 1);
	return wrong;
}

static void expect_wrong(const char *expected)
{
	struct board_madt madt;
	const char *wrong = read_as(&madt, 0);

	if (wrong == NULL || strcmp(wrong, expected) != 0) {
		test_printf("\n    said: %s", wrong);
		test_fail(__FILE__, __LINE__, expected);
	}
}

/* Four CPUs as QEMU writes them. */
static void four(bool wide)
{
	unsigned id;

	begin();
	for (id = 0; id < 4; id++)
		local((uint8_t)id, 1);
	other(1, 12);
	other(2, 10);
	other(4, 6);
	end(wide);
}

/* Through either table of tables. */
static void test_four_cpus(void)
{
	struct board_madt madt;
	unsigned wide, id;

	for (wide = 0; wide < 2; wide++) {
		four(wide != 0);
		CHECK(read_as(&madt, 0) == NULL);
		CHECK_EQUAL(madt.count, 4);
		for (id = 0; id < 4; id++)
			CHECK_EQUAL(madt.ids[id], id);
	}
}

/* The CPU that asks comes first, wherever it is listed. */
static void test_self_is_first(void)
{
	struct board_madt madt;

	four(true);
	CHECK(read_as(&madt, 2) == NULL);
	CHECK_EQUAL(madt.count, 4);
	CHECK_EQUAL(madt.ids[1], 0);
	CHECK_EQUAL(madt.ids[2], 1);
	CHECK_EQUAL(madt.ids[3], 3);
}

/* CPUs that are not enabled, that only may be some day, or that are nobody,
 * are left out; one that is listed twice is one. */
static void test_only_enabled(void)
{
	struct board_madt madt;

	begin();
	local(0, 1);
	local(1, 0);
	local(2, 2);
	local(0xff, 1);
	local_long(0xffffffff, 1);
	local_long(3, 0);
	local_long(0x1234, 1);
	local(5, 3);
	local(5, 1);
	local_long(5, 1);
	end(false);
	CHECK(read_as(&madt, 0) == NULL);
	CHECK_EQUAL(madt.count, 3);
	CHECK_EQUAL(madt.ids[1], 0x1234);
	CHECK_EQUAL(madt.ids[2], 5);
}

/* The further ones stay off, but all are looked at. */
static void test_too_many(void)
{
	struct board_madt madt;
	unsigned id;

	begin();
	for (id = 0; id < 20; id++)
		local((uint8_t)id, 1);
	end(true);
	CHECK(read_as(&madt, 19) == NULL);
	CHECK_EQUAL(madt.count, BOARD_CPUS_MAX);
	CHECK_EQUAL(madt.ids[BOARD_CPUS_MAX - 1], BOARD_CPUS_MAX - 2);
}

/* No tables at all, or none of CPUs: one CPU. */
static void test_without_tables(void)
{
	struct board_madt madt;

	CHECK(board_madt_read(&madt, 0, 9, reach, memory) == NULL);
	CHECK_EQUAL(madt.count, 1);
	CHECK_EQUAL(madt.ids[0], 9);
	four(true);
	memcpy(memory + AT_MADT, "CIPA", 4);
	CHECK(read_as(&madt, 0) == NULL);
	CHECK_EQUAL(madt.count, 1);
}

/* A root pointer of revision 2 whose XSDT is 0 has an RSDT. */
static void test_old_root_of_new_pointer(void)
{
	struct board_madt madt;

	four(false);
	memory[AT_RSDP + 15] = 2;
	put(AT_RSDP + 20, 36, 4);
	sum_up(AT_RSDP, 20, AT_RSDP + 8);
	sum_up(AT_RSDP, 36, AT_RSDP + 32);
	CHECK(read_as(&madt, 0) == NULL);
	CHECK_EQUAL(madt.count, 4);
}

static void test_wrong_pointer(void)
{
	four(true);
	memory[AT_RSDP] ^= 1;
	expect_wrong("ACPI's root pointer has no signature");
	four(true);
	memory[AT_RSDP + 10] ^= 1;
	expect_wrong("ACPI's root pointer has a bad checksum");
	four(true);
	memory[AT_RSDP + 33] ^= 1;
	expect_wrong("ACPI's root pointer has a bad checksum");
	four(true);
	put(AT_RSDP + 20, 35, 4);
	sum_up(AT_RSDP, 36, AT_RSDP + 32);
	expect_wrong("ACPI's root pointer has an impossible length");
	put(AT_RSDP + 20, 0x80000000, 4);
	expect_wrong("ACPI's root pointer has an impossible length");
	put(AT_RSDP + 20, MEMORY_BYTES, 4);
	expect_wrong("ACPI's root pointer is out of reach");
	four(true);
	memory_size = AT_RSDP + 19;
	expect_wrong("ACPI's root pointer is out of reach");
	memory_size = AT_RSDP + 35;
	expect_wrong("ACPI's root pointer is out of reach");
}

static void test_wrong_root(void)
{
	four(true);
	memcpy(memory + AT_ROOT, "RSDT", 4);
	table_end(AT_ROOT, 36 + 16);
	expect_wrong("ACPI's table of tables has no signature");
	four(true);
	memory[AT_ROOT + 20] ^= 1;
	expect_wrong("an ACPI table has a bad checksum");
	four(true);
	table_end(AT_ROOT, 36 + 12);
	expect_wrong("ACPI's table of tables ends within an entry");
	four(true);
	put(AT_ROOT + 36, BASE - 4, 8);
	table_end(AT_ROOT, 36 + 16);
	expect_wrong("an ACPI table is out of reach");
	four(true);
	put(AT_ROOT + 36, UINT64_MAX - 1, 8);
	table_end(AT_ROOT, 36 + 16);
	expect_wrong("an ACPI table is out of reach");
	four(true);
	put(AT_ROOT + 4, 35, 4);
	expect_wrong("an ACPI table has an impossible length");
	put(AT_ROOT + 4, 0xffffffff, 4);
	expect_wrong("an ACPI table has an impossible length");
	put(AT_ROOT + 4, MEMORY_BYTES, 4);
	expect_wrong("an ACPI table is out of reach");
}

static void test_wrong_madt(void)
{
	four(true);
	memory[AT_MADT + 46] ^= 1;
	expect_wrong("an ACPI table has a bad checksum");
	four(true);
	table_end(AT_MADT, 43);
	expect_wrong("the MADT is too short");
	four(true);
	table_end(AT_MADT, 44);
	expect_wrong("the MADT does not list the running CPU");
	begin();
	local(0, 0);
	local(1, 1);
	end(true);
	expect_wrong("the MADT does not list the running CPU");
}

static void test_wrong_entries(void)
{
	static const char within[] = "the MADT ends within an entry";
	static const char brief[] =
		"the MADT has a CPU whose entry is too short";
	size_t size;

	/* Each truncation of the last entry, the length made to agree. */
	for (size = 1; size < 16; size++) {
		begin();
		local(0, 1);
		local_long(1, 1);
		table_end(AT_MADT, madt_size - size);
		root_end(true);
		expect_wrong(within);
	}
	begin();
	local(0, 1);
	other(1, 12);
	memory[AT_MADT + madt_size - 11] = 0;
	end(true);
	expect_wrong(within);
	memory[AT_MADT + madt_size - 11] = 1;
	end(true);
	expect_wrong(within);
	begin();
	local(0, 1);
	other(0, 7);
	end(true);
	expect_wrong(brief);
	begin();
	local(0, 1);
	other(9, 15);
	end(true);
	expect_wrong(brief);
}

/* Whatever memory ends at, nothing beyond it is read. */
static void test_truncated_memory(void)
{
	struct board_madt madt;
	size_t whole;

	four(true);
	whole = AT_MADT + madt_size;
	for (memory_size = 0; memory_size < whole; memory_size++)
		CHECK(read_as(&madt, 0) != NULL);
	CHECK(read_as(&madt, 0) == NULL);
	CHECK_EQUAL(madt.count, 4);
}

/* Random changes, with checksums mended so that they are not all that is
 * found: nothing is read that was not asked for, and there is an end. */
static void test_random_changes(void)
{
	uint64_t state = test_seed;
	struct board_madt madt;
	unsigned round, i, wrong = 0;

	for (round = 0; round < 20000; round++) {
		bool wide = round & 1;

		four(wide);
		for (i = 0; i < 1 + round % 4; i++)
			memory[AT_MADT + 44 + test_random(&state) % 60] =
				(uint8_t)test_random(&state);
		sum_up(AT_MADT, madt_size, AT_MADT + 9);
		if (round % 3 == 0) {
			memory[AT_ROOT + test_random(&state) % 52] =
				(uint8_t)test_random(&state);
			sum_up(AT_ROOT, wide ? 52 : 44, AT_ROOT + 9);
		}
		if (round % 7 == 0)
			memory[AT_RSDP + test_random(&state) % 36] =
				(uint8_t)test_random(&state);
		wrong += read_as(&madt, 0) != NULL;
	}
	CHECK(wrong > 1000);
	CHECK(wrong < 20000);
}

const struct test tests[] = {
	{ "four_cpus", test_four_cpus },
	{ "self_is_first", test_self_is_first },
	{ "only_enabled", test_only_enabled },
	{ "too_many", test_too_many },
	{ "without_tables", test_without_tables },
	{ "old_root_of_new_pointer", test_old_root_of_new_pointer },
	{ "wrong_pointer", test_wrong_pointer },
	{ "wrong_root", test_wrong_root },
	{ "wrong_madt", test_wrong_madt },
	{ "wrong_entries", test_wrong_entries },
	{ "truncated_memory", test_truncated_memory },
	{ "random_changes", test_random_changes },
	{ NULL, NULL },
};
