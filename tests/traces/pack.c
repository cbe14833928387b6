/* SPDX-License-Identifier: MIT */
/*
 * Makes a trace (FORMAT.md) of a raw log of the recorder:
 *
 *   pack RAW TRACE NAME COMMAND [MAX_OPS]
 *
 * Addresses become slots by a hash table of live blocks.  What the recorder
 * cannot have seen whole is left out: a free or realloc of an unknown address
 * (it was older than the recorder) is dropped, or becomes an allocation.
 * With MAX_OPS the trace ends after so many operations, as if the program had
 * been stopped there.  COMMAND goes into the header as it is given: write it
 * without paths of one machine.
 *
 * Three passes: find how many slots, write, and read what was written, which
 * must be the same.
 */
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "recorder.h"
#include "trace.h"

struct entry {
	uint64_t address; /* 0: none, never was one */
	uint32_t slot;
};

/* Open addressing, linear; entries move back on removal, so no tombstones. */
struct table {
	struct entry *entries;
	size_t mask;
};

static void die(const char *format, ...)
	__attribute__((noreturn, format(printf, 1, 2)));

static void die(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fputs("pack: ", stderr);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	va_end(arguments);
	exit(1);
}

static size_t home(const struct table *table, uint64_t address)
{
	return (address >> 4) * 0x9e3779b97f4a7c15u >> 20 & table->mask;
}

/* Returns the address's entry, or the empty one where it belongs. */
static struct entry *find(const struct table *table, uint64_t address)
{
	size_t i = home(table, address);

	while (table->entries[i].address &&
		table->entries[i].address != address)
		i = (i + 1) & table->mask;
	return &table->entries[i];
}

/* Empties an entry and moves back those that only stand behind it because
 * it was taken. */
static void drop(struct table *table, struct entry *entry)
{
	size_t hole = (size_t)(entry - table->entries), i = hole;

	for (;;) {
		struct entry *e;

		i = (i + 1) & table->mask;
		e = &table->entries[i];
		if (!e->address)
			break;
		if (((i - home(table, e->address)) & table->mask) <
			((i - hole) & table->mask))
			continue;
		table->entries[hole] = *e;
		hole = i;
	}
	table->entries[hole].address = 0;
}

static unsigned log2_of(uint64_t align)
{
	return align > 1 ? 63 - (unsigned)__builtin_clzll(align) : 0;
}

/*
 * Turns a record into an operation, all but the slot of a new block.
 * Returns: false iff it is to be left out.  *entry is the block's place in the
 * table: what is to be given its slot, or to be dropped.
 */
static bool convert(struct table *table, const struct raw *raw,
	struct trace_op *op, struct entry **entry)
{
	static const enum trace_kind kinds[] = {[RAW_ALLOC] = TRACE_ALLOC,
		[RAW_ZALLOC] = TRACE_ZALLOC,
		[RAW_ALIGNED] = TRACE_ALIGNED,
		[RAW_REALLOC] = TRACE_REALLOC,
		[RAW_FREE] = TRACE_FREE};
	bool known;

	if (raw->kind < RAW_ALLOC || raw->kind > RAW_FREE)
		die("not a raw log: kind %u", raw->kind);
	*op = (struct trace_op){.kind = kinds[raw->kind],
		.size = raw->size,
		.thread = raw->thread};
	*entry = find(table, raw->address);
	known = (*entry)->address != 0;
	if (raw->kind == RAW_ALIGNED)
		op->align_log2 = log2_of(raw->result);
	if (raw->kind == RAW_REALLOC && !known) {
		op->kind = TRACE_ALLOC;
		*entry = find(table, raw->result);
		known = (*entry)->address != 0;
	}
	if (op->kind == TRACE_REALLOC || op->kind == TRACE_FREE) {
		op->slot = (*entry)->slot;
		return known;
	}
	if (known)
		die("a block that is live was allocated again");
	return true;
}

/* One pass over the log; returns how many operations it made.  trace NULL:
 * only counts the slots and threads that are needed, into *info. */
static uint64_t pass(const struct raw *raw, size_t n, uint64_t max,
	struct table *table, struct trace *trace, struct trace_info *info)
{
	uint64_t ops = 0;
	uint32_t live = 0;

