/* SPDX-License-Identifier: Apache-2.0
 * join_private.h - what join.c (host side, order) and join_match.c (device side, matching) share.
 * Nodes live in pools allocated at open; lists link them by index, and 0 ends a list. A stream's
 * launches are stored in chunks. Every table is bounded; what does not fit is counted as
 * JOIN_TABLE_FULL. */
#pragma once

#include "base/keyed.h"
#include "base/probe.h"
#include "node/join/join.h"

#define JOIN_HOST_PENDING   16384u
#define JOIN_DEVICE_PENDING 16384u
/* For 10,000 launches/s, with device records three seconds late. */
#define JOIN_LAUNCHES	    32768u
#define JOIN_CHUNK	    32u /* launches per chunk, all of one stream */
#define JOIN_COLLS	    8192u
#define JOIN_STREAMS	    512u
#define JOIN_DEVICE_STREAMS 512u
#define JOIN_COMMS	    1024u /* hash slots, at most half of them used */
#define JOIN_FUNCS_BITS	    14u
#define JOIN_FUNCS	    (1u << JOIN_FUNCS_BITS)
#define JOIN_FUNCS_LOOK	    16u /* slots tried for a handle */
#define JOIN_TEMPLATES	    256u
#define JOIN_TEMPLATE_COLLS 8192u
#define JOIN_EXECS	    1024u
#define JOIN_REPLAYS	    1024u /* graph launches whose nodes may still come */
#define JOIN_SPAN_DEPTH	    32u
#define JOIN_RANGES	    512u /* open ranges that any thread may end */
/* The most launches of a stream that may wait for the GPU. The hardware queue holds 1,024; a
 * further call blocks. A larger value only makes learning slower. */
#define JOIN_PENDING	 2048u
#define JOIN_LEARN_STEPS 64u /* launches examined per kernel while the difference is learned */
/* how far numbers may be out of order because of simultaneous calls on one stream */
#define JOIN_RACE 16u
/* mismatches of simultaneous calls before the difference is discarded */
#define JOIN_MISFITS	  8u
#define JOIN_BIND_KERNELS 32u /* first kernels of a stream with unknown ids that are examined */
/* number of consecutive kernels that must fit exactly one host stream */
#define JOIN_BIND_FITS 8u
#define JOIN_SYNCS     8u /* waits per stream that its kernels have not passed yet */

/* How long events wait to be put in order. The events of a job's threads arrive microseconds apart.
 * The event of a call longer than this arrives late, and is delivered as late. */
#define JOIN_REORDER_NS 20000000ull
/* The age at which a launch without a kernel is dropped. It is longer than the time until other
 * ranks report a hang. If the device finishes nothing at all, launches stay longer, because
 * somebody may be examining the hang. */
#define JOIN_LAUNCH_AGE_NS 60000000000ull
#define JOIN_HANG_AGE_NS   600000000000ull
#define JOIN_FUTURE_NS	   1000000000ull

struct join_host_pend {
	uint64_t t_ns;
	uint16_t lane;
	uint8_t clock_source;
	uint8_t generation; /* of the lane's owner, low bits */
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
		struct event_span_request span_request;
		struct event_stream stream;
		struct event_gap gap;
		struct event_graph graph;
		struct event_transfer transfer;
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
	uint32_t grid[3];
	uint16_t block[3];
	uint8_t type;
	bool raced; /* another call on the stream overlapped, so their order is uncertain */
	union {
		uint32_t replay;  /* graph: number of the replay, from 1 */
		uint32_t func_at; /* kernel: index of func in the table + 1; 0: not in it */
	};
	uint32_t number;     /* kernel: RING_NUMBER */
	uint32_t graph_next; /* graph: the stream's next graph launch */
	uint32_t pad[2];
};
_Static_assert(sizeof(struct join_launch) == 64, "a launch is one cache line");

struct join_coll {
	/* Its kernel is launched between these two times: during the call, or during the call that
	 * ends its group. */
	uint64_t begin_ns, end_ns;
	uint64_t call_ns; /* when the call began */
	uint64_t key, bytes;
	uint64_t group; /* 0: in no group */
	uint32_t next;
	uint32_t tid, seq;
	uint32_t stream;   /* index of its host stream */
	uint32_t launches; /* launches seen during it on its stream */
	int16_t peer;
	uint8_t func;
	uint8_t open; /* its group has not ended */
};

#define JOIN_NAME_ASKED	    0x01
#define JOIN_NAME_COLL	    0x02 /* a kernel of the communication library */
#define JOIN_NAME_OPTIMIZER 0x04

struct join_list {
	uint32_t head, tail, count;
};

/* The host waited for a stream. Launches before begin_ns had finished by end_ns. */
struct join_sync {
	uint64_t begin_ns, end_ns;
};

/* What is known about a stream's difference: the number of a launch minus the number of its kernel.
 * Numbers are compared by their lower 24 bits. */
