/* SPDX-License-Identifier: MIT */
/*
 * What of the page-table provider is x86-64's own: bits of entries, top-level
 * entries, and the shootdown hook.  A window of its own, across the border of
 * two top-level entries that nobody else uses, is made and taken down by each
 * test; the rest is in pagetable.c.
 */
#include "board.h"
#include "paging.h"
#include "ration.h"
#include "test.h"

#define GRANULE ((uintptr_t)4096)
#define CHUNK ((uintptr_t)2 << 20)
/* What a top-level entry maps, and a border between two that nobody uses; of
 * five levels, which the board uses where the CPU has them, or of four. */
#define TOP_BYTES ((uintptr_t)1 << (five_levels() ? 48 : 39))
#define BORDER \
	(five_levels() ? (uintptr_t)0xff11000000000000 \
		       : (uintptr_t)0xffffd08000000000)
/* Four chunks, two on either side of it. */
#define WINDOW (BORDER - 2 * CHUNK)
#define WINDOW_BYTES (4 * CHUNK)

/* Intel SDM volume 3, tables 4-18 and 4-20. */
#define BIT_PRESENT 0
#define BIT_WRITABLE 1
#define BIT_USER 2
#define BIT_PWT 3
#define BIT_PCD 4
#define BIT_ACCESSED 5
#define BIT_DIRTY 6
#define BIT_LARGE_OR_PAT 7
#define BIT_GLOBAL 8
#define BIT_PAT_LARGE 12
#define BIT_NO_EXECUTE 63
#define RFLAGS_INTERRUPTS 0x200
#define CR4_PGE ((uint64_t)1 << 7)

/* A commit's memory type is a PAT index; 4 is write-back too at reset. */
#define TYPE(index) ((unsigned)(index) << 16)

static struct test_ration ration;
static uint64_t root;

/* What the shootdown hook saw, and the granule that it commits, if any; whether
 * it leaves the flush out. */
static unsigned shootdowns;
static bool unflushed_by_hook;
static uintptr_t committed_by_hook;
static struct fallow_pagetable_flush last;
static uint64_t last_rflags;

static uint64_t cr4_read(void)
{
	uint64_t value;

	__asm__ volatile("movq %%cr4, %0" : "=r"(value));
	return value;
}

static void cr4_write(uint64_t value)
{
	__asm__ volatile("movq %0, %%cr4" ::"r"(value) : "memory");
}

/* Whether CR4.LA57 is set. */
static bool five_levels(void)
{
	return cr4_read() >> 12 & 1;
}

static uint64_t rflags(void)
{
	uint64_t value;

	__asm__ volatile("pushfq\n\tpopq %0" : "=r"(value));
	return value;
}

static void shootdown(void *ctx, const struct fallow_pagetable_flush *what)
{
	(void)ctx;
	shootdowns++;
	last = *what;
	last_rflags = rflags();
	/* Another CPU would go on using the provider meanwhile: a lock that
	 * is held here never lets this call end. */
	if (committed_by_hook != 0)
		CHECK_EQUAL(test_try_commit(committed_by_hook,
				    GRANULE, 0), FALLOW_COMMIT_DONE);
	if (!unflushed_by_hook)
		fallow_pagetable_flush(what);
}

/* Makes the configuration of a provider at WINDOW. */
static struct fallow_pagetable_config configuration(void)
{
	__asm__ volatile("movq %%cr3, %0" : "=r"(root));
	root &= ~(uint64_t)(GRANULE - 1);
	ration = (struct test_ration){
		.under = board_frame_hooks(),
		.direct_offset = board_direct_offset(),
		.left = TEST_RATION_NONE,
	};
	return (struct fallow_pagetable_config){
		.size = sizeof(struct fallow_pagetable_config),
		.root = root,
		.direct_offset = board_direct_offset(),
		.frames = test_ration_hooks(&ration),
		.window_base = WINDOW,
		.window_size = WINDOW_BYTES,
	};
}

static bool begin(bool hook)
{
	struct fallow_pagetable_config config = configuration();
	enum fallow_status status;

	shootdowns = 0;
	config.shootdown = hook ? shootdown : NULL;
	status = fallow_pagetable_init(&test_pagetable, &config);
	CHECK_EQUAL(status, FALLOW_OK);
	CHECK(fallow_pagetable_why(&test_pagetable) == NULL);
	fallow_pagetable_provider(&test_pagetable, &test_provider);
	return status == FALLOW_OK;
}

