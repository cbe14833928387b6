/* SPDX-License-Identifier: MIT */
/*
 * The environment's settings, by one table.
 *
 * Each is named FALLOW_ and what it is, with the unit at its end, so that a
 * number is just a number: a suffix is refused rather than guessed at.  A value
 * that is refused is said with what would have been accepted, and the default
 * holds; the program goes on, for whoever set the variable may not be who runs
 * the program.  A name that begins with FALLOW_ and is none of ours is said
 * with the nearest one that is.
 *
 * A program that runs with more rights than its caller takes nothing from the
 * environment.
 *
 * The environment is the C library's, but a call of malloc() may come before it
 * has one: then the kernel's copy is read.
 */
#define _GNU_SOURCE /* environ */

#include "linux/settings.h"

#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <fallow/fallow.h>

#include "linux/text.h"

#define PREFIX "FALLOW_"
#define NAME_MAX_BYTES 32
/* What is repeated of a value that is refused. */
#define VALUE_MAX_BYTES 64
/* The whole of an early environment that is looked at. */
#define EARLY_BYTES 65536
/* Two epochs without use is when memory goes: half a second.  A page that goes
 * and comes back costs a page fault, about a microsecond, and programs pause
 * for some tenths of a second all the time. */
#define EPOCH_MS_STANDARD 250
/* What a smaller program has free it soon uses again, each page fault for a few
 * KiB: there is less to win than to lose. */
#define PACE_FROM_STANDARD ((uint64_t)512 << 10)

enum kind { NUMBER, WORDS, PATH, HELP };

struct setting {
	const char *name; /* behind the prefix */
	enum kind kind;
	size_t offset; /* in struct board_settings */
	uint64_t least, most, standard;
	const char *words[4]; /* for WORDS: what stands for 0, 1, 2 */
	const char *text;
};

#define FIELD(name) offsetof(struct board_settings, name)

static const struct setting settings_all[] = {
	{ "FLOOR_BYTES", NUMBER, FIELD(floor_bytes), 0, (uint64_t)1 << 46,
		FALLOW_FLOOR_BYTES, { 0 },
		"free memory that stays if it was used of late; 0: none" },
	{ "FLOOR_EPOCHS", NUMBER, FIELD(floor_epochs), 1,
		FALLOW_FLOOR_EPOCHS_MAX, FALLOW_FLOOR_EPOCHS, { 0 },
		"how many epochs without use it stays" },
	{ "EPOCH_MS", NUMBER, FIELD(epoch_ms), 1, 3600000,
		EPOCH_MS_STANDARD, { 0 },
		"the least time between two sweeps, milliseconds" },
	{ "PACE_FROM_BYTES", NUMBER, FIELD(pace_from_bytes), 0,
		(uint64_t)1 << 46, PACE_FROM_STANDARD, { 0 },
		"from this size on idle memory goes before it grows; 0: never" },
	{ "SWEEPER", NUMBER, FIELD(sweeper), 0, 1, 1, { 0 },
		"1: a thread gives memory back; 0: malloc_trim() does" },
	{ "LARGE", WORDS, FIELD(large), 0, 2, BOARD_LARGE_ADAPTIVE,
		{ "never", "always", "adaptive" },
		"mappings of 2 MiB; adaptive: where all 2 MiB stay in use" },
	{ "WINDOW_BYTES", NUMBER, FIELD(window_bytes), (uint64_t)64 << 20,
		(uint64_t)1 << 46, 0, { 0 },
		"addresses for the heap; else by the machine's memory" },
	{ "MISUSE", WORDS, FIELD(misuse), 0, 2, BOARD_MISUSE_REPORT,
		{ "report", "quiet", "stop" },
		"what a double free or a foreign pointer does" },
	{ "REPORT", NUMBER, FIELD(report), 0, 1, 0, { 0 },
		"1: figures on stderr when the program exits, if it is open then" },
	{ "REPORT_FILE", PATH, FIELD(report_file), 0, 0, 0, { 0 },
		"append them to this file instead" },
	{ "HELP", HELP, 0, 0, 0, 0, { 0 }, "1: print this list" },
};

#define SETTINGS (sizeof(settings_all) / sizeof(settings_all[0]))

