# SPDX-License-Identifier: MIT
#
# Arenas beside the heap and other allocators: `make bench-bump`.
#
# One work in programs that differ in their way to have memory.  Those that use
# fallow link its objects rather than its archive, without core/string.c: the
# host's own memset() is what all shall use.

$(eval $(call flavour,host-bump,host,$(HOST_CC),-O2 -pthread $(HOST_PORT) \
	$(call model,SINGLE)))

BUMP_WAYS := arena sized malloc least
BUMP_PROGRAMS := $(BUMP_WAYS:%=$(BUILD)/bench/bump/%)
bump_of = $(patsubst %.c,$(BUILD)/host-bump/%.o,$(1))
BUMP_FALLOW := $(call bump_of,tests/bench/bump_heap.c boards/linux/mmap.c \
	$(filter-out core/string.c,$(CORE_SRCS)) $(host_SRCS))

$(BUMP_PROGRAMS): $(BUILD)/bench/bump/%: \
		$(BUILD)/host-bump/tests/bench/bump_%.o \
		$(call bump_of,tests/bench/bump.c tests/bench/bench.c \
		tests/bench/owner.c \
		tests/bench/bump_histogram.c $(addprefix tests/support/, \
		trace.c trace_head.c range.c))
	@mkdir -p $(@D)
	$(call say,LD,$@)$(HOST_CC) -pthread -o $@ $(filter %.o,$^)
$(BUILD)/bench/bump/arena $(BUILD)/bench/bump/sized: $(BUMP_FALLOW)

# In hundredths of what the compiler did.
SCALE ?= 10
BUMP_TRACE ?= cc1
bump_run = RUNS='$(RUNS)' PEERS='$(PEERS)' SCALE='$(SCALE)' \
	tests/bench/bump_run $(BUILD)/bench/bump $(BENCH_OURS) \
	tests/traces/$(BUMP_TRACE).trace

# The runner itself is tested with a little work.
bump_check = RUNS=1 SCALE=1 PEERS=glibc COUNT=0 tests/bench/bump_run \
	$(BUILD)/bench/bump $(BENCH_OURS) tests/traces/$(BUMP_TRACE).trace
BENCH_JOBS += $(call job,check,bump bench,120,$(bump_check),s,,$(bump_check))
programs: $(BUMP_PROGRAMS)

.PHONY: bench-bump
bench-bump: $(BUMP_PROGRAMS) bench-peers ## an arena beside the heap and other allocators: SCALE=10 RUNS=5 PEERS=
	@$(bump_run)
