/* SPDX-License-Identifier: MIT */
/*
 * The trace format, both ways (tests/traces/FORMAT.md).
 *
 * Operations are coded bit by bit with an adaptive binary range coder: each
 * decision has a probability that moves towards what was last seen there, and
 * costs as many bits as it surprises.  Every decision goes through code_bit(),
 * which writes the bit it is given or returns the one it reads; all above it
 * is written once for both directions, so reader and writer cannot disagree.
 *
 * A block is named by its slot.  Live slots form a ring in the order of their
 * allocation, and a free or realloc names its block by a walk in that ring of
 * less than WALK_MAX steps, else by number.  Sizes are guessed from what came
 * before.
 *
 * Invariants: a slot's size is FREE iff it is not live; live slots are in the
 * ring, free ones below `used` in the stack, each exactly once; `live` is the
 * sum of the sizes of live slots.
 *
 * The reader trusts nothing: the checksum only finds accidents, so every slot,
 * size, count and sum is checked again as it is decoded.  It never reads
 * outside of `data`, and its work is bounded by the data: a decision costs at
 * least 1/1500 of a bit, and an operation makes at least three.
 */
#include "trace.h"

/* Shared by reader and writer; raising it makes old traces unreadable. */
#define VERSION 1
#define WALK_MAX 256
#define FREE UINT64_MAX

/* log2 of the entries of the tables that a history selects. */
#define KINDS_LOG2 12
#define GUESSES_LOG2 12
#define WAYS_LOG2 8

/* A number's length is in 0..63 bits; this many bits below the leading one
 * are modelled, the rest is as good as random. */
#define LENGTHS 64
#define HEAD_BITS 7

typedef uint16_t chance; /* that the next bit is 0, in 1/65536 */

struct number_model {
	chance length[LENGTHS];
	chance head[LENGTHS][1 << HEAD_BITS];
};

/* Sizes that followed one history, the last one first. */
struct guess {
	uint32_t size[2];
	uint8_t sure; /* how often in a row the first was right, up to 7 */
};

enum way { WAY_NEWEST, WAY_NEWER, WAY_OLDER, WAY_NUMBER, WAYS };

struct model {
	chance kind[1 << KINDS_LOG2][8];
	chance thread_same[2];
	chance way[1 << WAYS_LOG2][TRACE_KINDS][WAYS];
	chance right[TRACE_KINDS][2][8][2];
	struct guess guess[2][1 << GUESSES_LOG2];
	struct number_model size[TRACE_KINDS];
	struct number_model steps[WAYS];
	struct number_model slot, align, thread;
};

/* A block that is live (in the ring) or was (in the stack, by `newer`). */
struct slot {
	uint64_t size;
	uint32_t newer, older;
};

struct trace {
	struct trace_info info;
	bool writing;
	/* The range coder: `code` is the reader's, the rest of the second
	 * line the writer's. */
	uint32_t range, code;
	uint64_t low, pending;
	uint8_t cache;
	uint8_t *data;
	size_t at, size;
	bool past_end;
	/* What was coded so far. */
	uint64_t op, live, peak_live, peak_op;
	uint32_t used, free, cursor, thread;
	uint32_t history[3]; /* hashes of the last operations, newest first */
	uint32_t way_last;
	struct model model;
	struct slot slots[]; /* info.slots of them, and the ring's head */
};

static bool fail(
	struct trace_error *error, uint64_t op, const char *what)
{
	*error = (struct trace_error){ what, op, 0, 0 };
	return false;
}

static bool fail_values(struct trace_error *error, uint64_t op,
	const char *what, uint64_t seen, uint64_t expected)
{
	*error = (struct trace_error){ what, op, seen, expected };
	return false;
}

