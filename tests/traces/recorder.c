/* SPDX-License-Identifier: MIT */
/*
 * Records what a program asks of malloc; a library to preload, on Linux:
 *
 *   FALLOW_RECORD=DIR/PREFIX LD_PRELOAD=./recorder.so PROGRAM ...
 *
 * Each process writes DIR/PREFIX.PROGRAM.PID, an array of struct raw.  The
 * calls are passed on to the next malloc, that of the C library.
 *
 * The order of the log is the order in which blocks really came and went: one
 * lock is held over the call that is passed on and the writing of its record.
 * Else another thread could be given a block before its free is in the log.
 *
 * The log is a shared mapping of the file, extended by windows, so nothing is
 * lost however the process ends.  All that says "recording" is in one page
 * that a fork wipes in the child (MADV_WIPEONFORK): a child that goes on
 * without exec records nothing, and holds no lock.
 *
 * While dlsym() looks for the next malloc it may call calloc itself; such
 * blocks come from a small array, are never given back, and are not recorded.
 * Neither are calls that fail, free(NULL), or blocks older than the recorder.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "recorder.h"

/* How much of the log is mapped at a time; a multiple of struct raw. */
#define WINDOW_BYTES ((size_t)4 << 20)
_Static_assert(WINDOW_BYTES % sizeof(struct raw) == 0,
	"a record does not cross windows");

/* Enough for the few dozen bytes that glibc's dlsym() asks for. */
#define BOOTSTRAP_BYTES 4096

/* In a page of its own, which a fork zeroes in the child. */
struct state {
	bool recording;
	bool locked;
	int file;
	uint32_t threads;
	uint64_t window; /* offset in the file */
	size_t used;     /* records of the window */
	struct raw *log; /* the window's mapping */
};

static struct state *state;

static struct {
	void *(*malloc)(size_t);
	void *(*calloc)(size_t, size_t);
	void *(*realloc)(void *, size_t);
	void *(*memalign)(size_t, size_t);
	void (*free)(void *);
} next;

static _Alignas(16) unsigned char bootstrap[BOOTSTRAP_BYTES];
static size_t bootstrap_used;

/* 0 is none yet; the index of a thread is one less. */
static _Thread_local uint32_t thread_number
	__attribute__((tls_model("initial-exec")));

static void *bootstrap_alloc(size_t size)
{
	void *p = bootstrap + bootstrap_used;

	size = (size + 15) & ~(size_t)15;
	if (size > sizeof(bootstrap) - bootstrap_used)
		abort();
	bootstrap_used += size;
	return p;
}

static bool bootstrap_owns(const void *p)
{
	return (uintptr_t)p - (uintptr_t)bootstrap < sizeof(bootstrap);
}

/* Maps the window of the log that begins at state->window. */
static bool window_map(void)
{
	if (ftruncate(state->file, (off_t)(state->window + WINDOW_BYTES)))
		return false;
	state->log = mmap(NULL, WINDOW_BYTES, PROT_READ | PROT_WRITE,
		MAP_SHARED, state->file, (off_t)state->window);
	state->used = 0;
	return state->log != MAP_FAILED;
}

