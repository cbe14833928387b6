# SPDX-License-Identifier: MIT
#
# What is tested, compiled in which ways, and on what it runs.
#
#   tests/unit/test_*.c   host programs, in each of UNIT_FLAVOURS
#   tests/unit/fake_*.c   host programs over tests/support/port_fake.h, where a
#                         test sets the context and the interrupt flag itself
#   tests/unit/preempt_*.c   host programs in the model PREEMPT alone
#   tests/stress/*.c      threaded host programs, under the thread sanitizer too
#   tests/misuse/*.c      host programs whose whole output is compared with
#                         tests/misuse/*.expected
#   tests/harness/*.c     the same, about the code that all other tests rely on
#   tests/returns/*.c     a host program of `bench-return` alone
#   tests/bench/*         allocators side by side, see tests/bench/bench.mk
#   tests/preload/        what is run under libfallow.so: preload.mk
#   tests/guest/*.c       images, linked with each board's start-up code; a name
#                         that ends in _x86_64 or _aarch64 is of that CPU alone
#
# An image's settings are variables with its name in front:
#   NAME_MEMS     the memories it runs with (default: GUEST_MEMS)
#   NAME_CPUS     the numbers of CPUs, each with each of the memories (default:
#                 CPUS); they run in parallel, each a thread of the host's
#                 (but see TURNS); the second number is that of the machines
#                 and CPU models which are not the board's own
#   NAME_MACHINES `none`: not on those machines
#   NAME_SECONDS  after which it is killed and has failed (default: 120)
#   NAME_LIB      `bare` links the archives without assertions
#   NAME_CONTEXTS other context models in which it runs, as NAME-single and so
#                 on, each with the first of the memories; see MODEL_IMAGES

GUEST_MEMS := 16M 64M 512M
# CPU models beside the board's own, each with the first of the memories.
q35_MODELS := max
virt_MODELS := cortex-a72
# Machines beside the board's own, for images with a setting for CPUs that are
# not COUNTED.
virt_MACHINES := virt,gic-version=3 virt,virtualization=on
replay_LIB := bare
bump_MEMS := 16M
cpus_MEMS := 64M
cpus_CPUS := 1 8 2 4
cpus_SECONDS := 600
board_x86_64_CPUS := 1 4
board_aarch64_CPUS := 1 4
shootdown_MEMS := 64M
shootdown_CPUS := 1 4 2
shootdown_SECONDS := 600
bbm_aarch64_MEMS := 64M
bbm_aarch64_CPUS := 1 4
bbm_aarch64_MACHINES := none
bbm_aarch64_SECONDS := 600
shootdown_x86_64_MEMS := 64M
shootdown_x86_64_CPUS := 1 4 2
shootdown_x86_64_SECONDS := 600
nmi_MEMS := 64M
nmi_CPUS := 1 4 2
nmi_SECONDS := 600
storm_MEMS := 16M
storm_CPUS := 1 2 4
storm_SECONDS := 600
storm-preempt_SECONDS := 600
# Images whose CPUs take turns in one thread where they are more than the host
# has: mostly they wait for each other, and a thread that waits keeps the host
# from the one it waits for, for milliseconds each time (aarch64's YIELD does
# nothing in QEMU then).  In turns who waits gives up its own at once.  With two
# CPUs, with more on a larger host, and in `soak` they do run in parallel.
TURNS = cpus shootdown shootdown_x86_64 nmi preempt \
	$(addprefix preempt-,$(preempt_CONTEXTS))
HOST_CPUS := $(shell seq $$(nproc 2>/dev/null || echo 2))
# Other context models that an image runs in, each with the first of the
# memories.
MODEL_IMAGES := heap models preempt storm bench_hot
heap_CONTEXTS := single preempt thread
models_MEMS := 64M
models_CONTEXTS := single preempt thread
preempt_MEMS := 32M
preempt_CPUS := 1 4 2
preempt_CONTEXTS := preempt thread
storm_CONTEXTS := preempt
# What counts instructions.
COUNTED := bench_hot bench_cpus
bench_hot_MEMS := 64M
bench_hot_LIB := bare
bench_hot_CONTEXTS := single preempt thread
bench_cpus_MEMS := 64M
bench_cpus_CPUS := 4
bench_cpus_LIB := bare
returns_LIB := bare

# ---------------------------------------------------------------- flavours --

UNIT_FLAVOURS := host-gcc host-clang host-single host-preempt

ASAN := -fsanitize=address$(comma)undefined -fno-sanitize-recover=all \
	-fno-omit-frame-pointer
TSAN := -fsanitize=thread -fno-omit-frame-pointer
FAKE_PORT := -DFALLOW_PORT_HEADER='"port_fake.h"'
model = -DFALLOW_MODEL=FALLOW_MODEL_$(1)
hosted = $(HOSTED) $(HOST_PORT) $(call model,$(1))

