/* SPDX-License-Identifier: MIT */
/*
 * What the page-table provider owes the other CPUs, on either board.
 *
 * When decommit() returns no CPU may reach what was given up.  So here every
 * CPU touches a range until the moment that another one's decommit() has
 * returned, and must then fault at the next touch.  The emulator helps: with a
 * thread per CPU it keeps a translation until that CPU is told to forget it
 * (shootdown_x86_64.c shows that one that is not told is seen here).
 *
 * Frames are poisoned as they are given back, so a CPU that still reads one
 * reads the poison; and the hook that gives them back can ask all CPUs, before
 * anything happens to the frame, whether they still reach it.
 *
 * The provider is one of the test's own in the upper half of the board's
 * window, as the board makes them all.
 */
#include "arch.h"
#include "board.h"
#include "meet.h"
#include "paging.h"
#include "test.h"

#define GRANULE ((uintptr_t)4096)
#define CHUNK ((uintptr_t)2 << 20)
#define CHUNK_GRANULES (CHUNK / GRANULE)
#define POISON 0xdbdbdbdbdbdbdbdb
/* For one CPU: more of them take turns on the host's. */
#define ROUNDS (64 / board_cpus())
#define SHOTS (800 / board_cpus())

static uintptr_t window;
/* Bytes of frames that are out, and the optional call before one is given. */
static uint64_t frames_out;
static void (*frames_given)(void);

static uint64_t frames_take(void *ctx, unsigned size_log2)
{
	uint64_t frame =
		board_frame_hooks()->take(board_frame_hooks()->ctx, size_log2);

	(void)ctx;
	if (frame != FALLOW_FRAME_NONE)
		__atomic_fetch_add(&frames_out, (uint64_t)1 << size_log2,
			__ATOMIC_RELAXED);
	return frame;
}

static void frames_give(void *ctx, uint64_t frame, unsigned size_log2)
{
	volatile uint64_t *word = (volatile uint64_t *)(uintptr_t)(
		frame + board_direct_offset());
	size_t n = ((size_t)1 << size_log2) / sizeof(*word);

	(void)ctx;
	if (frames_given != NULL)
		frames_given();
	while (n-- > 0)
		*word++ = POISON;
	__atomic_fetch_sub(
		&frames_out, (uint64_t)1 << size_log2, __ATOMIC_RELAXED);
	board_frame_hooks()->give(board_frame_hooks()->ctx, frame, size_log2);
}

static bool frames_claim(void *ctx, uint64_t frame, unsigned size_log2)
{
	(void)ctx;
	if (!board_frame_hooks()->claim(
		    board_frame_hooks()->ctx, frame, size_log2))
		return false;
	__atomic_fetch_add(
		&frames_out, (uint64_t)1 << size_log2, __ATOMIC_RELAXED);
	return true;
}

/* Makes test_provider; false, and a failure, if that fails. */
static bool begin(void)
{
	static const struct fallow_frame_hooks hooks = {
		.take = frames_take,
		.give = frames_give,
		.claim = frames_claim,
	};
	enum fallow_status status;

	frames_given = NULL;
	window = board_window_base() + board_window_size() / 2;
	status = board_pagetable_init(&test_pagetable, &hooks, window,
		board_window_size() / 2, 0);
	return test_provider_begin(status);
}

/* Takes it down: its window is empty, and every frame is back. */
static void end(void)
{
	frames_given = NULL;
	CHECK(fallow_pagetable_fini(&test_pagetable, false));
	CHECK_EQUAL(frames_out, 0);
}

/* What the first word of a granule is in a round: never 0 or the poison. */
static uint64_t stamp(uintptr_t addr, unsigned round)
{
	return addr * 0x9e3779b97f4a7c15u + round * 2u + 1;
}

static void stamp_range(uintptr_t base, size_t size, unsigned round)
{
	uintptr_t addr;

	for (addr = base; addr < base + size; addr += GRANULE)
		*(volatile uint64_t *)addr = stamp(addr, round);
}

