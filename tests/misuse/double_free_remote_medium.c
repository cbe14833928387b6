/* SPDX-License-Identifier: MIT */
/*
 * A context that does not own the page frees a block of a medium page twice.
 */
#include "misuse_program.h"

/* Of arch/host/port.h: the index of the context that runs. */
extern _Thread_local unsigned fallow_host_context
	__attribute__((tls_model("initial-exec")));

static CRIME void crime(struct fallow *heap)
{
	void *a = misuse_alloc(heap, "a", 20000);

	fallow_host_context = 1;
	fallow_free(heap, a);
	fallow_free(heap, a);
	misuse_say("went on");
}

int main(void)
{
	return misuse_run(crime);
}