$(eval $(call flavour,host-gcc,host,$(HOST_CC),-O1 $(ASAN) $(call hosted,THREAD)))
$(eval $(call flavour,host-clang,host,$(CLANG),-O2 -DFALLOW_USAGE=1 $(call hosted,THREAD)))
# Locks that barge, as those of boards/linux: host-gcc has the fair ones.  With
# two threads of eight running, a fair one waits out the scheduler's slices.
$(eval $(call flavour,host-tsan,host,$(HOST_CC),-O1 $(TSAN) -DFL_PORT_LOCK_FAIR=0 $(call hosted,THREAD)))
$(eval $(call flavour,host-single,host,$(HOST_CC),-O2 $(call hosted,SINGLE)))
$(eval $(call flavour,host-preempt,host,$(HOST_CC),-O2 $(call hosted,PREEMPT)))
# Small machines': of `soak` alone.
$(eval $(call flavour,host-slice12,host,$(HOST_CC),-O1 $(ASAN) -DFALLOW_SLICE_LOG2=12 $(call hosted,THREAD)))
# The same: aarch64's larger granules.
$(eval $(call flavour,host-granule14,host,$(HOST_CC),-O1 $(ASAN) -DFALLOW_GRANULE_LOG2=14 $(call hosted,THREAD)))
$(eval $(call flavour,host-granule16,host,$(HOST_CC),-O1 $(ASAN) -DFALLOW_GRANULE_LOG2=16 $(call hosted,THREAD)))
$(eval $(call flavour,host-fake,host,$(HOST_CC),-O1 $(ASAN) $(HOSTED) $(FAKE_PORT) $(call model,IRQ)))
$(eval $(call flavour,host-fake-preempt,host,$(HOST_CC),-O1 $(ASAN) $(HOSTED) $(FAKE_PORT) $(call model,PREEMPT)))

# Images are linked with archives that have their assertions on.
debug = $(FREESTANDING) $(OPT) -DFALLOW_DEBUG=1 $(call model,$(1))
$(eval $(call flavour,x86_64-debug,x86_64,$(x86_64_CC),$(call debug,IRQ) $(x86_64_FLAGS)))
$(eval $(call flavour,aarch64-debug,aarch64,$(aarch64_CC),$(call debug,IRQ) $(aarch64_FLAGS) $(aarch64_GCC_FLAGS)))

# The same in the other models.
OTHER_MODELS := single preempt thread
model_single := SINGLE
model_preempt := PREEMPT
model_thread := THREAD
$(foreach m,$(OTHER_MODELS), \
	$(eval $(call flavour,x86_64-debug-$(m),x86_64,$(x86_64_CC),$(call debug,$(model_$(m))) $(x86_64_FLAGS))) \
	$(eval $(call flavour,aarch64-debug-$(m),aarch64,$(aarch64_CC),$(call debug,$(model_$(m))) $(aarch64_FLAGS) $(aarch64_GCC_FLAGS))))

# Other ways in which an embedder may compile the archives: each must compile
# without a warning, and need and define no other symbols.  Those of a kernel
# made from Limine's template are its own, with each compiler.
LIMINE := -std=gnu11 -O2 -pipe -ffreestanding -fno-stack-protector \
	-fno-stack-check -fno-lto -fno-PIC -ffunction-sections \
	-fdata-sections -m64 -march=x86-64 -mabi=sysv -mno-80387 -mno-mmx \
	-mno-sse -mno-sse2 -mno-red-zone -mcmodel=kernel
bare = $(FREESTANDING) $($(1)_FLAGS) $(call model,$(2))
gcc_flags = $(aarch64_GCC_FLAGS)

