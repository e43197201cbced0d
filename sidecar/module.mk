# SPDX-License-Identifier: Apache-2.0
# The daemon's parts are a library, so that tests and benchmarks link them; sysomd.c is the program.
LIBS += sidecar
sidecar_SRCS := $(call in,sidecar,baseline drain http keep links_node process registration requests ship \
		spool status status_compare uplink) \
	$(call in,sidecar/os,first_touch os_bpf os_cost os_hierarchy os_node os_proc os_read os_series \
		os_signals) \
	$(call in,sidecar/gpu,gpu_match gpu_node gpu_nvml gpu_poll) \
	$(call in,sidecar/serving,request_beat request_node) \
	$(call in,sidecar/ras,ras_answer ras_node) \
	$(call in,sidecar/stacks,cpu_profile cpu_stacks installed neighbours sketch_maker \
		symbol_offer)
sidecar_NEEDS := node sampler render http link post
sidecar_LDLIBS := -lnng -lcurl -ljansson -ldl -lpthread -lsystemd $(if $(HAS_BPF),-lbpf)
OBJ_CFLAGS_sidecar := $(if $(HAS_BPF),-DSIDECAR_BPF)
OBJ_CFLAGS_tests += $(if $(HAS_BPF),-DSIDECAR_BPF)

PROGS += sysomd
INSTALL_PROGS += sysomd
sysomd_SRCS := sidecar/sysomd.c
sysomd_USES := sidecar

$(call unit,sidecar,test_drain test_spool test_baseline test_first_touch test_keep test_cpu_stacks \
	test_os_signals test_os_hierarchy test_lock_sharers test_gpu test_os_cost test_os_series test_installed \
	test_cpu_profile test_neighbours test_ras_answer test_request_beat)
# its rings only count
test_drain_LDFLAGS := $(addprefix -Wl$(comma)--wrap=,ring_reader_drain_lane ring_reader_lanes_used \
	ring_reader_publish ring_reader_stats join_push join_run join_watermark_ns rank_run)
test_os_series_LDFLAGS := -Wl,--wrap=readdir # directories of any size
$(call unit,node,test_sysomd)
test_sysomd_LDLIBS := -lnng
# with the aggregator's program and the command line's client
$(call unit,sidecar cli,test_symbol_offer)
TEST_PARTS += $(B)/bin/sysomd $(B)/bin/sysom-aggregator

$(call fuzz,sidecar,fuzz_proc fuzz_node_http fuzz_baseline fuzz_ras)
$(call bench,sidecar,bench_drain bench_os_signals)
bench_drain_SRCS := tests/bench/bench_drain.c tests/bench/ring_job.c
$(call bench,ring,ring_load)
ring_load_SRCS := tests/bench/ring_load.c tests/bench/ring_job.c

SCRIPTS_TEST += tests/e2e/serve_spikes.sh tests/e2e/ras.sh tests/e2e/foreign_dir.sh tests/e2e/hostile_user.sh tests/e2e/connect_flood.sh \
	tests/e2e/two_users.sh tests/e2e/full_node.sh tests/e2e/units.sh tests/e2e/sysomd_job.sh tests/e2e/serve_events.py tests/e2e/serve_requests.py tests/e2e/serve_nodes.py tests/e2e/serve_restart.py \
	tests/e2e/node_peers.sh tests/e2e/os_faults.sh tests/e2e/packet_storm.sh tests/e2e/gpu_telemetry.sh
