/* SPDX-License-Identifier: MIT */
/*
 * Runs a program's tests, one after the other, and counts.
 *
 * Everything is printed through test_write(), so the same object works on the
 * host and on a bare board; nothing here needs a libc.  Each test prints its
 * name before it runs, so that one that hangs or faults is known by its name.
 * The output ends with "N passed, N failed" (and ", N skipped"): whoever reads
 * it must take a missing last line for a failure.
 *
 * Checks may fail in several threads at once: the counters are atomic, and one
 * call of test_printf() is one test_write() for lines up to LINE_BYTES.  Tests
 * themselves never run at once.
 */
#include "test.h"

#include <stdarg.h>

#include "debug.h"

/* A line is written whole up to this many bytes, on the stack. */
#define LINE_BYTES 256

/* Failed checks printed for one test: the first ones tell what is wrong. */
#define SHOWN_MAX 10

uint64_t test_seed;
const char *test_again_head = "";
const char *test_again_tail = "";

static unsigned failures;
static const char *skipped;

struct line {
	char text[LINE_BYTES];
	size_t used;
};

/* Adds a character; a full line goes out first. */
static void line_add(struct line *line, char c)
{
	if (line->used == LINE_BYTES) {
		test_write(line->text, line->used);
		line->used = 0;
	}
	line->text[line->used++] = c;
}

/* What stands between the % and the conversion's letter. */
struct spec {
	unsigned width;
	unsigned longs; /* how many l; a z counts as one */
	bool zero;
	bool left;
};

/* Reads a spec; returns the conversion's letter's place. */
static const char *spec_read(struct spec *spec, const char *at)
{
	*spec = (struct spec){ 0 };
	for (; *at == '0' || *at == '-'; at++) {
		spec->zero |= *at == '0';
		spec->left |= *at == '-';
	}
	for (; *at >= '0' && *at <= '9'; at++)
		spec->width = spec->width * 10 + (unsigned)(*at - '0');
	for (; *at == 'l' || *at == 'z'; at++)
		spec->longs++;
	return at;
}

/* Adds `size` characters, padded to the width. */
static void add_padded(struct line *line, const struct spec *spec,
	const char *text, size_t size)
{
	size_t pad = spec->width > size ? spec->width - size : 0;
	size_t i;

	for (i = 0; i < pad && !spec->left; i++)
		line_add(line, spec->zero ? '0' : ' ');
	for (i = 0; i < size; i++)
		line_add(line, text[i]);
	for (i = 0; i < pad && spec->left; i++)
		line_add(line, ' ');
}

/* Adds a number in base 10 or 16, with a sign if it is negative. */
static void add_number(struct line *line, const struct spec *spec,
	uint64_t value, unsigned base, bool negative)
{
	/* 2^64 - 1 has 20 decimal digits; one more for the sign. */
	char digits[21];
	size_t at = sizeof(digits);

	do {
		digits[--at] = "0123456789abcdef"[value % base];
		value /= base;
	} while (value);
	if (negative)
		digits[--at] = '-';
	add_padded(line, spec, digits + at, sizeof(digits) - at);
}

/* Adds a string; NULL shows as "(null)". */
static void add_string(
	struct line *line, const struct spec *spec, const char *text)
{
	size_t size = 0;

	if (!text)
		text = "(null)";
	while (text[size])
		size++;
	add_padded(line, spec, text, size);
}

/* The arguments behind a pointer: a va_list itself may be an array. */
struct arguments {
	va_list list;
};

/* Adds an integer: `letter` is d, u or x. */
static void add_integer(struct line *line, const struct spec *spec,
	char letter, struct arguments *args)
{
	int64_t value;

	if (letter != 'd') {
		add_number(line, spec,
			spec->longs ? va_arg(args->list, uint64_t)
				    : va_arg(args->list, unsigned),
			letter == 'u' ? 10 : 16, false);
		return;
	}
	value = spec->longs ? va_arg(args->list, int64_t)
			    : va_arg(args->list, int);
	add_number(line, spec, value < 0 ? -(uint64_t)value : (uint64_t)value,
		10, value < 0);
}

