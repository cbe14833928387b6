/* SPDX-License-Identifier: MIT */
/*
 * Freeing: from a pointer to its page, and the block back into it.
 *
 * One subtraction, one compare and one load find the record; its first line
 * says who owns the page.  The owner links the block into its list, or sets
 * its bit, and is done unless `used` has come down to `wake`.  Anybody else
 * puts it into the page's remote word, and may make a page that is nobody's its
 * own.  Neither needs memory, calls anybody, or waits, but for heap->lock when a
 * span or the last block of a page goes, or a page changes hands.
 *
 * The checks are in the same order everywhere: is there a page, is it a
 * block's begin, was the block ever formed, is it free already.  They only
 * decide that there is a doubt; fl_misuse_judge() has the verdict.
 */
#include "alloc.h"
#include "class.h"
#include "deferred.h"
#include "epoch.h"
#include "free.h"
#include "misuse.h"
#include "reclaim.h"
#include "reserve.h"
#include "span.h"
#include "usage.h"

/* Looks again at what a check doubted; reports, or returns true: it is a
 * block in use after all. */
static __attribute__((noinline, cold)) bool doubt(
	struct op *op, uintptr_t addr, struct page *page)
{
	enum fallow_misuse_kind kind;

	if (fl_misuse_judge(op, addr, page, &kind))
		return true;
	fl_misuse(op, kind, addr, page);
	return false;
}

/* The owner's free has brought `used` down to `wake`. */
static __attribute__((noinline)) void own_wake(
	struct op *op, struct page *page)
{
	page_use(op->heap, page);
	fl_local_account(op->heap, page);
	/* A NOWAIT call that cannot have the lock keeps the empty page. */
	if (fl_local_wake(op->heap, op->local, page) && !fl_class_release_op(op, page))
		fl_local_join(op->heap, op->local, page);
	op_drop(op);
}

/* Makes a block of the context's own bit-word page free; returns whether that
 * has brought `used` down to `wake`. */
static inline bool bits_put(
	const struct heap *heap, struct page *page, uint32_t index)
{
	uint64_t bits = fl_load_hot(&page->bits);

	usage_freed(heap->usage, page->block_size);
	fl_store_relaxed(&page->bits, bits | (uint64_t)1 << index);
	page_use(heap, page);
	return unlikely(fl_add_hot(&page->above, -1u) == 0);
}

/* Whether the page's owner looks at it as one that is parked does: not before
 * somebody sweeps.  Asked when the block is there, or one that parks, and whoever
 * sweeps it then, may come in between; ordered behind the push, which together
 * with the locks that those take sees to it that one side knows of the other.
 * Without a look at the page where nobody is parked. */
static inline bool owner_parked(
	const struct heap *heap, const struct page *page)
{
	uint32_t owner;

	if (likely(fl_load_ordered(&heap->parked_count) == 0))
		return false;
	owner = page_owner(page);
	return owner < fl_load_relaxed(&heap->contexts) &&
		(fl_load_relaxed(&heap->parked[owner]) != 0 ||
			fl_load_relaxed(&heap->locals[owner]->parks_again) !=
				0);
}

/* What a free into a page that its owner does not look at by itself has to say:
 * it is the `count`th of others', and so many make it `worth` being told of.
 * The page, of this class when it was freed, may be gone: what follows looks at
 * it under a lock. */
static __attribute__((noinline)) void remote_tell(struct op *op,
	struct page *page, unsigned class, uint64_t word, uint32_t count,
	uint32_t worth)
{
	enum remote_state state = remote_state(word);
	/* In TRANSIT: a sweep that has looked at it may be putting it back. */
	bool asleep = state == REMOTE_ABANDONED || state == REMOTE_TRANSIT ||
		owner_parked(op->heap, page);

	if (state == REMOTE_FULL && count == worth)
		fl_local_notify(op->heap, page);
	else if (state == REMOTE_ABANDONED)
		fl_class_abandoned_free(op, page, class, count, count == worth);
	if (asleep)
		heap_changed(op->heap);
	op_drop(op);
	if (asleep)
		fl_sweep_wanted(op->heap);
}

/* A block of a page that another context owns, or none, or this one while it is
 * parked. */
