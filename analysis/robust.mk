# SPDX-License-Identifier: Apache-2.0
analysis_SRCS += analysis/robust/median.c analysis/robust/spread.c analysis/robust/chance.c \
	analysis/robust/block_noise.c analysis/robust/regress.c analysis/robust/change.c
UNIT += test_robust
test_robust_USES := analysis base
test_robust_LDLIBS := -lcmocka -lm
