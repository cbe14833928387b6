/* SPDX-License-Identifier: MIT */
/*
 * A libc on a bare machine whose malloc is fallow.
 *
 * The image is what a user of picolibc would build: its start-up code, its
 * semihosting, its linker script, and before the libc two archives of ours.
 * The libc's own functions then allocate from the heap, and the link map has to
 * show nothing of the libc's allocator (tests/guest/picolibc.mk looks).
 *
 * The heap is of class flat, over an array.  picolibc's start-up on aarch64
 * leaves the MMU off, where atomics and unaligned accesses are not guaranteed
 * to work: a function that runs before main() maps RAM one to one.
 *
 * Arguments: test=FILTER seed=N, by semihosting.  The file is also compiled as a
 * program of the host, whose libc then has fallow for its malloc.
 */
#define _GNU_SOURCE /* asprintf(), tdelete() */

#include <fallow/flat.h>
#include <fallow/malloc.h>

#include "test.h"

#include <errno.h>
#include <malloc.h>
#include <math.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Alignas(65536) unsigned char memory[6 << 20];
static struct fallow heap;
static unsigned misuses;

/* What errno is, only the libc knows. */
void fallow_malloc_errno(int error)
{
	errno = error;
}

void test_write(const char *text, size_t size)
{
	fwrite(text, 1, size, stdout);
}

static void on_misuse(void *ctx, const struct fallow_misuse *report)
{
	(void)ctx;
	test_printf("misuse: %s\n", fallow_misuse_text(report->kind));
	misuses++;
}

/* Blocks in use now; the heap is whole and nobody was blamed. */
static size_t blocks_now(void)
{
	struct fallow_snapshot snapshot = { .size = sizeof(snapshot) };
	const char *broken = fallow_check(&heap, NULL);

	if (broken)
		test_printf("%s\n", broken);
	CHECK(!broken);
	CHECK_EQUAL(misuses, 0);
	fallow_snapshot(&heap, &snapshot);
	return snapshot.blocks;
}

static void test_libc_printf(void)
{
	char text[64];
	char *made = NULL;
	int n;

	snprintf(text, sizeof(text), "%.3f %g %e", 3.14159, 1e-5, 12345.678);
	CHECK(!strcmp(text, "3.142 1e-05 1.234568e+04"));
	n = asprintf(&made, "%s is %.2f, %*d", "pi", 3.14159, 3000, 7);
	CHECK_OR_RETURN(n > 3000 && made);
	CHECK_EQUAL(strlen(made), n);
	CHECK(fallow_owns(&heap, made));
	CHECK(malloc_usable_size(made) >= (size_t)n + 1);
	CHECK(!strncmp(made, "pi is 3.14, ", 12) && made[n - 1] == '7');
	free(made);
	printf("sqrt(2) = %.15f ... ", sqrt(2.0));
}