static __attribute__((noinline)) void remote_free(
	struct op *op, void *p, struct page *page)
{
	uint32_t index =
		page_place(page, (uint32_t)((uintptr_t)p - page->base));
	bool small = page->kind == PAGE_SMALL;
	/* Behind the push the page may be another's. */
	size_t size = page->block_size;
	uint32_t worth = page_worth(page);
	unsigned class = page->class;
	uint32_t count;
	uint64_t word;
	bool taken;

	if (unlikely(misuse_doubtful_holed(
		    op->heap, page, (uintptr_t)p)) &&
		!doubt(op, (uintptr_t)p, page))
		return;
	if (small)
		block_mark_set(page, p);
	word = remote_push(page, p, index, &taken);
	if (taken) {
		fl_misuse(op, FALLOW_MISUSE_DOUBLE_FREE, (uintptr_t)p, page);
		return;
	}
	usage_freed(op->heap->usage, size);
	count = remote_count_of(small, word);
	/* If the page is another's by now, that one has the block. */
	if (likely(remote_quiet(word, count, worth) &&
		    !owner_parked(op->heap, page)))
		op_drop(op);
	else
		remote_tell(op, page, class, word, count, worth);
}

/* A block of a medium page of this context. */
static __attribute__((noinline)) void bits_free(
	struct op *op, void *p, struct page *page)
{
	uint32_t index;

	if (unlikely(misuse_doubtful_holed(
		    op->heap, page, (uintptr_t)p)) &&
		!doubt(op, (uintptr_t)p, page))
		return;
	index = bits_place(page, (uint32_t)((uintptr_t)p - page->base));
	if (bits_put(op->heap, page, index))
		own_wake(op, page);
	else
		op_drop(op);
}

/* A span, or a pointer into one. */
static __attribute__((noinline)) void span_free(
	struct op *op, uintptr_t addr, struct page *page)
{
	if (!doubt(op, addr, page))
		return;
	if (fl_span_free(op, page, addr))
		op_drop(op);
	else
		fl_misuse(op, FALLOW_MISUSE_DOUBLE_FREE, addr, NULL);
}

/* A small block of the context's own page, about which there was a doubt. */
static void small_free(struct op *op, void *p, struct page *page)
{
	if (FALLOW_CHECKS && !doubt(op, (uintptr_t)p, page))
		return;
	if (list_put(op->heap, page, p))
		own_wake(op, page);
	else
		op_drop(op);
}

void fl_free_block(struct op *op, void *p, struct page *page)
{
	uintptr_t addr = (uintptr_t)p;

	if (page == NULL)
		(void)doubt(op, addr, NULL);
	else if (page->kind == PAGE_SPAN)
		span_free(op, addr, page);
	else if (!op_owns(op, page))
		remote_free(op, p, page);
	else if (page->kind == PAGE_SMALL)
		small_free(op, p, page);
	else
		bits_free(op, p, page);
}

void fl_free(struct op *op, void *p)
{
	struct page *page = map_find(op->heap, (uintptr_t)p);

	if (page_reserve(op->heap, page))
		fl_reserve_free(op, p);
	else
		fl_free_block(op, p, page);
}

void fl_free_nowait(struct op *op, void *p)
{
	struct page *page = page_find(op->heap, (uintptr_t)p);

	/* Another's page may have to be told of, a span's slices go at once:
	 * both take locks.  The context's own page may be kept. */
	if (page->kind != PAGE_SPAN &&
		page == map_find(op->heap, (uintptr_t)p) &&
		op_owns(op, page)) {
		fl_free_block(op, p, page);
		return;
	}
	if (fl_deferred_push(op->heap, page, p))
		op_drop(op);
	else
		fl_misuse(op, FALLOW_MISUSE_DOUBLE_FREE, (uintptr_t)p, page);
}

#define CALLER ((uintptr_t)__builtin_return_address(0))

/* What comes of a free by a thread that is no context.  The call has ended. */
static __attribute__((noinline, cold)) void free_without(struct op *op, void *p)
{
	if (fl_load_relaxed(&op->heap->contexts) == 0) {
		/* There is no region yet, so this is no block of one. */
		op_rejoin(op);
		fl_misuse(op, FALLOW_MISUSE_FOREIGN, (uintptr_t)p, NULL);
	} else if (op->heap->attach != NULL) {
		fl_deferred_free(op->heap, p, op->caller);
	}
}

