/* SPDX-License-Identifier: MIT */
/*
 * Rounds before a heap grows past its mark: what one size has left is not kept
 * while another grows; a heap that has nothing idle is left alone; one that wants
 * back what it gave stops giving; and calls that must not give, do not.
 */
#include "pace.h"
#include "swept.h"

/* A heap without a floor that makes rounds from so many bytes on. */
static struct rig *pace_begin(size_t window, size_t from)
{
	struct rig *rig = rig_prepare(FALLOW_CLASS_WINDOW, window, 2);

	rig->config.floor_bytes = FALLOW_FLOOR_NONE;
	rig->config.pace_from_bytes = from;
	CHECK_EQUAL(rig_init(rig), FALLOW_OK);
	return rig;
}

static size_t peak(struct rig *rig)
{
	struct fallow_snapshot now = { .size = sizeof(now) };

	fallow_snapshot(&rig->heap, &now);
	return now.committed_peak;
}

/* Adds blocks of a size until they are so many bytes. */
static void fill(struct crowd *crowd, size_t size, size_t bytes)
{
	for (size_t i = 0; i < bytes / size && test_failures() == 0; i++)
		crowd_add(crowd, size);
}

/* Frees all but every n-th of the blocks from `first` on. */
static void thin(struct crowd *crowd, size_t first, size_t n)
{
	for (size_t i = crowd->count; i-- > first;)
		if ((i - first) % n != 0)
			crowd_free(crowd, i);
}

/* Blocks of one size, of which one in so many is left, and then of another. */
struct turn {
	size_t window, first, keep, second;
};

/* The peak of such a heap. */
static size_t followed_peak(const struct turn *turn, size_t from)
{
	struct rig *rig = pace_begin(turn->window, from);
	struct crowd crowd = crowd_begin(rig, 20000);
	size_t most;

	fill(&crowd, turn->first, 8 * MIB);
	thin(&crowd, 0, turn->keep);
	fill(&crowd, turn->second, 7 * MIB);
	most = peak(rig);
	white_check(rig);
	crowd_end(&crowd);
	return most;
}

static void followed(struct turn turn)
{
	size_t with = followed_peak(&turn, 4 * MIB);
	size_t without = followed_peak(&turn, 0);

	CHECK(without >= 14 * MIB);
	/* What was there, and two steps: after one it is idle. */
	CHECK(with <= 11 * MIB);
	if (test_failures() > 0)
		test_printf("\n    %zu then %zu: peak %zu KiB, without %zu",
			turn.first, turn.second, with / KIB, without / KIB);
}

/* Holes in small pages, for pages of other sizes. */
static void test_pace_small(void)
{
	followed((struct turn){ WIDE, 1024, 32, 4096 });
	followed((struct turn){ WIDE, 4096, 12, 1024 });
}

/* Holes in medium pages. */
static void test_pace_medium(void)
{
	followed((struct turn){ WIDE, 12 * KIB, 7, 4096 });
}

/* Free slices, too few in a row for what follows; and a context that takes the
 * slow path as seldom as here makes no round before it has done so often. */
static void test_pace_slices(void)
{
	for (unsigned often = 0; often < 2; often++) {
		struct rig *rig = pace_begin(WIDE, 4 * MIB);
		struct local *local = white_heap(rig)->locals[0];
		struct crowd crowd = crowd_begin(rig, 1000);

		fill(&crowd, 100 * KIB, 8 * MIB);
		thin(&crowd, 0, 4);
		for (unsigned i = 0; i < 12; i++) {
			if (often)
				local->paced = 0 - (uint64_t)1000;
			crowd_add(&crowd, 500 * KIB);
			/* In the first they are not idle yet. */
			if (i == 0)
				CHECK_EQUAL(rig->sim.made[SIM_DECOMMIT], 0);
		}
		if (often)
			CHECK(peak(rig) <= 11 * MIB);
		else
			CHECK_EQUAL(rig->sim.made[SIM_DECOMMIT], 0);
		crowd_end(&crowd);
	}
}

/* Where addresses are few. */
static void test_pace_lean(void)
{
	followed((struct turn){ 64 * MIB, 1024, 32, 4096 });
}

