/* SPDX-License-Identifier: MIT */
/*
 * What can be seen of a heap: the snapshot, the table of classes, and both as
 * text.
 *
 * Nothing is counted on the hot paths.  What is in use is summed up over the
 * records when somebody asks; the rest are counters of slow paths, per context
 * or added to with relaxed additions.  Other contexts may go on meanwhile: then
 * each figure is right for some recent moment.
 */
#include "string.h"
#include "span.h"
#include "walk.h"

/* Adds a page or span to the sum. */
static void item_sum(const struct heap *heap, const struct page *page,
	struct fallow_snapshot *sum)
{
	uint32_t used;

	if (page_reserve(heap, page) || span_kept(page))
		return;
	if (page->kind == PAGE_SPAN) {
		sum->spans++;
		sum->blocks++;
		sum->live += fl_load_relaxed(&page->span_size);
		return;
	}
	used = fl_walk_used(heap, page);
	sum->pages++;
	sum->blocks += used;
	sum->live += (size_t)used * page->block_size;
	sum->holes += fl_walk_holes(heap, page);
}

/* Sums a chunk's records up.  Under the lock no page or span begins or ends;
 * what its owner changes in it meanwhile is one word at a time. */
static bool chunk_sum(
	struct heap *heap, size_t number, struct fallow_snapshot *sum)
{
	struct fl_port_state state = lock_take(&heap->lock);
	bool more = number < heap->chunk_count;
	const struct chunk *chunk = more ? heap->chunks[number] : NULL;
	uint32_t heads = chunk == NULL ? 0 : chunk->heads;

	if (chunk != NULL)
		sum->chunks += chunk->present != chunk->free;
	for (; heads != 0; heads &= heads - 1) {
		fl_watch_steps(1);
		item_sum(heap, &chunk->records[__builtin_ctz(heads)], sum);
	}
	lock_leave(&heap->lock, state);
	return more;
}

/* Sums all chunks up. */
static void chunks_sum(struct heap *heap, struct fallow_snapshot *sum)
{
	size_t number = 0;

	while (chunk_sum(heap, number, sum))
		number++;
}

/* Sums the emergency pool up; its chunks are the heap's own. */
static void reserve_sum(struct heap *heap, struct fallow_snapshot *sum)
{
	struct heap *pool = heap_reserve(heap);

	sum->reserve_served = fl_load_relaxed(&heap->reserve_served);
	if (pool == NULL)
		return;
	chunks_sum(pool, sum);
	sum->chunks = 0;
	sum->reserve = fl_load_relaxed(&pool->counters.reserved);
	sum->reserve_live = sum->live;
}

/* Sums the contexts' counters up. */
static void locals_sum(struct heap *heap, struct fallow_snapshot *sum)
{
	unsigned i;

	for (i = 0; i < heap->contexts; i++) {
		const struct local_counters *one = &heap->locals[i]->counters;

		sum->failures += fl_load_relaxed(&one->failures);
		sum->misuses += fl_load_relaxed(&one->misuses);
		sum->remote_frees += fl_load_relaxed(&one->remote_frees);
		sum->abandoned += fl_load_relaxed(&one->abandoned);
		sum->adopted += fl_load_relaxed(&one->adopted);
		sum->slow_paths += fl_load_relaxed(&one->slow_paths);
	}
}

/* The heap's own counters, each as it is when it is read. */
static void counters_copy(
	struct heap_counters *counters, struct fallow_snapshot *sum)
{
	sum->reserved = fl_load_relaxed(&counters->reserved);
	sum->committed = fl_load_relaxed(&counters->committed);
	sum->committed_peak = fl_load_relaxed(&counters->committed_peak);
	sum->tables = fl_load_relaxed(&counters->tables);
	sum->commits = fl_load_relaxed(&counters->commits);
	sum->decommits = fl_load_relaxed(&counters->decommits);
	sum->reserves = fl_load_relaxed(&counters->reserves);
	sum->releases = fl_load_relaxed(&counters->releases);
	sum->committed_total = fl_load_relaxed(&counters->committed_total);
	sum->decommitted_total = fl_load_relaxed(&counters->decommitted_total);
	sum->no_memory = fl_load_relaxed(&counters->no_memory);
	sum->misuses += fl_load_relaxed(&counters->misuses);
	sum->refusals = fl_load_relaxed(&counters->refusals);
	sum->regretted = fl_load_relaxed(&counters->regretted);
}

void fallow_snapshot(struct fallow *fallow, struct fallow_snapshot *snapshot)
{
	struct heap *heap = heap_of(fallow);
	struct fallow_snapshot sum = { .size = snapshot->size };

	counters_copy(&heap->counters, &sum);
	sum.deferred = fl_load_relaxed(&heap->deferred_count);
	locals_sum(heap, &sum);
	reserve_sum(heap, &sum);
	chunks_sum(heap, &sum);
	/* A peak that is looked at is at least what is there to see. */
	sum.live_peak = fl_load_relaxed(&heap->counters.live_peak);
	/* Orders nothing: a number on its own. */
	while (sum.live > sum.live_peak &&
		!fl_cas_release(&heap->counters.live_peak, &sum.live_peak,
			sum.live))
		;
	if (sum.live_peak < sum.live)
		sum.live_peak = sum.live;
	memcpy(snapshot, &sum,
		snapshot->size < sizeof(sum) ? snapshot->size : sizeof(sum));
}