/* Adds what one conversion stands for; returns false if it is none of ours. */
static bool add_conversion(struct line *line, const struct spec *spec,
	char letter, struct arguments *args)
{
	switch (letter) {
	case 's':
		add_string(line, spec, va_arg(args->list, const char *));
		return true;
	case 'c':
		line_add(line, (char)va_arg(args->list, int));
		return true;
	case 'p':
		line_add(line, '0');
		line_add(line, 'x');
		add_number(line, spec, (uintptr_t)va_arg(args->list, void *),
			16, false);
		return true;
	case 'd':
	case 'u':
	case 'x':
		add_integer(line, spec, letter, args);
		return true;
	case '%':
		line_add(line, '%');
		return true;
	default:
		return false;
	}
}

/* Writes the line, all of it at once if it is not too long; ends before a
 * conversion that it does not know. */
void test_printf(const char *format, ...)
{
	struct line line = { .used = 0 };
	struct arguments args;
	struct spec spec;
	const char *at;

	va_start(args.list, format);
	for (at = format; *at; at++) {
		if (*at != '%') {
			line_add(&line, *at);
			continue;
		}
		at = spec_read(&spec, at + 1);
		if (!add_conversion(&line, &spec, *at, &args))
			break;
	}
	va_end(args.list);
	test_write(line.text, line.used);
}

/* Counts a failed check; returns whether it is among those shown. */
static bool failure_count(void)
{
	unsigned n = __atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);

	if (n == SHOWN_MAX)
		test_printf("\n    more checks of this test fail");
	return n < SHOWN_MAX;
}

void (*test_broken)(const char *rule, const char *what);

/* Replaces the library's own, which says nothing. */
_Noreturn void fallow_broken(const char *rule, const char *what)
{
	if (test_broken != NULL)
		test_broken(rule, what);
	test_printf("\n    fallow is broken: %s%s%s\n", rule,
		what == NULL ? "" : ": ", what == NULL ? "" : what);
	__builtin_trap();
}

void test_fail(const char *file, int line, const char *what)
{
	if (failure_count())
		test_printf("\n    %s:%d: expected: %s", file, line, what);
}

void test_fail_values(const char *file, int line, const char *what,
	uint64_t seen, uint64_t expected)
{
	if (failure_count())
		test_printf("\n    %s:%d: %s\n"
			    "      expected 0x%llx (%llu)\n"
			    "      seen     0x%llx (%llu)",
			file, line, what, (unsigned long long)expected,
			(unsigned long long)expected, (unsigned long long)seen,
			(unsigned long long)seen);
}

unsigned test_failures(void)
{
	return __atomic_load_n(&failures, __ATOMIC_RELAXED);
}

void test_skip(const char *why)
{
	skipped = why;
}

/* Whether `text` contains `part`; the empty part is in everything. */
static bool text_contains(const char *text, const char *part)
{
	for (;; text++) {
		size_t i = 0;

		while (part[i] && part[i] == text[i])
			i++;
		if (!part[i])
			return true;
		if (!*text)
			return false;
	}
}

/* Runs one test and prints how it went; returns the counter it belongs to:
 * 0 passed, 1 failed, 2 skipped. */
static unsigned test_run(const struct test *test, uint64_t seed)
{
	failures = 0;
	skipped = NULL;
	test_seed = seed;
	test_printf("%s ... ", test->name);
	test->run();
	if (test_failures()) {
		test_printf("\n  FAILED %s\n", test->name);
		if (*test_again_head)
			test_printf("  again: %s TEST=%s SEED=%llu%s\n",
				test_again_head, test->name,
				(unsigned long long)seed, test_again_tail);
		return 1;
	}
	if (skipped) {
		test_printf("skipped: %s\n", skipped);
		return 2;
	}
	test_printf("ok\n");
	return 0;
}

int test_main(const char *filter, uint64_t seed)
{
	unsigned counts[3] = { 0, 0, 0 };
	const struct test *test;

	for (test = tests; test->name; test++)
		if (!filter || text_contains(test->name, filter))
			counts[test_run(test, seed)]++;
	if (filter && *filter && !counts[0] && !counts[1] && !counts[2])
		test_printf("no test's name contains '%s'\n", filter);
	test_printf("%u passed, %u failed", counts[0], counts[1]);
	if (counts[2])
		test_printf(", %u skipped", counts[2]);
	test_printf("\n");
	return counts[1] ? 1 : 0;
}
