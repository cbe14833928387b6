/* SPDX-License-Identifier: MIT */
/*
 * Holes: which granules of a page go, for every class, in every pattern, with
 * what the provider refuses, and what comes back by which allocation.
 *
 * What must go is worked out by brute force, granule by granule, from a list of
 * the blocks in use that the test keeps itself.  The simulated provider makes
 * what is gone inaccessible, so whatever touches it ends the program.
 */
#include <string.h>

#include "batch.h"
#include "bits.h"
#include "white.h"

#define MIB ((size_t)1 << 20)
/* Addresses for pages as they are where addresses cost nothing; and few. */
#define WIDE (1100 * MIB)
#define LEAN (8 * MIB)
#define BLOCKS_MOST (SLICE_BYTES / 16)
#define GRANULES_MOST (CHUNK_SLICES * SLICE_GRANULES)

/* One page of a class, all of it context 0's, and which blocks are in use. */
struct model {
	struct rig *rig;
	struct page *page;
	bool used[BLOCKS_MOST];
	/* Filled in by expect(): granules that are to become holes. */
	bool due[GRANULES_MOST];
	/* Of granules that hold memory, in expect(). */
	size_t due_count;
};

static bool granule_there(const struct page *page, unsigned granule)
{
	return page->chunk->populated[page->first_slice +
		       granule / SLICE_GRANULES] >>
			granule % SLICE_GRANULES &
		1;
}

/* Whether any block in use touches it. */
static bool granule_needed(const struct model *model, unsigned granule)
{
	const struct page *page = model->page;
	size_t begin = granule * GRANULE_BYTES;
	size_t end = begin + GRANULE_BYTES;
	size_t index = begin / page->block_size;

	for (; index * page->block_size < end; index++) {
		if (index >= page->formed)
			return false;
		if (model->used[index])
			return true;
	}
	return false;
}

/* Works out what is to become holes. */
static void expect(struct model *model)
{
	unsigned n = model->page->slices * SLICE_GRANULES;

	model->due_count = 0;
	for (unsigned i = 0; i < n; i++) {
		model->due[i] = granule_there(model->page, i) &&
			!granule_needed(model, i);
		model->due_count += model->due[i];
	}
}

/* A page of the class: every block is formed and in use. */
static void model_begin(struct model *model, struct rig *rig, unsigned class)
{
	void *block = fallow_alloc(&rig->heap, class_size(class));

	model->rig = rig;
	model->page = white_page(rig, block);
	CHECK_EQUAL(model->page->class, class);
	for (unsigned i = 1; i < model->page->capacity; i++)
		CHECK(white_page(rig, fallow_alloc(&rig->heap,
				      class_size(class))) == model->page);
	for (unsigned i = 0; i < model->page->capacity; i++)
		model->used[i] = true;
	CHECK_EQUAL(model->page->formed, model->page->capacity);
}

/* Frees a block, as the context `context`. */
static void model_free(struct model *model, unsigned context, uint32_t index)
{
	CHECK(model->used[index]);
	model->used[index] = false;
	white_free(model->rig, context, white_block(model->page, index));
}

/* Allocates a block of the page's class; returns whether it is of the page.
 * All of it is written to. */
static bool model_alloc(struct model *model)
{
	struct page *page = model->page;
	char *block = fallow_alloc(&model->rig->heap, page->block_size);
	uint32_t index;

	CHECK(block != NULL);
	if (block == NULL)
		return false;
	memset(block, 0x77, page->block_size);
	if (white_page(model->rig, block) != page) {
		white_free(model->rig, 0, block);
		return false;
	}
	index = page_index(page, (uintptr_t)block);
	CHECK(!model->used[index]);
	model->used[index] = true;
	return true;
}

/* Makes holes until no more can be; what a page is not asked for in one batch
 * comes in the next.  Returns the bytes that went. */
