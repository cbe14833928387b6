# SPDX-License-Identifier: MIT
#
# tests/guest/picolibc.c, linked with picolibc: the one image that is built as
# a user of that libc would, with its start-up code and linker script, and not
# with a board's.
#
#   PICOLIBC_AARCH64  the directory of Debian's picolibc-aarch64-linux-gnu
#   PICOLIBC_X86_64   the prefix of a picolibc built for x86-64, which Debian
#                     has not; without it that variant counts as skipped

PICOLIBC_AARCH64 ?= /usr/lib/picolibc/aarch64-linux-gnu
PICOLIBC_X86_64 ?=

picolibc_specs = $(firstword $(wildcard $(addsuffix picolibc.specs, \
	$(1)/ $(1)/lib/ $(1)/lib/*/ $(1)/*/ $(1)/lib/picolibc/*/)))

# Where the image lies in RAM (`flash` too), and the machine that boots it, with
# the test's arguments by semihosting.  Floats in printf: no -mgeneral-regs-only.
aarch64_PICOLIBC = $(PICOLIBC_AARCH64)
aarch64_PICOLIBC_LIB := $(BUILD)/aarch64-debug
aarch64_PICOLIBC_CFLAGS := -fno-pic
aarch64_PICOLIBC_AT := flash=0x40200000 flash_size=0x200000 \
	ram=0x40400000 ram_size=0x1c00000 stack_size=0x10000
aarch64_PICOLIBC_QEMU := qemu-system-aarch64 -M virt -cpu max -accel tcg -m 64M \
	-nodefaults -display none -serial null -no-reboot \
	-semihosting-config enable=on$(comma)target=native$(comma)arg=picolibc$(comma)arg=test=$$TEST$(comma)arg=seed=$$SEED

# Built and looked at, not booted: what picolibc's start-up wants on this CPU
# comes with its sources (a firmware, a program that watches port 0xe9), not
# with what it installs.  The archive's context is the only one.
x86_64_PICOLIBC = $(PICOLIBC_X86_64)
x86_64_PICOLIBC_LIB := $(BUILD)/x86_64-single
x86_64_PICOLIBC_CFLAGS := -fno-pic -mno-red-zone -fcf-protection=none
x86_64_PICOLIBC_AT := flash=0x200000 flash_size=0x200000 \
	ram=0x400000 ram_size=0x1c00000 stack_size=0x10000

# $(call picolibc_image,ARCH): build/ARCH-picolibc/picolibc.elf and its map.
define picolibc_image
$(BUILD)/$(1)-picolibc/%.o: %.c Makefile tests/guest/picolibc.mk | deps
	@mkdir -p $$(@D)
	$$(call say,CC,$$< ($(1)-picolibc))$$($(1)_CC) $$(COMMON) -O2 \
		$$($(1)_PICOLIBC_CFLAGS) \
		--specs=$$(call picolibc_specs,$$($(1)_PICOLIBC)) -c -o $$@ $$<
$(BUILD)/$(1)-picolibc/picolibc.elf: \
		$(BUILD)/$(1)-picolibc/tests/guest/picolibc.o \
		$(BUILD)/$(1)-picolibc/tests/support/test.o \
		$$($(1)_PICOLIBC_LIB)/libfallow-malloc.a \
		$$($(1)_PICOLIBC_LIB)/libfallow.a
	$$(call say,LD,$$@)$$($(1)_CC) -static -no-pie \
		--specs=$$(call picolibc_specs,$$($(1)_PICOLIBC)) \
		--oslib=semihost --crt0=semihost -Wl,-Map=$$(@:.elf=.map) \
		$$(patsubst %,-Wl$$(comma)--defsym=__%,$$($(1)_PICOLIBC_AT)) \
		-o $$@ $$^
-include $(BUILD)/$(1)-picolibc/tests/guest/picolibc.d \
	$(BUILD)/$(1)-picolibc/tests/support/test.d
PICOLIBC_IMAGES += $(BUILD)/$(1)-picolibc/picolibc.elf
endef

picolibc_boot := $(aarch64_PICOLIBC_QEMU) \
	-kernel $(BUILD)/aarch64-picolibc/picolibc.elf

# $(call picolibc_map,ARCH): the libc's allocator is not in the image, ours is.
picolibc_map = map=$(BUILD)/$(1)-picolibc/picolibc.map; \
	if grep -n nano-malloc $$map; then \
		echo "$$map: picolibc's own malloc is in the image"; exit 1; fi; \
	grep -q "libfallow-malloc.a(malloc.o)" $$map || { \
		echo "$$map: our malloc is not in the image"; exit 1; }

# The same source as a program of the host, on the host's libc: what it expects
# of a libc is not picolibc's alone.
LIBC_HOST := $(BUILD)/host-single/picolibc
$(LIBC_HOST): $(addprefix $(BUILD)/host-single/,tests/guest/picolibc.o \
		tests/support/test.o libfallow-malloc.a libfallow.a)
	$(call say,LD,$@)$(HOST_CC) -o $@ $^ -lm

ifneq ($(PICOLIBC_X86_64),)
ifeq ($(call picolibc_specs,$(PICOLIBC_X86_64)),)
$(error PICOLIBC_X86_64=$(PICOLIBC_X86_64): there is no picolibc.specs below it)
endif
endif

PICOLIBC_IMAGES :=
$(eval $(call picolibc_image,aarch64))
$(if $(PICOLIBC_X86_64),$(eval $(call picolibc_image,x86_64)))
images: $(PICOLIBC_IMAGES)
programs: $(LIBC_HOST)

# $(call picolibc_job,KIND,NAME,COMMAND)
picolibc_job = $(call job,$(1),picolibc $(2),120,make picolibc,s,,$(3))
PICOLIBC_JOBS = $(call picolibc_job,program,aarch64,$(picolibc_boot)) \
	$(call picolibc_job,check,aarch64 link map,$(call picolibc_map,aarch64)) \
	$(if $(PICOLIBC_X86_64), \
	$(call picolibc_job,check,x86_64 link map,$(call picolibc_map,x86_64)), \
	$(call picolibc_job,check,x86_64,echo "picolibc x86_64 ... skipped: \
	PICOLIBC_X86_64 names no prefix"; exit 77)) \
	$(call picolibc_job,program,host,$(LIBC_HOST) test=$$TEST seed=$$SEED)

.PHONY: picolibc
picolibc: $(PICOLIBC_IMAGES) $(LIBC_HOST) ## what is linked with a libc alone: PICOLIBC_X86_64=prefix
	$(file >$(BUILD)/picolibc.plan,$(PICOLIBC_JOBS))
	@TEST='$(TEST)' SEED='$(SEED)' tests/run plan $(BUILD)/picolibc.plan
