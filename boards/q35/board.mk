# SPDX-License-Identifier: MIT
#
# q35: QEMU's x86-64 machine, entered by PVH.  isa-debug-exit makes QEMU exit
# with 255 - 2 * status (board_exit() in board.c); an even exit is none of ours,
# such as 0 after a triple fault.
q35_ARCH := x86_64
q35_SRCS := boards/q35/start.S boards/q35/board.c boards/q35/map.c \
	boards/q35/traps.c boards/q35/apic.c boards/q35/cpus.c \
	boards/q35/madt.c \
	boards/memory.c boards/fwcfg.c boards/print.c
q35_LDSCRIPT := linker/q35.ld
q35_LDFLAGS := -z max-page-size=4096
q35_QEMU := qemu-system-x86_64 -M q35 -accel tcg -nodefaults -display none \
	-serial stdio -device isa-debug-exit,iobase=0x501,iosize=0x2 -no-reboot
q35_MAP_STATUS := s % 2 ? 127 - s / 2 : 126
