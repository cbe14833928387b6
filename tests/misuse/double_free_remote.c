/* SPDX-License-Identifier: MIT */
/*
 * A context that does not own the page frees a small block twice; then the
 * owner does once more.
 */
#include "misuse_program.h"

/* Of arch/host/port.h: the index of the context that runs. */
extern _Thread_local unsigned fallow_host_context
	__attribute__((tls_model("initial-exec")));

static CRIME void crime(struct fallow *heap)
{
	void *a = misuse_alloc(heap, "a", 100);
	void *b = misuse_alloc(heap, "b", 100);

	fallow_host_context = 1;
	fallow_free(heap, a);
	fallow_free(heap, a);
	fallow_free(heap, b);
	fallow_free(heap, a);
	fallow_host_context = 0;
	fallow_free(heap, a);
	misuse_say("went on");
}

int main(void)
{
	return misuse_run(crime);
}
