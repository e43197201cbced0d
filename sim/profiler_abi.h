/* SPDX-License-Identifier: Apache-2.0
 * profiler_abi.h - NCCL's profiler plugin interface, version 4 (NCCL 2.27; later releases still load
 * it), in names of our own. The symbol is `ncclProfiler_v4`. */
#ifndef SYSOM_SIM_PROFILER_ABI_H
#define SYSOM_SIM_PROFILER_ABI_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "foreign/nccl.h"

#define NCCL_PROFILER_V4_SYMBOL "ncclProfiler_v4"

/* Event types and bits of the activation mask. */
#define NCCL_PROFILE_GROUP	   (1 << 0)
#define NCCL_PROFILE_COLL	   (1 << 1)
#define NCCL_PROFILE_P2P	   (1 << 2)
#define NCCL_PROFILE_PROXY_OP	   (1 << 3)
#define NCCL_PROFILE_PROXY_STEP	   (1 << 4)
#define NCCL_PROFILE_PROXY_CTRL	   (1 << 5)
#define NCCL_PROFILE_KERNEL_CH	   (1 << 6)
#define NCCL_PROFILE_NET_PLUGIN	   (1 << 7)
#define NCCL_PROFILE_GROUP_API	   (1 << 8)
#define NCCL_PROFILE_COLL_API	   (1 << 9)
#define NCCL_PROFILE_P2P_API	   (1 << 10)
#define NCCL_PROFILE_KERNEL_LAUNCH (1 << 11)

/* States */
#define NCCL_PROFILER_KERNEL_CH_STOP 22

typedef void (*nccl_log_fn)(int level, unsigned long flags, const char *file, int line,
			    const char *format, ...);

typedef struct {
	uint8_t type;
	void *parent;
	int rank;
	union {
		struct {
			uint64_t seq; /* per communicator and function */
			const char *func;
			const void *send;
			void *recv;
			size_t count;
			int root;
			const char *datatype;
			uint8_t channels, warps;
			const char *algo, *proto;
		} coll;
		struct {
			const char *func;
			void *buf;
			const char *datatype;
			size_t count;
			int peer;
			uint8_t channels;
		} p2p;
		struct {
			pid_t pid;
			uint8_t channel;
			int peer, steps, chunk_bytes, is_send;
		} proxy_op;
		struct {
			int step;
		} proxy_step;
		struct {
			uint8_t channel;
			uint64_t timer; /* GPU global timer, ns */
		} kernel_ch;
		struct {
			int64_t id;
			void *data;
		} net;
	};
} nccl_profiler_event_v4;
_Static_assert(offsetof(nccl_profiler_event_v4, parent) == 8, "nccl_profiler_event_v4");
_Static_assert(offsetof(nccl_profiler_event_v4, coll) == 24, "nccl_profiler_event_v4");

typedef union {
	struct {
		size_t bytes;
	} proxy_step;
	struct {
		int appended;
	} proxy_ctrl;
	struct {
		void *data;
	} net;
	struct {
		uint64_t timer;
	} kernel_ch;
} nccl_profiler_state_v4;

typedef struct {
	const char *name;
	nccl_result (*init)(void **context, int *mask, const char *comm_name, uint64_t comm_hash,
			    int nodes, int ranks, int rank, nccl_log_fn log);
	nccl_result (*start)(void *context, void **handle, nccl_profiler_event_v4 *event);
	nccl_result (*stop)(void *handle);
	nccl_result (*state)(void *handle, int state, nccl_profiler_state_v4 *args);
	nccl_result (*finalize)(void *context);
} nccl_profiler_v4;

#endif