static size_t purge(struct model *model)
{
	struct op op = white_op(model->rig, 0);
	struct page *page = model->page;
	struct batch batch;
	size_t bytes = 0, made;
	bool refused = false;

	batch_begin(&batch);
	do {
		fl_page_fold(page, op.local);
		fl_batch_entry(op.heap, &batch, (struct entry){ .page = page });
		made = fl_hole_make(op.heap, page, fl_batch_range, &batch);
		if (made == 0) {
			fl_batch_drop(op.heap, &batch);
			break;
		}
		fl_local_settle(op.heap, op.local, page);
		CHECK(page_holed(page));
		CHECK(fl_hole_pending(op.heap, page));
		bytes += fl_batch_give(&op, &batch, &refused);
		CHECK(!fl_hole_pending(op.heap, page));
	} while (!refused);
	op_drop(&op);
	return bytes;
}

/* What went is what was to go, and nothing else did. */
static void purge_exactly(struct model *model)
{
	unsigned n = model->page->slices * SLICE_GRANULES;
	bool there[GRANULES_MOST];

	expect(model);
	for (unsigned i = 0; i < n; i++)
		there[i] = granule_there(model->page, i);
	CHECK_EQUAL(purge(model), model->due_count * GRANULE_BYTES);
	for (unsigned i = 0; i < n && test_failures() == 0; i++)
		if (granule_there(model->page, i) !=
			(there[i] && !model->due[i])) {
			test_printf("\n    class %u granule %u",
				model->page->class, i);
			CHECK(!"a granule went that is needed, or stayed");
		}
	white_check(model->rig);
}

static void model_end(struct model *model)
{
	for (unsigned i = 0; i < model->page->formed; i++)
		if (model->used[i])
			model_free(model, 0, i);
	fallow_collect(&model->rig->heap);
	CHECK_EQUAL(white_heap(model->rig)->counters.committed, 0);
	white_end(model->rig);
}

/* Every class in turn. */
static void each_class(size_t window, void (*run)(struct model *model))
{
	static struct model model;

	for (unsigned class = 0; class < CLASS_COUNT && !test_failures();
		class++) {
		struct rig *rig;

		rig = rig_begin(FALLOW_CLASS_WINDOW, window, 2);
		model_begin(&model, rig, class);
		run(&model);
		if (test_failures() > 0)
			test_printf("\n    class %u, %zu bytes", class,
				class_size(class));
		model_end(&model);
	}
}

/* All blocks free, the first alone in use, the last, every other, each but
 * every seventh. */
static void patterns(struct model *model)
{
	static const unsigned steps[] = { 0, 1, 2, 3, 5, 7 };
	uint32_t capacity = model->page->capacity;

	for (unsigned s = 0; s < sizeof(steps) / sizeof(steps[0]); s++) {
		uint32_t n = 0;

		for (uint32_t i = 0; i < capacity; i++) {
			bool keep = steps[s] == 0 ? i == 0
				: steps[s] == 1	  ? i == capacity - 1
						  : i % steps[s] == 0;

			if (!keep && model->used[i]) {
				model_free(model, 0, i);
				n++;
			}
		}
		purge_exactly(model);
		/* Twice is as once. */
		CHECK_EQUAL(purge(model), 0);
		/* Everything is to be had again, and of this page. */
		for (; n > 0; n--)
			CHECK(model_alloc(model));
		CHECK(!fl_hole_any(white_heap(model->rig), model->page));
		white_check(model->rig);
		if (test_failures() > 0)
			break;
	}
}

static void test_hole_every_class(void)
{
	each_class(WIDE, patterns);
}

/* A heap whose addresses are few has shorter pages. */
static void test_hole_lean(void)
{
	each_class(LEAN, patterns);
}

/* Blocks freed bit by bit, by the owner and by others, with sweeps in between:
 * a granule goes with the last block that touches it, whatever became of its
 * neighbours before. */