/* Opens the log and begins to record; without FALLOW_RECORD does nothing. */
static void recording_begin(void)
{
	const char *prefix = getenv("FALLOW_RECORD");
	char path[4096];

	if (!prefix)
		return;
	state = mmap(NULL, sizeof(*state), PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (state == MAP_FAILED ||
		madvise(state, sizeof(*state), MADV_WIPEONFORK))
		abort();
	snprintf(path, sizeof(path), "%s.%s.%d", prefix,
		program_invocation_short_name, (int)getpid());
	state->file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (state->file < 0)
		abort();
	/* Out of the way of programs that count on low numbers. */
	state->file = fcntl(state->file, F_DUPFD_CLOEXEC, 500);
	if (state->file < 0 || !window_map())
		abort();
	state->recording = true;
}

/* Finds the malloc to pass on to; the first call of any function here. */
static void next_find(void)
{
	static bool finding;

	if (finding)
		return;
	finding = true;
	*(void **)&next.malloc = dlsym(RTLD_NEXT, "malloc");
	*(void **)&next.calloc = dlsym(RTLD_NEXT, "calloc");
	*(void **)&next.realloc = dlsym(RTLD_NEXT, "realloc");
	*(void **)&next.memalign = dlsym(RTLD_NEXT, "memalign");
	*(void **)&next.free = dlsym(RTLD_NEXT, "free");
	recording_begin();
}

static bool next_ready(void)
{
	if (!next.free)
		next_find();
	return next.free != NULL;
}

/* Returns whether to record; if so the lock is held. */
static bool log_enter(void)
{
	if (!state || !state->recording)
		return false;
	while (__atomic_test_and_set(&state->locked, __ATOMIC_ACQUIRE))
		sched_yield();
	if (!thread_number)
		thread_number = ++state->threads;
	return true;
}

static void log_leave(bool entered)
{
	if (entered)
		__atomic_clear(&state->locked, __ATOMIC_RELEASE);
}

/* Appends a record; on a full disk says so and ends the recording. */
static void log_put(
	uint32_t kind, size_t size, const void *address, uint64_t result)
{
	static const char full[] = "recorder: cannot extend the log\n";

	if (state->used == WINDOW_BYTES / sizeof(struct raw)) {
		munmap(state->log, WINDOW_BYTES);
		state->window += WINDOW_BYTES;
		if (!window_map()) {
			state->recording = false;
			if (write(2, full, sizeof(full) - 1) < 0)
				abort();
			return;
		}
	}
	state->log[state->used++] = (struct raw){
		kind, thread_number - 1, size, (uintptr_t)address, result};
}

void *malloc(size_t size)
{
	bool entered;
	void *p;

	if (!next_ready())
		return bootstrap_alloc(size);
	entered = log_enter();
	p = next.malloc(size);
	if (entered && p)
		log_put(RAW_ALLOC, size, p, 0);
	log_leave(entered);
	return p;
}

void *calloc(size_t count, size_t size)
{
	bool entered;
	void *p;

	/* The array is zero, and no part of it is given out twice. */
	if (!next_ready())
		return bootstrap_alloc(count * size);
	entered = log_enter();
	p = next.calloc(count, size);
	if (entered && p)
		log_put(RAW_ZALLOC, count * size, p, 0);
	log_leave(entered);
	return p;
}

void free(void *p)
{
	bool entered;

	if (!p || bootstrap_owns(p) || !next_ready())
		return;
	entered = log_enter();
	if (entered)
		log_put(RAW_FREE, 0, p, 0);
	next.free(p);
	log_leave(entered);
}

void *realloc(void *p, size_t size)
{
	bool entered;
	void *q;

	if (!p)
		return malloc(size);
	if (bootstrap_owns(p)) {
		size_t rest =
			bootstrap + sizeof(bootstrap) - (unsigned char *)p;

		q = malloc(size);
		return q ? memcpy(q, p, size < rest ? size : rest) : NULL;
	}
	entered = log_enter();
	q = next.realloc(p, size);
	if (entered && q)
		log_put(RAW_REALLOC, size, p, (uintptr_t)q);
	else if (entered && size == 0) /* glibc: it was a free */
		log_put(RAW_FREE, 0, p, 0);
	log_leave(entered);
	return q;
}

void *reallocarray(void *p, size_t count, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(count, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return realloc(p, bytes);
}

void *memalign(size_t align, size_t size)
{
	bool entered;
	void *p;

	if (!next_ready())
		abort();
	entered = log_enter();
	p = next.memalign(align, size);
	if (entered && p)
		log_put(RAW_ALIGNED, size, p, align);
	log_leave(entered);
	return p;
}

void *aligned_alloc(size_t align, size_t size)
{
	return memalign(align, size);
}

int posix_memalign(void **p, size_t align, size_t size)
{
	int saved = errno;
	void *q;

	if (align % sizeof(void *) || !align || align & (align - 1))
		return EINVAL;
	q = memalign(align, size);
	errno = saved;
	if (!q)
		return ENOMEM;
	*p = q;
	return 0;
}

void *valloc(size_t size)
{
	return memalign((size_t)sysconf(_SC_PAGESIZE), size);
}

void *pvalloc(size_t size)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return memalign(page, (size + page - 1) & ~(page - 1));
}
