/* SPDX-License-Identifier: Apache-2.0
 * nccl_plugin.h - what the helper thread does for NCCL's profiler plugin. */
#pragma once

#include <stdint.h>

/* Call at every tick: writes to NCCL's mask which events we (nccl_channels.h) and the user's plugin
 * want now. NCCL reads the mask at its next operation. */
void nccl_plugin_tend(uint64_t now_ns);
