/* SPDX-License-Identifier: MIT */
/*
 * Traces: what is written is read; what is truncated, forged or damaged is
 * refused by its name; and a replay sees when a heap does wrong.
 *
 * A forged operation is made with the writer itself: it puts an operation it
 * refuses into the data before it says so, and the header is then made to
 * count it.  So each such trace is whole but for that one lie.
 */
#include <stdlib.h>
#include <string.h>

#include <fallow/fallow.h>
#include <fallow/flat.h>

#include "config.h"
#include "replay.h"
#include "test.h"
#include "trace.h"

#define SLOTS 64
#define DATA_BYTES 65536
#define OPS 2000

/* Offsets of the header, as FORMAT.md has them. */
#define AT_VERSION 8
#define AT_BYTES 16
#define AT_OPS 24
#define AT_PEAK_LIVE 32
#define AT_PEAK_OP 40
#define AT_SLOTS 48
#define AT_THREADS 52
#define AT_NAME_LENGTH 56
#define AT_COMMAND_LENGTH 58

static unsigned char data[DATA_BYTES];
static struct trace_op ops[OPS];

/* Which slots are live, and how many. */
struct book {
	bool live[SLOTS];
	unsigned count;
};

static const struct trace_info info_of_test = {
	.slots = SLOTS,
	.threads = 3,
	.name = "test",
	.command = "test -x",
};

/* Exactly as much as is needed, so that the sanitizer sees one more byte. */
static void *memory_make(uint32_t slots)
{
	void *memory = malloc(test_trace_memory(slots));

	if (!memory)
		abort();
	return memory;
}

/* A size as programs have them: often the same, rarely huge. */
static uint64_t size_random(uint64_t *random)
{
	uint64_t r = test_random(random);

	if (r % 4 == 0)
		return r / 4 % 8 * 24;
	if (r % 64 == 1)
		return (r >> 8) & (TRACE_SIZE_MAX / 4096 - 1);
	return (r >> 8) % 700;
}

static struct trace_op op_random(uint64_t *random, const struct book *book)
{
	uint64_t r = test_random(random);
	struct trace_op op = {.thread = (uint32_t)(r % 16 ? 0 : r / 16 % 3)};

	op.kind = (enum trace_kind)(r >> 16) % TRACE_KINDS;
	if (op.kind < TRACE_REALLOC && book->count == SLOTS)
		op.kind = TRACE_FREE;
	if (op.kind >= TRACE_REALLOC && book->count == 0)
		op.kind = TRACE_ZALLOC;
	op.size = size_random(random);
	if (op.kind == TRACE_ALIGNED)
		op.align_log2 = (r >> 40) % (TRACE_ALIGN_LOG2_MAX + 1);
	if (op.kind >= TRACE_REALLOC)
		do
			op.slot = (uint32_t)(test_random(random) % SLOTS);
		while (!book->live[op.slot]);
	return op;
}

/* Writes n random operations, remembered in ops; returns the trace's size. */
static size_t trace_write(uint64_t seed, size_t n)
{
	void *memory = memory_make(SLOTS);
	struct trace *trace =
		test_trace_create(&info_of_test, data, sizeof(data), memory);
	struct book book = {.count = 0};
	struct trace_error error;
	size_t size;

	/* All slots at once first: a header must not claim more. */
	for (size_t i = 0; i < n; i++) {
		ops[i] = i < SLOTS ? (struct trace_op){.size = i}
				   : op_random(&seed, &book);
		if (i < 3)
			ops[i].thread = (uint32_t)i;
		CHECK(test_trace_put(trace, &ops[i], &error));
		if (ops[i].kind == TRACE_REALLOC)
			continue;
		book.live[ops[i].slot] = ops[i].kind != TRACE_FREE;
		book.count += ops[i].kind == TRACE_FREE ? -1u : 1;
	}
	size = test_trace_finish(trace);
	free(memory);
	return size;
}

/* Reads a trace from memory of its own size; returns why it was refused, or
 * NULL.  *n is how many operations were read. */
static const char *trace_read(const void *bytes, size_t size, size_t *n)
{
	unsigned char *copy = malloc(size ? size : 1);
	struct trace_error error;
	struct trace_info info;
	struct trace *trace;
	struct trace_op op;
	void *memory;

	*n = 0;
	if (!copy)
		abort();
	memcpy(copy, bytes, size);
	if (!test_trace_info(copy, size, &info, &error)) {
		free(copy);
		return error.what;
	}
	if (info.slots > 1u << 20) {
		free(copy);
		return "many slots";
	}
	memory = memory_make(info.slots);
	trace = test_trace_open(copy, size, memory, &error);
	while (trace && test_trace_next(trace, &op, &error))
		++*n;
	free(memory);
	free(copy);
	return error.what;
}

