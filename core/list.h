/* SPDX-License-Identifier: MIT */
/*
 * Circular lists of pages, linked through the records.
 *
 * A list is a pointer to its first page, or NULL.  Who may change it is said
 * where the pointer is (heap.h); some heads are looked at by others without the
 * lock, only to see whether there is anything, so a head is stored atomically.
 */
#ifndef CORE_LIST_H
#define CORE_LIST_H

#include "heap.h"

/* Links the page in front of the list, or at its end. */
static inline void list_insert(struct page **head, struct page *page, bool end)
{
	struct page *first = *head;

	if (first == NULL) {
		page->next = page->prev = page;
		fl_store_relaxed(head, page);
		return;
	}
	page->next = first;
	page->prev = first->prev;
	page->prev->next = page;
	page->next->prev = page;
	if (!end)
		fl_store_relaxed(head, page);
}

/* Makes the page, which is in the list, its last. */
static inline void list_last(struct page **head, struct page *page)
{
	struct page *first = *head;

	if (page == first) {
		fl_store_relaxed(head, page->next);
		return;
	}
	page->next->prev = page->prev;
	page->prev->next = page->next;
	page->next = first;
	page->prev = first->prev;
	page->prev->next = page;
	first->prev = page;
}

/* Takes the page out of the list that it is in. */
static inline void list_remove(struct page **head, struct page *page)
{
	if (page->next == page) {
		fl_store_relaxed(head, NULL);
	} else {
		page->next->prev = page->prev;
		page->prev->next = page->next;
		if (*head == page)
			fl_store_relaxed(head, page->next);
	}
	page->next = page->prev = NULL;
}

#endif