static void bit_by_bit(struct model *model)
{
	uint64_t random = test_seed + model->page->class;
	uint32_t capacity = model->page->capacity;
	unsigned step = capacity / 16 + 1;

	for (unsigned round = 0; round < 60 && !test_failures(); round++) {
		for (unsigned i = 0; i < step * 3; i++) {
			uint32_t index = test_random(&random) % capacity;

			if (model->used[index])
				model_free(model, round % 2, index);
		}
		purge_exactly(model);
		if (round % 4 == 3)
			for (unsigned i = 0; i < step * 2; i++)
				if (!model_alloc(model))
					break;
		white_check(model->rig);
	}
}

static void test_hole_bit_by_bit(void)
{
	each_class(WIDE, bit_by_bit);
}

/* The same while so many of the ranges are refused: what was refused is free as
 * before, and goes another time. */
static void refused_rounds(struct model *model)
{
	uint64_t random = test_seed + model->page->class;
	uint32_t capacity = model->page->capacity;
	struct sim *sim = &model->rig->sim;
	struct heap *heap = white_heap(model->rig);

	for (unsigned round = 0; round < 40 && !test_failures(); round++) {
		uint32_t used = 0;

		for (unsigned i = 0; i < capacity; i++) {
			uint32_t index = test_random(&random) % capacity;

			if (model->used[index])
				model_free(model, 0, index);
		}
		sim->refuse_range_rate = round % 3 * 100;
		purge(model);
		white_check(model->rig);
		for (unsigned i = 0; i < capacity; i++)
			used += model->used[i];
		/* None is lost: each is in use, to be had, or in a hole. */
		CHECK_EQUAL(page_used(model->page) -
				remote_count(model->page, model->page->remote) -
				fl_hole_blocks(heap, model->page),
			used);
		for (unsigned i = 0; i < capacity / 3 + 1; i++)
			if (!model_alloc(model))
				break;
		sim->refuse_range_rate = 0;
		purge_exactly(model);
		white_check(model->rig);
	}
}

static void test_hole_refused(void)
{
	each_class(WIDE, refused_rounds);
}

/* Of the ranges of the next calls, counted from the first, those that are to be
 * refused; the rest are given to the sim one by one. */
static struct sim *chosen_sim;
static uint64_t chosen_refused;
static unsigned chosen_count;

static void chosen_decommit(void *ctx, struct fallow_range *ranges, size_t n)
{
	for (size_t i = 0; i < n; i++, chosen_count++)
		if (chosen_refused >> chosen_count & 1)
			ranges[i].result = FALLOW_RANGE_REFUSED;
		else
			chosen_sim->provider.decommit(ctx, &ranges[i], 1);
}

/* Frees all but every fourth block, as far as they are in use. */
static void free_quarters(struct model *model, unsigned phase)
{
	for (uint32_t i = 0; i < model->page->capacity; i++)
		if (i % 4 != phase && model->used[i])
			model_free(model, 0, i);
}

/* A page with several runs, each refused or not in every combination, twice:
 * the second time blocks touch a hole of the first time and a run that is
 * refused now. */
static void test_hole_refused_combinations(void)
{
	static struct model model;
	/* None begins on a granule but the first. */
	static const size_t sizes[] = { 1664, 6656, 15360 };

	for (unsigned set = 0; set < 3 * 256 && !test_failures(); set++) {
		struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, WIDE, 2);

		model_begin(&model, rig, size_class(sizes[set / 256]));
		chosen_sim = &rig->sim;
		white_heap(rig)->provider.decommit = chosen_decommit;
		for (unsigned phase = 0; phase < 4; phase++) {
			free_quarters(&model, phase);
			chosen_count = 0;
			chosen_refused = set % 256 >> phase;
			purge(&model);
			white_check(rig);
			model_alloc(&model);
			white_check(rig);
		}
		chosen_refused = 0;
		purge_exactly(&model);
		model_end(&model);
	}
}

/* A page is begun in slices that held memory before: what its blocks can never
 * use goes too, and so does what is not formed. */
