/* SPDX-License-Identifier: MIT */
/*
 * A test program as an image on a board.
 *
 * The argument string is "test=FILTER seed=N again=COMMAND": words parted by
 * single spaces, each optional; `again` is last and takes the rest, the
 * command that runs this image again.
 */
#include "test.h"
#include "board.h"

/* Longer than any test's name. */
#define FILTER_BYTES 128

void test_write(const char *text, size_t size)
{
	size_t i;

	for (i = 0; i < size; i++)
		board_putc(text[i]);
}

/* If `at` begins with `key`, moves it behind and returns true. */
static bool key_take(const char **at, const char *key)
{
	size_t i = 0;

	while (key[i] && (*at)[i] == key[i])
		i++;
	if (key[i])
		return false;
	*at += i;
	return true;
}

/* Reads a number in decimal; stops at the first other character. */
static uint64_t number_take(const char **at)
{
	uint64_t value = 0;

	for (; **at >= '0' && **at <= '9'; (*at)++)
		value = value * 10 + (uint64_t)(**at - '0');
	return value;
}

/* Moves behind the next space, or to the end. */
static void word_skip(const char **at)
{
	while (**at && **at != ' ')
		(*at)++;
	if (**at)
		(*at)++;
}

int guest_main(void)
{
	static char filter[FILTER_BYTES];
	const char *at = board_args();
	uint64_t seed = 1;
	size_t n = 0;

	while (*at) {
		if (key_take(&at, "again=")) {
			test_again_head = at;
			break;
		}
		if (key_take(&at, "test=")) {
			for (; *at && *at != ' '; at++)
				if (n < FILTER_BYTES - 1)
					filter[n++] = *at;
		} else if (key_take(&at, "seed=")) {
			seed = number_take(&at);
		}
		word_skip(&at);
	}
	return test_main(filter, seed);
}
