/* SPDX-License-Identifier: Apache-2.0
 * nccl_profiler.h - NCCL's profiler plugin interface, versions 1 (2.23), 2 (2.24, 2.25), 3 (2.26),
 * 4 (2.27), 5 (2.28) and 6 (2.29 and later), under our own names. The descriptors are complete:
 * sizes must be right, because we may pass a descriptor on to another plugin. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

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

/* ncclProfiler_vN_t; init and start differ by version: see below */
struct nccl_profiler_table {
	const char *name;
	void *init;
	void *start;
	nccl_profiler_stop_fn stop;
	nccl_profiler_record_fn record;
	nccl_profiler_finalize_fn finalize;
};

/* ---- descriptors: what a version shares with the next one stands here once ---- */

struct nccl_profile_p2p_named { /* versions 2 and 3 */
	const char *name;
	uint64_t comm_hash;
	const char *func;
	void *buffer;
	const char *datatype;
	size_t count;
	int peer;
};
struct nccl_profile_proxy_op {
	pid_t pid; /* of the originating process; with PXN another one */
	uint8_t channel;
	int peer;
	int step_count;
	int chunk_bytes;
	int is_send;
};
struct nccl_profile_proxy_step {
	int step;
};
struct nccl_profile_kernel_ch { /* since version 4 */
	uint8_t channel;
	uint64_t timer; /* GPU globaltimer at the start */
};
struct nccl_profile_net_plugin { /* since version 3 */
	int64_t id;
	void *data;
};
/* of a collective, since version 3 */
#define NCCL_PROFILE_COLL_FIELDS                                                                   \
	uint64_t seq;                                                                              \
	const char *func;                                                                          \
	const void *send;                                                                          \
	void *recv;                                                                                \
	size_t count;                                                                              \
	int root;                                                                                  \
	const char *datatype;                                                                      \
	uint8_t channel_count;                                                                     \
	uint8_t warp_count;                                                                        \
	const char *algorithm;                                                                     \
	const char *protocol
/* of a point-to-point operation, since version 4 */
#define NCCL_PROFILE_P2P_FIELDS                                                                    \
	const char *func;                                                                          \
	void *buffer;                                                                              \
	const char *datatype;                                                                      \
	size_t count;                                                                              \
	int peer;                                                                                  \
	uint8_t channel_count
/* of an event, since version 5 */
#define NCCL_PROFILE_EVENT_FIELDS                                                                  \
	struct {                                                                                   \
		bool graph_captured;                                                               \
		int group_depth;                                                                   \
	} group_api;                                                                               \
	struct {                                                                                   \
		const char *func;                                                                  \
		size_t count;                                                                      \
		const char *datatype;                                                              \
		int root;                                                                          \
		void *stream;                                                                      \
		bool graph_captured;                                                               \
	} coll_api;                                                                                \
	struct {                                                                                   \
		const char *func;                                                                  \
		size_t count;                                                                      \
		const char *datatype;                                                              \
		void *stream;                                                                      \
		bool graph_captured;                                                               \
	} p2p_api;                                                                                 \
	struct {                                                                                   \
		void *stream;                                                                      \
	} kernel_launch;                                                                           \
	struct {                                                                                   \
		NCCL_PROFILE_COLL_FIELDS;                                                          \
		void *parent_group;                                                                \
	} coll;                                                                                    \
	struct {                                                                                   \
		NCCL_PROFILE_P2P_FIELDS;                                                           \
		void *parent_group;                                                                \
	} p2p;                                                                                     \
	struct nccl_profile_proxy_op proxy_op;                                                     \
	struct nccl_profile_proxy_step proxy_step;                                                 \
	struct nccl_profile_kernel_ch kernel_ch;                                                   \
	struct nccl_profile_net_plugin net_plugin

struct nccl_profiler_v1_event {
	uint8_t type;
	void *parent;
	int rank;
	union {
		struct {
			const char *name;
			uint64_t comm_hash;
			uint64_t seq;
			uint8_t func;
			const void *send;
			void *recv;
			size_t count;
			int root;
			uint8_t datatype;
			uint32_t op;
			size_t traffic_bytes;
			uint8_t channel_count;
			uint8_t warp_count;
			uint8_t algorithm;
			uint8_t protocol;
			int is_collnet;
			int is_nvls;
		} coll;
		struct {
			const char *name;
			uint64_t comm_hash;
			uint8_t func;
			void *buffer;
			uint8_t datatype;
			size_t count;
			int peer;
		} p2p;
		struct nccl_profile_proxy_op proxy_op;
		struct nccl_profile_proxy_step proxy_step;
	};
};