static void end(void)
{
	CHECK(fallow_pagetable_fini(&test_pagetable, true));
	CHECK_EQUAL(ration.out, 0);
}

/* Returns the entry that maps `addr`, 0 if none. */
static uint64_t entry_of(uintptr_t addr)
{
	struct fallow_mapping mapping = { 0 };

	if (!fallow_pagetable_lookup(&test_pagetable, addr, &mapping))
		return 0;
	return mapping.entry;
}

static unsigned bit(uint64_t entry, unsigned n)
{
	return entry >> n & 1;
}

static uint64_t *table_at(uint64_t frame)
{
	return (uint64_t *)(uintptr_t)(frame + board_direct_offset());
}

static uint64_t top_entry(uintptr_t addr)
{
	return table_at(root)[addr / TOP_BYTES % 512];
}

/* A chunk whose top-level entry is neither the window's nor its neighbours',
 * and the tables that the embedder has there, from the top on. */
#define FOREIGN (BORDER + 4 * TOP_BYTES)
static uint64_t foreign[4];
static unsigned foreign_count;

/* Makes the embedder's tables above FOREIGN, down to the last level, and
 * returns that one. */
static uint64_t *foreign_make(uint64_t bits)
{
	uint64_t table = root;
	uintptr_t bytes;

	foreign_count = 0;
	for (bytes = TOP_BYTES; bytes >= CHUNK; bytes /= 512) {
		uint64_t frame = board_frame_hooks()->take(
			board_frame_hooks()->ctx, 12);

		CHECK(frame != FALLOW_FRAME_NONE);
		__builtin_memset(table_at(frame), 0, GRANULE);
		table_at(table)[FOREIGN / bytes % 512] = frame | bits;
		foreign[foreign_count++] = table = frame;
	}
	return table_at(table);
}

/* Takes them away again; nothing is mapped there. */
static void foreign_drop(void)
{
	static const struct fallow_pagetable_flush all = { .all = true };

	table_at(root)[FOREIGN / TOP_BYTES % 512] = 0;
	fallow_pagetable_flush(&all);
	while (foreign_count > 0)
		board_frame_hooks()->give(board_frame_hooks()->ctx,
			foreign[--foreign_count], 12);
}

/* Makes a provider whose window is one half of FOREIGN's neighbourhood: the
 * chunk itself, and the one behind it. */
static bool foreign_begin(uint64_t bits, enum fallow_status expected)
{
	struct fallow_pagetable_config config = configuration();

	foreign_make(bits);
	config.window_base = FOREIGN;
	config.window_size = 2 * CHUNK;
	CHECK_EQUAL(fallow_pagetable_init(&test_pagetable, &config), expected);
	fallow_pagetable_provider(&test_pagetable, &test_provider);
	return expected == FALLOW_OK && test_failures() == 0;
}

static void check_leaf(uint64_t entry, bool large)
{
	CHECK_EQUAL(bit(entry, BIT_PRESENT), 1);
	CHECK_EQUAL(bit(entry, BIT_WRITABLE), 1);
	CHECK_EQUAL(bit(entry, BIT_USER), 0);
	CHECK_EQUAL(bit(entry, BIT_PWT), 0);
	CHECK_EQUAL(bit(entry, BIT_PCD), 0);
	CHECK_EQUAL(bit(entry, BIT_ACCESSED), 1);
	CHECK_EQUAL(bit(entry, BIT_DIRTY), 1);
	CHECK_EQUAL(bit(entry, BIT_LARGE_OR_PAT), large);
	CHECK_EQUAL(bit(entry, BIT_GLOBAL), 1);
	CHECK_EQUAL(bit(entry, BIT_NO_EXECUTE), 1);
}

/* Both kinds of leaf: supervisor, writable, global, no-execute. */
static void test_entry_bits(void)
{
	if (!begin(false))
		return;
	CHECK(test_try_commit(WINDOW, GRANULE, 0));
	check_leaf(entry_of(WINDOW), false);
	CHECK(test_try_commit(BORDER, CHUNK, FALLOW_PREFER_LARGE) &
		FALLOW_COMMIT_LARGE);
	check_leaf(entry_of(BORDER), true);
	test_decommit(WINDOW, GRANULE);
	test_decommit(BORDER, CHUNK);
	end();
}

