# SPDX-License-Identifier: MIT
#
# fallow's build.  `make help` says what can be asked for.
#
# Everything that is made goes to build/, in build/<arch>-<flavour>/ what is
# compiled in one way: the archives, and the programs and images linked with
# them.  One Makefile and the two it includes know all of it; the parts that
# a board knows about itself are in boards/<board>/board.mk, the lists of tests
# and what they run on are in tests/tests.mk.

MAKEFLAGS += --no-builtin-rules --no-builtin-variables
.SUFFIXES:
.DELETE_ON_ERROR:
.SECONDARY:
.DEFAULT_GOAL := lib

# As many jobs as there are processors, unless the caller says how many.
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
ifeq ($(filter -j%,$(MAKEFLAGS)),)
MAKEFLAGS += -j$(JOBS)
endif

# ---------------------------------------------------------------- settings --

# The board of `run`, `guest` and `image`: q35 or virt.
BOARD ?= q35
# The guest's memory (default: 64M, for `run` 256M) and its number of CPUs.
MEM ?=
CPUS ?= 1
# A CPU model of QEMU, if not the board's own.
MODEL_CPU ?=
# The trace that `run` replays: tests/traces/$(TRACE).trace
TRACE ?= cc1
# Which tests to run (part of a name), and the seed of their random numbers.
TEST ?=
SEED ?= 1
# How many seconds each storm takes at least; `soak` has a default of its own.
SECONDS ?=
# Optimisation and the context model of the archives of `lib`.
OPT ?= -O2
MODEL ?= IRQ
# More flags for everything that is compiled.
CFLAGS ?=
# V=1 prints the commands.
V ?= 0
# Where everything that is made goes.
BUILD ?= build
ifeq ($(strip $(BUILD)),)
$(error BUILD= names no directory)
endif
ifeq ($(filter $(MODEL),SINGLE IRQ PREEMPT THREAD),)
$(error MODEL=$(MODEL) is not there: MODEL= is one of SINGLE IRQ PREEMPT THREAD)
endif

HOST_CPU := $(shell uname -m)
X86_64_CROSS ?= $(if $(filter x86_64,$(HOST_CPU)),,x86_64-linux-gnu-)
AARCH64_CROSS ?= $(if $(filter aarch64,$(HOST_CPU)),,aarch64-linux-gnu-)
HOST_CC ?= gcc
CLANG ?= clang

Q := $(if $(filter 1,$(V)),,@)
say = $(if $(filter 1,$(V)),,@printf '  %-7s %s\n' $(1) '$(strip $(2))';)
comma := ,

# ----------------------------------------------------------------- flags --

# Only public headers are found in angle brackets: core/string.h is not <string.h>.
# A file finds its neighbours first, then a test what is beside it in support.
INCLUDES := -Icore/include -iquote tests/support -iquote core -iquote arch \
	-iquote boards
WARNINGS := -Wall -Wextra -Werror -Wundef -Wshadow -Wstrict-prototypes \
	-Wmissing-prototypes -Wvla
COMMON := -std=c11 -g $(WARNINGS) $(INCLUDES) -MMD -MP

# What runs without an operating system.  No stack protector: its symbols are
# the embedder's, and the archive needs no more than tests/support/undefined.txt.
# No unwind tables, which are loaded: gcc for aarch64 makes them unless both
# options say no.  The debug information has its own.
FREESTANDING := -ffreestanding -nostdlib -fno-stack-protector \
	-fno-asynchronous-unwind-tables -fno-unwind-tables \
	-ffunction-sections -fdata-sections
# At most 2 KiB of stack a call: no single frame may have that much.
FRAMES := -Wframe-larger-than=2048

x86_64_FLAGS := -m64 -mno-red-zone -mcmodel=kernel -mgeneral-regs-only \
	-fno-pic -fcf-protection=none
aarch64_FLAGS := -mgeneral-regs-only -fno-pic
# Of gcc alone: clang has no outline atomics to begin with on this target.
aarch64_GCC_FLAGS := -mno-outline-atomics
x86_64_CC := $(X86_64_CROSS)gcc
aarch64_CC := $(AARCH64_CROSS)gcc
x86_64_CLANG := $(CLANG) --target=x86_64-none-elf
aarch64_CLANG := $(CLANG) --target=aarch64-none-elf
x86_64_BIN := $(X86_64_CROSS)
aarch64_BIN := $(AARCH64_CROSS)
host_BIN :=

HOSTED := -pthread -DFALLOW_DEBUG=1
HOST_PORT := -DFALLOW_PORT_HEADER='"host/port.h"'

# ---------------------------------------------------------------- sources --

