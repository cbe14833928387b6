/* SPDX-License-Identifier: MIT */
/*
 * The four functions that a C compiler may call on its own, declared without
 * a libc.  string.c has weak ones for kernels that have none.
 */
#ifndef CORE_STRING_H
#define CORE_STRING_H

#include <stddef.h>

void *memcpy(void *restrict to, const void *restrict from, size_t size);
void *memmove(void *to, const void *from, size_t size);
void *memset(void *to, int byte, size_t size);
int memcmp(const void *a, const void *b, size_t size);

#endif
