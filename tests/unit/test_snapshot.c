/* SPDX-License-Identifier: MIT */
/*
 * What a snapshot says, against what the test knows; the table of classes; and
 * both as text.
 */
#include <string.h>

#include "white.h"

#define MIB ((size_t)1 << 20)
#define KIB ((size_t)1 << 10)

static struct fallow_snapshot snapshot(struct rig *rig)
{
	struct fallow_snapshot now = { .size = sizeof(now) };

	fallow_snapshot(&rig->heap, &now);
	return now;
}

/* Two small blocks, a medium one, a span; of three contexts. */
static struct rig *begin(void **blocks)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 3);

	blocks[0] = fallow_alloc(&rig->heap, 1000);
	blocks[1] = fallow_alloc(&rig->heap, 1000);
	blocks[2] = fallow_alloc(&rig->heap, 20000);
	blocks[3] = fallow_alloc(&rig->heap, 700000);
	return rig;
}

static void test_snapshot_now(void)
{
	void *blocks[4];
	struct rig *rig = begin(blocks);
	struct fallow_snapshot now = snapshot(rig);
	size_t live = 2 * 1024 + 20480 + 700416;

	CHECK_EQUAL(now.blocks, 4);
	CHECK_EQUAL(now.pages, 2);
	CHECK_EQUAL(now.spans, 1);
	CHECK_EQUAL(now.chunks, 1);
	CHECK_EQUAL(now.live, live);
	CHECK_EQUAL(now.live_peak, live);
	CHECK_EQUAL(now.holes, 0);
	CHECK_EQUAL(now.committed + now.tables, rig->sim.committed);
	CHECK_EQUAL(now.committed, now.committed_peak);
	CHECK_EQUAL(now.committed, now.committed_total);
	CHECK_EQUAL(now.commits, rig->sim.made[SIM_COMMIT]);
	CHECK_EQUAL(now.reserved, white_heap(rig)->regions[0].end -
			white_heap(rig)->regions[0].base);
	/* The second of the small ones came from the hot path. */
	CHECK_EQUAL(now.slow_paths, 3);
	/* Freed by another: no block in use, though nobody took it in. */
	white_free(rig, 1, blocks[1]);
	now = snapshot(rig);
	CHECK_EQUAL(now.blocks, 3);
	CHECK_EQUAL(now.live, live - 1024);
	CHECK_EQUAL(now.live_peak, live);
	CHECK_EQUAL(now.remote_frees, 0);
	fallow_collect(&rig->heap);
	CHECK_EQUAL(snapshot(rig).remote_frees, 1);
	rig_end_now(rig, true);
}

/* A granule of the formed area that is gone is a hole. */
static void test_snapshot_holes(void)
{
	void *blocks[4];
	struct rig *rig = begin(blocks);
	struct page *page = white_page(rig, blocks[0]);
	uint16_t *populated = &page->chunk->populated[page->first_slice];

	CHECK_EQUAL(*populated, 1);
	*populated = 0;
	CHECK_EQUAL(snapshot(rig).holes, GRANULE_BYTES);
	*populated = 1;
	CHECK_EQUAL(snapshot(rig).holes, 0);
	rig_end_now(rig, true);
}

/* Each counter is the sum over all contexts, and of nothing else. */
static void test_snapshot_counters(void)
{
	void *blocks[4];
	struct rig *rig = begin(blocks);
	struct local *local;
	struct fallow_snapshot was = snapshot(rig), now;

	for (unsigned i = 0; i < 3; i++) {
		local = white_heap(rig)->locals[i];
		local->counters.slow_paths += 1;
		local->counters.failures += 10;
		local->counters.misuses += 100;
		local->counters.remote_frees += 1000;
		local->counters.abandoned += 10000;
		local->counters.adopted += 100000;
	}
	now = snapshot(rig);
	CHECK_EQUAL(now.slow_paths - was.slow_paths, 3);
	CHECK_EQUAL(now.failures - was.failures, 30);
	CHECK_EQUAL(now.misuses - was.misuses, 300);
	CHECK_EQUAL(now.remote_frees - was.remote_frees, 3000);
	CHECK_EQUAL(now.abandoned - was.abandoned, 30000);
	CHECK_EQUAL(now.adopted - was.adopted, 300000);
	rig_end_now(rig, true);
}

