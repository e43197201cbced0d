/* SPDX-License-Identifier: Apache-2.0
 * ring_reader.h - consume one producer's ring without trusting it.
 * Owns: the mapping and the fd.  Threads: one caller.  Trust: the producer is hostile; any word of
 * the mapping may hold anything and change at any time.
 * Guarantees: never blocks, never allocates after open, never reads past the
 * mapping; bounded work per call. */
#ifndef SYSOM_RING_READER_H
#define SYSOM_RING_READER_H

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
	struct event_anchor anchor;
	struct event_graph graph;
	struct event_kernel kernel;
	struct event_copy copy;
	uint8_t bytes[RING_DEVICE_SLOT_BYTES];
};

/* Where events came from. tid 0: an owner that was gone before the reader looked. */
struct ring_lane_view {
	uint32_t lane, tid, generation;
	uint32_t slots; /* of the lane: what may be in it at most */
	uint8_t kind, clock_source;
};

struct ring_stats { /* since open; lost_* are counted exactly */
	uint64_t events, lost_lapped, lost_torn, lost_bad_kind, lane_changes, bytes;
	/* 0, or -errno as a positive number: the producer broke the format (a head or the name arena
	 * moved in an impossible way), every further call returns nothing and the caller closes. */
	uint64_t detach_reason;
};

/* Takes both on success. page_fd: live use, of the reader page, which is mapped for writing; a reader
 * that takes over begins where the one before it had published. -1: any regular file, or a snapshot of
 * a live ring, copied to private memory. 0, -EPROTO (bad layout), -EFBIG, -ENOMEM; live only: -EPERM
 * (not sealed memfds of normal pages), -ENODATA (the owner has not touched every page). */
int ring_reader_open(struct ring_reader **out, int fd, int page_fd);
void ring_reader_close(struct ring_reader *r); /* NULL is a no-op */
/* A validated copy of the header, taken once at open. */
const struct ring_header *ring_reader_header(const struct ring_reader *r);
/* A fresh copy of the producer's counters (untrusted values, but a consistent copy of each word). */
void ring_reader_counters(const struct ring_reader *r, struct ring_counters *out);
/* Up to max events of lane, oldest first, into out and the view; returns the count (0: nothing new,
 * or all of it was lost, or detached). All of one call belong to one owner. Of a host event the
 * first RING_HOST_SLOT_BYTES are set. Kinds fit the lane's kind; every other field may hold
 * anything. Their names are known, but for one that another thread was just writing. Never more
 * than one lap of work. */
size_t ring_reader_drain_lane(struct ring_reader *r, uint32_t lane, union ring_event *out,
			      size_t max, struct ring_lane_view *view);
uint32_t ring_reader_lane_count(const struct ring_reader *r);
/* Lanes from this number on never had an owner: a drain need not look at them. It never falls. */
uint32_t ring_reader_lanes_used(struct ring_reader *r);
/* Publishes the tails and a heartbeat to the producer (writable only). */
void ring_reader_publish(struct ring_reader *r, uint64_t now_monotonic_ns);
/* Names the producer interned since the last call become known; returns how many. Bounded. */
size_t ring_reader_poll_names(struct ring_reader *r);
/* Text of a name id, copied out of the mapping when it was polled and made valid UTF-8 without
 * control characters ('?' for what is not); "" when unknown. Valid until close. */
const char *ring_reader_name(const struct ring_reader *r, uint32_t id);
uint32_t ring_reader_name_count(const struct ring_reader *r);
const struct ring_stats *ring_reader_stats(const struct ring_reader *r);

#endif
