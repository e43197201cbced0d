# SPDX-License-Identifier: Apache-2.0
LIBS += cli
PERFETTO_GEN := $(B)/gen/cli/perfetto.pb-c
PPROF_GEN := $(B)/gen/cli/profile.pb-c
cli_SRCS := $(call in,cli/client,access client) $(call in,cli,cmd_control cmd_diff cmd_doctor cmd_flame cmd_incidents cmd_job \
		cmd_preload cmd_record cmd_replay cmd_report cmd_requests cmd_run cmd_spans cmd_status cmd_top cmd_trace cmd_verdict cmd_wait commands \
		options paths run_as) \
	$(call in,cli/text,intern outfile) \
	$(call in,cli/doctor,doctor_cluster doctor_gpu doctor_jobs doctor_preload doctor_sampler \
		doctor_serving doctor_system) \
	$(call in,cli/profile,folded incident_stacks pprof_read profile_flame profile_names \
		profile_out profile_pprof profile_summary profile_tree symbol_client) \
	$(call in,cli/trace,export_kineto export_perfetto export_stacks kineto_reader trace_align \
		trace_label trace_lanes trace_model trace_reader) \
	$(call in,cli/report,incident_load job_text kernel_diff rank_grid report_html \
		report_plots report_stacks show_plots) \
	$(call in,cli/plots,plot_axes plot_gpu plot_steps plot_timeline) \
	$(call in,cli/diff,diff_sketch diff_source diff_trace incident_diff run_diff) \
	$(call in,cli/replay,live_node replay_events replay_find replay_findings replay_incident \
		replay_journal replay_line replay_links replay_live replay_load replay_ranks replay_stacks \
		replay_steps replay_window) \
	$(call in,cli/timings,replay_input replay_ops replay_timings replay_unit replay_workers \
		timing_columns) \
	$(PERFETTO_GEN).c $(PPROF_GEN).c
cli_NEEDS := node fleet incident symbol render
GEN += $(PPROF_GEN).h
$(PPROF_GEN).h: cli/profile.proto
	@mkdir -p $(B)/gen
	$(Q)protoc-c --c_out=$(B)/gen $<
$(PPROF_GEN).c: $(PPROF_GEN).h ;
$(B)/obj/cli/profile/profile_flame.o: cli/flame.html
$(B)/obj/cli/options.o: cli/help.txt
cli_LDLIBS := -lelf -lcurl -lgnutls -lncursesw -ljansson -lyajl -lprotobuf-c -lz -lzstd
GEN += $(PERFETTO_GEN).h

# One recipe makes both files; the rule names the header.
$(PERFETTO_GEN).h: cli/perfetto.proto
	@mkdir -p $(B)/gen
	$(Q)protoc-c --c_out=$(B)/gen $<
$(PERFETTO_GEN).c: $(PERFETTO_GEN).h ;

# sysom loads few libraries and executes sysom-full for commands that need more (cli/front.c).
PROGS += sysom sysom-full
INSTALL_PROGS += sysom
INSTALL_PARTS += sysom-full
sysom_SRCS := cli/sysom.c cli/front.c
sysom_USES := cli
sysom-full_SRCS := cli/sysom.c
sysom-full_USES := cli sampler

SCRIPTS_TEST += tests/e2e/cli_commands.sh tests/e2e/exit_statuses.sh tests/e2e/cli_doctor.sh tests/e2e/cli_run.sh \
	tests/e2e/cli_trace.sh tests/e2e/top.sh tests/e2e/replay_stacks.py tests/e2e/pictures.py tests/e2e/diff.py
test_kineto_reader_LDLIBS := -lz
SCRIPTS_TEST += tests/e2e/completion.sh tests/e2e/replay_window.sh tests/e2e/replay_faults.sh tests/e2e/replay_live.py \
	tests/e2e/replay_workers.py tests/e2e/replay_steps.sh tests/e2e/replay_inputs.py tests/e2e/replay_links.py \
	tests/e2e/replay_events.py

$(call unit,cli,test_export_perfetto test_term test_trace_lanes test_trace_model test_kernel_diff \
	test_kineto_reader test_profile test_incident_diff test_report_plots test_run_diff \
	test_job_text test_rank_grid test_replay_journal test_outfile)
$(call fuzz,cli,fuzz_incident fuzz_trace_export fuzz_profile_files fuzz_journal)

# they read traces, and no more of the command line
TRACE_FILES := cli/replay/replay_load.c cli/trace/kineto_reader.c cli/trace/trace_reader.c \
	cli/text/intern.c render/term.c
$(call unit,,test_trace_reader)
test_trace_reader_SRCS := tests/unit/test_trace_reader.c cli/trace/trace_reader.c
test_trace_reader_LDLIBS := -lz -lzstd
$(call fuzz,analysis,fuzz_trace_reader)
fuzz_trace_reader_SRCS := tests/fuzz/fuzz_trace_reader.c $(TRACE_FILES)
fuzz_trace_reader_LDLIBS := -lyajl -lz -lzstd
$(call bench,analysis,bench_steps)
bench_steps_SRCS := tests/bench/bench_steps.c $(TRACE_FILES)
bench_steps_LDLIBS := -lyajl -lz -lzstd
