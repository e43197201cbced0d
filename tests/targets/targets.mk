# SPDX-License-Identifier: Apache-2.0
# Programs with known call chains, built as distributions build theirs: optimised, no frame pointers.
TARGETS := target_frames target_signal target_vfork target_deep target_dlopen target_registers
TARGET_BINS := $(addprefix $(B)/targets/,$(TARGETS) target_static_pie target_fp target_library.so)
TARGET_CFLAGS := $(CSTD) $(WARN) -O2 -g -fomit-frame-pointer -fno-inline-functions -D_GNU_SOURCE -I. -MMD -MP
$(addprefix $(B)/targets/,$(TARGETS)): $(B)/targets/%: tests/targets/%.c tests/targets/target.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -o $@ $^ -ldl
$(B)/targets/target_static_pie: tests/targets/target_frames.c tests/targets/target.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -static-pie -o $@ $^
$(B)/targets/target_fp: tests/targets/target_frames.c tests/targets/target.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -fno-omit-frame-pointer -o $@ $^
$(B)/targets/target_library.so: tests/targets/target_library.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -fPIC -shared -Wl,-z,lazy -o $@ $^
