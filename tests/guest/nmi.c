/* SPDX-License-Identifier: MIT */
/*
 * Frees from interrupts that no mask keeps away.
 *
 * Every CPU allocates and frees all the time, and sends such interrupts to
 * others and itself, so that they come between any two instructions of a call,
 * under any lock.  Their handler takes blocks that the CPUs have put into slots
 * for it, and blocks of a token of its own, and defers them.  In pauses, when
 * every interrupt that was sent has been served, the heap is checked; at the
 * end every block has come back.
 *
 * It goes on until enough of them have hit a CPU inside of a call.  With one
 * CPU they come where they are sent, and that is not asked for.
 */
#include <fallow/fallow.h>

#include "board.h"
#include "meet.h"
#include "test.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

#define BLOCKS 64
#define SLOTS 16
#define TOKEN_BLOCKS 200
#define TOKEN_SIZE 700
/* Steps between pauses; interrupts that have to hit a call. */
#define STEPS (2000 / board_cpus())
#define HITS 60

struct cpu {
	uint64_t random;
	/* Whether the CPU is inside a call; whether it was when it was hit. */
	uint32_t inside, hits;
	uint32_t sent, served;
	uint32_t deferred;
	uint64_t *blocks[BLOCKS];
	uint64_t *slots[SLOTS];
	struct fallow_token token;
} __attribute__((aligned(64)));

static struct cpu cpus[BOARD_CPUS_MAX];
static struct fallow heap;
static uint32_t over, broken, misuses;

static void misuse(void *ctx, const struct fallow_misuse *report)
{
	(void)ctx;
	if (test_add(&misuses, 1) == 0)
		test_printf("\n    misuse: %s",
			fallow_misuse_text(report->kind));
}

static uint64_t draw(struct cpu *cpu, uint64_t below)
{
	return test_random(&cpu->random) % below;
}

/* A block says where it is and how large. */
static void stamp(uint64_t *block, size_t size)
{
	block[0] = size;
	block[size / 8 - 1] = (uintptr_t)block ^ size;
}

static void stamp_check(const uint64_t *block)
{
	if (block[block[0] / 8 - 1] != ((uintptr_t)block ^ block[0]))
		test_add(&broken, 1);
}

/* Runs in the NMI: of the CPU that it hits, a slot and the token. */
static void hit(void *arg)
{
	struct cpu *cpu = arg;
	uint32_t served = cpu->served;
	uint64_t *block = __atomic_exchange_n(
		&cpu->slots[served % SLOTS], NULL, __ATOMIC_ACQUIRE);

	cpu->hits += cpu->inside;
	if (block != NULL) {
		stamp_check(block);
		fallow_free_deferred(&heap, block);
		cpu->deferred++;
	}
	block = fallow_alloc_from(&cpu->token);
	if (block != NULL) {
		stamp(block, TOKEN_SIZE & ~(size_t)7);
		stamp_check(block);
		fallow_free_deferred(&heap, block);
		cpu->deferred++;
	}
	test_store(&cpu->served, served + 1);
}

/* A block for one that is in use, which is freed or left to an NMI. */
static void step(struct cpu *cpu)
{
	size_t size = 16 + ((draw(cpu, 200) << draw(cpu, 11)) & ~(size_t)7);
	uint64_t **place = &cpu->blocks[draw(cpu, BLOCKS)];
	uint64_t *block = fallow_alloc(&heap, size);
	uint64_t *old = *place;

	if (block != NULL)
		stamp(block, size);
	*place = block;
	if (old == NULL)
		return;
	stamp_check(old);
	if (draw(cpu, 2))
		old = __atomic_exchange_n(&cpus[draw(cpu, board_cpus())]
						   .slots[draw(cpu, SLOTS)],
			old, __ATOMIC_ACQ_REL);
	/* So that pushes, too, are what is hit. */
	if (draw(cpu, 2))
		fallow_free(&heap, old);
	else
		fallow_free_deferred(&heap, old);
}

