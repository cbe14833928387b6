/* SPDX-License-Identifier: MIT */
/*
 * A second user comes into an arena while the first is inside: here by the
 * provider's commit, as an interrupt handler or another CPU would.  Then a
 * scope is ended twice, and an alignment is none.
 */
#include <fallow/bump.h>

#include "misuse_program.h"

static struct fallow_bump bump;

/* Inside the provider's commit. */
static CRIME void commit_allocates(struct sim *sim, enum sim_call call)
{
	if (call != SIM_COMMIT)
		return;
	sim->during = NULL;
	if (!fallow_bump_alloc(&bump, 100))
		misuse_say("alloc gave nothing");
	fallow_bump_reset(&bump);
	misuse_say("the provider goes on");
}

static CRIME void crime(struct fallow *heap)
{
	struct fallow_bump_mark mark;
	volatile size_t none = 24;

	if (fallow_bump_init(&bump, heap, NULL))
		return;
	misuse_name("the arena", &bump, sizeof(bump));
	misuse_name("the mark", &mark, sizeof(mark));
	misuse_sim()->during = commit_allocates;
	if (!fallow_bump_alloc(&bump, 100))
		misuse_say("the first has nothing");
	misuse_sim()->during = NULL;
	fallow_bump_mark(&bump, &mark);
	fallow_bump_rewind(&bump, &mark);
	fallow_bump_rewind(&bump, &mark);
	if (!fallow_bump_alloc_aligned(&bump, none, 100))
		misuse_say("alloc gave nothing");
	misuse_say(fallow_bump_check(&bump, NULL) ? "broken" : "went on");
	fallow_bump_fini(&bump);
}

int main(void)
{
	return misuse_run(crime);
}