/* Returns how many granules do not have this round's stamp. */
static size_t spoilt(uintptr_t base, size_t size, unsigned round)
{
	uintptr_t addr;
	size_t n = 0;

	for (addr = base; addr < base + size; addr += GRANULE)
		n += *(volatile uint64_t *)addr != stamp(addr, round);
	return n;
}

/*
 * What is given up while all others touch it: `n` ranges of `size` bytes, as
 * far apart.  Each CPU does so in its turn.
 */
static struct {
	struct fallow_range ranges[FALLOW_RANGES_MAX];
	size_t n, size;
	/* The last round whose decommit() has returned. */
	uint32_t gone;
	/* Counts what the frame hook asks; what each CPU has answered. */
	uint32_t asked, answered[BOARD_CPUS_MAX];
	/* How often a CPU reached what nobody may. */
	uint32_t reached;
} hole;

static void hole_make(size_t n, size_t size)
{
	size_t i;

	hole.n = n;
	hole.size = size;
	hole.gone = hole.asked = hole.reached = 0;
	for (i = 0; i < BOARD_CPUS_MAX; i++)
		hole.answered[i] = 0;
	for (i = 0; i < n; i++)
		hole.ranges[i] = (struct fallow_range){
			.base = window + 2 * i * size, .size = size,
		};
}

/* Returns how many of the hole's granules this CPU can read. */
static size_t hole_readable(void)
{
	size_t i, n = 0;

	for (i = 0; i < hole.n; i++)
		n += test_readable(hole.ranges[i].base, hole.size);
	return n;
}

/* Touches the hole until it is gone, and answers when it is asked whether it
 * is still there. */
static void hole_touch(uint32_t round)
{
	unsigned cpu = board_cpu();
	uint32_t asked;

	while (test_load(&hole.gone) != round) {
		asked = test_load(&hole.asked);
		if (hole.answered[cpu] != asked) {
			test_add(&hole.reached, (uint32_t)hole_readable());
			test_store(&hole.answered[cpu], asked);
		}
		hole_readable();
		fl_port_pause();
	}
}

/* Commits the hole, each range by itself, and stamps it. */
static void hole_fill(uint32_t round)
{
	size_t i;

	for (i = 0; i < hole.n; i++) {
		test_commit(hole.ranges[i].base, hole.size, 0);
		stamp_range(hole.ranges[i].base, hole.size, round);
	}
}

static void hole_drop(uint32_t round)
{
	uint64_t before = test_counters().flushes;
	size_t i;

	for (i = 0; i < hole.n; i++)
		hole.ranges[i].result = FALLOW_RANGE_REFUSED;
	test_provider.decommit(test_provider.ctx, hole.ranges, hole.n);
	test_store(&hole.gone, round);
	CHECK_EQUAL(test_counters().flushes, before + 1);
	for (i = 0; i < hole.n; i++)
		CHECK_EQUAL(hole.ranges[i].result, FALLOW_RANGE_DONE);
}

static void run_stale(void *arg)
{
	unsigned cpu = board_cpu();
	uint32_t round;

	(void)arg;
	for (round = 1; round <= ROUNDS; round++) {
		bool mine = round % board_cpus() == cpu;

		if (mine)
			hole_fill(round);
		test_meet();
		CHECK_EQUAL(hole_readable(), hole.n * hole.size / GRANULE);
		test_meet();
		if (mine)
			hole_drop(round);
		else
			hole_touch(round);
		CHECK_EQUAL(hole_readable(), 0);
		test_meet();
	}
}

static void stale(size_t n, size_t size)
{
	if (!begin())
		return;
	hole_make(n, size);
	board_run(run_stale, NULL);
	end();
}

static void test_one_range_is_gone(void)
{
	stale(1, GRANULE);
}

static void test_two_ranges_are_gone(void)
{
	stale(2, GRANULE);
}

/* As many as a call carries, and more granules than are flushed one by one. */
static void test_many_ranges_are_gone(void)
{
	stale(FALLOW_RANGES_MAX, GRANULE);
}

