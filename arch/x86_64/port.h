/* SPDX-License-Identifier: MIT */
/*
 * x86-64, at ring 0.
 *
 * In the models IRQ and THREAD the index of the context is the 32-bit word at
 * %gs:FALLOW_GS_OFFSET, which the embedder sets: per CPU in IRQ, per thread in
 * THREAD.  FALLOW_GS_OFFSET: default 0; range 0 to 2^31 - 1; no cost.
 */
#ifndef X86_64_PORT_H
#define X86_64_PORT_H

#ifndef FALLOW_GS_OFFSET
#define FALLOW_GS_OFFSET 0
#endif
_Static_assert(FALLOW_GS_OFFSET >= 0 && FALLOW_GS_OFFSET <= 0x7fffffff,
	"FALLOW_GS_OFFSET does not fit a displacement");

/* RFLAGS.IF (Intel SDM volume 1, 3.4.3.3). */
#define PORT_RFLAGS_IF ((uintptr_t)1 << 9)

/* Saves RFLAGS and masks interrupts; a barrier for the compiler. */
static inline struct fl_port_state port_irq_save(void)
{
	struct fl_port_state state;

	__asm__ volatile("pushfq\n\tpopq %0\n\tcli"
			 : "=r"(state.flags)
			 :
			 : "memory");
	return state;
}

/*
 * Enables interrupts only if they were on: STI is cheaper than POPFQ, and the
 * other flags are the compiler's.
 */
static inline void port_irq_restore(struct fl_port_state state)
{
	if (state.flags & PORT_RFLAGS_IF)
		__asm__ volatile("sti" ::: "memory");
	else
		__asm__ volatile("" ::: "memory");
}

static inline struct fl_port_state fl_port_enter(void)
{
	if (FALLOW_MODEL == FALLOW_MODEL_IRQ)
		return port_irq_save();
	return (struct fl_port_state){ PORT_RFLAGS_IF };
}

static inline void fl_port_leave(struct fl_port_state state)
{
	if (FALLOW_MODEL == FALLOW_MODEL_IRQ)
		port_irq_restore(state);
}

static inline bool fl_port_may_wait(struct fl_port_state state)
{
	return state.flags & PORT_RFLAGS_IF;
}

static inline unsigned fl_port_context(void)
{
	unsigned index = 0;

	if (FALLOW_MODEL != FALLOW_MODEL_SINGLE)
		__asm__ volatile("movl %%gs:%c1, %0"
				 : "=r"(index)
				 : "i"(FALLOW_GS_OFFSET));
	return index;
}

/* In the model THREAD too: the holder must not be interrupted for long. */
static inline struct fl_port_state fl_port_lock_enter(void)
{
	if (FALLOW_MODEL == FALLOW_MODEL_SINGLE)
		return (struct fl_port_state){ PORT_RFLAGS_IF };
	return port_irq_save();
}

static inline void fl_port_lock_leave(struct fl_port_state state)
{
	if (FALLOW_MODEL != FALLOW_MODEL_SINGLE)
		port_irq_restore(state);
}

static inline void fl_port_pause(void)
{
	__asm__ volatile("pause" ::: "memory");
}

_Noreturn static inline void fl_port_halt(void)
{
	for (;;)
		__asm__ volatile("cli\n\thlt" ::: "memory");
}

#endif
