/* SPDX-License-Identifier: Apache-2.0
 * nccl_plugin.h - what the helper thread does for NCCL's profiler plugin. */
#pragma once

#include <stdint.h>

/* Every tick: has NCCL report what is wanted now (nccl_channels.h, and a user's plugin that changes
 * its mind). NCCL sees it at its next operation. */
void nccl_plugin_tend(uint64_t now_ns);
