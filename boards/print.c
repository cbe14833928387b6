/* SPDX-License-Identifier: MIT */
/*
 * The least that a board prints with: text and hexadecimal numbers, by
 * board_putc() alone.  It must work in a fault handler and before there is any
 * memory, so it has no buffer and no state.
 */
#include "image.h"

enum { STATUS_PANIC = 98 };

void board_print(const char *text)
{
	while (*text != '\0')
		board_putc(*text++);
}

void board_print_hex(uint64_t value)
{
	unsigned shift = 64;

	board_print("0x");
	do {
		shift -= 4;
		board_putc("0123456789abcdef"[value >> shift & 15]);
	} while (shift > 0);
}

_Noreturn void board_panic(const char *message)
{
	board_print("board: ");
	board_print(message);
	board_print("\n");
	board_exit(STATUS_PANIC);
}
