/* SPDX-License-Identifier: MIT */
/*
 * Tokens: blocks that are allocated now, to be had later without asking.
 *
 * Code that must not fail, or must not call anybody, where it needs a block
 * takes the blocks before it goes there.  To the heap they are blocks in use
 * like all others, so neither a collect nor another context can touch them, and
 * fallow_free() takes each whether the token has handed it out or not.  The
 * token is a list through their first words in storage of the caller's, and
 * fallow_alloc_from() unlinks the first one: no heap, no context, no lock.
 *
 * Invariant: `left` is the length of the list, and every block in it has `size`
 * usable bytes or more, zero behind the first word if `zero`.
 *
 * What is not here: protection of the token itself.  It is used by one
 * execution at a time; the header says how a handler and a task share one.
 */
#include "alloc.h"
#include "epoch.h"
#include "free.h"

#define CALLER ((uintptr_t)__builtin_return_address(0))

/* Links a block into the token. */
static void token_push(struct fallow_token *token, void *block)
{
	*(void **)block = token->first;
	token->first = block;
	token->left++;
}

void *fallow_alloc_from(struct fallow_token *token)
{
	void **block = token->first;

	if (block == NULL)
		return NULL;
	token->first = *block;
	token->left--;
	/* The link was in a block that may have to be zero. */
	*block = NULL;
	return block;
}

/* Gives blocks back until `left` remain; a NOWAIT call does not wait.  Where
 * that is a misuse it is reported, and the blocks stay in the token. */
static void token_shrink(struct heap *heap, struct fallow_token *token,
	size_t left, unsigned flags, uintptr_t caller)
{
	while (token->left > left) {
		struct op op = {
			.heap = heap,
			.flags = flags,
			.caller = caller,
		};

		op_enter(&op);
		if (!fl_op_legal(&op))
			return;
		if (flags & FALLOW_NOWAIT)
			fl_free_nowait(&op, fallow_alloc_from(token));
		else
			fl_free(&op, fallow_alloc_from(token));
		sweep_rouse(heap);
	}
}

bool fallow_prefill(struct fallow *heap, struct fallow_token *token,
	size_t size, size_t n, unsigned flags)
{
	size_t before = token->left;
	bool zero = flags & FALLOW_ZERO;

	if (before > 0 && (token->size != size || token->zero != zero))
		return false;
	token->size = size;
	token->zero = zero;
	while (token->left < n) {
		void *block = fl_alloc_flags(
			heap_of(heap), size, flags, CALLER);

		if (block == NULL) {
			token_shrink(heap_of(heap), token, before, flags,
				CALLER);
			return false;
		}
		token_push(token, block);
	}
	return true;
}

void fallow_unfill(struct fallow *heap, struct fallow_token *token)
{
	token_shrink(heap_of(heap), token, 0, 0, CALLER);
}
