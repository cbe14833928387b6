/* SPDX-License-Identifier: MIT */
/*
 * The one heap of libfallow.so: how it is made, on first use.
 *
 * The first call may come from anywhere: from the dynamic linker before any
 * constructor has run, from a constructor of a library, from a thread.  Until
 * the heap is made every call finds no context in it and returns NULL, or says
 * that a pointer is foreign; so the C names need no test for it on their hot
 * paths, only where they would fail anyway (board_again(), early_misuse()).
 * Whoever comes first makes it, others wait; nothing of what making it calls
 * allocates.
 *
 * The window is as many addresses as can be had, halved until the kernel
 * agrees, or refuses the least that is of use.  Where addresses are rationed
 * (RLIMIT_AS) it leaves a quarter of what there is to thread stacks and files, and
 * 2 MiB to own maps (core/own.h).
 * Where memory is rationed or promised (RLIMIT_DATA, overcommit_memory=2) it is
 * not accessible as a whole, or all of it would count: then each commit asks
 * the kernel.
 */
#define _GNU_SOURCE /* RLIMIT_..., sysinfo() */

#include "linux/preload.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "arch.h"
#include "heap.h"
#include "linux/mmap.h"
#include "linux/text.h"
#include "misuse.h"
#include "own.h"

#define CHUNK ((size_t)2 << 20)
/* Addresses are free, tables for them too until they are used; what limits the
 * window is how much of a machine's 47 bits others may want. */
#define WINDOW_STANDARD ((size_t)1 << 40)
#define WINDOW_PER_MEMORY 8
/* Own maps take addresses, too: that of who has none, and a few threads'. */
#define OWN_BYTES (4 * sizeof(struct own))
#define WINDOW_LEAST ((size_t)8 << 20)
/* Nanoseconds for each granule that is given back before the heap grows: giving it
 * back, and the page fault if it is wanted again, take 3000 to 6000 where they lie
 * apart, as most do. */
#define PACE_TICKS 20000
/* Most programs have few threads. */
#define CONTEXTS_FIRST 2
/* A sweep leaves a floor: there is a use for one from twice that on. */
#define SWEEP_FROM_FLOORS 2

static void early_misuse(void *ctx, const struct fallow_misuse *report);

/* Without a context, which every call asks for first; all that it knows before
 * it is made is whom to tell of a free, which can be of no block of its own. */
static union {
	struct heap heap;
	struct fallow fallow;
} early = { .heap = { .misuse = early_misuse } };
extern struct fallow board_heap __attribute__((alias("early")));
struct board_settings board_settings;
struct own board_own_none;
_Thread_local struct board_thread board_thread = {
	.local = &fl_local_none,
	.own = &board_own_none,
	.owner = OWNER_PARKED,
	.context = BOARD_NO_CONTEXT,
};
_Thread_local uintptr_t board_locks[FL_PORT_HELD_WORDS];

static struct board_mmap provider;

static enum made { MADE_NOT, MADE_NOW, MADE_YES, MADE_FAILED } made;

/* The bytes of memory and swap that the machine has. */
static size_t machine_bytes(void)
{
	struct sysinfo info;

	if (sysinfo(&info) != 0)
		return SIZE_MAX;
	return ((size_t)info.totalram + info.totalswap) * info.mem_unit;
}

/* A limit of the process; SIZE_MAX if there is none. */
static size_t limit_of(int resource)
{
	struct rlimit limit;

	if (getrlimit((__rlimit_resource_t)resource, &limit) != 0 ||
		limit.rlim_cur == RLIM_INFINITY)
		return SIZE_MAX;
	return (size_t)limit.rlim_cur;
}

/* Whether the kernel counts what is accessible, not what is there. */
static bool memory_is_promised(void)
{
	int fd = open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC);
	char mode = '0';

	if (fd >= 0) {
		if (read(fd, &mode, 1) != 1)
			mode = '0';
		close(fd);
	}
	return mode == '2' || limit_of(RLIMIT_DATA) != SIZE_MAX;
}

/* The size of window that is tried first. */
static size_t window_wanted(size_t memory)
{
	size_t size = WINDOW_STANDARD;
	size_t limit = limit_of(RLIMIT_AS);

	while (memory != SIZE_MAX && size / WINDOW_PER_MEMORY < memory &&
		size < SIZE_MAX / 4)
		size *= 2;
	if (board_settings.window_bytes != 0)
		size = (size_t)board_settings.window_bytes;
	if (limit != SIZE_MAX) {
		limit -= limit > OWN_BYTES ? OWN_BYTES : limit;
		if (size > limit / 4 * 3)
			size = limit / 4 * 3;
	}
	return size & ~(CHUNK - 1);
}

/*
 * Says where the kernel may use large mappings.  It makes one of 2 MiB for the
 * first byte that is touched in it, so unless that is asked for it is not to,
 * even if the system's default is to; where chunks are full the sweeper asks for
 * them (large.c).  A kernel without them says that it is no such advice.
 */
static void large_advise(void)
{
	(void)madvise((void *)provider.window_base, provider.window_size,
		board_settings.large == BOARD_LARGE_ALWAYS ? MADV_HUGEPAGE
							   : MADV_NOHUGEPAGE);
}

/* Makes the provider with the largest window that the kernel grants. */
static bool window_make(void)
{
	size_t memory = machine_bytes();
	struct board_mmap_config config = {
		.size = sizeof(config),
		.window_size = window_wanted(memory),
		.demand = !memory_is_promised(),
		.no_large = true,
		.commit_most = memory,
	};

	while (board_mmap_init(&provider, &config) != FALLOW_OK) {
		if (config.window_size <= WINDOW_LEAST)
			return false;
		config.window_size = config.window_size / 2 & ~(CHUNK - 1);
		if (config.window_size < WINDOW_LEAST)
			config.window_size = WINDOW_LEAST;
	}
	large_advise();
	board_large_begin(&provider);
	return true;
}

