/* SPDX-License-Identifier: Apache-2.0
 * ring_format.h - boundary 1, application to sidecar: the layout of the shared memory.
 * docs/ring-format.md is normative; the assertions below check that this file agrees with it.
 * One memfd per process, F_SEAL_SHRINK|F_SEAL_GROW|F_SEAL_FUTURE_WRITE|F_SEAL_SEAL, at most
 * LIMIT_RING_BYTES. A second memfd holds struct ring_reader_page, which the reader writes.
 *   0                 struct ring_header                     written once, before it is passed on
 *   4096              struct ring_counters                   written by the process
 *   8192              not used
 *   12288             struct ring_lane [lane_count]          one cache line of writer state each
 *   names_offset      name arena: records of struct ring_name, 8-byte aligned, append-only
 *   lane.offset       lane.slots slots of lane.slot_bytes
 * A lane has one producer. Slot n of a lane (n counts from 0 and never wraps) lies at index n %
 * slots. The producer stores seq_begin = n+1 (release fence after), the payload, then seq_end = n+1
 * (release), then lane.head = n+1 (release). Slots hold the sequences truncated to 32 bits. A
 * reader copies slot n and keeps it only if both sequences equal (uint32_t)(n+1); it reads seq_end
 * first and seq_begin last.
 * The producer never waits: it overwrites the oldest slot. The reader counts exactly what it
 * missed: head - slots - tail. */
#pragma once

#include <stdint.h>

#include "base/limits.h"
#include "base/span_kind.h"

#define RING_MAGIC	       0x474e49524d4f5359ull /* "YSOMRING" read as little-endian bytes */
#define RING_VERSION	       1u
#define RING_HOST_SLOT_BYTES   64u
#define RING_DEVICE_SLOT_BYTES 128u
/* name of the preload's own thread, whose waits delay no step */
#define RING_HELPER_NAME "sysom"
/* name id of an unknown name: the arena was full, or the name unreadable */
#define RING_NAME_NONE 0u

/* One counter per cause of loss in the process; the order is part of the format. Append only. The
 * last column: whether events are missing. */
#define RING_DROP_CAUSES(X)                                                                        \
	X(NO_LANE, "no_lane", true)	      /* events of threads that found no free lane */      \
	X(NAMES_FULL, "names_full", true)     /* names that did not fit the arena */               \
	X(CUPTI_BUFFER, "cupti_buffer", true) /* records for which CUPTI had no buffer */          \
	X(CUPTI_ZERO_STAMP, "cupti_zero_stamp", true) /* records with a zero time stamp */         \
	X(CUPTI_REVERSED, "cupti_reversed", true) /* records whose end lies before their start */  \
	X(CUPTI_PARTIAL, "cupti_partial", true)	  /* kernels delivered before they ended */        \
	X(CUPTI_UNKNOWN, "cupti_unknown", true)	  /* records of an unknown layout */               \
	X(PACING, "pacing", true)	/* device records dropped: the reader was too slow */      \
	X(RECURSION, "recursion", true) /* wrapper calls from inside our own wrapper */            \
	X(INTERNAL, "internal", true)	/* our own failure; tracing latches off */                 \
	X(PLUGIN_HANDLE, "plugin_handle", true)	 /* NCCL profiler callbacks on unknown handles */  \
	X(STARTING, "starting", true)		 /* events while another thread builds the ring */ \
	X(SWITCHED_OFF, "switched_off", false)	 /* calls while tracing is switched off */         \
	X(SPAN_VALUE, "span_value", false)	 /* work of a span or step that is no count */     \
	X(SPAN_FUNCTION, "span_function", false) /* functions that can't be followed */            \
	X(SPAN_ITEMS, "span_items", true)	 /* requests of a span beyond LIMIT_SPAN_ITEMS */  \
	X(PLUGIN_LOAD, "plugin_load", false)   /* the user's NCCL plugins: not plugins, or gone */ \
	X(PLUGIN_INIT, "plugin_init", false)   /* communicators that the user's plugin refused */  \
	X(PLUGIN_ERROR, "plugin_error", false) /* errors from callbacks of the user's plugin */    \
	X(SPAN_TEXT, "span_text", false) /* texts of ranges that were too long, or had no end */   \
	X(CHANNELS, "channels", false)	 /* how often KernelCh was ended for its cost */