/* Checks that a trace is refused with just these words. */
static void refused_check(size_t size, const char *expected)
{
	size_t n;
	const char *seen = trace_read(data, size, &n);

	if (!seen || strcmp(seen, expected)) {
		test_printf("\n    expected: %s\n    seen: %s", expected, seen);
		test_fail(__FILE__, __LINE__, expected);
	}
}

static void field_put(size_t at, unsigned bytes, uint64_t value)
{
	for (; bytes--; value >>= 8)
		data[at++] = (unsigned char)value;
}

static bool op_equal(const struct trace_op *a, const struct trace_op *b)
{
	return a->kind == b->kind && a->slot == b->slot && a->size == b->size &&
	       a->old_size == b->old_size && a->align_log2 == b->align_log2 &&
	       a->thread == b->thread;
}

static void test_trace_reads_what_was_written(void)
{
	for (unsigned round = 0; round < 20; round++) {
		size_t size = trace_write(test_seed + round, OPS), n = 0;
		void *memory = memory_make(SLOTS);
		struct trace_error error;
		struct trace *trace =
			test_trace_open(data, size, memory, &error);
		struct trace_op op;

		CHECK(size > 0);
		while (trace && test_trace_next(trace, &op, &error)) {
			CHECK(op_equal(&op, &ops[n]));
			n++;
		}
		CHECK(error.what == NULL);
		CHECK_EQUAL(n, OPS);
		free(memory);
	}
}

static void test_trace_header_is_kept(void)
{
	struct trace_info info = {0};
	struct trace_error error;
	size_t size = trace_write(test_seed, SLOTS);

	CHECK(test_trace_info(data, size, &info, &error));
	CHECK(!strcmp(info.name, "test"));
	CHECK(!strcmp(info.command, "test -x"));
	CHECK_EQUAL(info.ops, SLOTS);
	CHECK_EQUAL(info.slots, SLOTS);
	CHECK_EQUAL(info.threads, 3);
	/* Block i has i bytes, and none is freed. */
	CHECK_EQUAL(info.peak_live, SLOTS * (SLOTS - 1) / 2);
	CHECK_EQUAL(info.peak_op, SLOTS - 1);
}

static void test_trace_truncated_at_every_byte(void)
{
	size_t size = trace_write(test_seed, 300);

	for (size_t cut = 0; cut < size; cut++)
		refused_check(cut, cut < TRACE_HEADER_BYTES
					   ? "truncated inside the header"
					   : "truncated");
}

/* As above, with a header that agrees: the operations must notice. */
static void test_trace_truncated_and_sealed(void)
{
	size_t size = trace_write(test_seed, 300), n;
	size_t begin = TRACE_HEADER_BYTES + strlen("test") + strlen("test -x");

	for (size_t cut = TRACE_HEADER_BYTES; cut < size; cut++) {
		const char *seen;

		field_put(AT_BYTES, 8, cut);
		test_trace_seal(data, cut);
		if (cut < begin) {
			refused_check(cut, "name or command too long");
			continue;
		}
		seen = trace_read(data, cut, &n);
		CHECK(seen != NULL);
		CHECK(n < 300);
	}
	/* The last byte alone is missed by its name. */
	refused_check(size - 1, "the data ends before the last operation");
}

