/* SPDX-License-Identifier: Apache-2.0
 * nccl_profile.h - loads and calls a profiler plugin as NCCL 2.27 does: groups and operations from
 * the caller's thread, kernel events from a proxy thread once the GPU has reached them.
 * Owns: nothing of the plugin's.  Threads: any.  Errors: a plugin that fails is not called
 * again. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "foreign/nccl_profiler.h"

/* false: no plugin, or it declined. */
bool nccl_profile_comm_init(void **context, uint64_t hash, int ranks, int rank);
void nccl_profile_comm_fini(void *context);
/* NULL if the plugin does not want such events now. */
void *nccl_profile_start(void *context, struct nccl_profiler_v4_event *event);
void nccl_profile_stop(void *handle);
/* A kernel's channel ran from start to end (may be in the future). Does not block. */
void nccl_profile_kernel(void *context, void *parent, int rank, uint64_t start_ns, uint64_t end_ns);