/* The PAT bit is bit 12 of a large leaf and bit 7 of a small one. */
static void test_split_moves_pat_bit(void)
{
	struct fallow_mapping mapping;
	uint64_t frame;

	if (!begin(false))
		return;
	CHECK(test_try_commit(BORDER, CHUNK,
		      FALLOW_PREFER_LARGE | TYPE(4)) &
		FALLOW_COMMIT_LARGE);
	CHECK_EQUAL(bit(entry_of(BORDER), BIT_PAT_LARGE), 1);
	CHECK(fallow_pagetable_lookup(&test_pagetable, BORDER, &mapping));
	CHECK_EQUAL(mapping.memory_type, 4);
	frame = mapping.physical;
	CHECK_EQUAL(frame % CHUNK, 0);
	test_decommit(BORDER + GRANULE, GRANULE);
	CHECK(fallow_pagetable_lookup(&test_pagetable, BORDER, &mapping));
	CHECK_EQUAL(bit(mapping.entry, BIT_LARGE_OR_PAT), 1);
	CHECK_EQUAL(bit(mapping.entry, BIT_PAT_LARGE), 0);
	CHECK_EQUAL(mapping.memory_type, 4);
	CHECK_EQUAL(mapping.physical, frame);
	/* One granule of another type keeps it from being promoted. */
	CHECK(test_try_commit(BORDER + GRANULE, GRANULE,
		FALLOW_RESERVED));
	CHECK(!test_provider.promote(test_provider.ctx, BORDER));
	test_decommit(BORDER + GRANULE, GRANULE);
	CHECK(test_try_commit(BORDER + GRANULE, GRANULE,
		FALLOW_RESERVED | TYPE(4)));
	CHECK(test_provider.promote(test_provider.ctx, BORDER));
	CHECK_EQUAL(bit(entry_of(BORDER), BIT_PAT_LARGE), 1);
	CHECK(fallow_pagetable_lookup(
		&test_pagetable, BORDER + 9 * GRANULE, &mapping));
	CHECK_EQUAL(mapping.memory_type, 4);
	CHECK_EQUAL(mapping.physical, frame + 9 * GRANULE);
	test_decommit(BORDER, CHUNK);
	CHECK_EQUAL(test_try_commit(BORDER, GRANULE, TYPE(8)),
		FALLOW_COMMIT_NO_MEMORY);
	end();
}

/* Each level has a table for the border's first chunk, and the window's other
 * half one below the top.  A large mapping and its spare table come and go
 * together, and a whole chunk decommitted at once leaves no table. */
static void test_tables_go_with_chunk(void)
{
	size_t upper = five_levels() ? 4 : 3;

	if (!begin(false))
		return;
	CHECK(test_try_commit(BORDER, CHUNK, 0));
	CHECK_EQUAL(test_counters().tables, upper + 1);
	test_decommit(BORDER, CHUNK);
	CHECK_EQUAL(test_counters().tables, upper);
	CHECK(test_try_commit(BORDER, CHUNK,
		      FALLOW_PREFER_LARGE) & FALLOW_COMMIT_LARGE);
	CHECK_EQUAL(test_counters().tables, upper + 1);
	CHECK_EQUAL(test_counters().tables_spare, 1);
	test_decommit(BORDER, CHUNK);
	CHECK_EQUAL(test_counters().tables, upper);
	CHECK_EQUAL(test_counters().tables_spare, 0);
	end();
}

/* Both top-level entries are there before the first commit, and go only with
 * the last. */
static void test_top_entries_filled(void)
{
	if (!begin(false))
		return;
	CHECK_EQUAL(bit(top_entry(WINDOW), BIT_PRESENT), 1);
	CHECK_EQUAL(bit(top_entry(BORDER), BIT_PRESENT), 1);
	CHECK_EQUAL(bit(top_entry(BORDER + TOP_BYTES), BIT_PRESENT), 0);
	CHECK_EQUAL(ration.out, 2 * GRANULE);
	CHECK(test_try_commit(BORDER - GRANULE, 2 * GRANULE, 0));
	CHECK(board_can_write(BORDER - GRANULE));
	CHECK(board_can_write(BORDER));
	CHECK(!fallow_pagetable_fini(&test_pagetable, true));
	CHECK(board_can_write(BORDER));
	test_decommit(BORDER - GRANULE, 2 * GRANULE);
	end();
	CHECK_EQUAL(top_entry(WINDOW), 0);
	CHECK_EQUAL(top_entry(BORDER), 0);
}

