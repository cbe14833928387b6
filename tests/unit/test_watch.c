/* SPDX-License-Identifier: MIT */
/*
 * What a debug build says of locks: each rule is broken once, by hand or by the
 * real code in a situation that must not be, and the sentence is compared.
 *
 * A report does not return, so the test jumps out of it; what the thread held is
 * then forgotten.
 */
#include <setjmp.h>
#include <string.h>

#include "host/host.h"
#include "white.h"

#define MIB ((size_t)1 << 20)

static jmp_buf out;
static const char *rule_seen, *what_seen;

static void report(const char *rule, const char *what)
{
	rule_seen = rule;
	what_seen = what;
	longjmp(out, 1);
}

static struct lock_watch reserve = { .kind = LOCK_RESERVE };
static struct lock_watch local = { .kind = LOCK_LOCAL };
static struct lock_watch heap = { .kind = LOCK_HEAP };
static struct lock_watch frames = { .kind = LOCK_FRAMES };
static struct lock_watch tables = { .kind = LOCK_TABLES };

static void take(struct lock_watch *lock)
{
	fl_watch_want(lock);
	fl_watch_take(lock);
}

/* What scene() is told of by fallow_broken(), which must be of `what`. */
static void expect(void (*scene)(void), const char *rule, const char *what)
{
	rule_seen = what_seen = "nothing";
	test_broken = report;
	if (setjmp(out) == 0)
		scene();
	test_broken = NULL;
	memset(fallow_host_locks, 0, sizeof(fallow_host_locks));
	if (strcmp(rule_seen, rule) != 0 || strcmp(what_seen, what) != 0)
		test_printf("\n    %s: %s", rule_seen, what_seen);
	CHECK(strcmp(rule_seen, rule) == 0);
	CHECK(strcmp(what_seen, what) == 0);
}

static void legal(void)
{
	take(&local);
	take(&heap);
	fl_watch_leave(&heap);
	fl_watch_leave(&local);
	take(&frames);
	fl_watch_leave(&frames);
	take(&tables);
	fl_watch_leave(&tables);
	fl_watch_none();
}

static void test_watch_legal(void)
{
	expect(legal, "nothing", "nothing");
}

static void twice(void)
{
	take(&local);
	take(&local);
}

static void test_watch_twice(void)
{
	expect(twice, "a lock is taken twice by one context", "local->lock");
}

static void heap_then_local(void)
{
	take(&heap);
	take(&local);
}

static void local_then_reserve(void)
{
	take(&local);
	take(&reserve);
}

static void reserve_then_frames(void)
{
	take(&reserve);
	take(&local);
	take(&heap);
	fl_watch_leave(&heap);
	fl_watch_leave(&local);
	take(&frames);
}

static void heap_then_frames(void)
{
	take(&heap);
	take(&frames);
}

static void tables_then_frames(void)
{
	take(&tables);
	take(&frames);
}

static void local_then_tables(void)
{
	take(&local);
	take(&tables);
}

static void test_watch_order(void)
{
	const char *rule = "a lock is taken under another, out of order";

	expect(heap_then_local, rule, "local->lock");
	expect(local_then_reserve, rule, "reserve_lock");
	expect(reserve_then_frames, rule, "the frames' lock");
	expect(heap_then_frames, rule, "the frames' lock");
	expect(tables_then_frames, rule, "the frames' lock");
	expect(local_then_tables, rule, "the page tables' lock");
}

static void left(void)
{
	take(&heap);
	fl_watch_leave(&frames);
}

static void test_watch_left(void)
{
	expect(left, "a lock is left that is not held", "the frames' lock");
}

static void called_out(void)
{
	take(&frames);
	fl_watch_none();
}

static void test_watch_called_out(void)
{
	expect(called_out, "a lock is held at a call out of the library",
		"the frames' lock");
}

/* What a hold of the page tables' lock may take: three tables. */
#define TABLES ((size_t)3 * 512)

static void tables_twice_over(void)
{
	take(&tables);
	fl_watch_steps(TABLES);
	fl_watch_leave(&tables);
	take(&tables);
	fl_watch_steps(TABLES);
	fl_watch_steps(512);
	fl_watch_leave(&tables);
}

static void allowed(void)
{
	take(&tables);
	fl_watch_allow(512);
	fl_watch_steps(TABLES + 512);
	fl_watch_leave(&tables);
	/* For that hold alone. */
	take(&tables);
	fl_watch_steps(TABLES);
	fl_watch_leave(&tables);
}

static void test_watch_steps(void)
{
	/* Steps without a lock are nobody's. */
	fl_watch_steps(UINT32_MAX);
	expect(tables_twice_over, "a lock is held for too many steps",
		"the page tables' lock");
	expect(allowed, "nothing", "nothing");
}

static struct rig *rig;

/* The heap's own code, called with the heap's lock held. */
static void alloc_under_lock(void)
{
	lock_take(&white_heap(rig)->lock);
	CHECK(fallow_alloc(&rig->heap, 3000) == NULL);
}

static void free_under_lock(void)
{
	void *p = fallow_alloc(&rig->heap, 600000);

	lock_take(&white_heap(rig)->locals[0]->lock);
	fallow_free(&rig->heap, p);
}

/* A search of the heap's that is not told that it may be so long. */
static void search_unallowed(void)
{
	struct fl_port_state state = lock_take(&white_heap(rig)->lock);

	fl_chunk_take_run(white_heap(rig), 40, SLICE_BYTES);
	white_heap(rig)->lock.watch.allowed = 0;
	fl_watch_steps(2000);
	lock_leave(&white_heap(rig)->lock, state);
}

/* Makes a lock free that a report left taken. */
static void lock_reset(struct lock *lock)
{
	lock->serving = lock->next;
}

static void scene_in_rig(void (*scene)(void), const char *rule, const char *what)
{
	rig = rig_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 1);
	expect(scene, rule, what);
	/* The call is where it was when it was reported. */
	fallow_host_held = 0;
	fallow_host_signals_restore(true);
	lock_reset(&white_heap(rig)->lock);
	lock_reset(&white_heap(rig)->locals[0]->lock);
	rig_end_now(rig, true);
}

static void test_watch_heap(void)
{
	scene_in_rig(alloc_under_lock, "a lock is taken twice by one context",
		"heap->lock");
	scene_in_rig(free_under_lock,
		"a lock is held at a call out of the library", "local->lock");
	scene_in_rig(search_unallowed, "a lock is held for too many steps",
		"heap->lock");
}

static void assert_false(void)
{
	fl_assert(1 + 1 == 3);
}

static void test_watch_assert(void)
{
	rule_seen = what_seen = "nothing";
	test_broken = report;
	if (setjmp(out) == 0)
		assert_false();
	test_broken = NULL;
	CHECK(strcmp(rule_seen, "1 + 1 == 3") == 0);
	CHECK(what_seen == NULL);
}

const struct test tests[] = {
	{ "watch_legal", test_watch_legal },
	{ "watch_twice", test_watch_twice },
	{ "watch_order", test_watch_order },
	{ "watch_left", test_watch_left },
	{ "watch_called_out", test_watch_called_out },
	{ "watch_steps", test_watch_steps },
	{ "watch_heap", test_watch_heap },
	{ "watch_assert", test_watch_assert },
	{ NULL, NULL },
};
