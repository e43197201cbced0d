/* SPDX-License-Identifier: Apache-2.0
 * gpu_clock.h - a device with an SM clock below its maximum takes proportionally longer for every
 * kernel. The clocks are those that NVML reports: $SIM_NVML_FILE (docs/sim.md), read again when it
 * changes.
 * Owns: its copy of the clocks.  Threads: one at a time (the GPU's lock).  Errors: without a file,
 * or with invalid values, full speed. */
#pragma once

#include <stdint.h>

/* device: NVML's number. dur_ns: at full speed. */
uint64_t gpu_clock_scale(int device, uint64_t dur_ns, uint64_t now_ns);