/* Without memory for the second top-level entry the first goes back too. */
static void test_top_entries_refused(void)
{
	struct fallow_pagetable_config config = configuration();
	uint64_t n;

	for (n = 0; n < 2; n++) {
		ration.left = n;
		CHECK_EQUAL(fallow_pagetable_init(&test_pagetable, &config),
			FALLOW_NO_TABLE_MEMORY);
		CHECK_EQUAL(ration.out, 0);
		CHECK_EQUAL(top_entry(WINDOW), 0);
	}
}

/* An init that has no memory leaves alone what another provider filled in,
 * though it covers it too, and calls no shootdown. */
static void test_refused_init_undoes_its_own(void)
{
	static struct fallow_pagetable other;
	struct fallow_pagetable_config config;
	uint64_t before;

	if (!begin(true))
		return;
	before = top_entry(BORDER);
	config = configuration();
	config.window_base = BORDER + 2 * CHUNK;
	config.window_size = TOP_BYTES;
	config.shootdown = shootdown;
	ration.left = 0;
	CHECK_EQUAL(fallow_pagetable_init(&other, &config),
		FALLOW_NO_TABLE_MEMORY);
	CHECK_EQUAL(top_entry(BORDER), before);
	CHECK_EQUAL(top_entry(BORDER + TOP_BYTES), 0);
	CHECK_EQUAL(shootdowns, 0);
	ration.left = TEST_RATION_NONE;
	CHECK(test_try_commit(BORDER, GRANULE, 0));
	CHECK(board_can_write(BORDER));
	test_decommit(BORDER, GRANULE);
	ration.out += 2 * GRANULE; /* configuration() began to count anew */
	end();
}

/* The embedder's own tables are used, but neither given away nor promoted. */
static void test_foreign_tables_stay(void)
{
	if (foreign_begin(0x3, FALLOW_OK)) {
		CHECK_EQUAL(test_try_commit(FOREIGN, CHUNK,
			FALLOW_RESERVED), FALLOW_COMMIT_DONE);
		CHECK_EQUAL(ration.out, CHUNK);
		CHECK(board_can_write(FOREIGN + CHUNK - 1));
		CHECK(!test_provider.promote(test_provider.ctx, FOREIGN));
		CHECK_EQUAL(test_counters().tables, 0);
		test_decommit(FOREIGN, CHUNK);
		CHECK(!board_can_read(FOREIGN));
		CHECK_EQUAL(test_counters().tables, 0);
		end();
		CHECK(top_entry(FOREIGN) != 0);
	}
	foreign_drop();
}

/* What the embedder has mapped beside the window, in the same table, is no
 * reason to say that the window is not empty; what is in it is. */
static void test_empty_beside_foreign(void)
{
	uint64_t *beside;

	if (foreign_begin(0x3, FALLOW_OK)) {
		beside = &table_at(foreign[foreign_count - 2])
				 [FOREIGN / CHUNK % 512 + 2];
		*beside = foreign[0] | 0x3;
		CHECK(fallow_pagetable_fini(&test_pagetable, false));
		*beside = 0;
		CHECK(test_try_commit(FOREIGN + GRANULE, GRANULE, 0));
		CHECK(!fallow_pagetable_fini(&test_pagetable, false));
		test_decommit(FOREIGN + GRANULE, GRANULE);
		end();
	}
	foreign_drop();
}

/* An entry on the way that is not writable: refused, by name; and a lookup
 * says what the CPU would. */
static void test_rights_of_upper_entries(void)
{
	struct fallow_mapping mapping;
	uint64_t *top;

	foreign_begin(0x1, FALLOW_BAD_SETTING);
	CHECK(fallow_pagetable_why(&test_pagetable) != NULL);
	CHECK_EQUAL(ration.takes, 0);
	foreign_drop();
	if (foreign_begin(0x3, FALLOW_OK)) {
		top = &table_at(root)[FOREIGN / TOP_BYTES % 512];
		CHECK(test_try_commit(FOREIGN, GRANULE, 0));
		/* The leaf, for once, may be fetched from. */
		table_at(foreign[foreign_count - 1])[0] &=
			~((uint64_t)1 << BIT_NO_EXECUTE);
		CHECK(fallow_pagetable_lookup(&test_pagetable, FOREIGN,
			&mapping));
		CHECK(mapping.writable);
		CHECK(mapping.executable);
		*top &= ~((uint64_t)1 << BIT_WRITABLE);
		*top |= (uint64_t)1 << BIT_NO_EXECUTE;
		CHECK(fallow_pagetable_lookup(&test_pagetable, FOREIGN,
			&mapping));
		CHECK(!mapping.writable);
		CHECK(!mapping.executable);
		*top |= (uint64_t)1 << BIT_WRITABLE;
		test_decommit(FOREIGN, GRANULE);
		end();
	}
	foreign_drop();
}