/* ---- little-endian fields and the checksum ---- */

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
	static const uint32_t table[16] = { 0x00000000, 0x1db71064, 0x3b6e20c8,
		0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
		0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0,
		0x86d3d2d4, 0xa00ae278, 0xbdbdf21c };
	uint32_t crc = ~0u;

	for (size_t i = 0; i < size; i++) {
		crc ^= data[i];
		crc = crc >> 4 ^ table[crc & 15];
		crc = crc >> 4 ^ table[crc & 15];
	}
	return ~crc;
}

/* ---- the header ---- */

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

static const uint8_t magic[8] = { 'f', 'l', 't', 'r', 'a', 'c', 'e', '\n' };

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
			return fail(error, UINT64_MAX, "not a trace");
	if (size < TRACE_HEADER_BYTES)
		return fail_values(error, UINT64_MAX,
			"truncated inside the header", size,
			TRACE_HEADER_BYTES);
	seen = get(data + AT_VERSION, 4);
	if (seen != VERSION)
		return fail_values(error, UINT64_MAX,
			"a version this reader does not know", seen, VERSION);
	seen = get(data + AT_BYTES, 8);
	if (seen > size)
		return fail_values(
			error, UINT64_MAX, "truncated", size, seen);
	if (seen < size)
		return fail_values(error, UINT64_MAX,
			"longer than its header says", size, seen);
	seen = checksum(data + AT_BYTES, size - AT_BYTES);
	if (seen != get(data + AT_CHECKSUM, 4))
		return fail_values(error, UINT64_MAX,
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
		return fail(error, UINT64_MAX, "no operations");
	if (info->slots == 0 || info->slots > TRACE_SLOTS_MAX ||
		info->slots > info->ops)
		return fail(error, UINT64_MAX, "impossible number of slots");
	if (info->threads == 0 || info->threads > TRACE_THREADS_MAX ||
		info->threads > info->ops)
		return fail(error, UINT64_MAX, "impossible number of threads");
	if (info->peak_live > TRACE_LIVE_MAX || info->peak_op >= info->ops)
		return fail(error, UINT64_MAX, "impossible peak");
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
		return fail(error, UINT64_MAX,
			"name or command too long");
	bytes += TRACE_HEADER_BYTES;
	if (!text_copy(info->name, bytes, name) ||
		!text_copy(info->command, bytes + name, command))
		return fail(error, UINT64_MAX,
			"name or command empty or not printable");
	bytes = data;
	info->ops = get(bytes + AT_OPS, 8);
	info->peak_live = get(bytes + AT_PEAK_LIVE, 8);
	info->peak_op = get(bytes + AT_PEAK_OP, 8);
	info->slots = (uint32_t)get(bytes + AT_SLOTS, 4);
	info->threads = (uint32_t)get(bytes + AT_THREADS, 4);
	return counts_valid(info, error);
}

/* ---- the range coder ---- */

/* The next byte of the data; zeroes behind its end. */
static uint8_t byte_read(struct trace *t)
{
	if (t->at < t->size)
		return t->data[t->at++];
	t->past_end = true;
	return 0;
}

static void byte_write(struct trace *t, uint8_t byte)
{
	if (t->at < t->size)
		t->data[t->at++] = byte;
	else
		t->past_end = true;
}

/*
 * Moves the top byte of `low` to the data.  It can still change by a carry
 * while all that follows is 0xff, so such bytes are only counted.
 */
static void low_shift(struct trace *t)
{
	if (t->low < 0xff000000u || t->low >> 32) {
		uint8_t carry = (uint8_t)(t->low >> 32);

		byte_write(t, (uint8_t)(t->cache + carry));
		for (; t->pending; t->pending--)
			byte_write(t, (uint8_t)(0xff + carry));
		t->cache = (uint8_t)(t->low >> 24);
	} else {
		t->pending++;
	}
	t->low = (t->low & 0x00ffffffu) << 8;
}

