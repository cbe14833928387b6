/* SPDX-License-Identifier: MIT */
/*
 * FALLOW_LARGE=adaptive: what stays full becomes huge pages, what is committed
 * and was never touched does not, what is freed goes back all the same, and
 * a child and its parent go on.  With `never` there is none.
 *
 * Times are not tested: what must come is waited for.  Run with short epochs.
 * The program starts itself again with each setting, as it is read once.
 */
#define _GNU_SOURCE

#include "hugepages.h"
#include "library.h"

#include <malloc.h>
#include <sys/wait.h>

#define BLOCKS ((size_t)65536)
#define SIZE ((size_t)1000)
#define SPARSE (32 * MIB)

static unsigned char *blocks[BLOCKS];

/* 64 MiB, all of it in use. */
static void fill(void)
{
	for (size_t i = 0; i < BLOCKS; i++) {
		blocks[i] = malloc(SIZE);
		memset(blocks[i], (int)(i % 251), SIZE);
	}
}

static bool intact(void)
{
	for (size_t i = 0; i < BLOCKS; i++)
		if (blocks[i] != NULL && (blocks[i][0] != i % 251 ||
						blocks[i][SIZE - 1] != i % 251))
			return false;
	return true;
}

/* Frees all but every n-th; 0: all. */
static void thin(size_t n)
{
	for (size_t i = 0; i < BLOCKS; i++)
		if (n == 0 || i % n != 0) {
			free(blocks[i]);
			blocks[i] = NULL;
		}
}

/* Waits until more than half of what is live is in huge pages. */
static bool large_come(void)
{
	unsigned waited = 0;

	while (huge() <= BLOCKS * SIZE / 2)
		if (!wait_on(&waited))
			return false;
	return true;
}

/* With adaptive, in a process of its own.  Returns 0, or where it failed. */
static int adaptive(void)
{
	unsigned char *sparse = malloc(SPARSE);
	size_t before = resident();
	int next_file = dup(0);
	pid_t child;
	int status = 0;

	close(next_file);
	/* One page in two. */
	for (size_t i = 0; i < SPARSE; i += 8192)
		sparse[i] = 1;
	fill();
	if (!large_come())
		return 1;
	/* By what is committed it is whole too, and since before the blocks
	 * were: it has been looked at. */
	/* It reads the kernel's table, in no file of the program's. */
	if (dup(0) != next_file)
		return 7;
	close(next_file);
	if (resident() > before + SPARSE / 2 + BLOCKS * 1024 + 8 * MIB)
		return 2;
	child = fork();
	if (child == 0) {
		thin(32);
		malloc_trim(0);
		_exit(!intact() || resident() > before + SPARSE / 2 +
						BLOCKS / 32 * 4096 + 8 * MIB);
	}
	if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
		return 3;
	if (!intact())
		return 4;
	/* A granule for each that is left, and some. */
	thin(32);
	if (!resident_falls(before + SPARSE / 2 + BLOCKS / 32 * 4096 +
			8 * MIB) || !intact())
		return 5;
	thin(0);
	free(sparse);
	return resident_falls(before + 12 * MIB) ? 0 : 6;
}

/* Waits for epochs in which adaptive would have made some: those of blocks that
 * are freed and given back. */
static int never(void)
{
	size_t before = resident();

	fill();
	for (unsigned i = 0; i < 8; i++) {
		unsigned char *wave = malloc(16 * MIB);

		memset(wave, 1, 16 * MIB);
		free(opaque(wave));
		if (!resident_falls(before + BLOCKS * 1024 + 8 * MIB))
			return 1;
		if (huge() != 0)
			return 2;
	}
	return 0;
}

/* Runs one of the two in a process that was started with a setting. */
static void with_setting(const char *setting)
{
	pid_t child = fork();
	int status = 0;

	if (child == 0) {
		setenv("FALLOW_LARGE", setting, 1);
		setenv("HUGEPAGES_PART", setting, 1);
		execl("/proc/self/exe", "hugepages", (char *)NULL);
		_exit(99);
	}
	CHECK(child > 0 && waitpid(child, &status, 0) == child);
	CHECK_EQUAL(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0);
}

/* Before the tests: a process that was started to be one part. */
static __attribute__((constructor)) void part_run(void)
{
	const char *part = getenv("HUGEPAGES_PART");

	if (part != NULL)
		_exit(strcmp(part, "never") == 0 ? never() : adaptive());
}

static void test_hugepages_adaptive(void)
{
	const char *why = missing();

	CHECK(of_library((void *)malloc));
	if (why != NULL)
		test_skip(why);
	else
		with_setting("adaptive");
}

static void test_hugepages_never(void)
{
	CHECK(of_library((void *)malloc));
	with_setting("never");
}

const struct test tests[] = {
	{ "hugepages_adaptive", test_hugepages_adaptive },
	{ "hugepages_never", test_hugepages_never },
	{ NULL, NULL },
};
