# SPDX-License-Identifier: Apache-2.0
analysis_SRCS += analysis/peers.c analysis/peers_noise.c analysis/peers_sysom.c analysis/peers_test.c
