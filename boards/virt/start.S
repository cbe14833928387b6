/* SPDX-License-Identifier: MIT */
/*
 * From a CPU's first instruction to C, and the vectors.
 *
 * QEMU starts an ELF image at its entry with the MMU off, at EL1, or at EL2
 * with `-M virt,virtualization=on`; at EL3 (`secure=on`) there is no PSCI and
 * nothing here is made for it.  x0 says nothing.  The other CPUs come later
 * and one by one (PSCI's CPU_ON), in the same state, with their index in x0.
 * Until the MMU is on they touch no memory but text: without it they bypass
 * the caches, in which the first CPU's stores may be.
 *
 * TPIDRRO_EL0 holds the CPU's index from the first instruction on: nothing runs
 * at EL0 here, and the block at TPIDR_EL1 is the image's to replace.
 *
 * C runs on SP_EL0 (SPSel is 0), so that an exception, which switches to
 * SP_EL1, has a stack of its own even when the other one is not mapped.
 * Handlers stay on SP_EL1, and exceptions within them nest there.
 *
 * The tables built here map devices, the block of the device tree (read only)
 * and the image at their physical addresses: the image's first block by pages,
 * so that text and constants cannot be written, nothing else be executed, and
 * the pages under the stacks are not there.  board_main() does the rest in C.
 */
#include "layout.h"

/* Descriptors (Arm ARM, "Translation table descriptor formats"). */
#define TABLE 0x3
#define BLOCK 0x1
#define AF (1 << 10)
#define SH_INNER (3 << 8)
#define AP_READ_ONLY (2 << 6)
#define ATTR(index) ((index) << 2)
#define NO_EXECUTE (3 << 53)

#define PAGE 0x3
#define NORMAL (AF | SH_INNER | ATTR(VIRT_ATTR_NORMAL))
#define TEXT_PAGE (PAGE | NORMAL | AP_READ_ONLY)
#define RODATA_PAGE (PAGE | NORMAL | AP_READ_ONLY | NO_EXECUTE)
#define DATA_PAGE (PAGE | NORMAL | NO_EXECUTE)
#define DATA_BLOCK (BLOCK | NORMAL | NO_EXECUTE)
#define TREE_BLOCK (BLOCK | NORMAL | AP_READ_ONLY | NO_EXECUTE)
#define DEVICE_BLOCK (BLOCK | AF | ATTR(VIRT_ATTR_DEVICE) | NO_EXECUTE)

/*
 * TCR_EL1: 48 bits in both halves (TxSZ 16), granule 4 KiB (TG0 0, TG1 2),
 * walks write-back (IRGN, ORGN 1) and inner shareable (SH 3); IPS is filled
 * in from the CPU.
 */
#define TCR_HALF (16 | 1 << 8 | 1 << 10 | 3 << 12)
#define TCR (TCR_HALF | (TCR_HALF | 2 << 14) << 16)
/* IPS 5 is 48 bits, the most without LPA2. */
#define IPS_MOST 5

/* SCTLR_EL1: the bits that are 1 where they mean nothing (29, 28, 23, 22, 20,
 * 11), instruction cache (12), stack alignment (4, 3), data cache, MMU. */
#define SCTLR (0x30d00800 | 1 << 12 | 1 << 4 | 1 << 3 | 1 << 2 | 1)

/* Fields of ID_AA64MMFR1_EL1 and HCRX_EL2, and that register by its encoding,
 * for assemblers that do not know its name. */
#define MMFR1_HCX_SHIFT 40
#define HCRX_TCR2EN (1 << 14)
#define HCRX_EL2 s3_4_c1_c2_2

/* ID_AA64PFR0_EL1.GIC: whether there are the GIC's system registers; those of
 * EL2 (IHI 0069, "ICC_SRE_EL2", "ICH_HCR_EL2"); two bits of the first. */
