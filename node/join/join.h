/* SPDX-License-Identifier: Apache-2.0
 * join.h - convert ring events of one process into normalised records (model/record.h).
 *
 * Host events of all lanes are merged by time after a short wait, so that events of several threads
 * come in canonical order. A kernel is matched to the launch with its number on its stream. Grid,
 * block and time must agree: a kernel cannot start before its launch, and a kernel that starts
 * after the host has waited for the GPU was not launched before that wait. If one side missed
 * records without counting them, the numbers differ; the difference is learned by the same rules.
 * Until it is certain, kernels stay unmatched and are counted. The work per event is bounded,
 * however much was lost. After a gap in the device records, the kernels of all launches before the
 * gap's end count as lost. A kernel of the communication library is matched to its collective: the
 * kernel was launched during the collective's call, or during the call that ends the collective's
 * group. The node records of a graph launch share its correlation id. Collectives captured into a
 * graph form a template, which every launch of the graph replays.
 *
 * Owns: its tables, allocated at open. Threads: one caller. Trust: events passed only the ring's
 * checks; any handle, count or stamp may be hostile. */
#pragma once

#include "model/record.h"
#include "model/transfer.h"
#include "node/join/clockmap.h"
#include "ring/ring_reader.h"

/* The reasons why a record is missing or incomplete; beats carry these names. */
#define JOIN_LOSSES(X)                                                                             \
	X(BAD_STAMP, "bad_stamp")		/* an impossible time */                           \
	X(KERNEL_NO_LAUNCH, "kernel_no_launch") /* a kernel whose launch was not seen */           \
	X(KERNEL_AMBIGUOUS,                                                                        \
	  "kernel_ambiguous") /* several launches may be its launch: not joined */                 \
	X(LAUNCH_NO_KERNEL, "launch_no_kernel")	  /* a launch whose kernel was not seen */         \
	X(COLL_NO_KERNEL, "coll_no_kernel")	  /* a collective whose kernel was not seen */     \
	X(COLL_KERNEL_ALONE, "coll_kernel_alone") /* a kernel whose collective was not seen */     \
	X(GRAPH_AMBIGUOUS, "graph_ambiguous") /* node records that fit no single graph launch */   \
	X(TABLE_FULL, "join_table_full")      /* too many streams, communicators, templates ... */ \
	X(FORCED, "join_forced")	      /* delivered early because of a burst */             \
	X(UNKNOWN_EVENT, "unknown_event")     /* a kind this version does not know */              \
	X(SPAN_UNPAIRED,                                                                           \
	  "span_unpaired") /* a span's end without its start, a start without its end */

enum join_loss {
#define X(name, text) JOIN_##name,
	JOIN_LOSSES(X)
#undef X
	    JOIN_LOSS_COUNT
};

struct join_sink {
	void *arg;
	/* r may have begun before a record that was delivered earlier. mark: for RECORD_STEP_BEGIN,
	 * else NULL. */
	void (*host)(void *arg, const struct record *r, const struct step_mark *mark);
	void (*device)(void *arg, const struct record *r);
	/* Text of a name id, "" unknown. */
	const char *(*name)(void *arg, uint32_t id);
	void (*transfer)(void *arg, const struct transfer *t); /* NULL: not needed */
	/* Called for each device that the process uses, with the driver's UUID. NULL: not
	 * needed. */
	void (*gpu)(void *arg, const uint8_t uuid[16]);
};

struct join_stats {
	uint64_t device_events, copies;
	uint64_t launches, kernels, kernels_joined, kernels_unmatched;
	uint64_t align_steps;	      /* launches examined to learn how the numbers differ */
	uint64_t export_delay_max_ns; /* longest GAP_EXPORT_DELAY that the process reported */
	uint64_t graph_coarse_ns;     /* time with one record per graph launch, GAP_GRAPH_NODES */
	uint64_t switched_off;	      /* launches and collectives during `sysom off`: not a loss */
	uint64_t loss[JOIN_LOSS_COUNT];
};

struct join; /* opaque */

/* Borrows clock. lane_count: of the ring. 0 or -ENOMEM. */
int join_open(struct join **out, const struct join_sink *sink, const struct clockmap *clock,
	      uint32_t lane_count);
void join_close(struct join *j); /* NULL is a no-op */
/* Takes events of one lane, oldest first. */
void join_push(struct join *j, const union ring_event *events, size_t count,
	       const struct ring_lane_view *view, uint64_t now_ns);
/* Delivers the events that have waited long enough. */
void join_run(struct join *j, uint64_t now_ns);
/* Delivers all events: the process is gone, or sysomd ends. */
void join_finish(struct join *j);
/* The oldest unfinished work launched at after_ns or later. Work counts as finished if its kernel's
 * end was recorded, or if the host has synchronised with it. */
enum join_unfinished_kind {
	JOIN_UNFINISHED_NONE = 0,
	JOIN_UNFINISHED_KERNEL,
	JOIN_UNFINISHED_COLL,  /* of the communication library; func: which function */
	JOIN_UNFINISHED_GRAPH, /* a kernel of a graph launch, or work after it on its stream */
};
struct join_unfinished {
	enum join_unfinished_kind kind;
	uint32_t stream; /* the stream's number in records */
	uint32_t name;	 /* id of the kernel's name, 0: unknown */
	uint8_t func;	 /* enum record_coll; 0: unknown */
	uint64_t launch_ns;
};
/* join_unfinished.c. Scans every stream, so call it only for ranks that stand still. */
void join_unfinished(struct join *j, uint64_t after_ns, struct join_unfinished *out);
/* All host records that began before this time have been delivered, except late ones. */
uint64_t join_watermark_ns(const struct join *j);
const struct join_stats *join_stats(const struct join *j);
/* Threads that launch, enter collectives, mark steps or run Python spans, by the process's own thread
 * ids; the latest JOIN_LAUNCHERS of them. serial grows with each change of the list. */
#define JOIN_LAUNCHERS 8u
struct join_launchers {
	uint32_t tid[JOIN_LAUNCHERS];
	uint32_t serial; /* number of threads added so far */
};
const struct join_launchers *join_launchers(const struct join *j);
const char *join_loss_name(unsigned loss);
