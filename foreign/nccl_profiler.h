/* SPDX-License-Identifier: Apache-2.0
 * nccl_profiler.h - what all versions of NCCL's profiler plugin interface share: the bits of event
 * types, the states, and the table that a plugin exports as ncclProfiler_vN. */
#ifndef SYSOM_FOREIGN_NCCL_PROFILER_H
#define SYSOM_FOREIGN_NCCL_PROFILER_H

#include <stdint.h>

#include "foreign/nccl.h"

/* event types, as bits of the activation mask */
enum {
	NCCL_PROFILE_GROUP = 1 << 0,
	NCCL_PROFILE_COLL = 1 << 1,
	NCCL_PROFILE_P2P = 1 << 2,
	NCCL_PROFILE_PROXY_OP = 1 << 3,
	NCCL_PROFILE_PROXY_STEP = 1 << 4,
	NCCL_PROFILE_PROXY_CTRL = 1 << 5,
	NCCL_PROFILE_KERNEL_CH = 1 << 6,
	NCCL_PROFILE_NET_PLUGIN = 1 << 7,
	NCCL_PROFILE_GROUP_API = 1 << 8,
	NCCL_PROFILE_COLL_API = 1 << 9,
	NCCL_PROFILE_P2P_API = 1 << 10,
	NCCL_PROFILE_KERNEL_LAUNCH = 1 << 11,
	NCCL_PROFILE_CE_COLL = 1 << 12,
	NCCL_PROFILE_CE_SYNC = 1 << 13,
	NCCL_PROFILE_CE_BATCH = 1 << 14,
};

/* states of a proxy's send: NCCL's own numbers */
#define NCCL_PROFILE_STATE_OP_SEND_DONE 3 /* before version 4: the operation's bytes */
#define NCCL_PROFILE_STATE_SEND_WAIT	9 /* a step's data is with the network */
/* states whose argument is an int, not eight bytes */
#define NCCL_PROFILE_STATE_CTRL_APPEND	   17
#define NCCL_PROFILE_STATE_CTRL_APPEND_END 18
#define NCCL_PROFILE_STATE_KERNEL_CH_STOP  22

typedef nccl_result (*nccl_profiler_stop_fn)(void *handle);
typedef nccl_result (*nccl_profiler_record_fn)(void *handle, int state, void *args);
typedef nccl_result (*nccl_profiler_finalize_fn)(void *context);

/* ncclProfiler_vN_t; init and start differ by version: nccl_profiler_vN.h */
struct nccl_profiler_table {
	const char *name;
	void *init;
	void *start;
	nccl_profiler_stop_fn stop;
	nccl_profiler_record_fn record;
	nccl_profiler_finalize_fn finalize;
};

#endif
