/* SPDX-License-Identifier: Apache-2.0
 * join_state.h - what join.c (host side, order) and join_match.c (device side, matching) share.
 * Nodes live in pools made at open; lists link them by index, 0 ends a list. Every table is bounded;
 * what does not fit is counted as JOIN_TABLE_FULL. */
#ifndef SYSOM_SIDECAR_JOIN_STATE_H
#define SYSOM_SIDECAR_JOIN_STATE_H

#include "sidecar/join.h"

#define JOIN_HOST_PENDING   16384u
#define JOIN_DEVICE_PENDING 16384u
/* 10,000 launches/s and device records that are three seconds late. */
#define JOIN_LAUNCHES	    32768u
#define JOIN_COLLS	    8192u
#define JOIN_STREAMS	    512u
#define JOIN_DEVICE_STREAMS 512u
#define JOIN_DEVICE_QUEUE   64u /* kernels of one stream that wait for an alignment */
#define JOIN_COMMS	    1024u /* hash slots; half of it in use at most */
#define JOIN_FUNCS	    16384u
#define JOIN_TEMPLATES	    256u
#define JOIN_TEMPLATE_COLLS 8192u
#define JOIN_EXECS	    1024u
#define JOIN_REPLAYS	    1024u /* graph launches whose nodes may still come */
#define JOIN_SPAN_DEPTH	    32u
#define JOIN_LOOK_AHEAD	    64u
#define JOIN_RUN	    8u /* signatures in a row that make an alignment */
#define JOIN_SYNCS	    8u /* of a stream, not yet passed by its kernels */

/* Threads of a job differ by microseconds; a call that takes longer comes late and is handed out so. */
#define JOIN_REORDER_NS	      20000000ull
/* An alignment that lacks evidence waits this long for more. */
#define JOIN_ALIGN_WAIT_NS    300000000ull
/* A launch without a kernel: longer than a collective may hang before others care. While the device ends
 * nothing at all, what it was given stays: a person may look at the hang for long. */
#define JOIN_LAUNCH_AGE_NS    60000000000ull
#define JOIN_HANG_AGE_NS      600000000000ull
#define JOIN_FUTURE_NS	      1000000000ull

struct join_host_pend {
	uint64_t t_ns;
	uint16_t lane;
	uint8_t clock_source;
	uint8_t generation; /* of the lane's owner, cut */
	uint32_t tid;
	union {
		struct event_head head;
		struct event_launch launch;
		struct event_coll coll;
		struct event_comm comm;
		struct event_mem mem;
		struct event_sync sync;
		struct event_step step;
		struct event_span span;
		struct event_stream stream;
		struct event_gap gap;
		struct event_graph graph;
		uint8_t bytes[RING_HOST_SLOT_BYTES];
	} e;
};

struct join_device_pend {
	uint64_t begin_ns, end_ns;
	union {
		struct event_head head;
		struct event_kernel kernel;
		struct event_copy copy;
		uint8_t bytes[RING_DEVICE_SLOT_BYTES];
	} e;
};

enum join_launch_type { JOIN_LAUNCH_KERNEL = 0, JOIN_LAUNCH_GRAPH = 1 };

struct join_launch {
	uint64_t t_ns, func;
	uint64_t end_ns; /* of the call */
	uint32_t next;
	uint32_t tid;
	uint32_t grid[3];
	uint16_t block[3];
	uint8_t type;
	uint8_t reserved;
	union {
		uint32_t replay;   /* graph: number of the replay, from 1 */
		uint32_t func_at; /* kernel: place of func in the table + 1; 0: not there yet */
	};
};

struct join_coll {
	uint64_t begin_ns, end_ns; /* during this its kernel is launched: the call or its group's end */
	uint64_t call_ns;	   /* when it was called */
	uint64_t key, bytes;
	uint64_t group; /* 0: alone */
	uint32_t next;
	uint32_t tid, seq;
	uint32_t stream; /* host stream it lies on */
	uint32_t launches; /* seen during it on its stream */
	int16_t peer;
	uint8_t func;
	uint8_t open; /* in a group whose end has not come */
};

#define JOIN_NAME_ASKED	    0x01
#define JOIN_NAME_COLL	    0x02 /* a kernel of the communication library */
#define JOIN_NAME_OPTIMIZER 0x04

struct join_list {
	uint32_t head, tail, count;
};

/* The host waited for a stream: what was launched before it began had ended when it ended. */
struct join_sync {
	uint64_t begin_ns, end_ns;
};

/* A stream as the host names it. */
struct join_stream {
	uint64_t handle, scope; /* scope: context of a default stream, thread of a per-thread one */
	uint32_t context_id, stream_id;
	bool known;   /* the ids are */
	int32_t device_stream; /* index, -1 not bound */
	struct join_list launches, colls;
	uint64_t last_group; /* of the last collective that met its kernel */
	struct join_sync syncs[JOIN_SYNCS];
	uint32_t sync_count;
};

