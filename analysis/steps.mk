# SPDX-License-Identifier: Apache-2.0
analysis_SRCS += analysis/steps.c analysis/steps_detect.c analysis/steps_account.c

UNIT += test_steps test_trace_reader
test_steps_USES := analysis base
test_steps_LDLIBS := -lcmocka

# the offline door; the command line's module adds these to its own sources
REPLAY_EVENTS_SRCS := cli/replay_events.c cli/replay_ranks.c cli/replay_load.c cli/kineto_reader.c cli/trace_reader.c
BENCH += bench_steps
bench_steps_SRCS := tests/bench/bench_steps.c cli/replay_load.c cli/kineto_reader.c cli/trace_reader.c cli/intern.c cli/term.c
bench_steps_USES := analysis base
bench_steps_LDLIBS := -lyajl -lz -lzstd
test_trace_reader_SRCS := tests/unit/test_trace_reader.c cli/trace_reader.c
test_trace_reader_LDLIBS := -lcmocka -lz -lzstd
FUZZ += fuzz_trace_reader
fuzz_trace_reader_SRCS := tests/fuzz/fuzz_trace_reader.c cli/replay_load.c cli/kineto_reader.c cli/trace_reader.c cli/intern.c cli/term.c
fuzz_trace_reader_USES := analysis base
fuzz_trace_reader_LDLIBS := -lyajl -lz -lzstd
SCRIPTS_TEST += tests/e2e/replay_events.py
