/* SPDX-License-Identifier: MIT */
/*
 * The interrupt controller, GICv2 or GICv3 as the device tree says.
 *
 * Used of it: two interrupts that software sends, and the private one of each
 * CPU's virtual timer.  Everything that devices could send stays disabled, as
 * it is at reset.
 *
 * All are of group 1, which comes as IRQ, but GIC_FAST: it is of group 0, comes
 * as FIQ and has the higher priority, so it is taken where IRQs are masked and
 * within their handlers.  That needs a GIC whose groups are ours: not on a
 * machine whose firmware keeps the secure ones.  It is tried: a group that does
 * not stay as written is not ours.
 *
 * An interrupt is accepted (its priority then keeps others of the same away)
 * and done after its handler.
 *
 * Registers by offset and system registers by encoding, as in the Arm Generic
 * Interrupt Controller specifications: IHI 0048 for version 2, IHI 0069 for 3.
 */
#include "image.h"
#include "virt.h"

enum {
	/* The distributor's. */
	GICD_CTLR = 0x000,
	GICD_CTLR_GROUP0 = 1 << 0,
	GICD_CTLR_GROUP1 = 1 << 1,
	/* Version 3: affinity routing; one security state; busy. */
	GICD_CTLR_ARE = 1 << 4,
	GICD_CTLR_DS = 1 << 6,
	/* Version 2: the calling CPU's bit, in each of these 32 bytes. */
	GICD_ITARGETSR = 0x800,
	GICD_SGIR = 0xf00,

	/* Of private interrupts: the distributor's, banked, in version 2, and
	 * in version 3 the redistributor's, in its second frame. */
	IGROUPR0 = 0x080,
	ISENABLER0 = 0x100,
	ICENABLER0 = 0x180,
	IPRIORITYR = 0x400,

	/* The CPU interface's of version 2. */
	GICC_CTLR = 0x00,
	GICC_CTLR_GROUP0 = 1 << 0,
	GICC_CTLR_GROUP1 = 1 << 1,
	GICC_CTLR_ACK_BOTH = 1 << 2,
	GICC_CTLR_FIQ = 1 << 3,
	GICC_PMR = 0x04,
	GICC_IAR = 0x0c,
	GICC_EOIR = 0x10,
	GICC_BYTES = 0x1000,

	/* The redistributor's: frames of 64 KiB, two a CPU, or four. */
	GICR_TYPER = 0x08,
	GICR_TYPER_VLPIS = 1 << 1,
	GICR_TYPER_LAST = 1 << 4,
	GICR_WAKER = 0x14,
	GICR_WAKER_SLEEP = 1 << 1,
	GICR_WAKER_ASLEEP = 1 << 2,
	GICR_FRAME = 0x10000,
	GICD_BYTES = 0x1000,

	/* Lower is more urgent; these differ in the bits that every GIC has. */
	PRIORITY_FAST = 0x40,
	PRIORITY = 0x80,
	PRIORITY_ALL = 0xff,
};

#define GICD_CTLR_BUSY ((uint32_t)1 << 31)
#define INTERRUPTS \
 ((uint32_t)1 << GIC_CALL | (uint32_t)1 << GIC_FAST | (uint32_t)1 << GIC_TIMER)
#define GROUPS (~((uint32_t)1 << GIC_FAST))

#define ICC_PMR_EL1 s3_0_c4_c6_0
#define ICC_IAR0_EL1 s3_0_c12_c8_0
#define ICC_EOIR0_EL1 s3_0_c12_c8_1
#define ICC_SGI1R_EL1 s3_0_c12_c11_5
#define ICC_SGI0R_EL1 s3_0_c12_c11_7
#define ICC_IAR1_EL1 s3_0_c12_c12_0
#define ICC_EOIR1_EL1 s3_0_c12_c12_1
#define ICC_CTLR_EL1 s3_0_c12_c12_4
#define ICC_SRE_EL1 s3_0_c12_c12_5
#define ICC_IGRPEN0_EL1 s3_0_c12_c12_6
#define ICC_IGRPEN1_EL1 s3_0_c12_c12_7