/* A stream as device records name it. */
struct join_device_stream {
	uint32_t device, context_id, stream_id;
	int32_t stream; /* index, -1 not bound */
	uint32_t queue_count;
	uint64_t queue_since_ns; /* host time at which the queue's head began to wait */
	struct join_device_pend queue[JOIN_DEVICE_QUEUE];
};

struct join_comm {
	uint64_t handle, id;
};

struct join_func {
	uint64_t handle;
	uint32_t name; /* learned from its kernels; a guess, since handles are used again */
};

struct join_template_coll {
	uint64_t key, bytes;
	uint32_t next;
	uint32_t node; /* k-th collective of its capture */
	int16_t peer;
	uint8_t func;
};

struct join_template {
	uint64_t capture, graph; /* capture: the process's ordinal, the same on every rank */
	struct join_list colls;
};

struct join_exec {
	uint64_t handle, graph;
	uint64_t capture;
};

struct join_replay {
	uint32_t number; /* from 1; tells a reused slot */
	uint32_t correlation;
	bool met; /* a device record has met it: correlation is set */
	uint32_t nth; /* replay of its graph */
	uint64_t t_ns, capture;
	uint32_t next_coll; /* of the template's list */
};

struct join_span {
	uint64_t t_ns, span, domain;
	uint32_t name, depth;
};

struct join_lane {
	uint8_t generation;
	uint64_t context;
	uint32_t group_depth;
	uint32_t last_coll;	/* node of the latest call, to see launches inside it */
	uint64_t last_coll_end_ns;
	uint64_t group_id;
	uint32_t group_colls[256];
	uint32_t group_count;
	struct join_span spans[JOIN_SPAN_DEPTH];
	uint32_t span_count;
};

struct join {
	struct join_sink sink;
	const struct clockmap *clock;
	struct join_stats stats;
	uint64_t watermark_ns, now_ns;
	uint64_t gap_end_ns; /* launches before this have no kernel any more: GAP_* */
	bool gap_asked;	     /* that gap is GAP_SWITCHED_OFF */
	uint64_t last_host_ns;
	uint64_t group_next;
	uint32_t replay_next;
	uint64_t aged_ns;
	uint64_t device_ns; /* end of the latest kernel that met its launch; 0: none yet */

	struct join_host_pend *host;
	uint32_t host_count;
	bool host_sorted;
	struct join_device_pend *device;
	uint32_t device_count;
	bool device_sorted;
	uint32_t *order, *order_scratch; /* for sorting either */

	struct join_launch *launches;
	uint32_t launch_free, launch_used;
	struct join_coll *colls;
	uint32_t coll_free, coll_used;

	struct join_stream *streams;
	uint32_t stream_count;
	uint32_t stream_last; /* index of the one found last */
	uint16_t stream_slots[JOIN_STREAMS * 2]; /* index + 1, by hash of handle and scope */
	struct join_device_stream *device_streams;
	uint32_t device_stream_count;
	uint32_t device_stream_last;
	uint64_t context; /* the latest that was told: of threads that told none */

	struct join_comm *comms;
	uint32_t comm_count;
	struct join_func *funcs;
	uint32_t func_count;
	uint8_t *name_class; /* by name id: JOIN_NAME_*, 0 not asked yet */

	struct join_template *templates;
	uint32_t template_count;
	struct join_template_coll *template_colls;
	uint32_t template_coll_used;
	struct join_exec *execs;
	struct join_replay *replays;

	struct join_lane *lanes;
	uint32_t lane_count;
};

static inline void join_count(struct join *j, enum join_loss loss, uint64_t n)
{
	j->stats.loss[loss] += n;
}

/* A launch or collective whose kernel a gap took. */
static inline void join_count_gap(struct join *j, enum join_loss loss)
{
	if (j->gap_asked)
		j->stats.switched_off++;
	else
		join_count(j, loss, 1);
}

/* join.c: the number of a stream as records have it. */
uint32_t join_stream_number(const struct join *j, const struct join_stream *s);
/* join_match.c */
uint32_t join_match_launch_new(struct join *j); /* 0: none left */
void join_match_launch_push(struct join *j, struct join_stream *s, uint32_t node);
/* Drops the oldest launch of s as one without kernel. */
void join_match_launch_drop(struct join *j, struct join_stream *s);
void join_match_coll_drop(struct join *j, struct join_stream *s);
/* The host stream s got its ids: meet the device stream of the same ids, if there is one. */
void join_match_bind(struct join *j, uint32_t stream_index);
void join_match_device(struct join *j, const struct join_device_pend *p);
/* Alignments that have waited long enough; all of them when `finish`. */
void join_match_expire(struct join *j, bool finish);
struct join_func *join_match_func(struct join *j, uint64_t handle, bool create);
/* JOIN_NAME_* of a name; 0 where its text is not known (yet). */
uint8_t join_match_name_class(struct join *j, uint32_t name);

#endif
