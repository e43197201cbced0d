/* SPDX-License-Identifier: Apache-2.0
 * nccl_plugin.h - loads a profiler plugin as NCCL 2.27 does and drives it: groups and operations from
 * the caller's thread, kernel events from a proxy thread once the GPU got there.
 * Owns: nothing of the plugin's.  Threads: any.  Errors: a plugin that fails is left alone. */
#ifndef SIM_NCCL_PLUGIN_H
#define SIM_NCCL_PLUGIN_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/profiler_abi.h"

/* false: no plugin, or it declined. */
bool nccl_plugin_comm_init(void **context, uint64_t hash, int ranks, int rank);
void nccl_plugin_comm_fini(void *context);
/* NULL when the plugin does not want such events now. */
void *nccl_plugin_start(void *context, nccl_profiler_event_v4 *event);
void nccl_plugin_stop(void *handle);
bool nccl_plugin_wants(int type);
/* A kernel's channel ran from start to end (may lie ahead). Does not block. */
void nccl_plugin_kernel(void *context, void *parent, int rank, uint64_t start_ns, uint64_t end_ns);

#endif
