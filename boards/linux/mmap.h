/* SPDX-License-Identifier: MIT */
/*
 * The provider of class window on Linux: a range of addresses of its own,
 * backed by anonymous memory through mmap's family of calls.
 */
#ifndef LINUX_MMAP_H
#define LINUX_MMAP_H

#include <fallow/provider.h>
#include <fallow/status.h>

struct board_mmap_config {
	/* sizeof(struct board_mmap_config): lets the struct grow. */
	size_t size;
	/* Of the window: a multiple of 2 MiB, at least that. */
	size_t window_size;
	/*
	 * false: what is not committed cannot be touched (it faults), at the
	 * price of one call per commit and of mappings, of which the kernel
	 * allows 65530.  true: FALLOW_DEMAND; the whole window can be touched
	 * and commit is free.
	 */
	bool demand;
	/* Never ask for huge pages: large_log2 is 0. */
	bool no_large;
	/* With `demand`: the most bytes that one commit may ask for, as the
	 * kernel would refuse what is beyond all its memory; 0: any. */
	size_t commit_most;
};

struct board_mmap {
	/* What fallow_config.provider takes; written by the init. */
	struct fallow_provider provider;
	/* What fallow_config's window takes: 2 MiB-aligned. */
	uintptr_t window_base;
	size_t window_size;
	size_t commit_most;
	bool demand;
};

/*
 * Reserves the window and makes a provider for it.  *mmap must stay where it
 * is as long as a heap uses it.
 * Fails iff: MISSING_ARGUMENT, BAD_SIZE_FIELD, UNALIGNED or WINDOW_TOO_SMALL
 * (window_size), BAD_GRANULE (the machine's page is not the build's granule),
 * NO_TABLE_MEMORY (the kernel refuses the addresses).
 */
enum fallow_status board_mmap_init(
	struct board_mmap *mmap, const struct board_mmap_config *config)
	__attribute__((warn_unused_result));

/* Gives the window back to the kernel; no heap uses it any more. */
void board_mmap_fini(struct board_mmap *mmap);

#endif