enum ring_drop {
#define X(name, ...) RING_DROP_##name,
	RING_DROP_CAUSES (X)
#undef X
	    RING_DROP_COUNT
};

struct ring_header {
	uint64_t magic;
	uint32_t version;
	uint32_t header_bytes; /* sizeof(struct ring_header) */
	uint64_t total_bytes;
	uint32_t clock_source; /* enum clock_source of host lanes */
	uint32_t lane_count;
	uint64_t lanes_offset;
	uint64_t names_offset, names_bytes;
	/* The three clocks, read together at start, so that a ring can be read offline. */
	uint64_t anchor_ticks, anchor_monotonic_ns, anchor_realtime_ns;
	uint32_t pid, reserved;
	uint64_t start_time_ticks; /* field 22 of /proc/PID/stat: detects a reused pid */
	uint8_t pad[4096 - 96];
};
_Static_assert(sizeof(struct ring_header) == 4096, "ring_header");
_Static_assert(__builtin_offsetof(struct ring_header, start_time_ticks) == 88, "start_time_ticks");

enum ring_trace_state { RING_TRACE_OFF = 0, RING_TRACE_ON = 1, RING_TRACE_LATCHED = 2 };

struct ring_counters {
	uint64_t drops[32];    /* lost events, by enum ring_drop */
	uint64_t events;       /* events pushed, including those of ended threads */
	uint64_t names_tail;   /* bytes of the arena in use; release */
	uint64_t heartbeat_ns; /* CLOCK_MONOTONIC, by the helper thread, every 100 ms */
	uint32_t trace_state;  /* enum ring_trace_state */
	uint32_t cupti_state;  /* enum ring_cupti_state */
	uint64_t cupti_gap_count;
	/* bytes written to all lanes: the denominator of the uploaded share */
	uint64_t bytes_written;
	uint64_t lanes_used;   /* all lanes that ever had an owner lie below this; 0: unknown */
	uint64_t plugin_calls; /* calls of the user's NCCL plugin that have not returned */
	uint8_t pad[4096 - 256 - 64];
};
_Static_assert(sizeof(struct ring_counters) == 4096, "ring_counters");
_Static_assert(__builtin_offsetof(struct ring_counters, names_tail) == 264, "names_tail");

enum ring_cupti_state {
	RING_CUPTI_NONE = 0,	/* no context yet, or no libcupti in the process */
	RING_CUPTI_V2 = 1,	/* own v2 subscriber */
	RING_CUPTI_LEGACY = 2,	/* activity API only */
	RING_CUPTI_YIELDED = 3, /* another profiler has it */
	RING_CUPTI_REFUSED = 4, /* an error; an EVENT_GAP gives the reason */
	RING_CUPTI_IDLE = 5,	/* switched off: no sysomd for 60 s, by command, or governed */
};

/* In a memfd of its own: the only words that the reader writes. The producer does not trust them.
 * It reads them only for pacing. A wrong value costs at most device records, counted as
 * RING_DROP_PACING. */
struct ring_reader_page {
	uint64_t heartbeat_ns; /* CLOCK_MONOTONIC; older than 1 s: no live reader, no pacing */
	uint64_t tail[LIMIT_RING_LANES]; /* slots consumed of each lane */
};
_Static_assert(sizeof(struct ring_reader_page) == 4096, "ring_reader_page");

enum ring_lane_state { RING_LANE_FREE = 0, RING_LANE_CLAIMED = 1, RING_LANE_ENDED = 2 };
enum ring_lane_kind { RING_LANE_HOST = 1, RING_LANE_DEVICE = 2 };

