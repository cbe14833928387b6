/* SPDX-License-Identifier: MIT */
/*
 * Has the other CPUs stopped, by one CPU at a time.
 *
 * The heap calls the provider from several CPUs at once and with no lock held,
 * so two of them may want to change the size of a mapping together.  Two that
 * stopped each other would wait for ever, and an embedder's hooks are promised
 * not to be entered twice.  The word `stopping` is taken before the stop and
 * given up after the resume.
 *
 * It is no lock of core/lock.h: whoever waits for it has interrupts as at
 * entry, on, and so can be stopped by the one who has it.  Nor is it fair;
 * a split is rare, and short beside the stop itself.
 *
 * Nothing else waits for the word, and who has it takes pt->lock only while the
 * others are where interrupts are on, hence outside of it: no circle.
 */
#include "tables.h"

/* Afterwards no other CPU touches the window, if there is a way to see to
 * that; until fl_others_resume() no second caller gets here. */
void fl_others_stop(struct pagetable *pt)
{
	uint32_t nobody = 0;

	if (!pt->stop_others)
		return;
	/* Pairs with the release store in fl_others_resume(). */
	while (!fl_cas_acquire(&pt->stopping, &nobody, 1)) {
		nobody = 0;
		fl_port_pause();
	}
	fl_watch_none();
	pt->stop_others(pt->stop_ctx);
}

/* Afterwards the other CPUs go on, and one that waited may stop them. */
void fl_others_resume(struct pagetable *pt)
{
	if (!pt->stop_others)
		return;
	fl_watch_none();
	pt->resume_others(pt->stop_ctx);
	/* Pairs with the acquire in fl_others_stop(). */
	fl_store_release(&pt->stopping, 0);
}
