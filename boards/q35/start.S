/* SPDX-License-Identifier: MIT */
/*
 * From the PVH entry to C, and from a trap to C.
 *
 * QEMU enters at board_start with paging off, in 32-bit protected mode with
 * flat segments, %ebx the physical address of the start info (Xen,
 * docs/misc/pvh: "x86/HVM direct boot ABI").  The image is linked high, so
 * everything up to the jump computes physical addresses by hand (PHYSICAL).
 * One page directory maps the first GiB by 2 MiB leaves, once from 0 on, for
 * the instructions after paging is on, and once at Q35_KERNEL_BASE.  C then
 * makes the tables that stay (map.c).
 *
 * Every further CPU begins in the trampoline, a copy of board_trampoline at
 * Q35_TRAMPOLINE, in real mode, and joins the same way where paging is turned
 * on, with 0 for the start info; then it takes the tables that stay.
 */
#include "layout.h"

#define PHYSICAL(symbol) (symbol - Q35_KERNEL_BASE)

/* Entries of page tables (Intel SDM volume 3, 4.5). */
#define ENTRY_TABLE 0x003 /* present, writable */
#define ENTRY_LEAF 0x083  /* present, writable, 2 MiB */
#define LEAF_BYTES 0x200000

#define CR0_PE 0x00000001
#define CR0_WP 0x00010000
#define CR0_PG 0x80000000
#define CR4_PAE 0x20
#define CR4_PGE 0x80
#define MSR_EFER 0xc0000080
#define EFER_LME 0x100
#define EFER_NXE 0x800
#define CR4_LA57 0x1000
#define CPUID_FEATURES 7
#define CPUID_FEATURES_LA57 (1 << 16) /* in %ecx, subleaf 0 */
#define CPUID_EXTENDED 0x80000001
#define CPUID_EXTENDED_NX (1 << 20) /* in %edx */

	/* XEN_ELFNOTE_PHYS32_ENTRY.  QEMU reads 8 bytes of descriptor from a
	 * 64-bit file. */
	.section .note.xen, "a", @note
	.balign 4
	.long 4, 8, 18
	.asciz "Xen"
	.quad PHYSICAL(board_start)

	.text
	.code32
	.globl board_start
	.type board_start, @function
board_start:
	cld
	movl %ebx, %esi
	movl $PHYSICAL(board_bss_begin), %edi
	movl $PHYSICAL(board_bss_end), %ecx
	subl %edi, %ecx
	shrl $2, %ecx
	xorl %eax, %eax
	rep stosl

	movl $PHYSICAL(directory), %edi
	movl $ENTRY_LEAF, %eax
1:	movl %eax, (%edi)
	addl $8, %edi
	addl $LEAF_BYTES, %eax
	cmpl $Q35_KERNEL_MAPPED + ENTRY_LEAF, %eax
	jne 1b
	/* The one table of the third level serves both ends: entry 0 for the
	 * low addresses, entry 510 for the last GiB but one. */
	movl $PHYSICAL(directory) + ENTRY_TABLE, PHYSICAL(pointers)
	movl $PHYSICAL(directory) + ENTRY_TABLE, PHYSICAL(pointers) + 510 * 8
	movl $PHYSICAL(pointers) + ENTRY_TABLE, PHYSICAL(fourth)
	movl $PHYSICAL(pointers) + ENTRY_TABLE, PHYSICAL(fourth) + 511 * 8
	movl $PHYSICAL(fourth) + ENTRY_TABLE, PHYSICAL(fifth)
	movl $PHYSICAL(fourth) + ENTRY_TABLE, PHYSICAL(fifth) + 511 * 8

paging_on:
	/* Five levels where the CPU has them, so that the page-table provider
	 * is tested with either: by QEMU's models max and qemu64. */
	movl $CR4_PAE, %ebp
	movl $PHYSICAL(fourth), %edi
	xorl %eax, %eax
	cpuid
	cmpl $CPUID_FEATURES, %eax
	jb 4f
	movl $CPUID_FEATURES, %eax
	xorl %ecx, %ecx
	cpuid
	testl $CPUID_FEATURES_LA57, %ecx
	jz 4f
	orl $CR4_LA57, %ebp
	movl $PHYSICAL(fifth), %edi
4:	movl %ebp, %cr4
	movl %edi, %cr3

	/* No-execute only where the CPU has it: else setting NXE faults, and
	 * the page-table provider is the one that says what is missing. */
	movl $CPUID_EXTENDED, %eax
	cpuid
	movl $EFER_LME, %edi
	testl $CPUID_EXTENDED_NX, %edx
	jz 2f
	orl $EFER_NXE, %edi
2:	movl $MSR_EFER, %ecx
	rdmsr
	orl %edi, %eax
	wrmsr
	movl $CR0_PE | CR0_WP | CR0_PG, %eax
	movl %eax, %cr0
	/* Global pages only now that paging is on: the other order is not
	 * defined (Intel SDM volume 3, 2.5, on CR4.PGE). */
	orl $CR4_PGE, %ebp
	movl %ebp, %cr4
	lgdt PHYSICAL(segments_pointer)
	ljmp $Q35_SELECTOR_CODE, $PHYSICAL(start_low64)

	/* From the trampoline: in protected mode, with flat segments. */
start_other32:
	movw $Q35_SELECTOR_DATA, %ax
	movw %ax, %ds
	movw %ax, %es
	movw %ax, %ss
	cld
	xorl %esi, %esi
	jmp paging_on

	.code64
