# SPDX-License-Identifier: Apache-2.0
# The daemon's parts are a library, so that tests and benchmarks link them; sysomd.c is the program.
LIBS += sidecar
# From a rank's records to its windows and beats: also a library of its own, for `sysom replay events --live`.
LIBS += rank
rank_SRCS := sidecar/analysis_log.c sidecar/anomaly.c sidecar/beats.c sidecar/canary.c sidecar/normal.c \
	sidecar/rank.c sidecar/recorder.c sidecar/windows.c
sidecar_SRCS := $(rank_SRCS) sidecar/clockmap.c sidecar/join.c sidecar/join_match.c sidecar/join_align.c \
	sidecar/join_unfinished.c sidecar/spool.c sidecar/uplink.c \
	sidecar/registration.c sidecar/process.c sidecar/drain.c sidecar/ship.c sidecar/status.c \
	sidecar/http.c sidecar/baseline.c sidecar/keep.c sidecar/cpu_stacks.c \
	sidecar/installed.c sidecar/cpu_profile.c sidecar/sketch_maker.c \
	sidecar/requests.c sidecar/neighbours.c \
	sidecar/status_compare.c sidecar/viewer.c
sidecar_SRCS += sidecar/symbol_offer.c
sidecar_LDLIBS := -lnng -lmicrohttpd -lcurl -ljansson
# OS signals
sidecar_SRCS += sidecar/first_touch.c sidecar/os_signals.c sidecar/os_bpf.c sidecar/os_read.c sidecar/os_series.c \
	sidecar/os_proc.c sidecar/os_node.c sidecar/os_cost.c
# GPU telemetry
sidecar_SRCS += sidecar/gpu_nvml.c sidecar/gpu_poll.c sidecar/gpu_match.c sidecar/gpu_node.c
sidecar_LDLIBS += -ldl -lpthread -lsystemd
ifneq ($(HAS_BPF),)
OBJ_CFLAGS_sidecar := -DSIDECAR_BPF
sidecar_LDLIBS += -lbpf
endif

PROGS += sysomd
INSTALL_PROGS += sysomd
sysomd_SRCS := sidecar/sysomd.c
sysomd_USES := sidecar wire sampler reader symbol analysis ring base

# test_sysomd runs it
TEST_PARTS += $(B)/bin/sysomd
UNIT += test_drain test_clockmap test_join test_join_align test_join_numbers test_anomaly test_spool test_baseline test_sysomd
test_drain_USES := sidecar wire sampler reader symbol analysis ring base
test_drain_LDLIBS := -lcmocka
# its rings only count
test_drain_LDFLAGS := $(addprefix -Wl$(comma)--wrap=,ring_reader_drain_lane ring_reader_lanes_used ring_reader_publish \
	ring_reader_stats join_push join_run join_watermark_ns rank_run)
UNIT += test_first_touch
test_first_touch_USES := sidecar analysis base
test_first_touch_LDLIBS := -lcmocka
UNIT += test_canary
test_canary_USES := sidecar base
test_canary_LDLIBS := -lcmocka
UNIT += test_keep
test_keep_USES := sidecar analysis wire ring base
test_keep_LDLIBS := -lcmocka
test_baseline_USES := sidecar analysis wire ring base
test_baseline_LDLIBS := -lcmocka
test_clockmap_USES := sidecar
test_clockmap_LDLIBS := -lcmocka
test_join_USES := sidecar analysis ring base
test_join_LDLIBS := -lcmocka
test_join_numbers_USES := sidecar analysis ring base
test_join_numbers_LDLIBS := -lcmocka
test_join_align_USES := sidecar analysis ring base
test_join_align_LDLIBS := -lcmocka
test_anomaly_USES := sidecar
test_anomaly_LDLIBS := -lcmocka
test_spool_USES := sidecar wire analysis base
test_spool_LDLIBS := -lcmocka
test_sysomd_USES := ring wire analysis base
test_sysomd_LDLIBS := -lcmocka -lnng

BENCH += bench_drain ring_load
bench_drain_SRCS := tests/bench/bench_drain.c tests/bench/ring_job.c
bench_drain_USES := sidecar wire sampler reader symbol analysis ring base
ring_load_SRCS := tests/bench/ring_load.c tests/bench/ring_job.c
ring_load_USES := ring base
SCRIPTS_TEST += tests/e2e/foreign_dir.sh tests/e2e/hostile_user.sh tests/e2e/connect_flood.sh tests/e2e/two_users.sh tests/e2e/full_node.sh tests/e2e/units.sh tests/e2e/sysomd_job.sh tests/e2e/node_peers.sh

FUZZ += fuzz_proc
fuzz_proc_USES := sidecar wire sampler reader symbol analysis base

UNIT += test_cpu_stacks
test_cpu_stacks_USES := sidecar wire sampler reader symbol analysis ring base
test_cpu_stacks_LDLIBS := -lcmocka

UNIT += test_windows
test_windows_USES := sidecar wire analysis base
test_windows_LDLIBS := -lcmocka

UNIT += test_recorder
test_recorder_USES := sidecar wire analysis base
test_recorder_LDLIBS := -lcmocka

FUZZ += fuzz_join
fuzz_join_USES := sidecar analysis ring base

# with the aggregator's program and the command line's client
TEST_PARTS += $(B)/bin/sysom-aggregator
UNIT += test_symbol_offer
test_symbol_offer_USES := sidecar cli sampler reader symbol analysis base
test_symbol_offer_LDLIBS := -lcmocka
UNIT += test_os_signals test_lock_sharers
test_os_signals_USES := sidecar sampler reader wire symbol analysis ring base
test_os_signals_LDLIBS := -lcmocka
test_lock_sharers_USES := sidecar sampler reader wire symbol analysis ring base
test_lock_sharers_LDLIBS := -lcmocka
UNIT += test_gpu
test_gpu_USES := sidecar
test_gpu_LDLIBS := -lcmocka
UNIT += test_os_cost
test_os_cost_USES := sidecar
test_os_cost_LDLIBS := -lcmocka
UNIT += test_os_series
test_os_series_USES := sidecar base
test_os_series_LDLIBS := -lcmocka
test_os_series_LDFLAGS := -Wl,--wrap=readdir # directories of any size
SCRIPTS_TEST += tests/e2e/os_faults.sh tests/e2e/packet_storm.sh tests/e2e/gpu_telemetry.sh
BENCH += bench_os_signals
bench_os_signals_USES := sidecar sampler reader wire symbol analysis ring base
OBJ_CFLAGS_tests += $(if $(HAS_BPF),-DSIDECAR_BPF)

# what beats and sketches tell of a rank
UNIT += test_beats test_installed test_cpu_profile test_neighbours
test_installed_USES := sidecar wire reader symbol analysis base
test_installed_LDLIBS := -lcmocka
test_cpu_profile_USES := sidecar wire sampler reader symbol analysis base
test_cpu_profile_LDLIBS := -lcmocka -lm
test_neighbours_USES := sidecar analysis base
test_neighbours_LDLIBS := -lcmocka -lm
test_beats_USES := sidecar wire analysis base
test_beats_LDLIBS := -lcmocka -lm
UNIT += test_analysis_log
test_analysis_log_USES := sidecar wire analysis base
test_analysis_log_LDLIBS := -lcmocka

FUZZ += fuzz_node_http
fuzz_node_http_USES := sidecar wire sampler reader symbol analysis ring base
FUZZ += fuzz_baseline
fuzz_baseline_SRCS := tests/fuzz/fuzz_baseline.c sidecar/baseline.c
fuzz_baseline_USES := base