/*
 * Writes `bit`, or ignores it and returns the bit that is read.  The range is
 * at least 2^24 and *p, rounded to 12 bits, in 1..4094 (it moves by 1/32 of
 * the rest, which becomes 0 at 31), so that neither part is ever empty.
 */
static unsigned code_bit(struct trace *t, chance *p, unsigned bit)
{
	uint32_t bound = (t->range >> 12) * (uint32_t)(*p >> 4);

	if (!t->writing)
		bit = t->code >= bound;
	if (bit) {
		t->low += bound;
		t->code -= bound;
		t->range -= bound;
		*p = (chance)(*p - (*p >> 5));
	} else {
		t->range = bound;
		*p = (chance)(*p + ((0xffff - *p) >> 5));
	}
	while (t->range < 1u << 24) {
		t->range <<= 8;
		if (t->writing)
			low_shift(t);
		else
			t->code = t->code << 8 | byte_read(t);
	}
	return bit;
}

/* A value of `bits` bits, each decided in the light of those above it. */
static unsigned code_tree(
	struct trace *t, chance *p, unsigned bits, unsigned value)
{
	unsigned node = 1;

	while (bits--)
		node = node << 1 | code_bit(t, p + node, value >> bits & 1);
	return node;
}

/* Any value below 2^62: its length, then what is below its leading bit. */
static uint64_t code_number(
	struct trace *t, struct number_model *model, uint64_t value)
{
	unsigned length = 0, below, head;
	uint64_t result;

	while (length < LENGTHS - 1 && value >> length)
		length++;
	length = code_tree(t, model->length, 6, length) - LENGTHS;
	if (length < 2)
		return length;
	below = length - 1;
	head = below < HEAD_BITS ? below : HEAD_BITS;
	result = code_tree(t, model->head[length], head,
		(unsigned)(value >> (below - head)) & ((1u << head) - 1));
	for (below -= head; below--;) {
		chance even = 0x8000;

		result = result << 1 |
			code_bit(t, &even, (unsigned)(value >> below & 1));
	}
	return result;
}

/* ---- slots ---- */

/* The ring's head: its `newer` is the oldest block, its `older` the newest. */
static uint32_t ring(const struct trace *t)
{
	return t->info.slots;
}

/* Takes the slot that was freed last, else the next that was never used;
 * returns ring() iff there is none.  It is the newest of the ring then. */
static uint32_t slot_take(struct trace *t, uint64_t size)
{
	struct slot *slots = t->slots;
	uint32_t slot = t->free, newest;

	if (slot != ring(t))
		t->free = slots[slot].newer;
	else if (t->used < t->info.slots)
		slot = t->used++;
	else
		return ring(t);
	newest = slots[ring(t)].older;
	slots[slot] = (struct slot){ size, ring(t), newest };
	slots[newest].newer = slot;
	slots[ring(t)].older = slot;
	return slot;
}

/* Takes a live slot out of the ring and puts it on the stack. */
static void slot_give(struct trace *t, uint32_t slot)
{
	struct slot *s = &t->slots[slot];

	t->slots[s->older].newer = s->newer;
	t->slots[s->newer].older = s->older;
	t->cursor = s->newer;
	s->size = FREE;
	s->newer = t->free;
	t->free = slot;
}

/* Where the walk of a way begins. */
static uint32_t walk_begin(const struct trace *t, enum way way)
{
	if (way == WAY_NEWEST)
		return t->slots[ring(t)].older;
	return way == WAY_NEWER ? t->cursor : t->slots[t->cursor].older;
}

static uint32_t walk_step(const struct trace *t, enum way way, uint32_t slot)
{
	return way == WAY_NEWER ? t->slots[slot].newer : t->slots[slot].older;
}

