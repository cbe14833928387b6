/* SPDX-License-Identifier: MIT */
/*
 * Every status has a sentence of its own, as the header says of them; what is
 * no status has one too.
 */
#include <string.h>

#include <fallow/status.h>

#include "test.h"

static const char *text(int status)
{
	return fallow_status_text((enum fallow_status)status);
}

static void test_status_each_has_its_own(void)
{
	for (int i = 0; i < FALLOW_STATUS_COUNT; i++) {
		size_t length = strlen(text(i));

		CHECK(length > 4);
		CHECK(text(i)[length - 1] != '.');
		CHECK(strcmp(text(i), "unknown status") != 0);
		for (int j = 0; j < i; j++)
			CHECK(strcmp(text(i), text(j)) != 0);
	}
	CHECK(!strcmp(text(FALLOW_OK), "no error"));
}

static void test_status_unknown(void)
{
	static const int none[] = { FALLOW_STATUS_COUNT,
		FALLOW_STATUS_COUNT + 1, 1000, INT32_MAX };

	for (unsigned i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		CHECK(!strcmp(text(none[i]), "unknown status"));
}

const struct test tests[] = {
	{ "status_each_has_its_own", test_status_each_has_its_own },
	{ "status_unknown", test_status_unknown },
	{ NULL, NULL },
};
