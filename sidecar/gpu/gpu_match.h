/* SPDX-License-Identifier: Apache-2.0
 * gpu_match.h - find the GPU of a rank. Pure. Trust: the rank's text comes from the job's
 * environment. */
#pragma once

#include "sidecar/gpu/gpu_poll.h"

#define GPU_NONE UINT32_MAX

enum gpu_match_source {
	GPU_MATCH_NONE,
	GPU_MATCH_PROCESS,
	GPU_MATCH_UUID,
	GPU_MATCH_INDEX,
	GPU_MATCH_LOCAL
};

/* pid: of the process; 0: unknown. visible: its entry of CUDA_VISIBLE_DEVICES ("GPU-...", perhaps
 * abbreviated, or a number; "": not set). local_rank: -1: unknown. Uses the first source that is
 * known: the only device on which NVML sees the process; a UUID that matches one device; a number;
 * the local rank. Returns NVML's number of the device. GPU_NONE: unknown, or several. */
uint32_t gpu_match(const struct gpu_poll_device *device, uint32_t count, uint32_t pid,
		   const char *visible, int32_t local_rank, enum gpu_match_source *source);
const char *gpu_match_source_name(enum gpu_match_source source); /* "process", "uuid", ... */
