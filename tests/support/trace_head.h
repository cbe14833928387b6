/* SPDX-License-Identifier: MIT */
/* The header of a trace, between trace.c and trace_head.c. */
#ifndef TRACE_HEAD_H
#define TRACE_HEAD_H

#include "trace.h"

/* Where the operations begin. */
size_t test_trace_head_bytes(const struct trace_info *info);

/* Writes the header of a trace of `size` bytes, whose operations are there. */
void test_trace_head_write(
	uint8_t *data, size_t size, const struct trace_info *info);

#endif