static void tail_whole(struct model *model)
{
	struct page *page = model->page;
	struct op op = white_op(model->rig, 0);
	size_t size = page->slices * SLICE_BYTES;

	CHECK(fl_memory_populate(&op, page->base, size, false) &
		FALLOW_COMMIT_DONE);
	op_drop(&op);
	purge_exactly(model);
	CHECK_EQUAL(purge(model), 0);
}

static void test_hole_tail(void)
{
	each_class(WIDE, tail_whole);
}

/* A page of which few blocks are formed: the committed rest goes, the granule
 * that the next block begins in stays, and blocks go on being formed. */
static void test_hole_unformed(void)
{
	static struct model model;

	for (unsigned class = 0; class < CLASS_COUNT && !test_failures();
		class++) {
		struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, WIDE, 2);
		struct page *page;
		struct op op;
		void *block;

		if (size_class(class_size(class)) == class) {
			block = fallow_alloc(&rig->heap, class_size(class));
			page = white_page(rig, block);
			memset(&model, 0, sizeof(model));
			model.rig = rig;
			model.page = page;
			model.used[page_index(page, (uintptr_t)block)] = true;
			op = white_op(rig, 0);
			CHECK(fl_memory_populate(&op,
				      page->base, page->slices * SLICE_BYTES,
				      false) &
				FALLOW_COMMIT_DONE);
			op_drop(&op);
			purge_exactly(&model);
			while (page_used(page) < page->capacity)
				if (!model_alloc(&model))
					break;
			CHECK_EQUAL(page->formed, page->capacity);
			purge_exactly(&model);
			model_end(&model);
		} else {
			rig_end_now(rig, true);
		}
	}
}

/* There is room for one range alone, at any point: what has been marked is
 * known to be pending, and the rest goes later. */
static bool no_more(void *arg, uintptr_t base, size_t size)
{
	struct fallow_range *range = arg;

	*range = (struct fallow_range){ base, size, FALLOW_RANGE_DONE };
	return false;
}

/* Makes the heap know, or not, that what is pending of a page was handed over:
 * this is what is right for it when nobody is inside. */
static void handed_set(struct heap *heap, struct page *page, bool handed)
{
	page->chunk->handed ^= slice_mask(page->first_slice, 1);
	heap->handed += handed ? 1 : (size_t)-1;
}

static void one_by_one(struct model *model)
{
	struct heap *heap = white_heap(model->rig);
	struct page *page = model->page;
	size_t due, bytes;
	unsigned n;

	for (uint32_t i = 0; i < page->capacity; i++)
		if (i % 3 != 0 || page->capacity < 8)
			model_free(model, 0, i);
	expect(model);
	due = model->due_count * GRANULE_BYTES;
	for (n = 0; due > 0 && n < 1000; n++) {
		struct op op = white_op(model->rig, 0);
		struct fallow_range range;

		bytes = fl_hole_make(heap, page, no_more, &range);
		CHECK_EQUAL(bytes, range.size);
		CHECK(page_holed(page) && fl_hole_pending(heap, page));
		CHECK(!page_empty(heap, page));
		fl_local_settle(heap, op.local, page);
		op_drop(&op);
		handed_set(heap, page, true);
		white_check(model->rig);
		handed_set(heap, page, false);
		model->rig->sim.provider.decommit(
			&model->rig->sim, &range, 1);
		heap->counters.committed -= bytes;
		fl_hole_end(page, range.base, range.size, false);
		due -= bytes < due ? bytes : due;
		white_check(model->rig);
		if (test_failures() > 0)
			break;
	}
	CHECK_EQUAL(purge(model), 0);
}

static void test_hole_one_by_one(void)
{
	each_class(WIDE, one_by_one);
}

