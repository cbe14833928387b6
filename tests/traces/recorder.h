/* SPDX-License-Identifier: MIT */
/* The raw log between recorder.c and pack.c, in the machine's byte order. */
#ifndef RECORDER_H
#define RECORDER_H

#include <stdint.h>

enum raw_kind {
	RAW_END = 0, /* what the file's unused tail reads as */
	RAW_ALLOC,
	RAW_ZALLOC,
	RAW_ALIGNED,
	RAW_REALLOC,
	RAW_FREE,
};

struct raw {
	uint32_t kind;
	uint32_t thread;
	uint64_t size;
	uint64_t address; /* of the block before the call, for ALLOC after */
	uint64_t result;  /* REALLOC: the block after; ALIGNED: the alignment */
};

#endif
