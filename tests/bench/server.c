/* SPDX-License-Identifier: MIT */
/*
 * A server after a burst: the second scenario of make bench-return over plain
 * malloc(), in a hurry.
 *
 * 128 MiB of blocks come and go.  Then there are requests with pauses between
 * them, each of which takes four buffers of 256 KiB and 200 small blocks and
 * gives all of it back.  What is resident between requests is what the burst
 * left behind; page faults in requests are what it costs to have given back
 * too much.
 */
#include "bench.h"

#define BURST (128u << 20)
#define BURST_BLOCKS 60000
#define REQUESTS 100
#define PAUSE_US 4000
#define BUFFERS 4
#define BUFFER (256u << 10)
#define SMALL 200
/* What the server holds all the time. */
#define HELD 20000

static struct bench_block burst[BURST_BLOCKS];
static struct bench_block held[HELD];

static uint64_t burst_run(uint64_t *random, uint64_t most)
{
	uint64_t bytes = 0;
	uint64_t n;

	for (n = 0; n < BURST_BLOCKS && bytes < most; n++) {
		bench_replace(&burst[n], bench_size(random, 32, 10));
		bench_touch(burst[n].p, burst[n].size);
		bytes += burst[n].size;
	}
	bench_thin(burst, n, 0);
	return 2 * n;
}

static void request_serve(uint64_t *random)
{
	struct bench_block buffers[BUFFERS] = { 0 }, small[SMALL] = { 0 };
	unsigned i;

	for (i = 0; i < BUFFERS; i++) {
		bench_replace(&buffers[i], BUFFER);
		bench_touch(buffers[i].p, BUFFER);
	}
	for (i = 0; i < SMALL; i++)
		bench_replace(&small[i], bench_size(random, 16, 6));
	bench_thin(small, SMALL, 0);
	bench_thin(buffers, BUFFERS, 0);
}

static uint64_t server_run(unsigned percent)
{
	uint64_t requests = bench_part(REQUESTS, percent);
	uint64_t random = BENCH_SEED;
	uint64_t bytes = 0;
	uint64_t operations, faults, i;

	bench_own(burst, sizeof(burst));
	bench_own(held, sizeof(held));
	for (i = 0; i < HELD; i++) {
		bench_replace(&held[i], bench_size(&random, 32, 4));
		bytes += held[i].size;
	}
	operations = burst_run(&random, bench_part(BURST, percent));
	faults = bench_faults();
	for (i = 0; i < requests; i++) {
		bench_sleep(PAUSE_US);
		request_serve(&random);
	}
	bench_note("request_faults", bench_faults() - faults);
	bench_note("requests", requests);
	bench_live(bytes);
	return operations + 2 * requests * (BUFFERS + SMALL);
}

const struct bench bench = { .name = "server",
	.run = server_run,
	.paced = true };
