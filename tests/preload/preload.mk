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
PRELOAD_SUPPORT := $(addprefix $(BUILD)/linux/tests/preload/,test.o host_main.o)
PRELOAD_FLAGS := -g -O1 -pthread -Wall -Wextra -Werror -iquote tests/support \
	-MMD -MP -fno-builtin-malloc

$(PRELOAD_SUPPORT): $(BUILD)/linux/tests/preload/%.o: tests/support/%.c | deps
	@mkdir -p $(@D)
	$(call say,CC,$< (preload))$(HOST_CC) -std=c11 $(PRELOAD_FLAGS) \
		-iquote core -c -o $@ $<
$(BUILD)/linux/tests/preload/%: tests/preload/%.c $(PRELOAD_SUPPORT)
	$(call say,CC,$< (preload))$(HOST_CC) -std=c11 $(PRELOAD_FLAGS) \
		-MF $@.d -o $@ $< $(PRELOAD_SUPPORT)
$(BUILD)/linux/tests/preload/culprit: tests/preload/culprit/culprit.c | deps
	@mkdir -p $(@D)
	$(call say,CC,$< (preload))$(HOST_CC) -std=c11 $(PRELOAD_FLAGS) \
		-MF $@.d -o $@ $<
# The same with the library linked: what a program has that takes no LD_PRELOAD.
$(BUILD)/linux/tests/preload/culprit-linked: \
		$(BUILD)/linux/tests/preload/culprit $(PRELOAD)
	$(call say,LD,$@)$(HOST_CC) -std=c11 $(PRELOAD_FLAGS) -MF $@.d -MT $@ \
		-o $@ tests/preload/culprit/culprit.c \
		-Wl,--no-as-needed -L$(dir $(PRELOAD)) -l:$(notdir $(PRELOAD)) \
		-Wl,-rpath,$(abspath $(dir $(PRELOAD)))
$(BUILD)/linux/tests/preload/%: tests/preload/%.cc $(PRELOAD_SUPPORT)
	$(call say,CXX,$< (preload))$(HOST_CXX) -std=c++17 $(PRELOAD_FLAGS) \
		-MF $@.d -o $@ $< $(PRELOAD_SUPPORT)

# Sweeps often, so that what they should do is seen soon.
PRELOAD_ENV_sweeper := FALLOW_EPOCH_MS=10 FALLOW_FLOOR_EPOCHS=20
PRELOAD_ENV_hugepages := FALLOW_EPOCH_MS=10 FALLOW_FLOOR_EPOCHS=20
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
PRELOAD_ALL := $(PRELOAD_NAMES) real bad
PRELOAD_JOBS = $(foreach n,$(PRELOAD_ALL),$(call preload_job,$(n)))

ifneq ($(filter preload-test,$(MAKECMDGOALS)),)
$(foreach n,$(PROGRAM),$(if $(filter $(n),$(PRELOAD_ALL)),,$(error PROGRAM=$(n) \
	is not there: PROGRAM= is one of $(PRELOAD_ALL))))
endif
.PHONY: preload-test
preload-test: $(PRELOAD_LIBRARY) $(PRELOAD_PROGRAMS) ## libfallow.so: PROGRAM=family|real|bad..., TEST=
	$(file >$(BUILD)/preload.plan,$(foreach n,$(or $(PROGRAM),$(PRELOAD_ALL)), \
		$(call preload_job,$(n))))
	@TEST='$(TEST)' SEED='$(SEED)' SECONDS='$(SECONDS)' \
		tests/run each $(BUILD)/preload.plan
