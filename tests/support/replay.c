/* SPDX-License-Identifier: MIT */
/*
 * Replays the trace of a real program on a heap (replay.h).
 *
 * A block's whole usable size is filled with 64-bit words that no other block
 * has: key + i * STEP, the key a hash of its slot and of how often the slot
 * was filled.  Two blocks that overlap, memory that was taken away under a
 * block, a copy that is short: each leaves a word that is wrong, and the block
 * says so when it is verified.  Beyond the bytes it is checked that a block is
 * aligned, that a zeroed one is zero, that the heap's own invariants hold
 * (CHECKS times) and that it counts what the trace says is live.
 *
 * Only the heap's calls are timed; filling and verifying are not.  The cost of
 * reading the counter is measured first and taken off.
 *
 * The trace's threads are not replayed: one context makes all calls, in the
 * order that they were made.
 *
 * A fault does not end the replay, so that one report shows all; but one that
 * repeats is printed FAULTS_SHOWN times only, and FAULTS_MAX end it.
 */
#include "replay_state.h"

#include "test.h"

#define STEP 0x9e3779b97f4a7c15u
#define ROWS 48
#define CHECKS 32
#define FAULTS_SHOWN 10
#define FAULTS_MAX 1000
_Static_assert(ROWS + 1 <= GRAPH_SAMPLES_MAX,
	"every row and the peak are in the chart");

/* Counts a fault; returns whether it is to be printed. */
static bool fault_count(struct replay *r, const char *what)
{
	if (!r->faults)
		r->first_fault = what;
	return ++r->faults <= FAULTS_SHOWN && !r->quiet;
}

static void fault(
	struct replay *r, const char *what, uint64_t seen, uint64_t expected)
{
	if (!fault_count(r, what))
		return;
	test_printf("fault: operation %llu, slot %u: %s",
		(unsigned long long)r->ops, r->op.slot, what);
	if (seen != expected)
		test_printf(": seen 0x%llx, expected 0x%llx",
			(unsigned long long)seen, (unsigned long long)expected);
	test_printf("\n");
}

/* ---- the bytes of a block ---- */

/* Blocks are 16-byte aligned, so whole words can be stored; the last bytes
 * that make no word are those of the next. */
static void block_fill(struct replay *r, struct block *block, uint32_t slot)
{
	uint64_t state = (uint64_t)slot << 40 ^ r->fills++;
	uint64_t *words = (void *)block->p, word;
	size_t n = block->usable / 8;

	block->key = word = test_random(&state);
	for (size_t i = 0; i < n; i++, word += STEP)
		words[i] = word;
	for (size_t i = n * 8; i < block->usable; i++, word >>= 8)
		block->p[i] = (unsigned char)word;
}

/* Verifies the first `size` bytes against key and step (0 and 0: zeroes). */
static void bytes_verify(struct replay *r, const unsigned char *p, size_t size,
	uint64_t key, uint64_t step, const char *what)
{
	const uint64_t *words = (const void *)p;
	size_t n = size / 8, i = 0;
	uint64_t word = key, seen = 0;

	while (i < n && words[i] == word) {
		i++;
		word += step;
	}
	if (i == n && size % 8 == 0)
		return;
	/* Byte by byte from there: the end, or the byte that differs. */
	for (i *= 8; i < size; i++) {
		uint64_t expected = key + i / 8 * step;

		seen = p[i];
		expected = expected >> i % 8 * 8 & 0xff;
		if (seen == expected)
			continue;
		fault(r, what, seen, expected);
		if (r->faults <= FAULTS_SHOWN && !r->quiet)
			test_printf("  at byte %zu of %zu of the block at %p\n",
				i, size, (const void *)p);
		return;
	}
}

static void block_verify(
	struct replay *r, const struct block *block, size_t size)
{
	bytes_verify(r, block->p, size, block->key, STEP,
		"the bytes of the block were changed");
}

/* ---- operations ---- */

/* When a call of the heap began, and what the provider had taken then. */
struct stopwatch {
	uint64_t ticks, provider;
};

static uint64_t provider_ticks(const struct replay *r)
{
	return r->config->metered ? r->config->metered->ticks_spent : 0;
}

static struct stopwatch stopwatch_start(const struct replay *r)
{
	uint64_t provider = provider_ticks(r);

	return (struct stopwatch){r->config->ticks(), provider};
}

/* Adds what the heap's call took to the costs of its kind. */
static void cost_add(struct replay *r, struct stopwatch begin)
{
	struct cost *cost = &r->costs[r->op.kind];
	uint64_t took = r->config->ticks() - begin.ticks;
	uint64_t provider = provider_ticks(r) - begin.provider;

	provider += r->ticks_cost;
	took = took > provider ? took - provider : 0;
	cost->calls++;
	cost->ticks += took;
	cost->provider += provider - r->ticks_cost;
	if (took > cost->worst)
		cost->worst = took;
}

