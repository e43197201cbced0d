# SPDX-License-Identifier: Apache-2.0
# The sampler itself: modes, processes, draining.
sampler_SRCS += sampler/sampler.c sampler/processes.c sampler/mapping_scan.c sampler/worker.c \
	sampler/perf_ring.c sampler/sampler_events.c sampler/kernel_symbols.c sampler/stack_store.c \
	sampler/stack_build.c sampler/copy_mode.c sampler/sleepers.c sampler/switches.c sampler/map_sizes.c
ifneq ($(HAS_BPF),)
sampler_SRCS += sampler/sampler_maps.c
sampler_LDLIBS += -lbpf
else
sampler_SRCS += sampler/sampler_maps_none.c
endif
sampler_LDLIBS += -ldw -lelf

UNIT += test_worker
test_worker_USES := sampler reader symbol analysis base
test_worker_LDLIBS := -lcmocka
UNIT += test_sampler test_sleepers test_sampler_none test_kernel_symbols
# what is built without clang, bpftool or libbpf takes the place of the archive's own
test_sampler_none_SRCS := tests/unit/test_sampler_none.c sampler/sampler_maps_none.c
test_sampler_none_USES := sampler reader symbol analysis base
test_sampler_none_LDLIBS := -lcmocka
test_sleepers_USES := sampler reader symbol base
test_sleepers_LDLIBS := -lcmocka
test_kernel_symbols_USES := sampler reader symbol base
test_kernel_symbols_LDLIBS := -lcmocka
test_sampler_USES := sampler reader symbol analysis base
test_sampler_LDLIBS := -lcmocka
UNIT += test_switches
test_switches_USES := sampler reader symbol analysis base
test_switches_LDLIBS := -lcmocka -lpthread

ifneq ($(HAS_BPF),)
BENCH += bench_sampler
bench_sampler_USES := sampler reader symbol analysis base
bench_sampler_LDLIBS := -lbpf
endif