$(eval $(call flavour,x86_64-limine,x86_64,$(x86_64_CC),$(LIMINE)))
$(eval $(call flavour,x86_64-limine-clang,x86_64,$(x86_64_CLANG),$(LIMINE)))
$(eval $(call flavour,x86_64-pie,x86_64,$(x86_64_CC),$(FREESTANDING) -mno-red-zone -mgeneral-regs-only -O2 -fPIE))
$(eval $(call flavour,x86_64-clang,x86_64,$(x86_64_CLANG),$(call bare,x86_64,IRQ) $(FRAMES) -O2))
$(eval $(call flavour,aarch64-clang,aarch64,$(aarch64_CLANG),$(call bare,aarch64,IRQ) $(FRAMES) -O2))
$(eval $(call flavour,x86_64-O0,x86_64,$(x86_64_CC),$(call bare,x86_64,IRQ) -O0 -DFALLOW_USAGE=1))
$(eval $(call flavour,aarch64-O0,aarch64,$(aarch64_CC),$(call bare,aarch64,IRQ) $(gcc_flags) -O0 -DFALLOW_USAGE=1))
$(eval $(call flavour,x86_64-Os,x86_64,$(x86_64_CC),$(call bare,x86_64,IRQ) -Os))
$(eval $(call flavour,aarch64-Os,aarch64,$(aarch64_CC),$(call bare,aarch64,IRQ) $(gcc_flags) -Os))
$(eval $(call flavour,x86_64-single,x86_64,$(x86_64_CC),$(call bare,x86_64,SINGLE) -O2))
$(eval $(call flavour,aarch64-single,aarch64,$(aarch64_CC),$(call bare,aarch64,SINGLE) $(gcc_flags) -O2))
$(eval $(call flavour,x86_64-preempt,x86_64,$(x86_64_CC),$(call bare,x86_64,PREEMPT) -O2))
$(eval $(call flavour,aarch64-preempt,aarch64,$(aarch64_CC),$(call bare,aarch64,PREEMPT) $(gcc_flags) -O2))
$(eval $(call flavour,aarch64-preempt-clang,aarch64,$(aarch64_CLANG),$(call bare,aarch64,PREEMPT) -O2))
$(eval $(call flavour,x86_64-preempt-clang,x86_64,$(x86_64_CLANG),$(call bare,x86_64,PREEMPT) -O2))
$(eval $(call flavour,x86_64-thread,x86_64,$(x86_64_CC),$(call bare,x86_64,THREAD) -O2))
$(eval $(call flavour,aarch64-thread,aarch64,$(aarch64_CC),$(call bare,aarch64,THREAD) $(gcc_flags) -O2))
$(eval $(call flavour,x86_64-nochecks,x86_64,$(x86_64_CC),$(call bare,x86_64,IRQ) -O2 -DFALLOW_CHECKS=0))
$(eval $(call flavour,x86_64-noholes,x86_64,$(x86_64_CC),$(call bare,x86_64,IRQ) -O2 -DFALLOW_HOLES=0))
$(eval $(call flavour,x86_64-slice12,x86_64,$(x86_64_CC),$(call bare,x86_64,IRQ) -O2 -DFALLOW_SLICE_LOG2=12))
$(eval $(call flavour,x86_64-template,x86_64,$(x86_64_CC),$(call bare,x86_64,IRQ) -O2 -DFALLOW_PORT_HEADER='"template/port.h"'))
preempt_header := -DFALLOW_PREEMPT_HEADER='"template/preempt.h"'
$(eval $(call flavour,x86_64-preempt-header,x86_64,$(x86_64_CC),$(call bare,x86_64,PREEMPT) -O2 $(preempt_header)))
$(eval $(call flavour,aarch64-preempt-header,aarch64,$(aarch64_CLANG),$(call bare,aarch64,PREEMPT) -O2 $(preempt_header)))
ARCHIVE_FLAVOURS := $(filter x86_64-% aarch64-%,$(FLAVOURS))
ARCHIVES := $(foreach f,$(ARCHIVE_FLAVOURS),$(BUILD)/$(f)/libfallow.a \
	$(BUILD)/$(f)/libfallow-malloc.a)

.PHONY: archives
archives: $(ARCHIVES) ## the archives, compiled in every way that is tested

# ---------------------------------------------------------- host programs --

# Archives, of which a program's link takes what it needs: one that has a main()
# or guest_main() of its own gets no other.  Listed first: what needs a host.
HOST_SUPPORT := $(filter tests/support/host_% tests/support/sim% \
	tests/support/misuse% tests/support/port_% tests/support/fake%, \
	$(wildcard tests/support/*.c))
GUEST_SUPPORT := $(filter-out $(HOST_SUPPORT), \
	$(sort $(wildcard tests/support/*.c)))
SUPPORT_SRCS := $(filter-out tests/support/guest_main.c \
	tests/support/meet.c tests/support/paging.c tests/support/sched.c, \
	$(GUEST_SUPPORT)) \
	$(HOST_SUPPORT) $(sort boards/linux/mmap.c) \
	$(wildcard boards/virt/devicetree.c boards/q35/madt.c)

# $(call programs,FLAVOUR,SOURCES): build/FLAVOUR/tests/... of each.
TEST_PROGRAMS :=
define programs
$(1)_PROGRAMS := $(patsubst %.c,$(BUILD)/$(1)/%,$(2))
TEST_PROGRAMS += $$($(1)_PROGRAMS)
$(BUILD)/$(1)/libsupport.a: $(patsubst %.c,$(BUILD)/$(1)/%.o,$(SUPPORT_SRCS))
$$($(1)_PROGRAMS): $(BUILD)/$(1)/%: $(BUILD)/$(1)/%.o \
		$(BUILD)/$(1)/libsupport.a $(BUILD)/$(1)/libfallow.a
	$$(call say,LD,$$@)$$($(1)_CC) $$(filter-out -MMD -MP,$$($(1)_CFLAGS)) \
		-o $$@ $$(filter %.o,$$^) -Wl,--start-group \
		$$(filter %.a,$$^) -Wl,--end-group
endef

UNIT_SRCS := $(sort $(wildcard tests/unit/test_*.c))
FAKE_SRCS := $(sort $(wildcard tests/unit/fake_*.c))
PREEMPT_SRCS := $(sort $(wildcard tests/unit/preempt_*.c))
STRESS_SRCS := $(sort $(wildcard tests/stress/*.c))
EXPECT_SRCS := $(sort $(wildcard tests/misuse/*.c tests/harness/*.c))
REPLAY_SRCS := $(wildcard tests/traces/replay_host.c)
RETURNS_SRCS := $(sort $(wildcard tests/returns/*.c))
$(eval $(call programs,host-gcc,$(UNIT_SRCS) $(STRESS_SRCS) $(EXPECT_SRCS) $(REPLAY_SRCS)))
$(eval $(call programs,host-clang,$(UNIT_SRCS) $(REPLAY_SRCS) $(RETURNS_SRCS)))
$(eval $(call programs,host-single,$(UNIT_SRCS)))
$(eval $(call programs,host-preempt,$(UNIT_SRCS) $(PREEMPT_SRCS)))
$(eval $(call programs,host-tsan,$(STRESS_SRCS)))
$(eval $(call programs,host-fake,$(FAKE_SRCS)))
$(eval $(call programs,host-fake-preempt,$(FAKE_SRCS)))

# With slices of 4 KiB all but those that have slices of 64 KiB in them: of more
# granules than one, of blocks of a KiB in small pages.
SLICE64 := alloc batch bump bump_bare class free check floor hole lend \
	local memory pace page reclaim region snapshot span sweep sweep_refusal
SLICE12_SRCS := $(filter-out $(SLICE64:%=tests/unit/test_%.c),$(UNIT_SRCS))
TEST_PROGRAMS_KEPT := $(TEST_PROGRAMS)
$(eval $(call programs,host-slice12,$(SLICE12_SRCS)))
# With larger granules, those whose numbers are not of 4 KiB.
GRANULE_SRCS := $(patsubst %,tests/unit/test_%.c,heap_random contexts lessons \
	sizeclass heap_misuse malloc realloc)
$(eval $(call programs,host-granule14,$(GRANULE_SRCS)))
$(eval $(call programs,host-granule16,$(GRANULE_SRCS)))
SIZED_FLAVOURS := host-slice12 host-granule14 host-granule16
TEST_PROGRAMS := $(TEST_PROGRAMS_KEPT)

.PHONY: programs
programs: $(TEST_PROGRAMS) ## all test programs of the host

# ------------------------------------------------------------------ images --

GUEST_SRCS := $(filter-out tests/guest/picolibc.c, \
	$(sort $(wildcard tests/guest/*.c)))
BOARDS := $(filter-out linux, \
	$(patsubst boards/%/board.mk,%,$(sort $(wildcard boards/*/board.mk))))