#define PFR0_GIC_SHIFT 24
#define ICC_SRE_EL2 s3_4_c12_c9_5
#define ICH_HCR_EL2 s3_4_c12_c11_0
#define SRE_EL2_SRE (1 << 0)
#define SRE_EL2_ENABLE (1 << 3)

	.section .text.start, "ax"
	.global board_start, board_cpu_start
board_start:
	mov	x0, xzr
board_cpu_start:
	msr	daifset, #15
	mov	x19, x0			/* the index, until C begins */
	mrs	x0, CurrentEL
	ubfx	x0, x0, #2, #2
	cmp	x0, #1
	b.eq	at_el1
	cmp	x0, #2
	b.eq	at_el2
	/* EL3: enough of a stack to say so. */
	adrp	x1, board_stacks + VIRT_TRAP_GUARD_AT
	mov	sp, x1
	b	board_refuse_level

/* Leaves EL2 for EL1h, with nothing trapped or shifted on the way. */
at_el2:
	mov	x0, #(1 << 31)		/* HCR_EL2.RW: EL1 is AArch64 */
	msr	hcr_el2, x0
	mov	x0, #3			/* counter and timer for EL1 */
	msr	cnthctl_el2, x0
	msr	cntvoff_el2, xzr
	mov	x0, #0x33ff		/* CPTR_EL2: RES1 alone */
	msr	cptr_el2, x0
	msr	hstr_el2, xzr
	msr	vttbr_el2, xzr
	/* All event counters are EL1's; PMCR_EL0 is there only with PMUv3. */
	mrs	x1, id_aa64dfr0_el1
	ubfx	x1, x1, #PMUVER_SHIFT, #4
	mov	x0, xzr
	cmp	x1, #PMUVER_NONE
	ccmp	x1, #PMUVER_OTHER, #4, ne
	b.eq	1f
	mrs	x0, pmcr_el0
	ubfx	x0, x0, #11, #5
1:	msr	mdcr_el2, x0
	/* EL1 reads TCR2_EL1 where there is one. */
	mrs	x1, id_aa64mmfr1_el1
	ubfx	x1, x1, #MMFR1_HCX_SHIFT, #4
	cbz	x1, 2f
	mov	x0, #HCRX_TCR2EN
	msr	HCRX_EL2, x0
	/* EL1 has the GIC's registers, and its interrupts are no virtual
	 * ones. */
2:	mrs	x1, id_aa64pfr0_el1
	ubfx	x1, x1, #PFR0_GIC_SHIFT, #4
	cbz	x1, 3f
	mrs	x0, ICC_SRE_EL2
	orr	x0, x0, #SRE_EL2_SRE
	orr	x0, x0, #SRE_EL2_ENABLE
	msr	ICC_SRE_EL2, x0
	isb
	msr	ICH_HCR_EL2, xzr
3:
	mrs	x0, midr_el1
	msr	vpidr_el2, x0
	mrs	x0, mpidr_el1
	msr	vmpidr_el2, x0
	ldr	x0, =(SCTLR & ~(1 << 12 | 1 << 2 | 1))
	msr	sctlr_el1, x0
	mov	x0, #0x3c5		/* EL1h, all masked */
	msr	spsr_el2, x0
	adr	x0, at_el1
	msr	elr_el2, x0
	eret

at_el1:
	msr	tpidrro_el0, x19
	/* SP_EL1 is the exceptions', SP_EL0 everything else's. */
	adrp	x0, board_stacks
	ldr	x1, =VIRT_STACKS_BYTES
	madd	x0, x19, x1, x0
	msr	spsel, #1
	add	x1, x0, x1
	mov	sp, x1
	msr	spsel, #0
	ldr	x1, =VIRT_TRAP_GUARD_AT
	add	x1, x0, x1
	mov	sp, x1
	adrp	x0, vectors
	add	x0, x0, :lo12:vectors
	msr	vbar_el1, x0
	cbnz	x19, mmu_on

	adrp	x0, board_bss_begin
	adrp	x1, board_bss_end
