/* SPDX-License-Identifier: MIT */
/* Arenas whose free pieces are joined: what becomes one, what does not, when,
 * and what it is good for. */
#include "bump.h"

#include <string.h>

#include "arena.h"
#include "white.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define BLOCKS 3000

struct joins {
	struct rig *rig;
	struct fallow_bump bump;
	struct bump *in; /* the same from inside */
	unsigned char *p[BLOCKS];
	size_t size[BLOCKS];
	uint64_t random;
};

static void joins_begin(struct joins *j, enum fallow_provider_class class,
	size_t window, size_t chunk)
{
	struct fallow_bump_settings settings = {
		.size = sizeof(settings), .chunk_bytes = chunk };

	memset(j, 0, sizeof(*j));
	j->rig = rig_begin(class, window, 1);
	j->in = bump_of(&j->bump);
	j->random = test_seed;
	CHECK_EQUAL(fallow_bump_init(&j->bump, &j->rig->heap, &settings), 0);
}

static void joins_end(struct joins *j)
{
	arena_look(&j->bump);
	fallow_bump_fini(&j->bump);
	white_end(j->rig);
}

/* Blocks [from, to) of random sizes up to `most`; they hold what they are. */
static void blocks_make(struct joins *j, size_t from, size_t to, size_t most)
{
	for (size_t i = from; i < to; i++) {
		j->size[i] = 1 + (size_t)test_random(&j->random) % most;
		j->p[i] = fallow_bump_alloc(&j->bump, j->size[i]);
		CHECK_OR_RETURN(j->p[i] != NULL);
		arena_fill(j->p[i], 0, j->size[i], i);
	}
}

static void block_free(struct joins *j, size_t i)
{
	CHECK(arena_is(j->p[i], j->size[i], i));
	fallow_bump_free(&j->bump, j->p[i], j->size[i]);
	j->p[i] = NULL;
}

static size_t listed(struct joins *j)
{
	return fl_bump_listed(j->in);
}

static size_t pieces(struct joins *j)
{
	size_t n = 0;

	for (size_t list = 0; list < BUMP_LISTS; list++)
		for (struct bump_piece *piece = j->in->lists[list];
			piece != NULL; piece = piece->next)
			n++;
	return n;
}

/* Bytes of chunks that somebody had. */
static size_t used(struct joins *j)
{
	return j->in->held - (j->in->stop - j->in->rest);
}

static bool join_now(struct joins *j)
{
	j->in->join = 0;
	j->in->flags = 0;
	return fl_bump_join(j->in);
}

static struct joins joins;

/* Each run of blocks that were freed is one piece, whatever the order was, and
 * what ends at the area is the area's; blocks in use are as they were. */
static void test_join_leaves_runs(void)
{
	struct joins *j = &joins;

	for (unsigned round = 0; round < 20; round++) {
		size_t runs = 0, bytes = 0, unused;

		joins_begin(j, FALLOW_CLASS_WINDOW, 64 * MIB, 8 * MIB);
		blocks_make(j, 0, BLOCKS, round % 2 ? 100 : 2000);
		for (size_t n = 0; n < BLOCKS * 2; n++) {
			size_t i = test_random(&j->random) % (BLOCKS - 1);

			if (j->p[i] != NULL)
				block_free(j, i);
		}
		for (size_t i = 0; i < BLOCKS; i++)
			if (j->p[i] == NULL) {
				runs += i == 0 || j->p[i - 1] != NULL;
				bytes += bump_piece_size(j->size[i]);
			}
		CHECK_EQUAL(listed(j), bytes);
		CHECK(join_now(j));
		arena_look(&j->bump);
		CHECK_EQUAL(pieces(j), runs);
		CHECK_EQUAL(listed(j), bytes);
		for (size_t i = 0; i < BLOCKS; i++)
			CHECK(!j->p[i] || arena_is(j->p[i], j->size[i], i));
		/* The last one goes, with the run before it. */
		unused = j->in->end - j->in->cur;
		block_free(j, BLOCKS - 1);
		(void)join_now(j);
		CHECK_EQUAL(listed(j) + j->in->end - j->in->cur,
			bytes + unused + bump_piece_size(j->size[BLOCKS - 1]));
		CHECK_EQUAL(pieces(j), runs - (j->p[BLOCKS - 2] == NULL));
		joins_end(j);
	}
}

/* What was freed in small serves what is larger, where an arena that joins
 * nothing takes all of it from memory that nobody had. */
static void test_join_serves_larger(void)
{
	struct joins *j = &joins;
	size_t before, freed = 0;

	joins_begin(j, FALLOW_CLASS_WINDOW, 64 * MIB, 8 * MIB);
	blocks_make(j, 0, BLOCKS, 500);
	for (size_t i = 0; i < BLOCKS; i++)
		if (i % 100 != 0) {
			freed += j->size[i];
			block_free(j, i);
		}
	before = used(j);
	while (freed > 200 * KIB) {
		CHECK(fallow_bump_alloc(&j->bump, 5000) != NULL);
		freed -= 5000;
	}
	CHECK(freed < 300 * KIB);
	CHECK(used(j) - before <= 2 * BUMP_STEP_AREA + before / 16);
	joins_end(j);
}

