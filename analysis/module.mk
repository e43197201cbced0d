# SPDX-License-Identifier: Apache-2.0
# From records to verdicts, without I/O: steps, what they should take (expect), ranks among their peers (slow,
# and across nodes: cross), links (link), recorded traces (trace), where the time went (ledger) and why (cause).
LIBS += analysis
analysis_SRCS := $(call in,analysis/robust,block_noise chance change median regress spread) \
	$(call in,analysis/link,link_fit link_samples) \
	$(call in,analysis/steps,kinds steps steps_account steps_detect) \
	$(call in,analysis/expect,growth judge roofline roofline_fit roofline_p99) \
	$(call in,analysis/slow,hang local_peers peers peers_noise peers_sysom peers_test roles \
		skew temporal waterline) \
	$(call in,analysis/cross,clocks cross cross_colls cross_findings cross_rows cross_skew) \
	$(call in,analysis/trace,align crossrank crossrank_before crossrank_cause crossrank_hang \
		jobsteps workers workers_level workers_report) \
	$(call in,analysis/ledger,coll_split frame_class function_class host_timeline ledger \
		wait_class window_ledger) \
	$(call in,analysis/cause,diagnosis diagnosis_gpu diagnosis_host diagnosis_ledger \
		diagnosis_os diagnosis_software diagnosis_text digest excerpt profile slow_step) \
	$(call in,analysis/requests,request_parts request_pieces request_table request_table_steps)
analysis_NEEDS := model

$(call unit,analysis,test_profile_delta test_diagnosis test_ledger test_diagnosis_properties \
	test_diagnosis_ledger test_peers test_roles test_skew test_local_peers test_robust test_roofline \
	test_kinds test_steps test_align test_jobsteps test_crossrank test_coll_split test_window_ledger \
	test_clocks test_cross test_hang test_growth test_link test_slow_step test_request_table)
$(call fuzz,analysis,fuzz_judge fuzz_requests)
$(call bench,analysis,bench_peers bench_requests bench_roofline)
bench_peers_SRCS := tests/bench/bench_peers.c cli/trace/trace_reader.c
bench_peers_LDLIBS := -lz -lzstd
bench_roofline_SRCS := tests/bench/bench_roofline.c cli/trace/trace_reader.c
bench_roofline_LDLIBS := -lz -lzstd
