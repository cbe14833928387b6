/* SPDX-License-Identifier: MIT */
/*
 * Messages of libfallow.so: composed on the stack and written at once, without
 * stdio and without memory, since they may be about the lack of it.
 */
#ifndef LINUX_TEXT_H
#define LINUX_TEXT_H

#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

/* A message under way; what does not fit is written when it is full. */
struct board_text {
	int fd;
	size_t used;
	char bytes[1000];
};

/* A message to stderr that says who speaks. */
void board_text_begin(struct board_text *text);
void board_text_put(struct board_text *text, const char *words);
void board_text_char(void *text, char c);
void board_text_number(struct board_text *text, uint64_t number);
void board_text_hex(struct board_text *text, uint64_t number);
/* Appends what others wrote: so many of its bytes at most, with those that a
 * terminal would not print in hexadecimal. */
void board_text_quote(struct board_text *text, const char *words, size_t most);
/* Writes what is there; errno is as before. */
void board_text_end(struct board_text *text);

#pragma GCC visibility pop

#endif
