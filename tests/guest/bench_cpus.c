/* SPDX-License-Identifier: MIT */
/*
 * Whether several CPUs cost each other instructions.
 *
 * Under -icount all CPUs take turns in one thread of the host, and the clock is
 * the number of instructions that they execute together.  None of them is idle
 * while it is measured: each works from the begin, and CPU 0 reads clock and
 * everybody's count of operations twice, with work in between.  So clock over
 * operations is what an operation costs, and the same on every machine.
 *
 * An operation is an allocation and a free.  Own pages: of sizes and in an
 * order drawn at random, by the same CPU.  Producer and consumer: blocks go
 * through a ring to the next CPU, which frees them; with one CPU, to itself.
 */
#include <fallow/fallow.h>

#include "arch.h"
#include "board.h"
#include "test.h"

#define SLOTS 64
#define RING 1024
/* Operations of CPU 0: before it measures, and while. */
#define WARM 20000
#define MEASURED 40000
/* How many operations a CPU does before another has its turn. */
#define TURN 32

struct worker {
	void *slots[SLOTS];
	uint64_t random;
	uint64_t operations;
	/* Blocks for this CPU: written at `in`, read at `out`. */
	void *ring[RING];
	uint64_t in, out;
} __attribute__((aligned(64)));

static struct fallow heap;
static struct worker workers[BOARD_CPUS_MAX];
static unsigned working;
static bool stop;
static uint64_t hundredths;

static size_t size_draw(struct worker *worker)
{
	return 16 + test_random(&worker->random) % 1000;
}

/* Replaces the block in a slot drawn at random. */
static void own_step(struct worker *worker)
{
	void **slot = &worker->slots[test_random(&worker->random) % SLOTS];

	fallow_free(&heap, *slot);
	*slot = fallow_alloc(&heap, size_draw(worker));
	worker->operations++;
}

/* Frees what has come, one block, and sends one to the next CPU. */
static void ring_step(struct worker *worker)
{
	unsigned number = (unsigned)(worker - workers);
	struct worker *next = &workers[(number + 1) % working];
	uint64_t in = next->in;
	void *p;

	/* Each pairs with the other's release. */
	if (in - __atomic_load_n(&next->out, __ATOMIC_ACQUIRE) < RING) {
		p = fallow_alloc(&heap, size_draw(worker));
		next->ring[in % RING] = p;
		__atomic_store_n(&next->in, in + 1, __ATOMIC_RELEASE);
	}
	if (__atomic_load_n(&worker->in, __ATOMIC_ACQUIRE) != worker->out) {
		fallow_free(&heap, worker->ring[worker->out % RING]);
		__atomic_store_n(
			&worker->out, worker->out + 1, __ATOMIC_RELEASE);
		worker->operations++;
	} else {
		fl_port_pause();
	}
}

static uint64_t operations(void)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < working; i++)
		sum += __atomic_load_n(
			&workers[i].operations, __ATOMIC_RELAXED);
	return sum;
}

/* So many operations, the others' turns in between. */
static void work(struct worker *worker, void (*step)(struct worker *),
	uint64_t until)
{
	while (worker->operations < until) {
		step(worker);
		if (worker->operations % TURN == 0)
			fl_port_pause();
	}
}

static void cpu_run(void *arg)
{
	void (*step)(struct worker *) = *(void (**)(struct worker *))arg;
	struct worker *worker = &workers[board_cpu()];
	uint64_t ticks, before;

	if (board_cpu() != 0) {
		while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
			work(worker, step, worker->operations + TURN);
		return;
	}
	work(worker, step, WARM);
	before = operations();
	ticks = board_ticks();
	work(worker, step, WARM + MEASURED);
	ticks = board_ticks() - ticks;
	hundredths = ticks * 100 / (operations() - before);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
}

/* Frees whatever is in slots and rings. */
static void workers_end(void)
{
	for (unsigned i = 0; i < BOARD_CPUS_MAX; i++) {
		struct worker *worker = &workers[i];

		for (unsigned j = 0; j < SLOTS; j++)
			fallow_free(&heap, worker->slots[j]);
		for (; worker->out != worker->in; worker->out++)
			fallow_free(&heap,
				worker->ring[worker->out % RING]);
	}
}

/* Hundredths of instructions an operation on the first n CPUs, all the others
 * of which wait for interrupts. */
static uint64_t measure(void (*step)(struct worker *), unsigned n)
{
	struct fallow_config config = {
		.size = sizeof(config),
		.provider = board_provider(),
		.window_base = board_window_base(),
		.window_size = board_window_size(),
		.contexts = board_cpus(),
	};

	CHECK_EQUAL(fallow_init(&heap, &config), FALLOW_OK);
	CHECK_EQUAL(fallow_add_region(
			    &heap, config.window_base, config.window_size),
		FALLOW_OK);
	for (unsigned i = 0; i < BOARD_CPUS_MAX; i++)
		workers[i] = (struct worker){ .random = test_seed + i };
	working = n;
	stop = false;
	if (n == 1)
		cpu_run(&step);
	else
		board_run(cpu_run, &step);
	workers_end();
	CHECK(fallow_check(&heap, NULL) == NULL);
	fallow_fini(&heap);
	return hundredths;
}

/* Says what both cost, and that several CPUs are within `percent` of one. */
static void compare(const char *what, void (*step)(struct worker *),
	unsigned percent)
{
	unsigned n = board_cpus();
	uint64_t one = measure(step, 1);
	uint64_t many = measure(step, n);

	test_printf("\ncpus: %s, 1 CPU %lu.%02lu, %u CPUs %lu.%02lu\n", what,
		(unsigned long)one / 100, (unsigned long)one % 100, n,
		(unsigned long)many / 100, (unsigned long)many % 100);
	CHECK(many * 100 <= one * percent);
	/* All of them worked: an operation cannot be this cheap. */
	CHECK(many * 100 > one * 90);
}

static void test_bench_own_pages(void)
{
	compare("own pages", own_step, 103);
}

static void test_bench_producer_consumer(void)
{
	/* Twice what it is without another CPU, which is a hot pair: each of
	 * the consumer's frees is an exchange of the page's word. */
	compare("producer and consumer", ring_step, 225);
}

const struct test tests[] = {
	{ "bench_own_pages", test_bench_own_pages },
	{ "bench_producer_consumer", test_bench_producer_consumer },
	{ NULL, NULL },
};
