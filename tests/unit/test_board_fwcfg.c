/* SPDX-License-Identifier: MIT */
/*
 * fw_cfg, honest and forged: boards/fwcfg.c on the host, with a device that is
 * played by this file.
 *
 * The file is included, so that each test can begin at power on.  Physical
 * memory is the host's own, so that a frame is a pointer.  The device obeys
 * QEMU's docs/specs/fw_cfg, except where a test tells it not to.
 */
#include <setjmp.h>
#include <string.h>

#include "test.h"

#include "../../boards/fwcfg.c"

#define RAM_BYTES ((size_t)8 << 20)
#define FILES_MAX 8
#define KEY_FIRST 0x20

struct item {
	const char *name; /* 56 bytes are read of it, or up to its end */
	const void *data;
	uint32_t size;
};

/* The device: its files, and how it lies. */
static struct item items[FILES_MAX];
static size_t item_count;
static uint32_t said_count;
static bool absent;
/* The read, counted from 1, that fails; 0 for none. */
static unsigned failing_read;
static unsigned reads;
static uint16_t selected;
static size_t position;

static _Alignas(4096) unsigned char memory[RAM_BYTES];
static struct fallow_frames ram_frames;
static jmp_buf panicked;
static const char *panic_message;

_Noreturn void board_panic(const char *message)
{
	panic_message = message;
	longjmp(panicked, 1);
}

struct fallow_frames *board_frames(void)
{
	return &ram_frames;
}

uintptr_t board_direct_offset(void)
{
	return 0;
}

/* Returns a byte of the directory; past its end all are zero. */
static uint8_t directory_byte(size_t at)
{
	const struct item *item;
	struct file entry = { 0 };
	size_t i = at / sizeof(entry);

	if (at < 4)
		return (uint8_t)(said_count >> (24 - 8 * at));
	i = (at - 4) / sizeof(entry);
	if (i >= item_count)
		return 0;
	item = &items[i];
	entry.size = __builtin_bswap32(item->size);
	entry.key = __builtin_bswap16((uint16_t)(KEY_FIRST + i));
	for (i = 0; i < sizeof(entry.name) && item->name[i] != '\0'; i++)
		entry.name[i] = item->name[i];
	return ((const uint8_t *)&entry)[(at - 4) % sizeof(entry)];
}

static uint8_t item_byte(size_t at)
{
	const struct item *item;

	if (selected == KEY_DIRECTORY)
		return directory_byte(at);
	if (selected < KEY_FIRST || selected >= KEY_FIRST + item_count)
		return 0;
	item = &items[selected - KEY_FIRST];
	return at < item->size ? ((const uint8_t *)item->data)[at] : 0;
}

bool board_fwcfg_start(uint64_t frame)
{
	struct descriptor *asked = (struct descriptor *)(uintptr_t)frame;
	uint32_t control = __builtin_bswap32(asked->control);
	uint32_t length = __builtin_bswap32(asked->length);
	uint8_t *to = (uint8_t *)(uintptr_t)__builtin_bswap64(asked->address);
	uint32_t i;

	if (absent)
		return false;
	if (++reads == failing_read) {
		asked->control = __builtin_bswap32(CONTROL_ERROR);
		return true;
	}
	CHECK(control & CONTROL_READ);
	if (control & CONTROL_SELECT) {
		selected = (uint16_t)(control >> 16);
		position = 0;
	}
	for (i = 0; i < length; i++)
		to[i] = item_byte(position++);
	asked->control = 0;
	return true;
}

/* Powers on with the given items; returns why it panicked, NULL if not. */
static const char *boot(void)
{
	struct fallow_frames_config config = { .size = sizeof(config) };

	CHECK_EQUAL(fallow_frames_init(&ram_frames, &config), FALLOW_OK);
	CHECK_EQUAL(fallow_frames_add(
			    &ram_frames, (uintptr_t)memory, RAM_BYTES),
		FALLOW_OK);
	memset(args, 0, sizeof(args));
	mailbox = NULL;
	panic_message = NULL;
	reads = 0;
	if (setjmp(panicked) == 0)
		board_fwcfg_init();
	return panic_message;
}

/* Makes the device one with these files and no lies. */
static void device(const struct item *list, size_t count)
{
	memcpy(items, list, count * sizeof(*list));
	item_count = count;
	said_count = (uint32_t)count;
	absent = false;
	failing_read = 0;
}

static uint64_t free_bytes(void)
{
	struct fallow_frames_counts counts = { .size = sizeof(counts) };

	fallow_frames_counts(&ram_frames, &counts);
	return counts.free;
}

