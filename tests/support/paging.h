/* SPDX-License-Identifier: MIT */
/* The page-table provider that a guest's test tries, one at a time, and what
 * the tests of both CPUs do with it. */
#ifndef PAGING_H
#define PAGING_H

#include <stdbool.h>

#include <fallow/pagetable.h>

/* A test makes the first as it likes. */
extern struct fallow_pagetable test_pagetable;
extern struct fallow_provider test_provider;

/* Makes test_provider of test_pagetable, whose init returned `status`.
 * Returns: false, with a failure noted, iff that is not FALLOW_OK. */
bool test_provider_begin(enum fallow_status status);

struct fallow_pagetable_counters test_counters(void);

/* Commits a range; returns what the provider does. */
unsigned test_try_commit(uintptr_t base, size_t size, unsigned flags);

/* The same, which must be possible. */
void test_commit(uintptr_t base, size_t size, unsigned flags);

/* Decommits one range; returns how that went. */
enum fallow_range_result test_try_decommit(uintptr_t base, size_t size);

/* The same, which must not be refused. */
void test_decommit(uintptr_t base, size_t size);

/* Returns the log2 of what maps the address, 0 if nothing does. */
unsigned test_mapped_log2(uintptr_t addr);

/* Returns how many granules of the range this CPU can read. */
size_t test_readable(uintptr_t base, size_t size);

#endif