struct ring_lane {
	uint64_t head;	/* slots ever pushed; release, pairs with the reader's acquire */
	uint32_t state; /* enum ring_lane_state; claimed by CAS */
	uint32_t tid;	/* the owner's tid in its pid namespace */
	uint64_t offset;
	uint32_t slots; /* power of two */
	uint16_t slot_bytes;
	uint8_t kind;
	uint8_t clock_source; /* clock of the stamps in this lane */
	uint32_t generation;  /* counts owners, so that a reader sees a change of owner; release */
	uint32_t reserved;
	/* number of the current owner's first slot; stored before `generation` */
	uint64_t owner_first;
	uint32_t reserved2[4];
};
_Static_assert(sizeof(struct ring_lane) == 64, "ring_lane");
_Static_assert(__builtin_offsetof(struct ring_lane, generation) == 32, "ring_lane.generation");
_Static_assert(__builtin_offsetof(struct ring_lane, owner_first) == 40, "ring_lane.owner_first");

struct ring_name {
	uint32_t id;	/* 1, 2, ... in order of the arena */
	uint32_t bytes; /* length of text, unterminated; stored last with release; 0: not written */
	char text[];
};

/* ---- events. Host lanes: 64-byte slots. Device lanes: 128-byte slots. ---- */

enum event_kind {
	EVENT_LAUNCH = 1,	/* struct event_launch */
	EVENT_GRAPH_LAUNCH = 2, /* struct event_launch; func = graph exec handle, grid unused */
	EVENT_COLL = 3,		/* struct event_coll: any NCCL call, by func */
	EVENT_COMM = 4,		/* event_comm: a communicator was made, split or destroyed */
	EVENT_MEM = 5,		/* struct event_mem */
	EVENT_SYNC = 6,		/* struct event_sync: the host waited for the GPU */
	EVENT_STEP_BEGIN = 7,	/* struct event_step */
	EVENT_STEP_END = 8,	/* struct event_step */
	EVENT_SPAN_BEGIN = 9,	/* struct event_span (NVTX, API, a catalogue's) */
	EVENT_SPAN_END = 10,	/* struct event_span */
	EVENT_STREAM = 11,	/* struct event_stream: handle -> CUPTI ids */
	EVENT_CONTEXT = 12,	/* struct event_stream, stream 0: this thread's current context */
	EVENT_GAP = 13,		/* struct event_gap: nothing, or less, was recorded from t to
				 * `to` */
	/* 14 is reserved and was never written; kernel records carry the names */
	EVENT_PLUGIN = 15,	 /* struct event_plugin: NCCL profiler plugin callbacks */
	EVENT_ANCHOR = 16,	 /* struct event_anchor */
	EVENT_GRAPH_NODE = 17,	 /* struct event_coll captured into a graph: template entry */
	EVENT_GRAPH = 18,	 /* struct event_graph: links the handles of captures and graphs */
	EVENT_TRANSFER = 19,	 /* struct event_transfer: what a collective sent to one peer */
	EVENT_SPAN_REQUEST = 20, /* struct event_span_request: requests that a span handles */
	EVENT_KERNEL = 32,	 /* device lanes: struct event_kernel */
	EVENT_COPY = 33,	 /* device lanes: struct event_copy */
	EVENT_GRAPH_EXEC = 34, /* device lanes: struct event_kernel, one record per graph launch */
};

#define EVENT_FLAG_PTSZ	  0x0001 /* per-thread default stream variant */
#define EVENT_FLAG_FAILED 0x0002 /* the real function returned an error */
#define EVENT_FLAG_CAPTURED                                                                        \
	0x0004			     /* on a capturing stream: becomes a graph node, runs no kernel
				     * now */
#define EVENT_FLAG_GRAPH_NODE 0x0008 /* device record of a node inside a graph launch */
#define EVENT_FLAG_EXPLICIT   0x0010 /* step from the explicit API */
#define EVENT_FLAG_AGGREGATE  0x0020 /* inside ncclGroupStart/End: starts when the group ends */
#define EVENT_FLAG_CONTINUES  0x0080 /* STEP_BEGIN: some of its requests were in the step before */
#define EVENT_FLAG_RESTATED   0x0040 /* COMM, STREAM, GRAPH: repeated for a newly attached sysomd */

