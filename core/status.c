/* SPDX-License-Identifier: MIT */
/* What each status means, in a sentence. */
#include <fallow/status.h>

const char *fallow_status_text(enum fallow_status status)
{
	switch (status) {
	case FALLOW_OK:
		return "no error";
	case FALLOW_BAD_SIZE_FIELD:
		return "a struct's size field is not the size that is known";
	case FALLOW_MISSING_ARGUMENT:
		return "a pointer that must be given is NULL";
	case FALLOW_BAD_PROVIDER:
		return "the provider lacks a function that its class or "
		       "capabilities require";
	case FALLOW_BAD_GRANULE:
		return "the provider's granule is not the build's";
	case FALLOW_BAD_LARGE:
		return "the large mapping is neither 0 nor a chunk";
	case FALLOW_UNALIGNED:
		return "a window or region is not a multiple of the granule";
	case FALLOW_WINDOW_TOO_SMALL:
		return "the window cannot hold its tables and a slice";
	case FALLOW_RANGE_WRAPS:
		return "a range wraps around the end of the addresses";
	case FALLOW_OUTSIDE_WINDOW:
		return "the region is not inside the window";
	case FALLOW_REGION_OVERLAPS:
		return "the region overlaps another";
	case FALLOW_REGION_TOO_SMALL:
		return "the region holds no whole slice beside its tables";
	case FALLOW_TOO_MANY_REGIONS:
		return "the heap has as many regions as it can";
	case FALLOW_BAD_CONTEXTS:
		return "the number of contexts is out of range";
	case FALLOW_BAD_TABLES:
		return "the memory for tables is too small or unaligned";
	case FALLOW_NO_TABLE_MEMORY:
		return "the provider has no memory for the first tables";
	case FALLOW_BAD_SETTING:
		return "a setting is outside its range";
	case FALLOW_UNSUPPORTED_CPU:
		return "the CPU or its configuration is not supported";
	default:
		return "unknown status";
	}
}
