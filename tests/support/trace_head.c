/* SPDX-License-Identifier: MIT */
/*
 * The header of a trace (tests/traces/FORMAT.md).
 *
 * Length and checksum find what happened to a file by accident; that the
 * counts are true is found by who reads the operations.
 */
#include "trace_head.h"

/* Raised when older readers would misread. */
#define VERSION 1

static bool fail(struct trace_error *error, const char *what)
{
	*error = (struct trace_error){what, UINT64_MAX, 0, 0};
	return false;
}

static bool fail_values(struct trace_error *error, const char *what,
	uint64_t seen, uint64_t expected)
{
	*error = (struct trace_error){what, UINT64_MAX, seen, expected};
	return false;
}

static uint64_t get(const uint8_t *at, unsigned bytes)
{
	uint64_t value = 0;

	while (bytes--)
		value = value << 8 | at[bytes];
	return value;
}

static void put(uint8_t *at, unsigned bytes, uint64_t value)
{
	for (unsigned i = 0; i < bytes; i++, value >>= 8)
		at[i] = (uint8_t)value;
}

/* CRC-32 as in IEEE 802.3, 3.2.9 (reflected, polynomial 0xedb88320), by half
 * bytes: a table of 16 is quick enough for a megabyte. */
static uint32_t checksum(const uint8_t *data, size_t size)
{
	static const uint32_t table[16] = {0x00000000, 0x1db71064, 0x3b6e20c8,
		0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
		0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0,
		0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
	uint32_t crc = ~0u;

	for (size_t i = 0; i < size; i++) {
		crc ^= data[i];
		crc = crc >> 4 ^ table[crc & 15];
		crc = crc >> 4 ^ table[crc & 15];
	}
	return ~crc;
}

enum field { /* offsets; FORMAT.md has the table */
	AT_MAGIC = 0,
	AT_VERSION = 8,
	AT_CHECKSUM = 12, /* of all bytes behind it */
	AT_BYTES = 16,
	AT_OPS = 24,
	AT_PEAK_LIVE = 32,
	AT_PEAK_OP = 40,
	AT_SLOTS = 48,
	AT_THREADS = 52,
	AT_NAME_LENGTH = 56,
	AT_COMMAND_LENGTH = 58,
};
_Static_assert(AT_COMMAND_LENGTH + 2 == TRACE_HEADER_BYTES,
	"the command's length is the last fixed field");

static const uint8_t magic[8] = {'f', 'l', 't', 'r', 'a', 'c', 'e', '\n'};

void test_trace_seal(void *data, size_t size)
{
	uint8_t *bytes = data;

	put(bytes + AT_CHECKSUM, 4,
		checksum(bytes + AT_BYTES, size - AT_BYTES));
}

/* Verifies what makes `data` a whole trace of this version. */
static bool envelope_valid(
	const uint8_t *data, size_t size, struct trace_error *error)
{
	uint64_t seen;

	for (size_t i = 0; i < size && i < sizeof(magic); i++)
		if (data[i] != magic[i])
			return fail(error, "not a trace");
	if (size < TRACE_HEADER_BYTES)
		return fail_values(error, "truncated inside the header", size,
			TRACE_HEADER_BYTES);
	seen = get(data + AT_VERSION, 4);
	if (seen != VERSION)
		return fail_values(error, "a version this reader does not know",
			seen, VERSION);
	seen = get(data + AT_BYTES, 8);
	if (seen > size)
		return fail_values(error, "truncated", size, seen);
	if (seen < size)
		return fail_values(
			error, "longer than its header says", size, seen);
	seen = checksum(data + AT_BYTES, size - AT_BYTES);
	if (seen != get(data + AT_CHECKSUM, 4))
		return fail_values(error,
			"checksum differs: the trace is damaged", seen,
			get(data + AT_CHECKSUM, 4));
	return true;
}

/* Copies a string of the header; returns whether all of it can be printed. */
static bool text_copy(char *to, const uint8_t *from, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		if (from[i] < ' ' || from[i] > '~')
			return false;
		to[i] = (char)from[i];
	}
	to[length] = '\0';
	return length > 0;
}

/* Verifies the counts of the header against each other and the limits. */
static bool counts_valid(
	const struct trace_info *info, struct trace_error *error)
{
	if (info->ops == 0)
		return fail(error, "no operations");
	if (info->slots == 0 || info->slots > TRACE_SLOTS_MAX ||
		info->slots > info->ops)
		return fail(error, "impossible number of slots");
	if (info->threads == 0 || info->threads > TRACE_THREADS_MAX ||
		info->threads > info->ops)
		return fail(error, "impossible number of threads");
	if (info->peak_live > TRACE_LIVE_MAX || info->peak_op >= info->ops)
		return fail(error, "impossible peak");
	return true;
}

bool test_trace_info(const void *data, size_t size, struct trace_info *info,
	struct trace_error *error)
{
	const uint8_t *bytes = data;
	size_t name, command;

	error->what = NULL;
	if (!envelope_valid(bytes, size, error))
		return false;
	name = get(bytes + AT_NAME_LENGTH, 2);
	command = get(bytes + AT_COMMAND_LENGTH, 2);
	if (name > TRACE_NAME_MAX || command > TRACE_COMMAND_MAX ||
		name + command > size - TRACE_HEADER_BYTES)
		return fail(error, "name or command too long");
	bytes += TRACE_HEADER_BYTES;
	if (!text_copy(info->name, bytes, name) ||
		!text_copy(info->command, bytes + name, command))
		return fail(error, "name or command empty or not printable");
	bytes = data;
	info->ops = get(bytes + AT_OPS, 8);
	info->peak_live = get(bytes + AT_PEAK_LIVE, 8);
	info->peak_op = get(bytes + AT_PEAK_OP, 8);
	info->slots = (uint32_t)get(bytes + AT_SLOTS, 4);
	info->threads = (uint32_t)get(bytes + AT_THREADS, 4);
	return counts_valid(info, error);
}

static size_t text_length(const char *text)
{
	size_t n = 0;

	while (text[n])
		n++;
	return n;
}

size_t test_trace_head_bytes(const struct trace_info *info)
{
	return TRACE_HEADER_BYTES + text_length(info->name) +
	       text_length(info->command);
}

void test_trace_head_write(
	uint8_t *data, size_t size, const struct trace_info *info)
{
	size_t name = text_length(info->name);
	size_t command = text_length(info->command);

	for (size_t i = 0; i < sizeof(magic); i++)
		data[AT_MAGIC + i] = magic[i];
	put(data + AT_VERSION, 4, VERSION);
	put(data + AT_BYTES, 8, size);
	put(data + AT_OPS, 8, info->ops);
	put(data + AT_PEAK_LIVE, 8, info->peak_live);
	put(data + AT_PEAK_OP, 8, info->peak_op);
	put(data + AT_SLOTS, 4, info->slots);
	put(data + AT_THREADS, 4, info->threads);
	put(data + AT_NAME_LENGTH, 2, name);
	put(data + AT_COMMAND_LENGTH, 2, command);
	for (size_t i = 0; i < name; i++)
		data[TRACE_HEADER_BYTES + i] = (uint8_t)info->name[i];
	for (size_t i = 0; i < command; i++)
		data[TRACE_HEADER_BYTES + name + i] = (uint8_t)info->command[i];
	test_trace_seal(data, size);
}
