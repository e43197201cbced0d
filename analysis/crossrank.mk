# SPDX-License-Identifier: Apache-2.0
analysis_SRCS += analysis/thresholds.c analysis/align.c analysis/jobsteps.c analysis/crossrank.c \
	analysis/crossrank_cause.c analysis/crossrank_before.c \
	analysis/crossrank_hang.c

UNIT += test_align test_jobsteps test_crossrank
test_align_USES := analysis base
test_align_LDLIBS := -lcmocka
test_jobsteps_USES := analysis base
test_jobsteps_LDLIBS := -lcmocka
test_crossrank_USES := analysis base
test_crossrank_LDLIBS := -lcmocka
SCRIPTS_TEST += tests/e2e/replay_faults.sh tests/e2e/replay_live.py