static void test_chunk_is_gone(void)
{
	stale(1, CHUNK);
}

/* Asks every other CPU whether it reaches the hole, and waits for them. */
static void ask_others(void)
{
	uint32_t asked = test_add(&hole.asked, 1) + 1;
	unsigned cpu;

	hole.answered[board_cpu()] = asked;
	for (cpu = 0; cpu < board_cpus(); cpu++)
		while (test_load(&hole.answered[cpu]) != asked)
			fl_port_pause();
}

/* No frame is given back before every CPU has forgotten it. */
static void test_frames_after_acknowledgement(void)
{
	if (!begin())
		return;
	hole_make(4, GRANULE);
	frames_given = ask_others;
	board_run(run_stale, NULL);
	CHECK(hole.asked >= 4 * ROUNDS);
	CHECK_EQUAL(hole.reached, 0);
	end();
}

/* Other frames come to where some were: nobody still reads the old ones. */
static void run_recommit(void *arg)
{
	unsigned cpu = board_cpu();
	uint32_t round;
	uint64_t frame;

	(void)arg;
	for (round = 1; round <= ROUNDS; round++) {
		bool mine = round % board_cpus() == cpu;

		if (mine)
			hole_fill(2 * round);
		test_meet();
		CHECK_EQUAL(spoilt(window, GRANULE, 2 * round), 0);
		test_meet();
		if (mine) {
			hole_drop(round);
			/* The frame that comes next is the one that went. */
			frame = frames_take(NULL, 12);
			hole_fill(2 * round + 1);
			frames_give(NULL, frame, 12);
		}
		test_meet();
		CHECK_EQUAL(spoilt(window, GRANULE, 2 * round + 1), 0);
		test_meet();
		if (mine)
			hole_drop(round);
		test_meet();
	}
}

static void test_new_frames_are_seen(void)
{
	if (!begin())
		return;
	hole_make(1, GRANULE);
	board_run(run_recommit, NULL);
	end();
}

/* Each CPU gives up what is its own, beside what is the others', in one chunk:
 * so each waits for the others while they wait for it. */
static void run_shots(void *arg)
{
	unsigned cpu = board_cpu(), shot;
	uintptr_t base = window + cpu * 3 * GRANULE;

	(void)arg;
	test_meet();
	for (shot = 0; shot < SHOTS; shot++) {
		size_t size = (1 + shot % 3) * GRANULE;

		test_commit(base, size, 0);
		stamp_range(base, size, shot);
		CHECK_EQUAL(spoilt(base, size, shot), 0);
		test_decommit(base, size);
		CHECK_EQUAL(test_readable(base, size), 0);
		CHECK(board_interrupts_on());
	}
}

static void test_shots_cross(void)
{
	if (!begin())
		return;
	board_run(run_shots, NULL);
	end();
}

static void interrupted(void *arg)
{
	CHECK(!board_interrupts_on());
	test_add(arg, 1);
}

/* The same among interrupts of other kinds, some with interrupts masked. */
static void run_shots_and_interrupts(void *arg)
{
	unsigned cpu = board_cpu(), shot;
	uintptr_t base = window + cpu * GRANULE;
	uintptr_t state;

	test_meet();
	for (shot = 0; shot < SHOTS / 4; shot++) {
		test_commit(base, GRANULE, 0);
		CHECK(board_can_read(base));
		test_decommit(base, GRANULE);
		CHECK(!board_can_read(base));
		board_interrupt_others(interrupted, arg);
		state = board_interrupts_mask();
		board_interrupt_others(interrupted, arg);
		board_interrupts_restore(state);
	}
}

static void test_shots_beside_interrupts(void)
{
	uint32_t n = 0;

	if (!begin())
		return;
	board_run(run_shots_and_interrupts, &n);
	CHECK_EQUAL(n, SHOTS / 4 * 2 * board_cpus() * (board_cpus() - 1));
	end();
}

static void timer_note(struct board_frame *frame, void *arg)
{
	(void)frame;
	test_add(arg, 1);
}