/* Common to all slots. Host slots: u32 seq_begin, u16 kind, u16 flags, 52 bytes, u32 seq_end. */
struct event_head {
	uint32_t seq_begin;
	uint16_t kind;
	uint16_t flags;
	uint64_t t; /* stamp of the entry (host) or start (device), by the lane's clock */
};

/* Launches of a stream are numbered in stream order, and so are its kernels. Events that the ring
 * loses are counted too, so the difference between launch number and kernel number is constant for
 * a stream's life. The upper 8 bits are an epoch. The kernel epoch changes when records may have
 * been lost uncounted. Epoch 0 on both sides means that everything was counted from the first
 * launch on, and the numbers are equal. */
#define RING_NUMBER(epoch, count) ((uint32_t)(epoch) << 24 | ((uint32_t)(count)&0xffffff))

struct event_launch {
	struct event_head head;
	uint64_t func;	 /* CUfunction / CUkernel / CUgraphExec handle */
	uint64_t stream; /* CUstream handle as the caller gave it */
	uint32_t grid[3];
	uint16_t block[3];
	uint16_t api;	   /* enum preload hook id, for display only */
	uint32_t duration; /* exit - entry, clock of the lane, saturated */
	uint32_t number;   /* RING_NUMBER; 0: unknown, or of a graph, failed or captured */
	uint32_t seq_end;
};

enum event_coll_func {
	COLL_ALL_REDUCE = 1,
	COLL_BROADCAST,
	COLL_REDUCE,
	COLL_ALL_GATHER,
	COLL_REDUCE_SCATTER,
	COLL_ALL_TO_ALL,
	COLL_GATHER,
	COLL_SCATTER,
	COLL_SEND,
	COLL_RECV,
	COLL_BCAST,
	COLL_GROUP_START = 32,
	COLL_GROUP_END,
	COLL_GROUP_SIMULATE,
	COLL_OTHER = 63,
};

struct event_coll {
	struct event_head head;
	uint64_t comm;	     /* ncclComm_t handle; EVENT_COMM maps it */
	uint64_t stream;     /* CUstream handle */
	uint64_t count;	     /* elements */
	uint64_t capture;    /* id of the capture that it belongs to; 0: runs now */
	uint32_t seq;	     /* the k-th call of (comm, func[, peer]) in this process, from 0 */
	int16_t peer;	     /* root or peer rank; -1 none */
	uint8_t func, dtype; /* enum event_coll_func, ncclDataType_t */
	uint32_t duration;
	uint32_t seq_end;
};

enum event_comm_action {
	COMM_INIT = 1,
	COMM_SPLIT = 2,
	COMM_SHRINK = 3,
	COMM_DESTROY = 4,
	COMM_ABORT = 5,
	COMM_FINALIZE = 6,
	COMM_GROW = 7,
	COMM_REVOKE = 8,
};

struct event_comm {
	struct event_head head;
	uint64_t comm; /* handle in this process */
	uint64_t id;   /* the same on every rank: hash of the ncclUniqueId, or lineage of a split */
	uint64_t parent; /* id of the communicator it was split from, else 0 */
	int32_t nranks, rank;
	uint16_t action;
	uint16_t color;
	uint32_t duration;
	uint32_t reserved;
	uint32_t seq_end;
};

struct event_mem {
	struct event_head head;
	uint64_t bytes; /* 0 for a free */
	uint64_t address;
	uint64_t reserved[2];
	uint16_t api;
	uint16_t result;
	uint32_t duration;
	uint32_t reserved2;
	uint32_t seq_end;
};

enum event_sync_scope { SYNC_UNKNOWN = 0, SYNC_STREAM = 1, SYNC_EVENT = 2, SYNC_CONTEXT = 3 };

struct event_sync {
	struct event_head head;
	uint64_t handle; /* stream, event or 0 */
	uint64_t reserved[3];
	uint16_t api;
	uint16_t scope; /* enum event_sync_scope: what the host waited for */
	uint32_t duration;
	uint32_t reserved2;
	uint32_t seq_end;
};

