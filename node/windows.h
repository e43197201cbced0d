/* SPDX-License-Identifier: Apache-2.0
 * windows.h - which windows a node makes of its ranks, and when: live in sysomd, and of traces in
 * `sysom replay events --live` (INV-7).
 *
 * A closed anomaly is a window. A rank that only waits for others ships no records while a rank of
 * the same job here is the suspect: the suspect's own window shows more, and a waiting rank's is
 * held for a second to see whether one shows up. A rank that is slow among its peers on the node
 * (local_peers.h) gets windows though its own model sees nothing.
 *
 * Owns: its slots and the comparison. Threads: one caller. Pure but for memory: time is an argument,
 * or asked of the caller in the middle of a step. */
#ifndef SYSOM_NODE_WINDOWS_H
#define SYSOM_NODE_WINDOWS_H

#include "analysis/slow/local_peers.h"
#include "node/rank.h"

/* Steps are judged, and device records come, so long after their end. */
#define WINDOWS_SETTLE_NS   2000000000ull
#define WINDOWS_ASKED_STEPS 256u

struct windows_request {
	uint32_t reason; /* enum window_reason */
	bool summary_only;
	struct window_step *steps;
	uint32_t step_count;
	uint64_t begin_ns, end_ns;
	const uint8_t *anomaly_id; /* NULL: one of its own */
	uint32_t sequence;
};

/* Slow among its peers on the node. */
struct windows_peer {
	bool slow;
	uint64_t since_ns, window_ns; /* of the stretch; when the latest window was made */
	double excess, excess_ns;
	uint8_t id[16];
	uint32_t sequence;
	uint64_t flags;
};

struct windows_config {
	bool peers;		  /* compare the ranks of a job on this node */
	enum peers_mode peers_mode;
	uint64_t length_ns;	  /* of a window about a rank that is slow among its peers */
	struct analysis_log *log; /* borrowed; NULL: what is compared is not recorded */
	uint64_t *closer_until_ns; /* borrowed; raised while a rank was just found slow: till then
				    * beats at a suspect's pace, and all ticks */
	uint64_t (*now_ns)(void *arg);
	/* Steps are borrowed for the call. */
	void (*ship)(void *arg, uint32_t slot, const struct windows_request *q);
	void *arg;
};

struct windows; /* opaque */
int windows_open(struct windows **out, const struct windows_config *c); /* 0 or -ENOMEM */
void windows_close(struct windows *w); /* NULL is a no-op */
/* slot: below LIMIT_NODE_PROCESSES. The rank's callbacks are set; id and r are borrowed till dropped. */
void windows_add(struct windows *w, uint32_t slot, const struct wire_rank *id, struct rank *r);
/* The rank has ended: its peers wait for it no more. What it showed still counts. */
void windows_end(struct windows *w, uint32_t slot);
void windows_drop(struct windows *w, uint32_t slot);
/* A few times a second: windows that have waited for their arbitration; ranks slow among their peers. */
void windows_tend(struct windows *w, uint64_t now_ns);
/* The closed window of a rank goes as it is. */
void windows_flush(struct windows *w, uint32_t slot, uint64_t now_ns);
/* The rank is still (rank_is_still). It hangs where its GPU has not ended what it was given (unfinished),
 * or where a rank of its job here hangs like that and may wait for this one. Else it has nothing to do. A
 * window goes when a hang begins. */
void windows_still(struct windows *w, uint32_t slot, bool unfinished, uint64_t now_ns);
/* Somebody who sees more suspects a rank here: beats at a suspect's pace, and all ticks, till then; one
 * word is good for a minute at most. */
void windows_suspect(struct windows *w, uint64_t end_ns, uint64_t now_ns);
/* That lasts, or a rank here has an anomaly. */
bool windows_is_close(const struct windows *w, uint64_t now_ns);
/* BEAT_RANK_* as far as steps tell. */
uint32_t windows_flags(const struct windows *w, uint32_t slot, uint64_t now_ns);
const struct windows_peer *windows_peer(const struct windows *w, uint32_t slot);
/* All zeros where ranks are not compared. */
void windows_peers_stats(const struct windows *w, struct local_peers_stats *out);

/* Into a zeroed window whose id is set: what the request says, and steps. -ENOMEM. */
int windows_fill(struct window *out, const struct windows_request *q, const struct rank *r);
/* And its records, each kind max at most. raw_bytes are those of the ring. -ENOMEM. */
int windows_records(struct window *out, const struct windows_request *q, const struct rank *r,
		    uint32_t max);
/* The request's steps become those of its stretch, in memory that the caller frees. -ENOMEM. */
int windows_steps(struct windows_request *q, const struct rank *r);
/* Ids of the rank's names become dense ids of the window; texts are borrowed. map: LIMIT_NAME_COUNT + 1
 * of scratch; text: of an id from 1 to LIMIT_NAME_COUNT, "" unknown. -ENOMEM. */
int windows_names(struct window *out, uint32_t *map, const char *(*text)(void *arg, uint32_t id),
		  void *arg);
void windows_loss(struct window *out, const char *cause, uint64_t count);
/* The message, into an empty buffer. Where it is too large, the stacks stay behind, then the records; the
 * steps always go. As wire_window_encode. */
int windows_encode(struct window *w, struct buf *out);

#endif
