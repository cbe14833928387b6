/* SPDX-License-Identifier: MIT */
/*
 * The remote word: where a page's owner and everybody else meet.
 *
 * One 64-bit word per page, changed by compare-and-swap alone, says both who
 * the page belongs to and which blocks others have freed:
 *
 *   bit   63..56  55..32   31..16   15..0
 *         state   -        count    head + 1       small pages
 *         state   a bit for each freed block       other pages
 *         state   -                                spans
 *
 * `head` is the index of the block freed last; each such block links to the
 * one freed before it.  Because ownership changes in the same word, a freed
 * block is always seen by exactly one owner, the present one or the next.  The
 * list is only pushed on and taken whole, so a swap that succeeds on an equal
 * word cannot have missed a change that matters (no ABA).
 *
 * Every change that publishes blocks or ownership is a release, every change
 * that takes them is an acquire; they pair with each other.
 */
#ifndef CORE_REMOTE_H
#define CORE_REMOTE_H

#include "bits.h"
#include "heap.h"

enum remote_state {
	/* Between owners: one call has it, and nobody may touch the record. */
	REMOTE_TRANSIT = 0,
	/* The owner will look at the word by itself. */
	REMOTE_OWNED,
	/* The owner will not look until it is notified. */
	REMOTE_FULL,
	/* In the owner's `notified` list. */
	REMOTE_NOTIFIED,
	/* Nobody's: whoever finds it may adopt it. */
	REMOTE_ABANDONED,
	/* A span in use: whoever makes it another state has freed it. */
	REMOTE_SPAN,
	/* A free span, of which a context keeps memory and addresses. */
	REMOTE_KEPT,
};

/* In this order: those with an owner that looks at the word are a range. */
_Static_assert(REMOTE_OWNED + 1 == REMOTE_FULL &&
		REMOTE_FULL + 1 == REMOTE_NOTIFIED &&
		REMOTE_NOTIFIED + 1 == REMOTE_ABANDONED,
	"the states with an owner lie side by side");

#define REMOTE_STATE_SHIFT 56
#define REMOTE_BLOCKS (((uint64_t)1 << REMOTE_STATE_SHIFT) - 1)
/* So many blocks a bit-word page can have; core/sizeclass.c sees to it. */
#define REMOTE_BITS_MAX REMOTE_STATE_SHIFT

static inline enum remote_state remote_state(uint64_t word)
{
	return (enum remote_state)(word >> REMOTE_STATE_SHIFT);
}

static inline uint64_t remote_word(enum remote_state state, uint64_t blocks)
{
	return (uint64_t)state << REMOTE_STATE_SHIFT | blocks;
}

static inline uint64_t remote_with(uint64_t word, enum remote_state state)
{
	return remote_word(state, word & REMOTE_BLOCKS);
}

/* How many blocks the word of a small page, or of another, holds. */
static inline uint32_t remote_count_of(bool small, uint64_t word)
{
	if (small)
		return (uint32_t)(word >> 16) & 0xffff;
	return bits_count(word & REMOTE_BLOCKS);
}

/* How many blocks the page's word holds. */
static inline uint32_t remote_count(const struct page *page, uint64_t word)
{
	return remote_count_of(page->kind == PAGE_SMALL, word);
}

/* The block freed last, of a small page; NULL if there is none. */
static inline struct block *remote_head(const struct page *page, uint64_t word)
{
	uint32_t head = (uint32_t)word & 0xffff;

	if (head == 0)
		return NULL;
	return (struct block *)(page->base +
		(uintptr_t)(head - 1) * page->block_size);
}

/* How many free blocks make a full page of so many worth queueing: an eighth. */
static inline uint32_t capacity_worth(uint32_t capacity)
{
	return capacity >= 8 ? capacity / 8 : 1;
}

/* The same of a page, whatever is formed of it. */
static inline uint32_t page_worth(const struct page *page)
{
	return capacity_worth(page->capacity);
}

/* From now on the owner of a full page looks by itself, unless others have just
 * put it into `notified`, where it then stays. */
static inline void remote_full_end(struct page *page)
{
	uint64_t word = fl_load_relaxed(&page->remote);

	/* Pairs with remote_push(), as every change of the state. */
	while (remote_state(word) == REMOTE_FULL &&
		!fl_cas_acq_rel(&page->remote, &word,
			remote_with(word, REMOTE_OWNED)))
		;
}

/* Whether the owner of a page whose word is as a free has left it, with so many
 * blocks, looks at it by itself, or has been told: the states from OWNED to
 * NOTIFIED, but for a full page that has become worth queueing. */
static inline bool remote_quiet(uint64_t word, uint32_t count, uint32_t worth)
{
	return word - remote_word(REMOTE_OWNED, 0) <
			remote_word(REMOTE_ABANDONED, 0) -
				remote_word(REMOTE_OWNED, 0) &&
		(count != worth || remote_state(word) != REMOTE_FULL);
}

/*
 * Frees a block of a small page that the caller does not own.  From then on the
 * caller has no claim to the page: it may be another's, or none, or one of
 * another class.  Returns the word as it is with the block.
 */
static inline uint64_t remote_push_small(
	struct page *page, void *block, uint32_t index)
{
	/* Pairs with whoever changed the state: the record is then as that
	 * one left it. */
	uint64_t old = fl_load_acquire(&page->remote);
	uint64_t new;

	do {
		((struct block *)block)->next = remote_head(page, old);
		new = (old & ~(uint64_t)0xffff) + ((uint64_t)1 << 16) + index +
			1;
		/* Pairs with remote_take(): the link, and whatever the caller
		 * wrote to the block before freeing it, come first. */
	} while (!fl_cas_acq_rel(&page->remote, &old, new));
	return new;
}

/* The same of any page; *taken says if the block was in the word already
 * (bit-word pages only), and then nothing changed. */
static inline uint64_t remote_push(
	struct page *page, void *block, uint32_t index, bool *taken)
{
	uint64_t old, new;

	*taken = false;
	if (page->kind == PAGE_SMALL)
		return remote_push_small(page, block, index);
	/* Pairs with whoever changed the state, as in remote_push_small(). */
	old = fl_load_acquire(&page->remote);
	do {
		*taken = old >> index & 1;
		if (*taken)
			return old;
		new = old | (uint64_t)1 << index;
		/* Pairs with remote_take(), as there. */
	} while (!fl_cas_acq_rel(&page->remote, &old, new));
	return new;
}

/* Takes all blocks out of the word, leaving the state; returns the word as it
 * was. */
static inline uint64_t remote_take(struct page *page)
{
	uint64_t old = fl_load_relaxed(&page->remote);

	/* Pairs with remote_push(), and with the next owner's take. */
	while (!fl_cas_acq_rel(&page->remote, &old, old & ~REMOTE_BLOCKS))
		;
	return old;
}

/* Makes the state `state`, leaving the blocks; returns the word as it was. */
static inline uint64_t remote_change(struct page *page, enum remote_state state)
{
	uint64_t old = fl_load_relaxed(&page->remote);

	/* Pairs with whoever takes the page in its new state. */
	while (!fl_cas_acq_rel(&page->remote, &old, remote_with(old, state)))
		;
	return old;
}

#endif