/* Adds the pages of one class in a chunk to its row. */
static bool chunk_row(struct heap *heap, size_t number, unsigned class,
	struct fallow_class_row *row)
{
	struct fl_port_state state = lock_take(&heap->lock);
	bool more = number < heap->chunk_count;
	const struct chunk *chunk = more ? heap->chunks[number] : NULL;
	uint32_t heads = chunk == NULL ? 0 : chunk->heads;

	for (; heads != 0; heads &= heads - 1) {
		const struct page *page =
			&chunk->records[__builtin_ctz(heads)];

		fl_watch_steps(1);
		if (page->kind == PAGE_SPAN || page->class != class)
			continue;
		row->pages++;
		row->blocks_used += fl_walk_used(heap, page);
		row->blocks_formed += fl_load_relaxed(&page->formed);
		row->committed += fl_walk_committed(heap, page);
	}
	lock_leave(&heap->lock, state);
	return more;
}

/* Sums up the pages of one class, those of the emergency pool too. */
static void class_row(
	struct heap *heap, unsigned class, struct fallow_class_row *row)
{
	size_t number;

	*row = (struct fallow_class_row){
		.block_size = class_size(class),
		.page_size = fl_size_page_slices(class, heap->lean) *
			SLICE_BYTES,
	};
	for (; heap != NULL; heap = heap_reserve(heap))
		for (number = 0; chunk_row(heap, number, class, row);)
			number++;
}

size_t fallow_class_table(
	struct fallow *fallow, struct fallow_class_row *rows, size_t n)
{
	unsigned class;

	for (class = 0; class < CLASS_COUNT && class < n; class++)
		class_row(heap_of(fallow), class, &rows[class]);
	return CLASS_COUNT;
}

/* Where text goes. */
struct out {
	void (*putc)(void *arg, char c);
	void *arg;
};

static void put_text(const struct out *out, const char *text)
{
	for (; *text != '\0'; text++)
		out->putc(out->arg, *text);
}

/* A decimal number, right-aligned in `width` columns. */
static void put_number(const struct out *out, uint64_t number, unsigned width)
{
	char digits[20]; /* 2^64 has twenty */
	unsigned n = 0;

	do {
		digits[n++] = (char)('0' + number % 10);
		number /= 10;
	} while (number > 0);
	for (; width > n; width--)
		out->putc(out->arg, ' ');
	while (n > 0)
		out->putc(out->arg, digits[--n]);
}

/* A line of the snapshot: name, number. */
static void put_line(const struct out *out, const char *name, uint64_t number)
{
	size_t length = 0;

	while (name[length] != '\0')
		length++;
	put_text(out, name);
	/* The longest name has 17 characters. */
	put_number(out, number, (unsigned)(38 - length));
	put_text(out, "\n");
}

static void put_snapshot(
	const struct out *out, const struct fallow_snapshot *sum)
{
	put_line(out, "reserved", sum->reserved);
	put_line(out, "committed", sum->committed);
	put_line(out, "committed peak", sum->committed_peak);
	put_line(out, "tables", sum->tables);
	put_line(out, "live", sum->live);
	put_line(out, "live peak", sum->live_peak);
	put_line(out, "holes", sum->holes);
	put_line(out, "blocks", sum->blocks);
	put_line(out, "deferred", sum->deferred);
	put_line(out, "pages", sum->pages);
	put_line(out, "spans", sum->spans);
	put_line(out, "chunks", sum->chunks);
	put_line(out, "commits", sum->commits);
	put_line(out, "decommits", sum->decommits);
	put_line(out, "reserves", sum->reserves);
	put_line(out, "releases", sum->releases);
	put_line(out, "committed total", sum->committed_total);
	put_line(out, "decommitted total", sum->decommitted_total);
	put_line(out, "no memory", sum->no_memory);
	put_line(out, "refusals", sum->refusals);
	put_line(out, "regretted", sum->regretted);
	put_line(out, "failures", sum->failures);
	put_line(out, "misuses", sum->misuses);
	put_line(out, "remote frees", sum->remote_frees);
	put_line(out, "abandoned", sum->abandoned);
	put_line(out, "adopted", sum->adopted);
	put_line(out, "slow paths", sum->slow_paths);
	put_line(out, "reserve", sum->reserve);
	put_line(out, "reserve live", sum->reserve_live);
	put_line(out, "reserve served", sum->reserve_served);
}

void fallow_print(
	struct fallow *fallow, void (*putc)(void *arg, char c), void *arg)
{
	const struct out out = { putc, arg };
	struct fallow_snapshot sum = { .size = sizeof(sum) };
	struct fallow_class_row row;
	unsigned class;

	fallow_snapshot(fallow, &sum);
	put_snapshot(&out, &sum);
	put_text(&out, "   block   pages      used    formed   committed\n");
	for (class = 0; class < CLASS_COUNT; class++) {
		class_row(heap_of(fallow), class, &row);
		if (row.pages == 0)
			continue;
		put_number(&out, row.block_size, 8);
		put_number(&out, row.pages, 8);
		put_number(&out, row.blocks_used, 10);
		put_number(&out, row.blocks_formed, 10);
		put_number(&out, row.committed, 12);
		put_text(&out, "\n");
	}
}
