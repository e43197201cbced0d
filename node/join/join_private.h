/* SPDX-License-Identifier: Apache-2.0
 * join_private.h - what join.c (host side, order) and join_match.c (device side, matching) share.
 * Nodes live in pools made at open; lists link them by index, 0 ends a list. A stream's launches
 * lie side by side in chunks. Every table is bounded; what does not fit is counted as
 * JOIN_TABLE_FULL. */
#ifndef SYSOM_NODE_JOIN_JOIN_PRIVATE_H
#define SYSOM_NODE_JOIN_JOIN_PRIVATE_H

#include "base/keyed.h"
#include "base/probe.h"
#include "node/join/join.h"

#define JOIN_HOST_PENDING   16384u
#define JOIN_DEVICE_PENDING 16384u
/* 10,000 launches/s and device records that are three seconds late. */
#define JOIN_LAUNCHES	    32768u
#define JOIN_CHUNK	    32u /* launches of one stream side by side */
#define JOIN_COLLS	    8192u
#define JOIN_STREAMS	    512u
#define JOIN_DEVICE_STREAMS 512u
#define JOIN_COMMS	    1024u /* hash slots; half of it in use at most */
#define JOIN_FUNCS_BITS	    14u
#define JOIN_FUNCS	    (1u << JOIN_FUNCS_BITS)
#define JOIN_FUNCS_LOOK	    16u /* places for a handle */
#define JOIN_TEMPLATES	    256u
#define JOIN_TEMPLATE_COLLS 8192u
#define JOIN_EXECS	    1024u
#define JOIN_REPLAYS	    1024u /* graph launches whose nodes may still come */
#define JOIN_SPAN_DEPTH	    32u
/* Launches of a stream that may wait for the GPU: hardware takes 1,024, then the call blocks. A
 * greater number only takes longer to learn with. */
#define JOIN_PENDING	  2048u
#define JOIN_LEARN_STEPS  64u /* looks at launches per kernel, while a difference is learned */
#define JOIN_RACE	  16u /* calls on one stream at a time: so far numbers may fall */
#define JOIN_MISFITS	  8u  /* of calls at the same time, before the difference is doubted */
#define JOIN_BIND_KERNELS 32u /* first kernels of a stream of unknown ids that are looked at ... */
#define JOIN_BIND_FITS	  8u  /* ... and how many must fit one host stream only, in a row */
#define JOIN_SYNCS	  8u  /* of a stream, not yet passed by its kernels */

/* Threads of a job differ by microseconds; a call that takes longer comes late and is handed out
 * so. */
#define JOIN_REORDER_NS 20000000ull
/* A launch without a kernel: longer than a collective may hang before others care. While the device
 * ends nothing at all, what it was given stays: a person may look at the hang for long. */
#define JOIN_LAUNCH_AGE_NS 60000000000ull
#define JOIN_HANG_AGE_NS   600000000000ull
#define JOIN_FUTURE_NS	   1000000000ull

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
	uint32_t grid[3];
	uint16_t block[3];
	uint8_t type;
	bool raced; /* another call on the stream ran meanwhile: which came first is not sure */
	union {
		uint32_t replay;  /* graph: number of the replay, from 1 */
		uint32_t func_at; /* kernel: place of func in the table + 1; 0: not there yet */
	};
	uint32_t number;     /* kernel: RING_NUMBER */
	uint32_t graph_next; /* graph: the stream's next graph launch */
	uint32_t pad[2];
};
_Static_assert(sizeof(struct join_launch) == 64, "a launch is one cache line");

