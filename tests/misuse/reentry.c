/* SPDX-License-Identifier: MIT */
/*
 * The provider calls the heap that called it.
 *
 * It is seen where the call takes the slow path: in one that finds a block at
 * once, or frees one into its page, no look is taken, and no harm done.
 */
#include "misuse_program.h"

static void *memory;

/* Inside the provider's commit. */
static CRIME void commit_allocates(struct sim *sim, enum sim_call call)
{
	struct fallow *heap = sim->during_arg;

	if (call != SIM_COMMIT)
		return;
	sim->during = NULL;
	if (!fallow_alloc(heap, 100000))
		misuse_say("alloc gave nothing");
	if (!fallow_alloc(heap, 3000000))
		misuse_say("alloc gave nothing");
	if (!fallow_realloc(heap, memory, 5000))
		misuse_say("realloc gave nothing");
	if (fallow_collect(heap) == 0)
		misuse_say("collect gave nothing");
	misuse_say("the provider goes on");
}

static CRIME void crime(struct fallow *heap)
{
	void *a = misuse_alloc(heap, "a", 100);

	memory = misuse_alloc(heap, "b", 100);
	misuse_sim()->during = commit_allocates;
	misuse_sim()->during_arg = heap;
	/* Needs a commit. */
	fallow_free(heap, fallow_alloc(heap, 3000000));
	misuse_sim()->during = NULL;
	fallow_free(heap, a);
	misuse_say("went on");
}

int main(void)
{
	return misuse_run(crime);
}
