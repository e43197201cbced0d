/* SPDX-License-Identifier: Apache-2.0
 * gpu_nvml.h - read GPU telemetry from NVML, which is loaded if the node has it.
 * Owns: the library's handle and its event set. Threads: one caller that may block. Any call may
 * block for milliseconds, or forever if a driver hangs. Trust: the library belongs to the driver;
 * texts are bounded and terminated here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GPU_DEVICES_MAX	  32u
#define GPU_PROCESSES_MAX 16u
#define GPU_TEXT_BYTES	  96u

struct gpu_identity {
	char uuid[GPU_TEXT_BYTES], name[GPU_TEXT_BYTES], bus[32]; /* "" not known */
	uint32_t sm_clock_max_mhz, mem_clock_max_mhz;		  /* 0: not known */
};

/* Bits of gpu_sample.has. */
enum gpu_field {
	GPU_SM_CLOCK = 0,
	GPU_MEM_CLOCK,
	GPU_THROTTLE,
	GPU_POWER,
	GPU_POWER_LIMIT,
	GPU_TEMPERATURE,
	GPU_UTILISATION,
	GPU_ECC_CORRECTED,
	GPU_ECC_UNCORRECTED,
	GPU_PCIE_REPLAYS,
	GPU_PCIE_GENERATION,
	GPU_PCIE_WIDTH,
	GPU_FIELDS
};

struct gpu_sample {
	uint64_t at_ns;
	uint32_t has; /* 1 << enum gpu_field: the device reports this field */
	/* MHz, NVML_THROTTLE_* bits, mW, degrees Celsius, percent, counts since the driver was
	 * loaded */
	uint64_t value[GPU_FIELDS];
	/* processes that compute on it, in the initial PID namespace */
	uint32_t pid[GPU_PROCESSES_MAX];
	uint32_t pid_count;
};

struct gpu_nvml;

/* library: NULL or "" means libnvidia-ml.so.1. 0 or -errno with the reason in why. May take
 * seconds. */
int gpu_nvml_open(struct gpu_nvml **out, const char *library, char *why, size_t bytes);
void gpu_nvml_close(struct gpu_nvml *n); /* NULL is a no-op */
uint32_t gpu_nvml_count(const struct gpu_nvml *n);
const char *gpu_nvml_driver(const struct gpu_nvml *n); /* its version; "" not known */
void gpu_nvml_identity(const struct gpu_nvml *n, uint32_t device, struct gpu_identity *out);
/* 0; -EIO: the device answers no query, and *out has no value. */
int gpu_nvml_read(const struct gpu_nvml *n, uint32_t device, struct gpu_sample *out);
/* Waits for an XID event. 1: an event; 0: timeout; -ENOTSUP, at once: NVML reports no XID
 * events. */
int gpu_nvml_wait_xid(struct gpu_nvml *n, uint32_t timeout_ms, uint32_t *device, uint64_t *xid);
