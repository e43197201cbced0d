# SPDX-License-Identifier: Apache-2.0
LIBS += analysis
analysis_SRCS := analysis/record.c analysis/median.c
# rows of independent parts; each names its own sources and tests
include analysis/steps.mk analysis/roofline.mk