/* Appends what a setting accepts. */
static void range_put(struct board_text *text, const struct setting *setting)
{
	unsigned i;

	if (setting->kind == NUMBER) {
		board_text_number(text, setting->least);
		board_text_put(text, " to ");
		board_text_number(text, setting->most);
	} else if (setting->kind == WORDS) {
		for (i = 0; setting->words[i] != NULL; i++) {
			board_text_put(text, i == 0 ? "" : ", ");
			board_text_put(text, setting->words[i]);
		}
	} else {
		board_text_put(text, setting->kind == PATH ? "a path" : "1");
	}
}

/* Appends what holds without the setting. */
static void standard_put(struct board_text *text, const struct setting *setting)
{
	if (setting->kind == WORDS) {
		board_text_put(text, "; default ");
		board_text_put(text, setting->words[setting->standard]);
	} else if (setting->kind == NUMBER && setting->offset !=
			FIELD(window_bytes)) {
		board_text_put(text, "; default ");
		board_text_number(text, setting->standard);
	}
}

/* Prints the list of settings. */
static void help_print(void)
{
	struct board_text text;
	size_t i;

	board_text_begin(&text);
	board_text_put(&text, "settings of libfallow.so, numbers without a "
			      "suffix:\n");
	for (i = 0; i < SETTINGS; i++) {
		board_text_put(&text, "  " PREFIX);
		board_text_put(&text, settings_all[i].name);
		board_text_put(&text, "=  ");
		board_text_put(&text, settings_all[i].text);
		board_text_put(&text, " (");
		range_put(&text, &settings_all[i]);
		standard_put(&text, &settings_all[i]);
		board_text_put(&text, ")\n");
	}
	board_text_end(&text);
}

