# SPDX-License-Identifier: MIT
#
# Programs that compare allocators: `make bench`.
#
# The programs know nothing of fallow: each is linked with the host's libc, and
# tests/bench/run puts one allocator after the other under it.

BENCH := $(BUILD)/bench
BENCH_NAMES := larson handoff pingpong replace compiler graph growth large \
	cache churn server pool spike replay
# A compiler knows malloc() and free(), and leaves out pairs of them.
BENCH_CFLAGS := -std=c11 -O2 -g -pthread $(WARNINGS) -iquote tests/support \
	-fno-builtin-malloc -fno-builtin-calloc -fno-builtin-realloc \
	-fno-builtin-free -MMD -MP
BENCH_PROGRAMS := $(addprefix $(BENCH)/programs/,$(BENCH_NAMES))

$(BENCH)/programs/%.o: tests/bench/%.c tests/bench/bench.mk | deps
	@mkdir -p $(@D)
	$(call say,CC,$< (bench))$(HOST_CC) $(BENCH_CFLAGS) -c -o $@ $<
$(BENCH)/support/%.o: tests/support/%.c tests/bench/bench.mk | deps
	@mkdir -p $(@D)
	$(call say,CC,$< (bench))$(HOST_CC) $(BENCH_CFLAGS) -c -o $@ $<
$(BENCH)/programs/replay: $(addprefix $(BENCH)/support/, \
	trace.o trace_head.o range.o)
$(BENCH_PROGRAMS): %: %.o $(BENCH)/programs/bench.o
	$(call say,LD,$@)$(HOST_CC) -pthread -o $@ $^
-include $(wildcard $(BENCH)/programs/*.d $(BENCH)/support/*.d)

.PHONY: bench-programs
bench-programs: $(BENCH_PROGRAMS) ## the bench's programs alone

# What the runner is told: where all is, and every trace.
BENCH_SOME = $(if $(filter command%,$(origin PROGRAMS)),$(PROGRAMS))
BENCH_OURS := $(BUILD)/linux/libfallow.so
bench_run = RUNS='$(RUNS)' PROGRAMS='$(BENCH_SOME)' PEERS='$(PEERS)' \
	QUICK='$(QUICK)' tests/bench/run $(BENCH) $(BENCH_OURS) \
	$(BENCH)/programs '$(filter-out replay,$(BENCH_NAMES))' \
	$(TRACES:%=tests/traces/%.trace)

# An allocator that cannot be installed is left out: no reason to fail.
.PHONY: bench-peers
bench-peers: | deps
	@NO_INSTALL='$(NO_INSTALL)' tests/deps peers || \
		echo "bench: going on without" >&2

.PHONY: bench
bench: $(BENCH_PROGRAMS) bench-peers ## allocators side by side: RUNS=5 PROGRAMS= PEERS= QUICK=1
	@$(bench_run)

# The runner itself is tested with a little work.
bench_check = tests/bench/check $(BENCH_OURS) $(BENCH)/programs
BENCH_JOBS += $(call job,check,bench runner,120,make bench-check,s,, \
	$(bench_check))
programs: $(BENCH_PROGRAMS)

.PHONY: bench-check
bench-check: $(BENCH_PROGRAMS) ## that the bench's runner works
	@$(bench_check)