static void test_trace_forged_header(void)
{
	static const struct {
		size_t at;
		unsigned bytes;
		uint64_t value;
		const char *what;
	} forgeries[] = {
		{0, 1, 'F', "not a trace"},
		{7, 1, '\r', "not a trace"},
		{AT_VERSION, 4, 0, "a version this reader does not know"},
		{AT_VERSION, 4, 2, "a version this reader does not know"},
		{AT_BYTES, 8, UINT64_MAX, "truncated"},
		{AT_BYTES, 8, 60, "longer than its header says"},
		{AT_OPS, 8, 0, "no operations"},
		{AT_OPS, 8, UINT64_MAX,
			"the data ends before the last operation"},
		{AT_OPS, 8, 999, "bytes left behind the last operation"},
		{AT_SLOTS, 4, 0, "impossible number of slots"},
		{AT_SLOTS, 4, UINT32_MAX, "impossible number of slots"},
		{AT_SLOTS, 4, 1001, "impossible number of slots"},
		{AT_SLOTS, 4, SLOTS + 1, "fewer slots than the header says"},
		{AT_SLOTS, 4, SLOTS - 1,
			"more blocks than the header has slots"},
		{AT_THREADS, 4, 0, "impossible number of threads"},
		{AT_THREADS, 4, UINT32_MAX, "impossible number of threads"},
		{AT_THREADS, 4, 2, "no such thread"},
		{AT_PEAK_LIVE, 8, UINT64_MAX, "impossible peak"},
		{AT_PEAK_LIVE, 8, 1,
			"more bytes are live than the header's peak"},
		{AT_PEAK_LIVE, 8, (uint64_t)1 << 40,
			"the peak is not what the header says"},
		{AT_PEAK_OP, 8, 1000, "impossible peak"},
		{AT_PEAK_OP, 8, 0, "the peak is not where the header says"},
		{AT_NAME_LENGTH, 2, TRACE_NAME_MAX + 1,
			"name or command too long"},
		{AT_NAME_LENGTH, 2, 0,
			"name or command empty or not printable"},
		{AT_COMMAND_LENGTH, 2, UINT16_MAX, "name or command too long"},
		{TRACE_HEADER_BYTES, 1, '\n',
			"name or command empty or not printable"},
		{TRACE_HEADER_BYTES + 4, 1, 0x80,
			"name or command empty or not printable"},
		{TRACE_HEADER_BYTES + 11, 1, 1,
			"the operations do not begin with 0"},
	};

	for (size_t i = 0; i < sizeof(forgeries) / sizeof(*forgeries); i++) {
		size_t size = trace_write(test_seed, 1000);

		field_put(forgeries[i].at, forgeries[i].bytes,
			forgeries[i].value);
		test_trace_seal(data, size);
		refused_check(size, forgeries[i].what);
	}
}

static void test_trace_damaged(void)
{
	size_t size = trace_write(test_seed, 1000);

	for (size_t at = AT_OPS; at < size; at++) {
		data[at] ^= 0x10;
		refused_check(size, "checksum differs: the trace is damaged");
		data[at] ^= 0x10;
	}
	data[12] ^= 1;
	refused_check(size, "checksum differs: the trace is damaged");
}

/* Writes blocks 0 and 1, frees 0, and then the forged operation. */
static size_t forgery_write(struct trace_op op, uint32_t slots)
{
	struct trace_info info = info_of_test;
	struct trace_op good[3] = {
		{.size = 100},
		{.size = 200},
		{.kind = TRACE_FREE},
	};
	struct trace_error error;
	struct trace *trace;
	void *memory = memory_make(slots);
	size_t size;

	info.slots = slots;
	trace = test_trace_create(&info, data, sizeof(data), memory);
	for (unsigned i = 0; i < 3; i++)
		CHECK(test_trace_put(trace, &good[i], &error));
	CHECK(!test_trace_put(trace, &op, &error));
	CHECK(error.what != NULL);
	size = test_trace_finish(trace);
	free(memory);
	field_put(AT_OPS, 8, 4);
	test_trace_seal(data, size);
	return size;
}

static void test_trace_forged_operation(void)
{
	static const struct {
		struct trace_op op;
		const char *what;
	} forgeries[] = {
		{{.kind = TRACE_FREE}, "free of a slot that is free"},
		{{.kind = TRACE_FREE, .slot = 2},
			"free of a slot that is free"},
		{{.kind = TRACE_FREE, .slot = UINT32_MAX},
			"free of a slot that is free"},
		{{.kind = TRACE_REALLOC, .size = 5},
			"realloc of a slot that is free"},
		{{.kind = TRACE_KINDS}, "no such kind of operation"},
		{{.kind = (enum trace_kind)7}, "no such kind of operation"},
		{{.size = TRACE_SIZE_MAX + 1}, "size beyond the limit"},
		{{.size = (uint64_t)1 << 61}, "size beyond the limit"},
		{{.kind = TRACE_REALLOC, .slot = 1, .size = TRACE_SIZE_MAX + 1},
			"size beyond the limit"},
		{{.kind = TRACE_ALIGNED, .align_log2 = 31},
			"alignment beyond the limit"},
		{{.kind = TRACE_ALIGNED, .align_log2 = 200},
			"alignment beyond the limit"},
		{{.thread = 3}, "no such thread"},
		{{.thread = UINT32_MAX}, "no such thread"},
	};

	for (size_t i = 0; i < sizeof(forgeries) / sizeof(*forgeries); i++)
		refused_check(
			forgery_write(forgeries[i].op, 3), forgeries[i].what);
}