/* A letter without its case. */
static char folded(char c)
{
	return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

/* How many letters must change to make one name the other, if it is few: the
 * classic table, a row at a time. */
static unsigned distance(const char *a, const char *b)
{
	unsigned row[NAME_MAX_BYTES + 1];
	size_t n = strlen(a), m = strlen(b);
	size_t i, j;

	if (n > NAME_MAX_BYTES || m > NAME_MAX_BYTES)
		return UINT32_MAX;
	for (j = 0; j <= m; j++)
		row[j] = (unsigned)j;
	for (i = 1; i <= n; i++) {
		unsigned corner = row[0];

		row[0] = (unsigned)i;
		for (j = 1; j <= m; j++) {
			unsigned change = corner +
				(folded(a[i - 1]) != folded(b[j - 1]));

			corner = row[j];
			if (row[j] + 1 < change)
				change = row[j] + 1;
			if (row[j - 1] + 1 < change)
				change = row[j - 1] + 1;
			row[j] = change;
		}
	}
	return row[m];
}

/* Finds the setting that was meant: one that begins so, or else the nearest of
 * which at least half is right; NULL if there is none. */
static const struct setting *nearest_find(const char *name)
{
	const struct setting *nearest = NULL;
	size_t length = strlen(name);
	unsigned least = UINT32_MAX;
	size_t i;

	for (i = 0; i < SETTINGS; i++) {
		unsigned d = distance(name, settings_all[i].name);

		if (length > 0 && strncmp(name, settings_all[i].name,
					  length) == 0)
			return &settings_all[i];
		if (d < least && d <= length / 2) {
			least = d;
			nearest = &settings_all[i];
		}
	}
	return nearest;
}

/* Says that there is no such setting, and which may have been meant. */
static void unknown_print(const char *name)
{
	const struct setting *nearest = nearest_find(name);
	struct board_text text;

	board_text_begin(&text);
	board_text_put(&text, "there is no setting " PREFIX);
	board_text_quote(&text, name, NAME_MAX_BYTES);
	if (nearest != NULL) {
		board_text_put(&text, "; did you mean " PREFIX);
		board_text_put(&text, nearest->name);
		board_text_put(&text, "? ");
	} else {
		board_text_put(&text, "; ");
	}
	board_text_put(&text, PREFIX "HELP=1 prints the list\n");
	board_text_end(&text);
}

/* Says that a value is refused, why, what would not be, and what holds. */
static void refused_print(
	const struct setting *setting, const char *value, const char *why)
{
	struct board_text text;

	board_text_begin(&text);
	board_text_put(&text, PREFIX);
	board_text_put(&text, setting->name);
	board_text_put(&text, "=");
	board_text_quote(&text, value, VALUE_MAX_BYTES);
	board_text_put(&text, " is refused: ");
	board_text_put(&text, why);
	board_text_put(&text, "; accepted: ");
	range_put(&text, setting);
	standard_put(&text, setting);
	board_text_put(&text, "\n");
	board_text_end(&text);
}

/* Reads a decimal number; returns what is wrong with it, or NULL. */
static const char *number_read(
	const struct setting *setting, const char *value, uint64_t *number)
{
	const char *at = value;

	*number = 0;
	for (; *at >= '0' && *at <= '9'; at++)
		if (__builtin_mul_overflow(*number, 10, number) ||
			__builtin_add_overflow(
				*number, (uint64_t)(*at - '0'), number))
			return "it is out of range";
	if (at == value || *at != '\0')
		return "a number is digits alone, with no sign or suffix";
	if (*number < setting->least || *number > setting->most)
		return "it is out of range";
	return NULL;
}

/* Finds which of the setting's words the value is; returns what is wrong. */
static const char *word_read(
	const struct setting *setting, const char *value, uint64_t *number)
{
	for (*number = 0; setting->words[*number] != NULL; ++*number)
		if (strcmp(value, setting->words[*number]) == 0)
			return NULL;
	return "there is no such word";
}

/* Takes the value of one setting over, or says why not. */
static void value_take(struct board_settings *settings,
	const struct setting *setting, const char *value)
{
	void *field = (char *)settings + setting->offset;
	const char *wrong = NULL;
	uint64_t number = 0;

	if (setting->kind == PATH) {
		*(const char **)field = value;
		return;
	}
	wrong = setting->kind == WORDS ? word_read(setting, value, &number)
				       : number_read(setting, value, &number);
	if (setting->kind == HELP) {
		if (strcmp(value, "0") != 0)
			help_print();
	} else if (wrong != NULL) {
		refused_print(setting, value, wrong);
	} else {
		*(uint64_t *)field = number;
	}
}

/* Looks at one NAME=value of the environment. */
static void entry_take(struct board_settings *settings, const char *entry)
{
	char name[NAME_MAX_BYTES + 1];
	const char *value;
	size_t i, n;

	if (strncmp(entry, PREFIX, strlen(PREFIX)) != 0)
		return;
	entry += strlen(PREFIX);
	value = strchr(entry, '=');
	if (value == NULL)
		return;
	n = (size_t)(value++ - entry);
	if (n > NAME_MAX_BYTES)
		n = NAME_MAX_BYTES;
	memcpy(name, entry, n);
	name[n] = '\0';
	for (i = 0; i < SETTINGS; i++)
		if (strcmp(name, settings_all[i].name) == 0) {
			value_take(settings, &settings_all[i], value);
			return;
		}
	unknown_print(name);
}

/* The environment as the kernel gave it, where the C library has none yet. */
static void early_take(struct board_settings *settings)
{
	/* Values that are paths are kept, so it stays. */
	static char early[EARLY_BYTES + 1];
	int fd = open("/proc/self/environ", O_RDONLY | O_CLOEXEC);
	size_t used = 0;
	ssize_t n = 1;
	char *at;

	if (fd < 0)
		return;
	while (n > 0 && used < EARLY_BYTES) {
		n = read(fd, early + used, EARLY_BYTES - used);
		used += n > 0 ? (size_t)n : 0;
	}
	close(fd);
	for (at = early; at < early + used; at += strlen(at) + 1)
		entry_take(settings, at);
}

bool board_settings_given(void)
{
	char **entry;

	if (getauxval(AT_SECURE) != 0)
		return false;
	for (entry = environ; entry != NULL && *entry != NULL; entry++)
		if (strncmp(*entry, PREFIX, strlen(PREFIX)) == 0)
			return true;
	return false;
}

void board_settings_read(struct board_settings *settings)
{
	char **entry;
	size_t i;

	*settings = (struct board_settings){ 0 };
	for (i = 0; i < SETTINGS; i++)
		if (settings_all[i].kind <= WORDS)
			*(uint64_t *)((char *)settings +
				settings_all[i].offset) =
				settings_all[i].standard;
	if (getauxval(AT_SECURE) != 0)
		return;
	if (environ == NULL)
		early_take(settings);
	for (entry = environ; entry != NULL && *entry != NULL; entry++)
		entry_take(settings, *entry);
}
