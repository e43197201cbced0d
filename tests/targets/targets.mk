# SPDX-License-Identifier: Apache-2.0
# Programs with known call chains, built as distributions build theirs: optimised, no frame pointers.
TARGETS := target_frames target_signal target_vfork target_deep target_dlopen target_registers target_threads
RULES_BINS := $(foreach f,24 88,$(B)/targets/target_rules_$f $(B)/targets/target_rules_$f.so)
TARGET_BINS := $(addprefix $(B)/targets/,$(TARGETS) target_static_pie target_fp target_runtime target_small target_library.so) $(RULES_BINS)
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
# Frame pointers but in leaves, as Go has them: what goes by rbp then gets far, and is wrong.
$(B)/targets/target_runtime: tests/targets/target_runtime.c tests/targets/target.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -fno-omit-frame-pointer -momit-leaf-frame-pointer -o $@ $^
$(B)/targets/target_small: tests/targets/target_small.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -Os -o $@ $^
$(B)/targets/target_library.so: tests/targets/target_library.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -fPIC -shared -Wl,-z,lazy -o $@ $^
# One Build ID, as whoever links may choose it.
$(B)/targets/target_rules_%: tests/targets/target_rules.c tests/targets/target.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -DRULES_FRAME=$* -Wl,--build-id=0x5ca1ab1e5ca1ab1e -o $@ $^ -ldl
$(B)/targets/target_rules_%.so: tests/targets/target_rules.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -DRULES_FRAME=$* -DRULES_LIBRARY -fPIC -shared -o $@ $^
