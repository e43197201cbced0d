# SPDX-License-Identifier: Apache-2.0
LIBS += cli
PERFETTO_GEN := $(B)/gen/cli/perfetto.pb-c
cli_SRCS := cli/client.c cli/cmd_control.c cli/cmd_diff.c cli/cmd_doctor.c cli/cmd_incidents.c cli/cmd_job.c cli/job_text.c cli/cmd_replay.c \
	cli/cmd_report.c cli/cmd_run.c cli/cmd_status.c cli/cmd_trace.c cli/cmd_wait.c cli/commands.c \
	cli/escape.c cli/intern.c cli/doctor_gpu.c cli/doctor_sampler.c cli/doctor_preload.c cli/doctor_system.c \
	cli/export_kineto.c cli/export_perfetto.c cli/incident_load.c cli/incident_text.c \
	cli/options.c cli/outfile.c cli/paths.c cli/report_html.c cli/report_kernels.c cli/term.c \
	cli/trace_align.c cli/trace_label.c cli/trace_lanes.c cli/trace_model.c cli/kineto_reader.c $(PERFETTO_GEN).c
# `sysom replay`
cli_SRCS += cli/replay_csv.c cli/replay_events.c cli/replay_load.c cli/replay_ranks.c \
	cli/replay_steps.c cli/trace_reader.c cli/replay_findings.c cli/replay_stacks.c \
	cli/replay_ops.c cli/replay_timings.c cli/replay_workers.c cli/folded.c cli/replay_journal.c cli/replay_line.c \
	cli/replay_unit.c cli/timing_columns.c cli/replay_window.c cli/replay_incident.c cli/replay_live.c cli/live_node.c
# CPU profiles
PPROF_GEN := $(B)/gen/cli/profile.pb-c
cli_SRCS += cli/symbol_client.c cli/profile_names.c cli/profile_tree.c cli/profile_flame.c cli/profile_pprof.c \
	cli/profile_out.c cli/profile_summary.c cli/incident_stacks.c cli/incident_diff.c cli/kernel_name.c \
	cli/report_stacks.c cli/report_verdict.c cli/report_plots.c cli/rank_grid.c cli/kernel_diff.c \
	cli/incident_ledger.c cli/incident_verdict.c cli/show_plots.c cli/diff_source.c cli/diff_sketch.c cli/diff_trace.c cli/run_diff.c cli/pprof_read.c cli/export_stacks.c cli/cmd_flame.c \
	cli/cmd_record.c cli/run_as.c $(PPROF_GEN).c
GEN += $(PPROF_GEN).h
$(PPROF_GEN).h: cli/profile.proto
	@mkdir -p $(B)/gen
	$(Q)protoc-c --c_out=$(B)/gen $<
$(PPROF_GEN).c: $(PPROF_GEN).h ;
$(B)/obj/cli/profile_flame.o: cli/flame.html
cli_LDLIBS := -lcurl -ljansson -lyajl -lprotobuf-c -lz -lzstd
GEN += $(PERFETTO_GEN).h

# One recipe for both files; the header stands for the pair.
$(PERFETTO_GEN).h: cli/perfetto.proto
	@mkdir -p $(B)/gen
	$(Q)protoc-c --c_out=$(B)/gen $<
$(PERFETTO_GEN).c: $(PERFETTO_GEN).h ;

# sysom loads few libraries and becomes sysom-full for the commands that need more (cli/front.c).
PROGS += sysom sysom-full
INSTALL_PROGS += sysom
INSTALL_PARTS += sysom-full
sysom_SRCS := cli/sysom.c cli/front.c
sysom_USES := cli rank fleet incident wire symbol reader analysis base
sysom_LDFLAGS := -Wl,--as-needed
sysom-full_SRCS := cli/sysom.c
sysom-full_USES := cli rank fleet incident wire sampler reader symbol analysis base

SCRIPTS_TEST += tests/e2e/cli_commands.sh tests/e2e/cli_doctor.sh tests/e2e/cli_run.sh \
	tests/e2e/cli_trace.sh tests/e2e/replay_stacks.py tests/e2e/pictures.py tests/e2e/diff.py
UNIT += test_export_perfetto
test_export_perfetto_USES := cli wire symbol reader analysis base
test_export_perfetto_LDLIBS := -lcmocka
UNIT += test_term test_trace_lanes test_trace_model test_report_kernels
test_trace_model_USES := cli wire analysis base
test_trace_model_LDLIBS := -lcmocka
test_term_USES := cli base
test_term_LDLIBS := -lcmocka
test_trace_lanes_USES := cli base
test_trace_lanes_LDLIBS := -lcmocka
UNIT += test_kineto_reader
test_kineto_reader_USES := cli base
test_kineto_reader_LDLIBS := -lcmocka -lz
test_report_kernels_USES := cli wire analysis base
test_report_kernels_LDLIBS := -lcmocka
FUZZ += fuzz_incident fuzz_trace_export
fuzz_incident_USES := cli wire symbol reader analysis base
fuzz_trace_export_USES := cli wire symbol reader analysis base
UNIT += test_profile
test_profile_USES := cli symbol reader analysis base
test_profile_LDLIBS := -lcmocka
UNIT += test_kernel_name
test_kernel_name_USES := cli symbol reader base
test_kernel_name_LDLIBS := -lcmocka
UNIT += test_incident_diff test_report_plots test_run_diff
test_run_diff_USES := cli wire symbol reader analysis base
test_run_diff_LDLIBS := -lcmocka
test_incident_diff_USES := cli wire symbol reader analysis base
test_incident_diff_LDLIBS := -lcmocka
test_report_plots_USES := cli wire symbol reader analysis base
test_report_plots_LDLIBS := -lcmocka
UNIT += test_job_text
test_job_text_USES := cli wire symbol reader analysis base
test_job_text_LDLIBS := -lcmocka
UNIT += test_rank_grid
test_rank_grid_USES := cli wire symbol reader analysis base
test_rank_grid_LDLIBS := -lcmocka
FUZZ += fuzz_profile_files
fuzz_profile_files_USES := cli symbol reader analysis base
# `sysom replay window`
UNIT += test_replay_journal
test_replay_journal_USES := cli wire analysis base
test_replay_journal_LDLIBS := -lcmocka
FUZZ += fuzz_journal
fuzz_journal_USES := cli incident wire analysis base
SCRIPTS_TEST += tests/e2e/replay_window.sh
UNIT += test_outfile
test_outfile_USES := cli base
test_outfile_LDLIBS := -lcmocka
