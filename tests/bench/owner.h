/* SPDX-License-Identifier: MIT */
/* Which allocator a program runs under. */
#ifndef OWNER_H
#define OWNER_H

/* The path of the file whose malloc() the program calls. */
const char *bench_malloc_owner(void);

#endif
