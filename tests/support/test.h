/* SPDX-License-Identifier: MIT */
/*
 * What every test program is made of, on the host and in a guest alike.
 *
 * A program defines `const struct test tests[]`, ended by an entry without a
 * name.  The runner calls each whose name contains TEST (all, if unset), sets
 * `test_seed` from SEED, prints every failed check with the values seen and
 * the line that runs it again, and ends with "N passed, N failed".  A test
 * that calls test_skip() counts as skipped.
 */
#ifndef TEST_H
#define TEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct test {
	const char *name;
	void (*run)(void);
};

extern const struct test tests[];
extern uint64_t test_seed;

/* Formats %s %c %d %u %x %p %ld %lu %lx %zu %llu %llx, with width and 0. */
void test_printf(const char *format, ...)
	__attribute__((format(printf, 1, 2)));

/* If set, called with what fallow says of its own bugs in debug builds (see
 * fallow_broken() in core/debug.h); must not return.  Else it is printed, and
 * the program ends. */
extern void (*test_broken)(const char *rule, const char *what);

/* Notes a failure; the test goes on unless CHECK_OR_RETURN. */
void test_fail(const char *file, int line, const char *what);
void test_fail_values(const char *file, int line, const char *what,
	uint64_t seen, uint64_t expected);
/* How many checks have failed so far in the running test. */
unsigned test_failures(void);
/* Marks the running test as skipped, with the reason. */
void test_skip(const char *why);

/* The command that runs a failed test again, "" if none: it is printed as
 * given, " TEST=name SEED=n" is inserted between the two parts. */
extern const char *test_again_head;
extern const char *test_again_tail;
/* Where everything is printed; host_main.c or guest_main.c defines it. */
void test_write(const char *text, size_t size);

/* Runs the program's tests; returns the exit status. */
int test_main(const char *filter, uint64_t seed);

/* The same generator everywhere: splitmix64, advances *state. */
static inline uint64_t test_random(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

#define CHECK(condition) \
	do { \
		if (!(condition)) \
			test_fail(__FILE__, __LINE__, #condition); \
	} while (0)

#define CHECK_OR_RETURN(condition) \
	do { \
		if (!(condition)) { \
			test_fail(__FILE__, __LINE__, #condition); \
			return; \
		} \
	} while (0)

#define CHECK_EQUAL(seen, expected) \
	do { \
		uint64_t seen_ = (uint64_t)(seen); \
		uint64_t expected_ = (uint64_t)(expected); \
		if (seen_ != expected_) \
			test_fail_values(__FILE__, __LINE__, \
				#seen " == " #expected, seen_, expected_); \
	} while (0)

#endif
