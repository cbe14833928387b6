/* SPDX-License-Identifier: MIT */
/*
 * When memory is aged, and when the next sweep is of use.
 *
 * An epoch is a counter that only sweeps advance, one at a time and at least
 * epoch_ticks apart.  Its begin is read after the counter moved, so that who
 * is held up between the two makes it longer, never shorter.  Without a clock
 * only the context that began an epoch ends it, until it has nothing left, or
 * fallow_tick() lets any other.
 *
 * A sweep says 0 when nothing is left.  Who makes something afterwards, of a
 * parked context or of none, or puts one to use that others have parked, tells
 * the provider once.  One word says which it
 * is, changed by compare-and-swap alone: a sweep makes it SWEEPING and at its
 * end REST, unless somebody has asked meanwhile, who may have come behind it.
 *
 * The counters are under heap->lock, but for what is read beside it; `wanted`
 * is under none.
 */
#include "epoch.h"
#include "floor.h"
#include "pace.h"

/* Reads a clock, if there is one, with the context left, as at every call of the
 * provider. */
static uint64_t clock_read(struct op *op, uint64_t (*clock)(void *ctx))
{
	uint64_t now;

	if (clock == NULL)
		return 0;
	op_drop(op);
	now = clock(op->heap->provider.ctx);
	op_rejoin(op);
	return now;
}

/* The same of the one that epochs are counted by. */
static uint64_t ticks_now(struct op *op)
{
	return clock_read(op, op->heap->provider.now);
}

uint64_t fl_epoch_spent(struct op *op)
{
	const struct fallow_provider *provider = &op->heap->provider;

	return clock_read(op,
		provider->spent != NULL ? provider->spent : provider->now);
}

/* Whether the clock showed `now` before `then`.  Its ticks may come to an end and
 * begin anew, as those of a counter that something has set do: what is less than
 * half of them away counts. */
static bool ticks_before(uint64_t now, uint64_t then)
{
	return (int64_t)(now - then) < 0;
}

/* Whether an epoch ends now, and makes it so.  Under heap->lock. */
static bool epoch_ends(struct heap *heap, uint64_t now, uint32_t context)
{
	struct sweeping *sweeping = &heap->sweeping;

	if (sweeping->number != 0) {
		/* The clock was read before the lock was had: the epoch may
		 * have begun since. */
		if (heap->provider.now != NULL &&
			(ticks_before(now, sweeping->began) ||
				now - sweeping->began < sweeping->epoch_ticks))
			return false;
		/* Without a clock eight idle loops must not age memory eight
		 * times as fast. */
		if (heap->provider.now == NULL && sweeping->owner != context &&
			sweeping->owner != FALLOW_NO_CONTEXT)
			return false;
	}
	fl_store_relaxed(&heap->epoch, heap->epoch + 1);
	sweeping->owner = context;
	fl_store_relaxed(&sweeping->began, now);
	fl_store_relaxed(&sweeping->number, sweep_number(heap));
	sweeping->at = 0;
	fl_floor_begin(heap);
	return true;
}

/* The epoch began now: read after the counter moved, so that whoever was held
 * up before that makes the epoch longer, not shorter; nor does one that is held
 * up after it make another's epoch seem older. */
static void epoch_began(struct heap *heap, uint64_t now)
{
	struct fl_port_state state = lock_take(&heap->lock);

	if (ticks_before(heap->sweeping.began, now))
		fl_store_relaxed(&heap->sweeping.began, now);
	lock_leave(&heap->lock, state);
}

void fl_epoch_step(struct sweep *sweep)
{
	struct op *op = sweep->op;
	struct heap *heap = op->heap;
	uint64_t now = ticks_now(op);
	struct fl_port_state state = lock_take(&heap->lock);
	bool begun = epoch_ends(heap, now, op->local->index);

	lock_leave(&heap->lock, state);
	if (begun) {
		epoch_began(heap, ticks_now(op));
		fl_floor_decide(op);
	}
	sweep->epoch = fl_load_relaxed(&heap->epoch);
	sweep->number = fl_load_relaxed(&heap->sweeping.number);
}