/* A heap whose memory is all in use makes few rounds, and gives nothing. */
static void test_pace_rests(void)
{
	struct rig *rig = pace_begin(WIDE, MIB);
	struct crowd crowd = crowd_begin(rig, 40000);
	uint32_t sweeps = white_heap(rig)->sweeps;

	fill(&crowd, 1024, 32 * MIB);
	CHECK(white_heap(rig)->sweeps > sweeps);
	/* Each of a MiB to 16, of a sixteenth from there to 32. */
	CHECK(white_heap(rig)->sweeps - sweeps <= 15 + 12);
	CHECK(rig->sim.made[SIM_DECOMMIT] <= 2);
	crowd_end(&crowd);
}

/* Two sizes by turns, so that each wants back what the other grew by: of what is
 * given half is added to the mark, so that this comes to an end. */
static void test_pace_creeps(void)
{
	struct rig *rig = pace_begin(WIDE, 2 * MIB);
	struct heap *heap = white_heap(rig);
	struct crowd crowd = crowd_begin(rig, 10000);
	uint64_t given = 0, before = 0;

	for (unsigned i = 0; i < 40; i++) {
		size_t at = heap->pacing.at;

		before = given;
		fill(&crowd, i % 2 == 0 ? 1024 : 4096, 4 * MIB);
		thin(&crowd, 0, 64);
		given = heap->counters.decommitted_total;
		CHECK(given - before <= 2 * (heap->pacing.at - at));
	}
	CHECK(given > MIB);
	CHECK_EQUAL(given, before);
	crowd_end(&crowd);
}

/* A call that says so gives nothing back, whatever it then has to commit. */
static void test_pace_noreclaim(void)
{
	struct rig *rig = pace_begin(WIDE, MIB);
	struct crowd crowd = crowd_begin(rig, 10000);
	static const unsigned flags[] = { FALLOW_NORECLAIM, FALLOW_NOWAIT };
	void *list = NULL;

	fill(&crowd, 1024, 4 * MIB);
	thin(&crowd, 0, 32);
	for (unsigned i = 0; i < 2000; i++) {
		void **block = fallow_alloc_flags(
			&rig->heap, 4096, flags[i % 2]);

		/* NOWAIT has what is there and no more. */
		CHECK(block != NULL || i % 2 == 1);
		if (block == NULL)
			continue;
		*block = list;
		list = block;
	}
	CHECK_EQUAL(rig->sim.made[SIM_DECOMMIT], 0);
	while (list != NULL) {
		void *next = *(void **)list;

		fallow_free(&rig->heap, list);
		list = next;
	}
	crowd_end(&crowd);
}

/* What the provider refuses stays as it was. */
static void test_pace_refused(void)
{
	struct rig *rig = pace_begin(WIDE, MIB);
	struct crowd crowd = crowd_begin(rig, 10000);

	rig->sim.refuse_range_rate = 100;
	for (unsigned i = 0; i < 12; i++) {
		fill(&crowd, i % 3 == 0 ? 1024 : i % 3 == 1 ? 4096 : 80 * KIB,
			3 * MIB);
		thin(&crowd, crowd.count / 2, 16);
		white_check(rig);
	}
	CHECK(rig->sim.refused_ranges > 0);
	CHECK(rig->sim.made[SIM_DECOMMIT] > 0);
	rig->sim.refuse_range_rate = 0;
	crowd_end(&crowd);
}

/* A round of context 0's, whatever its last was. */
static void round_make(struct rig *rig)
{
	struct op op = white_op(rig, 0);

	op.local->paced = op.local->counters.slow_paths - 1000;
	fl_pace(&op, 0);
	op_drop(&op);
}

/* One that goes on for ever fails. */
static void round_watch(struct sim *sim, enum sim_call call)
{
	if (call == SIM_DECOMMIT && sim->made[call] > 100)
		sim->refuse_range_rate = 0;
}

/* Free slices in pieces, of which a batch has no room for those of a chunk: they
 * go in several, each once even if it is refused, and beside them none that has
 * been free for less than a round. */
