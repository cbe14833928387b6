/* SPDX-License-Identifier: MIT */
/*
 * Atomic operations with their memory order in the name.  In the model SINGLE
 * each is a plain access: nothing else runs, so nothing needs ordering.
 */
#ifndef CORE_ATOMIC_H
#define CORE_ATOMIC_H

#include "arch.h"

#if FALLOW_MODEL == FALLOW_MODEL_SINGLE

#define fl_load_relaxed(p) (*(p))
#define fl_load_acquire(p) (*(p))
#define fl_load_ordered(p) (*(p))
#define fl_store_relaxed(p, v) ((void)(*(p) = (v)))
#define fl_store_release(p, v) ((void)(*(p) = (v)))
/* Replaces *expected by *p and returns false unless they were equal. */
#define fl_cas_acq_rel(p, expected, v) \
	(*(p) == *(expected) ? (*(p) = (v), true) \
			     : (*(expected) = *(p), false))
#define fl_cas_acquire(p, expected, v) fl_cas_acq_rel(p, expected, v)
#define fl_cas_release(p, expected, v) fl_cas_acq_rel(p, expected, v)
#define fl_add_relaxed(p, v) ((void)(*(p) += (v)))
#define fl_add_release(p, v) fl_add_relaxed(p, v)

#else

#define fl_load_relaxed(p) __atomic_load_n(p, __ATOMIC_RELAXED)
#define fl_load_acquire(p) __atomic_load_n(p, __ATOMIC_ACQUIRE)
/* Not before a compare-and-swap with release that comes before it, either: as
 * both CPUs do it, which costs the load nothing. */
#define fl_load_ordered(p) __atomic_load_n(p, __ATOMIC_SEQ_CST)
#define fl_store_relaxed(p, v) __atomic_store_n(p, v, __ATOMIC_RELAXED)
#define fl_store_release(p, v) __atomic_store_n(p, v, __ATOMIC_RELEASE)
#define fl_cas_acq_rel(p, expected, v) \
	__atomic_compare_exchange_n( \
		p, expected, v, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)
#define fl_cas_acquire(p, expected, v) \
	__atomic_compare_exchange_n( \
		p, expected, v, false, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)
#define fl_cas_release(p, expected, v) \
	__atomic_compare_exchange_n( \
		p, expected, v, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED)
#define fl_add_relaxed(p, v) \
	((void)__atomic_fetch_add(p, v, __ATOMIC_RELAXED))
#define fl_add_release(p, v) \
	((void)__atomic_fetch_add(p, v, __ATOMIC_RELEASE))

#endif

/*
 * For the hot paths: a relaxed load, and adding to a word that only the caller
 * writes while others may read it.  gcc makes a load or a store of an
 * instruction of its own out of every atomic one, and operands of the
 * instruction that uses them out of these.  An aligned word is read and written
 * whole either way.  The thread sanitizer is told what they are.
 */
#if defined(__SANITIZE_THREAD__)
#define fl_load_hot(p) fl_load_relaxed(p)
#define fl_add_hot(p, v) \
	(fl_store_relaxed(p, fl_load_relaxed(p) + (v)), fl_load_relaxed(p))
#else
#define fl_load_hot(p) (*(p))
#define fl_add_hot(p, v) (*(p) += (v))
#endif

#endif