struct event_step {
	struct event_head head;
	double work[LIMIT_STEP_WORK];
	uint32_t work_count;
	uint32_t index; /* counts the steps of the API from 0 */
	uint32_t phase; /* name id of a phase, RING_NAME_NONE: none */
	uint32_t seq_end;
};

enum span_source { SPAN_SOURCE_NVTX = 1, SPAN_SOURCE_API = 2, SPAN_SOURCE_PYTHON = 3 };

struct event_span {
	struct event_head head;
	uint64_t span;	 /* pairs a begin and an end that do not nest; 0: nested */
	uint64_t domain; /* NVTX: its domain. Python: hash of the request's id, 0: none */
	/* Python: by SPAN_WORKS, 0: none; values of the end replace those of the begin */
	float work[SPAN_WORK_MAX];
	uint32_t name;
	uint8_t source;		 /* enum span_source */
	uint8_t process, thread; /* Python: index in SPAN_PROCESSES, SPAN_THREADS */
	uint8_t reserved;
	/* nesting depth among the thread's open spans of NVTX and API, or of Python */
	uint32_t depth;
	uint32_t seq_end;
};

/* Some of the requests that a catalogue's span handles. t: the span's begin, so that (lane, t,
 * name) identifies the span. Written when the values are known: at the span's begin, or before its
 * end. */
#define SPAN_REQUEST_SLOTS 3u
struct event_span_request {
	struct event_head head;
	uint64_t
	    request[SPAN_REQUEST_SLOTS]; /* hash of the id, as in event_span.domain; 0: no entry */
	uint32_t tokens[SPAN_REQUEST_SLOTS];
	uint32_t name; /* name of the span */
	uint8_t done;  /* bit i: request i ends here */
	uint8_t reserved[3];
	uint32_t seq_end;
};

struct event_stream {
	struct event_head head;
	uint64_t stream;
	uint64_t context;
	uint32_t stream_id, context_id; /* CUPTI's, 0 unknown */
	uint32_t device;		/* CUDA ordinal, UINT32_MAX unknown */
	uint8_t device_uuid[16];	/* as cuDeviceGetUuid_v2 has it; all 0 unknown */
	uint32_t seq_end;
};

enum event_gap_cause {
	GAP_SWITCHED_OFF = 1,  /* `sysom off` */
	GAP_CUPTI_YIELDED = 2, /* another profiler has CUPTI */
	GAP_CUPTI_REFUSED = 3, /* an error code is in detail */
	GAP_GOVERNED = 4,      /* turned down because of its cost */
	GAP_NO_READER = 5,     /* no sysomd for 60 s */
	GAP_LATCHED = 6,       /* internal failure; detail says which */
	GAP_EXPORT_DELAY = 7,  /* device records arrived late by `to` - t */
	GAP_GRAPH_NODES = 8,   /* one record per graph launch; detail: the share of time with one
				 * record per node, in millionths */
};

struct event_gap {
	struct event_head head; /* t: when the gap began */
	uint64_t to;		/* 0: still open */
	uint64_t on;		/* if `to` is set: when this event was written; launches after it
				 * are recorded again */
	uint64_t reserved[2];
	uint16_t cause;
	uint16_t reserved1;
	int32_t detail; /* if `to` is set and CUPTI's kinds were enabled again: the epoch in which
			 * kernels count from 1 */
	uint32_t name;	/* for example the other profiler's library */
	uint32_t seq_end;
};

struct event_plugin {
	struct event_head head;
	uint64_t comm_hash;	 /* NCCL's own */
	uint64_t handle, parent; /* generation << 32 | slot; 0 none */
	uint64_t value;		 /* by type: count, bytes, globaltimer ns, transfer size */
	uint32_t seq;		 /* NCCL's seqNumber */
	uint16_t type;		 /* ncclProfiler event type bit number; state in the high byte */
	int16_t channel;
	int32_t peer;
	uint32_t seq_end;
};

/* Everything that one channel sent to one peer for one collective. t and duration: from its first
 * transfer to its last. */
