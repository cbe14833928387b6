/* SPDX-License-Identifier: MIT */
/*
 * A context beyond the heap's calls each function.
 */
#include "misuse_program.h"

/* Of arch/host/port.h: the index of the context that runs. */
extern _Thread_local unsigned fallow_host_context
	__attribute__((tls_model("initial-exec")));

static CRIME void crime(struct fallow *heap)
{
	void *a = misuse_alloc(heap, "a", 100);

	fallow_host_context = 4;
	if (!fallow_alloc(heap, 100))
		misuse_say("alloc gave nothing");
	if (!fallow_realloc(heap, a, 5000))
		misuse_say("realloc gave nothing");
	fallow_free(heap, a);
	fallow_host_context = UINT32_MAX;
	if (!fallow_alloc_aligned(heap, 4096, 5000))
		misuse_say("alloc gave nothing");
	if (fallow_collect(heap) == 0)
		misuse_say("collect gave nothing");
	fallow_offline(heap);
	fallow_host_context = 3;
	fallow_free(heap, a);
	misuse_say("went on");
}

int main(void)
{
	return misuse_run(crime);
}