/* A free that the hot path could not do, inside the context. */
static __attribute__((noinline)) void free_other(void *p, struct heap *heap,
	uintptr_t caller, struct fl_port_state state)
{
	struct op op = { .heap = heap, .state = state, .caller = caller };

	if (p == NULL) {
		op_drop(&op);
		return;
	}
	op_local(&op);
	if (likely(op.local != NULL && op.local->calling == 0) ||
		fl_op_legal(&op)) {
		fl_free(&op, p);
		sweep_rouse(heap);
	} else if (op.local == NULL) {
		free_without(&op, p);
	}
}

/* The hot path has brought `used` down to `wake`, and it takes more than a
 * move. */
static __attribute__((noinline)) void wake_search(struct heap *heap,
	struct local *local, struct page *page, struct fl_port_state state)
{
	struct op op = { .heap = heap, .local = local, .state = state };

	own_wake(&op, page);
	sweep_rouse(heap);
}

/* The same, and it takes more than an exchange of pages. */
static __attribute__((noinline)) void wake_move(
	struct heap *heap, struct page *page, struct fl_port_state state)
{
	struct local *local = heap->locals[fl_port_context()];

	if (unlikely(fl_load_relaxed(&heap->roused) != 0 ||
		    !local_wake_quick(heap, local, page))) {
		wake_search(heap, local, page, state);
		return;
	}
	page_use(heap, page);
	fl_port_leave(state);
}

/* The hot path has brought `used` down to `wake`: as a rule, where blocks are
 * replaced one by one, of a full page, and the current one is used up.  While
 * another asks for memory the page does not serve where it is: where all do,
 * no allocation takes the slow path, which answers. */
static __attribute__((noinline)) void wake_other(
	struct heap *heap, struct page *page, struct fl_port_state state)
{
	struct local *local;

	/* If it has been announced meanwhile that the context is parked, this
	 * is the local that has nothing, where no page serves. */
	if (likely(page->place == PLACE_FULL && hot_local(heap, &local) &&
		    !reclaim_asked(heap, local) &&
		    local_full_serve(heap, local, page))) {
		page_use(heap, page);
		fl_port_leave(state);
	} else {
		wake_move(heap, page, state);
	}
}

/* A block of another's page, or of this context's that is parked or holed, or
 * a span that is not to be kept. */
static __attribute__((noinline)) void others_any(void *p, struct page *page,
	struct heap *heap, uintptr_t caller, struct fl_port_state state)
{
	struct op op = { .heap = heap, .state = state, .caller = caller };

	op_local(&op);
	if (likely(op.local != NULL && op.local->calling == 0 &&
		    page->kind != PAGE_SPAN &&
		    (fl_load_hot(&page->owner) & ~OWNER_FLAGS) !=
			    op.local->index))
		remote_free(&op, p, page);
	else
		free_other(p, heap, caller, state);
}

/* What remote_tell() does, behind a free of a small block outside of an op. */
static __attribute__((noinline)) void others_tell(struct heap *heap,
	struct page *page, unsigned class, uint64_t word, uint32_t worth,
	struct fl_port_state state)
{
	struct op op = { .heap = heap, .state = state };

	op_local(&op);
	remote_tell(&op, page, class, word, remote_count_of(true, word),
		worth);
}

/* Whether a block is of a small page without holes, there is no doubt about it,
 * and the calling context is one and in no call.  Whether that is parked does not
 * matter: one that frees and allocates nothing is, as a rule; and if the page is
 * its own it is, and frees as another. */
static inline bool others_small(
	const struct heap *heap, const struct page *page, const void *p)
{
	unsigned index = fl_port_context();

	return page->kind == PAGE_SMALL && !page_holed(page) &&
		index < fl_load_hot(&heap->contexts) &&
		heap->locals[index]->calling == 0 &&
		!misuse_doubtful_small(page, p);
}

/* The same as others_any(); flat for a small block of another's. */
static __attribute__((noinline)) void free_others(void *p, struct page *page,
	struct heap *heap, uintptr_t caller, struct fl_port_state state)
{
	/* Behind the push the page may be another's. */
	size_t size = page->block_size;
	uint32_t worth = page_worth(page);
	unsigned class = page->class;
	uint64_t word;

