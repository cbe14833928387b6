/* SPDX-License-Identifier: MIT */
/*
 * The shadow oracle.
 *
 * Blocks are kept sorted by address, so that a new one overlaps a known one
 * iff it overlaps a neighbour.  Every block is filled with a pattern of its
 * own, over all its usable bytes; what two blocks share, or what the heap
 * writes into a block in use, is seen when the pattern is verified: before a
 * free, after a realloc, and in oracle_verify().  Of blocks above `sampled` the
 * first and last bytes alone, at most a granule each, and one word a granule
 * between are filled, or large blocks would take all the time.
 *
 * The contract checked is fallow.h's and no more: nothing here knows classes,
 * pages or chunks, but the slice, up to which natural alignment is promised.
 *
 * Addresses go through launder(): the attributes of the allocation functions
 * would let the compiler fold the very checks that are made here.
 */
#include "oracle.h"

#include "test.h"

/* log2 of the slice: natural alignment is promised up to it. */
#ifndef FALLOW_SLICE_LOG2
#define FALLOW_SLICE_LOG2 16
#endif
#define SLICE ((size_t)1 << FALLOW_SLICE_LOG2)

/* Every block has at least this alignment. */
#define ALIGN_MIN 16

/* Blocks above this are filled in part: the first and last SAMPLE bytes, or
 * less, and a word each SAMPLE bytes. */
#define DEFAULT_SAMPLED ((size_t)64 << 10)
#define SAMPLE ((size_t)4096)

#define DEFAULT_SIZE_MAX ((size_t)4 << 20)
#define DEFAULT_ALIGN_MAX ((size_t)64 << 10)
#define DEFAULT_VOLUME ((size_t)32 << 20)

/* Fails the test, at the line of this file that says what was expected. */
#define EXPECT(oracle, condition, seen, expected) \
	do { \
		if (!(condition)) { \
			(oracle)->failures++; \
			test_fail_values(__FILE__, __LINE__, #condition, \
				(uint64_t)(seen), (uint64_t)(expected)); \
		} \
	} while (0)

/* Returns the address of p, of which the compiler knows nothing. */
static uintptr_t launder(void *p)
{
	uintptr_t addr = (uintptr_t)p;

	__asm__ volatile("" : "+r"(addr));
	return addr;
}

static size_t size_least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* The word number i of the contents of a block. */
static uint64_t pattern_word(uint64_t seed, size_t i)
{
	return (seed ^ i) * 0x9e3779b97f4a7c15u;
}

/* Fills [from, to) of a block; `from` is a multiple of a word. */
static void pattern_fill_range(
	uintptr_t base, uint64_t seed, size_t from, size_t to)
{
	unsigned char *bytes = (unsigned char *)base;
	size_t i;

	for (i = from / 8; (i + 1) * 8 <= to; i++)
		*(uint64_t *)(base + i * 8) = pattern_word(seed, i);
	for (size_t at = i * 8; at < to; at++)
		bytes[at] = (unsigned char)(pattern_word(seed, i) >>
			(at % 8 * 8));
}

/* Whether [from, to) of a block is as it was filled. */
static bool pattern_holds_range(
	uintptr_t base, uint64_t seed, size_t from, size_t to)
{
	const unsigned char *bytes = (const unsigned char *)base;
	size_t i;

	for (i = from / 8; (i + 1) * 8 <= to; i++)
		if (*(uint64_t *)(base + i * 8) != pattern_word(seed, i))
			return false;
	for (size_t at = i * 8; at < to; at++) {
		uint64_t shifted = pattern_word(seed, i) >> (at % 8 * 8);

		if (bytes[at] != (unsigned char)shifted)
			return false;
	}
	return true;
}

/* Blocks above this are filled in part. */
static size_t sampled(const struct oracle *oracle)
{
	return oracle->sampled ? oracle->sampled : DEFAULT_SAMPLED;
}

