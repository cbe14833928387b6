/* SPDX-License-Identifier: MIT */
/*
 * An arena is told sizes that are not those of its blocks: the length of a
 * string that has been edited, one that would lead to another list or out of
 * the arena, and of large blocks; in frees and reallocations.  Then the right
 * ones.
 */
#include <string.h>

#include <fallow/bump.h>

#include "misuse_program.h"

static CRIME void crime(struct fallow *heap)
{
	struct fallow_bump bump;
	char *text, *large;

	if (fallow_bump_init(&bump, heap, NULL))
		return;
	text = misuse_opaque(fallow_bump_strdup(&bump, "a long name, cut off"));
	misuse_name("text", text, 21);
	large = misuse_opaque(fallow_bump_alloc(&bump, 100000));
	misuse_name("large", large, 100000);
	text[6] = 0;
	fallow_bump_free(&bump, text, strlen(text) + 1);
	if (!fallow_bump_realloc(&bump, text, strlen(text) + 1, 100))
		misuse_say("realloc gave nothing");
	fallow_bump_free(&bump, text, 100000);
	fallow_bump_free(&bump, text, SIZE_MAX);
	fallow_bump_free(&bump, large, 99999);
	fallow_bump_free(&bump, large, 5);
	if (!fallow_bump_realloc(&bump, large, 100001, 5))
		misuse_say("realloc gave nothing");
	fallow_bump_free(&bump, text, 21);
	large = fallow_bump_realloc(&bump, large, 100000, 50);
	fallow_bump_free(&bump, large, 50);
	misuse_say(fallow_bump_check(&bump, NULL) ? "broken" : "went on");
	fallow_bump_fini(&bump);
}

int main(void)
{
	return misuse_run(crime);
}