static void pieces(unsigned refuse_rate)
{
	struct rig *rig = pace_begin(WIDE, MIB);
	struct heap *heap = white_heap(rig);
	struct crowd crowd = crowd_begin(rig, 2000);
	size_t idle, all;

	fill(&crowd, 4096, 4 * MIB);
	thin(&crowd, 0, 2);
	(void)fallow_collect(&rig->heap);
	rig->sim.made[SIM_DECOMMIT] = 0;
	while (crowd.count > 128)
		crowd_free(&crowd, crowd.count - 1);
	/* They were used; they were not, and are slices; these are seen. */
	round_make(rig);
	round_make(rig);
	round_make(rig);
	CHECK_EQUAL(rig->sim.made[SIM_DECOMMIT], 0);
	idle = heap->warm_slices;
	while (crowd.count > 0)
		crowd_free(&crowd, crowd.count - 1);
	fallow_offline(&rig->heap);
	all = heap->warm_slices;
	CHECK(idle >= 40 && all >= idle + 8);
	rig->sim.refuse_range_rate = refuse_rate;
	rig->sim.during = round_watch;
	round_make(rig);
	/* Two slices a call. */
	CHECK(rig->sim.made[SIM_DECOMMIT] <= idle / 2 + 2);
	CHECK_EQUAL(heap->warm_slices, refuse_rate == 0 ? all - idle : all);
	rig->sim.refuse_range_rate = 0;
	/* What was refused is free again since. */
	round_make(rig);
	round_make(rig);
	round_make(rig);
	CHECK_EQUAL(heap->warm_slices, 0);
	crowd_end(&crowd);
}

static void test_pace_pieces(void)
{
	pieces(0);
	pieces(256);
}

#define GRANULE_TICKS 10

/* A heap whose rounds are bounded by a clock, which the test moves. */
static struct rig *timed_begin(size_t from)
{
	struct rig *rig = rig_prepare(FALLOW_CLASS_WINDOW, WIDE, 2);

	sim_clock(&rig->sim);
	rig->config.epoch_ticks = UINT64_MAX / 4;
	rig->config.floor_bytes = FALLOW_FLOOR_NONE;
	rig->config.pace_from_bytes = from;
	rig->config.pace_ticks = GRANULE_TICKS;
	CHECK_EQUAL(rig_init(rig), FALLOW_OK);
	return rig;
}

/* What rounds have given back, in granules. */
static uint64_t given(struct rig *rig)
{
	return white_heap(rig)->counters.decommitted_total / SIM_GRANULE;
}

/* The peak of one size after the other, of each of which a block in sixteen is left
 * until the next is there: nothing is idle when it is wanted.  So many ticks pass
 * from one to the next, and between two of them `once`. */
static size_t busy_peak(uint64_t ticks, uint64_t once, uint64_t *granules)
{
	struct rig *rig = timed_begin(MIB);
	struct crowd crowd = crowd_begin(rig, 6000);
	size_t most;

	for (unsigned turn = 0; turn < 18; turn++) {
		size_t left = crowd.count;

		fill(&crowd, KIB << turn % 3 * 2, 4 * MIB);
		while (left-- > 0)
			crowd_free(&crowd, left);
		thin(&crowd, 0, 16);
		rig->sim.ticks += turn == 1 ? once : ticks;
	}
	most = peak(rig);
	*granules = given(rig);
	white_check(rig);
	crowd_end(&crowd);
	return most;
}

static void test_pace_timed(void)
{
	uint64_t none, once, some, much;
	size_t without = busy_peak(0, 0, &none);
	size_t with = busy_peak(100000 * GRANULE_TICKS, 0, &much);

	(void)busy_peak(0, 1000000 * GRANULE_TICKS, &once);
	(void)busy_peak(200 * GRANULE_TICKS, 0, &some);
	/* What is live at once, the rest of the last size in 256 granules, and
	 * two steps. */
	CHECK(with <= 6 * MIB);
	CHECK(without >= 8 * MIB);
	/* At first, and then one for each so many ticks, and a batch. */
	CHECK(none <= 256 + 2 * 512);
	CHECK(once > 1024 && once <= 256 + 2048 + 512);
	CHECK(some <= 256 + 18 * 200 + 2 * 512);
	CHECK(much > 2 * some);
	if (test_failures() > 0)
		test_printf("\n    peaks %zu and %zu KiB, granules %u %u %u %u",
			without / KIB, with / KIB, (unsigned)none,
			(unsigned)once, (unsigned)some, (unsigned)much);
}

/* A round gives what is wanted and not all there is; and comes before a span that
 * would pass the mark, not after it. */