	if (unlikely(!others_small(heap, page, p))) {
		others_any(p, page, heap, caller, state);
		return;
	}
	block_mark_set(page, p);
	word = remote_push_small(page, p,
		small_index(page,
			(uint32_t)(uintptr_t)p & (uint32_t)(SLICE_BYTES - 1)));
	usage_freed(heap->usage, size);
	if (likely(remote_quiet(word, remote_count_of(true, word), worth) &&
		    !owner_parked(heap, page)))
		fl_port_leave(state);
	else
		others_tell(heap, page, class, word, worth, state);
}

/* Frees a span that the context may keep, as it does as a rule; returns whether
 * it has kept it.  Not while another asks for memory: what it has kept before is
 * soon used up, and the slow path that then comes answers. */
static inline __attribute__((always_inline)) bool span_free_kept(
	struct heap *heap, void *p, struct page *page)
{
	struct local *local;

	return likely(page->base == (uintptr_t)p &&
		!fl_load_hot(&heap->deferring) && hot_local(heap, &local) &&
		!reclaim_asked(heap, local) && span_keep(heap, local, page));
}

/* A block of a small page of this context that its own map does not lead to: one
 * 4 GiB away has come later.  The entry is for who frees. */
static __attribute__((noinline)) void free_missed(void *p, struct page *page,
	struct heap *heap, uintptr_t caller, struct fl_port_state state)
{
	if (unlikely(misuse_doubtful_small(page, p))) {
		free_other(p, heap, caller, state);
		return;
	}
	own_put(heap->locals[fl_port_context()], page);
	if (list_put(heap, page, p))
		wake_other(heap, page, state);
	else
		fl_port_leave(state);
}

/* A block of a small page of this context that may have holes. */
static __attribute__((noinline)) void free_holed(void *p, struct page *page,
	struct heap *heap, uintptr_t caller, struct fl_port_state state)
{
	if (unlikely(fl_hole_gone(heap, page, page_index(page, (uintptr_t)p)) ||
		    misuse_doubtful_small(page, p)))
		free_other(p, heap, caller, state);
	else if (list_put(heap, page, p))
		wake_search(heap, heap->locals[fl_port_context()], page,
			state);
	else
		fl_port_leave(state);
}

/* A block of a medium page of the context's own, about which there is no
 * doubt. */
static inline __attribute__((always_inline)) void bits_free_hot(
	struct heap *heap, struct page *page, uint32_t index,
	struct fl_port_state state)
{
	if (bits_put(heap, page, index))
		wake_other(heap, page, state);
	else
		fl_port_leave(state);
}

/* A free of a block of this page, found by its address, that the hot path has not
 * done: of a medium page of the context's own, as a rule, or of a span. */
static inline __attribute__((always_inline)) void free_found(struct heap *heap,
	void *p, struct page *page, uintptr_t caller,
	struct fl_port_state state)
{
	uint32_t mine = hot_owner();
	uint32_t owner = fl_load_hot(&page->owner);
	uint32_t index;

	if (unlikely(owner != (mine | OWNER_BITS))) {
		if (owner == OWNER_FREER && span_free_kept(heap, p, page))
			fl_port_leave(state);
		else if (FL_PORT_SERVES && owner == mine)
			free_missed(p, page, heap, caller, state);
		else if (FALLOW_HOLES && owner == (mine | OWNER_HOLES) &&
			!hot_parked(heap, mine))
			free_holed(p, page, heap, caller, state);
		else
			free_others(p, page, heap, caller, state);
		return;
	}
	index = bits_place(page, (uint32_t)((uintptr_t)p - page->base));
	if (unlikely(hot_parked(heap, mine) ||
		    misuse_doubtful_bits(heap, page, p, index)))
		free_other(p, heap, caller, state);
	else
		bits_free_hot(heap, page, index, state);
}

/* The same, in a function of its own. */
static __attribute__((noinline)) void free_looked(struct heap *heap, void *p,
	struct page *page, uintptr_t caller, struct fl_port_state state)
{
	free_found(heap, p, page, caller, state);
}

/* A free to which the context's own map has not led: of a span, or by another
 * context. */
