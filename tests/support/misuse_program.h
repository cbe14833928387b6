/* SPDX-License-Identifier: MIT */
/*
 * What every misuse program is made of: it commits one crime, and prints each
 * report that the heap makes of it, with addresses told by the names of what
 * they are in, so that the output is the same at every run.
 *
 *	static CRIME void crime(struct fallow *heap) { ... }
 *	int main(void) { return misuse_run(crime); }
 *
 * The heap is of class window, with four contexts; what a report does not do,
 * ending the program, is seen by the lines that follow it.
 */
#ifndef MISUSE_PROGRAM_H
#define MISUSE_PROGRAM_H

#include <stddef.h>

#include <fallow/fallow.h>

#include "sim.h"

/* The crime's own text section: a report's caller must be in it. */
#define CRIME __attribute__((section("crime_text"), noinline))

/* Commits the crime on a new heap; prints the reports, and what became of
 * the heap.  Returns the exit status. */
int misuse_run(void (*crime)(struct fallow *heap));

/* From here on addresses in [p, p + size) print as `name` + offset. */
void misuse_name(const char *name, const void *p, size_t size);

/* Prints a line of the program's own. */
void misuse_say(const char *text);

/* Returns a block of `size` bytes, named; a program without one cannot go
 * on. */
void *misuse_alloc(struct fallow *heap, const char *name, size_t size);

/* Hides from the compiler where a pointer comes from. */
void *misuse_opaque(const void *p);

/* Begins another heap like the program's, which prints its reports too. */
struct fallow *misuse_heap(enum fallow_misuse_policy policy);

/* The provider of the program's heap. */
struct sim *misuse_sim(void);

#endif
