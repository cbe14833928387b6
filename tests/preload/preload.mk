# SPDX-License-Identifier: MIT
#
# Tests of libfallow.so: PRELOAD_PROGRAMS, PRELOAD_JOBS.
#
#   tests/preload/*.c, *.cc   programs of tests that know nothing of fallow and
#                             are started with the library preloaded
#   tests/preload/real        real programs, beside the same without it
#   tests/preload/bad         settings, limits and misuse that must be survived,
#                             by the program in tests/preload/culprit/

PRELOAD_NAMES := $(basename $(notdir $(sort \
	$(wildcard tests/preload/*.c tests/preload/*.cc))))
PRELOAD_PROGRAMS := $(addprefix $(BUILD)/linux/tests/preload/, \
	$(PRELOAD_NAMES) culprit culprit-linked)
PRELOAD_FLAGS := -g -O1 -pthread -Wall -Wextra -Werror -iquote tests/support \
	-MMD -MP -fno-builtin-malloc

# Those that run for the other CPU too, under QEMU's emulation of Linux.
OTHER_NAMES := family operators threads forks sweeper
OTHER_PROGRAMS := $(addprefix $(BUILD)/linux-$(LINUX_OTHER)/tests/preload/, \
	$(OTHER_NAMES) culprit)

# $(call preload_programs,FLAVOUR,COMPILER OF C,OF C++)
define preload_programs
$(1)_PRELOAD_SUPPORT := $(addprefix $(BUILD)/$(1)/tests/preload/, \
	test.o host_main.o)
$$($(1)_PRELOAD_SUPPORT): $(BUILD)/$(1)/tests/preload/%.o: tests/support/%.c | deps
	@mkdir -p $$(@D)
	$$(call say,CC,$$< ($(1), preload))$(2) -std=c11 $$(PRELOAD_FLAGS) \
		-iquote core -c -o $$@ $$<
$(BUILD)/$(1)/tests/preload/%: tests/preload/%.c $$($(1)_PRELOAD_SUPPORT)
	$$(call say,CC,$$< ($(1), preload))$(2) -std=c11 $$(PRELOAD_FLAGS) \
		-MF $$@.d -o $$@ $$< $$($(1)_PRELOAD_SUPPORT)
$(BUILD)/$(1)/tests/preload/culprit: tests/preload/culprit/culprit.c | deps
	@mkdir -p $$(@D)
	$$(call say,CC,$$< ($(1), preload))$(2) -std=c11 $$(PRELOAD_FLAGS) \
		-MF $$@.d -o $$@ $$<
$(BUILD)/$(1)/tests/preload/%: tests/preload/%.cc $$($(1)_PRELOAD_SUPPORT)
	$$(call say,CXX,$$< ($(1), preload))$(3) -std=c++17 $$(PRELOAD_FLAGS) \
		-MF $$@.d -o $$@ $$< $$($(1)_PRELOAD_SUPPORT)
endef
$(eval $(call preload_programs,linux,$(HOST_CC),$(HOST_CXX)))
$(eval $(call preload_programs,linux-$(LINUX_OTHER),$($(LINUX_OTHER)_CC),$($(LINUX_OTHER)_CXX)))

# The same with the library linked: what a program has that takes no LD_PRELOAD.
$(BUILD)/linux/tests/preload/culprit-linked: \
		$(BUILD)/linux/tests/preload/culprit $(PRELOAD)
	$(call say,LD,$@)$(HOST_CC) -std=c11 $(PRELOAD_FLAGS) -MF $@.d -MT $@ \
		-o $@ tests/preload/culprit/culprit.c \
		-Wl,--no-as-needed -L$(dir $(PRELOAD)) -l:$(notdir $(PRELOAD)) \
		-Wl,-rpath,$(abspath $(dir $(PRELOAD)))

# Sweeps often, so that what they should do is seen soon.
PRELOAD_ENV_sweeper := FALLOW_EPOCH_MS=10 FALLOW_FLOOR_EPOCHS=20
PRELOAD_ENV_hugepages := FALLOW_EPOCH_MS=10 FALLOW_FLOOR_EPOCHS=20
# Chunks are tried as soon and as often as they can be, and whoever allocates may
# give memory back meanwhile.
PRELOAD_ENV_collapses := FALLOW_LARGE=adaptive FALLOW_EPOCH_MS=1 \
	FALLOW_FLOOR_BYTES=0 FALLOW_PACE_FROM_BYTES=1 FALLOW_MISUSE=stop
# A misuse is one of the library's own here, and ends the program.
PRELOAD_ENV_forks := FALLOW_EPOCH_MS=1 FALLOW_FLOOR_BYTES=0 FALLOW_MISUSE=stop
PRELOAD_COMMAND_real = tests/preload/real $(PRELOAD_LIBRARY)
PRELOAD_COMMAND_bad = tests/preload/bad $(PRELOAD_LIBRARY) $(BUILD)/linux/tests/preload

# The library that is tested.
PRELOAD_LIBRARY ?= $(PRELOAD)
# $(call preload_job,NAME): a program, with the settings that it wants, or one of
# the two scripts.
preload_job = $(call job,program,preload $(1),600, \
	make preload-test PROGRAM=$(1),s,,$(or $(PRELOAD_COMMAND_$(1)),env \
	$(PRELOAD_ENV_$(1)) LD_PRELOAD=$(PRELOAD_LIBRARY) \
	$(BUILD)/linux/tests/preload/$(1)))

# The other CPU's.  QEMU keeps an account of every page that may be touched, so
# the window is no TiB; 16 GiB are enough for a thousand threads.
OTHER_QEMU := qemu-$(LINUX_OTHER)
OTHER_RUN := $(OTHER_QEMU) -L /usr/$(LINUX_OTHER)-linux-gnu
OTHER_ENV := PRELOAD_EMULATED=1 FALLOW_WINDOW_BYTES=17179869184
# A child could not have one.
OTHER_ENV_forks := FALLOW_SWEEPER=0
OTHER_COMMAND_bad = tests/preload/bad $(PRELOAD_OTHER) \
	$(BUILD)/linux-$(LINUX_OTHER)/tests/preload $(OTHER_RUN)
# $(call other_job,NAME)
other_job = $(call job,program,preload $(LINUX_OTHER) $(1),600, \
	make preload-test PROGRAM=$(LINUX_OTHER)-$(1),s,, \
	command -v $(OTHER_QEMU) >/dev/null || { echo "$(1) ... skipped: there \
	is no $(OTHER_QEMU)"; echo "0 passed$(comma) 0 failed$(comma) 1 skipped"; \
	exit; }; env $(OTHER_ENV) $(PRELOAD_ENV_$(1)) $(OTHER_ENV_$(1)) $(or $(OTHER_COMMAND_$(1)), \
	$(OTHER_RUN) -E LD_PRELOAD=$(PRELOAD_OTHER) \
	$(BUILD)/linux-$(LINUX_OTHER)/tests/preload/$(1)))
OTHER_ALL := $(OTHER_NAMES) bad

PRELOAD_ALL := $(PRELOAD_NAMES) real bad $(OTHER_ALL:%=$(LINUX_OTHER)-%)
preload_or_other = $(if $(filter $(LINUX_OTHER)-%,$(1)),$(call \
	other_job,$(1:$(LINUX_OTHER)-%=%)),$(call preload_job,$(1)))
PRELOAD_JOBS = $(foreach n,$(PRELOAD_ALL),$(call preload_or_other,$(n)))

ifneq ($(filter preload-test,$(MAKECMDGOALS)),)
$(foreach n,$(PROGRAM),$(if $(filter $(n),$(PRELOAD_ALL)),,$(error PROGRAM=$(n) \
	is not there: PROGRAM= is one of $(PRELOAD_ALL))))
endif
# What is needed of what is asked for.
preload_wants_other = $(filter $(LINUX_OTHER)-%,$(or $(PROGRAM),$(PRELOAD_ALL)))
.PHONY: preload-test
preload-test: $(PRELOAD_LIBRARY) $(PRELOAD_PROGRAMS) \
		$(if $(preload_wants_other),$(PRELOAD_OTHER) $(OTHER_PROGRAMS)) ## libfallow.so: PROGRAM=family|real|bad..., TEST=
	$(file >$(BUILD)/preload.plan,$(foreach n,$(or $(PROGRAM),$(PRELOAD_ALL)), \
		$(call preload_or_other,$(n))))
	@TEST='$(TEST)' SEED='$(SEED)' SECONDS='$(SECONDS)' \
		tests/run each $(BUILD)/preload.plan
