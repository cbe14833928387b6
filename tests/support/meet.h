/* SPDX-License-Identifier: MIT */
/* What a guest's tests of several CPUs have in common. */
#ifndef MEET_H
#define MEET_H

#include <stdint.h>

/* Returns when all CPUs are here; interrupts stay as they are.  Context: within
 * board_run(), as often on each CPU. */
void test_meet(void);

/* Words that CPUs tell each other something by: what was stored before is seen
 * after the load. */
static inline uint32_t test_load(const uint32_t *at)
{
	return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

static inline void test_store(uint32_t *at, uint32_t value)
{
	__atomic_store_n(at, value, __ATOMIC_RELEASE);
}

/* Returns what was there before. */
static inline uint32_t test_add(uint32_t *at, uint32_t value)
{
	return __atomic_fetch_add(at, value, __ATOMIC_ACQ_REL);
}

#endif