static void test_libc_strdup(void)
{
	char *a = strdup("fallow");
	char *b = strndup("fallow ground", 6);

	CHECK_OR_RETURN(a && b && a != b);
	CHECK(fallow_owns(&heap, a) && fallow_owns(&heap, b));
	CHECK(!strcmp(a, "fallow") && !strcmp(a, b));
	free(a);
	free(b);
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Ten thousand strings, sorted and freed in an order of their own. */
static void test_libc_qsort(void)
{
	size_t n = 10000;
	char **words = calloc(n, sizeof(*words));
	uint64_t seed = test_seed;

	CHECK_OR_RETURN(words);
	for (size_t i = 0; i < n; i++) {
		char text[32];

		snprintf(text, sizeof(text), "%.*f",
			(int)(test_random(&seed) % 10),
			(double)(test_random(&seed) % 1000000) / 7);
		words[i] = strdup(text);
		CHECK_OR_RETURN(words[i]);
	}
	CHECK(blocks_now() > n);
	qsort(words, n, sizeof(*words), compare);
	for (size_t i = 1; i < n; i++)
		CHECK(strcmp(words[i - 1], words[i]) <= 0);
	for (size_t i = 0; i < n; i++)
		free(words[i]);
	free(words);
}

/* Reads a line of any length as getline() does: the buffer doubles. */
static ssize_t line_read(char **line, size_t *room, FILE *file)
{
	size_t n = 0;
	int c;

	while ((c = fgetc(file)) != EOF) {
		if (n + 2 > *room) {
			size_t more = *room ? 2 * *room : 16;
			char *grown = realloc(*line, more);

			if (!grown)
				return -1;
			*line = grown;
			*room = more;
		}
		(*line)[n++] = (char)c;
		if (c == '\n')
			break;
	}
	if (*line)
		(*line)[n] = '\0';
	return n ? (ssize_t)n : -1;
}

/* A stream in memory: the libc allocates it, lines grow from it. */
static void test_libc_streams(void)
{
	size_t size = 200000, room = 0, lines = 0, total = 0;
	char *text = malloc(size), *line = NULL;
	FILE *file;
	ssize_t n;

	CHECK_OR_RETURN(text);
	memset(text, 'x', size);
	for (size_t at = 0; at < size; at += 1 + at / 3)
		text[at] = '\n';
	file = fmemopen(text, size, "r");
	CHECK_OR_RETURN(file && fallow_owns(&heap, file));
	while ((n = line_read(&line, &room, file)) > 0) {
		CHECK_EQUAL(strspn(line, "x"),
			(size_t)n - (line[n - 1] == '\n'));
		total += (size_t)n;
		lines++;
	}
	CHECK_EQUAL(total, size);
	CHECK(lines > 20);
	fclose(file);
	free(line);
	free(text);
}

static int compare_int(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* A tree whose nodes the libc allocates and frees. */
static void test_libc_tree(void)
{
	static int keys[500];
	void *root = NULL;
	size_t before = blocks_now();

	for (int i = 0; i < 500; i++) {
		keys[i] = i * 7919 % 500;
		CHECK(tsearch(&keys[i], &root, compare_int));
	}
	CHECK_EQUAL(blocks_now(), before + 500);
	for (int i = 0; i < 500; i++)
		CHECK(tdelete(&i, &root, compare_int));
	CHECK_EQUAL(blocks_now(), before);
}

static void test_libc_aligned(void)
{
	void *p[20] = { NULL };

	for (unsigned i = 3; i < 20; i++) {
		size_t align = (size_t)1 << i;

		CHECK_EQUAL(posix_memalign(&p[i], align, align / 2 + 1), 0);
		CHECK(p[i] && (uintptr_t)p[i] % align == 0);
		memset(p[i], (int)i, align / 2 + 1);
	}
	for (unsigned i = 3; i < 20; i++)
		free(p[i]);
	p[0] = aligned_alloc(256, 1000);
	p[1] = memalign(64, 1000);
	CHECK(p[0] && (uintptr_t)p[0] % 256 == 0);
	CHECK(p[1] && (uintptr_t)p[1] % 64 == 0);
	free(p[0]);
	free(p[1]);
	CHECK_EQUAL(posix_memalign(&p[0], 3, 8), EINVAL);
	errno = 0;
	CHECK(!aligned_alloc(24, 8) && errno == EINVAL);
}

/* Until there is no more: NULL and ENOMEM, of the libc's functions too, and
 * all of it comes back. */
static void test_libc_exhausted(void)
{
	struct link {
		struct link *next;
		char bytes[1000];
	} *all = NULL, *one;
	volatile size_t huge = SIZE_MAX / 2;
	size_t n = 0;
	char *text;

	errno = 0;
	CHECK(!malloc(huge) && errno == ENOMEM);
	errno = 0;
	CHECK(!reallocarray(NULL, huge, 4) && errno == ENOMEM);
	errno = 0;
	while ((one = malloc(sizeof(*one))) != NULL) {
		one->next = all;
		all = one;
		n++;
	}
	CHECK_EQUAL(errno, ENOMEM);
	/* At least three quarters of the array are blocks. */
	CHECK(n * sizeof(*one) > sizeof(memory) / 4 * 3);
	errno = 0;
	while ((text = strdup("as long as a kilobyte's crumbs last")) != NULL) {
		one = (struct link *)(void *)text;
		one->next = all;
		all = one;
	}
	CHECK_EQUAL(errno, ENOMEM);
	while (all) {
		one = all;
		all = one->next;
		free(one);
	}
	text = malloc(sizeof(memory) / 2);
	CHECK(text);
	free(text);
}

const struct test tests[] = {
	{ "libc_printf", test_libc_printf },
	{ "libc_strdup", test_libc_strdup },
	{ "libc_qsort", test_libc_qsort },
	{ "libc_streams", test_libc_streams },
	{ "libc_tree", test_libc_tree },
	{ "libc_aligned", test_libc_aligned },
	{ "libc_exhausted", test_libc_exhausted },
	{ NULL, NULL },
};

#if defined(__aarch64__) && defined(__PICOLIBC__)

/* The port reads the context's index where TPIDR_EL1 points; there is one. */
static const uint32_t context_index;

/* Level 1 of the tables: with 39 bits of addresses it is the first. */
static _Alignas(4096) uint64_t level1[512];

/* Arm ARM, D8.3.1: a level-1 block is 1 GiB.  AttrIndx 0, inner shareable,
 * accessed. */
#define BLOCK (1u << 0 | 3u << 8 | 1u << 10)
#define GIB ((uint64_t)1 << 30)
/* D17.2.139: 39 bits below, write-back walks, inner shareable, 4 KiB granule;
 * nothing above (EPD1). */
#define TCR (25u | 1u << 8 | 1u << 10 | 3u << 12 | 1u << 23)
/* D17.2.118: MMU, data cache, instruction cache. */
#define SCTLR_ON (1u << 0 | 1u << 2 | 1u << 12)

/* Prints what happened and ends the machine, for any exception. */
__attribute__((used)) static void machine_fault(void)
{
	uint64_t esr, elr, far;

	__asm__("mrs %0, esr_el1\n\tmrs %1, elr_el1\n\tmrs %2, far_el1"
		: "=r"(esr), "=r"(elr), "=r"(far));
	test_printf("\nexception: esr=%llx elr=%llx far=%llx\n",
		(unsigned long long)esr, (unsigned long long)elr,
		(unsigned long long)far);
	_Exit(99);
}

/* D1.3.1.4: 16 vectors of 128 bytes, all alike. */
__asm__(".pushsection .text.vectors, \"ax\"\n"
	"	.balign 2048\n"
	"vectors:\n"
	"	.rept 16\n"
	"	.balign 128\n"
	"	b machine_fault\n"
	"	.endr\n"
	"	.popsection\n");
extern const char vectors[];

/* Afterwards the GiB of RAM is mapped one to one, as normal memory. */
static void machine_init(void)
{
	uint64_t sctlr;

	level1[1] = GIB | BLOCK;
	__asm__ volatile("msr vbar_el1, %0\n\t"
			 "msr tpidr_el1, %1\n\t"
			 "msr mair_el1, %2\n\t"
			 "msr tcr_el1, %3\n\t"
			 "msr ttbr0_el1, %4\n\t"
			 "dsb sy\n\tisb\n\t"
			 "tlbi vmalle1\n\tdsb sy\n\tisb"
			 :
			 : "r"(vectors), "r"(&context_index),
			 "r"((uint64_t)0xff), "r"((uint64_t)TCR), "r"(level1)
			 : "memory");
	__asm__ volatile("mrs %0, sctlr_el1" : "=r"(sctlr));
	sctlr |= SCTLR_ON;
	__asm__ volatile("msr sctlr_el1, %0\n\tisb" ::"r"(sctlr) : "memory");
}

#else

/* Elsewhere the start-up leaves a machine that is ready. */
static void machine_init(void)
{
}

#endif

/* Before constructors, which may allocate: the machine, then the heap. */
static void before_main(void)
{
	struct fallow_config config = {
		.size = sizeof(config),
		.provider = &fallow_flat,
		.contexts = 1,
		.misuse = on_misuse,
	};

	machine_init();
	if (fallow_init(&heap, &config) == FALLOW_OK &&
		fallow_add_region(&heap, (uintptr_t)memory, sizeof(memory)) ==
			FALLOW_OK)
		fallow_malloc_use(&heap);
}

__attribute__((used, section(".preinit_array"))) static void (
	*const before_main_entry)(void) = before_main;

int main(int argc, char **argv)
{
	const char *filter = NULL;
	uint64_t seed = 1;

	for (int i = 1; i < argc; i++) {
		if (!strncmp(argv[i], "test=", 5))
			filter = argv[i] + 5;
		else if (!strncmp(argv[i], "seed=", 5) && argv[i][5])
			seed = strtoull(argv[i] + 5, NULL, 0);
	}
	return test_main(filter, seed);
}