struct nccl_profiler_v2_event {
	uint8_t type;
	void *parent;
	int rank;
	union {
		struct {
			const char *name;
			uint64_t comm_hash;
			uint64_t seq;
			const char *func;
			const void *send;
			void *recv;
			size_t count;
			int root;
			const char *datatype;
			size_t traffic_bytes;
			uint8_t channel_count;
			uint8_t warp_count;
			const char *algorithm;
			const char *protocol;
		} coll;
		struct nccl_profile_p2p_named p2p;
		struct nccl_profile_proxy_op proxy_op;
		struct nccl_profile_proxy_step proxy_step;
	};
};

struct nccl_profiler_v3_event {
	uint8_t type;
	void *parent;
	int rank;
	union {
		struct {
			const char *name;
			uint64_t comm_hash;
			NCCL_PROFILE_COLL_FIELDS;
		} coll;
		struct nccl_profile_p2p_named p2p;
		struct nccl_profile_proxy_op proxy_op;
		struct nccl_profile_proxy_step proxy_step;
		struct {
			uint8_t channel;
		} kernel_ch;
		struct nccl_profile_net_plugin net_plugin;
	};
};

struct nccl_profiler_v4_event {
	uint8_t type;
	void *parent;
	int rank;
	union {
		struct {
			NCCL_PROFILE_COLL_FIELDS;
		} coll;
		struct {
			NCCL_PROFILE_P2P_FIELDS;
		} p2p;
		struct nccl_profile_proxy_op proxy_op;
		struct nccl_profile_proxy_step proxy_step;
		struct nccl_profile_kernel_ch kernel_ch;
		struct nccl_profile_net_plugin net_plugin;
	};
};

struct nccl_profiler_v5_event {
	uint64_t type;
	void *parent;
	int rank;
	union {
		NCCL_PROFILE_EVENT_FIELDS;
	};
};

struct nccl_profiler_v6_event {
	uint64_t type;
	void *parent;
	int rank;
	union {
		NCCL_PROFILE_EVENT_FIELDS;
		struct {
			uint8_t channel, is_send, peer;
			uint32_t step, bytes;
			uint64_t start, ready;
		} kernel_step;
		struct {
			uint64_t seq;
			const char *func;
			const void *send;
			void *recv;
			size_t count;
			int root;
			const char *datatype;
			const char *sync_strategy;
			bool intra_batch_sync;
			uint32_t batch_bytes, batch_count, ce_seq;
			void *stream;
		} ce_coll;
		struct {
			bool is_complete;
			int nranks;
		} ce_sync;
		struct {
			int op_count;
			size_t total_bytes;
			bool use_intra_sync;
		} ce_batch;
	};
};

/* init has one form each for versions 1 to 3, 4, and since 5 */
typedef nccl_result (*nccl_profiler_v1_init_fn)(void **context, int *mask);
typedef nccl_profiler_v1_init_fn nccl_profiler_v2_init_fn, nccl_profiler_v3_init_fn;
typedef nccl_result (*nccl_profiler_v4_init_fn)(void **context, int *mask, const char *name,
						uint64_t comm_hash, int nodes, int nranks, int rank,
						void *log);
typedef nccl_result (*nccl_profiler_v5_init_fn)(void **context, uint64_t comm_hash, int *mask,
						const char *name, int nodes, int nranks, int rank,
						void *log);
typedef nccl_profiler_v5_init_fn nccl_profiler_v6_init_fn;

#define NCCL_PROFILER_START(v, size)                                                               \
	typedef nccl_result (*nccl_profiler_v##v##_start_fn)(                                      \
	    void *context, void **handle, struct nccl_profiler_v##v##_event *event);               \
	_Static_assert(offsetof(struct nccl_profiler_v##v##_event, coll) == 24 &&                  \
			   sizeof(struct nccl_profiler_v##v##_event) == (size),                    \
		       "the interface's layout")
NCCL_PROFILER_START(1, 120);
NCCL_PROFILER_START(2, 128);
NCCL_PROFILER_START(3, 120);
NCCL_PROFILER_START(4, 104);
NCCL_PROFILER_START(5, 112);
NCCL_PROFILER_START(6, 112);
