/* SPDX-License-Identifier: MIT */
/*
 * The ticket lock: who is inside, who is not, in which order; and, where there
 * are threads, that one at a time is.
 */
#include "lock.h"
#include "test.h"

/* From any ticket on, over the end of the numbers too. */
static void test_lock_tickets(void)
{
	static const uint32_t begins[] = { 0, 1, UINT32_MAX - 1, UINT32_MAX };

	for (unsigned i = 0; i < 4; i++) {
		struct lock lock = { .next = begins[i],
			.serving = begins[i] };
		struct fl_port_state state, other;

		CHECK(!lock_held(&lock));
		for (uint32_t n = 1; n < 4; n++) {
			state = lock_take(&lock);
			CHECK(lock_held(&lock));
			CHECK_EQUAL(lock.next, (uint32_t)(begins[i] + n));
			CHECK(!lock_try(&lock, &other));
			CHECK_EQUAL(lock.next, (uint32_t)(begins[i] + n));
			lock_leave(&lock, state);
			CHECK(!lock_held(&lock));
			CHECK_EQUAL(lock.serving, (uint32_t)(begins[i] + n));
		}
		CHECK(lock_try(&lock, &state));
		CHECK(lock_held(&lock));
		CHECK(!lock_try(&lock, &other));
		lock_leave(&lock, state);
		CHECK(!lock_held(&lock));
	}
}

/* A lock that somebody waits for is not had by trying, even in the moment in
 * which nobody is inside. */
static void test_lock_try_behind_waiter(void)
{
	struct lock lock = { .next = 0 };
	struct fl_port_state state = lock_take(&lock), other;

	/* Another draws a ticket and waits. */
	lock.next++;
	lock_leave(&lock, state);
	CHECK(lock_held(&lock));
	CHECK(!lock_try(&lock, &other));
	CHECK_EQUAL(lock.next, 2);
	lock.serving++;
	CHECK(lock_try(&lock, &other));
	lock_leave(&lock, other);
}

#if FALLOW_MODEL == FALLOW_MODEL_THREAD

#include <pthread.h>

#define THREADS 4
#define ROUNDS 20000

static struct lock shared;
/* Two words that agree unless two threads are inside. */
static volatile uint64_t first, second;
static unsigned wrong;

static void *storm(void *arg)
{
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct fl_port_state state;

		if (i % 4 == (uintptr_t)arg) {
			while (!lock_try(&shared, &state))
				fl_port_pause();
		} else {
			state = lock_take(&shared);
		}
		wrong += first != second;
		first = first + 1;
		second = second + 1;
		lock_leave(&shared, state);
	}
	return NULL;
}

static void test_lock_storm(void)
{
	pthread_t threads[THREADS];

	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, storm, (void *)i));
	for (unsigned i = 0; i < THREADS; i++)
		CHECK(!pthread_join(threads[i], NULL));
	CHECK_EQUAL(wrong, 0);
	CHECK_EQUAL(first, THREADS * ROUNDS);
	CHECK_EQUAL(second, THREADS * ROUNDS);
	CHECK(!lock_held(&shared));
}

#endif

const struct test tests[] = {
	{ "lock_tickets", test_lock_tickets },
	{ "lock_try_behind_waiter", test_lock_try_behind_waiter },
#if FALLOW_MODEL == FALLOW_MODEL_THREAD
	{ "lock_storm", test_lock_storm },
#endif
	{ NULL, NULL },
};
