# SPDX-License-Identifier: MIT
#
# Allocators side by side.
#
#   tests/bench/NAME.c     a program of BENCH_NAMES, with bench.c for its main:
#                          it knows nothing of fallow, and tests/bench/run puts
#                          one allocator after the other under it (`make bench`)
#   tests/bench/huge.c     one more, for `make bench-huge` alone
#   tests/bench/cells.c    what a pair of malloc() and free() costs, for
#                          callgrind (`make bench-instructions`)
#   tests/bench/guest_*.c  the same as images (`make bench-guest`)
#   tests/bench/counts     what images count that are among tests/guest

BENCH := $(BUILD)/bench
BENCH_NAMES := larson handoff pingpong replace compiler graph growth large \
	cache churn server pool spike replay
# A compiler knows malloc() and free(), and leaves out pairs of them.
BENCH_CFLAGS := -std=c11 -O2 -g -pthread $(WARNINGS) -iquote tests/support \
	-fno-builtin-malloc -fno-builtin-calloc -fno-builtin-realloc \
	-fno-builtin-free -MMD -MP
BENCH_PROGRAMS := $(addprefix $(BENCH)/programs/,$(BENCH_NAMES) huge)

$(BENCH)/programs/%.o: tests/bench/%.c tests/bench/bench.mk | deps
	@mkdir -p $(@D)
	$(call say,CC,$< (bench))$(HOST_CC) $(BENCH_CFLAGS) -c -o $@ $<
$(BENCH)/support/%.o: tests/support/%.c tests/bench/bench.mk | deps
	@mkdir -p $(@D)
	$(call say,CC,$< (bench))$(HOST_CC) $(BENCH_CFLAGS) -c -o $@ $<
$(BENCH)/programs/replay: $(addprefix $(BENCH)/support/, \
	trace.o trace_head.o range.o)
$(BENCH_PROGRAMS): $(BENCH)/programs/bench.o
$(BENCH)/programs/cells: $(BENCH)/support/cells.o
$(BENCH_PROGRAMS) $(BENCH)/programs/cells: %: %.o $(BENCH)/programs/owner.o
	$(call say,LD,$@)$(HOST_CC) -pthread -o $@ $^