uint64_t fl_epoch_left(struct op *op, uint32_t epochs)
{
	const struct sweeping *sweeping = &op->heap->sweeping;
	uint64_t now = ticks_now(op);
	uint64_t began = fl_load_relaxed(&sweeping->began);
	uint64_t ticks;

	if (op->heap->provider.now == NULL)
		return epochs;
	/* For ever, or as good as that. */
	if (__builtin_mul_overflow(sweeping->epoch_ticks, epochs, &ticks))
		ticks = UINT64_MAX;
	/* Another epoch may have begun meanwhile. */
	if (ticks_before(now, began))
		return ticks;
	if (now - began >= ticks)
		return 1;
	return ticks - (now - began);
}

void fl_epoch_sweep_begins(struct heap *heap)
{
	uint32_t wanted = fl_load_relaxed(&heap->sweeping.wanted);

	/* Pairs with fl_sweep_wanted(): a store would hide its request from a
	 * sweep that goes on, and the change from this one. */
	while (!fl_cas_acq_rel(
		&heap->sweeping.wanted, &wanted, WANTED_SWEEPING))
		;
}

bool fl_epoch_rests(struct op *op)
{
	struct sweeping *sweeping = &op->heap->sweeping;
	uint32_t wanted = WANTED_SWEEPING;

	/* Pairs with fl_sweep_wanted(). */
	if (!fl_cas_acq_rel(&sweeping->wanted, &wanted, WANTED_REST) &&
		wanted != WANTED_REST)
		return false;
	fl_sweep_leave(op->heap, op->local->index);
	return true;
}

void fallow_tick(struct fallow *fallow)
{
	struct heap *heap = heap_of(fallow);
	struct fl_port_state state = lock_take(&heap->lock);

	heap->sweeping.owner = FALLOW_NO_CONTEXT;
	lock_leave(&heap->lock, state);
}

void fl_sweep_leave(struct heap *heap, uint32_t context)
{
	struct fl_port_state state = lock_take(&heap->lock);

	if (heap->sweeping.owner == context)
		heap->sweeping.owner = FALLOW_NO_CONTEXT;
	lock_leave(&heap->lock, state);
}

void fl_sweep_wanted(struct heap *heap)
{
	uint32_t wanted = fl_load_relaxed(&heap->sweeping.wanted);

	/* A sweep that is under way may have passed by already: it learns of
	 * it when it ends.  Pairs with fl_epoch_rests(). */
	do {
		if (wanted == WANTED_YES || (wanted == WANTED_FIRST &&
				fl_load_relaxed(&heap->counters.committed) <
					heap->sweeping.first_bytes))
			return;
	} while (!fl_cas_acq_rel(
		&heap->sweeping.wanted, &wanted, WANTED_YES));
	if (wanted != WANTED_SWEEPING && heap->provider.sweep_wanted != NULL)
		heap->provider.sweep_wanted(heap->provider.ctx,
			heap->provider.now == NULL
				? 1
				: heap->sweeping.epoch_ticks);
}

void fl_sweep_rouse(struct heap *heap)
{
	/* First: who adds something now is told of by this call, or by its
	 * own. */
	fl_store_relaxed(&heap->roused, 0);
	fl_sweep_wanted(heap);
}

void fl_sweep_forked(struct heap *heap)
{
	struct sweeping *sweeping = &heap->sweeping;

	sweeping->owner = FALLOW_NO_CONTEXT;
	/* What others were giving back nobody brings: none is to wait for it. */
	fl_store_relaxed(&sweeping->giving, 0);
	fl_pace_forked(heap);
	fl_floor_none(heap);
	if (sweeping->first_bytes == 0)
		return;
	fl_store_relaxed(&sweeping->wanted, WANTED_FIRST);
	fl_store_relaxed(&heap->roused, 1);
}

void fl_sweep_init(struct heap *heap)
{
	heap->epoch = 1;
	heap->sweeping.wanted = heap->sweeping.first_bytes != 0 ? WANTED_FIRST
								: WANTED_YES;
	if (heap->sweeping.floor_epochs == 0)
		heap->sweeping.floor_epochs = FALLOW_FLOOR_EPOCHS;
	if (heap->sweeping.epoch_ticks == 0)
		heap->sweeping.epoch_ticks = FALLOW_EPOCH_TICKS;
}
