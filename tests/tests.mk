# SPDX-License-Identifier: MIT
#
# What is tested, compiled in which ways, and on what it runs.
#
#   tests/unit/test_*.c   host programs, in UNIT_FLAVOURS (and, without contexts,
#                         in the model SINGLE)
#   tests/unit/fake_*.c   host programs over tests/support/port_fake.h, where a
#                         test sets the context and the interrupt flag itself
#   tests/stress/*.c      threaded host programs, under the thread sanitizer too
#   tests/misuse/*.c      host programs whose output is tests/misuse/*.expected
#   tests/guest/*.c       images, linked with each board's start-up code; a name
#                         that ends in _x86_64 or _aarch64 is of that CPU alone

ASAN := -fsanitize=address$(comma)undefined -fno-sanitize-recover=all \
	-fno-omit-frame-pointer
TSAN := -fsanitize=thread -fno-omit-frame-pointer
model = -DFALLOW_MODEL=FALLOW_MODEL_$(1)
FAKE_PORT := -DFALLOW_PORT_HEADER='"port_fake.h"'

$(eval $(call flavour,host-gcc,host,$(HOST_CC),-O1 $(ASAN) $(HOSTED) $(HOST_PORT) $(call model,THREAD)))
$(eval $(call flavour,host-clang,host,$(CLANG),-O2 $(HOSTED) $(HOST_PORT) $(call model,THREAD)))
$(eval $(call flavour,host-tsan,host,$(HOST_CC),-O1 $(TSAN) $(HOSTED) $(HOST_PORT) $(call model,THREAD)))
$(eval $(call flavour,host-single,host,$(HOST_CC),-O2 $(HOSTED) $(HOST_PORT) $(call model,SINGLE)))
$(eval $(call flavour,host-fake,host,$(HOST_CC),-O1 $(ASAN) $(HOSTED) $(FAKE_PORT) $(call model,IRQ)))

# Images are linked with archives that have their assertions on.
debug = $(FREESTANDING) $(OPT) -DFALLOW_DEBUG=1 $(call model,IRQ)
$(eval $(call flavour,x86_64-debug,x86_64,$(x86_64_CC),$(debug) $(x86_64_FLAGS)))
$(eval $(call flavour,aarch64-debug,aarch64,$(aarch64_CC),$(debug) $(aarch64_FLAGS) $(aarch64_GCC_FLAGS)))

# ---------------------------------------------------------- host programs --

# Archives, of which a program's link takes what it needs: one that has a main()
# or guest_main() of its own gets no other.  Listed first: what needs a host.
HOST_SUPPORT := $(filter tests/support/host_% tests/support/sim% \
	tests/support/misuse% tests/support/port_%, \
	$(wildcard tests/support/*.c))
GUEST_SUPPORT := $(filter-out $(HOST_SUPPORT), \
	$(sort $(wildcard tests/support/*.c)))
SUPPORT_SRCS := $(filter-out tests/support/guest_main.c,$(GUEST_SUPPORT)) \
	$(HOST_SUPPORT) $(sort $(wildcard boards/linux/*.c)) \
	$(wildcard boards/virt/devicetree.c)

# $(call programs,FLAVOUR,SOURCES): build/FLAVOUR/tests/... of each.
PROGRAMS :=
define programs
$(1)_PROGRAMS := $(patsubst %.c,build/$(1)/%,$(2))
PROGRAMS += $$($(1)_PROGRAMS)
build/$(1)/libsupport.a: $(patsubst %.c,build/$(1)/%.o,$(SUPPORT_SRCS))
$$($(1)_PROGRAMS): build/$(1)/%: build/$(1)/%.o \
		build/$(1)/libsupport.a build/$(1)/libfallow.a
	$$(call say,LD,$$@)$$($(1)_CC) $$(filter-out -MMD -MP,$$($(1)_CFLAGS)) \
		-o $$@ $$(filter %.o,$$^) -Wl,--start-group \
		$$(filter %.a,$$^) -Wl,--end-group
endef

UNIT_SRCS := $(sort $(wildcard tests/unit/test_*.c))
FAKE_SRCS := $(sort $(wildcard tests/unit/fake_*.c))
STRESS_SRCS := $(sort $(wildcard tests/stress/*.c))
$(eval $(call programs,host-gcc,$(UNIT_SRCS) $(STRESS_SRCS)))
$(eval $(call programs,host-clang,$(UNIT_SRCS)))
$(eval $(call programs,host-single,$(UNIT_SRCS)))
$(eval $(call programs,host-tsan,$(STRESS_SRCS)))
$(eval $(call programs,host-fake,$(FAKE_SRCS)))

.PHONY: programs
programs: $(PROGRAMS) ## all test programs of the host

# ------------------------------------------------------------------ images --

GUEST_SRCS := $(filter-out tests/guest/picolibc.c, \
	$(sort $(wildcard tests/guest/*.c)))
BOARDS := $(patsubst boards/%/board.mk,%,$(sort $(wildcard boards/*/board.mk)))
# The archives of an image are those with assertions, unless it says `bare`.
replay_LIB := bare
image_lib = $(or $($(1)_LIB),debug)

x86_64_LD := $(X86_64_CROSS)ld -m elf_x86_64
aarch64_LD := $(AARCH64_CROSS)ld -m aarch64elf

# $(call image,BOARD,NAME,ARCH,FLAVOUR): build/BOARD/NAME.elf
define image
IMAGES += build/$(1)/$(2).elf
build/$(1)/$(2).elf: $(patsubst %,build/$(4)/%.o,$(basename \
		tests/guest/$(2).c $($(1)_SRCS))) \
		build/$(4)/libguest.a build/$(4)/libfallow.a \
		$($(1)_LDSCRIPT)
	@mkdir -p $$(@D)
	$$(call say,LD,$$@)$($(3)_LD) $($(1)_LDFLAGS) -nostdlib --gc-sections \
		-z noexecstack -T $($(1)_LDSCRIPT) -Map=$$(@:.elf=.map) \
		-o $$@ $$(filter %.o,$$^) --start-group $$(filter %.a,$$^) \
		--end-group
endef

# $(call board,BOARD,ARCH): every image that is for this CPU.
define board
$(foreach n,$(patsubst tests/guest/%.c,%,$(call guests_of,$(2))), \
	$(eval $(call image,$(1),$(n),$(2),$(2)-$(call image_lib,$(n)))))
endef
guests_of = $(filter-out $(filter-out %_$(1).c, \
	$(filter %_x86_64.c %_aarch64.c,$(GUEST_SRCS))),$(GUEST_SRCS))
$(foreach b,$(BOARDS),$(call board,$(b),$($(b)_ARCH)))

.PHONY: images
images: $(IMAGES) ## all images of both boards

$(foreach f,x86_64-debug x86_64-bare aarch64-debug aarch64-bare, \
	$(eval build/$(f)/libguest.a: \
		$(patsubst %.c,build/$(f)/%.o,$(GUEST_SUPPORT))))
