# SPDX-License-Identifier: Apache-2.0
analysis_SRCS += analysis/steps.c analysis/steps_detect.c analysis/steps_account.c

UNIT += test_steps
test_steps_USES := analysis base
test_steps_LDLIBS := -lcmocka
