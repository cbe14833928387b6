/* SPDX-License-Identifier: MIT */
/* What the environment may say of libfallow.so: see settings.c. */
#ifndef LINUX_SETTINGS_H
#define LINUX_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

/* ALWAYS: from the first touch on; ADAPTIVE: where chunks stay full. */
enum board_large { BOARD_LARGE_NEVER, BOARD_LARGE_ALWAYS, BOARD_LARGE_ADAPTIVE };
enum board_misuse { BOARD_MISUSE_REPORT, BOARD_MISUSE_QUIET, BOARD_MISUSE_STOP };

struct board_settings {
	uint64_t window_bytes; /* 0: by what the machine has */
	uint64_t floor_bytes;
	uint64_t floor_epochs;
	uint64_t epoch_ms;
	uint64_t pace_from_bytes;
	uint64_t sweeper; /* 0 or 1 */
	uint64_t large;   /* enum board_large */
	uint64_t misuse;  /* enum board_misuse */
	uint64_t report;  /* 0 or 1 */
	const char *report_file; /* or NULL */
};

/* Whether there is anything in the environment to be read or complained of. */
bool board_settings_given(void);

/* Reads the environment; what is wrong in it is said on stderr and left out.
 * Needs no memory. */
void board_settings_read(struct board_settings *settings);

#pragma GCC visibility pop

#endif