/* The same while timers interrupt everything, the wait too. */
static void run_shots_and_timers(void *arg)
{
	board_timer(100000 + board_cpu() * 7000, timer_note, arg);
	run_shots(NULL);
	board_timer(0, NULL, NULL);
}

static void test_shots_beside_timers(void)
{
	uint32_t n = 0;

	if (!begin())
		return;
	board_run(run_shots_and_timers, &n);
	end();
}

/* What moves away is gone for all, and there for all where it went. */
static void run_move(void *arg)
{
	unsigned cpu = board_cpu();
	uintptr_t from = window, to = window + 8 * GRANULE;
	uint32_t round;

	(void)arg;
	for (round = 1; round <= ROUNDS; round++) {
		bool mine = round % board_cpus() == cpu;

		if (mine)
			hole_fill(round);
		test_meet();
		CHECK_EQUAL(hole_readable(), 3);
		test_meet();
		if (mine) {
			CHECK(test_provider.move(
				test_provider.ctx, from, to, 3 * GRANULE));
			test_store(&hole.gone, round);
		} else {
			hole_touch(round);
		}
		CHECK_EQUAL(hole_readable(), 0);
		CHECK_EQUAL(test_readable(to, 3 * GRANULE), 3);
		CHECK_EQUAL(*(volatile uint64_t *)to, stamp(from, round));
		test_meet();
		if (mine)
			test_decommit(to, 3 * GRANULE);
		test_meet();
		CHECK_EQUAL(test_readable(to, 3 * GRANULE), 0);
	}
}

static void test_moved_is_gone(void)
{
	if (!begin())
		return;
	hole_make(1, 3 * GRANULE);
	if (test_provider.capabilities & FALLOW_CAN_MOVE)
		board_run(run_move, NULL);
	else
		test_skip("the provider does not move");
	end();
}

/* The granules of a chunk that come and go while it is read. */
#define LIVE_BEGIN (window + 16 * GRANULE)
#define LIVE_BYTES (CHUNK - 16 * GRANULE)
static uint32_t splitting;

/* Cuts the chunk's begin off and puts it back, and makes it one again. */
static void split_and_promote(void)
{
	bool promotes = test_provider.capabilities & FALLOW_CAN_PROMOTE;
	struct fallow_mapping mapping;
	unsigned round;

	for (round = 0; round < ROUNDS; round++) {
		uintptr_t at = window + round % 8 * GRANULE;

		CHECK(fallow_pagetable_lookup(
			&test_pagetable, LIVE_BEGIN, &mapping));
		CHECK_EQUAL(mapping.size_log2,
			promotes || round == 0 ? 21 : 12);
		test_decommit(at, 2 * GRANULE);
		CHECK(fallow_pagetable_lookup(
			&test_pagetable, LIVE_BEGIN, &mapping));
		CHECK_EQUAL(mapping.size_log2, 12);
		CHECK_EQUAL(test_readable(window, 16 * GRANULE), 14);
		test_commit(at, 2 * GRANULE, FALLOW_RESERVED);
		if (promotes)
			CHECK(test_provider.promote(test_provider.ctx, window));
	}
}

/* Reads, and on CPU 0 splits; nobody ever sees another byte. */
static void run_split(void *arg)
{
	size_t wrong = 0;

	(void)arg;
	test_meet();
	if (board_cpu() == 0) {
		split_and_promote();
		test_store(&splitting, 0);
	}
	do
		wrong += spoilt(LIVE_BEGIN, LIVE_BYTES, 1);
	while (test_load(&splitting));
	CHECK_EQUAL(wrong, 0);
}

/* A large mapping is split and made again while other CPUs read what is live
 * in it. */
static void test_split_among_readers(void)
{
	if (!begin())
		return;
	if (!(test_provider.capabilities & FALLOW_CAN_DEMOTE)) {
		test_skip("this CPU splits nothing that is in use");
		return;
	}
	test_commit(window, CHUNK, FALLOW_PREFER_LARGE);
	CHECK_EQUAL(test_counters().large, 1);
	stamp_range(LIVE_BEGIN, LIVE_BYTES, 1);
	splitting = 1;
	board_run(run_split, NULL);
	CHECK(test_counters().splits > 0);
	test_decommit(window, CHUNK);
	end();
}

