/* SPDX-License-Identifier: MIT */
/*
 * A program that does wrong, or for which there is too little, in the way that
 * its argument says; tests/preload/bad runs it and reads what comes of it.  It
 * ends with "went on" and 0 if it could.
 */
#define _GNU_SOURCE /* usleep(), the whole family */

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STORMS 3
#define FORKS 40
/* A child that hangs is told so, on a machine that is busy too. */
#define HANGS_S 60
#define LINGERS_US 60000
/* The exit status where the system does not have what it takes. */
#define NOT_HERE 77

/* glibc's own allocator, by the name that it still has: what a library brings
 * along that was linked with an allocator of its own. */
extern void *__libc_malloc(size_t size);

/* Hides from the compiler what a pointer points to. */
static void *opaque(void *p)
{
	__asm__ volatile("" : "+r"(p)::"memory");
	return p;
}

/* The first call of all is a free, of what is no block of anybody's, before any
 * library's constructors. */
static void early(void)
{
	static char nothing[64];

	errno = 0;
	free(opaque(nothing + 16));
	free(NULL);
	free(opaque(nothing + 32));
	if (errno != 0)
		puts("free() has set errno");
	if (malloc_usable_size(NULL) != 0)
		puts("there is room in nothing");
}

static void before_all(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "early") == 0)
		early();
}

__attribute__((section(".preinit_array"), used)) static void (
		*const begin)(int, char **) = before_all;

static void *canceller(void *arg)
{
	static char nothing[64];

	pthread_cancel(pthread_self());
	free(opaque(nothing + 16));
	*(bool *)arg = true;
	pthread_testcancel();
	return NULL;
}

/* free() is no cancellation point, not even if it has something to say. */
static void cancelled(void)
{
	bool came_back = false;
	pthread_t thread;

	if (pthread_create(&thread, NULL, canceller, &came_back) != 0)
		exit(1);
	pthread_join(thread, NULL);
	if (!came_back)
		puts("the thread ended in free()");
}

/* Another allocator's blocks are freed, and one is grown. */
static void foreign(void)
{
	for (int i = 0; i < 1000; i++)
		free(opaque(__libc_malloc(100)));
	errno = 0;
	if (realloc(opaque(__libc_malloc(100)), 1000) != NULL)
		puts("a foreign block grew");
}

/* Blocks of every kind are freed twice, and another in between is intact. */
static void twice(void)
{
	static const size_t sizes[] = { 100, 20000, 200000, 3000000 };

	for (int i = 0; i < 4; i++) {
		char *kept = malloc(sizes[i]);
		char *p = malloc(sizes[i]);
		char *same = opaque(p);

		memset(kept, 7, sizes[i]);
		free(p);
		free(same);
		if (kept[sizes[i] - 1] != 7)
			puts("another block was harmed");
		free(kept);
	}
}

/* Blocks are freed again whose memory has been given back: one of a page of which
 * the first and the last block are in use, one of a page that is gone. */
static void late(void)
{
	static char *blocks[4096];
	char *holed = NULL, *gone = NULL;
	size_t n = sizeof(blocks) / sizeof(blocks[0]);

	for (size_t i = 0; i < n; i++)
		blocks[i] = malloc(256);
	for (size_t i = 0; i < n; i++) {
		size_t page = (uintptr_t)blocks[i] / 65536;
		size_t offset = (uintptr_t)blocks[i] % 65536;

		if (page % 2 == 0 && (offset == 0 || offset == 65280))
			continue;
		free(blocks[i]);
		/* What is there first and last has other blocks, or serves. */
		if (i > n / 4 && i < n / 2 && offset == 32768 && page % 2 == 0)
			holed = blocks[i];
		if (i > n / 4 && i < n / 2 && offset == 32768 && page % 2 == 1)
			gone = blocks[i];
	}
	malloc_trim(0);
	free(opaque(holed));
	free(opaque(gone));
}

/* Blocks of a size are taken until there are no more, used, freed, and taken
 * again: as many, but for what the first look at them took. */