/* The sum of sizes that are legal alone. */
static void test_trace_live_limit(void)
{
	size_t n = TRACE_LIVE_MAX / TRACE_SIZE_MAX;
	struct trace_op op = {.size = TRACE_SIZE_MAX};
	void *memory = memory_make(SLOTS + 1);
	struct trace_info info = info_of_test;
	struct trace_error error;
	struct trace *trace;
	size_t size;

	info.slots = (uint32_t)n + 1;
	info.threads = 1;
	trace = test_trace_create(&info, data, sizeof(data), memory);
	for (size_t i = 0; i < n; i++)
		CHECK(test_trace_put(trace, &op, &error));
	CHECK(!test_trace_put(trace, &op, &error));
	size = test_trace_finish(trace);
	free(memory);
	field_put(AT_OPS, 8, n + 1);
	field_put(AT_PEAK_LIVE, 8, TRACE_LIVE_MAX);
	test_trace_seal(data, size);
	refused_check(size, "live bytes beyond the limit");
}
_Static_assert(TRACE_LIVE_MAX / TRACE_SIZE_MAX == SLOTS,
	"test_trace_live_limit() has memory for so many slots");

/* Damage that the checksum does not show: it must never crash, and what is
 * accepted must still be a trace. */
static void test_trace_flipped_and_sealed(void)
{
	uint64_t random = test_seed;
	unsigned refused = 0;

	for (unsigned round = 0; round < 1000; round++) {
		size_t size = trace_write(test_seed + round % 7, 500), n;
		unsigned flips = 1 + (unsigned)(test_random(&random) % 3);

		while (flips--) {
			uint64_t r = test_random(&random);

			data[r % size] ^= (unsigned char)(1 << (r >> 32) % 8);
		}
		test_trace_seal(data, size);
		refused += trace_read(data, size, &n) != NULL;
	}
	/* A flip in a size that is no guess changes just that size. */
	CHECK(refused > 960);
}

/* ---- the replay ---- */

#define HEAP_BYTES ((size_t)16 << 20)
#define REPLAY_OPS 4000

static struct fallow heap;
static unsigned char *region;
/* What the counter does to the heap, besides counting. */
static void (*sabotage)(void);

static uint64_t ticks(void)
{
	static uint64_t now;

	if (sabotage)
		sabotage();
	return ++now;
}

/* Makes the heap over `size` bytes, of class flat. */
static bool heap_begin(size_t size)
{
	struct fallow_config config = {.size = sizeof(config),
		.provider = &fallow_flat,
		.contexts = 1};

	region = aligned_alloc((size_t)1 << 21, HEAP_BYTES);
	if (!region)
		abort();
	memset(region, 0xa5, HEAP_BYTES);
	config.window_base = (uintptr_t)region;
	config.window_size = HEAP_BYTES;
	return fallow_init(&heap, &config) == FALLOW_OK &&
	       fallow_add_region(&heap, (uintptr_t)region, size) == FALLOW_OK;
}

/* Writes a trace of a program: small blocks, some growing, a few large. */
static size_t program_write(uint64_t seed)
{
	void *memory = memory_make(SLOTS);
	struct trace *trace =
		test_trace_create(&info_of_test, data, sizeof(data), memory);
	struct book book = {.count = 0};
	struct trace_error error;
	size_t size;

	for (size_t i = 0; i < REPLAY_OPS; i++) {
		struct trace_op op = op_random(&seed, &book);

		if (i < SLOTS)
			op = (struct trace_op){
				.size = i, .thread = i == 1 ? 2 : 0};
		op.size = op.size > 100000 ? 100000 : op.size;
		op.align_log2 %= 13;
		CHECK(test_trace_put(trace, &op, &error));
		if (op.kind == TRACE_REALLOC)
			continue;
		book.live[op.slot] = op.kind != TRACE_FREE;
		book.count += op.kind == TRACE_FREE ? -1u : 1;
	}
	size = test_trace_finish(trace);
	free(memory);
	return size;
}

/* Replays such a trace on a heap of `size` bytes, with `short_by` bytes less
 * of bookkeeping than needed; returns the first fault. */
