/* SPDX-License-Identifier: Apache-2.0
 * nccl_profiler_v4.h - NCCL's profiler plugin interface version 4 (2.27), under our own names. It
 * is complete: sizes must be right, because we may pass a descriptor on to another plugin. */
#ifndef SYSOM_FOREIGN_NCCL_PROFILER_V4_H
#define SYSOM_FOREIGN_NCCL_PROFILER_V4_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "foreign/nccl.h"
#include "foreign/nccl_profiler.h"

struct nccl_profiler_v4_event {
	uint8_t type;
	void *parent;
	int rank;
	union {
		struct {
			uint64_t seq;
			const char *func;
			const void *send;
			void *recv;
			size_t count;
			int root;
			const char *datatype;
			uint8_t channel_count;
			uint8_t warp_count;
			const char *algorithm;
			const char *protocol;
		} coll;
		struct {
			const char *func;
			void *buffer;
			const char *datatype;
			size_t count;
			int peer;
			uint8_t channel_count;
		} p2p;
		struct {
			pid_t pid; /* of the originating process; with PXN another one */
			uint8_t channel;
			int peer;
			int step_count;
			int chunk_bytes;
			int is_send;
		} proxy_op;
		struct {
			int step;
		} proxy_step;
		struct {
			uint8_t channel;
			uint64_t timer; /* GPU globaltimer at the start */
		} kernel_ch;
		struct {
			int64_t id;
			void *data;
		} net_plugin;
	};
};
_Static_assert(offsetof(struct nccl_profiler_v4_event, coll) == 24, "v4");

typedef nccl_result (*nccl_profiler_v4_init_fn)(void **context, int *mask, const char *name,
						uint64_t comm_hash, int nodes, int nranks, int rank,
						void *log);
typedef nccl_result (*nccl_profiler_v4_start_fn)(void *context, void **handle,
						 struct nccl_profiler_v4_event *event);

#endif