CORE_SRCS := $(sort $(wildcard core/*.c))
SHIM_SRCS := $(sort $(wildcard core/shim/*.c))
x86_64_SRCS := $(sort $(wildcard arch/x86_64/*.c))
aarch64_SRCS := $(sort $(wildcard arch/aarch64/*.c))
host_SRCS := $(sort $(wildcard arch/host/*.c))

# ---------------------------------------------------------------- flavours --

# $(call flags_note,FILE,FLAGS): FILE is new iff the flags are; what is compiled
# depends on it, so that `make lib MODEL=SINGLE` compiles again.
ifeq ($(filter help clean deps,$(MAKECMDGOALS)),)
flags_note = $(if $(subst $(strip $(file <$(1))),,$(strip $(2))), \
	$(shell mkdir -p $(dir $(1)))$(file >$(1),$(strip $(2))))
endif

# $(call flavour,DIR,ARCH,COMPILER,FLAGS): build/DIR/libfallow.a and
# libfallow-malloc.a, and the rules for everything else compiled this way.
FLAVOURS :=
define flavour
FLAVOURS += $(1)
$(1)_ARCH := $(2)
$(1)_CC := $(3)
$(1)_CFLAGS := $$(COMMON) $(4) $$(CFLAGS)
$(1)_LIB := $(BUILD)/$(1)/libfallow.a
$(BUILD)/$(1)/libfallow.a: $$(patsubst %.c,$(BUILD)/$(1)/%.o,$(CORE_SRCS) $($(2)_SRCS))
$(BUILD)/$(1)/libfallow-malloc.a: $$(patsubst %.c,$(BUILD)/$(1)/%.o,$(SHIM_SRCS))
$(BUILD)/$(1)/%.a: | deps
	@mkdir -p $$(@D)
	$$(call say,AR,$$@)rm -f $$@ && $($(2)_BIN)ar crD $$@ $$(filter %.o,$$^)
$$(call flags_note,$(BUILD)/$(1)/flags,$(3) $$($(1)_CFLAGS))
$(BUILD)/$(1)/%.o: %.c $(BUILD)/$(1)/flags | deps
	@mkdir -p $$(@D)
	$$(call say,CC,$$< ($(1)))$(3) $$($(1)_CFLAGS) -Iarch/$(2)/include \
		$$(FILE_CFLAGS) -c -o $$@ $$<
$(BUILD)/$(1)/%.o: %.S $(BUILD)/$(1)/flags | deps
	@mkdir -p $$(@D)
	$$(call say,AS,$$< ($(1)))$(3) $$(filter-out -std=c11,$$($(1)_CFLAGS)) \
		-Iarch/$(2)/include -c -o $$@ $$<
endef

# gcc turns a loop that copies into a call of memcpy, which would be this one,
# unless there is no libc.
$(BUILD)/host-%/core/string.o: FILE_CFLAGS := -ffreestanding

# The archives an embedder links: no assertions.
$(eval $(call flavour,x86_64-bare,x86_64,$(x86_64_CC),$(FREESTANDING) $(FRAMES) $(x86_64_FLAGS) $(OPT) -DFALLOW_MODEL=FALLOW_MODEL_$(MODEL)))
$(eval $(call flavour,aarch64-bare,aarch64,$(aarch64_CC),$(FREESTANDING) $(FRAMES) $(aarch64_FLAGS) $(aarch64_GCC_FLAGS) $(OPT) -DFALLOW_MODEL=FALLOW_MODEL_$(MODEL)))

include $(wildcard boards/*/board.mk)
include tests/tests.mk

# ----------------------------------------------------------------- targets --

.PHONY: lib
LIBS := $(foreach a,x86_64 aarch64,$(BUILD)/$(a)-bare/libfallow.a \
	$(BUILD)/$(a)-bare/libfallow-malloc.a)
lib: $(LIBS) ## both archives for both CPUs; MODEL=, OPT=, CFLAGS=

# `make run` must not ask for what only the tests need.
DEPS := $(sort $(foreach g,$(or $(MAKECMDGOALS),lib), \
	$(if $(filter lib model preload,$(g)),$(g),$(if $(filter replay-host,$(g)),host, \
	$(if $(filter soak,$(g)),test soak, \
	$(if $(filter bench-return,$(g)),test plot, \
	$(if $(filter bench bench-programs bench-instructions \
		bench-bump,$(g)), \
	bench preload, \
	$(if $(filter run,$(g)),run-$(BOARD),test))))))))

.PHONY: deps
deps: ## make sure of the tools; NO_INSTALL=1 never installs
	@NO_INSTALL='$(NO_INSTALL)' tests/deps $(DEPS)

.PHONY: clean
clean: ## remove build/
	rm -rf $(BUILD)

.PHONY: help
help: ## this text
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' \
		$(MAKEFILE_LIST)

-include $(foreach f,$(FLAVOURS),$(shell find $(BUILD)/$(f) -name '*.d' 2>/dev/null))
