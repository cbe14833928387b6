# SPDX-License-Identifier: MIT
#
# linux: the same core as a shared library, which programs are started with
# instead of their C library's allocator:
#
#   LD_PRELOAD=build/linux/libfallow.so python3 ...
#
# Everything in C is compiled as one, so that the heap's hot paths end up inside
# malloc() and free(): -flto, and "flatten" there.  core/string.c is left out: the C library's is
# faster.  The C++ operators are linked without the C++ library, see there.

HOST_CXX ?= g++
# The other CPU, whose library is run under QEMU (tests/preload/preload.mk).
LINUX_OTHER := $(if $(filter x86_64,$(HOST_CPU)),aarch64,x86_64)
aarch64_CXX := $(AARCH64_CROSS)g++
x86_64_CXX := $(X86_64_CROSS)g++

LINUX_COMMON := -O2 -g $(WARNINGS) $(INCLUDES) -MMD -MP -fPIC \
	-fvisibility=hidden -fno-semantic-interposition -fno-plt -pthread \
	-ftls-model=initial-exec -DFALLOW_MODEL=FALLOW_MODEL_THREAD \
	-DFALLOW_PORT_HEADER='"linux/port.h"'
# -Wshadow is out: fallow_snapshot() has the name of the struct it fills.
LINUX_CXXFLAGS := -std=c++17 $(filter-out -Wshadow -Wstrict-prototypes \
	-Wmissing-prototypes,$(LINUX_COMMON)) -fvisibility-inlines-hidden
$(eval $(call flavour,linux,host,$(HOST_CC),$(LINUX_COMMON) -flto=auto))
# With assertions on the heap's own bugs, for `make soak`.
$(eval $(call flavour,linux-debug,host,$(HOST_CC),$(LINUX_COMMON) -flto=auto -DFALLOW_DEBUG=1))
$(eval $(call flavour,linux-$(LINUX_OTHER),host,$($(LINUX_OTHER)_CC),$(LINUX_COMMON) -flto=auto $($(LINUX_OTHER)_GCC_FLAGS)))

LINUX_SRCS := $(filter-out core/string.c,$(CORE_SRCS)) \
	$(sort $(wildcard boards/linux/*.c))
PRELOAD := $(BUILD)/linux/libfallow.so
PRELOAD_DEBUG := $(BUILD)/linux-debug/libfallow.so
PRELOAD_OTHER := $(BUILD)/linux-$(LINUX_OTHER)/libfallow.so

# $(call preload_rules,FLAVOUR,COMPILER OF C++): build/FLAVOUR/libfallow.so
define preload_rules
$(BUILD)/$(1)/boards/linux/operators.o: boards/linux/operators.cc \
		$(BUILD)/$(1)/flags | deps
	@mkdir -p $$(@D)
	$$(call say,CXX,$$< ($(1)))$(2) $$(LINUX_CXXFLAGS) $$(CFLAGS) -c \
		-o $$@ $$<
$(BUILD)/$(1)/libfallow.so: $$(LINUX_SRCS:%.c=$(BUILD)/$(1)/%.o) \
		$(BUILD)/$(1)/boards/linux/operators.o boards/linux/libfallow.map
	$$(call say,LD,$$@)$$($(1)_CC) $$(filter-out -MMD -MP,$$($(1)_CFLAGS)) \
		-shared -Wl$$(comma)-z$$(comma)now -Wl$$(comma)-z$$(comma)relro \
		-Wl$$(comma)--version-script=boards/linux/libfallow.map \
		-o $$@ $$(filter %.o,$$^)
endef
$(eval $(call preload_rules,linux,$(HOST_CXX)))
$(eval $(call preload_rules,linux-debug,$(HOST_CXX)))
$(eval $(call preload_rules,linux-$(LINUX_OTHER),$($(LINUX_OTHER)_CXX)))

.PHONY: preload
preload: $(PRELOAD) ## build/linux/libfallow.so, for LD_PRELOAD on this machine