static void exhaust(size_t size)
{
	size_t before = 0;

	for (int round = 0; round < 3; round++) {
		void **list = NULL, *last;
		size_t n = 0;

		for (;;) {
			void **block;

			errno = 0;
			block = malloc(size);
			if (block == NULL)
				break;
			memset(block, 1, size);
			*block = list;
			list = block;
			n++;
		}
		if (errno != ENOMEM)
			puts("errno is not ENOMEM");
		errno = 0;
		/* What a sweep or another has given back meanwhile is there. */
		last = calloc(1, size);
		if (last == NULL && errno != ENOMEM)
			puts("errno is not ENOMEM after calloc");
		free(last);
		while (list != NULL) {
			void **next = *list;

			free(list);
			list = next;
		}
		if (n == 0 || n < before / 2) {
			printf("%zu blocks of %zu, then %zu\n", before, size,
				n);
			exit(1);
		}
		before = n;
	}
}

static void *in_thread(void *arg)
{
	exhaust((size_t)arg);
	return NULL;
}

/* In the first thread, and in one that comes. */
static void limited(void)
{
	static const size_t sizes[] = { 3000000, 100000, 5000 };
	pthread_t thread;
	int waits;

	for (int i = 0; i < 3; i++) {
		exhaust(sizes[i]);
		/* What was freed may count against the limit, and keep a stack
		 * from being made, until the sweeper has come by. */
		for (waits = 0; waits < 10000; waits++) {
			if (pthread_create(&thread, NULL, in_thread,
				    (void *)sizes[i]) == 0)
				break;
			usleep(10000);
		}
		if (waits == 10000)
			puts("there is no thread");
		else
			pthread_join(thread, NULL);
	}
}

static bool over;

/* Has the heap's locks at most times: spans, and pages that come and go. */
static void *storm(void *arg)
{
	void *blocks[64] = { 0 };
	size_t i;

	for (i = (size_t)arg; !__atomic_load_n(&over, __ATOMIC_RELAXED); i++) {
		free(blocks[i % 64]);
		blocks[i % 64] = malloc(i * 7919 % 1200000);
	}
	for (i = 0; i < 64; i++)
		free(blocks[i]);
	return NULL;
}

/* A thread that is not running, wherever it is: as on a busy machine. */
static void linger(int number)
{
	int before = errno;

	(void)number;
	usleep(LINGERS_US);
	errno = before;
}

/* Children of a program with threads allocate, in every size. */
static void forks(void)
{
	pthread_t threads[STORMS];
	int i, status = 0;

	signal(SIGUSR1, linger);
	for (i = 0; i < STORMS; i++)
		if (pthread_create(&threads[i], NULL, storm,
			    (void *)(uintptr_t)i) != 0)
			exit(1);
	for (i = 0; i < FORKS && status == 0; i++) {
		pid_t child;

		pthread_kill(threads[i % STORMS], SIGUSR1);
		child = fork();
		if (child == 0) {
			alarm(HANGS_S);
			for (size_t size = 1; size < 4000000; size *= 2)
				free(opaque(malloc(size)));
			_exit(0);
		}
		if (child < 0 || waitpid(child, &status, 0) != child)
			status = -1;
	}
	if (status != 0)
		printf("child %d: status %d\n", i, status);
	__atomic_store_n(&over, true, __ATOMIC_RELAXED);
	for (i = 0; i < STORMS; i++)
		pthread_join(threads[i], NULL);
}