static const char *replay(size_t size, size_t short_by, uint64_t *done)
{
	struct replay_config config = {.heap = &heap,
		.trace = data,
		.trace_size = program_write(test_seed),
		.ticks = ticks,
		.ticks_unit = "calls",
		.quiet = true};
	struct replay_result result;
	struct trace_error error;
	struct trace_info info;

	if (!test_trace_info(data, config.trace_size, &info, &error))
		return error.what;
	config.memory_size = test_replay_memory(&info) - short_by;
	config.memory = malloc(config.memory_size);
	if (!heap_begin(size))
		return "no heap";
	CHECK_EQUAL(test_replay(&config, &result), result.faults == 0);
	CHECK_EQUAL(result.first_fault == NULL, result.faults == 0);
	*done = result.ops;
	sabotage = NULL;
	fallow_fini(&heap);
	free(config.memory);
	free(region);
	return result.first_fault;
}

static void test_replay_without_fault(void)
{
	uint64_t done;
	const char *fault = replay(HEAP_BYTES, 0, &done);

	if (fault)
		test_printf("\n    fault: %s", fault);
	CHECK(!fault);
	CHECK_EQUAL(done, REPLAY_OPS);
}

static bool block_spoil(void *arg, const struct fallow_item *item)
{
	unsigned *countdown = arg;

	if (item->kind != FALLOW_ITEM_BLOCK || --*countdown)
		return true;
	((unsigned char *)item->base)[item->size - 1] ^= 0x40;
	return false;
}

/* Changes the last byte of one block, once, long after the begin. */
static void one_block_spoil(void)
{
	static unsigned calls;
	unsigned countdown = 20;

	if (++calls == 1000)
		fallow_walk(&heap, true, block_spoil, &countdown);
}

static void test_replay_sees_a_changed_byte(void)
{
	uint64_t done;
	const char *fault;

	sabotage = one_block_spoil;
	fault = replay(HEAP_BYTES, 0, &done);
	CHECK(fault && !strcmp(fault, "the bytes of the block were changed"));
	CHECK_EQUAL(done, REPLAY_OPS);
}

/* Frees a block behind the replay's back. */
static bool block_steal(void *arg, const struct fallow_item *item)
{
	if (item->kind != FALLOW_ITEM_BLOCK)
		return true;
	*(uintptr_t *)arg = item->base;
	return false;
}

static void one_block_steal(void)
{
	static unsigned calls;
	uintptr_t block = 0;

	if (++calls != 1000)
		return;
	fallow_walk(&heap, true, block_steal, &block);
	fallow_free(&heap, (void *)block);
}

static void test_replay_sees_a_lost_block(void)
{
	uint64_t done;

	sabotage = one_block_steal;
	CHECK(replay(HEAP_BYTES, 0, &done) != NULL);
}

static void test_replay_sees_exhaustion(void)
{
	uint64_t done;
	size_t size = fallow_table_bytes(0, HEAP_BYTES, 1) + 4 * SLICE_BYTES;
	const char *fault = replay(size, 0, &done);

	CHECK(fault && !strncmp(fault, "no memory", 9));
}

static void test_replay_needs_its_memory(void)
{
	uint64_t done;
	const char *fault = replay(HEAP_BYTES, 1, &done);

	CHECK(fault && !strcmp(fault, "not enough memory for the bookkeeping"));
	CHECK_EQUAL(done, 0);
}

const struct test tests[] = {
	{"trace_reads_what_was_written", test_trace_reads_what_was_written},
	{"trace_header_is_kept", test_trace_header_is_kept},
	{"trace_truncated_at_every_byte", test_trace_truncated_at_every_byte},
	{"trace_truncated_and_sealed", test_trace_truncated_and_sealed},
	{"trace_forged_header", test_trace_forged_header},
	{"trace_damaged", test_trace_damaged},
	{"trace_forged_operation", test_trace_forged_operation},
	{"trace_live_limit", test_trace_live_limit},
	{"trace_flipped_and_sealed", test_trace_flipped_and_sealed},
	{"replay_without_fault", test_replay_without_fault},
	{"replay_sees_a_changed_byte", test_replay_sees_a_changed_byte},
	{"replay_sees_a_lost_block", test_replay_sees_a_lost_block},
	{"replay_sees_exhaustion", test_replay_sees_exhaustion},
	{"replay_needs_its_memory", test_replay_needs_its_memory},
	{NULL, NULL},
};
