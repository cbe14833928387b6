/* SPDX-License-Identifier: MIT */
/*
 * An arena's free is given what is no block of it: one that is free already,
 * listed or taken back; what lies inside of one; what is another arena's, the
 * heap's, nobody's.  And the heap's free is given an arena's.
 */
#include <fallow/bump.h>

#include "misuse_program.h"

static CRIME void crime(struct fallow *heap)
{
	struct fallow_bump bump, other;
	char *a, *b, *large, *elsewhere, *mine;

	if (fallow_bump_init(&bump, heap, NULL) ||
		fallow_bump_init(&other, heap, NULL))
		return;
	a = misuse_opaque(fallow_bump_alloc(&bump, 200));
	misuse_name("a", a, 200);
	b = misuse_opaque(fallow_bump_alloc(&bump, 200));
	misuse_name("b", b, 200);
	large = misuse_opaque(fallow_bump_alloc(&bump, 100000));
	misuse_name("large", large, 100000);
	elsewhere = misuse_opaque(fallow_bump_alloc(&other, 200));
	misuse_name("other's", elsewhere, 200);
	mine = misuse_alloc(heap, "the heap's", 200);
	fallow_bump_free(&bump, a, 200);
	fallow_bump_free(&bump, a, 200);
	fallow_bump_free(&bump, b + 16, 184);
	fallow_bump_free(&bump, b + 1, 199);
	fallow_bump_free(&bump, large + 64, 99936);
	fallow_bump_free(&bump, b, 200);
	fallow_bump_free(&bump, b, 200);
	fallow_bump_free(&bump, elsewhere, 200);
	fallow_bump_free(&bump, mine, 200);
	fallow_bump_free(&bump, misuse_opaque(&bump), 200);
	fallow_free(heap, elsewhere);
	fallow_free(heap, large);
	if (!fallow_realloc(heap, elsewhere, 100))
		misuse_say("realloc gave nothing");
	fallow_free(heap, mine);
	misuse_say(fallow_bump_check(&bump, NULL) ? "broken" : "went on");
	fallow_bump_fini(&bump);
	fallow_bump_fini(&other);
}

int main(void)
{
	return misuse_run(crime);
}