static void test_pace_wanted(void)
{
	struct rig *rig = timed_begin(12 * MIB);
	struct crowd crowd = crowd_begin(rig, 4000);
	void *p;

	fill(&crowd, 4096, 10 * MIB);
	while (crowd.count > 0)
		crowd_free(&crowd, crowd.count - 1);
	fallow_offline(&rig->heap);
	/* Slices, but not so many in a row. */
	fill(&crowd, 100 * KIB, 9 * MIB);
	thin(&crowd, 0, 4);
	crowd_add(&crowd, 64);
	CHECK_EQUAL(given(rig), 0);
	p = fallow_alloc(&rig->heap, 4 * MIB);
	CHECK(given(rig) * SIM_GRANULE >= 2 * MIB);
	CHECK(given(rig) * SIM_GRANULE <= 5 * MIB);
	CHECK(peak(rig) <= 13 * MIB);
	fallow_free(&rig->heap, p);
	crowd_end(&crowd);
}

/* One that cannot be had leaves the mark where it is. */
static void test_pace_too_large(void)
{
	struct rig *rig = timed_begin(MIB);
	struct heap *heap = white_heap(rig);
	struct crowd crowd = crowd_begin(rig, 4000);
	volatile size_t size = (size_t)WIDE * 2;

	fill(&crowd, 4096, 4 * MIB);
	CHECK(fallow_alloc(&rig->heap, size) == NULL);
	CHECK(heap->pacing.at <= 6 * MIB);
	crowd_end(&crowd);
}

/* What is refused is asked for once a round, also if it was used of late and lies
 * in more pieces than a batch has room for. */
static void test_pace_timed_refused(void)
{
	struct rig *rig = timed_begin(MIB);
	struct crowd crowd = crowd_begin(rig, 2000);

	fill(&crowd, 4096, 4 * MIB);
	thin(&crowd, 0, 2);
	(void)fallow_collect(&rig->heap);
	while (crowd.count > 0)
		crowd_free(&crowd, crowd.count - 1);
	fallow_offline(&rig->heap);
	CHECK(white_heap(rig)->warm_slices >= 40);
	rig->sim.refuse_range_rate = 256;
	rig->sim.during = round_watch;
	rig->sim.made[SIM_DECOMMIT] = 0;
	rig->sim.ticks += 1000 * GRANULE_TICKS;
	round_make(rig);
	CHECK(rig->sim.made[SIM_DECOMMIT] >= 2);
	CHECK(rig->sim.made[SIM_DECOMMIT] <= 8);
	white_check(rig);
	rig->sim.refuse_range_rate = 0;
	crowd_end(&crowd);
}

/* A copy of the heap has a clock of its own. */
static void test_pace_timed_forked(void)
{
	struct rig *rig = timed_begin(MIB);
	struct heap *heap = white_heap(rig);
	struct crowd crowd = crowd_begin(rig, 10000);
	uint64_t before;

	rig->sim.ticks = UINT64_C(1) << 40;
	fill(&crowd, 1024, 4 * MIB);
	thin(&crowd, 0, 16);
	before = given(rig);
	heap->pacing.busy = 1;
	rig->sim.ticks = 1;
	fl_pace_forked(heap);
	CHECK_EQUAL(heap->pacing.busy, 0);
	fill(&crowd, 4096, 4 * MIB);
	CHECK(given(rig) > before);
	crowd_end(&crowd);
}

/* One that has not been asked for makes none. */
static void test_pace_off(void)
{
	struct rig *rig = pace_begin(WIDE, 0);
	struct crowd crowd = crowd_begin(rig, 10000);

	fill(&crowd, 1024, 4 * MIB);
	thin(&crowd, 0, 32);
	fill(&crowd, 4096, 8 * MIB);
	CHECK_EQUAL(rig->sim.made[SIM_DECOMMIT], 0);
	crowd_end(&crowd);
}

const struct test tests[] = {
	{ "pace_small", test_pace_small },
	{ "pace_medium", test_pace_medium },
	{ "pace_slices", test_pace_slices },
	{ "pace_lean", test_pace_lean },
	{ "pace_rests", test_pace_rests },
	{ "pace_creeps", test_pace_creeps },
	{ "pace_noreclaim", test_pace_noreclaim },
	{ "pace_refused", test_pace_refused },
	{ "pace_pieces", test_pace_pieces },
	{ "pace_timed", test_pace_timed },
	{ "pace_wanted", test_pace_wanted },
	{ "pace_too_large", test_pace_too_large },
	{ "pace_timed_refused", test_pace_timed_refused },
	{ "pace_timed_forked", test_pace_timed_forked },
	{ "pace_off", test_pace_off },
	{ NULL, NULL },
};