/* With a hook the provider flushes no CPU by itself, which could be another
 * one by the time that the hook runs: the translation outlives a hook that
 * does nothing.  (The emulator keeps one that is not flushed.) */
static void test_hook_flushes_every_cpu(void)
{
	if (!begin(true))
		return;
	CHECK(test_try_commit(WINDOW, GRANULE, 0));
	CHECK(board_can_read(WINDOW));
	unflushed_by_hook = true;
	test_decommit(WINDOW, GRANULE);
	unflushed_by_hook = false;
	CHECK(board_can_read(WINDOW));
	fallow_pagetable_flush(&(struct fallow_pagetable_flush){ .all = true });
	CHECK(!board_can_read(WINDOW));
	end();
}

/* One call of the hook for a decommit of any number of ranges, with
 * interrupts on, no lock held, and what is to be forgotten. */
static void test_shootdown_once(void)
{
	struct fallow_range ranges[3] = {
		{ .base = WINDOW, .size = GRANULE },
		{ .base = WINDOW + 2 * GRANULE, .size = GRANULE },
		{ .base = BORDER - 2 * GRANULE, .size = 2 * GRANULE },
	};

	if (!begin(true))
		return;
	CHECK(test_try_commit(WINDOW, 2 * CHUNK, 0));
	CHECK_EQUAL(shootdowns, 0);
	committed_by_hook = BORDER + CHUNK;
	test_provider.decommit(test_provider.ctx, ranges, 3);
	committed_by_hook = 0;
	CHECK_EQUAL(shootdowns, 1);
	CHECK(!last.all);
	CHECK_EQUAL(last.n, 3);
	CHECK(last.ranges == ranges);
	CHECK(last_rflags & RFLAGS_INTERRUPTS);
	CHECK(rflags() & RFLAGS_INTERRUPTS);
	test_decommit(BORDER + CHUNK, GRANULE);
	CHECK_EQUAL(shootdowns, 2);
	test_decommit(WINDOW + 3 * GRANULE, 2 * CHUNK - 5 * GRANULE);
	CHECK_EQUAL(shootdowns, 3);
	CHECK(last.all);
	test_decommit(WINDOW + GRANULE, GRANULE);
	end();
}

/* Promotion and split reach every CPU as a flush of everything. */
static void test_size_change_flushes_all(void)
{
	if (!begin(false))
		return;
	CHECK(test_try_commit(BORDER, CHUNK, FALLOW_RESERVED));
	CHECK_EQUAL(test_counters().flushes_all, 0);
	CHECK(test_provider.promote(test_provider.ctx, BORDER));
	CHECK_EQUAL(test_counters().flushes_all, 1);
	test_decommit(BORDER, GRANULE);
	CHECK_EQUAL(test_counters().flushes_all, 2);
	test_decommit(BORDER + GRANULE, GRANULE);
	CHECK_EQUAL(test_counters().flushes_all, 2);
	CHECK_EQUAL(test_counters().flushes, 3);
	test_decommit(BORDER + 2 * GRANULE, CHUNK - 2 * GRANULE);
	end();
}

/* Without global pages every flush is of everything, and CR4 stays as the
 * kernel has it. */
static void test_flush_without_global_pages(void)
{
	uint64_t cr4 = cr4_read(), without = cr4 & ~CR4_PGE;

	if (!begin(false))
		return;
	CHECK(cr4 & CR4_PGE);
	CHECK(test_try_commit(WINDOW, 2 * GRANULE, 0));
	CHECK(board_can_read(WINDOW));
	cr4_write(without);
	test_decommit(WINDOW, GRANULE);
	CHECK_EQUAL(cr4_read(), without);
	cr4_write(cr4);
	CHECK(!board_can_read(WINDOW));
	CHECK(board_can_read(WINDOW + GRANULE));
	test_decommit(WINDOW + GRANULE, GRANULE);
	CHECK_EQUAL(cr4_read(), cr4);
	end();
}