/* Makes the allocation that r->op says. */
static void *heap_alloc(struct replay *r)
{
	struct fallow *heap = r->config->heap;
	size_t size = r->op.size, align = (size_t)1 << r->op.align_log2;
	struct stopwatch begin = stopwatch_start(r);
	void *p;

	if (r->op.kind == TRACE_ZALLOC)
		p = fallow_zalloc(heap, size);
	else if (r->op.kind == TRACE_ALIGNED)
		p = fallow_alloc_aligned(heap, align, size);
	else
		p = fallow_alloc(heap, size);
	cost_add(r, begin);
	return p;
}

/* The heap returned NULL: it, or the machine, is too small. */
static void memory_fault(struct replay *r)
{
	fault(r, "no memory for the block", 0, 0);
	if (r->faults <= FAULTS_SHOWN && !r->quiet)
		test_printf("  of %llu bytes, with %llu live\n",
			(unsigned long long)r->op.size,
			(unsigned long long)r->live);
}

/* Takes a block that the heap returned into the books, and fills it. */
static void block_begin(struct replay *r, struct block *block, void *p)
{
	uintptr_t align = (uintptr_t)1 << r->op.align_log2;

	block->p = p;
	block->usable = 0;
	if (!p) {
		memory_fault(r);
		return;
	}
	if (align < 16)
		align = 16;
	if ((uintptr_t)p & (align - 1))
		fault(r, "the block is not aligned", (uintptr_t)p,
			(uintptr_t)p & ~(align - 1));
	block->usable = fallow_usable_size(r->config->heap, p);
	if (block->usable < r->op.size) {
		fault(r, "the block is too small", block->usable, r->op.size);
		block->usable = r->op.size;
	}
	if (r->op.kind == TRACE_ZALLOC)
		bytes_verify(r, p, block->usable, 0, 0,
			"the zeroed block is not zero");
	block_fill(r, block, r->op.slot);
	r->live += block->usable;
	r->count++;
}

/* Takes a block out of the books. */
static void block_end(struct replay *r, struct block *block)
{
	r->live -= block->usable;
	r->count--;
	block->p = NULL;
}

static void op_free(struct replay *r, struct block *block)
{
	void *p = block->p;
	struct stopwatch begin;

	if (!p)
		return;
	block_verify(r, block, block->usable);
	begin = stopwatch_start(r);
	fallow_free(r->config->heap, p);
	cost_add(r, begin);
	block_end(r, block);
}

/* What a smaller block loses is verified before, what stays afterwards. */
static void op_realloc(struct replay *r, struct block *block)
{
	struct block old = *block;
	struct stopwatch begin;
	void *p;

	if (old.p && r->op.size < old.usable)
		block_verify(r, &old, old.usable);
	begin = stopwatch_start(r);
	p = fallow_realloc(r->config->heap, old.p, r->op.size);
	cost_add(r, begin);
	if (!p) {
		memory_fault(r);
		return;
	}
	if (old.p) {
		block_end(r, block);
		old.p = p;
		block_verify(r, &old,
			old.usable < r->op.size ? old.usable : r->op.size);
	}
	block_begin(r, block, p);
}

static void op_run(struct replay *r)
{
	struct block *block = &r->blocks[r->op.slot];

	if (r->op.kind == TRACE_FREE) {
		op_free(r, block);
		r->requested -= r->op.size;
	} else if (r->op.kind == TRACE_REALLOC) {
		op_realloc(r, block);
		r->requested += r->op.size - r->op.old_size;
	} else {
		block_begin(r, block, heap_alloc(r));
		r->requested += r->op.size;
	}
	if (r->live > r->live_peak)
		r->live_peak = r->live;
	if (r->requested > r->requested_peak)
		r->requested_peak = r->requested;
}

/* ---- looking at the heap ---- */

static struct fallow_snapshot snapshot_take(struct replay *r)
{
	struct fallow_snapshot s = {.size = sizeof(s)};

	fallow_snapshot(r->config->heap, &s);
	if (s.live != r->live)
		fault(r, "the heap's count of live bytes", s.live, r->live);
	if (s.blocks != r->count)
		fault(r, "the heap's count of blocks", s.blocks, r->count);
	if (s.committed < s.live)
		fault(r, "less is committed than live", s.committed, s.live);
	if (s.misuses != r->misuses)
		fault(r, "the heap saw misuse where there was none", s.misuses,
			r->misuses);
	r->misuses = s.misuses;
	return s;
}

