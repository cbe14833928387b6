/* SPDX-License-Identifier: MIT */
/*
 * aarch64, at EL1.
 *
 * In the models IRQ and THREAD the index of the context is the 32-bit word at
 * TPIDR_EL1 + FALLOW_TPIDR_OFFSET: the embedder's per-CPU (IRQ) or per-thread
 * (THREAD) block.  FALLOW_TPIDR_OFFSET: default 0; a multiple of 4 in the range
 * 0 to 16380; no cost.
 */
#ifndef AARCH64_PORT_H
#define AARCH64_PORT_H

#ifndef FALLOW_TPIDR_OFFSET
#define FALLOW_TPIDR_OFFSET 0
#endif
_Static_assert(FALLOW_TPIDR_OFFSET >= 0 && FALLOW_TPIDR_OFFSET <= 16380 &&
		FALLOW_TPIDR_OFFSET % 4 == 0,
	"FALLOW_TPIDR_OFFSET does not fit a scaled displacement");

/* DAIF.I (Arm ARM, C5.2.2): set while IRQs are masked. */
#define PORT_DAIF_I ((uintptr_t)1 << 7)

/* Saves DAIF and masks IRQs; a barrier for the compiler. */
static inline struct fl_port_state port_irq_save(void)
{
	struct fl_port_state state;

	__asm__ volatile("mrs %0, daif\n\tmsr daifset, #2"
			 : "=r"(state.flags)
			 :
			 : "memory");
	return state;
}

/* Restores DAIF whole: F, A and D are not ours to change. */
static inline void port_irq_restore(struct fl_port_state state)
{
	__asm__ volatile("msr daif, %0" ::"r"(state.flags) : "memory");
}

static inline struct fl_port_state fl_port_enter(void)
{
	if (FALLOW_MODEL == FALLOW_MODEL_IRQ)
		return port_irq_save();
	return (struct fl_port_state){ 0 };
}

static inline void fl_port_leave(struct fl_port_state state)
{
	if (FALLOW_MODEL == FALLOW_MODEL_IRQ)
		port_irq_restore(state);
}

static inline bool fl_port_may_wait(struct fl_port_state state)
{
	return !(state.flags & PORT_DAIF_I);
}

static inline unsigned fl_port_context(void)
{
	unsigned index = 0;

	if (FALLOW_MODEL != FALLOW_MODEL_SINGLE) {
		uintptr_t block;

		__asm__ volatile("mrs %0, tpidr_el1\n\tldr %w1, [%0, %2]"
				 : "=&r"(block), "=r"(index)
				 : "i"(FALLOW_TPIDR_OFFSET));
	}
	return index;
}

/* In the model THREAD too: the holder must not be interrupted for long. */
static inline struct fl_port_state fl_port_lock_enter(void)
{
	if (FALLOW_MODEL == FALLOW_MODEL_SINGLE)
		return (struct fl_port_state){ 0 };
	return port_irq_save();
}

static inline void fl_port_lock_leave(struct fl_port_state state)
{
	if (FALLOW_MODEL != FALLOW_MODEL_SINGLE)
		port_irq_restore(state);
}

static inline void fl_port_pause(void)
{
	__asm__ volatile("yield" ::: "memory");
}

_Noreturn static inline void fl_port_halt(void)
{
	for (;;)
		__asm__ volatile("msr daifset, #15\n\twfi" ::: "memory");
}

#endif
