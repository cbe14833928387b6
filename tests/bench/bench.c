/* SPDX-License-Identifier: MIT */
/*
 * Runs the one program that it is linked with, and measures it:
 *
 *   PROGRAM [PERCENT [IDLE_MS [FILE]]]
 *
 * The work is measured from after the start of the process to its own end:
 * wall-clock and CPU time (all threads', background ones too), minor faults,
 * and the most memory that was resident.  Resident is anonymous memory alone:
 * the text of libraries is shared with other processes and does not count.
 *
 * With IDLE_MS the program then idles for so long, frees and allocates a little
 * (some allocators look at their clocks only then), idles a moment again, and
 * says what is resident: what it has settled to.  Pages that an allocator gave
 * up with MADV_FREE do not count, though they stay until the kernel wants them.
 *
 * The last line says which object malloc() came from, so that a preload that
 * had no effect is not mistaken for one that had.  Nothing here allocates while
 * it measures.
 */
#define _GNU_SOURCE
#include "bench.h"
#include "owner.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* Pairs of a malloc() and its free(), after the program has idled: jemalloc
 * looks at its clock every 1000 operations of a thread. */
#define IDLE_PAIRS 4096
#define IDLE_REST_US 300000

const char *bench_file;

static uint64_t live, own;
static char notes[512];

/* test.h's, for test_random() alone. */
uint64_t test_seed = BENCH_SEED;

void bench_fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", bench.name, what);
	_exit(1);
}

void *bench_pages(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		bench_fail("no memory for the steps");
	return p;
}

void bench_own(void *table, size_t size)
{
	volatile unsigned char *bytes = table;
	size_t i;

	for (i = 0; i < size; i += 4096)
		bytes[i] = bytes[i];
	own += size;
}

void bench_live(uint64_t bytes)
{
	live = bytes;
}

void bench_note(const char *name, uint64_t number)
{
	size_t at = strlen(notes);

	snprintf(notes + at, sizeof(notes) - at, " %s=%llu", name,
		(unsigned long long)number);
}

void bench_sleep(unsigned us)
{
	struct timespec time = { us / 1000000, us % 1000000 * 1000L };

	nanosleep(&time, NULL);
}

void bench_threads(
	unsigned n, void *(*run)(void *), void *arguments, size_t size)
{
	pthread_t threads[64];
	unsigned i;

	if (n > sizeof(threads) / sizeof(threads[0]))
		bench_fail("too many threads");
	for (i = 0; i < n; i++)
		if (pthread_create(&threads[i], NULL, run,
			    (char *)arguments + i * size) != 0)
			bench_fail("no thread");
	for (i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
}

uint64_t bench_thin(struct bench_block *blocks, size_t n, unsigned left)
{
	uint64_t random = BENCH_SEED;
	uint64_t bytes = 0;
	size_t i;

	for (i = 0; i < n; i++) {
		if (blocks[i].p == NULL)
			continue;
		if (left != 0 && bench_below(&random, left) == 0) {
			bytes += blocks[i].size;
			continue;
		}
		bench_free(blocks[i].p, blocks[i].size);
		blocks[i].p = NULL;
	}
	return bytes;
}

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static uint64_t cpu_us(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) *
		1000000 +
		(uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

uint64_t bench_faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (uint64_t)usage.ru_minflt;
}

/* The sum of some lines of a file of /proc that are so many kB. */
static uint64_t proc_bytes(const char *path, const char *const *keys)
{
	char text[8192];
	uint64_t sum = 0;
	ssize_t n;
	int file = open(path, O_RDONLY | O_CLOEXEC);

	n = file < 0 ? -1 : read(file, text, sizeof(text) - 1);
	if (n < 0)
		bench_fail("/proc cannot be read");
	close(file);
	text[n] = '\0';
	for (; *keys != NULL; keys++) {
		const char *line = strstr(text, *keys);

		if (line != NULL)
			sum += strtoull(line + strlen(*keys), NULL, 10);
	}
	return sum << 10;
}

/* From now on the peak is that of what follows.  A kernel without the file goes
 * on with that of the whole process, which begins with next to nothing. */
static void peak_reset(void)
{
	int file = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);

	if (file < 0)
		return;
	if (write(file, "5", 1) != 1)
		bench_fail("/proc/self/clear_refs cannot be written");
	close(file);
}

static uint64_t peak_bytes(void)
{
	static const char *const most[] = { "VmHWM:", NULL };
	static const char *const files[] = { "RssFile:", "RssShmem:", NULL };

	return proc_bytes("/proc/self/status", most) -
		proc_bytes("/proc/self/status", files) - own;
}

uint64_t bench_resident(void)
{
	static const char *const held[] = { "\nAnonymous:", NULL };
	static const char *const lazy[] = { "\nLazyFree:", NULL };

	return proc_bytes("/proc/self/smaps_rollup", held) -
		proc_bytes("/proc/self/smaps_rollup", lazy) - own;
}

uint64_t bench_huge(void)
{
	static const char *const huge[] = { "\nAnonHugePages:", NULL };

	return proc_bytes("/proc/self/smaps_rollup", huge);
}

/* Idles; allocators that have no thread of their own get to see that it is
 * later. */
static void idle(unsigned ms)
{
	uint64_t random = BENCH_SEED;
	unsigned i;

	bench_sleep(ms * 1000);
	for (i = 0; i < IDLE_PAIRS; i++) {
		size_t size = bench_size(&random, 16, 8);

		bench_free(bench_alloc(size), size);
	}
	bench_sleep(IDLE_REST_US);
}

int main(int argc, char **argv)
{
	unsigned percent = argc > 1 ? (unsigned)atoi(argv[1]) : 100;
	unsigned idle_ms = argc > 2 ? (unsigned)atoi(argv[2]) : 0;
	uint64_t wall, cpu, faults, operations;

	if (percent == 0 || argc > 4 || (bench.prepare && argc != 4)) {
		fprintf(stderr, "usage: %s [PERCENT [IDLE_MS%s]]\n",
			bench.name, bench.prepare ? " FILE" : "");
		return 2;
	}
	bench_file = argc > 3 ? argv[3] : NULL;
	if (bench.prepare != NULL)
		bench.prepare();
	peak_reset();
	faults = bench_faults();
	cpu = cpu_us();
	wall = now_us();
	operations = bench.run(percent);
	wall = now_us() - wall;
	cpu = cpu_us() - cpu;
	faults = bench_faults() - faults;
	printf("bench: owner=%s operations=%llu wall_us=%llu cpu_us=%llu "
	       "peak=%llu faults=%llu live=%llu paced=%d%s",
		bench_malloc_owner(), (unsigned long long)operations,
		(unsigned long long)wall, (unsigned long long)cpu,
		(unsigned long long)peak_bytes(), (unsigned long long)faults,
		(unsigned long long)live, bench.paced, notes);
	if (idle_ms > 0) {
		idle(idle_ms);
		printf(" settled=%llu",
			(unsigned long long)bench_resident());
	}
	printf("\n");
	return 0;
}