/* What a sandbox or an old kernel may refuse, and what is done then. */
static const struct refusal {
	const char *name, *what;
	unsigned call;
	int argument; /* of the third argument, or -1: any */
	unsigned error;
} refusals[] = {
	{ "barrier", "forks", SYS_membarrier, -1, EPERM },
	{ "barrier-old", "keeps", SYS_membarrier, -1, ENOSYS },
	{ "collapse", "keeps", SYS_madvise, 25, EINVAL },
	{ "collapse-old", "keeps", SYS_madvise, 25, ENOSYS },
	{ "files", "keeps", SYS_close_range, -1, EPERM },
	{ "files-old", "keeps", SYS_close_range, -1, ENOSYS },
	{ "thread", "keeps", SYS_clone3, -1, EAGAIN },
	/* The C library ends a program whose locks cannot wait; but it waits for
	 * no 0, and the sweeper does. */
	{ "futex", "keeps", SYS_futex, 0, EPERM },
	{ "futex-old", "keeps", SYS_futex, 0, ENOSYS },
};
#define REFUSALS (sizeof(refusals) / sizeof(refusals[0]))

/* Becomes the program that does something where a call is refused. */
static void sandboxed(char *program, const char *name)
{
	const struct refusal *refusal = refusals;
	while (strcmp(refusal->name, name) != 0)
		if (++refusal == refusals + REFUSALS)
			exit(2);

	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, refusal->call, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | (refusal->argument < 0 ? BPF_JGE : BPF_JEQ) |
				BPF_K,
			refusal->argument < 0 ? 0 : (unsigned)refusal->argument,
			0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | refusal->error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog all = { sizeof(filter) / sizeof(filter[0]), filter };
	char what[16];
	char *arguments[] = { program, what, NULL };

	strcpy(what, refusal->what);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all) != 0)
		exit(NOT_HERE);
	execv(program, arguments);
	exit(1);
}

/* Nothing is left to do: nobody computes, as who asks a refusing kernel over and
 * over would.  A busy machine only gives that one less. */
static void idles(void)
{
	clock_t before;

	usleep(250000);
	before = clock();
	usleep(200000);
	if (clock() - before > CLOCKS_PER_SEC / 10)
		puts("it computes while nothing is to be done");
}

/* Keeps 40 MB for many epochs, and then gives all of it back. */
static void keeps(void)
{
	static unsigned char *blocks[40000];
	size_t before = mallinfo2().arena;

	for (int i = 0; i < 40000; i++) {
		blocks[i] = malloc(1000);
		memset(blocks[i], i, 1000);
	}
	usleep(300000);
	for (int i = 0; i < 40000; i++) {
		if (blocks[i][999] != (i & 0xff))
			puts("a block is not as it was left");
		free(blocks[i]);
	}
	malloc_trim(0);
	if (mallinfo2().arena > before + 1000000)
		puts("it is not given back");
	idles();
}

/* The same where no thread can be made. */
static void alone(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, storm, NULL) == 0)
		exit(NOT_HERE);
	keeps();
}

/* The same where there is nothing in /proc. */
static void bare(void)
{
	if (access("/proc/self", F_OK) == 0)
		exit(NOT_HERE);
	keeps();
}

/* Prints what a call returns, and errno. */
#define ANSWER(call) \
	do { \
		void *answer_; \
		errno = 77; \
		answer_ = opaque(call); \
		fprintf(stderr, "%s: %s, %d\n", #call, \
			answer_ == NULL ? "NULL" : "block", errno); \
	} while (0)

/* The family at its edges: what any allocator is meant to answer. */
static void answers(void)
{
	volatile size_t no = 0, half = SIZE_MAX / 2 + 1, most = SIZE_MAX;

	ANSWER(malloc(no));
	ANSWER(malloc(half));
	ANSWER(malloc(half - 1));
	ANSWER(calloc(no, 5));
	ANSWER(calloc(half, 2));
	ANSWER(realloc(NULL, no));
	ANSWER(realloc(malloc(5), no));
	ANSWER(reallocarray(NULL, half, 4));
	ANSWER(reallocarray(NULL, no, 4));
	ANSWER(reallocarray(malloc(5), no, 4));
	ANSWER(aligned_alloc(64, 65));
	ANSWER(aligned_alloc(24, no));
	ANSWER(aligned_alloc(half, no));
	ANSWER(memalign(no, 8));
	ANSWER(memalign(3, 8));
	ANSWER(memalign(half, 8));
	ANSWER(memalign(half + 1, 8));
	ANSWER(memalign(16, no));
	ANSWER(memalign(16, most));
	ANSWER(valloc(no));
	ANSWER(valloc(most));
	ANSWER(pvalloc(no));
	ANSWER(pvalloc(most - 4094));
	for (size_t align = 1; align < 64; align += align < 8 ? 1 : 4) {
		void *p = &errno;
		int error = posix_memalign(&p, align, no);

		fprintf(stderr, "posix_memalign(%zu): %d, %s\n", align, error,
			p == &errno ? "kept" : "set");
	}
	errno = 77;
	malloc_trim(0);
	fprintf(stderr, "malloc_usable_size(NULL): %zu, %d\n",
		malloc_usable_size(NULL), errno);
}

