/* SPDX-License-Identifier: Apache-2.0
 * driver.h - the few queries that we send to the CUDA driver ourselves. They are never on a launch
 * path, except for the capture state while a capture is in progress. None of them affects a
 * stream's work.
 * Threads: any, inside a wrapper. Unknown results are 0 or UINT32_MAX. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "foreign/cuda.h"

int driver_version(void);
cu_context driver_current_context(void);
uint32_t driver_current_device(void);			    /* CUDA ordinal, UINT32_MAX unknown */
void driver_device_uuid(uint32_t device, uint8_t uuid[16]); /* unchanged if unknown */
/* The driver's id of the capture that includes the stream, perhaps through an event that forked the
 * capture; 0: not capturing. */
uint64_t driver_capture_id(cu_stream stream, bool per_thread);
uint32_t driver_graph_node_count(cu_graph graph);
