/* SPDX-License-Identifier: Apache-2.0
 * nccl_channels.h - when NCCL reports the channels of its kernels (KernelCh): while somebody asks
 * for them, and within the budget. Their price is what NCCL's proxy threads do for them, so it is
 * measured as the CPU time of those threads above what they took before.
 * Threads: any for nccl_channels_thread; the helper thread for the rest. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define NCCL_CHANNELS_FOREVER UINT64_MAX

/* share: of one core, above which they go off until the next demand; window_ns: over which it is
 * measured. */
void nccl_channels_budget(double share, uint64_t window_ns);
/* Wanted until then. 0: no longer. */
void nccl_channels_demand(uint64_t until_ns);
/* A proxy thread calls the plugin; it counts from its first call on. A thread beyond
 * LIMIT_PROXY_THREADS is not measured. */
void nccl_channels_thread(void);
/* Every tick. Whether they are on now. */
bool nccl_channels_tend(uint64_t now_ns);