-include $(wildcard $(BENCH)/programs/*.d $(BENCH)/support/*.d)

.PHONY: bench-programs
bench-programs: $(BENCH_PROGRAMS) ## the bench's programs alone

# What the runner is told: where all is, and every trace.
BENCH_OURS := $(PRELOAD)
bench_run = RUNS='$(RUNS)' PROGRAMS='$(PROGRAMS)' PEERS='$(PEERS)' \
	QUICK='$(QUICK)' tests/bench/run $(BENCH) $(BENCH_OURS) \
	$(BENCH)/programs '$(filter-out replay,$(BENCH_NAMES))' \
	$(TRACES:%=tests/traces/%.trace)

# An allocator that cannot be installed is left out: no reason to fail.
.PHONY: bench-peers
bench-peers: | deps
	@NO_INSTALL='$(NO_INSTALL)' tests/deps peers || \
		echo "bench: going on without" >&2

.PHONY: bench
bench: $(BENCH_PROGRAMS) $(BENCH_OURS) bench-peers ## allocators side by side: RUNS=5 PROGRAMS= PEERS= QUICK=1
	@$(bench_run)

# The runner itself is tested with a little work.
bench_check = tests/bench/check $(BENCH_OURS) $(BENCH)/programs
BENCH_JOBS += $(call job,check,bench runner,120,make bench-check,s,, \
	$(bench_check))
programs: $(BENCH_PROGRAMS) $(BENCH_OURS)

.PHONY: bench-check
bench-check: $(BENCH_PROGRAMS) $(BENCH_OURS) ## that the bench's runner works
	@$(bench_check)

# ------------------------------------------------------------- huge pages --

huge_run = RUNS='$(1)' QUICK='$(2)' tests/bench/huge_run $(BENCH_OURS) \
	$(BENCH)/programs/huge
BENCH_JOBS += $(call job,check,huge bench,120,make bench-huge QUICK=1,s,, \
	$(call huge_run,1,1))

.PHONY: bench-huge
bench-huge: $(BENCH)/programs/huge $(BENCH_OURS) ## a walk with huge pages, without, adaptive: RUNS=5 QUICK=1
	@$(call huge_run,$(RUNS),$(QUICK))

# ----------------------------------------------------------- instructions --

# Compiled when valgrind's header is there, if it can be.
$(BENCH)/programs/cells.o: | bench-peers

.PHONY: bench-instructions
bench-instructions: $(BENCH)/programs/cells $(BENCH_OURS) ## instructions of a pair under valgrind, each allocator: PEERS=
	@PEERS='$(PEERS)' tests/bench/instructions hosted $(BENCH) \
		$(BENCH_OURS) $<

# The images that count: in three models, and with picolibc's malloc.
CELLS_MODELS := single thread irq
CELLS_MEM := 384M
cells_flavour = $($(1)_ARCH)-$(if $(filter irq,$(2)),bare,$(2))

# $(call cells_image,BOARD,NAME,FLAVOUR,OBJECT,ARCHIVES)
define cells_image
CELLS_IMAGES += $(BUILD)/$(1)/cells-$(2).elf
$(BUILD)/$(1)/cells-$(2).elf: $(patsubst %,$(BUILD)/$(3)/%.o,$(basename \
		tests/bench/guest_cells.c $(4) $($(1)_SRCS))) \
		$(BUILD)/$(3)/libguest.a $(BUILD)/$(3)/libfallow.a $(5) \
		$($(1)_LDSCRIPT)
	@mkdir -p $$(@D)
	$$(call say,LD,$$@)$($($(1)_ARCH)_LD) $($(1)_LDFLAGS) -nostdlib \
		--gc-sections -z noexecstack -T $($(1)_LDSCRIPT) \
		-o $$@ $$(filter %.o,$$^) --start-group $$(filter %.a,$$^) \
		--end-group
endef
CELLS_IMAGES :=
$(foreach b,$(BOARDS),$(foreach m,$(CELLS_MODELS), \
	$(eval $(call cells_image,$(b),$(m),$(call cells_flavour,$(b),$(m)),tests/bench/guest_fallow.c,$(BUILD)/$(call cells_flavour,$(b),$(m))/libfallow-malloc.a))))
# The libc with a memset of its own, which the board does not use, and the libc
# that zeroes nothing: see guest_picolibc.c.
$(BENCH)/picolibc.a: memset := picolibc_memset
$(BENCH)/picolibc-0.a: memset := guest_zero
$(BENCH)/picolibc.a $(BENCH)/picolibc-0.a: \
		$(PICOLIBC_AARCH64)/lib/libc.a tests/bench/bench.mk | deps
	@mkdir -p $(@D)
	$(call say,OBJCOPY,$@)$(AARCH64_CROSS)objcopy \
		--redefine-sym memset=$(memset) $< $@
# Before there is one, apt has to install it.
$(PICOLIBC_AARCH64)/lib/libc.a: | deps
$(foreach v,picolibc picolibc-0, \
	$(eval $(call cells_image,virt,$(v),aarch64-bare,tests/bench/guest_picolibc.c,$(BENCH)/$(v).a)))

# It zeroes byte by byte: more would take minutes.
picolibc_CELLS := -fw_cfg name=opt/fallow/args$(comma)string=largest=256
cells_job = '$(1)/$(2)=$($(1)_QEMU) -m $(CELLS_MEM) $(ICOUNT) $($(2)_CELLS) \
	-kernel $(BUILD)/$(1)/cells-$(2).elf'

.PHONY: bench-guest
bench-guest: $(CELLS_IMAGES) ## the same in both guests, and picolibc's malloc
	@tests/bench/instructions guest $(BENCH) \
		$(foreach b,$(BOARDS),$(foreach m,$(CELLS_MODELS), \
		$(call cells_job,$(b),$(m)))) \
		$(foreach v,picolibc picolibc-0,$(call cells_job,virt,$(v)))