/* Commit is legal with interrupts masked, and leaves them so. */
static void test_commit_keeps_interrupts(void)
{
	if (!begin(false))
		return;
	__asm__ volatile("cli" ::: "memory");
	CHECK(test_try_commit(WINDOW, GRANULE, 0));
	CHECK(!(rflags() & RFLAGS_INTERRUPTS));
	__asm__ volatile("sti" ::: "memory");
	CHECK(test_try_commit(BORDER, GRANULE, 0));
	CHECK(rflags() & RFLAGS_INTERRUPTS);
	test_decommit(WINDOW, GRANULE);
	CHECK(rflags() & RFLAGS_INTERRUPTS);
	test_decommit(BORDER, GRANULE);
	end();
}

/* A provider of granules alone has no large mappings to offer. */
static void test_granules_only(void)
{
	struct fallow_pagetable_config config = configuration();

	config.flags = FALLOW_PAGETABLE_GRANULES;
	CHECK_EQUAL(fallow_pagetable_init(&test_pagetable, &config), FALLOW_OK);
	fallow_pagetable_provider(&test_pagetable, &test_provider);
	CHECK_EQUAL(test_provider.large_log2, 0);
	CHECK_EQUAL(test_provider.capabilities, FALLOW_CAN_MOVE);
	CHECK(test_provider.promote == NULL);
	CHECK_EQUAL(test_try_commit(BORDER, CHUNK,
			    FALLOW_PREFER_LARGE), FALLOW_COMMIT_DONE);
	check_leaf(entry_of(BORDER), false);
	test_decommit(BORDER, CHUNK);
	end();
}

/* Windows that no table can map, and a struct of another size. */
static void test_bad_windows(void)
{
	uintptr_t lower_end = TOP_BYTES << 8;
	struct fallow_pagetable_config config = configuration();

	config.window_base = lower_end;
	CHECK_EQUAL(fallow_pagetable_init(&test_pagetable, &config),
		FALLOW_BAD_SETTING);
	CHECK(fallow_pagetable_why(&test_pagetable) != NULL);
	config.window_base = lower_end - GRANULE;
	CHECK_EQUAL(fallow_pagetable_init(&test_pagetable, &config),
		FALLOW_BAD_SETTING);
	config.window_base = GRANULE;
	config.window_size = (size_t)0 - 3 * GRANULE;
	CHECK_EQUAL(fallow_pagetable_init(&test_pagetable, &config),
		FALLOW_BAD_SETTING);
	config = configuration();
	config.root += 8;
	CHECK_EQUAL(fallow_pagetable_init(&test_pagetable, &config),
		FALLOW_UNALIGNED);
	config = configuration();
	config.size = 0;
	CHECK_EQUAL(fallow_pagetable_init(&test_pagetable, &config),
		FALLOW_BAD_SIZE_FIELD);
	config.size = sizeof(config) + 8;
	CHECK_EQUAL(fallow_pagetable_init(&test_pagetable, &config),
		FALLOW_BAD_SIZE_FIELD);
	CHECK_EQUAL(fallow_pagetable_init(&test_pagetable, NULL),
		FALLOW_MISSING_ARGUMENT);
	CHECK_EQUAL(ration.out, 0);
}

const struct test tests[] = {
	{ "entry_bits", test_entry_bits },
	{ "split_moves_pat_bit", test_split_moves_pat_bit },
	{ "tables_go_with_chunk", test_tables_go_with_chunk },
	{ "top_entries_filled", test_top_entries_filled },
	{ "top_entries_refused", test_top_entries_refused },
	{ "refused_init_undoes_its_own", test_refused_init_undoes_its_own },
	{ "foreign_tables_stay", test_foreign_tables_stay },
	{ "empty_beside_foreign", test_empty_beside_foreign },
	{ "rights_of_upper_entries", test_rights_of_upper_entries },
	{ "hook_flushes_every_cpu", test_hook_flushes_every_cpu },
	{ "shootdown_once", test_shootdown_once },
	{ "size_change_flushes_all", test_size_change_flushes_all },
	{ "flush_without_global_pages", test_flush_without_global_pages },
	{ "commit_keeps_interrupts", test_commit_keeps_interrupts },
	{ "granules_only", test_granules_only },
	{ "bad_windows", test_bad_windows },
	{ NULL, NULL },
};
