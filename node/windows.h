/* SPDX-License-Identifier: Apache-2.0
 * windows.h - decide which windows a node sends about its ranks, and when. sysomd uses it live, and
 * `sysom replay events --live` uses it on traces.
 *
 * Each closed anomaly becomes a window. A victim's window waits a second for a suspect of the same
 * job on this node. If there is one, the victim's window is sent without records, because the
 * suspect's window shows more. A rank that is slow compared with its peers on the node
 * (local_peers.h) also gets windows, even if its own model sees nothing.
 *
 * Owns: its slots and the comparison. Threads: one caller. Pure except for memory: time is an
 * argument, or comes from windows_config.now_ns. */
#pragma once

#include "analysis/slow/local_peers.h"
#include "node/rank.h"

/* This long after a step's end, the step has been judged and its device records have arrived. */
#define WINDOWS_SETTLE_NS   2000000000ull
#define WINDOWS_ASKED_STEPS 256u

struct windows_request {
	uint32_t reason; /* enum window_reason */
	bool summary_only;
	struct window_step *steps;
	uint32_t step_count;
	/* Steps that end before begin_ns are a reference from earlier time. */
	uint64_t begin_ns, end_ns;
	const uint8_t *anomaly_id; /* NULL: a fresh id */
	uint32_t sequence;
};

/* State of a rank that is slow compared with its peers on the node. */
struct windows_peer {
	bool slow;
	/* since_ns: when the slow time began; window_ns: time of the latest window */
	uint64_t since_ns, window_ns;
	double excess, excess_ns;
	uint8_t id[16];
	uint32_t sequence;
	uint64_t flags; /* how many times it became slow */
};

struct windows_config {
	bool peers; /* compare the ranks of a job on this node */
	enum peers_mode peers_mode;
	/* length of a window about a rank that is slow compared with its peers */
	uint64_t length_ns;
	struct analysis_log *log; /* borrowed; NULL: no recording */
	/* Borrowed; set to a later time when a rank is found slow. Until that time beats are sent
	 * more often and every tick is sampled. */
	uint64_t *closer_until_ns;
	uint64_t (*now_ns)(void *arg);
	/* Steps are borrowed for the call. */
	void (*ship)(void *arg, uint32_t slot, const struct windows_request *q);
	void *arg;
};

struct windows;								/* opaque */
int windows_open(struct windows **out, const struct windows_config *c); /* 0 or -ENOMEM */
void windows_close(struct windows *w);					/* NULL is a no-op */
/* slot: below LIMIT_NODE_PROCESSES. Sets the rank's callbacks. Borrows id and r until
 * windows_drop. */
void windows_add(struct windows *w, uint32_t slot, const struct wire_rank *id, struct rank *r);
/* The rank has ended: its peers no longer wait for it. Its earlier steps still count. */
void windows_end(struct windows *w, uint32_t slot);
void windows_drop(struct windows *w, uint32_t slot);
/* Call a few times a second: ships windows whose wait is over, and windows of slow ranks. */
void windows_tend(struct windows *w, uint64_t now_ns);
/* Ships a rank's closed window at once, without waiting for a suspect. */
void windows_flush(struct windows *w, uint32_t slot, uint64_t now_ns);
/* Call while rank_is_still. The rank hangs if its GPU has unfinished work, or if another rank of
 * its job on this node hangs with unfinished work and may wait for this rank. Otherwise it is idle.
 * Ships a window when a hang begins. */
void windows_still(struct windows *w, uint32_t slot, bool unfinished, uint64_t now_ns);
/* Ships another window of a hang, because more is known about it. False: the rank does not hang or has
 * ended, or its share of windows is used up. */
bool windows_stall_again(struct windows *w, uint32_t slot, uint64_t now_ns);
/* The aggregator suspects a rank here: until end_ns, at most a minute, beats come faster and every
 * tick is sampled. */
void windows_suspect(struct windows *w, uint64_t end_ns, uint64_t now_ns);
/* Whether closer_until_ns has not passed, or a rank here has an anomaly. */
bool windows_is_close(const struct windows *w, uint64_t now_ns);
/* The BEAT_RANK_* flags that depend on steps. */
uint32_t windows_flags(const struct windows *w, uint32_t slot, uint64_t now_ns);
const struct windows_peer *windows_peer(const struct windows *w, uint32_t slot);
/* All zeros if ranks are not compared. */
void windows_peers_stats(const struct windows *w, struct local_peers_stats *out);

/* Fills a window with the request and its steps. The window is zeroed apart from its id. 0 or
 * -ENOMEM. */
int windows_fill(struct window *out, const struct windows_request *q, const struct rank *r);
struct windows_piece {
	uint64_t begin_ns, end_ns;
};
/* The pieces of time that the window covers, in order: those of its reference, then the time of the
 * request. At most ANOMALY_REFERENCE_MAX + 1; returns their number. */
uint32_t windows_pieces(const struct windows_request *q, struct windows_piece *out);
/* Adds the records of all pieces, at most max host and max device records. raw_bytes: their size in
 * the ring. 0 or -ENOMEM. */
int windows_records(struct window *out, const struct windows_request *q, const struct rank *r,
		    uint32_t max);
/* Sets the request's steps to those in its time range; the caller frees them. 0 or -ENOMEM. */
int windows_steps(struct windows_request *q, const struct rank *r);
/* Replaces the rank's name ids by dense ids of the window; borrows the texts. map: scratch of
 * LIMIT_NAME_COUNT + 1. text: returns the text of an id from 1 to LIMIT_NAME_COUNT, "" if unknown.
 * 0 or -ENOMEM. */
int windows_names(struct window *out, uint32_t *map, const char *(*text)(void *arg, uint32_t id),
		  void *arg);
void windows_loss(struct window *out, const char *cause, uint64_t count);
/* Encodes the message into an empty buffer. If it is too large, drops the stacks, then the records;
 * never the steps. Returns what wire_window_encode returns. */
int windows_encode(struct window *w, struct buf *out);