static void heap_check(struct replay *r)
{
	uintptr_t where = 0;
	const char *broken = fallow_check(r->config->heap, &where);

	r->checks++;
	if (broken)
		fault(r, broken, where, 0);
}

/* Looks at the heap, and shows it. */
static struct fallow_snapshot row_draw(struct replay *r, const char *note)
{
	struct fallow_snapshot s = snapshot_take(r);
	struct graph_sample sample = {
		r->ops, r->requested, r->live, s.committed};

	if (!r->quiet)
		test_graph_row(&r->graph, &sample, note);
	return s;
}

/* Whether this operation is the last of the k-th of n equal parts. */
static bool part_ends(uint64_t op, uint64_t ops, uint64_t n)
{
	return (op + 1) * n / ops != op * n / ops;
}

/* ---- the whole ---- */

static size_t trace_bytes(const struct trace_info *info)
{
	return (test_trace_memory(info->slots) + 15) & ~(size_t)15;
}

size_t test_replay_memory(const struct trace_info *info)
{
	return trace_bytes(info) + info->slots * sizeof(struct block);
}

/* The least that two readings of the counter are apart. */
static uint64_t ticks_cost_measure(uint64_t (*ticks)(void))
{
	uint64_t least = UINT64_MAX;

	for (unsigned i = 0; i < 16; i++) {
		uint64_t before = ticks(), took = ticks() - before;

		least = took < least ? took : least;
	}
	return least;
}

/* Makes the reader and the empty books; a fault is why it cannot. */
static void replay_begin(struct replay *r, const struct replay_config *config)
{
	struct trace_error error;
	unsigned char *memory = config->memory;

	*r = (struct replay){.config = config, .quiet = config->quiet};
	if (!test_trace_info(
		    config->trace, config->trace_size, &r->info, &error)) {
		if (fault_count(r, error.what))
			test_trace_error_print(&error);
		return;
	}
	if (config->memory_size < test_replay_memory(&r->info)) {
		fault(r, "not enough memory for the bookkeeping",
			config->memory_size, test_replay_memory(&r->info));
		return;
	}
	r->trace = test_trace_open(
		config->trace, config->trace_size, memory, &error);
	if (!r->trace) {
		if (fault_count(r, error.what))
			test_trace_error_print(&error);
		return;
	}
	r->blocks = (void *)(memory + trace_bytes(&r->info));
	for (uint32_t i = 0; i < r->info.slots; i++)
		r->blocks[i] = (struct block){0};
	r->ticks_cost = ticks_cost_measure(config->ticks);
}

/* What is due after the operation at hand: its looks at the heap. */
static void op_look(struct replay *r)
{
	if (part_ends(r->ops, r->info.ops, CHECKS))
		heap_check(r);
	if (r->ops == r->info.peak_op) {
		r->live_at_peak = r->live;
		r->committed_at_peak = row_draw(r, " peak").committed;
	}
	if (part_ends(r->ops, r->info.ops, ROWS)) {
		fallow_collect(r->config->heap);
		row_draw(r, "");
	}
}

/* Replays all operations; the blocks that the program left stay. */
static void replay_ops(struct replay *r)
{
	struct trace_error error;

	while (r->faults < FAULTS_MAX &&
		test_trace_next(r->trace, &r->op, &error)) {
		op_run(r);
		op_look(r);
		r->ops++;
	}
	if (r->faults < FAULTS_MAX && error.what && fault_count(r, error.what))
		test_trace_error_print(&error);
}

/* Verifies and frees what is left; returns the bytes still committed. */
static uint64_t replay_drain(struct replay *r)
{
	r->op.kind = TRACE_FREE;
	for (uint32_t slot = 0; slot < r->info.slots; slot++) {
		r->op.slot = slot;
		op_free(r, &r->blocks[slot]);
	}
	r->requested = 0;
	fallow_collect(r->config->heap);
	heap_check(r);
	return snapshot_take(r).committed;
}

bool test_replay(
	const struct replay_config *config, struct replay_result *result)
{
	/* Too big for a stack in a kernel. */
	static struct replay replay;
	struct replay *r = &replay;
	struct fallow_snapshot s = {0};
	uint64_t left, empty;

	replay_begin(r, config);
	if (!r->faults) {
		if (!r->quiet)
			test_graph_begin(&r->graph,
				r->info.peak_live + r->info.peak_live / 5,
				config->colour, config->utf8);
		replay_ops(r);
		left = r->live;
		s = snapshot_take(r);
		empty = replay_drain(r);
		if (!r->quiet)
			test_replay_report(r, &s, left, empty);
	}
	*result = (struct replay_result){r->ops, r->faults, r->first_fault,
		r->requested_peak, r->live_peak, s.committed_peak};
	return r->faults == 0;
}
