/* SPDX-License-Identifier: MIT */
/*
 * Files and arguments from QEMU's fw_cfg, for all boards, by its DMA
 * interface: one descriptor a read (QEMU, docs/specs/fw_cfg).  The boards
 * differ only in how the descriptor's address is handed over
 * (board_fwcfg_start()).
 *
 * The device reads and writes physical memory, so descriptor and directory
 * live in one frame of their own, the mailbox, and a file in a run of frames.
 * Everything the device stores is big-endian.  Sizes and names come from the
 * host: a name is compared within its 56 bytes, a size limits the run.
 * One CPU, at any time after board_memory_init(); no locks.
 */
#include <stddef.h>

#include "image.h"

/* Item 0x19 is the directory: a count, then entries of 64 bytes. */
#define KEY_DIRECTORY 0x19
#define NAME_BYTES 56
#define PREFIX "opt/fallow/"
#define GRANULE_LOG2 12
/* The longest argument string, with its final zero. */
#define ARGS_BYTES 512

enum {
	CONTROL_ERROR = 1 << 0,
	CONTROL_READ = 1 << 1,
	CONTROL_SELECT = 1 << 3, /* the key is in the upper 16 bits */
};

/* What board_fwcfg_start() points the device to. */
struct descriptor {
	uint32_t control; /* all three big-endian */
	uint32_t length;
	uint64_t address;
};

struct file {
	uint32_t size;
	uint16_t key;
	uint16_t reserved;
	char name[NAME_BYTES];
};
_Static_assert(sizeof(struct file) == 64, "an entry of the directory");

struct mailbox {
	struct descriptor descriptor;
	uint32_t count;
	struct file file;
};

static struct mailbox *mailbox;
static uint64_t mailbox_frame;
static char args[ARGS_BYTES];

/* Returns the address of physical memory in the direct map. */
static void *physical(uint64_t frame)
{
	return (void *)(uintptr_t)(frame + board_direct_offset());
}

/*
 * Reads the next n bytes of the selected item to physical memory, after
 * selecting `control`'s item if it says so; returns whether the device did.
 */
static bool device_read(uint32_t control, uint64_t frame, uint32_t n)
{
	struct descriptor *descriptor = &mailbox->descriptor;
	volatile uint32_t *answer = &descriptor->control;

	descriptor->control = __builtin_bswap32(control | CONTROL_READ);
	descriptor->length = __builtin_bswap32(n);
	descriptor->address = __builtin_bswap64(frame);
	if (!board_fwcfg_start(
		    mailbox_frame + offsetof(struct mailbox, descriptor)))
		return false;
	/* The device clears all bits when it is done, or leaves the error. */
	while (*answer & ~__builtin_bswap32(CONTROL_ERROR))
		;
	/* The device wrote the data before the answer; they are read after
	 * it. */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return *answer == 0;
}

/* Returns the control word that selects an item. */
static uint32_t item_select(uint16_t key)
{
	return (uint32_t)key << 16 | CONTROL_SELECT;
}

/* Whether an entry's name is PREFIX followed by `name`. */
static bool name_equal(const char *entry, const char *name)
{
	static const char prefix[] = PREFIX;
	size_t i;

	for (i = 0; i < sizeof(prefix) - 1; i++)
		if (entry[i] != prefix[i])
			return false;
	for (; i < NAME_BYTES && entry[i] == *name; i++, name++)
		if (*name == '\0')
			return true;
	return false;
}

/* Looks for a file; afterwards mailbox->file is its entry iff it returns
 * true. */
static bool file_find(const char *name)
{
	uint32_t count, i;

	if (mailbox == NULL ||
		!device_read(item_select(KEY_DIRECTORY),
			mailbox_frame + offsetof(struct mailbox, count),
			sizeof(mailbox->count)))
		return false;
	count = __builtin_bswap32(*(volatile uint32_t *)&mailbox->count);
	for (i = 0; i < count; i++) {
		if (!device_read(0,
			    mailbox_frame + offsetof(struct mailbox, file),
			    sizeof(mailbox->file)))
			return false;
		if (name_equal(mailbox->file.name, name))
			return true;
	}
	return false;
}

/* Returns log2 of the smallest run that holds n bytes. */
static unsigned run_log2(uint64_t n)
{
	unsigned log2 = GRANULE_LOG2;

	while (((uint64_t)1 << log2) < n)
		log2++;
	return log2;
}

bool board_file(const char *name, const void **data, size_t *size)
{
	uint64_t frame;
	uint32_t n;

	if (!file_find(name))
		return false;
	n = __builtin_bswap32(mailbox->file.size);
	frame = fallow_frames_take(board_frames(), run_log2(n));
	if (frame == FALLOW_FRAME_NONE)
		return false;
	if (!device_read(item_select(__builtin_bswap16(mailbox->file.key)),
		    frame, n)) {
		fallow_frames_give(board_frames(), frame, run_log2(n));
		return false;
	}
	*data = physical(frame);
	*size = n;
	return true;
}

/* Copies the file "args" to where board_args() finds it. */
static void args_read(void)
{
	const char *data;
	size_t size, i;
	const void *file;

	if (!board_file("args", &file, &size))
		return;
	if (size >= ARGS_BYTES)
		board_panic("the argument string is too long");
	data = file;
	for (i = 0; i < size; i++)
		args[i] = data[i];
	fallow_frames_give(board_frames(),
		(uintptr_t)file - board_direct_offset(), run_log2(size));
}

void board_fwcfg_init(void)
{
	mailbox_frame = fallow_frames_take(board_frames(), GRANULE_LOG2);
	if (mailbox_frame == FALLOW_FRAME_NONE)
		board_panic("no frame for the mailbox of fw_cfg");
	mailbox = physical(mailbox_frame);
	args_read();
}

const char *board_args(void)
{
	return args;
}
