# SPDX-License-Identifier: Apache-2.0
analysis_SRCS += analysis/roofline.c analysis/roofline_fit.c analysis/roofline_p99.c