1:	cmp	x0, x1
	b.eq	2f
	stp	xzr, xzr, [x0], #16
	b	1b

	/* Level 0 -> level 1 -> level 2 twice: devices; tree and image. */
2:	adrp	x0, board_root_low
	adrp	x1, level1
	adrp	x2, level2_devices
	adrp	x3, board_level2
	orr	x4, x1, #TABLE
	str	x4, [x0]
	orr	x4, x2, #TABLE
	orr	x5, x3, #TABLE
	stp	x4, x5, [x1]

	ldr	x4, =(VIRT_DEVICE_BASE + DEVICE_BLOCK)
	ldr	x5, =(VIRT_DEVICE_END + DEVICE_BLOCK)
	add	x2, x2, #(VIRT_DEVICE_BASE >> 21 << 3)
3:	str	x4, [x2], #8
	add	x4, x4, #0x200000
	cmp	x4, x5
	b.lo	3b

	ldr	x4, =(VIRT_RAM_BASE + TREE_BLOCK)
	adrp	x5, level3
	orr	x5, x5, #TABLE
	stp	x4, x5, [x3], #16
	ldr	x4, =(VIRT_IMAGE_BASE + 0x200000)
	ldr	x5, =DATA_BLOCK
	adrp	x6, board_image_end
4:	cmp	x4, x6
	b.hs	5f
	orr	x7, x4, x5
	str	x7, [x3], #8
	add	x4, x4, #0x200000
	b	4b

	/* The first block of the image by pages. */
5:	adrp	x2, level3
	ldr	x3, =VIRT_IMAGE_BASE
	adrp	x4, board_rodata_begin
	adrp	x5, board_data_begin
	ldr	x7, =TEXT_PAGE
	ldr	x8, =RODATA_PAGE
	ldr	x9, =DATA_PAGE
6:	cmp	x3, x5
	csel	x10, x8, x9, lo
	cmp	x3, x4
	csel	x10, x7, x10, lo
	orr	x10, x10, x3
	str	x10, [x2], #8
	add	x3, x3, #0x1000
	tst	x3, #0x1ff000
	b.ne	6b

	/* Each CPU's two guards are taken out again. */
	adrp	x2, level3
	adrp	x3, board_stacks
	ubfx	x4, x3, #12, #9
	add	x2, x2, x4, lsl #3
	mov	x4, #VIRT_CPUS_MAX