/* The bytes of the first and last sample of a block that is filled in part. */
static size_t sample(const struct oracle *oracle)
{
	return size_least(SAMPLE, sampled(oracle)) & ~(size_t)7;
}

/* Fills the block with its pattern. */
static void pattern_fill(
	const struct oracle *oracle, const struct oracle_block *block)
{
	size_t edge = sample(oracle);

	if (block->usable <= sampled(oracle)) {
		pattern_fill_range(block->base, block->seed, 0, block->usable);
		return;
	}
	pattern_fill_range(block->base, block->seed, 0, edge);
	for (size_t at = SAMPLE; at + 8 <= block->usable; at += SAMPLE)
		pattern_fill_range(block->base, block->seed, at, at + 8);
	pattern_fill_range(block->base, block->seed,
		(block->usable - edge) & ~(size_t)7, block->usable);
}

/* Whether the first n bytes at `base` are those of the block when it was
 * filled; `base` is where it is now. */
static bool pattern_holds(const struct oracle *oracle,
	const struct oracle_block *block, uintptr_t base, size_t n)
{
	size_t edge = sample(oracle);

	if (block->usable <= sampled(oracle))
		return pattern_holds_range(base, block->seed, 0, n);
	if (!pattern_holds_range(base, block->seed, 0, size_least(n, edge)))
		return false;
	for (size_t at = SAMPLE; at + 8 <= n; at += SAMPLE)
		if (!pattern_holds_range(base, block->seed, at, at + 8))
			return false;
	return n < block->usable ||
		pattern_holds_range(base, block->seed,
			(block->usable - edge) & ~(size_t)7, block->usable);
}

/* Verifies the contents of a block, where it is. */
static void block_verify(
	struct oracle *oracle, const struct oracle_block *block)
{
	EXPECT(oracle,
		pattern_holds(oracle, block, block->base, block->usable),
		block->base, block->usable);
}

/* Whether [from, to) of the memory at `base` is zero. */
static bool memory_is_zero(uintptr_t base, size_t from, size_t to)
{
	const unsigned char *bytes = (const unsigned char *)base;

	for (; from < to && from % 8; from++)
		if (bytes[from])
			return false;
	for (; from + 8 <= to; from += 8)
		if (*(const uint64_t *)(base + from))
			return false;
	for (; from < to; from++)
		if (bytes[from])
			return false;
	return true;
}

void oracle_begin(struct oracle *oracle, struct fallow *heap,
	struct oracle_block *blocks, size_t max, uint64_t seed)
{
	*oracle = (struct oracle){
		.heap = heap, .blocks = blocks, .max = max, .random = seed
	};
}

/* Notes the call that comes, on `base` if it is about a block. */
static void call_before(struct oracle *oracle, const char *name, uintptr_t base,
	size_t size, unsigned flags)
{
	oracle->operations++;
	oracle->doing = name;
	oracle->doing_base = base;
	oracle->doing_size = size;
	if (oracle->before)
		oracle->before(oracle->arg, flags);
}

static void call_after(struct oracle *oracle)
{
	if (oracle->after)
		oracle->after(oracle->arg);
}