# The prefix of the archives of another model that an image is linked with.
model_lib = $(if $(filter bare,$(call image_lib,$(1))),,debug-)
models_of = $($(1)_CONTEXTS)
image_lib = $(or $($(1)_LIB),debug)

x86_64_LD := $(x86_64_BIN)ld -m elf_x86_64
aarch64_LD := $(aarch64_BIN)ld -m aarch64elf

# $(call image,BOARD,NAME,ARCH,FLAVOUR,AS): build/BOARD/NAME.elf, or AS.elf
IMAGES :=
define image
IMAGES += $(BUILD)/$(1)/$(or $(5),$(2)).elf
$(BUILD)/$(1)/$(or $(5),$(2)).elf: $(patsubst %,$(BUILD)/$(4)/%.o,$(basename \
		tests/guest/$(2).c $($(1)_SRCS))) \
		$(BUILD)/$(4)/libguest.a $(BUILD)/$(4)/libfallow.a \
		$($(1)_LDSCRIPT)
	@mkdir -p $$(@D)
	$$(call say,LD,$$@)$($(3)_LD) $($(1)_LDFLAGS) -nostdlib --gc-sections \
		-z noexecstack -T $($(1)_LDSCRIPT) -Map=$$(@:.elf=.map) \
		-o $$@ $$(filter %.o,$$^) --start-group $$(filter %.a,$$^) \
		--end-group
endef

# The images for a CPU, by name.
guests_of = $(patsubst tests/guest/%.c,%,$(filter-out $(filter-out %_$(1).c, \
	$(filter %_x86_64.c %_aarch64.c,$(GUEST_SRCS))),$(GUEST_SRCS)))
$(foreach b,$(BOARDS),$(foreach n,$(call guests_of,$($(b)_ARCH)), \
	$(eval $(call image,$(b),$(n),$($(b)_ARCH),$($(b)_ARCH)-$(call image_lib,$(n))))))

# The images that run in other models too, under a name that ends in -model.
$(foreach b,$(BOARDS),$(foreach n,$(MODEL_IMAGES),$(foreach m,$(call models_of,$(n)), \
	$(eval $(call image,$(b),$(n),$($(b)_ARCH),$($(b)_ARCH)-$(call model_lib,$(n))$(m),$(n)-$(m))))))

# $(call guest_library,FLAVOURS,SOURCES).  In other models no more is compiled
# than MODEL_IMAGES take; who takes more is told by the linker.
guest_library = $(foreach f,$(foreach a,x86_64 aarch64,$(addprefix $(a)-,$(1))), \
	$(eval $(BUILD)/$(f)/libguest.a: $(patsubst %.c,$(BUILD)/$(f)/%.o,$(2))))
MODEL_SUPPORT := guest_main test restores oracle oracle_compare workload sched \
	ration storm storm_report storm_step
BENCH_SUPPORT := guest_main test sched cells
$(call guest_library,debug bare,$(GUEST_SUPPORT))
$(call guest_library,$(addprefix debug-,$(OTHER_MODELS)), \
	$(MODEL_SUPPORT:%=tests/support/%.c))
