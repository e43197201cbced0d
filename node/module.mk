# SPDX-License-Identifier: Apache-2.0
# From the events of a rank's ring to its windows and beats; sysomd and `sysom replay` run it.
LIBS += node
node_SRCS := $(call in,node,analysis_log anomaly beats canary journal links normal rank recorder \
		windows) \
	$(call in,node/join,clockmap join join_align join_match join_unfinished)
node_NEEDS := ring wire analysis

$(call unit,node,test_journal test_clockmap test_join test_join_align test_join_numbers test_anomaly \
	test_canary test_windows test_recorder test_beats test_analysis_log test_links)
$(call fuzz,node,fuzz_join)
