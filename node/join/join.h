/* SPDX-License-Identifier: Apache-2.0
 * join.h - ring events of one process to normalised records (model/record.h).
 *
 * Host events of all lanes are merged by time after a short wait, so that what several threads did
 * comes in canonical order. A kernel record meets the launch of its stream that has its
 * number, verified by grid and block and by time: a kernel cannot start before its launch, and one that
 * starts after the host has waited for its stream was not launched before that wait. Where records went
 * uncounted the difference of the numbers is learned from the same; until it is sure nothing is joined
 * and it is counted. That work is bounded per event, however much was lost. Launches before the end of a
 * gap in the device records have lost their kernels.
 * Kernels of the communication library meet their collective: the call (or the end of its group)
 * during which their launch ran. Node records of a graph launch share one correlation id and meet
 * that launch; collectives captured into the graph form a template that every launch of it replays.
 *
 * Owns: its tables, allocated at open. Threads: one caller. Trust: events are hostile bytes that
 * passed the ring's checks only; every handle, count and stamp may be anything. */
#ifndef SYSOM_NODE_JOIN_JOIN_H
#define SYSOM_NODE_JOIN_JOIN_H

#include "model/record.h"
#include "node/join/clockmap.h"
#include "ring/ring_reader.h"

/* Why a record is missing or less than it could be; one name each, as they travel in beats. */
#define JOIN_LOSSES(X)                                                                             \
	X(BAD_STAMP, "bad_stamp")		/* a time outside what can be */                   \
	X(KERNEL_NO_LAUNCH, "kernel_no_launch") /* a kernel whose launch was not seen */           \
	X(KERNEL_AMBIGUOUS, "kernel_ambiguous") /* several launches may be its: not joined */       \
	X(LAUNCH_NO_KERNEL, "launch_no_kernel") /* a launch whose kernel was not seen */           \
	X(COLL_NO_KERNEL, "coll_no_kernel")	/* a collective whose kernel was not seen */       \
	X(COLL_KERNEL_ALONE, "coll_kernel_alone") /* a kernel whose collective was not seen */     \
	X(GRAPH_AMBIGUOUS, "graph_ambiguous")	/* node records that fit no one graph launch */    \
	X(TABLE_FULL, "join_table_full")	/* a stream, communicator, template... too many */ \
	X(FORCED, "join_forced")		/* released before their time: a burst */          \
	X(UNKNOWN_EVENT, "unknown_event")	/* a kind this version does not know */            \
	X(SPAN_UNPAIRED, "span_unpaired")	/* a span's end without its begin, or too deep */

enum join_loss {
#define X(name, text) JOIN_##name,
	JOIN_LOSSES(X)
#undef X
	JOIN_LOSS_COUNT
};

struct join_sink {
	void *arg;
	/* late: begins before a record already handed out. mark: for RECORD_STEP_BEGIN, else NULL. */
	void (*host)(void *arg, const struct record *r, const struct step_mark *mark, bool late);
	void (*device)(void *arg, const struct record *r);
	/* Text of a name id, "" unknown. */
	const char *(*name)(void *arg, uint32_t id);
};

struct join_stats {
	uint64_t host_events, device_events, host_late;
	uint64_t launches, kernels, kernels_joined, kernels_unmatched;
	uint64_t colls, coll_kernels, coll_kernels_joined, coll_fused;
	uint64_t graph_launches, graph_nodes, copies, resyncs, streams_learned;
	uint64_t align_steps; /* launches that were looked at for their numbers */
	uint64_t export_delay_max_ns; /* as the process measured it */
	uint64_t graph_coarse_ns;     /* with one record for a graph launch, GAP_GRAPH_NODES */
	uint64_t switched_off; /* launches and collectives beside `sysom off`: asked for, no loss */
	uint64_t loss[JOIN_LOSS_COUNT];
};

struct join; /* opaque */

/* Borrows clock. lane_count: of the ring. 0 or -ENOMEM. */
int join_open(struct join **out, const struct join_sink *sink, const struct clockmap *clock,
	      uint32_t lane_count);
void join_close(struct join *j); /* NULL is a no-op */
/* Events of one lane, oldest first. */
void join_push(struct join *j, const union ring_event *events, size_t count,
	       const struct ring_lane_view *view, uint64_t now_ns);
/* Hands out what has waited long enough. */
void join_run(struct join *j, uint64_t now_ns);
/* Everything: the process is gone or we end. */
void join_finish(struct join *j);
/* The oldest work that was launched at after_ns or later and whose kernel was not seen to end. What
 * the host has waited for meanwhile has ended, seen or not. */
enum join_unfinished_kind {
	JOIN_UNFINISHED_NONE = 0,
	JOIN_UNFINISHED_KERNEL,
	JOIN_UNFINISHED_COLL,  /* of the communication library: func says which */
	JOIN_UNFINISHED_GRAPH, /* of a graph launch: a kernel of it, whichever, or what comes after it */
};
struct join_unfinished {
	enum join_unfinished_kind kind;
	uint32_t stream; /* as records number it */
	uint32_t name;	 /* id of the kernel's, 0 not known */
	uint8_t func;	 /* enum record_coll; 0 not known */
	uint64_t launch_ns;
};
/* join_unfinished.c. Looks at every stream: for ranks whose steps stand still. */
void join_unfinished(struct join *j, uint64_t after_ns, struct join_unfinished *out);
/* Host records that began before this have been handed out (but for late ones). */
uint64_t join_watermark_ns(const struct join *j);
const struct join_stats *join_stats(const struct join *j);
/* Threads that launch or call collectives, as the process numbers them; of more the latest. serial grows
 * whenever the list changes. */
#define JOIN_LAUNCHERS 8u
struct join_launchers {
	uint32_t tid[JOIN_LAUNCHERS];
	uint32_t serial; /* that many were noted */
};
const struct join_launchers *join_launchers(const struct join *j);
const char *join_loss_name(unsigned loss);

#endif