static void steps(struct cpu *cpu)
{
	for (unsigned i = 0; i < STEPS; i++) {
		unsigned to = (unsigned)draw(cpu, board_cpus());

		__atomic_store_n(&cpu->inside, 1, __ATOMIC_RELAXED);
		step(cpu);
		if (draw(cpu, 512) == 0)
			fallow_collect(&heap);
		else if (draw(cpu, 128) == 0)
			fallow_park(&heap);
		__atomic_store_n(&cpu->inside, 0, __ATOMIC_RELAXED);
		if (draw(cpu, 4) == 0 && board_nmi(to, hit, &cpus[to]))
			test_add(&cpus[to].sent, 1);
	}
}

/* What CPU 0 does while the others wait, and no NMI is on its way. */
static void look(void)
{
	uint32_t hits = 0;
	const char *sentence;

	for (unsigned i = 0; i < board_cpus(); i++) {
		while (test_load(&cpus[i].served) != test_load(&cpus[i].sent))
			__asm__ volatile("" ::: "memory");
		hits += cpus[i].hits;
		CHECK(fallow_prefill(&heap, &cpus[i].token, TOKEN_SIZE,
			TOKEN_BLOCKS, 0));
	}
	sentence = fallow_check(&heap, NULL);
	if (sentence != NULL)
		test_printf("\n    broken: %s", sentence);
	CHECK(sentence == NULL);
	CHECK_EQUAL(broken, 0);
	CHECK_EQUAL(misuses, 0);
	over = hits >= HITS || board_cpus() == 1 || test_failures() > 0;
}

static void run(void *arg)
{
	struct cpu *cpu = &cpus[board_cpu()];

	(void)arg;
	do {
		steps(cpu);
		test_meet();
		if (cpu == &cpus[0])
			look();
		test_meet();
	} while (!test_load(&over));
}

/* Every block of a CPU comes back. */
static void give_back(struct cpu *cpu)
{
	for (unsigned i = 0; i < BLOCKS; i++)
		fallow_free(&heap, cpu->blocks[i]);
	for (unsigned i = 0; i < SLOTS; i++)
		fallow_free_deferred(&heap, cpu->slots[i]);
	fallow_unfill(&heap, &cpu->token);
}

static void nothing(void *arg)
{
	(void)arg;
}

static void test_nmi_defers(void)
{
	struct fallow_snapshot now = { .size = sizeof(now) };
	struct fallow_config config = {
		.size = sizeof(config),
		.provider = board_provider(),
		.window_base = board_window_base(),
		.window_size = board_window_size(),
		.contexts = BOARD_CPUS_MAX,
		.misuse = misuse,
	};
	uint32_t deferred = 0;

	if (!board_nmi(board_cpu(), nothing, NULL)) {
		test_skip("the machine has no such interrupt");
		return;
	}
	CHECK_EQUAL(fallow_init(&heap, &config), FALLOW_OK);
	CHECK_EQUAL(fallow_add_region(
			    &heap, config.window_base, config.window_size),
		FALLOW_OK);
	for (unsigned i = 0; i < board_cpus(); i++) {
		cpus[i].random = test_seed * 31 + i;
		CHECK(fallow_prefill(&heap, &cpus[i].token, TOKEN_SIZE,
			TOKEN_BLOCKS, 0));
	}
	board_run(run, NULL);
	for (unsigned i = 0; i < board_cpus(); i++) {
		deferred += cpus[i].deferred;
		give_back(&cpus[i]);
	}
	CHECK(deferred > 0);
	fallow_collect(&heap);
	fallow_snapshot(&heap, &now);
	CHECK_EQUAL(now.blocks, 0);
	CHECK_EQUAL(now.live, 0);
	CHECK_EQUAL(now.deferred, 0);
	CHECK(fallow_check(&heap, NULL) == NULL);
	fallow_fini(&heap);
}

const struct test tests[] = {
	{ "nmi_defers", test_nmi_defers },
	{ NULL, NULL },
};
