/* SPDX-License-Identifier: MIT */
/*
 * The request server (returns.h): a burst that is over, then a few requests a
 * second for which little memory is enough, then none.
 *
 * What goes back between two requests has to be committed again for the next;
 * what does not is kept for nothing.  The floor is the way out, and this is
 * what it is measured by.
 *
 * The flat floor, which others have, is made out of the heap's own: before each
 * sweep everything that is not held becomes equally old, so that the floor
 * covers what it meets first, and never drains.  For that the inside of the
 * heap is looked into.
 */
#include "returns.h"

#include "heap.h"
#include "test.h"

#define BUFFERS 4
#define SMALLS 200
#define SMALL_BYTES 512
#define FLAT_BYTES ((size_t)8 << 20)
/* What is older than that becomes as old; younger is what the hold covers. */
#define FLAT_AGE 2

/* The same for a chunk. */
static void chunk_flatten(struct chunk *chunk, uint32_t epoch)
{
	uint32_t slices = chunk->warm;
	uint32_t heads = chunk->heads;

	for (; slices != 0; slices &= slices - 1) {
		uint16_t *stamp = &chunk->stamp[__builtin_ctz(slices)];

		if (((epoch - *stamp) & STAMP_EPOCHS) > FLAT_AGE)
			*stamp = (uint16_t)((epoch - FLAT_AGE) & STAMP_EPOCHS);
	}
	for (; heads != 0; heads &= heads - 1) {
		struct page *page = &chunk->records[__builtin_ctz(heads)];

		if ((uint16_t)(epoch - page->epoch) > FLAT_AGE)
			page->epoch = (uint16_t)(epoch - FLAT_AGE);
	}
}

void test_returns_flatten(struct returns *r)
{
	struct heap *heap = heap_of(&r->heap);
	size_t i;

	for (i = 0; i < heap->chunk_count; i++)
		if (heap->chunks[i] != NULL)
			chunk_flatten(heap->chunks[i], heap->epoch);
}

/* Allocates blocks of a request's and of many other sizes until so many bytes
 * are live, and frees them all. */
static void server_burst(struct returns *r, const struct returns_server *server)
{
	size_t most = server->burst / 2000 + 16;
	struct returns_block *blocks = test_returns_scratch(
		r, most * sizeof(*blocks));
	uint64_t begin = r->now;
	size_t n = 0;
	size_t i;

	while (r->live < server->burst && n < most && r->failed == 0) {
		/* About half of the bytes are buffers. */
		bool buffer = test_returns_below(
				      r, server->buffer / 4096) < 2;

		blocks[n].size = buffer ? server->buffer : test_returns_size(r);
		blocks[n].p = test_returns_alloc(r, blocks[n].size);
		test_returns_busy(r, begin, r->live, server->burst);
		if (++n % (most / 64) == 0)
			test_returns_sample(r);
	}
	begin = r->now;
	for (i = 0; i < n; i++) {
		test_returns_free(r, blocks[i].p, blocks[i].size);
		test_returns_busy(r, begin, i, n);
		if (i % (most / 64) == 0)
			test_returns_sample(r);
	}
}

static void server_request(
	struct returns *r, const struct returns_server *server)
{
	static struct returns_block blocks[BUFFERS + SMALLS];
	unsigned i;

	for (i = 0; i < BUFFERS + SMALLS; i++) {
		blocks[i].size = i < BUFFERS ? server->buffer :
			16 + test_returns_below(r, SMALL_BYTES - 15);
		blocks[i].p = test_returns_alloc(r, blocks[i].size);
	}
	test_returns_sample(r);
	for (i = 0; i < BUFFERS + SMALLS; i++)
		test_returns_free(r, blocks[i].p, blocks[i].size);
}

/* The requests: those of a second come one after the other at equal times. */
static void server_serve(struct returns *r,
	const struct returns_server *server,
	struct returns_server_result *result)
{
	uint64_t begin = r->now;
	unsigned i;

	for (i = 1; i <= server->requests; i++) {
		struct returns_calls before;
		size_t kept;

		test_returns_idle(r, begin + i * RETURNS_SECOND / server->rate);
		kept = test_returns_resident(r);
		/* The burst has had its three epochs. */
		if (r->now > begin + 3 * RETURNS_EPOCH && kept > result->kept)
			result->kept = kept;
		before = r->calls;
		test_returns_context(r, 0);
		server_request(r, server);
		result->commits += r->calls.commits - before.commits;
		result->recommitted += r->calls.committed - before.committed;
		test_returns_rest(r, 0);
	}
}

/* Until nothing is left to be done, and ten times as long. */
static void server_idle(struct returns *r, struct returns_server_result *result)
{
	struct fallow_snapshot snapshot = { .size = sizeof(snapshot) };
	uint64_t begin = r->now;
	uint64_t wakeups = r->wakeups;

	test_returns_idle(r,
		begin + (FALLOW_FLOOR_EPOCHS + 8) * RETURNS_EPOCH);
	result->epochs = test_returns_due(r) == UINT64_MAX
		? (r->swept - begin) / RETURNS_EPOCH
		: UINT64_MAX;
	result->end = test_returns_resident(r);
	fallow_snapshot(&r->heap, &snapshot);
	result->tables = snapshot.tables;
	result->wakeups = r->wakeups - wakeups;
	wakeups = r->wakeups;
	test_returns_idle(
		r, r->now + 10 * FALLOW_FLOOR_EPOCHS * RETURNS_EPOCH);
	result->late = r->wakeups - wakeups;
}

struct returns_server_result test_returns_server(
	const struct returns_machine *machine,
	const struct returns_server *server, const char *series)
{
	static const size_t floors[] = {
		[RETURNS_FLOOR_NONE] = FALLOW_FLOOR_NONE,
		[RETURNS_FLOOR] = 0,
		[RETURNS_FLOOR_FLAT] = FLAT_BYTES,
	};
	static struct returns r;
	struct returns_server_result result = { 0 };

	if (!test_returns_begin(&r, machine, 1, floors[server->floor], 0))
		return result;
	r.series = series;
	r.flat = server->floor == RETURNS_FLOOR_FLAT;
	server_burst(&r, server);
	test_returns_rest(&r, 0);
	server_serve(&r, server, &result);
	test_returns_check(&r);
	server_idle(&r, &result);
	result.good = test_returns_end(&r);
	return result;
}
