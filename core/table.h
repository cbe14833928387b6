/* SPDX-License-Identifier: MIT */
/* Where the heap keeps what it knows: see table.c. */
#ifndef CORE_TABLE_H
#define CORE_TABLE_H

#include "chunk.h"

#pragma GCC visibility push(hidden)

/* Lays the tables out and makes the first of them usable.  At fallow_init()
 * for a window, or once the window is known for the other classes. */
enum fallow_status fl_table_begin(struct op *op, uintptr_t at, size_t size);

/* Bytes of tables, of a heap that is not of class window. */
size_t fl_table_bytes(size_t chunks, unsigned contexts);

/* Takes zeroed memory for chunk descriptors or records; NULL: the tables must
 * be extended first.  Under heap->lock. */
void *fl_table_take(struct heap *heap, size_t size);

/*
 * Makes sure of room for the records of a chunk, and keeps room for n
 * descriptors; class window: also makes the tables reach `chunks` chunks from
 * the window's begin.  Only by the one call that set heap->growing.  Drops the
 * context.
 */
bool fl_table_reach(struct op *op, size_t chunks, size_t n);

/* Makes sure of the descriptor of chunk number `number`; NULL: no room in the
 * tables.  Under heap->lock. */
struct chunk *fl_table_chunk(struct heap *heap, size_t number);

/* The same, by the call that keeps room for it: never NULL. */
struct chunk *fl_table_chunk_kept(struct heap *heap, size_t number);

/* Makes sure of the records of a chunk.  Under heap->lock. */
bool fl_table_records(struct heap *heap, struct chunk *chunk);

/* Gives all tables back; the heap is unusable from here on. */
void fl_table_end(struct op *op);

/*
 * Makes contexts until there are so many; returns whether there are: iff no
 * more than fallow_init() was told of, and, in class window, there is memory.
 * One call at a time.
 */
bool fl_table_contexts(struct op *op, unsigned contexts);

#pragma GCC visibility pop

/* A chunk's records, and its descriptor. */
#define RECORDS_BYTES (CHUNK_SLICES * sizeof(struct page))
#define CHUNK_TABLE_BYTES \
	align_up(sizeof(struct chunk), CACHE_LINE_BYTES)

#endif