static __attribute__((noinline)) void free_unowned(void *p, struct heap *heap,
	uintptr_t caller, struct fl_port_state state)
{
	struct page *page;

	if (unlikely(!map_look(heap, (uintptr_t)p, &page)))
		page = &fl_page_nobody;
	if (fl_load_hot(&page->owner) == OWNER_FREER &&
		span_free_kept(heap, p, page))
		fl_port_leave(state);
	else
		free_looked(heap, p, page, caller, state);
}

/* A free that free_hot() has not done, with the page that it has come to. */
static inline __attribute__((always_inline)) void free_rest(struct heap *heap,
	void *p, struct page *page, uintptr_t caller,
	struct fl_port_state state)
{
	uint64_t index;

	if (!FL_PORT_SERVES) {
		free_found(heap, p, page, caller, state);
		return;
	}
	/* Of another address the same entry may be. */
	index = bits_place_far(page, (uintptr_t)p - page->base);
	if (likely(fl_load_hot(&page->owner) == (hot_owner() | OWNER_BITS) &&
		    !misuse_doubtful_bits(heap, page, p, index)))
		bits_free_hot(heap, page, (uint32_t)index, state);
	else
		free_unowned(p, heap, caller, state);
}

/* The same, so that fallow_free() has no frame of its own. */
static __attribute__((noinline)) void free_bits(struct heap *heap, void *p,
	struct page *page, uintptr_t caller, struct fl_port_state state)
{
	free_rest(heap, p, page, caller, state);
}

void fl_free_rest(struct heap *heap, void *p, struct page *page,
	uintptr_t caller, struct fl_port_state state)
{
	free_rest(heap, p, page, caller, state);
}

void fl_free_wake(
	struct heap *heap, struct page *page, struct fl_port_state state)
{
	wake_other(heap, page, state);
}

void fallow_free(struct fallow *fallow, void *p)
{
	struct heap *heap = heap_of(fallow);
	struct fl_port_state state = fl_port_enter();
	struct page *page;

	switch (free_hot(heap, p, &page)) {
	case FREE_DONE:
		fl_port_leave(state);
		break;
	case FREE_WAKE:
		wake_other(heap, page, state);
		break;
	default:
		free_bits(heap, p, page, CALLER, state);
	}
}

/* Whether a block of this page can have been asked for with `size` bytes: the
 * class says so, or a realloc left it where it was, which it does above half of
 * a block. */
static bool size_plausible(const struct page *page, size_t size)
{
	size_t usable = page->kind == PAGE_SPAN ? page->span_size
						: page->block_size;

	if (size > usable)
		return false;
	if (fl_load_relaxed(&page->loose) != 0 || size > usable / 2)
		return true;
	return page->kind != PAGE_SPAN && size <= 16 && usable == 16;
}

void fallow_free_sized(struct fallow *heap, void *p, size_t size)
{
	struct page *page;
	struct op op;

	if (p == NULL)
		return;
	if (!fl_op_begin(&op, heap, 0, CALLER)) {
		if (op.local == NULL)
			free_without(&op, p);
		return;
	}
	op.given_size = size;
	page = page_find(op.heap, (uintptr_t)p);
	if (!FALLOW_CHECKS || page == NULL || size_plausible(page, size)) {
		fl_free(&op, p);
		sweep_rouse(op.heap);
	} else if (doubt(&op, (uintptr_t)p, page)) {
		fl_misuse(&op, FALLOW_MISUSE_WRONG_SIZE, (uintptr_t)p, page);
	}
}

size_t fallow_usable_size(struct fallow *heap, const void *p)
{
	struct page *page;
	struct op op;
	size_t size;

	if (p == NULL || !fl_op_begin(&op, heap, 0, CALLER))
		return 0;
	page = page_find(op.heap, (uintptr_t)p);
	if (!doubt(&op, (uintptr_t)p, page))
		return 0;
	size = page->kind == PAGE_SPAN ? page->span_size : page->block_size;
	op_drop(&op);
	return size;
}

bool fallow_owns(struct fallow *heap, const void *p)
{
	/* Pairs with the release that publishes more of the map. */
	return fl_load_acquire(&heap_of(heap)->map_slices) != 0 &&
		map_find(heap_of(heap), (uintptr_t)p) != NULL;
}