	memset(table->entries, 0, (table->mask + 1) * sizeof(struct entry));
	for (; n && raw->kind != RAW_END && ops < max; raw++, n--) {
		struct trace_error error;
		struct entry *entry;
		struct trace_op op;
		uint64_t address = raw->address;

		if (!convert(table, raw, &op, &entry))
			continue;
		if (trace && !test_trace_put(trace, &op, &error))
			die("operation %llu: %s", (unsigned long long)ops,
				error.what);
		ops++;
		if (op.thread >= info->threads)
			info->threads = op.thread + 1;
		if (op.kind == TRACE_FREE || op.kind == TRACE_REALLOC) {
			drop(table, entry);
			live--;
		}
		if (op.kind == TRACE_FREE)
			continue;
		if (raw->kind == RAW_REALLOC)
			address = raw->result;
		*find(table, address) = (struct entry){address, op.slot};
		if (++live > info->slots)
			info->slots = live;
	}
	return ops;
}

/* Reads the trace to its end, or says what is wrong with it. */
static void verify(const void *data, size_t size, void *memory, uint64_t ops)
{
	struct trace_error error;
	struct trace *trace = test_trace_open(data, size, memory, &error);
	struct trace_op op;

	while (trace && test_trace_next(trace, &op, &error))
		ops--;
	if (error.what || ops)
		die("cannot read what was written: %s",
			error.what ? error.what : "operations are missing");
}

static const void *map(const char *path, size_t *size)
{
	struct stat st;
	int file = open(path, O_RDONLY);
	const void *data;

	if (file < 0 || fstat(file, &st) || st.st_size == 0)
		die("%s: cannot be read, or is empty", path);
	data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, file, 0);
	if (data == MAP_FAILED)
		die("%s: cannot be mapped", path);
	*size = (size_t)st.st_size;
	return data;
}

static void *need(size_t size)
{
	void *p = calloc(1, size);

	if (!p)
		die("no memory");
	return p;
}

static void save(const char *path, const void *data, size_t size)
{
	FILE *file = fopen(path, "wb");

	if (!file || fwrite(data, 1, size, file) != size || fclose(file))
		die("%s: cannot be written", path);
}

/* One line about the trace, as its header has it. */
static void report(const void *data, size_t size)
{
	struct trace_error error;
	struct trace_info info;

	if (!test_trace_info(data, size, &info, &error))
		die("cannot read what was written: %s", error.what);
	printf("%s: %llu operations, peak %llu bytes in up to %u blocks, "
	       "%u threads: %zu bytes\n",
		info.name, (unsigned long long)info.ops,
		(unsigned long long)info.peak_live, info.slots, info.threads,
		size);
}

int main(int argc, char **argv)
{
	struct trace_info info = {0};
	struct table table = {0};
	size_t bytes, n, capacity;
	const struct raw *raw;
	uint64_t max, ops;
	void *data, *memory;
	struct trace *trace;

	if (argc < 5 || argc > 6)
		die("usage: pack RAW TRACE NAME COMMAND [MAX_OPS]");
	if (strlen(argv[3]) > TRACE_NAME_MAX ||
		strlen(argv[4]) > TRACE_COMMAND_MAX)
		die("name or command too long");
	strcpy(info.name, argv[3]);
	strcpy(info.command, argv[4]);
	max = argc == 6 ? strtoull(argv[5], NULL, 0) : UINT64_MAX;
	raw = map(argv[1], &bytes);
	n = bytes / sizeof(*raw);
	for (table.mask = 1; table.mask < 2 * n; table.mask *= 2)
		;
	table.entries = need(table.mask * sizeof(struct entry));
	table.mask--;
	ops = pass(raw, n, max, &table, NULL, &info);
	if (!ops)
		die("%s: no operations", argv[1]);
	/* An operation is at most a few numbers of 9 bytes. */
	capacity = 4096 + ops * 48;
	data = need(capacity);
	memory = need(test_trace_memory(info.slots));
	trace = test_trace_create(&info, data, capacity, memory);
	pass(raw, n, max, &table, trace, &info);
	bytes = test_trace_finish(trace);
	if (!bytes)
		die("the trace does not fit its buffer");
	verify(data, bytes, memory, ops);
	save(argv[2], data, bytes);
	report(data, bytes);
	return 0;
}
