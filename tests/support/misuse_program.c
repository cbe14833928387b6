/* SPDX-License-Identifier: MIT */
/*
 * Runs one crime and prints what the heap says of it.
 *
 * A report is one line: the kind in words, then every field.  An address is
 * printed as the name it has and the offset, "none" for 0, or "elsewhere".
 * The caller is "the crime" iff it is an address in crime(): the linker gives
 * the bounds of its section.  At the end the heap is checked: a report changes
 * nothing.
 *
 * The policy STOP ends in fl_port_halt(), which is abort() on a host: caught,
 * said, and the program ends as it should.
 */
#include "misuse_program.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WINDOW ((size_t)32 << 20)
#define NAMES 16
#define HEAPS 2

/* Of the section crime_text, by the linker. */
extern const char __start_crime_text[], __stop_crime_text[];

static struct {
	const char *name;
	uintptr_t base;
	size_t size;
} names[NAMES];
static unsigned name_count;

static struct sim sims[HEAPS];
static struct fallow heaps[HEAPS];
static unsigned heap_count;

void misuse_say(const char *text)
{
	puts(text);
	fflush(stdout);
}

/* Ends the program: what the crime needs could not be had. */
static void die(const char *what)
{
	misuse_say(what);
	exit(97);
}

void misuse_name(const char *name, const void *p, size_t size)
{
	if (name_count == NAMES)
		die("too many names");
	names[name_count].name = name;
	names[name_count].base = (uintptr_t)p;
	names[name_count++].size = size;
}

void *misuse_opaque(const void *p)
{
	const void *volatile hidden = p;

	return (void *)hidden;
}

void *misuse_alloc(struct fallow *heap, const char *name, size_t size)
{
	void *p = misuse_opaque(fallow_alloc(heap, size));

	if (!p)
		die("no memory");
	misuse_name(name, p, fallow_usable_size(heap, p));
	return p;
}

/* Prints an address by its name; the latest name wins. */
static void address_print(const char *field, uintptr_t addr)
{
	printf(" %s=", field);
	if (!addr) {
		fputs("none", stdout);
		return;
	}
	for (unsigned i = name_count; i-- > 0;) {
		if (addr - names[i].base >= names[i].size)
			continue;
		fputs(names[i].name, stdout);
		if (addr != names[i].base)
			printf("+%zu", (size_t)(addr - names[i].base));
		return;
	}
	fputs("elsewhere", stdout);
}

static void context_print(const char *field, uint32_t context)
{
	if (context == FALLOW_NO_CONTEXT)
		printf(" %s=none", field);
	else
		printf(" %s=%u", field, context);
}

static void report_print(void *ctx, const struct fallow_misuse *report)
{
	bool here = report->caller >= (uintptr_t)__start_crime_text &&
		report->caller < (uintptr_t)__stop_crime_text;

	printf("%s%s:", (const char *)ctx, fallow_misuse_text(report->kind));
	if (report->kind == FALLOW_MISUSE_BAD_ALIGNMENT)
		printf(" alignment=%zu", (size_t)report->address);
	else
		address_print("address", report->address);
	address_print("block", report->block);
	printf(" size=%zu given=%zu", report->block_size, report->given_size);
	context_print("owner", report->owner);
	context_print("context", report->context);
	printf(" caller=%s\n", here ? "the crime" : "elsewhere");
	fflush(stdout);
}

struct fallow *misuse_heap(enum fallow_misuse_policy policy)
{
	static char prefixes[HEAPS][16] = { "", "other heap: " };
	struct sim *sim = &sims[heap_count];
	struct fallow *heap = &heaps[heap_count];
	struct fallow_config config = {
		.size = sizeof(config),
		.provider = &sim->provider,
		.contexts = 4,
		.misuse_policy = policy,
		.misuse = report_print,
	};

	if (heap_count == HEAPS)
		die("too many heaps");
	config.misuse_ctx = prefixes[heap_count++];
	sim_begin(sim, FALLOW_CLASS_WINDOW, WINDOW);
	config.window_base = sim->base;
	config.window_size = sim->size;
	if (fallow_init(heap, &config) ||
		fallow_add_region(heap, sim->base, sim->size))
		die("no heap");
	return heap;
}

struct sim *misuse_sim(void)
{
	return &sims[0];
}

static void aborted(int number)
{
	static const char text[] = "stopped\n";

	(void)number;
	if (write(STDOUT_FILENO, text, sizeof(text) - 1) < 0)
		_exit(1);
	_exit(0);
}

int misuse_run(void (*crime)(struct fallow *heap))
{
	struct fallow *heap = misuse_heap(FALLOW_POLICY_REPORT);

	signal(SIGABRT, aborted);
	crime(heap);
	for (unsigned i = 0; i < heap_count; i++) {
		struct fallow_snapshot now = { .size = sizeof(now) };
		const char *broken = fallow_check(&heaps[i], NULL);

		fallow_snapshot(&heaps[i], &now);
		printf("misuses=%llu blocks=%zu check=%s\n",
			(unsigned long long)now.misuses, now.blocks,
			broken ? broken : "ok");
		fallow_fini(&heaps[i]);
		if (sims[i].committed || sims[i].violations)
			puts("the provider is owed memory or a promise");
		sim_destroy(&sims[i]);
	}
	return 0;
}
