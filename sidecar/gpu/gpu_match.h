/* SPDX-License-Identifier: Apache-2.0
 * gpu_match.h - which GPU is a rank's. Pure. Trust: the rank's text comes from the job's environment. */
#ifndef SYSOM_SIDECAR_GPU_GPU_MATCH_H
#define SYSOM_SIDECAR_GPU_GPU_MATCH_H

#include "sidecar/gpu/gpu_poll.h"

#define GPU_NONE UINT32_MAX

enum gpu_match_source {
	GPU_MATCH_NONE,
	GPU_MATCH_PROCESS,
	GPU_MATCH_UUID,
	GPU_MATCH_INDEX,
	GPU_MATCH_LOCAL
};

/* pid: the process's, 0 unknown. visible: its entry of CUDA_VISIBLE_DEVICES ("GPU-...", also cut
 * short, or a number; "" not set). local_rank: -1 unknown. The best that is known is taken: the one
 * device that NVML says the process computes on; a UUID that means one device; a number, or the local
 * rank where nothing else is said, as NVML counts the devices. GPU_NONE: not known, or several. */
uint32_t gpu_match(const struct gpu_poll_device *device, uint32_t count, uint32_t pid, const char *visible,
		   int32_t local_rank, enum gpu_match_source *source);
const char *gpu_match_source_name(enum gpu_match_source source); /* "process", "uuid", ... */

#endif
