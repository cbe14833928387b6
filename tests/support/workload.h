/* SPDX-License-Identifier: MIT */
/*
 * A fixed sequence of operations that visits every way a heap can get and give
 * back memory, for tests that interfere with it at each point in turn.
 */
#ifndef WORKLOAD_H
#define WORKLOAD_H

#include "oracle.h"

/*
 * Runs the workload from the heap and oracle as they are; calls `between`, if
 * not NULL, after each step.  Stops early iff a check of the oracle failed.
 * Blocks that could not be had are done without (oracle->may_fail says
 * whether that is allowed).  At the end no block of the oracle is in use.
 */
void workload_run(
	struct oracle *oracle, void (*between)(void *arg), void *arg);

#endif
