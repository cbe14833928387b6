/* SPDX-License-Identifier: MIT */
/*
 * What all scenarios of returns.h need: a heap whose provider counts, a clock
 * that they turn by hand, idle loops, and blocks that are touched and verified.
 *
 * An idle loop sweeps when its context has used the heap, and then when the
 * last sweep said; told 0, it sleeps until its context uses the heap again or
 * sweep_wanted() is called.  That is what an embedder's would do.
 *
 * Everything is one thread of execution: contexts take turns, by their numbers
 * alone.
 */
#include "returns.h"

#include "config.h"
#include "test.h"

#define NEVER UINT64_MAX

/* -------------------------------------------------------------- provider -- */

static unsigned returns_commit(
	void *ctx, uintptr_t base, size_t size, unsigned flags)
{
	struct returns *r = ctx;
	const struct fallow_provider *inner = r->machine->provider;
	unsigned result = inner->commit(inner->ctx, base, size, flags);

	r->calls.commits++;
	if (result & FALLOW_COMMIT_DONE)
		r->calls.committed += size;
	if (base + size > r->end)
		r->end = base + size;
	return result;
}

static void returns_decommit(void *ctx, struct fallow_range *ranges, size_t n)
{
	struct returns *r = ctx;
	const struct fallow_provider *inner = r->machine->provider;
	size_t i;

	inner->decommit(inner->ctx, ranges, n);
	r->calls.decommits++;
	r->calls.ranges += n;
	for (i = 0; i < n; i++)
		if (ranges[i].result == FALLOW_RANGE_DONE)
			r->calls.decommitted += ranges[i].size;
}

static uint64_t returns_now(void *ctx)
{
	return ((struct returns *)ctx)->now;
}

/* Wakes the first context, as a kernel would wake the thread that sweeps. */
static void returns_wanted(void *ctx, uint64_t ticks)
{
	struct returns *r = ctx;

	if (r->due[0] > r->now + ticks)
		r->due[0] = r->now + ticks;
}

/* ------------------------------------------------------------------ heap -- */

static void misuse_print(void *ctx, const struct fallow_misuse *report)
{
	struct returns *r = ctx;

	if (r->misuses++ == 0)
		test_printf("misuse: %s of 0x%llx\n",
			fallow_misuse_text(report->kind),
			(unsigned long long)report->address);
}

bool test_returns_begin(struct returns *r,
	const struct returns_machine *machine, unsigned contexts,
	size_t floor_bytes, uint32_t floor_epochs)
{
	struct fallow_config config = { .size = sizeof(config),
		.provider = &r->provider,
		.window_base = machine->window_base,
		.window_size = machine->window_size,
		.contexts = contexts,
		.misuse = misuse_print,
		.misuse_ctx = r,
		.epoch_ticks = machine->epoch_ticks != 0
			? machine->epoch_ticks
			: RETURNS_EPOCH,
		.floor_bytes = floor_bytes,
		.floor_epochs = floor_epochs };
	enum fallow_status status;
	unsigned i;

	*r = (struct returns){ .machine = machine,
		.provider = *machine->provider,
		.contexts = contexts,
		.random = test_seed,
		.now = 1,
		.end = machine->window_base };
	r->provider.ctx = r;
	r->provider.commit = returns_commit;
	r->provider.decommit = returns_decommit;
	r->provider.promote = NULL;
	r->provider.move = NULL;
	r->provider.capabilities &= FALLOW_CAN_DEMOTE;
	r->provider.now = returns_now;
	r->provider.sweep_wanted = returns_wanted;
	for (i = 0; i < RETURNS_CONTEXTS; i++)
		r->due[i] = NEVER;
	test_returns_context(r, 0);
	if (machine->resident != NULL)
		r->resident_begin = machine->resident(machine->window_base, 0);
	status = fallow_init(&r->heap, &config);
	if (status == FALLOW_OK)
		status = fallow_add_region(&r->heap, machine->window_base,
			machine->window_size);
	if (status != FALLOW_OK)
		test_printf("no heap: %s\n", fallow_status_text(status));
	return status == FALLOW_OK;
}

