/* SPDX-License-Identifier: MIT */
/*
 * Where CPUs wait for each other.
 *
 * The last to come counts the round and lets the others go.  It counts anew
 * before that, so a CPU that is already at the next meeting is not lost.
 */
#include "meet.h"
#include "arch.h"
#include "board.h"

void test_meet(void)
{
	static uint32_t arrived, rounds;
	uint32_t round = test_load(&rounds);

	if (test_add(&arrived, 1) + 1 == board_cpus()) {
		test_store(&arrived, 0);
		test_store(&rounds, round + 1);
	}
	while (test_load(&rounds) == round)
		fl_port_pause();
}
