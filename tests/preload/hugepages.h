/* SPDX-License-Identifier: MIT */
/*
 * What tests of huge pages have in common: how many there are, whether there
 * can be any, and what is resident.
 */
#ifndef HUGEPAGES_H
#define HUGEPAGES_H

#include "library.h"

#include <errno.h>
#include <sys/mman.h>

#define CHUNK (2 * MIB)
/* Debian 12's headers have it, older ones do not. */
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

/* The process's bytes in huge pages, by the kernel. */
static inline size_t huge(void)
{
	FILE *file = fopen("/proc/self/smaps_rollup", "r");
	unsigned long kib = 0;
	char line[512];

	while (file != NULL && fgets(line, sizeof(line), file) != NULL)
		if (sscanf(line, "AnonHugePages: %lu kB", &kib) == 1)
			break;
	if (file != NULL)
		fclose(file);
	return kib * KIB;
}

/* Whether the kernel has what this is about, and is allowed to. */
static inline const char *missing(void)
{
	char text[128] = "";
	FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
	unsigned char *map, *chunk;
	int failed;

	if (file == NULL)
		return "a kernel with transparent huge pages";
	if (fgets(text, sizeof(text), file) == NULL ||
		strstr(text, "[never]") != NULL)
		return "transparent huge pages that are not set to never";
	fclose(file);
	map = mmap(NULL, 2 * CHUNK, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (map == MAP_FAILED)
		return "4 MiB";
	chunk = map + (-(uintptr_t)map & (CHUNK - 1));
	chunk[0] = 1;
	failed = madvise(chunk, CHUNK, MADV_COLLAPSE) == 0 ? 0 : errno;
	munmap(map, 2 * CHUNK);
	return failed == 0 ? NULL : "MADV_COLLAPSE, or a free huge page";
}

/* Waits until no more is resident than `most`; returns whether that came. */
static inline bool resident_falls(size_t most)
{
	unsigned waited = 0;

	while (resident() > most)
		if (!wait_on(&waited))
			return false;
	return true;
}

#endif