bool test_returns_end(struct returns *r)
{
	test_returns_check(r);
	test_returns_context(r, 0);
	fallow_fini(&r->heap);
	if (r->failed == 0 && r->damaged == 0 && r->misuses == 0 &&
		r->broken == NULL)
		return true;
	test_printf("failed %llu, damaged %llu, misuses %llu, broken: %s\n",
		(unsigned long long)r->failed, (unsigned long long)r->damaged,
		(unsigned long long)r->misuses,
		r->broken != NULL ? r->broken : "nothing");
	return false;
}

void test_returns_check(struct returns *r)
{
	if (r->broken == NULL)
		r->broken = fallow_check(&r->heap, NULL);
}

void *test_returns_scratch(struct returns *r, size_t size)
{
	unsigned char *p = (unsigned char *)r->machine->scratch +
		r->scratch_used;
	size_t i;

	size = (size + 15) & ~(size_t)15;
	if (size > r->machine->scratch_size - r->scratch_used) {
		test_printf("returns: %zu bytes of scratch are not enough\n",
			r->machine->scratch_size);
		__builtin_trap();
	}
	r->scratch_used += size;
	for (i = 0; i < size; i++)
		p[i] = 0;
	return p;
}

void test_returns_context(struct returns *r, unsigned context)
{
	if (r->machine->context != NULL)
		r->machine->context(context);
}

size_t test_returns_resident(struct returns *r)
{
	uintptr_t base = r->machine->window_base;
	size_t resident = (size_t)(r->calls.committed - r->calls.decommitted);

	if (r->machine->resident != NULL)
		resident = r->machine->resident(base, r->end - base) -
			r->resident_begin;
	if (resident > r->resident_peak)
		r->resident_peak = resident;
	return resident;
}

void test_returns_sample(struct returns *r)
{
	if (r->series != NULL && r->machine->samples)
		test_printf("# %s %llu %zu %zu\n", r->series,
			(unsigned long long)r->now, r->live,
			test_returns_resident(r));
}

/* ---------------------------------------------------------------- blocks -- */

/* What a word of a block holds: its own address, mixed. */
static uint64_t word_at(const uint64_t *at)
{
	return (uintptr_t)at * 0x9e3779b97f4a7c15u;
}

/* Every block begins on 16 bytes, so on a word. */
void *test_returns_alloc(struct returns *r, size_t size)
{
	uint64_t ticks = r->machine->ticks();
	uint64_t *p = fallow_alloc(&r->heap, size);
	size_t i;

	r->ticks += r->machine->ticks() - ticks;
	if (p == NULL) {
		r->failed++;
		return NULL;
	}
	for (i = 0; i < size / 8; i++)
		p[i] = word_at(&p[i]);
	r->live += size;
	r->blocks++;
	if (r->live > r->live_peak)
		r->live_peak = r->live;
	return p;
}

void test_returns_free(struct returns *r, void *block, size_t size)
{
	const uint64_t *p = block;
	uint64_t ticks;
	size_t i;

	if (p == NULL)
		return;
	for (i = 0; i < size / 8; i++)
		if (p[i] != word_at(&p[i])) {
			r->damaged++;
			break;
		}
	ticks = r->machine->ticks();
	fallow_free(&r->heap, block);
	r->ticks += r->machine->ticks() - ticks;
	r->live -= size;
	r->blocks--;
}

void test_returns_shuffle(
	struct returns *r, struct returns_block *blocks, size_t n)
{
	for (; n > 1; n--) {
		size_t other = test_returns_below(r, n);
		struct returns_block block = blocks[n - 1];

		blocks[n - 1] = blocks[other];
		blocks[other] = block;
	}
}

size_t test_returns_bound(
	struct returns *r, const struct returns_block *blocks, size_t n)
{
	size_t granules = (r->end - r->machine->window_base) >>
		FALLOW_GRANULE_LOG2;
	size_t used = r->scratch_used;
	uint8_t *seen = test_returns_scratch(r, granules / 8 + 1);
	size_t count = 0;
	size_t i;

