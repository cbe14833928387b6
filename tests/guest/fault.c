/* SPDX-License-Identifier: MIT */
/*
 * An image that ends in the fault that its arguments ask for, to see that the
 * board reports it: tests/boots runs it and reads the report.
 *
 * It says which address it is going to touch, touches it, and must not come
 * back.  Not a program of tests: guest_main() is its own.
 */
#include "board.h"
#include "image.h"

#define GRANULE ((uintptr_t)4096)

static bool asked(const char *what)
{
	const char *args = board_args();

	while (*args != '\0' && *args == *what) {
		args++;
		what++;
	}
	return *args == '\0' && *what == '\0';
}

/* Uses stack until there is none.  The attribute and the sum keep the calls
 * from becoming a loop. */
__attribute__((noinline)) static unsigned overflow(unsigned depth)
{
	volatile unsigned char taken[512];

	taken[depth % sizeof(taken)] = (unsigned char)depth;
	if (depth == UINT32_MAX)
		return 0;
	return overflow(depth + 1) + taken[depth % sizeof(taken)];
}

/* Asks for what no heap may: memory where some is, or the end of none. */
static int broken_promise(const struct fallow_provider *provider, bool commit)
{
	struct fallow_range range = { board_window_base(), GRANULE, 0 };

	if (!provider->commit(provider->ctx, range.base, GRANULE, 0))
		return 1;
	if (commit)
		return (int)provider->commit(
			provider->ctx, range.base, GRANULE, 0);
	range.base += GRANULE;
	provider->decommit(provider->ctx, &range, 1);
	return 1;
}

/* On the last CPU reads what is not there. */
static void run_read_last(void *arg)
{
	if (board_cpu() == board_cpus() - 1)
		(void)*(volatile int *)arg;
}

/* Ends the machine on the last CPU, by this status or for a reason; the others
 * wait for that. */
static void run_end_last(void *arg)
{
	if (board_cpu() < board_cpus() - 1)
		for (;;)
			board_idle();
	if (arg != NULL)
		board_panic(arg);
	board_exit(77);
}

/* On all CPUs at once. */
static void run_read_everywhere(void *arg)
{
	static uint32_t here;

	__atomic_fetch_add(&here, 1, __ATOMIC_ACQ_REL);
	while (__atomic_load_n(&here, __ATOMIC_ACQUIRE) != board_cpus())
		;
	(void)*(volatile int *)arg;
}

/* Uses stack of interrupts until there is none. */
static void timer_overflow(struct board_frame *frame, void *arg)
{
	(void)frame;
	*(unsigned *)arg = overflow(0);
}

int guest_main(void)
{
	const struct fallow_provider *provider = board_provider();
	uintptr_t addr = board_window_base() + 5 * GRANULE + 0x128;

	board_print("touching ");
	board_print_hex(addr);
	board_print("\n");
	if (asked("read"))
		return *(volatile int *)addr;
	if (asked("write"))
		*(volatile int *)addr = 1;
	if (asked("fetch") &&
		provider->commit(provider->ctx, addr - 0x128, GRANULE, 0))
		((void (*)(void))addr)();
	if (asked("stack"))
		return (int)overflow(0) & 1;
	if (asked("interrupt-stack")) {
		unsigned sum = 0;

		board_timer(1000000, timer_overflow, &sum);
		for (;;)
			board_idle();
	}
	if (asked("read-last"))
		board_run(run_read_last, (void *)addr);
	if (asked("status-last"))
		board_run(run_end_last, NULL);
	if (asked("panic-last"))
		board_run(run_end_last, "a panic");
	if (asked("read-everywhere"))
		board_run(run_read_everywhere, (void *)addr);
	if (asked("trap"))
		__builtin_trap();
	if (asked("status"))
		return 77;
	if (asked("commit-twice"))
		return broken_promise(provider, true);
	if (asked("decommit-hole"))
		return broken_promise(provider, false);
	return 1;
}