/* An older caller's struct is filled as far as it goes. */
static void test_snapshot_grows(void)
{
	void *blocks[4];
	struct rig *rig = begin(blocks);
	struct fallow_snapshot whole = snapshot(rig);
	unsigned char bytes[sizeof(whole) + 64];

	for (size_t size = sizeof(size_t); size <= sizeof(whole) + 64;
		size += 8) {
		size_t known = size < sizeof(whole) ? size : sizeof(whole);

		memset(bytes, 0xee, sizeof(bytes));
		memcpy(bytes, &size, sizeof(size));
		fallow_snapshot(&rig->heap, (void *)bytes);
		CHECK(!memcmp(bytes, &size, sizeof(size)));
		CHECK(!memcmp(bytes + 8, (char *)&whole + 8, known - 8));
		for (size_t i = known; i < sizeof(bytes); i++)
			CHECK_EQUAL(bytes[i], 0xee);
	}
	rig_end_now(rig, true);
}

static void test_snapshot_class_table(void)
{
	struct fallow_class_row rows[CLASS_COUNT + 1];
	void *blocks[4];
	struct rig *rig = begin(blocks);
	size_t pages = 0, committed = 0;
	unsigned class = size_class(1000);

	rows[CLASS_COUNT].pages = 77;
	white_free(rig, 1, blocks[1]);
	CHECK_EQUAL(fallow_class_table(&rig->heap, rows, CLASS_COUNT + 1),
		CLASS_COUNT);
	CHECK_EQUAL(rows[CLASS_COUNT].pages, 77);
	for (unsigned i = 0; i < CLASS_COUNT; i++) {
		CHECK_EQUAL(rows[i].block_size, class_size(i));
		CHECK_EQUAL(rows[i].page_size,
			fl_size_page_slices(i, true) * SLICE_BYTES);
		pages += rows[i].pages;
		committed += rows[i].committed;
	}
	CHECK_EQUAL(pages, 2);
	CHECK_EQUAL(committed, snapshot(rig).committed - 700416);
	CHECK_EQUAL(rows[class].pages, 1);
	CHECK_EQUAL(rows[class].blocks_used, 1);
	CHECK_EQUAL(rows[class].blocks_formed, 4);
	CHECK_EQUAL(rows[class].committed, GRANULE_BYTES);
	/* No more than asked for. */
	rows[3].pages = 55;
	CHECK_EQUAL(fallow_class_table(&rig->heap, rows, 3), CLASS_COUNT);
	CHECK_EQUAL(rows[3].pages, 55);
	CHECK_EQUAL(fallow_class_table(&rig->heap, NULL, 0), CLASS_COUNT);
	rig_end_now(rig, true);
}

static char text[8192];
static size_t text_size;

static void text_put(void *arg, char c)
{
	CHECK(arg == text);
	if (text_size < sizeof(text) - 1)
		text[text_size++] = c;
}

/* Whether a line begins with `name` and ends with `number`. */
static bool line_says(const char *name, const char *number)
{
	const char *line = text;

	for (; line != NULL && *line != '\0'; line = strchr(line, '\n') + 1) {
		size_t length = strcspn(line, "\n");
		size_t tail = strlen(number);

		if (!strncmp(line, name, strlen(name)) &&
			line[strlen(name)] == ' ' && length > tail &&
			line[length - tail - 1] == ' ' &&
			!strncmp(line + length - tail, number, tail))
			return true;
	}
	return false;
}

static void test_snapshot_print(void)
{
	void *blocks[4];
	struct rig *rig = begin(blocks);

	text_size = 0;
	memset(text, 0, sizeof(text));
	white_heap(rig)->counters.refusals = UINT64_MAX;
	fallow_print(&rig->heap, text_put, text);
	CHECK(text[text_size - 1] == '\n');
	CHECK(line_says("blocks", "4"));
	CHECK(line_says("spans", "1"));
	CHECK(line_says("live", "722944"));
	CHECK(line_says("refusals", "18446744073709551615"));
	CHECK(line_says("misuses", "0"));
	/* Of classes those in use, in columns. */
	CHECK(strstr(text,
		      "    1024       1         2         4        4096\n") !=
		NULL);
	CHECK(strstr(text,
		      "   20480       1         1         1       20480\n") !=
		NULL);
	CHECK(strstr(text, "     512  ") == NULL);
	rig_end_now(rig, true);
}

const struct test tests[] = {
	{ "snapshot_now", test_snapshot_now },
	{ "snapshot_holes", test_snapshot_holes },
	{ "snapshot_counters", test_snapshot_counters },
	{ "snapshot_grows", test_snapshot_grows },
	{ "snapshot_class_table", test_snapshot_class_table },
	{ "snapshot_print", test_snapshot_print },
	{ NULL, NULL },
};
