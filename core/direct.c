/* SPDX-License-Identifier: MIT */
/*
 * The provider of class direct: runs of any size, from frames that come in
 * powers of two.
 *
 * A reserve takes the next power of two and gives the tail back.  Where that
 * has no frames, it takes a smaller power of two, the *seed*, and claims the
 * rest piece by piece behind it and before it, so that 1.5 GiB can be had of a
 * 2 GiB machine, wherever the kernel lies in it.  A release of any part gives
 * the largest aligned pieces there are; the frame allocator makes one run of
 * them again.
 *
 * Address 0 is the heap's word for "none": a run there is given back and the
 * next one tried in its stead.  So is a run outside of the window, but the
 * hooks must give none: it does not search beyond the second.
 *
 * There is no state and no lock: the hooks do their own.  Context of both
 * calls: any.
 */
#include <fallow/direct.h>

#include "config.h"
#include "grow.h"

/* Returns ceil(log2(size)); 1 <= size <= 2^63. */
static unsigned log2_above(uint64_t size)
{
	return size == 1 ? 0 : 64 - (unsigned)__builtin_clzll(size - 1);
}

/*
 * Returns log2 of the first piece when [frame, end) is cut into the fewest
 * aligned powers of two, in ascending order.
 */
static unsigned piece_log2(uint64_t frame, uint64_t end)
{
	unsigned log2 = 63 - (unsigned)__builtin_clzll(end - frame);

	if (frame && (unsigned)__builtin_ctzll(frame) < log2)
		log2 = (unsigned)__builtin_ctzll(frame);
	return log2;
}

/* Gives back [frame, end), whole granules. */
static void run_give(
	const struct fallow_frame_hooks *hooks, uint64_t frame, uint64_t end)
{
	while (frame < end) {
		unsigned log2 = piece_log2(frame, end);

		hooks->give(hooks->ctx, frame, log2);
		frame += (uint64_t)1 << log2;
	}
}

/* Takes the power of two that holds the run; what is behind the run goes
 * back. */
static uint64_t run_round_up(const struct fallow_frame_hooks *hooks,
	uint64_t size, unsigned align_log2)
{
	unsigned log2 = log2_above(size);
	uint64_t frame;

	if (log2 < align_log2)
		log2 = align_log2;
	frame = hooks->take(hooks->ctx, log2);
	if (frame != FALLOW_FRAME_NONE)
		run_give(hooks, frame + size, frame + ((uint64_t)1 << log2));
	return frame;
}

/* Claims what is free from `at` on towards `end`, and returns where that
 * stops. */
static uint64_t claim_behind(
	const struct fallow_frame_hooks *hooks, uint64_t at, uint64_t end)
{
	unsigned log2, most = 63;

	while (at < end) {
		log2 = piece_log2(at, end);
		if (log2 > most)
			log2 = most;
		if (hooks->claim(hooks->ctx, at, log2)) {
			at += (uint64_t)1 << log2;
			continue;
		}
		if (log2 == FALLOW_GRANULE_LOG2)
			break;
		most = log2 - 1;
	}
	return at;
}

/* Claims [begin, at), from its end down; gives back what it claimed and
 * returns false iff not all of it is free. */
static bool claim_before(
	const struct fallow_frame_hooks *hooks, uint64_t begin, uint64_t at)
{
	uint64_t end = at;

	while (at > begin) {
		unsigned log2 = 63 - (unsigned)__builtin_clzll(at - begin);

		if ((unsigned)__builtin_ctzll(at) < log2)
			log2 = (unsigned)__builtin_ctzll(at);
		if (!hooks->claim(hooks->ctx,
			    at - ((uint64_t)1 << log2), log2)) {
			run_give(hooks, at, end);
			return false;
		}
		at -= (uint64_t)1 << log2;
	}
	return true;
}

/*
 * Takes a seed of 2^log2, which is less than the size and no less than the
 * alignment, and claims the rest: behind it as far as that is free, then before
 * it, down to the last aligned address from which the run fits.
 */
static uint64_t run_grow(const struct fallow_frame_hooks *hooks,
	uint64_t size, unsigned align_log2, unsigned log2)
{
	uint64_t seed = hooks->take(hooks->ctx, log2);
	uint64_t frame = seed, end;

	if (seed == FALLOW_FRAME_NONE)
		return seed;
	end = claim_behind(
		hooks, seed + ((uint64_t)1 << log2), seed + size);
	if (end - seed < size) {
		frame = (end - size) >> align_log2 << align_log2;
		if (end < size || !claim_before(hooks, frame, seed)) {
			run_give(hooks, seed, end);
			return FALLOW_FRAME_NONE;
		}
	}
	run_give(hooks, frame + size, end);
	return frame;
}