struct join_coll {
	uint64_t begin_ns,
	    end_ns;	  /* during this its kernel is launched: the call or its group's end */
	uint64_t call_ns; /* when it was called */
	uint64_t key, bytes;
	uint64_t group; /* 0: alone */
	uint32_t next;
	uint32_t tid, seq;
	uint32_t stream;   /* host stream it lies on */
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

/* What is known of a stream's difference: number of a launch less number of its kernel. Numbers are
 * compared by their lower 24 bits. */
struct join_align {
	uint32_t low, high; /* it lies between, both included */
	bool has_low, has_high;
	bool launched, began, met, has_floor, has_gap_floor, has_sure;
	bool unseen; /* kernels came whose launches pass by our wrappers */
	uint8_t launch_epoch, kernel_epoch;
	uint8_t misfits;
	uint32_t last_launch, last_kernel, last_met;
	uint64_t calls_end_ns;	/* of the latest to end */
	uint64_t last_begin_ns; /* of last_kernel */
	/* Newest launch that left the list; whatever begins after floor_ns has at least number
	 * floor. */
	uint32_t gone, floor;
	/* At the end of the gap of that serial: the first launch that may have a record, that has
	 * one. */
	uint32_t gap, gap_floor, sure;
	uint64_t gone_end_ns, floor_ns;
	/* While it is learned: the newest launch called before last_kernel began; the launches that
	 * low and high imply, or near them. */
	uint32_t called, at_low, at_high;
};

/* The latest gap in the device records that told in which epoch kernels count from 1 after it. */
struct join_gap {
	uint32_t serial;
	uint8_t epoch;
	uint64_t to_ns, on_ns;
};

/* A stream as the host names it. */
struct join_stream {
	uint64_t handle, scope; /* scope: context of a default stream, thread of a per-thread one */
	uint32_t context_id, stream_id;
	bool known;	       /* the ids are */
	int32_t device_stream; /* index, -1 not bound */
	struct join_list launches, colls;
	uint32_t graph_head, graph_tail; /* graph launches among them */
	struct join_align align;
	uint64_t last_group; /* of the last collective that met its kernel */
	struct join_sync syncs[JOIN_SYNCS];
	uint32_t sync_count;
};

/* A stream as device records name it. */
struct join_device_stream {
	uint32_t device, context_id, stream_id;
	int32_t stream; /* index, -1 not bound */
	/* not bound: kernels looked at, the stream they fit, how many */
	uint32_t tried, guess, fits;
};

struct join_comm {
	uint64_t handle, id;
};

struct join_func {
	uint64_t handle;
	uint32_t name; /* learned from its kernels; a guess, since handles are used again */
	uint32_t next; /* place of what was launched after it the last time */
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
	bool met;     /* a device record has met it: correlation is set */
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
	uint32_t last_coll; /* node of the latest call, to see launches inside it */
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
	const struct keyed *key;
	struct join_stats stats;
	struct join_launchers launchers;
	uint32_t launcher_last; /* the latest thread that was looked up in launchers */
	uint64_t watermark_ns, now_ns;
	uint64_t gap_end_ns; /* launches before this have no kernel any more: GAP_* */
	bool gap_asked;	     /* that gap is GAP_SWITCHED_OFF */
	struct join_gap gap;
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
	/* chunk 0 is not used */
	uint32_t chunk_next[JOIN_LAUNCHES / JOIN_CHUNK], chunk_prev[JOIN_LAUNCHES / JOIN_CHUNK];
	uint32_t chunk_free, chunk_used;
	struct join_coll *colls;
	uint32_t coll_free, coll_used;

	struct join_stream *streams;
	uint32_t stream_count;
	uint32_t stream_last; /* index of the one found last */
	uint32_t graph_streams,
	    graph_streams_sum;	   /* streams with graph launches, and their indices */
	struct probe stream_index; /* by handle and scope */
	struct join_device_stream *device_streams;
	uint32_t device_stream_count;
	uint32_t device_stream_last;
	struct probe device_index; /* by the ids */
	uint64_t context;	   /* the latest that was told: of threads that told none */

	struct join_comm *comms;
	uint32_t comm_count;
	struct join_func *funcs;
	uint32_t func_last, func_guess; /* places of the latest launched and what may be the next */
	uint8_t *name_class;		/* by name id: JOIN_NAME_*, 0 not asked yet */

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
/* A new last launch of s, to be filled; 0: no room. Where s has too many the oldest goes. */
uint32_t join_match_launch_push(struct join *j, struct join_stream *s, bool graph);
/* Drops the oldest launch of s as one without kernel. */
void join_match_launch_drop(struct join *j, struct join_stream *s);
void join_match_coll_drop(struct join *j, struct join_stream *s);
/* The host stream s is at `to` from now on. */
void join_match_stream_moved(struct join *j, const struct join_stream *s, struct join_stream *to);
/* The host stream s got its ids: meet the device stream of the same ids, if there is one. */
void join_match_bind(struct join *j, uint32_t stream_index);
void join_match_device(struct join *j, const struct join_device_pend *p);
struct join_func *join_match_func(struct join *j, uint64_t handle, bool create);
/* JOIN_NAME_* of a name; 0 where its text is not known (yet). */
uint8_t join_match_name_class(struct join *j, uint32_t name);
/* For join_align.c: does the kernel fit the launch; the stream's oldest launch, or a collective
 * whose launch nobody saw, meets it; it goes without a launch. */
bool join_match_fits(const struct join *j, const struct join_launch *l,
		     const struct join_device_pend *p);
void join_match_meet(struct join *j, struct join_stream *s, const struct join_device_pend *p);
bool join_match_meet_unseen_coll(struct join *j, struct join_stream *s,
				 const struct join_device_pend *p);
void join_match_unmatched(struct join *j, const struct join_device_pend *p, enum join_loss why);

/* join_align.c */
/* s has a device stream, perhaps another one than before. */
void join_align_bound(struct join_stream *s);
/* The last launch of s, a kernel's, has been filled. */
void join_align_launched(struct join *j, struct join_stream *s);
/* The oldest launch of s leaves the list, or one is not taken into it: node 0. */
void join_align_left(const struct join *j, struct join_stream *s, uint32_t node,
		     const struct join_launch *l);
/* Of the launches that left the list, those whose call ended before before_ns have no kernel that
 * begins at from_ns or later. */
void join_align_over(struct join_stream *s, uint64_t before_ns, uint64_t from_ns);
/* A kernel of the device stream that s is bound to: meets its launch or goes without. */
void join_align_kernel(struct join *j, struct join_stream *s, const struct join_device_pend *p);
/* The host stream of unknown ids whose launches alone fit d's first kernels; NULL: not sure (yet). */
struct join_stream *join_align_bind(struct join *j, struct join_device_stream *d,
				    const struct join_device_pend *p);

#endif
