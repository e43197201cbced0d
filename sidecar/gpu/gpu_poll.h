/* SPDX-License-Identifier: Apache-2.0
 * gpu_poll.h - a thread that asks NVML about every GPU, as often as is set, and keeps the last answers:
 * NVML may block for milliseconds, and for ever where a driver hangs, so nobody else calls it.
 * Owns: the thread, NVML, the last GPU_POLL_SAMPLES samples of each device. Threads: any may ask. */
#ifndef SYSOM_SIDECAR_GPU_GPU_POLL_H
#define SYSOM_SIDECAR_GPU_GPU_POLL_H

#include "sidecar/gpu/gpu_nvml.h"

#define GPU_POLL_SAMPLES 64u
#define GPU_POLL_XIDS	 32u

struct gpu_poll;

struct gpu_poll_device {
	struct gpu_identity id;
	struct gpu_sample last; /* at_ns 0: none yet */
	uint64_t failed;	/* polls without an answer, in a row */
	uint64_t xid, xid_at_ns, xid_count; /* the last one; 0: none */
};

struct gpu_poll_state {
	bool open;
	char why[160]; /* not open: the reason */
	char driver[GPU_TEXT_BYTES];
	uint32_t count; /* devices */
	uint64_t polls, poll_ns; /* rounds over all devices, and how long they took in all */
	uint64_t busy_since_ns;	 /* in a call since; 0: not */
	uint64_t lost;		 /* samples overwritten before gpu_poll_take had them */
	bool xid_events;	 /* NVML tells of them */
};

/* library: as of gpu_nvml_open; copied. 0, -ENOMEM, -EAGAIN (no thread). NVML is opened by the thread, and
 * where it cannot be, tried again every minute. */
int gpu_poll_open(struct gpu_poll **out, const char *library, uint64_t period_ns);
/* Waits for the thread, but not for one that NVML does not let go: 2 s. */
void gpu_poll_close(struct gpu_poll *p); /* NULL is a no-op */
void gpu_poll_state(struct gpu_poll *p, struct gpu_poll_state *out);
bool gpu_poll_device(struct gpu_poll *p, uint32_t device, struct gpu_poll_device *out);
/* The device's samples that were not taken yet, oldest first; their number, at most max. */
uint32_t gpu_poll_take(struct gpu_poll *p, uint32_t device, struct gpu_sample *out, uint32_t max);
/* XID events that were not taken yet; at most max. */
struct gpu_poll_xid {
	uint64_t at_ns, xid;
	uint32_t device;
};
uint32_t gpu_poll_take_xids(struct gpu_poll *p, struct gpu_poll_xid *out, uint32_t max);

#endif
