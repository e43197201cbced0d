# SPDX-License-Identifier: Apache-2.0
# How exact the sampler's stacks are, against libdw and libunwind on the same samples.
ifneq ($(HAS_BPF),)
$(eval $(call bpf_rule,snapshot_loop,tests/accuracy/snapshot,))
$(eval $(call bpf_rule,snapshot_tail,tests/accuracy/snapshot,-DSNAPSHOT_TAIL_CALLS))
accuracy_SRCS := tests/accuracy/accuracy.c tests/accuracy/truth.c tests/accuracy/record.c \
	tests/accuracy/names.c tests/accuracy/snapshot.c
$(call bench,sampler,accuracy)
accuracy_LDLIBS := -lbpf -lunwind-x86_64 -lunwind
TEST_PARTS += $(B)/bench/accuracy $(TARGET_BINS)
endif
SCRIPTS_TEST += tests/e2e/accuracy_short.sh

.PHONY: accuracy
accuracy: ## how exact user stacks are, per target, against libdw and libunwind on the same samples
	@tools/deps.sh build test bench
	@$(MAKE) --no-print-directory $(B)/bench/accuracy $(B)/bin/sysom accuracy-targets
	@tests/accuracy/run.sh $(B)
.PHONY: accuracy-targets
accuracy-targets: $(TARGET_BINS)
