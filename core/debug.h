/* SPDX-License-Identifier: MIT */
/* Whether this is a debug build (FALLOW_DEBUG, see config.h), and where one ends
 * that has found a bug of fallow's own. */
#ifndef CORE_DEBUG_H
#define CORE_DEBUG_H

#ifndef FALLOW_DEBUG
#define FALLOW_DEBUG 0
#endif

/*
 * `rule` says what is not as it must be, `what` of which object, or is NULL.  The
 * one in the library traps; an embedder's own takes its place, and may print
 * first.  Context: any; locks may be held.
 */
_Noreturn void fallow_broken(const char *rule, const char *what);

#endif
