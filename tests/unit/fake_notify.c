/* SPDX-License-Identifier: MIT */
/*
 * A page between the moment when another context's free has made it NOTIFIED and
 * the moment when its owner's list has it: what its owner may do meanwhile.
 */
#include "remote.h"
#include "sim_fake.h"
#include "test.h"

#define MIB ((size_t)1 << 20)
/* 64 blocks a page. */
#define SIZE 1024
#define BLOCKS 64

static struct page *page_between;
static struct local *local_between;
static unsigned steps_left;

/* The other CPU goes on: it links the page. */
static void link_late(void)
{
	if (page_between == NULL || --steps_left > 0)
		return;
	page_between->notified_next = local_between->notified;
	local_between->notified = page_between;
	page_between = NULL;
}

/* A full page of context 0, which somebody is about to tell of. */
static struct page *begin_between(struct fake *fake, unsigned steps)
{
	struct heap *heap = heap_of(&fake->rig->heap);
	struct page *page;

	for (unsigned i = 0; i <= BLOCKS; i++)
		CHECK(oracle_alloc(&fake->rig->oracle, SIZE, 0));
	page = map_find(heap, fake->rig->oracle.blocks[0].base);
	CHECK_EQUAL(remote_state(page->remote), REMOTE_FULL);
	page->remote = remote_with(page->remote, REMOTE_NOTIFIED);
	page_between = page;
	local_between = heap->locals[0];
	steps_left = steps;
	test_port.step = link_late;
	return page;
}

/* A context that goes offline waits for the link, however late it comes. */
static void test_notify_offline(void)
{
	for (unsigned steps = 1; steps < 40; steps += 3) {
		struct fake *fake = fake_begin(
			FALLOW_CLASS_WINDOW, 64 * MIB, 2);
		struct page *page = begin_between(fake, steps);

		fallow_offline(&fake->rig->heap);
		CHECK(page_between == NULL);
		test_port.step = NULL;
		CHECK_EQUAL(remote_state(page->remote), REMOTE_ABANDONED);
		fake_end(fake);
	}
}

/* The word is what decides: the page has gone to another context, where it is
 * full with the very same word, and that context is told. */
static void test_notify_other_owner(void)
{
	struct fake *fake = fake_begin(FALLOW_CLASS_WINDOW, 64 * MIB, 3);
	struct heap *heap = heap_of(&fake->rig->heap);
	struct oracle *oracle = &fake->rig->oracle;
	struct page *page;
	size_t i;

	test_port.context = 1;
	for (i = 0; i <= BLOCKS; i++)
		CHECK(oracle_alloc(oracle, SIZE, 0));
	page = map_find(heap, oracle->blocks[0].base);
	CHECK_EQUAL(remote_state(page->remote), REMOTE_FULL);
	CHECK_EQUAL(page->owner, 1);
	test_port.context = 2;
	for (i = 0; i < BLOCKS / 8; i++)
		oracle_free(oracle, 0);
	CHECK(heap->locals[0]->notified == NULL);
	CHECK(heap->locals[1]->notified == page);
	CHECK_EQUAL(remote_state(page->remote), REMOTE_NOTIFIED);
	fake_end(fake);
}

const struct test tests[] = {
	{ "notify_offline", test_notify_offline },
	{ "notify_other_owner", test_notify_other_owner },
	{ NULL, NULL },
};
