# SPDX-License-Identifier: Apache-2.0
# The peer's tracepoint, where lttng-ust is installed.
ifneq ($(wildcard /usr/include/lttng/tracepoint.h /usr/include/*/lttng/tracepoint.h),)
peer_launch_SRCS := tests/bench/peer_launch.c
peer_launch_LDLIBS := -llttng-ust
endif
SCRIPTS_TEST += tests/e2e/config_files.sh tests/e2e/install.sh tests/e2e/packages.sh tests/e2e/units_machine.sh tests/e2e/units_demo.sh tests/e2e/manifests.sh tests/e2e/chart_secrets.sh tests/e2e/ports.py tests/e2e/pod.sh tests/e2e/containers.sh tests/e2e/container_limit.sh tests/e2e/evicted.sh tests/e2e/flow_mix.sh \
	tests/e2e/flow_dlrm.sh tests/e2e/flow_torchrun.sh tests/e2e/uplink_hostile.sh tests/e2e/http_access.sh tests/e2e/stranger.sh tests/e2e/tls.sh \
	tests/e2e/switch.sh tests/e2e/explicit_steps.sh tests/e2e/chaos.sh \
	tests/e2e/test_runner.sh tests/e2e/tidy.sh tests/e2e/restart_seam.sh tests/e2e/outage.sh tests/e2e/torchrun_stacks.sh tests/e2e/record.sh \
	tests/e2e/monitoring.sh tests/e2e/compatibility.sh \
	tests/e2e/slow_link.sh tests/e2e/dashboards.sh tests/e2e/newer_node.sh
include tests/targets/targets.mk tests/accuracy/accuracy.mk tests/scenarios/scenarios.mk

$(call bench,,peer_launch)
