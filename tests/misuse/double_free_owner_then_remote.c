/* SPDX-License-Identifier: MIT */
/*
 * The owner of a medium page frees a block, and then another context does.
 */
#include "misuse_program.h"

/* Of arch/host/port.h: the index of the context that runs. */
extern _Thread_local unsigned fallow_host_context
	__attribute__((tls_model("initial-exec")));

static CRIME void crime(struct fallow *heap)
{
	void *a = misuse_alloc(heap, "a", 20000);

	misuse_alloc(heap, "b", 20000);
	fallow_free(heap, a);
	fallow_host_context = 1;
	fallow_free(heap, a);
	fallow_host_context = 0;
	misuse_say("the owner takes it in");
	fallow_collect(heap);
	misuse_say("went on");
}

int main(void)
{
	return misuse_run(crime);
}
