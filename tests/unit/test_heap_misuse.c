/* SPDX-License-Identifier: MIT */
/*
 * Misuse at random in the middle of random use: each bad call is reported once,
 * with a kind that fits, returns what misuse returns, and changes nothing that
 * the oracle can see.  What each single crime's report says is in tests/misuse.
 */
#include "sim_rig.h"
#include "test.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

/* Addresses of blocks freed lately. */
#define FREED 64

static uintptr_t freed[FREED];
static unsigned freed_count;

static uint64_t random_state;

static size_t random_below(size_t n)
{
	return test_random(&random_state) % n;
}

/* Returns the block that the address is in, or NULL. */
static const struct oracle_block *block_at(
	const struct oracle *oracle, uintptr_t addr)
{
	for (size_t i = 0; i < oracle->count; i++)
		if (addr - oracle->blocks[i].base < oracle->blocks[i].usable)
			return &oracle->blocks[i];
	return NULL;
}

/* Calls one function that takes a block with `addr`; checks that it says it
 * did nothing. */
static void call_with(struct rig *rig, uintptr_t addr)
{
	void *p = (void *)addr;

	switch (random_below(4)) {
	case 0:
		fallow_free(&rig->heap, p);
		break;
	case 1:
		fallow_free_sized(&rig->heap, p, 100);
		break;
	case 2:
		CHECK(fallow_realloc(&rig->heap, p, 3000) == NULL);
		break;
	default:
		CHECK_EQUAL(fallow_usable_size(&rig->heap, p), 0);
		break;
	}
}

/* Calls with an address that is no block's and expects one report about it. */
static void misuse(struct rig *rig, uintptr_t addr)
{
	const struct oracle_block *block = block_at(&rig->oracle, addr);

	if (!addr || (block && block->base == addr))
		return;
	call_with(rig, addr);
	rig->misuses_expected++;
	CHECK_EQUAL(rig->misuses, rig->misuses_expected);
	CHECK_EQUAL(rig->misuse.address, addr);
	if (block) {
		CHECK_EQUAL(rig->misuse.kind, FALLOW_MISUSE_INTERIOR);
		CHECK_EQUAL(rig->misuse.block, block->base);
		CHECK_EQUAL(rig->misuse.block_size, block->usable);
	} else if (addr - rig->sim.base >= rig->sim.size) {
		CHECK_EQUAL(rig->misuse.kind, FALLOW_MISUSE_FOREIGN);
		CHECK_EQUAL(rig->misuse.block, 0);
	} else {
		CHECK(rig->misuse.kind == FALLOW_MISUSE_DOUBLE_FREE ||
			rig->misuse.kind == FALLOW_MISUSE_FOREIGN ||
			rig->misuse.kind == FALLOW_MISUSE_UNFORMED ||
			rig->misuse.kind == FALLOW_MISUSE_INTERIOR);
	}
	rig->misuses = rig->misuses_expected;
}

/* A sized free of a block with a size that it cannot have. */
static void wrong_size(struct rig *rig)
{
	struct oracle *oracle = &rig->oracle;
	const struct oracle_block *block =
		&oracle->blocks[random_below(oracle->count)];
	size_t given = block->usable + 1 + random_below(100000);

	fallow_free_sized(&rig->heap, (void *)block->base, given);
	rig->misuses_expected++;
	CHECK_EQUAL(rig->misuses, rig->misuses_expected);
	CHECK_EQUAL(rig->misuse.kind, FALLOW_MISUSE_WRONG_SIZE);
	CHECK_EQUAL(rig->misuse.address, block->base);
	CHECK_EQUAL(rig->misuse.given_size, given);
	CHECK_EQUAL(rig->misuse.block_size, block->usable);
}

/* Frees a block and remembers where it was. */
static void free_and_note(struct rig *rig)
{
	struct oracle *oracle = &rig->oracle;
	size_t index = random_below(oracle->count);

	freed[freed_count++ % FREED] = oracle->blocks[index].base;
	oracle_free(oracle, index);
}

/* One crime of a random sort. */
static void crime(struct rig *rig)
{
	struct oracle *oracle = &rig->oracle;
	const struct oracle_block *block =
		&oracle->blocks[random_below(oracle->count)];

	switch (random_below(6)) {
	case 0:
		misuse(rig, block->base + random_below(block->usable));
		break;
	case 1:
		misuse(rig, block->base +
			(random_below(block->usable) & ~(size_t)15));
		break;
	case 2:
		free_and_note(rig);
		misuse(rig, freed[random_below(FREED)]);
		break;
	case 3:
		misuse(rig, rig->sim.base + random_below(rig->sim.size));
		break;
	case 4:
		misuse(rig, (uintptr_t)test_random(&random_state));
		break;
	default:
		wrong_size(rig);
		break;
	}
}

static void run(enum fallow_provider_class class, size_t size_max)
{
	struct rig *rig = rig_begin(class, 32 * MIB, 1);

	random_state = test_seed;
	freed_count = 0;
	for (unsigned i = 0; i < FREED; i++)
		freed[i] = 0;
	rig->oracle.size_max = size_max;
	rig->oracle.volume = 6 * MIB;
	rig->oracle.max = 400;
	for (unsigned i = 1; i <= 8000 && !test_failures(); i++) {
		oracle_step(&rig->oracle);
		if (rig->oracle.count)
			crime(rig);
		if (i % 250 == 0)
			rig_check(rig);
		if (i % 999 == 0)
			fallow_collect(&rig->heap);
	}
	rig_end(rig);
}

static void test_misuse_of_all_kinds(void)
{
	run(FALLOW_CLASS_WINDOW, MIB);
}

static void test_misuse_of_small(void)
{
	run(FALLOW_CLASS_WINDOW, 200);
}

static void test_misuse_of_medium(void)
{
	run(FALLOW_CLASS_WINDOW, 60 * KIB);
}

static void test_misuse_direct(void)
{
	run(FALLOW_CLASS_DIRECT, MIB);
}

static void test_misuse_flat(void)
{
	run(FALLOW_CLASS_FLAT, 200 * KIB);
}

const struct test tests[] = {
	{ "misuse_of_all_kinds", test_misuse_of_all_kinds },
	{ "misuse_of_small", test_misuse_of_small },
	{ "misuse_of_medium", test_misuse_of_medium },
	{ "misuse_direct", test_misuse_direct },
	{ "misuse_flat", test_misuse_flat },
	{ NULL, NULL },
};
