/* SPDX-License-Identifier: MIT */
/*
 * A walk at random over 512 MiB of small blocks: what huge pages are for.
 *
 * The blocks are the cells of one ring in an order that has nothing to do with
 * where they are.  With mappings of 4 KiB nearly every step misses the TLB; with
 * huge pages few do.  An allocator that has them made later, of what stays in
 * use, is waited for first: until the kernel tells of no more of them for a
 * while.  Then the ring is walked again and again, and a lap takes what the
 * median of them took, in CPU time of the thread: what else the machine does
 * disturbs some laps, not all.
 *
 * Notes the lap's time a step (picoseconds), what is in huge pages, and what is
 * resident while all is in use; at the end one block in ten still is.
 */
#include "bench.h"

#include <time.h>

#define BLOCKS ((size_t)512 << 10)
#define SIZE ((size_t)1 << 10)
#define LAPS 41
#define LEFT 10
/* Without a change for so long: several times as long as what is in use has to
 * stay so before somebody may call it lasting. */
#define REST_MS 3000
#define LOOK_MS 50
#define REST_LEAST_MS (2 * LOOK_MS)
/* Whatever else the machine does. */
#define REST_MOST_MS 60000

/* A block: its mark, and the next in the ring.  The mark's last byte is behind
 * both. */
struct cell {
	uint64_t mark;
	struct cell *next;
};
_Static_assert(sizeof(struct cell) < SIZE, "the last byte is the mark's");

static struct bench_block *blocks;

/* Takes n blocks and makes them a ring, by the order of a shuffled table. */
static void ring_make(size_t n)
{
	struct cell **order = bench_pages(n * sizeof(order[0]));
	uint64_t random = BENCH_SEED;
	size_t i;

	bench_own(order, n * sizeof(order[0]));
	for (i = 0; i < n; i++) {
		size_t at = bench_below(&random, i + 1);

		blocks[i].size = SIZE;
		blocks[i].p = bench_alloc(SIZE);
		order[i] = order[at];
		order[at] = blocks[i].p;
	}
	for (i = 0; i < n; i++)
		order[i]->next = order[(i + 1) % n];
}

/* Waits until there are no more huge pages than a while ago; returns how much is
 * in them. */
static uint64_t huge_rest(unsigned rest_ms)
{
	uint64_t huge = bench_huge();
	unsigned waited, still = 0;

	for (waited = 0; still < rest_ms && waited < REST_MOST_MS;
		waited += LOOK_MS) {
		uint64_t before = huge;

		bench_sleep(LOOK_MS * 1000);
		huge = bench_huge();
		still = huge == before ? still + LOOK_MS : 0;
	}
	return huge;
}

/* CPU time of this thread. */
static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Walks the ring once; returns how long it took. */
static uint64_t lap_ns(struct cell *first, size_t n)
{
	uint64_t begin = now_ns();
	struct cell *cell = first;
	size_t i;

	for (i = 0; i < n; i++)
		cell = cell->next;
	if (cell != first)
		bench_fail("the ring is broken");
	return now_ns() - begin;
}

/* Laps of a warm ring; returns the median. */
static uint64_t laps_walk(struct cell *first, size_t n)
{
	uint64_t laps[LAPS];
	unsigned lap, at;

	lap_ns(first, n);
	for (lap = 0; lap < LAPS; lap++) {
		uint64_t ns = lap_ns(first, n);

		for (at = lap; at > 0 && laps[at - 1] > ns; at--)
			laps[at] = laps[at - 1];
		laps[at] = ns;
	}
	return laps[LAPS / 2];
}

static uint64_t huge_run(unsigned percent)
{
	size_t n = bench_part(BLOCKS, percent);
	unsigned rest_ms = (unsigned)bench_part(REST_MS, percent);
	uint64_t lap;

	blocks = bench_pages(n * sizeof(blocks[0]));
	bench_own(blocks, n * sizeof(blocks[0]));
	ring_make(n);
	bench_note("huge", huge_rest(rest_ms > REST_LEAST_MS ? rest_ms
							     : REST_LEAST_MS));
	bench_note("full", bench_resident());
	lap = laps_walk(blocks[0].p, n);
	bench_note("step_ps", lap * 1000 / n);
	bench_live(bench_thin(blocks, n, LEFT));
	return (LAPS + 1) * n;
}

const struct bench bench = { .name = "huge", .run = huge_run, .paced = true };
