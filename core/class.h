/* SPDX-License-Identifier: MIT */
/* Blocks of size classes, off the hot path: see class.c. */
#ifndef CORE_CLASS_H
#define CORE_CLASS_H

#include "local.h"

#pragma GCC visibility push(hidden)

/*
 * A block of the class; NULL iff there is no memory for it.  May drop the
 * context.  *clean: every byte of it reads as zero.  With align_log2 > 0 the
 * page remembers that a block was asked for with that alignment.
 */
void *fl_class_alloc(
	struct op *op, unsigned class, unsigned align_log2, bool *clean);

/*
 * A free block of this context's in one of a few larger classes, where one of the
 * right class takes memory that is not committed; NULL if there is none, or none
 * is to be lent: see lend.c.  Calls nobody.
 */
void *fl_class_lend(
	struct op *op, unsigned class, unsigned align_log2, bool *clean);

/*
 * A free block of this context's in a larger class with the same kind of page,
 * where none of the right class can be had; NULL if there is none.  Calls
 * nobody.
 */
void *fl_class_borrow(
	struct op *op, unsigned class, unsigned align_log2, bool *clean);

/* The page, empty and in TRANSIT, goes: its slices are free afterwards. */
void fl_class_release(struct heap *heap, struct page *page);

/* The same; a NOWAIT call does not wait for the lock.  Returns whether. */
bool fl_class_release_op(struct op *op, struct page *page);

/* Hands all pages of the context to whoever needs them, one at a time; empty
 * ones are released.  It is parked afterwards.  Drops the context. */
void fl_class_offline(struct op *op);

/* After a free into an abandoned page of the class, which made it `count` remote
 * frees: releases the page if that was its last block; makes it the context's if
 * that has use for it; else moves it up if it has become `worth` adopting. */
void fl_class_abandoned_free(struct op *op, struct page *page, unsigned class,
	uint32_t count, bool worth);

/* The same, but for the context, whenever something else about it has changed;
 * does nothing if the page is not abandoned any more. */
void fl_class_abandoned_look(
	struct heap *heap, struct page *page, bool worth);

/* Brings pages of the class that have any free block at all to where the
 * search finds them: full ones of the context, abandoned ones.  May drop the
 * context. */
void fl_class_salvage(struct op *op, unsigned class);

/* Before slices are taken: makes a few of those free that the context has in
 * spans and pages without a block, so that their memory is used again.  Does
 * nothing for a NOWAIT call. */
void fl_class_make_room(struct op *op);

/* Releases all of the context's pages without a block; may drop the context. */
void fl_class_trim_all(struct op *op);

/* Releases the context's pages without a block, up to `most` looked at and
 * none of them twice in one pass; returns whether there may be more. */
bool fl_class_trim(struct op *op, uint16_t pass, unsigned most);

/* Takes a page that the caller owns out and releases it, if it is empty;
 * returns whether. */
bool fl_class_drop(struct heap *heap, struct local *local, struct page *page);

/* The same for a queued page of this context's, after something has changed. */
void fl_class_look(struct op *op, struct page *page);

/* Takes an abandoned page that no sweep of this number has seen out of its
 * list, in TRANSIT; NULL if none was found: *missed then says if there may be
 * one all the same. */
struct page *fl_class_abandoned_next(struct heap *heap, unsigned class,
	uint32_t number, bool *missed);

/* Puts it back; may release it. */
void fl_class_abandoned_back(struct heap *heap, struct page *page);

#pragma GCC visibility pop

#endif