struct event_transfer {
	struct event_head head;
	uint64_t comm_hash; /* NCCL's own, the same on every rank */
	uint64_t bytes;	    /* sum; 0: not known */
	uint64_t wait;	    /* sum of the transfers' times with the network; clock of the lane */
	uint32_t seq;	    /* NCCL's, per communicator and function */
	uint32_t transfers;
	int32_t peer;	       /* rank in the communicator */
	uint16_t rank;	       /* the sender's rank; UINT16_MAX: not known */
	uint8_t func, channel; /* enum event_coll_func; 0: not known */
	uint32_t duration;
	uint32_t seq_end;
};

struct event_anchor {
	struct event_head head; /* t: lane clock */
	uint64_t ticks, monotonic_ns, realtime_ns, reserved;
	uint32_t reserved1[3];
	uint32_t seq_end;
};

enum event_graph_action {
	GRAPH_CAPTURE_BEGIN = 1,
	GRAPH_CAPTURE_END = 2,
	GRAPH_INSTANTIATE = 3,
	GRAPH_UPDATE = 4,
	GRAPH_DESTROY = 5,
};

struct event_graph {
	struct event_head head;
	uint64_t graph;	  /* CUgraph */
	uint64_t exec;	  /* CUgraphExec, for INSTANTIATE, UPDATE and DESTROY */
	uint64_t capture; /* id of the capture that made it */
	uint64_t stream;
	uint16_t action;
	uint16_t reserved1;
	uint32_t nodes;
	uint32_t reserved2;
	uint32_t seq_end;
};

struct event_kernel {		/* device lane, 128 bytes */
	struct event_head head; /* t: start */
	uint64_t end;
	uint32_t correlation;
	uint32_t device, context_id, stream_id;
	uint32_t name;
	uint32_t grid[3];
	uint16_t block[3];
	uint16_t registers;
	uint32_t shared_static_bytes, shared_dynamic_bytes;
	uint32_t graph_id;
	uint64_t graph_node_id;
	uint64_t reserved[3];
	uint64_t exported; /* when it was pushed, by the host lanes' clock; 0: unknown */
	uint32_t number;   /* RING_NUMBER; 0: unknown, or of a graph's node */
	uint32_t seq_end;
};

struct event_copy { /* device lane, 128 bytes */
	struct event_head head;
	uint64_t end;
	uint32_t correlation;
	uint32_t device, context_id, stream_id;
	uint64_t bytes;
	uint8_t copy_kind, src_kind, dst_kind, reserved0; /* CUpti_ActivityMemcpyKind etc. */
	uint32_t graph_id;
	uint64_t graph_node_id;
	uint64_t reserved[6];
	uint64_t exported; /* as in event_kernel */
	uint32_t reserved1;
	uint32_t seq_end;
};

#define RING_ASSERT_SLOT(s, slot_bytes)                                                            \
	_Static_assert(sizeof(struct s) == (slot_bytes), #s);                                      \
	_Static_assert(__builtin_offsetof(struct s, seq_end) == (slot_bytes)-4, #s ".seq_end")
#define RING_ASSERT_HOST(s)   RING_ASSERT_SLOT(s, RING_HOST_SLOT_BYTES)
#define RING_ASSERT_DEVICE(s) RING_ASSERT_SLOT(s, RING_DEVICE_SLOT_BYTES)
RING_ASSERT_HOST(event_launch);
RING_ASSERT_HOST(event_coll);
RING_ASSERT_HOST(event_comm);
RING_ASSERT_HOST(event_mem);
RING_ASSERT_HOST(event_sync);
RING_ASSERT_HOST(event_step);
RING_ASSERT_HOST(event_span);
RING_ASSERT_HOST(event_stream);
RING_ASSERT_HOST(event_gap);
RING_ASSERT_HOST(event_plugin);
RING_ASSERT_HOST(event_transfer);
RING_ASSERT_HOST(event_anchor);
RING_ASSERT_HOST(event_graph);
RING_ASSERT_DEVICE(event_kernel);
RING_ASSERT_DEVICE(event_copy);
_Static_assert(__builtin_offsetof(struct event_kernel, exported) == 112, "kernel exported");
_Static_assert(__builtin_offsetof(struct event_copy, exported) == 112, "copy exported");
