/* SPDX-License-Identifier: Apache-2.0
 * transfer.h - what one channel of the communication library sent to one peer for one collective.
 * Threads: any. Trust: figures of the job's process, converted but not checked. */
#pragma once

#include <stdint.h>

struct transfer {
	uint64_t begin_ns, end_ns; /* from the first transfer to the last one */
	uint64_t comm;		   /* the library's hash, the same on every rank */
	/* sums: of the sizes, and of the times in which the network had the data (these overlap) */
	uint64_t bytes, wait_ns;
	/* seq: the collective's number, per communicator and function; count: of transfers */
	uint32_t seq, count;
	int32_t peer; /* peer, rank: numbers in the communicator */
	uint16_t rank;
	uint8_t func, channel; /* enum record_coll; 0 unknown */
};