7:	str	xzr, [x2]
	str	xzr, [x2, #(VIRT_TRAP_GUARD_AT >> 12 << 3)]
	add	x2, x2, #(VIRT_STACKS_BYTES >> 12 << 3)
	subs	x4, x4, #1
	b.ne	7b

mmu_on:
	adrp	x0, board_root_low
	msr	ttbr0_el1, x0
	adrp	x0, board_root_high
	msr	ttbr1_el1, x0
	ldr	x0, =VIRT_MAIR
	msr	mair_el1, x0
	ldr	x0, =TCR
	mrs	x1, id_aa64mmfr0_el1
	and	x1, x1, #15
	cmp	x1, #IPS_MOST
	mov	x2, #IPS_MOST
	csel	x1, x1, x2, lo
	orr	x0, x0, x1, lsl #32
	msr	tcr_el1, x0
	tlbi	vmalle1
	dsb	sy
	ic	iallu
	dsb	sy
	isb
	ldr	x0, =SCTLR
	msr	sctlr_el1, x0
	isb
	mov	x29, xzr
	mov	x30, xzr
	cbnz	x19, board_cpu_main
	b	board_main

/*
 * Saves the registers for board_trap(frame, kind) and restores what it leaves
 * of them.  kind counts the vectors from 0.  The stack of traps has a guard,
 * too: a trap that runs into it comes here again and again, each time further
 * down, until it is through the guard and can report where it hit it.
 */
	.section .text.vectors, "ax"
trap_enter:
	stp	x2, x3, [sp, #16]
	stp	x4, x5, [sp, #32]
	stp	x6, x7, [sp, #48]
	stp	x8, x9, [sp, #64]
	stp	x10, x11, [sp, #80]
	stp	x12, x13, [sp, #96]
	stp	x14, x15, [sp, #112]
	stp	x16, x17, [sp, #128]
	stp	x18, x19, [sp, #144]
	stp	x20, x21, [sp, #160]
	stp	x22, x23, [sp, #176]
	stp	x24, x25, [sp, #192]
	stp	x26, x27, [sp, #208]
	stp	x28, x29, [sp, #224]
	mrs	x2, elr_el1
	stp	x30, x2, [sp, #240]
	mrs	x2, spsr_el1
	mrs	x3, sp_el0
	stp	x2, x3, [sp, #256]
	mov	x0, sp
	bl	board_trap
	ldp	x2, x3, [sp, #256]
	msr	spsr_el1, x2
	msr	sp_el0, x3
	ldp	x30, x2, [sp, #240]
	msr	elr_el1, x2
	ldp	x28, x29, [sp, #224]
	ldp	x26, x27, [sp, #208]
	ldp	x24, x25, [sp, #192]
	ldp	x22, x23, [sp, #176]
	ldp	x20, x21, [sp, #160]
	ldp	x18, x19, [sp, #144]
	ldp	x16, x17, [sp, #128]
	ldp	x14, x15, [sp, #112]
	ldp	x12, x13, [sp, #96]
	ldp	x10, x11, [sp, #80]
	ldp	x8, x9, [sp, #64]
	ldp	x6, x7, [sp, #48]
	ldp	x4, x5, [sp, #32]
	ldp	x2, x3, [sp, #16]
	ldp	x0, x1, [sp]
	add	sp, sp, #VIRT_TRAP_BYTES
	eret

/*
 * void board_on_trap_stack(call): calls call() on the stack of interrupts,
 * which the caller may be on already.  Requires: interrupts are masked.
 */
	.global board_on_trap_stack
board_on_trap_stack:
	mrs	x1, spsel
	cbz	x1, 1f
	br	x0
1:	stp	x29, x30, [sp, #-16]!
	msr	spsel, #1
	blr	x0
	msr	spsel, #0
	ldp	x29, x30, [sp], #16
	ret

/* Sixteen vectors of 128 bytes (Arm ARM, "Exception vectors"). */
	.balign	2048
vectors:
	.set	kind, 0
	.rept	16
	.balign	128
	sub	sp, sp, #VIRT_TRAP_BYTES
	stp	x0, x1, [sp]
	mov	x1, #kind
	b	trap_enter
	.set	kind, kind + 1
	.endr

/*
 * bool board_can_read(addr), bool board_can_write(addr): board_trap() sends a
 * fault between the first two labels on to the third.
 */
	.section .text.probes, "ax"
	.global board_can_read, board_can_write
	.global board_probe_begin, board_probe_end, board_probe_failed
board_probe_begin:
board_can_read:
	ldrb	w1, [x0]
	mov	w0, #1
	ret
board_can_write:
	ldrb	w1, [x0]
	strb	w1, [x0]
	mov	w0, #1
	ret
board_probe_end:
board_probe_failed:
	mov	w0, wzr
	ret

	.section .bss.tables, "aw", @nobits
	.balign	4096
	.global board_root_low, board_root_high, board_level2
board_root_low:
	.skip	4096
board_root_high:
	.skip	4096
level1:
	.skip	4096
level2_devices:
	.skip	4096
board_level2:
	.skip	4096
level3:
	.skip	4096

	/* The linker script puts these into the image's first block. */
	.section .bss.stacks, "aw", @nobits
	.balign	4096
	.global board_stacks, board_stacks_end
board_stacks:
	.skip	VIRT_CPUS_MAX * VIRT_STACKS_BYTES
board_stacks_end:

	.section .note.GNU-stack, "", @progbits