/*
 * Puts a run together out of a seed and what is free beside it.  A run of more
 * than 2^k and up to 2^(k+1) always has an aligned 2^(k-1) in it, and mostly an
 * aligned 2^k, so these two are tried; but which of the free ones is the seed
 * the hooks decide, and it may be one that has no room beside it.
 */
static uint64_t run_assemble(const struct fallow_frame_hooks *hooks,
	uint64_t size, unsigned align_log2)
{
	unsigned log2 = log2_above(size), last = align_log2;
	uint64_t frame = FALLOW_FRAME_NONE;

	if (last < FALLOW_GRANULE_LOG2)
		last = FALLOW_GRANULE_LOG2;
	if (!hooks->claim)
		return frame;
	for (unsigned n = 0; n < 2 && log2 > last; n++) {
		frame = run_grow(hooks, size, align_log2, --log2);
		if (frame != FALLOW_FRAME_NONE)
			break;
	}
	return frame;
}

/* Takes a run, any frame. */
static uint64_t run_take(const struct fallow_frame_hooks *hooks,
	uint64_t size, unsigned align_log2)
{
	uint64_t frame = run_round_up(hooks, size, align_log2);

	return frame != FALLOW_FRAME_NONE ?
		frame :
		run_assemble(hooks, size, align_log2);
}

/* Whether the heap may have the run at this address. */
static bool run_usable(
	const struct fallow_direct *direct, uintptr_t addr, size_t size)
{
	const struct fallow_direct_config *config = &direct->config;

	return addr && addr >= config->window_base &&
		addr - config->window_base <= config->window_size &&
		config->window_size - (addr - config->window_base) >= size;
}

/* The provider's reserve(). */
static uintptr_t direct_reserve(void *ctx, size_t size, size_t align)
{
	const struct fallow_direct *direct = ctx;
	const struct fallow_frame_hooks *hooks = &direct->hooks;
	unsigned align_log2 = log2_above(align);
	uint64_t frame, refused;
	uintptr_t addr;

	if (size > (size_t)1 << 63)
		return 0;
	frame = run_take(hooks, size, align_log2);
	if (frame == FALLOW_FRAME_NONE)
		return 0;
	addr = (uintptr_t)frame + direct->config.offset;
	if (run_usable(direct, addr, size))
		return addr;
	/* Held while the second is taken, or the second would be the same. */
	refused = frame;
	frame = run_take(hooks, size, align_log2);
	run_give(hooks, refused, refused + size);
	if (frame == FALLOW_FRAME_NONE)
		return 0;
	addr = (uintptr_t)frame + direct->config.offset;
	if (run_usable(direct, addr, size))
		return addr;
	run_give(hooks, frame, frame + size);
	return 0;
}

/* The provider's release(). */
static void direct_release(void *ctx, uintptr_t base, size_t size)
{
	const struct fallow_direct *direct = ctx;
	uint64_t frame = base - direct->config.offset;

	run_give(&direct->hooks, frame, frame + size);
}

/* The provider's now(): the embedder's, with the embedder's context. */
static uint64_t direct_now(void *ctx)
{
	const struct fallow_direct *direct = ctx;

	return direct->config.now(direct->config.now_ctx);
}

enum fallow_status fallow_direct_init(struct fallow_direct *direct,
	const struct fallow_direct_config *config)
{
	struct fallow_direct_config given = { 0 };

	if (!direct || !config)
		return FALLOW_MISSING_ARGUMENT;
	if (!grow_read(&given, sizeof(given), config))
		return FALLOW_BAD_SIZE_FIELD;
	if (!given.hooks || !given.hooks->take || !given.hooks->give)
		return FALLOW_MISSING_ARGUMENT;
	if (given.window_base + given.window_size < given.window_base)
		return FALLOW_RANGE_WRAPS;
	*direct = (struct fallow_direct){
		.provider = {
			.size = sizeof(struct fallow_provider),
			.provider_class = FALLOW_CLASS_DIRECT,
			.granule_log2 = FALLOW_GRANULE_LOG2,
			.ctx = direct,
			.reserve = direct_reserve,
			.release = direct_release,
			.now = given.now ? direct_now : NULL,
		},
		.config = given,
		.hooks = *given.hooks,
	};
	return FALLOW_OK;
}