struct join_align {
	uint32_t low, high; /* bounds of the difference, inclusive */
	bool has_low, has_high;
	bool launched, began, met, has_floor, has_gap_floor, has_sure;
	bool unseen; /* some kernels have no launch record */
	uint8_t launch_epoch, kernel_epoch;
	uint8_t misfits;
	uint32_t last_launch, last_kernel, last_met;
	uint64_t calls_end_ns;	/* end of the call that ended last */
	uint64_t last_begin_ns; /* of last_kernel */
	/* gone: number of the newest launch that left the list. floor: a kernel that begins after
	 * floor_ns has at least this number. */
	uint32_t gone, floor;
	/* At the end of the gap with the serial `gap`: gap_floor is the first launch that may have
	 * a record, and sure the first that has one. */
	uint32_t gap, gap_floor, sure;
	uint64_t gone_end_ns, floor_ns;
	/* While learning: called is the newest launch called before last_kernel began; at_low and
	 * at_high are the launches that low and high imply, or launches near these. */
	uint32_t called, at_low, at_high;
};

/* The latest gap in the device records after which kernels count from 1 in a known epoch. */
struct join_gap {
	uint32_t serial;
	uint8_t epoch;
	uint64_t to_ns, on_ns;
};

/* A stream as the host sees it. */
struct join_stream {
	uint64_t handle, scope; /* scope: context of a default stream, thread of a per-thread one */
	uint32_t context_id, stream_id;
	bool known;	       /* the ids are known */
	int32_t device_stream; /* index; -1: not bound */
	struct join_list launches, colls;
	uint32_t graph_head, graph_tail; /* the list of the stream's graph launches */
	struct join_align align;
	uint64_t last_group; /* of the last collective that was joined with its kernel */
	struct join_sync syncs[JOIN_SYNCS];
	uint32_t sync_count;
};

/* A stream as device records show it. */
struct join_device_stream {
	uint32_t device, context_id, stream_id;
	int32_t stream; /* index; -1: not bound */
	/* While not bound: tried is the number of kernels examined, guess the host stream that
	 * fits, fits how often it did. */
	uint32_t tried, guess, fits;
};

struct join_comm {
	uint64_t handle, id;
};

struct join_func {
	uint64_t handle;
	uint32_t name; /* learned from its kernels; may be wrong, because handles are reused */
	uint32_t next; /* index of the function that was launched after it last time */
};

struct join_template_coll {
	uint64_t key, bytes;
	uint32_t next;
	uint32_t node; /* the k-th collective of its capture */
	int16_t peer;
	uint8_t func;
};

struct join_template {
	uint64_t capture, graph; /* capture: the process's ordinal, equal on every rank */
	struct join_list colls;
};

struct join_exec {
	uint64_t handle, graph;
	uint64_t capture;
};

struct join_replay {
	uint32_t number; /* from 1; detects a reused slot */
	uint32_t correlation;
	bool met;     /* a device record was joined: correlation is set */
	uint32_t nth; /* replay of its graph */
	uint64_t t_ns, capture;
	uint32_t next_coll; /* next collective of the template's list */
};

struct join_span {
	uint64_t t_ns, span, domain;
	uint32_t name, depth, tid;
	/* Only for spans of a catalogue: the nesting depth among these. The start's event has the
	 * other fields. */
	uint32_t python_depth;
	uint8_t source, process, thread;
	float work[SPAN_WORK_MAX];
};

struct join_lane {
	uint8_t generation;
	uint64_t context;
	uint32_t last_coll; /* node of the latest call, to count launches inside it */
	uint64_t last_coll_end_ns;
	uint64_t group_id;
	uint32_t group_colls[256];
	uint32_t group_count;
	struct join_span spans[JOIN_SPAN_DEPTH];
	uint32_t span_count;
	/* 1 + the least depth of a range; 0: none yet. Ranges at lower depths began before the
	 * thread was watched. */
	uint32_t span_floor;
};

struct join {
	struct join_sink sink;
	const struct clockmap *clock;
	const struct keyed *key;
	struct join_stats stats;
	struct join_launchers launchers;
	uint32_t launcher_last; /* the thread that was looked up last */
	uint64_t watermark_ns, now_ns;
	uint64_t gap_end_ns; /* the kernels of launches before this time are lost (GAP_*) */
	bool gap_asked;	     /* that gap is GAP_SWITCHED_OFF */
	struct join_gap gap;
	uint64_t last_host_ns;
	/* ranges: NVTX ranges with a handle, in the order of their starts; first_range: the first
	 * handle seen */
	struct join_span ranges[JOIN_RANGES];
	uint32_t range_count;
	uint64_t first_range;
	uint64_t group_next;
	uint32_t replay_next;
	uint64_t aged_ns;
	uint64_t device_ns; /* end of the latest kernel that was joined; 0: none yet */

	struct join_host_pend *host;
	uint32_t host_count;
	bool host_sorted;
	struct join_device_pend *device;
	uint32_t device_count;
	bool device_sorted;
	uint32_t *order, *order_scratch; /* for sorting host events or device records */