/* The same where all that there is room for is the tail. */
static void test_hole_tail_fills_the_batch(void)
{
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, WIDE, 2);
	void *block = fallow_alloc(&rig->heap, 200);
	struct page *page = white_page(rig, block);
	struct heap *heap = white_heap(rig);
	struct op op = white_op(rig, 0);
	struct fallow_range range;

	CHECK(fl_memory_populate(&op, page->base, SLICE_BYTES, false) &
		FALLOW_COMMIT_DONE);
	CHECK(fl_hole_make(heap, page, no_more, &range) > 0);
	op_drop(&op);
	white_free(rig, 0, block);
	/* It must not go while somebody is giving parts of it back. */
	CHECK(page_holed(page));
	CHECK(!page_empty(heap, page));
	op = white_op(rig, 0);
	fl_class_trim_all(&op);
	op_drop(&op);
	CHECK(white_page(rig, (void *)page->base) == page);
	rig->sim.provider.decommit(&rig->sim, &range, 1);
	heap->counters.committed -= range.size;
	fl_hole_end(page, range.base, range.size, false);
	fallow_collect(&rig->heap);
	CHECK_EQUAL(heap->counters.committed, 0);
	white_end(rig);
}

/* Every call with a block that is in a hole says so and touches nothing: of
 * the owner, of another context, with the granules pending, and gone. */
static void misuses_check(struct model *model, uint32_t index)
{
	struct rig *rig = model->rig;
	void *block = white_opaque(white_block(model->page, index));
	size_t size = model->page->block_size;
	unsigned before = rig->misuses;

	fallow_free(&rig->heap, block);
	CHECK_EQUAL(rig->misuses, before + 1);
	CHECK_EQUAL(rig->misuse.kind, FALLOW_MISUSE_DOUBLE_FREE);
	CHECK_EQUAL(rig->misuse.block, (uintptr_t)block);
	white_free(rig, 1, block);
	CHECK_EQUAL(rig->misuses, before + 2);
	CHECK_EQUAL(rig->misuse.kind, FALLOW_MISUSE_DOUBLE_FREE);
	fallow_free_sized(&rig->heap, block, size);
	CHECK_EQUAL(rig->misuses, before + 3);
	CHECK_EQUAL(rig->misuse.kind, FALLOW_MISUSE_DOUBLE_FREE);
	CHECK(fallow_realloc(&rig->heap, block, size * 2) == NULL);
	CHECK_EQUAL(rig->misuses, before + 4);
	CHECK_EQUAL(rig->misuse.kind, FALLOW_MISUSE_DOUBLE_FREE);
	CHECK(fallow_realloc(&rig->heap, block, size) == NULL);
	CHECK_EQUAL(rig->misuses, before + 5);
	CHECK_EQUAL(rig->misuse.kind, FALLOW_MISUSE_DOUBLE_FREE);
	CHECK_EQUAL(fallow_usable_size(&rig->heap, block), 0);
	CHECK_EQUAL(rig->misuses, before + 6);
	CHECK_EQUAL(rig->misuse.kind, FALLOW_MISUSE_DOUBLE_FREE);
	rig->misuses_expected = rig->misuses;
	white_check(rig);
}

static struct model *during_model;
static uint32_t during_index;

static void misuses_during(struct sim *sim, enum sim_call call)
{
	struct heap *heap = white_heap(during_model->rig);
	uint32_t giving = heap->sweeping.giving;

	sim->during = NULL;
	CHECK_EQUAL(call, SIM_DECOMMIT);
	CHECK(fl_hole_pending(heap, during_model->page));
	/* The heap is looked at in the middle of the call: as if its granules
	 * were handed over, and not on their way. */
	handed_set(heap, during_model->page, true);
	heap->sweeping.giving = 0;
	misuses_check(during_model, during_index);
	heap->sweeping.giving = giving;
	handed_set(heap, during_model->page, false);
	sim->during = misuses_during;
}

