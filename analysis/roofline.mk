# SPDX-License-Identifier: Apache-2.0
analysis_SRCS += analysis/roofline.c analysis/roofline_fit.c analysis/roofline_p99.c analysis/explain.c
UNIT += test_explain
test_explain_USES := analysis base
test_explain_LDLIBS := -lcmocka