/* The writer's choice: the shortest walk to `slot`, its length in *steps. */
static enum way way_choose(
	const struct trace *t, uint32_t slot, unsigned *steps)
{
	uint32_t at[WAY_NUMBER];

	for (enum way w = 0; w < WAY_NUMBER; w++)
		at[w] = walk_begin(t, w);
	for (*steps = 0; *steps < WALK_MAX; ++*steps)
		for (enum way w = 0; w < WAY_NUMBER; w++) {
			if (at[w] == slot)
				return w;
			at[w] = walk_step(t, w, at[w]);
		}
	return WAY_NUMBER;
}

/* Codes which live block is meant; returns ring() or a free slot if none. */
static uint32_t code_slot(
	struct trace *t, enum trace_kind kind, uint32_t slot)
{
	chance *ways = t->model.way[t->history[0] >> (32 - WAYS_LOG2)][kind];
	unsigned steps = 0;
	enum way way = WAY_NUMBER;

	if (t->writing)
		way = way_choose(t, slot, &steps);
	way = code_tree(t, ways, 2, way) - WAYS;
	if (way == WAY_NUMBER) {
		uint64_t number = code_number(t, &t->model.slot, slot);

		return number < t->used ? (uint32_t)number : ring(t);
	}
	steps = (unsigned)code_number(t, &t->model.steps[way], steps);
	if (steps >= WALK_MAX)
		return ring(t);
	slot = walk_begin(t, way);
	while (steps--)
		slot = walk_step(t, way, slot);
	return slot;
}

/* ---- operations ---- */

static uint32_t mix(uint32_t hash, uint64_t value)
{
	hash = (hash ^ (uint32_t)(value ^ value >> 32)) * 0x9e3779b1u;
	return hash ^ hash >> 15;
}

/* The size moves to the front of what is expected after this history. */
static void guess_learn(struct guess *guess, uint64_t size)
{
	if (guess->size[0] == size) {
		guess->sure += guess->sure < 7;
		return;
	}
	guess->sure /= 2;
	guess->size[1] = guess->size[0];
	guess->size[0] = (uint32_t)size;
}

/*
 * Codes a size: as what followed the last three operations the last time, or
 * the time before; else as what followed the last one; else as a number.  For
 * a realloc the block's old size says more than the operations before.
 */
static uint64_t code_size(
	struct trace *t, enum trace_kind kind, uint64_t old, uint64_t size)
{
	uint32_t near = mix(mix(kind, old),
		kind == TRACE_REALLOC ? 0 : t->history[0]);
	uint32_t far = mix(mix(near, t->history[1]), t->history[2]);
	struct guess *guess[2] = {
		&t->model.guess[0][far >> (32 - GUESSES_LOG2)],
		&t->model.guess[1][near >> (32 - GUESSES_LOG2)],
	};
	bool found = false;

	for (unsigned i = 0; i < 4 && !found; i++) {
		struct guess *g = guess[i / 2];
		chance *p = t->model.right[kind][i / 2][g->sure];

		found = code_bit(t, p + i % 2, size == g->size[i % 2]);
		if (found)
			size = g->size[i % 2];
	}
	if (!found)
		size = code_number(t, &t->model.size[kind], size);
	guess_learn(guess[0], size);
	guess_learn(guess[1], size);
	return size;
}

/* Codes everything of *op; returns false iff it names no thread or block. */
static bool code_op(
	struct trace *t, struct trace_op *op, struct trace_error *error)
{
	chance *kinds = t->model.kind[mix(mix(t->history[0], t->history[1]),
		t->history[2]) >> (32 - KINDS_LOG2)];
	uint64_t old = 0;