	struct join_launch *launches;
	/* Chunk 0 is not used. */
	uint32_t chunk_next[JOIN_LAUNCHES / JOIN_CHUNK], chunk_prev[JOIN_LAUNCHES / JOIN_CHUNK];
	uint32_t chunk_free, chunk_used;
	struct join_coll *colls;
	uint32_t coll_free, coll_used;

	struct join_stream *streams;
	uint32_t stream_count;
	uint32_t stream_last; /* index of the stream found last */
	uint32_t graph_streams,
	    graph_streams_sum;	   /* streams with graph launches, and the sum of their indices */
	struct probe stream_index; /* by handle and scope */
	struct join_device_stream *device_streams;
	uint32_t device_stream_count;
	uint32_t device_stream_last;
	struct probe device_index; /* by the ids */
	uint64_t context;	   /* the latest known context, for threads that reported none */

	struct join_comm *comms;
	uint32_t comm_count;
	struct join_func *funcs;
	/* indices of the latest function, and of the one expected next */
	uint32_t func_last, func_guess;
	uint8_t *name_class; /* by name id: JOIN_NAME_*; 0: not asked yet */

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

/* Counts a launch or collective whose kernel a gap lost. */
static inline void join_count_gap(struct join *j, enum join_loss loss)
{
	if (j->gap_asked)
		j->stats.switched_off++;
	else
		join_count(j, loss, 1);
}

/* join.c: the number by which records name the stream. */
uint32_t join_stream_number(const struct join *j, const struct join_stream *s);
static inline uint32_t join_launch_next(const struct join *j, const struct join_stream *s,
					uint32_t node)
{
	if (node == s->launches.tail)
		return 0;
	return (node + 1) % JOIN_CHUNK ? node + 1 : j->chunk_next[node / JOIN_CHUNK] * JOIN_CHUNK;
}
static inline uint32_t join_launch_prev(const struct join *j, const struct join_stream *s,
					uint32_t node)
{
	if (node == s->launches.head)
		return 0;
	return node % JOIN_CHUNK ? node - 1
				 : j->chunk_prev[node / JOIN_CHUNK] * JOIN_CHUNK + JOIN_CHUNK - 1;
}

/* join_match.c */
/* Appends an empty launch to s, for the caller to fill; 0: no room. If s has too many launches,
 * drops the oldest. */
uint32_t join_match_launch_push(struct join *j, struct join_stream *s, bool graph);
/* Drops the oldest launch of s as one without a kernel. */
void join_match_launch_drop(struct join *j, struct join_stream *s);
void join_match_coll_drop(struct join *j, struct join_stream *s);
/* The host stream s has moved to `to`. */
void join_match_stream_moved(struct join *j, const struct join_stream *s, struct join_stream *to);
/* Call when the ids of a host stream become known: binds it to the device stream with these ids. */
void join_match_bind(struct join *j, uint32_t stream_index);
void join_match_device(struct join *j, const struct join_device_pend *p);
struct join_func *join_match_func(struct join *j, uint64_t handle, bool create);
/* JOIN_NAME_* of a name; 0: its text is not known yet. */
uint8_t join_match_name_class(struct join *j, uint32_t name);
/* For join_align.c. join_match_fits: whether the launch can be the kernel's. join_match_meet: joins
 * the kernel with the stream's oldest launch. join_match_meet_unseen_coll: joins it with a
 * collective whose launch was not recorded. join_match_unmatched: delivers it without a launch. */
bool join_match_fits(const struct join *j, const struct join_launch *l,
		     const struct join_device_pend *p);
void join_match_meet(struct join *j, struct join_stream *s, const struct join_device_pend *p);
bool join_match_meet_unseen_coll(struct join *j, struct join_stream *s,
				 const struct join_device_pend *p);
void join_match_unmatched(struct join *j, const struct join_device_pend *p, enum join_loss why);

/* join_align.c */
/* Call when s was bound to a device stream, perhaps not for the first time. */
void join_align_bound(struct join_stream *s);
/* Call when the last launch of s, a kernel launch, is filled. */
void join_align_launched(struct join *j, struct join_stream *s);
/* Call when the oldest launch of s leaves the list; with node 0, when a launch was not added to the
 * list. */
void join_align_left(const struct join *j, struct join_stream *s, uint32_t node,
		     const struct join_launch *l);
/* No kernel that begins at from_ns or later belongs to a launch that has left the list and whose
 * call ended before before_ns. */
void join_align_over(struct join_stream *s, uint64_t before_ns, uint64_t from_ns);
/* Handles a kernel of the device stream that s is bound to: joins it with its launch, or delivers
 * it without a launch. */
void join_align_kernel(struct join *j, struct join_stream *s, const struct join_device_pend *p);
/* The only host stream with unknown ids whose launches fit d's first kernels; NULL: not certain
 * yet. */
struct join_stream *join_align_bind(struct join *j, struct join_device_stream *d,
				    const struct join_device_pend *p);