$(call guest_library,$(OTHER_MODELS),$(BENCH_SUPPORT:%=tests/support/%.c))

.PHONY: images
images: $(IMAGES) ## all images of both boards

# Instructions are counted: with them as the clock, a run repeats exactly.
ICOUNT := -icount shift=0

# $(call turns,IMAGE,CPUS): `single`, or nothing.
turns = $(if $(filter $(TURNS),$(1)),$(if $(filter $(HOST_CPUS),$(2)),,single))
# $(call qemu,BOARD,IMAGE,MEM,CPU MODEL,CPUS,MACHINE,THREAD): the command that
# boots it.
qemu = $(if $(7),$(subst -accel tcg,-accel tcg$(comma)thread=$(7),$($(1)_QEMU)),$($(1)_QEMU)) $(if $(6),-M $(6)) -m $(3) $(if $(4),-cpu $(4)) -smp $(or $(5),$(CPUS)) \
	$(if $(filter $(COUNTED) $(addsuffix -%,$(COUNTED)),$(2)),$(ICOUNT)) \
	$(if $(filter 1,$(GDB)),-s -S) -kernel $(BUILD)/$(1)/$(2).elf

# -------------------------------------------------------------------- plan --

# tests/run reads jobs as lines of seven fields parted by tabs.
tab := $(shell printf '\t')
define newline


endef
# $(call job,KIND,NAME,SECONDS,AGAIN,STATUS,EXPECT,COMMAND)
job = $(strip $(1))$(tab)$(strip $(2))$(tab)$(strip $(3))$(tab)$(strip $(4))$(tab)$(strip $(5))$(tab)$(strip $(6))$(tab)$(strip $(7))$(newline)

# The thread sanitizer's shadow needs addresses where it expects them.
host-tsan_RUN := $(shell setarch -R true 2>/dev/null && echo setarch -R)
# $(call program_job,FLAVOUR,PROGRAM)
program_job = $(call job,program,$(1) $(notdir $(2)),180, \
	make program FLAVOUR=$(1) PROGRAM=$(notdir $(2)),s,, \
	$($(1)_RUN) $(2))
UNIT_JOBS = $(foreach f,$(UNIT_FLAVOURS) host-fake host-fake-preempt host-tsan, \
	$(foreach p,$(filter $(BUILD)/$(f)/tests/unit/% $(BUILD)/$(f)/tests/stress/%, \
	$($(f)_PROGRAMS)),$(call program_job,$(f),$(p))))

EXPECT_JOBS = $(foreach p,$(basename $(EXPECT_SRCS)), \
	$(call job,expect,$(patsubst tests/%,%,$(p)),60, \
	make program FLAVOUR=host-gcc PROGRAM=$(notdir $(p)),s, \
	$(p).expected,$(BUILD)/host-gcc/$(p)))

# $(call guest_job,BOARD,IMAGE,MEM,CPU MODEL,CPUS,MACHINE,THREAD)
guest_job = $(call job,guest,$(1) $(2) $(3) $(4) \
	$(if $(filter-out 1,$(5)),x$(5)) $(6) $(if $(7),thread=$(7)), \
	$(or $($(2)_SECONDS),120), \
	make guest BOARD=$(1) IMAGE=$(2) MEM=$(3) $(if $(4),MODEL_CPU=$(4)) \
	CPUS=$(5) $(if $(6),MACHINE=$(6)) $(if $(7),THREAD=$(7)), \
	$($(1)_MAP_STATUS),,$(call qemu,$(1),$(2),$(3),$(4),$(5),$(6),$(7)))
# $(call test_job,BOARD,IMAGE,MEM,CPU MODEL,CPUS,MACHINE): as in `make test`
test_job = $(call guest_job,$(1),$(2),$(3),$(4),$(5),$(6),$(call turns,$(2),$(5)))
mems_of = $(or $($(1)_MEMS),$(GUEST_MEMS))
cpus_of = $(or $($(1)_CPUS),$(CPUS))
first_mem = $(firstword $(call mems_of,$(1)))
variant_cpus = $(or $(word 2,$(call cpus_of,$(1))),$(call cpus_of,$(1)))
# $(call machines_of,BOARD,IMAGE): those that are not the board's own
machines_of = $(if $($(2)_CPUS),$(if $(filter $(2),$(COUNTED))$($(2)_MACHINES),,$($(1)_MACHINES)))
test_guests = $(filter-out replay fault returns,$(call guests_of,$($(1)_ARCH)))
GUEST_JOBS = $(foreach b,$(BOARDS),$(foreach n,$(call test_guests,$(b)), \
	$(foreach p,$(call cpus_of,$(n)),$(foreach m,$(call mems_of,$(n)), \
		$(call test_job,$(b),$(n),$(m),,$(p)))) \
	$(foreach c,$($(b)_MODELS), \
		$(call test_job,$(b),$(n),$(call first_mem,$(n)),$(c),$(call variant_cpus,$(n)))) \
	$(foreach x,$(call machines_of,$(b),$(n)), \
		$(call test_job,$(b),$(n),$(call first_mem,$(n)),,$(call variant_cpus,$(n)),$(x))) \
	$(foreach m,$(call models_of,$(n)),$(foreach p,$(call cpus_of,$(n)), \
		$(call test_job,$(b),$(n)-$(m),$(call first_mem,$(n)),,$(p))))))

