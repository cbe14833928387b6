/* SPDX-License-Identifier: MIT */
/*
 * The provider of class flat.
 *
 * A heap of this class asks for nothing, so a constant is the whole provider.
 * The one thing that can be added is a discard hook, for guests whose
 * hypervisor takes memory back: the hook sees one range at a time, which is
 * what balloons and free-page reports are made of, and this file turns the
 * heap's batches into that.
 *
 * There is no state and no lock.
 */
#include <fallow/flat.h>

#include "config.h"

const struct fallow_provider fallow_flat = {
	.size = sizeof(struct fallow_provider),
	.provider_class = FALLOW_CLASS_FLAT,
	.granule_log2 = FALLOW_GRANULE_LOG2,
};

/* The provider's discard(): hands the ranges on one by one. */
static void flat_discard(void *ctx, struct fallow_range *ranges, size_t n)
{
	const struct fallow_flat *flat = ctx;

	for (size_t i = 0; i < n; i++)
		ranges[i].result = flat->discard(flat->discard_ctx,
					   ranges[i].base, ranges[i].size) ?
			FALLOW_RANGE_DONE :
			FALLOW_RANGE_REFUSED;
}

enum fallow_status fallow_flat_init(struct fallow_flat *flat,
	fallow_flat_discard *discard, void *discard_ctx)
{
	if (!flat || !discard)
		return FALLOW_MISSING_ARGUMENT;
	flat->provider = fallow_flat;
	flat->provider.capabilities = FALLOW_CAN_DISCARD;
	flat->provider.ctx = flat;
	flat->provider.discard = flat_discard;
	flat->discard = discard;
	flat->discard_ctx = discard_ctx;
	return FALLOW_OK;
}
