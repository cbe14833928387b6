/* SPDX-License-Identifier: MIT */
/*
 * Messages without stdio: see text.h.
 *
 * A whole message is one write() if it fits, so that those of several processes
 * do not mix in one file.  What cannot be written is lost: there is nobody to
 * tell.
 */
#include "linux/text.h"

#include <errno.h>
#include <pthread.h>
#include <unistd.h>

void board_text_begin(struct board_text *text)
{
	text->fd = STDERR_FILENO;
	text->used = 0;
	board_text_put(text, "fallow: ");
}

void board_text_char(void *arg, char c)
{
	struct board_text *text = arg;

	if (text->used == sizeof(text->bytes))
		board_text_end(text);
	text->bytes[text->used++] = c;
}

void board_text_put(struct board_text *text, const char *words)
{
	while (*words != '\0')
		board_text_char(text, *words++);
}

void board_text_quote(struct board_text *text, const char *words, size_t most)
{
	static const char digits[] = "0123456789abcdef";
	size_t i;

	for (i = 0; words[i] != '\0' && i < most; i++) {
		unsigned char c = (unsigned char)words[i];

		if (c >= ' ' && c <= '~') {
			board_text_char(text, (char)c);
			continue;
		}
		board_text_put(text, "\\x");
		board_text_char(text, digits[c >> 4]);
		board_text_char(text, digits[c & 15]);
	}
	if (words[i] != '\0')
		board_text_put(text, "...");
}

/* Appends a number in a base of at most 16. */
static void number_put(struct board_text *text, uint64_t number, unsigned base)
{
	char digits[20]; /* of 2^64 - 1 in base 10 */
	unsigned n = 0;

	do {
		digits[n++] = "0123456789abcdef"[number % base];
		number /= base;
	} while (number != 0);
	while (n > 0)
		board_text_char(text, digits[--n]);
}

void board_text_number(struct board_text *text, uint64_t number)
{
	number_put(text, number, 10);
}

void board_text_hex(struct board_text *text, uint64_t number)
{
	board_text_put(text, "0x");
	number_put(text, number, 16);
}

void board_text_end(struct board_text *text)
{
	int before = errno;
	size_t done = 0;
	int cancel;

	/* free() is no cancellation point, write() is one. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);

	while (done < text->used) {
		ssize_t n = write(text->fd, text->bytes + done,
			text->used - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	pthread_setcancelstate(cancel, NULL);
	text->used = 0;
	errno = before;
}
