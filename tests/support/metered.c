/* SPDX-License-Identifier: MIT */
/*
 * A provider that passes every call on and sums up what they take (metered.h).
 *
 * Functions that the inner provider lacks are lacking here too, so that the
 * heap sees the same class and the same capabilities.  The counters are plain:
 * whoever meters makes all calls from one context.
 */
#include "metered.h"

static void spent_add(struct metered *m, uint64_t before)
{
	m->calls++;
	m->ticks_spent += m->ticks() - before;
}

static unsigned metered_commit(
	void *ctx, uintptr_t base, size_t size, unsigned flags)
{
	struct metered *m = ctx;
	uint64_t before = m->ticks();
	unsigned result = m->inner->commit(m->inner->ctx, base, size, flags);

	spent_add(m, before);
	return result;
}

static void metered_decommit(void *ctx, struct fallow_range *ranges, size_t n)
{
	struct metered *m = ctx;
	uint64_t before = m->ticks();

	m->inner->decommit(m->inner->ctx, ranges, n);
	spent_add(m, before);
}

static void metered_discard(void *ctx, struct fallow_range *ranges, size_t n)
{
	struct metered *m = ctx;
	uint64_t before = m->ticks();

	m->inner->discard(m->inner->ctx, ranges, n);
	spent_add(m, before);
}

static bool metered_promote(void *ctx, uintptr_t chunk)
{
	struct metered *m = ctx;
	uint64_t before = m->ticks();
	bool done = m->inner->promote(m->inner->ctx, chunk);

	spent_add(m, before);
	return done;
}

static bool metered_move(void *ctx, uintptr_t from, uintptr_t to, size_t size)
{
	struct metered *m = ctx;
	uint64_t before = m->ticks();
	bool done = m->inner->move(m->inner->ctx, from, to, size);

	spent_add(m, before);
	return done;
}

static uintptr_t metered_reserve(void *ctx, size_t size, size_t align)
{
	struct metered *m = ctx;
	uint64_t before = m->ticks();
	uintptr_t base = m->inner->reserve(m->inner->ctx, size, align);

	spent_add(m, before);
	return base;
}

static void metered_release(void *ctx, uintptr_t base, size_t size)
{
	struct metered *m = ctx;
	uint64_t before = m->ticks();

	m->inner->release(m->inner->ctx, base, size);
	spent_add(m, before);
}

static uint64_t metered_now(void *ctx)
{
	struct metered *m = ctx;

	return m->inner->now(m->inner->ctx);
}

static void metered_sweep_wanted(void *ctx, uint64_t ticks)
{
	struct metered *m = ctx;

	m->inner->sweep_wanted(m->inner->ctx, ticks);
}

void test_metered_init(struct metered *m, const struct fallow_provider *inner,
	uint64_t (*ticks)(void))
{
	*m = (struct metered){.inner = inner, .ticks = ticks};
	m->provider = (struct fallow_provider){
		.size = sizeof(m->provider),
		.provider_class = inner->provider_class,
		.capabilities = inner->capabilities,
		.granule_log2 = inner->granule_log2,
		.large_log2 = inner->large_log2,
		.ctx = m,
		.commit = inner->commit ? metered_commit : NULL,
		.decommit = inner->decommit ? metered_decommit : NULL,
		.discard = inner->discard ? metered_discard : NULL,
		.promote = inner->promote ? metered_promote : NULL,
		.move = inner->move ? metered_move : NULL,
		.reserve = inner->reserve ? metered_reserve : NULL,
		.release = inner->release ? metered_release : NULL,
		.now = inner->now ? metered_now : NULL,
		.sweep_wanted =
			inner->sweep_wanted ? metered_sweep_wanted : NULL,
	};
}
