/* SPDX-License-Identifier: MIT */
/*
 * The operations of a trace, both ways (tests/traces/FORMAT.md).
 *
 * Everything is coded by test_range_...(), which write the value they are given
 * or return the one they read; so all below is written once for both
 * directions, and reader and writer cannot disagree.
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
 * outside of the data, and its work is bounded by the data: a decision costs at
 * least 1/1500 of a bit, and an operation makes at least three.
 */
#include "range.h"
#include "trace_head.h"

/* Parts of the format: other values make other traces. */
#define WALK_MAX 256
#define KINDS_LOG2 12
#define GUESSES_LOG2 12
#define WAYS_LOG2 8

/* The size of a slot that is not live. */
#define FREE UINT64_MAX

/* Sizes that followed one history, the last one first. */
struct guess {
	uint32_t size[2];
	uint8_t sure; /* how often in a row the first was right, up to 7 */
};

enum way { WAY_NEWEST, WAY_NEWER, WAY_OLDER, WAY_NUMBER, WAYS };

struct model {
	range_chance kind[1 << KINDS_LOG2][8];
	range_chance thread_same[2];
	range_chance way[1 << WAYS_LOG2][TRACE_KINDS][WAYS];
	range_chance right[TRACE_KINDS][2][8][2];
	struct guess guess[2][1 << GUESSES_LOG2];
	struct range_number size[TRACE_KINDS];
	struct range_number steps[WAYS];
	struct range_number slot, align, thread;
};

/* A block that is live (in the ring) or was (in the stack, by `newer`). */
struct slot {
	uint64_t size;
	uint32_t newer, older;
};

struct trace {
	struct trace_info info;
	struct range range;
	/* What was coded so far. */
	uint64_t op, live, peak_live, peak_op;
	uint32_t used, free, cursor, thread;
	uint32_t history[3]; /* hashes of the last operations, newest first */
	struct model model;
	struct slot slots[]; /* info.slots of them, and the ring's head */
};

static bool fail(struct trace_error *error, uint64_t op, const char *what)
{
	*error = (struct trace_error){what, op, 0, 0};
	return false;
}

static bool fail_values(struct trace_error *error, uint64_t op,
	const char *what, uint64_t seen, uint64_t expected)
{
	*error = (struct trace_error){what, op, seen, expected};
	return false;
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
	slots[slot] = (struct slot){size, ring(t), newest};
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
static uint32_t code_slot(struct trace *t, enum trace_kind kind, uint32_t slot)
{
	range_chance *ways =
		t->model.way[t->history[0] >> (32 - WAYS_LOG2)][kind];
	unsigned steps = 0;
	enum way way = WAY_NUMBER;

	if (t->range.writing)
		way = way_choose(t, slot, &steps);
	way = test_range_tree(&t->range, ways, 2, way) - WAYS;
	if (way == WAY_NUMBER) {
		uint64_t number =
			test_range_number(&t->range, &t->model.slot, slot);

		return number < t->used ? (uint32_t)number : ring(t);
	}
	steps = (unsigned)test_range_number(
		&t->range, &t->model.steps[way], steps);
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
	uint32_t near =
		mix(mix(kind, old), kind == TRACE_REALLOC ? 0 : t->history[0]);
	uint32_t far = mix(mix(near, t->history[1]), t->history[2]);
	struct guess *guess[2] = {
		&t->model.guess[0][far >> (32 - GUESSES_LOG2)],
		&t->model.guess[1][near >> (32 - GUESSES_LOG2)],
	};
	bool found = false;

	for (unsigned i = 0; i < 4 && !found; i++) {
		struct guess *g = guess[i / 2];
		range_chance *p = t->model.right[kind][i / 2][g->sure];

		found = test_range_bit(
			&t->range, p + i % 2, size == g->size[i % 2]);
		if (found)
			size = g->size[i % 2];
	}
	if (!found)
		size = test_range_number(&t->range, &t->model.size[kind], size);
	guess_learn(guess[0], size);
	guess_learn(guess[1], size);
	return size;
}

/* Codes everything of *op; returns false iff it names no thread or block. */
static bool code_op(
	struct trace *t, struct trace_op *op, struct trace_error *error)
{
	range_chance *kinds =
		t->model.kind[mix(mix(t->history[0], t->history[1]),
				      t->history[2]) >>
			      (32 - KINDS_LOG2)];
	uint64_t old = 0;

	if (t->info.threads > 1 &&
		test_range_bit(&t->range, t->model.thread_same,
			op->thread != t->thread))
		t->thread = (uint32_t)test_range_number(
			&t->range, &t->model.thread, op->thread);
	op->thread = t->thread;
	if (op->thread >= t->info.threads)
		return fail_values(error, t->op, "no such thread", op->thread,
			t->info.threads);
	op->kind = test_range_tree(&t->range, kinds, 3, op->kind) - 8;
	if (op->kind >= TRACE_KINDS)
		return fail_values(error, t->op, "no such kind of operation",
			op->kind, TRACE_KINDS);
	if (op->kind == TRACE_REALLOC || op->kind == TRACE_FREE) {
		op->slot = code_slot(t, op->kind, op->slot);
		/* The ring's head counts as free too. */
		if (t->slots[op->slot].size == FREE)
			return fail(error, t->op,
				op->kind == TRACE_FREE
					? "free of a slot that is free"
					: "realloc of a slot that is free");
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
		op->align_log2 = (unsigned)test_range_number(
			&t->range, &t->model.align, op->align_log2);
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
	range_chance *chances = (range_chance *)&t->model;

	for (size_t i = 0; i < sizeof(*t); i++)
		bytes[i] = 0;
	t->info = *info;
	t->free = t->cursor = ring(t);
	t->slots[ring(t)] = (struct slot){FREE, ring(t), ring(t)};
	for (uint32_t i = 0; i < info->slots; i++)
		t->slots[i].size = FREE;
	for (size_t i = 0; i < sizeof(t->model) / sizeof(range_chance); i++)
		chances[i] = RANGE_EVEN;
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
	/* Only a writer stores to it. */
	t->range.data = (uint8_t *)(uintptr_t)data;
	t->range.size = size;
	t->range.at = test_trace_head_bytes(&info);
	if (!test_range_read(&t->range)) {
		fail(error, 0, "the operations do not begin with 0");
		return NULL;
	}
	return t;
}

/* At the end: whether all that the header says was true. */
static bool end_valid(const struct trace *t, struct trace_error *error)
{
	if (t->range.at != t->range.size)
		return fail_values(error, t->op,
			"bytes left behind the last operation",
			t->range.size - t->range.at, 0);
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
	*op = (struct trace_op){0};
	if (index == t->info.ops) {
		end_valid(t, error);
		return false;
	}
	good = op_pass(t, op, error);
	if (t->range.past_end)
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

struct trace *test_trace_create(
	const struct trace_info *info, void *data, size_t size, void *memory)
{
	struct trace *t = trace_make(info, memory);

	t->range.data = data;
	t->range.size = size;
	t->range.at = test_trace_head_bytes(info);
	test_range_write(&t->range);
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
	test_range_finish(&t->range);
	if (t->range.past_end)
		return 0;
	t->info.ops = t->op;
	t->info.peak_live = t->peak_live;
	t->info.peak_op = t->peak_op;
	test_trace_head_write(t->range.data, t->range.at, &t->info);
	return t->range.at;
}
