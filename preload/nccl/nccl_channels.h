/* SPDX-License-Identifier: Apache-2.0
 * nccl_channels.h - decides when NCCL reports the channels of its kernels (KernelCh): only while
 * somebody asks for them, and within the budget. Their cost is the work of NCCL's proxy threads. So
 * it is measured as the CPU time of those threads beyond what they use without channels.
 * Threads: any for nccl_channels_thread; the helper thread for the rest. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define NCCL_CHANNELS_FOREVER UINT64_MAX

/* share: of one core; above it channels go off until the next demand. window_ns: the time over
 * which the share is measured. */
void nccl_channels_budget(double share, uint64_t window_ns);
/* sysomd asks for channel events until this time; 0: it no longer asks. */
void nccl_channels_demand(uint64_t until_ns);
/* Call when a proxy thread calls the plugin. The thread is measured from its first call on. Threads
 * beyond LIMIT_PROXY_THREADS are not measured. */
void nccl_channels_thread(void);
/* Call at every tick. Returns whether channels are on now. */
bool nccl_channels_tend(uint64_t now_ns);