static const unsigned char blob[10000] = { 1, 2, 3, [9999] = 77 };
static const struct item usual[] = {
	{ "etc/e820", "xxxx", 4 },
	{ "opt/fallow/trace", blob, sizeof(blob) },
	{ "opt/fallow/args", "test=a seed=5", 13 },
	{ "opt/fallow/empty", "", 0 },
};

static void test_finds_files(void)
{
	const void *data = NULL;
	size_t size = 0;

	device(usual, 4);
	CHECK(boot() == NULL);
	CHECK(strcmp(board_args(), "test=a seed=5") == 0);
	CHECK(board_file("trace", &data, &size));
	CHECK_EQUAL(size, sizeof(blob));
	CHECK(memcmp(data, blob, sizeof(blob)) == 0);
	CHECK(board_file("empty", &data, &size));
	CHECK_EQUAL(size, 0);
}

static void test_names_are_whole(void)
{
	const void *data = NULL;
	size_t size = 0;

	device(usual, 4);
	CHECK(boot() == NULL);
	CHECK(!board_file("trac", &data, &size));
	CHECK(!board_file("trace2", &data, &size));
	CHECK(!board_file("", &data, &size));
	CHECK(!board_file("etc/e820", &data, &size));
	CHECK(data == NULL);
}

static void test_no_device(void)
{
	const void *data = NULL;
	size_t size = 0;

	device(usual, 4);
	absent = true;
	CHECK(boot() == NULL);
	CHECK(strcmp(board_args(), "") == 0);
	CHECK(!board_file("trace", &data, &size));
}

static void test_no_arguments(void)
{
	device(usual, 2);
	CHECK(boot() == NULL);
	CHECK(strcmp(board_args(), "") == 0);
}

/* A name that fills its field has no zero behind it. */
static void test_name_without_end(void)
{
	struct item item = { "opt/fallow/"
			     "123456789012345678901234567890123456789012345",
		"x", 1 };
	const void *data;
	size_t size;

	device(&item, 1);
	CHECK(boot() == NULL);
	CHECK(!board_file("123456789012345678901234567890123456789012345",
		&data, &size));
	CHECK(!board_file("1234567890123456789012345678901234567890123456",
		&data, &size));
}

/* A directory that promises more than it has: the rest reads as zero. */
static void test_count_too_large(void)
{
	const void *data;
	size_t size;

	device(usual, 4);
	said_count = 5000;
	CHECK(boot() == NULL);
	CHECK(!board_file("no-such", &data, &size));
	CHECK(board_file("trace", &data, &size));
}

/* A file larger than memory is not there, and takes nothing. */
static void test_size_too_large(void)
{
	struct item item = { "opt/fallow/huge", "x", UINT32_MAX };
	const void *data;
	size_t size;
	uint64_t before;

	device(&item, 1);
	CHECK(boot() == NULL);
	before = free_bytes();
	CHECK(!board_file("huge", &data, &size));
	CHECK_EQUAL(free_bytes(), before);
}

static void test_arguments_too_long(void)
{
	static const char words[ARGS_BYTES] = { 'x' };
	struct item item = { "opt/fallow/args", words, ARGS_BYTES - 1 };
	const char *why;

	device(&item, 1);
	CHECK(boot() == NULL);
	item.size = ARGS_BYTES;
	device(&item, 1);
	why = boot();
	CHECK(why != NULL && strstr(why, "too long") != NULL);
}

/* The device fails at its n-th read, for every n: no file, no loss. */
static void test_every_read_fails(void)
{
	const void *data;
	size_t size;
	unsigned n;

	device(usual, 4);
	CHECK(boot() == NULL);
	for (n = 1; n < 100; n++) {
		uint64_t before = free_bytes();

		reads = 0;
		failing_read = n;
		if (board_file("trace", &data, &size))
			break;
		CHECK_EQUAL(free_bytes(), before);
	}
	/* Count, two entries, the bytes. */
	CHECK_EQUAL(n, 5);
	failing_read = 0;
}

const struct test tests[] = {
	{ "finds_files", test_finds_files },
	{ "names_are_whole", test_names_are_whole },
	{ "no_device", test_no_device },
	{ "no_arguments", test_no_arguments },
	{ "name_without_end", test_name_without_end },
	{ "count_too_large", test_count_too_large },
	{ "size_too_large", test_size_too_large },
	{ "arguments_too_long", test_arguments_too_long },
	{ "every_read_fails", test_every_read_fails },
	{ NULL, NULL },
};
