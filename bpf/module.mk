# SPDX-License-Identifier: Apache-2.0
# Kernel side of the sampler, and the structs that user space shares with it.