static void double_frees(struct model *model)
{
	uint32_t capacity = model->page->capacity;
	struct heap *heap = white_heap(model->rig);
	uint32_t index = capacity > 2 ? capacity / 2 : 1;

	for (uint32_t i = 1; i < capacity - 1u; i++)
		model_free(model, 0, i);
	during_model = model;
	during_index = index;
	/* A provider call keeps re-entries away where it can tell them. */
	if (FALLOW_MODEL == FALLOW_MODEL_THREAD ||
		FALLOW_MODEL == FALLOW_MODEL_SINGLE)
		model->rig->sim.during = NULL;
	else
		model->rig->sim.during = misuses_during;
	CHECK(purge(model) > 0);
	model->rig->sim.during = NULL;
	for (uint32_t i = 0; i < capacity; i++)
		if (fl_hole_gone(heap, model->page, i) &&
			(i < 4 || i % 97 == 0 || i == capacity - 1 ||
				i == index))
			misuses_check(model, i);
	fallow_free_deferred(&model->rig->heap,
		white_opaque(white_block(model->page, index)));
	CHECK_EQUAL(heap->noted + model->rig->misuses > 0, 1);
	fallow_collect(&model->rig->heap);
	model->rig->misuses_expected = model->rig->misuses;
	CHECK_EQUAL(model->rig->misuse.kind, FALLOW_MISUSE_DOUBLE_FREE);
}

static void test_hole_double_free(void)
{
	each_class(WIDE, double_frees);
}

/* What is free behind the last block in use is unformed again and no hole: the
 * page is none that has any, a second free is of a block that there is not, and
 * the next blocks are formed there, zero where that is asked for. */
static void unforms(struct model *model)
{
	struct heap *heap = white_heap(model->rig);
	struct page *page = model->page;
	struct rig *rig = model->rig;
	uint32_t capacity = page->capacity;
	uint32_t formed, i;
	void *last = white_opaque(white_block(page, capacity - 1u));

	for (i = 0; i < capacity; i++)
		memset(white_block(page, i), 0x5a, page->block_size);
	for (i = 1; i < capacity; i++)
		model_free(model, 0, i);
	purge_exactly(model);
	CHECK(!page_holed(page));
	CHECK(!fl_hole_any(heap, page));
	formed = page->formed;
	CHECK(formed * page->block_size <=
		align_up(page->block_size, GRANULE_BYTES));
	CHECK_EQUAL(page_used(page), 1);
	fallow_free(&rig->heap, last);
	CHECK_EQUAL(rig->misuses, ++rig->misuses_expected);
	CHECK_EQUAL(rig->misuse.kind, FALLOW_MISUSE_UNFORMED);
	for (i = 1; i < capacity; i++) {
		unsigned char *block =
			fallow_zalloc(&rig->heap, page->block_size);

		CHECK_OR_RETURN(block != NULL);
		CHECK(white_page(rig, block) == page);
		CHECK(block[0] == 0 && !memcmp(block, block + 1,
					       page->block_size - 1));
		model->used[page_index(page, (uintptr_t)block)] = true;
	}
	CHECK_EQUAL(page->formed, capacity);
	white_check(rig);
}

static void test_hole_unforms(void)
{
	each_class(WIDE, unforms);
}

/* A commit that fails leaves the hole as it is, and the allocation finds memory
 * elsewhere; a later one brings it back. */
static void fills_fail(struct model *model)
{
	struct heap *heap = white_heap(model->rig);
	struct page *page = model->page;
	struct sim *sim = &model->rig->sim;
	uint32_t gone;
	void *other;

	for (uint32_t i = 1; i < page->capacity - 1u; i++)
		model_free(model, 0, i);
	purge_exactly(model);
	gone = fl_hole_blocks(heap, page);
	/* Blocks that were left beside the holes come first. */
	while (page_used(page) < page->formed && model_alloc(model))
		;
	sim->refuse_call = sim->calls + 1;
	other = fallow_alloc(&model->rig->heap, page->block_size);
	CHECK(other != NULL);
	CHECK_EQUAL(sim->refused, 1);
	CHECK(white_page(model->rig, other) != page);
	CHECK_EQUAL(fl_hole_blocks(heap, page), gone);
	white_check(model->rig);
	white_free(model->rig, 0, other);
	/* None is to be had at all: NULL, and nothing is lost. */
	fallow_collect(&model->rig->heap);
	sim->refuse_from = sim->calls + 1;
	while ((other = fallow_alloc(&model->rig->heap, page->block_size)) !=
		NULL) {
		uint32_t index = page_index(page, (uintptr_t)other);

		CHECK_OR_RETURN(white_page(model->rig, other) == page);
		CHECK(!model->used[index]);
		model->used[index] = true;
		memset(other, 0x55, page->block_size);
	}
	sim->refuse_from = 0;
	CHECK(fl_hole_any(heap, page));
	white_check(model->rig);
	CHECK(model_alloc(model));
	white_check(model->rig);
}