size_t oracle_find(const struct oracle *oracle, uintptr_t base)
{
	size_t low = 0, high = oracle->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (oracle->blocks[middle].base < base)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool oracle_learn(struct oracle *oracle, struct oracle_block block)
{
	size_t at = oracle_find(oracle, block.base);
	struct oracle_block *blocks = oracle->blocks;
	struct oracle_block *before = at > 0 ? &blocks[at - 1] : NULL;

	if (oracle->count == oracle->max)
		return false;
	if (at < oracle->count)
		EXPECT(oracle, blocks[at].base - block.base >= block.usable,
			blocks[at].base, block.base + block.usable);
	if (before)
		EXPECT(oracle, block.base - before->base >= before->usable,
			block.base, before->base + before->usable);
	for (size_t i = oracle->count; i > at; i--)
		blocks[i] = blocks[i - 1];
	blocks[at] = block;
	oracle->count++;
	oracle->live += block.usable;
	oracle->last = block.base;
	return true;
}

struct oracle_block oracle_forget(struct oracle *oracle, size_t index)
{
	struct oracle_block block = oracle->blocks[index];

	oracle->count--;
	oracle->live -= block.usable;
	for (size_t i = index; i < oracle->count; i++)
		oracle->blocks[i] = oracle->blocks[i + 1];
	return block;
}

bool oracle_pass(struct oracle *from, size_t index, struct oracle *to)
{
	if (to->count == to->max)
		return false;
	return oracle_learn(to, oracle_forget(from, index));
}

size_t oracle_last(const struct oracle *oracle)
{
	return oracle_find(oracle, oracle->last);
}

/* The alignment that a block has by its size alone. */
static size_t natural_align(size_t good)
{
	size_t low = good & -good;

	return low < ALIGN_MIN ? ALIGN_MIN : size_least(low, SLICE);
}

/* Checks where a block is, and that all agree about its size. */
static void block_expect(struct oracle *oracle, struct oracle_block *block)
{
	uintptr_t base = block->base;

	EXPECT(oracle, base % block->align == 0, base, block->align);
	EXPECT(oracle, block->usable >= block->size, block->usable,
		block->size);
	EXPECT(oracle, fallow_owns(oracle->heap, (void *)base), base, 0);
	EXPECT(oracle,
		fallow_owns(oracle->heap, (void *)(base + block->usable - 1)),
		base, block->usable);
	if (oracle->window_size)
		EXPECT(oracle,
			base >= oracle->window_base &&
				base + block->usable <=
					oracle->window_base +
						oracle->window_size,
			base, oracle->window_base);
}

/* Notes a NULL for `size` bytes: it must have been allowed. */
static bool null_expect(struct oracle *oracle, size_t size, unsigned flags)
{
	bool allowed = oracle->may_fail || (flags & FALLOW_NOWAIT) ||
		size > FALLOW_SIZE_MAX;

	oracle->nulls++;
	EXPECT(oracle, allowed, 0, size);
	return false;
}

/* Whether there is no room for a block more, and for those of calls that may
 * begin inside of this one. */
static bool full(const struct oracle *oracle)
{
	return oracle->max - oracle->count < 4;
}

/* Checks a new block, fills it and learns it. */
static bool block_new(struct oracle *oracle, void *p, size_t align,
	size_t size, unsigned flags)
{
	struct oracle_block block = {
		.base = launder(p),
		.size = size,
		.align = align,
		.seed = test_random(&oracle->random),
	};

	if (!block.base)
		return null_expect(oracle, size, flags);
	EXPECT(oracle, size <= FALLOW_SIZE_MAX, size, FALLOW_SIZE_MAX);
	block.usable = fallow_usable_size(oracle->heap, p);
	block_expect(oracle, &block);
	if (flags & FALLOW_ZERO)
		EXPECT(oracle, memory_is_zero(block.base, 0, block.usable),
			block.base, block.usable);
	pattern_fill(oracle, &block);
	EXPECT(oracle, oracle_learn(oracle, block), oracle->count, oracle->max);
	return true;
}

/* Checks what only a block of an ordinary allocation promises. */
static bool block_new_plain(
	struct oracle *oracle, void *p, size_t size, unsigned flags)
{
	size_t good = fallow_good_size(size);
	size_t usable;

	if (!block_new(oracle, p, ALIGN_MIN, size, flags))
		return false;
	usable = oracle->blocks[oracle_last(oracle)].usable;
	/* Where memory may run out, what is left may be larger. */
	EXPECT(oracle, usable == good ||
			(usable > good && (oracle->may_fail ||
						  (flags & FALLOW_NOWAIT))),
		usable, good);
	EXPECT(oracle, launder(p) % natural_align(good) == 0, launder(p),
		natural_align(good));
	return true;
}

bool oracle_alloc(struct oracle *oracle, size_t size, unsigned flags)
{
	void *p;

	if (full(oracle))
		return false;
	flags |= oracle->flags;
	call_before(oracle, "alloc", 0, size, flags);
	p = flags ? fallow_alloc_flags(oracle->heap, size, flags) :
		    fallow_alloc(oracle->heap, size);
	call_after(oracle);
	return block_new_plain(oracle, p, size, flags);
}

bool oracle_zalloc(struct oracle *oracle, size_t size)
{
	void *p;

	if (full(oracle))
		return false;
	call_before(oracle, "zalloc", 0, size, FALLOW_ZERO);
	p = fallow_zalloc(oracle->heap, size);
	call_after(oracle);
	return block_new_plain(oracle, p, size, FALLOW_ZERO);
}

bool oracle_calloc(struct oracle *oracle, size_t count, size_t size)
{
	void *p;

	if (full(oracle))
		return false;
	call_before(oracle, "calloc", 0, count * size, FALLOW_ZERO);
	p = fallow_calloc(oracle->heap, count, size);
	call_after(oracle);
	if (size && count > SIZE_MAX / size) {
		EXPECT(oracle, launder(p) == 0, launder(p), 0);
		return false;
	}
	return block_new_plain(oracle, p, count * size, FALLOW_ZERO);
}

bool oracle_adopt(struct oracle *oracle, void *p, size_t size, unsigned flags)
{
	return block_new_plain(oracle, p, size, flags);
}

bool oracle_aligned(
	struct oracle *oracle, size_t align, size_t size, unsigned flags)
{
	void *p;

	if (full(oracle))
		return false;
	flags |= oracle->flags;
	call_before(oracle, "alloc_aligned", 0, size, flags);
	p = flags ? fallow_alloc_aligned_flags(
			    oracle->heap, align, size, flags) :
		    fallow_alloc_aligned(oracle->heap, align, size);
	call_after(oracle);
	return block_new(
		oracle, p, align < ALIGN_MIN ? ALIGN_MIN : align, size, flags);
}

bool oracle_realloc(
	struct oracle *oracle, size_t index, size_t size, unsigned flags)
{
	/* Not known meanwhile: what runs inside must not touch it. */
	struct oracle_block old = oracle_forget(oracle, index);
	struct oracle_block block = old;
	size_t kept = size_least(old.size, size);
	void *p;

	flags |= oracle->flags;
	block_verify(oracle, &old);
	call_before(oracle, "realloc", old.base, size, flags);
	p = flags ? fallow_realloc_flags(
			    oracle->heap, (void *)old.base, size, flags) :
		    fallow_realloc(oracle->heap, (void *)old.base, size);
	call_after(oracle);
	block.base = launder(p);
	if (!block.base) {
		block_verify(oracle, &old);
		EXPECT(oracle, oracle_learn(oracle, old), oracle->count,
			oracle->max);
		return null_expect(oracle, size, flags);
	}
	block.size = size;
	block.usable = fallow_usable_size(oracle->heap, p);
	block_expect(oracle, &block);
	EXPECT(oracle, pattern_holds(oracle, &old, block.base, kept),
		block.base, kept);
	if (flags & FALLOW_ZERO)
		EXPECT(oracle,
			memory_is_zero(block.base, old.usable, block.usable),
			block.base, old.usable);
	block.seed = test_random(&oracle->random);
	pattern_fill(oracle, &block);
	EXPECT(oracle, oracle_learn(oracle, block), oracle->count, oracle->max);
	return true;
}

void oracle_free(struct oracle *oracle, size_t index)
{
	struct oracle_block block = oracle_forget(oracle, index);

	block_verify(oracle, &block);
	call_before(oracle, "free", block.base, block.size, 0);
	fallow_free(oracle->heap, (void *)block.base);
	call_after(oracle);
}

void oracle_free_sized(struct oracle *oracle, size_t index)
{
	struct oracle_block block = oracle_forget(oracle, index);

	block_verify(oracle, &block);
	call_before(oracle, "free_sized", block.base, block.size, 0);
	fallow_free_sized(oracle->heap, (void *)block.base, block.size);
	call_after(oracle);
}

void *oracle_release(struct oracle *oracle, size_t index)
{
	struct oracle_block block = oracle_forget(oracle, index);

	block_verify(oracle, &block);
	return (void *)block.base;
}

/* Returns a random number below n, which is not 0. */
static size_t random_below(struct oracle *oracle, size_t n)
{
	return test_random(&oracle->random) % n;
}

/* Returns a size: each doubling is as likely as the next, small ones twice as
 * much, and sizes at the edge of a doubling often. */
static size_t random_size(struct oracle *oracle)
{
	size_t max = oracle->size_max ? oracle->size_max : DEFAULT_SIZE_MAX;
	size_t bits = 1, size;

	while (bits < 63 && (max >> bits))
		bits++;
	bits = size_least(random_below(oracle, bits + 1),
		random_below(oracle, bits + 1));
	size = (size_t)1 << bits;
	switch (random_below(oracle, 8)) {
	case 0:
		break;
	case 1:
		size--;
		break;
	case 2:
		size++;
		break;
	default:
		size += random_below(oracle, size);
		break;
	}
	return size_least(size, max);
}

/* Returns an alignment, small ones more likely. */
static size_t random_align(struct oracle *oracle)
{
	size_t max = oracle->align_max ? oracle->align_max : DEFAULT_ALIGN_MAX;
	size_t bits = 1;

	while (bits < 63 && (max >> bits))
		bits++;
	return (size_t)1 << size_least(
		       random_below(oracle, bits), random_below(oracle, bits));
}

/* Returns flags: mostly none. */
static unsigned random_flags(struct oracle *oracle)
{
	static const unsigned some[] = { FALLOW_ZERO, FALLOW_NOWAIT,
		FALLOW_NORECLAIM, FALLOW_ZERO | FALLOW_NOWAIT };

	if (random_below(oracle, 4))
		return 0;
	return some[random_below(oracle, 4)];
}

/* One random allocation. */
static void step_alloc(struct oracle *oracle)
{
	size_t size = random_size(oracle);

	switch (random_below(oracle, 8)) {
	case 0:
		oracle_zalloc(oracle, size);
		break;
	case 1: {
		size_t count = random_below(oracle, 20) + 1;

		oracle_calloc(oracle, count, size / count);
		break;
	}
	case 2:
	case 3:
		oracle_aligned(oracle, random_align(oracle), size,
			random_flags(oracle));
		break;
	default:
		oracle_alloc(oracle, size, random_flags(oracle));
		break;
	}
}

/* One random operation on a random block. */
static void step_block(struct oracle *oracle, bool shrink)
{
	size_t index = random_below(oracle, oracle->count);
	size_t size = oracle->blocks[index].size;

	switch (random_below(oracle, shrink ? 4 : 8)) {
	case 0:
		oracle_free_sized(oracle, index);
		break;
	case 4:
		oracle_realloc(oracle, index, random_size(oracle),
			random_flags(oracle));
		break;
	case 5:
		oracle_realloc(oracle, index, size + random_below(oracle, 33),
			random_flags(oracle));
		break;
	case 6:
		oracle_realloc(oracle, index, size - size / 4,
			random_flags(oracle));
		break;
	default:
		oracle_free(oracle, index);
		break;
	}
}

void oracle_step(struct oracle *oracle)
{
	size_t volume = oracle->volume ? oracle->volume : DEFAULT_VOLUME;
	bool shrink = full(oracle) || oracle->live > volume;

	if (oracle->count && (shrink || random_below(oracle, 2)))
		step_block(oracle, shrink);
	else
		step_alloc(oracle);
}

void oracle_shrink(struct oracle *oracle, size_t count)
{
	while (oracle->count > count)
		step_block(oracle, true);
}

void oracle_verify(struct oracle *oracle)
{
	for (size_t i = 0; i < oracle->count; i++)
		block_verify(oracle, &oracle->blocks[i]);
}