	if (t->info.threads > 1 && code_bit(t, t->model.thread_same,
		op->thread != t->thread))
		t->thread = (uint32_t)code_number(
			t, &t->model.thread, op->thread);
	op->thread = t->thread;
	if (op->thread >= t->info.threads)
		return fail_values(error, t->op, "no such thread", op->thread,
			t->info.threads);
	op->kind = code_tree(t, kinds, 3, op->kind) - 8;
	if (op->kind >= TRACE_KINDS)
		return fail_values(error, t->op, "no such kind of operation",
			op->kind, TRACE_KINDS);
	if (op->kind == TRACE_REALLOC || op->kind == TRACE_FREE) {
		op->slot = code_slot(t, op->kind, op->slot);
		if (op->slot == ring(t) || t->slots[op->slot].size == FREE)
			return fail(error, t->op, op->kind == TRACE_FREE ?
				"free of a slot that is free" :
				"realloc of a slot that is free");
		old = t->slots[op->slot].size;
	}
	op->old_size = op->kind == TRACE_REALLOC ? old : 0;
	if (op->kind == TRACE_FREE)
		op->size = old;
	else
		op->size = code_size(t, op->kind, old, op->size);
	if (op->kind != TRACE_ALIGNED)
		op->align_log2 = 0;
	else
		op->align_log2 = (unsigned)code_number(
			t, &t->model.align, op->align_log2);
	return true;
}

/* Does to the slots what *op says, and checks every sum. */
static bool op_apply(
	struct trace *t, struct trace_op *op, struct trace_error *error)
{
	uint64_t old = 0, new = op->size;

	if (op->size > TRACE_SIZE_MAX)
		return fail_values(error, t->op, "size beyond the limit",
			op->size, TRACE_SIZE_MAX);
	if (op->align_log2 > TRACE_ALIGN_LOG2_MAX)
		return fail_values(error, t->op, "alignment beyond the limit",
			op->align_log2, TRACE_ALIGN_LOG2_MAX);
	if (op->kind == TRACE_REALLOC) {
		old = t->slots[op->slot].size;
		t->slots[op->slot].size = op->size;
		t->cursor = op->slot;
	} else if (op->kind == TRACE_FREE) {
		old = op->size;
		new = 0;
		slot_give(t, op->slot);
	} else {
		op->slot = slot_take(t, op->size);
		if (op->slot == ring(t))
			return fail_values(error, t->op,
				"more blocks than the header has slots",
				(uint64_t)t->info.slots + 1, t->info.slots);
	}
	t->live = t->live - old + new;
	if (t->live > TRACE_LIVE_MAX)
		return fail_values(error, t->op, "live bytes beyond the limit",
			t->live, TRACE_LIVE_MAX);
	if (t->live > t->peak_live) {
		t->peak_live = t->live;
		t->peak_op = t->op;
	}
	return true;
}

/* Codes and applies one operation, and remembers it for the guesses. */
static bool op_pass(
	struct trace *t, struct trace_op *op, struct trace_error *error)
{
	if (!code_op(t, op, error) || !op_apply(t, op, error))
		return false;
	t->history[2] = t->history[1];
	t->history[1] = t->history[0];
	t->history[0] = mix(mix(0, op->kind), op->size);
	t->op++;
	return true;
}

/* ---- readers and writers ---- */

size_t test_trace_memory(uint32_t slots)
{
	return sizeof(struct trace) + ((size_t)slots + 1) * sizeof(struct slot);
}

/* Sets all chances to even, and everything else to its begin. */
static struct trace *trace_make(const struct trace_info *info, void *memory)
{
	struct trace *t = memory;
	uint8_t *bytes = memory;
	chance *chances = (chance *)&t->model;

	for (size_t i = 0; i < sizeof(*t); i++)
		bytes[i] = 0;
	t->info = *info;
	t->range = UINT32_MAX;
	t->free = t->cursor = ring(t);
	t->slots[ring(t)] = (struct slot){ FREE, ring(t), ring(t) };
	for (uint32_t i = 0; i < info->slots; i++)
		t->slots[i].size = FREE;
	for (size_t i = 0; i < sizeof(t->model) / sizeof(chance); i++)
		chances[i] = 0x8000;
	bytes = (uint8_t *)t->model.guess;
	for (size_t i = 0; i < sizeof(t->model.guess); i++)
		bytes[i] = 0;
	return t;
}

