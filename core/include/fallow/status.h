/* SPDX-License-Identifier: MIT */
/*
 * Why a set-up call refused its arguments.  Exhaustion is never a status: it
 * is a NULL.  fallow_status_text() has one sentence for each.
 */
#ifndef FALLOW_STATUS_H
#define FALLOW_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

enum fallow_status {
	FALLOW_OK = 0,
	/* A struct's size field is not the size that this library knows; where
	 * a header says so, a smaller one is that of an older caller. */
	FALLOW_BAD_SIZE_FIELD,
	/* A pointer that must be given is NULL. */
	FALLOW_MISSING_ARGUMENT,
	/* The provider lacks a function that its class or a capability bit
	 * requires, or its class is none of the three. */
	FALLOW_BAD_PROVIDER,
	/* The provider's granule is not the build's, or not supported. */
	FALLOW_BAD_GRANULE,
	/* large_log2 is neither 0 nor the build's chunk. */
	FALLOW_BAD_LARGE,
	/* The window or region is not a multiple of the granule. */
	FALLOW_UNALIGNED,
	/* The window cannot hold the tables and one slice beside them. */
	FALLOW_WINDOW_TOO_SMALL,
	/* The window, or a range, wraps around the end of the addresses. */
	FALLOW_RANGE_WRAPS,
	/* The region is not inside the window. */
	FALLOW_OUTSIDE_WINDOW,
	/* The region overlaps one that the heap already has. */
	FALLOW_REGION_OVERLAPS,
	/* The region holds no whole slice beside the tables it must carry. */
	FALLOW_REGION_TOO_SMALL,
	/* More regions than FALLOW_REGIONS_MAX. */
	FALLOW_TOO_MANY_REGIONS,
	/* Zero contexts, or more than FALLOW_CONTEXTS_MAX. */
	FALLOW_BAD_CONTEXTS,
	/* The memory handed in for tables is too small or unaligned. */
	FALLOW_BAD_TABLES,
	/* The provider had no memory for the first tables. */
	FALLOW_NO_TABLE_MEMORY,
	/* A setting is outside its stated range. */
	FALLOW_BAD_SETTING,
	/* The CPU or its configuration is one that is not supported; the
	 * function that returns it says what it looked at. */
	FALLOW_UNSUPPORTED_CPU,
	FALLOW_STATUS_COUNT,
};

/* Returns a sentence without a final dot; never NULL, for any value. */
const char *fallow_status_text(enum fallow_status status);

#ifdef __cplusplus
}
#endif

#endif
