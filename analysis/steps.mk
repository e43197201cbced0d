# SPDX-License-Identifier: Apache-2.0
analysis_SRCS +=
