/* SPDX-License-Identifier: Apache-2.0
 * gpu_poll.h - poll every GPU with NVML from a thread, and keep the last samples. Only this thread
 * calls NVML, which may block for milliseconds, or forever if a driver hangs.
 * Owns: the thread, NVML, the last GPU_POLL_SAMPLES samples of each device. Threads: any may
 * call. */
#pragma once

#include "sidecar/gpu/gpu_nvml.h"

#define GPU_POLL_SAMPLES 64u
#define GPU_POLL_XIDS	 32u

struct gpu_poll;

struct gpu_poll_device {
	struct gpu_identity id;
	struct gpu_sample last;	 /* at_ns 0: none yet */
	uint64_t failed;	 /* consecutive polls without an answer */
	uint64_t xid, xid_count; /* the last one; 0: none */
};

struct gpu_poll_state {
	bool open;
	char why[160]; /* why NVML is not open */
	char driver[GPU_TEXT_BYTES];
	uint32_t count;		 /* devices */
	uint64_t polls, poll_ns; /* rounds over all devices, and their total time */
	uint64_t busy_since_ns;	 /* start of the NVML call in progress; 0: none */
	uint64_t lost;		 /* samples overwritten before gpu_poll_take read them */
	bool xid_events;	 /* NVML reports XID events */
};

/* library: as for gpu_nvml_open; copied. 0, -ENOMEM, -EAGAIN (no thread). The thread opens NVML,
 * and retries every minute if that fails. */
int gpu_poll_open(struct gpu_poll **out, const char *library, uint64_t period_ns);
/* Waits at most 2 s for the thread, which may be stuck in NVML. */
void gpu_poll_close(struct gpu_poll *p); /* NULL is a no-op */
void gpu_poll_state(struct gpu_poll *p, struct gpu_poll_state *out);
bool gpu_poll_device(struct gpu_poll *p, uint32_t device, struct gpu_poll_device *out);
/* Takes the device's new samples, oldest first. Returns their number, at most max. */
uint32_t gpu_poll_take(struct gpu_poll *p, uint32_t device, struct gpu_sample *out, uint32_t max);
/* Takes new XID events. Returns their number, at most max. */
struct gpu_poll_xid {
	uint64_t xid;
	uint32_t device;
};
uint32_t gpu_poll_take_xids(struct gpu_poll *p, struct gpu_poll_xid *out, uint32_t max);