	for (i = 0; i < n; i++) {
		size_t at = (uintptr_t)blocks[i].p - r->machine->window_base;
		size_t last = (at + blocks[i].size - 1) >> FALLOW_GRANULE_LOG2;

		if (blocks[i].p == NULL)
			continue;
		for (at >>= FALLOW_GRANULE_LOG2; at <= last; at++) {
			count += !(seen[at / 8] >> at % 8 & 1);
			seen[at / 8] |= (uint8_t)(1u << at % 8);
		}
	}
	r->scratch_used = used;
	return count << FALLOW_GRANULE_LOG2;
}

/* ------------------------------------------------------------------ time -- */

/* One sweep of a context's idle loop. */
static void context_sweep(struct returns *r, unsigned context)
{
	uint64_t ticks;

	test_returns_context(r, context);
	if (r->park && context != 0) {
		fallow_park(&r->heap);
		/* It has used the heap: who sweeps for it has work. */
		r->due[context] = NEVER;
		if (r->due[0] > r->now + RETURNS_EPOCH)
			r->due[0] = r->now + RETURNS_EPOCH;
		return;
	}
	if (r->flat)
		test_returns_flatten(r);
	ticks = fallow_sweep(&r->heap, SIZE_MAX);
	r->due[context] = ticks == 0 ? NEVER : r->now + ticks;
	r->swept = r->now;
	r->sweeps++;
	test_returns_sample(r);
}

void test_returns_rest(struct returns *r, unsigned context)
{
	test_returns_sample(r);
	context_sweep(r, context);
}

uint64_t test_returns_due(const struct returns *r)
{
	uint64_t due = NEVER;
	unsigned i;

	for (i = 0; i < r->contexts; i++)
		if (r->due[i] < due)
			due = r->due[i];
	return due;
}

void test_returns_idle(struct returns *r, uint64_t until)
{
	uint64_t due;
	unsigned i;

	while ((due = test_returns_due(r)) <= until) {
		if (due > r->now)
			r->now = due;
		for (i = 0; i < r->contexts; i++)
			if (r->due[i] <= r->now) {
				r->wakeups++;
				context_sweep(r, i);
			}
	}
	r->now = until;
}

void test_returns_busy(struct returns *r, uint64_t begin, uint64_t done,
	uint64_t all)
{
	uint64_t now = begin + RETURNS_SECOND / 2 * done / all;

	if (now > r->now)
		r->now = now;
}

/* ---------------------------------------------------------------- random -- */

uint64_t test_returns_below(struct returns *r, uint64_t n)
{
	return test_random(&r->random) % n;
}

/* log2 of a number from 1 to 2^32 - 1, with 20 bits behind the point: one bit
 * more with each squaring. */
static uint64_t log2_of(uint32_t n)
{
	unsigned whole = 31u - (unsigned)__builtin_clz(n);
	uint64_t x = (uint64_t)n << (31 - whole); /* from 2^31 to 2^32 */
	uint64_t log = whole;
	unsigned i;

	for (i = 0; i < 20; i++) {
		x = x * x >> 31;
		log <<= 1;
		if (x >> 32) {
			log |= 1;
			x >>= 1;
		}
	}
	return log;
}

/* n * 2^(x / 2^16), n below 2^16. */
static uint64_t scaled_of(uint64_t n, uint32_t x)
{
	/* 2^(1/2), 2^(1/4) ... in 30 bits. */
	static const uint32_t roots[8] = { 1518500250, 1276901417, 1170923762,
		1121280436, 1097253708, 1085434106, 1079572136, 1076653033 };
	uint64_t result = n << 16;
	unsigned i;

	for (i = 0; i < 8; i++)
		if (x & 1u << (15 - i))
			result = result * roots[i] >> 30;
	return result << (x >> 16) >> 16;
}

size_t test_returns_size(struct returns *r)
{
	uint32_t u = (uint32_t)(test_random(&r->random) >> 32) | 1;
	/* -log2 of u^1.92, with 20 bits behind the point, then 16. */
	uint64_t down = (((uint64_t)32 << 20) - log2_of(u)) * 192 / 100 >> 4;
	unsigned whole = (unsigned)(down >> 16);
	uint32_t fraction = (uint32_t)down & 0xffff;
	/* 10 u^1.92, with 12 bits behind the point. */
	uint64_t tenfold = whole > 20 ? 0 :
		scaled_of(10 << 12, 65536 - fraction) >> (whole + 1);

	return scaled_of(64, (uint32_t)tenfold << 4);
}
