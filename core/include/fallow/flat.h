/* SPDX-License-Identifier: MIT */
/*
 * The provider of class flat: the regions given to the heap are all the memory
 * there ever is.  For static arrays, for RAM that is mapped anyway, and for a
 * first evening:
 *
 *	static _Alignas(65536) unsigned char memory[4 << 20];
 *	struct fallow_config config = {
 *		.size = sizeof(config),
 *		.provider = &fallow_flat,
 *		.contexts = 1,
 *	};
 *	fallow_init(&heap, &config);
 *	fallow_add_region(&heap, (uintptr_t)memory, sizeof(memory));
 */
#ifndef FALLOW_FLAT_H
#define FALLOW_FLAT_H

#include <fallow/provider.h>
#include <fallow/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The whole provider, for any number of heaps: it has no functions. */
extern const struct fallow_provider fallow_flat;

/* Tells a hypervisor that the contents of [base, base + size) do not matter
 * any more; the memory stays usable.  Returns whether it was told. */
typedef bool fallow_flat_discard(void *ctx, uintptr_t base, size_t size);

/* A provider with state; it must stay where it is as long as a heap uses it. */
struct fallow_flat {
	/* What fallow_config.provider takes; written by the init. */
	struct fallow_provider provider;
	/* The provider's own. */
	fallow_flat_discard *discard;
	void *discard_ctx;
};

/*
 * Makes a provider like fallow_flat, with a function that the heap calls for
 * memory it does not need.
 * Fails iff: MISSING_ARGUMENT (flat or discard).  Context: any.
 */
enum fallow_status fallow_flat_init(struct fallow_flat *flat,
	fallow_flat_discard *discard, void *discard_ctx)
	__attribute__((warn_unused_result));

#ifdef __cplusplus
}
#endif

#endif
