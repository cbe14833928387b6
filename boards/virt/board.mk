# SPDX-License-Identifier: MIT
#
# QEMU's virt.  Semihosting hands the guest's exit status over as it is.

virt_ARCH := aarch64
virt_SRCS := boards/virt/start.S boards/virt/board.c boards/virt/traps.c \
	boards/virt/cpus.c boards/virt/interrupts.c boards/virt/gic.c \
	boards/virt/devicetree.c boards/fwcfg.c boards/memory.c boards/print.c
virt_LDSCRIPT := linker/virt.ld
virt_QEMU := qemu-system-aarch64 -M virt -cpu max -accel tcg -nodefaults \
	-display none -serial stdio -no-reboot \
	-semihosting-config enable=on,target=native
virt_MAP_STATUS := s