static void test_hole_fill_fails(void)
{
	each_class(WIDE, fills_fail);
}

/* An allocation brings back a block and at most 64 KiB beside it, however long
 * the hole is, from the lowest address on. */
static void fills_little(struct model *model)
{
	struct page *page = model->page;
	struct sim *sim = &model->rig->sim;
	size_t most = align_up(page->block_size, GRANULE_BYTES) +
		GRANULE_BYTES;
	size_t committed;
	uintptr_t last = 0;

	if (most < SLICE_BYTES)
		most = SLICE_BYTES;
	for (uint32_t i = 1; i < page->capacity - 1u; i++)
		model_free(model, 0, i);
	purge_exactly(model);
	while (fl_hole_any(white_heap(model->rig), page)) {
		uint64_t calls = sim->made[SIM_COMMIT];
		uint32_t lowest = 0;

		committed = sim->committed;
		CHECK_OR_RETURN(model_alloc(model));
		CHECK(sim->committed - committed <= most);
		CHECK(sim->made[SIM_COMMIT] - calls <= 1);
		while (model->used[lowest])
			lowest++;
		/* Nothing that is lower is still a hole. */
		CHECK(lowest >= page->capacity || page->base +
				(uintptr_t)lowest * page->block_size >= last ||
			!fl_hole_gone(white_heap(model->rig), page, lowest));
		last = page->base + (uintptr_t)lowest * page->block_size;
	}
}

static void test_hole_fill_is_small(void)
{
	each_class(WIDE, fills_little);
}

/* Zeroed blocks are, though the memory under them came back dirty or clean. */
static void zeroes(struct model *model)
{
	size_t size = model->page->block_size;

	for (unsigned round = 0; round < 3; round++) {
		for (uint32_t i = round; i < model->page->capacity; i++)
			if (i % 5 != 0 && model->used[i])
				model_free(model, 0, i);
		model->rig->sim.dirty_rate = round * 128;
		model->rig->sim.refuse_range_rate = round == 1 ? 128 : 0;
		purge(model);
		for (;;) {
			unsigned char *block = fallow_zalloc(
				&model->rig->heap, size);
			uint32_t index;

			CHECK_OR_RETURN(block != NULL);
			for (size_t i = 0; i < size; i++)
				CHECK_OR_RETURN(block[i] == 0);
			memset(block, 0xee, size);
			if (white_page(model->rig, block) != model->page) {
				white_free(model->rig, 0, block);
				break;
			}
			index = page_index(model->page, (uintptr_t)block);
			model->used[index] = true;
		}
		white_check(model->rig);
	}
	model->rig->sim.refuse_range_rate = 0;
}

static void test_hole_zero(void)
{
	each_class(WIDE, zeroes);
}

/* A page with holes that becomes empty is released as it is, and its slices
 * serve as a page of any class. */