start_low64:
	movabsq $start_high64, %rax
	jmp *%rax
start_high64:
	movw $Q35_SELECTOR_DATA, %ax
	movw %ax, %ds
	movw %ax, %es
	movw %ax, %ss
	xorl %eax, %eax
	movw %ax, %fs
	movw %ax, %gs
	lgdt segments_pointer_high
	movq board_start_stack, %rsp
	xorl %ebp, %ebp
	movl %esi, %edi
	testl %edi, %edi
	jz 5f
	call board_main
5:	movq board_start_root, %rax
	movq %rax, %cr3
	call board_cpu_main
3:	cli
	hlt
	jmp 3b

	/* bool board_can_read(uintptr_t addr), board_can_write(): a fault
	 * inside [board_probe_begin, board_probe_end) resumes at
	 * board_probe_failed. */
	.globl board_can_read, board_can_write
	.globl board_probe_begin, board_probe_end, board_probe_failed
	.type board_can_read, @function
board_can_read:
board_probe_begin:
	movb (%rdi), %al
	movl $1, %eax
	ret
	.type board_can_write, @function
board_can_write:
	lock orb $0, (%rdi)
	movl $1, %eax
	ret
board_probe_end:
board_probe_failed:
	xorl %eax, %eax
	ret

	/* void board_call_on(uintptr_t stack_end, void (*run)(void *arg),
	 * void *arg): calls run(arg) on another stack. */
	.globl board_call_on
	.type board_call_on, @function
board_call_on:
	pushq %rbp
	movq %rsp, %rbp
	movq %rdi, %rsp
	movq %rdx, %rdi
	call *%rsi
	movq %rbp, %rsp
	popq %rbp
	ret

	/*
	 * All vectors (Q35_VECTORS).  The CPU pushes an error code for 8,
	 * 10 to 14, 17, 21, 29 and 30 (Intel SDM volume 3, 6.15; AMD APM volume
	 * 2, 8.2); the others push a zero in its place, so that all frames are
	 * alike.
	 */
	.set vectors_with_error, 0x60227d00
	.set vector, 0
	.rept Q35_VECTORS
	.balign 16
	.if vector == 0
	.globl board_vectors
board_vectors:
	.endif
	.if !((vectors_with_error >> vector) & 1)
	pushq $0
	.endif
	pushq $vector
	jmp trap_enter
	.set vector, vector + 1
	.endr

	/* Builds a struct trap (traps.c) and calls board_trap() with it. */
trap_enter:
	pushq %r15
	pushq %r14
	pushq %r13
	pushq %r12
	pushq %r11
	pushq %r10
	pushq %r9
	pushq %r8
	pushq %rbp
	pushq %rdi
	pushq %rsi
	pushq %rdx
	pushq %rcx
	pushq %rbx
	pushq %rax
	cld
	movq %rsp, %rdi
	call board_trap
	popq %rax
	popq %rbx
	popq %rcx
	popq %rdx
	popq %rsi
	popq %rdi
	popq %rbp
	popq %r8
	popq %r9
	popq %r10
	popq %r11
	popq %r12
	popq %r13
	popq %r14
	popq %r15
	addq $16, %rsp
	iretq

	/* Copied to Q35_TRAMPOLINE, where a STARTUP makes a CPU begin at offset
	 * 0 of a segment that is the page itself.  Its own segments: without
	 * 32-bit code there is no way from real mode to paging. */
	.section .rodata
	.balign 16
	.globl board_trampoline, board_trampoline_end
	.code16
board_trampoline:
	cli
	movw %cs, %ax
	movw %ax, %ds
	lgdtl trampoline_pointer - board_trampoline
	movl %cr0, %eax
	orl $CR0_PE, %eax
	movl %eax, %cr0
	ljmpl $Q35_SELECTOR_CODE, $PHYSICAL(start_other32)
	.balign 8
trampoline_segments:
	/* Null, 32-bit code, data. */
	.quad 0
	.quad 0x00cf9b000000ffff
	.quad 0x00cf93000000ffff
trampoline_pointer:
	.word trampoline_pointer - trampoline_segments - 1
	.long trampoline_segments - board_trampoline + Q35_TRAMPOLINE
board_trampoline_end:
	.code64

	.data
	.balign 8
	.globl board_start_stack, board_start_root
	/* Of the CPU that starts: the end of its stack, and the physical
	 * address of the tables that stay, which the first one makes. */
board_start_stack:
	.quad board_stack_guard + Q35_STACK_END
board_start_root:
	.quad 0
	.globl board_segments
	/* Null, 64-bit code, data, and for each CPU a task segment that C fills
	 * in. */
board_segments:
	.quad 0
	.quad 0x00af9b000000ffff
	.quad 0x00cf93000000ffff
	.skip Q35_CPUS_MAX * Q35_TASK_BYTES
segments_end:
segments_pointer:
	.word segments_end - board_segments - 1
	.long PHYSICAL(board_segments)
segments_pointer_high:
	.word segments_end - board_segments - 1
	.quad board_segments

	.bss
	.balign 4096
fifth:
	.skip 4096
fourth:
	.skip 4096
pointers:
	.skip 4096
directory:
	.skip 4096
	/* The stacks of all CPUs (layout.h).  The guards are not mapped in the
	 * end (map.c): a stack that grows too far faults. */
	.globl board_stack_guard
board_stack_guard:
	.skip Q35_CPUS_MAX * Q35_CPU_BYTES
	.section .note.GNU-stack, "", @progbits