/* Any number that others cannot know: the kernel gives each process 16 bytes. */
static uint64_t secret_make(void)
{
	const void *random = (const void *)getauxval(AT_RANDOM);
	uint64_t secret = 0;

	if (random != NULL)
		__builtin_memcpy(&secret, random, sizeof(secret));
	return secret;
}

/* The policy that the heap has for misuse. */
static enum fallow_misuse_policy misuse_policy(void)
{
	if (board_settings.misuse == BOARD_MISUSE_QUIET)
		return FALLOW_POLICY_LEAK;
	return board_settings.misuse == BOARD_MISUSE_STOP
		? FALLOW_POLICY_STOP
		: FALLOW_POLICY_REPORT;
}

/* Makes the heap of the provider. */
static enum fallow_status heap_make(void)
{
	struct fallow_config config = {
		.size = sizeof(config),
		.provider = &provider.provider,
		.window_base = provider.window_base,
		.window_size = provider.window_size,
		.contexts = BOARD_CONTEXTS,
		.contexts_first = CONTEXTS_FIRST,
		.misuse_policy = misuse_policy(),
		.misuse = board_misuse,
		.pressure = board_pressure,
		.attach = board_thread_attach,
		.secret = secret_make(),
		.epoch_ticks = board_settings.epoch_ms * 1000000,
		.floor_bytes = board_settings.floor_bytes == 0
			? FALLOW_FLOOR_NONE
			: (size_t)board_settings.floor_bytes,
		.floor_epochs = (uint32_t)board_settings.floor_epochs,
		.pace_from_bytes = (size_t)board_settings.pace_from_bytes,
		.pace_ticks = PACE_TICKS,
	};
	enum fallow_status status;

	if (board_settings.sweeper != 0) {
		provider.provider.sweep_wanted = board_sweep_wanted;
		config.sweep_from_bytes = SWEEP_FROM_FLOORS *
			(size_t)board_settings.floor_bytes + CHUNK;
	}
	status = fallow_init(&board_heap, &config);
	if (status == FALLOW_OK)
		status = fallow_add_region(&board_heap, provider.window_base,
			provider.window_size);
	return status;
}

/* Says on stderr that there will be no memory, and why. */
static void failure_print(const char *why)
{
	struct board_text text;

	board_text_begin(&text);
	board_text_put(&text, "there is no heap: ");
	board_text_put(&text, why);
	board_text_put(&text, "\n");
	board_text_end(&text);
}

/* Makes everything; returns whether it could. */
static bool all_make(void)
{
	enum fallow_status status;

	board_settings_read(&board_settings);
	if (!board_thread_begin()) {
		failure_print("no key for threads is left");
		return false;
	}
	if (!window_make()) {
		failure_print("the kernel grants no addresses");
		return false;
	}
	status = heap_make();
	if (status != FALLOW_OK) {
		failure_print(fallow_status_text(status));
		return false;
	}
	board_barrier_begin();
	board_fork_begin();
	return true;
}

/* The misuse hook until there is a heap: makes it, and says it again by the
 * settings, which are known then. */
static void early_misuse(void *ctx, const struct fallow_misuse *report)
{
	struct op op = {
		.heap = heap_of(&board_heap),
		.caller = report->caller,
	};

	if (!board_heap_make()) {
		board_misuse(ctx, report);
		return;
	}
	op_rejoin(&op);
	fl_misuse(&op, report->kind, report->address, NULL);
}

bool board_heap_make(void)
{
	enum made seen = __atomic_load_n(&made, __ATOMIC_ACQUIRE);

	if (seen == MADE_NOT &&
		__atomic_compare_exchange_n(&made, &seen, MADE_NOW, false,
			__ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
		int cancel;

		/* It opens files, and others wait for it. */
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
		seen = all_make() ? MADE_YES : MADE_FAILED;
		pthread_setcancelstate(cancel, NULL);
		/* Pairs with the acquire above and below. */
		__atomic_store_n(&made, seen, __ATOMIC_RELEASE);
	}
	while (seen == MADE_NOW) {
		sched_yield();
		seen = __atomic_load_n(&made, __ATOMIC_ACQUIRE);
	}
	return seen == MADE_YES;
}

/* Makes the heap's call. */
static void *call_make(
	enum board_call call, void *p, size_t align, size_t size)
{
	switch (call) {
	case BOARD_ALLOC:
		return fallow_alloc(&board_heap, size);
	case BOARD_ZALLOC:
		return fallow_zalloc(&board_heap, size);
	case BOARD_ALIGNED:
		return fallow_alloc_aligned(&board_heap, align, size);
	case BOARD_REALLOC:
		return fallow_realloc(&board_heap, p, size);
	}
	return NULL;
}

void *board_again(enum board_call call, void *p, size_t align, size_t size)
{
	void *block = NULL;

	/* Not with a context: then the heap has said that there is none. */
	if (board_thread.context != BOARD_NO_CONTEXT || !board_heap_make())
		return NULL;
	block = call_make(call, p, align, size);
	if (block != NULL || board_thread.context != BOARD_NO_CONTEXT)
		return block;
	board_guest_enter();
	block = call_make(call, p, align, size);
	board_guest_leave();
	return block;
}

size_t board_again_usable(void *p)
{
	size_t size;

	if (p == NULL || board_thread.context != BOARD_NO_CONTEXT ||
		!board_heap_make())
		return 0;
	board_guest_enter();
	size = fallow_usable_size(&board_heap, p);
	board_guest_leave();
	return size;
}