#define NAME_(reg) #reg
#define NAME(reg) NAME_(reg)
#define SYSTEM_READ(reg)                                              \
 ({                                                                   \
	 uint64_t value_;                                             \
	 __asm__ volatile("mrs %0, " NAME(reg) : "=r"(value_)::"memory"); \
	 value_;                                                      \
 })
#define SYSTEM_WRITE(reg, value)                            \
 __asm__ volatile("msr " NAME(reg) ", %0\n\tisb" ::"r"(     \
			  (uint64_t)(value))                \
		  : "memory")

static bool version3, fast;
static uint64_t distributor, cpus_base, cpus_size;
/* How each CPU is named in what sends it an interrupt. */
static uint64_t targets[BOARD_CPUS_MAX];

static uint64_t affinity_read(void)
{
	uint64_t mpidr;

	__asm__("mrs %0, mpidr_el1" : "=r"(mpidr));
	return mpidr;
}

/* Waits until the distributor has done what was written to it. */
static void distributor_settle(void)
{
	while (*device_word(distributor, GICD_CTLR) & GICD_CTLR_BUSY)
		continue;
}

/* Lets the distributor forward both groups, of the second at least. */
static void distributor_init3(void)
{
	uint32_t single;

	*device_word(distributor, GICD_CTLR) = 0;
	distributor_settle();
	single = *device_word(distributor, GICD_CTLR) & GICD_CTLR_DS;
	fast = single != 0;
	*device_word(distributor, GICD_CTLR) = single | GICD_CTLR_ARE |
		GICD_CTLR_GROUP1 | (fast ? GICD_CTLR_GROUP0 : 0);
	distributor_settle();
}

void board_gic_init(const struct board_devicetree *tree)
{
	if (!tree->gic_version)
		board_panic("device tree: no GIC of version 2 or 3");
	version3 = tree->gic_version == 3;
	distributor = tree->gic_distributor.base;
	cpus_base = tree->gic_cpus.base;
	cpus_size = tree->gic_cpus.size;
	if (!board_device_mapped(&tree->gic_distributor) ||
		!board_device_mapped(&tree->gic_cpus) ||
		tree->gic_distributor.size < GICD_BYTES ||
		cpus_size < GICC_BYTES)
		board_panic("device tree: the GIC is not where devices are");
	if (version3)
		distributor_init3();
	else
		*device_word(distributor, GICD_CTLR) =
			GICD_CTLR_GROUP0 | GICD_CTLR_GROUP1;
}

/* Returns this CPU's redistributor. */
static uint64_t redistributor(void)
{
	uint64_t mpidr = affinity_read(), at, step;
	uint64_t mine = (mpidr >> 32 & 0xff) << 24 | (mpidr & 0xffffff);
	uint32_t type;

	for (at = 0; at + 2 * GICR_FRAME <= cpus_size; at += step) {
		type = *device_word(cpus_base + at, GICR_TYPER);
		if (*device_word(cpus_base + at, GICR_TYPER + 4) == mine)
			return cpus_base + at;
		if (type & GICR_TYPER_LAST)
			break;
		step = type & GICR_TYPER_VLPIS ? 4 * GICR_FRAME
					       : 2 * GICR_FRAME;
	}
	board_panic("GIC: a CPU has no redistributor");
}

/* Sets up the private interrupts, whose registers begin here. */
static void private_init(uint64_t base)
{
	volatile uint8_t *priority =
		(volatile uint8_t *)(uintptr_t)(base + IPRIORITYR);

	*device_word(base, ICENABLER0) = ~(uint32_t)0;
	*device_word(base, IGROUPR0) = GROUPS;
	priority[GIC_CALL] = PRIORITY;
	priority[GIC_TIMER] = PRIORITY;
	priority[GIC_FAST] = PRIORITY_FAST;
	if (*device_word(base, IGROUPR0) != GROUPS)
		fast = false;
	*device_word(base, ISENABLER0) = INTERRUPTS;
}

/* Sets up the CPU interface of version 2.  Its acknowledge register is to
 * answer for both groups. */
