/* SPDX-License-Identifier: Apache-2.0
 * ring_reader.h - consume one producer's ring without trusting it.
 * Owns: the mapping and the fd.  Threads: one caller.  Trust: the producer is hostile; any word of
 * the mapping may hold any value and change at any time.
 * Guarantees: never blocks, never allocates after open, never reads past the mapping; bounded work
 * per call. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "ring/ring_format.h"

struct ring_reader; /* opaque */

/* A copy of one slot, private to the reader. */
union ring_event {
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
	struct event_plugin plugin;
	struct event_transfer transfer;
	struct event_span_request span_request;
	struct event_anchor anchor;
	struct event_graph graph;
	struct event_kernel kernel;
	struct event_copy copy;
	uint8_t bytes[RING_DEVICE_SLOT_BYTES];
};

/* The lane and the owner of events. tid 0: the owner was gone before the reader looked. */
struct ring_lane_view {
	uint32_t lane, tid, generation;
	uint32_t slots; /* at most this many events are in the lane */
	uint8_t kind, clock_source;
};

struct ring_stats { /* since open; lost_* are exact */
	uint64_t events, lost_lapped, lost_torn, lost_bad_kind, bytes;
	/* 0, or a positive errno: the producer broke the format (a head or the name arena moved in
	 * an impossible way). From then on every call returns nothing, and the caller closes. */
	uint64_t detach_reason;
};

/* Takes both descriptors on success. page_fd: the reader page of a live ring, which is mapped for
 * writing; the reader resumes at the tails that the previous reader published. page_fd -1: fd is a
 * regular file, or a live ring; a snapshot is copied to private memory. 0, -EPROTO (bad layout),
 * -EFBIG, -ENOMEM; live only: -EPERM (not sealed memfds of normal pages), -ENODATA (the owner has
 * not touched every page). */
int ring_reader_open(struct ring_reader **out, int fd, int page_fd);
void ring_reader_close(struct ring_reader *r); /* NULL is a no-op */
/* A validated copy of the header, made once at open. */
const struct ring_header *ring_reader_header(const struct ring_reader *r);
/* A new copy of the producer's counters: untrusted values, but each word is read whole. */
void ring_reader_counters(const struct ring_reader *r, struct ring_counters *out);
/* Copies up to max events of lane, oldest first, into out, and describes them in the view. Returns
 * the count; 0: nothing new, or all of it was lost, or detached. All events of one call belong to
 * one owner. For host events the first RING_HOST_SLOT_BYTES are set. Kinds fit the lane's kind;
 * every other field may hold any value. Names of the events are known, except one that another
 * thread is just writing. At most one lap of work. */
size_t ring_reader_drain_lane(struct ring_reader *r, uint32_t lane, union ring_event *out,
			      size_t max, struct ring_lane_view *view);
uint32_t ring_reader_lane_count(const struct ring_reader *r);
/* Lanes from this number on never had an owner, so a drain may skip them. It never falls. */
uint32_t ring_reader_lanes_used(struct ring_reader *r);
/* Publishes the tails and a heartbeat to the producer (live rings only). */
void ring_reader_publish(struct ring_reader *r, uint64_t now_monotonic_ns);
/* Reads the names that the producer interned since the last call; returns how many. Bounded. */
size_t ring_reader_poll_names(struct ring_reader *r);
/* Text of a name id, as copied out of the mapping by ring_reader_poll_names and made valid UTF-8
 * without control characters (bad bytes become '?'); "" if unknown. Valid until close. */
const char *ring_reader_name(const struct ring_reader *r, uint32_t id);
uint32_t ring_reader_name_count(const struct ring_reader *r);
const struct ring_stats *ring_reader_stats(const struct ring_reader *r);