static void released_by(struct model *model, bool abandoned)
{
	struct heap *heap = white_heap(model->rig);
	void *held = fallow_alloc(&model->rig->heap, model->page->block_size);
	uintptr_t base = model->page->base;

	/* Not the current page: that one stays when it is empty. */
	CHECK(white_page(model->rig, held) != model->page);
	for (uint32_t i = 1; i < model->page->capacity; i++)
		model_free(model, 0, i);
	purge_exactly(model);
	if (abandoned)
		fallow_offline(&model->rig->heap);
	white_check(model->rig);
	CHECK(map_find(heap, base) == model->page);
	model_free(model, abandoned, 0);
	/* Its owner's free leaves that to whoever wants slices. */
	if (!abandoned) {
		struct op op = white_op(model->rig, 0);

		CHECK(map_find(heap, base) == model->page);
		fl_class_make_room(&op);
		op_drop(&op);
	}
	CHECK(map_find(heap, base) == NULL);
	white_check(model->rig);
	white_free(model->rig, 0, held);
	memset(model->used, 0, sizeof(model->used));
}

/* By its owner's last free. */
static void released_owner(struct model *model)
{
	released_by(model, false);
}

static void test_hole_released(void)
{
	each_class(WIDE, released_owner);
}

/* By the last free of a page that nobody owns. */
static void released_nobody(struct model *model)
{
	released_by(model, true);
}

static void test_hole_released_abandoned(void)
{
	each_class(WIDE, released_nobody);
}

/* Each thing that fallow_check() knows of holes, broken on purpose. */
static void test_hole_check(void)
{
	static struct model model;
	struct rig *rig = rig_begin(FALLOW_CLASS_WINDOW, WIDE, 2);
	struct page *page;
	uint16_t *pending;
	void *block;

	model_begin(&model, rig, size_class(1024));
	page = model.page;
	/* The last one stays: what is free behind it would be no hole. */
	for (uint32_t i = 1; i < page->capacity - 1u; i++)
		model_free(&model, 0, i);
	/* Granule 0 has blocks 0 to 3. */
	purge_exactly(&model);
	white_check(rig);

	page->above++;
	CHECK(!strcmp(fallow_check(&rig->heap, NULL),
		"used + free + holed + pending == formed"));
	page->above--;

	page->owner &= ~OWNER_HOLES;
	CHECK(!strcmp(fallow_check(&rig->heap, NULL),
		"the owner's word says that a page has holes"));
	page->owner |= OWNER_HOLES;

	pending = &page->chunk->pending[page->first_slice];
	*pending |= 1u << 9;
	CHECK(!strcmp(fallow_check(&rig->heap, NULL),
		"pending granules are populated"));
	*pending = 0;

	/* A listed block, of which a granule is about to go. */
	*pending |= 1u << 0;
	handed_set(white_heap(rig), page, true);
	CHECK(!strcmp(fallow_check(&rig->heap, NULL),
		"a free list holds blocks whose memory is there"));
	handed_set(white_heap(rig), page, false);
	*pending = 0;

	/* A hole that no decommit made. */
	block = fallow_alloc(&rig->heap, 48);
	page = white_page(rig, block);
	page->chunk->populated[page->first_slice] &= (uint16_t)~1u;
	CHECK(fallow_check(&rig->heap, NULL) != NULL);
	page->chunk->populated[page->first_slice] |= 1u;
	white_free(rig, 0, block);
	white_check(rig);
	model_end(&model);
}

const struct test tests[] = {
	{ "hole_every_class", test_hole_every_class },
	{ "hole_lean", test_hole_lean },
	{ "hole_bit_by_bit", test_hole_bit_by_bit },
	{ "hole_refused", test_hole_refused },
	{ "hole_refused_combinations", test_hole_refused_combinations },
	{ "hole_tail", test_hole_tail },
	{ "hole_unformed", test_hole_unformed },
	{ "hole_one_by_one", test_hole_one_by_one },
	{ "hole_tail_fills_the_batch", test_hole_tail_fills_the_batch },
	{ "hole_double_free", test_hole_double_free },
	{ "hole_unforms", test_hole_unforms },
	{ "hole_fill_fails", test_hole_fill_fails },
	{ "hole_fill_is_small", test_hole_fill_is_small },
	{ "hole_zero", test_hole_zero },
	{ "hole_released", test_hole_released },
	{ "hole_released_abandoned", test_hole_released_abandoned },
	{ "hole_check", test_hole_check },
	{ NULL, NULL },
};