/*
 * Each CPU makes and breaks a chunk of its own, next to the others': tables
 * begin and end beside each other, and what is put by for splits is shared.
 */
static void run_chunks(void *arg)
{
	uintptr_t base = window + board_cpu() * CHUNK;
	bool demotes = test_provider.capabilities & FALLOW_CAN_DEMOTE;
	bool promotes = test_provider.capabilities & FALLOW_CAN_PROMOTE;
	uint64_t random = test_seed + board_cpu();
	unsigned round;

	(void)arg;
	test_meet();
	/* Each is a thousand granules that all CPUs forget. */
	for (round = 0; round < ROUNDS / 4; round++) {
		size_t at = test_random(&random) % (CHUNK_GRANULES - 8);
		uintptr_t cut = base + at * GRANULE;

		test_commit(base, CHUNK, demotes ? FALLOW_PREFER_LARGE
					    : FALLOW_RESERVED);
		stamp_range(base, CHUNK, round);
		test_decommit(cut, 8 * GRANULE);
		CHECK_EQUAL(test_readable(cut, 8 * GRANULE), 0);
		CHECK_EQUAL(spoilt(base, at * GRANULE, round), 0);
		test_commit(cut, 8 * GRANULE, FALLOW_RESERVED);
		stamp_range(cut, 8 * GRANULE, round);
		if (promotes && test_random(&random) % 2)
			test_provider.promote(test_provider.ctx, base);
		CHECK_EQUAL(spoilt(base, CHUNK, round), 0);
		test_decommit(base, CHUNK);
		CHECK_EQUAL(test_readable(base, CHUNK), 0);
	}
}

static void test_chunks_side_by_side(void)
{
	if (!begin())
		return;
	board_run(run_chunks, NULL);
	CHECK_EQUAL(test_counters().large, 0);
	CHECK_EQUAL(test_counters().tables_spare, 0);
	end();
}

#define GIBIBYTE ((uintptr_t)1 << 30)

/* All CPUs need the same tables, which are not there, at once: in each round
 * another chunk, at first in another GiB each. */
static void run_first(void *arg)
{
	unsigned cpu = board_cpu(), round;

	(void)arg;
	for (round = 0; round < 2 * ROUNDS; round++) {
		uintptr_t base = window + round % 16 * GIBIBYTE +
			round * CHUNK + cpu * GRANULE;

		test_meet();
		test_commit(base, GRANULE, 0);
		stamp_range(base, GRANULE, round);
		test_meet();
		CHECK_EQUAL(test_readable(base, GRANULE), 1);
		CHECK_EQUAL(spoilt(base, GRANULE, round), 0);
		test_meet();
		test_decommit(base, GRANULE);
	}
}

static void test_tables_begin_at_once(void)
{
	unsigned i;

	for (i = 0; i < 3; i++) {
		if (!begin())
			return;
		board_run(run_first, NULL);
		end();
	}
}

const struct test tests[] = {
	{ "one_range_is_gone", test_one_range_is_gone },
	{ "two_ranges_are_gone", test_two_ranges_are_gone },
	{ "many_ranges_are_gone", test_many_ranges_are_gone },
	{ "chunk_is_gone", test_chunk_is_gone },
	{ "frames_after_acknowledgement", test_frames_after_acknowledgement },
	{ "new_frames_are_seen", test_new_frames_are_seen },
	{ "shots_cross", test_shots_cross },
	{ "shots_beside_interrupts", test_shots_beside_interrupts },
	{ "shots_beside_timers", test_shots_beside_timers },
	{ "moved_is_gone", test_moved_is_gone },
	{ "split_among_readers", test_split_among_readers },
	{ "chunks_side_by_side", test_chunks_side_by_side },
	{ "tables_begin_at_once", test_tables_begin_at_once },
	{ NULL, NULL },
};