# Machines that a board must refuse, and faults that it must report.
BOOT_JOBS = $(foreach b,$(BOARDS),$(call job,program,$(b) boots,300, \
	make boots BOARD=$(b),s,,tests/boots $(b) $(BUILD)/$(b) \
	'$($(b)_MAP_STATUS)' $($(b)_QEMU)))

# A terminal shows more than a file.
GRAPH = $(if $(MAKE_TERMOUT), colour utf8)
# $(call replay_command,BOARD,TRACE)
replay_command = $(call qemu,$(1),replay,$(or $(MEM),256M),$(MODEL_CPU)) \
	$(ICOUNT) -fw_cfg name=opt/fallow/args$(comma)string='name=$(2)$(GRAPH)' \
	-fw_cfg name=opt/fallow/trace$(comma)file=tests/traces/$(2).trace
replay_job = $(call job,replay,replay $(1) $(2),600, \
	make run BOARD=$(1) TRACE=$(2),$($(1)_MAP_STATUS),, \
	$(call replay_command,$(1),$(2)))
TRACES := $(patsubst tests/traces/%.trace,%,$(sort $(wildcard tests/traces/*.trace)))
# The trace that is replayed on the boards too.
SMALL_TRACE ?= $(firstword $(TRACES))
REPLAY_JOBS = $(if $(wildcard tests/guest/replay.c),$(if $(SMALL_TRACE), \
	$(foreach b,$(BOARDS),$(call replay_job,$(b),$(SMALL_TRACE))))) \
	$(foreach t,$(if $(REPLAY_SRCS),$(TRACES)),$(call job,replay, \
	replay host $(t),300,make replay-host TRACE=$(t),s,, \
	$(BUILD)/host-gcc/tests/traces/replay_host tests/traces/$(t).trace)) \
	$(if $(REPLAY_SRCS),$(call job,check,recorder,120,$(recorder_check),s,, \
	$(recorder_check)))
recorder_check = tests/traces/check.sh \
	$(BUILD)/host-gcc/tests/traces/replay_host

# What tests/bench/counts is told: the images that count instructions, and how
# much the hot pair may cost more in IRQ than in SINGLE on x86-64.
HOT_LIMIT := 25
hot_images = $(foreach b,$(BOARDS),'$(b)/irq=$(call qemu,$(b),bench_hot,64M)' \
	$(foreach m,$(bench_hot_CONTEXTS),'$(b)/$(m)=$(call qemu,$(b),bench_hot-$(m),64M)'))
cpus_images = $(foreach b,$(BOARDS),'$(b)=$(call qemu,$(b),bench_cpus,64M,,4)')
BENCH_JOBS = $(call job,check,hot pair,180,make bench-hot,s,, \
	tests/bench/counts hot $(HOT_LIMIT) $(hot_images))

# $(call check_job,NAME,ARGUMENTS)
check_job = $(call job,check,$(1),120,make check CHECK="$(strip $(2))",s,, \
	tests/check $(2))
CHECK_JOBS = $(foreach f,$(ARCHIVE_FLAVOURS), \
	$(call check_job,symbols $(f),symbols $(BUILD)/$(f))) \
	$(call check_job,atomics,atomics) \
	$(call check_job,archive size,size $(BUILD)/x86_64-Os $(BUILD)/aarch64-Os) \
	$(call check_job,single,single $(BUILD)/x86_64-single $(BUILD)/aarch64-single) \
	$(call check_job,headers,headers $(HOST_CC) $(CLANG)) \
	$(call check_job,purity,purity) \
	$(call check_job,style,style) \
	$(call check_job,readme,readme $(x86_64_CC) '$(x86_64_CLANG)') \
	$(call check_job,runner,runner) \
	$(foreach a,x86_64 aarch64, \
		$(call check_job,stack $(a),stack $(a) '$($(a)_CC)') \
		$(call check_job,hot $(a),hot $(a) '$($(a)_CC)'))

# The image with a libc: PICOLIBC_IMAGES, PICOLIBC_JOBS.
include tests/guest/picolibc.mk

include tests/model/model.mk

# The shared library for this machine, under real programs.
include tests/preload/preload.mk

# Allocators side by side: `make bench`.
include tests/bench/bench.mk
include tests/bench/bump.mk

PLAN = $(UNIT_JOBS)$(EXPECT_JOBS)$(GUEST_JOBS)$(BOOT_JOBS)$(PICOLIBC_JOBS)$(REPLAY_JOBS)$(BENCH_JOBS)$(CHECK_JOBS)$(MODEL_JOBS)$(PRELOAD_JOBS)

# ---------------------------------------------------------------- settings --

# A setting that cannot be meant is refused before anything is made of it.
one_of = $(if $(filter $(2),$($(1))),,$(error $(1)=$($(1)) is not there: \
	$(1)= is one of $(sort $(2))))
ifneq ($(filter run guest boots,$(MAKECMDGOALS)),)
$(call one_of,BOARD,$(BOARDS))
ifneq ($(filter 0 0% 1 2 3 1M 2M 3M %K %k,$(MEM)),)
$(error MEM=$(MEM) is too little: an image and its tables take 4M)
endif
ifneq ($(filter 0 0% -%,$(CPUS)),)
$(error CPUS=$(CPUS) is no number of processors)
endif
endif
ifneq ($(filter guest,$(MAKECMDGOALS)),)
$(call one_of,IMAGE,$(call guests_of,$($(BOARD)_ARCH)) \
	$(foreach n,$(MODEL_IMAGES),$(addprefix $(n)-,$(call models_of,$(n)))))
endif
ifneq ($(shell printf '%s' '$(SEED)' | grep -cxE '[0-9]{1,19}|0x[0-9a-fA-F]{1,16}'),1)
$(error SEED=$(SEED) is no number that fits 64 bits)
endif
ifneq ($(shell printf '%s' '$(SECONDS)' | grep -vxE '[0-9]{1,6}'),)
$(error SECONDS=$(SECONDS) is no number of seconds)
endif

# ----------------------------------------------------------------- targets --

.PHONY: test
test: programs images archives $(PRELOAD) $(PRELOAD_PROGRAMS) $(PRELOAD_OTHER) $(OTHER_PROGRAMS) ## everything; TEST=part of a name, SEED=n
	$(file >$(BUILD)/test.plan,$(PLAN))
	@TEST='$(TEST)' SEED='$(SEED)' JOBS='$(JOBS)' tests/run plan $(BUILD)/test.plan

.PHONY: unit
unit: programs ## the host's test programs alone
	$(file >$(BUILD)/unit.plan,$(UNIT_JOBS)$(EXPECT_JOBS))
	@TEST='$(TEST)' SEED='$(SEED)' JOBS='$(JOBS)' tests/run plan $(BUILD)/unit.plan

.PHONY: guests
guests: images ## the images of both boards alone
	$(file >$(BUILD)/guests.plan,$(GUEST_JOBS)$(PICOLIBC_JOBS))
	@TEST='$(TEST)' SEED='$(SEED)' JOBS='$(JOBS)' tests/run plan $(BUILD)/guests.plan

# Storms, long, one after the other.  BOARD=host is those of threads, BOARD=linux
# real programs with larger work, and forks, with assertions on.
SOAK_BOARDS = $(if $(filter file,$(origin BOARD)),host linux $(BOARDS),$(BOARD))
SOAK_PRELOAD := real forks threads collapses
SOAK_NEEDS = $(filter $(foreach b,$(SOAK_BOARDS),$(BUILD)/$(b)/%), \
	$(foreach b,$(BOARDS),$(patsubst %,$(BUILD)/$(b)/%.elf, \
	$(SOAK_IMAGES) $(call soak_others,$(b))))) \
	$(if $(filter host,$(SOAK_BOARDS)),$(SOAK_PROGRAMS)) \
	$(if $(filter linux,$(SOAK_BOARDS)),$(PRELOAD_DEBUG) $(PRELOAD_PROGRAMS))
SOAK_CPUS = $(if $(filter file,$(origin CPUS)),$(storm_CPUS),$(CPUS))
SOAK_PROGRAMS = $(foreach f,host-gcc host-tsan,$(filter %/stress/storm,$($(f)_PROGRAMS))) \
	$(foreach f,$(SIZED_FLAVOURS),$($(f)_PROGRAMS))
SOAK_IMAGES = storm $(addprefix storm-,$(storm_CONTEXTS))
# $(call soak_jobs,BOARD,CPUS)
soak_jobs = $(foreach i,$(SOAK_IMAGES), \
	$(call guest_job,$(1),$(i),$(or $(MEM),16M),$(MODEL_CPU),$(2)))
# The other images that have several CPUs, with each number of them on each CPU
# model and machine, and in parallel: `make test` has fewer of the combinations.
soak_others = $(foreach n,$(filter-out $(COUNTED) storm,$(call test_guests,$(1))), \
	$(if $($(n)_CPUS),$(n)))
soak_cpus = $(if $(filter file,$(origin CPUS)),$($(1)_CPUS),$(filter $(CPUS),$($(1)_CPUS)))
soak_machines = $(foreach n,$(call soak_others,$(1)),$(foreach p,$(call soak_cpus,$(n)), \
	$(foreach c,own $($(1)_MODELS),$(foreach x,own $($(1)_MACHINES), \
	$(call guest_job,$(1),$(n),$(call first_mem,$(n)),$(c:own=),$(p),$(x:own=),multi)))))
SOAK_JOBS = $(if $(filter host,$(SOAK_BOARDS)),$(foreach f,host-gcc host-tsan $(SIZED_FLAVOURS),$(foreach p, \
	$(filter $(BUILD)/$(f)/%,$(SOAK_PROGRAMS)),$(call program_job,$(f),$(p))))) \
	$(if $(filter linux,$(SOAK_BOARDS)),$(foreach n,$(SOAK_PRELOAD), \
	$(call preload_job,$(n)))) \
	$(foreach b,$(filter-out host linux,$(SOAK_BOARDS)), \
	$(foreach p,$(SOAK_CPUS),$(call soak_jobs,$(b),$(p))) \
	$(call soak_machines,$(b)))

.PHONY: soak
soak: PRELOAD_LIBRARY = $(PRELOAD_DEBUG)
soak: $(SOAK_NEEDS) ## storms, SECONDS=60 each, all machines, real programs; BOARD=host|linux|q35|virt CPUS= MEM=
	$(file >$(BUILD)/soak.plan,$(SOAK_JOBS))
	@TEST='$(TEST)' SEED='$(SEED)' SECONDS='$(or $(SECONDS),60)' \
		tests/run each $(BUILD)/soak.plan

.PHONY: program
PROGRAM_PATH = $(filter %/$(PROGRAM),$($(FLAVOUR)_PROGRAMS))
program: $(PROGRAM_PATH) ## one program: PROGRAM=test_frames FLAVOUR=host-gcc
	@$(if $(PROGRAM_PATH),,echo "no PROGRAM=$(PROGRAM) in FLAVOUR=$(FLAVOUR)"; exit 2;) \
	TEST='$(TEST)' SEED='$(SEED)' SECONDS='$(SECONDS)' \
	$($(FLAVOUR)_RUN) $(PROGRAM_PATH)

.PHONY: guest
guest: $(BUILD)/$(BOARD)/$(IMAGE).elf ## one image: IMAGE=heap BOARD= MEM= CPUS= MACHINE= THREAD=single GDB=1
	$(file >$(BUILD)/one.plan,$(call guest_job,$(BOARD),$(IMAGE),$(or $(MEM),64M),$(MODEL_CPU),$(CPUS),$(MACHINE),$(THREAD)))
	@TEST='$(TEST)' SEED='$(SEED)' SECONDS='$(SECONDS)' \
		tests/run one $(BUILD)/one.plan

.PHONY: bench-hot bench-cpus
bench-hot: $(foreach b,$(BOARDS),$(BUILD)/$(b)/bench_hot.elf \
	$(patsubst %,$(BUILD)/$(b)/bench_hot-%.elf,$(bench_hot_CONTEXTS))) ## instructions of the hot pair, each model on both CPUs
	@tests/bench/counts hot $(HOT_LIMIT) $(hot_images)
bench-cpus: $(foreach b,$(BOARDS),$(BUILD)/$(b)/bench_cpus.elf) ## instructions an operation, 4 CPUs beside one
	@tests/bench/counts cpus $(cpus_images)

# Instructions are the clock of the machines, so that their figures repeat.
# $(call returns_job,NAME): what tests/returns/pictures is told to run.
returns_job = $(if $(filter host,$(1)),'host=$(RETURNS) samples','$(1)=$(call \
	qemu,$(1),returns,$(or $(MEM),128M)) $(ICOUNT) -fw_cfg \
	name=opt/fallow/args$(comma)string=samples')
ifneq ($(filter bench-return,$(MAKECMDGOALS)),)
$(foreach n,$(RETURN),$(if $(filter $(n),host $(BOARDS)),,$(error RETURN=$(n) \
	is not there: RETURN= is some of host $(BOARDS))))
endif
RETURNS := $(BUILD)/host-clang/tests/returns/returns_host
.PHONY: bench-return
bench-return: $(RETURNS) $(foreach b,$(filter $(or $(RETURN),$(BOARDS)),$(BOARDS)),$(BUILD)/$(b)/returns.elf) ## how memory goes back: tables, and pictures in build/returns; RETURN=host
	@tests/returns/pictures $(BUILD)/returns \
		$(foreach n,$(or $(RETURN),host $(BOARDS)),$(call returns_job,$(n)))

.PHONY: boots
boots: $(BUILD)/$(BOARD)/fault.elf ## machines that a board refuses, faults that it reports: BOARD=
	@TEST='$(TEST)' tests/boots $(BOARD) $(BUILD)/$(BOARD) \
		'$($(BOARD)_MAP_STATUS)' $($(BOARD)_QEMU)

.PHONY: check
check: archives ## one check of the archives and sources: CHECK='symbols $(BUILD)/x86_64-bare'
	@tests/check $(CHECK)

.PHONY: run
run: $(if $(filter $(TRACES),$(TRACE)),$(BUILD)/$(BOARD)/replay.elf,no-trace) ## replay a real program's allocations: BOARD=, TRACE=
	$(file >$(BUILD)/one.plan,$(call replay_job,$(BOARD),$(TRACE)))
	@tests/run one $(BUILD)/one.plan

# In place of the image, so that nothing is compiled first.
.PHONY: no-trace
no-trace:
	@echo "There is no trace '$(TRACE)'; TRACE= is one of: $(TRACES)." >&2; exit 2

.PHONY: replay-host
replay-host: $(if $(filter $(TRACES),$(TRACE)),$(BUILD)/host-clang/tests/traces/replay_host,no-trace) ## the same without QEMU: TRACE=
	@$(BUILD)/host-clang/tests/traces/replay_host tests/traces/$(TRACE).trace