/* Prints which advice on large mappings the heap's memory has. */
static void large(void)
{
	uintptr_t at = (uintptr_t)opaque(malloc(100));
	FILE *maps = fopen("/proc/self/smaps", "r");
	unsigned long from, to;
	bool inside = false;
	char line[400];

	while (maps != NULL && fgets(line, sizeof(line), maps) != NULL) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			inside = at >= from && at < to;
		if (inside && strncmp(line, "VmFlags:", 8) == 0)
			fprintf(stderr, "%s%s\n",
				strstr(line, " hg") != NULL ? "large" : "",
				strstr(line, " nh") != NULL ? "small" : "");
	}
	if (maps != NULL)
		fclose(maps);
}

/* Locks all of its memory, with a window of 64 MiB of which it uses little: says
 * so if more is resident; returns whether it may lock. */
static bool locks(void)
{
	long pages[2] = { 0, 0 };
	void *p = opaque(malloc(1000));
	FILE *statm;

	if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
		return false;
	memset(p, 1, 1000);
	statm = fopen("/proc/self/statm", "r");
	if (statm == NULL || fscanf(statm, "%ld %ld", &pages[0], &pages[1]) != 2)
		fprintf(stderr, "no statm\n");
	else if (pages[1] * sysconf(_SC_PAGESIZE) >= 64L << 20)
		fprintf(stderr, "%ld pages are resident\n", pages[1]);
	if (statm != NULL)
		fclose(statm);
	free(p);
	if (mlockall(0) == 0 || munlockall() != 0)
		fprintf(stderr, "flags are not looked at\n");
	return true;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (strcmp(what, "foreign") == 0)
		foreign();
	else if (strcmp(what, "twice") == 0)
		twice();
	else if (strcmp(what, "late") == 0)
		late();
	else if (strcmp(what, "limited") == 0)
		limited();
	else if (strcmp(what, "large") == 0)
		large();
	else if (strcmp(what, "answers") == 0)
		answers();
	else if (strcmp(what, "cancelled") == 0)
		cancelled();
	else if (strcmp(what, "forks") == 0)
		forks();
	else if (strcmp(what, "sandboxed") == 0 && argc > 2)
		sandboxed(argv[0], argv[2]);
	else if (strcmp(what, "keeps") == 0)
		keeps();
	else if (strcmp(what, "alone") == 0)
		alone();
	else if (strcmp(what, "bare") == 0)
		bare();
	else if (strcmp(what, "nothing") == 0)
		free(opaque(malloc(1000)));
	else if (strcmp(what, "still") == 0)
		/* Not even a buffer of stdio's. */
		return write(STDOUT_FILENO, "went on\n", 8) != 8;
	else if (strcmp(what, "moves") == 0 && chdir("/") != 0)
		return 1;
	else if (strcmp(what, "locked") == 0 && !locks())
		return NOT_HERE;
	else if (strcmp(what, "secure") == 0 && getauxval(AT_SECURE) == 0)
		return NOT_HERE;
	else if (strcmp(what, "secure") == 0)
		free(opaque(malloc(1000)));
	else if (strcmp(what, "early") != 0 && strcmp(what, "moves") != 0 &&
		strcmp(what, "locked") != 0)
		return 2;
	puts("went on");
	return 0;
}