struct trace *test_trace_open(
	const void *data, size_t size, void *memory, struct trace_error *error)
{
	struct trace_info info;
	struct trace *t;

	if (!test_trace_info(data, size, &info, error))
		return NULL;
	t = trace_make(&info, memory);
	/* Only a writer stores to *data. */
	t->data = (uint8_t *)(uintptr_t)data;
	t->size = size;
	t->at = TRACE_HEADER_BYTES + get(t->data + AT_NAME_LENGTH, 2) +
		get(t->data + AT_COMMAND_LENGTH, 2);
	/* The writer's first byte is its empty cache. */
	for (unsigned i = 0; i < 5; i++)
		t->code = t->code << 8 | byte_read(t);
	return t;
}

/* At the end: whether all that the header says was true. */
static bool end_valid(const struct trace *t, struct trace_error *error)
{
	if (t->at != t->size)
		return fail_values(error, t->op,
			"bytes left behind the last operation",
			t->size - t->at, 0);
	if (t->used != t->info.slots)
		return fail_values(error, UINT64_MAX,
			"fewer slots than the header says", t->used,
			t->info.slots);
	if (t->peak_live != t->info.peak_live)
		return fail_values(error, UINT64_MAX,
			"the peak is not what the header says", t->peak_live,
			t->info.peak_live);
	if (t->peak_op != t->info.peak_op)
		return fail_values(error, UINT64_MAX,
			"the peak is not where the header says", t->peak_op,
			t->info.peak_op);
	return true;
}

bool test_trace_next(
	struct trace *t, struct trace_op *op, struct trace_error *error)
{
	uint64_t index = t->op;
	bool good;

	error->what = NULL;
	*op = (struct trace_op){ 0 };
	if (index == t->info.ops) {
		end_valid(t, error);
		return false;
	}
	good = op_pass(t, op, error);
	if (t->past_end)
		return fail_values(error, index,
			"the data ends before the last operation", index,
			t->info.ops);
	if (!good)
		return false;
	if (t->peak_live > t->info.peak_live)
		return fail_values(error, index,
			"more bytes are live than the header's peak",
			t->peak_live, t->info.peak_live);
	return true;
}

static size_t length(const char *text)
{
	size_t n = 0;

	while (text[n])
		n++;
	return n;
}

struct trace *test_trace_create(const struct trace_info *info, void *data,
	size_t size, void *memory)
{
	struct trace *t = trace_make(info, memory);

	t->writing = true;
	t->data = data;
	t->size = size;
	for (size_t i = 0; i < TRACE_HEADER_BYTES; i++)
		byte_write(t, i < sizeof(magic) ? magic[i] : 0);
	for (const char *c = t->info.name; *c; c++)
		byte_write(t, (uint8_t)*c);
	for (const char *c = t->info.command; *c; c++)
		byte_write(t, (uint8_t)*c);
	return t;
}

bool test_trace_put(
	struct trace *t, struct trace_op *op, struct trace_error *error)
{
	error->what = NULL;
	return op_pass(t, op, error);
}

size_t test_trace_finish(struct trace *t)
{
	uint8_t *data = t->data;

	for (unsigned i = 0; i < 5; i++)
		low_shift(t);
	if (t->past_end)
		return 0;
	put(data + AT_VERSION, 4, VERSION);
	put(data + AT_BYTES, 8, t->at);
	put(data + AT_OPS, 8, t->op);
	put(data + AT_PEAK_LIVE, 8, t->peak_live);
	put(data + AT_PEAK_OP, 8, t->peak_op);
	put(data + AT_SLOTS, 4, t->info.slots);
	put(data + AT_THREADS, 4, t->info.threads);
	put(data + AT_NAME_LENGTH, 2, length(t->info.name));
	put(data + AT_COMMAND_LENGTH, 2, length(t->info.command));
	test_trace_seal(data, t->at);
	return t->at;
}
