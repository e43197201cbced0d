/* SPDX-License-Identifier: Apache-2.0
 * transfer.h - what one channel of the communication library sent to one peer for one collective.
 * Threads: any. Trust: figures of the job's process, converted but not checked. */
#pragma once

#include <stdint.h>

struct transfer {
	uint64_t begin_ns, end_ns; /* from the first to the last */
	uint64_t comm;		   /* the library's hash, the same on every rank */
	uint64_t bytes, wait_ns;   /* sums: sizes; times with the network, which overlap */
	uint32_t seq, count;	   /* of the collective, per communicator and function; transfers */
	int32_t peer;		   /* ranks in the communicator */
	uint16_t rank;
	uint8_t func, channel; /* enum record_coll; 0 unknown */
};
