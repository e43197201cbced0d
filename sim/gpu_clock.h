/* SPDX-License-Identifier: Apache-2.0
 * gpu_clock.h - a device whose SM clock is below its maximum takes longer for every kernel, in that
 * proportion. The clocks are what NVML would say: $SIM_NVML_FILE (docs/sim.md), read again when it
 * changed.
 * Owns: its copy of the clocks.  Threads: one at a time (the GPU's lock).  Errors: no file, or what
 * makes no sense in it: full speed. */
#ifndef SIM_GPU_CLOCK_H
#define SIM_GPU_CLOCK_H

#include <stdint.h>

/* device: as NVML numbers them. dur_ns at full speed, as it is now. */
uint64_t gpu_clock_scale(int device, uint64_t dur_ns, uint64_t now_ns);

#endif
