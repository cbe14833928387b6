/* SPDX-License-Identifier: MIT */
/*
 * What tests of libfallow.so have in common.  They are ordinary programs, which
 * know nothing of fallow and are started with the library preloaded; that they
 * are is the first thing to be tested.
 */
#ifndef LIBRARY_H
#define LIBRARY_H

#include "test.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

/* A wait for something that must come ends after so long, however busy the
 * machine is. */
#define PATIENCE_MS 120000

/* Whether this runs under QEMU's emulation of Linux on another CPU.  There a
 * child of a program with threads cannot make one itself (in QEMU 7.2 it hangs,
 * under the C library's allocator too), and what the kernel says of a process
 * is about QEMU. */
static inline bool emulated(void)
{
	return getenv("PRELOAD_EMULATED") != NULL;
}

/* Hides from the compiler what a pointer points to: no call is left out. */
static inline void *opaque(void *p)
{
	__asm__ volatile("" : "+r"(p)::"memory");
	return p;
}

/* Whether a function is the library's. */
static inline bool of_library(void *function)
{
	Dl_info info;

	return dladdr(function, &info) != 0 && info.dli_fname != NULL &&
		strstr(info.dli_fname, "libfallow.so") != NULL;
}

/* Waits a little; returns whether there is patience left. */
static inline bool wait_on(unsigned *waited_ms)
{
	usleep(10000);
	*waited_ms += 10;
	return *waited_ms < PATIENCE_MS;
}

/* The bytes of the process that are resident. */
static inline size_t resident(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	unsigned long all, pages = 0;

	if (file == NULL || fscanf(file, "%lu %lu", &all, &pages) != 2)
		test_fail(__FILE__, __LINE__, "/proc/self/statm can be read");
	if (file != NULL)
		fclose(file);
	return pages * 4096;
}

/* A number of a thread's status in /proc by its key; -1 if there is none. */
static inline long long status_number(
	const char *task, const char *key, int base)
{
	char path[300], line[300];
	long long number = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%s/status", task);
	file = fopen(path, "r");
	while (file != NULL && fgets(line, sizeof(line), file) != NULL)
		if (strncmp(line, key, strlen(key)) == 0)
			number = (long long)strtoull(
				line + strlen(key) + 1, NULL, base);
	if (file != NULL)
		fclose(file);
	return number;
}

/* Finds the sweeper's thread; returns how many there are. */
static inline unsigned sweepers(char task[32])
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *entry;
	unsigned n = 0;

	while (tasks != NULL && (entry = readdir(tasks)) != NULL) {
		char path[300], name[32] = "";
		FILE *file;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm",
			entry->d_name);
		file = fopen(path, "r");
		if (file == NULL)
			continue;
		if (fgets(name, sizeof(name), file) != NULL &&
			strcmp(name, "fallow-sweeper\n") == 0) {
			n++;
			snprintf(task, 32, "%.31s", entry->d_name);
		}
		fclose(file);
	}
	if (tasks != NULL)
		closedir(tasks);
	return n;
}

/* Waits until there is a sweeper; returns whether one came. */
static inline bool sweeper_comes(char task[32])
{
	unsigned waited = 0;

	while (sweepers(task) == 0)
		if (!wait_on(&waited))
			return false;
	return true;
}

#endif