/* Chunks that lie side by side stay apart: each is a span of the heap. */
static void test_join_keeps_spans_apart(void)
{
	struct joins *j = &joins;
	size_t beside = 0;

	joins_begin(j, FALLOW_CLASS_WINDOW, 64 * MIB, 64 * KIB);
	blocks_make(j, 0, 300, 16000);
	for (struct page *span = j->in->spans; span != NULL; span = span->next)
		beside += fl_bump_span_of(j->in,
				  span->base + span->span_size) != NULL;
	CHECK(beside > 10);
	for (size_t i = 0; i < 299; i++)
		block_free(j, i);
	CHECK(join_now(j));
	arena_look(&j->bump);
	CHECK(pieces(j) >= j->in->held / (64 * KIB) - 1);
	joins_end(j);
}

/* In a scope only what is the scope's is joined; after it, the rest. */
static void test_join_in_a_scope(void)
{
	struct joins *j = &joins;
	struct fallow_bump_mark mark;
	size_t before, at_mark, next;

	joins_begin(j, FALLOW_CLASS_WINDOW, 64 * MIB, 8 * MIB);
	blocks_make(j, 0, 1000, 900);
	for (size_t i = 1; i < 900; i += 2)
		block_free(j, i);
	before = listed(j);
	at_mark = used(j);
	next = j->in->join;
	fallow_bump_mark(&j->bump, &mark);
	blocks_make(j, 1000, 2000, 900);
	for (size_t i = 1000; i < 1999; i++)
		block_free(j, i);
	/* Older ones, beside what is free since before the scope. */
	for (size_t i = 0; i < 900; i += 2) {
		before += bump_piece_size(j->size[i]);
		block_free(j, i);
	}
	CHECK(join_now(j));
	arena_look(&j->bump);
	CHECK(pieces(j) <= 2);
	fallow_bump_rewind(&j->bump, &mark);
	CHECK_EQUAL(used(j), at_mark);
	CHECK_EQUAL(j->in->join, next);
	CHECK_EQUAL(listed(j), before);
	CHECK(join_now(j));
	CHECK_EQUAL(pieces(j), 1);
	CHECK_EQUAL(listed(j), before);
	joins_end(j);
}

/* Not for a call that may not wait; not while little is free, or little has
 * come since the last time. */
static void test_join_has_its_time(void)
{
	struct joins *j = &joins;
	size_t n;

	joins_begin(j, FALLOW_CLASS_WINDOW, 64 * MIB, 8 * MIB);
	blocks_make(j, 0, 2000, 900);
	for (size_t i = 0; i < 20; i++)
		block_free(j, i);
	CHECK(!join_now(j));
	CHECK_EQUAL(pieces(j), 20);
	for (size_t i = 20; i < 500; i++)
		block_free(j, i);
	n = pieces(j);
	CHECK(!fl_bump_join(j->in));
	j->in->join = 0;
	CHECK(fallow_bump_alloc_flags(&j->bump, 60000, FALLOW_NOWAIT) != NULL);
	CHECK(pieces(j) >= n);
	CHECK(join_now(j));
	CHECK_EQUAL(pieces(j), 1);
	CHECK(j->in->join > used(j) + BUMP_STEP_AREA);
	joins_end(j);
}

/* Where the heap has nothing, what is free is joined sooner. */
static void test_join_before_null(void)
{
	struct joins *j = &joins;
	size_t n = 0;

	joins_begin(j, FALLOW_CLASS_FLAT, 4 * MIB, 64 * KIB);
	while (n < BLOCKS && (j->p[n] = fallow_bump_alloc(&j->bump, 8000)))
		j->size[n++] = 8000;
	CHECK(fallow_bump_alloc(&j->bump, 16000) == NULL);
	for (size_t i = 0; i < n; i++)
		fallow_bump_free(&j->bump, j->p[i], 8000);
	j->in->join = SIZE_MAX;
	for (size_t i = 0; i < n / 8; i++)
		CHECK(fallow_bump_alloc(&j->bump, 16000) != NULL);
	joins_end(j);
}

const struct test tests[] = {
	{ "join_leaves_runs", test_join_leaves_runs },
	{ "join_serves_larger", test_join_serves_larger },
	{ "join_keeps_spans_apart", test_join_keeps_spans_apart },
	{ "join_in_a_scope", test_join_in_a_scope },
	{ "join_has_its_time", test_join_has_its_time },
	{ "join_before_null", test_join_before_null },
	{ NULL, NULL },
};
