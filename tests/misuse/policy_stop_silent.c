/* SPDX-License-Identifier: MIT */
/*
 * The policy STOP stops also where there is no hook.
 */
#include "misuse_program.h"

static CRIME void crime(struct fallow *heap)
{
	struct fallow strict;
	struct fallow_config config = {
		.size = sizeof(config),
		.provider = &misuse_sim()->provider,
		.window_base = misuse_sim()->base + ((size_t)16 << 20),
		.window_size = (size_t)16 << 20,
		.contexts = 1,
		.misuse_policy = FALLOW_POLICY_STOP,
	};

	(void)heap;
	if (fallow_init(&strict, &config))
		misuse_say("no heap");
	misuse_say("the last line");
	fallow_free(&strict, misuse_opaque(&config));
	misuse_say("went on");
}

int main(void)
{
	return misuse_run(crime);
}