static void cpu_init2(void)
{
	uint32_t control = GICC_CTLR_GROUP0, target;

	fast = true;
	private_init(distributor);
	if (fast)
		control |= GICC_CTLR_GROUP1 | GICC_CTLR_ACK_BOTH |
			GICC_CTLR_FIQ;
	*device_word(cpus_base, GICC_PMR) = PRIORITY_ALL;
	*device_word(cpus_base, GICC_CTLR) = control;
	/* The bits are where GICD_SGIR wants them; with one CPU there are
	 * none ("GICD_ITARGETSRn"). */
	target = *device_word(distributor, GICD_ITARGETSR) & 0xff0000;
	targets[board_cpu()] = target ? target : 0x10000;
}

/* Sets up the redistributor and the system registers of version 3. */
static void cpu_init3(void)
{
	uint64_t frame = redistributor(), mpidr = affinity_read();

	*device_word(frame, GICR_WAKER) &= ~(uint32_t)GICR_WAKER_SLEEP;
	while (*device_word(frame, GICR_WAKER) & GICR_WAKER_ASLEEP)
		continue;
	SYSTEM_WRITE(ICC_SRE_EL1, SYSTEM_READ(ICC_SRE_EL1) | 1);
	if (!(SYSTEM_READ(ICC_SRE_EL1) & 1))
		board_panic("GIC: its system registers are not ours");
	private_init(frame + GICR_FRAME);
	SYSTEM_WRITE(ICC_CTLR_EL1, 0);
	SYSTEM_WRITE(ICC_PMR_EL1, PRIORITY_ALL);
	if (fast)
		SYSTEM_WRITE(ICC_IGRPEN0_EL1, 1);
	SYSTEM_WRITE(ICC_IGRPEN1_EL1, 1);
	/* Aff3, 2, 1, and which sixteen of Aff0 ("ICC_SGI1R_EL1"). */
	targets[board_cpu()] = (mpidr >> 32 & 0xff) << 48 |
		(mpidr >> 16 & 0xff) << 32 | (mpidr >> 8 & 0xff) << 16 |
		(mpidr >> 4 & 15) << 44 | (uint64_t)1 << (mpidr & 15);
}

void board_gic_cpu_init(void)
{
	if (version3)
		cpu_init3();
	else
		cpu_init2();
}

bool board_gic_has_fast(void)
{
	return fast;
}

void board_gic_send(unsigned cpu, unsigned interrupt)
{
	uint64_t target = targets[cpu];

	/* What the handler reads is there before the interrupt is. */
	__asm__ volatile("dsb ishst" ::: "memory");
	if (!version3)
		*device_word(distributor, GICD_SGIR) =
			(uint32_t)target | interrupt;
	else if (interrupt == GIC_FAST)
		SYSTEM_WRITE(ICC_SGI0R_EL1, target | interrupt << 24);
	else
		SYSTEM_WRITE(ICC_SGI1R_EL1, target | interrupt << 24);
}

uint32_t board_gic_accept(bool from_fast)
{
	uint32_t accepted;

	if (!version3)
		accepted = *device_word(cpus_base, GICC_IAR);
	else if (from_fast)
		accepted = (uint32_t)SYSTEM_READ(ICC_IAR0_EL1);
	else
		accepted = (uint32_t)SYSTEM_READ(ICC_IAR1_EL1);
	/*
	 * What the handler looks at is read only now: an interrupt that is
	 * sent once more before the acceptance becomes one with this, so a
	 * request that was looked for earlier and not seen would be lost.
	 * Pairs with the barrier in board_gic_send().
	 */
	__asm__ volatile("dsb sy" ::: "memory");
	return accepted;
}

unsigned board_gic_interrupt(uint32_t accepted)
{
	/* Version 2 says in the bits above who sent it. */
	return version3 ? accepted & 0xffffff : accepted & 0x3ff;
}

void board_gic_done(bool from_fast, uint32_t accepted)
{
	if (!version3)
		*device_word(cpus_base, GICC_EOIR) = accepted;
	else if (from_fast)
		SYSTEM_WRITE(ICC_EOIR0_EL1, accepted);
	else
		SYSTEM_WRITE(ICC_EOIR1_EL1, accepted);
}
