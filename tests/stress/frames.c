/* SPDX-License-Identifier: MIT */
/*
 * Threads take, claim, split and give frames at once.  Every granule has an
 * owner's mark that is set and cleared by atomic exchanges: two owners of one
 * granule are seen at once.
 */
#include <fallow/frames.h>

#include "test.h"

#include <pthread.h>
#include <sched.h>

#define THREADS 4
#define STEPS 60000
#define G ((uint64_t)4096)
#define BASE ((uint64_t)1 << 30)
#define GRANULES 2048u
#define HELD 32u

static struct fallow_frames frames;
static _Alignas(64) unsigned char tables[16384];
static unsigned char owner[GRANULES];
static unsigned misuses;

static void on_misuse(void *ctx, const struct fallow_frames_misuse *report)
{
	(void)ctx;
	(void)report;
	__atomic_fetch_add(&misuses, 1, __ATOMIC_RELAXED);
}

/* Marks the run; returns whether every granule was marked `from`. */
static bool mark(uint64_t frame, unsigned log2, unsigned from, unsigned to)
{
	bool right = true;

	for (uint64_t at = 0; at < (uint64_t)1 << log2; at += G)
		right &= __atomic_exchange_n(&owner[(frame - BASE + at) / G],
				 (unsigned char)to, __ATOMIC_RELAXED) == from;
	return right;
}

struct worker {
	pthread_t thread;
	unsigned id;
	uint64_t seed;
	uint64_t frame[HELD];
	unsigned log2[HELD];
	uint64_t wrong, took;
};

/* Takes or claims a run into slot i. */
static void worker_take(struct worker *w, unsigned i)
{
	unsigned log2 = 12 + (unsigned)(test_random(&w->seed) % 7);
	uint64_t frame = BASE + test_random(&w->seed) % (GRANULES * G);

	frame = frame >> log2 << log2;
	switch (test_random(&w->seed) % 4) {
	case 0:
		if (!fallow_frames_claim(&frames, frame, log2))
			return;
		break;
	case 1:
		frame = fallow_frames_take_below(&frames, log2, UINT64_MAX);
		break;
	default:
		frame = fallow_frames_take(&frames, log2);
	}
	if (frame == FALLOW_FRAME_NONE)
		return;
	w->wrong += !mark(frame, log2, 0, w->id);
	w->frame[i] = frame;
	w->log2[i] = log2;
	w->took++;
}

/* Gives slot i back: whole, or a half of it. */
static void worker_give(struct worker *w, unsigned i)
{
	uint64_t frame = w->frame[i];
	unsigned log2 = w->log2[i];

	if (log2 > 12 && test_random(&w->seed) % 2) {
		w->log2[i] = --log2;
		w->frame[i] = frame + ((uint64_t)1 << log2);
	} else {
		w->log2[i] = 0;
	}
	w->wrong += !mark(frame, log2, w->id, 0);
	fallow_frames_give(&frames, frame, log2);
}

static void *worker_run(void *arg)
{
	struct worker *w = arg;

	for (unsigned n = 0; n < STEPS; n++) {
		unsigned i = (unsigned)(test_random(&w->seed) % HELD);

		if (w->log2[i])
			worker_give(w, i);
		else
			worker_take(w, i);
		if (n % 4096 == 0)
			w->wrong += fallow_frames_check(&frames, NULL) != NULL;
	}
	for (unsigned i = 0; i < HELD; i++)
		while (w->log2[i])
			worker_give(w, i);
	return NULL;
}

static void test_frames_threads(void)
{
	static struct worker workers[THREADS];
	struct fallow_frames_config config = {
		.size = sizeof(config),
		.direct_end = 1,
		.tables = tables,
		.tables_size = sizeof(tables),
		.misuse = on_misuse,
	};
	struct fallow_frames_counts counts = { .size = sizeof(counts) };

	CHECK_EQUAL(fallow_frames_init(&frames, &config), FALLOW_OK);
	CHECK_EQUAL(
		fallow_frames_add(&frames, BASE, GRANULES / 2 * G), FALLOW_OK);
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){ .id = i + 1,
			.seed = test_seed + i };
		CHECK_OR_RETURN(!pthread_create(&workers[i].thread, NULL,
			worker_run, &workers[i]));
	}
	/* More memory, while they run. */
	for (unsigned i = 0; i < 8; i++) {
		CHECK_EQUAL(fallow_frames_add(&frames,
				    BASE + (GRANULES / 2 +
						   GRANULES / 16 * i) * G,
				    GRANULES / 16 * G),
			FALLOW_OK);
		fallow_frames_counts(&frames, &counts);
		CHECK_EQUAL(counts.regions, i + 2);
		sched_yield();
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		CHECK_EQUAL(workers[i].wrong, 0);
		CHECK(workers[i].took > STEPS / 8);
	}
	fallow_frames_counts(&frames, &counts);
	CHECK_EQUAL(counts.free, GRANULES * G);
	CHECK_EQUAL(counts.largest_log2, 22);
	CHECK_EQUAL(misuses, 0);
	CHECK(!fallow_frames_check(&frames, NULL));
}

const struct test tests[] = {
	{ "frames_threads", test_frames_threads },
	{ NULL, NULL },
};
