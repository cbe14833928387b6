/* SPDX-License-Identifier: MIT */
/*
 * The tests of test_bump.c on arenas as they are in a build that is not a debug
 * one: their source is compiled into the program, in place of the archive's.
 */
#define FALLOW_BUMP_DEBUG 0

#include "../../core/bump.c"
#include "../../core/bump_check.c"
#include "../../core/bump_join.c"
#include "../../core/bump_list.c"
#include "../../core/bump_scope.c"
#include "../../core/bump_span.c"

#include "test_bump.c"
