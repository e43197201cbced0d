# SPDX-License-Identifier: Apache-2.0
analysis_SRCS += analysis/judge.c analysis/kinds.c analysis/roofline.c analysis/roofline_fit.c analysis/roofline_p99.c
UNIT += test_roofline test_kinds
test_kinds_USES := analysis base
test_kinds_LDLIBS := -lcmocka -lm
test_roofline_USES := analysis base
test_roofline_LDLIBS := -lcmocka
SCRIPTS_TEST += tests/e2e/replay_steps.sh tests/e2e/replay_inputs.py
BENCH += bench_roofline
bench_roofline_SRCS := tests/bench/bench_roofline.c cli/replay_csv.c cli/trace_reader.c
bench_roofline_USES := analysis base
bench_roofline_LDLIBS := -lz -lzstd
