/* SPDX-License-Identifier: Apache-2.0
 * rank.h - one rank's analysis on the node: records -> steps -> roofline -> flags -> window.
 * A step is judged twice: by its latency (is it slow?) and by its self time (is this rank the one
 * that makes it slow?). Owns: all models, allocated at open. Threads: one caller.
 * Records come in canonical order from the join; time is an argument. */
#ifndef SYSOM_NODE_RANK_H
#define SYSOM_NODE_RANK_H

#include "analysis/expect/judge.h"
#include "analysis/steps/steps.h"
#include "node/analysis_log.h"
#include "node/anomaly.h"
#include "node/beats.h"
#include "node/canary.h"
#include "node/normal.h"
#include "node/recorder.h"

#define RANK_RECENT 512u  /* judged steps kept for windows that are asked for */
#define RANK_LEARNED 512u /* healthy steps kept for a successor; a model is sure of itself long before */
#define RANK_STRAYS 2u /* steps of another pattern among them that make no pattern: it takes three */
#define RANK_PERIOD 128u  /* steps that the medians of a beat look at */

struct rank_config {
	struct judge_config judge;
	struct steps_config steps;
	struct anomaly_config anomaly;
	uint64_t stall_ns;	   /* nothing done for this long, and for stall_latencies expected steps */
	double stall_latencies;
	uint64_t beat_ns;	   /* between beats, as they usually come */
};
void rank_config_default(struct rank_config *c);

struct rank_stats {
	uint64_t steps, judged, flagged, flagged_self, incomplete, host_stall, gap, brief, host_late;
	uint64_t windows_open, windows_closed, stalls, drifts;
	uint64_t windows_summary, windows_counted; /* what the token buckets did */
	uint64_t last_step_end_ns, last_self_flag_ns;
	double self_excess; /* of the last flagged step */
};

struct rank_medians {
	double latency_ns, latency_mad_ns, self_ns, expected_ns;
	double compute_ns, comm_ns, exposed_comm_ns, copy_ns, idle_ns;
};

struct rank {
	struct rank_config config;
	struct recorder *recorder; /* borrowed */
	struct canary *canary;	   /* borrowed; may be NULL */
	uint32_t slot;		   /* in the recorder */
	struct rank_stats stats;
	struct analysis_log *log;  /* borrowed; NULL: what comes is not recorded */
	void *steps_memory, *judge_memory;
	struct steps *steps;
	struct judge *judge;
	struct beats *beats;
	struct normal *normal;
	struct anomaly anomaly;
	struct window_step *recent; /* ring of RANK_RECENT */
	uint32_t recent_next, recent_count;
	struct judge_sample *learned; /* ring of RANK_LEARNED */
	uint64_t learned_total;
	uint64_t watched_ns; /* seen without a break since then: attached, or switched on */
	uint64_t active_ns;  /* its host gave its GPU the latest work, or its GPU ended it */
	uint64_t stalled_ns; /* since when it stood still when that was last said; 0: never */
	uint64_t full_comm_ns; /* end of the last window of waiting that went with its records */
	uint64_t random;
	struct step_kernel kernels[STEP_KERNELS_MAX];
	/* Called when a window has closed, or must be taken because the next begins. */
	void (*on_window)(void *arg, struct rank *r);
	/* A sustained change against the frozen baseline. */
	void (*on_drift)(void *arg, struct rank *r);
	/* Each step; used: it says something about the rank. Its kernels are in r->kernels. May be NULL. */
	void (*on_step)(void *arg, struct rank *r, const struct window_step *ws, bool used,
			uint32_t kernel_count);
	void *arg;
};

int rank_open(struct rank **out, const struct rank_config *c, struct recorder *recorder,
	      uint32_t slot, struct canary *canary, uint64_t seed, uint64_t now_ns);
void rank_close(struct rank *r); /* NULL is a no-op */
void rank_host(struct rank *r, const struct record *rec, const struct step_mark *mark, bool late);
void rank_device(struct rank *r, const struct record *rec);
/* Judges the steps that are complete. device_ns: device records before it have come. */
void rank_run(struct rank *r, uint64_t device_ns, uint64_t now_ns);
/* No more records: judges what is left. */
void rank_finish(struct rank *r, uint64_t now_ns);
/* Its process is seen from now on: what it did before is not known, and is not standing still. */
void rank_watch(struct rank *r, uint64_t now_ns);
/* Its GPU was given nothing since then and ended nothing, and that would have been seen; 0: no step ended
 * yet. */
uint64_t rank_still_since(const struct rank *r);
/* That has lasted for too long. Whether it hangs or has nothing to do this does not tell. */
bool rank_is_still(const struct rank *r, uint64_t now_ns);
/* It hangs. */
void rank_stall(struct rank *r);
/* Since when it hangs; 0: it does not, or not any more. */
uint64_t rank_stalled_since(const struct rank *r);
/* What steps say of it, all else of the beat 0; groups and collectives are beats_fill's. */
void rank_beat(const struct rank *r, struct beat_rank *out);
/* It has healthy steps to tell of, and its model knows what healthy is. */
bool rank_has_sketch(const struct rank *r);
/* What was normal since the last one, into a zeroed sketch (normal_take); whose it is the caller knows.
 * 0 or -ENOMEM. */
int rank_sketch(struct rank *r, const char *(*name)(void *arg, uint32_t id), void *arg, struct sketch *out,
		struct normal_when *when);
/* 16 bytes that no other anomaly has. */
void rank_fresh_id(struct rank *r, uint8_t id[16]);
/* Medians of the last steps; zeroes when there are none. */
void rank_medians(const struct rank *r, struct rank_medians *out);
/* The model of the latest step's kind. */
enum roofline_state rank_model(const struct rank *r, double *r2, double *spread);
/* The healthy steps, oldest first; out has room for RANK_LEARNED. Their count. */
uint32_t rank_learned(const struct rank *r, struct judge_sample *out);
/* Learns them, as if they had just passed, without a verdict on any. Before the first record. Steps
 * found automatically are numbered by the order in which their patterns were found: where there was
 * more than one pattern nothing says which is which now, and none of them is taken. The only one, but
 * for RANK_STRAYS steps (the first of a history may lack names, and be number 0), is number 0 now.
 * Returns how many were taken. */
uint32_t rank_restore(struct rank *r, const struct judge_sample *samples, uint32_t count);
/* Judged steps that overlap [begin_ns, end_ns], oldest first; at most max, the latest ones. */
uint32_t rank_recent(const struct rank *r, uint64_t begin_ns, uint64_t end_ns,
		     struct window_step *out, uint32_t max);

#endif
