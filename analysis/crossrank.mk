# SPDX-License-Identifier: Apache-2.0
analysis_SRCS += analysis/align.c analysis/levels.c analysis/jobsteps.c analysis/crossrank.c \
	analysis/crossrank_cause.c analysis/crossrank_hang.c analysis/crossrank_sysom.c
